"""The tables of a report as plain rows of text: what the template prints and what works without script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from snellen.report.gather import Tally
from snellen.report.links import NOT_RIGHT, link, metric_link
from snellen.report.plots import Series, falls
from snellen.report.text import visible
from snellen.report.view import PairedView, RunView
from snellen.types import Metric

_LARGEST = 66.0
_ROOM = 300.0
"""The eye chart's first line is so tall, and a line so wide at most, in units of which the chart is 400 wide."""

VERDICTS = ("correct", "partial", "wrong", "invalid", "error", "unscored")


class Cell(Struct, frozen=True):
    """One score: text, the link to its wrong answers, and where its interval lies on a track from 0 to 100."""

    text: str
    interval: str
    link: str
    n: str
    coverage: str
    full: bool
    low: float | None
    high: float | None
    at: float | None
    chance: float | None


class Row(Struct, frozen=True):
    """One metric over all columns: its own label, the path to it, and how many of its wholes are in the table."""

    name: str
    label: str
    path: str
    depth: int
    chance: str
    cells: tuple[Cell | None, ...]


def percent(share: float, digits: int = 1) -> str:
    """`83.1 %`; never rounds up to 100 % or down to 0 % what is not."""
    text = f"{100 * share:.{digits}f}"
    if share < 1.0 and float(text) >= 100.0:
        return f"> {100 - 10**-digits:.{digits}f} %"
    if share > 0.0 and float(text) == 0.0:
        return f"< {10**-digits:.{digits}f} %"
    return f"{text} %"


def quantity(value: float | None, unit: str) -> str:
    """A metric's value with its unit; a dash where there is none."""
    if value is None:
        return "–"
    if unit == "fraction":
        return percent(value)
    return f"{value:,.4g} {unit}"


def span(ci95: tuple[float, float] | None, unit: str) -> str:
    """`79.4 – 86.2`; empty where there is no interval."""
    if ci95 is None:
        return ""
    if unit == "fraction":
        return f"{100 * ci95[0]:.1f} – {100 * ci95[1]:.1f}"
    return f"{ci95[0]:,.4g} – {ci95[1]:,.4g}"


def cell(metric: Metric, one: Series, run: RunView) -> Cell:
    """What the table shows of one metric under one run and profile."""
    on_track = metric.unit == "fraction" and metric.value is not None
    low, high = metric.ci95 if metric.ci95 is not None and on_track else (None, None)
    return Cell(
        text=quantity(metric.value, metric.unit),
        interval=span(metric.ci95, metric.unit),
        link=metric_link(metric.name, one.tally, one.run, one.profile, run.filters.get(metric.name)),
        n=f"{metric.n:,}",
        coverage=percent(metric.coverage),
        full=metric.coverage >= 1.0,
        low=_track(low),
        high=_track(high),
        at=_track(metric.value if on_track else None),
        chance=_track(metric.chance if on_track else None),
    )


def _track(share: float | None) -> float | None:
    return None if share is None else round(100 * min(1.0, max(0.0, share)), 2)


def rows(columns: Sequence[Series], runs: Sequence[RunView]) -> list[Row]:
    """Every metric of any column, parts after their whole, otherwise in order of first appearance."""
    at = [{metric.name: metric for metric in one.metrics} for one in columns]
    by_name = {run.name: run for run in runs}
    names = tree_order(dict.fromkeys(name for metrics in at for name in metrics))
    found = []
    for name in names:
        chances = [m[name].chance for m in at if name in m]
        chance = next((c for c in chances if c is not None), None)
        head, _, tail = name.rpartition("/")
        parents = [p for p in _parents(name) if p in names]
        found.append(
            Row(
                name=name,
                label=(name[len(parents[-1]) + 1 :] if parents else name).replace("/", " · ") if head else tail,
                path=parents[-1].replace("/", " · ") + " · " if parents else "",
                depth=len(parents),
                chance="" if chance is None else percent(chance),
                cells=tuple(
                    cell(m[name], one, by_name[one.run]) if name in m else None
                    for m, one in zip(at, columns, strict=True)
                ),
            )
        )
    return found


def tree_order(names: Iterable[str]) -> dict[str, None]:
    """Names in order of first appearance, but `accuracy/short/species` straight after `accuracy/short`."""
    found = dict.fromkeys(names)
    children: dict[str, list[str]] = {}
    for name in found:
        parent = next((p for p in reversed(_parents(name)) if p in found), "")
        children.setdefault(parent, []).append(name)
    ordered: dict[str, None] = {}

    def put(name: str) -> None:
        ordered[name] = None
        for child in children.get(name, ()):
            put(child)

    for name in children.get("", ()):
        put(name)
    return ordered


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:k]) for k in range(1, len(parts))]


def verdict_bars(one: Series) -> list[dict[str, Any]]:
    """Segments of a bar that is 100 wide: verdict, count, start, width, link."""
    counts = one.tally.verdicts.get(one.profile, Counter())
    total = sum(counts.values())
    start, bars = 0.0, []
    for verdict in VERDICTS:
        count = counts.get(verdict, 0)
        if count:
            width = 100 * count / total
            bars.append(
                {
                    "verdict": verdict,
                    "count": f"{count:,}",
                    "share": percent(count / total),
                    "x": round(start, 3),
                    "width": round(width, 3),
                    "link": link(run=one.run, profile=one.profile, verdict=verdict),
                }
            )
            start += width
    return bars


def eye_chart(one: Series) -> list[dict[str, Any]]:
    """Lines of an eye chart: the levels from coarse to fine, or the parts of the first metric from best to worst.

    Where several kinds of question have levels and the first metric has none, the kind that is hardest on the finest
    level is drawn: there the model's sight gives out.

    `blur` is 0 to 8: how far the model's sight on that line is from perfect (8: no better than guessing).
    """
    if not one.metrics:
        return []
    root = one.metrics[0].name
    by_level = falls(one)
    kinds = [metrics for metrics in by_level.values() if len(metrics) >= 3]
    lines = by_level.get(root) or min(kinds, key=lambda metrics: metrics[-1].value or 0.0, default=[])
    if not lines:
        parts = [m for m in one.metrics if m.name.startswith(root + "/") and m.name.count("/") == root.count("/") + 1]
        lines = sorted((m for m in parts if m.value is not None), key=lambda m: -(m.value or 0.0))
    chart: list[dict[str, Any]] = []
    size, bottom = _LARGEST / 0.82, 0.0
    for metric in lines[:8]:
        value, chance = metric.value or 0.0, metric.chance or 0.0
        sight = max(0.0, (value - chance) / (1.0 - chance)) if chance < 1.0 else 1.0
        word = visible(metric.name.rpartition("/")[2]).replace("_", " ").upper()[:28]
        size = max(9.0, min(0.82 * size, _ROOM / (0.95 * max(4, len(word)))))
        bottom += 1.0 * size + 10.0
        chart.append(
            {
                "word": word,
                "value": quantity(metric.value, metric.unit),
                "size": round(size, 1),
                "y": round(bottom, 1),
                "blur": round(8 * (1.0 - sight)),
                "link": metric_link(metric.name, one.tally, one.run, one.profile),
                "of": metric.name.rpartition("/")[0],
            }
        )
    return chart


def paired_rows(comparisons: Sequence[PairedView]) -> list[dict[str, Any]]:
    """Paired comparisons as text; differences in percentage points."""
    found = []
    for one in comparisons:
        c = one.comparison
        clear = c.ci95 is not None and (c.ci95[0] > 0 or c.ci95[1] < 0)
        found.append(
            {
                "first": one.first,
                "second": one.second,
                "what": f"{one.metric} · {one.profile}",
                "difference": f"{100 * c.difference:+.1f}",
                "interval": "" if c.ci95 is None else f"{100 * c.ci95[0]:+.1f} – {100 * c.ci95[1]:+.1f}",
                "p": "< 0.001" if c.p_value < 0.001 else f"{c.p_value:.3f}",
                "test": c.test,
                "n": f"{c.n:,}",
                "wins": f"{c.wins:,}",
                "losses": f"{c.losses:,}",
                "detectable": "–" if c.smallest_detectable is None else f"{100 * c.smallest_detectable:.1f}",
                "clear": clear,
            }
        )
    return found


def not_right(one: Series) -> str:
    """How many answers are not right under the series' profile."""
    counts = one.tally.verdicts.get(one.profile, Counter())
    return f"{sum(counts[verdict] for verdict in NOT_RIGHT.split(',')):,}"


def wrong_link(one: Series) -> str:
    """To every answer of the run that is not right under the series' profile."""
    return link(run=one.run, profile=one.profile, verdict=NOT_RIGHT)


def answer_facts(tally: Tally) -> dict[str, str]:
    """Counts of the header: answers, failures, and on how many the profiles disagree."""
    failed = sum(count for status, count in tally.statuses.items() if status != "ok")
    facts = {"answers": f"{tally.answers:,}", "failed": f"{failed:,}"}
    if len(tally.verdicts) > 1:
        facts["profiles disagree"] = f"{tally.disagreements:,}"
    return facts
