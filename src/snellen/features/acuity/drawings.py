"""Drawings of acuity with the alternatives that a picture decides between, for encoders, which read no question.

Encode drawings that are in memory, by an encoder of the features package.

Conditions of acuity that an encoder can be measured on: those that were named, those of a run, or the usual ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.benchmarks.acuity.attribute import DECIMALS, Attribute, Pixels, Scene
from snellen.benchmarks.acuity.conditions import AcuityPlan, Condition, plan
from snellen.benchmarks.chart.rng import Stream
from snellen.errors import UsageError
from snellen.features.extract.loop import torch_threads
from snellen.features.extract.preprocess import Transform, normalise, resize_and_crop, resized_size

if TYPE_CHECKING:
    from snellen.features.encoders.base import Encoder


Part: TypeAlias = Literal["train", "test"]


class LabelledDrawing(Struct, frozen=True, eq=False):
    """One drawing.

    Attributes:
        pixels: [height, width] or [height, width, 3] code values.
        level: that the pixels have, in decades.
        names: what the picture may show, the right name first.
    """

    pixels: Pixels
    level: float
    names: tuple[str, ...]


def refusal(attribute: Attribute) -> str | None:
    """Return why no readout of one picture's features can answer an attribute's questions; None if one can."""
    if attribute.clip:
        return "its pictures are the frames of a clip, and an encoder sees one picture at a time"
    if attribute.images > 1 or attribute.form == "same-different":
        return "it is about several pictures, and an encoder sees one picture at a time"
    if not attribute.options:
        return "its answer is written, so that there are no alternatives to separate"
    if attribute.worded is not None and attribute.alternatives is None:
        return "the words of the question decide what is right, and an encoder reads no words"
    return None


def drawings(
    condition: Condition, level: float, part: Part, number: int, *, seed: int, scale: float = 0.0
) -> Iterator[LabelledDrawing]:
    """Draw a condition at one level, each picture anew; right options come equally often, to within one.

    Training and test pictures have streams of their own, and show different recorded things (scans), so that no picture
    is in both.

    Args:
        condition: what is drawn; `refusal` of its attribute must be None.
        level: one of the attribute's levels, in decades.
        part: train or test.
        number: of drawings.
        seed: the same seed gives the same pictures.
        scale: length from another condition, as in `Scene`.
    """
    attribute = condition.attribute
    for index in range(number):
        answer = index % len(attribute.options)
        key = f"{condition.key}/x{level:+.{DECIMALS}f}/{part}/{index}"
        retry = 0
        while True:
            streams = partial(Stream, "acuity-features", seed, key, retry)
            scene = partial(_scene, condition, level, answer, scale, streams)
            if attribute.exemplar is None or attribute.exemplar(scene()) % 2 == (part == "test"):
                break
            retry += 1
        names = _options(attribute, answer) if attribute.alternatives is None else attribute.alternatives(scene())
        realised = level if attribute.realised is None else attribute.level(attribute.realised(scene()))
        (pixels,) = attribute.draw(scene())
        yield LabelledDrawing(pixels, realised, names)


def _scene(condition: Condition, level: float, answer: int, scale: float, streams: Callable[[], Stream]) -> Scene:
    """Return a scene with a stream at its beginning."""
    return Scene(condition.attribute.value(level), answer, streams(), condition.side, condition.variant, scale)


def _options(attribute: Attribute, answer: int) -> tuple[str, ...]:
    others = (option for place, option in enumerate(attribute.options) if place != answer)
    return attribute.options[answer], *others


def encode_pictures(encoder: Encoder, pictures: Sequence[Pixels], batch_size: int = 64) -> NDArray[np.float32]:
    """Return the first output [n, d] of pictures in memory, by the encoder's own transform.

    Grey pictures become three equal channels, as PNG files of them do when they are decoded.
    """
    import torch

    rows = []
    with torch_threads(encoder, batch_size), torch.inference_mode():
        for start in range(0, len(pictures), batch_size):
            images = [
                resize_and_crop(_three_channels(pixels), encoder.transform)
                for pixels in pictures[start : start + batch_size]
            ]
            stacked = torch.stack(images).to(encoder.device)
            values = encoder.encode(normalise(stacked, encoder.transform))[encoder.outputs[0]]
            rows.append(values.float().cpu().numpy())
    return np.concatenate(rows)


def _three_channels(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels)


def seen_share(transform: Transform, side: int) -> float:
    """Return the share of a square picture's side that is left after the transform's crop: 1 where nothing is cut off."""
    if transform.crop is None:
        return 1.0
    height, width = resized_size(side, side, transform)
    return min(1.0, transform.crop[0] / height, transform.crop[1] / width)


FAMILIES = ("default", "all", "chart", "chart/*")
EMBEDDED = "embedded"


class EncoderConditions(Struct, frozen=True):
    """What is measured.

    Attributes:
        conditions: in order.
        labels: name of each, with its side where several sides are measured.
        omitted: one line for each condition of a family that no encoder can be measured on.
    """

    conditions: tuple[Condition, ...]
    labels: tuple[str, ...]
    omitted: tuple[str, ...]


def select_conditions(
    encoder: str, attributes: str | None, sides: str | None, run: AcuityPlan | None = None
) -> EncoderConditions:
    """Choose the conditions.

    Args:
        encoder: as typed; the embedded one has the family `chart` as its usual conditions.
        attributes, sides: as in `snellen acuity`; None: those of the run, else the usual ones.
        run: what the run measured whose answers are compared; only its conditions are measured then.

    Raises:
        UsageError: there is no such condition, the run has none of them, or a named one needs more than one picture's
            features.
    """
    options = {} if sides is None else {"sides": sides}
    usual = "chart" if encoder == EMBEDDED else "default"
    candidates: Sequence[Condition] = plan(
        {**options, "attributes": usual if attributes is None else attributes}
    ).conditions
    if run is not None:
        measured = {each.key: each for each in run.conditions}
        if attributes is None:
            candidates = [each for each in run.conditions if sides is None or str(each.side) in _words(sides)]
        elif sides is None:
            names = {each.name for each in candidates}
            candidates = [each for each in run.conditions if each.name in names]
        else:
            candidates = [each for each in candidates if each.key in measured]
        if not candidates:
            raise UsageError("the run has none of these conditions", f"It has: {', '.join(measured)}.")
    explicit = set(_words(attributes or "")) - set(FAMILIES)
    conditions, omitted = [], []
    for condition in candidates:
        reason = refusal(condition.attribute)
        if reason is None:
            conditions.append(condition)
        elif explicit & {condition.name, condition.attribute.name}:
            raise UsageError(
                f"{condition.name} cannot be measured on features: {reason}",
                "Name conditions of one picture with options, such as --attributes gap,contrast.",
            )
        else:
            omitted.append(f"{condition.name} is not measured: {reason}")
    if not conditions:
        raise UsageError("none of these conditions can be measured on features", "Add --attributes gap, for example.")
    several = len({condition.side for condition in conditions}) > 1 and len(conditions) > len(
        {condition.name for condition in conditions}
    )
    labels = tuple(condition.key if several else condition.name for condition in conditions)
    return EncoderConditions(tuple(conditions), labels, tuple(dict.fromkeys(omitted)))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]
