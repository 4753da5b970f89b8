"""`snellen run --cache`: hits are said where people look, and nothing that differs in the least is a hit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from servers import fast

pytestmark = pytest.mark.installed

ROWS = 3


class CachedRuns:
    """Runs of one small table of multiple-choice questions with pictures; what the table holds may be changed."""

    def __init__(self, snellen: Callable[..., Any], stub: fast.Running) -> None:
        self._snellen, self._stub = snellen, stub
        self._runs = 0
        self.options = ["robin", "wren"]
        self.colour = "red"

    def __call__(self, *words: str, model: str = f"api:{fast.MODEL}") -> tuple[Any, Path, int]:
        """Run once; return what was printed, the folder, and how many questions the server got."""
        rows = [
            {"id": str(number), "image": f"{number}.png", "question": "Which bird?", "answer": "A"}
            | dict(zip("AB", self.options, strict=True))
            for number in range(ROWS)
        ]
        Path("birds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for number in range(ROWS):
            Image.new("RGB", (8 + number, 8), self.colour).save(f"{number}.png")
        self._runs += 1
        folder = Path(f"run-{self._runs}")
        before = self._stub.stats()["served"]
        end = self._snellen(
            *("run", "birds.jsonl", "-m", model, "--base-url", self._stub.url, "--cache", "kept", "--out", folder),
            *words,
        )
        assert end.status == 0, end.err
        return end, folder, int(self._stub.stats()["served"]) - before


@pytest.fixture
def runs(snellen: Callable[..., Any], stub: fast.Running) -> CachedRuns:
    return CachedRuns(snellen, stub)


def test_hits_are_said_in_the_last_line_the_record_and_the_report(
    runs: CachedRuns, snellen: Callable[..., Any]
) -> None:
    first, _, sent = runs()
    assert sent == ROWS and "from --cache" not in first.out + first.err
    again, folder, sent = runs()
    assert sent == 0 and f"{ROWS} of them from --cache" in again.out + again.err
    assert json.loads((folder / "run_meta.json").read_text())["totals"]["cached"] == ROWS
    entries = {path.stem for path in Path("kept").rglob("*.json")}
    for line in (folder / "results.jsonl").read_text().splitlines():
        record = json.loads(line)
        name = record["response"]["cached_answer"]
        assert record["attempts"] == 0 and sum(entry.startswith(name) for entry in entries) == 1
    assert snellen("report", folder, "--out", "page.html").status == 0
    assert f"{ROWS} answers" in Path("page.html").read_text()


def test_another_model_system_text_option_or_picture_is_never_a_hit(runs: CachedRuns) -> None:
    runs()
    assert runs(model=f"api:{fast.OTHER_MODEL}")[2] == ROWS
    assert runs("--system", "Be brief.")[2] == ROWS
    assert runs("--temperature", "0.5")[2] == ROWS
    runs.options = ["robin", "owl"]
    assert runs()[2] == ROWS
    runs.options, runs.colour = ["robin", "wren"], "blue"
    assert runs()[2] == ROWS
    runs.colour = "red"
    assert runs()[2] == 0, "the first request again"


def test_a_damaged_entry_is_named_and_asked_again(runs: CachedRuns) -> None:
    runs()
    damaged = sorted(Path("kept").rglob("*.json"))[0]
    damaged.write_bytes(damaged.read_bytes().replace(b"stop", b"stap"))
    end, folder, sent = runs()
    assert sent == 1 and damaged.name in end.err
    assert json.loads((folder / "run_meta.json").read_text())["totals"]["cached"] == ROWS - 1
    assert runs()[2] == 0, "the entry was replaced"
