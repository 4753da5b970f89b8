"""Drawn sets of choices with a planted leak each, and a model that sees, remembers or guesses, for the tests of the panel."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image as Pillow

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.run_folder import RunSpec
from snellen.media import encode
from snellen.models.base import Model, ModelOptions
from snellen.runs.leakage.panel import Panel, cells_of, chosen_conditions, measure, panel
from snellen.runs.run import Run
from snellen.scoring.scorers import accuracy, choice
from snellen.sources.blobs import Drawn, stored_png
from snellen.types import Image, Prompt, Response, Sample, Text

WORDS = (
    *("ant", "beetle", "cat", "dolphin", "eel", "falcon", "goat", "hedgehog"),
    *("ibis", "jackdaw", "koi", "lobster", "mole", "nightjar", "owl", "porcupine"),
)
Leak = Literal["", "name", "sent-name", "longest", "position"]
PLACES = ((4, 4), (4, 12), (12, 4), (12, 12))


def drawing(word: int) -> bytes:
    """A picture of 16 x 16 pixels whose quarters are black or white: the four bits of the word's number."""
    pixels = np.zeros((16, 16, 3), dtype=np.uint8)
    for bit in range(4):
        if word >> bit & 1:
            pixels[8 * (bit // 2) :, 8 * (bit % 2) :][:8, :8] = 255
    return stored_png(pixels)


def draw_set(seed: int, leak: Leak = "", questions: int = 80) -> Benchmark:
    """Choices among four words, one of them drawn; `leak` is what gives answers away."""

    def samples(data: Data) -> Iterator[Sample]:
        generator = random.Random(seed)
        for number in range(questions):
            words = generator.sample(range(16), 4)
            gold = words[0]
            if leak == "longest" and generator.random() < 0.7:
                gold = max(words, key=lambda word: len(WORDS[word]))
            generator.shuffle(words)
            if leak == "position" and generator.random() < 0.6:
                words.remove(gold)
                words.insert(2, gold)
            name = f"{number:04}_{WORDS[gold]}.png" if "name" in leak else f"{number:04}.png"
            shown = f" ({name})" if leak == "sent-name" else ""
            options = {letter: WORDS[word] for letter, word in zip("ABCD", words, strict=True)}
            lines = [f"Picture {seed}-{number}{shown}: what is it?", *(f"({k}) {text}" for k, text in options.items())]
            blob = Drawn(f"set-{seed}/{name}", partial(drawing, gold))
            prompt = Prompt((Image(blob), Text("\n".join([*lines, "Answer with the letter."]))))
            yield Sample(f"q{number}", prompt, "ABCD"[words.index(gold)], "choice", options)

    return Benchmark(
        f"drawn-{seed}{leak}",
        "1",
        samples,
        {"strict": choice},
        accuracy(),
        {"strict": "the letter"},
        digest=lambda data: f"{seed}{leak}",
    )


class Observer(Model):
    """Reads the picture as it is sent; without one it knows `known`, else it guesses by what the options say.

    Args:
        options: of the run; the picture is prepared by them.
        known: from the text to the word that it answers without a picture; None: it guesses.
        first: share of the questions whose first option is picked, whatever else.
    """

    name = "observer"

    def __init__(
        self,
        options: ModelOptions,
        known: Callable[[str, Sequence[str]], str | None] = lambda text, options: None,
        first: float = 0.0,
    ) -> None:
        self._media, self._known, self._first = options.media, known, first

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    async def answer(self, prompt: Prompt) -> Response:
        text = "\n".join(part.text for part in prompt.parts if isinstance(part, Text))
        options = re.findall(r"^\(?([A-D])[.)] (.+)$", text, re.MULTILINE)
        words = [word for _, word in options]
        seen = next((self._seen(part) for part in prompt.parts if isinstance(part, Image)), None)
        word = seen if seen in words else self._known(text, words)
        question = text.partition("\n")[0] if "what is it" in text else ""
        if word is None:
            word = min(words, key=lambda each: drawn(f"{question}{sorted(words)}{each}"))
        if drawn(f"first{question}{words}") < self._first:
            word = words[0]
        return Response(options[words.index(word)][0])

    def _seen(self, image: Image) -> str | None:
        pixels = np.array(Pillow.open(BytesIO(encode(image.blob, self._media).data)).convert("L"))
        bits = [int(pixels[place]) for place in PLACES]
        return None if 128 in bits else WORDS[sum((value > 128) << bit for bit, value in enumerate(bits))]


def drawn(text: str) -> float:
    """A number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64


def runs_of(
    benchmark: Benchmark,
    out: Path,
    opened: Callable[[ModelOptions], Model] = Observer,
    conditions: str | None = None,
    limit: int | None = None,
) -> dict[str, Run]:
    """The runs of a drawn set with a model, by condition."""
    spec = RunSpec(benchmark=benchmark.name, model="observer", limit=limit)
    return measure(cells_of(spec, benchmark, out, chosen_conditions(conditions, 3)), opened=opened)


def measured(
    benchmark: Benchmark,
    out: Path,
    opened: Callable[[ModelOptions], Model] = Observer,
    conditions: str | None = None,
    limit: int | None = None,
    others: Sequence[Path] = (),
) -> Panel:
    """The panel of a drawn set with a model."""
    runs = runs_of(benchmark, out, opened, conditions, limit)
    return panel(benchmark, Data(), runs, limit=limit, others=others)
