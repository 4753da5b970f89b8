"""What a picture costs on its way to the model: CPU milliseconds beside the floor of every step and the usual way.

One thread, CPU time of this process (user + system), best and median of the rounds; the ways take turns within a round,
so that a busy machine slows them all. Large: a 4000 x 3000 JPEG made 1600 x 1200 and sent as JPEG, quality 90. Small: a
640 x 480 JPEG sent as it is. The photographs are the two that scikit-learn carries, enlarged, with a little noise.
Usage: python bench/images.py [--rounds 9] [--json FILE]
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image as pillow
from sklearn.datasets import load_sample_image

from snellen.media import MediaCache, describe, encode, open_image
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings

SMALLER = MediaSettings(max_long_side=1600)
JPEG = MediaSettings(max_long_side=1600, format="jpeg")
OURS = "Snellen"


def photograph(name: str, size: tuple[int, int], quality: int) -> bytes:
    """A JPEG of a real photograph at `size`, with the grain that enlarging takes away."""
    large = pillow.fromarray(load_sample_image(name)).resize(size, pillow.Resampling.BICUBIC)
    grain = np.random.default_rng(0).normal(0, 6, (size[1], size[0], 3))
    out = BytesIO()
    pillow.fromarray(np.clip(np.asarray(large) + grain, 0, 255).astype(np.uint8)).save(out, "JPEG", quality=quality)
    return out.getvalue()


def by_pillow(data: bytes, kind: str, size: tuple[int, int] | None) -> bytes:
    """The usual way: open, convert, make smaller by Lanczos, save, base64."""
    picture = pillow.open(BytesIO(data)).convert("RGB")
    if size is not None:
        picture = picture.resize(size, pillow.Resampling.LANCZOS)
    out = BytesIO()
    picture.save(out, kind, quality=90)
    return base64.b64encode(out.getvalue())


def large_ways(data: bytes) -> dict[str, Callable[[], object]]:
    array = simplejpeg.decode_jpeg(data, "RGB")
    full = pillow.fromarray(array)
    size = (1600, 1200)
    small = np.asarray(full.resize(size, pillow.Resampling.BICUBIC))
    encoded = simplejpeg.encode_jpeg(small, 90, colorspace="RGB", colorsubsampling="420")

    def best() -> bytes:
        picture = pillow.fromarray(simplejpeg.decode_jpeg(data, "RGB")).resize(size, pillow.Resampling.BICUBIC)
        sent = simplejpeg.encode_jpeg(np.asarray(picture), 90, colorspace="RGB", colorsubsampling="420")
        return base64.b64encode(sent)

    def scaled() -> bytes:
        half = simplejpeg.decode_jpeg(data, "RGB", min_width=1600, min_height=1200)
        picture = pillow.fromarray(half).resize(size, pillow.Resampling.BICUBIC)
        sent = simplejpeg.encode_jpeg(np.asarray(picture), 90, colorspace="RGB", colorsubsampling="420")
        return base64.b64encode(sent)

    return {
        "floor: simplejpeg decode alone": lambda: simplejpeg.decode_jpeg(data, "RGB"),
        "floor: resize alone (bicubic)": lambda: full.resize(size, pillow.Resampling.BICUBIC),
        "floor: encode alone": lambda: simplejpeg.encode_jpeg(small, 90, colorspace="RGB", colorsubsampling="420"),
        "floor: base64 alone": lambda: base64.b64encode(encoded),
        "these four in one go": best,
        f"{OURS}, 1600 JPEG": lambda: encode(BytesBlob("a", data), JPEG),
        f"{OURS}, to a local model": lambda: open_image(Image(BytesBlob("a", data)), SMALLER),
        "scaled DCT decode (other pixels)": scaled,
        "Pillow decode alone": lambda: pillow.open(BytesIO(data)).convert("RGB"),
        "Pillow, Lanczos, JPEG": lambda: by_pillow(data, "JPEG", size),
        "Pillow, Lanczos, PNG": lambda: by_pillow(data, "PNG", size),
    }


def small_ways(data: bytes) -> dict[str, Callable[[], object]]:
    cache = MediaCache(MediaSettings())
    cache.get(Image(BytesBlob("held", data)))
    held = Image(BytesBlob("held", data))
    return {
        "floor: base64 alone": lambda: base64.b64encode(data),
        f"{OURS}, first question": lambda: encode(BytesBlob("a", data), MediaSettings()),
        f"{OURS}, later questions": lambda: cache.get(held),
        "Pillow, JPEG again": lambda: by_pillow(data, "JPEG", None),
        "Pillow, PNG": lambda: by_pillow(data, "PNG", None),
    }


def cpu_ms(way: Callable[[], object]) -> float:
    """CPU milliseconds of one call, over as many calls as fill a twentieth of a second."""
    calls, begin = 0, time.process_time()
    while True:
        way()
        calls += 1
        spent = time.process_time() - begin
        if spent > 0.05:
            return spent / calls * 1000


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            cost = cpu_ms(way)
            if number:  # the first round only warms up
                costs[name].append(cost)
    return costs


def table(title: str, costs: dict[str, list[float]]) -> None:
    ours = min(costs[next(name for name in costs if name.startswith(OURS))])
    print(f"\n{title}\n{'':36}{'CPU ms, best':>14}{'median':>10}{'to ours':>10}")
    for name, each in costs.items():
        print(f"{name:36}{min(each):14.3f}{statistics.median(each):10.3f}{min(each) / ours:9.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    large, small = photograph("china.jpg", (4000, 3000), 90), photograph("flower.jpg", (640, 480), 90)
    found: dict[str, Any] = {"media": describe(JPEG), "large_bytes": len(large), "small_bytes": len(small)}
    found["large_ms"] = measure(large_ways(large), given.rounds)
    found["small_ms"] = measure(small_ways(small), given.rounds)
    table(f"4000 x 3000 JPEG of {len(large) / 1e6:.1f} MB to 1600 x 1200", found["large_ms"])
    table(f"640 x 480 JPEG of {len(small) / 1e3:.0f} KB, sent as it is", found["small_ms"])
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
