"""Runs of the twelve drawn small, and the command as the shell calls it, in an empty folder with a token."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from benchmarks.spatial import official_drawn as drawn
from easi.easi_stubs import Speaker
from snellen import evaluate
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.cli import main
from snellen.easi import score

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUv"
ABOUT = ("--model-type", "instruction", "--precision", "bfloat16")


def parrot(name: str = "local:org/parrot-2B") -> Speaker:
    """Says a letter or a number that depends on the question alone."""

    def says(question: str) -> str:
        return "3" if "number" in question.lower() else "ABCD"[sha256(question.encode()).digest()[0] % 4]

    return Speaker(says, name=name)


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
        evaluate(name, parrot(), data=data, out=root / "runs" / name)
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
