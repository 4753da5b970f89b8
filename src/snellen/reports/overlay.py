"""The picture of an answer with coordinates: gold as outline, answer filled by verdict, and a small box magnified beside it.

A picture is a tree of elements, `[name, attributes, *children]`: templates write it as HTML, and the script of a report makes nodes
of it, since the pages' policies allow no markup from text. Dashes and words tell what the colours of assets/regions.css tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from snellen.media import pixel_limit
from snellen.reports.escape import clip
from snellen.scoring.shapes import Shape, Shapes

if TYPE_CHECKING:
    from markupsafe import Markup

Tree: TypeAlias = list[Any]
Area: TypeAlias = tuple[int, int, int, int]
"""Left, top, width and height in pixels of the image."""
MOST_DRAWN, MOST_TOLD, LABEL = 100, 12, 24
"""Shapes of gold and of answer that are drawn, those that are told in words, and characters of a label."""
SHOWN, DETAIL, FONT, MARK = (640, 480), (220, 220), 15, 8
"""Pixels on the page: a picture and its magnified part, the height of words, the radius of a point."""
SMALL, NEAR, LEAST = 0.05, 0.12, 24
"""Side of a box below which it is magnified and of what is magnified with it, as shares of the image's; least pixels."""
CELLS = 160
"""Cells along the longer side of a drawn mask: a finer one is drawn coarser."""
STYLES = {True: ("right", "✓ answer, right"), False: ("wrong", "✗ answer, wrong"), None: ("neutral", "answer")}


class Drawn(NamedTuple):
    """A shape: paths of its area and its line, left, top, right and bottom, and the name beside it."""

    area: str
    line: str
    bounds: tuple[float, ...]
    style: str
    name: str
    is_point: bool


def draw_regions(
    shapes: Shapes, picture: str, part: Callable[[Area], str | None] = lambda area: None, *, blind: bool = False
) -> Tree:
    """Return the figure of gold and answer on the picture at this address, which has any size; of moments as bars over time.

    `part` makes a picture of a part of the image and returns its address, None where it cannot. With `blind` the answer is
    drawn without its verdict, and without labels, which may tell of the model.
    """
    answer = [Shape(one.numbers, mask=one.mask) if blind else one for one in shapes.answer]
    if shapes.image is None:
        return _figure(shapes, answer, [_timeline(shapes, answer)], _said(shapes, answer))
    drawn = [*_drawn(shapes.gold, shapes.size, "gold"), *_drawn(answer, shapes.size)]
    said = _said(shapes, answer)
    if any(not 0 <= n <= shapes.size[at % 2] for one in answer for at, n in enumerate(one.numbers)):
        said.append("the answer reaches outside of the image")
    told = _told(shapes, answer, said)
    area = _detail_area(drawn, shapes.size)
    detail = None if area is None else part(area)
    views = [_view((0, 0, *shapes.size), picture, drawn, told, area if detail else None)]
    if area is not None and detail:
        views.append(_view(area, detail, drawn, f"Magnified part. {told}", room=DETAIL))
    return _figure(shapes, answer, views, said)


def _said(shapes: Shapes, answer: Sequence[Shape]) -> list[str]:
    """Return what the caption says of an answer."""
    is_read = shapes.verdict in ("correct", "partial", "wrong")
    said = [shapes.measure] if is_read and shapes.measure else []
    said += ["the answer is empty" if is_read else "no answer was read"] if shapes.verdict and not answer else []
    return said + [f"{MOST_DRAWN} of {len(of):,} are drawn" for of in (shapes.gold, answer) if len(of) > MOST_DRAWN]


def _told(shapes: Shapes, answer: Sequence[Shape], said: Sequence[str]) -> str:
    """Return a figure in words."""
    parts = [f"gold: {_listed(shapes.gold, shapes.unit) or 'nothing'}"]
    return "; ".join([*parts, *([f"answer: {_listed(answer, shapes.unit)}"] if answer else []), *said])


def _figure(shapes: Shapes, answer: Sequence[Shape], views: Sequence[Tree], said: Sequence[str]) -> Tree:
    """Return views with a caption that names their lines."""
    keys = [
        *([("gold", "gold")] if shapes.gold else []),
        *(STYLES[right] for right in STYLES if right in {one.right for one in answer}),
    ]
    keyed = [["span", {"class": f"key {style}"}, word] for style, word in keys]
    caption = ["figcaption", {}, *keyed, *(["span", {}, word] for word in said)]
    return ["figure", {"class": "regions"}, ["div", {"class": "views"}, *views], caption]


def _timeline(shapes: Shapes, answer: Sequence[Shape]) -> Tree:
    """Return two bars over one scale, gold above the answer. It ends with the later one, since a clip's length is not recorded."""
    rows = [(shapes.gold[0], "gold", "gold"), *((one, STYLES[one.right][0], STYLES[one.right][1]) for one in answer)]
    scale, parts = (SHOWN[0] - 20) / max(one.numbers[1] for one, *_ in rows), list[Tree]()
    for at, (one, style, name) in enumerate(rows):
        left, right = (_plain(10 + number * scale) for number in one.numbers)
        path = f"M{left},{26 + 50 * at}H{right}V{46 + 50 * at}H{left}Z"
        parts += [["path", {"class": f"{part} {style}", "d": path}] for part in ("area", "under", "line")]
        words = f"{name}: {' to '.join(map(_plain, one.numbers))} {shapes.unit}"
        x = _plain(min(float(left), SHOWN[0] - 0.62 * FONT * len(words)))
        parts.append(["text", {"class": f"tag {style}", "x": x, "y": str(19 + 50 * at), "font-size": str(FONT)}, words])
    told = {"role": "img", "aria-label": _told(shapes, answer, _said(shapes, answer))}
    return ["div", {"class": "view moments"}, ["svg", {"viewBox": f"0 0 {SHOWN[0]} 104", **told}, *parts]]


def as_html(tree: Tree | str) -> Markup:
    """Write a tree as HTML; texts and attributes are escaped."""
    from markupsafe import Markup, escape

    if isinstance(tree, str):
        return escape(tree)
    name, attributes, *children = tree
    written = Markup("").join(Markup(' {}="{}"').format(*pair) for pair in attributes.items())
    inside = Markup("").join(map(as_html, children))
    return Markup("<{}{}>{}" if name == "img" else "<{0}{1}>{2}</{0}>").format(name, written, inside)


def _drawn(shapes: Sequence[Shape], size: tuple[int, int], gold: str = "") -> list[Drawn]:
    """Return shapes with the name that each bears: its label where labels differ, else its number, else what it is."""
    labels, drawn = len({one.label for one in shapes}) > 1 or len(shapes) == 1, []
    for number, one in enumerate(shapes[:MOST_DRAWN], 1):
        paths = _path(one.numbers) if one.mask is None else _mask_paths(one.mask, size)
        style, sign = gold or STYLES[one.right][0], "" if one.right is None else STYLES[one.right][1][:2]
        name = clip(one.label, LABEL) if labels and one.label else str(number) if len(shapes) > 1 else gold or "answer"
        drawn.append(Drawn(*paths, style, sign + name, len(one.numbers) == 2))
    return drawn


def _path(numbers: Sequence[float]) -> tuple[str, str, tuple[float, ...]]:
    """Return the path of a box, a polygon or a point, twice, and its bounds."""
    xs, ys = numbers[::2], numbers[1::2]
    bounds = (min(xs), min(ys), max(xs), max(ys))
    if len(numbers) == 4:
        xs, ys = (xs[0], xs[1], xs[1], xs[0]), (ys[0], ys[0], ys[1], ys[1])
    path = f"M{' '.join(f'{_plain(x)},{_plain(y)}' for x, y in zip(xs, ys, strict=True))}Z"
    return path, path, bounds


def _mask_paths(mask: Mapping[str, Any], size: tuple[int, int]) -> tuple[str, str, tuple[float, ...]]:
    """Return the paths of the area of a mask and of its outline, and its bounds; empty ones for a mask without a pixel."""
    high, wide = mask["size"]
    if not 0 < wide * high <= pixel_limit() or not sum(mask["counts"][1::2]):
        return "", "", (0, 0, *size)
    is_set = np.repeat(np.arange(len(mask["counts"])) % 2 == 1, mask["counts"]).reshape((wide, high)).T
    (top, *_, last), (left, *_, end) = (np.flatnonzero(is_set.any(axis=axis))[[0, -1]] for axis in (1, 0))
    cells = is_set[top : last + 1, left : end + 1]
    step = math.ceil(max(cells.shape) / CELLS)
    cells = np.pad(cells, [(0, -side % step) for side in cells.shape])
    cells = np.asarray(cells.reshape(len(cells) // step, step, -1, step).any(axis=(1, 3)))
    xs = [_plain(min(left + step * at, end + 1) * size[0] / wide) for at in range(cells.shape[1] + 1)]
    ys = [_plain(min(top + step * at, last + 1) * size[1] / high) for at in range(cells.shape[0] + 1)]
    area = "".join(f"M{xs[a]},{ys[row]}H{xs[b]}V{ys[row + 1]}H{xs[a]}Z" for row, a, b in _runs(cells))
    line = "".join(f"M{xs[a]},{ys[row]}H{xs[b]}" for row, a, b in _runs(_edges(cells)))
    line += "".join(f"M{xs[column]},{ys[a]}V{ys[b]}" for column, a, b in _runs(_edges(cells.T)))
    return area, line, tuple(map(float, (xs[0], ys[0], xs[-1], ys[-1])))


def _edges(cells: Any) -> Any:
    """Return where a cell differs from the one above it."""
    return np.diff(np.pad(cells, [(1, 1), (0, 0)]).astype(np.int8), axis=0) != 0


def _runs(lines: Any) -> Iterator[tuple[int, int, int]]:
    """Yield line, start and end of each run of true cells."""
    for line, changes in enumerate(_edges(lines.T).T):
        yield from ((line, start, end) for start, end in np.flatnonzero(changes).reshape(-1, 2).tolist())


def _detail_area(drawn: Sequence[Drawn], size: tuple[int, int]) -> Area | None:
    """Return the part around a small box, of gold before answer, with what lies near it; None if no box is small."""
    bounds = [one.bounds for one in drawn if not one.is_point]
    focus = next((one for one in bounds if _side(one) < SMALL * max(size)), None)
    if focus is None:
        return None
    near = max(NEAR * max(size), 3 * _side(focus))
    for other in bounds:
        joined = (*map(min, focus[:2], other[:2]), *map(max, focus[2:], other[2:]))
        focus = joined if _side(joined) < near else focus
    width, height = (min(max(LEAST, math.ceil(2.5 * _side(focus))), whole) for whole in size)
    left = min(max(round((focus[0] + focus[2] - width) / 2), 0), size[0] - width)
    top = min(max(round((focus[1] + focus[3] - height) / 2), 0), size[1] - height)
    return (left, top, width, height) if 2 * width * height < size[0] * size[1] else None


def _view(
    area: Area, picture: str, drawn: Sequence[Drawn], told: str, frame: Area | None = None, room: Any = SHOWN
) -> Tree:
    """Return a part of the picture with its shapes: dashed lines of answers lie on those of gold."""
    scale = min(room[0] / area[2], room[1] / area[3])
    inside = [one for one in drawn if _meets(one.bounds, area)]
    parts: list[Tree] = []
    for name, one in ((name, one) for name in ("area", "under", "line") for one in inside):
        x, y, style = *map(_plain, one.bounds[:2]), f"{name} {one.style}"
        dot = ["circle", {"class": style, "cx": x, "cy": y, "r": _plain(MARK / scale)}]
        parts.append(dot if one.is_point else ["path", {"class": style, "d": one.area if name == "area" else one.line}])
    if frame is not None:
        middle = {name: _plain(frame[at] + frame[at + 2] / 2) for at, name in enumerate(("cx", "cy"))}
        parts.append(["circle", {"class": "frame", **middle, "r": _plain(max(2 * MARK / scale, 0.7 * max(frame[2:])))}])
    magnified = (
        [] if frame is None else [one for one in inside if _side(one.bounds) < frame[2] and _meets(one.bounds, frame)]
    )
    parts += [_tag(one, area, FONT / scale) for one in inside if one not in magnified]
    svg = {"viewBox": " ".join(map(str, area)), "preserveAspectRatio": "none", "role": "img", "aria-label": told}
    shown = {"width": str(round(area[2] * scale)), "height": str(round(area[3] * scale))}
    name = "view pixels" if max(area[2:]) < SHOWN[1] // 3 else "view"
    return ["div", {"class": name}, ["img", {"src": picture, "alt": "", **shown}], ["svg", svg, *parts]]


def _tag(one: Drawn, area: Area, font: float) -> Tree:
    """Return the name of a shape: of gold at its top, of an answer at its bottom, beside a point; always inside the picture."""
    left, top, width, height = area
    wide, beside, inner = 0.7 * font * len(one.name), 1.2 * MARK / FONT * font, one.bounds[3] - one.bounds[1] > 4 * font
    above, below = (font, -font / 2) if inner else (-font / 3, font)
    x, y = one.bounds[0] + font / 3, one.bounds[1] + above if one.style == "gold" else one.bounds[3] + below
    if one.is_point:
        x, y = x + beside if x + beside + wide < left + width else x - beside - wide, one.bounds[1] + font / 3
    x = min(max(x, left + font / 4), max(left, left + width - wide))
    y = min(max(y, top + font), top + height - font / 3)
    return ["text", {"class": f"tag {one.style}", "x": _plain(x), "y": _plain(y), "font-size": _plain(font)}, one.name]


def _listed(shapes: Sequence[Shape], unit: str = "") -> str:
    """Return the first shapes in words."""
    words = []
    for one in shapes[:MOST_TOLD]:
        kind = "moment" if unit else {0: "mask", 2: "point", 4: "box"}.get(len(one.numbers), "polygon")
        parts = [
            kind,
            *map(_plain, one.numbers[:12]),
            *([unit] if unit else []),
            *([clip(one.label, LABEL)] if one.label else []),
        ]
        words.append(" ".join(parts) + ("" if one.right is None else ", right" if one.right else ", wrong"))
    return ", ".join(words) + (f" and {len(shapes) - MOST_TOLD:,} more" if len(shapes) > MOST_TOLD else "")


def _meets(bounds: Sequence[float], area: Area) -> bool:
    return all(bounds[at] <= area[at] + area[at + 2] and bounds[at + 2] >= area[at] for at in (0, 1))


def _side(bounds: Sequence[float]) -> float:
    return max(bounds[2] - bounds[0], bounds[3] - bounds[1])


def _plain(number: float) -> str:
    return f"{round(float(number), 3):.15g}"
