"""Results beside EASI's tables, as `snellen report --reference easi` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.cli.console import note, show, show_json
from snellen.scoring.interval_text import span
from snellen.text import comma_list

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.easi.reference import ReferenceComparison, ReferenceResult, TargetDifference

REFERENCES = ("easi",)
HARNESSES = {"easi": "vlmevalkit", "lmms-eval": "lmms-eval"}
"""Profile of a figure of ours to the harness that EASI got its own with, by the same rules."""


def beside(
    results: Sequence[Path], model: str | None, faults: str | None, *, as_json: bool, trust: bool = False
) -> None:
    """Print what `snellen.easi.reference.compare_with_easi` finds."""
    from snellen.benchmarks.spatial.reference.verification import ACCEPTABLE, STRONG
    from snellen.easi.reference import compare_with_easi

    names = comma_list(faults)
    found = compare_with_easi(results, model=model, fault_names=names, trust=trust)
    if as_json:
        show_json({"reference": "easi", "rule": {"strong": STRONG, "acceptable": ACCEPTABLE}, "models": found})
        return
    for one in found:
        show(_figures(one), _verification(one), *([_published(one)] if one.lines else []))
        if names:
            show(_printed(one))
        for result in one.results:
            for line in _remarks(result):
                note(f"note: {result.benchmark}: {line}")
    note(
        f"note: after the figure stands its difference to the target: strong is at most {STRONG:g} points, acceptable "
        f"at most {ACCEPTABLE:g}; in brackets: of part of the questions"
    )


def _remarks(result: ReferenceResult) -> list[str]:
    if not result.rows:
        return [*result.remarks, "the verification table has no row of this data"]
    if not result.rows[0].same_model:
        return [*result.remarks, "the verification table has no row of this model and data: shown are other models'"]
    return list(result.remarks)


def _figures(one: ReferenceComparison) -> Table:
    from rich.table import Table

    table = Table(title=f"{one.model}, in points", title_justify="left")
    table.add_column("benchmark", no_wrap=True)
    for heading in (*(word for profile in HARNESSES for word in (profile, "95 % interval", "n")), "coverage"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in one.results:
        cells = []
        for figure in result.figures.values():
            ends = span(figure.ci95, ".2f")
            cells += [_points(figure.value), ends, f"{figure.n:,}"]
        table.add_row(result.benchmark, *cells, f"{result.coverage:.1%}")
    return table


def _verification(one: ReferenceComparison) -> Table:
    from rich.table import Table

    table = Table(title=f"{one.model} beside EASI's verification table", title_justify="left")
    for heading in ("data", "model of the row"):
        table.add_column(heading)
    table.add_column("target", justify="right", no_wrap=True)
    for profile, harness in HARNESSES.items():
        table.add_column(f"EASI, {harness}", justify="right", no_wrap=True)
        table.add_column(f"here, {profile}", justify="right", no_wrap=True)
    for result in one.results:
        for row in result.rows:
            cells = []
            for profile, harness in HARNESSES.items():
                cells += [_held(row.theirs.get(harness), True), _held(row.ours[profile], result.whole)]
            table.add_row(row.data, row.model, _points(row.target), *cells)
    return table


def _held(held: TargetDifference | None, whole: bool) -> str:
    if held is None or held.value is None:
        return "–"
    words = [f"{held.value:.2f}"]
    if held.delta is not None:
        words.append(f"{held.delta:+.2f}")
    if held.status is not None:
        words.append(held.status if whole else f"({held.status})")
    return " ".join(words)


def _published(one: ReferenceComparison) -> Table:
    from rich.table import Table

    ours = one.lines[0]
    title = f"{one.title}: {one.source}; means over {ours.coverage} benchmarks"
    if one.missing:
        title += f", without {', '.join(one.missing)}"
    table = Table(title=title, title_justify="left")
    table.add_column("model", no_wrap=True)
    for heading in (*ours.values, "mean"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in one.lines:
        mean = _points(line.average)
        if not line.comparable:
            mean += " (in part)" if line.measured else f" (over {line.coverage})"
        name = f"{line.name} (here)" if line.measured else line.name
        table.add_row(name, *(_points(value) for value in line.values.values()), mean, end_section=line.measured)
    return table


def _printed(one: ReferenceComparison) -> Table:
    from rich.table import Table

    table = Table(title=f"{one.model}: what EASI would have printed with these faults", title_justify="left")
    for heading in ("harness", "id", "figure"):
        table.add_column(heading, no_wrap=True)
    for heading in ("here", "EASI"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in one.printed:
        easi = line.easi if isinstance(line.easi, str) else "null" if line.easi is None else f"{line.easi:.2f}"
        table.add_row(line.harness, line.id, line.key, "null" if line.ours is None else f"{line.ours:.2f}", easi)
    if not one.printed:
        table.add_row("", "", "nothing of these results changes", "", "")
    return table


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
