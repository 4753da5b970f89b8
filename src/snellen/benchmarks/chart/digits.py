"""chart/digits: real scanned handwritten digits, 8 x 8 pixels.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49 (CC BY 4.0); the 1,797 scans are those that scikit-learn carries as `load_digits`.
Every third scan is the test split; the embedded model is trained on the others only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from importlib.resources import files
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture

from snellen.benchmarks.base import Benchmark, Data, empty_digest
from snellen.benchmarks.chart import questions as ask
from snellen.benchmarks.chart.questions import PROFILES, SCORERS, arranged, balanced, sample, summarize
from snellen.benchmarks.chart.rng import Stream
from snellen.sources.blobs import Drawn, stored_png
from snellen.types import Image, Sample

VERSION = "1"
NAME = "chart/digits"
TEST = 599


@cache
def _file() -> NDArray[np.uint8]:
    data = files("snellen.benchmarks.chart").joinpath("digits.png").read_bytes()
    return np.asarray(Picture.open(BytesIO(data)))


def split(name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """([n, 8, 8] scans of 0 to 16, [n] labels) of the split `train` (1,198) or `test` (599: every third scan)."""
    rows = _file()
    test = np.arange(len(rows)) % 3 == 2
    rows = rows[test if name == "test" else ~test]
    return rows[:, :64].reshape(-1, 8, 8), rows[:, 64]


def enlarged(scan: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """[8, 8] of 0 to 16 -> [size, size] grey levels, every scanned pixel a block."""
    steps = np.arange(size) * 8 // size
    grey = np.minimum(scan.astype(np.int32) * 16, 255).astype(np.uint8)
    return grey[steps][:, steps]


def _png(index: int, size: int) -> bytes:
    return stored_png(enlarged(split("test")[0][index], size))


def samples(data: Data) -> Iterator[Sample]:
    """Four questions a scan of the test split (which digit, true or false, choice, same as another one).

    Raises:
        UsageError: an option is unknown or out of range (at most 599 questions of each kind).
    """
    data.require_known(NAME, ask.OPTIONS)
    n = data.number("questions", 80, 1, TEST)
    size = data.number("size", 96, 48, 1024)
    labels = [int(label) for label in split("test")[1]]
    stream = Stream("chart", data.seed, "digits")
    order = stream.shuffled(range(TEST))
    flips, pairs, places = (balanced(stream, n, 4) for _ in range(3))

    def scan_image(index: int) -> Image:
        return Image(Drawn(f"{NAME}@{VERSION}/{index}/{size}", partial(_png, index, size)))

    for i in range(n):
        index = order[i]
        label, group = labels[index], f"digit-{index:04}"
        others = stream.sample([digit for digit in range(10) if digit != label], 3)
        true, form = flips[i] % 2 == 0, ask.TRUTH_FORMS[flips[i] // 2]
        same, pair_form = pairs[i] % 2 == 0, ask.TRUTH_FORMS[pairs[i] // 2]
        partner = stream.pick([j for j, other in enumerate(labels) if j != index and (other == label) == same])
        options = arranged(str(label), [str(digit) for digit in others], places[i])
        questions = {
            "short": ask.digit(label),
            "truth": ask.digit_truth(label if true else others[0], form, true),
            "choice": ask.digit_choice(options, str(label)),
            "pair": ask.digit_same(pair_form, same),
        }
        for kind, q in questions.items():
            pictures = (scan_image(index), scan_image(partner)) if kind == "pair" else (scan_image(index),)
            yield sample(f"{group}-{kind}", group, pictures, q, f"digits/{kind}", "digit", task="digits")


DIGITS = Benchmark(
    cluster="image",
    name=NAME,
    version=VERSION,
    digest=empty_digest,
    samples=samples,
    score=SCORERS,
    summarize=summarize,
    profiles=PROFILES,
    size=lambda data: 4 * data.number("questions", 80, 1, TEST),
    options=ask.OPTIONS,
    about={
        "description": "Real scanned handwritten digits, 8 x 8 pixels: which digit, true or false, choice, same or different.",
        "source": "UCI Optical Recognition of Handwritten Digits, as carried by scikit-learn (1,797 scans; 599 asked).",
        "licence": "CC BY 4.0",
        "citation": "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, "
        "1998, https://doi.org/10.24432/C50P49",
    },
)
