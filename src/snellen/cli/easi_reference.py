"""Comparison of results with EASI's tables: `snellen report --reference easi`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.cli.console import new_table, note, remark, show, show_json
from snellen.scoring.metric_text import span
from snellen.text import comma_list

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.easi.reference import ReferenceComparison, ReferenceResult, TargetDifference

REFERENCES = ("easi",)
HARNESSES = {"easi": "vlmevalkit", "lmms-eval": "lmms-eval"}
"""Scoring profile to the harness with the same rules, whose scores EASI published."""


def show_comparison(
    results: Sequence[Path],
    model: str | None,
    faults: str | None,
    leaderboard: str | None = None,
    *,
    as_json: bool,
    trust: bool = False,
) -> None:
    """Print the comparisons of `snellen.easi.reference.compare_with_easi`, and the leaderboard around each model.

    Args:
        results, model, trust: as for `compare_with_easi`; `faults` are its names by comma.
        leaderboard: as for `snellen.easi.leaderboard.read_leaderboard`.
        as_json: print one JSON object.
    """
    from snellen.benchmarks.spatial.reference.verification import ACCEPTABLE, STRONG
    from snellen.cli.easi_leaderboard import leaderboard_json, leaderboard_table, source_note
    from snellen.easi.leaderboard import read_leaderboard
    from snellen.easi.reference import compare_with_easi

    names = comma_list(faults)
    comparisons = compare_with_easi(results, model=model, fault_names=names, trust=trust, say=remark)
    board = read_leaderboard(leaderboard)
    if as_json:
        rule = {"strong": STRONG, "acceptable": ACCEPTABLE}
        entries = [comparison.entry for comparison in comparisons]
        show_json(
            {
                "reference": "easi",
                "rule": rule,
                "models": comparisons,
                "leaderboard": leaderboard_json(board, entries),
            }
        )
        return
    for comparison in comparisons:
        show(_scores(comparison), _verification(comparison), *([_published(comparison)] if comparison.lines else []))
        if board is not None:
            show(leaderboard_table(board, comparison.entry))
        if names:
            show(_with_faults(comparison))
        for result in comparison.results:
            for line in _remarks(result):
                note(f"note: {result.benchmark}: {line}")
    for line in source_note(board):
        note(f"note: {line}")
    note(
        f"note: each score is followed by its difference from the target: strong is at most {STRONG:g} points, acceptable "
        f"at most {ACCEPTABLE:g}; brackets mark scores over part of the questions"
    )


def _remarks(result: ReferenceResult) -> list[str]:
    if not result.rows:
        return [*result.remarks, "the verification table has no row of this data"]
    if not result.rows[0].same_model:
        return [
            *result.remarks,
            "the verification table has no row of this model and data; rows of other models are shown",
        ]
    return list(result.remarks)


def _scores(comparison: ReferenceComparison) -> Table:
    headings = [heading for profile in HARNESSES for heading in (profile, "95 % interval", "n")]
    table = new_table(f"{comparison.model}, in points", ["benchmark"], [*headings, "coverage"])
    for result in comparison.results:
        cells = []
        for metric in result.figures.values():
            cells += [_points(metric.value), span(metric.ci95, ".2f"), f"{metric.n:,}"]
        table.add_row(result.benchmark, *cells, f"{result.coverage:.1%}")
    return table


def _verification(comparison: ReferenceComparison) -> Table:
    pairs = [(f"EASI, {harness}", f"here, {profile}") for profile, harness in HARNESSES.items()]
    headings = ["target", *(heading for pair in pairs for heading in pair)]
    title = f"{comparison.model} against EASI's verification table"
    table = new_table(title, ["data", "model of the row"], headings)
    for result in comparison.results:
        for row in result.rows:
            cells = []
            for profile, harness in HARNESSES.items():
                cells += [_difference(row.theirs.get(harness), True), _difference(row.ours[profile], result.whole)]
            table.add_row(row.data, row.model, _points(row.target), *cells)
    return table


def _difference(score: TargetDifference | None, whole: bool) -> str:
    if score is None or score.value is None:
        return "–"
    words = [f"{score.value:.2f}"]
    if score.delta is not None:
        words.append(f"{score.delta:+.2f}")
    if score.status is not None:
        words.append(score.status if whole else f"({score.status})")
    return " ".join(words)


def _published(comparison: ReferenceComparison) -> Table:
    ours = comparison.lines[0]
    title = f"{comparison.title}: {comparison.source}; means over {ours.coverage} benchmarks"
    if comparison.missing:
        title += f", without {', '.join(comparison.missing)}"
    table = new_table(title, ["model"], [*ours.values, "mean"])
    for line in comparison.lines:
        mean = _points(line.average)
        if not line.comparable:
            mean += " (in part)" if line.measured else f" (over {line.coverage})"
        name = f"{line.name} (here)" if line.measured else line.name
        table.add_row(name, *(_points(value) for value in line.values.values()), mean, end_section=line.measured)
    return table


def _with_faults(comparison: ReferenceComparison) -> Table:
    title = f"{comparison.model}: scores that EASI would have printed with these faults"
    table = new_table(title, ["harness", "id", "score"], ["here", "EASI"])
    for line in comparison.printed:
        easi = line.easi if isinstance(line.easi, str) else "null" if line.easi is None else f"{line.easi:.2f}"
        table.add_row(line.harness, line.id, line.key, "null" if line.ours is None else f"{line.ours:.2f}", easi)
    if not comparison.printed:
        table.add_row("", "", "these faults change no score", "", "")
    return table


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
