"""Metrics that the harnesses computed themselves, under the keys of EASI's payload and in percent.

`read_lmms_results` reads lmms-eval's `<time>_results.json` and `read_kit_acc` VLMEvalKit's `<model>_<data>*_acc.csv`, most of
them separated by tabs, without scaling or renaming. `from_lmms_eval` and `from_vlmevalkit` turn these into `HarnessMetrics`. SITE's score is in
none of the aggregated files: EASI pools the scores of both halves' rows, as `pooled_site` does.

Source: the metric maps of EASI v0.2.2. `reference.known_bugs` has its faults.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.benchmarks.spatial.interop.results import is_variant
from snellen.benchmarks.spatial.scorers import figures
from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import DataError
from snellen.formats.base import Problems
from snellen.formats.readers import JSON_LINES, table_rows
from snellen.sources.safe_paths import regular_file

MRA = "MRA:.5:.95:.05"
DIGITS = 4


class HarnessMetrics(Struct, frozen=True):
    """A benchmark's figures as another harness has them, in percent with four decimals; None is "not there", never 0.

    Attributes:
        id: the benchmark's key in EASI's payload.
        overall: its score.
        parts: every sub-score key of the payload to its figure, and what else of 3DSRBench's settings is there.
        notes: what was there and could not be taken, one line each.
        rows: how many scored rows the figures were pooled from; 0 where they were read ready-made.
    """

    id: str
    overall: float | None
    parts: Mapping[str, float | None]
    notes: tuple[str, ...] = ()
    rows: int = 0


def from_lmms_eval(task: Task, results: Mapping[str, Mapping[str, float]]) -> HarnessMetrics | None:
    """Return a benchmark's figures out of lmms-eval's results by task; None where none of its tasks is there.

    The task may be a variant (`vsibench` for `vsibench_multiimage`): the one that EASI runs first, then the first in order
    of names that has the overall metric. A debiased or tiny set, or a part of BLINK, is never taken for the whole.
    VSI-Bench's figures in an object are percentages if one of them is above 1, fractions otherwise.
    """
    metrics = _lmms_task(task, results)
    if metrics is None:
        return None
    notes: list[str] = []
    lmms = task.declared.lmms_eval
    fraction = 1.0 if "overall" in lmms.percent else 100.0
    name = next((metric for metric in lmms.overall if metric in metrics), None)
    parts_scale = 1.0 if "groups" in lmms.percent else 100.0
    if name is not None and name.startswith("vsibench_score"):
        nested = {key: value for key, value in metrics.items() if key.startswith("vsibench_score.")}
        parts_scale = 1.0 if any(value > 1 for key, value in nested.items() if key != name) else 100.0
        fraction = 1.0 if metrics[name] > 1 or parts_scale == 1.0 else 100.0
        metrics = {**metrics, **{key.partition(".")[2]: value for key, value in nested.items()}}
    overall = None if name is None else _percent(metrics[name], fraction, "overall", notes)
    parts = {key: _part(task, key, metrics, parts_scale, notes) for key in task.keys}
    if task.name == "3dsrbench":
        parts["circ_eval_overall"] = _scaled(metrics, ("circular_accuracy",), 100.0, "circ_eval_overall", notes)
    return HarnessMetrics(task.id, overall, parts, tuple(notes))


def from_vlmevalkit(task: Task, acc: Mapping[str, float]) -> HarnessMetrics:
    """Return a benchmark's figures out of VLMEvalKit's `*_acc.csv`, as `read_kit_acc` has it.

    3DSRBench's is `*_full_acc.csv`. SITE's table has the half's own figure, which is not the payload's: take `pooled_site`.
    """
    scale = 100.0 if task.declared.vlmevalkit.fractions else 1.0
    notes: list[str] = []
    overall = _scaled(acc, ("Overall", "overall"), scale, "overall", notes)
    parts = {key: _part(task, key, acc, scale, notes) for key in task.keys}
    if task.name == "3dsrbench":
        parts["overall"] = overall
        circular = {key.removeprefix("circ_eval."): value for key, value in acc.items() if key.startswith("circ_eval.")}
        parts["circ_eval_overall"] = _scaled(circular, ("Overall", "overall"), scale, "circ_eval_overall", notes)
        for key in task.keys:
            parts[f"circ_eval_{key}"] = _part(task, key, circular, scale, notes)
    return HarnessMetrics(task.id, overall, parts, tuple(notes))


def pooled_site(paths: Sequence[Path], problems: Problems) -> HarnessMetrics:
    """SITE's figures from the scores that the harness gave the rows of either half, or of both: CAA over all of them.

    lmms-eval's samples have `chance_adjusted_acc` in each line; VLMEvalKit's `*_extract_matching.xlsx` and `*_llm_*.xlsx` have
    `hit`, `category` and the options. A row without them, or whose options are no list, is left out and is a problem.

    Raises:
        DataError: a file cannot be read at all.
    """
    won: dict[str, float] = {}
    most: dict[str, float] = {}
    count = 0
    for path in paths:
        rows = _lmms_site if path.suffix.lower() in JSON_LINES else _kit_site
        for category, gained, possible in rows(path, problems):
            count += 1
            for name in ("overall", category):
                won[name] = won.get(name, 0.0) + gained
                most[name] = most.get(name, 0.0) + possible
    task, notes = TASKS["site"], list[str]()

    def figure(name: str) -> float | None:
        if name not in won:
            return None
        return _percent(won[name] / most[name] if most[name] > 0 else 0.0, 100.0, name, notes)

    parts = {key: figure(group) for group, key in task.groups.items()}
    return HarnessMetrics(task.id, figure("overall"), parts, tuple(notes), count)


def _lmms_site(path: Path, problems: Problems) -> Iterator[tuple[str, float, float]]:
    """(category, hit - 1/n, 1 - 1/n) of each line."""
    for where, row in table_rows(path, problems):
        adjusted = row.get("chance_adjusted_acc")
        gained = _figure(adjusted, "overall")
        possible = _figure(adjusted, "total")
        doc = row.get("doc")
        category = doc.get("category") if isinstance(doc, dict) else None
        if gained is None or possible is None:
            problems.add(where, "there is no chance_adjusted_acc with overall and total; the row is left out")
            continue
        if not isinstance(category, str):
            # Lines logged without their questions: the object names overall, total, the category and the data set.
            category = next((key for key in adjusted if key in TASKS["site"].groups), "") if adjusted else ""
        yield category, gained, possible


def _kit_site(path: Path, problems: Problems) -> Iterator[tuple[str, float, float]]:
    for where, row in table_rows(path, problems):
        hit = _figure(row, "hit")
        listed = row.get("options") if row.get("options") is not None else row.get("candidates")
        n = len(listed) if isinstance(listed, list) else figures.count_options(str(listed))
        if hit is None or not n:
            fault = "hit is no number" if hit is None else "the options are no list"
            problems.add(where, f"{fault}; the row is left out, as EASI does")
            continue
        yield str(row.get("category") or ""), hit - 1 / n, 1 - 1 / n


def _figure(row: Any, name: str) -> float | None:
    value = row.get(name) if isinstance(row, Mapping) else None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, (bool, int, float)) or value != value or abs(value) > 1:
        return None
    return float(value)


def _lmms_task(task: Task, results: Mapping[str, Mapping[str, float]]) -> Mapping[str, float] | None:
    """Return the metrics of the task that EASI runs, else of the first other way of asking the same questions."""
    if task.lmms in results or task.name == "blink":  # whose other tasks are parts of it
        return results.get(task.lmms)
    wanted = task.declared.lmms_eval.overall
    variants = (
        name
        for name in sorted(results)
        if is_variant(name, task.lmms) and any(metric in results[name] for metric in wanted)
    )
    variant = next(variants, None)
    return None if variant is None else results[variant]


def _part(task: Task, key: str, metrics: Mapping[str, float], scale: float, notes: list[str]) -> float | None:
    """Return the figure of one sub-score, under any of the names that the two harnesses have for it."""
    groups = [group for group, its in task.groups.items() if its == key]
    plain = [group for group in groups if task.name in ("blink", "3dsrbench", "mmsi-bench")]
    names = itertools.chain(
        [key, *(f"{group}_accuracy" for group in groups)],
        (f"{group}_{ending}" for group in groups for ending in (MRA, "mra", "vci_metric")),
        (f"{column}.{group}_accuracy" for group in groups for column in ("sub_task_type", "task_type")),
        plain,
        [key.capitalize()],
    )
    return _scaled(metrics, tuple(names), scale, key, notes)


def _scaled(
    metrics: Mapping[str, float], names: Sequence[str], scale: float, label: str, notes: list[str]
) -> float | None:
    name = next((candidate for candidate in names if candidate in metrics), None)
    return None if name is None else _percent(metrics[name], scale, label, notes)


def _percent(value: float, scale: float, label: str, notes: list[str]) -> float | None:
    """The figure in percent; None, with a note, where it lies beyond -100 to 100."""
    percent = round(value * scale, DIGITS)
    if abs(percent) > 100:
        notes.append(f"{label} is {percent:g} %, which no score can be; it is left out")
        return None
    return percent


BYTES = 64 << 20
LABELS = ("setting", "split")
VANILLA = "vanilla"


def read_lmms_results(path: Path) -> dict[str, dict[str, float]]:
    """Return task to metric to figure of one `*_results.json`.

    A metric's name ends at its first comma (`acc,none` is `acc`; of two such the later one counts). A metric that is an
    object, as VSI-Bench's `vsibench_score` once was, gives `<metric>.<name>` for each number in it. What is no finite number
    (`N/A`, NaN, truth values) is left out. `groups` are read for tasks that `results` does not have.

    Raises:
        DataError: there is no such file, it is longer than 64 MB, no JSON, or has no object `results`.
    """
    try:
        document = json.loads(_bytes(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not JSON: {str(error)[:200]}",
            "Give a complete <time>_results.json of lmms-eval.",
        ) from error
    tables = document.get("results") if isinstance(document, dict) else None
    if not isinstance(tables, dict):
        raise DataError(f"{path}: there is no object 'results' in it", "lmms-eval's <time>_results.json was expected.")
    grouped = document.get("groups")
    merged = {**(grouped if isinstance(grouped, dict) else {}), **tables}
    return {task: dict(_metrics(table)) for task, table in merged.items() if isinstance(table, dict)}


def read_all_lmms_results(paths: Iterable[Path], problems: Problems) -> dict[str, dict[str, float]]:
    """Return the figures of several `*_results.json`.

    In order of their names, of each task those of the last file that has it.

    A file that cannot be read goes to the problems, and the others are read.
    """
    results: dict[str, dict[str, float]] = {}
    for path in sorted(paths, key=lambda file: file.name):
        try:
            results.update(read_lmms_results(path))
        except DataError as error:
            problems.add(str(path), error.message.removeprefix(f"{path}: "))
    return results


def read_kit_acc(path: Path) -> dict[str, float]:
    """Column to figure of one of VLMEvalKit's `*_acc.csv`, whatever parts its cells.

    Wide tables: the figures of the first row, and where it has none that of the next row that does (SPAR-Bench's first row
    has only four). Tables whose rows are labelled by `setting` (3DSRBench) or `split`: the row `vanilla`, else the first,
    under plain names, and each row under `<label>.<column>`. Tables with the columns metric and value: one a row. What is
    no finite number is left out.

    Raises:
        DataError: there is no such file, it is longer than 64 MB, or there is no table in it.
    """
    header, rows = _table(path)
    names = [name.strip().lower() for name in header]
    if sorted(names) == ["metric", "value"]:
        at, value = names.index("metric"), names.index("value")
        listed = ((row[at].strip(), _number(row[value])) for row in rows)
        return {name: figure for name, figure in listed if name and figure is not None}
    label = next((names.index(candidate) for candidate in LABELS if candidate in names), None)
    figures: dict[str, float] = {}
    if label is None:
        for row in rows:
            for name, figure in _figures(header, row, label):
                figures.setdefault(name, figure)
        return figures
    plain = next((row for row in rows if row[label].strip() == VANILLA), rows[0])
    figures.update(_figures(header, plain, label))
    for row in rows:
        for name, figure in _figures(header, row, label):
            figures.setdefault(f"{row[label].strip()}.{name}", figure)
    return figures


def _metrics(table: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        name = key.partition(",")[0].strip()
        if isinstance(value, dict):
            for part, item in value.items():
                if (figure := _number(item)) is not None:
                    yield f"{name}.{part}", figure
        elif (figure := _number(value)) is not None and not isinstance(value, str):
            yield name, figure


def _figures(header: list[str], row: list[str], label: int | None) -> Iterator[tuple[str, float]]:
    for at, (name, cell) in enumerate(zip(header, row, strict=True)):
        figure = None if at == label or not name.strip() else _number(cell)
        if figure is not None:
            yield name.strip(), figure


def _number(value: Any) -> float | None:
    """Return a finite number, or what a cell says of one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and (len(value) > 64 or "_" in value):
        return None
    try:
        figure = float(value)
    except (ValueError, OverflowError):
        return None
    return figure if math.isfinite(figure) else None


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of a table, each row as wide as the header.

    Raises:
        DataError: the file is no table with at least one row.
    """
    lines = _bytes(path).decode("utf-8-sig", errors="replace").splitlines()
    head = next((line for line in lines if line.strip()), "")
    mark = max("\t,;", key=lambda separator: head.count(separator))
    try:
        # No limit of the module's is touched: a cell of more than 131,072 characters is no figure.
        rows = [row for row in csv.reader(lines, delimiter=mark) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DataError(f"{path}: not a table: {error}", "VLMEvalKit's *_acc.csv was expected.") from error
    if len(rows) < 2:
        raise DataError(
            f"{path}: {len(rows)} rows; a line of names and at least one of figures were expected",
            "Give a complete *_acc.csv of VLMEvalKit.",
        )
    header = rows[0]
    return header, [(row + [""] * len(header))[: len(header)] for row in rows[1:]]


def _bytes(path: Path) -> bytes:
    size = regular_file(path).st_size
    if size > BYTES:
        raise DataError(f"{path}: {size:,} bytes; a file of figures has far fewer than {BYTES:,}", "Give another file.")
    return path.read_bytes()
