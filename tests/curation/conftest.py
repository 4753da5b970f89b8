"""Fifty candidates on disk, and headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import setting


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """candidates.jsonl, images/, pages/ and web/."""
    return setting.make(tmp_path_factory.mktemp("fifty"))


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Headless Chromium: the system's, else Playwright's own."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
    system = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
    with api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no Chromium could be started: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()
