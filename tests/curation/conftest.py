"""Fifty candidates on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
import setting


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """candidates.jsonl, images/, pages/ and web/."""
    return setting.make(tmp_path_factory.mktemp("fifty"))
