"""Streamed replies: server-sent events of each protocol, put together to the reply that the service would send at once.

Source: the WHATWG standard "Server-sent events" for lines and events; the stream types of the SDKs openai 3.54.0,
anthropic 2.12.0 and google-genai 3.4.0 for what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from snellen.errors import BadReplyError, ModelError, NetworkError
from snellen.models.api.errors import excerpt
from snellen.models.api.response import missing_answer
from snellen.redaction import redact_bytes

SEARCHED_UP_TO = 2**18
"""Bytes of a stream without any text after which the time of the first one is given up."""


def events(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream's whole events; the end mark `[DONE]` as {"done": True}.

    Comments, and events without data, are passed over, as gateways send them to keep a connection open. What follows
    the last empty line is no event yet.

    Raises:
        BadReplyError: the data of an event is no JSON object.
    """
    lines: list[bytes] = []
    text = _with_newlines(data)
    for line in text[: text.rfind(b"\n\n") + 2].split(b"\n"):
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif not line and lines:
            yield _event(b"\n".join(lines))
            lines = []


def _with_newlines(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _event(data: bytes) -> dict[str, Any]:
    if data.strip() == b"[DONE]":
        return {"done": True}
    try:
        event = msgspec.json.decode(data.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadReplyError(f"An event of the stream is not JSON: {error}. It begins: {excerpt(data, 120)}") from None
    if not isinstance(event, dict):
        raise BadReplyError(f"An event of the stream is no object. It begins: {excerpt(data, 120)}")
    return event


class FirstText:
    """Search for the first piece of an answer's text or thinking in a stream that arrives in chunks."""

    def __init__(self, protocol: str) -> None:
        self._reply = _ASSEMBLERS[protocol]()
        self._data = b""
        self._bytes = 0
        self.seen = False

    def add(self, chunk: bytes) -> bool:
        """Take the next chunk; return True once text has come."""
        if self.seen:
            return True
        if self._bytes > SEARCHED_UP_TO:
            return False
        self._bytes += len(chunk)
        self._data += chunk
        if (b"\n" not in chunk and b"\r" not in chunk) or self._data.endswith(b"\r"):
            return False  # no event ends here, or a line feed may follow
        text = _with_newlines(self._data)
        end = text.rfind(b"\n\n") + 2
        if end < 2:
            return False
        whole, self._data = text[:end], text[end:]
        try:
            for event in events(whole):
                self._reply.add(event)
        except ModelError:  # it is raised when the whole stream is read
            return False
        self.seen = self._reply.has_text
        return self.seen


def assemble(protocol: str, data: bytes) -> bytes:
    """Return the reply of a whole stream as the JSON that the service would have sent without streaming.

    Args:
        protocol: chat, responses, messages or gemini.
        data: the stream's bytes; a body that is no stream is returned as it is.

    Raises:
        NetworkError: the stream ends before the reply is whole.
        BadReplyError: an event is not JSON.
        ModelError: the stream holds an error in place of the rest.
    """
    if data.lstrip()[:1] in (b"{", b"["):
        return data  # a server that does not stream, or an error object
    reply = _ASSEMBLERS[protocol]()
    for event in _all_events(data):
        if event.get("error") or event.get("type") == "error":
            raise missing_answer(event.get("error") or event, data)
        reply.add(event)
    if not reply.whole:
        raise NetworkError("The stream ended before the reply was whole.")
    # A key that was cut into two events is whole only now.
    return redact_bytes(msgspec.json.encode(reply.reply()))


def _all_events(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the events of a whole stream, whose last one may lack its empty line; half an event is none."""
    text = _with_newlines(data)
    end = text.rfind(b"\n\n") + 2 if b"\n\n" in text else 0
    yield from events(text[:end])
    try:
        last = list(events(text[end:] + b"\n\n"))
    except BadReplyError:
        return  # the connection ended within it
    yield from last


class _Assembler:
    """State of one streamed reply. `has_text`: a piece of text or thinking has come; `whole`: the reply has ended."""

    has_text = False
    whole = False
    _index: Any = None

    def _first(self, choices: Any) -> dict[str, Any] | None:
        """Return the event's part of the first choice; a server may send several, though one is requested."""
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            index = choice.get("index", 0)
            if self._index is None:
                self._index = index
            if index == self._index:
                return choice
        return None

    def add(self, event: dict[str, Any]) -> None:
        """Take one event."""
        raise NotImplementedError

    def reply(self) -> dict[str, Any]:
        """Return the reply so far."""
        raise NotImplementedError


_CHAT_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


class _ChatStream(_Assembler):
    """Chunks of chat completions: deltas of the first choice, and usage in the last chunk.

    Of members that are no text, such as calls of tools, the first piece is kept: it names what the model wrote there.
    """

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._others: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._finish: Any = None
        self._logprobs: list[Any] = []

    def add(self, event: dict[str, Any]) -> None:
        self.whole = self.whole or event.get("done") is True
        for name in ("id", "model", "usage", "system_fingerprint", "service_tier"):
            if event.get(name) is not None:
                self._top[name] = event[name]
        choice = self._first(event.get("choices"))
        if choice is None:
            return
        if choice.get("finish_reason") is not None:
            self._finish = choice["finish_reason"]
            self.whole = True
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
            self._logprobs += logprobs["content"]
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        for name, value in delta.items():
            if isinstance(value, str) and value and name != "role":
                self._texts.setdefault(name, []).append(value)
                self.has_text = self.has_text or name in _CHAT_TEXTS
            elif isinstance(value, list | dict) and value:
                self._others.setdefault(name, value)

    def reply(self) -> dict[str, Any]:
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        message = {"role": "assistant", "content": "", **self._others, **texts}
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": self._finish}
        if self._logprobs:
            choice["logprobs"] = {"content": self._logprobs}
        return {**self._top, "choices": [choice]}


class _ResponsesStream(_Assembler):
    """Events of the Responses API: the last one holds the whole response."""

    _ENDS: ClassVar = ("response.completed", "response.incomplete", "response.failed")

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}

    def add(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if isinstance(kind, str) and kind.endswith(".delta") and event.get("delta"):
            self.has_text = True
        if kind in self._ENDS and isinstance(event.get("response"), dict):
            self._response = event["response"]
            self.whole = True

    def reply(self) -> dict[str, Any]:
        return self._response


class _MessagesStream(_Assembler):
    """Events of Anthropic's Messages API: the message, its blocks piece by piece, its end."""

    _PIECES: ClassVar = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}

    def add(self, event: dict[str, Any]) -> None:
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            self._message = dict(event["message"])
        elif kind == "content_block_start" and isinstance(index, int) and isinstance(event.get("content_block"), dict):
            self._blocks[index] = dict(event["content_block"])
        elif kind == "content_block_delta" and isinstance(index, int) and isinstance(event.get("delta"), dict):
            self._add_delta(index, event["delta"])
        elif kind == "message_delta":
            delta = event.get("delta")
            self._message |= delta if isinstance(delta, dict) else {}
            before, usage = self._message.get("usage"), event.get("usage")
            if isinstance(usage, dict):
                counts = {name: value for name, value in usage.items() if value is not None}
                self._message["usage"] = {**(before if isinstance(before, dict) else {}), **counts}
        self.whole = self.whole or kind == "message_stop"

    def _add_delta(self, index: int, delta: dict[str, Any]) -> None:
        member = self._PIECES.get(str(delta.get("type")), "")
        piece = delta.get(member)
        if isinstance(piece, str):
            self._blocks.setdefault(index, {"type": member})
            self._texts.setdefault((index, member), []).append(piece)
            self.has_text = self.has_text or bool(piece)

    def reply(self) -> dict[str, Any]:
        blocks = {index: dict(block) for index, block in self._blocks.items()}
        for (index, member), pieces in self._texts.items():
            blocks[index][member] = "".join((str(blocks[index].get(member) or ""), *pieces))
        return {**self._message, "content": [blocks[index] for index in sorted(blocks)]}


class _GeminiStream(_Assembler):
    """Chunks of generateContent: each is a reply of its own with the next parts."""

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._parts: list[Any] = []

    def add(self, event: dict[str, Any]) -> None:
        self._top |= {name: value for name, value in event.items() if name != "candidates"}
        feedback = event.get("promptFeedback")
        self.whole = self.whole or (isinstance(feedback, dict) and bool(feedback.get("blockReason")))
        candidate = self._first(event.get("candidates"))
        if candidate is None:
            return
        self._candidate |= {name: value for name, value in candidate.items() if name != "content"}
        self.whole = self.whole or bool(candidate.get("finishReason"))
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            self._parts.append(part)
            self.has_text = self.has_text or (isinstance(part, dict) and bool(part.get("text")))

    def reply(self) -> dict[str, Any]:
        if not self._candidate and not self._parts:
            return self._top
        return {**self._top, "candidates": [{**self._candidate, "content": {"role": "model", "parts": self._parts}}]}


_ASSEMBLERS: dict[str, type[_Assembler]] = {
    "chat": _ChatStream,
    "responses": _ResponsesStream,
    "messages": _MessagesStream,
    "gemini": _GeminiStream,
}
