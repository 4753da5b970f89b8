"""Checks for CI: thresholds of metrics, JUnit XML, and the summary of a CI step."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from snellen.cli.console import note
from snellen.cli.option_parsing import given, option
from snellen.errors import SnellenError, StorageError, UsageError
from snellen.runs.threshold_check import UNANSWERED, CheckCase, CheckSuite, answers_case, threshold_cases
from snellen.scoring.metric_text import is_by_class

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark
    from snellen.cli.results import ModelOutcome
    from snellen.engine.run_folder import RunSpec
    from snellen.runs.threshold_check import Threshold, ThresholdCheck
    from snellen.types import Metric

CHECKS = "Checks for CI"
XML = (".xml",)
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class CheckOptions:
    """Thresholds that a command must reach, and the files that say whether it did."""

    PANEL: ClassVar[str] = CHECKS

    fail_under: list[str] | None = option(
        "Exit with 11 unless the lower end of the metric's 95 % interval reaches VALUE; may be repeated. "
        "BENCHMARK:METRIC=VALUE is for the runs of one benchmark.",
        value="METRIC=VALUE",
        panel=CHECKS,
    )
    junit: str | None = option("Write the checks as JUnit XML.", value="FILE", panel=CHECKS)
    step_summary: Path | None = option(
        "Append the results as Markdown to this file.",
        value="FILE",
        said="$GITHUB_STEP_SUMMARY, which GitHub Actions sets",
        panel=CHECKS,
        env=SUMMARY_VARIABLE,
    )

    def thresholds(self) -> list[Threshold]:
        """Read the thresholds; raise UsageError for one that is not METRIC=VALUE."""
        if not self.fail_under:
            return []
        from snellen.runs.threshold_check import parse_threshold

        return [parse_threshold(text) for text in self.fail_under]

    def junit_file(self) -> Path | None:
        """Return the file of the JUnit XML; raise UsageError for a folder, a file of a run, or another ending."""
        if self.junit is None:
            return None
        from snellen.engine.output_file import require_output_file

        return require_output_file(self.junit, "--junit", XML)


@dataclass(frozen=True)
class ScoreCheckOptions(CheckOptions):
    """The checks of scored answers, which may be those of a part of the samples."""

    min_coverage: float | None = option(
        "With --fail-under: exit with 9 if a smaller share of the samples has an answer.",
        value="SHARE",
        said="0.9",
        panel=CHECKS,
    )

    def least_coverage(self) -> float:
        """Return the least coverage; raise UsageError for no share, and without --fail-under."""
        from snellen.runs.drop_check import ALPHA, MIN_COVERAGE, require_margin

        if self.min_coverage is not None and not self.fail_under:
            raise UsageError(
                "--min-coverage belongs to --fail-under, which is missing", "Add --fail-under METRIC=VALUE."
            )
        least = MIN_COVERAGE if self.min_coverage is None else self.min_coverage
        require_margin(0.0, ALPHA, least)
        return least


@dataclass(frozen=True)
class DropOptions:
    """The check that a run is not worse than the baseline."""

    PANEL: ClassVar[str] = CHECKS

    fail_if_worse: bool = option(
        "Exit with 10 if a run is significantly worse than the baseline, the first run, by more than --margin; "
        "with 9 if it lacks too many answers to pass.",
        False,
    )
    margin: float | None = option("Drop of the mean score that is accepted.", value="SHARE", said="0")
    alpha: float | None = option("Level of the one-sided test.", value="P", said="0.05")
    min_coverage: float | None = option(
        "Share of the samples that each run must have an answer to.", value="SHARE", said="0.9"
    )

    def require(self) -> None:
        """Raise UsageError for a number out of range, or one without --fail-if-worse."""
        from snellen.runs.drop_check import require_margin

        without = given(self, but=("fail_if_worse",))
        if without and not self.fail_if_worse:
            raise UsageError(f"{without[0]} belongs to --fail-if-worse, which is missing", "Add --fail-if-worse.")
        require_margin(*self.numbers())

    def numbers(self) -> tuple[float, float, float]:
        """Return margin, level and least coverage."""
        from snellen.runs.drop_check import ALPHA, MIN_COVERAGE

        return (
            0.0 if self.margin is None else self.margin,
            ALPHA if self.alpha is None else self.alpha,
            MIN_COVERAGE if self.min_coverage is None else self.min_coverage,
        )


@dataclass
class CheckReport:
    """The checks of one command: printed, and written as JUnit XML and as a CI step's summary.

    `mistake` is an error of the options that was noticed after the runs, such as an unknown metric: it is raised when the
    results have been printed.
    """

    options: CheckOptions
    suites: list[CheckSuite] = field(default_factory=list)
    markdown: list[str] = field(default_factory=list)
    mistake: SnellenError | None = None

    def __post_init__(self) -> None:
        self.thresholds = self.options.thresholds()
        self._junit = self.options.junit_file()

    @property
    def wants_markdown(self) -> bool:
        return self.options.step_summary is not None

    def add(
        self, name: str, cases: Sequence[CheckCase], *, metrics: Sequence[Metric] = (), seconds: float = 0.0
    ) -> None:
        """Add the checks of one run, and its metrics without those by class."""
        metrics = [metric for metric in metrics if not is_by_class(metric.name)]
        properties = {metric.name: _property(metric) for metric in metrics}
        self.suites.append(CheckSuite(name, cases, properties, seconds))
        if self.wants_markdown:
            from snellen.reports.ci_pages import checks_markdown, metrics_markdown

            self.markdown += [metrics_markdown(name, metrics)] if metrics else []
            self.markdown += [checks_markdown(cases)]

    def possible(self, specs: Sequence[RunSpec], benchmarks: Sequence[Benchmark], profile: str | None) -> list[str]:
        """Refuse thresholds that cannot be reached, before the first request; return what only the answers can tell."""
        if not self.thresholds:
            return []
        from snellen.runs.threshold_check import require_possible

        names = {benchmark.name for benchmark in benchmarks}
        lines: dict[str, None] = {}
        for spec, benchmark in zip(specs, benchmarks, strict=True):
            lines.update(dict.fromkeys(require_possible(benchmark, spec, profile, self.thresholds, names)))
        return list(lines)

    def check_runs(self, outcome: ModelOutcome, summaries: Sequence[dict[str, list[Metric]]]) -> list[dict[str, Any]]:
        """Check the runs of a command under the first profile of each; return the thresholds' checks for JSON."""
        from msgspec import to_builtins

        rows: list[ThresholdCheck] = []
        benchmarks = {run.benchmark.name for run in outcome.runs}
        for run, metrics in zip(outcome.runs, summaries, strict=True):
            totals = run.meta.totals
            checks = self.check(str(run.path), run.benchmark.name, metrics, benchmarks)
            recorded = totals.recorded
            cases = [answers_case(totals.done, recorded, kind=UNANSWERED), *threshold_cases(checks)]
            name = f"{run.benchmark.name} · {run.meta.spec.model_with_adapter}"
            self.add(name, cases, metrics=next(iter(metrics.values())), seconds=totals.seconds)
            rows += checks
        for failure in outcome.failures:
            name = " · ".join(filter(None, (failure.benchmark, failure.model))) or str(failure.path)
            self.add(name, [CheckCase("the run ended", "error", str(failure.error), type(failure.error).__name__)])
        return [to_builtins(row) for row in rows]

    def check(
        self, run: str, benchmark: str, metrics: Mapping[str, Sequence[Metric]], benchmarks: Collection[str] = ()
    ) -> list[ThresholdCheck]:
        """Check the metrics of one run; a mistake in the options is kept for later."""
        if not self.thresholds:
            return []
        from snellen.runs.threshold_check import check_thresholds

        try:
            return check_thresholds(run, benchmark, metrics, self.thresholds, benchmarks)
        except UsageError as error:
            self.mistake = self.mistake or error
            return []

    def finish(self, status: int, *, as_json: bool = False) -> int:
        """Print the checks of thresholds, write both files, and return the exit status.

        Args:
            status: that of the command so far; another one than 0 stays.
            as_json: print the checks to stderr, because stdout is one JSON object.
        """
        cases = [case for suite in self.suites for case in suite.cases]
        below = False
        for case in cases:
            below |= case.kind == "below" and case.outcome == "failed"
            if case.kind not in ("", UNANSWERED):  # the table of a run counts them already
                line = f"{'PASS' if case.outcome == 'passed' else 'FAIL'}  {case.text}"
                note(line) if as_json else print(line)
        if self.mistake is not None:
            self._write_error("thresholds", self.mistake)
            raise self.mistake
        self.write()
        if status or not below:
            return status
        from snellen.runs.threshold_check import BELOW

        return BELOW

    def write(self) -> None:
        """Write both files, if they were asked for.

        Raises:
            StorageError: one of them cannot be written.
        """
        if self._junit is not None:
            from snellen.reports.ci_pages import write_junit

            with _storage_errors("--junit", self._junit):
                write_junit(self._junit, self.suites)
        if self.options.step_summary is not None and any(self.markdown):
            from snellen.reports.ci_pages import append_summary

            path = self.options.step_summary
            try:
                with _storage_errors("--step-summary", path):
                    append_summary(path, "\n".join(filter(None, self.markdown)) + "\n")
            except StorageError as error:
                if str(path) != os.environ.get(SUMMARY_VARIABLE):
                    raise
                note(f"warning: no step summary: {error.message} (${SUMMARY_VARIABLE})")

    @contextlib.contextmanager
    def errors(self, name: str) -> Iterator[None]:
        """Record an error of this block as a case of its own in both files, and raise it again."""
        try:
            yield
        except SnellenError as error:
            self._write_error(name, error)
            raise

    def _write_error(self, name: str, error: SnellenError) -> None:
        if self._junit is None and not self.wants_markdown:
            return
        self.add(name, [CheckCase("the command ran", "error", str(error), type(error).__name__)])
        with contextlib.suppress(StorageError):  # the error itself is what is to be reported
            self.write()


def _property(metric: Metric) -> str:
    value = "none" if metric.value is None else f"{metric.value:.6g}"
    ends = "" if metric.ci95 is None else f" [{metric.ci95[0]:.6g}, {metric.ci95[1]:.6g}]"
    return f"{value}{ends} n={metric.n} coverage={metric.coverage:.4g}"


@contextlib.contextmanager
def _storage_errors(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{option} {path} cannot be written: {error.strerror or error}", f"Name another file with {option}."
        ) from error
