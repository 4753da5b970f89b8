"""Small copies of the images that pages show, by digest: what a page showed can be fetched, and nothing else.

A view offers the small copies that its page links to; no path and no name of a request reaches a disk. After a restart of the server
a page is loaded anew before its images are there again. Images in full are in `snellen.viewer.cases.pictures.ImageStore`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from snellen.viewer.thumbnails import Thumbnail, ThumbnailCache

MOST_OFFERS = 200_000


class OfferedThumbnails:
    """Small copies that pages have linked to. Callers may be threads."""

    def __init__(self) -> None:
        self._offers: OrderedDict[str, Callable[[], Thumbnail]] = OrderedDict()
        self._copies = ThumbnailCache()
        self._lock = Lock()

    def offer(self, digest: str, draw: Callable[[], Thumbnail]) -> str:
        """Make a small copy available under a digest; it is drawn when it is first asked for."""
        with self._lock:
            self._offers[digest] = draw
            self._offers.move_to_end(digest)
            if len(self._offers) > MOST_OFFERS:
                self._offers.popitem(last=False)
        return digest

    def get(self, digest: str) -> Thumbnail | None:
        """Return a small copy; None if no page has linked to it lately.

        Raises:
            MediaError: it cannot be drawn.
        """
        with self._lock:
            draw = self._offers.get(digest)
        return None if draw is None else self._copies.get(digest, draw)
