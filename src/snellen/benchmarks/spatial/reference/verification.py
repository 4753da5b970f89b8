"""EASI's verification table: what its two back ends gave beside what others published, and the rule that it judges by.

Source: EASI v0.2.2, Benchmark_Verification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Published, PublishedRow
from snellen.benchmarks.spatial.prompts.words import SHORT_NAMES
from snellen.toml_text import packaged_toml

Status: TypeAlias = Literal["strong", "acceptable", "beyond"]
STRONG, ACCEPTABLE = 2.5, 5.0
"""Points that a figure may lie from its target, either way, to be strong and to be acceptable: the limits are within."""
HARNESSES: Mapping[str, str] = {"easi": "vlmevalkit", "vlmevalkit": "vlmevalkit", "lmms-eval": "lmms-eval"}
"""Scoring profile to the column of the table that was made by the same rules."""
_DIGITS = 6
FIRST_FORM = "vlmevalkit"
"""What a set is asked in without `-o prompting`."""


class _ModelRow(Struct, frozen=True, forbid_unknown_fields=True):
    model: str
    vlmevalkit: float
    lmms: float | None = msgspec.field(name="lmms-eval", default=None)
    paper: float | None = None
    other: float | None = None
    marked: Mapping[str, Status] = {}
    printed_delta: Mapping[str, float] = {}


class _DataTable(Struct, frozen=True, forbid_unknown_fields=True):
    data: str
    rows: tuple[_ModelRow, ...]
    benchmark: str = ""
    options: Mapping[str, str] = {}
    frames: int | None = None
    metric: str = "overall"
    gold: Mapping[str, str] = {}


class VerificationRow(Struct, frozen=True):
    """One row of the table, in points.

    Attributes:
        data: which questions, as VLMEvalKit calls them.
        benchmark: the same data in Snellen, empty where it is not there.
        options: those of a run that is about the same questions, asked in the same way.
        frames: of each video; None where the table does not say, or nothing moves.
        metric: what the figures are, by the payload's key.
        model: the model's name on the hub without its organisation.
        paper, other: what papers have, and the authors' code or another report.
        measured: harness to the figure that EASI got with it.
        marked: harness to the status that the table prints.
        printed_delta: harness to the difference that the table prints where that is not the figure's.
        gold: column to the gold answers that its figures rest on, where there are several revisions.
    """

    data: str
    benchmark: str
    options: Mapping[str, str]
    frames: int | None
    metric: str
    model: str
    paper: float | None
    other: float | None
    measured: Mapping[str, float]
    marked: Mapping[str, Status]
    printed_delta: Mapping[str, float]
    gold: Mapping[str, str]

    @property
    def target(self) -> float | None:
        """The figure to compare with: `other` where it is there, else the paper's; None where neither is."""
        return self.paper if self.other is None else self.other

    @property
    def target_from(self) -> str:
        """`other`, `paper`, or empty."""
        return "other" if self.other is not None else "paper" if self.paper is not None else ""

    def delta(self, points: float) -> float | None:
        """Return the points by which a figure lies above the target."""
        return None if self.target is None else round(points - self.target, _DIGITS)


def status(delta: float) -> Status:
    """Return the rule: within 2.5 points strong, within 5.0 acceptable, else beyond."""
    away = abs(round(delta, _DIGITS))  # 28.6 - 26.1 is a little more than 2.5 in binary
    return "strong" if away <= STRONG else "acceptable" if away <= ACCEPTABLE else "beyond"


@cache
def checks() -> tuple[VerificationRow, ...]:
    """Return the rows of the table, in its order."""
    whole = packaged_toml("snellen.benchmarks.spatial.reference", "verification.toml")
    tables = msgspec.convert(whole["table"], tuple[_DataTable, ...])
    return tuple(_check(table, row) for table in tables for row in table.rows)


def _check(table: _DataTable, row: _ModelRow) -> VerificationRow:
    figures = {"vlmevalkit": row.vlmevalkit} | ({} if row.lmms is None else {"lmms-eval": row.lmms})
    judged = row.paper is not None or row.other is not None
    marks: dict[str, Status] = {name: row.marked.get(name, "strong") for name in figures} if judged else {}
    return VerificationRow(
        table.data,
        table.benchmark,
        table.options,
        table.frames,
        table.metric,
        row.model,
        row.paper,
        row.other,
        figures,
        marks,
        row.printed_delta,
        table.gold,
    )


def by_benchmark() -> list[tuple[str, Published]]:
    """Return the rows as tables, one for each data set, with the benchmark in Snellen that has its questions or none."""
    columns = ("paper", "other", "vlmevalkit", "lmms-eval")
    found = []
    for (data, benchmark), group in groupby(checks(), lambda row: (row.data, row.benchmark)):
        rows = list(group)
        figures = [(row.paper, row.other, *map(row.measured.get, columns[2:])) for row in rows]
        lines = (
            PublishedRow(row.model, "model", tuple(None if value is None else value / 100 for value in values))
            for row, values in zip(rows, figures, strict=True)
        )
        metrics = tuple(f"{rows[0].metric}/{name}" for name in columns)
        title, source = f"EASI, verification: {data}", "EASI v0.2.2, docs/Benchmark_Verification.md"
        found.append((benchmark, Published(title, source, columns, metrics, "easi", tuple(lines))))
    return found


def verification_rows(
    benchmark: str, frames: int | None, options: Mapping[str, str] | None = None
) -> Sequence[VerificationRow]:
    """Return the rows about a benchmark, of videos those with as many frames; with `options`, those of a run's options.

    An option that the run does not have has the value that the benchmark takes without it: the first form, all subsets.
    """
    return [
        check
        for check in checks()
        if check.benchmark == benchmark
        and (check.frames is None or frames is None or check.frames == frames)
        and (options is None or all(_value(options, name) == _value(check.options, name) for name in check.options))
    ]


def _value(options: Mapping[str, str], name: str) -> str:
    """Return an option's value in one spelling: forms by their full names, subsets in alphabetical order."""
    value = options.get(name, FIRST_FORM if name == "prompting" else "")
    return SHORT_NAMES.get(value, value) if name == "prompting" else ",".join(sorted(value.replace(" ", "").split(",")))


def same_model(typed: str, listed: str) -> bool:
    """Return True if a model as a user names it (`local:org/Model`, `api:model`, a path) is the one of a table.

    The last part of the path decides, whatever its case. `-Instruct` is part of a name.
    """
    name = typed.partition(":")[2] or typed
    return name.rstrip("/\\").replace("\\", "/").rpartition("/")[2].casefold() == listed.casefold()
