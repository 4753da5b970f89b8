"""Replies of the native clients, whole and streamed: one word for how each ended, tokens counted alike, thinking and refusals apart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from servers.provider_server import KEY, ProviderServer, Reply, answer, failure
from snellen.errors import (
    AuthError,
    BadReplyError,
    BadRequestError,
    KeyRefusedError,
    ModelError,
    NetworkError,
    NoCreditError,
    PreflightError,
    RateLimitError,
    RefusalError,
    ServerError,
    TooManyFailuresError,
)
from snellen.models.api import ApiModel
from snellen.models.api.protocol import open_protocol
from snellen.models.api.stream import FirstText, assemble, events
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.types import Prompt, Response, Text, Usage

PROTOCOLS = ("chat", "responses", "messages", "gemini")
KINDS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gemini"}
REQUEST_IDS = {"chat": "x-request-id", "responses": "x-request-id", "messages": "request-id"}


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.delenv("SNELLEN_SERVICES", raising=False)


def name_of(protocol: str) -> str:
    return "gemini:gemini-test" if protocol == "gemini" else f"{KINDS[protocol]}:m-1"


def read(protocol: str, body: Any) -> Response:
    options = ModelOptions(responses=protocol == "responses")
    return open_protocol(KINDS[protocol], "m", options).read_reply(json.dumps(body).encode(), 0.5)


def ask(protocol: str, *script: Reply, **options: Any) -> Response:
    with ProviderServer(protocol, script) as server:

        async def run() -> Response:
            settings = ModelOptions(base_url=server.url, responses=protocol == "responses", timeout_s=20.0, **options)
            model = open_model(name_of(protocol), settings)
            assert isinstance(model, ApiModel)
            try:
                return await model.answer(Prompt((Text("q"),)))
            finally:
                await model.close()

        try:
            return asyncio.run(run())
        finally:
            assert server.faults == []


def ended(protocol: str, reason: str) -> dict[str, Any]:
    """Return a usual reply that ends for another reason."""
    body = answer(protocol)
    if protocol == "chat":
        body["choices"][0]["finish_reason"] = reason
    elif protocol == "responses":
        body |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    elif protocol == "messages":
        body["stop_reason"] = reason
    else:
        body["candidates"][0]["finishReason"] = reason
    return body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_ends_with_stop_at_all_providers(protocol):
    response = read(protocol, answer(protocol))
    assert (response.text, response.finish_reason, response.model) == ("ANSWER: A", "stop", "m-1")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (100, 7)


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        ("chat", "length"),
        ("responses", "max_output_tokens"),
        ("messages", "max_tokens"),
        ("messages", "model_context_window_exceeded"),
        ("gemini", "MAX_TOKENS"),
    ],
)
def test_a_cut_off_answer_and_a_full_context_end_with_length(protocol, reason):
    response = read(protocol, ended(protocol, reason))
    assert (response.text, response.finish_reason) == ("ANSWER: A", "length")


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        ("chat", "content_filter"),
        ("responses", "content_filter"),
        ("messages", "refusal"),
        *(("gemini", reason) for reason in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")),
        ("gemini", "IMAGE_SAFETY"),
    ],
)
def test_a_refusal_keeps_tokens_and_request_id_but_no_text(protocol, reason):
    with pytest.raises(RefusalError) as caught:
        read(protocol, ended(protocol, reason))
    response = caught.value.response
    assert (response.text, response.finish_reason, response.usage.output_tokens) == ("", "refused", 7)
    assert response.request_id
    assert "ANSWER: A" in caught.value.message


def test_a_refusal_in_the_model_s_own_words_is_one_too():
    body = answer("chat", "")
    body["choices"][0]["message"]["refusal"] = "I cannot help."
    other = answer("responses", "")
    other["output"][0]["content"] = [{"type": "refusal", "refusal": "I cannot help."}]
    for protocol, reply in (("chat", body), ("responses", other)):
        with pytest.raises(RefusalError, match="I cannot help"):
            read(protocol, reply)


def test_a_prompt_that_gemini_blocks_is_a_refusal_with_its_tokens():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}, "responseId": "r"}
    with pytest.raises(RefusalError, match=r"blocked the prompt \(SAFETY\)") as caught:
        read("gemini", blocked)
    assert caught.value.response is not None and caught.value.response.usage.input_tokens == 9


def test_thinking_is_kept_apart_from_the_answer():
    chat = answer("chat")
    chat["choices"][0]["message"]["reasoning_content"] = "Hm."
    responses = answer("responses")
    responses["output"].insert(0, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]})
    messages = answer("messages")
    messages["content"] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        *messages["content"],
    ]
    gemini = answer("gemini")
    gemini["candidates"][0]["content"]["parts"].insert(0, {"text": "Hm.", "thought": True})
    for protocol, body in (("chat", chat), ("responses", responses), ("messages", messages), ("gemini", gemini)):
        response = read(protocol, body)
        assert (response.text, response.reasoning) == ("ANSWER: A", "Hm."), protocol


@pytest.mark.parametrize(
    ("protocol", "usage"),
    [
        ("chat", {"prompt_tokens": 100, "completion_tokens": 50,
                  "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20, "image_tokens": 40},
                  "completion_tokens_details": {"reasoning_tokens": 45}}),
        ("responses", {"input_tokens": 100, "output_tokens": 50,
                       "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20, "image_tokens": 40},
                       "output_tokens_details": {"reasoning_tokens": 45}}),
        ("messages", {"input_tokens": 50, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 20,
                      "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
                      "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 45}}),
        ("gemini", {"promptTokenCount": 100, "cachedContentTokenCount": 30, "candidatesTokenCount": 5,
                    "thoughtsTokenCount": 45,
                    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 60}, {"modality": "IMAGE", "tokenCount": 40}]}),
    ],
)  # fmt: skip
def test_input_contains_cached_tokens_and_output_contains_thinking(protocol, usage):
    counted = read(protocol, answer(protocol, **usage)).usage
    written = 0 if protocol == "gemini" else 20
    images = 0 if protocol == "messages" else 40
    hour = 15 if protocol == "messages" else 0
    assert counted == Usage(100, 50, 45, None, 30, written, images, cache_write_1h_tokens=hour)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_provider_s_request_id_is_kept(protocol):
    header = REQUEST_IDS.get(protocol)
    response = ask(protocol, Reply(answer(protocol), headers={header: "req_42"} if header else {}))
    assert response.request_id == ("req_42" if header else "resp-1")


ERRORS: list[tuple[int, type[ModelError]]] = [
    (400, BadRequestError),
    (401, KeyRefusedError),
    (402, NoCreditError),
    (403, AuthError),
    (404, BadRequestError),
    (413, BadRequestError),
    (429, RateLimitError),
    (500, ServerError),
    (503, ServerError),
    (504, ServerError),
    (529, RateLimitError),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("status", "kind"), ERRORS)
def test_an_error_has_its_kind_and_the_provider_s_own_words(protocol, status, kind):
    with pytest.raises(kind, match=f"HTTP {status}: the words of the provider"):
        ask(protocol, Reply(failure(protocol, status, "the words of the provider"), status))


@pytest.mark.parametrize(
    ("protocol", "headers", "body", "wait_s"),
    [
        ("chat", {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}, None, 90.0),
        ("chat", {"retry-after-ms": "250"}, None, 0.25),
        ("messages", {"retry-after": "17"}, None, 17.0),
        ("messages", {"anthropic-ratelimit-input-tokens-remaining": "0",
                      "anthropic-ratelimit-input-tokens-reset": "2026-11-22T09:01:05Z",
                      "Date": "Sun, 22 Nov 2026 09:00:00 GMT"}, None, 65.0),
        ("gemini", {}, {"error": {"code": 429, "message": "You exceeded your current quota, check billing",
                                  "status": "RESOURCE_EXHAUSTED",
                                  "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo",
                                               "retryDelay": "17s"}]}}, 17.0),
    ],
)  # fmt: skip
def test_the_wait_is_read_from_each_provider_s_headers_or_body(protocol, headers, body, wait_s):
    with pytest.raises(RateLimitError) as caught:
        ask(protocol, Reply(body or failure(protocol, 429, "slow down"), 429, headers))
    assert caught.value.retry_after_s == wait_s


def test_a_wrong_key_of_gemini_is_an_error_of_the_key():
    body = failure("gemini", 400, "API key not valid. Please pass a valid API key.")
    body["error"]["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    with pytest.raises(KeyRefusedError, match="API key not valid") as caught:
        ask("gemini", Reply(body, 400))
    assert "GEMINI_API_KEY" in caught.value.hint


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_redirect_is_an_error_and_the_key_goes_nowhere_else(protocol):
    with ProviderServer(protocol) as elsewhere:
        with pytest.raises(BadRequestError, match="redirects"):
            ask(protocol, Reply({}, 307, {"Location": f"{elsewhere.url}/elsewhere"}))
        assert elsewhere.bodies == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["content", "type", "text", "thinking", "error", "usage", "candidates", "parts", "output", "status",
                         "promptFeedback", "finishReason", "stop_reason", "logprobsResult", "summary"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(reply=_JSON)
def test_no_json_can_break_the_reader_of_a_provider(protocol, reply):
    for body in (reply, {"content": reply, "output": reply, "candidates": reply}, {"candidates": [{"content": reply}]}):
        try:
            assert isinstance(read(protocol, body).text, str)
        except ModelError as error:
            assert error.message.isprintable()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_of_another_protocol_is_a_bad_reply(protocol):
    for other in PROTOCOLS:
        if other != protocol:
            with pytest.raises(BadReplyError):
                read(protocol, answer(other))


def run(protocol: str, server: ProviderServer, out: Path, **options: Any) -> Any:
    settings = {"base_url": server.url, "responses": protocol == "responses", "concurrency": 4, "patience_s": 5.0}
    return snellen.evaluate("chart", name_of(protocol), out=out, **{**settings, "limit": 12, **options})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_refusals_and_cut_off_replies_are_answers_within_n(protocol, tmp_path):
    refused = {"chat": "content_filter", "responses": "content_filter", "messages": "refusal", "gemini": "SAFETY"}
    cut = {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens", "gemini": "MAX_TOKENS"}

    def script(number, body):
        return Reply(ended(protocol, (refused if number % 2 else cut)[protocol]))

    with ProviderServer(protocol, script) as server:
        evaluation = run(protocol, server, tmp_path / "run")
        assert server.faults == []
    records = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert sorted(record["status"] for record in records) == ["ok"] * 6 + ["refused"] * 6
    for record in records:
        response = record["response"]
        assert response["finish_reason"] == ("refused" if record["status"] == "refused" else "length")
        assert response["usage"] == {"input_tokens": 100, "output_tokens": 7}
        assert response["request_id"]
    assert (evaluation.meta.totals.refused, evaluation.meta.totals.error) == (6, 0)
    text = "".join(path.read_text(errors="replace") for path in (tmp_path / "run").rglob("*.json*"))
    assert KEY not in text


@pytest.mark.parametrize("protocol", ["chat", "messages", "gemini"])
def test_a_key_that_is_refused_during_the_run_ends_it_in_the_provider_s_words(protocol, tmp_path):
    script = [Reply(answer(protocol)), Reply(failure(protocol, 401, "this key was revoked"), 401)]
    with ProviderServer(protocol, script) as server:
        with pytest.raises(TooManyFailuresError, match="this key was revoked"):
            run(protocol, server, tmp_path / "run", limit=60)
        assert len(server.bodies) < 20


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_that_is_refused_with_400_is_sent_at_most_twice(protocol, tmp_path):
    with ProviderServer(protocol, [Reply(failure(protocol, 400, "no such field"), 400)]) as server:
        run(protocol, server, tmp_path / "run", limit=3)
        assert 3 <= len(server.bodies) <= 6


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_overloaded_provider_is_asked_again_until_each_sample_is_answered_once(protocol, tmp_path):
    def script(number, body):
        status = {1: 429, 3: 503, 5: 529}.get(number)
        if status is None:
            return Reply(answer(protocol))
        return Reply(failure(protocol, status, "busy"), status, {"retry-after-ms": "20"})

    with ProviderServer(protocol, script) as server:
        evaluation = run(protocol, server, tmp_path / "run")
        assert server.faults == []
    assert evaluation.meta.totals.ok == 12


def test_a_model_that_anthropic_does_not_have_is_refused_and_a_gateway_without_a_list_is_accepted():
    body = json.dumps(failure("messages", 404, "model: m-1")).encode()
    for listing, words in ((Reply(raw=body, status=404), "Anthropic has no model 'm-1'"), (Reply({}, 404), "")):
        with ProviderServer("messages", listing=listing) as server:
            model = open_model("anthropic:m-1", ModelOptions(base_url=server.url))
            if words:
                with pytest.raises(PreflightError, match=words):
                    asyncio.run(model.preflight())
            else:
                asyncio.run(model.preflight())
            assert server.listed == ["/v1/models/m-1"] and server.bodies == []


ODD_ANSWERS: dict[str, list[tuple[dict[str, Any], str, str]]] = {
    "messages": [
        ({"content": []}, "", "stop"),
        (
            {"content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}], "stop_reason": "tool_use"},
            "",
            "stop",
        ),
        ({"content": [{"type": "text", "text": "a"}] * 5000}, "a" * 5000, "stop"),
        ({"content": [None, 3, "x", {"type": "text"}, {"type": "text", "text": "A"}], "usage": None}, "A", "stop"),
        ({"stop_reason": "a_new_reason" + "!" * 900}, "ANSWER: A", "a_new_reason" + "!" * 52),
        ({"stop_reason": None}, "ANSWER: A", ""),
    ],
    "gemini": [
        ({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}, "", "stop"),
        ({"candidates": [{"content": {}, "finishReason": "MAX_TOKENS"}], "usageMetadata": None}, "", "length"),
        (
            {"candidates": [{"content": {"parts": [{"functionCall": {}}, {"text": "A"}]}, "finishReason": "NEW"}]},
            "A",
            "stop",
        ),
    ],
    "responses": [
        ({"output": []}, "", "stop"),
        ({"output": [{"type": "function_call"}, {"type": "message", "content": None}], "usage": "none"}, "", "stop"),
        ({"output": [None, {"type": "message", "content": [{"type": "output_text", "text": "A"}]}]}, "A", "stop"),
    ],
}


@pytest.mark.parametrize(
    ("protocol", "changes", "text", "finish"),
    [(protocol, *case) for protocol, cases in ODD_ANSWERS.items() for case in cases],
)
def test_odd_answers_are_answers(protocol, changes, text, finish):
    response = read(protocol, {**answer(protocol), **changes})
    assert response.text == text
    assert response.finish_reason.rstrip("….") == finish.rstrip("….") or finish.startswith(response.finish_reason[:40])


@pytest.mark.parametrize("number", ["7", 7.0, 7])
def test_counts_written_as_text_or_decimals_are_counts(number):
    usage = {"input_tokens": number, "output_tokens": number}
    response = read("messages", {**answer("messages"), "usage": usage})
    assert (response.usage.input_tokens, response.usage.output_tokens) == (7, 7)
    for wrong in ("-7", "7.5", 7.5, -7, True, "9" * 40, None, [7], "٧"):
        usage = {"input_tokens": wrong, "output_tokens": wrong}
        response = read("messages", {**answer("messages"), "usage": usage})
        assert (response.usage.input_tokens, response.usage.output_tokens) == (0, 0)


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
