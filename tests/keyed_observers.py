"""Observers of acuity that know a picture's level and answer from its key: fast, and for every attribute."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from snellen.benchmarks.acuity import ACUITY
from snellen.benchmarks.acuity.conditions import plan
from snellen.benchmarks.acuity.questions import place_of, question
from snellen.benchmarks.base import Data
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import Model, ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.scoring.psychometrics.curve import EQUAL_PAIR, seen
from snellen.types import MediaSettings, Prompt, Response, Sample, Usage, Video


class KeyedObserver(Model):
    """Sees by a logistic curve, with a known share of the range of every condition.

    Args:
        data: of the run.
        sees: share of the range that is seen, by condition's name; other conditions have a share that follows from it.
        bias: share of guesses that are the first letter.
        dip: (condition, level in its unit): within .08 decades of it nothing is seen.
        width: decades from 5 to 95 % seen.
        reasons: reasoning tokens are reported, more of them near the threshold.
    """

    name = "keyed-observer"

    def __init__(
        self,
        data: Data,
        sees: Mapping[str, float] | None = None,
        *,
        bias: float = 0.0,
        dip: tuple[str, float] | None = None,
        width: float = 0.35,
        reasons: bool = False,
        skill: float = 0.0,
    ) -> None:
        self.data, self.sees, self.bias, self.dip = data, dict(sees or {}), bias, dip
        self.width, self.reasons, self.skill = width, reasons, skill
        self.conditions = {condition.key: condition for condition in plan(data.options).conditions}

    def threshold(self, key: str) -> float:
        """The level in decades that is seen half of the time."""
        condition = self.conditions[key]
        levels = condition.attribute.levels
        digest = int.from_bytes(blake2b(condition.name.encode(), digest_size=4).digest(), "little") / 2**32
        share = self.sees.get(condition.name, 0.35 + 0.4 * digest + self.skill)
        return levels[-1] - share * (levels[-1] - levels[0])

    @staticmethod
    def sample_id(prompt: Prompt) -> str:
        """Return the question's id, which its picture's key has."""
        first = prompt.parts[0]
        blob = (first.frames[0] if isinstance(first, Video) else first).blob  # type: ignore[union-attr]
        return str(blob.key).split("/", 2)[2].rpartition("/")[0]

    async def answer(self, prompt: Prompt) -> Response:
        return self.reply(question(self.data, self.sample_id(prompt)))

    def reply(self, sample: Sample) -> Response:
        """Return the observer's answer to a question."""
        sample_id = sample.id
        place = place_of(sample_id)
        condition = self.conditions[place.key]
        draw = int.from_bytes(blake2b(f"{sample_id} {self.skill}".encode(), digest_size=24).digest(), "little")
        luck = [(draw >> (48 * part) & (2**48 - 1)) / 2**48 for part in range(3)]
        distance = (place.level - self.threshold(place.key)) / self.width if place.level != EQUAL_PAIR else -9.0
        sees = 0.98 * float(seen("logistic", np.array(distance)))
        if self.dip and condition.name == self.dip[0] and abs(place.level - condition.attribute.level(self.dip[1])) < 0.08:  # fmt: skip
            sees = 0.0
        usage = Usage(200, 3, round(40 + 400 * np.exp(-distance * distance))) if self.reasons else Usage(200, 3)
        if condition.attribute.form == "same-different":
            alarm = luck[0] < max(sees, 0.12)
            wanted = "different" if alarm else "same"
            letter = next(letter for letter, text in sample.options.items() if wanted in text.lower())
            return Response(letter, usage)
        if luck[0] < sees:
            return Response(str(sample.target), usage)
        if not sample.options:
            return Response("7" if sample.kind == "count" else "K D H R Z", usage)
        letters = list(sample.options)
        return Response("A" if luck[1] < self.bias else letters[int(luck[2] * len(letters))], usage)


def observed_run(
    folder: Any, observer: KeyedObserver, *, media: MediaSettings = MediaSettings(), **options: Any
) -> Run:
    """Measure an observer with the engine."""
    spec = RunSpec(
        benchmark="acuity",
        model=observer.name,
        data=observer.data,
        options=ModelOptions(concurrency=64, media=media),
        **options,
    )
    return perform(spec, RunFolder(folder), benchmark=ACUITY, model=observer, backoff=Backoff(base_s=0.001))
