"""The web application: every page by its path, images by their digests, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs

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
from snellen.viewer.following import IndexFollower
from snellen.viewer.index import open_index
from snellen.viewer.links import IMAGES, THUMBNAILS, LiveLinks, path_of
from snellen.viewer.pages import load_pages
from snellen.viewer.rendering import RenderedPage, render_page
from snellen.viewer.run_list import Rankings
from snellen.viewer.security import Access, AccessGate, OversizeBodyError
from snellen.viewer.site import MissingPageError, PendingPageError, Site, ViewPage, ViewSettings

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
    else:
        routes.append(Route("/metrics", _metrics(site, follower)))
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


def _metrics(site: Site, follower: IndexFollower) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of figures for Prometheus, behind the same gate as the pages."""
    from snellen.viewer.metrics import CONTENT_TYPE, metrics_text

    def text() -> str:
        site.index.runs()
        follower.touch()
        return metrics_text(site.index.runs())

    async def endpoint(request: Request) -> Response:
        try:
            return Response(await run_in_threadpool(text), headers={"Content-Type": CONTENT_TYPE})
        except SnellenError as error:
            return PlainTextResponse(f"{error.message}\n", 503)

    return endpoint


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
