"""Profiles `reviewed` and `audited`: what a run's reviews make of its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from snellen.errors import RunError, SnellenError
from snellen.runs.reviews.audit_sample import describe, read_audit_sample
from snellen.runs.reviews.audited import AuditRows, audited
from snellen.runs.reviews.cases import reviewed_profile
from snellen.runs.reviews.current import CurrentReviews
from snellen.runs.reviews.journal import REVIEWS, read_reviews_of
from snellen.runs.reviews.rules import ReviewRules
from snellen.runs.scoring import (
    AUDITED,
    REVIEWED,
    Scored,
    Summary,
    SummaryBuilder,
    Unanswered,
    count,
    profiles_of,
    review_profiles,
    scores_of,
    summarize,
)
from snellen.scoring.metric_text import bracketed
from snellen.scoring.scores import ScoreBuilder, Scores

if TYPE_CHECKING:
    from snellen.runs.run import Run


def review_summary(
    run: Run,
    wanted: str,
    rules: ReviewRules | None = None,
    *,
    each: Callable[[Scored], None] | None = None,
    verdicts: Mapping[str, str] | None = None,
) -> Summary:
    """Score a run under `reviewed`, `audited` or both; the automatic profile comes last.

    Args:
        run: the run.
        wanted: the profiles, separated by commas; others of the benchmark may stand among them.
        rules: the user's rules.
        each: sees every row, with its score under `reviewed` and under the automatic profile.
        verdicts: a judge's replies by `record_name`.

    Raises:
        RunError: there is no decision, or none of an audit.
        UsageError: the rules or `wanted` name no profile of the benchmark.
    """
    profiles = review_profiles(run.benchmark, wanted)
    others = [name.strip() for name in wanted.split(",") if name.strip() not in profiles]
    further = profiles_of(run.benchmark, ",".join(others)) if others else {}
    summary = _review_summary(run, profiles, rules or ReviewRules(), each, verdicts)
    further = {name: scorer for name, scorer in further.items() if name not in summary.metrics}
    if not further:
        return summary
    beside = summarize(
        run.benchmark,
        run.answers(),
        further,
        expected=summary.expected,
        verdicts=verdicts,
        unanswered=Unanswered(run.meta.spec.data, run.meta.spec.repeats),
    )
    return replace(summary, metrics={**summary.metrics, **beside.metrics})


def _review_summary(
    run: Run,
    profiles: Sequence[str],
    rules: ReviewRules,
    each: Callable[[Scored], None] | None,
    verdicts: Mapping[str, str] | None,
) -> Summary:
    of, benchmark = reviewed_profile(run, rules.of, "--of"), run.benchmark
    reviews = CurrentReviews(run, of, rules, verdicts)
    _require(run, reviews, profiles)
    scorers = {of: benchmark.score[of]}
    automatic, people = (SummaryBuilder(benchmark, scorers, verdicts) for _ in range(2))
    rows = AuditRows(run, of) if AUDITED in profiles else None
    for sample, record in run.answers():
        scores = scores_of(benchmark, sample, record, scorers, verdicts)
        ruling, audit_ruling = reviews.rulings(sample, record, scores[of])
        true = reviews.score(sample, record, scores[of], ruling)
        if ruling is not None:
            reviews.count(sample.id, true)
        automatic.add(sample, record, scores)
        people.add(sample, record, {of: true.score})
        if rows is not None:
            same = audit_ruling == ruling
            rows.add(
                sample,
                record,
                scores[of],
                audit_ruling,
                true if same else reviews.score(sample, record, scores[of], audit_ruling),
            )
        if each is not None:
            each(Scored(sample, record, {REVIEWED: true.score, of: scores[of]}))
    reviews.finish()
    spec = run.meta.spec
    expected, rest = count(benchmark, spec.data) * spec.repeats, Unanswered(spec.data, spec.repeats)
    base, decided = (builder.build(expected, unanswered=rest) for builder in (automatic, people))
    if REVIEWED not in profiles:
        reviews.tally.ties.clear()  # of decisions of the queue too; the audit counts its own
    metrics, details, notes = {}, {}, [*reviews.faults, *reviews.tally.notes()]
    for profile in profiles:
        if profile == REVIEWED:
            metrics[profile] = decided.metrics[of]
            details[profile], line = _reviewed_details(of, rules, reviews)
            notes.insert(0, line)
        elif rows is not None:
            metrics[profile], details[profile], lines = audited(rows, base.metrics[of], expected)
            notes[:0] = lines
    return replace(base, metrics={**metrics, of: base.metrics[of]}, unread={}, details=details, notes=tuple(notes))


def review_lines(run: Run) -> list[str]:
    """Return one sentence for each of the two profiles that the run's reviews give, or why they give none; for reports."""
    if not (run.path / REVIEWS).exists():
        return []
    lines = []
    audit = any(review.design == "audit" for review in read_reviews_of(run.path))
    for profile in (REVIEWED, *([AUDITED] if audit else ())):
        try:
            summary = review_summary(run, profile, verdicts=run.verdicts())
        except SnellenError as error:
            lines.append(f"no figures under {profile}: {error.message}")
            continue
        metric = next((metric for metric in summary.metrics[profile] if metric.value is not None), None)
        of, automatic = next((name, rows) for name, rows in summary.metrics.items() if name != profile)
        beside = next((row.value for row in automatic if metric is not None and row.name == metric.name), None)
        if metric is not None and metric.value is not None and beside is not None:
            lines.append(
                f"{metric.name} under {profile}: {metric.value:.4f}{bracketed(metric.ci95, '.4f')}, n {metric.n:,}; "
                f"automatic ({of}): {beside:.4f}"
            )
    return lines


def reviewed_scores(run: Run, verdicts: Mapping[str, str] | None = None) -> Scores:
    """Return the scores of a run under `reviewed`, by the default rules.

    Raises:
        RunError: there is no decision.
    """
    builder = ScoreBuilder()

    def add(scored: Scored) -> None:
        builder.add(scored.sample, scored.scores[REVIEWED], scored.record.repeat)

    review_summary(run, REVIEWED, each=add, verdicts=verdicts)
    return builder.build(count(run.benchmark, run.meta.spec.data) * run.meta.spec.repeats)


def _require(run: Run, reviews: CurrentReviews, profiles: Sequence[str]) -> None:
    review = f"snellen view {run.path.parent} --review NAME"
    if AUDITED in profiles and not reviews.any_audit:
        others = "; its decisions are of the queue, which was not drawn at random" if reviews.any else ""
        sample = read_audit_sample(run.path)
        draw = f"Draw a sample: snellen reviews sample {run.path} --size 200. Then review it: {review}"
        raise RunError(
            f"{run.path} has no audit: {REVIEWS} holds no decision with design audit{others}",
            draw if sample is None else f"A sample is drawn ({describe(sample)}). Review it: {review}",
        )
    if not reviews.any and not reviews.any_audit:
        raise RunError(f"{run.path} has no reviews: {REVIEWS} holds no decision", f"Review it: {review}")


def _reviewed_details(of: str, rules: ReviewRules, reviews: CurrentReviews) -> tuple[dict[str, Any], str]:
    """Return what belongs to the profile `reviewed` in JSON, and a line for people."""
    effects = reviews.tally.effects
    words = ("confirmed", "overturned", "corrected", "omitted", "unknown", "undecided")
    counts = {word: effects.get(word, 0) for word in words}
    details = {
        "of": of,
        "wrong_gold": rules.wrong_gold,
        "ambiguous": rules.ambiguous,
        "decisions": reviews.tally.decisions,
        "replies": counts,
        "stale": len(reviews.tally.stale),
        "ties": len(reviews.tally.ties),
    }
    listed = ", ".join(f"{number:,} {word}" for word, number in counts.items() if number)
    line = f"reviewed: {sum(counts.values()):,} replies have a decision about the verdict of {of}: {listed or 'none counts'}"
    return {"review": details}, line
