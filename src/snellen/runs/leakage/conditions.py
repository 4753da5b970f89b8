"""Conditions of the panel: the runs that ask the same samples with less of their content, and asking them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from pathlib import Path

from msgspec import structs

from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.controls import OPTIONS, OTHER, SHUFFLE, SHUFFLES, TEXT, controlled
from snellen.engine.progress import Display, Silent
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import InterruptedRunError, UsageError
from snellen.media import check_settings
from snellen.models.base import Model, ModelOptions
from snellen.runs.perform import checked, perform
from snellen.runs.plan.cells import PlanCell
from snellen.runs.plan.document import PlanLimits
from snellen.runs.plan.execute import execute
from snellen.runs.run import Run
from snellen.types import MediaSettings

FULL, GREY, PATCHES = "full", "grey", "patches"
PATCH_SIDE = 8
BLIND = (TEXT, OPTIONS, GREY, OTHER)
"""Conditions without the sample's own picture: accuracy above chance there needs no sight."""
TITLES = {
    FULL: "with the picture",
    TEXT: "text alone",
    OPTIONS: "options alone",
    GREY: "picture grey",
    OTHER: "picture of another sample",
    PATCHES: "picture in shuffled patches",
    SHUFFLE: "options in another order",
}


def chosen_conditions(named: str | None, shuffles: int) -> list[str]:
    """Return the conditions of a panel, `full` first; orders of the options are `shuffle-1` and so on.

    Args:
        named: names by comma, as typed; None: all.
        shuffles: orders of the options.

    Raises:
        UsageError: an unknown name, or a number of orders out of range.
    """
    known = [FULL, TEXT, OPTIONS, GREY, OTHER, PATCHES, "shuffle"]
    words = known if named is None else [word.strip() for word in named.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise UsageError(f"--conditions: there is no condition {word!r}", f"Known: {', '.join(known)}.").near(
                word, known
            )
    if not 0 <= shuffles <= SHUFFLES:
        raise UsageError(
            f"--shuffles {shuffles}: expected a whole number from 0 to {SHUFFLES}", "Example: --shuffles 3"
        )
    orders = [f"{SHUFFLE}{number}" for number in range(1, shuffles + 1)] if "shuffle" in words else []
    return [*(name for name in known[:-1] if name == FULL or name in words), *orders]


def title_of(condition: str) -> str:
    """Return what a condition shows, in words."""
    number = condition.removeprefix(SHUFFLE)
    return TITLES[condition] if number == condition else f"{TITLES[SHUFFLE]}, {number}"


def cells_of(spec: RunSpec, benchmark: Benchmark, out: Path, conditions: Sequence[str]) -> list[PlanCell]:
    """Make the runs of a panel, each in a folder of its own; a condition that applies to no sample is left out.

    With a limit, each condition is asked about those of the first N samples that it applies to.

    Raises:
        UsageError: settings that are a condition themselves, or that the benchmark or a condition excludes.
    """
    media = spec.options.media
    if media.blank:
        raise UsageError("--blank-images is a condition of the panel (grey)", "Omit --blank-images.")
    ids = None if spec.limit is None else {sample.id for sample in islice(benchmark.samples(spec.data), spec.limit)}
    cells = []
    for name in conditions:
        control = name if name in (TEXT, OPTIONS, OTHER) or name.startswith(SHUFFLE) else ""
        subject = controlled(benchmark, control)
        limit = spec.limit
        if ids is not None and control:
            limit = sum(1 for _ in takewhile(lambda sample: sample.id in ids, subject.samples(spec.data)))
        if limit == 0 or next(iter(subject.samples(spec.data)), None) is None:
            continue
        shown = check_settings(_media(name, media))
        each = structs.replace(spec, control=control, limit=limit, options=structs.replace(spec.options, media=shown))
        each, subject = checked(each, RunFolder(out / name), subject, trust=True)
        cells.append(PlanCell(spec.model, benchmark.name, name, each, out / name, subject))
    return cells


def _media(condition: str, media: MediaSettings) -> MediaSettings:
    if condition == GREY:
        return structs.replace(media, blank=True, corrupt="", mask="")
    if condition == PATCHES:
        return structs.replace(media, corrupt=",".join(filter(None, [media.corrupt, f"patch-shuffle:{PATCH_SIDE}"])))
    return media


def measure(
    cells: Sequence[PlanCell],
    *,
    opened: Callable[[ModelOptions], Model] | None = None,
    display: Callable[[PlanCell], Display] = lambda cell: Silent(),
    note: Callable[[str], None] = lambda line: None,
) -> dict[str, Run]:
    """Ask all conditions, or resume them; return the runs by condition. A checkpoint is loaded once for all of them.

    `max_cost` of the cells bounds all of them together: they are then asked one after the other.

    Args:
        cells: as `cells_of` makes them.
        opened: makes the model from its options, which hold what is done to pictures; None: as the cells name it.
        display: makes the display of a run's progress.
        note: takes a line for people.

    Raises:
        SnellenError: the first error of a run, such as a budget that is used up; what was answered is on disk, and the same
            call goes on.
    """
    if opened is not None:
        return {
            cell.setting: perform(
                cell.spec,
                RunFolder(cell.folder),
                benchmark=cell.subject,
                model=opened(cell.spec.options),
                display=display(cell),
                trust=True,
            )
            for cell in cells
        }
    bound = cells[0].spec.max_cost
    if bound is None:
        return _executed(cells, display, note)
    spent = {cell.setting: _cost(cell) for cell in cells}
    runs: dict[str, Run] = {}
    for cell in cells:
        left = bound - sum(cost for name, cost in spent.items() if name != cell.setting)
        priced = structs.replace(cell.spec, max_cost=max(0.0, left))
        runs |= _executed(
            [PlanCell(cell.model, cell.benchmark, cell.setting, priced, cell.folder, cell.subject)], display, note
        )
        spent[cell.setting] = runs[cell.setting].meta.totals.cost or 0.0
    return runs


def _executed(
    cells: Sequence[PlanCell], display: Callable[[PlanCell], Display], note: Callable[[str], None]
) -> dict[str, Run]:
    most = cells[0].spec.options.concurrency
    outcome = execute(cells, PlanLimits(concurrency=most, per_endpoint=most), display=display, note=note)
    if error := next((end.error for end in outcome.cells if end.error is not None), None):
        raise error
    if outcome.interrupted:
        raise InterruptedRunError("the panel was stopped", "Run the same command to go on with it.")
    return {end.cell.setting: end.run for end in outcome.cells if end.run is not None}


def _cost(cell: PlanCell) -> float:
    folder = RunFolder(cell.folder)
    return (folder.meta().totals.cost or 0.0) if folder.exists() else 0.0
