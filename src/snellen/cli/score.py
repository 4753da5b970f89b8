"""snellen score"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from msgspec import structs

from snellen.cli import options as shared
from snellen.cli.checks import CheckReport, ScoreCheckOptions
from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.judge import InlineReaderOptions
from snellen.cli.option_parsing import argument, option
from snellen.cli.results import UNANSWERED, log_targets, log_tracked, other_judge, protocol, show_details
from snellen.errors import RunError, UsageError
from snellen.runs.threshold_check import answers_case, threshold_cases
from snellen.scoring.metric_text import counted, is_detail, legend, mark, span
from snellen.text import json_or_none

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.runs.costs import Cost
    from snellen.runs.scoring import Scored, Summary
    from snellen.runs.trackers import TrackerTarget
    from snellen.scoring.taxonomy import ClassTables
    from snellen.types import Metric


@dataclass(frozen=True)
class AnswerFileOptions:
    """Columns of a file of answers that another program wrote."""

    PANEL: ClassVar[str] = "Answers of other programs"

    id_field: shared.IdField = None
    reply_field: shared.ReplyField = None
    id_is: str = option(
        "What the ids are: sample ids, positions from 0, numbers from 1, or a meta field of the samples.",
        "id",
        value="id|position|ordinal|META",
    )


@dataclass(frozen=True)
class ReviewOptions:
    """How people's decisions become scores."""

    PANEL: ClassVar[str] = "Reviews (--profile reviewed, audited)"

    of: shared.ReviewedProfile = None
    wrong_gold: str = option(
        "Samples with a wrong gold answer: leave out, score by the corrected answer, or score as they are.",
        "omit",
        value="omit|correct|keep",
    )
    ambiguous: str = option(
        "Ambiguous questions and unreadable images: leave out, score as they are, or count as wrong.",
        "omit",
        value="omit|keep|wrong",
    )
    gold: Path | None = option(
        "Corrected gold answers: rows of sample_id and gold. Implies --wrong-gold correct.",
        value="FILE",
        said="the corrections in the reviews",
    )


@dataclass(frozen=True)
class ScoreOutputOptions:
    """Form and further places of the scores."""

    per_sample: Path | None = option("Write one JSON line per sample and profile, in the file's order.", value="FILE")
    every: bool = option(
        "Print every metric: those by class, letter and wording too.", False, names=("--all",), panel=shared.OUTPUT
    )
    log: shared.LogTo = None
    as_json: shared.JsonResult = False


def score(
    results: Path = argument(
        "A run's folder, or a file of answers: JSONL, CSV, TSV, parquet, xlsx, JSON, .eval.", value="RESULTS"
    ),
    *,
    benchmark: str | None = option("Benchmark that was answered.", said="the run's own"),
    data: shared.DataOptions,
    trust: shared.Trust = False,
    profile: str | None = option(
        "Scoring profiles, separated by commas, or all; reviewed and audited use the run's reviews.",
        said="the benchmark's first",
    ),
    reviews: ReviewOptions,
    disagreements: bool = option("List the samples on which profiles differ, with what each extracted.", False),
    judge_replies: Path | None = option(
        "Replies of a judge, for samples that a judge decides: rows of vid, sample_id or id, and reply.",
        value="FILE",
        said="the verdicts in RUN_judged",
    ),
    reading: InlineReaderOptions,
    columns: AnswerFileOptions,
    prices: shared.PricesOfRun = None,
    checks: ScoreCheckOptions,
    output: ScoreOutputOptions,
) -> None:
    """Score answers again, under any profile: those of a run, or those of another harness.

    Calls no model, but for --reader.
    """
    from snellen.engine.progress import display
    from snellen.engine.request_errors import ANSWERED
    from snellen.runs.reviews.decisions import review_rules
    from snellen.runs.score import score as score_answers
    from snellen.runs.score_rows import disagreement, per_sample_file
    from snellen.runs.scoring import summary_json
    from snellen.scoring.taxonomy import ClassTables

    as_json, per_sample = output.as_json, output.per_sample
    report, least = CheckReport(checks), checks.least_coverage()
    cost, per_correct = (None, None) if prices is None else _costs_at(results, prices, trust=trust)
    profile = _profiles(profile, reviews, disagreements=disagreements)
    reading.require_used()
    read_before = reading_version(results)
    targets = log_targets(output.log) if output.log else []
    total = differing = answered = 0
    classes = ClassTables() if as_json else None

    with ExitStack() as files:
        files.enter_context(report.errors(f"score {results}"))
        writer = None if per_sample is None else files.enter_context(per_sample_file(per_sample, results))

        def add(scored: Scored) -> None:
            nonlocal total, differing, answered
            total += 1
            answered += scored.record.status in ANSWERED
            if classes is not None:
                classes.add(scored.sample, scored.scores)
            if writer is not None:
                writer(scored)
            if disagreements and (lines := disagreement(scored)):
                differing += 1
                for line in lines:
                    note(line) if as_json else print(line)

        summary, notes = score_answers(
            results,
            benchmark,
            data=data.data,
            images=data.images,
            benchmark_options=data.benchmark_options(),
            profile=profile,
            id_field=columns.id_field,
            reply_field=columns.reply_field,
            id_is=columns.id_is,
            each=add,
            judge_replies=judge_replies,
            reviews=review_rules(reviews.of, reviews.wrong_gold, reviews.ambiguous, reviews.gold),
            trust=trust,
            reader=reading.reader,
            reader_for=reading.reader_for,
            reader_settings=reading.settings(),
            display=None if reading.reader is None else display(as_json=as_json),
        )
    if disagreements:
        notes = [f"the profiles differ on {differing:,} of {total:,} answers", *notes]
    rows, lacks = _checks(report, results, summary, answered, least)
    if classes is not None:
        result = summary_json(summary) | _failures(results, data, answered, total, trust=trust)
        result |= {"checks": rows} if rows else {}
        result |= {} if cost is None else _cost_json(cost, per_correct)
        notes = [*notes, *_add_classes(result, classes)]
        show_json(result)
    elif _has_score(summary) or summary.details:
        by_judge = _other_judge(results, trust=trust) if judge_replies is None else ""
        _show_tables(results, summary, answered, by_judge, trust=trust, every=output.every)
    notes = [*notes, *_cost_notes(results, cost, per_correct, trust=trust)]
    for line in [*summary.unread_lines(), *notes, *_read_otherwise(read_before, summary)]:
        note(f"note: {line}" if not line.startswith(" ") else line)
    _log(targets, results, data, summary, trust=trust)
    if status := report.finish(UNANSWERED if lacks else 0, as_json=as_json):
        raise typer.Exit(status)


def _costs_at(results: Path, prices: Path, *, trust: bool) -> tuple[Cost, float | None]:
    """Return what a run's recorded usage costs at these prices, and what a correct answer costs where that is known."""
    from snellen.engine.run_folder import RunFolder
    from snellen.runs import costs

    folder = RunFolder(results)
    if not folder.exists():
        raise UsageError(f"--prices needs recorded usage; {results} is not a run", "Name a run folder.")
    cost = costs.recorded(folder, prices)
    return cost, None if not cost.whole else _per_correct(results, cost.dollars, trust=trust)


def _cost_notes(results: Path, cost: Cost | None, per_correct: float | None, *, trust: bool) -> list[str]:
    """Return what the answers cost, in a line: at the prices that the user names, else as they carry it; empty without."""
    from snellen.runs.costs import sentence

    if cost is not None:
        return [sentence(cost, per_correct)]
    paid = _recorded_cost(results, trust=trust)
    return [] if paid is None else [paid]


def _add_classes(result: dict[str, Any], classes: ClassTables) -> list[str]:
    """Add the tables of classes to the profiles of a result in JSON; return a note where there are too many classes."""
    for scores in result["profiles"]:
        if rows := classes.rows(scores["profile"]):
            scores["classes"] = rows
    many = (
        f"more than {classes.limit:,} classes: their table is left out (`snellen --help diagnosis` says how to make it)"
    )
    return [many] if classes.too_many else []


def _read_otherwise(before: int | None, summary: Summary) -> list[str]:
    """Return a note where the summary before was read by another version of the rules."""
    from snellen.scoring.extract.base import READING_VERSION

    if before in (None, READING_VERSION) or "strict" not in summary.metrics:
        return []
    return [
        f"profile strict reads replies by version {READING_VERSION} of its rules; the summary before was of version {before} "
        "(`snellen --help extraction`)"
    ]


def _cost_json(cost: Cost, per_correct: float | None) -> dict[str, Any]:
    about: dict[str, Any] = {"dollars": cost.dollars, "answers": cost.answers, "without_usage": cost.without}
    about |= {"uncounted": cost.uncounted} if cost.uncounted else {}
    return {"cost": about, "cost_per_correct": per_correct}


def _profiles(profile: str | None, reviews: ReviewOptions, *, disagreements: bool) -> str | None:
    """Return the profiles to score by. Raises UsageError for options that they leave without effect."""
    if disagreements and profile is None:
        profile = "all"
    named = {name.strip() for name in (profile or "").split(",")}
    if disagreements and profile not in ("all", "reviewed") and len(named) < 2:
        raise UsageError("--disagreements compares profiles; only one was named", "Use --profile A,B or --profile all.")
    if reviews != ReviewOptions() and not {"reviewed", "audited"} & named:
        raise UsageError(
            "--of, --wrong-gold, --ambiguous and --gold are for the profiles reviewed and audited",
            "Add --profile reviewed or --profile audited.",
        )
    return profile


def _log(
    targets: Sequence[TrackerTarget], results: Path, data: shared.DataOptions, summary: Summary, *, trust: bool
) -> None:
    """Log the scores of a run, or of a file of answers, to the trackers that the user names."""
    if not targets:
        return
    from snellen.runs.run import load_run
    from snellen.runs.trackers.content import tracked_answers, tracked_run

    if (results / "run_meta.json").is_file():
        run = load_run(results, trust=trust).moved(data.data, data.images, data.benchmark_options())
        log_tracked(targets, tracked_run(run, summary.metrics))
    else:
        log_tracked(targets, tracked_answers(summary.benchmark, results.name, summary.metrics))


def reading_version(results: Path) -> int | None:
    """Return the version of the reading rules behind a run's summary.json; None without one."""
    path = results / "summary.json"
    try:
        content = json_or_none(path.read_bytes()) if path.is_file() else None  # a pipe would be waited for
    except OSError:
        return None
    version = content.get("reading_version", 1) if isinstance(content, dict) else None
    return version if isinstance(version, int) else None


def _other_judge(results: Path, *, trust: bool) -> str:
    """Return what the title of a run's scores says of a judge that is not the published one."""
    from snellen.runs.run import load_run

    said = ""
    with suppress(RunError):  # a folder that is not trusted, whose benchmark the user named
        said = other_judge(load_run(results, trust=trust)) if (results / "run_meta.json").is_file() else ""
    return said


def _show_tables(results: Path, summary: Summary, answered: int, by_judge: str, *, trust: bool, every: bool) -> None:
    """Print the tables, then the lines that the benchmark adds to them."""
    from snellen.runs.scoring import LINES

    _show_metrics(results, summary, answered, by_judge, trust=trust, every=every)
    for line in dict.fromkeys(line for fields in summary.details.values() for line in fields.get(LINES, ())):
        print(line)


def _show_metrics(results: Path, summary: Summary, answered: int, by_judge: str, *, trust: bool, every: bool) -> None:
    """Print the table of metrics, or the benchmark's own tables of a run's only profile; with `every`, both."""
    if len(summary.metrics) == len(summary.details) == 1 and (results / "run_meta.json").is_file():
        from snellen.runs.run import load_run

        benchmark = load_run(results, trust=trust).benchmark
        if benchmark.tables is not None:
            ((profile, fields),) = summary.details.items()
            show_details(benchmark, fields, profile)
            if not every:
                return
    from snellen.engine.run_folder import RunFolder

    is_run = (results / "run_meta.json").is_file()
    asked = ""
    if is_run:
        from snellen.runs.caveats import title_part

        meta = RunFolder(results).meta()
        asked = protocol(meta) + title_part(meta)
    show(_table(summary, answered, asked + by_judge, every=every))


def _checks(
    report: CheckReport, results: Path, summary: Summary, answered: int, least: float
) -> tuple[list[dict[str, Any]], bool]:
    """Check the scored answers; return the thresholds' checks for JSON, and True if too few samples have an answer.

    Without thresholds a part of the answers is enough, but one there must be.
    """
    from msgspec import to_builtins

    checks = report.check(str(results), summary.benchmark, summary.metrics)
    answers = answers_case(answered, _requested(results, summary), least=least)
    is_checked = bool(report.thresholds) or not answered
    lacks = is_checked and answers.outcome == "failed"
    cases = [*([answers] if is_checked else []), *threshold_cases(checks)]
    report.add(f"{summary.benchmark} · {results}", cases, metrics=next(iter(summary.metrics.values())))
    return [to_builtins(check) for check in checks], lacks


def _failures(results: Path, data: shared.DataOptions, answered: int, total: int, *, trust: bool) -> dict[str, Any]:
    """Return `failures` for JSON, as `run --json` has it, where samples have no answer; a file has no error texts."""
    if answered == total:
        return {}
    failures: dict[str, Any] | None = {"answered": answered, "failed": total - answered, "errors": []}
    if (results / "run_meta.json").is_file():
        from snellen.runs.run import load_run

        run = load_run(results, trust=trust).moved(data.data, data.images, data.benchmark_options())
        failures = run.request_errors().as_json()
    return {"failures": failures}


def _requested(results: Path, summary: Summary) -> int:
    """Return the number of samples and repeats that were to be answered: of a run up to its limit."""
    from snellen.engine.run_folder import RunFolder

    folder = RunFolder(results)
    if not folder.exists():
        return summary.expected
    meta = folder.meta()
    limit = meta.coverage.limit
    return summary.expected if limit is None else min(summary.expected, limit * meta.spec.repeats)


def _per_correct(results: Path, dollars: float, *, trust: bool) -> float | None:
    """Return what a correct answer of a run costs if all its answers cost so many US dollars; None where that says nothing."""
    from snellen.runs.costs import cost_per_correct
    from snellen.runs.run import headline, load_run

    run = load_run(results, trust=trust)
    return cost_per_correct(structs.replace(run.sized_meta.totals, cost=dollars), headline(run))


def _recorded_cost(results: Path, *, trust: bool) -> str | None:
    """Return the cost that a run's answers carry, in words; None for other files and without one."""
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.costs import cost_text
    from snellen.runs.run import headline, load_run

    if not RunFolder(results).exists():
        return None
    run = load_run(results, trust=trust)
    totals = run.sized_meta.totals
    recorded = "" if totals.uncounted else ", as recorded"
    return None if totals.cost is None else f"cost {cost_text(totals, headline(run))}{recorded}"


def _has_score(summary: Summary) -> bool:
    """Return True if a sample was answered: otherwise the share of errors is the only metric."""
    metrics = [metric for rows in summary.metrics.values() for metric in rows]
    return any(metric.value is not None and metric.name.rpartition("/")[2] != "error" for metric in metrics)


def _table(summary: Summary, answered: int, asked: str, *, every: bool) -> Table:
    """Build the table of all profiles side by side; up to two have interval and n (`--json` has all)."""
    width = 3 if len(summary.metrics) <= 2 else 1
    headings = [heading for profile in summary.metrics for heading in (profile, "95 % interval", "n")[:width]]
    title = f"{summary.benchmark}{asked} · {answered:,} of {summary.expected:,} answers"
    table = new_table(title, ["metric"], [*headings, "coverage", "chance"])
    by_name: dict[str, dict[str, Metric]] = {}
    for profile, metrics in summary.metrics.items():
        for metric in metrics:
            by_name.setdefault(metric.name, {})[profile] = metric
    shown = [name for name in by_name if every or not is_detail(name)]
    for name in shown:
        by_profile = by_name[name]
        cells = [cell for profile in summary.metrics for cell in _cells(by_profile.get(profile))[:width]]
        coverages = sorted(
            {f"{metric.coverage:.1%}" for metric in by_profile.values()}, key=lambda text: float(text[:-1])
        )
        chance = next((metric.chance for metric in by_profile.values() if metric.chance is not None), None)
        table.add_row(name, *cells, " – ".join(coverages), "" if chance is None else f"{chance:.3f}")
    marks = legend(metric for name in shown for metric in by_name[name].values()) if width > 1 else ""
    more = f"{len(by_name) - len(shown):,} more metrics: --all" if len(shown) < len(by_name) else ""
    table.caption = "\n".join(filter(None, (marks, more))) or None
    return table


def _cells(metric: Metric | None) -> tuple[str, str, str]:
    if metric is None:
        return "", "", ""
    if metric.value is None:
        value = "–"
    else:
        value = f"{metric.value:.4f}" if metric.unit == "fraction" else f"{metric.value:,.4g} {metric.unit}"
    interval = span(metric.ci95, ".4f") + mark(metric.interval)
    return value, interval, counted(metric.n, metric.interval)
