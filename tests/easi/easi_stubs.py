"""A model whose replies a test decides, and a judge behind an endpoint on loopback that reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from servers.oracle import OracleServer, SentQuestion
from snellen.easi import BenchmarkRow, Board, EasiSettings, plan, prepare, run, work
from snellen.easi.names import chosen
from snellen.errors import PreflightError
from snellen.models.base import Model, ModelOptions
from snellen.types import Prompt, Response, Text


class Speaker(Model):
    """Says `says(question)`; counts how often it was opened, loaded, asked and closed."""

    def __init__(self, says: Callable[[str], str], *, name: str = "speaker", refuses: bool = False) -> None:
        self.name = name
        self.opened = self.loads = self.asked = self.closes = 0
        self.batch_limit = 32
        self._says = says
        self._refuses = refuses

    def identity(self) -> Mapping[str, Any]:
        return {"kind": "speaker", "name": self.name}

    async def preflight(self) -> None:
        self.loads += 1
        if self._refuses:
            raise PreflightError("there is no such model", "Name another one.")

    async def answer(self, prompt: Prompt) -> Response:
        self.asked += 1
        return Response(self._says("\n".join(part.text for part in prompt.parts if isinstance(part, Text))))

    async def close(self) -> None:
        self.closes += 1


class Told:
    """A Watch that keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.states: list[tuple[str, str]] = []

    def said(self, text: str) -> None:
        self.texts.append(text)

    def changed(self, row: BenchmarkRow) -> None:
        self.states.append((row.name, row.state))

    def moved(self, row: BenchmarkRow) -> None: ...


def settings(data: Path, out: Path, benchmarks: str, **more: Any) -> EasiSettings:
    """What `snellen easi --model speaker:` would be made of."""
    return EasiSettings("speaker:one", ModelOptions(), chosen(benchmarks), out, data, {"sample-frames": "2"}, **more)


def done(monkeypatch: Any, model: Speaker, asked: EasiSettings) -> tuple[Board, Told]:
    """All phases with that model."""

    def opened(*_: Any) -> Speaker:
        model.opened += 1
        return model

    monkeypatch.setattr(run, "open_scattered", opened)
    board, told = plan(asked), Told()
    prepare(asked, board, told)
    work(asked, board, told)
    return board, told


class GradingServer(OracleServer):
    """A judge that grades by `grades(reply)`, or names the extracted option; `asked` holds every question to it."""

    def __init__(self, grades: Callable[[str], dict[str, str] | str]) -> None:
        def graded(question: SentQuestion) -> str:
            said = grades(question.text.rpartition("<<<REPLY")[2])
            if isinstance(said, dict) and "Answer with one letter" in question.text:
                return said["extracted"] or "Z"
            return said if isinstance(said, str) else json.dumps(said)

        super().__init__(graded, "grader")

    @property
    def asked(self) -> list[SentQuestion]:
        return self.requests
