"""Real photographs that scikit-image carries, what happens to pictures on the web, and pictures that are others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import skimage
from PIL import Image
from PIL.Image import Image as Picture

# Only what lies in the wheel: the rest of skimage.data is downloaded.
NAMES = (
    *("astronaut.png", "brick.png", "camera.png", "cell.png", "chelsea.png", "coffee.png", "coins.png", "grass.png"),
    *("gravel.png", "hubble_deep_field.jpg", "ihc.png", "moon.png", "motorcycle_left.png", "page.png", "retina.jpg"),
    *("rocket.jpg", "text.png"),
)
Copy = Callable[[Picture, np.random.Generator], Picture]


@cache
def photograph(name: str) -> Picture:
    path = Path(skimage.__file__).parent / "data" / name
    with Image.open(path) as picture:
        return picture.convert("RGB")


@cache
def originals() -> list[Picture]:
    """Each photograph and its quarters: 85 pictures."""
    found = []
    for name in NAMES:
        whole = photograph(name)
        half = (whole.width // 2, whole.height // 2)
        found.append(whole)
        for left in (0, half[0]):
            for top in (0, half[1]):
                found.append(whole.crop((left, top, left + half[0], top + half[1])))
    return found


def window(rng: np.random.Generator) -> Picture:
    """A part of a photograph, 15 to 45 % of each side, every second one turned: another picture of the same kind."""
    whole = photograph(NAMES[rng.integers(len(NAMES))])
    share = rng.uniform(0.15, 0.45)
    width, height = int(whole.width * share), int(whole.height * share)
    left, top = rng.integers(whole.width - width), rng.integers(whole.height - height)
    part = whole.crop((left, top, left + width, top + height))
    if rng.random() < 0.5:
        part = part.rotate(rng.uniform(-180, 180), Image.Resampling.BILINEAR)
    return part


def jpeg(picture: Picture, quality: int, scale: float = 1.0) -> Picture:
    if scale != 1.0:
        picture = picture.resize((int(picture.width * scale), int(picture.height * scale)), Image.Resampling.BICUBIC)
    out = BytesIO()
    picture.save(out, "JPEG", quality=quality)
    return Image.open(BytesIO(out.getvalue()))


def crop(picture: Picture, left: float, top: float, right: float, bottom: float) -> Picture:
    """Cut fractions of the sides away."""
    width, height = picture.size
    return picture.crop(
        (round(width * left), round(height * top), round(width * (1 - right)), round(height * (1 - bottom)))
    )


def mirror(picture: Picture) -> Picture:
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def png(picture: Picture) -> bytes:
    out = BytesIO()
    picture.save(out, "PNG", compress_level=1)
    return out.getvalue()


COPIES: dict[str, Copy] = {
    "JPEG, quality 75": lambda picture, _: jpeg(picture, 75),
    "JPEG, quality 40, half the size": lambda picture, _: jpeg(picture, 40, 0.5),
    "JPEG, quality 20": lambda picture, _: jpeg(picture, 20),
    "5 % cut off each side": lambda picture, _: crop(picture, 0.05, 0.05, 0.05, 0.05),
    "the same, JPEG 60": lambda picture, _: jpeg(crop(picture, 0.05, 0.05, 0.05, 0.05), 60),
    "5 % off the left": lambda picture, _: crop(picture, 0.05, 0, 0, 0),
    "5 % off the left and the top": lambda picture, _: crop(picture, 0.05, 0.05, 0, 0),
    "0 to 5 % off each side, JPEG 70": lambda picture, rng: jpeg(crop(picture, *rng.uniform(0, 0.05, 4)), 70),
    "mirrored": lambda picture, _: mirror(picture),
    "mirrored, JPEG 75": lambda picture, _: jpeg(mirror(picture), 75),
    "mirrored, 5 % off, JPEG 60": lambda picture, _: jpeg(mirror(crop(picture, 0.05, 0.05, 0.05, 0.05)), 60),
}
