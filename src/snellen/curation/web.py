"""Sources of hits and pages: the agent tools behind the two calls that the stages need.

The tools' own settings say what is asked: a local collection, the record of an earlier run, or the network. Engines that get
the images are asked only where the settings name them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from snellen.atomic_write import replacing
from snellen.curation.evidence import CollectionFetch, EvidencePage, Fetch, Unavailable, collection_of
from snellen.curation.leaks import Search
from snellen.curation.near_duplicates import ImageEncoder, nearest
from snellen.errors import DataError, MediaError, StorageError, UsageError
from snellen.media import open_image
from snellen.models.tools.base import Backend, ToolError
from snellen.models.tools.definitions import open_backend
from snellen.models.tools.local_index import LocalBackend
from snellen.models.tools.settings import ToolSettings, load, prepare
from snellen.sources import BytesBlob, cache_folder, digest, within
from snellen.types import Image, MediaSettings

THUMBNAIL = 160
LEAST = 0.9
"""Cosine below which an image of a collection is no hit at all."""


def settings_of(tools: Path | None, collection: Path | None) -> ToolSettings | None:
    """Load the settings from a file, or build those of a local collection; None if neither is given.

    Raises:
        UsageError: both are given, or the file cannot be used.
    """
    if tools is not None and collection is not None:
        raise UsageError(
            "--tools and --collection exclude each other", "Give one of them; a tools file may name a collection."
        )
    if collection is not None:
        return ToolSettings(pages=str(collection.absolute()))
    return None if tools is None else load(tools)


def engine_name(settings: ToolSettings, encoder: ImageEncoder | None = None) -> str:
    """Return the name a search is recorded under: engines, or collection digest, with the encoder."""
    if settings.backend == "web":
        return " + ".join(settings.reverse_engines) or "none"
    if settings.pages is not None:
        also = "" if encoder is None else f" + {encoder.name}"
        return f"local {_digest(settings.pages)}{also}"
    return "record"


def _digest(pages: str) -> str:
    return digest(Path(pages)).removeprefix("sha256:")[:16]


def search_by(settings: ToolSettings, encoder: ImageEncoder | None = None) -> Search:
    """Open the reverse image search of the tools; over a local collection also by encoder similarity.

    Raises:
        UsageError: the settings give none.
        DataError, MissingExtraError: the collection cannot be read, an engine needs what is not installed.
    """
    if "reverse_image_search" not in settings.given():
        raise UsageError(
            "the settings have no reverse image search",
            "Give --collection FOLDER, or a tools file with `reverse_engines`: each engine then gets every picture.",
        )
    backend = open_backend(settings)
    local = encoder is not None and settings.backend == "local" and settings.pages is not None and not settings.replay
    album = EncodedCollection(settings, encoder) if local and encoder is not None else None

    async def search(data: bytes, k: int) -> Sequence[Mapping[str, Any]]:
        try:
            hits = await backend.reverse(data, k)
        except ToolError as error:
            raise OSError(error.message) from error
        rows: list[Mapping[str, Any]] = [
            {
                "url": hit.url,
                "title": hit.title,
                "thumbnail": hit.image if hit.similarity else await _thumbnail(backend, hit.image),
                "similarity": hit.similarity / 100 if hit.similarity else None,
                "source": hit.source,
            }
            for hit in hits
        ]
        known = {hit.image for hit in hits}
        similar = [] if album is None else [hit for hit in album.search(data, k) if hit["thumbnail"] not in known]
        return [*rows, *similar][:k]

    return search


class EncodedCollection:
    """The encoded images of a collection; vectors are cached beside the indexes.

    Raises:
        DataError: the index cannot be read. StorageError: the cache cannot be written.
    """

    def __init__(self, settings: ToolSettings, encoder: ImageEncoder) -> None:
        pages, index = settings.pages, prepare(settings).index
        assert pages is not None and index is not None  # noqa: S101 - prepare fills the index in
        self._encoder = encoder
        self._rows = LocalBackend(Path(pages), Path(index)).images()
        mark = blake2b(encoder.name.encode(), digest_size=8).hexdigest()
        path = cache_folder() / "looks" / f"{_digest(pages)}-{mark}.npy"
        if not path.exists():
            vectors = encoder.encode_collection(within(Path(pages), row.path).read_bytes() for row in self._rows)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as part, part.open("wb") as file:
                    np.save(file, vectors)
            except OSError as error:
                raise StorageError(f"vectors cannot be written to {path.parent}: {error.strerror}") from error
        self._held = np.load(path)
        if len(self._held) != len(self._rows):
            raise DataError(f"{path} has {len(self._held)} vectors for {len(self._rows)} pictures", "Delete the file.")

    def search(self, data: bytes, k: int) -> list[Mapping[str, Any]]:
        """What looks alike, whatever setting will count: the rule's threshold is applied when the hits are read."""
        try:
            vectors = self._encoder.encode_query(data)
        except MediaError as error:
            raise OSError(error.message) from error
        rows = ((self._rows[number], cosine) for number, cosine in nearest(vectors, self._held, k, LEAST))
        return [
            {
                "url": row.page or row.url,
                "title": row.title,
                "thumbnail": row.url,
                "source": "local, by looks",
                "cosine": round(cosine, 4),
            }
            for row, cosine in rows
        ]


async def _thumbnail(backend: Backend, address: str) -> str:
    """Return a small copy of a hit's image as a data URI; engines report no similarity."""
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


def fetch_by(settings: ToolSettings) -> Fetch:
    """Open the page fetch of the tools; raw bytes from the network, otherwise the page text."""
    if settings.backend == "web" and not settings.replay:
        return _from_network(settings)
    backend = open_backend(settings)

    async def fetch(url: str) -> EvidencePage:
        try:
            page = await backend.fetch(url)
        except ToolError as error:
            raise Unavailable(error.message, lasting=not error.transient) from error
        if page.data:
            raise Unavailable("it is a picture, not a page", lasting=True)
        return EvidencePage(f"{page.title}\n{page.text}".encode(), "text/plain; charset=utf-8", 200, page.url)

    if settings.pages is None or settings.replay:
        return fetch
    return CollectionFetch(fetch, collection_of(Path(settings.pages)))


def _from_network(settings: ToolSettings) -> Fetch:
    from snellen.models.tools.web import WebBackend

    network = WebBackend(settings.limits)

    async def fetch(url: str) -> EvidencePage:
        try:
            got = await network.get(url)
        except ToolError as error:
            raise Unavailable(error.message, lasting=not error.transient) from error
        kind = f"{got.kind}; charset={got.charset}" if got.charset else got.kind
        return EvidencePage(got.data, kind, 200, got.url, got.date)

    return fetch
