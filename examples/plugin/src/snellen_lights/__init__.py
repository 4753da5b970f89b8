"""Example plug-in: a benchmark of traffic lights, and a model that reads pixels instead of using a network."""

from collections.abc import Iterator, Mapping
from io import BytesIO
from math import dist
from typing import Any

import PIL.Image
from PIL import ImageDraw

from snellen import Benchmark, Data, Image, Model, ModelOptions, Prompt, Response, Sample, Text
from snellen.media import open_image
from snellen.scoring import accuracy, choice
from snellen.sources.blobs import Drawn

COLOURS = {"red": (220, 40, 30), "yellow": (240, 200, 20), "green": (30, 170, 60)}
OPTIONS = dict(zip("ABC", COLOURS, strict=True))
QUESTION = "Which light is on?\nA. red\nB. yellow\nC. green\nAnswer with one letter."


def draw(colour: str, size: int) -> bytes:
    """Draw a traffic light of `size` x 3 `size` pixels with one lamp on, as PNG."""
    picture = PIL.Image.new("RGB", (size, 3 * size), (40, 40, 40))
    row = list(COLOURS).index(colour)
    ImageDraw.Draw(picture).ellipse((2, row * size + 2, size - 3, (row + 1) * size - 3), fill=COLOURS[colour])
    out = BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def samples(data: Data) -> Iterator[Sample]:
    for size in range(8, 28):
        for letter, colour in OPTIONS.items():
            image = Image(Drawn(f"lights/{colour}/{size}", lambda colour=colour, size=size: draw(colour, size)))
            prompt = Prompt((image, Text(QUESTION)))
            yield Sample(f"{colour}-{size}", prompt, letter, "choice", OPTIONS, meta={"colour": colour})


LIGHTS = Benchmark(
    name="lights",
    version="2",
    samples=samples,
    score={"strict": choice},
    summarize=accuracy("colour"),
    profiles={"strict": "the one colour that the reply names, by letter or word"},
    size=lambda data: 60,
    about={"description": "Which lamp of a traffic light is on? 60 drawn images."},
)


class Pixels(Model):
    """A model that answers with the colour nearest to the image's most saturated pixel."""

    def __init__(self, options: ModelOptions) -> None:
        self.name, self.media = "pixels", options.media

    def identity(self) -> Mapping[str, Any]:
        return {"kind": "pixels", "version": 1}

    async def answer(self, prompt: Prompt) -> Response:
        picture = open_image(next(part for part in prompt.parts if isinstance(part, Image)), self.media)
        vivid = max((rgb for _, rgb in picture.getcolors(10_000)), key=lambda rgb: max(rgb) - min(rgb))
        return Response(min(COLOURS, key=lambda name: dist(COLOURS[name], vivid)))


def open_model(name: str, options: ModelOptions) -> Pixels:
    return Pixels(options)
