"""Boxes and points as a harness reads them: what it looks for, in which space it takes that, and which of several counts.

A reply is written anew in pixels of the image, and scored as everywhere (`snellen.scoring.grounding`). The rules, with their
sources, are those of declarations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice
from typing import Literal

from msgspec import Struct, structs

from snellen.scoring.answers.grounded import Frame, Located, Value
from snellen.scoring.answers.structure import json_in
from snellen.scoring.answers.written_regions import MOST_REGIONS, Region, regions_of
from snellen.scoring.coordinates import REPLY_SPACE, SIDES, exact, parse_coordinates
from snellen.scoring.grounding import (
    ALL_INSIDE,
    GOLD_SPACE,
    gold_of,
    grounded_reading,
    overlap,
    score_grounded,
    size_of,
)
from snellen.types import Sample, Score

_N = r"[-+]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})"
_BOX_TAG = r"<box>\s*\[\d{1,9},\d{1,9},\d{1,9},\d{1,9}\]"
FIND: Mapping[str, str] = {
    "json": "",
    "brackets": rf"[\[(]\s*{_N}(?:(?:\s*,\s*|\s+){_N}){{MORE}}\s*[\])]",
    "click": r"x=[\d.]{1,30}, y=[\d.]{1,30}",
    "x-y": rf"\bx['\"]?\s*[:=]\s*{_N}[^\d]{{1,40}}?y['\"]?\s*[:=]\s*{_N}",
    "numbers": rf"{_N}(?:[^\d.+-]{{1,200}}{_N}){{MORE}}",
    "box-tag": _BOX_TAG,
}
"""What may be looked for, as a pattern: MORE is one less than the numbers of a box or point."""


class RegionRule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a harness reads boxes and points, where it does otherwise than Snellen.

    Attributes:
        find: what is looked for, the first that finds something: `json`, `brackets` (numbers in brackets), `click` (`x=1, y=2`),
            `x-y` (that in any spelling), `numbers` (one behind the other), `box-tag` (`<box>[1,2,3,4]</box>`); empty: as everywhere.
        spaces: spaces of what was found, the first that fits: `unit <=1.5` (no number is larger), `pixel`.
        pick: of several: `first`, `best` (in whichever space, the closest to the gold answer), `all` (right only together),
            `count` (that, and as many as the row's `count`); empty: the first of a question with one, else the share that is right.
        cut: points are cut to whole pixels.
        corner: a reply without a point is a click at the upper left corner.
    """

    find: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    pick: Literal["", "first", "best", "all", "count"] = ""
    cut: bool = False
    corner: bool = False

    def __post_init__(self) -> None:
        if unknown := next((name for name in self.find if name not in FIND), ""):
            raise ValueError(f"find has {unknown!r}; one of {', '.join(FIND)} was expected")
        for entry in self.spaces:
            parse_coordinates(entry.partition(" <=")[0], "spaces =")


def score_by_rule(rule: RegionRule, sample: Sample, reply: str) -> Score:
    """Score a reply with boxes or points as a harness does; `sample` has the space of its coordinates in its meta."""
    if (size := size_of(sample)) is None:
        return score_grounded(sample, reply)
    gold = gold_of(sample.target, sample.kind, Frame(parse_coordinates(str(sample.meta[GOLD_SPACE])), size))
    found = _located(rule, sample, reply, size, gold)
    if not found and not (rule.find and sample.kind == "boxes"):
        return score_grounded(sample, "" if rule.find else reply)
    if rule.pick == "count" and len(found) != int(sample.meta.get("count") or 0):
        return Score(0.0, None, "wrong", f"{len(found)} points, and {sample.meta.get('count')} were expected")
    meta = {**sample.meta, REPLY_SPACE: "pixel"} | ({ALL_INSIDE: True} if rule.pick in ("all", "count") else {})
    key = "bbox_2d" if SIDES[sample.kind] == 4 else "point_2d"
    rows = [{key: [*map(float, one.numbers)], "label": one.label, "score": one.score} for one in found]
    return score_grounded(structs.replace(sample, meta=meta), json.dumps(rows))


def evidence_overlap(rule: RegionRule, reply: str, gold: str) -> float:
    """Return the mean over gold boxes of the best overlap with a box that a reply shows; without gold boxes, whether it shows one.

    Source: TreeBench in VLMEvalKit at e8e78f0, `image_mcq.py`.
    """
    written = [region for name in rule.find for region in _written(name, reply, 4)]
    if not rule.find:
        tags = re.finditer(r"<box>(.{0,400}?)</box>", reply, re.DOTALL)
        written = [*_written("json", reply, 4), *(region for tag in tags for region in regions_of(tag[1]))]
    plain = Frame(parse_coordinates("pixel"), (1, 1))
    boxes, golds = (
        [one.numbers for one in map(plain.located, part) if isinstance(one, Located) and len(one.numbers) == 4]
        for part in (written, regions_of(gold))
    )
    if not golds:
        return float(bool(boxes))
    return float(sum(max((overlap(one, box) for box in boxes), default=Fraction(0)) for one in golds) / len(golds))


def _written(name: str, reply: str, sides: int) -> list[Region]:
    """Return what a reply holds of that name, with as many numbers; what stands behind the first thousand does not count."""
    if name == "json":
        found = [region for part in json_in(reply) for region in regions_of(part.value)]
        return [region for region in found if len(region.numbers) == sides]
    hits = re.finditer(FIND[name].replace("MORE", str(sides - 1)), reply, re.IGNORECASE)
    return [Region(tuple(map(exact, re.findall(_N, hit[0])))) for hit in islice(hits, MOST_REGIONS)]


def _located(rule: RegionRule, sample: Sample, reply: str, size: tuple[int, int], gold: Value) -> list[Located]:
    """Return the boxes or points that count, in pixels."""
    is_one = sample.kind in ("box", "point") or rule.pick == "first"
    if not rule.find:
        reading = grounded_reading(sample, reply)
        value = reading.value if reading is not None else None
        return list(value)[: 1 if is_one else None] if isinstance(value, tuple) else []
    found = (_written(name, reply, SIDES[sample.kind]) for name in rule.find)
    written = next(filter(None, found), [Region((Fraction(0), Fraction(0)))] if rule.corner else [])
    variants = [several for region in written if (several := [*_variants(rule, region, size)])]
    if rule.pick == "best":
        pools = [[located for several in variants for located in several]] if is_one else variants
        variants = [[max(pool, key=lambda box: _closeness(box, gold))] for pool in pools if pool]
    return [several[0] for several in variants][: 1 if is_one else None]


def _closeness(box: Located, gold: Value) -> Fraction:
    alike = (one for one in gold if one.label.casefold() in ("", box.label.casefold()))
    return max((overlap(box.numbers, one.numbers) for one in alike), default=Fraction(0))


def _variants(rule: RegionRule, region: Region, size: tuple[int, int]) -> Iterator[Located]:
    """Yield where a region lies in each space that fits it."""
    for entry in rule.spaces:
        space, _, bound = entry.partition(" <=")
        if bound and any(abs(number or Fraction(0)) > Fraction(bound) for number in region.numbers):
            continue
        located = Frame(parse_coordinates(space), size).located(region)
        if isinstance(located, Located):
            cut = map(Fraction, map(int, located.numbers))
            yield located._replace(numbers=tuple(cut)) if rule.cut else located
