"""Markdown for the page of a CI step, such as GitHub's step summary: checks, metrics, comparison and ranking."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.redaction import redact
from snellen.runs.check_cases import CheckCase
from snellen.scoring.metric_text import counted, span
from snellen.text import one_line
from snellen.types import Metric

if TYPE_CHECKING:
    from snellen.runs.compare import Pairing
    from snellen.runs.ranking import Ranking

MOST_BYTES = 900_000
"""GitHub refuses more than 1 MiB a step."""
MOST_ROWS = 40
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")
_MARKS = {"passed": "✅", "failed": "❌", "error": "⚠️"}


def append_summary(path: Path, markdown: str) -> None:
    """Append Markdown to a file, and make its folder; what other commands wrote there stays.

    Raises:
        OSError: it cannot be written.
    """
    data = redact(markdown).encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        data = data[:MOST_BYTES].decode("utf-8", "ignore").encode() + b"\n\n(cut off)\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def checks_markdown(cases: Iterable[CheckCase]) -> str:
    """Return a list of checks, each with its mark and its sentence."""
    lines = [f"- {_MARKS[case.outcome]} **{escaped(case.name)}**: {escaped(case.text)}" for case in cases]
    return "\n".join([*lines, ""]) if lines else ""


def metrics_markdown(title: str, metrics: Sequence[Metric]) -> str:
    """Return a heading and a table of metrics with intervals, n and coverage."""
    rows = [
        (
            escaped(metric.name),
            "–" if metric.value is None else f"{metric.value:.4f}",
            span(metric.ci95, ".4f"),
            counted(metric.n, metric.interval),
            f"{metric.coverage:.1%}",
            "" if metric.chance is None else f"{metric.chance:.3f}",
        )
        for metric in metrics[:MOST_ROWS]
    ]
    table = _table(("metric", "value", "95 % interval", "n", "coverage", "chance"), rows)
    omitted = len(metrics) - len(rows)
    return f"### {escaped(title)}\n\n{table}" + (f"\n{omitted:,} more metrics are omitted.\n" if omitted else "")


def comparison_markdown(pairing: Pairing) -> str:
    """Return a heading and a table of the parts of one comparison, with its notes."""
    rows = []
    for part in pairing.parts[:MOST_ROWS]:
        comparison = part.comparison
        rows.append(
            (
                escaped(part.name),
                counted(comparison.n, comparison.interval),
                f"{part.baseline:.4f}",
                f"{part.other:.4f}",
                f"{comparison.difference:+.4f}",
                span(comparison.ci95, "+.4f"),
                f"{comparison.p_value:.2g}",
            )
        )
    headings = ("samples", "n", "baseline", "other", "difference", "95 % interval", "p")
    notes = "".join(f"- {escaped(line)}\n" for line in pairing.notes)
    title = f"{pairing.other} against {pairing.baseline}, {pairing.profile}"
    return f"### {escaped(title)}\n\n{_table(headings, rows)}" + (f"\n{notes}" if notes else "")


def ranking_markdown(ranking: Ranking) -> str:
    """Return a heading and the table of a ranking."""
    rows = [
        (str(run.rank), escaped(run.run), f"{run.score:.4f}", span(run.ci95, ".4f"), run.groups) for run in ranking.runs
    ]
    table = _table(("rank", "run", "score", "95 % interval", "group"), rows)
    return (
        f"### Ranking over {ranking.n:,} samples, {escaped(ranking.profile)}\n\n{table}\n"
        f"Runs that share a letter cannot be told apart (Holm, {ranking.alpha:g} over all pairs).\n"
    )


def escaped(text: str) -> str:
    """Return text on one line, with the characters that Markdown and HTML read as marks escaped."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
