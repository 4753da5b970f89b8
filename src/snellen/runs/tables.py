"""Several runs in one table, a row for each model and a column for each metric of a benchmark; as LaTeX, Markdown, CSV and JSON.

Files of tables: the format follows from the file's suffix or is named, and the two must agree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby, islice, product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.atomic_write import write_whole
from snellen.engine.output_file import FORMS, require_output_file
from snellen.engine.run_folder import RunFolder
from snellen.errors import SnellenError, UsageError
from snellen.formats.latex import latex_number, latex_table, latex_text
from snellen.redaction import redact
from snellen.runs.answer_view import run_names
from snellen.runs.caveats import caveats, changed_settings
from snellen.runs.compare import questions_of
from snellen.runs.compared_runs import ComparedRun
from snellen.runs.run import Run, load_run
from snellen.runs.run_paths import find_runs
from snellen.runs.status import present_state
from snellen.scoring import statistics
from snellen.scoring.metric_text import percent
from snellen.scoring.scores import Scores
from snellen.text import csv_text, one_line, pretty_json
from snellen.types import Generation, MediaSettings, Metric

RULE = (
    "better than every other value of its column by more than chance "
    "(paired 95 % interval of each difference above 0; without pairs, intervals that do not overlap)"
)

_SHARES_OF_FAILURES = frozenset({"invalid", "error", "wrong", "partial", "unscored", "unjudged", "refused"})
_HIGHER_IS_BETTER = frozenset(
    {"accuracy", "acc", "aacc", "facc", "qacc", "score", "f1", "precision", "recall", "anls", "map", "overall", "mean"}
)
_SLICES = 64
"""Sets of meta values that are tried for the rows of a metric."""


class ColumnRun(NamedTuple):
    """A run with its metric of the column."""

    run: Run
    metric: Metric


ScoreCache: TypeAlias = MutableMapping[tuple[Path, str], Scores]
"""Scores of runs that were scored already, by folder and profile."""


def best_run(runs: Sequence[ColumnRun], profile: str, cache: ScoreCache, *, headline: bool) -> int | None:
    """Return the number of the run with the highest value, if it is better than each other run by more than chance.

    Two runs are paired by question if the metric is a mean of scores, over all samples or over a slice. Then the
    paired 95 % interval of the difference must lie above 0, and the test's p below 0.05. The best run must have
    answered every question that the other one has. For other metrics, such as F1, the two intervals must not overlap.
    No correction for several comparisons is needed, since all of them must agree. Equal values give None.

    Args:
        runs: of the same questions.
        cache: scores of other columns, and afterwards of this one.
        headline: the metric is the benchmark's first one, so that more is better.
    """
    valued = [number for number, item in enumerate(runs) if item.metric.value is not None]
    if len(valued) < 2:
        return None
    first, *others = sorted(valued, key=lambda number: -(runs[number].metric.value or 0.0))
    best = runs[first]
    if _failure_share(best.metric.name) or best.metric.unit not in ("fraction", "points"):
        return None
    if all(_better(best, runs[number], profile, cache, headline=headline) for number in others):
        return first
    return None


def _failure_share(metric: str) -> bool:
    return not _SHARES_OF_FAILURES.isdisjoint(metric.split("/"))


def _better(best: ColumnRun, other: ColumnRun, profile: str, cache: ScoreCache, *, headline: bool) -> bool:
    if best.metric.value == other.metric.value:
        return False
    try:
        pair = _paired(best, other, profile, cache)
    except SnellenError:  # the data are no longer there
        pair = None
    if pair is not None:
        a, b, group = pair
        comparison = statistics.compare(a, b, group)
        return comparison.ci95 is not None and comparison.ci95[0] > 0.0 and comparison.p_value < 0.05
    words = set(best.metric.name.replace("/", "_").split("_"))
    if not headline and words.isdisjoint(_HIGHER_IS_BETTER):
        return False
    if best.metric.ci95 is None or other.metric.ci95 is None or best.metric.coverage < other.metric.coverage:
        return False
    return best.metric.ci95[0] > other.metric.ci95[1]


class _QuestionMeans(NamedTuple):
    """Scores by question, [q] each: code, mean over repeats, cluster."""

    code: NDArray[np.int64]
    mean: NDArray[np.float64]
    group: NDArray[np.int64]


def _paired(
    best: ColumnRun, other: ColumnRun, profile: str, cache: ScoreCache
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]] | None:
    """Return both runs' scores by question and the clusters; None if the metric is no mean of scores in both.

    None too if the other run has a question that the best one lacks: the mean over fewer questions may be higher
    because they are easier.
    """
    means = []
    for run, metric in (best, other):
        rows = _rows_of(metric, _scores(run, profile, cache))
        if rows is None:
            return None
        means.append(_by_question(rows))
    a, b = means
    if not np.isin(b.code, a.code).all():
        return None
    _, at_a, at_b = np.intersect1d(a.code, b.code, assume_unique=True, return_indices=True)
    return a.mean[at_a], b.mean[at_b], a.group[at_a]


def _rows_of(metric: Metric, scores: Scores) -> Scores | None:
    """Return the rows whose mean score is the metric; None if there are no such rows.

    `accuracy/short/species` is looked for among rows whose meta has the values short and species.
    """
    choices = []
    for part in metric.name.split("/"):
        columns = [name for name, column in scores.meta.items() if part in column.names]
        choices.append([None, *((name, part) for name in columns)])
    for choice in islice(product(*(reversed(part) for part in choices)), _SLICES):
        filters = dict(pair for pair in choice if pair is not None)
        rows = scores.where(**filters) if filters else scores
        value, counted = statistics.scored(rows)
        if int(counted.sum()) == metric.n and np.isclose(value[counted].mean(), metric.value or 0.0, rtol=0, atol=1e-9):
            return rows.select(counted)
    return None


def _by_question(rows: Scores) -> _QuestionMeans:
    value, _ = statistics.scored(rows)
    code, first, index = np.unique(rows.question, return_index=True, return_inverse=True)
    index = index.reshape(-1)
    mean = np.bincount(index, weights=value, minlength=len(code)) / np.bincount(index, minlength=len(code))
    return _QuestionMeans(code, mean, rows.group[first])


def _scores(run: Run, profile: str, cache: ScoreCache) -> Scores:
    key = (run.path, profile)
    if key not in cache:
        cache[key] = ComparedRun(run).scores(profile)
    return cache[key]


class TableColumn(NamedTuple):
    """One metric of one benchmark under one profile."""

    benchmark: str
    profile: str
    metric: str


class TableCell(Struct, frozen=True):
    """One run's metric: the run's folder, whether it is the column's best, and remarks that a reader must know."""

    metric: Metric
    run: str
    best: bool = False
    remarks: tuple[str, ...] = ()


class TableRow(Struct, frozen=True):
    """One model; `label` is its name, or the names of its runs where several rows have that model."""

    label: str
    model: str
    cells: tuple[TableCell | None, ...]


class ResultTable(Struct, frozen=True):
    """Metrics of several runs; `notes` name what was left out."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()


class _OpenRun(NamedTuple):
    """A run with its name, its model, the profiles to show, and their metrics."""

    run: Run
    name: str
    model: str
    benchmark: str
    figures: Mapping[str, Sequence[Metric]]
    remarks: tuple[str, ...]


def result_table(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    metrics: Sequence[str] = (),
    profile: str | None = None,
    labels: Mapping[str, str] | None = None,
    trust: bool = False,
) -> ResultTable:
    """Collect metrics of several runs in one table.

    Runs of one model by several benchmarks share a row. Where two rows would have one name, as with two runs of one
    model by one benchmark, the rows are named after the runs' folders.

    Args:
        runs: runs, or their folders. Of several paths, those that hold no run are left out and named in the notes.
        metrics: names of metrics; `*` stands for any text. Empty: the first metric of each benchmark.
        profile: a scoring profile, several by comma, or `all`; None: each benchmark's first.
        labels: name of a model or run to the text that the table shows in its place.
        trust: as for `load_run`.

    Raises:
        UsageError: no run has such a metric, a benchmark has no such profile, or a label names no row.
        RunError: there is no run. SnellenError: a run cannot be scored.
    """
    several = [runs] if isinstance(runs, str | Path | Run) else list(runs)
    opened, notes = open_runs(several, trust=trust)
    entries, judged = _entries(opened, profile)
    columns = _columns(entries, metrics)
    rows = _rows(entries)
    cache: ScoreCache = {}
    cells = {column: _cells(column, entries, cache) for column in columns}
    table_rows = [
        TableRow(label, group[0].model, tuple(_in_row(cells[column], group) for column in columns))
        for label, group in rows
    ]
    table_rows = [row for row in table_rows if any(row.cells)]
    return ResultTable(tuple(columns), tuple(_relabel(table_rows, labels or {})), (*notes, *judged))


def open_runs(runs: Sequence[str | Path | Run], *, trust: bool = False) -> tuple[list[Run], list[str]]:
    """Open runs, and those in folders of runs; of several paths, name those that exist and hold none.

    So `results/*` may have other files and folders next to the runs.

    Raises:
        RunError: a path does not exist, or none of them holds a run.
    """
    notes: list[str] = []
    given = {run.path: run for run in runs if isinstance(run, Run)}
    paths = [run.path if isinstance(run, Run) else run for run in runs]
    folders = find_runs(paths, verdicts=True, say=notes.append)
    return [given.get(folder) or load_run(folder, trust=trust) for folder in folders], notes


def _entries(opened: Sequence[Run], profile: str | None) -> tuple[list[_OpenRun], list[str]]:
    """Return runs with their metrics; a judge's run is left out if the run that it judged is there too."""
    places = {run.path.resolve() for run in opened}
    entries, notes = [], []
    for run, name in zip(opened, run_names([run.path for run in opened]), strict=True):
        model, benchmark = run.meta.spec.model_with_adapter, run.benchmark.name
        source = run.meta.spec.data.path
        if run.meta.judges and source is not None:
            if source.resolve() in places and len(opened) > 1:
                notes.append(f"{run.path} holds verdicts about another run of the table and is left out")
                continue
            try:
                judged = RunFolder(source).meta().spec
                named = Path(judged.benchmark)
                subject = named.name if named.is_absolute() else judged.benchmark
                model, benchmark = judged.model_with_adapter, f"{subject}, judged by {run.meta.spec.model}"
            except SnellenError:
                notes.append(f"{run.path} holds verdicts about a run that is no longer there")
        figures = run.figures(profile)
        by_verdicts = [f"{each}: {run.benchmark.profiles[each]}" for each in figures if each in run.judged_by_rubric]
        entries.append(_OpenRun(run, name, model, benchmark, figures, (*_remarks(run), *by_verdicts)))
    return entries, notes


def _remarks(run: Run) -> tuple[str, ...]:
    """Return what a reader of a run's metrics must know, such as how much of the benchmark was run."""
    known = caveats(run.sized_meta, run.benchmark, state=present_state(run.path, run.sized_meta))
    # How a file's columns were read is no caveat of a figure; rows that were left out of it are told by `part`.
    texts = (
        *(caveat.text for caveat in known if caveat.about != "data"),
        _sizes(run),
        run.unverified,
        run.other_judge(),
    )
    return tuple(filter(None, texts))


def _sizes(run: Run) -> str:
    """Return the limits of its images' size that a run was given; empty without any."""
    media = run.meta.spec.options.media
    limits = structs.replace(MediaSettings(), max_long_side=media.max_long_side, max_pixels=media.max_pixels)
    changed = changed_settings(limits, Generation())
    return f"images with {', '.join(changed)}" if changed else ""


def _columns(entries: Sequence[_OpenRun], patterns: Sequence[str]) -> list[TableColumn]:
    """Return the columns, benchmark by benchmark, metrics of each in the order of the patterns."""
    by_benchmark: dict[str, dict[str, dict[str, None]]] = {}
    for entry in entries:
        profiles = by_benchmark.setdefault(entry.benchmark, {})
        for profile, metrics in entry.figures.items():
            profiles.setdefault(profile, {}).update(dict.fromkeys(metric.name for metric in metrics))
    known = list(dict.fromkeys(n for profiles in by_benchmark.values() for names in profiles.values() for n in names))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UsageError(
                f"no run has a metric {pattern!r}",
                f"There is: {', '.join(known[:40])}{' …' if len(known) > 40 else ''}.",
            ).near(pattern, known)
    columns: dict[TableColumn, None] = {}
    for benchmark, profiles in by_benchmark.items():
        for profile, names in profiles.items():
            chosen = [n for p in patterns for n in names if fnmatchcase(n, p)] if patterns else list(names)[:1]
            columns |= dict.fromkeys(TableColumn(benchmark, profile, name) for name in chosen)
    return list(columns)


def _rows(entries: Sequence[_OpenRun]) -> list[tuple[str, list[_OpenRun]]]:
    """Return (label, runs) of each row."""
    groups: dict[tuple[str, object], list[_OpenRun]] = {}
    for entry in entries:
        media = entry.run.meta.spec.options.media
        groups.setdefault((entry.model, (media.blank, media.corrupt)), []).append(entry)
    rows: list[list[_OpenRun]] = []
    for group in groups.values():
        twice = max(Counter(entry.benchmark for entry in group).values()) > 1
        rows += [[entry] for entry in group] if twice else [group]
    times = Counter(group[0].model for group in rows)
    return [
        (group[0].model if times[group[0].model] == 1 else ", ".join(entry.name for entry in group), group)
        for group in rows
    ]


def _cells(column: TableColumn, entries: Sequence[_OpenRun], cache: ScoreCache) -> dict[str, TableCell]:
    """Return the cells of a column by the run's name, the best of them marked."""
    known: list[tuple[_OpenRun, Metric]] = []
    for entry in entries:
        if entry.benchmark == column.benchmark:
            known += [(entry, m) for m in entry.figures.get(column.profile, ()) if m.name == column.metric][:1]
    identities = [_identity(entry.run) for entry, _ in known]
    cells = {}
    for (entry, metric), identity in zip(known, identities, strict=True):
        remarks = list(entry.remarks)
        if metric.coverage < 1.0:
            remarks.insert(0, f"coverage {percent(metric.coverage)} %")
        if identity != identities[0]:
            remarks.append(f"other data or version than {known[0][0].name}, not comparable")
        cells[entry.name] = TableCell(metric, entry.name, remarks=tuple(remarks))
    if len(known) > 1 and all(identity == identities[0] for identity in identities):
        first = known[0][0].figures[column.profile][0].name == column.metric
        runs = [ColumnRun(entry.run, metric) for entry, metric in known]
        if (best := best_run(runs, column.profile, cache, headline=first)) is not None:
            name = known[best][0].name
            cells[name] = structs.replace(cells[name], best=True)
    return cells


def _identity(run: Run) -> object:
    """Return what tells the questions of two runs apart."""
    try:
        return questions_of(run.meta)
    except SnellenError:  # the run that was judged is gone
        return run.path


def _in_row(cells: Mapping[str, TableCell], group: Sequence[_OpenRun]) -> TableCell | None:
    return next((cells[entry.name] for entry in group if entry.name in cells), None)


def _relabel(rows: Sequence[TableRow], labels: Mapping[str, str]) -> Iterator[TableRow]:
    """Yield rows with the user's labels. Raises UsageError for a label of no row."""
    first_runs = [next((cell.run for cell in row.cells if cell), "") for row in rows]
    names = {row.label for row in rows} | {row.model for row in rows} | set(first_runs)
    for name in labels:
        if name not in names:
            raise UsageError(
                f"--label {name}: the table has no such model", f"It has: {', '.join(sorted(names))}."
            ).near(name, names)
    for row, run in zip(rows, first_runs, strict=True):
        label = next((labels[name] for name in (row.label, run, row.model) if name in labels), row.label)
        yield structs.replace(row, label=label)


_MARKDOWN = re.compile(r"([\\`*_\[\]<>#|~$&])")


class _Layout(NamedTuple):
    """What LaTeX and Markdown tables share.

    Attributes:
        heads: for each column the metric with its unit, then n and chance where they are the same in all rows.
        groups: benchmark (and profile), and the number of its columns that follow each other.
        marks: remark to its mark, a, b, c …
        legend: what brackets, bold and profiles mean, one sentence each.
    """

    heads: list[tuple[str, str]]
    groups: list[tuple[str, int]]
    marks: dict[str, str]
    legend: list[str]


def _layout(table: ResultTable) -> _Layout:
    several = _benchmarks_of_several_profiles(table)
    heads, groups, remarks = [], [], dict[str, None]()
    for at, column in enumerate(table.columns):
        metrics = [cell.metric for row in table.rows if (cell := row.cells[at]) is not None]
        heads.append((f"{column.metric}{_unit(metrics)}", _shared(metrics)))
    for title, columns in groupby(_benchmark_title(column, several) for column in table.columns):
        groups.append((title, len(list(columns))))
    for row in table.rows:
        remarks |= dict.fromkeys(_remark(cell) for cell in row.cells if cell is not None and cell.remarks)
    profiles = dict.fromkeys(f"{column.benchmark}: {column.profile}" for column in table.columns)
    legend = [f"Scoring profile: {', '.join(profiles)}."]
    cells = [cell for row in table.rows for cell in row.cells if cell is not None]
    if any(cell.metric.ci95 is not None for cell in cells):
        legend.append("In brackets: 95 % intervals.")
    if len(table.rows) > 1:
        legend.append(f"Bold{'' if any(cell.best for cell in cells) else ' (none here)'}: {RULE}.")
    return _Layout(heads, groups, {remark: _mark(number) for number, remark in enumerate(remarks)}, legend)


def _benchmarks_of_several_profiles(table: ResultTable) -> set[str]:
    pairs = {(column.benchmark, column.profile) for column in table.columns}
    return {name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1}


def _benchmark_title(column: TableColumn, several: set[str]) -> str:
    return f"{column.benchmark}, {column.profile}" if column.benchmark in several else column.benchmark


def _unit(metrics: Sequence[Metric]) -> str:
    units = dict.fromkeys("%" if metric.unit == "fraction" else metric.unit for metric in metrics)
    return f" ({', '.join(units)})" if units else ""


def _shared(metrics: Sequence[Metric]) -> str:
    """Return n and chance as far as they are the same in all rows."""
    sizes = {metric.n for metric in metrics}
    chances = {metric.chance for metric in metrics}
    texts = [f"n = {sizes.pop():,}"] if len(sizes) == 1 else []
    if len(chances) == 1 and (chance := chances.pop()) is not None:
        texts.append(f"chance {_number(chance, metrics[0].unit, 1)}")
    return ", ".join(texts)


def _remark(cell: TableCell) -> str:
    return "; ".join(cell.remarks)


def _mark(number: int) -> str:
    """Return a, b … z, aa, ab …"""
    letters = ""
    while True:
        number, rest = divmod(number, 26)
        letters = chr(ord("a") + rest) + letters
        if number == 0:
            return letters
        number -= 1


def _number(value: float, unit: str, digits: int) -> str:
    if unit == "fraction":
        return percent(value, digits)
    return f"{value:,.{digits}f}" if unit == "points" else f"{value:,.4g}"


class _CellText(NamedTuple):
    value: str
    interval: str
    n: str
    mark: str


def _cell_text(cell: TableCell, layout: _Layout, at: int, digits: int) -> _CellText:
    metric = cell.metric
    value = "–" if metric.value is None else _number(metric.value, metric.unit, digits)
    interval = ""
    if metric.ci95 is not None:
        scale = 100.0 if metric.unit == "fraction" else 1.0
        form = f",.{digits}f" if metric.unit in ("fraction", "points") else ",.4g"
        interval = f"[{', '.join(format(scale * end, form) for end in metric.ci95)}]"
    n = "" if "n = " in layout.heads[at][1] else f"n = {metric.n:,}"
    return _CellText(value, interval, n, layout.marks[_remark(cell)] if cell.remarks else "")


def latex(table: ResultTable, digits: int = 1) -> str:
    """A tabular with the rules of booktabs (.tex)."""
    layout = _layout(table)
    rows = []
    for row in table.rows:
        cells = [latex_text(row.label)]
        for at, cell in enumerate(row.cells):
            cells.append("--" if cell is None else _latex_cell(_cell_text(cell, layout, at, digits), best=cell.best))
        rows.append(cells)
    above, start = [], 2
    titles, rules = [""], []
    for title, count in layout.groups:
        titles.append(f"\\multicolumn{{{count}}}{{c}}{{{latex_text(title)}}}")
        rules.append(f"\\cmidrule(lr){{{start}-{start + count - 1}}}")
        start += count
    above = [" & ".join(titles) + " \\\\", "".join(rules), " & ".join(["", *_latex_heads(layout, 0)]) + " \\\\"]
    head = ["model", *(f"{{\\scriptsize {text}}}" for text in _latex_heads(layout, 1))]
    notes = [f"({mark}) {remark}" for remark, mark in layout.marks.items()]
    return latex_table(head, rows, " ".join(layout.legend), above=above, notes=notes)


def _latex_heads(layout: _Layout, part: int) -> list[str]:
    return [latex_text(head[part]) for head in layout.heads]


def _latex_cell(text: _CellText, *, best: bool) -> str:
    value = latex_number(latex_text(text.value))
    value = f"\\textbf{{{value}}}" if best else value
    small = latex_number(", ".join(filter(None, [text.interval, text.n])))
    pieces = [
        value,
        f" {{\\scriptsize {small}}}" if small else "",
        f"\\textsuperscript{{{text.mark}}}" if text.mark else "",
    ]
    return "".join(pieces)


def markdown(table: ResultTable, digits: int = 1) -> str:
    """A table of GitHub's Markdown, with its remarks below (.md)."""
    layout = _layout(table)
    several = _benchmarks_of_several_profiles(table)
    heads = ["model"]
    for column, (metric, shared) in zip(table.columns, layout.heads, strict=True):
        title = f"{_benchmark_title(column, several)}: {metric}"
        heads.append(_markdown_text(title) + (f"<br>{shared}" if shared else ""))
    lines = [_line(heads), _line(["---", *["---:"] * len(table.columns)])]
    for row in table.rows:
        cells = [_markdown_text(row.label)]
        for at, cell in enumerate(row.cells):
            if cell is None:
                cells.append("–")
                continue
            text = _cell_text(cell, layout, at, digits)
            value = _markdown_text(text.value)
            pieces = [
                f"**{value}**" if cell.best else value,
                text.interval.replace("[", "\\[").replace("]", "\\]"),
                text.n,
            ]
            cells.append(" ".join(filter(None, pieces)) + (f"<sup>{text.mark}</sup>" if text.mark else ""))
        lines.append(_line(cells))
    remarks = [f"<sup>{mark}</sup> {_markdown_text(remark)}" for remark, mark in layout.marks.items()]
    below = [*remarks, " ".join(_markdown_text(sentence) for sentence in layout.legend)]
    return "\n".join([*lines, "", "  \n".join(below), ""])


def _markdown_text(text: str) -> str:
    """Return a text that Markdown shows as it is; an entity for @ keeps GitHub from notifying somebody."""
    return _MARKDOWN.sub(r"\\\1", one_line(text)).replace("@", "&#64;").replace("://", "&#58;//")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_csv(table: ResultTable, digits: int = 1) -> str:
    """Full numbers: for each metric its value, interval, n, coverage and chance (.csv)."""
    several = _benchmarks_of_several_profiles(table)
    head = ["model"]
    for column in table.columns:
        name = f"{_benchmark_title(column, several)} {column.metric}"
        head += [name, *(f"{name} {part}" for part in ("low", "high", "n", "coverage", "chance"))]
    lines: list[list[Any]] = [[*head, "runs", "remarks"]]
    for row in table.rows:
        line: list[Any] = [row.label]
        remarks = []
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell is None:
                line += [None] * 6
                continue
            metric = cell.metric
            line += [metric.value, *(metric.ci95 or (None, None)), metric.n, metric.coverage, metric.chance]
            if cell.remarks:
                remarks.append(f"{_benchmark_title(column, several)}: {_remark(cell)}")
        runs = dict.fromkeys(cell.run for cell in row.cells if cell is not None)
        lines.append([*line, ", ".join(runs), " | ".join(dict.fromkeys(remarks))])
    return csv_text(lines)


def as_json(table: ResultTable, digits: int = 1) -> str:
    """Everything: columns, rows with each cell's metric, run and remarks, and the rule of `best` (.json)."""
    rows = [
        {
            "label": row.label,
            "model": row.model,
            "cells": [
                None
                if cell is None
                else {
                    **{name: value for name, value in structs.asdict(cell.metric).items() if name != "interval"},
                    "interval": None if cell.metric.interval is None else cell.metric.interval.text,
                    "run": cell.run,
                    "best": cell.best,
                    "remarks": cell.remarks,
                }
                for cell in row.cells
            ],
        }
        for row in table.rows
    ]
    columns = [column._asdict() for column in table.columns]
    return pretty_json({"columns": columns, "rows": rows, "notes": table.notes, "rule_of_best": RULE}).decode()


TABLE_FORMATS: Mapping[str, Callable[..., str]] = {"latex": latex, "csv": as_csv, "markdown": markdown, "json": as_json}
SUFFIXES: Mapping[str, str] = {
    ".tex": "latex",
    ".csv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".json": "json",
}


WRITTEN = ", ".join(f"{suffix} ({format})" for suffix, format in SUFFIXES.items())


def table_format(format: str | None, out: str | Path | None) -> str | None:
    """Return the format of a table, by its name or by the suffix of its file; None if neither names one.

    Raises:
        UsageError: the suffix belongs to another format, or to none that is written.
    """
    suffix = "" if out is None else Path(out).suffix.lower()
    by_suffix = SUFFIXES.get(suffix)
    if format is None:
        if out is not None and by_suffix is None:
            raise UsageError(
                f"--out {out}: no table is written as {suffix or 'a file without a suffix'}",
                f"Tables are written as {WRITTEN}; other formats need --format.",
            )
        return by_suffix
    if format not in TABLE_FORMATS:
        if suffix in FORMS:
            raise UsageError(
                f"--format {format} writes files into a folder, and --out {out} is named like a file",
                f"Name a folder with --out, or write a table: {WRITTEN}.",
            )
        return None
    if suffix and by_suffix is None:
        raise UsageError(f"--out {out}: no table is written as {suffix}", f"Tables are written as {WRITTEN}.")
    if by_suffix is not None and by_suffix != format:
        raise UsageError(
            f"--format {format} and --out {out} contradict each other: {suffix} is {by_suffix}",
            "Omit --format, or change the suffix.",
        )
    return format


def render_table(table: ResultTable, format: str, digits: int = 1) -> str:
    """Return a table as text in one of `TABLE_FORMATS`, free of keys."""
    return redact(TABLE_FORMATS[format](table, digits))


def write_table(
    table: ResultTable, out: str | Path, format: str | None = None, *, digits: int = 1, inputs: Sequence[Path] = ()
) -> Path:
    """Write a table to a file, whole or not at all, and return its path.

    Args:
        out: the file; its suffix names the format unless `format` does.
        format: one of `TABLE_FORMATS`.
        digits: decimals of percentages and points.
        inputs: files that must not be replaced.

    Raises:
        UsageError: format and suffix disagree, or the file is one of a run.
        StorageError: it cannot be written.
    """
    name = table_format(format, out)
    if name is None:
        raise UsageError(f"there is no table format {format!r}", f"There is: {', '.join(TABLE_FORMATS)}.")
    endings = [suffix for suffix, form in SUFFIXES.items() if form == name]
    path = require_output_file(out, "--out", endings, inputs)
    return write_whole(path, render_table(table, name, digits), "Choose another --out.")
