"""Marks for the services' caches of prompts: where they stand, when, and that they change nothing that is recorded."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from servers.provider_schemas import BODIES
from snellen.errors import UsageError
from snellen.models.api import ApiModel
from snellen.models.api.request import Body
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, Prompt, Text, Turn

NAMES = {"anthropic": "anthropic:m", "bedrock": "bedrock:eu.anthropic.claude-x", "openai": "openai:m"}
EXAMPLES = (Turn("user", (Text("first"),)), Turn("assistant", (Text("one"),)))


@pytest.fixture(autouse=True)
def region(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k")


def picture(red: int) -> Image:
    out = BytesIO()
    Pillow.new("RGB", (4, 3), (red, 0, 0)).save(out, "PNG")
    return Image(BytesBlob(f"{red}.png", out.getvalue()))


def opened(kind: str, word: str = "auto") -> ApiModel:
    model = open_model(NAMES[kind], ModelOptions(prompt_cache=word, base_url="http://127.0.0.1:9"))
    assert isinstance(model, ApiModel)
    return model


def written(model: ApiModel, *prompts: Prompt) -> list[Body]:
    async def write() -> list[Body]:
        return [await model.writer.write(prompt) for prompt in prompts]

    return asyncio.run(write())


def without_marks(value: Any) -> Any:
    """Return a body as it would be without marks: blocks of text alone as strings, and system texts alike."""
    if isinstance(value, dict):
        return {name: without_marks(member) for name, member in value.items() if name != "cache_control"}
    if isinstance(value, list):
        parts = [without_marks(part) for part in value if not (isinstance(part, dict) and "cachePoint" in part)]
        if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].get("type") == "text":
            return parts[0]["text"]
        return parts
    return value


def marked_texts(kind: str, body: dict[str, Any]) -> list[str]:
    """Return what stands under, or before, each mark: a text, or `image`."""
    blocks = [body["system"]] if isinstance(body.get("system"), list) else []
    blocks += [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    marked = []
    for content in blocks:
        for block, following in zip(content, [*content[1:], {}], strict=True):
            if "cache_control" in block or "cachePoint" in following:
                marked.append(block.get("text") or "image")
    return marked


@pytest.mark.parametrize("kind", ["anthropic", "bedrock"])
@pytest.mark.parametrize(
    ("prompts", "marks"),
    [
        ([Prompt((Text(t),), system="Be brief.") for t in "abc"], [[], ["Be brief."], ["Be brief."]]),
        ([Prompt((Text(t),), system="Be brief.", history=EXAMPLES) for t in "ab"], [[], ["one"]]),
        ([Prompt((picture(1), Text(t))) for t in "aba"], [[], ["image"], ["image"]]),
        ([Prompt((picture(n), Text("a")), system="S") for n in (1, 2, 2)], [[], ["S"], ["S"]]),
        ([Prompt((Text("a"), picture(1))), Prompt((Text("a"), picture(1), Text("b")))], [[], []]),
        ([Prompt((picture(1), Text("a")))] * 3, [[], [], []]),
        ([Prompt((picture(n), Text("a"))) for n in (1, 2, 3)], [[], [], []]),
    ],
)
def test_the_end_of_what_several_questions_share_is_marked_from_the_second_on(kind, prompts, marks):
    model = opened(kind)
    bodies = written(model, *prompts)
    assert [marked_texts(kind, json.loads(body.sent)) for body in bodies] == marks
    plain = written(opened(kind, "off"), *prompts)
    assert [body.traced for body in bodies] == [body.traced for body in plain]
    for body, other in zip(bodies, plain, strict=True):
        assert without_marks(json.loads(body.sent)) == without_marks(json.loads(other.sent))


@pytest.mark.parametrize(
    ("kind", "word", "mark"),
    [
        ("anthropic", "auto", '"cache_control":{"type":"ephemeral"}'),
        ("anthropic", "1h", '"cache_control":{"type":"ephemeral","ttl":"1h"}'),
        ("bedrock", "auto", '{"cachePoint":{"type":"default"}}'),
        ("bedrock", "5m", '{"cachePoint":{"type":"default","ttl":"5m"}}'),
        ("openai", "auto", '"prompt_cache_key":"snellen"'),
        ("openai", "30m", '"prompt_cache_options":{"ttl":"30m"}'),
    ],
)
def test_each_service_has_its_own_mark_and_lifetimes(kind, word, mark):
    model, plain = opened(kind, word), opened(kind, "off")
    bodies = written(model, *(Prompt((Text(t),), system="S") for t in "ab"))
    assert mark in bodies[1].sent.decode() and mark not in bodies[1].traced.decode()
    if kind != "bedrock":
        msgspec.json.decode(bodies[1].sent, type=BODIES["messages" if kind == "anthropic" else "chat"])
    assert model.identity() == plain.identity()
    prompt = Prompt((Text("c"),), system="S")
    assert asyncio.run(model.request_identity(prompt)) == asyncio.run(plain.request_identity(prompt))


def test_the_marks_of_bedrock_are_blocks_of_its_service_model():
    loaders = pytest.importorskip("botocore.loaders")
    from botocore import model, validate

    service = model.ServiceModel(loaders.Loader().load_service_model("bedrock-runtime", "service-2"))
    body = json.loads(written(opened("bedrock", "1h"), *(Prompt((Text(t),), system="S") for t in "ab"))[1].sent)
    shape = service.operation_model("Converse").input_shape
    report = validate.ParamValidator().validate({"modelId": "m", **body}, shape)
    assert not report.has_errors() and body["system"][1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


texts = st.text(max_size=8).filter(lambda text: "\ud800" not in text)


@given(questions=st.lists(st.tuples(st.sampled_from(["", "S", '"},{']), st.booleans(), texts), min_size=1, max_size=6))
def test_marks_never_break_a_body(questions):
    prompts = [Prompt((Text(t),), system=s, history=EXAMPLES if h else ()) for s, h, t in questions]
    for kind in ("anthropic", "bedrock"):
        for body in written(opened(kind), *prompts):
            assert without_marks(json.loads(body.sent)) == without_marks(json.loads(body.traced))


@pytest.mark.parametrize(
    ("model", "word", "words"),
    [
        ("gemini:m", "auto", "Gemini has off"),
        ("api:m", "auto", "the server has off"),
        ("openai:m", "5m", "OpenAI has off, auto, 30m"),
        ("anthropic:m", "12h", "Anthropic has off, auto, 5m, 1h"),
        ("embedded", "auto", "--prompt-cache"),
        ("tools:m", "auto", "--prompt-cache"),
    ],
)
def test_a_service_without_that_cache_is_named(model, word, words):
    with pytest.raises(UsageError, match=words):
        open_model(model, ModelOptions(prompt_cache=word))
