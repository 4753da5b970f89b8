"""The strict profile of all spatial benchmarks: careful extractors, and no answer is filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from snellen.benchmarks.spatial.question import UNKNOWN_OPTIONS
from snellen.benchmarks.spatial.scorers import base, points
from snellen.benchmarks.spatial.scorers.base import (
    DIGIT_OF_WORD,
    LEGO_STEPS,
    SPAR_AXES,
    VEHICLES,
    answers_of,
    is_yes_no,
    list_in,
    one_answer,
    osi_number,
    score_of_list,
    view_change,
)
from snellen.benchmarks.spatial.scorers.points import MAX_POINTS, THOUSANDTHS, MaskPixels, Point, graded_points
from snellen.benchmarks.spatial.scorers.vlmevalkit import (
    STEP_LETTER,
    after_thinking,
    cleaned,
    match_sequence,
    with_classes,
)
from snellen.errors import DataError, SnellenError
from snellen.scoring.extract import read
from snellen.types import Sample, Score


def strict(sample: Sample, reply: str) -> Score:
    """Score a letter or a yes against the gold one, a number by its mean relative accuracy, a view change along its five axes.

    A reply without exactly one answer is `invalid` and worth 0, with the reason; a sample without a gold answer that can be
    compared is unscored. Extractors know the options and the question where those are at hand.
    """
    if sample.kind == "number":
        reading = read("number", reply, question=sample.prompt.words)
        score = base.score_number(None if reading.value is None else float(reading.value), str(sample.meta["gold"]))
        return Score(score.value, score.extracted, score.verdict, reading.reason or score.reason)
    if sample.kind == "choice":
        if not isinstance(sample.target, str) or len(sample.target) != 1:
            return Score(None, None, "unscored", f"the gold answer {sample.meta['gold']!r} is no letter")
        reading = read("choice", reply, question=sample.prompt.words, options=sample.options or UNKNOWN_OPTIONS)
        if reading.value is None:
            return Score(0.0, None, "invalid", reading.reason)
        right = reading.value == sample.target
        return Score(float(right), reading.value, "correct" if right else "wrong")
    if sample.kind == "truth":
        return yes_no(reply, str(sample.meta["gold"]), sample.prompt.words)
    return strict_view_change(reply, str(sample.meta["gold"]))


_PLAIN = r"[\"']?+([-+]?+(?:\d++(?:\.\d*+)?+|\.\d++))\s*+(%?+)[\"']?+"


_ANY_POINT = re.compile(
    rf"[\[(]\s*+{_PLAIN}\s*+,\s*+{_PLAIN}(?:\s*+,\s*+{_PLAIN}\s*+,\s*+{_PLAIN})?+\s*+[\])]"
    rf"|[\"']?\bx\b[\"']?\s*+[:=]\s*+{_PLAIN}\s*+[,;]?+\s*+(?:and\s++)?+[\"']?\by\b[\"']?\s*+[:=]\s*+{_PLAIN}",
    re.IGNORECASE,
)


_KEYED = re.compile(r"[\"']point(?:_2d)?[\"']\s*+:\s*+$")


_MOLMO = re.compile(r"<points?\b([^<>]*+)>", re.IGNORECASE)


_MOLMO_PAIR = re.compile(
    r"\bx(\d*+)\s*+=\s*+[\"']([\d.]{1,30})[\"']\s*+y\1\s*+=\s*+[\"']([\d.]{1,30})[\"']", re.IGNORECASE
)


_ANSWER = re.compile(r"<answer>(?P<inside>[^<]*+(?:<(?!/?answer>)[^<]*+)*+)</answer>", re.IGNORECASE)


_WORD_BETWEEN = re.compile(r"\b(?!and\b)[^\W\d_]", re.IGNORECASE)


_BARE = re.compile(rf"\s*+{_PLAIN}\s*+[,;\s]\s*+{_PLAIN}\s*+\.?\s*+")


_KEY_BEFORE = 40


def strict_points(reply: str, width: int, height: int) -> list[Point]:
    """Read the points that a reply answers with, normalised, in any usual notation; none where there is none.

    Thinking is left out, and an answer container alone is read where there is one. Notations: `[x, y]` or `(x, y)`, also in
    JSON, with quotes or percent signs; `x: 1, y: 2`; Molmo's tags. Four numbers are a box, and stand for its centre. Where
    some points have the key `point_2d` or `point`, only these count; else the last run of points that no word parts.

    One scale holds for all points: percent for tags and percent signs; shares of the sides where no coordinate is above 1;
    pixels where one is above 1000 or the reply says "pixel"; thousandths otherwise. A reply that is two numbers is a point too.
    """
    text = after_thinking(cleaned(reply))
    containers = list(_ANSWER.finditer(text))
    if containers:
        text = containers[-1]["inside"]
    pairs = [pair for tag in _MOLMO.finditer(text) for pair in _MOLMO_PAIR.finditer(tag[1])]
    if pairs:
        try:
            return [(float(pair[2]) / 100, float(pair[3]) / 100) for pair in pairs]
        except ValueError:
            return []
    runs: list[list[tuple[float, ...]]] = []
    keyed: list[tuple[float, ...]] = []
    end = -1
    for match in _ANY_POINT.finditer(text):
        numbers = _shares(match)
        if end < 0 or _WORD_BETWEEN.search(text, end, match.start()):
            runs.append([])
        runs[-1].append(numbers)
        if _KEYED.search(text, max(0, match.start() - _KEY_BEFORE), match.start()):
            keyed.append(numbers)
        end = match.end()
    if not runs and (bare := _BARE.fullmatch(text)):
        runs.append([_shares(bare)])
    chosen = keyed or (runs[-1] if runs else [])
    return _on_one_scale(chosen, text, width, height)


def _shares(match: re.Match[str]) -> tuple[float, ...]:
    """Return (x, y, 1 where a number has a percent sign else 0), of a box its centre."""
    values = [
        (float(number), bool(sign))
        for number, sign in zip(match.groups()[::2], match.groups()[1::2], strict=True)
        if number
    ]
    percent = float(any(sign for _, sign in values))
    numbers = [number for number, _ in values]
    if len(numbers) == 4:
        numbers = [(numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2]
    return numbers[0], numbers[1], percent


def _on_one_scale(numbers: Sequence[tuple[float, ...]], text: str, width: int, height: int) -> list[Point]:
    largest = max((max(abs(x), abs(y)) for x, y, _ in numbers), default=0.0)
    if any(percent for *_, percent in numbers):
        across, down = 100.0, 100.0
    elif largest <= 1:
        across = down = 1.0
    elif largest > THOUSANDTHS or "pixel" in text.lower():
        across, down = float(width), float(height)
    else:
        across = down = THOUSANDTHS
    return [(x / across, y / down) for x, y, _ in numbers]


def strict_pixel(point: Point, width: int, height: int) -> tuple[int, int] | None:
    """Return the pixel (column, row) in which a normalised point lies; None outside the image. Its far edges belong to it."""
    x, y = point
    if not (0 <= x <= 1 and 0 <= y <= 1):
        return None
    return min(int(x * width), width - 1), min(int(y * height), height - 1)


_MOVE = re.compile(r"\b([A-Za-z]+_[A-Za-z]+)\s*[:=]\s*([+-]?\d{1,9}(?:\.\d{1,9})?)")


def strict_view_change(reply: str, gold: str) -> Score:
    """Score a view change whose actions are known, in any case and with a colon or an equals sign; else invalid.

    Unlike either harness's rule a reply that names no known action is worth nothing, though the axes on which the gold
    answer does not move would agree with silence.
    """
    known = {name for axis in SPAR_AXES for name in axis}
    moves = {name.lower(): float(amount) for name, amount in _MOVE.findall(reply) if name.lower() in known}
    if not moves:
        return Score(0.0, None, "invalid", "no action with an amount")
    return view_change(moves, gold)


def osi_number_strictly(reply: str, gold: str, category: str, question: str) -> Score:
    """Score the number by the careful extractor; below the bound counts the amount, whatever its sign."""
    reading = read("number", reply, question=question)
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    predicted = float(reading.value)
    try:
        target = float(gold)
    except ValueError:
        return Score(None, predicted, "unscored", f"the gold answer {gold[:60]!r} is no number")
    return osi_number(abs(predicted) if target == 0 else predicted, gold, category)


_COMPACT = re.compile(r"(?<![A-Za-z])[A-D](?:[^A-Za-z\n]{0,8}[A-D]){3}(?![A-Za-z])")


def strict_order(reply: str) -> str | None:
    """Return the last order of four different letters that a reply gives, thinking aside; None where it gives none.

    Letters may be run together or parted by marks (`BDAC`, `B, D, A, C`, `(B) -> (D) -> ...`), or named as steps or by
    first to fourth.
    """
    text = after_thinking(cleaned(reply))
    orders = ["".join(STEP_LETTER.findall(match[0])) for match in _COMPACT.finditer(text)]
    orders = [order for order in orders if len(set(order)) == LEGO_STEPS]
    return orders[-1] if orders else match_sequence(text)


def lego(reply: str, gold: str) -> Score:
    """Score the order that `strict_order` reads."""
    order = strict_order(reply)
    if order is None:
        return Score(0.0, None, "invalid", "no order of four letters")
    right = order == gold.strip().upper()
    return Score(float(right), order, "correct" if right else "wrong")


_BRACKETED = re.compile(r"\[[^\[\]]*+\]")


def vsi_super_streaming(reply: str, gold: str) -> Score:
    """Score the last list in a reply, thinking aside, over all gold answers: missing ones are wrong, further ones ignored."""
    targets = answers_of(gold)
    if not targets or any(map(math.isnan, targets)):
        return Score(None, None, "unscored", f"the gold answer {gold[:60]!r} is no list of numbers")
    last: re.Match[str] | None = None
    for last in _BRACKETED.finditer(after_thinking(cleaned(reply))):  # noqa: B007 - no list of all of them
        pass
    items = list_in(last[0]) if last else None
    if items is None:
        return Score(0.0, None, "invalid", "no list of numbers")
    values = [one_answer(item, target) for item, target in zip(items, targets, strict=False)]
    return score_of_list(sum(values) / len(targets), items)


_KEYED_ANSWER = re.compile(
    r"\banswer\b[\"'*]*+\s*+[:=]\s*+(?:\"([^\"\n]*+)\"|'([^'\n]*+)'|([^\s\"'{}\[\],][^\n{}\[\]\"']*+))",
    re.IGNORECASE,
)


_PLAIN_END = " \t\n.!*`\"'"


_TRUE, _FALSE = {"yes", "true"}, {"no", "false", "none"}


def strict_answer(reply: str) -> str | None:
    """Return the answer behind the last `Answer` key, without thinking; else a reply of one line; None where there is neither."""
    text = after_thinking(cleaned(reply))
    last: re.Match[str] | None = None
    for last in _KEYED_ANSWER.finditer(text):  # noqa: B007 - no list: a reply may hold a hundred thousand of them
        pass
    last_text = next(part for part in last.groups() if part is not None) if last else text
    last_text = " ".join(last_text.split()).strip(_PLAIN_END)
    return last_text if last_text and (last or len(last_text) <= MAX_WORDLESS) else None


MAX_WORDLESS = 40
"""Characters of a reply that counts as an answer without a key."""


def spatial457(reply: str, gold: str) -> Score:
    """Score 1 for the gold answer: number words are digits, yes is true, `school` is `school bus`; other shapes are wrong."""
    answer = strict_answer(reply)
    if answer is None:
        return Score(0.0, None, "invalid", "no answer")
    right = _plain(answer) == _plain(gold)
    return Score(float(right), answer, "correct" if right else "wrong")


def _plain(text: str) -> str:
    word = " ".join(text.lower().split()).strip(_PLAIN_END)
    word = word.removeprefix("a ").removeprefix("the ")
    if word in _TRUE or word in _FALSE:
        return "yes" if word in _TRUE else "no"
    head, _, kind = word.partition(" ")
    if head in VEHICLES and kind in ("bike", "bus", "bicycle"):
        return head
    word = DIGIT_OF_WORD.get(word, word)
    return word.lstrip("0") or "0" if word.isdecimal() else word


def refspatial(reply: str, mask: MaskPixels, size: tuple[int, int] | None) -> Score:
    """Score the share of points that lie on the mask; points outside the image are misses.

    Args:
        mask: of any size: points are placed by their share of the sides.
        size: width and height of the image, for a reply in pixels; None where they are not known: those of the mask.
    """
    read = strict_points(reply, *(size or mask.size))
    if not read:
        return Score(0.0, None, "invalid", "no point")
    width, height = mask.size
    places = [strict_pixel(point, width, height) for point in read]
    hits = sum(bool(mask.first[place[1], place[0]] > 0) for place in places if place is not None)
    return graded_points(hits / len(read), [list(point) for point in read[:MAX_POINTS]])


def yes_no(reply: str, gold: str, question: str) -> Score:
    """Score a plain yes or no."""
    reading = read("truth", reply, question=question, form="yes/no")
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = reading.value is (gold.strip().lower() == "yes")
    return Score(float(right), "yes" if reading.value else "no", "correct" if right else "wrong")


def robospatial(reply: str, gold: str, question: str, size: tuple[int, int], mask: MaskPixels | None) -> Score:
    """Score a plain yes or no, or the first point: in the polygon or on its edge; on the mask where there is no polygon."""
    if is_yes_no(gold):
        return yes_no(reply, gold, question)
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


def score_stare(sample: Sample, reply: str) -> Score:
    """Score STARE with the classes of its yes-or-no questions, from which F1 is made."""
    return with_classes(strict(sample, reply), str(sample.target), str(sample.meta.get("yes_no", "")))


def score_zero(sample: Sample, reply: str) -> Score:
    """Score strictly, where of a gold answer of 0 only 0 is right: 0.4 is not close to none."""
    score = strict(sample, reply)
    gold = base.float_or_none(str(sample.meta["gold"]))
    if sample.kind != "number" or not score.value or score.value == 1 or gold != 0:
        return score
    return Score(0.0, score.extracted, "wrong", "the gold answer is 0")


def score_vsi_super_count(sample: Sample, reply: str) -> Score:
    """Score VSI-SUPER-Count: streaming questions by their list."""
    if base.STREAMING in str(sample.meta.get("question_type", "")):
        return vsi_super_streaming(reply, str(sample.meta["gold"]))
    return score_zero(sample, reply)


def score_osi(sample: Sample, reply: str) -> Score:
    """Score OSI-Bench."""
    if sample.kind != "number":
        return strict(sample, reply)
    category = str(sample.meta.get("category", ""))
    return osi_number_strictly(reply, str(sample.meta["gold"]), category, sample.prompt.words)


def score_lego(sample: Sample, reply: str) -> Score:
    """Score LEGO-Puzzles: orders of steps by their letters."""
    if str(sample.meta.get("question_type", "")) == base.LEGO_SORT:
        return lego(reply, str(sample.meta["gold"]))
    return strict(sample, reply)


def score_robospatial(sample: Sample, reply: str) -> Score:
    """Score RoboSpatial-Home by its polygon, which decides where there is one."""
    mask = sample.meta.get("mask")
    try:
        pixels = points.mask_pixels(mask) if isinstance(mask, points.Mask) else None
    except SnellenError:
        pixels = None  # the polygon decides; without one the row is unscored, which says why
    size = points.image_size(sample) or (pixels.size if pixels else (1, 1))
    return robospatial(reply, str(sample.meta["gold"]), sample.prompt.words, size, pixels)
