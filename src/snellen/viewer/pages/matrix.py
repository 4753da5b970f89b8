"""The matrix page: models by benchmarks, or the runs of one benchmark by its parts, as a dot plot or a heat map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from snellen.errors import UsageError
from snellen.reports.tables import THRESHOLD, format_percent
from snellen.scoring.metric_text import counted
from snellen.types import Metric
from snellen.viewer.comparison import MOST_COMPARED
from snellen.viewer.index import RunEntry
from snellen.viewer.labels import benchmark_label, model_label
from snellen.viewer.links import Links, path_of
from snellen.viewer.score_matrix import (
    BY_MEAN,
    BY_NAME,
    FRACTION,
    MatrixCell,
    MatrixRow,
    ScoreAxis,
    ScoreMatrix,
    benchmark_cells,
    build_matrix,
    part_cells,
    score_axis,
    slice_cells,
    slice_names,
    sort_rows,
)
from snellen.viewer.site import MissingPageError, Site, ViewPage
from snellen.viewer.states import CompareState, MatrixState, SamplesState

MOST_ROWS = 60
"""Rows of a page, unless all are asked for."""
COLOURED = 8
"""More rows than this have one colour, because the series' colours repeat."""


@dataclass(frozen=True)
class OptionLink:
    """One link of a group of links, of which one is current."""

    label: str
    address: str
    current: bool
    count: str = ""


@dataclass(frozen=True)
class ShownCell:
    """A cell as the template writes it; `fields` are those of the reports' tracks."""

    fields: Mapping[str, Any]
    tone: int | None
    n: str
    partial: str
    remark: str
    address: str
    others: int
    value: str


@dataclass(frozen=True)
class ShownRow:
    """A row as the template writes it."""

    label: str
    detail: str
    select: str
    colour: int
    cells: tuple[ShownCell | None, ...]
    mean: ShownCell | None
    coverage: str
    whole: bool
    missing: str


@dataclass(frozen=True)
class ShownColumn:
    """A column as the template writes it: ends of its scale, links to its own matrix and to a comparison of its runs."""

    name: str
    label: str
    ends: tuple[str, str]
    sort: OptionLink
    address: str = ""
    compare: str = ""
    cells: int = 0
    order: str = "none"


@dataclass(frozen=True)
class Selection:
    """The form of the selected rows: name of its checkboxes, paths that compare them and show them alone, and its fields.

    `every` is the address that compares all rows; empty where these are too many.
    """

    name: str
    action: str
    only: str
    hidden: tuple[tuple[str, str], ...] = ()
    every: str = ""


@dataclass(frozen=True)
class MatrixData:
    """Matrix, and the rows' runs by column, before it is put into words."""

    matrix: ScoreMatrix
    entries: tuple[RunEntry, ...]
    profiles: tuple[str, ...]
    fields: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = field(default=())
    rows: int = 0
    """Rows before the best of them were taken."""


def view(site: Site, state: MatrixState) -> Mapping[str, Any]:
    """Make the matrix that an address asks for."""
    if not site.live:
        state = state.static()
    entries = [entry for entry in site.index.runs() if entry.benchmark and not entry.judges]
    counts = Counter(entry.benchmark for entry in entries)
    if state.benchmark and state.benchmark not in counts:
        raise MissingPageError(
            f"no run of the benchmark {state.benchmark!r} is here", "Choose one of the benchmarks on the page Matrix."
        )
    data = part_matrix(site, entries, state) if state.benchmark else model_matrix(entries, state)
    matrix = sort_rows(data.matrix, state.sort, down=(state.sort == BY_NAME) == state.up)
    every = state.every or not site.live
    if not every:
        matrix = replace(matrix, rows=matrix.rows[:MOST_ROWS])
    axes = [
        score_axis(
            (row.cells[place].metric for row in matrix.rows if row.cells[place] is not None),  # type: ignore[union-attr]
            column.unit,
            fitted=state.scale == "fit",
        )
        for place, column in enumerate(matrix.columns)
    ]
    by_key = {entry.key: entry for entry in data.entries}
    links = site.links
    rows = [_shown_row(links, state, matrix, row, place, axes, by_key) for place, row in enumerate(matrix.rows)]
    return {
        "columns": _shown_columns(links, state, matrix, axes),
        "rows": rows,
        "title": benchmark_label(state.benchmark),
        "mean_name": matrix.mean_name,
        "mean_sort": _sort_choice(links, state, BY_MEAN, matrix.mean_name),
        "mean_order": _order(state, BY_MEAN),
        "name_sort": _sort_choice(links, state, BY_NAME, "run" if state.benchmark else "model"),
        "name_order": _order(state, BY_NAME),
        "notes": (*data.notes, *matrix.notes),
        "benchmarks": [
            OptionLink("all benchmarks", links.to(MatrixState(view=state.view)), not state.benchmark),
            *(
                OptionLink(
                    benchmark_label(name),
                    links.to(MatrixState(benchmark=name, view=state.view)),
                    name == state.benchmark,
                    f"{n:,}",
                )
                for name, n in sorted(counts.items())
            ),
        ],
        "groups": _option_groups(links, state, data, live=site.live),
        "selection": _selection(links, state, data),
        "runs": data.rows if state.benchmark else len(data.entries),
    }


def model_matrix(entries: Sequence[RunEntry], state: MatrixState) -> MatrixData:
    """Make the matrix of models by benchmarks."""
    listed = [entry for entry in entries if not state.models or entry.model in state.models]
    cells = benchmark_cells(listed, state.profile, by_settings=state.rows == "settings")
    columns = sorted({entry.benchmark for entry in listed})
    if state.columns:
        columns = [name for name in columns if name in state.columns]
    matrix = build_matrix(
        {row: row_cells for row, names in cells.items() if (row_cells := {c: names[c] for c in columns if c in names})},
        columns,
        labels={name: benchmark_label(name) for name in columns},
        mean_over=None if state.mean == "none" else state.mean,
    )
    notes = []
    if overlapping := [name for name in columns if any(other.startswith(f"{name}/") for other in columns)]:
        notes.append(
            f"{', '.join(map(benchmark_label, overlapping))} holds samples of other columns, so the columns are not independent and the "
            "interval of a mean is too narrow."
        )
    if not state.profile and len({profiles[0] for entry in listed if (profiles := entry.profiles)}) > 1:
        notes.append("Each benchmark is scored under its own default profile.")
    return MatrixData(matrix, tuple(listed), _profiles(entries), notes=tuple(notes), rows=len(matrix.rows))


def part_matrix(site: Site, entries: Sequence[RunEntry], state: MatrixState) -> MatrixData:
    """Make the matrix of one benchmark's runs by its metrics, or by a field of its samples' meta."""
    listed = [
        entry
        for entry in entries
        if entry.benchmark == state.benchmark
        and (not state.models or entry.model in state.models)
        and (not state.runs or entry.key in state.runs)
    ]
    fields = slice_names(site.index, listed, state.profile)
    independent = bool(state.by)
    total = len(listed)
    if site.live and not state.every:
        listed = sorted(listed, key=best_first)[:MOST_ROWS]
    notes: list[str] = []
    if state.by:
        if state.by not in dict(fields):
            raise UsageError(
                f"{state.benchmark} has no field {state.by!r} with 2 to 40 values",
                f"It has: {', '.join(name for name, _ in fields) or 'none'}.",
            )
        cells, columns = slice_cells(site.index, listed, state.profile, state.by)
        labels = {name: name.partition("=")[2] for name in columns}
        mean_columns = columns
    else:
        cells, columns = part_cells(listed, state.profile, every=state.parts == "all")
        head = columns[0] if columns else ""
        labels = {name: name.removeprefix(f"{head}/").replace("/", " · ") for name in columns}
        mean_columns = ()
    if state.columns:
        columns = tuple(name for name in columns if name in state.columns)
        cells = {row: {name: cell for name, cell in names.items() if name in columns} for row, names in cells.items()}
    if state.benchmark and len({entry.sample_source for entry in listed}) > 1:
        notes.append("Version, data, options or seed of these runs differ, and so do their samples.")
    missing = [entry.key for entry in listed if state.profile and state.profile not in entry.metrics]
    if missing:
        notes.append(
            f"Without scores under {state.profile}: {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}."
        )
    matrix = build_matrix(
        cells,
        columns,
        labels=labels,
        mean_over=None if state.mean == "none" else state.mean,
        mean_columns=mean_columns,
        independent=independent,
    )
    return MatrixData(matrix, tuple(listed), _profiles(listed), fields, tuple(notes), total)


def best_first(entry: RunEntry) -> tuple[object, ...]:
    """Sort key of runs: complete ones first, then those with the highest headline."""
    value = None if entry.headline is None else entry.headline.value
    return (not entry.complete, value is None, -(value or 0.0), entry.key)


def _profiles(entries: Sequence[RunEntry]) -> tuple[str, ...]:
    """Return the profiles of runs, those of most runs first."""
    counts = Counter(profile for entry in entries for profile in entry.profiles)
    return tuple(name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _shown_row(
    links: Links,
    state: MatrixState,
    matrix: ScoreMatrix,
    row: MatrixRow,
    place: int,
    axes: Sequence[ScoreAxis],
    by_key: Mapping[str, RunEntry],
) -> ShownRow:
    cells = tuple(
        None if cell is None else _shown_cell(links, state, cell, axis, by_key[cell.key])
        for cell, axis in zip(row.cells, axes, strict=True)
    )
    mean = None
    if row.mean.value is not None:
        metric = Metric("mean", row.mean.value, row.mean.n, row.mean.ci95, coverage=row.mean.n / row.mean.of)
        axis = score_axis([metric], FRACTION, fitted=False)
        mean = ShownCell(axis.fields(metric), axis.tone(metric), "", "", "", "", 0, f"{row.mean.value:.6f}")
    labels = {column.name: column.label for column in matrix.columns}
    missing = [f"missing: {', '.join(labels[name] for name in row.missing)}"] if row.missing else []
    if row.partial:
        missing.append(f"on part of the samples: {', '.join(labels[name] for name in row.partial)}")
    return ShownRow(
        model_label(row.name),
        row.detail,
        (row.keys[0] if state.benchmark else row.name) if row.keys else "",
        place % COLOURED + 1 if len(matrix.rows) <= COLOURED else 1,
        cells,
        mean,
        f"{row.mean.n} of {row.mean.of}" if matrix.mean_over else "",
        row.whole,
        "; ".join(missing),
    )


def _shown_cell(links: Links, state: MatrixState, cell: MatrixCell, axis: ScoreAxis, entry: RunEntry) -> ShownCell:
    metric = cell.metric
    partial = ""
    if cell.partial:
        coverage = min(metric.coverage, 1.0 if entry.coverage is None else entry.coverage)
        partial = f"{format_percent(coverage)} of the samples"
    return ShownCell(
        axis.fields(metric),
        axis.tone(metric)
        if metric.unit == FRACTION or (state.scale == "fit" and not metric.name.startswith(THRESHOLD))
        else None,
        counted(metric.n, metric.interval),
        partial,
        cell.remark,
        links.to(SamplesState(benchmark=entry.benchmark, runs=(entry.key,), profile=state.profile)),
        len(cell.others),
        "" if metric.value is None else f"{metric.value:.6f}",
    )


def _shown_columns(
    links: Links, state: MatrixState, matrix: ScoreMatrix, axes: Sequence[ScoreAxis]
) -> list[ShownColumn]:
    columns = []
    for place, (column, axis) in enumerate(zip(matrix.columns, axes, strict=True)):
        address = compare = ""
        if not state.benchmark:
            address = links.to(MatrixState(benchmark=column.name, profile=state.profile, view=state.view))
            keys = [cell.key for row in matrix.rows if (cell := row.cells[place]) is not None]
            if len(keys) > 1:
                compare = links.to(CompareState(runs=tuple(keys[:MOST_COMPARED]), profile=state.profile))
        columns.append(
            ShownColumn(
                column.name,
                column.label,
                axis.ends,
                _sort_choice(links, state, column.name, column.label),
                address,
                compare,
                column.cells,
                _order(state, column.name),
            )
        )
    return columns


def _sort_choice(links: Links, state: MatrixState, column: str, label: str) -> OptionLink:
    """Return the link that sorts by a column; pressing it again turns the order around."""
    current = state.sort == column
    return OptionLink(label, links.to(state.changed(sort=column, up=current and not state.up)), current)


def _order(state: MatrixState, column: str) -> str:
    """Return the value of aria-sort."""
    if state.sort != column:
        return "none"
    return "ascending" if (column == BY_NAME) != state.up else "descending"


def _option_groups(
    links: Links, state: MatrixState, data: MatrixData, *, live: bool
) -> list[tuple[str, list[OptionLink]]]:
    """Return the groups of links that change the page; an export has those that its pages are made for."""

    def group(name: str, **choices: str) -> list[OptionLink]:
        return [
            OptionLink(label, links.to(state.changed(**{name: value})), getattr(state, name) == value)
            for value, label in choices.items()
        ]

    groups = [("view", group("view", dots="dot plot", heat="heat map"))]
    if len(data.profiles) > 1:
        groups.append(
            (
                "profile",
                [
                    OptionLink(name or "default", links.to(state.changed(profile=name)), name == state.profile)
                    for name in ("", *data.profiles)
                ],
            )
        )
    if not live:
        return groups
    if state.benchmark:
        columns = [
            OptionLink(
                "its metrics",
                links.to(state.changed(by="", parts="headline")),
                not state.by and state.parts == "headline",
            ),
            OptionLink(
                "all metrics", links.to(state.changed(by="", parts="all")), not state.by and state.parts == "all"
            ),
        ]
        columns += [
            OptionLink(name, links.to(state.changed(by=name, sort="mean")), name == state.by, f"{count}")
            for name, count in data.fields
        ]
        groups.insert(0, ("columns", columns))
    else:
        groups.append(("rows", group("rows", models="one a model", settings="one a setting")))
    if data.rows > MOST_ROWS:
        count = f"{data.rows:,}"
        few = OptionLink(f"the best {MOST_ROWS} of {count}", links.to(state.changed(every=False)), not state.every)
        groups.append(("rows", [few, OptionLink(f"all {count}", links.to(state.changed(every=True)), state.every)]))
    if state.models or state.runs:
        alone = OptionLink("only the selected", links.to(state), True)
        groups.append(("rows", [alone, OptionLink("all", links.to(state.changed(models=(), runs=())), False)]))
    groups.append(("mean", group("mean", all="over all", shared="over shared columns", none="none")))
    groups.append(("scale", group("scale", full="0 to 100 %", fit="fitted to each column")))
    return groups


def _selection(links: Links, state: MatrixState, data: MatrixData) -> Selection | None:
    """Return the form that compares selected rows; None for fewer than two rows. All are compared if their samples are equal."""
    matrix = data.matrix
    if len(matrix.rows) < 2:
        return None
    keys = tuple(row.keys[0] for row in matrix.rows if row.keys) if state.benchmark else ()
    alike = len({entry.sample_source for entry in data.entries if entry.key in keys}) == 1
    every = ""
    if alike and 2 <= len(keys) <= MOST_COMPARED:
        every = links.to(CompareState(runs=keys, profile=state.profile))
    fields = ("benchmark", "profile", "view", "by", "scale")
    default = MatrixState()
    hidden = tuple((name, value) for name in fields if (value := getattr(state, name)) != getattr(default, name))
    name = "runs" if state.benchmark else "models"
    return Selection(name, path_of(CompareState.page), path_of(MatrixState.page), hidden, every)


PAGE = ViewPage(state=MatrixState, view=view, title="Matrix")
