"""Profiles `reviewed` and `audited`: what a run's reviews make of its scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.engine.journal import record_name
from snellen.errors import RunError, SnellenError, UsageError
from snellen.runs.reviews.audit_sample import AUDIT_SAMPLE, AuditSample, describe, read_audit_sample, stratum_name
from snellen.runs.reviews.cases import is_read, reviewed_profile, stratum_values
from snellen.runs.reviews.current import CurrentReviews
from snellen.runs.reviews.decisions import ReviewRules, Ruling, TrueScore
from snellen.runs.reviews.journal import REVIEWS, read_reviews_of
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
    rubric_for,
    scores_of,
    summarize,
)
from snellen.scoring.metric_text import bracketed
from snellen.scoring.scores import ScoreBuilder, Scores
from snellen.scoring.statistics import (
    FurtherReviews,
    PredictionPowered,
    further_reviews,
    prediction_powered,
    reviewed_share,
)
from snellen.types import Metric, Record, Sample, Score

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
        wanted: the profiles, separated by commas; others of the benchmark may stand among them.
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


SLICE_REVIEWS = 10
"""Reviewed replies from which on a part of the samples gets an estimate of its own."""
MOST_CHOICES = 64
"""Columns that a value in a metric's name is looked for in, with those of its other values."""
MOST_LEVELS = 5
JUDGE, EXTRACTOR, READER = "judge", "extractor", "reader"


class AuditRows:
    """The scored replies of a run with their audit, row by row."""

    def __init__(self, run: Run, of: str) -> None:
        self.of, self.benchmark = of, run.benchmark
        self.path = run.path
        self.sample: AuditSample | None = read_audit_sample(run.path)
        self._keys = None if self.sample is None else set(self.sample.probabilities())
        self.values: list[float] = []
        self.groups: list[int] = []
        self.certain: list[bool] = []
        self.judged: list[bool] = []
        self.read: list[bool] = []
        self.strata: list[str] = []
        self.repeats = 0
        self.reviews: dict[int, tuple[Ruling, TrueScore]] = {}
        self.outside: list[str] = []
        self.unscored = 0
        self._numbers: dict[str, int] = {}
        self._parts = ScoreBuilder()

    def add(self, sample: Sample, record: Record, score: Score, ruling: Ruling | None, true: TrueScore) -> None:
        """Add a reply with its automatic score, and with the ruling of the audit and the true score if there is one."""
        lost = score.verdict in ("error", "invalid")
        value = 0.0 if lost and score.value is None else score.value
        if value is None or score.verdict == "unscored":
            self.unscored += ruling is not None
            return
        row = len(self.values)
        self.values.append(value)
        self.groups.append(self._numbers.setdefault(sample.group or f"\0{sample.id}", len(self._numbers)))
        self.certain.append(record.response is None)
        self.judged.append(rubric_for(self.benchmark, sample, record) is not None)
        self.repeats += record.repeat > 0
        self.read.append(is_read(score))
        if self.sample is not None and self.sample.by:
            self.strata.append(stratum_name(stratum_values(self.sample.by, sample, score)))
        # A row's value is its number, so that it is known again after the builder has put the rows in order.
        self._parts.add(sample, Score(float(row), None, "partial"), record.repeat)
        if ruling is None:
            return
        if self._keys is not None and (sample.id, record.repeat) not in self._keys:
            self.outside.append(record_name(sample.id, record.repeat))
        else:
            self.reviews[row] = (ruling, true)

    def probabilities(self) -> NDArray[np.float64] | None:
        """Return the probability of each row to be drawn; None: the same for all.

        Raises:
            RunError: a row belongs to no stratum of the sample.
        """
        if self.sample is None or not self.sample.by:
            return None
        rates = {
            stratum.name: stratum.size / stratum.population for stratum in self.sample.strata if stratum.population
        }
        lost = sorted(
            {name for name, sure in zip(self.strata, self.certain, strict=True) if name not in rates and not sure}
        )
        if lost:
            raise RunError(
                f"{self.path / AUDIT_SAMPLE}: the run has replies of the stratum {lost[0]!r}, and the sample has "
                f"{', '.join(repr(name) for name in sorted(rates)[:5])}",
                "Name the profile whose verdicts made the strata with --of, or draw a new sample.",
            )
        return np.array([max(rates.get(name, 1.0), 1e-12) for name in self.strata])

    def parts(self, metrics: Iterable[Metric]) -> Iterator[tuple[Metric, NDArray[np.intp]]]:
        """Yield the metrics over a part of the rows, `accuracy/short/species`, each with the rows that it may be over.

        These have the values in its name, in some columns, and are as many as it is over.
        """
        table = self._parts.build()
        for metric in metrics:
            for values in _values_in(metric.name):
                columns = [[column for column in table.meta.values() if value in column.names] for value in values]
                for choice in islice(product(*columns), MOST_CHOICES):
                    pairs = zip(choice, values, strict=True)
                    mask = np.logical_and.reduce([column.codes == column.names.index(value) for column, value in pairs])
                    rows = table.value[mask].astype(np.intp)
                    if len(rows) == metric.n:
                        yield metric, rows


def _values_in(name: str) -> Iterator[tuple[str, ...]]:
    """Yield the lists of values that a metric's name may end with: `a/b/c` has b, c or b/c."""
    rest = name.split("/")[1:]
    if not rest or len(rest) > MOST_LEVELS:
        return
    for cuts in product((False, True), repeat=len(rest) - 1):
        values = [rest[0]]
        for cut, text in zip(cuts, rest[1:], strict=True):
            values = [*values, text] if cut else [*values[:-1], f"{values[-1]}/{text}"]
        yield tuple(values)


class _Audit:
    """The rows as arrays, for estimates over all of them or a part.

    Attributes:
        decisions: [n] the decision on each reviewed row; None for a tie.
    """

    def __init__(self, rows: AuditRows) -> None:
        self.values = np.array(rows.values)
        if len(self.values) and not 0.0 <= self.values.min() <= self.values.max() <= 1.0:
            raise UsageError(
                f"audited needs scores from 0 to 1; those of {rows.of} are {self.values.min():g} to {self.values.max():g}",
                "Name a profile with scores from 0 to 1: --of PROFILE.",
            )
        self.group = np.array(rows.groups, dtype=np.int64)
        self.certain = np.array(rows.certain, dtype=bool)
        self.judged = np.array(rows.judged, dtype=bool)
        self.read = np.array(rows.read, dtype=bool)
        self.probability = rows.probabilities()
        self.reviewed = np.array(sorted(rows.reviews), dtype=np.intp)
        reviews = [rows.reviews[row] for row in self.reviewed]
        self.decisions = [ruling.decision for ruling, _ in reviews]
        effects = [true.effect for _, true in reviews]
        self.usable = np.array([effect != "undecided" for effect in effects], dtype=bool)
        self.unknown = np.array([effect == "unknown" for effect in effects], dtype=bool)
        values = [true.score.value for _, true in reviews]
        self.truth = np.array([np.nan if value is None else value for value in values])
        self.cluster = rows.benchmark.cluster if not rows.repeats else "question"

    def arguments(self, rows: NDArray[np.intp] | None, unknown: float) -> dict[str, Any]:
        """Return what `prediction_powered` takes, for some rows or all; `unknown` is the value of unknown scores."""
        keep = np.ones(len(self.values), dtype=bool)
        if rows is not None:
            keep[:] = False
            keep[rows] = True
        place = np.cumsum(keep) - 1
        chosen = self.usable & keep[self.reviewed]
        truth = np.where(self.unknown, unknown, self.truth)[chosen]
        return {
            "automatic": self.values[keep],
            "reviewed": place[self.reviewed[chosen]],
            "truth": truth,
            "group": self.group[keep],
            "probability": None if self.probability is None else self.probability[keep],
            "certain": self.certain[keep],
        }

    def estimate(self, rows: NDArray[np.intp] | None = None, least: int = 1) -> PredictionPowered | None:
        """Estimate the mean true score; None with fewer usable reviews than `least`.

        Scores that are wrong by an unknown amount are put at 0 and at 1, and the interval holds both results.
        """
        low = self.arguments(rows, 0.0)
        counted = ~np.isnan(low["truth"]) & ~low["certain"][low["reviewed"]]
        if int(counted.sum()) < least:
            return None
        result = prediction_powered(**low, cluster=self.cluster)
        if not self.unknown.any():
            return result
        high = prediction_powered(**self.arguments(rows, 1.0), cluster=self.cluster)
        return structs.replace(
            result,
            value=(result.value + high.value) / 2.0,
            ci95=type(result.ci95)(result.ci95[0], high.ci95[1], result.ci95.about),
            ci95_of_run=type(result.ci95)(result.ci95_of_run[0], high.ci95_of_run[1], result.ci95.about),
            people=(result.people + high.people) / 2.0,
            people_ci95=type(result.ci95)(result.people_ci95[0], high.people_ci95[1], result.people_ci95.about),
        )

    def share(self, name: str, words: Sequence[str], among: Sequence[str], rows: NDArray[np.bool_]) -> Metric:
        """Return the share of some rows whose decision is one of `words`, among those decided by a word of `among`."""
        domain = rows & ~self.certain
        place = np.cumsum(domain) - 1
        chosen = [
            (place[row], word in words)
            for row, word in zip(self.reviewed, self.decisions, strict=True)
            if domain[row] and word in among
        ]
        total = int(domain.sum())
        if not chosen:
            return Metric(name, None, 0, coverage=0.0)
        value, interval = reviewed_share(
            np.array([row for row, _ in chosen], dtype=np.intp),
            np.array([flag for _, flag in chosen]),
            None if self.probability is None else self.probability[domain],
            total,
        )
        return Metric(name, value, len(chosen), interval, coverage=len(chosen) / total)

    def errors(self) -> list[Metric]:
        """Return the error rates of extractor, reader, judge and gold answers, and the shares of unclear questions."""
        everywhere, right = np.ones(len(self.values), dtype=bool), self.values > 0.5
        verdicts = ("right", "wrong")
        metrics = []
        for name, rows in (
            (EXTRACTOR, ~self.judged & ~self.read),
            (READER, self.read),
            (JUDGE, self.judged),
        ):
            error = partial(self.share, words=("wrong",), among=verdicts)
            metrics.append(error(f"{name}_error", rows=rows))
            metrics.append(error(f"{name}_error/marked_right", rows=rows & right))
            metrics.append(error(f"{name}_error/marked_wrong", rows=rows & ~right))
        for name, word in (("gold_error", "gold-wrong"), ("ambiguous", "ambiguous"), ("unreadable", "unreadable")):
            words = ("right", "wrong", "gold-wrong", "ambiguous", "unreadable")
            metrics.append(self.share(name, (word,), words, everywhere))
        return metrics

    def effect_of_reader(self) -> Metric | None:
        """Return what the errors of the reader change in the mean score; None if no model read a reply.

        It is the share of the replies that it read, times the difference of their estimated true mean from the automatic one.
        Without a value fewer than `SLICE_REVIEWS` of them are reviewed.
        """
        rows = np.flatnonzero(self.read)
        if not len(rows):
            return None
        share, name = len(rows) / len(self.values), f"{READER}_effect"
        result = self.estimate(rows, SLICE_REVIEWS)
        if result is None:
            return Metric(name, None, 0, coverage=0.0)
        automatic = float(self.values[rows].mean())
        interval = result.ci95.map(lambda end: (end - automatic) * share)
        return Metric(
            name, (result.value - automatic) * share, result.reviewed, interval, coverage=result.reviewed / len(rows)
        )


def audited(rows: AuditRows, base: Sequence[Metric], expected: int) -> tuple[list[Metric], dict[str, Any], list[str]]:
    """Return the metrics of the profile `audited`, what belongs to it in JSON, and lines for people.

    Args:
        base: the metrics of the automatic profile; means among them give the estimates their names.
        expected: rows of a complete run.

    Raises:
        RunError: no decision of the audit counts.
        UsageError: scores lie outside 0 to 1.
    """
    audit = _Audit(rows)
    result = audit.estimate()
    if result is None:
        raise RunError(
            f"{rows.path} has no audit that counts: of {len(audit.reviewed):,} audited replies none has a usable decision",
            f"Show why: snellen reviews status {rows.path}. Review further replies of the audit.",
        )
    named = next((metric for metric in base if "/" not in metric.name and _is_mean(metric, audit.values)), None)
    name = named.name if named is not None else "mean_score"
    plan = further_reviews(**audit.arguments(None, 0.5))
    errors = audit.errors()
    cover = min(1.0, result.n / expected) if expected else 0.0
    chance = None if named is None else named.chance
    metrics = [Metric(name, result.value, result.n, result.ci95, coverage=cover, chance=chance)]
    for metric, part in rows.parts(base):
        if metric.name not in {made.name for made in metrics} and _is_mean(metric, audit.values[part]):
            estimate = audit.estimate(part, SLICE_REVIEWS)
            if estimate is not None:
                metrics.append(structs.replace(metric, value=estimate.value, ci95=estimate.ci95))
    share = result.reviewed / result.n
    metrics.append(Metric("reviewed_alone", result.people, result.reviewed, result.people_ci95, coverage=share))
    metrics += [metric for metric in errors if metric.n]
    details = _details(rows, audit, name, result, plan, errors)
    lines = _lines(rows, audit, name, result, plan, named is None)
    effect = audit.effect_of_reader()
    if effect is not None:
        metrics += [effect] if effect.n else []
        details["reader"] = {"read": int(audit.read.sum()), "effect": effect.value, "ci95": effect.ci95, "n": effect.n}
        lines.insert(1, _reader_line(audit, name, effect))
    return metrics, {"audit": details}, lines


def _reader_line(audit: _Audit, name: str, effect: Metric) -> str:
    """Return one line about the replies that a model read, and what its errors do to the score."""
    read = int(audit.read.sum())
    head = f"a model read {read:,} of {len(audit.values):,} replies ({read / len(audit.values):.1%})"
    if effect.value is None:
        return f"{head}; too few of them are reviewed to say what its errors change (at least {SLICE_REVIEWS})"
    return f"{head}; its errors change {name} by {effect.value:+.4f}{bracketed(effect.ci95, '+.4f')}, from {effect.n:,} reviews"


def _is_mean(metric: Metric, values: NDArray[np.float64]) -> bool:
    """Return True if the metric is the mean of these automatic scores."""
    if metric.value is None or metric.unit != "fraction" or not metric.n == len(values) > 0:
        return False
    return abs(metric.value - float(values.mean())) < 1e-9


def _details(
    rows: AuditRows, audit: _Audit, name: str, result: PredictionPowered, plan: FurtherReviews, errors: Sequence[Metric]
) -> dict[str, Any]:
    sample = rows.sample
    reviewers = sorted({reviewer for ruling, _ in rows.reviews.values() for reviewer in ruling.reviewers})
    counts = {word: audit.decisions.count(word) for word in dict.fromkeys(audit.decisions) if word is not None}
    return {
        "of": rows.of,
        "metric": name,
        "design": "assumed random" if sample is None else sample.kind,
        "drawn": len(audit.reviewed) if sample is None else len(sample.cases),
        "reviewed": len(audit.reviewed),
        "used": result.reviewed,
        "ties": audit.decisions.count(None),
        "decisions": counts,
        "reviewers": reviewers,
        "estimate": {"value": result.value, "ci95": result.ci95, "ci95_of_run": result.ci95_of_run, "n": result.n},
        "automatic": {"value": result.automatic, "n": result.n},
        "reviewed_alone": {"value": result.people, "ci95": result.people_ci95, "n": result.reviewed},
        "lambda": result.power,
        "errors": {
            metric.name.replace("_error", ""): {"value": metric.value, "ci95": metric.ci95, "n": metric.n}
            for metric in errors
        },
        "to_halve": {"reviews": plan.to_halve, "width": plan.width, "width_if_all_reviewed": plan.whole_width},
    }


def _lines(
    rows: AuditRows, audit: _Audit, name: str, result: PredictionPowered, plan: FurtherReviews, composite: bool
) -> list[str]:
    """Return what a reader must know, one line each."""
    lines = [
        f"audited: {name} {result.value:.4f}{bracketed(result.ci95, '.4f')} from {result.n:,} automatic scores of "
        f"{rows.of} ({result.automatic:.4f}) and {result.reviewed:,} reviewed ones (alone {result.people:.4f}"
        f"{bracketed(result.people_ci95, '.4f')})"
    ]
    if plan.to_halve is not None:
        lines.append(
            f"about {plan.to_halve:,} further reviews would halve its interval, if the error rates stay the same"
        )
    else:
        lines.append(
            f"no number of reviews halves its interval: with all replies reviewed it is {plan.whole_width:.4f} wide, now "
            f"{plan.width:.4f}; more samples are needed"
        )
    if composite:
        lines.append(f"{rows.of} has no metric that is the mean over all replies; the estimate is of that mean")
    if rows.sample is None:
        lines.append(f"there is no {AUDIT_SAMPLE}: the audited replies are taken for a simple random sample")
    elif len(audit.reviewed) < len(rows.sample.cases):
        lines.append(
            f"{len(rows.sample.cases) - len(audit.reviewed):,} of {len(rows.sample.cases):,} replies of the audit sample are "
            "not reviewed yet; the reviewed ones are taken for a random part of it"
        )
    undecided = len(audit.usable) - int(audit.usable.sum())
    if undecided:
        lines.append(
            f"{_replies(undecided, 'is', 'are')} undecided (cannot-tell or a tie) and taken as missing at random"
        )
    if rows.outside:
        listed = ", ".join(rows.outside[:5])
        named = _replies(len(rows.outside), "is", "are")
        lines.append(f"{named} not in {AUDIT_SAMPLE}, without effect on the estimate: {listed}")
    if rows.unscored:
        lines.append(f"{_replies(rows.unscored, 'has', 'have')} no automatic score, without effect on the estimate")
    return lines


def _replies(number: int, one_verb: str, several_verb: str) -> str:
    return f"{number:,} audited {f'reply {one_verb}' if number == 1 else f'replies {several_verb}'}"
