"""What it costs to bring JPEGs of 500 x 375 to an encoder, beside the usual way.

The pictures are drawings under noise, another for each number, at quality 90 (about 57 KB). Both pipelines resize the
short side to 256 (bicubic, antialiased), cut 224 x 224 from the middle and normalise to float32. The usual one: Pillow
opens and resizes the whole picture, crops, to-tensor (divide by 255), normalise (subtract mean, divide by std). One
thread each; CPU seconds of the process. They take turns, a hundred pictures at a time, so that both meet the same
machine. The difference is over all pictures, in levels of 255.

Usage: python bench/extraction_images.py [--images 2000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import torch
from PIL import Image as pillow
from PIL import ImageDraw

from snellen.features.pixels import Transform, normalised, read
from snellen.sources import BytesBlob

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRANSFORM = Transform((256,), "bicubic", (224, 224), MEAN, STD)
SIZE = (500, 375)
TURN = 100


def drawing(number: int) -> bytes:
    """A JPEG of shapes on a gradient, under noise of two grains."""
    rng = np.random.default_rng(number)
    coarse = pillow.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(SIZE, pillow.Resampling.BICUBIC)
    pen = ImageDraw.Draw(coarse)
    for _ in range(12):
        x, y, w, h = (int(one) for one in rng.integers(0, (400, 300, 150, 120)))
        pen.ellipse((x, y, x + w + 5, y + h + 5), fill=tuple(int(one) for one in rng.integers(0, 256, 3)))
    grain = rng.normal(0, 6, (SIZE[1], SIZE[0], 1)) + rng.normal(0, 2, (SIZE[1], SIZE[0], 3))
    pixels = np.clip(np.asarray(coarse) + grain, 0, 255).astype(np.uint8)
    return simplejpeg.encode_jpeg(pixels, quality=90, colorsubsampling="420")


def usual(data: bytes) -> torch.Tensor:
    """Pillow, resize the whole, crop, to tensor, normalise."""
    picture = pillow.open(BytesIO(data)).convert("RGB")
    width, height = picture.size
    side = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    picture = picture.resize(side, pillow.Resampling.BICUBIC)
    left, top = (side[0] - 224) // 2, (side[1] - 224) // 2
    picture = picture.crop((left, top, left + 224, top + 224))
    tensor = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous().float().div(255)
    return (tensor - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def ours(data: bytes) -> torch.Tensor:
    """What an extraction does to a picture."""
    return normalised(read(BytesBlob("drawing", data), TRANSFORM)[None], TRANSFORM)[0]


def decode_only(data: bytes) -> Any:
    """The floor: nothing but the decoder."""
    return simplejpeg.decode_jpeg(data, "RGB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000, choices=range(1, 10_001), metavar="1..10000")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ways: dict[str, Callable[[bytes], Any]] = {
        "usual (Pillow)": usual,
        "Snellen": ours,
        "floor: decode": decode_only,
    }
    spent = dict.fromkeys(ways, 0.0)
    largest, total, volume, over = 0.0, 0.0, 0, 0
    levels = torch.tensor(STD).view(3, 1, 1) * 255
    for warm in ways.values():
        warm(drawing(0))
    for start in range(0, given.images, TURN):
        batch = [drawing(number) for number in range(start, min(start + TURN, given.images))]
        volume += sum(map(len, batch))
        kept = {}
        for name, way in ways.items():
            begin = time.process_time()
            kept[name] = [way(data) for data in batch]
            spent[name] += time.process_time() - begin
        for one, other in zip(kept["usual (Pillow)"], kept["Snellen"], strict=True):
            apart = ((one - other) * levels).abs()
            largest, total = max(largest, float(apart.max())), total + float(apart.mean())
            over += int((apart > 1.5).sum())
    rates = {name: given.images / seconds for name, seconds in spent.items()}
    print(f"{given.images:,} JPEGs of {SIZE[0]} x {SIZE[1]}, {volume / given.images / 1e3:.0f} KB each, to 224 x 224")
    for name, rate in rates.items():
        print(f"{name:20}{rate:8.0f} images a CPU second{rate / rates['usual (Pillow)']:8.2f} x the usual")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    values = given.images * 3 * 224 * 224
    print(
        f"largest difference {largest:.2f} levels of 255, mean {total / given.images:.4f}; "
        f"{over:,} of {values:,} values differ by more than one; peak memory {peak:.0f} MB"
    )
    if given.json is not None:
        found = {
            "images": given.images,
            "per_cpu_second": rates,
            "largest_difference": largest,
            "over_one": over,
            "peak_mb": peak,
        }
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
