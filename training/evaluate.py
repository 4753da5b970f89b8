"""Measure a trained model on drawings and scans that it has never seen, and write its model card.

    python training/evaluate.py FOLDER [QUESTIONS]

Asks QUESTIONS (default 400) of each kind through the same path as `snellen run`, once with the pictures and once with
grey ones instead (the blind control), and writes FOLDER/MODEL_CARD.md. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import language
import train

from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.creatures import CHART
from snellen.models.base import ModelOptions
from snellen.models.local.model import open_model
from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics import wilson
from snellen.types import Generation, MediaSettings, Metric, Sample

SEED = 1
TARGETS = {
    "short/class": 0.95,
    "short/species": 0.85,
    "digits/short": 0.90,
    "truth/class": 0.95,
    "truth/genus": 0.75,
    "choice/class": 0.85,
    "choice/genus": 0.60,
    "pair/class": 0.95,
    "count": 0.75,
}
CARD = Path(__file__).with_name("card.md")


async def measured(folder: Path, questions: int, blank: bool) -> dict[str, Metric]:
    """Metrics of the chart by name, under the profile `strict`."""
    options = ModelOptions(
        generation=Generation(max_tokens=16), media=MediaSettings(blank=blank), dtype="float32", device="cpu"
    )
    model = open_model(str(folder), options)
    await model.preflight()
    room = asyncio.Semaphore(128)

    async def answered(sample: Sample) -> tuple[Sample, str]:
        async with room:
            return sample, (await model.answer(sample.prompt)).text

    samples = CHART.samples(Data(seed=SEED, options={"questions": str(questions)}))
    table = ScoreBuilder()
    for sample, text in await asyncio.gather(*(answered(sample) for sample in samples)):
        table.add(sample, CHART.score["strict"](sample, text))
    await model.close()
    return {metric.name.removeprefix("accuracy/"): metric for metric in CHART.summarize(table.build(), "strict")}


def row(name: str, seen: Metric, blind: Metric) -> str:
    """One line of the card's table."""

    def figure(metric: Metric) -> str:
        low, high = wilson(metric.value or 0.0, metric.n)
        return f"{metric.value:.3f} ({low:.3f} to {high:.3f})"

    target = f"{TARGETS[name]:.2f}" if name in TARGETS else ""
    return f"| {name} | {seen.n} | {figure(seen)} | {target} | {seen.chance:.3f} | {figure(blind)} |"


def failures(seen: dict[str, Metric], blind: dict[str, Metric]) -> list[str]:
    """What the model must do and does not: targets, the fall from class to species, chance for the blind."""
    out = [f"{name}: {seen[name].value:.3f} < {least}" for name, least in TARGETS.items() if seen[name].value < least]
    for kind in ("short", "truth", "choice", "pair"):
        first, middle, last = (seen[f"{kind}/{level}"] for level in ("class", "genus", "species"))
        if not (first.value >= middle.value >= last.value and wilson(last.value, last.n)[1] < first.value):
            out.append(f"{kind}: no fall from class to species: {first.value}, {middle.value}, {last.value}")
    for name, metric in blind.items():
        low, high = wilson(metric.value, metric.n, 3.3)
        if not low <= metric.chance <= high:
            out.append(f"{name}: blind {metric.value:.3f}, chance {metric.chance:.3f}")
    return out


def main() -> int:
    """Measure, print, write the card."""
    folder = Path(sys.argv[1])
    questions = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    seen = asyncio.run(measured(folder, questions, blank=False))
    blind = asyncio.run(measured(folder, questions, blank=True))
    lines = [
        "| figure | n | accuracy (95 % interval) | target | chance | blind control |",
        "|---|---|---|---|---|---|",
        *(row(name, metric, blind[name]) for name, metric in seen.items()),
    ]
    print("\n".join(lines))
    missed = failures(seen, blind)
    print("\n".join(missed) or "every target is met")
    facts = {
        "figures": "\n".join(lines),
        "seed": SEED,
        "train_seed": train.SEED,
        "vision_steps": f"{train.VISION_STEPS:,}",
        "vision_batch": train.VISION_BATCH,
        "language_steps": f"{train.LANGUAGE_STEPS:,}",
        "guessing_steps": f"{train.GUESSING_STEPS:,}",
        "questions_trained": f"{2 * language.questions(train.LANGUAGE_STEPS) / 1e6:.1f}",
    }
    card = CARD.read_text()
    for name, fact in facts.items():
        card = card.replace("{{" + name + "}}", str(fact))
    (folder / "MODEL_CARD.md").write_text(card)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
