"""Effective pixels: what a model gets of the pixels that were sent, by its own processor, by a dated rule, or unknown."""

from __future__ import annotations

import datetime as dt
import re
from functools import cache
from math import ceil, floor, sqrt
from typing import Literal

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import ModelFacts
from snellen.media import fitted
from snellen.toml_text import packaged_toml


class ProcessorRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A dated rule of processors.toml, which explains the fields."""

    name: str
    models: tuple[str, ...]
    kind: Literal["fixed", "multiple", "shrink", "fit", "unknown"]
    date: dt.date
    source: str
    side: int = 0
    factor: int = 0
    min_pixels: int = 0
    max_pixels: int = 0
    max_side: int = 0
    short_side: int = 0
    patch: int | None = None
    note: str = ""

    def after(self, side: int) -> float | None:
        """Return the side of a square picture after the processor, in pixels; None: unknown."""
        if self.kind == "fixed":
            return float(self.side)
        if self.kind == "multiple":
            return float(self._multiple(side))
        if self.kind == "shrink":
            return min(float(side), float(self.max_side), sqrt(self.max_pixels))
        if self.kind == "fit":  # whether a smaller picture is enlarged is not documented
            return float(self.short_side) if side >= self.short_side else None
        return None

    def scale(self, width: int, height: int) -> float | None:
        """Return pixels after the processor / pixels before it, of a picture of any shape; None: unknown.

        Where a rule changes the shape, this is the geometric mean of both sides.
        """
        mean_side = sqrt(width * height)
        if self.kind == "shrink":
            return min(1.0, self.max_side / max(width, height), sqrt(self.max_pixels) / mean_side)
        if self.kind in ("fixed", "multiple"):
            after = self.after(max(1, round(mean_side)))
            return None if after is None else after / mean_side
        return None

    def _multiple(self, side: int) -> int:
        """Return the side of a square after Qwen's smart_resize, with the rounding errors of its divisions."""
        rounded = round(side / self.factor) * self.factor
        if rounded * rounded > self.max_pixels:
            shrink = sqrt(side * side / self.max_pixels)
            return max(self.factor, floor(side / shrink / self.factor) * self.factor)
        if rounded * rounded < self.min_pixels:
            enlarge = sqrt(self.min_pixels / (side * side))
            return ceil(side * enlarge / self.factor) * self.factor
        return rounded


class _ProcessorFile(Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[ProcessorRule, ...]


@cache
def processor_rules() -> tuple[ProcessorRule, ...]:
    """Return the rules of processors.toml, in their order."""
    return msgspec.convert(packaged_toml("snellen.benchmarks.acuity", "processors.toml"), _ProcessorFile).rule


def processor_rule(model: str) -> ProcessorRule | None:
    """Return the rule for a model as typed after `--model`, such as `api:Qwen/Qwen3-VL-8B-Instruct`; None: unknown.

    Folders of a path tell nothing, nor does the name of a replayed file.
    """
    if model.startswith("replay:"):
        return None
    name = model.rstrip("/").rpartition("/")[2]
    return next(
        (rule for rule in processor_rules() if any(re.search(pattern, name, re.IGNORECASE) for pattern in rule.models)),
        None,
    )


class PictureSize(Struct, frozen=True, omit_defaults=True):
    """What becomes of square pictures of one side.

    Attributes:
        side: of the picture that was drawn, in pixels.
        sent: its side as sent, after the run's own image settings.
        after: its side after the model's processor; None: unknown.
        patch: side of one patch after the processor; None: unknown.
        by: `processor` where the run's own processor was measured, `rule` where processors.toml says so, else `unknown`.
        source: the rule with its date, or what is known otherwise.
    """

    side: int
    sent: int
    by: Literal["processor", "rule", "unknown"]
    source: str
    after: float | None = None
    patch: int | None = None

    @property
    def scale(self) -> float | None:
        """Side after the processor / side that was drawn; None: unknown."""
        return None if self.after is None else self.after / self.side


def picture_size(side: int, model: ModelFacts) -> PictureSize:
    """Return what becomes of a square picture: measured by the run's processor if recorded, else by a rule, else unknown."""
    sent = fitted(side, side, model.media)[0]
    for image in model.images:
        if (image.sent_width, image.sent_height) == (sent, sent):
            if image.width is None:
                source = f"the model's processor cuts it into {image.tiles} tiles, so that no single scale holds"
                return PictureSize(side, sent, "processor", source)
            return PictureSize(side, sent, "processor", "the model's own processor", float(image.width), image.patch)
    rule = processor_rule(model.name)
    if rule is None:
        return PictureSize(side, sent, "unknown", "no rule is known for this model")
    after = rule.after(sent)
    dated = f"{rule.name}, {rule.source}, {rule.date}"
    source = f"{dated}. {rule.note}" if rule.note else dated
    return PictureSize(side, sent, "unknown" if after is None else "rule", source, after, rule.patch)


def picture_scale(width: int, height: int, model: ModelFacts) -> float | None:
    """Return pixels that a model gets / pixels of the picture file, on each side; None: unknown.

    The run's own image settings come first. Then the size that the run's processor recorded counts, or else a rule.
    """
    sent = fitted(width, height, model.media)
    before = sent[0] / width
    for image in model.images:
        if (image.sent_width, image.sent_height) == sent and image.width is not None and image.height is not None:
            return before * sqrt(image.width / sent[0] * image.height / sent[1])
    rule = processor_rule(model.name)
    scale = None if rule is None else rule.scale(*sent)
    return None if scale is None else before * scale
