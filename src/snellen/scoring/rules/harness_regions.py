"""Boxes and points as a harness reads them: what it looks for, in which space it takes that, and which of several counts.

A reply is written anew in pixels of the image, and scored as everywhere (`snellen.scoring.grounding`). The rules, with their
sources, are those of declarations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, Literal, NamedTuple

from msgspec import Struct, structs

from snellen.scoring.answers.grounded import Frame, Located, Value
from snellen.scoring.answers.structure import json_in
from snellen.scoring.answers.written_regions import MOST_REGIONS, Region, regions_of
from snellen.scoring.coordinates import REPLY_SPACE, SIDES, Numbers, exact, parse_coordinates
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

_POWER = r"[-+]?(?:\d{0,18}\.)?\d{1,18}(?:[eE][-+]?\d{1,2})?"
_SHARE = r"-?\d{1,18}(?:\.\d{1,18})?%?"


class Form(NamedTuple):
    """A written box or point: what a number is, and what stands before, between and behind; `numbers` 0: those of a box or point."""

    number: str
    before: str = ""
    between: str = ""
    behind: str = ""
    numbers: int = 0


FIND: Mapping[str, Form] = {
    "json": Form(""),
    "brackets": Form(_SHARE, r"[\[(]\s*", r"\s*[,\s]\s*", r"\s*[\])]"),
    "json-last-first": Form(""),
    "square": Form(_POWER, r"\[\s*", r"(?:\s*,\s*|\s+)", r"\s*\]"),
    "round": Form(r"[-+]?(?:\d{0,18}\.)?\d{1,18}", r"\(", r"\s*,\s*", r"\)"),
    "tuple": Form(r"[-+]?\d{1,18}\.?\d{0,18}", r"\(", r",\s*", r"\)"),
    "row": Form(r"-?\d{1,18}(?:\.\d{1,18})?", "", r"\s*[,\s]\s*"),
    "click": Form(r"[\d.]{1,30}", "x=", ", y="),
    "x-y": Form(_SHARE, r"(?i:x['\"]?\s*[:=]\s*)", r"(?is:.{0,400}?y['\"]?\s*[:=]\s*)"),
    "bbox-tag": Form(
        _SHARE, r"(?i:<\s*bbox[^>]{0,80}>)[^<\d-]{0,80}", r"[^<\d%-]{1,80}", r"(?is:[^<]{0,400}<\s*/\s*bbox)", 4
    ),
    "box-word": Form(_SHARE, numbers=4),
    "numbers": Form(_POWER),
    "shares": Form(_SHARE),
    "box-tag": Form(r"\d{1,9}", r"<box>\s*\[", ",", r"\](?=[^<]{0,400}</box>)"),
}
"""What may be looked for. Without anything between, the first numbers of a reply count, whatever stands between them."""
_KEYS = ("bbox_2d", "bbox", "box_2d", "box", "point_2d", "point")
_LABELS = ("label", "class", "category", "name", "class_name")


class RegionRule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a harness reads boxes and points, where it does otherwise than Snellen.

    Attributes:
        find: what is looked for, the first that finds something; empty: as everywhere. `json`, and `json-last-first` for its boxes
            from the last to the first; `brackets` (round or square, percent too), `square` `[1, 2]`, `round` and `tuple` `(1, 2)` (the
            latter without numbers as `.5`), `row` `1, 2`; `click` (`x=1, y=2`), `x-y` (that in any spelling); `box-tag`
            (`<box>[1,2,3,4]</box>`); `bbox-tag` and `box-word` (four numbers where a box or rectangle is named), of which the centre
            is a point; `numbers` and `shares` (these with percent), the first of the reply.
        spaces: spaces of what was found, the first that fits: `unit <=1.5` (no number is larger), `pixel`.
        pick: of several: `first`, `best` (in whichever space, the closest to the gold answer), `all` (right only together),
            `count` (that, and as many as the row's `count`); empty: the first of a question with one, else the share that is right.
        cut: points are cut to whole pixels, `down` or to the `nearest`.
        fit: the corners of a box are put in order, and cut to the image.
        corner: a reply without a point is a click at the upper left corner.
    """

    find: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    pick: Literal["", "first", "best", "all", "count"] = ""
    cut: Literal["", "down", "nearest"] = ""
    fit: bool = False
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
    thought = re.search(r"<think>(.*?)</think>", reply, re.DOTALL)
    written = [region for name in rule.find for region in _written(name, thought[1] if thought else reply, 4)]
    if not rule.find:
        tags = re.finditer(r"<box>(.{0,400}?)</box>", reply, re.DOTALL)
        parts = (*(part.value for part in json_in(reply)), *(tag[1] for tag in tags))
        written = [region for part in parts for region in regions_of(part)]
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
    if name.startswith("json"):
        found = [region for part in json_in(reply) for region in _in_json(part.value, sides)]
        return found if name == "json" else found[::-1]
    form = FIND[name]
    sides = form.numbers or sides
    if name == "box-word" and not re.search("box|rect", reply, re.IGNORECASE):
        return []
    if not form.between:
        first = [hit[0] for hit in islice(re.finditer(form.number, reply), sides)]
        return [Region(tuple(map(_number, first)))] if len(first) == sides else []
    pattern = form.before + form.between.join([f"({form.number})"] * sides) + form.behind
    return [Region(tuple(map(_number, hit.groups()))) for hit in islice(re.finditer(pattern, reply), MOST_REGIONS)]


def _number(text: str) -> Fraction | None:
    number = exact(text.rstrip("%"))
    return number / 100 if number is not None and text.endswith("%") else number


def _in_json(data: Any, sides: int) -> Iterator[Region]:
    """Yield the lists of as many numbers, with the label of the object that has one under a key of boxes or points."""
    waiting = [data]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            value = next((part[key] for key in _KEYS if key in part), None)
            if isinstance(value, list) and len(value) == sides:
                label = next((part[key] for key in _LABELS if key in part), "")
                yield Region(tuple(map(exact, value)), label=str(label).strip())
            else:
                waiting.extend(reversed(list(part.values())))
        elif isinstance(part, list):
            if len(part) == sides and all(isinstance(one, int | Decimal) for one in part):
                yield Region(tuple(map(exact, part)))
            waiting.extend(reversed(part))


def _located(rule: RegionRule, sample: Sample, reply: str, size: tuple[int, int], gold: Value) -> list[Located]:
    """Return the boxes or points that count, in pixels."""
    is_one = sample.kind in ("box", "point") or rule.pick == "first"
    if not rule.find:
        reading = grounded_reading(sample, reply)
        value = reading.value if reading is not None and isinstance(reading.value, tuple) else ()
        taken = [one._replace(numbers=_as_taken(rule, one.numbers, len(one.numbers), size)) for one in value]
        return taken[: 1 if is_one else None]
    found = (_written(name, reply, SIDES[sample.kind]) for name in rule.find)
    written = next(filter(None, found), [Region((Fraction(0), Fraction(0)))] if rule.corner else [])
    variants = [several for region in written if (several := [*_variants(rule, region, size, sample.kind)])]
    if rule.pick == "best":
        pools = [[located for several in variants for located in several]] if is_one else variants
        variants = [[max(pool, key=lambda box: _closeness(box, gold))] for pool in pools if pool]
    return [several[0] for several in variants][: 1 if is_one else None]


def _closeness(box: Located, gold: Value) -> Fraction:
    alike = (one for one in gold if one.label.casefold() in ("", box.label.casefold()))
    return max((overlap(box.numbers, one.numbers) for one in alike), default=Fraction(0))


def _variants(rule: RegionRule, region: Region, size: tuple[int, int], kind: str) -> Iterator[Located]:
    """Yield where a region lies in each space that fits it."""
    for entry in rule.spaces:
        space, _, bound = entry.partition(" <=")
        if bound and any(abs(number or Fraction(0)) > Fraction(bound) for number in region.numbers):
            continue
        if rule.fit and len(region.numbers) == 4 and None not in region.numbers:
            numbers = [number for number in region.numbers if number is not None]
            ordered = (*map(min, numbers[:2], numbers[2:]), *map(max, numbers[:2], numbers[2:]))
            region = region._replace(numbers=ordered)
        located = Frame(parse_coordinates(space), size).located(region)
        if isinstance(located, Located):
            yield located._replace(numbers=_as_taken(rule, located.numbers, SIDES[kind], size))


def _as_taken(rule: RegionRule, numbers: Numbers, sides: int, size: tuple[int, int]) -> Numbers:
    """Return a box or point as it counts: the centre of a box for a point, whole pixels, corners in the image."""
    if len(numbers) > sides:
        numbers = (numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2
    if rule.fit:
        return tuple(min(max(number, Fraction(0)), Fraction(size[at % 2])) for at, number in enumerate(numbers))
    if rule.cut:
        whole = [int(number) if rule.cut == "down" else round(number) for number in numbers]
        return tuple(Fraction(-1 if number == size[at % 2] else number) for at, number in enumerate(whole))
    return numbers
