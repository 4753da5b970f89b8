"""A page in a real browser whose every message, error and request of the network fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def opened(browser: Any, address: str, script: str = "", **settings: Any) -> Iterator[Any]:
    """Open a page of 1280 x 900 pixels, unless `settings` say otherwise, after running `script` in it."""
    usual = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    context = browser.new_context(**{**usual, **settings})
    page, noise, requests = context.new_page(), [], []
    page.on("console", lambda message: noise.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: noise.append(f"error: {error}"))
    page.on("request", lambda request: requests.append(request.url))
    if script:
        page.add_init_script(script)
    try:
        page.goto(address)
        yield page
    finally:
        context.close()
    assert noise == []
    own = address.partition("#")[0]
    assert [url for url in requests if not url.startswith(("data:", "blob:")) and url.partition("#")[0] != own] == []
