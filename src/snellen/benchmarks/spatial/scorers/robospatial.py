"""RoboSpatial-Home: yes or no to two kinds of question, and a point at free space to the third.

Source: `RoboSpatialBench` of VLMEvalKit, the tasks `robo_spatial*` of lmms-eval.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers import points
from snellen.benchmarks.spatial.scorers.points import MaskPixels, ReferenceFailsError
from snellen.benchmarks.spatial.scorers.refspatial import stops
from snellen.benchmarks.spatial.scorers.strict_points import strict_pixel, strict_points
from snellen.errors import DataError
from snellen.scoring.extract import read
from snellen.types import Score


def is_yes_no(gold: str) -> bool:
    """Return True for a question that is answered by yes or no."""
    return gold.strip().lower() in ("yes", "no")


def vlmevalkit(reply: str, gold: str, width: int, height: int) -> Score:
    """Score as VLMEvalKit: a reply that begins with the gold word (`Nothing` is no), or a first point in the polygon.

    The polygon test has the fault of the authors' early code: a vertical edge counts for every point beside it.
    `detail` holds `is_binary` and `is_parsable` as the kit writes them.
    """
    text = reply.strip()
    if is_yes_no(gold):
        right = text.lower().startswith(gold.strip().lower())
        reason = None if text else "the reply is empty"
        verdict = "correct" if right else "wrong" if text else "invalid"
        return Score(float(right), text[:MAX_SHOWN], verdict, reason, {"is_binary": True, "is_parsable": bool(text)})  # type: ignore[arg-type]
    unread = {"is_binary": False, "is_parsable": False}
    try:
        corners = points.polygon(gold)
        point = points.first_point(points.easi_points(text, width, height), width or 1, height or 1)
    except (DataError, ReferenceFailsError) as error:
        return Score(0.0, None, "invalid", str(error), unread)
    if point is None:
        return Score(0.0, None, "invalid", "no point", unread)
    right = points.in_polygon_as_easi(*point, corners)
    return Score(float(right), list(point), "correct" if right else "wrong", None, {**unread, "is_parsable": True})


MAX_SHOWN = 200
"""How many characters of a reply to a yes-or-no question stand in `extracted` at most; the kit keeps the whole reply."""

_THOUGHT = re.compile(r"</think>")
_THOUGHT_TOO = re.compile(r"</thought>")
_OPENING = re.compile(r"<answer>", re.IGNORECASE)
_CLOSING = re.compile(r"</answer>", re.IGNORECASE)


def without_thinking(reply: str) -> str:
    """Return what lmms-eval reads: behind the first `</think>` and `</thought>`, inside the first answer tag, stripped."""
    for end in (_THOUGHT, _THOUGHT_TOO):
        if match := end.search(reply):
            reply = reply[match.end() :]
    opening = _OPENING.search(reply)
    closing = _CLOSING.search(reply, opening.end()) if opening else None
    return reply[opening.end() : closing.start()].strip() if opening and closing else reply.strip()


def lmms_eval(reply: str, gold: str, mask: MaskPixels | None) -> Score:
    """Score as lmms-eval: the gold word and not the other one in the last line, or any point of a fenced list on the mask.

    A row without a mask is worth -1, and enters the mean.
    """
    text = without_thinking(reply)
    if is_yes_no(gold):
        line = text.lower().split("\n")[-1]
        yes, no = "yes" in line, "no" in line
        right = yes and not no if gold.strip().lower() == "yes" else no and not yes
        word = "yes" if yes and not no else "no" if no and not yes else None
        reason = None if word else "the last line has neither word alone"
        return Score(float(right), word, "correct" if right else "wrong" if word else "invalid", reason)
    if mask is None:
        return Score(-1.0, None, "invalid", "the row has no mask: lmms-eval counts it as -1")
    try:
        pixels = points.lmms_fenced(text, *mask.size)
    except ReferenceFailsError as error:
        return Score(None, None, "unscored", stops(str(error)))
    if not pixels:
        return Score(0.0, None, "invalid", "no fenced list with point_2d")
    right = points.pixel_hits(pixels, mask.first > 0) > 0
    return Score(float(right), [list(pixel) for pixel in pixels[:MAX_SHOWN]], "correct" if right else "wrong")


def strict(reply: str, gold: str, question: str, size: tuple[int, int], mask: MaskPixels | None) -> Score:
    """Score a plain yes or no, or the first point: in the polygon or on its edge; on the mask where there is no polygon."""
    if is_yes_no(gold):
        reading = read("truth", reply, question=question, form="yes/no")
        if reading.value is None:
            return Score(0.0, None, "invalid", reading.reason)
        right = reading.value is (gold.strip().lower() == "yes")
        return Score(float(right), "yes" if reading.value else "no", "correct" if right else "wrong")
    answer = strict_points(reply, *size)
    if not answer:
        return Score(0.0, None, "invalid", "no point")
    try:
        right = points.in_polygon(*answer[0], points.polygon(gold))
    except DataError as error:
        if mask is None:
            return Score(None, list(answer[0]), "unscored", error.message)
        place = strict_pixel(answer[0], *mask.size)
        right = place is not None and bool(mask.first[place[1], place[0]] > 0)
    return Score(float(right), list(answer[0]), "correct" if right else "wrong")
