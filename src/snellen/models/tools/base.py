"""Tools: a name, a schema, a coroutine; and the context of one conversation that they are called with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from snellen.models.tools.images import ToolImages


class ToolError(Exception):
    """The reason why a tool returned nothing. The model reads the message and may try otherwise; the conversation goes on.

    `transient` says that the same call may succeed later (a timeout, a server that was down).
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.transient = transient


class ToolResult(Struct, frozen=True):
    """The result of a call as the model sees it: text, and images as encoded bytes (JPEG, PNG, WebP or GIF).

    `labels` name the images, one by one; without them, the text's first line does. `copies` are small JPEGs of images that
    exist nowhere else, for the trace. `structured` is a JSON object that a schema describes; the
    text then has notes about it.
    """

    text: str
    images: tuple[bytes, ...] = ()
    error: bool = False
    labels: tuple[str, ...] = ()
    copies: tuple[bytes, ...] = ()
    structured: Mapping[str, Any] | None = None


class CodeRunner(Protocol):
    """An interpreter that keeps its state from call to call (python_session.py)."""

    async def run(self, code: str) -> ToolResult: ...


class Context(Struct):
    """One conversation: its images, how many calls it has made, and its interpreter, if it may have one."""

    images: ToolImages
    calls: int = 0
    interpreter: CodeRunner | None = None


Call: TypeAlias = Callable[[object, Context], Awaitable[ToolResult]]


class Tool(Struct, frozen=True):
    """A tool as every agent gets it.

    Attributes:
        name: as the model calls it.
        description: one or two sentences for the model.
        parameters: JSON schema of the arguments, an object.
        call: (arguments as decoded JSON, context) to a result; faults come back as a result with `error`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Call


class Hit(Struct, frozen=True, omit_defaults=True):
    """A page that a search found; `snippet` is a piece of its text around the words searched for."""

    url: str
    title: str
    snippet: str = ""


class ImageHit(Struct, frozen=True, omit_defaults=True):
    """An image that looks like the one searched for.

    `url` is the page it stands on, `image` the address of the image itself, `similarity` 0 to 100 (0 where an engine
    does not say), `source` the engine.
    """

    url: str
    title: str
    image: str = ""
    similarity: float = 0.0
    source: str = ""


class Page(Struct, frozen=True, omit_defaults=True):
    """A fetched page: text with its title, links and images by address; or an image, as `data`.

    `cut` says that the page was larger than the limit and only its beginning was read.
    """

    url: str
    title: str = ""
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()
    images: tuple[tuple[str, str], ...] = ()
    cut: bool = False
    data: bytes = b""


class Backend(Protocol):
    """A source of pages and images. Every method may raise ToolError; none may take for ever."""

    async def search(self, query: str, k: int) -> list[Hit]: ...

    async def fetch(self, url: str) -> Page: ...

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]: ...
