"""Cells of a plan: a run for each model, benchmark and setting, and the differences from the runs that are there.

They run side by side within the limits, each local model loaded once, failures kept to their cell.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from snellen.benchmarks.base import Benchmark
from snellen.engine import fingerprint
from snellen.engine.concurrency import RESERVED_FILES, RequestLimit, fit_open_files
from snellen.engine.progress import Display, LiveScores, Progress
from snellen.engine.run import run
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.engine.stopping import Stop
from snellen.engine.study import studied
from snellen.errors import FingerprintError, InterruptedRunError, SnellenError, UsageError
from snellen.event_loop import in_loop
from snellen.media import check_settings
from snellen.models.base import Model, ModelOptions
from snellen.models.registry import ENGINE_KINDS, require_kind, runtime_of
from snellen.models.shared_model import SharedModel
from snellen.plugin_errors import plugin_fault
from snellen.runs.perform import checked, met_replay, open_model, recorded
from snellen.runs.plan.document import ASKED, GENERATION, MEDIA, Plan, PlanEntry, PlanLimits
from snellen.runs.run import Run
from snellen.runs.scoring import PredictionRows, live_builder
from snellen.runs.settings import find_benchmark, run_spec
from snellen.sources.hub import HUB
from snellen.text import pretty_json, slug
from snellen.types import Generation, MediaSettings

if TYPE_CHECKING:
    from snellen.runs.judge.ask import AskedModels


OF_DATA = ("data", "images", "options", "map", "as_kit")
ON_THIS_MACHINE = "this machine"
RECORD = "plan.json"
RECORD_BYTES = 64 << 20


@dataclass(frozen=True)
class PlanCell:
    """One run of a plan.

    Attributes:
        model, benchmark, setting: labels; setting is empty where the plan has none.
        spec: the run.
        folder: where it goes.
        subject: the benchmark.
        fault: why it cannot be run, where its data are not there; it fails in its turn.
        asked: the models that are asked about its replies.
    """

    model: str
    benchmark: str
    setting: str
    spec: RunSpec
    folder: Path
    subject: Benchmark
    fault: SnellenError | None = None
    asked: AskedModels | None = None

    @property
    def row(self) -> str:
        """The row of the cell in the table: the model, and the setting if there are several."""
        return f"{self.model} · {self.setting}" if self.setting else self.model

    @property
    def kind(self) -> str:
        return self.spec.model.partition(":")[0]

    @property
    def endpoint(self) -> str:
        """Return what the cell shares with others: its endpoint, or this machine."""
        if runtime_of(self.kind).here:
            return ON_THIS_MACHINE
        if self.kind == "replay":
            return "replay"
        from snellen.models.api.endpoint import parse_endpoint

        try:
            return str(parse_endpoint(self.spec.options.base_url))
        except UsageError:  # opening the model says what is wrong with it
            return str(self.spec.options.base_url)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the cell, for plan.json."""
        settings: dict[str, Any] = msgspec.to_builtins(self.spec, enc_hook=str)
        return settings


def cells_of(plan: Plan, out: Path | None = None) -> list[PlanCell]:
    """Make the cells of a plan, after all checks that need neither data nor model.

    Raises:
        UsageError: a benchmark, a kind of model or a setting is unknown, or two cells would share a folder.
    """
    cells: list[PlanCell] = []
    folders: dict[str, str] = {}
    for model in plan.models:
        require_kind(model.name)
        for setting in plan.settings or (PlanEntry("", "", {}),):
            for benchmark in plan.benchmarks:
                names = [slug(part) for part in (benchmark.label, model.label, setting.label) if part]
                folder = (out or plan.out) / "-".join(names)
                where = f"{benchmark.label} × {model.label}" + (f" × {setting.label}" if setting.label else "")
                if (other := folders.setdefault(str(folder).lower(), where)) != where:
                    raise UsageError(
                        f"{plan.path}: {other} and {where} would share the folder {folder}", "Give one another label."
                    )
                spec = _spec(plan, model, benchmark, setting, where)
                fault = None
                try:
                    spec, subject = checked(spec, RunFolder(folder), None, trust=True)
                except UsageError as error:
                    raise UsageError(f"{plan.path}, {where}: {error.message}", error.hint) from error
                except SnellenError as error:
                    subject, fault = find_benchmark(spec, trust=True), error
                asked = _asked(plan, _values(plan, model, benchmark, setting), subject, where)
                cells.append(PlanCell(model.label, benchmark.label, setting.label, spec, folder, subject, fault, asked))
    return cells


def _values(plan: Plan, model: PlanEntry, benchmark: PlanEntry, setting: PlanEntry) -> dict[str, Any]:
    """Return the settings of a cell: those of the plan, its benchmark, its model and its setting, the later ones first."""
    return {**plan.defaults, **benchmark.values, **model.values, **setting.values}


def _asked(plan: Plan, values: Mapping[str, Any], subject: Benchmark, where: str) -> AskedModels | None:
    """Return the models that are asked about a cell's replies, checked; None without any."""
    named = {key: values[key] for key in ASKED if key in values}
    if not named and not subject.judge and not subject.reader:
        return None
    from snellen.runs.judge.ask import AskedModels  # few plans ask any

    try:
        words = msgspec.convert(named, dict[str, str])
        asked = AskedModels(
            words.get("judge"),
            words.get("reader"),
            _place(plan, words.get("rubric")),
            words.get("reader_for", "unread"),
        ).declared_by(subject)
        asked.require(subject)
    except msgspec.ValidationError as error:
        raise UsageError(f"{plan.path}, {where}: {error}", "judge, reader and rubric are texts.") from error
    return asked


def _spec(plan: Plan, model: PlanEntry, benchmark: PlanEntry, setting: PlanEntry, where: str) -> RunSpec:
    """Build the spec of one cell; what a local model cannot use is left out if it is a default of the whole plan."""
    shared = dict(plan.defaults)
    if runtime_of(model.name).here:
        shared = {
            key: value for key, value in shared.items() if key not in ("base_url", "key_env", "extra_body", "prices")
        }
    values = {**shared, **benchmark.values, **model.values, **setting.values}
    settings: dict[str, Any] = {
        key: value for key, value in values.items() if key not in (*GENERATION, *MEDIA, *OF_DATA, *ASKED)
    }
    try:
        for part, names, kind in (("generation", GENERATION, Generation), ("media", MEDIA, MediaSettings)):
            settings[part] = msgspec.convert({key: values[key] for key in names if key in values}, kind)
        settings["media"] = check_settings(settings["media"])
        options = {key: settings.pop(key) for key in list(settings) if key in ModelOptions.__struct_fields__}
        if isinstance(adapter := options.get("adapter"), str):
            options["adapter"] = _place(plan, adapter)
        converted = msgspec.convert({key: msgspec.to_builtins(own) for key, own in options.items()}, ModelOptions)
        extras = {"data": None, "images": None, "options": {}} | {
            key: values[key] for key in ("data", "images", "options") if key in values
        }
        named_options = msgspec.convert(extras["options"], dict[str, str | int | float | bool])
        if (columns := values.get("map")) is not None:
            columns = msgspec.convert(columns, str | dict[str, str])
            pairs = (
                columns if isinstance(columns, str) else ",".join(f"{role}={name}" for role, name in columns.items())
            )
            named_options = {**named_options, "map": pairs}
        if msgspec.convert(values.get("as_kit", False), bool):
            named_options = {**named_options, "as_kit": "true"}
        rest: dict[str, Any] = {
            **settings,
            "data": _place(plan, msgspec.convert(extras["data"], str | None)),
            "images": _place(plan, msgspec.convert(extras["images"], str | None)),
            "benchmark_options": {key: str(own) for key, own in named_options.items()},
            "seed": converted.seed,
        }
        if "subset" in rest:
            rest["subset"] = _place(plan, msgspec.convert(rest["subset"], str))
        if isinstance(rest.get("schema"), str):
            rest["schema"] = _place(plan, rest["schema"])
        spec = run_spec(_benchmark_name(plan, benchmark.name), model.name, rest)  # type: ignore[arg-type]
        return msgspec.convert(
            msgspec.to_builtins(structs.replace(spec, options=converted), enc_hook=str), RunSpec, dec_hook=_path
        )
    except UsageError as error:
        raise UsageError(f"{plan.path}, {where}: {error.message}", error.hint) from error
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{plan.path}, {where}: {error}", "Correct the value; `snellen --help plans` lists the keys."
        ) from error


def _path(kind: type, value: Any) -> Any:
    return kind(value)


def _place(plan: Plan, value: str | None) -> str | None:
    """Return a path beside the plan, if there is one of that name; else as it is written."""
    if value is None or value.startswith(HUB):
        return value
    beside = plan.path.parent / value
    return str(beside) if not Path(value).is_absolute() and beside.exists() else value


def _benchmark_name(plan: Plan, name: str) -> str:
    return (_place(plan, name) or name) if "." in name or "/" in name else name


def require_same_runs(cells: Sequence[PlanCell]) -> None:
    """Refuse a plan that would go on with runs that were started with other settings; nothing is sent.

    Raises:
        FingerprintError: every cell of that sort with its differences.
    """
    lines = []
    for cell in cells:
        folder = RunFolder(cell.folder)
        if not folder.exists() or cell.fault is not None:
            continue
        try:
            now = fingerprint.identity(cell.spec, cell.subject, open_model(cell.spec, folder))
        except SnellenError:  # a model or data that is not there any more: the cell fails in its turn
            continue
        changed = list(fingerprint.differences(folder.meta().identity, now))
        if changed:
            lines.append(f"  {cell.benchmark} × {cell.row}, in {cell.folder}:")
            lines += [f"    {name}  {_short(before)}  ->  {_short(after)}" for name, before, after in changed]
    if lines:
        raise FingerprintError(
            "the plan has other settings than runs that are there; resuming would mix two experiments.\n"
            + "\n".join(lines),
            "To start them anew: give the changed entries another label, or pass another --out. No request was sent.",
        )


def _short(value: Any) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def changes(out: Path, cells: Sequence[PlanCell]) -> Iterator[str]:
    """Yield the differences from the last call of the plan in this folder, one line each."""
    path = out / RECORD
    try:
        if not path.is_file() or path.stat().st_size > RECORD_BYTES:
            return
        before = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])
    except (OSError, ValueError, RecursionError):
        return
    now = {cell.folder.name: cell.settings() for cell in cells}
    for name in now.keys() - before.keys():
        yield f"new in the plan: {name}"
    for name in sorted(before.keys() - now.keys()):
        yield f"no longer in the plan: {name}; its run is kept"
    for name in sorted(now.keys() & before.keys()):
        for setting, old, new in fingerprint.differences(before[name], now[name]):
            yield f"changed in the plan: {name}: {setting}  {_short(old)}  ->  {_short(new)}"


def write_record(out: Path, cells: Sequence[PlanCell]) -> None:
    """Write plan.json: the settings of each cell by its folder.

    Raises:
        StorageError: it cannot be written.
    """
    from snellen.errors import StorageError

    content: Mapping[str, Any] = {cell.folder.name: cell.settings() for cell in cells}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{out} cannot be made: {error.strerror or error}", "Pass another folder: --out.") from error
    RunFolder(out).write(out / RECORD, pretty_json(content))


log = logging.getLogger(__name__)


@dataclass
class CellOutcome:
    """The end of a cell: its run, or the error that ended it; neither where the plan was stopped before it began."""

    cell: PlanCell
    run: Run | None = None
    error: SnellenError | None = None


@dataclass
class PlanOutcome:
    """The ends of all cells, in the order of the plan."""

    cells: list[CellOutcome]
    interrupted: bool = False


@dataclass
class _PlanHooks:
    """The hooks of a call: `display` makes the display of one cell, `note` takes a line for people."""

    display: Callable[[PlanCell], Display]
    note: Callable[[str], None]


@dataclass
class _Room:
    """Limits of a plan, and the room that is left."""

    limits: PlanLimits
    total: RequestLimit = field(init=False)
    endpoints: dict[str, RequestLimit] = field(default_factory=dict)
    runs: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.total = RequestLimit(
            fit_open_files(self.limits.concurrency, reserved=RESERVED_FILES + 8 * self.limits.runs)
        )
        self.runs = asyncio.Semaphore(self.limits.runs)

    def of(self, cell: PlanCell) -> tuple[RequestLimit, ...]:
        """Return the limits of a cell's requests; a local model's batches are no requests to an endpoint."""
        if cell.endpoint == ON_THIS_MACHINE:
            return ()
        endpoint = self.endpoints.setdefault(cell.endpoint, RequestLimit(self.limits.per_endpoint))
        return (endpoint, self.total)


def execute(
    cells: Sequence[PlanCell],
    limits: PlanLimits,
    *,
    display: Callable[[PlanCell], Display],
    note: Callable[[str], None],
) -> PlanOutcome:
    """Run all cells. A cell that fails does not end the others.

    Args:
        cells: as `cells_of` makes them; complete runs among them are scored and not asked again.
        limits: what may be done at once.
        note: takes a line about a step, for people.
    """
    outcome = PlanOutcome([CellOutcome(cell) for cell in cells])
    try:
        in_loop(_all(outcome, limits, _PlanHooks(display, note)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        outcome.interrupted = True
    return outcome


async def _all(outcome: PlanOutcome, limits: PlanLimits, hooks: _PlanHooks) -> None:
    room = _Room(limits)
    stop = Stop(Progress("plan", len(outcome.cells), 0, limits.concurrency))
    with stop.on_signals():
        local = [end for end in outcome.cells if end.cell.endpoint == ON_THIS_MACHINE]
        remote = [end for end in outcome.cells if end.cell.endpoint != ON_THIS_MACHINE]
        lanes = [_remote(end, room, stop, hooks) for end in remote]
        await asyncio.gather(*lanes, *([_local(local, stop, hooks)] if local else []))
    outcome.interrupted = stop.interrupted or any(isinstance(end.error, InterruptedRunError) for end in outcome.cells)


async def _remote(end: CellOutcome, room: _Room, stop: Stop, hooks: _PlanHooks) -> None:
    async with room.runs:
        if stop.requested():
            return
        await _run_cell(end, lambda: open_model(end.cell.spec, RunFolder(end.cell.folder)), room.of(end.cell), hooks)


async def _local(ends: Sequence[CellOutcome], stop: Stop, hooks: _PlanHooks) -> None:
    """Run the cells of local models one after the other, those of one checkpoint together: it is loaded once."""
    groups: dict[object, list[CellOutcome]] = {}
    for end in ends:
        spec, options = end.cell.spec, end.cell.spec.options
        # Workers and engines keep the options that they were started with.
        kept = spec.ray is not None or spec.nproc not in (None, 1) or end.cell.kind in ENGINE_KINDS
        scattered = repr(options) if kept else ""
        loaded_by = (spec.model, options.revision, options.device, options.dtype, spec.nproc, spec.ray, scattered)
        groups.setdefault(loaded_by, []).append(end)
    for group in groups.values():
        await _one_checkpoint(group, stop, hooks)


async def _one_checkpoint(ends: Sequence[CellOutcome], stop: Stop, hooks: _PlanHooks) -> None:
    """Run cells that use one checkpoint. Models in this process share its weights; workers stay up from run to run."""
    from snellen.models.local.model import LocalModel, SharedWeights

    weights = SharedWeights()
    workers: SharedModel | None = None
    try:
        for end in ends:
            if stop.requested():
                return
            try:
                model: Model = workers or open_model(end.cell.spec, RunFolder(end.cell.folder))
            except SnellenError as error:
                _fail(end, error, hooks)
                continue
            if isinstance(model, LocalModel):
                model.share(weights)
            elif workers is None and model.shareable:
                model = workers = SharedModel(model, hooks.note)
            await _run_cell(end, partial(_same, model), (), hooks)
    finally:
        if workers is not None:
            await workers.end()


def _same(model: Model) -> Model:
    return model


async def _run_cell(
    end: CellOutcome, opened: Callable[[], Model], limits: tuple[RequestLimit, ...], hooks: _PlanHooks
) -> None:
    """Run one cell; its error stays with it."""
    cell, folder = end.cell, RunFolder(end.cell.folder)
    try:
        if cell.fault is not None:
            raise cell.fault
        model = opened()
        try:
            remarks = met_replay(cell.spec, cell.subject, model)
            builder = live_builder(cell.subject, PredictionRows(cell.subject))
            scores = LiveScores(builder)
            meta = await run(
                cell.spec,
                studied(cell.subject, cell.spec),
                model,
                folder,
                display=hooks.display(cell),
                scores=scores,
                limits=limits,
            )
        finally:
            await model.close()
        end.run = recorded(folder, meta, cell.subject, builder, scores, trust=True, remarks=remarks)
    except Exception as error:
        fault = error if isinstance(error, SnellenError) else plugin_fault(error)
        if fault is None:
            raise
        _fail(end, fault, hooks)
    else:
        log.info("%s × %s: %s", cell.benchmark, cell.row, end.run.state)


def _fail(end: CellOutcome, error: SnellenError, hooks: _PlanHooks) -> None:
    end.error = error
    hooks.note(f"{end.cell.benchmark} × {end.cell.row}: {error.message}")
