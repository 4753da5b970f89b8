"""Samples of the further spatial benchmarks, as their scorers need them, and masks drawn from rectangles."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image as PillowImage

from snellen.benchmarks.spatial.scorers.points import Mask
from snellen.sources.blobs import BytesBlob
from snellen.types import Kind, Prompt, Sample, Text

CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4, "LA": 2}


def mask(drawing: Mapping[str, Any]) -> Mask:
    """A mask of `w` x `h` pixels whose rectangles [x0, y0, x1, y1) hold `value`, in one `channel` alone where one is named."""
    channels = CHANNELS[drawing.get("mode", "L")]
    pixels = np.zeros((drawing["h"], drawing["w"], channels), np.uint8)
    chosen = [drawing["channel"]] if drawing.get("channel") is not None else list(range(channels))
    for x0, y0, x1, y1 in drawing["rects"]:
        pixels[y0:y1, x0:x1, chosen] = drawing["value"]
    data = BytesIO()
    PillowImage.fromarray(pixels[:, :, 0] if channels == 1 else pixels).save(data, "PNG")
    return Mask(BytesBlob(f"mask {sorted(drawing.items(), key=str)}", data.getvalue()))


def sample(
    gold: str, kind: Kind = "choice", options: Mapping[str, str] | None = None, question: str = "", **meta: Any
) -> Sample:
    """One question; `meta` is what its rule needs beside the gold answer."""
    target: Any = gold
    if kind == "number":
        try:
            target = float(gold)
        except ValueError:
            target = None
    if kind == "choice":
        target = gold.strip().strip("()")[:1].upper()
    return Sample(
        id="1",
        prompt=Prompt((Text(question),) if question else ()),
        target=target,
        kind=kind,
        options=options or {},
        meta={"gold": gold, **meta},
    )
