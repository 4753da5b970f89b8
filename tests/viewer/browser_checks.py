"""Checks that every page of the viewer has to pass in a real browser, and a server to open it from.

A test opens a page with `opened`: it fails on any message of the console, any script error and any request that leaves the server or
the export. `check_page` adds what can be seen: no sideways scrolling, and no serious finding of axe-core. axe-core is a package of
npm; `npm install axe-core` in the repository, or the path of its axe.min.js in SNELLEN_AXE, makes it available.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from snellen.local_server import LOOPBACK, address_of, bind
from snellen.viewer.app import view_app
from snellen.viewer.site import ViewSettings

WIDTHS = (420, 1440, 2560)
THEMES = ("light", "dark")
every_shape = pytest.mark.parametrize(("width", "theme"), list(zip(WIDTHS, (*THEMES, "light"), strict=True)))
"""Each width and each theme: what fits depends on the one, what can be read on the other."""
REPOSITORY = Path(__file__).parents[2]


@contextmanager
def serving(root: Path, port: int = 0, **settings: Any) -> Iterator[str]:
    """Serve the pages over a folder of runs in a thread; yield the address without a slash at its end."""
    import uvicorn

    listener = bind(LOOPBACK, port)
    listener.listen(32)
    app = view_app(ViewSettings(root, port=listener.getsockname()[1], **settings))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield address_of(LOOPBACK, listener)
    finally:
        server.should_exit = True
        thread.join(600)
        listener.close()


@contextmanager
def served_by_command(*words: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a command that serves pages; yield its process and the address that it prints. Kill it where it has not ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "snellen", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    try:
        while not (found := re.search(r"http://\S+", line := process.stderr.readline())):
            assert line, process.communicate()
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


@contextmanager
def opened(browser: Any, address: str, *, width: int = 1440, theme: str = "light", **settings: Any) -> Iterator[Any]:
    """Open a page; at the end, fail on console messages, script errors, and requests that leave its server or folder.

    Args:
        browser: the fixture of that name.
        address: of the page, http: or file:.
        width: of the window, in pixels.
        theme: what the system prefers, `light` or `dark`.
        settings: of Playwright's new_context.
    """
    context = browser.new_context(
        **{
            "viewport": {"width": width, "height": 900},
            "color_scheme": theme,
            "reduced_motion": "reduce",
            **settings,
        }
    )
    page, noise, requests = context.new_page(), [], []
    page.on("console", lambda message: noise.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: noise.append(f"error: {error}"))
    page.on("request", lambda request: requests.append(request.url))
    try:
        goto_ready(page, address)
        yield page
    finally:
        context.close()
    assert noise == [], noise
    assert external(requests, address) == []


def goto_ready(page: Any, address: str) -> None:
    """Open an address; again while it answers 202, since it then waits for the index or for the benchmark's data."""
    while (response := page.goto(address)) is not None and response.status == 202:
        page.wait_for_timeout(300)


def wait_loaded(page: Any, selector: str) -> None:
    """Wait for a page with an element, to its end: keys, focus and counts need all of it."""
    page.wait_for_selector(selector)
    page.wait_for_load_state()


def wait_decided(page: Any, count: int, **settings: Any) -> None:
    """Wait for the whole page of a review on which so many cases are decided."""
    page.wait_for_function(
        "(begin) => document.readyState === 'complete' && document.querySelector('#review-status')?.textContent.trim().startsWith(begin)",
        arg=f"{count} of",
        **settings,
    )


def external(requests: list[str], address: str) -> list[str]:
    """Return the requests that leave the server, or the folder of an export."""
    scheme, _, rest = address.partition("//")
    inside = f"{scheme}//{rest.partition('/')[0]}/" if scheme != "file:" else address.rpartition("/")[0] + "/"
    return [url for url in requests if not url.startswith(("data:", "blob:", inside)) and url + "/" != inside]


def check_page(page: Any) -> None:
    """Fail on sideways scrolling, and on serious findings of axe-core where it is installed."""
    check_width(page)
    if axe_source() is not None:
        check_accessibility(page)


def check_width(page: Any) -> None:
    """Fail if the page is wider than its window; name what sticks out."""
    wide = page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
        [...document.body.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
        .slice(0, 5).map((e) => e.outerHTML.slice(0, 160))"""
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), wide


def axe_source() -> str | None:
    """Read axe-core; None if it is not installed."""
    named = os.environ.get("SNELLEN_AXE")
    for path in (Path(named) if named else None, REPOSITORY / "node_modules" / "axe-core" / "axe.min.js"):
        if path is not None and path.is_file():
            return path.read_text("utf-8")
    return None


def require_axe() -> None:
    """Skip the test if axe-core is not installed."""
    if axe_source() is None:
        pytest.skip("axe-core is not installed: npm install axe-core, or set SNELLEN_AXE to its axe.min.js")


def check_accessibility(page: Any) -> None:
    """Fail on findings of axe-core that are serious or critical."""
    serious = [finding for finding in findings(page) if finding[1] in ("serious", "critical")]
    assert serious == []


def findings(page: Any) -> list[tuple[str, str, list[str]]]:
    """Return axe-core's findings: the rule, its impact, and the first three places."""
    source = axe_source()
    assert source is not None
    page.evaluate(source)
    result = page.evaluate("axe.run({resultTypes: ['violations'], preload: false})")
    return [
        (finding["id"], finding["impact"], [node["html"][:160] for node in finding["nodes"][:3]])
        for finding in result["violations"]
    ]
