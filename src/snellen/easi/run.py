"""The phases of `snellen easi`: check options, prepare all data, run all benchmarks with one model, then judge."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, checked_data
from snellen.benchmarks.spatial.sources.find_files import VARIANT
from snellen.benchmarks.spatial.tasks import MORE
from snellen.easi import judge as judged
from snellen.easi import judged_scores
from snellen.easi.names import plain, task_of
from snellen.easi.status import NOT_JUDGED, BenchmarkRow, Board, EasiWatch, State, count_unparsed
from snellen.engine.progress import LiveScores, Progress
from snellen.engine.resume import expected, pending, require_readable, require_video_reader, verified_meta
from snellen.engine.run import run
from snellen.engine.run_folder import JUDGED, RunFolder, RunSpec, Totals, derived_folder
from snellen.engine.study import studied
from snellen.errors import DataError, FingerprintError, InterruptedRunError, SnellenError, UsageError, WorkersGoneError
from snellen.event_loop import in_loop
from snellen.models.base import Model, ModelOptions
from snellen.models.shared_model import SharedModel
from snellen.runs.caveats import reply_faults
from snellen.runs.perform import open_scattered, require_protocol
from snellen.runs.run import Run
from snellen.runs.scoring import live_builder
from snellen.scoring.rubric import usable_rubrics
from snellen.sources.hub import HUB
from snellen.text import slug

log = logging.getLogger(__name__)
FAULT = 70
"""Exit status of a fault in Snellen itself, as of any command."""


@dataclass(frozen=True)
class EasiSettings:
    """The options of one call.

    Attributes:
        model, options: who answers, and how.
        benchmarks: names, as `keys.chosen` puts them.
        out: the folder that gets a folder for the model.
        dataset_dir: see `places.data_of`.
        benchmark_options: what `-o` sets, for all benchmarks that have the option.
        system: the system text before every question.
        recipe: name of the recipe that `options` and `system` hold the settings of; None: none was chosen.
        limit: only the first so many questions of each.
        nproc, ray: see docs/scale-out.md.
        judge, threshold: who is asked where more than this share of the replies cannot be read; None: nobody.
        judge_options: endpoint and key of the judge.
        judge_prompts: a file with a harness's judge prompts, in place of Snellen's; empty: none.
        judging: False leaves verdicts that are there out of the figures too.
        rerun: runs that are there are moved to `earlier/` and begun anew.
    """

    model: str
    options: ModelOptions
    benchmarks: tuple[str, ...]
    out: Path = Path("eval_results")
    dataset_dir: Path | None = None
    benchmark_options: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    recipe: str | None = None
    limit: int | None = None
    nproc: int | None = None
    ray: str | None = None
    max_attempts: int = 6
    retry_empty: int = 0
    judge: str | None = None
    threshold: float = 0.025
    judging: bool = True
    judge_prompts: str = ""
    rerun: bool = False
    judge_options: ModelOptions = judged.DEFAULTS

    @property
    def folder(self) -> Path:
        """<out>/<model>: the model's name without `api:` and `local:`, hyphens for characters unfit for file names."""
        name = self.model.removeprefix("api:").removeprefix("local:")
        return self.out / (slug(name) or "model")


def plan(settings: EasiSettings) -> Board:
    """Build the board after all checks that need neither data nor model.

    Raises:
        UsageError: options that nobody has or that exclude each other. JudgeError: a judge without a key.
    """
    who = judged.checked(settings.judge, settings.judge_options) if settings.judging else None
    if settings.judge_prompts:
        usable_rubrics(settings.judge_prompts)
    require_protocol(settings.benchmark_options, settings.system)
    open_scattered(settings.model, settings.options, settings.nproc, settings.ray)  # cheap: nothing is loaded yet
    rows = []
    declared = {option for name in settings.benchmarks for option in registry.find(name).options}
    for name in settings.benchmarks:
        benchmark = registry.find(name)
        unknown = set(settings.benchmark_options) - declared
        own = settings.benchmark_options if unknown else _own_options(settings, benchmark)
        checked_data(benchmark, None, None, own)
        folder = settings.folder / name.replace("/", "-")
        rows.append(BenchmarkRow(name, folder, data_of(name, settings.dataset_dir)))
    return Board(settings.model, settings.folder, rows, who, settings.threshold)


def prepare(settings: EasiSettings, board: Board, watch: EasiWatch) -> None:
    """Prepare and check the data of every benchmark before the model is loaded.

    A benchmark whose data is not there fails here, and the others go on; Ctrl-C ends all of it.
    """
    try:
        for row in board.rows:
            _move(row, "checking", watch)
            with _failing(row, watch):
                _look(settings, row)
                _move(row, "ready", watch)
    except KeyboardInterrupt:
        board.interrupted = True


def _look(settings: EasiSettings, row: BenchmarkRow) -> None:
    if settings.dataset_dir is not None and row.data is not None and on_hub(row.data):
        row.notes.append(f"nothing of it in {settings.dataset_dir}; taken from {row.data}")
    spec = _spec(settings, row)
    benchmark = registry.find(row.name)
    benchmark.digest(spec.data)
    row.notes += benchmark.notices(spec.data)
    require_video_reader(benchmark, spec)
    row.total = expected(benchmark.size(spec.data), spec)
    work = require_readable(pending(benchmark, spec, set()), Totals())
    if next(work, None) is None:
        raise DataError(
            f"{row.data}: no questions of {row.name} in it", "Check that this is its data, and that it is complete."
        )


def work(settings: EasiSettings, board: Board, watch: EasiWatch) -> None:
    """Run all pending samples, then the judge where needed; easi.json is updated after each benchmark.

    Nothing is raised for a benchmark that fails: its row says why, and the next one is asked.

    Raises:
        PreflightError: the judge cannot be asked; nor was the model.
    """
    if board.interrupted:
        return
    if settings.judging and board.judge is not None and board.judge.startswith("api:") and _to_ask(settings, board):
        in_loop(judged.require_ready(board.judge, settings.judge_options))
    aside = judged.aside_of(board.folder)
    try:
        with _ending(board):
            if any(row.error is None for row in board.rows):
                in_loop(_answers(settings, board, watch, aside))
        for row in board.rows:
            for _ in range(2):  # once more, without the judge, where somebody ended it while the judge was asked
                before = board.interrupted
                if row.run is not None and row.state not in ("complete", "partial", "failed"):
                    with _ending(board), _failing(row, watch):
                        _figures(settings, board, row, watch, aside)
                if before == board.interrupted:
                    break
    finally:
        for row in board.rows:
            if row.state in ("ready", "running", "answered", "judging"):
                _move(row, "partial" if row.folder.exists() else "waiting", watch)
        board.write()


def _to_ask(settings: EasiSettings, board: Board) -> bool:
    """Return True if the model will be asked anything: a benchmark is begun anew, or has no complete run yet."""
    for row in board.rows:
        folder = RunFolder(row.folder)
        if row.error is None and (settings.rerun or not folder.exists() or verified_meta(folder).state != "complete"):
            return True
    return False


@contextmanager
def _ending(board: Board) -> Iterator[None]:
    """Mark the board as interrupted on Ctrl-C or SIGTERM."""
    try:
        yield
    except (InterruptedRunError, KeyboardInterrupt):
        board.interrupted = True


async def _answers(settings: EasiSettings, board: Board, watch: EasiWatch, aside: Path) -> None:
    def opened() -> Model:
        return open_scattered(settings.model, settings.options, settings.nproc, settings.ray)

    shared = _keep(opened, watch)
    try:
        for row in board.rows:
            if row.error is not None:
                continue
            model = shared or opened()
            try:
                with _failing(row, watch):
                    await _answer(settings, row, model, watch, aside)
            finally:
                await model.close()
            if shared is not None and _workers_gone(row):
                await shared.end()
                shared = _keep(opened, watch)
            board.write()
    finally:
        if shared is not None:
            await shared.end()


def _keep(opened: Callable[[], Model], watch: EasiWatch) -> SharedModel | None:
    """Open the model shared by all benchmarks; None if each benchmark needs its own instance."""
    model = opened()
    return SharedModel(model, watch.said) if model.shareable else None


def _workers_gone(row: BenchmarkRow) -> bool:
    return isinstance(row.error, WorkersGoneError)


async def _answer(settings: EasiSettings, row: BenchmarkRow, model: Model, watch: EasiWatch, aside: Path) -> None:
    spec, benchmark, folder = _spec(settings, row), registry.find(row.name), RunFolder(row.folder)
    _move(row, "running", watch)
    if settings.rerun and folder.exists():
        await model.preflight()  # what was there is not moved for a model that cannot be loaded
        judged.set_aside(folder, aside)
        verdicts = RunFolder(derived_folder(row.folder, JUDGED))
        if verdicts.exists():
            judged.set_aside(verdicts, aside)
        watch.said(f"{row.name}: the run that was there lies in {aside}")
    before = model.batch_limit
    if settings.model.startswith("replay:"):
        from snellen.models.replay import ReplayModel
        from snellen.runs.external_answers import meet_replay  # few runs replay answers

        if isinstance(model, ReplayModel):
            row.notes += meet_replay(model, benchmark, spec.data, spec.limit)
    try:
        scores = LiveScores(live_builder(benchmark))
        meta = await run(spec, studied(benchmark, spec), model, folder, display=_Shown(row, watch), scores=scores)
    except FingerprintError as error:  # the ways out that it names are those of `snellen run`
        ways = f"To resume: snellen rerun {row.folder}     To start again: --rerun, or another --output-dir"
        raise FingerprintError(error.message, ways) from error
    finally:
        after = model.batch_limit
        if before is not None and after is not None and after < before:
            row.notes.append(f"memory ran out: {after:,} prompts in a batch in place of {before:,}")
    row.run = Run(folder, meta, benchmark)
    row.done, row.lost = meta.totals.done, meta.totals.error + meta.totals.timeout
    _move(row, "answered", watch)


def _figures(settings: EasiSettings, board: Board, row: BenchmarkRow, watch: EasiWatch, aside: Path) -> None:
    """Score a benchmark by rules, or by the judge, which is called here."""
    done = row.run
    if done is None:
        return
    if not done.summary_is_current():
        done.summarize("all")
    row.metrics = done.figures(judged_scores.PROFILE)[judged_scores.PROFILE]
    row.unread = count_unparsed(done)
    row.wants_judge = row.unread.over(settings.threshold)
    if settings.judging and row.wants_judge and board.judge is not None and not board.interrupted:
        _move(row, "judging", watch)
        row.notes += judged.ask(
            done, board.judge, _Shown(row, watch), aside, settings.judge_options, settings.judge_prompts
        )
    judge_run = judged_scores.beside(done.folder) if settings.judging else None
    if judge_run is not None:
        row.judgement = judged_scores.judgement(done.folder, done.meta, done.benchmark, judge_run)
        row.metrics, row.judging = row.judgement.metrics, row.judgement.text
    elif settings.judging and row.wants_judge and board.judge is not None:
        row.judging = f"not judged: {board.judge} has not given a verdict on every reply; the score is by rules"
    if row.judging.startswith(NOT_JUDGED):
        row.notes.append(row.judging)
    coverage, totals = done.meta.coverage, done.meta.totals
    row.done, row.total = totals.done, coverage.of if coverage.of is not None else row.total
    if not coverage.full:
        row.notes.append(f"{structs.replace(coverage, of=None).part} were requested")
    if row.lost:
        row.notes.append(done.request_errors().text)
    row.notes += reply_faults(done.meta, with_remedy=False)
    if row.judgement is not None and row.judgement.without:
        row.notes.append(f"the judge gave no verdict on {row.judgement.without:,} replies; they have no score")
    complete = coverage.full and not row.lost and done.meta.state == "complete"
    _move(row, "complete" if complete else "partial", watch)


def _own_options(settings: EasiSettings, benchmark: Benchmark) -> dict[str, str]:
    """Return the options that a benchmark has: others are for those that are run beside it."""
    return {name: value for name, value in settings.benchmark_options.items() if name in benchmark.options}


def _spec(settings: EasiSettings, row: BenchmarkRow) -> RunSpec:
    benchmark = registry.find(row.name)
    seed = settings.options.seed
    return RunSpec(
        benchmark=row.name,
        model=settings.model,
        data=checked_data(benchmark, row.data, None, _own_options(settings, benchmark), seed),
        options=settings.options,
        system=settings.system,
        recipe=settings.recipe,
        limit=settings.limit,
        max_attempts=settings.max_attempts,
        retry_empty=settings.retry_empty,
        nproc=settings.nproc,
        ray=settings.ray,
    )


def _move(row: BenchmarkRow, state: State, watch: EasiWatch) -> None:
    row.state = state
    watch.changed(row)


@contextmanager
def _failing(row: BenchmarkRow, watch: EasiWatch) -> Iterator[None]:
    """Record an error on the benchmark's row and continue; interruptions are re-raised."""
    try:
        yield
    except InterruptedRunError:
        raise
    except SnellenError as error:
        row.fail(error)
        watch.changed(row)
    except Exception as error:  # noqa: BLE001 - one benchmark's fault is told in its row, and must not cost the others
        log.error("%s: %s", row.name, "".join(traceback.format_exception(error)))
        fault = SnellenError(
            f"an error in Snellen: {type(error).__name__}: {error}",
            "What was recorded is intact. Please report it with the log file.",
        )
        fault.exit_code = FAULT
        row.fail(fault)
        watch.changed(row)


class _Shown:
    """The engine's display, updating a row."""

    def __init__(self, row: BenchmarkRow, watch: EasiWatch) -> None:
        self._row, self._watch = row, watch

    def update(self, progress: Progress) -> None:
        self._row.take(progress)
        self._watch.moved(self._row)

    def close(self, progress: Progress) -> None:
        self.update(progress)


def data_of(name: str, folder: Path | None) -> Path:
    """Return the data of a benchmark: a path, or `hf:OWNER/NAME` if the folder does not have it.

    A folder is looked for by our name, EASI's key and the data set's own name (`vsi-bench`, `vsi_bench`, `VSI-Bench`), a
    table by VLMEvalKit's data name with and without its variant (`VSI-Bench_32frame.tsv`, `VSI-Bench.tsv`). SITE has two
    tables; the folder that holds both of them is given.

    Raises:
        UsageError: `folder` is no folder.
    """
    task, part = task_of(name)
    hub = Path(f"{HUB}{task.hub}")
    if folder is None:
        return hub
    if not folder.is_dir():
        raise UsageError(f"--dataset-dir {folder}: there is no such folder", "Create it, or omit the option.")
    entries = sorted(folder.iterdir())
    folders = {plain(entry.name): entry for entry in entries if entry.is_dir()}
    for spelled in (task.name, task.id, task.hub.rpartition("/")[2]):  # VSI-Debiased lies in VSI-Bench's own folder too
        if (match := folders.get(plain(spelled))) is not None:
            return match
    files = {entry.name.lower(): entry for entry in entries if entry.is_file()}
    kits = [kit.strip() for kit in task.kit.split(",")]
    if part:
        kits = [kit for kit in kits if part in kit.lower()]
    tables = [table for kit in kits if (table := _table(kit, files)) is not None]
    if not tables or (len(tables) < len(kits) and name not in MORE):  # a further benchmark may have some of its tables
        return hub
    return tables[0] if len(tables) == 1 else folder


def on_hub(data: Path) -> bool:
    """Return True for data on the hub."""
    return str(data).startswith(HUB)


def _table(kit: str, files: dict[str, Path]) -> Path | None:
    for stem in (kit, VARIANT.sub("", kit)):
        if (match := files.get(f"{stem}.tsv".lower())) is not None:
            return match
    return None
