"""Orders by confidence: the probability of the option that was read from a reply, on the samples page and in the index."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import snellen
from snellen.models.base import Model
from snellen.types import Prompt, Response, Text, TokenLogprob
from snellen.viewer.index import SampleQuery, ViewIndex, open_index
from snellen.viewer.links import LiveLinks
from snellen.viewer.pages.samples import view
from snellen.viewer.site import Site, ViewSettings
from snellen.viewer.states import SamplesState

FIRST = (0.55, 0.95, None, 0.75, 0.35, 0.85)
SECOND = (0.60, None, None, 0.10, 0.90, 0.85)


class GradedModel(Model):
    """Answers A with a probability for each question; None: without probabilities."""

    supports = frozenset({"logprobs"})

    def __init__(self, name: str, probabilities: tuple[float | None, ...]) -> None:
        self.name, self._probabilities = name, probabilities

    async def answer(self, prompt: Prompt) -> Response:
        part = prompt.parts[-1]
        assert isinstance(part, Text)
        probability = self._probabilities[int(part.text.split()[0])]
        if probability is None:
            return Response("A")
        pairs = (("A", math.log(probability)), ("B", math.log(1 - probability)))
        return Response("A", logprobs=(TokenLogprob("A", pairs[0][1], pairs),))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over six questions; the answer to questions 0 to 2 is A."""
    root = tmp_path_factory.mktemp("confidence")
    rows = [
        {"id": f"q{number}", "question": f"{number} is what?", "A": "x", "B": "y", "answer": "A" if number < 3 else "B"}
        for number in range(len(FIRST))
    ]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, probabilities in (("first", FIRST), ("second", SECOND)):
        snellen.evaluate(str(root / "rows.jsonl"), GradedModel(name, probabilities), out=root / "runs" / name)
    return root / "runs"


def order(
    index: ViewIndex, sort: str, runs: tuple[str, ...], pattern: str = "", *, descending: bool = True
) -> list[str]:
    (benchmark,) = {entry.benchmark for entry in index.runs()}
    query = SampleQuery(benchmark, runs, sort=sort, pattern=pattern, descending=descending)  # type: ignore[arg-type]
    return [row.sample_id for row in index.samples(query).rows]


def test_samples_are_ordered_by_confidence_and_those_without_come_last(results: Path) -> None:
    index = open_index(results)
    index.refresh()
    assert order(index, "confident", ("first",)) == ["q1", "q5", "q3", "q0", "q4", "q2"]
    assert order(index, "unsure", ("first",)) == ["q4", "q0", "q3", "q5", "q1", "q2"]
    assert order(index, "confident", ("first",), "all wrong") == ["q5", "q3", "q4"]


def test_of_several_runs_the_mean_confidence_counts(results: Path) -> None:
    index = open_index(results)
    index.refresh()
    runs = ("first", "second")  # means: 0.575, 0.95, none, 0.425, 0.625, 0.85
    assert order(index, "confident", runs) == ["q1", "q5", "q4", "q0", "q3", "q2"]
    assert order(index, "unsure", runs) == ["q3", "q0", "q4", "q5", "q1", "q2"]


def test_the_samples_page_offers_the_orders_where_there_are_probabilities(results: Path, tmp_path: Path) -> None:
    for place, there in ((results, True), (tmp_path / "runs", False)):
        if not there:
            plain = GradedModel("plain", (None,) * len(FIRST))
            snellen.evaluate(str(results.parent / "rows.jsonl"), plain, out=place / "plain")
        index = open_index(place)
        index.refresh()
        (benchmark,) = {entry.benchmark for entry in index.runs()}
        page = view(Site(ViewSettings(place), LiveLinks(), index), SamplesState(benchmark=benchmark))
        assert ("confident" in dict(page["sorts"])) == ("unsure" in dict(page["sorts"])) == there
        assert "wrong" in dict(page["sorts"])
