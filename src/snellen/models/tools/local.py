"""The local backend: a collection that was indexed, searched without any network."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from snellen.errors import DataError, MediaError
from snellen.media import open_image
from snellen.models.tools.base import Hit, ImageHit, Page, ToolError
from snellen.models.tools.hashes import HashIndex, similarity, variants
from snellen.models.tools.pictures import MOST_PIXELS
from snellen.models.tools.words import best, snippet, words
from snellen.sources import BytesBlob, within
from snellen.types import Image, MediaSettings

PAIRS = tuple[tuple[str, str], ...]


class Held(NamedTuple):
    """A picture of a collection: its address, its path under the folder, and the page that shows it, if any."""

    url: str
    path: str
    page: str
    title: str


class LocalBackend:
    """Pages and pictures of a collection.

    Args:
        folder: the collection; pictures are read from it when they are fetched.
        index: what `collection.build` made of it.

    Raises:
        DataError: the index is not there or damaged.
    """

    def __init__(self, folder: Path, index: Path) -> None:
        self._folder = folder
        try:
            self._database = sqlite3.connect(
                f"{(index / 'pages.sqlite').absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            self._size = int(self._database.execute("select count(*) from pages").fetchone()[0])
            # Plain arrays over the mapped files: numpy's own class for them costs more at every slice.
            self._pages = np.asarray(np.load(index / "postings.npy", mmap_mode="r"))
            self._scores = np.asarray(np.load(index / "scores.npy", mmap_mode="r"))
            self._hashes = HashIndex(np.asarray(np.load(index / "hashes.npy", mmap_mode="r")))
        except (OSError, ValueError, sqlite3.Error) as error:
            raise DataError(
                f"the index {index} cannot be read: {error}", "Delete the folder; it is made anew from the collection."
            ) from None

    async def search(self, query: str, k: int) -> list[Hit]:
        """The k best pages by BM25."""
        return self.find(query, k)

    def find(self, query: str, k: int) -> list[Hit]:
        """As `search`, for who has no event loop."""
        asked = words(query)
        hits = []
        for number in best(asked, self._place, self._pages, self._scores, self._size, k):
            row = self._database.execute(
                "select url, title, substr(text, 1, 8000) from pages where id = ?", (number,)
            ).fetchone()
            hits.append(Hit(row[0], row[1], snippet(row[2], asked)))
        return hits

    def _place(self, word: str) -> tuple[int, int] | None:
        found = self._database.execute("select first, last from terms where word = ?", (word,)).fetchone()
        return None if found is None else (int(found[0]), int(found[1]))

    async def fetch(self, url: str) -> Page:
        """A page or picture of the collection, by its address."""
        row = self._database.execute("select title, text, links, images from pages where url = ?", (url,)).fetchone()
        if row is not None:
            links, images = (msgspec.json.decode(text, type=PAIRS) for text in row[2:])
            return Page(url, row[0], row[1], links, images)
        row = self._database.execute("select path, title from pictures where url = ?", (url,)).fetchone()
        if row is not None:
            return Page(url, row[1], data=within(self._folder, row[0]).read_bytes())
        raise ToolError(f"{url[:300]} is not in the collection; fetch addresses that a search gave")

    def pictures(self) -> list[Held]:
        """The pictures that can be searched for, in the order of their numbers."""
        rows = self._database.execute("select url, path, page, title from pictures order by id")
        return [Held(*row) for row in rows]

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]:
        """Near-duplicates of a picture, nearest first."""
        try:
            hashed = variants(open_image(Image(BytesBlob("the picture", data)), MediaSettings(), MOST_PIXELS), True)
        except MediaError as error:
            raise ToolError(error.message) from None
        if hashed is None:
            raise ToolError("the picture is of one colour; there is nothing to search by")
        hits = []
        for number, distance in self._hashes.nearest(hashed, k):
            url, page, title = self._database.execute(
                "select url, page, title from pictures where id = ?", (number,)
            ).fetchone()
            hits.append(ImageHit(page or url, title, url, similarity(distance), "local"))
        return hits
