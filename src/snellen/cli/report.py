"""snellen report"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, print_notes, remark, show, show_json
from snellen.cli.option_parsing import argument, option
from snellen.errors import DataError, UsageError
from snellen.scoring.metric_text import span
from snellen.text import comma_list

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.easi.leaderboard import LeaderboardEntry, PublicLeaderboard
    from snellen.easi.reference import ReferenceComparison, ReferenceResult, TargetDifference
    from snellen.reports.plots.base import Plot


@dataclass(frozen=True)
class ReferenceOptions:
    """Comparison of the runs with a reference."""

    PANEL: ClassVar[str] = "Comparison with a reference"

    reference: str | None = option(
        "Instead of the page: compare the runs with EASI's verification table and published rows.", value="easi"
    )
    reference_model: str | None = option(
        "Model of the reference to compare with.", value="NAME", said="the one with the run's model name"
    )
    leaderboard: str | None = option(
        "Leaderboard to read: a base URL, or a file with its answer.",
        value="URL|FILE",
        said="EASI_LEADERBOARD_URL, else https://easi.lmms-lab.com",
    )
    faults: str | None = option(
        "Reproduce these faults of EASI's scoring (`snellen --help easi-faults`).", value="NAME,..."
    )


def report(
    runs: list[Path] = argument("Run folders; with --reference also results of lmms-eval and VLMEvalKit.", value="RUN"),
    *,
    out: str | None = option(
        "File to write.", value="FILE", said="report.html in the run, or here if there are several"
    ),
    moved: shared.MovedOptions,
    max_answers: int = option("Maximum answers in the gallery; unusable and incorrect ones come first.", 2000, least=1),
    show_gold: shared.ShowGold = False,
    redact: Path | None = option(
        "Instead of the page: write the run's results without gold answers, evidence and images, for publication.",
        value="DIR",
    ),
    figures: Path | None = option(
        "Also write every plot as SVG and PDF to this folder, with an index; with --reference the six capabilities.",
        value="FOLDER",
    ),
    comparison: ReferenceOptions,
    prices: shared.PricesOfRun = None,
    as_json: bool = option(
        "One JSON object on stdout: the comparison of --reference, else the files that were written.",
        False,
        names=("--json",),
        panel=shared.OUTPUT,
    ),
) -> None:
    """Write one self-contained HTML page about one or more runs: scores, plots, and every answer with its images."""
    from snellen.engine.output_file import PAGE, require_output_file
    from snellen.runs.run import load_run

    target = None if out is None else require_output_file(out, "--out", PAGE)
    if comparison.reference is not None:
        if comparison.reference not in REFERENCES:
            raise UsageError(f"--reference {comparison.reference!r} is unknown", f"Use {', '.join(REFERENCES)}.")
        if redact is not None or show_gold or out is not None:
            raise UsageError(
                "--reference prints tables and excludes --out, --redact and --show-gold",
                "Omit the other options.",
            )
        show_comparison(
            runs,
            comparison.reference_model,
            comparison.faults,
            comparison.leaderboard,
            as_json=as_json,
            trust=moved.trust,
            figures=figures,
        )
        return
    if any((comparison.reference_model, comparison.faults, comparison.leaderboard)):
        raise UsageError(
            "--reference-model, --leaderboard and --faults of report require --reference",
            "Add --reference easi.",
        )
    if redact is not None:
        from snellen.runs.redact import redact as redact_run

        if len(runs) != 1 or show_gold or out is not None or figures is not None:
            raise UsageError(
                "--redact takes one run, and excludes --show-gold, --out and --figures", "Omit the other options."
            )
        _show_files(redact_run(load_run(runs[0], trust=moved.trust).moved(moved.data, moved.images), redact), as_json)
        return
    from snellen.reports.runs import report as write_report
    from snellen.runs.tables import open_runs

    opened, notes = open_runs(runs, trust=moved.trust)
    loaded = [run.moved(moved.data, moved.images) for run in opened]
    target = target or (loaded[0].folder.report if len(loaded) == 1 else Path("report.html"))
    page = write_report(loaded, target, max_answers=max_answers, show_gold=show_gold, prices=prices, figures=figures)
    _show_files([page, *([] if figures is None else [figures])], as_json)
    for line in notes:
        note(f"note: {line}")
    for run in loaded:
        if not run.request_errors().answered:
            note(f"note: no sample of {run.path} has an answer")


def _show_files(paths: Iterable[Path], as_json: bool) -> None:
    if as_json:
        show_json({"files": list(map(str, paths))})
        return
    for path in paths:
        print(path)


REFERENCES = ("easi",)
HARNESSES = {"easi": "vlmevalkit", "lmms-eval": "lmms-eval"}
"""Scoring profile to the harness with the same rules, whose scores EASI published."""


def show_comparison(
    results: Sequence[Path],
    model: str | None,
    faults: str | None,
    leaderboard: str | None = None,
    *,
    as_json: bool,
    trust: bool = False,
    figures: Path | None = None,
) -> None:
    """Print the comparisons of `snellen.easi.reference.compare_with_easi`, and the leaderboard around each model.

    Args:
        results, model, trust: as for `compare_with_easi`; `faults` are its names by comma.
        leaderboard: as for `snellen.easi.leaderboard.read_leaderboard`.
        as_json: print one JSON object.
        figures: a folder for the figure of the six capabilities; None writes none.
    """
    from snellen.benchmarks.spatial.reference.verification import ACCEPTABLE, STRONG
    from snellen.easi.leaderboard import read_leaderboard
    from snellen.easi.reference import compare_with_easi

    names = comma_list(faults)
    comparisons = compare_with_easi(results, model=model, fault_names=names, trust=trust, say=remark)
    board = read_leaderboard(leaderboard)
    if figures is not None:
        from snellen.reports.figures import write_figures

        write_figures(lambda: capability_plots(board, [one.entry for one in comparisons]), figures, "--figures")
        note(f"Written: {figures}")
    if as_json:
        rule = {"strong": STRONG, "acceptable": ACCEPTABLE}
        entries = [comparison.entry for comparison in comparisons]
        show_json(
            {
                "reference": "easi",
                "rule": rule,
                "models": comparisons,
                "leaderboard": leaderboard_json(board, entries),
            }
        )
        return
    for comparison in comparisons:
        show(_scores(comparison), _verification(comparison), *([_published(comparison)] if comparison.lines else []))
        if board is not None:
            show(leaderboard_table(board, comparison.entry))
        if names:
            show(_with_faults(comparison))
        for result in comparison.results:
            for line in _remarks(result):
                note(f"note: {_name(result)}: {line}")
    print_notes(source_note(board))
    note(
        f"note: each score is followed by its difference from the target: strong is at most {STRONG:g} points, acceptable "
        f"at most {ACCEPTABLE:g}; brackets mark scores over part of the questions"
    )


def _name(result: ReferenceResult) -> str:
    return f"{result.benchmark} ({result.run})" if result.run else result.benchmark


def _remarks(result: ReferenceResult) -> list[str]:
    if not result.rows:
        return [*result.remarks, "the verification table has no row of this data"]
    if not result.rows[0].same_model:
        return [
            *result.remarks,
            "the verification table has no row of this model and data; rows of other models are shown",
        ]
    return list(result.remarks)


def _scores(comparison: ReferenceComparison) -> Table:
    headings = [heading for profile in HARNESSES for heading in (profile, "95 % interval", "n")]
    table = new_table(f"{comparison.model}, in points", ["benchmark"], [*headings, "coverage"])
    for result in comparison.results:
        cells = []
        for metric in result.figures.values():
            cells += [_points(metric.value), span(metric.ci95, ".2f"), f"{metric.n:,}"]
        table.add_row(_name(result), *cells, f"{result.coverage:.1%}")
    return table


def _verification(comparison: ReferenceComparison) -> Table:
    pairs = [(f"EASI, {harness}", f"here, {profile}") for profile, harness in HARNESSES.items()]
    headings = ["target", *(heading for pair in pairs for heading in pair)]
    title = f"{comparison.model} against EASI's verification table"
    table = new_table(title, ["data", "model of the row"], headings)
    for result in comparison.results:
        for row in result.rows:
            cells = []
            for profile, harness in HARNESSES.items():
                cells += [_difference(row.theirs.get(harness), True), _difference(row.ours[profile], result.whole)]
            table.add_row(row.data, row.model, _points(row.target), *cells)
    return table


def _difference(score: TargetDifference | None, whole: bool) -> str:
    if score is None or score.value is None:
        return "–"
    words = [f"{score.value:.2f}"]
    if score.delta is not None:
        words.append(f"{score.delta:+.2f}")
    if score.status is not None:
        words.append(score.status if whole else f"({score.status})")
    return " ".join(words)


def _published(comparison: ReferenceComparison) -> Table:
    ours = comparison.lines[0]
    title = f"{comparison.title}: {comparison.source}; means over {ours.coverage} benchmarks"
    if comparison.missing:
        title += f", without {', '.join(comparison.missing)}"
    table = new_table(title, ["model"], [*ours.values, "mean"])
    for line in comparison.lines:
        mean = _points(line.average)
        if not line.comparable:
            mean += " (in part)" if line.measured else f" (over {line.coverage})"
        name = f"{line.name} (here)" if line.measured else line.name
        table.add_row(name, *(_points(value) for value in line.values.values()), mean, end_section=line.measured)
    return table


def _with_faults(comparison: ReferenceComparison) -> Table:
    title = f"{comparison.model}: scores that EASI would have printed with these faults"
    table = new_table(title, ["harness", "id", "score"], ["here", "EASI"])
    for line in comparison.printed:
        easi = line.easi if isinstance(line.easi, str) else "null" if line.easi is None else f"{line.easi:.2f}"
        table.add_row(line.harness, line.id, line.key, "null" if line.ours is None else f"{line.ours:.2f}", easi)
    if not comparison.printed:
        table.add_row("", "", "these faults change no score", "", "")
    return table


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


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


MOST_ROWS = 7
"""Rows of the leaderboard beside the models measured here: more lines than these cannot be told apart."""


def capability_plots(board: PublicLeaderboard | None, entries: Sequence[LeaderboardEntry]) -> list[Plot]:
    """Draw the six capabilities of the models measured here and of the leaderboard's best rows, in one radar.

    Raises:
        DataError: there is no leaderboard, no capability map, or no model with any capability.
    """
    from snellen.easi.leaderboard import LABELS
    from snellen.reports.plots.score_grid import ScoreGrid, radar_plot
    from snellen.reports.plots.svg import page_style

    hint = "Name a saved answer of the leaderboard with --leaderboard FILE, or omit --figures."
    if board is None or not board.capability_map:
        why = "the leaderboard was not read" if board is None else "the leaderboard gave no capability map"
        raise DataError(f"--figures needs the sub-scores that make a capability, and {why}", hint)
    columns = _columns(None)
    rows = sorted(board.rows, key=lambda row: -(board.averages(row, columns).capability or 0.0))[:MOST_ROWS]
    scores: dict[str, dict[str, float]] = {}
    for name, row in [*((f"{entry.name} (here)", entry) for entry in entries), *((row.name, row) for row in rows)]:
        known = board.averages(row, columns).capabilities
        if any(value is not None for value in known.values()):
            own = {label: value / 100 for key, label in LABELS.items() if (value := known.get(key)) is not None}
            scores.setdefault(name, own)
    if not scores:
        raise DataError("no model has a value of any capability", hint)
    here = [f"{entry.name} (here)" for entry in entries if f"{entry.name} (here)" not in scores]
    without = f" No capability of {', '.join(here)}: a mapped sub-score is missing in each." if here else ""
    with page_style():
        grid = ScoreGrid("capabilities", "means of EASI's sub-scores", "capabilities", scores, tuple(LABELS.values()))
        return [radar_plot(grid, "radar-capabilities", f" A gap is a capability with a missing sub-score.{without}")]


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
