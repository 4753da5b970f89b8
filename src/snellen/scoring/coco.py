"""Average precision of sets of boxes as COCO figures it, by pycocotools.

Without confidences in the replies all count as 1; areas, area ranges and the 101 recall levels are COCO's. Source: Lin et al.
2014, arXiv 1405.0312, and `COCOeval` of pycocotools.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

Boxes = Sequence[Sequence[Any]]
"""Boxes of left, top, right, bottom, label and confidence (None: 1)."""


class AveragePrecision(NamedTuple):
    """The mean over overlaps of 0.5 to 0.95 (`ap`), and that at 0.5; None where there is no gold box."""

    ap: float | None
    ap50: float | None


def by_content(images: Sequence[tuple[Boxes, Boxes]]) -> list[tuple[Boxes, Boxes]]:
    """Return images in the order of digests of their boxes: that of equal confidences then hangs on no id, and on no row."""
    return sorted(images, key=lambda image: blake2b(msgspec.json.encode(image)).digest())


def average_precision(images: Sequence[tuple[Boxes, Boxes]]) -> AveragePrecision | None:
    """Return the average precision over all labels of the (predicted, gold) boxes of each image; None without pycocotools.

    Of boxes with one confidence those of earlier images come first.
    """
    figures = coco_figures(images)
    return None if figures is None else AveragePrecision(*figures[:2])


def coco_figures(images: Sequence[tuple[Boxes, Boxes]]) -> list[float | None] | None:
    """Return COCO's first six figures: AP, AP50, AP75, and AP of small, medium and large boxes; None without pycocotools.

    A gold box may have two members more: whether it is a crowd, and the area of what is in it.
    """
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError:
        return None
    names = sorted({str(box[4]) for _, gold in images for box in gold})
    labels = {name: number for number, name in enumerate(names, 1)}
    rows = [
        {"id": number, "image_id": image, **_entry(box, labels), "iscrowd": int(len(box) > 6 and box[6])}
        for number, (image, box) in enumerate(
            ((at, box) for at, (_, gold) in enumerate(images, 1) for box in gold), start=1
        )
    ]
    found = [
        {"image_id": at, **_entry(box, labels), "score": 1.0 if box[5] is None else float(box[5])}
        for at, (predicted, _) in enumerate(images, 1)
        for box in predicted
        if str(box[4]) in labels or names == [""]
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": at} for at in range(1, len(images) + 1)],
            "annotations": rows,
            "categories": [{"id": number} for number in labels.values()],
        }
        truth.createIndex()
        if not rows:
            return [None] * 6
        answers = COCO()
        answers.dataset = {**truth.dataset, "annotations": [{"id": at, **row} for at, row in enumerate(found, 1)]}
        answers.createIndex()
        judged = COCOeval(truth, answers, "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    return [None if value < 0 else float(value) for value in judged.stats[:6]]


def _entry(box: Sequence[Any], labels: Mapping[str, int]) -> dict[str, Any]:
    left, top, right, bottom = map(float, box[:4])
    wide, high = right - left, bottom - top
    label = labels.get(str(box[4]), labels.get("", 0))
    area = float(box[7]) if len(box) > 7 and box[7] is not None else wide * high
    return {"category_id": label, "bbox": [left, top, wide, high], "area": area}
