"""Runs opened for their cases: samples by id, records, and raw exchanges, each with the reason where it is not there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread

import msgspec

from snellen.benchmarks.base import Benchmark
from snellen.engine.journal import record_name
from snellen.engine.resume import ANSWERED
from snellen.engine.run_folder import JUDGED, READ, derived_run
from snellen.engine.study import studied
from snellen.errors import SnellenError
from snellen.redaction.gold import strike
from snellen.runs.judge.verdicts import rubric_in_place
from snellen.runs.run import Run, load_run
from snellen.scoring.rubric import Rubric, gold_forms
from snellen.types import Record, Sample
from snellen.viewer.cases.line_places import LinePlaces
from snellen.viewer.index.samples import sample_bytes

ROLES = {"Judge": JUDGED, "Reader": READ}
"""Roles of models that are asked about replies, and the runs that they make."""
HELD_SAMPLES = 20_000
HELD_BYTES = 64 << 20
"""Memory of the held samples of one benchmark at most: some hold their images instead of referring to files."""
OPEN_RUNS = 400
SEARCHES = 8
"""Searches of one benchmark's samples that wait for each other, at most."""
WITHHELD = "[withheld: without the data, Snellen cannot tell whether this quotes the gold answer]"


class PendingSampleError(SnellenError):
    """A sample was asked for whose data is still being read: it is there in a moment."""


class SampleSearch:
    """A search for one sample in a thread of its own, so that a page need not wait for its end."""

    def __init__(self, find: Callable[[], Sample | None]) -> None:
        self._find = find
        self._sample: Sample | None = None
        self._error: Exception | None = None
        self.ended = Event()
        Thread(target=self._run, name="snellen view sample", daemon=True).start()

    def _run(self) -> None:
        try:
            self._sample = self._find()
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; `result` raises it again
            self._error = error
        finally:
            self.ended.set()

    def result(self) -> Sample | None:
        """Return the sample of an ended search, or None if there is none; raise what reading raised."""
        if self._error is not None:
            raise self._error
        return self._sample


class SampleShelf:
    """Samples of one benchmark and its data by id, read in order; the last ones stay in memory within a budget.

    Args:
        samples: starts reading from the first sample.
        patience_s: seconds after which `find` raises PendingSampleError and reads on in the background; None: it waits.
    """

    def __init__(self, samples: Callable[[], Iterator[Sample]], patience_s: float | None = None) -> None:
        self._samples = samples
        self._patience_s = patience_s
        self._rows: Iterator[Sample] | None = None
        self._held: OrderedDict[str, Sample] = OrderedDict()
        self._dropped = False
        self._bytes = 0
        self._lock = Lock()
        self._searches: OrderedDict[str, SampleSearch] = OrderedDict()
        self._searches_lock = Lock()
        self._passed = 0

    def find(self, sample_id: str) -> Sample | None:
        """Return a sample; None if the benchmark has none of that id.

        Raises:
            PendingSampleError: it takes longer than the patience; ask again.
            SnellenError: the data cannot be read.
        """
        if self._patience_s is None:
            return self._search(sample_id)
        if (sample := self._held.get(sample_id)) is not None:
            return sample
        with self._searches_lock:
            search = self._searches.get(sample_id)
            if search is None:
                self._drop_ended()
                if len(self._searches) >= SEARCHES:
                    raise self._pending()
                search = self._searches[sample_id] = SampleSearch(lambda: self._search(sample_id))
        if not search.ended.wait(self._patience_s):
            raise self._pending()
        with self._searches_lock:
            self._searches.pop(sample_id, None)
        return search.result()

    def _drop_ended(self) -> None:
        """Forget ended searches that nobody came back for, where they leave no room for a new one."""
        if len(self._searches) >= SEARCHES:
            for sample_id in [name for name, search in self._searches.items() if search.ended.is_set()]:
                del self._searches[sample_id]

    def _pending(self) -> PendingSampleError:
        count = self._passed
        passed = f"; {count:,} sample{'' if count == 1 else 's'} so far" if count else ""
        return PendingSampleError(f"The benchmark's data is being read{passed}.", "This page opens when it is there.")

    def _search(self, sample_id: str) -> Sample | None:
        with self._lock:
            if sample_id in self._held:
                return self._held[sample_id]
            if self._rows is not None and (sample := self._read_on(sample_id)) is not None:
                return sample
            if self._held and not self._dropped:
                return None  # all were read, and all are held
            self._held.clear()
            self._dropped, self._bytes, self._passed = False, 0, 0
            self._rows = iter(self._samples())
            return self._read_on(sample_id)

    def _read_on(self, sample_id: str) -> Sample | None:
        assert self._rows is not None  # noqa: S101 - set by the caller
        try:
            for sample in self._rows:
                self._passed += 1
                if (before := self._held.get(sample.id)) is not None:
                    self._bytes -= sample_bytes(before)
                self._held[sample.id] = sample
                self._bytes += sample_bytes(sample)
                while len(self._held) > 1 and (len(self._held) > HELD_SAMPLES or self._bytes > HELD_BYTES):
                    self._bytes -= sample_bytes(self._held.popitem(last=False)[1])
                    self._dropped = True
                if sample.id == sample_id:
                    return sample
        except SnellenError:
            self._rows = None
            self._held.clear()
            self._bytes = 0
            raise
        return None


class Seal:
    """What a reader may not see of a restricted benchmark: its gold answers, or whole texts if these are not known.

    Args:
        forms: the gold answers, struck from every text; empty: nothing is struck.
        withheld: True if texts of models and tools are withheld, because the gold answers cannot be read.
    """

    def __init__(self, forms: tuple[str, ...] = (), *, withheld: bool = False) -> None:
        self.forms = forms
        self.withheld = withheld

    @property
    def open(self) -> bool:
        """Return True if nothing is sealed."""
        return not self.forms and not self.withheld

    def clean(self, text: str) -> str:
        """Return a text as the reader may see it."""
        if self.withheld:
            return WITHHELD if text.strip() else text
        return strike(text, self.forms) if self.forms and text else text


class OpenedRun:
    """A run folder with its benchmark and its samples, as far as they can be read; `problem` says what cannot."""

    def __init__(
        self,
        key: str,
        path: Path,
        shelves: dict[str, SampleShelf],
        *,
        trust: bool = False,
        patience_s: float | None = None,
    ) -> None:
        self.key = key
        self.path = path
        self._patience_s = patience_s
        self._trust = trust
        self.problem = ""
        self.run: Run | None = None
        self.benchmark: Benchmark | None = None
        self.indexed: Callable[[str, int], Record | None] | None = None
        self._shelves = shelves
        self._lines: dict[str, LinePlaces] = {}
        try:
            self.run = load_run(path, trust=trust)
            self.benchmark = self.run.benchmark
        except SnellenError as error:
            self.problem = error.message

    @property
    def model(self) -> str:
        """Return the model's name with its adapter, as in run_meta.json; empty for a torn run."""
        return "" if self.run is None else self.run.meta.spec.model_with_adapter

    @property
    def restricted(self) -> bool:
        """Return True if the gold answers must not be shown; a run whose benchmark cannot be read counts by its meta."""
        declared = self.benchmark is not None and self.benchmark.restricted
        return declared or (self.run is not None and self.run.meta.restricted)

    def sample(self, sample_id: str) -> tuple[Sample | None, str]:
        """Return a sample, or None and the reason why it is not there. Raises PendingSampleError as SampleShelf does."""
        if self.run is None or self.benchmark is None:
            return None, self.problem or "the run's benchmark cannot be read"
        data = self.run.meta.spec.data
        benchmark = self.benchmark
        name = msgspec.json.encode([benchmark.name, self.run.own, data], enc_hook=str).decode()
        return self._find(name, lambda: benchmark.samples(data), sample_id)

    def sample_as_asked(self, sample_id: str) -> tuple[Sample | None, str]:
        """Return a sample with the run's system text and examples before it, or None and the reason, as `sample`.

        Somebody else's run names a pool that is read only if its author is trusted.
        """
        if self.run is None or self.benchmark is None:
            return self.sample(sample_id)
        spec, benchmark = self.run.meta.spec, self.benchmark
        if not spec.system and not spec.few_shot:
            return self.sample(sample_id)
        if spec.few_shot and not (self.run.own or self._trust):
            return None, "the run was made by another user, and its pool of examples is not read without --trust"

        def samples() -> Iterator[Sample]:
            return studied(benchmark, spec).samples(spec.data)

        study = [spec.system, spec.few_shot, spec.few_shot_from, spec.few_shot_draw]
        name = msgspec.json.encode([benchmark.name, self.run.own, spec.data, study], enc_hook=str).decode()
        return self._find(name, samples, sample_id)

    def _find(self, name: str, samples: Callable[[], Iterator[Sample]], sample_id: str) -> tuple[Sample | None, str]:
        """Look a sample up on the shelf of this name."""
        shelf = self._shelves.setdefault(name, SampleShelf(samples, self._patience_s))
        try:
            sample = shelf.find(sample_id)
        except PendingSampleError:
            raise
        except SnellenError as error:
            return None, error.message
        return sample, "" if sample is not None else "the data has no sample of this id"

    def seal(self, sample: Sample | None, *, show_gold: bool) -> Seal:
        """Return what to keep from the reader about one sample."""
        if show_gold or not self.restricted:
            return Seal()
        return Seal(withheld=True) if sample is None else Seal(gold_forms(sample))

    def lines_in(self, name: str) -> LinePlaces:
        """Return the lines of one of its JSONL files, or of all JSONL files of one of its folders."""
        return self._lines.setdefault(name, LinePlaces(self.path / name))

    @property
    def traces(self) -> LinePlaces:
        """The raw exchanges, by sample and repeat."""
        return self.lines_in("traces")

    def record(self, sample_id: str, repeat: int) -> Record | None:
        """Return the record that counts: the first answer, else the last failure; None if there is no intact one.

        `indexed` is asked first; what an index does not have yet is looked up in the journal.
        """
        if self.indexed is not None and (record := self.indexed(sample_id, repeat)) is not None:
            return record
        records = []
        for line in self.lines_in("results.jsonl").lines(sample_id, repeat):
            try:
                records.append(msgspec.json.decode(line, type=Record))
            except (ValueError, RecursionError):
                continue
        answers = [record for record in records if record.status in ANSWERED]
        return answers[0] if answers else records[-1] if records else None

    @cached_property
    def judges(self) -> Mapping[str, OpenedRun]:
        """The runs beside this one whose models judge or read its replies, by the model's role."""
        if self.run is None:
            return {}
        source = self.run.folder
        beside = {role: (name, derived_run(source, name)) for role, name in ROLES.items()}
        return {
            role: OpenedRun(f"{self.key}_{name}", folder.path, self._shelves)
            for role, (name, folder) in beside.items()
            if folder is not None
        }

    @cached_property
    def rubric_in_place(self) -> Rubric | None:
        """The rubric that the judge went by in place of the benchmark's own; None if it went by that, or there is none."""
        judge = self.judges.get("Judge")
        return None if judge is None or judge.run is None else rubric_in_place(judge.run.meta)

    def judged_by(self, sample_id: str, repeat: int) -> tuple[str, OpenedRun, Record] | None:
        """Return role, run and record of the model that was asked about one reply; None if none was."""
        for role, judge in self.judges.items():
            if (record := judge.record(record_name(sample_id, repeat), 0)) is not None:
                return role, judge, record
        return None

    def judge_record(self, sample_id: str, repeat: int, asked_after: float) -> Record | None:
        """Return the record of what a judge or a reader said of one reply; None for one from before this reply was given."""
        asked = self.judged_by(sample_id, repeat)
        return None if asked is None or asked[2].started_at < asked_after else asked[2]


class OpenedRuns:
    """Opened runs by key, the least recently used closed first; samples are shared by runs of the same data.

    Args:
        trust: the authors of all run folders are trusted.
        patience_s: seconds that a page waits for a sample, as in SampleShelf.
    """

    def __init__(self, *, trust: bool = False, patience_s: float | None = None) -> None:
        self.trust = trust
        self._patience_s = patience_s
        self._runs: OrderedDict[tuple[str, int], OpenedRun] = OrderedDict()
        self._shelves: dict[str, SampleShelf] = {}
        self._lock = Lock()

    def open(self, key: str, path: Path) -> OpenedRun:
        """Return the run in a folder; opened again if its run_meta.json was replaced."""
        try:
            written = (path / "run_meta.json").stat().st_mtime_ns
        except OSError:
            written = 0
        with self._lock:
            if (opened := self._runs.get((key, written))) is None:
                for old in [name for name in self._runs if name[0] == key]:
                    del self._runs[old]
                opened = self._runs[key, written] = OpenedRun(
                    key, path, self._shelves, trust=self.trust, patience_s=self._patience_s
                )
            self._runs.move_to_end((key, written))
            while len(self._runs) > OPEN_RUNS:
                self._runs.popitem(last=False)
            if len(self._shelves) > 2 * OPEN_RUNS:
                self._shelves.clear()
        return opened
