"""Links of the pages: paths with query strings on the server, relative file names in an export."""

from __future__ import annotations

from typing import Protocol

from snellen.errors import UsageError
from snellen.viewer.states import PageState, RunsState

IMAGES, THUMBNAILS = "images", "thumbnails"
DIGEST = "0123456789abcdef"


class Links(Protocol):
    """Where a page finds another page, and an image by its digest. The same templates take either kind."""

    live: bool

    def to(self, state: PageState) -> str:
        """Return the address of a page."""
        ...

    def image(self, digest: str) -> str:
        """Return the address of an image in full."""
        ...

    def thumbnail(self, digest: str) -> str:
        """Return the address of a small copy."""
        ...


def path_of(page: str) -> str:
    """Return the path of a page on the server."""
    return "/" if page == RunsState.page else f"/{page}"


def checked_digest(digest: str) -> str:
    """Return a digest. Raises UsageError for any other text: no name of a run becomes part of a path."""
    if not 8 <= len(digest) <= 128 or digest.strip(DIGEST):
        raise UsageError(f"{digest[:40]!r} is no digest of an image")
    return digest


class LiveLinks:
    """Links of the server."""

    live = True

    def to(self, state: PageState) -> str:
        """Return path and query string."""
        query = state.query()
        return path_of(state.page) + (f"?{query}" if query else "")

    def image(self, digest: str) -> str:
        """Return the path of an image."""
        return f"/{IMAGES}/{checked_digest(digest)}"

    def thumbnail(self, digest: str) -> str:
        """Return the path of a small copy."""
        return f"/{THUMBNAILS}/{checked_digest(digest)}"


class StaticLinks:
    """Links of an export. They record which pages and images some page links to, for the exporter to write."""

    live = False

    def __init__(self) -> None:
        self.pages: dict[str, PageState] = {}
        self.images: set[str] = set()
        self.thumbnails: set[str] = set()

    def to(self, state: PageState) -> str:
        """Return the file of the state that stands for this one, and behind `#` what its script takes from the address."""
        static = state.static()
        name = static.file_name()
        self.pages.setdefault(name, static)
        fragment = state.fragment()
        return f"{name}#{fragment}" if fragment else name

    def image(self, digest: str) -> str:
        """Return the file of an image."""
        self.images.add(checked_digest(digest))
        return f"{IMAGES}/{digest}"

    def thumbnail(self, digest: str) -> str:
        """Return the file of a small copy."""
        self.thumbnails.add(checked_digest(digest))
        return f"{THUMBNAILS}/{digest}"
