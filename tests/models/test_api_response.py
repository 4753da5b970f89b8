"""What comes back: the answer of every dialect is read, and no reply can break the reader."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import BadReplyError, ModelError, RefusalError
from snellen.models.api.model import _trace
from snellen.models.api.prices import Price
from snellen.models.api.request import Body
from snellen.models.api.response import read_reply
from snellen.types import Response, Usage


def read(message: Any, finish: Any = "stop", price: Price | None = None, **top: Any) -> Response:
    reply = {"choices": [{"message": message, "finish_reason": finish}], **top}
    return read_reply(json.dumps(reply).encode(), 0.25, price)


def test_text_finish_reason_and_the_server_s_own_model_name_are_kept():
    response = read({"content": "B"}, "length", model="gpt-5-mini-2025-08-07")
    assert (response.text, response.finish_reason, response.model) == ("B", "length", "gpt-5-mini-2025-08-07")
    assert response.latency_s == 0.25


@pytest.mark.parametrize("message", [{"content": None}, {"content": ""}, {}, {"content": [], "tool_calls": []}])
def test_an_empty_answer_is_an_answer(message):
    assert read(message).text == ""


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "B", "reasoning_content": "It is small."}, "B", "It is small."),
        ({"content": "B", "reasoning": "It is small."}, "B", "It is small."),
        ({"content": "B", "reasoning": None, "reasoning_content": None}, "B", ""),
        ({"content": "B", "reasoning": {"effort": "low"}}, "B", ""),
        ({"content": [{"type": "text", "text": "ANSWER"}, {"type": "text", "text": ": B"}]}, "ANSWER: B", ""),
        ({"content": [{"type": "output_text", "text": "B"}, {"type": "image_url"}]}, "B", ""),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "B"}]},
            "B",
            "Hm.",
        ),
        ({"content": [{"type": "reasoning", "text": "Hm."}, "B"]}, "B", "Hm."),
        ({"content": "<think>Hm.</think>B"}, "<think>Hm.</think>B", ""),
    ],
)  # fmt: skip
def test_every_dialect_of_content_and_reasoning_is_read(message, text, reasoning):
    response = read(message)
    assert (response.text, response.reasoning) == (text, reasoning)


@pytest.mark.parametrize(
    ("message", "finish"),
    [
        ({"content": None, "refusal": "I can't help with that."}, "stop"),
        ({"content": "", "refusal": "No."}, "stop"),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "stop"),
        ({"content": None}, "content_filter"),
        ({"content": "The bird is"}, "content_filter"),
    ],
)
def test_a_refusal_is_an_outcome_of_its_own(message, finish):
    with pytest.raises(RefusalError) as caught:
        read(message, finish)
    assert caught.value.status == "refused"
    assert not caught.value.retry


def test_tokens_are_counted_as_the_server_counts_them():
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 150},
    }
    price = Price(input=2.0, output=8.0, cached_input=0.5)
    response = read({"content": "B"}, price=price, usage=usage)
    cost = (600 * 2.0 + 400 * 0.5 + 200 * 8.0) / 1e6
    assert response.usage == Usage(1000, 200, 150, pytest.approx(cost), 400)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "usage",
    [None, [], "many", {}, {"prompt_tokens": None}, {"prompt_tokens": -5}, {"prompt_tokens": "7 or so"}, {"prompt_tokens": True}],
)  # fmt: skip
def test_no_cost_is_made_up_where_the_server_counts_nothing(usage):
    assert read({"content": "B"}, price=Price(1.0, 1.0), usage=usage).usage == Usage()


def test_a_reply_cut_inside_an_emoji_is_read():
    data = rb'{"choices": [{"message": {"content": "A \ud83d"}, "finish_reason": "length"}]}'
    assert read_reply(data, 0.0).text == "A �"
    whole = rb'{"choices": [{"message": {"content": "A \ud83d\ude00 \uDE00"}}]}'
    assert read_reply(whole, 0.0).text == "A 😀 �"


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "type", "text", "thinking", "error", "code", "usage", "finish_reason"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_no_json_can_break_the_reader(reply):
    for data in (json.dumps(reply).encode(), json.dumps({"choices": [{"message": reply}], "error": reply}).encode()):
        try:
            assert isinstance(read_reply(data, 0.0).text, str)
        except ModelError as error:
            assert error.message.isprintable()


@given(st.binary(max_size=100))
def test_no_bytes_can_break_the_reader(data):
    with pytest.raises(ModelError):
        read_reply(data, 0.0)
    with pytest.raises(ModelError):
        read_reply(b'{"choices": [' + data, 0.0)


def test_a_bad_reply_says_where_it_is_wrong_and_how_it_begins():
    with pytest.raises(BadReplyError, match=r"\$\.choices.*It begins: \{\"choices\": 3\}"):
        read_reply(b'{"choices": 3}', 0.0)


@given(st.binary(max_size=60) | _JSON.map(lambda value: json.dumps(value, indent=2).encode()))
def test_a_trace_is_one_line_of_valid_json_whatever_was_replied(reply):
    try:
        msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return  # no response, so no trace
    line = msgspec.json.encode(_trace(Body(b"{}", b"{}"), reply))
    assert b"\n" not in line
    assert json.loads(line)["request"] == {}
