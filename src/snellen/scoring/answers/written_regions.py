"""Boxes and points as replies and gold cells write them: JSON, the tagged forms of model families, bare numbers.

Nothing is scaled here, but for location tokens, whose grid is part of their form (PaliGemma: 1023 steps, y first;
Florence-2: the middle of 1000 bins).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from snellen.scoring.answers.named_edges import named_boxes
from snellen.scoring.answers.structure import whole_json
from snellen.scoring.coordinates import exact

MOST_REGIONS = 1_000
"""Boxes or points of one reply; more are no answer."""
MOST_CHARACTERS, MOST_CORNERS = 200_000, 20_000
_LABELS = ("label", "name", "category", "class", "classname")
_FIELDS = ("bbox2d", "bbox", "box2d", "box", "boundingbox", "point2d", "point", "points", "coordinates", "click")
_HOLDERS = ("answer", "result", "results", "objects", "boxes", "bboxes", "detections", "predictions", "annotations")
_OUTLINES = (
    "polygon",
    "polygons",
    "segmentation",
    "outline",
    "contour",
    "mask",
    "rle",
    "vertices",
    "points",
    "coordinates",
)
_EDGES = {"left": "x1", "top": "y1", "right": "x2", "bottom": "y2", "width": "w", "height": "h"}
_CORNER_NAMES = ("topleft", "upperleft", "bottomright", "lowerright")
_CORNERS, _SIZED, _CENTRE = ("x1", "y1", "x2", "y2"), ("x", "y", "w", "h"), ("x", "y")
_NUMBER = r"[-−+]?(?:\d{1,9}(?:\.\d{0,18})?|\.\d{1,18})(?:e[-+]?\d{1,2})?(?![\d.]*\d)|nan|[-−]?inf(?:inity)?"
_NUMBERS = re.compile(_NUMBER, re.IGNORECASE)
_BARE = re.compile(
    rf"[\s,;\[\](){{}}]*(?:(?:{_NUMBER})[\s,;\[\](){{}}]+)*(?:{_NUMBER})[\s,;\[\](){{}}]*", re.IGNORECASE
)
NO_NUMBER = re.compile(r"(?<![\w\"'])[-−]?(?:nan|inf(?:inity)?)(?![\w\"'])", re.IGNORECASE)
_GROUP = re.compile(rf"[\[(]\s*((?:{_NUMBER})%?(?:\s*,\s*(?:{_NUMBER})%?){{1,3}})\s*[\])]", re.IGNORECASE)
_LABEL = re.compile(r"<ref>([^<]{0,200})</ref>|<\|object_ref_start\|>([^<]{0,200})<\|object_ref_end\|>")
_TAG = re.compile(r"</?\|?[a-zA-Z_]{2,20}\|?>")
_CLICK = re.compile(
    r"(?:action:\s*)?(?:pyautogui\.)?(?:left_|right_)?(?:click|double_?click|moveto)\s*\(((?:[^()]|\([^()]{1,80}\)){1,200})\)",
    re.IGNORECASE,
)
_OTHER_ARGUMENT = re.compile(r",\s*[a-zA-Z_]{3,20}\s*=\s*(?![\"'(\[]{1,4}[-+.\d])[^,]{0,80}")
_ATTRIBUTE = re.compile(r"\b([a-zA-Z_]{1,12}\d{0,3})\s*=\s*[\"']?")
_MOLMO = re.compile(r"<points?\s[^<>]{1,4000}>(?:[^<]{0,200}</points?>)?", re.IGNORECASE)
_MOLMO_PAIR = re.compile(
    r"\bx(\d{0,3})\s*=\s*[\"']([^\"']{1,30})[\"']\s*y\1\s*=\s*[\"']([^\"']{1,30})[\"']", re.IGNORECASE
)
_LOCATION = re.compile(r"((?:<loc_?\d{1,4}>){2,400})([^<>;]{0,100})")
_TAGGED_CORNERS = re.compile(r"(<\|?box(?:_start)?\|?>\s{0,4}\([^()]{1,60})\)\s{0,4},\s{0,4}\(([^()]{1,60}\))")
_STEP = re.compile(r"<loc(_?)(\d{1,4})>")


class Region(NamedTuple):
    """A box (four numbers), a point (two) or the corners of a polygon (six and more) as it is written.

    Attributes:
        numbers: None stands for what is no finite number.
        form: `order` for numbers in the declared order; `corners`, `sized` (with width and height) and `centre` where keys say
            what each is; `unit` where numbers are shares of the sides, from left, top, right, bottom.
        label: the name of what is there.
        score: the confidence that the reply gives; None without one.
        share: numbers are shares of the sides, since percent stood behind them, in the declared order.
        mask: in place of numbers, a mask in COCO's run lengths as JSON.
        crowd: it holds a group, as `iscrowd` of COCO says.
        area: the area of what is in the box, as COCO gives it; None: that of the box.
    """

    numbers: tuple[Fraction | None, ...]
    form: str = "order"
    label: str = ""
    score: float | None = None
    mask: str = ""
    crowd: bool = False
    area: Fraction | None = None
    share: bool = False


def regions_of(data: Any) -> list[Region]:
    """Return the boxes and points that a text, a list or an object writes and is; empty for anything else."""
    if not isinstance(data, str):
        return list(_in_data(data))
    if len(data) > MOST_CHARACTERS:
        return []
    text = _TAGGED_CORNERS.sub(r"\1,\2", data.strip())
    if "<loc" in text:
        return _locations(text)
    if pairs := [pair for tag in _MOLMO.finditer(text) for pair in _MOLMO_PAIR.finditer(tag[0])]:
        rest = _MOLMO.sub("", text)
        return [Region((exact(pair[2]), exact(pair[3])), "centre") for pair in pairs] if not rest.strip() else []
    if click := _CLICK.fullmatch(text):
        inner = _OTHER_ARGUMENT.sub("", click[1])
        text = inner if _named(inner) is not None else _ATTRIBUTE.sub("", inner).replace("'", "").replace('"', "")
    starts = [match.start() for match in _LABEL.finditer(text)]
    if len(starts) > 1 and not text[: starts[0]].strip():
        return [one for at, end in zip(starts, [*starts[1:], None], strict=True) for one in regions_of(text[at:end])]
    label = next((part for match in _LABEL.finditer(text) for part in match.groups() if part), "")
    text = _TAG.sub(" ", _LABEL.sub(" ", text)).strip(" ,.\n")
    if "%" in text and text.count("%") == len(_NUMBERS.findall(text)):
        found = ((one, one.numbers) for one in regions_of(text.replace("%", "")))
        return [
            one._replace(numbers=tuple(n and n / 100 for n in numbers), label=one.label or label, share=True)
            for one, numbers in found
        ]
    value = whole_json(NO_NUMBER.sub("null", text))
    if value is not None:
        return [region._replace(label=region.label or label) for region in _in_data(value)]
    if (named := _named(text)) is not None:
        return [named._replace(label=label)]
    return [region._replace(label=label) for region in _bare(text)]


def named_region(fields: Mapping[str, str]) -> Region | None:
    """Return the region whose numbers are named, all of them or none in percent of the sides."""
    shares = {number.endswith("%") for number in fields.values()}
    region = next(_in_data({name: number.rstrip("%") for name, number in fields.items()}), None)
    if region is None or len(shares) > 1:
        return None
    numbers = tuple(number and number / 100 for number in region.numbers) if True in shares else region.numbers
    return region._replace(numbers=numbers, share=True in shares)


def areas_of(data: Any) -> list[tuple[Region, ...]]:
    """Return the outlines and masks that a text, a list or an object writes and is, each with its parts."""
    if isinstance(data, str):
        text = _TAG.sub(" ", data).strip(" ,.\n") if '"counts"' not in data else data
        value = whole_json(text) or whole_json(NO_NUMBER.sub("null", text))
        ring = None if value is not None else _ring(regions_of(text))
        return [(ring,)] if ring else [] if value is None else areas_of(value)
    data = data.tolist() if hasattr(data, "tolist") else data
    if isinstance(data, Mapping):
        if {"size", "counts"} <= data.keys():
            return [
                (
                    Region(
                        (),
                        mask=msgspec.json.encode(
                            {name: data[name] for name in ("size", "counts")}, enc_hook=str
                        ).decode(),
                    ),
                )
            ]
        names = {str(name).lower().replace("_", ""): value for name, value in data.items()}
        inner = next((names[name] for name in (*_OUTLINES, *_HOLDERS) if names.get(name) is not None), None)
        return [] if inner is None else areas_of(inner)
    if not isinstance(data, Sequence):
        return []
    deep = any(
        isinstance(one, Sequence) and any(isinstance(part, (Mapping, list, tuple)) for part in one) for one in data
    )
    if not deep and (ring := _ring(list(_in_data(data)))):
        return [(ring,)]
    parts = [_ring(list(_in_data(one))) for one in data if isinstance(one, (list, tuple))]
    if parts and len(parts) == len(data) and all(parts):
        return [tuple(part for part in parts if part)]
    return [area for one in data if isinstance(one, (Mapping, list, tuple)) for area in areas_of(one)]


def _ring(regions: Sequence[Region]) -> Region | None:
    """Return the outline of three and more corners that regions are; None for others."""
    regions = as_polygon(regions)
    return regions[0] if len(regions) == 1 and len(regions[0].numbers) >= 6 else None


def as_polygon(regions: Sequence[Region]) -> Sequence[Region]:
    """Return three and more corners, each a pair, as one polygon; other regions as they are."""
    if len(regions) < 3 or any(len(one.numbers) != 2 for one in regions):
        return regions
    return [regions[0]._replace(numbers=tuple(number for one in regions for number in one.numbers))]


def places_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a sentence that write boxes or points, in brackets or as a click."""
    end = 0
    for match in sorted((*_CLICK.finditer(text), *_GROUP.finditer(text)), key=lambda match: match.start()):
        if match.start() >= end:
            end = match.end()
            yield match.span()


def tags_of(text: str) -> list[tuple[int, int]]:
    """Return the spans of the tags that hold coordinates, which plain reading takes for markup: Molmo's, location tokens."""
    if "<point" not in text.lower() and "<loc" not in text:
        return []
    return [match.span() for pattern in (_MOLMO, _LOCATION) for match in pattern.finditer(text)]


def _bare(text: str) -> list[Region]:
    """Return the region of bare numbers, or those of numbers in brackets, one behind the other."""
    if len(text) > MOST_CHARACTERS // 4 or not _BARE.fullmatch(text):
        return []
    groups = [_NUMBERS.findall(group[1]) for group in _GROUP.finditer(text)]
    rest = _GROUP.sub("", text)
    if len(groups) > 1 and not _NUMBERS.search(rest):
        regions = [Region(tuple(map(exact, group))) for group in groups]
    else:
        regions = [Region(tuple(map(exact, _NUMBERS.findall(text))))]
    return regions


def _locations(text: str) -> list[Region]:
    """Return the regions of location tokens, each with the label behind it."""
    found = []
    for match in _LOCATION.finditer(text):
        steps = _STEP.findall(match[1])
        if len({sign for sign, _ in steps}) == 1:
            values: list[Fraction | None]
            if steps[0][0]:
                values = [Fraction(2 * int(step) + 1, 2000) for _, step in steps]
            else:
                values = [Fraction(int(step), 1023) for _, step in steps]
                values = [values[at ^ 1] for at in range(len(values) & ~1)]  # y stands first
            each = 4 if len(values) % 4 == 0 else len(values)  # one phrase may have several boxes
            parts = (tuple(values[at : at + each]) for at in range(0, len(values), each))
            found += [Region(part, "unit", match[2].strip()) for part in parts]
    return found


def _named(text: str) -> Region | None:
    """Return the region that `x1=1, y1=2, …` or `x: 1, y: 2` is; None where a text is something else."""
    found = [*named_boxes(text)]
    rest = "".join((text[: found[0].start], text[found[0].end :])) if len(found) == 1 else text
    return None if any(map(str.isalnum, rest)) else named_region(found[0].value) if found else None


def _in_data(data: Any, label: str = "", score: float | None = None) -> Iterator[Region]:
    """Yield the regions of a value of JSON."""
    data = data.tolist() if hasattr(data, "tolist") else data
    if isinstance(data, Mapping):
        yield from _in_fields(data)
    elif isinstance(data, Sequence) and not isinstance(data, str):
        if data and not any(isinstance(one, (Mapping, Sequence)) and not isinstance(one, str) for one in data):
            if len(data) <= MOST_CORNERS:
                yield Region(tuple(map(exact, data)), "order", label, score)
            return
        for one in data:
            if (isinstance(one, (Mapping, Sequence)) and not isinstance(one, str)) or hasattr(one, "tolist"):
                yield from _in_data(one, label, score)


def _in_fields(data: Mapping[str, Any]) -> Iterator[Region]:
    names = {str(name).lower().replace("_", ""): value for name, value in data.items()}
    label = next((str(names[name]).strip() for name in _LABELS if names.get(name)), "")
    score = next((float(names[name]) for name in ("score", "confidence") if exact(names.get(name)) is not None), None)
    field = next((name for name in _FIELDS if names.get(name) is not None), "")
    if field:
        value = names[field]
        value = regions_of(value)[0].numbers if isinstance(value, str) and regions_of(value) else value
        value = list(value) if isinstance(value, tuple) else value
        listed = next(
            (names[name] for name in ("label", "name", "category") if isinstance(names.get(name), list)), None
        )
        if listed is not None and isinstance(value, list) and len(listed) == len(value):
            yield from (one for part, own in zip(value, listed, strict=True) for one in _in_data(part, str(own), score))
            return
        crowd, area = bool(names.get("iscrowd")), exact(names.get("area"))
        yield from (one._replace(crowd=crowd, area=area) for one in _in_data(value, label, score))
        return
    if len(pair := [names[name] for name in _CORNER_NAMES if isinstance(names.get(name), (list, Mapping))]) == 2:
        ends = [list(one.values()) if isinstance(one, Mapping) else one for one in pair]
        yield from _in_data([number for end in ends for number in end], label, score)
        return
    edges = {_EDGES.get(name, name.replace("min", "1").replace("max", "2")): value for name, value in names.items()}
    edges = {{"x1": "x", "y1": "y"}.get(name, name) if "w" in edges else name: value for name, value in edges.items()}
    for form, keys in (("corners", _CORNERS), ("sized", _SIZED), ("centre", _CENTRE)):
        if edges.keys() >= {*keys}:
            yield Region(tuple(exact(edges[key]) for key in keys), form, label, score)
            return
    for name in _HOLDERS:
        if isinstance(names.get(name), (list, dict, str)):
            yield from regions_of(names[name])
            return
    if len(data) > 1 and all(
        isinstance(value, list) for value in data.values()
    ):  # `{"dog": [[12, 30, 40, 80]], "cat": …}`
        found = [one for name, value in data.items() for one in _in_data(value, str(name))]
        if all(len(one.numbers) == 4 and None not in one.numbers for one in found):
            yield from found
