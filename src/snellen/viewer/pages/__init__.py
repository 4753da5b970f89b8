"""The pages, in the order of the navigation. `snellen.viewer` says how to add one."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from snellen.viewer.site import ViewPage

NAMES = ("runs", "matrix", "samples", "case", "exchange", "compare", "acuity", "review")


@cache
def load_pages() -> dict[str, ViewPage]:
    """Import every page, by its name."""
    return {name: import_module(f"{__name__}.{name}").PAGE for name in NAMES}
