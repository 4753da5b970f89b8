"""Scoring of recorded answers: match records with their samples and score them under any profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data, Scorer
from snellen.engine.journal import record_name
from snellen.engine.resume import ANSWERED
from snellen.errors import DataError, UsageError
from snellen.redaction.gold import strike
from snellen.scoring.record import score_record
from snellen.scoring.rubric import Rubric, gold_forms, score_verdict
from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics import spread_metrics, with_cluster
from snellen.types import Metric, Record, Sample, Score

if TYPE_CHECKING:
    from snellen.engine.live_scores import LiveScores

REASONS_KEPT, REASONS_SHOWN, REASON_CHARACTERS = 1000, 4, 60


@dataclass(frozen=True)
class Scored:
    """One record with its sample and its score under each requested profile."""

    sample: Sample
    record: Record
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class Summary:
    """Metrics by profile; `rows` is how many records were scored, `expected` how many a complete run has.

    `for_judge` counts the replies that a rubric of the benchmark's own decides, `without_verdict` those of them that
    have no verdict, `out_of_range` those whose verdict lies outside its range. `unread` counts, by profile, the replies
    that could not be read, by the reason.
    """

    benchmark: str
    metrics: Mapping[str, list[Metric]]
    rows: int
    expected: int
    for_judge: int = 0
    without_verdict: int = 0
    out_of_range: int = 0
    unread: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def unread_lines(self) -> list[str]:
        """Format how many replies each profile could not parse, and why, the most frequent reasons first."""
        lines = []
        for profile, reasons in self.unread.items():
            counts = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
            listed = "; ".join(f"{count:,} × {reason}" for reason, count in counts[:REASONS_SHOWN])
            if counts:
                omitted = f"; {len(counts) - REASONS_SHOWN:,} other reasons" if len(counts) > REASONS_SHOWN else ""
                lines.append(
                    f"{profile} could not read {sum(reasons.values()):,} of {self.rows:,} replies: {listed}{omitted}"
                )
        return lines


NOT_JUDGED = "not judged yet: snellen judge RUN"


def rubric_for(benchmark: Benchmark, sample: Sample, record: Record) -> Rubric | None:
    """Return the benchmark's rubric for this reply; None if no judge decides it: no rubric, reply or answer."""
    if benchmark.rubric is None or record.status != "ok" or record.response is None:
        return None
    if benchmark.judged_text is not None and benchmark.judged_text(sample, record.response.text) is None:
        return None
    return benchmark.rubric(sample)


def scores_of(
    benchmark: Benchmark,
    sample: Sample,
    record: Record,
    scorers: Mapping[str, Scorer],
    verdicts: Mapping[str, str] | None = None,
    live: LiveScores | None = None,
) -> dict[str, Score]:
    """Score one record under each profile: by its verdict if a judge decides it, else by the scorers.

    Args:
        benchmark: whose sample it is.
        sample, record: question and answer.
        scorers: profile to scorer.
        verdicts: a judge's replies by `record_name`; a reply that has none is unscored.
        live: scores that this process gave the same answers while the run went on.
    """
    rubric = None if benchmark.rubric is None else rubric_for(benchmark, sample, record)
    if rubric is None:
        scores: dict[str, Score] = {}
        read: dict[int, Score] = {}  # several profiles may share a scorer
        for profile, scorer in scorers.items():
            score = read.get(id(scorer)) or (None if live is None else live.known(sample, record, scorer))
            scores[profile] = read[id(scorer)] = score or score_record(sample, record, scorer)
        return {profile: _sealed(benchmark, sample, score) for profile, score in scores.items()}
    reply = None if verdicts is None else verdicts.get(record_name(sample.id, record.repeat))
    score = Score(None, None, "unscored", NOT_JUDGED) if reply is None else score_verdict(reply, rubric.verdict)
    return dict.fromkeys(scorers, _sealed(benchmark, sample, score))


def _sealed(benchmark: Benchmark, sample: Sample, score: Score) -> Score:
    """Return the score without a reason that names the gold answer of a restricted benchmark."""
    if not benchmark.restricted or score.reason is None:
        return score
    return structs.replace(score, reason=strike(score.reason, gold_forms(sample)))


def profiles_of(benchmark: Benchmark, wanted: str | None) -> dict[str, Scorer]:
    """Return the scorers for `--profile`: None is the benchmark's first, `all` every one, else one or more by comma.

    Raises:
        UsageError: the benchmark has no such profile.
    """
    if wanted == "all":
        return dict(benchmark.score)
    names = [next(iter(benchmark.score))] if wanted is None else [name.strip() for name in wanted.split(",")]
    unknown = [name for name in names if name not in benchmark.score]
    if unknown:
        raise UsageError(
            f"{benchmark.name} has no scoring profile {unknown[0]!r}", f"It has: {', '.join(benchmark.score)}, or all."
        ).near(unknown[0], [*benchmark.score, "all"])
    return {name: benchmark.score[name] for name in names}


def match(
    benchmark: Benchmark, data: Data, records: Iterable[Record], *, repeats: int = 1, unknown: list[str] | None = None
) -> Iterator[tuple[Sample, Record]]:
    """Yield (sample, record) in the order of the records, reading samples and records side by side.

    Records come nearly in the order of samples, so only those between the two are held: memory is O(concurrency)
    for a run's journal. Ids that the benchmark does not have are appended to `unknown` where it is given.

    Raises:
        DataError: a record's id is not one of the benchmark's, and `unknown` is None.
    """
    samples = iter(benchmark.samples(data))
    waiting: dict[str, _WaitingSample] = {}
    for record in records:
        waiting_sample = waiting.get(record.sample_id)
        if waiting_sample is None:
            for sample in samples:
                waiting[sample.id] = passed = _WaitingSample(sample, repeats)
                if sample.id == record.sample_id:
                    waiting_sample = passed
                    break
        if waiting_sample is None:
            if unknown is None:
                raise unmatched(benchmark, data, record.sample_id)
            unknown.append(record.sample_id)
            continue
        yield waiting_sample.sample, record
        waiting_sample.remaining -= 1
        if waiting_sample.remaining == 0:
            del waiting[record.sample_id]


def unmatched(benchmark: Benchmark, data: Data, sample_id: str) -> DataError:
    """Build the error for a record that no sample waits for: a second record, or no such sample."""
    if any(sample.id == sample_id for sample in benchmark.samples(data)):
        return DataError(
            f"sample {sample_id!r} of {benchmark.name} has too many records",
            "Something else has written to results.jsonl. Delete the surplus lines of this sample.",
        )
    return DataError(
        f"record {sample_id!r} belongs to no sample of {benchmark.name}",
        "The answers were made with other data: pass the same --data, or name the right --benchmark.",
    )


@dataclass(slots=True)
class _WaitingSample:
    """Sample whose records are still to come."""

    sample: Sample
    remaining: int


def summarize(
    benchmark: Benchmark,
    pairs: Iterable[tuple[Sample, Record]],
    scorers: Mapping[str, Scorer],
    *,
    expected: int | None,
    each: Callable[[Scored], None] | None = None,
    verdicts: Mapping[str, str] | None = None,
    live: LiveScores | None = None,
) -> Summary:
    """Score every pair under every profile and summarize.

    Args:
        benchmark: whose samples they are.
        pairs: samples with their records.
        scorers: profile to scorer.
        expected: how many records a complete run has; None: these are all.
        each: sees one row at a time, for files and galleries.
        verdicts: a judge's replies by `record_name`, for samples that the benchmark has rubrics for.
        live: scores that this process gave while the run went on, so that no answer is read twice under a profile.
    """
    builders = {profile: ScoreBuilder() for profile in scorers}
    unread: dict[str, Counter[str]] = {profile: Counter() for profile in scorers}
    rows = answered = for_judge = without = beyond = 0
    for sample, record in pairs:
        rows += 1
        answered += record.status in ANSWERED
        scores = scores_of(benchmark, sample, record, scorers, verdicts, live)
        if benchmark.rubric is not None and rubric_for(benchmark, sample, record) is not None:
            value = next(iter(scores.values())).value
            for_judge += 1
            without += value is None
            beyond += value is not None and not 0.0 <= value <= 1.0
        for profile, score in scores.items():
            builders[profile].add(sample, score, record.repeat)
            if score.verdict == "invalid":
                reason = (score.reason or "no reason")[:REASON_CHARACTERS]
                reasons = unread[profile]
                reasons[reason if reason in reasons or len(reasons) < REASONS_KEPT else "another reason"] += 1
        if each is not None:
            each(Scored(sample, record, scores))
    metrics = {}
    for profile, builder in builders.items():
        table = builder.build(expected)
        metrics[profile] = with_cluster(
            [*benchmark.summarize(table, profile), *spread_metrics(table)], benchmark.cluster
        )
    if rows and not answered:
        metrics = {profile: unanswered(rows_of) for profile, rows_of in metrics.items()}
    complete = rows if expected is None else expected
    return Summary(benchmark.name, metrics, rows, complete, for_judge, without, beyond, unread)


def unanswered(metrics: Iterable[Metric]) -> list[Metric]:
    """Return the metrics of a run without a single answer: no values, except the share of errors."""
    return [
        metric
        if metric.name.rpartition("/")[2] == "error"
        else structs.replace(metric, value=None, ci95=None, n=0, coverage=0.0)
        for metric in metrics
    ]


def count(benchmark: Benchmark, data: Data) -> int:
    """Return the number of samples of a benchmark, as declared or by counting."""
    size = benchmark.size(data)
    return size if size is not None else sum(1 for _ in benchmark.samples(data))


def differing(scores: Mapping[str, Score]) -> bool:
    """Return True if the profiles disagree on a row: another value or another verdict."""
    rows: Sequence[tuple[float | None, str]] = [(score.value, score.verdict) for score in scores.values()]
    return any(row != rows[0] for row in rows[1:])
