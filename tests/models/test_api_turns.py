"""Requests with earlier turns, and probabilities of tokens in replies, at an OpenAI-compatible endpoint."""

import asyncio
import json
from io import BytesIO

import msgspec
import pytest
from PIL import Image as Picture

from snellen.models.api.model import _trace
from snellen.models.api.request import Body, BodyWriter
from snellen.models.api.response import read_reply
from snellen.models.base import ModelOptions
from snellen.sources.blobs import BytesBlob
from snellen.types import Generation, Image, Prompt, Text, TokenLogprob, Turn


def written(prompt: Prompt, options: ModelOptions = ModelOptions()) -> dict:
    """Return the request's body, whose traced form has the same members."""
    body = asyncio.run(BodyWriter("m", options).write(prompt))
    sent = json.loads(body.sent)
    assert json.loads(body.traced).keys() == sent.keys()
    return sent


def picture() -> Image:
    data = BytesIO()
    Picture.new("RGB", (2, 2)).save(data, "PNG")
    return Image(BytesBlob("p", data.getvalue()))


def token(text: str, logprob: object, **others: object) -> dict:
    alternatives = [{"token": name, "logprob": value, "bytes": None} for name, value in others.items()]
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": alternatives}


def reply(content: object, text: str = "B", **message: object) -> bytes:
    choice = {"message": {"content": text, **message}, "finish_reason": "stop", "logprobs": {"content": content}}
    return json.dumps({"choices": [choice]}).encode()


def test_earlier_turns_stand_between_the_system_text_and_the_question():
    history = (Turn("user", (picture(), Text("first?"))), Turn("assistant", (Text("A"),)))
    messages = written(Prompt((Text("second?"),), "Be brief.", history=history))["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"] == "Be brief."
    assert [part["type"] for part in messages[1]["content"]] == ["image_url", "text"]
    assert [message["content"] for message in messages[2:]] == ["A", "second?"]


def test_a_question_of_several_parts_behind_earlier_turns_is_a_list_of_parts():
    history = (Turn("user", (Text("first?"),)), Turn("assistant", (Text("A"),)))
    sent = written(Prompt((picture(), Text("second?")), history=history), ModelOptions(Generation(max_tokens=7)))
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][0]["content"] == "first?"
    assert [part["type"] for part in sent["messages"][2]["content"]] == ["image_url", "text"]
    assert sent["max_tokens"] == 7


def test_probabilities_are_requested_only_where_they_are_set():
    assert written(Prompt((Text("q"),)))["messages"] == [{"role": "user", "content": "q"}]
    assert "logprobs" not in written(Prompt((Text("q"),)))
    sent = written(Prompt((Text("q"),)), ModelOptions(Generation(logprobs=5)))
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 5)


def test_probabilities_of_a_reply_are_read_likeliest_first():
    response = read_reply(reply([token("B", -0.1, A=-3.0, B=-0.1)]), 0.0)
    assert response.logprobs == (TokenLogprob("B", -0.1, (("B", -0.1), ("A", -3.0))),)
    record = msgspec.json.encode(response)
    assert b'"logprobs":[["B",-0.1,[["B",-0.1],["A",-3.0]]]]' in record
    assert b"logprobs" not in msgspec.json.encode(read_reply(reply(None), 0.0))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), "-0.1", None, True, 2.0, [1]])
def test_a_value_that_is_no_probability_is_missing(value):
    response = read_reply(reply([token("B", value, A=value, B=-0.5)]), 0.0)
    assert response.logprobs == (TokenLogprob("B", None, (("B", -0.5),)),)
    assert read_reply(reply([token("B", value, A=value)]), 0.0).logprobs is None


def test_a_trace_of_a_reply_with_nan_is_valid_json():
    data = reply([token("B", float("nan"), A=-1.0)])
    trace = _trace(Body((b"{}",), b"{}"), data)
    trace_reply = msgspec.json.decode(msgspec.json.encode(trace))["reply"]
    assert trace_reply["choices"][0]["logprobs"]["content"][0]["logprob"] is None


@pytest.mark.parametrize("content", ["x", {}, [], [3, None], [{"logprob": -1}], [{"token": "Q", "logprob": -1}], 0])
def test_probabilities_in_another_form_or_of_another_text_are_missing(content):
    assert read_reply(reply(content), 0.0).logprobs is None


def test_probabilities_begin_behind_the_thinking():
    tokens = [token("A?", -0.2), token(" no", -0.3), token("</think>", -0.1), token("\n", -0.1), token("B", -0.4)]
    apart = read_reply(reply(tokens, "B", reasoning_content="A? no"), 0.0)
    inside = read_reply(reply(tokens, "A? no</think>\nB"), 0.0)
    assert apart.logprobs == inside.logprobs == (TokenLogprob("B", -0.4),)


def test_a_record_holds_the_first_tokens_of_a_long_answer():
    tokens = [token(f"{number} ", -0.1, **{str(n): -n for n in range(40)}) for number in range(100)]
    logprobs = read_reply(reply(tokens, "".join(token["token"] for token in tokens)), 0.0).logprobs
    assert (len(logprobs), len(logprobs[0].alternatives), logprobs[0].text) == (32, 20, "0 ")
