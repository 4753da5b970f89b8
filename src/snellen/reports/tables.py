"""Tables of a report as plain rows of text, for the template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from itertools import takewhile
from typing import Any

from msgspec import Struct, structs

from snellen.benchmarks.base import Published
from snellen.reports.collect import RunTally
from snellen.reports.links import NOT_RIGHT, gallery_link, metric_link
from snellen.reports.plots.base import Series
from snellen.reports.views import PairedView, RunView
from snellen.scoring.metric_text import counted, percent
from snellen.types import IntervalMethod, Metric

THRESHOLD = "threshold/"
"""Beginning of the names of acuity's metrics, which are levels in units of their own, not shares."""
VERDICTS = ("correct", "partial", "wrong", "invalid", "error", "unscored")


class MetricCell(Struct, frozen=True):
    """One score: text, the link to its wrong answers, where its interval lies on a track from 0 to 100, and how it was made."""

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
    method: str = ""


class MetricRow(Struct, frozen=True):
    """One metric over all columns: its own label, the path to it, and how many of its wholes are in the table."""

    name: str
    label: str
    path: str
    depth: int
    chance: str
    cells: tuple[MetricCell | None, ...]


class PublishedCell(Struct, frozen=True):
    """One published figure in percent; whether it is the best published model's."""

    text: str
    best: bool


class PublishedLine(Struct, frozen=True):
    """One row beside published figures: cells of a run that was measured here, or figures that somebody published.

    `colour` is that of the run on the page, 0 for what was published; `remarks` are what a reader must know of the run.
    """

    name: str
    cells: tuple[MetricCell | PublishedCell | None, ...]
    colour: int = 0
    remarks: tuple[str, ...] = ()


def format_percent(share: float, digits: int = 1) -> str:
    """Format `83.1 %`; never rounds up to 100 % or down to 0 % what is not."""
    return f"{percent(share, digits)} %"


def format_value(value: float | None, unit: str) -> str:
    """Format a metric's value with its unit; a dash for none."""
    if value is None:
        return "–"
    if unit == "fraction":
        return format_percent(value)
    return f"{value:.1f} points" if unit == "points" else f"{value:,.4g} {unit}"


def format_interval(ci95: tuple[float, float] | None, unit: str) -> str:
    """Format `79.4 – 86.2`; empty for no interval."""
    if ci95 is None:
        return ""
    if unit == "fraction":
        return f"{100 * ci95[0]:.1f} – {100 * ci95[1]:.1f}"
    if unit == "points":
        return f"{ci95[0]:.1f} – {ci95[1]:.1f}"
    return f"{ci95[0]:,.4g} – {ci95[1]:,.4g}"


def metric_cell(metric: Metric, column: Series, run: RunView) -> MetricCell:
    """Build the table's cell of one metric under one run and profile."""
    return MetricCell(
        **metric_fields(metric),
        link=metric_link(metric.name, column.tally, column.run, column.profile, run.filters.get(metric.name)),
        n=counted(metric.n, metric.interval),
        coverage=format_percent(metric.coverage),
        full=metric.coverage >= 1.0,
    )


def metric_texts(metric: Metric) -> tuple[str, str]:
    """Format value and interval of a metric; thresholds of acuity as its card has them."""
    if metric.name.startswith(THRESHOLD) and metric.value is not None and metric.unit not in ("fraction", "points"):
        from snellen.reports.acuity.view import interval_text, level_text

        interval = "" if metric.ci95 is None else interval_text(*metric.ci95, metric.unit)
        return level_text(metric.value, metric.unit), interval
    return format_value(metric.value, metric.unit), format_interval(metric.ci95, metric.unit)


def metric_fields(metric: Metric) -> dict[str, Any]:
    """Return what any page shows of a metric: value, interval with its method, places on a track from 0 to 100."""
    text, interval = metric_texts(metric)
    on_track = metric.unit == "fraction" and metric.value is not None
    low, high = metric.ci95 if metric.ci95 is not None and on_track else (None, None)
    return {
        "text": text,
        "interval": interval,
        "low": track_position(low),
        "high": track_position(high),
        "at": track_position(metric.value if on_track else None),
        "chance": track_position(metric.chance if on_track else None),
        "method": "" if metric.interval is None else metric.interval.text,
    }


def track_position(share: float | None) -> float | None:
    """Return the position of a share on a track from 0 to 100; None stays None."""
    return None if share is None else round(100 * min(1.0, max(0.0, share)), 2)


def metric_rows(columns: Sequence[Series], runs: Sequence[RunView]) -> list[MetricRow]:
    """Build a row for every metric of any column, parts after their parent, otherwise in order of first appearance."""
    at = [{metric.name: metric for metric in column.metrics} for column in columns]
    by_name = {run.name: run for run in runs}
    members = {task for column in columns for task in column.tally.meta.get("task", {})}
    above = find_parents((name for metrics in at for name in metrics), members)
    depths: dict[str, int] = {}
    metric_rows = []
    for name in tree_order(above, members):
        chances = [m[name].chance for m in at if name in m]
        chance = next((c for c in chances if c is not None), None)
        parent = above[name]
        depths[name] = depths[parent] + 1 if parent else 0
        path = _in_common(parent, name)
        metric_rows.append(
            MetricRow(
                name=name,
                label=(name[len(path) + 1 :] if path else name).replace("/", " · "),
                path=path.replace("/", " · ") + " · " if path else "",
                depth=depths[name],
                chance="" if chance is None else format_percent(chance),
                cells=tuple(
                    metric_cell(m[name], column, by_name[column.run]) if name in m else None
                    for m, column in zip(at, columns, strict=True)
                ),
            )
        )
    return metric_rows


def _in_common(parent: str, name: str) -> str:
    """Return the parts with which both names begin."""
    pairs = zip(parent.split("/"), name.split("/"), strict=False)
    return "/".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def find_parents(names: Iterable[str], members: Container[str] = ()) -> dict[str, str]:
    """Map each name to its parent, "" if it has none.

    `accuracy/short` stands under `accuracy` where that is among the names; what is left of a suite's member stands
    under the member's first metric, its headline.
    """
    parent_of = dict.fromkeys(names, "")
    heads: dict[str, str] = {}
    for name in parent_of:
        parts = name.split("/")
        prefixes = ["/".join(parts[:k]) for k in range(1, len(parts))]
        parent = next((p for p in reversed(prefixes) if p in parent_of), "")
        task = next((p for p in reversed(prefixes) if p in members), "")
        if not parent and task:
            head = heads.setdefault(task, name)
            parent = "" if head == name else head
        parent_of[name] = parent
    return parent_of


def tree_order(names: Iterable[str], members: Container[str] = ()) -> list[str]:
    """Sort names by first appearance, but `accuracy/short/species` straight after `accuracy/short` (`wholes`)."""
    children: dict[str, list[str]] = {}
    for name, parent in find_parents(names, members).items():
        children.setdefault(parent, []).append(name)
    ordered: list[str] = []

    def put(name: str) -> None:
        ordered.append(name)
        for child in children.get(name, ()):
            put(child)

    for name in children.get("", ()):
        put(name)
    return ordered


def verdict_bars(column: Series) -> list[dict[str, Any]]:
    """Return the segments of a bar that is 100 wide: verdict, count, start, width, link."""
    counts = column.tally.verdicts.get(column.profile, Counter())
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
                    "share": format_percent(count / total),
                    "x": round(start, 3),
                    "width": round(width, 3),
                    "link": gallery_link(run=column.run, profile=column.profile, verdict=verdict),
                }
            )
            start += width
    return bars


class PublishedTable(Struct, frozen=True):
    """A published table with the runs of this page above it."""

    title: str
    source: str
    profile: str
    columns: tuple[tuple[str, str], ...]
    lines: tuple[PublishedLine, ...]
    notes: tuple[str, ...]


def published_tables(series: Sequence[Series], runs: Sequence[RunView]) -> list[PublishedTable]:
    """Return published tables, each once, with a line above it for every comparable run.

    Runs of one model by several benchmarks of one table have one line above the whole table, in place of a table each.
    A run's line holds what was measured under the table's profile: a value with its interval, a dash where the run has
    no such metric or the metric no value. Published lines hold what the table holds and nothing else. The best
    published model of a column is marked; runs are not ranked among them, since nothing was paired.
    """
    by_name = {run.name: run for run in runs}
    comparable = [
        (table, column, by_name[column.run])
        for column in series
        for table in by_name[column.run].published
        if table.profile == column.profile
    ]
    measured: dict[Published, list[PublishedLine]] = {}
    for table, column, run in comparable:
        together = [(other, its) for other_table, other, its in comparable if _together(table, run, other_table, its)]
        if table.whole is not None and len({its.benchmark for _, its in together}) > 1:
            if together[0][1] is run:
                measured.setdefault(table.whole, []).extend(_joined(table.whole, together))
        else:
            measured.setdefault(table, []).append(_measured(table, column, run, several=len(runs) > 1))
    return [
        PublishedTable(
            table.title,
            table.source,
            table.profile,
            (*zip(table.columns, table.metrics, strict=True), *([] if _people(table) is None else [AGAINST])),
            (*lines, *_published(table)),
            table.notes,
        )
        for table, lines in measured.items()
    ]


def _together(table: Published, run: RunView, other: Published, its: RunView) -> bool:
    """Return True if two runs may share a line: columns of one table, and one model."""
    return table.whole is not None and table.whole == other.whole and run.model == its.model


def _joined(table: Published, group: Sequence[tuple[Series, RunView]]) -> list[PublishedLine]:
    """Build lines over runs of one model by several benchmarks; a benchmark run twice makes a second line."""
    runs_by_line: list[dict[str, tuple[Series, RunView]]] = []
    for column, run in group:
        free = next((line for line in runs_by_line if run.benchmark not in line), None)
        if free is None:
            runs_by_line.append(free := {})
        free[run.benchmark] = (column, run)
    lines = []
    for line in runs_by_line:
        scores: dict[str, MetricCell | None] = {
            f"{name}/{metric.name}": _score(metric, column, run)
            for benchmark, (column, run) in line.items()
            for metric in column.metrics
            for name in (benchmark, benchmark.rpartition("/")[2])  # a table of a suite names its members alone
            if f"{name}/{metric.name}" in table.metrics
        }
        for column, run in line.values():
            for metric in run.overall.get(column.profile, ()):
                scores.setdefault(metric.name, _score(metric, column, run))
        cells = _with_distance(table, tuple(scores.get(name) for name in table.metrics))
        part = ["coverage below 100 %"] if any(score is not None and not score.full for score in cells) else []
        remarks = [f"{run.name}: {condition}" for _, run in line.values() for condition in run.conditions]
        names = ", ".join(run.name for _, run in line.values())
        first, run = next(iter(line.values()))
        lines.append(PublishedLine(run.model, cells, first.colour, (names, *part, *remarks)))
    return lines


def _measured(table: Published, column: Series, run: RunView, *, several: bool) -> PublishedLine:
    metrics = {metric.name: metric for metric in column.metrics}
    listed = [metrics.get(name) for name in table.metrics]
    cells = _with_distance(table, tuple(None if metric is None else _score(metric, column, run) for metric in listed))
    part = ["coverage below 100 %"] if any(score is not None and not score.full for score in cells) else []
    return PublishedLine(run.model, cells, column.colour, (*([run.name] if several else []), *part, *run.conditions))


AGAINST = ("against people", "the score in the column of the mean minus that of the human row, in points")
"""Heading and explanation of the column that is made of `Published.against`."""


def _people(table: Published) -> float | None:
    """Return the human row's score in the column that is held against it."""
    if not table.against:
        return None
    return next((row.values[table.metrics.index(table.against)] for row in table.rows if row.kind == "human"), None)


def _with_distance(table: Published, cells: tuple[MetricCell | None, ...]) -> tuple[MetricCell | None, ...]:
    """Return a run's cells, and its distance from people where the table has that column."""
    people = _people(table)
    if people is None:
        return cells
    cell = cells[table.metrics.index(table.against)]
    if cell is None:
        return (*cells, None)
    return (*cells, structs.replace(cell, text=f"{float(cell.text) - 100 * people:+.2f}", interval="", method=""))


def _score(metric: Metric, column: Series, run: RunView) -> MetricCell | None:
    """Return a run's cell beside published figures, written with as many digits as they are."""
    if metric.value is None:
        return None
    cell = metric_cell(metric, column, run)
    return structs.replace(cell, text=f"{100 * metric.value:.2f}") if metric.unit == "fraction" else cell


def _published(table: Published) -> list[PublishedLine]:
    models = [row for row in table.rows if row.kind == "model"]
    best = [
        max((v for row in models if (v := row.values[at]) is not None), default=None)
        if len(models) > 1 and metric not in table.numbers  # a higher gap or spread is not better
        else None
        for at, metric in enumerate(table.metrics)
    ]
    people = _people(table)
    distances: list[tuple[PublishedCell | None, ...]] = [()] * len(table.rows)
    if people is not None:
        scores = [row.values[table.metrics.index(table.against)] for row in table.rows]
        distances = [
            (None if score is None else PublishedCell(f"{100 * (score - people):+.2f}", False),) for score in scores
        ]
    return [
        PublishedLine(
            row.name if row.kind in ("model", row.name.lower()) else f"{row.name} ({row.kind})",
            tuple(
                None if v is None else PublishedCell(table.text(at, v), row.kind == "model" and v == top)
                for at, (v, top) in enumerate(zip(row.values, best, strict=True))
            )
            + distance,
        )
        for row, distance in zip(table.rows, distances, strict=True)
    ]


def paired_rows(comparisons: Sequence[PairedView]) -> list[dict[str, Any]]:
    """Format paired comparisons; differences in percentage points."""
    pairs = []
    for comparison in comparisons:
        c = comparison.comparison
        detectable = "–" if c.smallest_detectable is None else f"{100 * c.smallest_detectable:.1f}"
        pairs.append(
            {
                **_difference(comparison, comparison.metric, c.difference, c.ci95, c.interval),
                "p": "< 0.001" if c.p_value < 0.001 else f"{c.p_value:.3f}",
                "test": c.test_text,
                "n": counted(c.n, c.interval),
                "wins": f"{c.wins:,}",
                "losses": f"{c.losses:,}",
                "detectable": detectable,
            }
        )
        untested = {**dict.fromkeys(("p", "n", "wins", "losses", "detectable"), "–"), "test": ""}
        for unit in comparison.units:
            shift = unit.difference or 0.0
            pairs.append({**_difference(comparison, unit.name, shift, unit.ci95, unit.interval), **untested})
    return pairs


def _difference(
    comparison: PairedView,
    metric: str,
    difference: float,
    ends: tuple[float, float] | None,
    method: IntervalMethod | None,
) -> dict[str, Any]:
    return {
        "first": comparison.first,
        "second": comparison.second,
        "what": f"{metric} · {comparison.profile}",
        "difference": f"{100 * difference:+.1f}",
        "interval": "" if ends is None else f"{100 * ends[0]:+.1f} – {100 * ends[1]:+.1f}",
        "method": "" if method is None else method.text,
        "clear": ends is not None and (ends[0] > 0 or ends[1] < 0),
    }


def count_incorrect(column: Series) -> str:
    """Return the number of incorrect answers under the series' profile, in words; failures are counted apart."""
    counts = column.tally.verdicts.get(column.profile, Counter())
    failed = counts["error"]
    incorrect = sum(counts[verdict] for verdict in NOT_RIGHT.split(",")) - failed
    if not incorrect and failed:
        return f"{failed:,} sample{'s' * (failed > 1)} without an answer"
    apart = f", {failed:,} without an answer" if failed else ""
    return f"{incorrect:,} incorrect answer{'s' * (incorrect != 1)}{apart}"


def incorrect_link(column: Series) -> str:
    """Link to every incorrect answer of the run under the series' profile."""
    return gallery_link(run=column.run, profile=column.profile, verdict=NOT_RIGHT)


def answer_facts(tally: RunTally) -> dict[str, str]:
    """Return the counts of the header: answers, refusals, failures, and on how many the profiles disagree."""
    refused = tally.statuses["refused"]
    failed = sum(count for status, count in tally.statuses.items() if status not in ("ok", "refused"))
    facts = {"answered": f"{tally.answers - failed - refused:,}", "failed": f"{failed:,}"}
    if len(tally.verdicts) > 1:
        facts["profiles disagree"] = f"{tally.disagreements:,}"
    return facts
