"""A judge's key and an empty folder for each test, and a judge on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_server import JudgeServer

KEY = "key-of-the-judge"


@pytest.fixture(autouse=True)
def judge_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The judge's key is the only variable about judges and models."""
    for name in ("OPENAI_API_KEY", "JUDGE_BASE_URL", "JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(KEY) as running:
        yield running
