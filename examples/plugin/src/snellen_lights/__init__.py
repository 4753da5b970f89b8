"""A worked plug-in: a benchmark of traffic lights, and a model that reads pixels instead of using a network."""

from collections.abc import Iterator, Mapping
from io import BytesIO
from math import dist
from typing import Any

import PIL.Image
from PIL import ImageDraw

from snellen import Benchmark, Data, Image, Metric, Model, ModelOptions, Prompt, Response, Sample, Score, Scores, Text
from snellen.media import open_image
from snellen.scoring.statistics import mean
from snellen.sources.blobs import Drawn

COLOURS = {"red": (220, 40, 30), "yellow": (240, 200, 20), "green": (30, 170, 60)}
QUESTION = "Which light is on: red, yellow or green? Answer with one word."


def draw(colour: str, size: int) -> bytes:
    """A traffic light of `size` x 3 `size` pixels with one lamp on, as PNG."""
    picture = PIL.Image.new("RGB", (size, 3 * size), (40, 40, 40))
    row = list(COLOURS).index(colour)
    ImageDraw.Draw(picture).ellipse((2, row * size + 2, size - 3, (row + 1) * size - 3), fill=COLOURS[colour])
    out = BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def samples(data: Data) -> Iterator[Sample]:
    for size in range(8, 28):
        for colour in COLOURS:
            picture = Image(Drawn(f"lights/{colour}/{size}", lambda colour=colour, size=size: draw(colour, size)))
            prompt = Prompt((picture, Text(QUESTION)))
            yield Sample(f"{colour}-{size}", prompt, colour, "short", meta={"colour": colour})


def score(sample: Sample, reply: str) -> Score:
    word = reply.strip().lower().rstrip(".")
    if word not in COLOURS:
        return Score(0.0, None, "invalid", "not one of the three colours")
    return Score(1.0, word, "correct") if word == sample.target else Score(0.0, word, "wrong")


def summarize(scores: Scores, profile: str) -> list[Metric]:
    return [mean("accuracy", scores), *(mean(f"accuracy/{colour}", rows) for colour, rows in scores.by("colour"))]


LIGHTS = Benchmark(
    name="lights",
    version="1",
    samples=samples,
    score={"strict": score},
    summarize=summarize,
    profiles={"strict": "the reply is the colour's name and nothing else"},
    size=lambda data: 60,
    about={"description": "Which lamp of a traffic light is on? 60 drawn pictures."},
)


class Pixels(Model):
    """Answers with the colour that is nearest to the picture's most saturated one."""

    def __init__(self, options: ModelOptions) -> None:
        self.name, self.media = "pixels", options.media

    def identity(self) -> Mapping[str, Any]:
        return {"kind": "pixels", "version": 1}

    async def answer(self, prompt: Prompt) -> Response:
        picture = open_image(next(part for part in prompt.parts if isinstance(part, Image)), self.media)
        shown = max((rgb for _, rgb in picture.getcolors(10_000)), key=lambda rgb: max(rgb) - min(rgb))
        return Response(min(COLOURS, key=lambda name: dist(COLOURS[name], shown)))


def open_model(name: str, options: ModelOptions) -> Pixels:
    return Pixels(options)
