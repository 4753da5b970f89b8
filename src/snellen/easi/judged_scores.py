"""Scores of a run from a judge's extracted answers, used when too many replies are unparseable by rule.

The judge grades every reply (A right, B wrong, C no answer) and copies the answer out of it. Of a choice the grade counts;
of a number, and of moves in text, the benchmark's own rule is put to what was copied. Of MATCHED sets the judge only names
the option that a reply means, where the rule reads none.

Source: the judge of VLMEvalKit's spatial benchmarks as EASI runs it (`llm_extract.py`: grade, extracted answer; MRA computed
anew), and `extract_answer_from_item` of `multiple_choice.py`, by which `ImageMCQDataset` and `CVBench` are scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from snellen.benchmarks.base import Benchmark
from snellen.engine.journal import record_name
from snellen.engine.resume import verified_meta
from snellen.engine.run_folder import JUDGED, RunFolder, RunMeta, derived_folder
from snellen.errors import JudgeError, RunError
from snellen.runs import scoring
from snellen.runs.judge.verdicts import read
from snellen.runs.scoring import Verdicts
from snellen.scoring.rubric import Rubric, built_in, load_rubrics, score_judged
from snellen.scoring.scores import ScoreBuilder, score_record, wrong_by_length
from snellen.scoring.statistics import with_cluster
from snellen.sources.digests import digest
from snellen.types import Metric, Record, Sample, Score

RUBRIC, OPTION = "easi", "option"
MATCHED = ("blink", "3dsrbench", "cv-bench")
"""Sets of which VLMEvalKit's judge matches a reply to an option."""
GRADES = {"correct": "A", "wrong": "B", "invalid": "C"}
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


def rubric_name(benchmark: str, file: str = "") -> str:
    """Return the rubric by which VLMEvalKit's judge is asked about a set: `file` where it has one for the set.

    Raises:
        JudgeError: the file cannot be read, or holds no rubrics.
    """
    if file and load_rubrics(file).of(None, benchmark) is not None:
        return file
    return OPTION if benchmark in MATCHED else RUBRIC


def rubric_of(judged: RunMeta, benchmark: str) -> Rubric | None:
    """Return the rubric of a judge's run about a set: one of EASI's, or that of a file (`snellen prompts import`).

    Earlier versions graded every set by `easi`. None for another rubric, and for a file that is gone.
    """
    name = judged.spec.data.options.get("rubric", "")
    if judged.spec.benchmark != JUDGED or not (name in (RUBRIC, OPTION) or name.endswith(".toml")):
        return None
    try:
        return load_rubrics(name).of(None, benchmark)
    except JudgeError:
        return None


def beside(source: RunFolder) -> RunFolder | None:
    """Return the complete judged run beside a run, if it covers its current answers; None otherwise."""
    folder = RunFolder(derived_folder(source.path, JUDGED))
    try:
        meta = verified_meta(folder)
        rubric = rubric_of(meta, source.meta().spec.benchmark)
    except RunError:
        return None
    if rubric is None or not (meta.state == "complete" and meta.coverage.full):
        return None
    return folder if meta.identity.get("data") == about(source, rubric) else None


def about(source: RunFolder, rubric: Rubric) -> str:
    """Return the data identity that a judged run of the current answers records."""
    return f"{digest(source.results)} rubric {rubric.digest}"


def judgement(source: RunFolder, meta: RunMeta, benchmark: Benchmark, judged: RunFolder) -> Judgement:
    """Score a run by its judge, under the rules of EASI.

    Args:
        source, meta, benchmark: the run that was judged.
        judged: what `beside` found.
    """
    verdicts, about = read(judged, source), judged.meta()
    rubric = rubric_of(about, benchmark.name) or built_in(RUBRIC)
    builder = ScoreBuilder()
    replies = without = 0
    grades = dict.fromkeys(GRADES.values(), 0)
    for sample, record in scoring.recorded_answers(source, meta, benchmark):
        score = regraded(benchmark, sample, record, verdicts, rubric)
        builder.add(sample, score, record.repeat)
        if record.status == "ok":
            replies += 1
            without += score.verdict == "unscored"
            grade = GRADES.get(score.verdict) if rubric.verdict.option else score.detail.get("judge_verdict")
            if grade in grades:
                grades[grade] += 1
    expected = scoring.count(benchmark, meta.spec.data) * meta.spec.repeats
    return Judgement(
        with_cluster(benchmark.summarize(builder.build(expected), PROFILE), benchmark.cluster),
        about.spec.model,
        judged.path,
        about.fingerprint,
        rubric.digest,
        replies,
        without,
        grades,
    )


def regraded(benchmark: Benchmark, sample: Sample, record: Record, verdicts: Verdicts, rubric: Rubric) -> Score:
    """Score one record by its verdict; unscored without a verdict or without a reply.

    `detail` has `judge_verdict` and `judge_source`.
    """
    rule = benchmark.score[PROFILE]
    if record.status != "ok" or record.response is None or wrong_by_length(sample, record):
        return score_record(sample, record, rule)
    reply = verdicts.get(record_name(sample.id, record.repeat))
    if reply is None:
        return Score(None, None, "unscored", "the judge gave no verdict")
    return score_judged(sample, reply, rubric, rule)
