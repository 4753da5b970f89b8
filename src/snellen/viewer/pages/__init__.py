"""The pages, in the order of the navigation. `snellen.viewer` says how to add one."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from snellen.viewer.site import Page

NAMES = ("runs", "matrix", "samples", "case", "exchange", "compare", "review")


@cache
def load_pages() -> dict[str, Page]:
    """Import every page, by its name."""
    modules = [f"{__name__}.{name}" for name in NAMES]
    pages = [import_module(module).PAGE for module in modules if find_spec(module) is not None]
    return {page.name: page for page in pages}
