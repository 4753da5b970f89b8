"""Benchmark `read`: its samples are the replies of another run that the rules leave unread, its model is the reader.

The reader sees question, options and reply, never the gold answer, and quotes the answer from the reply. It is asked, kept and
extended as a judge is; what differs is the rubric and the effect: a quote is read by the run's own rules (snellen.scoring.readings).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.data_paths import located
from snellen.engine.final_records import final_records
from snellen.engine.journal import record_name
from snellen.engine.run_folder import READ, RunFolder
from snellen.errors import JudgeError, UsageError
from snellen.runs import scoring
from snellen.runs.judge.benchmark import judged_sample, question_of
from snellen.runs.scoring import Verdicts
from snellen.runs.trust import benchmark_of
from snellen.scoring import metrics
from snellen.scoring.readings import EVIDENCE, PROFILE, read_quote
from snellen.scoring.replies.reply import visible
from snellen.scoring.rubric import load_rubric
from snellen.scoring.scores import LEFT_OUT, Scores, score_record
from snellen.sources.digests import digest
from snellen.types import Metric, Record, Sample, Score

if TYPE_CHECKING:
    from snellen.runs.run import Run

RUBRIC = "reader"
UNREAD, ALL = "unread", "all"
"""Replies that a reader is asked about: those that the rules leave unread, or all."""


def reading_benchmark(data: Data, source: Benchmark | None = None, *, trust: bool = False) -> Benchmark:
    """Build the benchmark whose questions are "which words of this reply are its answer?".

    Args:
        data: `path` is the run's folder, options `rubric` (a reader's; default: the package's) and `replies` (`unread` or
            `all`), `seed` that of the marks around replies.
        source: the run's benchmark, where it is not a registered one.
        trust: the run's folder may name code to import, and data anywhere (snellen.runs.trust).

    Raises:
        RunError: there is no run. JudgeError: the rubric is no reader's. UsageError: its replies are not read by rules.
    """
    folder = RunFolder(data.path or Path())
    meta = located(folder, folder.meta())
    subject = source or benchmark_of(folder, meta, trust=trust)
    require_readable(subject)
    rubric = load_rubric(data.options.get("rubric", RUBRIC))
    if not rubric.verdict.quote:
        raise JudgeError(f"rubric {rubric.name} asks for no quote", "A reader's rubric has quote = true in [verdict].")
    everything = data.options.get("replies", UNREAD) == ALL

    def samples(settings: Data) -> Iterator[Sample]:
        records = final_records(folder.results)
        for sample, record in scoring.match(subject, meta.spec.data, records, repeats=meta.spec.repeats):
            if is_for_reader(subject, sample, record, everything=everything):
                yield judged_sample(sample, record, rubric, settings, subject)

    @cache
    def counted() -> int:
        return sum(1 for _ in samples(data))

    def score(sample: Sample, said: str) -> Score:
        question = question_of(sample.prompt)
        try:
            quote = read_quote(said, "" if question is None else question.quoted_from)
        except ValueError as error:
            return Score(0.0, None, "invalid", f"refused: {error}")
        return Score(1.0, quote.text, "correct") if quote.text else Score(0.0, None, "wrong", "no answer in the reply")

    return Benchmark(
        name=READ,
        version="1",
        samples=samples,
        score={RUBRIC: score},
        summarize=lambda scores, profile: summarize(scores),
        profiles={RUBRIC: "whether the reader quotes an answer; whether that is right, the run's own scores say"},
        size=lambda _: counted(),
        digest=lambda _: f"{digest(folder.results)} rubric {rubric.digest}",
        options={"rubric": "file of the reader's rubric", "replies": "unread (default) or all"},
        restricted=subject.restricted,
        unanswered=LEFT_OUT,
        about={"description": f"readings of {folder.path}", "rubric": rubric.name, "benchmark": subject.name},
    )


def require_readable(benchmark: Benchmark) -> None:
    """Raise UsageError for a benchmark whose replies no rule of the profile `strict` reads from beginning to end."""
    if benchmark.groups is not None:
        raise UsageError(
            f"{benchmark.name} chooses its questions by the answers as it read them, and a reader would change none",
            "Omit the reader.",
        )
    if PROFILE not in benchmark.score or benchmark.judged_text is not None:
        raise UsageError(
            f"{benchmark.name} has no profile {PROFILE} that reads answers by rules, so a reader has nothing to read",
            "Omit the reader.",
        )


def is_for_reader(benchmark: Benchmark, sample: Sample, record: Record, *, everything: bool = False) -> bool:
    """Return True for a reply that no judge decides and that the rules leave unread; of `everything`, for any reply."""
    if record.status != "ok" or record.response is None or not visible(record.response.text).text.strip():
        return False
    if benchmark.rubric is not None and scoring.rubric_for(benchmark, sample, record) is not None:
        return False
    return everything or score_record(sample, record, benchmark.score[PROFILE]).verdict == "invalid"


def has_for_reader(run: Run) -> bool:
    """Return True if the rules leave a reply of a run unread."""
    return any(is_for_reader(run.benchmark, sample, record) for sample, record in run.answers())


def summarize(scores: Scores) -> list[Metric]:
    """Compute the shares of replies with a quote, without an answer, and whose quote was refused."""
    return [
        metrics.accuracy(scores, "quoted"),
        metrics.share(scores, "wrong", "no_answer"),
        metrics.share(scores, "invalid", "refused"),
    ]


class ReaderAgreement(Struct, frozen=True):
    """Comparison of a reader with the rules, over the replies that both read."""

    alike: int
    otherwise: int
    rules_alone: int

    @property
    def text(self) -> str:
        """Describe the comparison in a line."""
        return (
            f"of {self.alike + self.otherwise + self.rules_alone:,} replies that the rules read, the reader reads "
            f"{self.alike:,} alike, {self.otherwise:,} otherwise and {self.rules_alone:,} not at all; the rules' answers count"
        )


def agreement(run: Run, said: Verdicts) -> ReaderAgreement:
    """Compare a reader's readings of all replies with those of the rules."""
    alike = otherwise = rules_alone = 0
    scorer = run.benchmark.score[PROFILE]
    for sample, record in run.answers():
        reply = said.get(record_name(sample.id, record.repeat)) if said.readings else None
        by_rules = score_record(sample, record, scorer)
        if reply is None or by_rules.extracted is None:
            continue
        by_model = scoring.by_reader(sample, record, reply, scorer, Score(0.0, None, "invalid"))
        if by_model.detail.get(EVIDENCE) is None:
            rules_alone += 1
        else:
            alike += by_model.extracted == by_rules.extracted
            otherwise += by_model.extracted != by_rules.extracted
    return ReaderAgreement(alike, otherwise, rules_alone)
