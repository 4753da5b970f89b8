"""A run on disk: results/<run>/ with its meta, its journal and its lock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal

import filelock
import msgspec
from msgspec import Struct, field, structs

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Data
from snellen.engine import journal
from snellen.engine.folder_checks import META_BYTES, check_files, check_values, is_own, owner_mark
from snellen.engine.subset import Subset
from snellen.errors import RedactedCopyError, RunError, RunLockedError
from snellen.models.base import ModelOptions
from snellen.redaction import redact_bytes
from snellen.setting import Setting
from snellen.text import pretty_json
from snellen.types import Record

FORMAT = 1
JUDGED, LABELLED, READ = "judged", "failures", "read"
JUDGE_RUNS = (JUDGED, LABELLED, READ)
"""Benchmarks whose samples are the replies of another run: verdicts on them, labels of failures, and readings."""
IMPORTED, HUMAN = "imported", "human"
"""Kinds of model: another program recorded its answers, or it is a person. IMPORTED names their origin in `environment`."""

BATCH_LOG = "batches.jsonl"


class _RedactedMeta(Struct):
    redacted: list[str] = []


def _is_redacted(content: bytes) -> bool:
    """Return True for the run_meta.json of a redacted copy (see snellen.runs.redact)."""
    try:
        return bool(msgspec.json.decode(content, type=_RedactedMeta).redacted)
    except msgspec.ValidationError:
        return False


class RunSpec(Struct, frozen=True, kw_only=True):
    """Settings of a run, as `snellen rerun` repeats them. Holds names of keys, never keys.

    `recipe` is what `options.sampling` named, once the settings hold it. `seeds` is `sample` where each (sample, repeat) has a
    seed of its own; None: a repeat's seed is the run's and its number added, the rule of earlier runs.

    `nproc` and `ray` both None: this process answers alone (snellen.engine.ray). Examples: snellen.engine.study.
    """

    benchmark: str
    model: str
    control: Annotated[
        str,
        Setting(
            "Change the samples before they are asked: no picture (text), nothing but options, the picture of another "
            "sample, or the options in drawn order K.",
            value="text|options|other|shuffle-K",
        ),
    ] = ""
    data: Data = Data()
    options: ModelOptions = ModelOptions()
    limit: Annotated[int | None, Setting("Run only the first N samples.", 1)] = None
    subset: Annotated[
        Subset | None,
        Setting(
            "Ask only the items of this file (`snellen subset`), and estimate the score on all.",
            value="FILE",
            options=("--subset-file",),
        ),
    ] = None
    adaptive: Annotated[
        int | str | None,
        Setting(
            "Ask N items of the subset, each chosen by the answers before it; fewer, once the 95 % interval of the estimate is "
            "within ± WIDTH (100:0.03).",
            value="N[:WIDTH]",
        ),
    ] = None
    repeats: Annotated[int, Setting("Number of times to ask each question.", 1, 1_000_000)] = 1
    max_attempts: Annotated[
        int,
        Setting("Maximum attempts per sample; waiting for a rate limit or an unreachable server is not counted.", 1),
    ] = 6
    retry_empty: Annotated[int, Setting("Ask up to N times again for a reply that says nothing.", 0, value="N")] = 0
    max_cost: Annotated[
        float | None,
        Setting(
            "Stop before more than this is spent; the price is taken from --prices or the table of prices.",
            0.0,
            value="USD",
        ),
    ] = None
    max_tokens_total: Annotated[int | None, Setting("Stop once this many tokens are used, input and output.", 1)] = None
    nproc: Annotated[
        int | None,
        Setting(
            "Number of workers; each loads the local model or the encoder, on a GPU of its own if there are GPUs.",
            1,
            65_536,
            value="N",
            default="1; with --ray one per GPU, or one per host",
        ),
    ] = None
    ray: Annotated[
        str | None,
        Setting("Run the workers on this Ray cluster: auto, HOST:PORT or ray://HOST:PORT.", value="ADDRESS"),
    ] = None
    strict_data: Annotated[
        bool, Setting("Refuse a table with a row that cannot be asked, instead of leaving it out.")
    ] = False
    system: Annotated[
        str,
        Setting(
            "Text that the model reads before each prompt; it stands before a benchmark's own system text.",
            value="TEXT",
        ),
    ] = ""
    schema: Annotated[
        dict[str, Any] | str | None,
        Setting(
            'JSON Schema that replies follow: a file, auto for {"answer": ...} by the kind of each question, or auto+reasoning.',
            value="FILE|auto",
        ),
    ] = None
    few_shot: Annotated[
        int,
        Setting(
            "Show N answered examples before each question; never tested samples.",
            0,
            64,
            value="N",
            options=("--few-shot", "--num-fewshot"),
        ),
    ] = 0
    few_shot_from: Annotated[
        str | None,
        Setting(
            "Pool of the examples: a file or folder of questions, or KEY=VALUE for another setting of the benchmark "
            "(split=dev).",
            value="POOL",
            default="the pool that the benchmark declares",
        ),
    ] = None
    few_shot_draw: Annotated[
        Literal["fixed", "each"],
        Setting("The same examples before every question (fixed), or drawn for each question."),
    ] = "fixed"
    shard: Annotated[
        str,
        Setting(
            "Run only part K of N of the samples, in the subfolder shard-K-of-N; `snellen merge` joins the parts.",
            value="K/N",
        ),
    ] = ""
    batch: Annotated[
        bool,
        Setting(
            "Ask by batches: answers within a day, mostly at half the price. Ctrl-C leaves them running; the same "
            "command takes them up."
        ),
    ] = False
    recipe: str | None = None
    seeds: str | None = None
    poll_s: Annotated[
        float | None,
        Setting(
            "Wait between two looks at the open batches.",
            0.01,
            86_400.0,
            value="SECONDS",
            default="30",
            options=("--poll",),
        ),
    ] = None

    @property
    def model_with_adapter(self) -> str:
        """Return what readers know the model by: adapters over one base are models of their own."""
        return f"{self.model} + {self.options.adapter}" if self.options.adapter else self.model


WHOLE_SHARD = "1/1"
"""The only part of one, which is all of the run."""


class Coverage(Struct, frozen=True, omit_defaults=True):
    """Part of the benchmark that the run covers: the first `limit` of `of` samples; None: all, unknown.

    `shards` are the parts K/N of these by sample id; empty: all of them.
    """

    limit: int | None
    of: int | None
    shards: tuple[str, ...] = ()

    @property
    def full(self) -> bool:
        return self.shards in ((), (WHOLE_SHARD,)) and (
            self.limit is None or (self.of is not None and self.limit >= self.of)
        )

    @property
    def part(self) -> str:
        """Return the part in words, for a sentence about samples: `only the first 20 of 100 samples`; empty if full."""
        if self.full:
            return ""
        of = "" if self.of is None else f" of {self.of:,}"
        if self.shards in ((), (WHOLE_SHARD,)):
            return f"only the first {self.limit or 0:,}{of} samples"
        named = f"part {self.shards[0]}" if len(self.shards) == 1 else f"{len(self.shards):,} parts"
        first = "the samples" if self.limit is None else f"the first {self.limit:,}{of} samples"
        return f"only {named} of {first}"


class EmptyReplies(Struct, frozen=True):
    """Number of replies that say nothing; `cut_off` of them ended at the limit of their tokens.

    `places` counts them by where their text stands, as `Response.empty`.
    """

    count: int = 0
    cut_off: int = 0
    places: Mapping[str, int] = field(default_factory=dict)


class Totals(Struct, frozen=True):
    """Counts and use of a run, summed over its journal; `cached` answers were taken from `--cache`.

    `cached_tokens` of the input were read from the service's cache and `cache_write_tokens` written to it, which saved
    `cache_saved` US dollars. `oversized_images` were larger than the service takes without scaling them down; None: no answer says so. `cut_off`
    replies ended at the limit of their tokens, and `empty` ones say nothing; None: not counted, as by an older version.
    `uncounted` answers have tokens that the server did not count, by the half that it left out (`input`, `output`), or no
    cost (`cost`) where others have one. The run's cost is then the least that it can be.
    """

    ok: int = 0
    error: int = 0
    timeout: int = 0
    refused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    cached: int = 0
    oversized_images: int | None = None
    cut_off: int | None = None
    empty: EmptyReplies | None = None
    uncounted: Mapping[str, int] = field(default_factory=dict)
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cache_saved: float | None = None

    @property
    def done(self) -> int:
        return self.ok + self.refused

    @property
    def recorded(self) -> int:
        """Return the number of samples with a record, answered or failed."""
        return self.done + self.error + self.timeout

    @property
    def tokens_text(self) -> str:
        """Return the tokens for a reader, with those that were read from the service's cache or written to it."""
        parts = (("read from", self.cached_tokens), ("written to", self.cache_write_tokens))
        cached = ", ".join(f"{tokens:,} {verb} the service's cache" for verb, tokens in parts if tokens)
        return f"{self.input_tokens:,} tokens in{f' ({cached})' if cached else ''}, {self.output_tokens:,} out"


class RunMeta(Struct, frozen=True, kw_only=True):
    """Contents of run_meta.json.

    `places` has the absolute paths of what `spec.data` names as typed (snellen.engine.data_paths). `owner` is the mark of the
    user whose Snellen wrote the file (snellen.engine.folder_checks). `records` is the number of the last record in the journal
    at that time; None: records have none. `reading` says how the user's own table was read; `truncated` is (rows there, rows
    known) where a declared set is known to have more of them.
    """

    format: int = FORMAT
    fingerprint: str
    identity: dict[str, Any]
    coverage: Coverage
    spec: RunSpec
    environment: dict[str, Any] = field(default_factory=dict)
    totals: Totals = Totals()
    state: str = "running"
    restricted: bool = False
    places: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    records: int | None = None
    reading: str = ""
    truncated: tuple[int, int] | None = None

    @property
    def judges(self) -> bool:
        """Return True if its samples are the replies of another run, which may still lack some."""
        return self.spec.benchmark in JUDGE_RUNS

    @property
    def mostly_empty(self) -> bool:
        """Return True if more than half of the replies say nothing; a judge says nothing where there is nothing to judge."""
        empty = self.totals.empty
        return empty is not None and 2 * empty.count > self.totals.done and not self.judges

    @property
    def imported(self) -> Mapping[str, Any] | None:
        """Return where the answers were imported from, as runs.import_answers writes it; None for answers asked for here."""
        origin = self.environment.get(IMPORTED)
        return origin if isinstance(origin, Mapping) else None

    @property
    def human(self) -> bool:
        """Return True if a person answered (`snellen answer`)."""
        return self.imported is not None and self.spec.model.startswith(f"{HUMAN}:")

    @property
    def not_there(self) -> int:
        """Return the number of samples that a complete run lacks: replies that a judged run's source did not have yet, or
        questions in files that could not be read.
        """
        recorded = self.totals.recorded
        if self.state != "complete" or not self.coverage.full or self.coverage.of is None:
            return 0
        return max(0, self.coverage.of - recorded // self.spec.repeats)


class RunFolder:
    """Paths and files of one run. Reading needs no lock; writing takes it with `with folder.locked():`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def results(self) -> Path:
        return self.path / "results.jsonl"

    @property
    def batches(self) -> Path:
        """The log of a run by batches (snellen.engine.batches.log)."""
        return self.path / BATCH_LOG

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def predictions(self) -> Path:
        return self.path / "predictions.jsonl"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def meta_path(self) -> Path:
        return self.path / "run_meta.json"

    def is_empty(self) -> bool:
        """Return True if the journal holds nothing, or there is none."""
        return not self.results.is_file() or not self.results.stat().st_size

    def exists(self) -> bool:
        return self.meta_path.exists()

    def meta(self) -> RunMeta:
        """Read run_meta.json.

        Raises:
            RunError: there is no run, or one of another format, or a file of it is a link or no regular file.
            RedactedCopyError: the folder is a redacted copy.
        """
        check_files(self.path)
        try:
            if self.meta_path.stat().st_size > META_BYTES:
                raise RunError(f"{self.meta_path} is larger than {META_BYTES:,} bytes", "It is not a run's meta.")
            content = self.meta_path.read_bytes()
            try:
                meta = msgspec.json.decode(content, type=RunMeta, dec_hook=_decode)
            except msgspec.ValidationError:
                if _is_redacted(content):
                    raise RedactedCopyError(
                        f"{self.path} is a redacted copy of a run, with figures and without the answers that they rest on",
                        "Its metrics are in its summary.json. Pass the run itself to score, report or compare it.",
                    ) from None
                raise
            return check_values(meta, self.meta_path)
        except FileNotFoundError:
            raise RunError(f"there is no run in {self.path}: it has no run_meta.json", runs_hint(self.path)) from None
        except NotADirectoryError:
            raise RunError(
                f"there is no run in {self.path}: it is a file, and a run is a folder",
                "`snellen list --runs` lists the runs here.",
            ) from None
        except (ValueError, RecursionError, OSError) as error:  # msgspec's errors are ValueErrors
            raise RunError(
                f"{self.meta_path} cannot be read as a run's meta: {error}",
                "Restore the file, or start a new run with --out.",
            ) from error

    def seconds(self, meta: RunMeta) -> float:
        """Return for how many seconds the run has been asked so far.

        A session that was killed, or is going on, has not added its own to `meta`: it lasts from the time when it wrote
        run_meta.json to that of the last line of the journal.
        """
        if meta.state != "running":
            return meta.totals.seconds
        with contextlib.suppress(OSError):
            session = self.results.stat().st_mtime - self.meta_path.stat().st_mtime
            return round(meta.totals.seconds + max(0.0, session), 3)
        return meta.totals.seconds

    def write_meta(self, meta: RunMeta, *, own: bool = True) -> None:
        """Replace run_meta.json as a whole: a reader sees the old one or the new one.

        Args:
            meta: what it is to say.
            own: put the owner's mark on it; False where part of `meta` was read from a run without a valid one.
        """
        if own and not (self.exists() and is_own(self.meta())):
            with contextlib.suppress(OSError):  # another user's figures are not to be taken for this user's
                self.summary.unlink()
        meta = structs.replace(meta, owner=owner_mark(meta) if own else "")
        self.write(self.meta_path, pretty_json(meta, enc_hook=_encode))

    def write(self, path: Path, data: bytes) -> None:
        """Write a file of the run by rename, so that a crash never leaves half of it. Keys are struck from it."""
        try:
            with replacing(path) as part, part.open("wb") as file:
                file.write(redact_bytes(data))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise journal.storage_error(path, error) from error

    def records(self) -> Iterator[Record]:
        """Yield every intact record of the journal, in the order of completion; failed ones may have a later answer."""
        return journal.intact(self.results, Record)

    def locked(self) -> _Lock:
        """Return a context in which this process alone may write to the run."""
        return _Lock(self.path)


RUNS_NAMED = 3
"""Runs of a folder of runs that an error names."""


def runs_in(path: Path) -> list[Path]:
    """Return the run folders within a folder at any depth, sorted; itself, if it is one. Links are not followed."""
    return sorted(found.parent for found in path.glob("**/run_meta.json"))


def derived_folder(run: Path, benchmark: str) -> Path:
    """Return the usual folder of a judge's run about another run: `<run>_<benchmark>`, beside it."""
    named = run if run.name not in ("", "..") else run.resolve()
    return named.with_name(f"{run.resolve().name}_{benchmark}")


def derived_run(source: RunFolder, benchmark: str) -> RunFolder | None:
    """Return the run of this benchmark beside `source` that is about it; None where there is none.

    Its meta names `source`, by path or, where both were moved, by name.
    """
    folder = RunFolder(derived_folder(source.path, benchmark))
    return folder if folder.exists() and is_about(folder, source, benchmark) else None


def derived_runs(source: RunFolder, benchmark: str) -> list[RunFolder]:
    """Return the runs of this benchmark about `source` in folders beside it whose names begin with `<run>_<benchmark>`."""
    usual = derived_folder(source.path, benchmark)
    found = sorted(usual.resolve().parent.glob(f"{escape(usual.name)}*/run_meta.json"))
    folders = [RunFolder(usual.with_name(path.parent.name)) for path in found]
    return [folder for folder in folders if is_about(folder, source, benchmark)]


def is_about(folder: RunFolder, source: RunFolder, benchmark: str) -> bool:
    """Return True if a folder holds a run of this benchmark that is about `source`, by path or by name."""
    try:
        spec = folder.meta().spec
    except RunError:  # another kind of folder; asking a judge reports it
        return False
    about, here = spec.data.path, source.path.resolve()
    return spec.benchmark == benchmark and about is not None and (about.resolve() == here or about.name == here.name)


def runs_hint(path: Path) -> str:
    """Return the hint for a folder of runs that was named in place of a run."""
    runs = runs_in(path)
    if not runs:
        return "`snellen list --runs` lists the runs here."
    names = ", ".join(str(run) for run in runs[:RUNS_NAMED]) + (" …" if len(runs) > RUNS_NAMED else "")
    return f"It holds {len(runs):,} run{'s' * (len(runs) > 1)}: {names}. Name one of them."


class _Lock:
    """Lock of a folder. Where nothing was written meanwhile, what it made is deleted again: a refused run leaves nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = filelock.FileLock(path / ".lock", thread_local=False)
        self._made: list[Path] = []

    def __enter__(self) -> None:
        check_files(self._path)  # a lock that is a link would empty the file it leads to
        try:
            self._made = [path for path in (self._path, *self._path.parents) if not path.exists()]
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            (self._path / ".writer").write_text(str(os.getpid()))
        except filelock.Timeout:
            try:
                who = f" (process {(self._path / '.writer').read_text()})"
            except OSError:
                who = ""
            raise RunLockedError(
                f"another process{who} is writing to {self._path}",
                "Wait for it, end it, or choose another folder with --out.",
            ) from None
        except OSError as error:
            raise journal.storage_error(self._path, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self._path / ".writer").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a folder that holds something else stays
            if [*self._path.iterdir()] == [self._path / ".lock"]:
                (self._path / ".lock").unlink()
                for path in self._made:
                    path.rmdir()
        self._lock.release()


def _encode(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written to run_meta.json")


def _decode(type_: type, value: object) -> object:
    if type_ is Path or issubclass(type_, Path):
        return Path(str(value))
    raise TypeError(f"{type_.__name__} cannot be read from run_meta.json")
