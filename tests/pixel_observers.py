"""Observers of the acuity pictures: each measures level and answer from the pixels alone, and sees by a known curve."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from io import BytesIO

import numpy as np
from PIL import Image as Pillow

from snellen.benchmarks.acuity.attribute import DIRECTIONS, PLACES
from snellen.benchmarks.acuity.attributes import ATTRIBUTES
from snellen.benchmarks.acuity.attributes.contrast import CONTRAST
from snellen.benchmarks.acuity.drawing import difference, lab_of, landolt
from snellen.models.base import Model
from snellen.scoring.psychometrics.curve import seen
from snellen.types import Image, Prompt, Response, Text

GAP_AREA = 11.5549
"""Ink of a Landolt ring in squares of its gap."""
Seen = tuple[float, str]


def decoded(data: bytes) -> np.ndarray:
    return np.asarray(Pillow.open(BytesIO(data)), dtype=np.float64)


def ring(pixels: np.ndarray) -> Seen:
    """Gap from the amount of ink; direction by the best of eight rings about the centre that the centre of ink implies."""
    ink = (255.0 - pixels) / 255.0
    total = ink.sum()
    gap = float(np.sqrt(total / GAP_AREA))
    mx = float(ink.sum(axis=0) @ (np.arange(ink.shape[1]) + 0.5) / total)
    my = float(ink.sum(axis=1) @ (np.arange(ink.shape[0]) + 0.5) / total)
    errors = []
    for answer in range(8):
        angle = answer * np.pi / 4
        # The opening of 1.0115 gap**2 lies 1.99 gaps beside the middle.
        cx, cy = mx + 0.1745 * gap * np.cos(angle), my + 0.1745 * gap * np.sin(angle)
        left, top = max(int(cx - 2.5 * gap) - 2, 0), max(int(cy - 2.5 * gap) - 2, 0)
        right, bottom = min(int(cx + 2.5 * gap) + 3, ink.shape[1]), min(int(cy + 2.5 * gap) + 3, ink.shape[0])
        x, y = np.meshgrid(np.arange(left, right) + 0.5, np.arange(top, bottom) + 0.5)
        share = np.clip(0.5 - landolt(cx, cy, gap, angle)(x, y), 0.0, 1.0)
        errors.append(float(((share - ink[top:bottom, left:right]) ** 2).sum()))
    return gap, DIRECTIONS[int(np.argmin(errors))]


def grating(pixels: np.ndarray) -> Seen:
    """Contrast and direction from the best matching wave under the window, by Fourier transform."""
    values = pixels - 127.5
    spectrum = np.abs(np.fft.rfft2(values))
    spectrum[0, 0] = 0.0
    row, column = np.unravel_index(int(spectrum.argmax()), spectrum.shape)
    rows = row - pixels.shape[0] if row > pixels.shape[0] / 2 else row
    angle = np.degrees(np.arctan2(rows, column)) % 180.0
    side = pixels.shape[0]
    # Power of a Gabor patch: c**2 * 127.5**2 / 2 * pi * sigma**2, above that of noisy rounding.
    sigma = max(side / 8.0, 1.5 * side / np.hypot(rows, column))
    near = _window(spectrum, row, column, side, sigma)
    contrast = float(np.sqrt(2.0 * near / (127.5**2 / 2 * np.pi * sigma**2)) / np.sqrt(2.0))
    return contrast, CONTRAST.options[int(np.round(angle / 45.0)) % 4]


def _window(spectrum: np.ndarray, row: int, column: int, side: int, sigma: float) -> float:
    """Energy near a peak, of both its mirror images, as a sum over pixels."""
    reach = int(np.ceil(3.0 * side / (2.0 * np.pi * sigma))) + 1
    total = 0.0
    for dr in range(-reach, reach + 1):
        for dc in range(-reach, reach + 1):
            c = column + dc
            if 0 <= c < spectrum.shape[1]:
                total += float(spectrum[(row + dr) % side, c] ** 2) * (1.0 if c == 0 else 2.0)
    return total / side**2


def discs(pixels: np.ndarray) -> Seen:
    """Difference of the odd disc's colour from the others'."""
    half = pixels.shape[0] // 2
    colours = []
    for row in (0, 1):
        for column in (0, 1):
            quarter = pixels[row * half : (row + 1) * half, column * half : (column + 1) * half].astype(np.int64)
            codes = (quarter[:, :, 0] << 16 | quarter[:, :, 1] << 8 | quarter[:, :, 2]).ravel()
            values, counts = np.unique(codes[codes != 0x777777], return_counts=True)
            code = int(values[counts.argmax()])
            colours.append(lab_of((code >> 16, code >> 8 & 255, code & 255)))
    distance = [sum(difference(each, other) for other in colours) for each in colours]
    odd = int(np.argmax(distance))
    return difference(colours[odd], colours[odd - 1]), PLACES[odd]


def bars(pixels: np.ndarray) -> Seen:
    """Offset of the lower bar from the upper one, by the centres of their ink."""
    ink = 255.0 - pixels
    rows = np.flatnonzero(ink.sum(axis=1) > 0)
    gap = rows[np.flatnonzero(np.diff(rows) > 1)[0]]
    columns = np.arange(pixels.shape[1])
    upper, lower = ink[: gap + 1].sum(axis=0), ink[gap + 1 :].sum(axis=0)
    offset = float((lower @ columns) / lower.sum() - (upper @ columns) / upper.sum())
    return abs(offset), "right" if offset > 0 else "left"


def lines(pixels: np.ndarray) -> Seen:
    """Share by which the longest of four lines is longer, by ink."""
    half = pixels.shape[0] // 2
    ink = [(255.0 - pixels[r * half : (r + 1) * half, c * half : (c + 1) * half]).sum() for r in (0, 1) for c in (0, 1)]
    odd = int(np.argmax(ink))
    others = [value for index, value in enumerate(ink) if index != odd]
    return float(ink[odd] / np.mean(others) - 1.0), PLACES[odd]


def angles(pixels: np.ndarray) -> Seen:
    """Angle of the odd line, by second moments of ink."""
    half = pixels.shape[0] // 2
    turned = []
    for r in (0, 1):
        for c in (0, 1):
            ink = 255.0 - pixels[r * half : (r + 1) * half, c * half : (c + 1) * half]
            y, x = np.mgrid[:half, :half]
            mx, my = (ink * x).sum() / ink.sum(), (ink * y).sum() / ink.sum()
            xx, yy = (ink * (x - mx) ** 2).sum(), (ink * (y - my) ** 2).sum()
            turned.append(0.5 * np.degrees(np.arctan2(2 * (ink * (x - mx) * (y - my)).sum(), xx - yy)))

    def apart(first: float, second: float) -> float:
        return abs((first - second + 90.0) % 180.0 - 90.0)

    distance = [sum(apart(each, other) for other in turned) for each in turned]
    odd = int(np.argmax(distance))
    return float(np.median([apart(turned[odd], other) for index, other in enumerate(turned) if index != odd])), PLACES[
        odd
    ]


def clouds(pixels: np.ndarray) -> Seen:
    """Share by which one half has more dots, by counting what hangs together."""
    from skimage.measure import label

    half = pixels.shape[1] // 2
    left, right = (int(label(part < 128).max()) for part in (pixels[:, : half - 2], pixels[:, half + 2 :]))
    return max(left, right) / min(left, right) - 1.0, "left" if left > right else "right"


READERS: dict[str, Callable[[np.ndarray], Seen]] = {
    "gap": ring,
    "contrast": grating,
    "colour": discs,
    "vernier": bars,
    "length": lines,
    "orientation": angles,
    "number": clouds,
}


class PixelObserver(Model):
    """Sees as a logistic curve says, at the level that its pixels have; guesses otherwise, with a bias to one letter.

    Args:
        attribute: what is measured.
        threshold: in the attribute's unit.
        width: decades from 5 to 95 % seen.
        lapse: share of slips.
        bias: share of guesses that are the first letter.
        refuses: share of guesses that are refusals in words.
        seed: of its luck.
    """

    name = "pixel-observer"

    def __init__(self, attribute: str, threshold: float, *, width: float = 0.3, lapse: float = 0.02, bias: float = 0.0, refuses: float = 0.0, seed: int = 0) -> None:  # fmt: skip
        self.attribute = ATTRIBUTES[attribute]
        self.read = READERS[attribute]
        self.threshold, self.width, self.lapse = self.attribute.level(threshold), width, lapse
        self.bias, self.refuses, self.seed = bias, refuses, seed
        self.levels: list[float] = []

    async def answer(self, prompt: Prompt) -> Response:
        image, text = prompt.parts
        assert isinstance(image, Image)
        assert isinstance(text, Text)
        data = image.blob.read()
        value, word = self.read(decoded(data))
        options = dict(re.findall(r"^([A-J])\. (.+)$", text.text, re.MULTILINE))
        level = self.attribute.level(max(value, 1e-6))
        self.levels.append(level)
        draw = int.from_bytes(
            blake2b(data + text.text.encode() + bytes([self.seed]), digest_size=24).digest(), "little"
        )
        luck = [(draw >> (48 * part) & (2**48 - 1)) / 2**48 for part in range(4)]
        if luck[0] < (1 - self.lapse) * float(seen("logistic", np.array((level - self.threshold) / self.width))):
            return Response(next(letter for letter, option in options.items() if option == word))
        if luck[1] < self.refuses:
            return Response("I cannot tell from this picture.")
        if luck[2] < self.bias:
            return Response("A")
        return Response(list(options)[int(luck[3] * len(options))])
