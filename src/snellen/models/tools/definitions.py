"""The five tools, the same for every agent and for our own loop."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from snellen.errors import DataError
from snellen.models.tools import images
from snellen.models.tools.base import Backend, Context, Page, Tool, ToolError, ToolResult
from snellen.models.tools.recorded import Recorded
from snellen.models.tools.settings import ToolLimits, ToolSettings, prepare

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
