"""Rows of the runs page: runs by benchmark, filtered and sorted; incomplete ones never unmarked above complete ones.

Rankings of the runs page: places that cannot be told apart, from paired tests over the same samples.
The tests read every journal of a benchmark. The server makes them in the background, once for each state of the journals; an export
waits for them.
"""

from __future__ import annotations

import datetime
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from snellen.engine.run_folder import JUDGE_RUNS, READ
from snellen.errors import SnellenError
from snellen.reports.tables import THRESHOLD, format_percent, metric_fields
from snellen.runs.costs import least_mark
from snellen.runs.ranking import MOST_RUNS, Ranking
from snellen.runs.status import score_coverage
from snellen.viewer.index import RunEntry
from snellen.viewer.index.entries import read_options
from snellen.viewer.labels import benchmark_label, model_label
from snellen.viewer.states import RunsState

COLUMNS: Mapping[str, str] = {
    "run": "run",
    "model": "model",
    "score": "score",
    "n": "n",
    "coverage": "coverage",
    "failures": "failures",
    "tokens": "tokens",
    "cost": "cost",
    "date": "date",
}
FIGURES = ("n", "coverage", "failures", "tokens", "cost")
FALLING_FIRST = ("score", "n", "coverage", "failures", "tokens", "cost", "date")
"""Columns whose first click sorts the largest value up."""
STATE_TEXTS: Mapping[str, str] = {
    "complete": "complete",
    "limited": "limited",
    "partial": "partial",
    "running": "running",
    "failed": "failed",
    "redacted": "redacted copy",
    "torn": "damaged",
}


LABELS: Mapping[str, Callable[[str], str]] = {
    "benchmark": benchmark_label,
    "model": model_label,
    "state": lambda state: STATE_TEXTS.get(state, state),
}
"""Names of a filter's values for people."""


@dataclass(frozen=True)
class RunListRow:
    """One run of the list, as text.

    Attributes:
        entry: the run.
        score: fields of its headline for a track; None without one.
        whole: it may stand in the ranking: complete, over the whole benchmark, with figures that were checked.
        remarks: why it may not, and what else a reader must know of it.
        progress: share of the requested samples with a record, 0 to 100, while it runs.
        place: its place in the ranking, `2` or `2–4`; empty without one.
        groups: letters of the ranking; runs that share one cannot be told apart.
        values: what each column sorts by; None stands last.
    """

    entry: RunEntry
    score: Mapping[str, Any] | None
    whole: bool
    remarks: tuple[str, ...]
    progress: float | None
    failures: str
    commonest: str
    tokens: str
    cost: str
    date: str
    values: Mapping[str, Any]
    place: str = ""
    groups: str = ""

    @property
    def state(self) -> str:
        """Return the state: `limited` for a run that has ended and covers a part of the benchmark."""
        return self.entry.shown_state

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with the run, without the place of its folder on this machine."""
        folder = str(self.entry.path)
        return tuple(problem.replace(f"{folder}/", "").replace(folder, "the folder") for problem in self.entry.problems)

    @property
    def coverage(self) -> str:
        """Return the share of the benchmark that the score rests on, or that has a record."""
        coverage = score_coverage(self.entry.coverage, self.entry.headline)
        return "unknown" if coverage is None else format_percent(coverage)

    @property
    def n(self) -> str:
        """Return how many samples stand behind the score, or how many have a record."""
        totals = self.entry.totals
        count = totals.recorded
        return f"{self.entry.headline.n if self.entry.headline else count:,}"


@dataclass(frozen=True)
class RunGroup:
    """Runs of one benchmark over the same samples; `title` is empty in the list that is not grouped."""

    title: str
    about: str
    rows: tuple[RunListRow, ...]
    ranked: bool

    @property
    def whole(self) -> tuple[RunListRow, ...]:
        """Return the rows that may be ranked."""
        return tuple(row for row in self.rows if row.whole)

    @property
    def key(self) -> str:
        """Return a name that the ranking is asked for by."""
        return "|".join(self.rows[0].entry.sample_source)


def make_row(entry: RunEntry) -> RunListRow:
    """Write one run as text."""
    totals, headline = entry.totals, entry.headline
    lost = totals.error + totals.timeout
    remarks = []
    if entry.shown_state == "limited":
        coverage = "an unknown part" if entry.coverage is None else format_percent(entry.coverage)
        remarks.append(f"covers {coverage} of the benchmark")
    if headline is not None and not entry.verified:
        remarks.append("score not checked")
    if entry.state == "complete" and not entry.metrics and not entry.judges:
        remarks.append("no saved scores: run snellen score")
    if totals.cut_off:
        remarks.append(f"{totals.cut_off:,} replies were cut off at the token limit")
    if totals.empty is not None and totals.empty.count and not entry.judges:
        remarks.append(f"{totals.empty.count:,} replies were empty")
    threshold = headline is not None and headline.name.startswith(THRESHOLD)
    score = None if headline is None else metric_fields(headline)
    if headline is not None and score is not None and threshold:
        score["text"] = f"{headline.name.removeprefix(THRESHOLD)} {score['text']}"
        remarks += _threshold_remarks(entry)
    if entry.origin != "own":
        remarks.append({"imported": "imported answers", "foreign": "made elsewhere"}[entry.origin])
    if entry.judges:
        remarks.append(f"{'reads' if entry.benchmark == READ else 'judges'} {entry.judges}")
    recorded = totals.done + lost
    tokens = totals.input_tokens + totals.output_tokens
    values = {
        "run": entry.key,
        "model": entry.model,
        "score": headline.value if headline is not None and not threshold else None,
        "n": headline.n if headline is not None else recorded,
        "coverage": score_coverage(entry.coverage, headline),
        "failures": lost,
        "tokens": tokens,
        "cost": totals.cost,
        "date": entry.started,
    }
    return RunListRow(
        entry=entry,
        score=score,
        whole=entry.complete and headline is not None and headline.value is not None and not entry.judges,
        remarks=tuple(remarks),
        progress=_progress(entry, recorded),
        failures=f"{lost:,}" if lost else "",
        commonest=f"{entry.failures[0].kind}: {entry.failures[0].message}" if entry.failures else "",
        tokens=f"{tokens:,}" if tokens else "",
        cost="" if totals.cost is None else f"{least_mark(totals)}${totals.cost:,.2f}",
        date=format_moment(entry.started),
        values=values,
    )


def _threshold_remarks(entry: RunEntry) -> list[str]:
    """Say how many conditions of a run of acuity have a threshold, and what is to be known of the first one."""
    metrics = [m for m in next(iter(entry.metrics.values()), ()) if m.name.startswith(THRESHOLD)]
    measured = sum(metric.value is not None for metric in metrics)
    remarks = [f"{measured} of {len(metrics)} thresholds"] if len(metrics) > 1 else []
    words = entry.remarks.get(metrics[0].name) if metrics else None
    return [*remarks, *([f"{metrics[0].name.removeprefix(THRESHOLD)}: {words}"] if words else [])]


def _progress(entry: RunEntry, recorded: int) -> float | None:
    requested = entry.requested or entry.expected
    if entry.state != "running" or not requested:
        return None
    return round(100 * min(1.0, recorded / requested), 1)


def format_moment(seconds: float | None) -> str:
    """Format `2026-11-22 09:25` in UTC; empty for an unknown moment."""
    try:
        moment = datetime.datetime.fromtimestamp(seconds or 0, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.strftime("%Y-%m-%d %H:%M") if seconds else ""


def select(entries: Iterable[RunEntry], state: RunsState) -> list[RunEntry]:
    """Return the runs that fit the filters of the page."""
    words = state.text.casefold().split()

    def fits(entry: RunEntry) -> bool:
        text = " ".join((entry.key, entry.benchmark, entry.model, entry.settings, *entry.problems)).casefold()
        return (
            (not state.benchmark or entry.benchmark in state.benchmark)
            and (not state.model or entry.model in state.model)
            and (not state.state or entry.shown_state in state.state)
            and all(word in text for word in words)
        )

    return [entry for entry in entries if fits(entry)]


def order_rows(rows: Sequence[RunListRow], state: RunsState) -> list[RunListRow]:
    """Sort rows: by a column, or by score. An order by score puts incomplete runs below complete ones, either way round."""
    column = state.sort if state.sort in COLUMNS else "score"
    down = state.down if state.sort in COLUMNS else True

    def key(row: RunListRow) -> Any:
        value = row.values[column]
        return value.casefold() if isinstance(value, str) else value

    by_key = sorted(rows, key=lambda row: row.entry.key)
    known = [row for row in by_key if row.values[column] is not None]
    unknown = [row for row in by_key if row.values[column] is None]
    ordered = [*sorted(known, key=key, reverse=down), *unknown]
    if column == "score":
        ordered.sort(key=lambda row: not row.whole)
    return ordered


def group_runs(entries: Sequence[RunEntry], state: RunsState) -> list[RunGroup]:
    """Return the groups of the page, each in the order that the page asks for; judges' runs come last."""
    rows = [make_row(entry) for entry in entries]
    if state.group == "none":
        return [RunGroup("", "", tuple(order_rows(rows, state)), ranked=False)] if rows else []
    groups: dict[tuple[str, ...], list[RunListRow]] = {}
    for row in rows:
        groups.setdefault(row.entry.sample_source, []).append(row)
    sources: dict[str, list[RunEntry]] = {}
    for members in groups.values():
        sources.setdefault(members[0].entry.benchmark, []).append(members[0].entry)
    made = []
    for (benchmark, *_), members in groups.items():
        about = _about_source(members[0].entry, sources[benchmark]) if benchmark else ""
        ranked = benchmark not in JUDGE_RUNS and bool(benchmark)
        title = benchmark_label(benchmark) or "no benchmark"
        made.append(RunGroup(title, about, tuple(order_rows(members, state)), ranked))
    return sorted(made, key=lambda group: (not group.ranked, group.title, -len(group.rows), group.about))


def _about_source(entry: RunEntry, others: Sequence[RunEntry]) -> str:
    """Return what tells the samples of a group from those of the benchmark's other groups."""

    def differs(name: str) -> bool:
        return len({getattr(other, name) for other in others}) > 1

    parts = []
    if differs("version"):
        parts.append(f"version {entry.version or 'unknown'}")
    if differs("data"):
        parts.append(f"data {entry.data.removeprefix('sha256:')[:12] or 'without digest'}")
    if differs("options"):
        options = read_options(entry.options)
        known = [read_options(other.options) for other in others]
        names = sorted({name for each in known for name in each})
        for name in names:
            if len({each.get(name) for each in known}) > 1 and not (name == "seed" and entry.data):
                parts.append(f"{name}={options.get(name, 'default')}")
    return ", ".join(parts)


@dataclass(frozen=True)
class FilterChoice:
    """One value of a filter: its label, how many runs have it, whether it is chosen, and the page with it toggled."""

    value: str
    label: str
    count: int
    active: bool
    state: RunsState


def filter_choices(entries: Sequence[RunEntry], state: RunsState) -> dict[str, list[FilterChoice]]:
    """Return the values of each filter with how many runs have them; a filter with a single value is left out."""
    choices: dict[str, list[FilterChoice]] = {}
    for name in ("benchmark", "model", "state"):
        chosen: tuple[str, ...] = getattr(state, name)
        values = (entry.shown_state if name == "state" else str(getattr(entry, name)) for entry in entries)
        counts = Counter(values)
        counts.update(dict.fromkeys(chosen, 0))
        if len(counts) < 2 and not chosen:
            continue
        choices[name] = [
            FilterChoice(
                value,
                LABELS[name](value),
                counts[value],
                value in chosen,
                state.changed(
                    **{name: tuple(v for v in chosen if v != value) if value in chosen else (*chosen, value)}
                ),
            )
            for value in sorted(counts, key=str.casefold)
        ]
    return choices


MOST_RECORDS = 500_000
HELD = 64
"""Rankings in memory."""


@dataclass(frozen=True)
class RankedPlaces:
    """Places by the run's key: `2` or `2–4`, with its letters; or the reason why there are none."""

    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    note: str = ""
    pending: bool = False


class Rankings:
    """Rankings by the runs of a group and the state of their journals. Callers may be threads.

    Args:
        trust: the authors of all run folders are trusted.
    """

    def __init__(self, *, trust: bool = False) -> None:
        self._trust = trust
        self._made: OrderedDict[tuple[object, ...], RankedPlaces] = OrderedDict()
        self._making: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def of(self, group: RunGroup, *, wait: bool) -> RankedPlaces:
        """Return the places of a group's complete runs.

        Args:
            group: runs of one benchmark over the same samples.
            wait: True makes the ranking now; False starts it, and `pending` says so.
        """
        rows = sorted(group.whole, key=lambda row: row.entry.key)
        if not group.ranked or len(rows) < 2:
            return RankedPlaces()
        if any(row.entry.headline is not None and row.entry.headline.name.startswith(THRESHOLD) for row in rows):
            return RankedPlaces(note="No ranking: thresholds are compared one by one, as ratios (snellen report A B).")
        if len(rows) > MOST_RUNS:
            return RankedPlaces(note=f"No ranking: {len(rows):,} complete runs, and {MOST_RUNS} are tested at most.")
        records = sum(row.entry.totals.done for row in rows)
        if records > MOST_RECORDS:
            return RankedPlaces(
                note=f"No ranking: {records:,} records, and {MOST_RECORDS:,} are tested at most. Compare the runs instead."
            )
        key = tuple((row.entry.key, msgspec.json.encode(row.entry.totals), row.entry.ended) for row in rows)
        with self._lock:
            if (known := self._made.get(key)) is not None:
                self._made.move_to_end(key)
                return known
            start = key not in self._making
            self._making.add(key)
        if wait:
            return self._make(key, rows)
        if start:
            threading.Thread(target=self._make, args=(key, rows), name="snellen view ranking", daemon=True).start()
        return RankedPlaces(pending=True)

    def _make(self, key: tuple[object, ...], rows: Sequence[RunListRow]) -> RankedPlaces:
        with self._turn:
            try:
                places = _rank(rows, trust=self._trust)
            except SnellenError as error:
                places = RankedPlaces(note=f"No ranking: {error.message}.")
            except Exception as error:  # noqa: BLE001 - a benchmark's own code; its fault must not end the page
                places = RankedPlaces(note=f"No ranking: {type(error).__name__} while the runs were scored.")
        with self._lock:
            self._made[key] = places
            self._making.discard(key)
            while len(self._made) > HELD:
                self._made.popitem(last=False)
        return places


def _rank(rows: Sequence[RunListRow], *, trust: bool) -> RankedPlaces:
    from snellen.runs.compared_runs import ComparedRun, open_runs
    from snellen.runs.ranking import rank_runs

    opened, profile = open_runs([row.entry.path for row in rows], None, trust=trust)
    ranking = rank_runs([ComparedRun(run) for run in opened], profile)
    by_path = {str(run.path): row.entry.key for run, row in zip(opened, rows, strict=True)}
    places = place_ranges(ranking)
    note = f"Places after paired tests over {ranking.n:,} shared samples (Holm, α = {ranking.alpha:g}), profile {ranking.profile}."
    return RankedPlaces({by_path[run.run]: (places[run.run], run.groups) for run in ranking.runs}, note)


def place_ranges(ranking: Ranking) -> dict[str, str]:
    """Return the places that each run may have: `2`, or `2–4` where it cannot be told apart from others.

    A run stands below those that are told apart from it with a higher mean, and above those with a lower one.
    """
    names = [run.run for run in ranking.runs]
    better = dict.fromkeys(names, 0)
    worse = dict.fromkeys(names, 0)
    for pair in ranking.pairs:
        if pair.p_adjusted < ranking.alpha:
            worse[pair.higher] += 1
            better[pair.lower] += 1
    ranges = {name: (1 + better[name], len(names) - worse[name]) for name in names}
    return {name: str(first) if first == last else f"{first}–{last}" for name, (first, last) in ranges.items()}


def with_places(group: RunGroup, ranked: RankedPlaces) -> RunGroup:
    """Return a group with the places of its complete runs filled in."""
    return replace(
        group,
        rows=tuple(
            replace(row, place=ranked.places[row.entry.key][0], groups=ranked.places[row.entry.key][1])
            if row.entry.key in ranked.places
            else row
            for row in group.rows
        ),
    )
