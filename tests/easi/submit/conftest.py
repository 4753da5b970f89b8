"""Runs of the twelve drawn small, and the command as the shell calls it, in an empty folder with a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from benchmarks.spatial import official_drawn as drawn
from snellen import evaluate
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.cli import main
from snellen.easi import score
from snellen.models.base import Model
from snellen.types import Prompt, Response, Text

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUv"
ABOUT = ("--model-type", "instruction", "--precision", "bfloat16")


class Parrot(Model):
    """Says a letter or a number that depends on the question alone."""

    name = "local:org/parrot-2B"

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name}

    async def preflight(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        asked = "".join(part.text for part in prompt.parts if isinstance(part, Text))
        pick = sha256(asked.encode()).digest()[0] % 4
        return Response("3" if "number" in asked.lower() else "ABCD"[pick])

    async def close(self) -> None: ...


class Said(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of each of the twelve, of a few questions each."""
    root = tmp_path_factory.mktemp("easi")
    for name in TASKS:
        data = drawn.draw(name, root / "data")
        evaluate(name, Parrot(), data=data, out=root / "runs" / name)
    return root / "runs"


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sets that were drawn are all there is."""
    for name, task in list(TASKS.items()):
        monkeypatch.setitem(TASKS, name, structs.replace(task, rows=(drawn.count(name),)))  # type: ignore[arg-type]
    monkeypatch.setattr(score, "LEAST", {})


@pytest.fixture
def snellen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    def call(*words: object) -> Said:
        capsys.readouterr()
        status = main([str(word) for word in words])
        printed = capsys.readouterr()
        assert TOKEN not in printed.out + printed.err
        return Said(status, printed.out, printed.err)

    return call
