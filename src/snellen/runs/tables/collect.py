"""Collection of several runs' metrics: which run stands in which row, which metric in which column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from snellen.engine.run_folder import RunFolder
from snellen.errors import SnellenError, UsageError
from snellen.runs.answer_view import run_names
from snellen.runs.caveats import caveats
from snellen.runs.compare import questions_of
from snellen.runs.run import Run, load_run
from snellen.runs.run_paths import find_runs
from snellen.runs.status import present_state
from snellen.runs.tables.best import ColumnRun, ScoreCache, best_run
from snellen.scoring.metric_text import percent
from snellen.types import Metric


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
        model, benchmark = run.meta.spec.model, run.benchmark.name
        source = run.meta.spec.data.path
        if run.meta.judges and source is not None:
            if source.resolve() in places and len(opened) > 1:
                notes.append(f"{run.path} holds verdicts about another run of the table and is left out")
                continue
            try:
                judged = RunFolder(source).meta().spec
                named = Path(judged.benchmark)
                subject = named.name if named.is_absolute() else judged.benchmark
                model, benchmark = judged.model, f"{subject}, judged by {run.meta.spec.model}"
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
    texts = (*(caveat.text for caveat in known if caveat.about != "data"), run.unverified, run.other_judge())
    return tuple(filter(None, texts))


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
