"""The comparison of thresholds of two or more runs, as table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from snellen.cli.console import new_table, note, show, show_json
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.acuity.comparison import ThresholdComparison
    from snellen.runs.acuity_results import MeasuredRun
    from snellen.runs.run import Run


def show_comparisons(runs: Sequence[Run], *, as_json: bool) -> None:
    """Compare each further run with the first, and print the ratios of their thresholds.

    Raises:
        UsageError: fewer than two runs, one of them twice, or runs that have nothing in common.
    """
    from snellen.runs.acuity_results import compare_thresholds, measured_run

    if len(runs) < 2:
        raise UsageError(f"--compare needs two runs; {len(runs)} was named", "Type: snellen acuity A B --compare")
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise UsageError("--compare: one run is named twice", "Name two runs.")
    first, *others = (measured_run(run) for run in runs)
    pairs = [(other, *compare_thresholds(first, other)) for other in others]
    if as_json:
        show_json({"comparisons": [_json(first, other, rows, notes) for other, rows, notes in pairs]})
        return
    for other, rows, notes in pairs:
        _show(first, other, rows)
        for line in notes:
            note(f"note: {line}")


def _names(first: MeasuredRun, other: MeasuredRun) -> tuple[str, str]:
    """Return the models' names, or the folders' where both runs are of one model."""
    models = first.run.meta.spec.model, other.run.meta.spec.model
    return models if models[0] != models[1] else (str(first.run.path), str(other.run.path))


def _show(first: MeasuredRun, other: MeasuredRun, rows: Sequence[ThresholdComparison]) -> None:
    names = _names(first, other)
    paired = any(row.paired is not None for row in rows)
    numbers = ["ratio", "95 % interval", "smallest ratio\nthat could show", *(["McNemar p"] if paired else [])]
    table = new_table(f"acuity · {names[1]} against {names[0]}", ["condition", *names, "better"], numbers)
    for row in rows:
        better = {"first": names[0], "second": names[1], None: "cannot tell" if row.ratio is not None else "–"}
        cells = ["–", "", ""]
        if row.ratio is not None and row.ci95 is not None and row.smallest_ratio is not None:
            cells = [f"{row.ratio:.2f}", f"{row.ci95[0]:.2f} – {row.ci95[1]:.2f}", f"{row.smallest_ratio:.2f}"]
        if paired:
            cells.append("" if row.paired is None else f"{row.paired.p_value:.2g}")
        table.add_row(row.name, row.first, row.second, better[row.better], *cells)
    table.caption = (
        f"ratio: how many times finer {names[1]} sees, or how many times more it tolerates; "
        "its interval comes from both posteriors."
    ) + (f"\nMcNemar: the same questions, {names[1]} right or wrong against {names[0]}." if paired else "")
    show(table)


def _json(
    first: MeasuredRun, other: MeasuredRun, rows: Sequence[ThresholdComparison], notes: Sequence[str]
) -> dict[str, Any]:
    from msgspec import to_builtins

    names = _names(first, other)
    sides = [
        {"name": name, "path": str(each.run.path), "model": each.run.meta.spec.model}
        for name, each in zip(names, (first, other), strict=True)
    ]
    return {"first": sides[0], "second": sides[1], "conditions": to_builtins(rows), "notes": list(notes)}
