"""A page in a real browser whose every message, error and request of the network fails the test; what its buttons copy and save."""

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


def copied(page: Any, button: Any) -> str:
    """Press a button with the keyboard, and paste what it copied into the field for searching."""
    button.focus()
    page.keyboard.press("Enter")
    # Both buttons of a table tell in one place: a word of the other format may still stand there. It is looked for in the
    # page, at every frame, since it goes after four seconds.
    place = button.locator("xpath=../output").element_handle()
    wanted = f"{button.inner_text().removeprefix('Copy as ')} copied"
    page.wait_for_function("([place, wanted]) => place.value === wanted", arg=[place, wanted])
    page.evaluate(
        "document.body.prepend(Object.assign(document.createElement('textarea'), { id: 'paste', className: 'search' }))"
    )
    page.focus("#paste")
    page.keyboard.press("Control+V")
    text = page.input_value("#paste")
    page.evaluate("document.getElementById('paste').remove()")
    return text.replace("\r\n", "\n")


def saved(page: Any, button: Any, file: str) -> Any:
    """Return the download of a file that Enter on a button starts.

    A busy browser drops a download now and then, so the key is pressed again. One that comes late is not taken for another.
    """
    from playwright.sync_api import TimeoutError as TooLateError

    for _ in range(16):
        button.focus()
        try:
            with page.expect_download(lambda began: began.suggested_filename == file, timeout=15_000) as download:
                page.keyboard.press("Enter")
        except TooLateError:
            continue
        return download.value
    raise AssertionError("no download began")
