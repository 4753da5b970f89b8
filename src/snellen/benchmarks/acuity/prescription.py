"""The prescription: what to send to a model so that it sees, in plain English, with intervals.

`acuity_details` is the benchmark's `details`: fields for summary.json and `--json`, and the same in lines for the terminal. A page
gets the fields by snellen.runs.score_rows.details(run). They are:

    conditions    one a condition: threshold in px sent, after the processor, in patches, with intervals
    pictures      one a side: size sent and after the processor, and how that is known
    resizing      what thresholds at a side and at twice that side tell: none, fixed side, or unknown
    prescription  one a line: `about`, `text`, `value`, `ci95`, `unit`, `side`; a condition that is not settled has none
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from snellen.benchmarks.acuity.conditions import AcuityPlan, plan
from snellen.benchmarks.acuity.details import number
from snellen.benchmarks.acuity.metrics import ConditionResult, results
from snellen.benchmarks.acuity.processors import PictureSize, picture_size
from snellen.benchmarks.acuity.through import change_words
from snellen.benchmarks.base import ModelFacts, SummaryDetails
from snellen.scoring.psychometrics.curve import MASS, Posterior, Shape, seen
from snellen.scoring.scores import Scores

GAPS_A_FIGURE = 5
"""Gaps across a Landolt ring, the figure whose opening is just seen."""
READ_SHARE = 0.9
"""Share of words read, slips left out, at the critical print size (Bach 2007)."""
TOWARDS = {
    "a+": "towards red",
    "a-": "towards green",
    "b+": "towards yellow",
    "b-": "towards blue",
    "L+": "towards light",
    "L-": "towards dark",
}
DRAWS = 4000
Interval = tuple[float, float]


class EffectivePixels(Struct, frozen=True, omit_defaults=True):
    """A threshold in pixels sent, after the processor, and in patches; the latter two None where unknown.

    Attributes:
        condition: name with its side, such as `gap@512`.
        state: why the condition stopped.
        unit: of `sent`.
        sent: threshold as drawn, with its interval.
        after: the same after the model's processor, for attributes in pixels.
        patches: the same as a share of a patch.
    """

    condition: str
    state: str
    unit: str
    sent: float | None = None
    sent_ci95: Interval | None = None
    after: float | None = None
    after_ci95: Interval | None = None
    patches: float | None = None
    patches_ci95: Interval | None = None


class PrescriptionLine(Struct, frozen=True, omit_defaults=True):
    """One advice.

    Attributes:
        about: condition that it rests on, or `resizing`.
        text: the advice in plain English, with its interval.
        value, ci95, unit: the number in it; None without one.
        side: of the pictures, in pixels.
    """

    about: str
    text: str
    value: float | None = None
    ci95: Interval | None = None
    unit: str = ""
    side: int | None = None


class Resizing(Struct, frozen=True):
    """What thresholds of the gap at a side S and at 2 S tell of resizing, in any order of sides.

    Attributes:
        state: `none` if equal in pixels sent, `fixed side` if doubled, else `unknown`.
        sides: the pair.
        ratio: threshold at 2 S / threshold at S, with its interval.
    """

    state: Literal["none", "fixed side", "unknown"]
    sides: tuple[int, int]
    ratio: float
    ci95: Interval


def effective_pixels(result: ConditionResult, picture: PictureSize) -> EffectivePixels:
    """Return a condition's threshold in px sent, px after the processor and patches."""
    unit = result.condition.attribute.unit
    if result.value is None:
        return EffectivePixels(result.condition.key, result.estimate.state, unit)
    interval = result.low, result.high
    scale = picture.scale if unit.startswith("px") else None
    if scale is None:
        return EffectivePixels(result.condition.key, result.estimate.state, unit, result.value, interval)
    patch = None if picture.patch is None else scale / picture.patch
    return EffectivePixels(
        result.condition.key,
        result.estimate.state,
        unit,
        result.value,
        interval,
        scale * result.value,
        (scale * result.low, scale * result.high),
        None if patch is None else patch * result.value,
        None if patch is None else (patch * result.low, patch * result.high),
    )


def resizing(gaps: Sequence[ConditionResult]) -> list[Resizing]:
    """Compare the gap's thresholds at S and 2 S, of every pair of sides that were measured to an end.

    Thresholds in px sent are equal if nothing is resized between the two sides, and doubled if pictures are resized to a
    fixed side. A pair is `unknown` where the interval of the ratio holds both or neither of 1 and 2.
    """
    by_side = {result.condition.side: result for result in gaps if result.estimate.state == "settled"}
    pairs = []
    for side, result in sorted(by_side.items()):
        double = by_side.get(2 * side)
        if double is None:
            continue
        middle, low, high = ratio_interval(double.posterior, result.posterior, result.condition.attribute.sign)
        equal, doubled = low <= 1.0 <= high, low <= 2.0 <= high
        state: Literal["none", "fixed side", "unknown"] = "unknown"
        if equal != doubled:
            state = "none" if equal else "fixed side"
        pairs.append(Resizing(state, (side, 2 * side), middle, (low, high)))
    return pairs


def ratio_interval(first: Posterior, second: Posterior, sign: int) -> tuple[float, float, float]:
    """Return median and 95 % interval of the ratio of two thresholds, whose posteriors are independent."""
    draws = []
    for seed, posterior in enumerate((first, second)):
        generator = np.random.Generator(np.random.Philox(seed))
        thresholds = posterior.model.thresholds
        cell = float(thresholds[1] - thresholds[0])
        rows, _ = posterior.draws(DRAWS, generator)
        draws.append(thresholds[rows] + cell * (generator.random(DRAWS) - 0.5))
    low, middle, high = np.quantile(sign * (draws[0] - draws[1]), [(1 - MASS) / 2, 0.5, (1 + MASS) / 2])
    return float(10**middle), float(10**low), float(10**high)


def level_of_share(posterior: Posterior, shape: Shape, share: float) -> tuple[float, float, float]:
    """Return median and 95 % interval of the level in decades at which this share is seen, guesses and slips left out.

    Both threshold and width are uncertain. The level is m + w z, z being where F reaches the share.
    """
    places = np.linspace(-3.0, 3.0, 60_001)
    distance = float(np.interp(share, seen(shape, places), places))
    levels = (posterior.model.thresholds[:, None] + distance * posterior.model.nuisance["width"][None, :]).reshape(-1)
    order = np.argsort(levels, kind="stable")
    mass = posterior.weights.reshape(-1)[order].cumsum()
    low, middle, high = np.interp([(1 - MASS) / 2, 0.5, (1 + MASS) / 2], mass / mass[-1], levels[order])
    return float(middle), float(low), float(high)


def prescription(acuity_plan: AcuityPlan, measured: Sequence[ConditionResult]) -> list[PrescriptionLine]:
    """Return the advice that settled conditions allow, in the order in which a user needs it."""
    settled = [result for result in measured if result.estimate.state == "settled" and result.value is not None]
    lines = _side_to_send(_of(settled, "gap"))
    best = _best_side(_of(settled, "gap"))
    for result in _of(settled, "gap"):
        if best is None or result.condition.side == best:
            lines.append(_smallest_detail(result))
    lines += [_print_size(acuity_plan, result) for result in _of(settled, "text")]
    lines += [_colour(result) for result in _of(settled, "colour")]
    lines += [_stripes(result) for result in _of(settled, "contrast")]
    lines += [_crops(result) for result in _of(settled, "count")]
    return lines


def _of(measured: Sequence[ConditionResult], attribute: str) -> list[ConditionResult]:
    return [result for result in measured if result.condition.attribute.name == attribute]


def _share(result: ConditionResult) -> float:
    """Return the gap's threshold as a share of the side."""
    assert result.value is not None  # noqa: S101 - settled
    return result.value / result.condition.side


def _best_side(gaps: Sequence[ConditionResult]) -> int | None:
    """Return the smallest side whose finest detail lies within the interval of the best; None for fewer than two sides."""
    if len(gaps) < 2:
        return None
    best = min(gaps, key=_share)
    return min(result.condition.side for result in gaps if _share(result) <= best.high / best.condition.side)


def _side_to_send(gaps: Sequence[ConditionResult]) -> list[PrescriptionLine]:
    side = _best_side(gaps)
    if side is None:
        return []
    result = next(each for each in gaps if each.condition.side == side)
    share, ends = _share(result), (result.low / side, result.high / side)
    tried = ", ".join(str(each.condition.side) for each in sorted(gaps, key=lambda each: each.condition.side))
    text = (
        f"Send pictures at a side of {side:,} px: their finest detail that is seen is {number(100 * share)} % of the side "
        f"[{number(100 * ends[0])}, {number(100 * ends[1])}], and no other side of {tried} px shows a finer one for certain."
    )
    return [PrescriptionLine("gap", text, share, ends, "share of the side", side)]


def _smallest_detail(result: ConditionResult) -> PrescriptionLine:
    assert result.value is not None  # noqa: S101 - settled
    size, low, high = (GAPS_A_FIGURE * each for each in (result.value, result.low, result.high))
    side = result.condition.side
    text = (
        f"A detail must span {number(size)} px [{number(low)}, {number(high)}] of a picture of {side:,} px, five times the smallest gap. "
        f"Crop and enlarge what is smaller."
    )
    return PrescriptionLine(result.condition.key, text, size, (low, high), "px", side)


def _print_size(acuity_plan: AcuityPlan, result: ConditionResult) -> PrescriptionLine:
    attribute = result.condition.attribute
    middle, low, high = (
        attribute.value(level) for level in level_of_share(result.posterior, acuity_plan.shape, READ_SHARE)
    )
    text = (
        f"Print must be {number(middle)} px high [{number(low)}, {number(high)}] in a picture of {result.condition.side:,} px "
        f"to be read nine times in ten (height of capitals)."
    )
    return PrescriptionLine(result.condition.key, text, middle, (low, high), "px", result.condition.side)


def _threshold_line(result: ConditionResult, text: str) -> PrescriptionLine:
    return PrescriptionLine(
        result.condition.key,
        text,
        result.value,
        (result.low, result.high),
        result.condition.attribute.unit,
        result.condition.side,
    )


def _colour(result: ConditionResult) -> PrescriptionLine:
    return _threshold_line(
        result,
        f"Colours closer than ΔE00 {number(result.value or 0.0)} [{number(result.low)}, {number(result.high)}] "
        f"{TOWARDS[result.condition.variant]} are mostly not told apart.",
    )


def _stripes(result: ConditionResult) -> PrescriptionLine:
    return _threshold_line(
        result,
        f"Stripes of {result.condition.variant} cycles a picture are mostly not seen below a contrast of {number(result.value or 0.0)} "
        f"[{number(result.low)}, {number(result.high)}].",
    )


def _crops(result: ConditionResult) -> PrescriptionLine:
    return _threshold_line(
        result,
        f"More than {number(result.value or 0.0)} objects [{number(result.low)}, {number(result.high)}] are mostly counted wrong: count by crops.",
    )


def _resizing_line(pair: Resizing) -> PrescriptionLine:
    small, large = pair.sides
    ratio = f"the gap's threshold at {large:,} px is {pair.ratio:.2f} [{pair.ci95[0]:.2f}, {pair.ci95[1]:.2f}] times that at {small:,} px"
    ends = {
        "none": "pictures of both sides keep their pixels.",
        "fixed side": "pictures are resized to one side, so that larger ones show nothing finer.",
        "unknown": "whether pictures are resized between the two is not known.",
    }
    return PrescriptionLine("resizing", f"Measured: {ratio}; {ends[pair.state]}", pair.ratio, pair.ci95, "ratio", large)


def _picture_line(picture: PictureSize) -> str:
    resized = "" if picture.sent == picture.side else f", sent at {picture.sent:,} px"
    if picture.after is None:
        return f"pictures of {picture.side:,} px{resized}: size after the model's processor unknown ({picture.source})"
    patch = "" if picture.patch is None else f", patches of {picture.patch} px"
    return f"pictures of {picture.side:,} px{resized}: {picture.after:,.0f} px after the processor{patch} ({picture.source})"


def _effective_line(row: EffectivePixels) -> str | None:
    if row.sent is None or row.after is None or row.after_ci95 is None or row.sent_ci95 is None:
        return None
    patches = "" if row.patches is None else f" = {number(row.patches)} patches"
    return (
        f"{row.condition}: {number(row.sent)} {row.unit} as drawn [{number(row.sent_ci95[0])}, {number(row.sent_ci95[1])}] = {number(row.after)} "
        f"[{number(row.after_ci95[0])}, {number(row.after_ci95[1])}] after the processor{patches}"
    )


def _json(rows: Sequence[Struct]) -> Any:
    """Return structs as they come back from a file, so that saved and computed details are equal."""
    return msgspec.json.decode(msgspec.json.encode(rows))


def acuity_details(scores: Scores, profile: str, model: ModelFacts) -> SummaryDetails:
    """Return effective pixels and prescription of a run; see the top of this file for the fields."""
    settings = scores.meta["settings"].names[0] if "settings" in scores.meta else ""
    acuity_plan = plan(dict(line.split("=", 1) for line in settings.splitlines()))
    measured = results(acuity_plan, scores)
    pictures = {side: picture_size(side, model) for side in sorted({each.side for each in acuity_plan.conditions})}
    rows = [effective_pixels(result, pictures[result.condition.side]) for result in measured]
    pairs = resizing(_of(measured, "gap"))
    advice = [*map(_resizing_line, pairs), *prescription(acuity_plan, measured)]
    fields: Mapping[str, Any] = {
        "conditions": _json(rows),
        "pictures": _json(list(pictures.values())),
        "resizing": _json(pairs),
        "prescription": _json(advice),
    }
    lines = [*map(_picture_line, pictures.values()), *filter(None, map(_effective_line, rows))]
    through = next((each.through for each in acuity_plan.conditions), "")
    if advice and through:
        lines.append(f"All of this holds for pictures that go through {change_words(through)}.")
    return SummaryDetails(fields, (*lines, *(line.text for line in advice)))
