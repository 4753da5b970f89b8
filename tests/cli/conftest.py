"""Commands are called as the shell calls them: by their words, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from installed import lights, lights_folder
from snellen.cli import main

__all__ = ["lights", "lights_folder"]


class Said:
    """What a command printed, and its exit status."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err


@pytest.fixture
def snellen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lights: Path
) -> Callable[..., Said]:
    """`snellen("run", "lights", "-m", "pixels")` in a temporary folder, with the example plug-in installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def call(*words: object) -> Said:
        capsys.readouterr()
        status = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Said(status, printed.out, printed.err)

    return call
