"""A table of questions about pictures, a pool beside it, and a model that notes what it is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image as Picture

from snellen.models.base import Model
from snellen.types import Prompt, Response


class NotingModel(Model):
    """Answers A, and notes every prompt."""

    supports = frozenset({"system", "history"})

    def __init__(self, reply: str = "A") -> None:
        self.prompts: list[Prompt] = []
        self._reply = reply

    async def answer(self, prompt: Prompt) -> Response:
        self.prompts.append(prompt)
        return Response(self._reply)


Row = dict[str, object]


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Write rows as JSON lines, with a picture of one colour for each that names one."""

    def write(name: str, rows: list[Row]) -> Path:
        for row in rows:
            if "image" in row and not (tmp_path / str(row["image"])).exists():
                number = sum(str(row["image"]).encode())
                Picture.new("RGB", (6, 6), (number % 256, number // 7 % 256, len(str(row["image"])))).save(
                    tmp_path / str(row["image"])
                )
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def row(name: str, image: str, answer: str = "A", question: str = "What is this?") -> Row:
    return {"id": name, "image": image, "question": question, "A": "cat", "B": "dog", "answer": answer}


@pytest.fixture
def tested(table: Callable[..., Path]) -> Path:
    return table("tested.jsonl", [row(f"t{number}", f"t{number}.png", "AB"[number % 2]) for number in range(6)])


@pytest.fixture
def pool(table: Callable[..., Path]) -> Path:
    return table("pool.jsonl", [row(f"p{number}", f"pool-{number}.png", "AB"[number % 2]) for number in range(10)])
