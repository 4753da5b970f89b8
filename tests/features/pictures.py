"""Pictures on disk with splits that list them, as data sets come."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image as pillow


def jpeg(number: int, width: int = 50, height: int = 40, quality: int = 90, exif: int | None = None) -> bytes:
    """Smooth noise with edges, as JPEG; another for every number."""
    rng = np.random.default_rng(number)
    small = pillow.fromarray(rng.integers(0, 256, (7, 9, 3), dtype=np.uint8))
    pixels = np.array(small.resize((width, height), pillow.Resampling.BICUBIC))
    pixels[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 256, 3)
    out = BytesIO()
    marks = pillow.Exif()
    if exif is not None:
        marks[0x0112] = exif
    pillow.fromarray(pixels).save(out, "JPEG", quality=quality, exif=marks)
    return out.getvalue()


def data_set(folder: Path, labels: dict[str, Sequence[str]], names: Sequence[str] | None = None) -> list[str]:
    """Write images/ and one csv a split; returns the csv files. Paths hold commas and blanks."""
    files = []
    number = 0
    for split, each in labels.items():
        lines = []
        for index, label in enumerate(each):
            path = Path(f"Less, More/{split} {index}.jpg")
            file = folder / "images" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(jpeg(number, 40 + number % 7, 36 + number % 5))
            lines.append(f"{path},{label}\n")
            number += 1
        (folder / f"{split}.csv").write_text("".join(lines))
        files.append(str(folder / f"{split}.csv"))
    if names is not None:
        (folder / "classes.txt").write_text("\n".join(names))
    return files
