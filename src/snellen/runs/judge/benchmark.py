"""Benchmark `judged`: its samples are the records of another run, its model is the judge.

The benchmark `judged` has one sample for each record of a run, or for each that the run's benchmark has a rubric of its
own for. `JudgeModel` wraps the judge's model: it asks once more where the verdict cannot be read, and keeps what went out and
what came back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.data_paths import located
from snellen.engine.final_records import final_records
from snellen.engine.journal import Journal, record_name, storage_error
from snellen.engine.run_folder import JUDGED, RunFolder, RunMeta
from snellen.errors import JudgeError, ModelError, SnellenError
from snellen.event_loop import off_loop
from snellen.models.base import Model
from snellen.redaction import redact
from snellen.redaction.gold import WITHHELD, strike
from snellen.runs import scoring
from snellen.runs.trust import benchmark_of
from snellen.scoring import metrics, statistics
from snellen.scoring.readings import read_quote
from snellen.scoring.rubric import (
    GOLD_PLACES,
    NO_OPTION,
    RULE,
    SOURCE,
    Rubric,
    Rubrics,
    Schema,
    fill,
    gold_forms,
    load_rubrics,
    marked_or_object,
    places,
    read_verdict,
    ruled,
    score_verdict,
    shortened,
)
from snellen.scoring.scores import LEFT_OUT, Scores
from snellen.sources.digests import digest
from snellen.types import VERDICTS, Generation, Metric, Prompt, Record, Response, Sample, Score, Text

PROFILE = "judge"
OWN = ""
"""The value of the option `rubric` where the judged run's benchmark says by which rubric each reply is judged."""
LEFT_TO_JUDGE = "left_to_judge"
"""The option of a judged run with another rubric than the benchmark's own, which judges what that leaves to a judge."""
UNANSWERED, NO_ANSWER = "unanswered", "no answer in the reply"
LOST_SHARES = WITHOUT_VERDICT, OUT_OF_RANGE, NONE_NAMED = "without_verdict", "out_of_range", "no_option"
"""Metrics of a judged run that are no score of the model."""
MOST_PARTS = 20
RAW_INPUTS, RAW_OUTPUTS, RAW_FILE = "raw_judge_inputs", "raw_judge_outputs", "00000.jsonl"


class JudgeQuestion(Text, frozen=True, tag="question"):
    """Question to the judge, as it may be written down, with what it takes to read the verdict.

    Attributes:
        text: with the gold answer left out where that must not be written.
        opened: what the judge alone sees in place of `text`; empty: the same.
        forms: what must not be written; empty: nothing is sealed.
        verdict: what a verdict looks like.
        shape: the same in words, for the second question.
        ruled: the verdict of a rule, which leaves the judge nothing to say; empty: there is none.
        quoted_from: the reply that a reader's quote must stand in.
    """

    opened: str = ""
    forms: tuple[str, ...] = ()
    verdict: Schema = Schema()
    shape: str = ""
    ruled: str = ""
    quoted_from: str = ""

    def require_readable(self, said: str) -> None:
        """Raise ValueError if what a judge or a reader says is no verdict, or no quote from the reply."""
        if self.verdict.quote:
            read_quote(said, self.quoted_from)
        else:
            read_verdict(said, self.verdict)


def question_of(prompt: Prompt) -> JudgeQuestion | None:
    """Return the question to the judge in a prompt; None if there is nothing to judge."""
    return next((part for part in prompt.parts if isinstance(part, JudgeQuestion)), None)


def written_text(prompt: Prompt) -> str:
    """Return the text of a question to the judge for raw_judge_inputs, without keys and sealed gold."""
    return redact("\n".join(part.text for part in prompt.parts if isinstance(part, Text)))


def judged_benchmark(data: Data, source: Benchmark | None = None, *, trust: bool = False) -> Benchmark:
    """Build the benchmark whose questions are "is this reply right?".

    Args:
        data: `path` is the judged run's folder, options `rubric` (a name or a file; empty: the run's benchmark has its
            own, and replies that it has none for are not judged), `images` and `rule`, `seed` that of the marks around
            replies.
        source: the judged run's benchmark, where it is not a registered one.
        trust: the judged run's folder may name code to import, and data anywhere (snellen.runs.trust).

    Raises:
        RunError: there is no run. JudgeError: there is no such rubric.
    """
    folder = RunFolder(data.path or Path())
    meta = located(folder, folder.meta())
    subject = source or benchmark_of(folder, meta, trust=trust)
    name = data.options.get("rubric", "match")
    chosen = load_rubrics(name) if name != OWN else None
    if chosen is not None and any(rubric.verdict.quote for rubric in chosen.rubrics.values()):
        raise JudgeError(f"the rubric {chosen.name} is a reader's", f"Read with it: snellen read RUN --rubric {name}")
    left_to_judge = bool(data.options.get(LEFT_TO_JUDGE))
    rubric_for_all = None if chosen is None or left_to_judge else chosen.alone
    if (chosen is None or left_to_judge) and subject.rubric is None:
        raise JudgeError(f"{subject.name} has no rubric of its own", "Name one: --rubric match, graded, or a file.")
    rubric_of = rubric_chooser(subject, chosen, left_to_judge=left_to_judge)

    @cache
    def own() -> tuple[int, str]:
        """Return the number of samples that a rubric decides, and the digest of those rubrics."""
        digests = [rubric.digest for rubric in map(rubric_of, subject.samples(meta.spec.data)) if rubric is not None]
        kinds = sorted(set(digests))
        return len(digests), kinds[0] if len(kinds) == 1 else blake2b(
            " ".join(kinds).encode(), digest_size=8
        ).hexdigest()

    def samples(settings: Data) -> Iterator[Sample]:
        records = final_records(folder.results)
        for sample, record in scoring.match(subject, meta.spec.data, records, repeats=meta.spec.repeats):
            rubric = rubric_of(sample)
            if rubric is not None:
                judged = judged_sample(sample, record, rubric, settings, subject)
                yield judged if rubric_for_all is not None else as_asked(judged, sample, record)

    def score(sample: Sample, reply: str) -> Score:
        question = question_of(sample.prompt)
        if question is not None:
            return score_verdict(reply, question.verdict)
        why = sample.meta[UNANSWERED]
        if rubric_for_all is not None:
            return Score(0.0, None, "wrong", f"no answer to judge: {why}")
        return Score(0.0, None, "invalid" if why in ("refused", NO_ANSWER) else "error", why)

    def summary(scores: Scores, profile: str) -> list[Metric]:
        return (
            summarize(scores, rubric_for_all.verdict) if rubric_for_all is not None else summarize_own(scores, subject)
        )

    rubric_text = "the benchmark's own rubrics" if chosen is None or left_to_judge else chosen.name
    if rubric_for_all is not None:
        rubric_text = rubric_for_all.about or rubric_for_all.name
    return Benchmark(
        name=JUDGED,
        version="1",
        samples=samples,
        score={PROFILE: score},
        summarize=summary,
        profiles={PROFILE: f"the judge's verdict: {rubric_text}"},
        size=lambda _: expected(meta, subject) if rubric_for_all is not None else own()[0] * meta.spec.repeats,
        digest=lambda _: (
            f"{digest(folder.results)} rubric {own()[1] if rubric_for_all is None else rubric_for_all.digest}"
        ),
        options={
            "rubric": "name or file of the rubric",
            "images": "yes: the judge sees the pictures too",
            "rule": "yes: what the benchmark's rule takes for correct is not judged",
            LEFT_TO_JUDGE: "yes: only what the benchmark leaves to a judge is judged, by this rubric",
        },
        restricted=subject.restricted,
        headline=subject.headline if rubric_for_all is None else None,
        unanswered=LEFT_OUT,
        about={
            "description": f"verdicts on {folder.path}",
            "rubric": rubric_text if rubric_for_all is None else rubric_for_all.name,
            "benchmark": subject.name,
        },
    )


def rubric_chooser(
    subject: Benchmark, chosen: Rubrics | None, *, left_to_judge: bool = False
) -> Callable[[Sample], Rubric | None]:
    """Return the function that says by which rubric replies to a sample are judged; None: they are not.

    Args:
        subject: the judged run's benchmark.
        chosen: rubrics that the user names; None: the benchmark's own.
        left_to_judge: they decide what the benchmark leaves to a judge, and nothing else.
    """

    def rubric_of(sample: Sample) -> Rubric | None:
        own = None if subject.rubric is None else subject.rubric(sample)
        if chosen is None or (left_to_judge and own is None):
            return own
        return chosen.of(own, subject.name)

    return rubric_of


def rubrics_used(data: Data, *, trust: bool) -> Iterator[Rubric]:
    """Yield the rubric for each sample of the run that a judged run with this data is about; the only one once.

    Raises:
        SnellenError: that run, its benchmark or its data cannot be read.
    """
    name = data.options.get("rubric", OWN)
    chosen = None if name == OWN else load_rubrics(name)
    if chosen is not None and chosen.alone is not None:
        return iter((chosen.alone,))
    folder = RunFolder(data.path or Path())
    meta = located(folder, folder.meta())
    subject = benchmark_of(folder, meta, trust=trust)
    rubrics = map(rubric_chooser(subject, chosen), subject.samples(meta.spec.data))
    return (rubric for rubric in rubrics if rubric is not None)


def expected(meta: RunMeta, source: Benchmark) -> int:
    """Return the number of verdicts of a complete run of the source."""
    return scoring.count(source, meta.spec.data) * meta.spec.repeats


def judged_sample(sample: Sample, record: Record, rubric: Rubric, data: Data, subject: Benchmark) -> Sample:
    """Build the question to the judge about one record; without parts if there is no reply, or no answer in it.

    The benchmark may narrow what the judge sees (`judged_text`); the gold of a restricted one is sealed.
    """
    name = record_name(sample.id, record.repeat)
    meta: dict[str, Any] = {
        k: v for k, v in sample.meta.items() if isinstance(v, (str, int, float)) and k not in _NOT_SHOWN
    }
    meta["asked"] = sample.kind
    group = sample.group or sample.id
    if record.status != "ok" or record.response is None:
        meta[UNANSWERED] = record.error.kind if record.error is not None else record.status
        return Sample(name, Prompt(()), None, "open", group=group, meta=meta)
    shown_sample, reply = sample, record.response.text
    if subject.judged_text is not None and not rubric.verdict.quote:
        narrowed = subject.judged_text(sample, reply)
        if narrowed is None:
            meta[UNANSWERED] = NO_ANSWER
            return Sample(name, Prompt(()), None, "open", group=group, meta=meta)
        reply = narrowed.reply
        shown_sample = structs.replace(sample, prompt=Prompt((Text(narrowed.question),)))
    rubric = rubric.for_sample(sample)
    values = places(rubric, shown_sample, reply, data.seed)
    hidden = {**values, **dict.fromkeys(GOLD_PLACES, WITHHELD)}
    text = fill(rubric.template, values)
    # A system text with the gold in it would be written to traces; rubrics put it into the template.
    system = fill(rubric.system, {**hidden, "reply": "(below)"})
    part = JudgeQuestion(text, verdict=rubric.verdict, shape=rubric.shape)
    if rubric.verdict.quote:
        part = structs.replace(part, quoted_from=reply)
    elif (data.options.get("rule") or subject.rule_first) and scoring.is_ruled_correct(subject, sample, reply):
        part = structs.replace(part, ruled=ruled(rubric.verdict))
    elif rubric.verdict.option:
        part = structs.replace(part, ruled=ruled_option(subject, sample, reply, rubric.verdict))
    if subject.restricted and not rubric.verdict.quote:
        forms = gold_forms(sample)
        written = strike(fill(rubric.template, hidden), forms)
        part = structs.replace(part, text=written, opened=text, forms=forms)
    pictures = tuple(p for p in sample.prompt.parts if not isinstance(p, Text)) if data.options.get("images") else ()
    prompt = Prompt((*pictures, part), system, _generation(rubric.max_tokens))
    return Sample(name, prompt, None, "open", group=group, meta=meta)


def ruled_option(subject: Benchmark, sample: Sample, reply: str, schema: Schema) -> str:
    """Return the verdict of a benchmark's first rule where it reads an option from a reply; empty where it reads none.

    Source: VLMEvalKit's `extract_answer_from_item`, which asks a judge about what its rule cannot read alone.
    """
    score = next(iter(subject.score.values()))(sample, reply)
    read = score.verdict in ("correct", "wrong") and score.extracted in schema.labels
    return msgspec.json.encode({schema.field: score.extracted, SOURCE: RULE}).decode() if read else ""


def as_asked(judged: Sample, sample: Sample, record: Record) -> Sample:
    """Give a judged sample the kind and meta of its source sample, for the summary of the benchmark's own.

    The target comes along, so that a report on a restricted benchmark can tell which of the meta would give it away.
    """
    meta = {**sample.meta, **{name: judged.meta[name] for name in (UNANSWERED,) if name in judged.meta}}
    if record.repeat:
        meta["repeat"] = record.repeat
    return structs.replace(judged, kind=sample.kind, target=sample.target, meta=meta)


@cache
def _generation(max_tokens: int | None) -> Generation | None:
    return None if max_tokens is None else Generation(max_tokens=max_tokens)


def verdict_row(sample: Sample, record: Record, score: Score) -> dict[str, Any]:
    """Build one line of verdicts.jsonl: the reply, its verdict, and the verdict's source.

    `judge_verdict` is a label or number of the rubric; `error` or `invalid` where the judged run holds no answer, about
    which nobody was asked; `judge_error` where the judge failed or gave no verdict.
    """
    why = sample.meta.get(UNANSWERED)
    if why is not None:
        verdict: Any = "invalid" if why in ("refused", NO_ANSWER) else "error"
        return {"sample_id": sample.id, "judge_verdict": verdict, SOURCE: "none", "reason": why}
    if record.status != "ok" or record.response is None or score.value is None:
        reason = record.error.kind if record.error is not None else "no verdict"
        return {"sample_id": sample.id, "judge_verdict": "judge_error", SOURCE: "judge", "reason": reason}
    named = score.detail.get("judge_verdict", score.extracted)
    row = {"sample_id": sample.id, "judge_verdict": named, SOURCE: score.detail.get(SOURCE, "judge")}
    if score.reason:
        row["judge_reason"] = score.reason
    return row if not record.response.model else {**row, "judge_model": record.response.model}


_NOT_SHOWN = {"kind", "target", "gold", "answer", "aliases", "chance", UNANSWERED}


def summarize(scores: Scores, schema: Schema) -> list[Metric]:
    """Compute the mean verdict, its parts, and the share of replies without one.

    A reply that the judge gave no verdict on (unscored, or the judge itself failed) says nothing about the model: it is
    left out and lowers the coverage. A sample that the model gave no reply to is worth 0, and so is one that the judge found
    none of the options in.
    """
    lost = _lost(scores)
    verdict = np.where(lost, VERDICTS.index("unscored"), scores.verdict).astype(scores.verdict.dtype)
    judged = dataclasses.replace(scores, value=np.where(lost, np.nan, scores.value), verdict=verdict)
    name = "accuracy" if schema.labels or schema.option else "score"
    results = [metrics.accuracy(judged, name)]
    for column in ("asked", "level", "task", "category"):
        if column in judged.meta and 1 < len(judged.meta[column].names) <= MOST_PARTS:
            results += metrics.breakdown(judged, (column,), name)
    left_out = dataclasses.replace(
        scores, value=lost.astype(float), verdict=scores.verdict * 0, expected=max(scores.expected, len(scores))
    )
    return [*results, metrics.accuracy(left_out, WITHOUT_VERDICT), *none_named(scores)]


def _no_option(scores: Scores) -> NDArray[np.bool_]:
    """Return a mask of the rows in which the judge found none of the options: wrong, as VLMEvalKit counts its Z."""
    column = scores.column("judge_verdict")
    code = column.names.index(NO_OPTION) if NO_OPTION in column.names else -2
    return np.logical_and(scores.has("invalid"), np.equal(column.codes, code))


def _lost(scores: Scores) -> NDArray[np.bool_]:
    """Return a mask of the rows without a verdict."""
    return (scores.has("error") | scores.has("invalid") | scores.has("unscored")) & ~_no_option(scores)


def none_named(scores: Scores) -> list[Metric]:
    """Return the share of replies with none of the options; nothing where there is no such reply."""
    none = _no_option(scores)
    share = dataclasses.replace(scores, value=none.astype(np.float64), verdict=np.zeros_like(scores.verdict))
    return [metrics.accuracy(share, NONE_NAMED)] if none.any() else []


def summarize_own(scores: Scores, source: Benchmark) -> list[Metric]:
    """Compute the source benchmark's metrics over judged rows, then the shares without a verdict and out of range.

    What the judge gave no verdict on is unscored, as it is when the verdicts come back to the run. `out_of_range` is a
    share of the rows that have a verdict.
    """
    unanswered = scores.meta.get(UNANSWERED)
    was_judged = np.ones(len(scores), dtype=bool) if unanswered is None else unanswered.codes < 0
    lost = was_judged & _lost(scores)
    verdict = np.where(lost, VERDICTS.index("unscored"), scores.verdict).astype(scores.verdict.dtype)
    known = dataclasses.replace(scores, value=np.where(lost, np.nan, scores.value), verdict=verdict)
    judged = known.select(was_judged & ~lost)
    beyond = ((judged.value < 0.0) | (judged.value > 1.0)).astype(np.float64)
    plain = np.zeros_like(scores.verdict)
    return [
        *source.summarize(known, next(iter(source.score))),
        statistics.mean(WITHOUT_VERDICT, dataclasses.replace(scores, value=lost.astype(np.float64), verdict=plain)),
        statistics.mean(OUT_OF_RANGE, dataclasses.replace(judged, value=beyond, verdict=np.zeros_like(judged.verdict))),
        *none_named(scores),
    ]


class JudgeModel(Model):
    """The judge's model: asks again if the verdict cannot be read, and keeps everything sent and received.

    raw_judge_inputs/ and raw_judge_outputs/ get one JSON line an attempt (1: the question, 2: the re-ask). Of restricted
    benchmarks the gold is left out of both, and of the reply that goes into results.jsonl. `model` is the judge itself.
    """

    def __init__(self, model: Model, folder: Path) -> None:
        self.name = model.name
        self.model = model
        self._folder = folder
        self._inputs: Journal | None = None
        self._outputs: Journal | None = None

    def identity(self) -> Mapping[str, Any]:
        """Return the judge's own identity; the rubric is part of the benchmark."""
        return self.model.identity()

    def may_differ(self, prompt: Prompt) -> bool:
        return self.model.may_differ(prompt)

    async def preflight(self) -> None:
        await self.model.preflight()

    async def answer(self, prompt: Prompt) -> Response:
        """Answer as `answer_for`, without a sample id for the raw files."""
        return await self.answer_for("", 0, prompt)

    async def answer_for(self, sample_id: str, repeat: int, prompt: Prompt) -> Response:
        """Return the judge's reply, the second one if the first holds no verdict; usage of both is added up.

        Raises:
            ModelError: the judge gave no reply to the question or to the re-ask.
        """
        question = question_of(prompt)
        if question is None:
            return Response("")  # nothing to judge; the score says why
        if question.ruled:
            return Response(question.ruled)
        response = await self._ask(sample_id, 1, prompt, question.forms)
        try:
            question.require_readable(response.text)
        except ValueError as error:
            if question.verdict.reask:
                second_prompt = _reask(prompt, question, response.text, str(error))
                again = await self._ask(sample_id, 2, second_prompt, question.forms)
                response = structs.replace(
                    again, usage=response.usage + again.usage, latency_s=response.latency_s + again.latency_s
                )
        sealed = bool(question.forms)
        text = await off_loop(len(response.text), _sealed_reply, response.text, question) if sealed else response.text
        reasoning = "" if sealed else response.reasoning
        return structs.replace(_sealed_names(response, question.forms), text=text, trace=None, reasoning=reasoning)

    async def close(self) -> None:
        try:
            for journal in (self._inputs, self._outputs):
                if journal is not None:
                    journal.close()
        finally:
            self._inputs = self._outputs = None
            await self.model.close()

    async def _ask(self, sample_id: str, attempt: int, prompt: Prompt, forms: tuple[str, ...]) -> Response:
        inputs, outputs = self._raw()
        sizes = [len(part.text) for part in prompt.parts if isinstance(part, Text)]
        pictures = len(prompt.parts) - len(sizes)
        line = {"sample_id": sample_id, "attempt": attempt}
        written = await off_loop(sum(sizes), written_text, prompt)
        inputs.append({**line, "system": prompt.system, "text": written, "images": pictures})
        opened = tuple(
            Text(part.opened or part.text) if isinstance(part, JudgeQuestion) else part for part in prompt.parts
        )
        try:
            response = await self.model.answer_for(sample_id, 0, structs.replace(prompt, parts=opened))
        except SnellenError as error:  # servers quote requests that they do not like, and the error is written down
            error.message = strike(error.message, forms)
            if isinstance(error, ModelError) and forms:
                error.trace = None
            raise
        except Exception as error:  # so may a model of another user
            raise ModelError(strike(f"{type(error).__name__}: {error}", forms)) from error
        written_reply = await off_loop(len(response.text), lambda: redact(strike(response.text, forms)))
        sealed = _sealed_names(response, forms)
        outputs.append({**line, "text": written_reply, "model": sealed.model, "finish_reason": sealed.finish_reason})
        return response

    def _raw(self) -> tuple[Journal, Journal]:
        if self._inputs is None or self._outputs is None:
            paths = [self._folder / kind / RAW_FILE for kind in (RAW_INPUTS, RAW_OUTPUTS)]
            for path in paths:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise storage_error(path, error) from error
            self._inputs, self._outputs = (Journal(path) for path in paths)
        return self._inputs, self._outputs


def _reask(prompt: Prompt, question: JudgeQuestion, reply: str, fault: str) -> Prompt:
    schema = question.verdict
    form = "one line of plain text" if schema.marker else "one letter" if schema.option else "one JSON object"
    text = (
        "\n\nYou have answered this already, but your answer could not be used: "
        f"{fault}. It was:\n{shortened(reply, 4_000)}\n\n"
        f"Answer again with {form} and nothing else, no code fence: {question.shape}"
    )
    second = JudgeQuestion(strike(text, question.forms), opened=text, forms=question.forms, verdict=question.verdict)
    return structs.replace(prompt, parts=(*prompt.parts, second))


def _sealed_names(response: Response, forms: tuple[str, ...]) -> Response:
    """Return the reply with its server's names free of gold and keys."""
    model, finish_reason = (redact(strike(name, forms)) for name in (response.model, response.finish_reason))
    return structs.replace(response, model=model, finish_reason=finish_reason)


def _sealed_reply(reply: str, question: JudgeQuestion) -> str:
    """Return the verdict alone, or a reply without a verdict with the gold struck."""
    try:
        return marked_or_object(read_verdict(reply, question.verdict).answer, question.verdict)
    except ValueError:
        return strike(reply, question.forms)
