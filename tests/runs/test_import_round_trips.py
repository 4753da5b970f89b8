"""A run that is exported in another harness's form and imported again has the same figures under every profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import snellen
from engine.stubs import ARITHMETIC, Calculator
from snellen.benchmarks import registry
from snellen.errors import RefusalError, UsageError
from snellen.models.base import Model
from snellen.types import Prompt, Response

HARNESSES = ["jsonl", "lmms-eval", "vlmevalkit"]


class Uneven(Model):
    """Answers every kind of thing: right and wrong, nothing, a refusal, a failure, and texts that tables change."""

    name = "uneven"

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, prompt: Prompt) -> Response:
        self.asked += 1
        replies = ("A", "Yes.", "", " 3 \n", "=1+2", "no, B", "2", '(C) because\nof "it", too', "\u200bD", "0.5 m")
        if self.asked % 17 == 0:
            raise RefusalError("not this one")
        return Response(replies[self.asked % len(replies)])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:ARITHMETIC")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer_files(run: snellen.Run, form: str, out: str) -> list[Path]:
    """The files with the answers, without those of figures and matches."""
    files = snellen.export(run, form, out=out).files
    return [path for path in files if path.suffix in (".jsonl", ".xlsx") and "match" not in path.name]


def figures(run: snellen.Run) -> dict[str, Any]:
    return run.figures("all")


@pytest.mark.parametrize("form", HARNESSES)
@pytest.mark.parametrize("benchmark", ["chart", "chart/creatures", "chart/digits"])
def test_the_chart_comes_back_from_every_form(benchmark, form):
    pytest.importorskip("openpyxl", reason="needs the extra `excel`")
    run = snellen.evaluate(benchmark, Uneven(), out="first", limit=230, concurrency=1)
    (file,) = answer_files(run, form, "exported")
    again = snellen.import_run(file, benchmark, out="again")
    assert figures(again) == figures(run)
    assert again.meta.totals.refused + again.meta.totals.ok == run.meta.totals.ok + run.meta.totals.refused


@pytest.mark.parametrize("form", ["jsonl", "lmms-eval"])
def test_repeats_come_back(form):
    run = snellen.evaluate(ARITHMETIC, Calculator(), out="first", repeats=3)
    (file,) = answer_files(run, form, "exported")
    again = snellen.import_run(file, "arithmetic", out="again")
    assert again.meta.spec.repeats == 3 and figures(again) == figures(run)


def test_the_gold_answers_of_a_restricted_benchmark_are_in_no_harness_export(monkeypatch):
    from dataclasses import replace

    run = snellen.evaluate(replace(ARITHMETIC, restricted=True), Calculator(), out="first", limit=5)
    for form in ("lmms-eval", "vlmevalkit"):
        with pytest.raises(UsageError, match="restricted"):
            snellen.export(run, form)
