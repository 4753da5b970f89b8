"""Scores of a run from a judge's extracted answers, used when too many replies are unparseable by rule.

The judge grades every reply (A right, B wrong, C no answer) and copies the answer out of it. Of a choice the grade counts;
of a number, and of moves in text, the benchmark's own rule is put to what was copied: a judge may say what a reply says, the
arithmetic of a score is not left to it.

Source: the judge of VLMEvalKit's spatial benchmarks as EASI runs it (grade, extracted answer; MRA computed anew).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from snellen.benchmarks.base import Benchmark
from snellen.engine.journal import record_name
from snellen.engine.resume import verified_meta
from snellen.engine.run_folder import JUDGED, RunFolder, RunMeta, derived_folder
from snellen.errors import RunError
from snellen.runs import scoring
from snellen.runs.judge.verdicts import read
from snellen.runs.scoring import Verdicts
from snellen.scoring.rubric import SOURCE, Schema, built_in, read_verdict
from snellen.scoring.scores import ScoreBuilder, score_record, wrong_by_length
from snellen.scoring.statistics import with_cluster
from snellen.sources.digests import digest
from snellen.types import Metric, Record, Sample, Score

RUBRIC = "easi"
NO_ANSWER = "C"
PROFILE = "easi"


@dataclass(frozen=True)
class Judgement:
    """Scores by a judge, with their provenance.

    Attributes:
        metrics: as the benchmark sums up, over the judged scores.
        model, folder: the judge and its run.
        fingerprint, rubric: of the judge's run, and of the rubric that it went by.
        replies: how many replies were judged.
        without: how many of them have no verdict; they are unscored, and lower the coverage.
        grades: how many of each grade.
    """

    metrics: list[Metric]
    model: str
    folder: Path
    fingerprint: str
    rubric: str
    replies: int
    without: int
    grades: dict[str, int]

    @property
    def verdicts(self) -> int:
        """Number of replies with a verdict."""
        return self.replies - self.without

    @property
    def text(self) -> str:
        """The judge and its number of verdicts: `judged by api:gpt-6-astra: 300 of 400 replies`."""
        if not self.verdicts:
            return f"not judged: {self.model} gave no verdict on any of {self.replies:,} replies"
        return f"judged by {self.model}: {self.verdicts:,} of {self.replies:,} replies"


def beside(source: RunFolder) -> RunFolder | None:
    """Return the complete judged run beside a run, if it covers its current answers; None otherwise."""
    folder = RunFolder(derived_folder(source.path, JUDGED))
    try:
        meta = verified_meta(folder)
    except RunError:
        return None
    spec = meta.spec
    same_rubric = spec.benchmark == JUDGED and spec.data.options.get("rubric") == RUBRIC
    if not (same_rubric and meta.state == "complete" and meta.coverage.full):
        return None
    return folder if meta.identity.get("data") == about(source) else None


def about(source: RunFolder) -> str:
    """Return the data identity that a judged run of the current answers records."""
    return f"{digest(source.results)} rubric {built_in(RUBRIC).digest}"


def judgement(source: RunFolder, meta: RunMeta, benchmark: Benchmark, judged: RunFolder) -> Judgement:
    """Score a run by its judge, under the rules of EASI.

    Args:
        source, meta, benchmark: the run that was judged.
        judged: what `beside` found.
    """
    verdicts = read(judged, source)
    schema = built_in(RUBRIC).verdict
    builder = ScoreBuilder()
    replies = without = 0
    grades = dict.fromkeys(schema.labels, 0)
    for sample, record in scoring.recorded_answers(source, meta, benchmark):
        score = regraded(benchmark, sample, record, verdicts, schema)
        builder.add(sample, score, record.repeat)
        if record.status == "ok":
            replies += 1
            without += score.verdict == "unscored"
            grade = score.detail.get("judge_verdict")
            if grade in grades:
                grades[grade] += 1
    expected = scoring.count(benchmark, meta.spec.data) * meta.spec.repeats
    about = judged.meta()
    return Judgement(
        with_cluster(benchmark.summarize(builder.build(expected), PROFILE), benchmark.cluster),
        about.spec.model,
        judged.path,
        about.fingerprint,
        built_in(RUBRIC).digest,
        replies,
        without,
        grades,
    )


def regraded(benchmark: Benchmark, sample: Sample, record: Record, verdicts: Verdicts, schema: Schema) -> Score:
    """Score one record by its verdict; unscored without a verdict or without a reply.

    `detail` has `judge_verdict` and `judge_source`.
    """
    rule = benchmark.score[PROFILE]
    if record.status != "ok" or record.response is None or wrong_by_length(sample, record):
        return score_record(sample, record, rule)
    reply = verdicts.get(record_name(sample.id, record.repeat))
    if reply is None:
        return Score(None, None, "unscored", "the judge gave no verdict")
    try:
        verdict = read_verdict(reply, schema)
    except ValueError as error:
        return Score(None, None, "unscored", f"no verdict: {error}")
    detail = {"judge_verdict": verdict.answer, SOURCE: verdict.source}
    if verdict.answer == NO_ANSWER:
        return Score(0.0, None, "invalid", "the judge found no answer in it", detail)
    if sample.kind == "choice":
        right = verdict.value == 1.0
        return Score(float(right), verdict.reason, "correct" if right else "wrong", None, detail)
    score = rule(sample, verdict.reason)
    return Score(score.value, score.extracted, score.verdict, score.reason, detail)
