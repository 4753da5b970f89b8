"""A benchmark with images, aliases, evidence and hostile ids, and a model that gives every kind of answer."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

from PIL import Image as Pillow

from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import BadRequestError, RefusalError
from snellen.models.base import Model
from snellen.scoring.metrics import accuracy
from snellen.sources import BytesBlob
from snellen.types import Image, Prompt, Response, Sample, Score, Text, Turn, Usage


def picture(colour: str, kind: str = "PNG") -> bytes:
    content = BytesIO()
    Pillow.new("RGB", (30, 20), colour).save(content, kind)
    return content.getvalue()


PICTURES = {"plain": picture("red"), "a/b": picture("blue", "JPEG"), "../../etc/passwd": picture("green", "WEBP")}
IDS = [*PICTURES, "no picture", "C:/x", "tail\\..\\x", "ünï/ço dé", "x" * 300]
GOLD = ("phascolarctos", "koala", "ailuropoda", "round ears")
"""What no file without gold may hold, besides the option that the question names."""


def samples(data: Data) -> Iterator[Sample]:
    for number, name in enumerate(IDS):
        content = PICTURES.get(name, b"no picture")
        yield Sample(
            name,
            Prompt(
                (Image(BytesBlob(name, content)), Text(f"Which animal is on image {number}?")),
                system="Be brief.",
                history=(Turn("user", (Text("Which animal eats bamboo?"),)), Turn("assistant", (Text("Ailuropoda"),))),
            ),
            "Phascolarctos",
            "choice_text",
            {"A": "Phascolarctos", "B": "Vombatus", "C": "Macropus"},
            group=f"g{min(number, 6)}",
            meta={
                "aliases": ("koala",),
                "evidence": "the Phascolarctos has round ears",
                "zoo": "Brno",
                "number": number,
            },
        )


def strict(sample: Sample, reply: str) -> Score:
    correct = any(gold in reply.lower() for gold in ("phascolarctos", "koala"))
    return Score(float(correct), reply, "correct" if correct else "wrong", f"the target is {sample.target}")


def lenient(sample: Sample, reply: str) -> Score:
    return strict(sample, reply) if "?" not in reply else Score(0.5, reply, "partial")


ANIMALS = Benchmark(
    name="animals",
    version="1",
    samples=samples,
    score={"strict": strict, "lenient": lenient},
    summarize=lambda scores, profile: [accuracy(scores)],
    profiles={"strict": "by name", "lenient": "half a point for a question"},
)


class Zoologist(Model):
    """Gives each kind of answer in turn."""

    name = "zoologist"
    supports = frozenset({"system", "history"})

    def __init__(self) -> None:
        self.calls = 0

    async def answer(self, prompt: Prompt) -> Response:
        self.calls += 1
        if self.calls == 4:
            raise RefusalError("I will not say what a koala is")
        if self.calls == 5:
            raise BadRequestError("too long for Phascolarctos")
        usage = Usage(100, 20, reasoning_tokens=5, cached_tokens=60)
        replies = ["The Phascolarctos.", "Vombatus", "Macropus?"]
        text = replies[(self.calls - 1) % 3]
        return Response(text, usage, 0.5, "length" if self.calls == 2 else "stop", "I saw ears", "zoo-1")
