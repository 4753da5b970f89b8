"""Scoring of recorded answers: match records with their samples and score them under any profile."""

from __future__ import annotations

import os
import re
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import structs

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Benchmark, Data, ModelFacts, Scorer
from snellen.engine.final_records import final_records
from snellen.engine.journal import record_name, storage_error
from snellen.engine.resume import ANSWERED
from snellen.engine.run_folder import RunFolder, RunMeta
from snellen.errors import DataError, UsageError
from snellen.redaction import redact_lines
from snellen.redaction.gold import WITHHELD, strike
from snellen.scoring import statistics
from snellen.scoring.extract.base import READING_VERSION
from snellen.scoring.readings import PROFILE, READER, STAGE, score_reading
from snellen.scoring.rubric import Rubric, gold_forms, score_verdict
from snellen.scoring.scorers import NOT_JUDGED
from snellen.scoring.scores import RepeatScorer, ScoreBuilder, Scores, score_record
from snellen.scoring.statistics import mean, with_cluster
from snellen.types import Metric, Record, Response, Sample, Score

if TYPE_CHECKING:
    from snellen.scoring.calibration import ConfidenceRows

LINES = "lines"
"""Name of a profile's lines for people in summary.json, of benchmarks that report more than metrics."""
UNKNOWN_MODEL = ModelFacts()
MOST_COUNTED = 250_000
"""Samples without an answer that are looked up for the coverage of parts; of a million that would take ten seconds."""
IN_MEMORY = 16 << 20
"""Bytes of rows that are kept in memory; more are kept in a temporary file."""
REDACTED_TOGETHER = 64
_NONE = 2**64 - 1
REASONS_KEPT, REASONS_SHOWN, REASON_CHARACTERS = 1000, 4, 60


class Verdicts(Mapping[str, str]):
    """A judge's and a reader's replies by `record_name`; no reply is for both.

    Attributes:
        by: whose verdicts they are, for people; empty without a judge.
        model, folder: the judge and its run; empty for those of a file.
        failures: the commonest error of the judge's run and the command that asks it again; empty without errors.
        rubric: what the judge went by in place of the benchmark's own rubric; None: by that.
        version: digest of the judge's rubric, or of all of them.
        reader, reader_folder: the reader and its run; empty without one.
        cost: of the judge's run in words, or `reader_cost` of the reader's; empty: no price is known.
        readings: the names of the replies that the reader was asked about.
        used: the names that were asked for and found.
    """

    def __init__(
        self,
        texts: Mapping[str, str],
        by: str,
        *,
        model: str = "",
        folder: str = "",
        failures: str = "",
        rubric: Rubric | None = None,
    ) -> None:
        self.by = by
        self.model = model
        self.folder = folder
        self.failures = failures
        self.rubric = rubric
        self.reader = self.reader_folder = self.version = self.cost = self.reader_cost = ""
        self.readings: frozenset[str] = frozenset()
        self.used: set[str] = set()
        self._texts = dict(texts)

    def with_readings(self, read: Verdicts) -> Verdicts:
        """Return these verdicts with a reader's replies about other replies of the run."""
        joined = Verdicts(
            {**read._texts, **self._texts},
            self.by,
            model=self.model,
            folder=self.folder,
            failures=self.failures,
            rubric=self.rubric,
        )
        joined.version, joined.cost, joined.reader_cost = self.version, self.cost, read.cost
        joined.reader, joined.reader_folder = read.model, read.folder
        joined.readings = frozenset(read._texts)
        return joined

    def __getitem__(self, name: str) -> str:
        text = self._texts[name]
        self.used.add(name)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class PredictionRows:
    """The rows of predictions.jsonl of one scoring, in any order: what was read from each reply, without gold answers.

    One line a sample (and repeat), sorted by id: `id`, `extracted`, `verdict` and `reason` of the benchmark's first profile,
    `repeat` from the second reply on. Of a reply that a judge decides, `extracted` is what the judge was shown and
    `judge_verdict` its label. The same records and verdicts give the same bytes. Memory hardly grows with them.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        self.profile = next(iter(benchmark.score))
        self._benchmark = benchmark
        self._waiting: list[tuple[int, bytes]] = []  # rows that are not redacted yet
        self._rows = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by `write`, or with this object
        self._starts = array("Q")
        self._encode = msgspec.json.Encoder(enc_hook=str).encode

    def set(self, row: int, sample: Sample, record: Record, score: Score | None, *, judged: bool = False) -> None:
        """Set the row with this number; None: its score is still to come."""
        while len(self._starts) <= row:
            self._starts.append(_NONE)
        if score is None:
            return
        content = prediction(self._benchmark, sample, record, score, judged=judged)
        self._waiting.append((row, self._encode(content)))
        if len(self._waiting) == REDACTED_TOGETHER:
            self._redact()

    def _redact(self) -> None:
        for (row, _), line in zip(self._waiting, redact_lines([line for _, line in self._waiting]), strict=True):
            self._starts[row] = self._rows.tell()
            self._rows.write(line + b"\n")
        self._waiting.clear()

    def write(self, path: Path) -> None:
        """Write the file, and drop the rows.

        Raises:
            StorageError: it cannot be written.
        """
        self._redact()
        order: list[tuple[str, int, int]] = []
        with self._rows as rows:
            for start in self._starts:
                if start != _NONE:
                    rows.seek(start)
                    head = msgspec.json.decode(rows.readline(), type=_RowHead)
                    order.append((head.id, head.repeat, start))
            try:
                with replacing(path) as part, part.open("wb") as file:
                    for _, _, start in sorted(order):
                        rows.seek(start)
                        file.write(rows.readline())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise storage_error(path, error) from error


class _RowHead(msgspec.Struct):
    id: str
    repeat: int = 0


def prediction(benchmark: Benchmark, sample: Sample, record: Record, score: Score, *, judged: bool) -> dict[str, Any]:
    """Return one row: the answer as it was read, its verdict and the reason, without the gold answer."""
    reply = "" if record.response is None else record.response.text
    extracted, label = score.extracted, None
    if judged:
        narrowed = None if benchmark.judged_text is None else benchmark.judged_text(sample, reply)
        extracted, label = reply.strip() if narrowed is None else narrowed.reply, score.extracted
    if benchmark.restricted and isinstance(extracted, str) and extracted not in reply:
        extracted = strike(extracted, gold_forms(sample))
    row: dict[str, Any] = {
        "id": sample.id,
        "extracted": extracted,
        "verdict": score.verdict,
        "reason": None if score.reason is None else _without_gold(score.reason, sample),
    }
    if label is not None:
        row["judge_verdict"] = label
    if record.repeat:
        row["repeat"] = record.repeat
    return row


def _without_gold(reason: str, sample: Sample) -> str:
    """Return the reason without the gold answer that it names, as of a row whose gold cannot be used."""
    if "gold" not in reason:
        return reason
    target = sample.target if isinstance(sample.target, (list, tuple)) else [sample.target]
    for gold in (*gold_forms(sample), *target, sample.target, sample.meta.get("gold")):
        if gold not in (None, ""):
            reason = re.sub(rf"(?<!\w){re.escape(repr(gold))}(?!\w)", WITHHELD, reason)
    return reason


@dataclass(frozen=True)
class Scored:
    """One record with its sample and its score under each requested profile."""

    sample: Sample
    record: Record
    scores: Mapping[str, Score]


class Unanswered(NamedTuple):
    """Where the samples that a run has not answered are: its data, and how often it asks each."""

    data: Data
    repeats: int = 1


@dataclass(frozen=True)
class Summary:
    """Metrics by profile; `rows` is how many records were scored, `expected` how many a complete run has.

    `for_judge` counts the replies that a rubric of the benchmark's own decides, `without_verdict` those of them that
    have no verdict, `out_of_range` those whose verdict lies outside its range. `read_by_model` counts the replies whose
    answer a reader quoted, `unread_by_model` those of which it gave no usable quote. `unread` counts, by profile, the replies
    that could not be read, by the reason. `details` has, by profile, what belongs to it in JSON beside its metrics, and
    `notes` has lines for people.
    """

    benchmark: str
    metrics: Mapping[str, list[Metric]]
    rows: int
    expected: int
    for_judge: int = 0
    without_verdict: int = 0
    out_of_range: int = 0
    read_by_model: int = 0
    unread_by_model: int = 0
    unread: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def unread_lines(self) -> list[str]:
        """Format how many replies each profile could not parse, and why, the most frequent reasons first."""
        lines = []
        for profile, reasons in self.unread.items():
            counts = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
            listed = "; ".join(f"{count:,} × {reason}" for reason, count in counts[:REASONS_SHOWN])
            if counts:
                others = len(counts) - REASONS_SHOWN
                omitted = f"; {others:,} other reason{'s' if others > 1 else ''}" if others > 0 else ""
                lines.append(
                    f"{profile} could not read the replies to {sum(reasons.values()):,} of {self.rows:,} samples: {listed}{omitted}"
                )
        return lines


REVIEWED, AUDITED = "reviewed", "audited"
"""Profiles that every run with reviews has (docs/review.md)."""


def review_profiles(benchmark: Benchmark, wanted: str | None) -> list[str]:
    """Return the profiles for `--profile` that are made of a run's reviews; a benchmark's own of that name is not."""
    names = [name.strip() for name in (wanted or "").split(",")]
    return list(dict.fromkeys(name for name in names if name in (REVIEWED, AUDITED) and name not in benchmark.score))


def rubric_for(
    benchmark: Benchmark, sample: Sample, record: Record, verdicts: Mapping[str, str] | None = None
) -> Rubric | None:
    """Return the rubric for this reply; None if no judge decides it: no rubric, reply or answer, or a rule comes first.

    It is the benchmark's own, unless the judge of `verdicts` went by another one.
    """
    if benchmark.rubric is None or record.status != "ok" or record.response is None:
        return None
    if benchmark.judged_text is not None and benchmark.judged_text(sample, record.response.text) is None:
        return None
    rubric = benchmark.rubric(sample)
    if rubric is None or (benchmark.rule_first and is_ruled_correct(benchmark, sample, record.response.text)):
        return None
    return verdicts.rubric if isinstance(verdicts, Verdicts) and verdicts.rubric is not None else rubric


def is_ruled_correct(benchmark: Benchmark, sample: Sample, reply: str) -> bool:
    """Return True if a rule of the benchmark finds a reply correct, which then needs no judge."""
    return benchmark.ruled_correct is not None and benchmark.ruled_correct(sample, reply)


def scores_of(
    benchmark: Benchmark,
    sample: Sample,
    record: Record,
    scorers: Mapping[str, Scorer],
    verdicts: Mapping[str, str] | None = None,
) -> dict[str, Score]:
    """Score one record under each profile: by its verdict if a judge decides it, else by the scorers.

    Under the profile `strict`, a reply that the scorer leaves unread is scored by what a reader said of it, if one was asked.

    Args:
        verdicts: a judge's and a reader's replies by `record_name`; what is for a judge and has none is unscored.
    """
    rubric = None if benchmark.rubric is None else rubric_for(benchmark, sample, record, verdicts)
    if rubric is None:
        scores: dict[str, Score] = {}
        read: dict[int, Score] = {}  # several profiles may share a scorer
        for profile, scorer in scorers.items():
            if id(scorer) not in read:
                read[id(scorer)] = score_record(sample, record, scorer)
            scores[profile] = read[id(scorer)]
        if verdicts and (unread := scores.get(PROFILE)) is not None and unread.verdict == "invalid":
            said = verdicts.get(record_name(sample.id, record.repeat))
            if said is not None:
                scores[PROFILE] = by_reader(sample, record, said, scorers[PROFILE], unread)
        return {profile: _sealed(benchmark, sample, score) for profile, score in scores.items()}
    reply = None if verdicts is None else verdicts.get(record_name(sample.id, record.repeat))
    unjudged = Score(None, None, "unscored", NOT_JUDGED)
    score = unjudged if reply is None else score_verdict(reply, rubric.for_sample(sample).verdict)
    others = {
        name: _sealed(benchmark, sample, score_record(sample, record, each))
        for name, each in scorers.items()
        if isinstance(each, RepeatScorer) or benchmark.judge_profile not in ("", name)
    }
    return {**dict.fromkeys(scorers, _sealed(benchmark, sample, score)), **others}


def by_reader(sample: Sample, record: Record, said: str, scorer: Scorer, unread: Score) -> Score:
    """Score a record by what a reader said of its reply; `unread` with a further reason if that is no reading."""
    response = record.response
    if record.status != "ok" or response is None:
        return unread
    if sample.prompt.generation is not None:
        from snellen.scoring.structured import without_schema  # few runs have a schema

        sample = without_schema(sample)  # a quote is no JSON

    def score(text: str) -> Score:
        return score_record(sample, structs.replace(record, response=structs.replace(response, text=text)), scorer)

    return score_reading(sample, response.text, said, score, unread)


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
            f"{benchmark.name} has no scoring profile {unknown[0]!r}"
            + (" here: it is made of the reviews of a run" if unknown[0] in (REVIEWED, AUDITED) else ""),
            f"It has: {', '.join(benchmark.score)}, or all.",
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


def recorded_answers(folder: RunFolder, meta: RunMeta, benchmark: Benchmark) -> Iterator[tuple[Sample, Record]]:
    """Yield each sample of a run with the record of it that counts, in the order of the journal."""
    return match(benchmark, meta.spec.data, final_records(folder.results), repeats=meta.spec.repeats)


def unmatched(benchmark: Benchmark, data: Data, sample_id: str) -> DataError:
    """Build the error for a record that no sample waits for: a second record, a row that is left out, or no such sample."""
    if any(sample.id == sample_id for sample in benchmark.samples(data)):
        return DataError(
            f"sample {sample_id!r} of {benchmark.name} has too many records",
            "Something else has written to results.jsonl. Delete the surplus lines of this sample.",
        )
    reading = benchmark.reading(data)
    why = next((row for row in ([] if reading is None else reading.omitted) if f"(id {sample_id}):" in row), None)
    if why is not None:
        return DataError(
            f"record {sample_id!r} belongs to a row of {benchmark.name} that is left out now: {why}",
            "Put back what is missing, or name the images of the run with --images.",
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


def _summed(benchmark: Benchmark, table: Scores, profile: str) -> list[Metric]:
    """Return the benchmark's metrics. Raise PluginError where a plug-in's summary returns something else."""
    metrics = benchmark.summarize(table, profile)
    if not benchmark.is_plugin:
        return metrics
    from snellen.benchmarks.plugin_checks import require_metrics

    return require_metrics(benchmark, profile, metrics)


class SummaryBuilder:
    """A summary of records, built row by row. Memory does not grow with replies (see ScoreBuilder)."""

    def __init__(
        self,
        benchmark: Benchmark,
        scorers: Mapping[str, Scorer],
        verdicts: Mapping[str, str] | None = None,
        predictions: PredictionRows | None = None,
    ) -> None:
        """Take what `summarize` takes."""
        self.predictions = predictions
        self.rows = 0
        self._benchmark, self._scorers, self._verdicts = benchmark, scorers, verdicts
        self._builders = {profile: ScoreBuilder() for profile in scorers}
        self._unread: dict[str, Counter[str]] = {profile: Counter() for profile in scorers}
        self._answered = self._repeated = self._labels = False
        self._for_judge = self._without_verdict = self._out_of_range = 0
        self._read_by_model = self._unread_by_model = 0
        self._readings = verdicts.readings if isinstance(verdicts, Verdicts) else frozenset()
        self._confidences: dict[str, ConfidenceRows] = {}

    def score(self, sample: Sample, record: Record) -> dict[str, Score]:
        """Score one record under each profile."""
        return scores_of(self._benchmark, sample, record, self._scorers, self._verdicts)

    def add(self, sample: Sample, record: Record, scores: Mapping[str, Score], row: int | None = None) -> int:
        """Add a record, or replace the one in `row`, which failed or has no scores yet. Return its row."""
        self._answered |= record.status in ANSWERED
        self._repeated |= record.repeat > 0
        rubric = None if self._benchmark.rubric is None else rubric_for(self._benchmark, sample, record, self._verdicts)
        judged = rubric is not None and not self._benchmark.judge_profile
        if rubric is not None:
            self._labels |= not (rubric.verdict.option or rubric.verdict.extracts)
            value = self._under(self._benchmark.judge_profile or next(iter(scores)), sample, record, scores).value
            self._for_judge += 1
            self._without_verdict += value is None
            self._out_of_range += value is not None and not 0.0 <= value <= 1.0
        if self._readings and (strict := scores.get(PROFILE)) is not None:
            read = strict.detail.get(STAGE) == READER
            self._read_by_model += read
            asked = not read and strict.verdict == "invalid"
            self._unread_by_model += asked and record_name(sample.id, record.repeat) in self._readings
        if scores and record.response is not None and record.response.logprobs:
            self._add_confidence(sample, record.response, scores)
        for profile, builder in self._builders.items():
            score = scores.get(profile, NO_SCORE)
            if row is None:
                builder.add(sample, score, record.repeat)
            else:
                builder.replace(row, score)
            if score.verdict == "invalid":
                reason = (score.reason or "no reason")[:REASON_CHARACTERS]
                reasons = self._unread[profile]
                reasons[reason if reason in reasons or len(reasons) < REASONS_KEPT else "another reason"] += 1
        number = self.rows if row is None else row
        self.rows += row is None
        if self.predictions is not None:
            self.predictions.set(number, sample, record, self._predicted(sample, record, scores), judged=judged)
        return number

    def _predicted(self, sample: Sample, record: Record, scores: Mapping[str, Score]) -> Score | None:
        """Return the score under the benchmark's first profile; None for a reply that is scored later."""
        assert self.predictions is not None  # noqa: S101 - asked by the caller
        return self._under(self.predictions.profile, sample, record, scores) if scores else None

    def _under(self, profile: str, sample: Sample, record: Record, scores: Mapping[str, Score]) -> Score:
        """Return the score under one profile, whether or not it is among those that were asked for."""
        if profile in scores:
            return scores[profile]
        scorers = {profile: self._benchmark.score[profile]}
        return scores_of(self._benchmark, sample, record, scorers, self._verdicts)[profile]

    def _add_confidence(self, sample: Sample, response: Response, scores: Mapping[str, Score]) -> None:
        from snellen.scoring.calibration import ConfidenceRows, option_probabilities  # few runs have probabilities

        probabilities = option_probabilities(sample, response.logprobs)
        cluster = f"group {sample.group}" if sample.group else f"sample {sample.id}"
        for profile in self._builders:
            rows = self._confidences.setdefault(profile, ConfidenceRows())
            rows.add(sample.kind, cluster, scores.get(profile, NO_SCORE), probabilities)

    @property
    def for_judge(self) -> int:
        """Return how many of the replies a judge decides."""
        return self._for_judge

    def mean_scores(self, expected: int, name: str) -> dict[str, Metric]:
        """Return the mean score of the records under each profile, as a metric of this name."""
        return {profile: mean(name, builder.build(expected)) for profile, builder in self._builders.items()}

    def _calibration(self, profile: str, expected: int) -> list[Metric]:
        rows = self._confidences.get(profile)
        return [] if rows is None else rows.metrics(expected)

    def _missing(self, unanswered: Unanswered, count: int) -> Scores | None:
        """Return the rows without an answer; None where there are none, too many, or the data cannot be read to its end."""
        if not 0 < count <= MOST_COUNTED or self._benchmark.grow is not None:
            return None
        builder = next(iter(self._builders.values()), ScoreBuilder())  # the answered samples are those of each profile
        try:
            return builder.missing(self._benchmark.samples(unanswered.data), unanswered.repeats, count)
        except Exception:  # noqa: BLE001 - a fault in samples that were not asked must not cost the score of the others
            return None

    def build(
        self, expected: int | None, model: ModelFacts = UNKNOWN_MODEL, unanswered: Unanswered | None = None
    ) -> Summary:
        """Build the summary.

        Args:
            expected: how many records a complete run has; None: these are all.
            model: what is known of the model that was asked.
            unanswered: where the samples of an incomplete run are, so that the coverage of each part is counted.
        """
        benchmark, metrics = self._benchmark, {}
        details: dict[str, Mapping[str, Any]] = {}
        missing = None if unanswered is None or expected is None else self._missing(unanswered, expected - self.rows)
        for profile, builder in self._builders.items():
            table = builder.build(expected, missing)
            if self._labels:  # a judge's word for right or wrong is no answer that could be voted for
                table = replace(table, answer=None)
            if benchmark.details is not None and self._answered:
                reported = benchmark.details(table, profile, model)
                details[profile] = {**reported.fields, LINES: list(reported.lines)}
            calibration = self._calibration(profile, table.expected)
            metrics[profile] = with_cluster(
                [
                    *_summed(benchmark, table, profile),
                    *(statistics.repeat_metrics(table) if self._repeated else ()),
                    *calibration,
                ],
                benchmark.cluster,
            )
            if calibration:
                bins = [structs.asdict(each) for each in self._confidences[profile].bins()]
                details[profile] = {**details.get(profile, {}), "reliability": bins}
        if self.rows and not self._answered:
            metrics = {profile: without_values(rows_of) for profile, rows_of in metrics.items()}
        return Summary(
            benchmark.name,
            metrics,
            self.rows,
            self.rows if expected is None else expected,
            self._for_judge,
            self._without_verdict,
            self._out_of_range,
            self._read_by_model,
            self._unread_by_model,
            self._unread,
            details,
        )


def live_builder(benchmark: Benchmark, predictions: PredictionRows | None = None) -> SummaryBuilder:
    """Return a builder for a run that is going on.

    Of a benchmark with rubrics, whose judge comes later, it scores by the default rule alone, for the progress line; where
    a rule comes first, what is left to the judge has no score yet.
    """
    if benchmark.rubric is None or benchmark.rule_first:
        return SummaryBuilder(benchmark, benchmark.score, predictions=predictions)
    return SummaryBuilder(replace(benchmark, rubric=None), profiles_of(benchmark, None))


NO_SCORE = Score(None, None, "error")
"""Stands in the row of a reply that is scored later."""


def summarize(
    benchmark: Benchmark,
    pairs: Iterable[tuple[Sample, Record]],
    scorers: Mapping[str, Scorer],
    *,
    expected: int | None,
    each: Callable[[Scored], None] | None = None,
    verdicts: Mapping[str, str] | None = None,
    predictions: PredictionRows | None = None,
    model: ModelFacts = UNKNOWN_MODEL,
    unanswered: Unanswered | None = None,
) -> Summary:
    """Score every pair under every profile and summarize.

    Args:
        pairs: samples with their records.
        expected: how many records a complete run has; None: these are all.
        each: sees one row at a time, for files and galleries.
        verdicts: a judge's replies by `record_name`, for samples that the benchmark has rubrics for.
        predictions: takes what was read from each reply.
        model: what is known of the model that was asked.
        unanswered: where the samples without a record are, so that the coverage of each part is counted.
    """
    builder = SummaryBuilder(benchmark, scorers, verdicts, predictions)
    for sample, record in pairs:
        scores = builder.score(sample, record)
        builder.add(sample, record, scores)
        if each is not None:
            each(Scored(sample, record, scores))
    return builder.build(expected, model, unanswered)


def without_values(metrics: Iterable[Metric]) -> list[Metric]:
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


def summary_json(summary: Summary) -> dict[str, Any]:
    """Convert to the stable form {benchmark, reading_version, profiles: [{profile, metrics: [{name, value, n, ci95, …}]}]}."""
    return {
        "benchmark": summary.benchmark,
        "reading_version": READING_VERSION,
        "profiles": [
            {
                "profile": profile,
                "metrics": [structs.asdict(metric) for metric in metrics],
                **summary.details.get(profile, {}),
            }
            for profile, metrics in summary.metrics.items()
        ],
    }
