"""snellen compare"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from snellen.cli import options as shared
from snellen.cli.checks import CheckOptions, CheckReport, DropOptions
from snellen.cli.console import new_table, note, print_notes, remark, show, show_json
from snellen.cli.option_parsing import argument, option
from snellen.errors import DataError, UsageError
from snellen.runs.threshold_check import drop_cases, threshold_cases
from snellen.scoring.metric_text import bracketed, counted, span

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.runs.compare import Pairing
    from snellen.runs.compared_runs import ComparedPart, ComparedRun
    from snellen.runs.drop_check import DropCheck
    from snellen.runs.ranking import Ranking
    from snellen.runs.run import Run
    from snellen.runs.threshold_check import ThresholdCheck

MAX_CHARACTERS = 300
PIPE_WIDTH = 80
MOST_COLUMNS = 12
"""Runs whose ranking has a column of p-values for each; `--json` has every pair."""


def compare(
    runs: list[Path] = argument("Run folders; the first is the baseline.", value="RUN RUN…"),
    *,
    profile: str | None = option("One scoring profile.", said="the benchmark's first"),
    by: list[str] | None = option(
        "Slice by this meta column; may be repeated.",
        value="META",
        said="kind, level, task, asked, category; of your own file its categories",
    ),
    metric: str | None = option("Compare this metric of the benchmark as well, by a paired bootstrap.", value="NAME"),
    flips: bool = option("List the samples that differ, with both replies.", False),
    force: bool = option("Compare runs of different samples by the ids that they share.", False),
    moved: shared.MovedOptions,
    drop: DropOptions,
    checks: CheckOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Compare runs with the first one, sample by sample, and rank three or more.

    Differences are the other run's score minus the baseline's. Each row has the smallest difference that this many
    samples can detect (80 % power). Subgroup p-values are not corrected for multiple testing. Those of the ranking are
    adjusted after Holm.

    With --fail-if-worse, each other run is tested against the first: one-sided, paired by sample, clustered by image.
    Samples without an answer count as 0. The exit status is 10 if a run is significantly worse by more than --margin.
    """
    from snellen.runs.compare import compare_with_first
    from snellen.runs.compared_runs import ComparedRun, open_runs
    from snellen.runs.drop_check import check_drops
    from snellen.runs.run_paths import find_runs

    _require_options(drop, checks, force=force, metric=metric)
    report = CheckReport(checks)
    with report.errors(f"compare {' '.join(map(str, runs))}"):
        # A check must not pass because a run is missing: there each path is a run.
        strict = drop.fail_if_worse or report.thresholds
        folders = runs if strict else find_runs(runs, least=2, say=remark)
        opened, name = open_runs(folders, profile, data=moved.data, images=moved.images, trust=moved.trust)
        sides = [ComparedRun(run) for run in opened]
        pairings = compare_with_first(sides, name, by=by, metric=metric, flips=flips, force=force)
        ranking = _ranking(sides, name, force=force) if as_json or len(sides) > 2 else None
        margin, alpha, coverage = drop.numbers()
        drops = (
            check_drops(sides, name, margin=margin, alpha=alpha, min_coverage=coverage) if drop.fail_if_worse else []
        )
        thresholds = _thresholds(report, opened[1:], name)
    costs = _costs(opened)
    if as_json:
        _show_json(name, pairings, ranking, drops, thresholds, costs)
    else:
        show_pairings(pairings)
        if ranking is not None and len(ranking.runs) > 2:
            _show_ranking(ranking)
        for line in costs:
            print(f"{line['run']}: cost {line['text']}")
    if report.wants_markdown:
        _add_markdown(report, pairings, ranking)
    cases = [*drop_cases(drops), *threshold_cases(thresholds)]
    for check in drops:
        if check.powerless:
            note(f"warning: {check.n:,} samples in {check.clusters:,} clusters cannot show any drop: use more samples")
    if cases:
        report.add(f"compare with {opened[0].path}", cases)
    raise typer.Exit(report.finish(max((check.exit_status for check in drops), default=0), as_json=as_json))


def _ranking(sides: Sequence[ComparedRun], profile: str, *, force: bool) -> Ranking | None:
    """Rank the runs; None, with a note, if they are too many or share no sample, while each pair can be compared."""
    from snellen.runs.ranking import MOST_RUNS, rank_runs

    if len(sides) > MOST_RUNS:
        note(f"note: no ranking: it takes at most {MOST_RUNS} runs")
        return None
    try:
        return rank_runs(sides, profile, force=force)
    except DataError as error:
        note(f"note: no ranking: {error.message}")
        return None


def _require_options(drop: DropOptions, checks: CheckOptions, *, force: bool, metric: str | None) -> None:
    """Raise UsageError for options that exclude each other or need another one."""
    drop.require()
    if drop.fail_if_worse and force:
        raise UsageError(
            "--fail-if-worse and --force exclude each other: runs of different samples say nothing about a drop",
            "Run the baseline again on the present samples.",
        )
    if drop.fail_if_worse and metric is not None:
        raise UsageError(
            "--fail-if-worse tests the mean score, and --metric names another one",
            f"Omit --metric, or check the value itself: --fail-under {metric}=VALUE.",
        )
    if checks.junit is not None and not (drop.fail_if_worse or checks.fail_under):
        raise UsageError("--junit writes checks, and none is made", "Add --fail-if-worse or --fail-under METRIC=VALUE.")


def _thresholds(report: CheckReport, runs: Sequence[Run], profile: str) -> list[ThresholdCheck]:
    """Check the metrics of every run but the baseline."""
    from snellen.runs.threshold_check import check_thresholds

    if not report.thresholds:
        return []
    return [
        check
        for run in runs
        for check in check_thresholds(str(run.path), run.benchmark.name, run.figures(profile), report.thresholds)
    ]


def _add_markdown(report: CheckReport, pairings: Sequence[Pairing], ranking: Ranking | None) -> None:
    """Add the tables of the comparison to the summary of the CI step."""
    from snellen.reports.ci_pages import comparison_markdown, ranking_markdown

    report.markdown += [comparison_markdown(pairing) for pairing in pairings]
    report.markdown += [ranking_markdown(ranking)] if ranking is not None and len(ranking.runs) > 2 else []


def _costs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the cost of each run whose cost is known, in all and per correct answer."""
    from snellen.runs.costs import cost_per_correct, cost_text
    from snellen.runs.run import headline

    lines = []
    for run in runs:
        totals = run.sized_meta.totals
        if totals.cost is not None:
            score = headline(run)
            share = cost_per_correct(totals, score)
            text = cost_text(totals, score)
            lines.append({"run": str(run.path), "cost": totals.cost, "cost_per_correct": share, "text": text})
    return lines


def _show_json(
    profile: str,
    pairings: Sequence[Pairing],
    ranking: Ranking | None,
    drops: Sequence[DropCheck],
    thresholds: Sequence[ThresholdCheck],
    costs: Sequence[dict[str, Any]],
) -> None:
    from msgspec import to_builtins

    checks = {"worse": to_builtins(drops), "thresholds": to_builtins(thresholds)}
    show_json(
        {
            "profile": profile,
            "comparisons": [flat(to_builtins(pairing)) for pairing in pairings],
            **({} if ranking is None else {"ranking": to_builtins(ranking)}),
            **({"costs": costs} if costs else {}),
            **({"checks": checks} if drops or thresholds else {}),
        }
    )


def show_pairings(pairings: Sequence[Pairing]) -> None:
    """Print the table, the metric, the flips and the notes of each pair."""
    for pairing in pairings:
        show(_table(pairing), pipe_width=PIPE_WIDTH)
        if (metrics := pairing.metric) is not None:
            method = "" if metrics.interval is None else f" {metrics.interval.text}"
            interval = bracketed(metrics.ci95, "+.4f") + method
            values = [("–" if value is None else f"{value:.4f}") for value in (metrics.baseline, metrics.other)]
            change = "–" if metrics.difference is None else f"{metrics.difference:+.4f}"
            print(f"{metrics.name}: {values[0]} -> {values[1]}, difference {change}{interval}")
        for flip in pairing.flips or ():
            print(f"{flip.sample_id}: {flip.baseline:g} -> {flip.other:g}")
            print(f"  baseline  {_reply(flip.baseline_reply)}")
            print(f"  other     {_reply(flip.other_reply)}")
        if pairing.flips is not None and not pairing.flips:
            print("No sample differs in its score.")
        print_notes((*pairing.notes, *_undetectable(pairing)))


def _show_ranking(ranking: Ranking) -> None:
    show(_ranking_table(ranking), pipe_width=PIPE_WIDTH)
    print(f"Runs that share a letter cannot be told apart at {ranking.alpha:g} over all pairs (p after Holm).")
    if ranking.left_out:
        note(f"note: {ranking.left_out:,} samples that not every run has a score for are left out of the ranking")


def _ranking_table(ranking: Ranking) -> Table:
    """Build the table of a ranking, with the adjusted p-value of every pair if there is room."""
    against = range(len(ranking.runs) - 1) if len(ranking.runs) <= MOST_COLUMNS else range(0)
    title = f"Ranking · {ranking.profile} · {ranking.n:,} samples"
    numbers = ["score", "95 % interval", "interval by", *(f"p against {place + 1}" for place in against)]
    table = new_table(title, ["", "run", "group"], numbers)
    adjusted = {(pair.higher, pair.lower): pair.p_adjusted for pair in ranking.pairs}
    for place, run in enumerate(ranking.runs):
        cells = [f"{adjusted[ranking.runs[other].run, run.run]:.2g}" if other < place else "" for other in against]
        method = "" if run.interval is None else run.interval.text
        ends = span(run.ci95, ".4f")
        table.add_row(str(run.rank), run.run, run.groups, f"{run.score:.4f}", ends, method, *cells)
    return table


def _table(pairing: Pairing) -> Table:
    headings = (
        "n",
        "baseline",
        "other",
        "difference",
        "95 % interval",
        "interval by",
        "p",
        "better / worse",
        "smallest detectable\ndifference",
        "test",
    )
    title = f"{pairing.other} against {pairing.baseline} · {pairing.profile} · {pairing.n:,} samples"
    table = new_table(title, ["samples"], headings)
    for part in pairing.parts:
        table.add_row(part.name, *_cells(part))
    return table


def _cells(part: ComparedPart) -> tuple[str, ...]:
    comparison = part.comparison
    return (
        counted(comparison.n, comparison.interval),
        f"{part.baseline:.4f}",
        f"{part.other:.4f}",
        f"{comparison.difference:+.4f}",
        span(comparison.ci95, "+.4f"),
        "" if comparison.interval is None else comparison.interval.text,
        f"{comparison.p_value:.2g}",
        f"{comparison.wins:,} / {comparison.losses:,}",
        "–" if comparison.smallest_detectable is None else f"±{comparison.smallest_detectable:.4f}",
        comparison.test_text,
    )


def _undetectable(pairing: Pairing) -> list[str]:
    """Say why rows of the table have no smallest detectable difference."""
    alike: list[str] = []
    few: list[str] = []
    for part in pairing.parts:
        if part.comparison.smallest_detectable is None:
            (few if part.comparison.wins or part.comparison.losses else alike).append(part.name)
    lines = []
    if alike:
        lines.append(f"no smallest detectable difference for {', '.join(alike)}: no score differs there")
    if few:
        lines.append(
            f"no smallest detectable difference for {', '.join(few)}: too few independent samples to find any difference, "
            "or all of them differ by the same amount"
        )
    return lines


def flat(pairing: dict[str, Any]) -> dict[str, Any]:
    """Return a pairing with one flat object per part, without the fields that were not requested."""
    parts = [
        {**{k: v for k, v in part.items() if k != "comparison"}, **part["comparison"]} for part in pairing["parts"]
    ]
    rest = {name: value for name, value in pairing.items() if name not in ("parts", "profile") and value is not None}
    return {**rest, "parts": parts}


def _reply(text: str | None) -> str:
    if text is None:
        return "(no answer)"
    excerpt = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}… ({len(text):,} characters)"
    return repr(excerpt)
