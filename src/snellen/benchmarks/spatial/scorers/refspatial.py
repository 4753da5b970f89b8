"""RefSpatial-Bench: point at an object, or at a free place. A reply is scored by where its points lie on a mask.

Source: `RefSpatialBench` of EASI's VLMEvalKit, `RefSpatialDataset` of VLMEvalKit's main branch, and the tasks `refspatial*` of
lmms-eval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from snellen.benchmarks.spatial.scorers import points
from snellen.benchmarks.spatial.scorers.points import MaskPixels, ReferenceFailsError
from snellen.benchmarks.spatial.scorers.strict_points import strict_pixel, strict_points
from snellen.types import Score


def easi(reply: str, mask: MaskPixels) -> Score:
    """Score the share of the reply's points on the mask; of a mask in colours the first channel counts.

    `detail` holds `num_points` and `is_parsable` as EASI writes them.
    """
    width, height = mask.size
    try:
        read = points.easi_points(reply, width, height)
    except ReferenceFailsError as error:
        return Score(0.0, None, "invalid", str(error), {"num_points": 0, "is_parsable": False})
    count = points.count_points(read)
    value = points.share_on_mask(read, mask.first > 0)
    return graded(value, [list(point) for point in read[:MAX_SHOWN]], {"num_points": count, "is_parsable": True})


def upstream(reply: str, mask: MaskPixels) -> Score:
    """Score 1 if any point lies on the mask. The reference stops at a mask in colours; such a row is left unscored."""
    try:
        read = points.upstream_points(reply)
        listed = [list(point) for point in read[:MAX_SHOWN]]
        if read and mask.channels > 1:
            return Score(None, listed, "unscored", stops("ValueError", "the mask has several channels"))
        return graded(float(points.any_on_mask(read, mask.first > 0)), listed)
    except ReferenceFailsError as error:
        return Score(None, None, "unscored", stops(str(error)))


def lmms_eval(reply: str, mask: MaskPixels) -> Score:
    """Score the mean over the tuples of a reply; values of the mask below 128 count as off it."""
    return _mean(points.lmms_tuples, reply, mask)


def lmms_eval_json(reply: str, mask: MaskPixels) -> Score:
    """Score likewise over pairs in square or round brackets, with the scale of the JSON variant."""
    return _mean(points.lmms_pairs, reply, mask)


def strict(reply: str, mask: MaskPixels, size: tuple[int, int]) -> Score:
    """Score the share of points that lie on the mask; points outside the image are misses.

    Args:
        reply: the model's reply.
        mask: of any size: points are placed by their share of the sides.
        size: width and height of the image, for a reply in pixels.
    """
    read = strict_points(reply, *size)
    if not read:
        return Score(0.0, None, "invalid", "no point")
    width, height = mask.size
    places = [strict_pixel(point, width, height) for point in read]
    hits = sum(bool(mask.first[place[1], place[0]] > 0) for place in places if place is not None)
    return graded(hits / len(read), [list(point) for point in read[:MAX_SHOWN]])


MAX_SHOWN = 64
"""How many points stand in `extracted` at most."""


def _mean(reader: Callable[[str, int, int], Sequence[tuple[int, int]]], reply: str, mask: MaskPixels) -> Score:
    try:
        read = reader(reply, *mask.size)
    except ReferenceFailsError as error:
        return Score(None, None, "unscored", stops(str(error)))
    on = mask.first >= 127.5  # round(mask / 255)
    value = points.pixel_hits(read, on) / len(read) if read else 0.0
    return graded(value, [list(point) for point in read[:MAX_SHOWN]])


def graded(value: float, read: list[Any], detail: dict[str, Any] | None = None) -> Score:
    """Return the score of points that were read; none of them is an invalid reply."""
    verdict = "correct" if value == 1 else "partial" if value > 0 else "wrong" if read else "invalid"
    return Score(value, read or None, verdict, None if read else "no point", detail or {})  # type: ignore[arg-type]


def stops(error: str, why: str = "") -> str:
    """Return the reason of a row on which the reference ends with an error."""
    return f"the reference stops here: {error}" + (f" ({why})" if why else "")
