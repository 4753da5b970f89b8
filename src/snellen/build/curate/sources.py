"""Where hits and pages come from: the tools that models are given, behind the two calls that the stages make.

The tools' own settings say what is asked: a local collection, the record of an earlier run, or the network. Engines that get
the pictures are asked only where the settings name them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from snellen.build.curate.evidence import Fetch, Page, Unavailable
from snellen.build.curate.leaks import Search
from snellen.errors import MediaError, UsageError
from snellen.media import open_image
from snellen.models.tools.base import Backend, ToolError
from snellen.models.tools.catalogue import open_backend
from snellen.models.tools.settings import Settings, load
from snellen.sources import BytesBlob, digest
from snellen.types import Image, MediaSettings

THUMBNAIL = 160


def settings_of(tools: Path | None, collection: Path | None) -> Settings | None:
    """The settings from a file, or those of a local collection; None where neither is given.

    Raises:
        UsageError: both are given, or the file cannot be used.
    """
    if tools is not None and collection is not None:
        raise UsageError("--tools and --collection name two sources", "Give one; a tools file may name a collection.")
    if collection is not None:
        return Settings(pages=str(collection.absolute()))
    return None if tools is None else load(tools)


def engine_name(settings: Settings) -> str:
    """What a search is recorded under: the engines, or the collection by its digest."""
    if settings.backend == "web":
        return " + ".join(settings.reverse_engines) or "none"
    if settings.pages is not None:
        return f"local {digest(Path(settings.pages)).removeprefix('sha256:')[:16]}"
    return "record"


def search_by(settings: Settings) -> Search:
    """The reverse image search of the tools.

    Raises:
        UsageError: the settings give none.
        DataError, MissingExtraError: the collection cannot be read, an engine needs what is not installed.
    """
    if "reverse_image_search" not in settings.given():
        raise UsageError(
            "these settings give no reverse image search",
            "Give --collection FOLDER, or a tools file with `reverse_engines`: each engine then gets every picture.",
        )
    backend = open_backend(settings)

    async def search(data: bytes, k: int) -> Sequence[Mapping[str, Any]]:
        try:
            hits = await backend.reverse(data, k)
        except ToolError as error:
            raise OSError(error.message) from error
        return [
            {
                "url": hit.url,
                "title": hit.title,
                "thumbnail": hit.image if hit.similarity else await _thumbnail(backend, hit.image),
                "similarity": hit.similarity / 100 if hit.similarity else None,
                "source": hit.source,
            }
            for hit in hits
        ]

    return search


async def _thumbnail(backend: Backend, address: str) -> str:
    """A small copy of a hit's picture as a data URI, to be compared: engines do not say how near it is."""
    if not address.startswith(("http://", "https://")):
        return address
    try:
        page = await backend.fetch(address)
        picture = open_image(Image(BytesBlob(address, page.data)), MediaSettings(max_long_side=THUMBNAIL))
    except (ToolError, MediaError):
        return address
    out = BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"


def fetch_by(settings: Settings) -> Fetch:
    """The page fetch of the tools; from the network the bytes as they came, else the text of a page."""
    if settings.backend == "web" and not settings.replay:
        return _from_network(settings)
    backend = open_backend(settings)

    async def fetch(url: str) -> Page:
        try:
            found = await backend.fetch(url)
        except ToolError as error:
            raise Unavailable(error.message, lasting=not error.transient) from error
        if found.data:
            raise Unavailable("it is a picture and no page", lasting=True)
        return Page(f"{found.title}\n{found.text}".encode(), "text/plain; charset=utf-8", 200, found.url)

    return fetch


def _from_network(settings: Settings) -> Fetch:
    from snellen.models.tools.web import WebBackend

    network = WebBackend(settings.limits)

    async def fetch(url: str) -> Page:
        try:
            got = await network.get(url)
        except ToolError as error:
            raise Unavailable(error.message, lasting=not error.transient) from error
        kind = f"{got.kind}; charset={got.charset}" if got.charset else got.kind
        return Page(got.data, kind, 200, got.url, got.date)

    return fetch
