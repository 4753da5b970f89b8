"""A judge is a run like any other: its samples are made of records, its model is the judge.

The benchmark `judged` has one sample for each record of a run. `Asking` wraps the judge's model: it asks once more where
the verdict cannot be read, and keeps what went out and what came back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import rescore
from snellen.engine.folder import RunFolder, RunMeta
from snellen.engine.journal import Journal, storage_error
from snellen.errors import JudgeError
from snellen.models.base import Model
from snellen.scoring import metrics
from snellen.scoring.judge import (
    WITHHELD,
    Rubric,
    Schema,
    built_in,
    fill,
    gold_forms,
    parse_rubric,
    places,
    read_verdict,
    score_verdict,
    shortened,
    strike,
)
from snellen.scoring.table import Scores
from snellen.secrets import redact
from snellen.sources.digests import digest
from snellen.types import Metric, Prompt, Record, Response, Sample, Score, Text

NAME = "judged"
PROFILE = "judge"
UNANSWERED = "unanswered"
MOST_PARTS = 20
RUBRIC_BYTES = 1 << 20


class Sealed(Text, frozen=True, tag="sealed"):
    """A text with the gold answer left out; `opened` is for the judge alone and `forms` is what must not be written."""

    opened: str = ""
    forms: tuple[str, ...] = ()


def load_rubric(name: str) -> Rubric:
    """A rubric of the package by name, or one of the user's own by path (.toml).

    Raises:
        JudgeError: there is none, or it is not a rubric.
    """
    path = Path(name)
    if path.suffix != ".toml":
        return built_in(name)
    try:
        if path.stat().st_size > RUBRIC_BYTES:
            raise JudgeError(f"rubric {name}: larger than {RUBRIC_BYTES:,} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JudgeError(f"rubric {name}: cannot be read: {error}", "Check the path; it is a TOML file.") from error
    return parse_rubric(text, name)


def benchmark(data: Data, source: Benchmark | None = None) -> Benchmark:
    """The benchmark whose questions are "is this reply right?".

    Args:
        data: `path` is the judged run's folder, options `rubric` and `images`, `seed` that of the marks around replies.
        source: the judged run's benchmark, where it is not a registered one.

    Raises:
        RunError: there is no run. JudgeError: there is no such rubric.
    """
    folder = RunFolder(data.path or Path())
    meta = folder.meta()
    asked = source or registry.find(meta.spec.benchmark)
    rubric = load_rubric(data.options.get("rubric", "match"))

    def samples(given: Data) -> Iterator[Sample]:
        records = rescore.final_records(folder.results)
        for sample, record in rescore.match(asked, meta.spec.data, records, repeats=meta.spec.repeats):
            yield judged_sample(sample, record, rubric, given, sealed=asked.restricted)

    def score(sample: Sample, reply: str) -> Score:
        if UNANSWERED in sample.meta:
            return Score(0.0, None, "wrong", f"no answer to judge: {sample.meta[UNANSWERED]}")
        return score_verdict(reply, rubric.verdict)

    return Benchmark(
        name=NAME,
        version="1",
        samples=samples,
        score={PROFILE: score},
        summarize=lambda scores, profile: summarize(scores, rubric.verdict),
        profiles={PROFILE: f"the judge's verdict: {rubric.about or rubric.name}"},
        size=lambda given: expected(meta, asked),
        digest=lambda given: f"{digest(folder.results)} rubric {rubric.digest}",
        options={"rubric": "name or file of the rubric", "images": "yes: the judge sees the pictures too"},
        restricted=asked.restricted,
        about={"description": f"verdicts on {folder.path}", "rubric": rubric.name, "benchmark": asked.name},
    )


def expected(meta: RunMeta, source: Benchmark) -> int:
    """How many verdicts a whole run of the source would have."""
    return rescore.count(source, meta.spec.data) * meta.spec.repeats


def judged_sample(sample: Sample, record: Record, rubric: Rubric, data: Data, *, sealed: bool) -> Sample:
    """The question to the judge about one record; without parts where there is no reply to judge."""
    name = sample.id if record.repeat == 0 else f"{sample.id}#{record.repeat}"
    meta: dict[str, Any] = {k: v for k, v in sample.meta.items() if isinstance(v, (str, int, float)) and k not in _OWN}
    meta["asked"] = sample.kind
    group = sample.group or sample.id
    if record.status != "ok" or record.response is None:
        meta[UNANSWERED] = record.error.kind if record.error is not None else record.status
        return Sample(name, Prompt(()), None, "open", group=group, meta=meta)
    values = places(rubric, sample, record.response.text, data.seed)
    text = fill(rubric.template, values)
    # A system text with the gold in it would be written to traces; rubrics put it into the template.
    system = fill(rubric.system, {**values, "gold": WITHHELD, "reply": "(below)"})
    part = Text(text)
    if sealed:
        part = Sealed(fill(rubric.template, {**values, "gold": WITHHELD}), opened=text, forms=gold_forms(sample))
    pictures = tuple(p for p in sample.prompt.parts if not isinstance(p, Text)) if data.options.get("images") else ()
    return Sample(name, Prompt((*pictures, part), system), None, "open", group=group, meta=meta)


_OWN = {"kind", "target", "gold", "answer", "aliases", "chance", UNANSWERED}


def summarize(scores: Scores, schema: Schema) -> list[Metric]:
    """The mean verdict, its parts, and how many replies have none.

    A reply that the judge gave no verdict on (unscored, or the judge itself failed) says nothing about the model: it is
    left out and lowers the coverage. A sample that the model gave no reply to is worth 0.
    """
    lost = scores.has("error") | scores.has("invalid") | scores.has("unscored")
    judged = dataclasses.replace(scores.select(~lost), expected=scores.expected)
    name = "accuracy" if schema.labels else "score"
    found = [metrics.accuracy(judged, name)]
    for column in ("asked", "level", "task", "category"):
        if column in judged.meta and 1 < len(judged.meta[column].names) <= MOST_PARTS:
            found += metrics.breakdown(judged, (column,), name)
    left_out = dataclasses.replace(
        scores, value=lost.astype(float), verdict=scores.verdict * 0, expected=max(scores.expected, len(scores))
    )
    return [*found, metrics.accuracy(left_out, "without_verdict")]


class Asking:
    """The judge's model: one more question where the verdict cannot be read, and everything kept.

    raw_judge_inputs/ and raw_judge_outputs/ get one JSON line an attempt (1: the question, 2: the re-ask). Of restricted
    benchmarks the gold is left out of both, and of the reply that goes into results.jsonl.
    """

    def __init__(self, model: Model, rubric: Rubric, folder: Path) -> None:
        self.name = model.name
        self._model = model
        self._rubric = rubric
        self._folder = folder
        self._inputs: Journal | None = None
        self._outputs: Journal | None = None

    def identity(self) -> Mapping[str, Any]:
        """The judge's own; the rubric is part of the benchmark."""
        return self._model.identity()

    async def preflight(self) -> None:
        await self._model.preflight()

    async def answer(self, prompt: Prompt) -> Response:
        """As `answer_for`, without a sample to file it under."""
        return await self.answer_for("", 0, prompt)

    async def answer_for(self, sample_id: str, repeat: int, prompt: Prompt) -> Response:
        """The judge's reply, the second one where the first holds no verdict; use of both is added up.

        Raises:
            ModelError: the judge gave no reply to the question or to the re-ask.
        """
        if not prompt.parts:
            return Response("")  # nothing to judge; the score says why
        forms = next((part.forms for part in prompt.parts if isinstance(part, Sealed)), ())
        response = await self._ask(sample_id, 1, prompt, forms)
        schema = self._rubric.verdict
        try:
            read_verdict(response.text, schema)
        except ValueError as error:
            again = await self._ask(sample_id, 2, self._reask(prompt, response.text, str(error)), forms)
            response = structs.replace(
                again, usage=_sum(response, again), latency_s=response.latency_s + again.latency_s
            )
        text = _sealed_reply(response.text, schema, forms) if forms else response.text
        return structs.replace(response, text=text, trace=None, reasoning="" if forms else response.reasoning)

    async def close(self) -> None:
        try:
            for journal in (self._inputs, self._outputs):
                if journal is not None:
                    journal.close()
        finally:
            self._inputs = self._outputs = None
            await self._model.close()

    async def _ask(self, sample_id: str, attempt: int, prompt: Prompt, forms: tuple[str, ...]) -> Response:
        inputs, outputs = self._raw()
        texts = [part.text for part in prompt.parts if isinstance(part, Text)]
        pictures = len(prompt.parts) - len(texts)
        line = {"sample_id": sample_id, "attempt": attempt}
        inputs.append({**line, "system": prompt.system, "text": redact("\n".join(texts)), "images": pictures})
        opened = tuple(Text(part.opened) if isinstance(part, Sealed) else part for part in prompt.parts)
        response = await self._model.answer(structs.replace(prompt, parts=opened))
        said = redact(strike(response.text, forms))
        outputs.append({**line, "text": said, "model": response.model, "finish_reason": response.finish_reason})
        return response

    def _reask(self, prompt: Prompt, reply: str, fault: str) -> Prompt:
        text = (
            "\n\nYou have answered this already, but your answer could not be used: "
            f"{fault}. It was:\n{shortened(reply, 4_000)}\n\n"
            f"Answer again with one JSON object and nothing else, no code fence: {self._rubric.shape}"
        )
        sealed = next((part for part in prompt.parts if isinstance(part, Sealed)), None)
        more: Text = Text(text)
        if sealed is not None:
            more = Sealed(strike(text, sealed.forms), opened=text, forms=sealed.forms)
        return structs.replace(prompt, parts=(*prompt.parts, more))

    def _raw(self) -> tuple[Journal, Journal]:
        if self._inputs is None or self._outputs is None:
            paths = [self._folder / kind / "00000.jsonl" for kind in ("raw_judge_inputs", "raw_judge_outputs")]
            for path in paths:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise storage_error(path, error) from error
            self._inputs, self._outputs = (Journal(path) for path in paths)
        return self._inputs, self._outputs


def _sealed_reply(reply: str, schema: Schema, forms: tuple[str, ...]) -> str:
    """The verdict alone, or a reply that holds none without the gold."""
    try:
        return msgspec.json.encode({schema.field: read_verdict(reply, schema).found}).decode()
    except ValueError:
        return strike(reply, forms)


def _sum(first: Response, second: Response) -> Any:
    a, b = first.usage, second.usage
    costs = [cost for cost in (a.cost, b.cost) if cost is not None]
    return structs.replace(
        b,
        input_tokens=a.input_tokens + b.input_tokens,
        output_tokens=a.output_tokens + b.output_tokens,
        reasoning_tokens=a.reasoning_tokens + b.reasoning_tokens,
        cached_tokens=a.cached_tokens + b.cached_tokens,
        cost=sum(costs) if costs else None,
    )
