"""Streamed replies of the four protocols: whole, cut off, with an error, and of any bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.test_provider_replies import PROTOCOLS, ask, keys  # noqa: F401 - a fixture
from servers.provider_server import Reply, answer, failure
from snellen.errors import ModelError, NetworkError, RateLimitError, ServerError
from snellen.models.api.stream import FirstText, assemble, events


def stream(protocol: str, *, end: bool = True, error: bool = False) -> bytes:
    """Return a stream that says `ANSWER: A` in two pieces, after a thought where the protocol has one."""
    parts: list[dict[str, Any]]
    if protocol == "chat":
        parts = [{"id": "c", "model": "m-1", "choices": [{"delta": {"role": "assistant", "content": ""}}]}]
        parts += [{"id": "c", "choices": [{"delta": {"content": text}}]} for text in ("ANSWER", ": A")]
        parts.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        parts.append({"choices": [], "usage": answer("chat")["usage"]})
    elif protocol == "responses":
        parts = [{"type": "response.output_text.delta", "delta": text} for text in ("ANSWER", ": A")]
        parts.append({"type": "response.completed", "response": answer("responses")})
    elif protocol == "messages":
        message = {
            **answer("messages"),
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 100, "output_tokens": 1},
        }
        parts = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "ANSWER"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": ": A"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ]
    else:
        usual = answer("gemini")
        parts = [{"candidates": [{"content": {"parts": [{"text": text}]}}]} for text in ("ANSWER", ": A")]
        parts.append({**usual, "candidates": [{"finishReason": "STOP"}]})
    if not end or error:
        parts = parts[:-2] if protocol == "chat" else parts[:-1]
    if error:
        parts.append(failure(protocol, 529 if protocol == "messages" else 503, "too busy now"))
        if protocol in ("chat", "responses"):
            parts[-1]["error"]["code"] = 503
    lines = b": hello\n\n" + b"".join(b"data: " + json.dumps(part).encode() + b"\r\n\r\n" for part in parts)
    return lines + (b"data: [DONE]\n\n" if protocol == "chat" and end and not error else b"")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_streamed_reply_is_read_like_a_whole_one_with_the_time_to_its_first_token(protocol):
    response = ask(protocol, Reply(raw=stream(protocol)), stream=True)
    assert (response.text, response.finish_reason) == ("ANSWER: A", "stop")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (100, 7)
    assert 0.0 < response.first_token_s <= response.latency_s
    assert response.reasoning == ("Hm." if protocol == "messages" else "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_does_not_stream_is_read_all_the_same(protocol):
    assert ask(protocol, Reply(answer(protocol)), stream=True).text == "ANSWER: A"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_in_a_stream_has_its_kind(protocol):
    with pytest.raises((RateLimitError, ServerError), match="too busy now"):
        ask(protocol, Reply(raw=stream(protocol, error=True)), stream=True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_ends_early_is_no_answer(protocol):
    with pytest.raises(NetworkError, match="before the reply was whole"):
        ask(protocol, Reply(raw=stream(protocol, end=False)), stream=True)
    with pytest.raises(NetworkError):
        ask(protocol, Reply(raw=stream(protocol), cut=True), stream=True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.binary(max_size=80))
def test_no_bytes_can_break_the_reader_of_streams(protocol, data):
    for whole in (data, b"data: " + data + b"\n\n", b'data: {"type":' + data + b"}\n\n"):
        try:
            assert isinstance(assemble(protocol, whole), bytes)
        except ModelError as error:
            assert error.message.isprintable()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_events_are_the_same_however_lines_end(sizes):
    objects = [{"n": "x" * size} for size in sizes]
    for end in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        assert list(events(b"".join(b"data:" + json.dumps(each).encode() + end for each in objects))) == objects


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_cut_at_any_byte_is_whole_or_a_lost_connection(protocol):
    data = stream(protocol).replace(b"ANSWER", "ÄNSWER".encode())
    whole = assemble(protocol, data)
    for end in range(1, len(data)):
        try:
            reply = json.loads(assemble(protocol, data[:end]))
        except NetworkError:
            continue
        assert "NSWER" in json.dumps(reply) and set(reply) <= set(json.loads(whole))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_first_text_comes_at_the_same_event_however_chunks_fall(protocol):
    data = stream(protocol).replace(b"ANSWER", "ÄNSWER".encode())
    expected = next(end for end in range(1, len(data) + 1) if FirstText(protocol).add(data[:end]))
    for size in (1, 2, 7, 64):
        first = FirstText(protocol)
        ends = range(size, len(data) + size, size)
        seen = next(end for end in ends if first.add(data[end - size : end]))
        assert expected <= seen < expected + size + 2


def test_a_stream_of_many_small_events_is_read_in_time_that_grows_with_its_length():
    """Fails by its time limit where each piece is joined to all before it, or every chunk reads the stream again."""
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 50}}
    data = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in [piece] * 20_000)
    data += b'data: {"type": "message_stop"}\n\n'
    text = read_text(assemble("messages", data))
    assert len(text) == 50 * 20_000
    first = FirstText("messages")
    assert not any(first.add(b":") for _ in range(100_000))


def read_text(reply: bytes) -> str:
    return "".join(block["text"] for block in json.loads(reply)["content"])
