"""The built site in a browser: each page fits its window in both themes, axe-core finds nothing, and the search answers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from pages import DOCS

from viewer.browser_checks import check_width, findings, opened, require_axe

pytestmark = pytest.mark.browser
SHAPES = ((420, "light"), (1440, "dark"))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site, on loopback."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(DOCS.parent / "mkdocs.yml"), site_dir=str(folder), strict=True))
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: shape[1])
def page(browser: Any, site: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """One tab for all pages: the theme's scripts stay in its cache. The theme is chosen when a page opens."""
    width, theme = request.param
    with opened(browser, f"{site}/index.html", width=width, theme=theme) as tab:
        yield tab


@pytest.mark.parametrize("name", sorted(page.stem for page in Path(DOCS).glob("*.md")))
def test_a_page_fits_its_window_and_axe_finds_nothing(page, site, name):
    require_axe()
    page.goto(f"{site}/{name}.html")
    check_width(page)
    assert findings(page) == []


def test_the_search_finds_a_page_by_its_words(browser, site):
    with opened(browser, f"{site}/index.html") as page:
        page.get_by_role("textbox", name="Search").click()
        page.keyboard.type("smallest detectable")
        page.locator(".md-search-result__item").first.wait_for()
        assert "detectable" in page.locator(".md-search-result__item").first.inner_text()
