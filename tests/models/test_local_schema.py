"""Schemas of local models: random weights write JSON by the schema, whatever the batch, the sampling and the limit."""

from __future__ import annotations

import json

import jsonschema
import pytest
import pytest_asyncio
from test_local_answers import Opened
from tiny_vlm import ask, picture, texts

from snellen.benchmarks.structured import automatic_schema
from snellen.errors import BadRequestError
from snellen.scoring.scorers import by_kind
from snellen.scoring.structured import reading_answers
from snellen.types import Generation, Prompt, Sample, Text

QUESTION = Prompt((picture(1), Text("Which bird is this?")))
OPTIONS = {"A": "robin", "B": "wren", "C": "tit"}
CLOSED = {
    "choice": Sample("1", QUESTION, "B", "choice", OPTIONS),
    "choice_text": Sample("2", QUESTION, "wren", "choice_text", OPTIONS),
    "truth": Sample("3", QUESTION, True, "truth", meta={"form": "yes/no"}),
}
NESTED = {
    "type": "object",
    "properties": {
        "seen": {"type": "array", "items": {"$ref": "#/$defs/bird"}, "minItems": 1, "maxItems": 2},
        "answer": {"type": "string", "maxLength": 5},
    },
    "required": ["seen", "answer"],
    "additionalProperties": False,
    "$defs": {
        "bird": {
            "type": "object",
            "properties": {"n": {"enum": [1, 22]}},
            "required": ["n"],
            "additionalProperties": False,
        }
    },
}


def asked(sample: Sample, **settings) -> Prompt:
    generation = Generation(reply_schema=automatic_schema(sample), **settings)
    return Prompt(sample.prompt.parts, generation=generation)


@pytest_asyncio.fixture
async def opened(folder):
    models = Opened(folder)
    yield models
    for model in models.models:
        await model.close()


@pytest.mark.parametrize("kind", CLOSED)
@pytest.mark.parametrize("temperature", [0.0, 1.5])
async def test_a_reply_is_valid_at_every_limit_that_allows_it_and_unread_at_others(opened, kind, temperature):
    model = await opened(batch_size=8)
    sample = CLOSED[kind]
    schema = automatic_schema(sample)
    longest = max(len(json.dumps({"answer": word})) for word in schema["properties"]["answer"]["enum"])
    limits = [*range(1, longest + 4)]
    replies = await ask(model, [asked(sample, max_tokens=limit, temperature=temperature) for limit in limits])
    for limit, reply in zip(limits, replies, strict=True):
        shown = Sample(sample.id, asked(sample), sample.target, sample.kind, sample.options, meta=sample.meta)
        score = reading_answers(by_kind)(shown, reply.text)
        if reply.finish_reason == "length":
            assert limit < longest and (score.verdict, score.extracted) == ("invalid", None)
        else:
            jsonschema.validate(json.loads(reply.text), schema)
            assert reply.finish_reason == "stop" and score.verdict in ("correct", "wrong")
        assert limit < longest or reply.finish_reason == "stop"


async def test_rows_of_a_batch_follow_their_schema_and_answer_as_they_would_alone(opened):
    samples = [Sample(str(n), Prompt((picture(n), Text("Which?" * n))), "A", "choice", OPTIONS) for n in range(1, 9)]
    prompts = [asked(sample, max_tokens=40, temperature=1.0) for sample in samples]
    nested = Prompt(QUESTION.parts, generation=Generation(reply_schema=NESTED, max_tokens=200, temperature=1.0))
    together = await opened(batch_size=16)
    alone = await opened(batch_size=1)
    batched = texts(await ask(together, [*prompts, nested, *[Prompt(p.parts) for p in prompts[:2]]]))
    assert batched[:8] == [(await alone.answer(prompt)).text for prompt in prompts]
    assert len({json.loads(text)["answer"] for text in batched[:8]}) > 1
    jsonschema.validate(json.loads(batched[8]), NESTED)
    assert not any(text.startswith('{"answer') for text in batched[9:])


async def test_a_schema_that_the_mask_lacks_fails_by_name(opened):
    model = await opened()
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(BadRequestError, match=r"--schema: .*uniqueItems"):
        await model.answer(Prompt(QUESTION.parts, generation=Generation(reply_schema=schema)))
    assert "schema" in model.supports
