"""Rankings of the runs page: places that cannot be told apart, from paired tests over the same samples.

The tests read every journal of a benchmark. The server makes them in the background, once for each state of the journals; an export
waits for them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from snellen.errors import SnellenError
from snellen.reports.tables import THRESHOLD
from snellen.runs.ranking import MOST_RUNS, Ranking
from snellen.viewer.run_list import RunGroup, RunListRow

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
