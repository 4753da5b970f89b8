"""What it costs to bring JPEGs of 500 x 375 to an encoder, beside the usual way, and how far the pixels are apart.

The pictures are views of photographs that scikit-image carries (another place, size, side and brightness for each
number, shapes with hard edges over every fourth), at quality 90. They are made first and read from files. Both
pipelines resize the short side to 256 (antialiased), cut 224 x 224 from the middle and normalise to float32. The usual
one: Pillow opens and resizes the whole picture, crops, to-tensor (divide by 255), normalise (subtract mean, divide by
std). One thread each; CPU seconds of the process. They take turns, a batch of 64 each, so that both meet the same
machine; which goes first alternates. Snellen reads and normalises into batches that stay, as an extraction does.
Differences are of all values of all pictures, in levels of 255: normalised values are brought back to levels, which are
whole numbers to within float32.

Usage: python bench/extraction_images.py [--images 10000] [--filter bicubic] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import skimage
import torch
from PIL import Image as pillow
from PIL import ImageDraw

from snellen.features.extract.preprocess import Transform, normalise_into, read_pixels
from snellen.features.ranking.similarity import single_threaded
from snellen.sources import FileBlob

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = (500, 375)
BATCH = 64
PHOTOGRAPHS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "motorcycle_right.png",
)


@cache
def photograph(name: str) -> pillow.Image:
    """One of those that lie in scikit-image's wheel; nothing is fetched."""
    return pillow.open(Path(skimage.__file__).parent / "data" / name).convert("RGB")


def view(number: int) -> bytes:
    """A JPEG: part of a photograph, perhaps mirrored, darker or lighter; shapes over every fourth."""
    rng = np.random.default_rng(number)
    whole = photograph(PHOTOGRAPHS[number % len(PHOTOGRAPHS)])
    high = min(whole.height, whole.width * SIZE[1] / SIZE[0]) * rng.uniform(0.4, 1.0)
    wide = high * SIZE[0] / SIZE[1]
    left, top = rng.uniform(0, whole.width - wide), rng.uniform(0, whole.height - high)
    box = (left, top, min(left + wide, whole.width), min(top + high, whole.height))
    picture = whole.resize(SIZE, pillow.Resampling.BICUBIC, box=box)
    if rng.random() < 0.5:
        picture = picture.transpose(pillow.Transpose.FLIP_LEFT_RIGHT)
    gamma = rng.uniform(0.6, 1.6)
    picture = picture.point([round(255 * (level / 255) ** gamma) for level in range(256)] * 3)
    if number % 4 == 0:
        pen = ImageDraw.Draw(picture)
        for _ in range(12):
            x, y, w, h = (int(one) for one in rng.integers(0, (400, 300, 150, 120)))
            pen.ellipse((x, y, x + w + 5, y + h + 5), fill=tuple(int(one) for one in rng.integers(0, 256, 3)))
    return simplejpeg.encode_jpeg(np.array(picture), quality=90, colorsubsampling="420")


def make(folder: Path, count: int) -> list[Path]:
    """Write the views; returns their files, and lists them in train.csv beside images/."""
    (folder / "images").mkdir(parents=True)
    files = [folder / "images" / f"{number:05}.jpg" for number in range(count)]
    for number, file in enumerate(files):
        file.write_bytes(view(number))
    (folder / "train.csv").write_text("".join(f"{file.name},{number % 20}\n" for number, file in enumerate(files)))
    return files


def usual(files: Sequence[Path], transform: Transform) -> list[torch.Tensor]:
    """Pillow, resize the whole, crop, to tensor, normalise."""
    return [usual_one(file, transform) for file in files]


def usual_one(file: Path, transform: Transform) -> torch.Tensor:
    picture = pillow.open(BytesIO(file.read_bytes())).convert("RGB")
    width, height = picture.size
    side = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    picture = picture.resize(side, pillow.Resampling[transform.interpolation.upper()])
    left, top = (side[0] - 224) // 2, (side[1] - 224) // 2
    picture = picture.crop((left, top, left + 224, top + 224))
    tensor = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous().float().div(255)
    return (tensor - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


ROOM = torch.empty(BATCH, 3, 224, 224)
PLACES = torch.empty(BATCH, 3, 224, 224, dtype=torch.uint8)


def ours(files: Sequence[Path], transform: Transform) -> torch.Tensor:
    """What an extraction does to pictures."""
    pictures = [read_pixels(FileBlob(file), transform, place) for file, place in zip(files, PLACES, strict=False)]
    return normalise_into(ROOM, pictures, transform)


def decode_only(files: Sequence[Path], transform: Transform) -> None:
    """The floor: nothing but the decoder."""
    for file in files:
        simplejpeg.decode_jpeg(file.read_bytes(), "RGB")


WAYS: dict[str, Callable[[Sequence[Path], Transform], Any]] = {
    "usual (Pillow)": usual,
    "Snellen": ours,
    "floor: decode": decode_only,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000, choices=range(1, 100_001), metavar="1..100000")
    parser.add_argument("--filter", choices=("bilinear", "bicubic"), default="bicubic")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    transform = Transform((256,), given.filter, (224, 224), MEAN, STD)
    with tempfile.TemporaryDirectory() as folder, single_threaded():
        files = make(Path(folder) / "set", given.images)
        volume = sum(file.stat().st_size for file in files)
        spent, apart = compare(files, transform)
    rates = {name: given.images / seconds for name, seconds in spent.items()}
    print(
        f"{given.images:,} JPEGs of {SIZE[0]} x {SIZE[1]}, {volume / given.images / 1e3:.0f} KB each, "
        f"{given.filter} to 224 x 224"
    )
    for name, rate in rates.items():
        print(f"{name:20}{rate:8.0f} images a CPU second{rate / rates['usual (Pillow)']:8.2f} x the usual")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"levels of 255 apart, of {apart.sum():,} values; peak memory {peak:.0f} MB")
    for level in range(int(apart.nonzero()[0].max()) + 1):
        print(f"{level:20}{apart[level]:16,}{apart[level] / apart.sum():12.6%}")
    if given.json is not None:
        found = {"images": given.images, "per_cpu_second": rates, "levels_apart": apart.tolist(), "peak_mb": peak}
        given.json.write_text(json.dumps(found, indent=1) + "\n")


def compare(files: list[Path], transform: Transform) -> tuple[dict[str, float], np.ndarray]:
    """CPU seconds of each way over all files, and int64 [256]: how many values are so many levels apart."""
    spent = dict.fromkeys(WAYS, 0.0)
    apart = np.zeros(256, dtype=np.int64)
    levels = torch.tensor(STD).view(3, 1, 1) * 255
    for way in WAYS.values():
        way(files[:1], transform)
    for turn, start in enumerate(range(0, len(files), BATCH)):
        batch = files[start : start + BATCH]
        kept = {}
        for name in WAYS if turn % 2 else reversed(WAYS):
            begin = time.process_time()
            kept[name] = WAYS[name](batch, transform)
            spent[name] += time.process_time() - begin
        for one, other in zip(kept["usual (Pillow)"], kept["Snellen"], strict=True):
            difference = ((one - other) * levels).abs().round().to(torch.int64)
            apart += np.bincount(difference.flatten().numpy(), minlength=256)
    return spent, apart


if __name__ == "__main__":
    main()
