"""What comes back: the answer of every dialect is read, every failure is recorded under its kind, and no reply can break the reader."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from engine.stubs import ARITHMETIC
from servers.hostile import KIND
from servers.loopback import JsonHandler, LoopbackServer
from snellen.errors import BadReplyError, ModelError, ModelTimeoutError, RateLimitError, RefusalError
from snellen.models.api import ApiModel
from snellen.models.api.errors import excerpt, from_status
from snellen.models.api.model import _trace
from snellen.models.api.prices import Price
from snellen.models.api.request import Body
from snellen.models.api.response import read_reply
from snellen.models.api.stream import FirstText, assemble
from snellen.models.base import ModelOptions
from snellen.types import Prompt, Response, Text, Usage
from stopwatch import Stopwatch


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
    expected = Usage(1000, 200, 150, pytest.approx(cost), 400, cache_saved=pytest.approx(400 * 1.5 / 1e6))  # type: ignore[arg-type]
    assert response.usage == expected


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


SHORT_S = 1.5
"""A limit for requests that never end, and for no others: on a slow machine any answer may take longer."""
PATIENT_S = 600.0
QUESTION = Prompt((Text("What is shown?"),))


async def ask(url: str, timeout_s: float = PATIENT_S) -> Response:
    model = ApiModel("stub-vlm", ModelOptions(base_url=url, timeout_s=timeout_s))
    try:
        return await model.answer(QUESTION)
    finally:
        await model.close()


@pytest.mark.parametrize("behaviour", KIND)
async def test_each_misbehaviour_is_recorded_under_its_kind_and_never_outlasts_the_timeout(hostile, behaviour):
    watch = Stopwatch()
    try:
        response = await ask(hostile.url(behaviour), SHORT_S if KIND[behaviour] == "timeout" else PATIENT_S)
        kind = ""
        assert response.text in ("ANSWER: A", "")
    except ModelError as error:
        kind = error.kind
        assert error.message
        assert error.message.isprintable(), "control characters of a server must not reach a terminal"
        assert len(error.message) < 600
    assert kind == KIND[behaviour]
    assert watch.seconds < SHORT_S + 5.0
    assert hostile.seen[behaviour] == 1, "retries are the engine's"


@pytest.mark.parametrize(
    ("behaviour", "least", "most"), [("429_seconds", 7, 7), ("429_date", 25, 30), ("503_wait", 3, 3)]
)
async def test_the_time_that_a_server_asks_us_to_wait_is_handed_on(hostile, behaviour, least, most):
    with pytest.raises(ModelError) as caught:
        await ask(hostile.url(behaviour))
    assert caught.value.retry
    assert caught.value.retry_after_s is not None
    assert least <= caught.value.retry_after_s <= most


async def test_a_429_without_a_time_leaves_the_wait_to_the_engine(hostile):
    with pytest.raises(RateLimitError) as caught:
        await ask(hostile.url("429"))
    assert caught.value.retry_after_s is None


async def test_an_account_without_credit_is_not_asked_again(hostile):
    with pytest.raises(ModelError) as caught:
        await ask(hostile.url("no_credit"))
    assert not caught.value.retry
    assert "credit" in caught.value.hint


async def test_nobody_listening_is_a_connection_error():
    with pytest.raises(ModelError, match=r"Cannot connect to http://127\.0\.0\.1:9/v1") as caught:
        await ask("http://127.0.0.1:9/v1")
    assert caught.value.kind == "connection"


async def test_a_connection_that_is_not_made_in_time_is_told_from_a_slow_answer():
    """A host that is gone drops packets: it took no request, and an attempt is not used up."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as clients:
        for _ in range(3):  # more than the queue of connections holds: the next ones hear nothing
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        with pytest.raises(ModelTimeoutError, match="No connection to") as caught:
            await ask(f"http://127.0.0.1:{server.getsockname()[1]}/v1", 1.0)
    assert caught.value.unavailable


async def test_a_name_that_does_not_exist_is_a_connection_error():
    with pytest.raises(ModelError) as caught:
        await ask("http://no-such-host.invalid/v1", timeout_s=10)
    assert caught.value.kind in ("connection", "timeout")


async def test_one_broken_exchange_does_not_spoil_the_next_ones(hostile):
    model = ApiModel("stub-vlm", ModelOptions(base_url=hostile.url("by-question"), timeout_s=PATIENT_S))
    try:
        for behaviour in ("reset", "half_body", "closed", "huge", "bomb", "not_http"):
            with pytest.raises(ModelError) as caught:
                await model.answer(Prompt((Text(f"[[{behaviour}]]"),)))
            assert caught.value.kind == KIND[behaviour]
            assert (await model.answer(Prompt((Text("[[ok]]"),)))).text == "ANSWER: A"
    finally:
        await model.close()


async def test_a_request_that_hangs_does_not_spoil_the_next_ones(hostile):
    model = ApiModel("stub-vlm", ModelOptions(base_url=hostile.url("by-question"), timeout_s=SHORT_S))
    try:
        with pytest.raises(ModelTimeoutError):
            await model.answer(Prompt((Text("[[hang]]"),)))
        for _ in range(300):  # on a slow machine a good answer may take longer than the limit too
            with contextlib.suppress(ModelTimeoutError):
                assert (await model.answer(Prompt((Text("[[ok]]"),)))).text == "ANSWER: A"
                break
        else:
            pytest.fail("no request after it was answered")
    finally:
        await model.close()


@given(st.integers(100, 999), st.binary(max_size=200))
def test_any_status_with_any_body_becomes_a_model_error(status, body):
    error = from_status(status, {}, body)
    assert isinstance(error, ModelError)
    assert error.message.isprintable()


@given(st.text())
def test_an_excerpt_is_one_printable_line_without_tags(text):
    said = excerpt(f"<script>{text}</script>".encode("utf-8", "surrogatepass"))
    assert "\n" not in said
    assert "\x1b" not in said
    assert "<script>" not in said


KEY = "sk-trace-4f9c2d7b8a1e6035"
REPLIES = {
    "JSON": (400, b'{"error": {"message": "the field max_tokens is unknown"}}'),
    "page of a proxy": (500, b"<html><body>Bad gateway</body></html>"),
    "lines": (404, b"no such\nmodel\r\n"),
    "no UTF-8": (422, b"\xff\xfe no"),
    "nothing": (400, b""),
    "key": (400, b'{"error": {"message": "the key %s is too long"}}' % KEY.encode()),
    "no answer": (200, b'{"id": "x", "choices": 7}'),
    "no JSON": (200, b"overloaded"),
}


@pytest.mark.parametrize("kind", REPLIES)
def test_the_exchange_of_a_failed_sample_is_recorded_as_json(tmp_path, monkeypatch, kind):
    status, reply = REPLIES[kind]
    sent: list[bytes] = []

    class Handler(JsonHandler):
        def do_GET(self):
            self.send(200, {"data": []})

        def do_POST(self):
            sent.append(self.read())
            self.send(status, reply)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with LoopbackServer(Handler, seconds=60) as server:
        run = snellen.evaluate(
            ARITHMETIC, "api:stub", out=tmp_path / "run", limit=2, base_url=server.url, max_attempts=1, patience_s=1
        )
    assert run.meta.totals.recorded == 2 and not run.meta.totals.ok
    lines = [json.loads(line) for path in run.folder.traces.glob("*.jsonl") for line in path.open(encoding="utf-8")]
    assert {line["sample_id"] for line in lines} == {"q0", "q1"}
    for line in lines:
        assert line["trace"]["request"] in [json.loads(body) for body in sent]
    texts = json.dumps([line["trace"]["reply"] for line in lines], ensure_ascii=False)
    word = {"JSON": "max_tokens is unknown", "page of a proxy": "Bad gateway", "lines": "no such", "no UTF-8": " no",
            "nothing": '""', "key": "is too long", "no answer": "choices", "no JSON": "overloaded"}[kind]  # fmt: skip
    assert word in texts and KEY not in texts


def chat(index: int | None, text: str, finish: str | None = None) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {**place, "delta": {"content": text}, "finish_reason": finish}


def candidate(index: int | None, text: str, finish: str | None = None) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {**place, "content": {"parts": [{"text": text}]}, **({"finishReason": finish} if finish else {})}


def streamed(protocol: str, *events: list[tuple[int | None, str, str | None]]) -> bytes:
    """Return a stream with one event for each list of (index, text, reason of the end)."""
    member, piece = ("choices", chat) if protocol == "chat" else ("candidates", candidate)
    rows = [{member: [piece(*each) for each in event]} for event in events]
    return b"".join(b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows)


def text_of(protocol: str, reply: bytes) -> str:
    decoded = json.loads(reply)
    if protocol == "chat":
        return str(decoded["choices"][0]["message"]["content"])
    return "".join(part["text"] for part in decoded["candidates"][0]["content"]["parts"])


@pytest.mark.parametrize("protocol", ["chat", "gemini"])
@pytest.mark.parametrize("first", [0, 1, None])
def test_pieces_of_other_choices_are_no_part_of_the_answer(protocol, first):
    """Servers send the choices of an event together, or in events of their own; some count from 1 or not at all."""
    other = 7
    apart = streamed(protocol, [(first, "ANS", None)], [(other, "no", None)], [(first, "WER", None)],
                     [(other, "pe", "stop")], [(first, " A", "stop")])  # fmt: skip
    together = streamed(
        protocol,
        [(first, "ANS", None), (other, "no", None)],
        [(other, "pe", "stop"), (first, "WER", None)],
        [(first, " A", "stop")],
    )
    for data in (apart, together):
        assert text_of(protocol, assemble(protocol, data)) == "ANSWER A"


@pytest.mark.parametrize("protocol", ["chat", "gemini"])
def test_the_end_of_another_choice_is_not_the_end_of_the_answer(protocol):
    from snellen.errors import NetworkError

    with pytest.raises(NetworkError, match="before the reply was whole"):
        assemble(protocol, streamed(protocol, [(0, "ANS", None)], [(1, "nope", "stop")]))


@pytest.mark.parametrize("protocol", ["chat", "gemini"])
def test_the_first_text_is_that_of_the_first_choice(protocol):
    first = FirstText(protocol)
    assert not first.add(streamed(protocol, [(0, "", None)]))
    assert not first.add(streamed(protocol, [(1, "nope", None)]))
    assert first.add(streamed(protocol, [(0, "ANS", None)]))
