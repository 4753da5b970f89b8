"""`--model tools:NAME`: a model behind an endpoint that may call our tools before it answers.

The loop: ask; run the tools that the reply calls; give their results back; until a reply calls none, which is the
answer. The same call with the same arguments a third time is a loop and ends the sample as `agent_loop`. When turns or
calls are used up, the model is asked once more, without tools, for the answer that it can give.

Conversation with tools: a request body that grows by the messages of the model and the tools.
The question is written by the same `BodyWriter` as for `api:`, so that it is sent alike with and without tools. What
comes later is joined to its bytes: images are encoded once, however many turns follow.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from msgspec import Struct, structs
from pybase64 import b64encode

from snellen.errors import (
    AgentLoopError,
    AgentNoAnswerError,
    BadReplyError,
    BadRequestError,
    InputError,
    MediaError,
    ModelError,
    PreflightError,
    SnellenError,
)
from snellen.event_loop import off_loop
from snellen.media import encode, unfitted
from snellen.models import trace
from snellen.models.api import ApiModel
from snellen.models.api.model import ApiReply
from snellen.models.api.request import Body, BodyWriter
from snellen.models.api.response import read_reply
from snellen.models.base import Model, ModelOptions
from snellen.models.tools import settings as tool_settings
from snellen.models.tools.base import Context, Tool, ToolResult
from snellen.models.tools.definitions import all_tools
from snellen.models.tools.images import MAX_PIXELS, ToolImages
from snellen.models.tools.mcp_server import mime
from snellen.models.tools.python_session import Interpreters
from snellen.models.tools.settings import ToolSettings
from snellen.models.trace import Step
from snellen.text import one_line
from snellen.types import Image, Prompt, Response, Text, Usage

SAME_CALL = 3
ATTEMPTS = 4
LONGEST_WAIT_S = 60.0
LAST = "The tools are used up. Give your final answer now, from what you know."


def open_model(name: str, options: ModelOptions) -> ToolsModel:
    """Return the model behind `--model tools:NAME`. Nothing is sent, and no index is built, until preflight."""
    return ToolsModel(name, options, tool_settings.load_named(options.tools) or ToolSettings())


class ToolsModel(Model):
    """An API model in a loop with tools.

    Args:
        name: as the server calls the model.
        options: as for `api:`.
        settings: which tools, on what, and how much of them.

    Raises:
        UsageError: as for `api:`, or a tool is asked for that the settings cannot give.
    """

    supports = frozenset({"system"})

    def __init__(self, name: str, options: ModelOptions, settings: ToolSettings) -> None:
        self._api = ApiModel(name, structs.replace(options, tools=None))
        self.name = f"tools:{name}"
        self._settings = settings
        self._settings.given()
        self._media = options.media
        self._hidden: tuple[Path, ...] = ()
        self._tools: list[Tool] | None = None
        self._interpreters: Interpreters | None = None

    def identity(self) -> Mapping[str, Any]:
        """Return the identity of the API model, and the tools."""
        return {**self._api.identity(), "kind": "tools", "tools": tool_settings.identity(self._settings)}

    def hide(self, paths: Sequence[Path]) -> None:
        """Refuse, at preflight, settings whose folders hold one of these paths."""
        self._hidden = tuple(paths)

    async def preflight(self) -> None:
        """Check the server and the tools. Builds the index of a local collection.

        Raises:
            PreflightError: no, or a tool could find what is hidden.
        """
        tool_settings.require_apart(tool_settings.needed(self._settings), self._hidden)
        for notice in self._settings.notices():
            print(f"snellen: {one_line(notice)}", file=sys.stderr)
        try:
            self._made()
        except PreflightError:
            raise
        except SnellenError as error:
            raise PreflightError(error.message, error.hint) from error
        if (interpreters := self._python()) is not None:
            await interpreters.preflight(self._hidden)
        await self._api.preflight()

    def _made(self) -> list[Tool]:
        if self._tools is None:
            self._tools = all_tools(self._settings)
        return self._tools

    async def answer(self, prompt: Prompt) -> Response:
        """Hold one conversation and return its last reply.

        `trace` of the response is the steps of `snellen.models.trace`, as is that of an error after the first reply.

        Raises:
            ModelError: there is no answer.
        """
        if prompt.history:
            raise InputError("a model with tools takes no earlier turns", "Write --model api:NAME.")
        context, interpreters = Context(ToolImages(await self._given(prompt))), self._python()
        interpreter = None if interpreters is None else interpreters.open(context.images)
        context.interpreter = interpreter
        chat = _Chat(self._api, self._made(), self._settings, context)
        try:
            return await chat.run(prompt)
        except ModelError as error:
            if chat.turn:
                error.trace = trace.plain(chat.steps)
            raise
        finally:
            if interpreter is not None:
                await interpreter.close()

    def _python(self) -> Interpreters | None:
        """Return the interpreters of the run; None where the tool is not given."""
        if self._interpreters is None and "python" in self._settings.given():
            self._interpreters = Interpreters(self._settings)
        return self._interpreters

    async def _given(self, prompt: Prompt) -> list[bytes]:
        """Return the question's images as the tools see them: with what the run does to images, but in their full size."""
        media = unfitted(self._media)
        images = [part for part in prompt.parts if isinstance(part, Image)]
        try:
            return [(await asyncio.to_thread(encode, image.blob, media, MAX_PIXELS)).data for image in images]
        except MediaError as error:
            raise InputError(error.message, error.hint) from error

    async def close(self) -> None:
        """Close the connections, and remove the folders of interpreters."""
        await self._api.close()
        if self._interpreters is not None:
            await self._interpreters.close()


class _Chat:
    """One conversation under way: what was said, what it cost."""

    def __init__(self, api: ApiModel, tools: list[Tool], settings: ToolSettings, context: Context) -> None:
        self.steps: list[Step] = []
        self.turn = 0
        self._api = api
        self._tools = {tool.name: tool for tool in tools}
        self._limits = settings.limits
        self._context = context
        self._chat = ToolConversation(api.writer, tools)
        self._seen: Counter[str] = Counter()
        self._usage = Usage()

    async def run(self, prompt: Prompt) -> Response:
        started = perf_counter()
        images = await self._chat.begin(prompt)
        self.steps.append(Step(0, "user", _text(prompt), images=images))
        while True:
            last = self.turn + 1 >= self._limits.turns or self._context.calls >= self._limits.calls
            if last and self.turn:
                self._say(LAST)
            reply, calls = await self._ask(last or not self._tools)
            if not calls or last:
                if not reply.text.strip():
                    raise AgentNoAnswerError(f"The model ended after {self.turn} turns and said nothing.")
                return structs.replace(
                    reply,
                    usage=self._usage,
                    latency_s=perf_counter() - started,
                    finish_reason=reply.finish_reason if reply.finish_reason == "length" else trace.STOP,
                    trace=trace.plain(self.steps),
                )
            await self._run_tools(calls)

    def _say(self, text: str) -> None:
        self._chat.add({"role": "user", "content": text})
        self.steps.append(Step(self.turn, "user", text))

    async def _ask(self, last: bool) -> tuple[Response, list[ToolCall]]:
        exchange = await self._exchange(last)
        data, latency = exchange.body, exchange.latency_s
        reply = await off_loop(len(data), read_reply, data, latency, self._api.price, None, exchange.request_id)
        calls = read_calls(data, self.turn)
        self.turn += 1
        self._chat.add_said(reply.text, calls)
        self._usage += reply.usage
        read, written = reply.usage.input_tokens, reply.usage.output_tokens
        self.steps.append(
            Step(self.turn, "assistant", reply.text, tokens_in=read, tokens_out=written, seconds=round(latency, 3))
        )
        return reply, calls

    async def _exchange(self, last: bool) -> ApiReply:
        """Send one request, tried again where that can help: one busy moment must not lose a conversation."""
        attempt, refusals, waited_s = 1, 0, 0.0
        while True:
            body = self._chat.body(last)
            try:
                return await self._api.exchange(body)
            except BadRequestError as error:
                if not self._api.renamed(error, body) or self._chat.body(last).traced == body.traced:
                    raise
            except ModelError as error:
                # The first request of a conversation is left to the engine, which also lowers its pace.
                if not error.retry or not self.turn or attempt >= ATTEMPTS or waited_s >= self._api.patience_s:
                    raise
                tries = refusals if error.unavailable else attempt - 1
                wait_s = error.retry_after_s or min(LONGEST_WAIT_S, 2.0**tries)
                if error.unavailable:  # the server did not take the request: that is no attempt
                    refusals += 1
                else:
                    attempt += 1
                wait_s = min(wait_s, self._api.patience_s - waited_s)
                waited_s += wait_s
                await asyncio.sleep(wait_s)

    async def _run_tools(self, calls: list[ToolCall]) -> None:
        images: list[tuple[str, bytes, bytes]] = []
        for call in calls:
            self._seen[call.key] += 1
            started = perf_counter()
            result = await self._result(call)
            digests = tuple(sha256(data).hexdigest() for data in result.images)
            self.steps.append(
                Step(
                    self.turn,
                    "tool",
                    tool=call.tool,
                    arguments=call.text if call.fault else call.arguments,
                    result=result.text,
                    error=result.error,
                    images=digests,
                    copies=tuple(b64encode(copy).decode() for copy in result.copies),
                    seconds=round(perf_counter() - started, 3),
                )
            )
            if self._seen[call.key] >= SAME_CALL:
                raise AgentLoopError(f"The model called {call.tool} {SAME_CALL} times with the same arguments.")
            self._chat.add({"role": "tool", "tool_call_id": call.id, "content": result.text})
            for number, data in enumerate(result.images):
                uri = f"data:{mime(data)};base64,".encode() + b64encode(data)
                label = result.labels[number] if result.labels else result.text.partition("\n")[0]
                images.append((label, uri, data))
        if images:
            self._chat.add_images(images)

    async def _result(self, call: ToolCall) -> ToolResult:
        tool = self._tools.get(call.tool)
        if tool is None:
            known = ", ".join(self._tools)
            return ToolResult(f"there is no tool {call.tool[:100]!r}; there are {known}", error=True)
        if call.fault:
            return ToolResult(f"{call.tool}: {call.fault}", error=True)
        return await tool.call(call.arguments, self._context)


def _text(prompt: Prompt) -> str:
    return "\n".join(part.text for part in prompt.parts if isinstance(part, Text))


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
