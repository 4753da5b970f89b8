"""The tools, the same for every agent and for our own loop.

Recorded backend: results are stored, faults included, so that a run repeats offline.
One JSON file a call, under the SHA-256 of the tool and its arguments (an image by its own SHA-256); images lie beside
them by digest. The first answer stays: two conversations that ask the same at the same time are told the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from snellen.errors import DataError, StorageError
from snellen.models.tools import images
from snellen.models.tools.base import Backend, Context, Hit, ImageHit, Page, Tool, ToolError, ToolResult
from snellen.models.tools.settings import ToolLimits, ToolSettings, prepare
from snellen.redaction import redact_bytes

if TYPE_CHECKING:
    from snellen.models.tools.web import WebBackend

_IMAGE = (
    "Name of a picture: image.jpg or image.png for the one of the question (image-1.jpg, image-2.jpg … where there are "
    "several), the name of a view made earlier, or the address of a picture that a tool has given."
)
K = Annotated[int, Meta(ge=1, description="How many results at most.")]
ImageName = Annotated[str, Meta(min_length=1, max_length=2000, description=_IMAGE)]


class WebSearch(Struct):
    query: Annotated[str, Meta(min_length=1, max_length=400, description="Words to search for.")]
    k: K = 5


class FetchUrl(Struct):
    url: Annotated[str, Meta(min_length=1, max_length=2000, description="Address of a page, or of a picture.")]
    start: Annotated[int, Meta(ge=0, description="Character to read on from, for a long page.")] = 0


class ReverseImageSearch(Struct):
    image: ImageName
    k: K = 5


class CropZoom(Struct):
    image: ImageName
    box: Annotated[
        list[float],
        Meta(
            min_length=4,
            max_length=4,
            description="Left, top, right, bottom: fractions of width and height (0 to 1), or pixels.",
        ),
    ]
    scale: Annotated[float, Meta(ge=1, le=8, description="How much larger each side is shown.")] = 2.0


class ViewImage(Struct):
    image: ImageName


_PYTHON = (
    "Run Python code. Variables and files stay until the question is answered. numpy, PIL and matplotlib are there, and no "
    "network. The pictures of the question are files in the working folder: image.jpg or image.png (image-1.jpg, image-2.jpg "
    "… where there are several). Output, the value of a last expression, pictures saved in the working folder and figures "
    "shown with plt.show() come back. A call that takes more than {seconds:g} s is ended, and its variables and files are lost."
)


class RunPython(Struct):
    code: Annotated[str, Meta(min_length=1, max_length=50_000, description="Python code, as one cell of a notebook.")]


Run: TypeAlias = Callable[[Any, Context], Awaitable[ToolResult]]


def all_tools(settings: ToolSettings, backend: Backend | None = None, relay: str | None = None) -> list[Tool]:
    """Return the tools that the settings allow, in a fixed order.

    Args:
        settings: backend, limits, which tools.
        backend: in place of the one that the settings name.
        relay: address of the gateway that asks the web, where the tools have no network.

    Raises:
        DataError: the collection or its index cannot be read.
        UsageError, MissingExtraError: a tool is asked for that the settings, or what is installed, cannot give.
    """
    names = settings.given()
    source = _Tools(open_backend(settings, relay) if backend is None else backend, settings.limits)
    made: dict[str, tuple[type[Struct], str, Run]] = {
        "web_search": (
            WebSearch,
            "Search pages by words. Gives titles, addresses and snippets; read a page with fetch_url.",
            source.web_search,
        ),
        "fetch_url": (
            FetchUrl,
            "Read a page: its text, and the addresses of its links and pictures. An address of a picture shows it.",
            source.fetch_url,
        ),
        "reverse_image_search": (
            ReverseImageSearch,
            "Find pages that show the same picture, or a copy that was cropped, mirrored or compressed.",
            source.reverse_image_search,
        ),
        "crop_zoom": (
            CropZoom,
            "Look at a part of a picture, enlarged. The part gets a name and can be cropped again.",
            source.crop_zoom,
        ),
        "view_image": (ViewImage, "Look at a picture, whole.", source.view_image),
        "python": (RunPython, _PYTHON.format(seconds=settings.limits.python_seconds), source.python),
    }
    return [_tool(name, *made[name], settings.limits) for name in names]


def open_backend(settings: ToolSettings, relay: str | None = None) -> Backend:
    """Return the backend that the settings name, behind its record and its limit of time. `relay`: see `all_tools`."""
    inner: Backend | None = None
    if not settings.replay:
        if settings.backend == "web" and relay is not None:
            from snellen.models.tools.web import RelayedBackend

            inner = RelayedBackend(settings, relay)
        elif settings.backend == "web":
            inner = open_web(settings)
        elif settings.pages is not None:
            from snellen.models.tools.local_index import LocalBackend

            index = prepare(settings).index
            assert index is not None  # noqa: S101 - prepare fills it in for a local collection
            inner = LocalBackend(Path(settings.pages), Path(index))
    folder = None if settings.record is None else Path(settings.record)
    return Recorded(inner, folder, settings.limits.seconds)


def open_web(settings: ToolSettings) -> WebBackend:
    """Return the network, as the settings allow it.

    Raises:
        MissingExtraError: engines are named, and PicImageSearch is not installed.
    """
    from snellen.models.tools import reverse_image
    from snellen.models.tools.web import WebBackend

    if settings.reverse_engines:
        reverse_image.require()
    return WebBackend(settings.limits, settings.searxng, settings.reverse_engines)


def _tool(name: str, form: type[Struct], description: str, run: Run, limits: ToolLimits) -> Tool:
    async def call(arguments: object, context: Context) -> ToolResult:
        context.calls += 1
        if context.calls > limits.calls:
            return ToolResult(f"No more tools: all {limits.calls} calls are used up. Answer now.", error=True)
        try:
            parsed = msgspec.convert(arguments if arguments is not None else {}, form, strict=False)
        except (msgspec.ValidationError, RecursionError) as error:
            return ToolResult(f"{name}: {error}", error=True)
        try:
            return await run(parsed, context)
        except (ToolError, DataError) as error:
            return ToolResult(f"{name}: {error.message}", error=True)

    return Tool(name, description, _schema(form), call)


def _schema(form: type[Struct]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([form])
    schema = dict(parts[form.__name__])
    schema.pop("title", None)
    return {**schema, "required": schema.get("required", [])}


class _Tools:
    """The tools' work, once their arguments are read."""

    def __init__(self, backend: Backend, limits: ToolLimits) -> None:
        self._backend = backend
        self._limits = limits

    async def web_search(self, arguments: WebSearch, context: Context) -> ToolResult:
        hits = await self._backend.search(arguments.query, min(arguments.k, self._limits.results))
        lines = [f"{number}. {hit.title}\n{hit.url}\n{hit.snippet}" for number, hit in enumerate(hits, 1)]
        return ToolResult(self._cut("\n\n".join(lines)) or f"Nothing was found for {arguments.query!r}.")

    async def fetch_url(self, arguments: FetchUrl, context: Context) -> ToolResult:
        page = await self._backend.fetch(arguments.url)
        if page.data:
            return self._shown(page.data, context.images.add(page.data), f"Picture from {page.url}. ")
        return ToolResult(self._page(page, arguments.start))

    async def reverse_image_search(self, arguments: ReverseImageSearch, context: Context) -> ToolResult:
        data, _ = await self._image(arguments.image, context)
        hits = await self._backend.reverse(data, min(arguments.k, self._limits.results))
        lines = []
        for number, hit in enumerate(hits, 1):
            score = f"similarity {hit.similarity:g}, " if hit.similarity else ""
            picture = f"\npicture: {hit.image}" if hit.image and hit.image != hit.url else ""
            lines.append(f"{number}. {hit.title or 'no title'} ({score}{hit.source})\n{hit.url}{picture}")
        return ToolResult(self._cut("\n\n".join(lines)) or "No picture like it was found.")

    async def crop_zoom(self, arguments: CropZoom, context: Context) -> ToolResult:
        data, name = await self._image(arguments.image, context)
        part, line = images.cropped(data, name, arguments.box, arguments.scale, self._limits.image_side)
        return ToolResult(f"{context.images.add(part)}: {line}", (part,))

    async def view_image(self, arguments: ViewImage, context: Context) -> ToolResult:
        data, name = await self._image(arguments.image, context)
        return self._shown(data, name, "")

    async def python(self, arguments: RunPython, context: Context) -> ToolResult:
        if context.interpreter is None:
            raise ToolError("there is no interpreter here: it is for tools:NAME")
        return await context.interpreter.run(arguments.code)

    def _shown(self, data: bytes, name: str, before: str) -> ToolResult:
        image, line = images.shown(data, name, self._limits.image_side)
        return ToolResult(before + line, (image,))

    async def _image(self, image: str, context: Context) -> tuple[bytes, str]:
        """Return an image by its name in the conversation, or from its address."""
        if not re.match(r"https?://", image, re.IGNORECASE):
            return context.images.read(image), image
        page = await self._backend.fetch(image)
        if not page.data:
            raise ToolError(f"{image} is a page and not a picture")
        return page.data, context.images.add(page.data)

    def _page(self, page: Page, start: int) -> str:
        text = page.text[start : start + self._limits.text_chars]
        if start + len(text) < len(page.text):
            text += f"\n[{len(page.text):,} characters in all; read on with start={start + len(text)}]"
        elif page.cut:
            text += f"\n[cut: the page is longer than {self._limits.page_bytes:,} bytes]"
        pieces = [f"{page.title}\n{page.url}" if page.title else page.url, text or "[no text]"]
        if start == 0:
            for title, pairs in (("Pictures", page.images[:20]), ("Links", page.links[:40])):
                if pairs:
                    pieces.append(f"{title}:\n" + "\n".join(f"{url} {name}".rstrip() for url, name in pairs))
        return "\n\n".join(pieces)

    def _cut(self, text: str) -> str:
        limit = self._limits.text_chars
        return text if len(text) <= limit else text[:limit] + " [cut]"


T = TypeVar("T")
MAX_BYTES = 64 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class _RecordedCall(Struct, frozen=True, omit_defaults=True):
    """One call. `picture` is the digest of the bytes that were fetched; `fault` why there is no result."""

    tool: str
    arguments: Any
    result: msgspec.Raw = msgspec.Raw(b"null")
    picture: str = ""
    fault: str = ""
    transient: bool = False


class Recorded:
    """A backend between the tools and another one.

    Args:
        inner: who is asked; None: nobody, and a call that is not kept is a fault that the model sees.
        folder: where answers are kept; None: nowhere.
        seconds: after which a call of `inner` has failed.
    """

    def __init__(self, inner: Backend | None, folder: Path | None, seconds: float) -> None:
        self._inner = inner
        self._folder = folder
        self._seconds = seconds

    async def search(self, query: str, k: int) -> list[Hit]:
        return await self._call("web_search", {"query": query, "k": k}, lambda inner: inner.search(query, k), list[Hit])

    async def fetch(self, url: str) -> Page:
        return await self._call("fetch_url", {"url": url}, lambda inner: inner.fetch(url), Page)

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]:
        arguments = {"image": sha256(data).hexdigest(), "k": k}
        return await self._call("reverse_image_search", arguments, lambda inner: inner.reverse(data, k), list[ImageHit])

    async def _call(self, tool: str, arguments: Any, ask: Callable[[Backend], Awaitable[T]], kind: type[T]) -> T:
        recorded = self._read(tool, arguments)
        if recorded is not None and not (recorded.transient and self._inner is not None):
            return self._result(recorded, kind)
        if self._inner is None:
            raise ToolError(f"this call was not recorded, and nothing is asked anew: {tool}")
        try:
            async with asyncio.timeout(self._seconds):
                result = await ask(self._inner)
        except (TimeoutError, ToolError) as error:
            fault = (
                error
                if isinstance(error, ToolError)
                else ToolError(f"{tool} took more than {self._seconds:g} s", transient=True)
            )
            self._keep(
                _RecordedCall(tool, arguments, fault=fault.message, transient=fault.transient), recorded is not None
            )
            raise fault from None
        picture = ""
        stored: Any = result
        if isinstance(result, Page) and result.data and self._folder is not None:
            picture = sha256(result.data).hexdigest()
            self._write(self._folder / "pictures" / picture, result.data, False)
            stored = structs.replace(result, data=b"")
        entry = _RecordedCall(tool, arguments, msgspec.Raw(msgspec.json.encode(stored)), picture)
        first = self._keep(entry, recorded is not None)
        return result if first is None else self._result(first, kind)

    def _result(self, entry: _RecordedCall, kind: type[T]) -> T:
        if entry.fault:
            raise ToolError(entry.fault, transient=entry.transient)
        result = msgspec.json.decode(entry.result, type=kind)
        if entry.picture and isinstance(result, Page) and self._folder is not None:
            data = b""
            if _DIGEST.fullmatch(entry.picture):
                with contextlib.suppress(OSError):
                    data = _plain(self._folder / "pictures" / entry.picture)
            if sha256(data).hexdigest() != entry.picture:
                raise ToolError("the recorded picture is missing or damaged")
            result = structs.replace(result, data=data)
        return result

    def _path(self, tool: str, arguments: Any) -> Path | None:
        if self._folder is None:
            return None
        key = sha256(msgspec.json.encode([tool, arguments], order="sorted")).hexdigest()
        return self._folder / key[:2] / f"{key}.json"

    def _read(self, tool: str, arguments: Any) -> _RecordedCall | None:
        path = self._path(tool, arguments)
        if path is None or not os.path.lexists(path):
            return None
        try:
            return msgspec.json.decode(_plain(path), type=_RecordedCall)
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise ToolError(f"the recorded call {path.name} cannot be read: {type(error).__name__}") from None

    def _keep(self, entry: _RecordedCall, again: bool) -> _RecordedCall | None:
        """Write an entry; where another one came first, that one."""
        path = self._path(entry.tool, entry.arguments)
        if path is None or self._write(path, redact_bytes(msgspec.json.encode(entry)), again):
            return None
        return self._read(entry.tool, entry.arguments)

    def _write(self, path: Path, data: bytes, again: bool) -> bool:
        """Write a file whole or not at all; False where it was there and is not to be written `again`."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=".part-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                if again:
                    Path(part).replace(path)
                    return True
                try:
                    path.hardlink_to(part)
                except FileExistsError:
                    return False
                return True
            finally:
                Path(part).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"the tools' record cannot be written to {path.parent}: {error.strerror}") from error


def _plain(path: Path) -> bytes:
    """Return the content of a file of the record. An agent may have written it: links, pipes and longer files are refused.

    Raises:
        OSError: it is not a plain file of at most 64 MB.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise OSError(errno.EINVAL, "not a plain file of at most 64 MB", str(path))
        return file.read(MAX_BYTES)
