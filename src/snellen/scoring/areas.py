"""Overlap of outlines and masks: of two outlines by shapely, of masks by pycocotools on the pixels of the mask; and average precision of sets of boxes as COCO figures it, by pycocotools.

An outline that crosses itself holds what the even-odd rule says, as for points in polygons; several parts are one area.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError
from snellen.scoring.answers.grounded import EMPTY, Fault, Value
from snellen.scoring.answers.structure import whole_json

MOST_PIXELS = 1 << 26
MOST_PARTS, MOST_CROSSING = 50, 64
"""Parts of an outline, and corners of those of its parts that cross themselves: the time to compare more has no bound."""
TOO_COMPLEX = (
    f"an outline of more than {MOST_PARTS} parts, or one of more than {MOST_CROSSING} corners that crosses itself"
)
DAMAGED = "a mask whose run lengths do not fill its size"


def area_overlap(value: Value, gold: Value, size: tuple[int, int]) -> float | Fault:
    """Return the intersection over union of two areas in pixels of an image of a size, or why the first one is none.

    Raises:
        DataError: shapely or pycocotools is missing.
    """
    if not value[0].mask and _is_too_complex(value):
        return Fault(TOO_COMPLEX)
    if [one.mask or one.numbers for one in value] == [one.mask or one.numbers for one in gold] and not value[0].mask:
        return 1.0 if _shape(value).area else Fault(EMPTY)
    masks = [run_lengths(one.mask) for one in (*gold, *value) if one.mask]
    sizes: dict[tuple[int, ...] | None, None] = dict.fromkeys(
        None if mask is None else tuple(mask["size"]) for mask in masks
    )
    if sizes and not gold[0].mask:
        sizes = {size[::-1]: None, **sizes}  # a mask for an outline has the size of the image
    if not sizes:
        first, second = _shape(value), _shape(gold)
        union = first.union(second).area
        return float(first.intersection(second).area / union) if first.area else Fault(EMPTY)
    if None in sizes:
        return Fault(DAMAGED)
    if len(sizes) > 1:
        wanted, found = (" x ".join(map(str, reversed(one))) for one in sizes if one)
        return Fault(f"a mask of {found} pixels, and one of {wanted} was expected")
    high, wide = next(one for one in sizes if one)
    first, second = (_pixels(area, size, high, wide) for area in (value, gold))
    return float((first & second).sum() / (first | second).sum()) if first.any() else Fault(EMPTY)


def _rings(area: Value) -> tuple[Any, list[Any]]:
    """Return shapely and the parts of an outline as its polygons."""
    try:
        import shapely
    except ImportError as error:
        raise _missing("outlines are compared by shapely") from error
    return shapely, [shapely.Polygon(np.array(one.numbers, dtype=np.float64).reshape(-1, 2)) for one in area]


def _is_too_complex(area: Value) -> bool:
    if len(area) > MOST_PARTS:
        return True
    many = sum(len(one.numbers) for one in area) > 2 * MOST_CROSSING
    return many and sum(len(ring.exterior.coords) for ring in _rings(area)[1] if not ring.is_valid) > MOST_CROSSING


def _shape(area: Value) -> Any:
    shapely, rings = _rings(area)
    return shapely.union_all([shapely.make_valid(ring) for ring in rings])


def _pixels(area: Value, size: tuple[int, int], high: int, wide: int) -> NDArray[np.bool_]:
    """Return the pixels of an area on the grid of a mask, outlines drawn as COCO draws them."""
    if area[0].mask:
        return _decoded(area[0].mask)
    try:
        from pycocotools import mask
    except ImportError as error:
        raise _missing("masks are compared by pycocotools") from error
    scales = (wide / size[0], high / size[1])
    # pycocotools takes memory for every pixel of an edge, those outside of the image too.
    ends = (wide, high)
    rings = [
        [
            min(max(float(number) * scales[at % 2], -ends[at % 2]), 2 * ends[at % 2])
            for at, number in enumerate(one.numbers)
        ]
        for one in area
    ]
    return np.asarray(mask.decode(mask.merge(mask.frPyObjects(rings, high, wide)))) > 0


@lru_cache(maxsize=64)
def _decoded(cell: str) -> NDArray[np.bool_]:
    lengths: Mapping[str, Any] = run_lengths(cell) or {}
    runs = np.arange(len(lengths["counts"])) % 2 == 1
    return np.repeat(runs, lengths["counts"]).reshape(lengths["size"], order="F")


@lru_cache(maxsize=64)
def run_lengths(cell: str) -> Mapping[str, Any] | None:
    """Return a mask in COCO's run-length encoding (`size`, `counts` by column), compressed or not; None for any other cell."""
    data = whole_json(cell) if '"counts"' in cell else None
    if not isinstance(data, dict) or not {"size", "counts"} <= data.keys():
        return None
    sides, counts = data["size"], data["counts"]
    is_size = isinstance(sides, list) and len(sides) == 2 and all(type(side) is int and side > 0 for side in sides)
    if not is_size or sides[0] * sides[1] > MOST_PIXELS:
        return None
    if isinstance(counts, str):
        counts = _counts(counts)
        data = {**data, "counts": counts}
    whole = isinstance(counts, list) and all(type(number) is int and number >= 0 for number in counts)
    return data if whole and sum(counts) == sides[0] * sides[1] else None


def _counts(text: str) -> list[int] | None:
    """Return the run lengths of compressed counts, five bits a sign (`rleFrString` of COCO's maskApi.c); None for a text that breaks off.

    pycocotools leaves what the runs do not fill to chance.
    """
    counts, number, shift = list[int](), 0, 0
    for sign in text:
        bits = ord(sign) - 48
        if not 0 <= bits < 64 or shift > 30:
            return None
        number |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            number -= (bits >> 4 & 1) << shift
            counts.append(number + (counts[-2] if len(counts) > 2 else 0))
            number = shift = 0
    return None if shift else counts


def mask_runs(pixels: NDArray[Any]) -> dict[str, Any]:
    """Return a mask ([height, width], 0 outside) in COCO's run-length encoding without compression."""
    column = pixels.flatten(order="F") > 0
    changes = np.flatnonzero(np.diff(np.concatenate(([False], column)).astype(np.int8)))
    return {"size": [*pixels.shape], "counts": np.diff(np.concatenate(([0], changes, [len(column)]))).tolist()}


def _missing(what: str) -> DataError:
    return DataError(f"{what}, which is missing", "Run: pip install 'snellen[grounding]'")


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
