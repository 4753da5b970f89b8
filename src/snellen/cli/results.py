"""Results of one or more runs: tables, JSON, experiment trackers (--log) and the exit status."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from msgspec import structs, to_builtins

from snellen.cli.console import new_table, note, print_notes, show, show_json, tell
from snellen.engine.endpoints import judge_command, rerun_command
from snellen.engine.run_folder import JUDGED, RunFolder
from snellen.errors import FingerprintError, PluginError, RunError, RunLockedError, SnellenError, UsageError
from snellen.plugin_errors import plugin_fault
from snellen.runs.caveats import empty_replies, reply_faults, title_part
from snellen.runs.coordinates import coordinates_line, odd_line
from snellen.scoring.metric_text import bracketed, is_detail, legend, mark, span
from snellen.types import Metric

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.benchmarks.base import Benchmark
    from snellen.cli.checks import CheckReport
    from snellen.engine.questions import Observer
    from snellen.engine.run_folder import RunMeta, RunSpec
    from snellen.runs.compare import Pairing
    from snellen.runs.run import Run
    from snellen.runs.suite_overall import SuiteOverall
    from snellen.runs.trackers import TrackedRun, TrackerTarget

UNREAD_SHARE = 0.025
"""Share of unreadable replies above which the end of a run says so: the one above which EASI's script asks its judge."""
UNANSWERED = 9
"""Exit status of a finished run in which questions have no answer, or most answers say nothing."""


class FailedModel(NamedTuple):
    """A run that failed; benchmark and model are None if unknown."""

    path: Path
    benchmark: str | None
    model: str | None
    error: SnellenError


@dataclass
class ModelOutcome:
    """Finished and failed runs of a command.

    `judged` are the judge's runs about `runs`, which are not printed; `checks` are made at the end, if there are any.
    `judge_commands` has the command that judges a run whose judge failed. `paired`: runs with tools are compared with those
    without.
    """

    runs: list[Run] = field(default_factory=list)
    judged: list[Run] = field(default_factory=list)
    failures: list[FailedModel] = field(default_factory=list)
    checks: CheckReport | None = None
    judge_commands: dict[Path, str] = field(default_factory=dict)
    paired: bool = False

    @property
    def status(self) -> int:
        """Exit code of the first failure, else 9 if an answer is missing, most are empty or a judge gave no verdict, else 0."""
        if self.failures:
            return self.failures[0].error.exit_code
        runs = (*self.runs, *self.judged)
        if any(run.meta.totals.error or run.meta.totals.timeout or run.meta.mostly_empty for run in runs):
            return UNANSWERED
        judging = [run for run in runs if run.meta.spec.benchmark == JUDGED]
        if judging:
            from snellen.runs.judge.verdicts import gave_no_verdict

            return UNANSWERED if any(map(gave_no_verdict, judging)) else 0
        return 0


@contextlib.contextmanager
def failures_as_json(folder: Path, benchmark: str | None, model: str | None, *, wanted: bool) -> Iterator[None]:
    """With `--json`, print an error of this block's run as JSON on stdout too, and exit with the error's status."""
    try:
        yield
    except SnellenError as error:
        if not wanted:
            raise
        failure = FailedModel(folder, benchmark, model, error)
        raise typer.Exit(tell_failure(ModelOutcome(), failure)) from error


def names(run: Path) -> tuple[str | None, str | None]:
    """Return benchmark and model of a run, or (None, None) if its folder does not record them."""
    try:
        spec = RunFolder(run).meta().spec
    except RunError:
        return None, None
    return spec.benchmark, spec.model


def tell_failure(outcome: ModelOutcome, failure: FailedModel) -> int:
    """Print an error and the JSON of all runs up to it; return the exit status."""
    status = tell(failure.error)
    outcome.failures.append(failure)
    finish(outcome, profile=None, report=False, as_json=True)
    return status


def finish(outcome: ModelOutcome, *, profile: str | None, report: bool, as_json: bool) -> int:
    """Print the runs (a table per benchmark, or one JSON object), write reports, and return the exit status."""
    summaries = _summaries(outcome, profile)
    together = _together(outcome.runs, profile)
    if report:
        from snellen.reports.runs import report as write_report

        for run in outcome.runs:
            write_report([run], run.folder.report)
    checks = outcome.checks
    pairings = _pairings(outcome, profile) if outcome.paired else []
    if as_json:
        runs = [_run_json(run, metrics, report=report) for run, metrics in zip(outcome.runs, summaries, strict=True)]
        suites = [_suite_json(overall) for overall in together]
        failures = [failure_json(failure) for failure in outcome.failures]
        thresholds = [] if checks is None else checks.check_runs(outcome, summaries)
        parts = {"suites": suites, "checks": thresholds, "paired": _paired_json(pairings)}
        show_json({"runs": runs + failures, **{name: rows for name, rows in parts.items() if rows}})
    else:
        _show(outcome, summaries, together, report=report)
        if pairings:
            from snellen.cli.compare import show_pairings

            show_pairings(pairings)
        if checks is not None:
            checks.check_runs(outcome, summaries)
    return outcome.status if checks is None else checks.finish(outcome.status, as_json=as_json)


def without_tools(model: str) -> str:
    """Return the name of a tools:NAME model without its tools, api:NAME."""
    return f"api:{model.removeprefix('tools:')}"


def _paired_json(pairings: Sequence[Any]) -> list[Any]:
    if not pairings:
        return []
    from snellen.cli.compare import flat

    return [flat(to_builtins(each)) for each in pairings]


def _pairings(outcome: ModelOutcome, profile: str | None) -> list[Pairing]:
    """Compare each run with tools with that of the same model without; of several profiles, by the first."""
    from snellen.runs.compare import compare

    runs = {(run.benchmark.name, run.meta.spec.model): run for run in outcome.runs}
    pairings = []
    for (benchmark, model), run in runs.items():
        baseline = runs.get((benchmark, without_tools(model)))
        if model.startswith("tools:") and baseline is not None:
            first = None if profile is None or profile == "all" else profile.partition(",")[0]
            try:
                pairings += compare(baseline, run, profile=first)
            except SnellenError as error:
                note(f"note: {benchmark} with and without tools: {error.message}")
    return pairings


def _judging(run: Run) -> str:
    """Return one line about the run's judge, or about the verdicts of a judge's run; empty if there is nothing to say."""
    if run.meta.spec.benchmark != JUDGED:
        return run.judged_by()
    from snellen.runs.judge.verdicts import judge_line

    return judge_line(run)


def _show(
    outcome: ModelOutcome,
    summaries: list[dict[str, list[Metric]]],
    together: list[SuiteOverall],
    *,
    report: bool,
) -> None:
    """Print a table per benchmark, and a line per run."""
    by_benchmark: dict[str, list[tuple[Run, dict[str, list[Metric]]]]] = {}
    for run, metrics in zip(outcome.runs, summaries, strict=True):
        if not run.all_failed:
            by_benchmark.setdefault(run.benchmark.name, []).append((run, metrics))
    for rows in by_benchmark.values():
        run, metrics = rows[0]
        name = next(iter(metrics), "")
        fields = _table_fields(run, name) if len(rows) == len(metrics) == 1 else {}
        if fields:
            show_details(run.benchmark, fields, f"{run.meta.spec.model_with_adapter} · {name}{_part(run)}")
        else:
            show(_table(rows))
    for run, metrics in zip(outcome.runs, summaries, strict=True):
        if not run.all_failed:
            if (headline := run.headline(metrics)) is not None:
                print(headline.text)
            for line in _detail_lines(run, metrics):
                print(line)
        if (errors := run.request_errors()).failed:
            print(f"{run.benchmark.name} · {run.meta.spec.model_with_adapter}: {errors.text}")
        if not run.all_failed and (judging := _judging(run)):
            usual = judge_command(run.path)
            judging = judging.replace(usual, outcome.judge_commands.get(run.path, usual))
            print(f"{run.benchmark.name} · {run.meta.spec.model_with_adapter}: {judging}")
        odd = odd_line(next(iter(metrics.values()), ()))
        faults = (odd, *reply_faults(run.meta), _unread_line(run, metrics))
        for line in filter(None, (coordinates_line(run.meta.spec), *faults)):
            print(f"{run.benchmark.name} · {run.meta.spec.model_with_adapter}: {line}")
        print(_last_line(run, report))
        print_notes(run.remarks)
    for overall in together:
        print(_suite_line(overall))


def _unread_line(run: Run, metrics: dict[str, list[Metric]]) -> str:
    """Return how many replies the first profile could not read, where they are more than `UNREAD_SHARE` of it; else ""."""
    profile, figures = next(iter(metrics.items()), ("", []))
    shares = [(one.value or 0.0, one.n) for one in figures if one.name == "invalid" or one.name.endswith("/invalid")]
    unread, asked = round(sum(share * n for share, n in shares)), sum(n for _, n in shares)
    if run.meta.judges or unread <= UNREAD_SHARE * asked:
        return ""
    return (
        f"{profile} could not read {unread:,} of {asked:,} replies: snellen score {shlex.quote(str(run.path))} says why"
    )


def _table_fields(run: Run, profile: str) -> Mapping[str, Any]:
    """Return what the benchmark's own tables show of a run; empty for a benchmark that has none."""
    if run.benchmark.tables is None:
        return {}
    from snellen.runs.score_rows import details

    return details(run, profile)


def _detail_lines(run: Run, metrics: dict[str, list[Metric]]) -> list[str]:
    """Return what the benchmark reports beside its metrics, of the first profile that is shown."""
    if run.benchmark.details is None:
        return []
    from snellen.runs.score_rows import detail_lines

    return detail_lines(run, next(iter(metrics), None))


def _together(runs: list[Run], profile: str | None) -> list[SuiteOverall]:
    """Return what runs of a suite's members give together; nothing of a single run, nor where samples cannot be read."""
    if len(runs) < 2:
        return []
    from snellen.runs.suite_overall import suite_overall

    try:
        return suite_overall(runs, profile)
    except SnellenError as error:
        note(f"note: no overall score of the runs together: {error.message}")
        return []


def _suite_json(overall: SuiteOverall) -> dict[str, Any]:
    return {
        "benchmark": overall.suite,
        "model": overall.model,
        "profile": overall.profile,
        "runs": [str(run.path) for run in overall.runs],
        "metrics": [structs.asdict(metric) for metric in overall.metrics],
    }


def _suite_line(overall: SuiteOverall) -> str:
    scores = ", ".join(f"{metric.name} {_cell(metric)}" for metric in overall.metrics)
    return f"{overall.suite} · {overall.model} · {overall.profile}, {len(overall.runs)} runs together: {scores}"


def _summaries(outcome: ModelOutcome, profile: str | None) -> list[dict[str, list[Metric]]]:
    """Return each run's metrics by profile; of several runs, one whose plug-in fails becomes a failure."""
    summaries, summarized = [], []
    for run in outcome.runs:
        try:
            summaries.append(run.figures(profile))
        except Exception as error:
            fault = error if isinstance(error, PluginError) else plugin_fault(error)
            if fault is None or len(outcome.runs) + len(outcome.failures) == 1:
                raise
            tell(fault)
            outcome.failures.append(FailedModel(run.path, run.benchmark.name, run.meta.spec.model, fault))
        else:
            summarized.append(run)
    outcome.runs = summarized
    return summaries


def show_details(benchmark: Benchmark, details: Mapping[str, Any], subtitle: str) -> None:
    """Print a profile's details as the benchmark's own tables."""
    assert benchmark.tables is not None  # noqa: S101 - goes with `details`
    for number, each in enumerate(benchmark.tables(details)):
        table = new_table("" if number else f"{benchmark.name} · {subtitle}", each.texts, each.numbers)
        for row in each.rows:
            table.add_row(*row)
        table.caption = "\n".join(each.notes) or None
        show(table)


def _run_json(run: Run, metrics: dict[str, list[Metric]], *, report: bool = False) -> dict[str, Any]:
    meta = run.meta
    return {
        "path": str(run.path),
        "benchmark": run.benchmark.name,
        "model": meta.spec.model,
        "fingerprint": meta.fingerprint,
        "state": run.state,
        "coverage": to_builtins(meta.coverage),
        **({} if meta.truncated is None else {"truncated": meta.truncated}),
        "totals": structs.asdict(meta.totals),
        "failures": run.request_errors().as_json(),
        "empty": empty_replies(meta) or None,
        **({} if meta.imported is None else {"imported": meta.imported}),
        "profiles": profiles_json(run, metrics),
        **({"report": str(run.folder.report)} if report else {}),
    }


def profiles_json(run: Run, metrics: dict[str, list[Metric]]) -> list[dict[str, Any]]:
    """Return metrics and details of a run by profile, as `--json` shows them."""
    from snellen.runs.score_rows import details

    return [
        {"profile": name, "metrics": [structs.asdict(metric) for metric in rows], **details(run, name)}
        for name, rows in metrics.items()
    ]


def failure_json(failure: FailedModel) -> dict[str, Any]:
    """Return a failed run as `--json` shows it."""
    path, benchmark, model, error = failure
    return {
        "path": str(path),
        "benchmark": benchmark,
        "model": model,
        "state": "failed",
        **_so_far(path, error),
        "error": {"message": error.message, "hint": error.hint, "exit_code": error.exit_code},
    }


def _so_far(path: Path, error: SnellenError) -> dict[str, Any]:
    """Return what a failed run has on disk; nothing if the folder was refused, since it then holds another run."""
    folder = RunFolder(path)
    if isinstance(error, (FingerprintError, RunLockedError, UsageError)) or not folder.exists():
        return {}
    try:
        meta = folder.meta()
    except RunError:
        return {}
    return {
        "fingerprint": meta.fingerprint,
        "coverage": to_builtins(meta.coverage),
        "totals": structs.asdict(meta.totals),
    }


def _table(rows: list[tuple[Run, dict[str, list[Metric]]]]) -> Table:
    """Build the table of one run under one profile in full, or of several side by side."""
    columns = [(run, profile, metrics) for run, by in rows for profile, metrics in by.items()]
    first = rows[0][0]
    if len(columns) == 1:
        run, profile, metrics = columns[0]
        title = f"{first.benchmark.name} · {run.meta.spec.model_with_adapter} · {profile}{_part(run)}"
        headings = ("value", "95 % interval", "n", "coverage", "chance")
        table = new_table(title, ["metric"], headings)
        for metric in main_metrics(metrics):
            table.add_row(
                metric.name,
                _number(metric.value, metric.unit),
                span(metric.ci95) + mark(metric.interval),
                f"{metric.n:,}",
                f"{metric.coverage:.1%}",
                "" if metric.chance is None else f"{metric.chance:.3f}",
            )
        omitted = _omitted(len(metrics) - table.row_count, [run.path])
        table.caption = "\n".join(filter(None, (legend(main_metrics(metrics)), omitted))) or None
        return table
    models = [f"{run.meta.spec.model_with_adapter}\n{profile}{_part(run)}" for run, profile, _ in columns]
    table = new_table(first.benchmark.name, ["metric"], models)
    by_name = [{metric.name: metric for metric in main_metrics(metrics)} for _, _, metrics in columns]
    for name in dict.fromkeys(name for metrics in by_name for name in metrics):
        table.add_row(name, *(_cell(metrics.get(name)) for metrics in by_name))
    every = {metric.name for _, _, metrics in columns for metric in metrics}
    omitted = _omitted(len(every) - table.row_count, list(dict.fromkeys(run.path for run, _ in rows)))
    marks = legend(metric for metrics in by_name for metric in metrics.values())
    table.caption = "\n".join(filter(None, (marks, omitted))) or None
    return table


def main_metrics(metrics: list[Metric]) -> list[Metric]:
    """Return headline, categories, invalid and error: no diagnosis by class but its drops, and nothing by letter."""
    return [metric for metric in metrics if not is_detail(metric.name)]


def _omitted(count: int, runs: list[Path]) -> str | None:
    """Return the line below a table that omits `count` metrics, or None if it omits none."""
    return (
        f"{count:,} more metrics: snellen score --all {' or '.join(shlex.quote(str(run)) for run in runs)}"
        if count
        else None
    )


def protocol(meta: RunMeta) -> str:
    """Return what a title says of the protocol by which a run was asked; empty without one."""
    name = meta.spec.data.options.get("protocol")
    return "" if name is None else f" · protocol={name}"


def other_judge(run: Run) -> str:
    """Return what a title says of a judge that is not the published one; empty where it is, or none has judged."""
    return f" · judged by another model than {run.benchmark.published_judge}" if run.other_judge() else ""


def _part(run: Run) -> str:
    return protocol(run.meta) + title_part(run.meta) + _run_part(run) + other_judge(run)


def _run_part(run: Run) -> str:
    coverage = run.meta.coverage
    if run.meta.truncated is not None:
        there, known = run.meta.truncated
        first = "" if coverage.full else f"{coverage.part.removesuffix(' samples')} in "
        return f" · {first}a table of only {there:,} of {known:,} rows"
    if run.meta.not_there:
        of = coverage.of or 0
        subject = "replies were available" if run.meta.judges else "questions could be read"
        return f" · only {of - run.meta.not_there:,} of {of:,} {subject}"
    if coverage.full:
        return ""
    return f" · {coverage.part.removesuffix(' samples').removesuffix(' of the')}"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if unit == "fraction" else f"{value:,.3g} {unit}"


def _cell(metric: Metric | None) -> str:
    if metric is None:
        return ""
    return _number(metric.value, metric.unit) + bracketed(metric.ci95) + mark(metric.interval)


def _last_line(run: Run, report: bool) -> str:
    meta, totals = run.meta, run.meta.totals
    parts = [f"{totals.ok:,} answered"]
    if totals.cached:
        parts.append(f"{totals.cached:,} of them from --cache")
    if totals.refused:
        parts.append(f"{totals.refused:,} refused")
    if totals.error or totals.timeout:
        again = "" if meta.imported else f" (asked again by `{rerun_command(run.folder, meta)}`)"
        parts.append(f"{totals.error + totals.timeout:,} without an answer{again}")
    if totals.input_tokens or totals.output_tokens:
        parts.append(totals.tokens_text + ["", " (not all were counted)"][bool(totals.uncounted)])
    if totals.cost is not None:
        from snellen.runs.costs import cost_text
        from snellen.runs.run import headline

        parts.append(cost_text(totals, headline(run)))
    parts += [f"{totals.seconds:.1f} s", f"fingerprint {meta.fingerprint}", str(run.path)]
    if report:
        parts.append(f"report {run.folder.report}")
    return " · ".join(parts)


def log_targets(texts: Sequence[str]) -> list[TrackerTarget]:
    """Check the values of --log before anything is asked; raise as `parse_targets`."""
    from snellen.runs.trackers import parse_targets

    return parse_targets(texts)


@contextlib.contextmanager
def log_live(texts: Sequence[str] | None, spec: RunSpec, benchmark: Benchmark) -> Iterator[Observer | None]:
    """Yield who is told of a run's requests and records while it goes on: trackers of --log that follow a run; else None."""
    # The variable by which OpenTelemetry is switched on everywhere.
    switched_on = os.environ.get("OTEL_TRACES_EXPORTER") == "otlp"
    if not texts and not switched_on:
        yield None
        return
    from snellen.runs.trackers import following, is_installed, parse_targets

    texts = list(texts or ())
    if switched_on and not any(text.startswith("otel") for text in texts):
        if is_installed("otel"):
            texts.append("otel")
        else:
            note("OTEL_TRACES_EXPORTER is otlp, but no spans are sent: the extra otel is not installed")
    with following(parse_targets(texts), spec, benchmark) as observer:
        yield observer


def log_runs(targets: Sequence[TrackerTarget], runs: Sequence[Run], profile: str | None) -> None:
    """Log runs to all targets, and print where they went. A tracker's fault is a warning."""
    from snellen.runs.trackers.content import tracked_run

    for run in runs:
        try:
            tracked = tracked_run(run, run.figures(profile))
        except SnellenError as error:
            note(f"warning: {run.path} is not logged: {error.message}")
        else:
            log_tracked(targets, tracked)


def log_tracked(targets: Sequence[TrackerTarget], tracked: TrackedRun) -> None:
    """Log one run to all targets, and print where it went."""
    from snellen.runs.trackers import log_run

    for result in log_run(targets, tracked):
        note(result.line)
