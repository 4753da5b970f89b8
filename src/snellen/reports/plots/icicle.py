"""The taxonomy as an icicle: levels from left to right, classes from top to bottom, coloured by accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from snellen.reports.collect import Asked, ClassTally, Seen, class_name, filters, telling
from snellen.reports.escape import visible
from snellen.reports.links import by, link
from snellen.reports.plots.base import Plot, Series, short
from snellen.scoring.taxonomy import SEPARATOR

WIDTH, TALLEST = 403.0, 640.0
TONES = 10
"""Colours from none right to all right; the style sheet has `tone-0` to `tone-10`."""

SMALLEST = 1.5
"""Classes that would be lower than this are drawn together with others of the same parent."""

_LEAF = 14.0
_TOP = 46.0
_MOST = 2
"""Icicles of one run."""


@dataclass
class Node:
    """A class and what is below it.

    Attributes:
        name: as it is shown.
        path: the class with its ancestors; empty for several classes drawn together.
        own: answers about it on its own level.
        below: answers about classes below it.
        leaves: classes below it that have none below, at least 1.
        children: the classes straight below.
        members: how many classes are drawn together.
    """

    name: str
    path: str
    own: Seen = field(default_factory=Seen)
    below: Seen = field(default_factory=Seen)
    leaves: int = 1
    children: list[Node] = field(default_factory=list)
    members: int = 1

    @property
    def seen(self) -> Seen:
        """What colours the class: answers on its own level, else those about classes below."""
        return self.own if self.own.n else self.below


def icicles(one: Series, name: str) -> list[Plot]:
    """An icicle for each data set with a taxonomy, of the kind of question that was asked on most levels."""
    tally = one.tally.classes
    chosen: dict[str, tuple[str, str]] = {}
    for ask in ("bias", "hierarchy"):
        kinds: dict[str, dict[str, int]] = {}
        for asked, part in tally.of(ask):
            if any(SEPARATOR in path for path in part):
                levels = kinds.setdefault(asked.dataset, {})
                levels[asked.kind] = levels.get(asked.kind, 0) + 1
        for dataset, levels in kinds.items():
            chosen[dataset] = (ask, min(levels, key=lambda kind: (-levels[kind], telling(kind))))
    plots = []
    for number, (dataset, (ask, kind)) in enumerate(list(chosen.items())[:_MOST]):
        parts = {
            asked: part
            for asked, part in tally.parts.items()
            if part is not None and (asked.dataset, asked.ask, asked.kind) == (dataset, ask, kind)
        }
        what = " · ".join(short(text, 24) for text in (dataset, kind) if text)
        plots.append(
            Plot(
                f"The tree, coloured by accuracy: {what}",
                "Each box is a class, its height the number of classes below it; what was asked on its own level "
                "colours it, else what was asked below. The worst stand on top, very small ones together.",
                _svg(one, parts, columns(tally, parts), f"{name}-{number}", f"Taxonomy coloured by accuracy, {what}"),
            )
        )
    return plots


def columns(tally: ClassTally, parts: Mapping[Asked, Mapping[str, Seen]]) -> list[str]:
    """What each column of the icicle is called: the level whose classes have so many ancestors; empty if none was asked."""
    names: dict[int, str] = {}
    for asked, part in parts.items():
        for path in part:
            names.setdefault(path.count(SEPARATOR), asked.level)
    return [names.get(depth, "") for depth in range(max(names) + 1)]


def tree(parts: Mapping[Asked, Mapping[str, Seen]]) -> Node:
    """One node a class of any level, under a root without a name."""
    root = Node("", "")
    nodes: dict[str, Node] = {"": root}

    def node(path: str) -> Node:
        found = nodes.get(path)
        if found is None:
            found = nodes[path] = Node(class_name(path), path)
            node(path.rpartition(SEPARATOR)[0]).children.append(found)
        return found

    for part in parts.values():
        for path, seen in part.items():
            own = node(path).own
            own.n += seen.n
            own.total += seen.total
    _add_up(root)
    return root


def _add_up(node: Node) -> None:
    for child in node.children:
        _add_up(child)
    node.leaves = max(1, sum(child.leaves for child in node.children))
    for child in node.children:
        node.below.n += child.own.n + child.below.n
        node.below.total += child.own.total + child.below.total


def together(children: Sequence[Node], unit: float) -> list[Node]:
    """Children from the worst to the best, those lower than SMALLEST joined until they are high enough.

    Args:
        children: classes of one parent.
        unit: the height of one leaf.
    """
    found: list[Node] = []
    small: list[Node] = []
    for child in sorted(children, key=lambda node: (node.seen.share, node.name)):
        if child.leaves * unit >= SMALLEST:
            found.append(child)
            continue
        small.append(child)
        if sum(node.leaves for node in small) * unit >= SMALLEST:
            found.append(_joined(small))
            small = []
    return [*found, _joined(small)] if small else found


def _joined(nodes: Sequence[Node]) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    own, below = (
        Seen(sum(seen.n for seen in all_), sum(seen.total for seen in all_))
        for all_ in ([node.own for node in nodes], [node.below for node in nodes])
    )
    children = [child for node in nodes for child in node.children]
    members = sum(node.members for node in nodes)
    first, last = nodes[0].name.partition(" … ")[0], nodes[-1].name.rpartition(" … ")[2]
    return Node(f"{first} … {last}", "", own, below, sum(n.leaves for n in nodes), children, members)


def _boxes(node: Node, depth: int, top: float, unit: float) -> Iterator[tuple[Node, int, float, float]]:
    """(class, column, y, height) of everything below a node."""
    for child in together(node.children, unit):
        height = child.leaves * unit
        yield child, depth, top, height
        yield from _boxes(child, depth + 1, top, unit)
        top += height


def _svg(one: Series, parts: Mapping[Asked, Mapping[str, Seen]], levels: Sequence[str], name: str, label: str) -> str:
    root = tree(parts)
    height = min(TALLEST, max(120.0, _LEAF * root.leaves))
    width = WIDTH / len(levels)
    asked = {part.level: part for part in parts}
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot icicle" id="{name}" role="group" '
        f'aria-label="{escape(label)}" viewBox="0 0 {WIDTH:g} {_TOP + height:g}">',
        *_legend(),
    ]
    for column, level in enumerate(levels):
        out.append(
            f'<text class="level" x="{column * width + 2:.1f}" y="{_TOP - 6:g}">{escape(short(level, int(width / 5)))}</text>'
        )
    for node, column, y, tall in _boxes(root, 0, _TOP, height / root.leaves):
        seen = node.seen
        tone = round(TONES * seen.share)
        box = (
            f'<rect class="tone-{tone}" x="{column * width:.1f}" y="{y:.2f}" width="{width - 1:.1f}" '
            f'height="{max(0.4, tall - (0.6 if tall > 4 else 0.15)):.2f}"><title>{escape(_title(node))}</title></rect>'
        )
        if tall >= 9.5:
            box += f'<text x="{column * width + 4:.1f}" y="{y + min(tall / 2, 14.0) + 3:.1f}">{escape(short(node.name, int((width - 8) / 4.9)))}</text>'
        part = asked.get(levels[column])
        if node.path and part is not None and node.own.n:
            target = link(run=one.run, profile=one.profile, **by(filters(part, node.path)))
            box = f'<a href="{escape(target)}">{box}</a>'
        out.append(box)
    return "".join([*out, "</svg>"])


def _legend() -> list[str]:
    step = 12.0
    out = [
        f'<rect class="tone-{tone}" x="{28 + tone * step:g}" y="4" width="{step - 0.5:g}" height="9"/>'
        for tone in range(TONES + 1)
    ]
    return [
        *out,
        '<text class="level" x="24" y="12" text-anchor="end">0 %</text>',
        f'<text class="level" x="{32 + (TONES + 1) * step:g}" y="12">100 % right</text>',
    ]


def _title(node: Node) -> str:
    """What the tooltip of a box says."""
    name = visible(node.path) if node.path else f"{node.members:,} classes, {node.name}"
    said = [f"{100 * node.own.share:.1f} % of {node.own.n:,} answers"] if node.own.n else []
    if node.below.n:
        said.append(f"below it {100 * node.below.share:.1f} % of {node.below.n:,}")
    return f"{name}: {', '.join(said)}"
