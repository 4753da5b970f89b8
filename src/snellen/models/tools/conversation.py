"""Conversation with tools: a request body that grows by the messages of the model and the tools.

The question is written by the same `BodyWriter` as for `api:`, so that it is sent alike with and without tools. What
comes later is joined to its bytes: images are encoded once, however many turns follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError
from snellen.models.api.request import Body, BodyWriter
from snellen.models.tools.base import Tool
from snellen.types import Prompt

_SENT_IMAGE = re.compile(rb'"url":"sha256:([0-9a-f]{64})"')


class ToolCall(Struct, frozen=True):
    """One tool call of a reply: `arguments` decoded, or None and `fault` where they are not JSON."""

    id: str
    tool: str
    arguments: Any
    text: str
    fault: str = ""

    @property
    def key(self) -> str:
        """A key that is equal for equal calls, whatever the order of the arguments."""
        plain = self.text if self.fault else msgspec.json.encode(self.arguments, order="sorted").decode()
        return f"{self.tool} {plain}"


class _Function(Struct):
    name: str = ""
    arguments: Any = None


class _Call(Struct):
    function: _Function
    id: str | None = None


class _CallMessage(Struct):
    tool_calls: list[_Call] | None = None


class _CallChoice(Struct):
    message: _CallMessage


class _Reply(Struct):
    choices: list[_CallChoice]


def read_calls(data: bytes, turn: int) -> list[ToolCall]:
    """Return the tool calls of a reply, in order.

    A call without an id gets one; arguments may be a JSON text, as the protocol says, or an object, as some servers
    send it.

    Raises:
        BadReplyError: there are calls in another form.
    """
    try:
        calls = msgspec.json.decode(data, type=_Reply).choices[0].message.tool_calls or []
    except (msgspec.MsgspecError, ValueError, IndexError, RecursionError) as error:
        raise BadReplyError(f"The reply's tool calls cannot be read: {error}") from None
    return [_tool_call(call, f"call_{turn}_{number}") for number, call in enumerate(calls)]


def _tool_call(call: _Call, name: str) -> ToolCall:
    name, tool, arguments = call.id or name, call.function.name, call.function.arguments
    if not isinstance(arguments, str):
        arguments = {} if arguments is None else arguments
        return ToolCall(name, tool, arguments, msgspec.json.encode(arguments).decode())
    try:
        return ToolCall(name, tool, msgspec.json.decode(arguments or "{}"), arguments or "{}")
    except (msgspec.DecodeError, RecursionError) as error:
        return ToolCall(name, tool, None, arguments, f"the arguments are not JSON: {error}")


class ToolConversation:
    """The messages so far. Begin with `begin`, then add what is said."""

    def __init__(self, writer: BodyWriter, tools: Sequence[Tool]) -> None:
        self._writer = writer
        self._tools = msgspec.json.encode(
            [
                {
                    "type": "function",
                    "function": {key: getattr(tool, key) for key in ("name", "description", "parameters")},
                }
                for tool in tools
            ]
        )
        self._prompt = Prompt(())
        self._head = Body((), b"")
        self._later: list[Body] = []

    async def begin(self, prompt: Prompt) -> tuple[str, ...]:
        """Write the question. Returns the SHA-256 of each image in it, in order. Raises InputError."""
        self._prompt = prompt
        body = await self._writer.write(prompt)
        # The tail begins with the end of the question's message and of the list; the rest are the settings.
        tail = len(self._writer.tail(prompt.generation))
        last = body.pieces[-1]  # a body of one text is one piece; else the tail stands alone behind a bracket
        self._head = Body((*body.pieces[:-1], last[:-tail]), body.traced[:-tail])
        return tuple(match.decode() for match in _SENT_IMAGE.findall(self._head.traced))

    def body(self, last: bool) -> Body:
        """Return the next request. `last` forbids tool calls; the tools stay declared, since the calls made refer to them."""
        members = self._writer.tail(self._prompt.generation)[2:]
        choice = b',"tool_choice":"none"' if last else b""
        end = b"]" + (b',"tools":' + self._tools + choice if self._tools != b"[]" else b"") + members
        later = (piece for message in self._later for piece in message.pieces)
        traced = b"".join((self._head.traced, b"}", *(message.traced for message in self._later), end))
        return Body((*self._head.pieces, b"}", *later, end), traced)

    def add(self, message: dict[str, Any]) -> None:
        """Add a message without images."""
        piece = b"," + msgspec.json.encode(message)
        self._later.append(Body((piece,), piece))

    def add_said(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Add the model's message, with the tools that it called."""
        message: dict[str, Any] = {"role": "assistant", "content": (text or None) if calls else text}
        if calls:
            message["tool_calls"] = [
                # A server may read the arguments back as JSON; what is none goes back as an empty object.
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.tool, "arguments": "{}" if call.fault else call.text},
                }
                for call in calls
            ]
        self.add(message)

    def add_images(self, images: Sequence[tuple[str, bytes, bytes]]) -> None:
        """Add images that tools returned, as a user's message: few servers take them in a tool's.

        Args:
            images: (label, data URI, the image's bytes) of each.
        """
        sent, traced = [b',{"role":"user","content":['], [b',{"role":"user","content":[']
        for number, (label, uri, data) in enumerate(images):
            comma = b"," if number else b""
            text = comma + b'{"type":"text","text":' + msgspec.json.encode(label) + b"}"
            head = text + b',{"type":"image_url","image_url":{"url":"'
            sent += (head, uri, b'"}}')
            traced += (head, b"sha256:", sha256(data).hexdigest().encode(), b'"}}')
        sent.append(b"]}")
        traced.append(b"]}")
        self._later.append(Body(tuple(sent), b"".join(traced)))
