"""Tables that somebody else published, read from TOML and checked, to be shown beside a run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from math import inf, isfinite
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Published, PublishedRow
from snellen.errors import DataError

Kind: TypeAlias = Literal["chance", "human", "model"]
KINDS: tuple[Kind, ...] = ("chance", "human", "model")


class _PublishedLine(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Kind
    name: str
    values: tuple[float | Literal["-"], ...]


class _PublishedTable(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    source: str
    profile: str
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: tuple[_PublishedLine, ...]
    gold: Mapping[str, str] = {}
    against: str = ""
    numbers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _PublishedFile(Struct, frozen=True, forbid_unknown_fields=True):
    table: tuple[_PublishedTable, ...]


def load(package: str, name: str = "published.toml") -> tuple[Published, ...]:
    """Return the tables in a file that lies in a package.

    Raises:
        DataError: see `read`.
    """
    return read((files(package) / name).read_text("utf-8"), f"{package}, {name}")


def read(text: str, place: str) -> tuple[Published, ...]:
    """Return the tables in the text of a file.

    Each `[[table]]` holds `title`, `source`, `profile`, `columns`, `metrics`, `rows` and `notes`; a row holds `kind`
    (chance, human or model, in this order), `name` and `values` in the order of the columns: fractions, or "-" where
    the table has none. `gold` names, by metric, the revision of the gold answers where there are several. `against` names the
    metric that is also held against the human row, `numbers` those whose values are points or counts. A metric
    `published/…` is none of Snellen's.

    Raises:
        DataError: not TOML, a member is missing or unknown, or a row does not fit its table.
    """
    try:
        tables = msgspec.convert(tomllib.loads(text), _PublishedFile).table
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: {error}", "Correct the file: see snellen.benchmarks.published.read.") from error
    faults = [f"{table.title}: {fault}" for table in tables for fault in _faults(table)]
    if faults:
        raise DataError(f"{place}: {'; '.join(faults)}", "Compare the file with the table that was published.")
    return tuple(
        Published(
            title=table.title,
            source=table.source,
            columns=table.columns,
            metrics=table.metrics,
            profile=table.profile,
            rows=tuple(
                PublishedRow(row.name, row.kind, tuple(None if value == "-" else float(value) for value in row.values))
                for row in table.rows
            ),
            notes=table.notes,
            gold=tuple(table.gold.items()),
            against=table.against,
            numbers=table.numbers,
        )
        for table in tables
    )


def _faults(table: _PublishedTable) -> Iterator[str]:
    for name, metrics in (("gold is", table.gold), ("numbers are", table.numbers)):
        if unknown := [metric for metric in metrics if metric not in table.metrics]:
            yield f"{name} of {', '.join(unknown)}, which is no metric of the table"
    if table.against and (table.against not in table.metrics or not any(row.kind == "human" for row in table.rows)):
        yield f"against is {table.against}: a metric of the table was expected, and a human row"
    if len(table.metrics) != len(table.columns):
        yield f"{len(table.columns)} columns and {len(table.metrics)} metrics"
    for kind, names in (
        ("column", table.columns),
        ("metric", table.metrics),
        ("row", [row.name for row in table.rows]),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield f"{kind} {', '.join(twice)} stands there twice"
    places = [KINDS.index(row.kind) for row in table.rows]
    if places != sorted(places):
        yield f"rows must be in the order {', '.join(KINDS)}"
    for row in table.rows:
        if len(row.values) != len(table.columns):
            yield f"row {row.name} has {len(row.values)} values for {len(table.columns)} columns"
        for metric, value in zip(table.metrics, row.values, strict=False):
            most, kind = (inf, "a number from 0 on") if metric in table.numbers else (1.0, "a fraction from 0 to 1")
            if not isinstance(value, str) and not (0.0 <= value <= most and isfinite(value)):
                yield f"row {row.name}: {value} is not {kind}"
                break


def column(published: Published, member: str) -> Published:
    """Return the table reduced to one member of a suite, whose own run names its metrics without the member in front.

    Rows that have no value there go. Of the notes, those stay that are about these columns, or about no column: a note
    that begins with headings and a colon ("Mat, Trk: …") is about these.

    Args:
        member: the member's short name, `oc-cnt`.

    Raises:
        ValueError: the table has no column of that member.
    """
    places = [at for at, metric in enumerate(published.metrics) if metric.startswith(f"{member}/")]
    if not places:
        raise ValueError(f"{published.title}: no column is of {member!r}; metrics: {', '.join(published.metrics)}")
    columns = tuple(published.columns[at] for at in places)
    rows = tuple(structs.replace(row, values=tuple(row.values[at] for at in places)) for row in published.rows)
    return structs.replace(
        published,
        columns=columns,
        against="",
        metrics=tuple(published.metrics[at].removeprefix(f"{member}/") for at in places),
        numbers=tuple(
            metric.removeprefix(f"{member}/") for metric in published.numbers if metric.startswith(f"{member}/")
        ),
        gold=tuple(
            (metric.removeprefix(f"{member}/"), name)
            for metric, name in published.gold
            if metric.startswith(f"{member}/")
        ),
        rows=tuple(row for row in rows if any(value is not None for value in row.values)),
        notes=tuple(note for note in published.notes if _concerns(note, published.columns, columns)),
    )


def _concerns(note: str, known: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    head, colon, _ = note.partition(": ")
    named = head.split(", ") if colon else []
    return not named or any(name not in known for name in named) or any(name in columns for name in named)
