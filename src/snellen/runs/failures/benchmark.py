"""Benchmark `failures`: a judge is asked once for each incorrect answer why it is incorrect.

The judge sees the question, the gold answer, and the answer with the steps that led to it. What is written down of a
restricted benchmark holds no gold: `snellen.runs.judge.benchmark` seals it as it does a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.data_paths import located
from snellen.engine.journal import record_name
from snellen.engine.run_folder import JUDGE_RUNS, LABELLED, RunFolder
from snellen.errors import JudgeError
from snellen.models import trace
from snellen.models.trace import Step
from snellen.redaction.gold import WITHHELD, strike
from snellen.runs.failures import answers
from snellen.runs.failures.answers import Answered
from snellen.runs.judge import verdicts
from snellen.runs.judge.benchmark import JudgeQuestion, question_of
from snellen.runs.trust import benchmark_of
from snellen.scoring import statistics
from snellen.scoring.rubric import (
    Rubric,
    Schema,
    fill,
    gold_forms,
    load_rubric,
    parse_rubric,
    places,
    score_verdict,
    shortened,
)
from snellen.scoring.scores import LEFT_OUT, Scores
from snellen.sources.digests import digest
from snellen.types import Generation, Metric, Prompt, Sample, Score, Text

PROFILE = "judge"
FIELD = "label"
FIRST_STEPS, LAST_STEPS = 12, 20
SAID, CALLED, GIVEN, ANSWERED = 600, 300, 700, 2_000
"""Characters kept of what the model said, of a call's arguments, of a tool's result and of the answer."""


def rubric_of(name: str) -> Rubric:
    """Load the rubric of labels: the package's own, or a file of the user's.

    Raises:
        JudgeError: there is none, or its verdict is not one of three or more labels under `label`.
    """
    rubric = load_rubric(name) if name else _own()
    if rubric.verdict.field != FIELD or len(rubric.verdict.labels) < 3:
        raise JudgeError(
            f"rubric {rubric.name}: its verdict is not one of three or more labels under {FIELD!r}",
            "See `snellen --help failures` for the format of such a rubric.",
        )
    return rubric


@cache
def _own() -> Rubric:
    text = files("snellen.scoring").joinpath("rubrics", "failures.toml").read_text("utf-8")
    return parse_rubric(text, "failures")


def labelling_benchmark(data: Data, source: Benchmark | None = None, *, trust: bool = False) -> Benchmark:
    """Build the benchmark whose questions are "why is this answer not correct?".

    Args:
        data: `path` is the run's folder, the option `rubric` a file (empty: ours), `seed` that of the marks.
        source: the run's benchmark, where it is not a registered one.
        trust: the run's folder may name code to import, and data anywhere (snellen.runs.trust).

    Raises:
        RunError: there is no run. JudgeError: the rubric cannot be used.
    """
    folder = RunFolder(data.path or RunFolder("").path)
    meta = located(folder, folder.meta())
    if meta.spec.benchmark in JUDGE_RUNS:
        raise JudgeError(f"{folder.path} is a judge's run", "Pass the run that it is about.")
    subject = source or benchmark_of(folder, meta, trust=trust)
    rubric = rubric_of(data.options.get("rubric", ""))

    def samples(settings: Data) -> Iterator[Sample]:
        replies = verdicts.said_of(folder, is_judged=subject.rubric is not None)
        for answer in answers.answers(folder, subject, meta.spec, replies):
            if answer.failed:
                yield question(answer, rubric, settings, subject)

    def score(sample: Sample, reply: str) -> Score:
        judge_question = question_of(sample.prompt)
        return score_verdict(reply, Schema() if judge_question is None else judge_question.verdict)

    return Benchmark(
        name=LABELLED,
        version="1",
        samples=samples,
        score={PROFILE: score},
        summarize=lambda scores, profile: summarize(scores, rubric.verdict),
        profiles={PROFILE: f"the judge's label: {rubric.about or rubric.name}"},
        size=lambda settings: sum(1 for _ in samples(settings)),
        digest=lambda _: f"{digest(folder.results)} rubric {rubric.digest}",
        options={"rubric": "file of the rubric"},
        restricted=subject.restricted,
        unanswered=LEFT_OUT,
        about={"description": f"why answers of {folder.path} were not correct", "benchmark": subject.name},
    )


def question(answer: Answered, rubric: Rubric, data: Data, subject: Benchmark) -> Sample:
    """Build the question to the judge about one incorrect answer."""
    sample, record = answer.sample, answer.record
    shown_sample = sample
    if subject.judged_text is not None and record.response is not None:
        narrowed = subject.judged_text(sample, record.response.text)
        if narrowed is not None:
            shown_sample = structs.replace(sample, prompt=Prompt((Text(narrowed.question),)))
    values = places(rubric, shown_sample, account(answer), data.seed)
    text = fill(rubric.template, values)
    part = JudgeQuestion(text, verdict=rubric.verdict, shape=rubric.shape)
    if subject.restricted:
        forms = gold_forms(sample)
        written = strike(fill(rubric.template, {**values, "gold": WITHHELD}), forms)
        part = structs.replace(part, text=written, opened=text, forms=forms)
    system = fill(rubric.system, {**values, "gold": WITHHELD, "reply": "(below)"})
    limit = None if rubric.max_tokens is None else Generation(max_tokens=rubric.max_tokens)
    group = sample.group or sample.id
    return Sample(record_name(sample.id, record.repeat), Prompt((part,), system, limit), None, "open", group=group)


def account(answer: Answered) -> str:
    """Describe an answer and its steps in at most about 50,000 characters; a rubric's place takes 20,000 of them."""
    record, steps = answer.record, answer.steps()
    if answer.answer is not None:
        lines = [f"Answer: {shortened(answer.answer, ANSWERED)}"]
    elif record.response is not None:
        lines = [f"No answer could be read from this reply: {shortened(record.response.text, ANSWERED)}"]
    else:
        why = f", {record.error.kind}: {shortened(record.error.message, CALLED)}" if record.error is not None else ""
        lines = [f"No answer ({record.status}{why})"]
    verdict = answer.score.detail.get("judge_verdict", answer.score.verdict)
    lines.append(f"Said of it: {verdict}")
    if record.response is not None and record.response.finish_reason == trace.IMAGE_NEVER_SEEN:
        lines.append("It answered without a look at the picture.")
    if steps is None:
        return "\n".join([*lines, "There is no record of steps: the model was asked once, without tools."])
    calls = ", ".join(f"{tool} x{count}" for tool, count in trace.calls_by_tool(steps).items()) or "none"
    lines.append(f"Replies of the model: {trace.turns(steps)}. Calls of tools: {calls}.")
    return "\n".join([*lines, "", *_told(steps)])


def _told(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the first and the last steps, one paragraph each, without the question itself."""
    replies = [step for step in steps if step.role != "user"]
    for number, step in enumerate(replies, 1):
        omitted_until = len(replies) - LAST_STEPS
        if FIRST_STEPS < number <= omitted_until:
            if number == omitted_until:
                yield f"[… {omitted_until - FIRST_STEPS:,} steps left out …]"
            continue
        saw = f" [{len(step.images)} picture(s) shown]" if step.images else ""
        if step.role == "assistant":
            yield f"{number}. model: {shortened(step.text, SAID)}{saw}"
        else:
            called = shortened(msgspec.json.encode(step.arguments).decode(), CALLED)
            ended = " failed" if step.error else ""
            yield f"{number}. {shortened(step.tool, 100)} {called}{ended} -> {shortened(step.result, GIVEN)}{saw}"


def summarize(scores: Scores, schema: Schema) -> list[Metric]:
    """Compute the share of each label among the judged answers, and of those without a label."""
    column = scores.meta.get("judge_verdict")
    codes = np.full(len(scores), -1) if column is None else column.codes

    def share(name: str, hits: NDArray[np.bool_]) -> Metric:
        rows = replace(scores, verdict=np.zeros_like(scores.verdict), group=scores.question)
        return statistics.mean(name, replace(rows, value=hits.astype(np.float64)))

    names = () if column is None else column.names
    shares = [share(label, codes == names.index(label) if label in names else codes < -1) for label in schema.labels]
    return [*shares, share("without_label", codes < 0)]
