"""The embedded model really sees: measured on drawings and scans that it has never met, and blind with grey pictures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from snellen import evaluate
from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.creatures import CHART
from snellen.models import embedded
from snellen.models.base import ModelOptions
from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics import wilson
from snellen.types import Generation, MediaSettings, Metric, Sample

SEED = 2  # the model card's figures are from seed 1, the default run's from seed 0
LEVELS = ("class", "genus", "species")
KINDS = ("short", "truth", "choice", "pair")
CELLS = {*(f"{kind}/{level}" for kind in KINDS for level in LEVELS), "count", "digits/short"}


def _measured(questions: int, blank: bool) -> dict[str, Metric]:
    async def ask() -> list[tuple[Sample, str]]:
        model = embedded.open_model("", ModelOptions(media=MediaSettings(blank=blank), device="cpu"))
        await model.preflight()
        room = asyncio.Semaphore(64)

        async def one(sample: Sample) -> tuple[Sample, str]:
            async with room:
                return sample, (await model.answer(sample.prompt)).text

        samples = CHART.samples(Data(seed=SEED, options={"questions": str(questions)}))
        try:
            return await asyncio.gather(*(one(sample) for sample in samples if sample.meta["cell"] in CELLS))
        finally:
            await model.close()

    table = ScoreBuilder()
    for sample, text in asyncio.run(ask()):
        table.add(sample, CHART.score["strict"](sample, text))
    return {metric.name.removeprefix("accuracy/"): metric for metric in CHART.summarize(table.build(), "strict")}


@pytest.fixture(scope="module")
def sighted():
    return _measured(200, blank=False)


@pytest.mark.parametrize(
    ("cell", "least"),
    [
        ("short/class", 0.95),
        ("short/species", 0.85),
        ("digits/short", 0.90),
        ("truth/class", 0.95),
        ("truth/genus", 0.75),
        ("choice/class", 0.85),
        ("choice/genus", 0.60),
        ("pair/class", 0.95),
        ("count", 0.75),
    ],
)
def test_the_embedded_model_sees(sighted, cell, least):
    assert sighted[cell].n == 200
    assert sighted[cell].value >= least


@pytest.mark.parametrize("kind", KINDS)
def test_accuracy_falls_from_class_to_species(sighted, kind):
    klass, genus, species = (sighted[f"{kind}/{level}"].value for level in LEVELS)
    assert klass >= genus - 0.01
    assert genus >= species - 0.01
    assert wilson(species, 200)[1] < klass


def test_with_grey_pictures_it_guesses_and_no_better():
    blind = _measured(100, blank=True)
    for name, metric in blind.items():
        low, high = wilson(metric.value, metric.n, 3.5)
        assert low <= metric.chance <= high, f"{name}: {metric.value} of {metric.n}, chance {metric.chance}"


def test_the_weights_are_small_fp16_and_safe():
    folder = embedded.path()
    weights = [path for path in Path(folder).iterdir() if path.suffix == ".safetensors"]
    assert sum(path.stat().st_size for path in weights) <= 8_000_000
    assert not [path for path in Path(folder).iterdir() if path.suffix in (".bin", ".pt", ".pth", ".pkl")]
    from safetensors import safe_open

    with safe_open(weights[0], framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}  # noqa: SIM118


def test_the_model_card_reports_every_figure_with_its_interval():
    card = (embedded.path() / "MODEL_CARD.md").read_text()
    rows = [line for line in card.splitlines() if line.startswith("|") and " to " in line]
    assert len(rows) >= 28
    for cell in CELLS:
        assert any(line.startswith(f"| {cell} | 400 |") for line in rows), cell
    assert "{{" not in card


def test_each_repeat_of_a_question_is_drawn_anew_where_answers_are_sampled(tmp_path):
    run = evaluate("chart", "embedded", out=tmp_path / "a", limit=12, repeats=3, generation=Generation(temperature=9.0))
    replies: dict[str, set[str]] = {}
    for record in run.folder.records():
        replies.setdefault(record.sample_id, set()).add(record.response.text)
    assert len(replies) == 12 and sum(len(texts) > 1 for texts in replies.values()) > 6
