"""The leaderboard beside a model's results: both averages and the capabilities, under their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.cli.console import new_table

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.easi.leaderboard import LeaderboardEntry, PublicLeaderboard

BENCHMARK, CAPABILITY = "benchmark average", "capability average"


def leaderboard_table(board: PublicLeaderboard, entry: LeaderboardEntry) -> Table:
    """Build the table: this model first, then the leaderboard's rows by their benchmark average over the same columns."""
    columns = _columns(entry)
    labels = list(board.averages(entry, columns).capabilities)
    headings = [*columns, BENCHMARK, *map(str.upper, labels), *([CAPABILITY] if labels else [])]
    table = new_table(f"EASI leaderboard, {'live' if board.live else 'not live'}: {board.source}", ["model"], headings)
    rows = sorted(board.rows, key=lambda row: -(board.averages(row, columns).benchmark or -1e9))
    for number, row in enumerate([entry, *rows]):
        averages = board.averages(row, columns)
        mean = _points(averages.benchmark)
        if averages.known < averages.of:
            mean += f" ({averages.known} of {averages.of})"
        cells = [_points(row.scores.get(name)) for name in columns]
        capabilities = [_points(averages.capabilities[label]) for label in labels]
        last = [_points(averages.capability)] if labels else []
        name = f"{row.name} (here)" if number == 0 else row.name
        table.add_row(name, *cells, mean, *capabilities, *last, end_section=number == 0)
    return table


def source_note(board: PublicLeaderboard | None) -> Iterator[str]:
    """Yield where the leaderboard was read from, and how its two averages are made."""
    if board is None:
        yield (
            "the leaderboard was not read: no network, and no copy of an earlier reading; the published rows are those "
            "of the package. --leaderboard FILE reads a saved answer"
        )
        return
    how = "live from" if board.live else "not live, but from"
    updated = f", last changed {board.updated}" if board.updated else ""
    yield f"leaderboard: {len(board.rows):,} rows, {how} {board.source}{updated}"
    yield from (f"leaderboard: {line}" for line in board.notes)
    yield f"{BENCHMARK}: the mean of the scores that are not null among the columns"
    if board.capability_map:
        yield (
            f"{CAPABILITY}: each capability is the mean of its sub-scores and null if one is missing; the average divides by "
            "all labels and counts null as 0"
        )
    else:
        yield f"{CAPABILITY}: none, since the leaderboard gave no capability map"


def leaderboard_json(board: PublicLeaderboard | None, entries: Sequence[LeaderboardEntry]) -> dict[str, Any] | None:
    """Build the leaderboard's part of --json: source, capability map, and both averages of every row."""
    if board is None:
        return None

    def line(entry: LeaderboardEntry, columns: Sequence[str]) -> dict[str, Any]:
        averages = board.averages(entry, columns)
        return {
            "name": entry.name,
            "benchmark_average": averages.benchmark,
            "benchmarks": averages.known,
            "of": averages.of,
            "capabilities": averages.capabilities,
            "capability_average": averages.capability,
        }

    eight = _columns(None)
    return {
        "source": board.source,
        "live": board.live,
        "updated": board.updated,
        "notes": board.notes,
        "capability_map": board.capability_map,
        "here": [line(entry, eight) for entry in entries],
        "rows": [{**line(row, eight), **structs.asdict(row)} for row in board.rows],
    }


def _columns(entry: LeaderboardEntry | None) -> list[str]:
    """Return the ids of the eight, and of the four others that a model has a score of."""
    from snellen.benchmarks.spatial.tasks import EIGHT, TASKS

    eight = [TASKS[name].id for name in EIGHT]
    scored = [] if entry is None else [key for key, score in entry.scores.items() if score is not None]
    return [*eight, *(task.id for task in TASKS.values() if task.id in scored and task.id not in eight)]


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
