"""Costs of answers that came by batch: the price of a batch, in every place that computes or shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import snellen
from engine.stubs import ARITHMETIC
from snellen.benchmarks import registry
from snellen.cli import main
from snellen.models.api.prices import find_price
from snellen.models.base import Model
from snellen.runs.costs import recorded
from snellen.types import Prompt, Response, Usage

QUESTIONS = 4
USAGE = (1_000_000, 100_000)
"""Input and output tokens of each answer."""


class BatchedModel(Model):
    """Answers as if the first half came by batch and the second by requests of their own, at the prices of the table."""

    name = "openai:gpt-5-mini"

    def __init__(self) -> None:
        known = find_price("openai", "gpt-5-mini")
        assert known is not None and known.price.batch == 0.5
        self.price = known.price
        self._calls = 0

    def identity(self) -> Mapping[str, Any]:
        return {"kind": "openai", "base_url": "https://api.openai.com/v1"}

    async def answer(self, prompt: Prompt) -> Response:
        self._calls += 1
        batch = self._calls <= QUESTIONS // 2
        usage = Usage(*USAGE, cost=self.price.cost(*USAGE, batch=batch))
        return Response("0", usage, batch="batch_1" if batch else "")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> snellen.Run:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", "engine.stubs:ARITHMETIC")
    monkeypatch.chdir(tmp_path)
    return snellen.evaluate(ARITHMETIC, BatchedModel(), out="run", concurrency=1, limit=QUESTIONS)


def test_batched_answers_cost_half_wherever_a_cost_is_shown(run, capsys):
    full = BatchedModel().price.cost(*USAGE)
    paid = 1.5 * QUESTIONS / 2 * full
    assert run.meta.totals.cost == pytest.approx(paid)
    # A user's file of the same prices without a word on batches, and one that has its own share.
    prices = BatchedModel().price
    rows = {"input": prices.input, "output": prices.output}
    for name, share, expected in (("plain", {}, paid), ("own", {"batch": 0.25}, 1.25 * QUESTIONS / 2 * full)):
        Path(f"{name}.json").write_text(json.dumps({"gpt-5-mini": {**rows, **share}}))
        assert recorded(run.folder, f"{name}.json").dollars == pytest.approx(expected)
        assert main(["score", "run", "--prices", f"{name}.json"]) == 0
        assert f"cost ${expected:.4f}" in "".join(capsys.readouterr())
        assert main(["report", "run", "--prices", f"{name}.json", "--out", f"{name}.html"]) == 0
        assert f"${expected:.4f}" in Path(f"{name}.html").read_text()
    assert main(["query", "SELECT cost FROM runs", "run", "--csv"]) == 0
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(paid)
    snellen.evaluate(ARITHMETIC, BatchedModel(), out="other", concurrency=1, limit=QUESTIONS)
    capsys.readouterr()
    assert main(["compare", "run", "other"]) == 0
    assert f"{paid:.4g}" in "".join(capsys.readouterr())
