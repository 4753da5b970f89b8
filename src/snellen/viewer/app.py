"""The web application: every page by its path, images by their digests, and nothing else.

Follow the runs while somebody looks: the index is refreshed in the background, at most once a second.
A few records are indexed by a thread. More of them take a process of their own, since scoring would make pages wait.

Index in the background: a process beside the viewer that follows the runs' journals and writes the index.
It only reads the runs. It ends with the viewer, whose end closes the pipe between them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import duckdb
import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from snellen.errors import SnellenError, UsageError
from snellen.redaction import redact
from snellen.viewer.cases.opened_runs import OpenedRuns, PendingSampleError
from snellen.viewer.cases.pictures import ImageStore
from snellen.viewer.index import ViewIndex, open_index
from snellen.viewer.links import IMAGES, THUMBNAILS, LiveLinks, path_of
from snellen.viewer.pages import load_pages
from snellen.viewer.rendering import RenderedPage, render_page
from snellen.viewer.run_list import Rankings
from snellen.viewer.security import Access, AccessGate, OversizeBodyError
from snellen.viewer.site import MissingPageError, PendingPageError, Site, ViewPage, ViewSettings

if TYPE_CHECKING:
    from snellen.viewer.index.view_index import ViewIndex


MAX_FORM_FIELDS = 1000
GZIP_BYTES = 4096
VERSION = "X-Snellen-Version"
"""Header of an open page that looks again: the `version` that its view had."""
REFRESH_S = "1"
"""Seconds after which a browser loads a page again that waits for the index or for a benchmark's data."""
SAMPLE_PATIENCE_S = 0.15
"""Time that a page waits for a sample before it says that the data is being read."""
IMAGE_CACHING = "private, max-age=86400, immutable"
"""A digest names one image for ever."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""SVG is none of them: it can hold scripts."""
SAVED_TYPES = ("text/plain",)
"""Texts of saved web pages, which are untrusted."""


def view_app(settings: ViewSettings) -> Starlette:
    """Build the application of the pages over a folder of runs."""
    index = open_index(settings.root, show_gold=settings.show_gold, trust=settings.trust)
    site = Site(
        settings,
        LiveLinks(),
        index,
        opened=OpenedRuns(trust=settings.trust, patience_s=SAMPLE_PATIENCE_S),
        images=ImageStore(bare=settings.cases is not None),
        rankings=Rankings(trust=settings.trust),
    )
    follower = IndexFollower(site.index)
    routes = [_route(site, page, follower) for page in _pages(site)]
    if (cases := settings.cases) is not None:
        routes.append(Route("/", lambda request: RedirectResponse(path_of("review"), 303)))
        routes.append(_file_route("/saved/{digest}", cases.saved, SAVED_TYPES))
    routes += [
        _file_route(f"/{IMAGES}/{{digest}}", site.images.get),
        _file_route(f"/{THUMBNAILS}/{{digest}}", site.thumbnails.get),
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(
                AccessGate, access=Access(settings.host, settings.token), cookie_name=f"snellen_view_{settings.port}"
            ),
            Middleware(GZipMiddleware, minimum_size=GZIP_BYTES, compresslevel=1),
        ],
        exception_handlers={HTTPException: partial(_refused, site), OversizeBodyError: _oversize},
    )
    app.state.close = follower.close
    return app


def _route(site: Site, page: ViewPage, follower: IndexFollower) -> Route:
    """Return the route of one page: GET shows it, POST takes its form where it has one."""

    def show(query: str, version: str) -> Response:
        try:
            if site.settings.cases is None:
                site.index.runs()  # the first time, this reads the catalogue
                follower.touch()
            state = page.state.parse(query)
            view = page.view(site, state)
            if version and view.get("version") == version:
                return Response(status_code=204)  # an open page looks again, and nothing has changed
            return _page_response(render_page(site, page, state, view, _pages(site)))
        except SnellenError as error:
            return _problem(site, page, error)
        except Exception as error:  # noqa: BLE001 - a traceback could show paths and replies
            return _broken(page, error)

    def submit(query: str, fields: Mapping[str, str]) -> Response:
        assert page.submit is not None  # noqa: S101 - only then the route takes POST
        try:
            target = page.submit(site, page.state.parse(query), fields)
        except SnellenError as error:
            return _problem(site, page, error)
        return RedirectResponse(site.links.to(target), 303)

    async def endpoint(request: Request) -> Response:
        if request.method == "POST":
            return await run_in_threadpool(submit, request.url.query, await _form(request))
        return await run_in_threadpool(show, request.url.query, request.headers.get(VERSION, ""))

    methods = ["GET", "POST"] if page.submit is not None else ["GET"]
    return Route(path_of(page.name), endpoint, methods=methods)


def _file_route(
    path: str, find: Callable[[str], tuple[bytes, str] | None], types: Collection[str] = IMAGE_TYPES
) -> Route:
    """Return the route of images, or of other files: the digest is looked up among those that pages have shown."""

    async def endpoint(request: Request) -> Response:
        try:
            image = await run_in_threadpool(find, request.path_params["digest"])
        except SnellenError as error:
            return PlainTextResponse(f"{error.message}\n", 404)
        if image is None or image[1] not in types:
            return PlainTextResponse("No page has shown this image lately; load its page again.\n", 404)
        return Response(image[0], media_type=image[1], headers={"Cache-Control": IMAGE_CACHING})

    return Route(path, endpoint)


def _pages(site: Site) -> list[ViewPage]:
    pages, cases = load_pages(), site.settings.cases
    return list(pages.values()) if cases is None else [replace(pages["review"], title=cases.texts.title)]


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of a submitted form; the gate limits its size."""
    try:
        sent = parse_qs(
            (await request.body()).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS
        )
    except ValueError as error:
        raise HTTPException(400, f"The form cannot be read: {error}.") from error
    return {name: values[-1].replace("\r\n", "\n") for name, values in sent.items()}


def _page_response(page: RenderedPage, status: int = 200) -> Response:
    return HTMLResponse(page.html, status, headers={"Content-Security-Policy": page.policy})


def _problem(site: Site, page: ViewPage, error: SnellenError) -> Response:
    """Return the page of an error: 404 for what is not there, 400 for what the reader typed, 500 for the rest."""
    if isinstance(error, (PendingPageError, PendingSampleError)):
        view = {"message": error.message, "hint": error.hint}
        waiting = _page_response(render_page(site, page, None, view, _pages(site), "problem.html.jinja"), 202)
        waiting.headers["Refresh"] = REFRESH_S
        return waiting
    status = 404 if isinstance(error, MissingPageError) else 400 if isinstance(error, UsageError) else 500
    view = {"message": error.message, "hint": error.hint}
    return _page_response(render_page(site, page, None, view, _pages(site), "problem.html.jinja"), status)


async def _refused(site: Site, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
    if error.status_code == 404:
        missing = MissingPageError(f"There is no page {request.url.path[:200]}.", "Choose one of the pages above.")
        return await run_in_threadpool(_problem, site, _pages(site)[0], missing)
    return PlainTextResponse(f"{error.detail}\n", error.status_code)


async def _oversize(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 413, headers={"Connection": "close"})


def _broken(page: ViewPage, error: Exception) -> Response:
    """Report a fault of a page on the terminal."""
    print(redact(f"snellen: the page {page.name} failed: {type(error).__name__}: {error}"), file=sys.stderr)
    return PlainTextResponse("This page failed; the terminal of `snellen view` names the error.\n", 500)


PAUSE_S, FOLLOW_S = 1.0, 1.5
"""Time between two looks at the root, at least: of this process and of the indexing one."""
RESTARTS = 5
"""An indexing process that was killed is replaced so many times."""
THREAD_BYTES = 8 << 20
"""Bytes of journals without their verdicts that a thread of the server indexes; more are left to another process."""
END_S, INTERRUPT_S = 5.0, 0.05
"""Time that a refresh has to end when the viewer does, and between two interruptions of its queries."""


class IndexFollower:
    """Refreshes the index when a page is asked for; pages show what the last refresh read.

    The journals are only read, so that a run and the viewer can be killed at any time.
    """

    def __init__(self, index: ViewIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = float("-inf")
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts = 0
        self._closed = False

    def touch(self) -> None:
        """Start a refresh, unless one is under way or has just ended."""
        with self._lock:
            if self._closed or self._is_refreshing() or time.monotonic() - self._ended < PAUSE_S:
                return
            self._thread = threading.Thread(target=self._refresh, name="snellen view index", daemon=True)
            self._thread.start()

    def _is_refreshing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait until the refresh that is under way has ended, at most so long."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    @property
    def pid(self) -> int | None:
        """Return the number of the indexing process; None where there is none."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the refresh that is under way, and the indexing process; none begins any more.

        A thread that is inside DuckDB when Python ends would abort the process.
        """
        with self._lock:
            self._closed = True
        end = time.monotonic() + END_S
        self._index.close()
        while (self._is_refreshing() or self._index.database.in_use) and time.monotonic() < end:
            self._index.close()  # again and again: an interruption ends one query, of the refresh or of a page
            time.sleep(INTERRUPT_S)
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()  # it ends by that
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)

    def _refresh(self) -> None:
        try:
            if self._process is None:
                if self._index.pending_bytes() > THREAD_BYTES:
                    self._process = start_indexing(self._index, FOLLOW_S)
            elif self._process.poll() is not None and self._restarts < RESTARTS:
                self._restarts += 1
                self._process = start_indexing(self._index, FOLLOW_S)
            self._index.refresh(samples=self._process is None, stop=lambda: self._closed)
        except (SnellenError, OSError, duckdb.InterruptException) as error:
            if self._closed:
                return
            print(redact(f"snellen: the index cannot be refreshed: {error}"), file=sys.stderr)
        finally:
            self._ended = time.monotonic()


REST = 1.0
"""After each look, rest for this many times as long as it took."""
END_SECONDS = 5.0
"""Time to finish a change of the index when the viewer has ended."""


class IndexTask(Struct, frozen=True):
    """What the indexing process is told, as JSON on its first line of input."""

    root: str
    database: str
    gold: bool
    trust: bool
    every_s: float


def start_indexing(index: ViewIndex, every_s: float) -> subprocess.Popen[bytes]:
    """Start a process that keeps the index up to date until its standard input is closed.

    Killing it, or this one, harms nothing.
    """
    task = IndexTask(
        str(index.root.absolute()), str(index.database.path.absolute()), index.show_gold, index.trust, every_s
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "snellen.viewer.index.background"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends the viewer, and the viewer's end this process
    )
    assert process.stdin is not None  # noqa: S101 - PIPE was asked for
    process.stdin.write(msgspec.json.encode(task) + b"\n")
    process.stdin.flush()
    return process


def main() -> None:
    """Keep the index of the task on standard input up to date until the input ends."""
    from snellen.viewer.index.database import IndexDatabase, spill_folder
    from snellen.viewer.index.view_index import ViewIndex

    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=IndexTask)

    def wait_for_end() -> None:
        while os.read(0, 4096):  # not the buffered reader: Python's end would abort while it waits
            pass
        index.database.busy.acquire(timeout=END_SECONDS)
        spill_folder(str(index.database.file)).cleanup()
        os._exit(0)

    index = ViewIndex(Path(task.root), IndexDatabase(Path(task.database)), show_gold=task.gold, trust=task.trust)
    threading.Thread(target=wait_for_end, daemon=True).start()
    while True:
        begin = time.monotonic()
        with contextlib.suppress(SnellenError, OSError, duckdb.Error):  # it may pass: a full disk, another writer
            index.refresh()
        time.sleep(max(task.every_s, REST * (time.monotonic() - begin)))


if __name__ == "__main__":
    main()
