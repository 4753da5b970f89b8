"""Costs: the estimate for a run, made without a request, and the cost of a finished run from its recorded usage."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from snellen.benchmarks.base import Benchmark
from snellen.engine.final_records import final_records
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import SnellenError, UsageError
from snellen.media.decode import fitted
from snellen.media.image_headers import read_header
from snellen.models.api.prices import Price, load_price
from snellen.models.base import effective
from snellen.types import Generation, Image, MediaSettings, Sample, Text, Video

CHARACTERS = 4
"""Characters of English text in a token, roughly."""
PIXELS = 750
"""Pixels of an image in a token, roughly; models differ by a factor of about three."""
UNKNOWN_IMAGE = 1000
"""Tokens of an image whose size is unknown, and of a frame of a video."""


class Estimate(Struct, frozen=True):
    """Estimate for one benchmark and model, before any request.

    Attributes:
        benchmark, model, folder: of the run.
        questions: requests in all, repeats included.
        answered: of these, how many the run's folder has an answer to.
        images, videos: in the prompts of the questions that are left.
        input_tokens: estimated, of the questions that are left.
        output_tokens: at most, where replies are limited; None where they are not.
        cost: in US dollars, with every reply at its limit, or without any output where there is no limit; None without a
            price.
        unreadable: questions whose images cannot be read.
        grows: further questions follow from the answers, and are not counted.
    """

    benchmark: str
    model: str
    folder: str
    questions: int
    answered: int
    images: int
    videos: int
    input_tokens: int
    output_tokens: int | None
    cost: float | None
    unreadable: int
    grows: bool = False


class Cost(Struct, frozen=True):
    """Cost of recorded answers: US dollars and number of answers; `without` have no recorded usage."""

    dollars: float
    answers: int
    without: int


ImageSize: TypeAlias = Callable[[Image], tuple[tuple[int, int] | None, bool]]
"""Returns the pixels of an image, None where they are unknown; and whether it can be read."""


def image_size(image: Image) -> tuple[tuple[int, int] | None, bool]:
    """Read the header of an image; see ImageSize."""
    if getattr(image.blob, "url", None):
        return None, True
    try:
        header = read_header(image.blob.read())
    except SnellenError:
        return None, False
    return (None, True) if header is None else (header.upright_size, True)


class PromptTotals:
    """Totals over prompts before they are sent: images, videos, and estimated tokens.

    Args:
        generation, media: settings of the model.
        size: reads the size of an image.

    Attributes:
        images, videos, input_tokens: of all requests.
        output_tokens: at most, where replies are limited; None where they are not.
        unreadable: samples with an image that cannot be read.
    """

    def __init__(self, generation: Generation, media: MediaSettings, size: ImageSize = image_size) -> None:
        self._generation, self._media, self._image_size = generation, media, size
        self.images = self.videos = self.input_tokens = self.unreadable = 0
        self.output_tokens: int | None = 0

    def add(self, sample: Sample, requests: int = 1) -> None:
        """Add a sample that is sent this many times."""
        characters, tokens, readable = len(sample.prompt.system), 0, True
        for part in sample.prompt.parts:
            if isinstance(part, Text):
                characters += len(part.text)
            elif isinstance(part, Video):
                tokens += UNKNOWN_IMAGE * self._media.frames
                self.videos += requests
            else:
                size, can_read = self._image_size(part)
                readable &= can_read
                tokens += UNKNOWN_IMAGE if size is None else _pixel_tokens(fitted(*size, self._media))
                self.images += requests
        self.input_tokens += requests * (tokens + -(-characters // CHARACTERS))
        self.unreadable += not readable
        limit = effective(self._generation, sample.prompt.generation).max_tokens
        if limit is None or self.output_tokens is None:
            self.output_tokens = None
        else:
            self.output_tokens += requests * limit

    def cost(self, price: Price | None) -> float | None:
        """Return US dollars with every reply at its limit, or without output where there is no limit; None without a price."""
        return None if price is None else price.cost(self.input_tokens, self.output_tokens or 0)


def _pixel_tokens(size: tuple[int, int]) -> int:
    return -(-size[0] * size[1] // PIXELS)


def estimated(spec: RunSpec, benchmark: Benchmark, folder: RunFolder) -> Estimate:
    """Estimate a run: make its prompts, read the headers of its images, send nothing.

    Raises:
        SnellenError: the data cannot be read, or the price file has no price for the model.
    """
    price = None if spec.options.prices is None else load_price(spec.options.prices, priced_name(spec.model))
    done = _answered(folder)
    questions = answered = 0
    totals = PromptTotals(spec.options.generation, spec.options.media)
    for sample in itertools.islice(benchmark.samples(spec.data), spec.limit):
        unanswered = sum((sample.id, repeat) not in done for repeat in range(spec.repeats))
        questions += spec.repeats
        answered += spec.repeats - unanswered
        if unanswered:
            totals.add(sample, unanswered)
    return Estimate(
        benchmark.name,
        spec.model,
        str(folder.path),
        questions,
        answered,
        totals.images,
        totals.videos,
        totals.input_tokens,
        totals.output_tokens,
        totals.cost(price),
        totals.unreadable,
        benchmark.grow is not None,
    )


def recorded(folder: RunFolder, prices: str | Path) -> Cost:
    """Compute the cost of a run's recorded answers at these prices.

    Raises:
        UsageError: the price file has no price for the run's model, or no answer has recorded usage.
    """
    model = folder.meta().spec.model
    price = load_price(prices, priced_name(model))
    dollars, answers, without = 0.0, 0, 0
    for record in final_records(folder.results):
        if record.response is None:
            continue
        usage = record.response.usage
        answers += 1
        if usage.input_tokens or usage.output_tokens:
            dollars += price.cost(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        else:
            without += 1
    if answers and without == answers:
        raise UsageError(
            f"{folder.path}: no answer has recorded usage, so that its cost is unknown",
            "Omit --prices. Answers of other programs and of some servers come without token counts.",
        )
    return Cost(dollars, answers, without)


def sentence(cost: Cost) -> str:
    """Format the cost for a reader of a score."""
    omitted = f"; {cost.without:,} more have no recorded usage" if cost.without else ""
    return f"cost ${cost.dollars:.4f}, from the recorded usage of {cost.answers - cost.without:,} answers{omitted}"


def priced_name(model: str) -> str:
    """Return the model's name as a price file has it."""
    return model.partition(":")[2] or model


def _answered(folder: RunFolder) -> set[tuple[str, int]]:
    if not folder.results.is_file():
        return set()
    return {
        (record.sample_id, record.repeat) for record in final_records(folder.results) if record.response is not None
    }
