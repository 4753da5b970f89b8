"""Running a plan: cells side by side within the limits, each local model loaded once, failures kept to their cell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from snellen.engine.concurrency import RESERVED_FILES, RequestLimit, fit_open_files
from snellen.engine.progress import Display, LiveScores, Progress
from snellen.engine.run import run
from snellen.engine.run_folder import RunFolder
from snellen.engine.stopping import Stop
from snellen.engine.study import studied
from snellen.errors import InterruptedRunError, SnellenError
from snellen.event_loop import in_loop
from snellen.models.base import Model
from snellen.models.registry import ENGINE_KINDS
from snellen.models.shared_model import SharedModel
from snellen.plugin_errors import plugin_fault
from snellen.runs.perform import met_replay, open_model, recorded
from snellen.runs.plan.cells import ON_THIS_MACHINE, PlanCell
from snellen.runs.plan.document import PlanLimits
from snellen.runs.run import Run
from snellen.runs.scoring import PredictionRows, live_builder

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
        display: makes the display of a cell's progress.
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
