"""The taxonomy as an icicle: levels from left to right, classes from top to bottom, coloured by accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

from snellen.reports.collect import ClassAnswers, ClassTally, QuestionGroup, class_name, group_filters, kind_order
from snellen.reports.escape import escape_invisible
from snellen.reports.links import gallery_link, meta_filters
from snellen.reports.plots.base import Plot, Series, new_figure, short_label, unique_name
from snellen.reports.plots.svg import COLOURS, inline_svg, light_colours, mix_colours, saves_files
from snellen.scoring.taxonomy import SEPARATOR

WIDTH, TALLEST = 403.0, 640.0
TONES = 10
"""Colours from none right to all right; the style sheet has `tone-0` to `tone-10`."""

SMALLEST = 1.5
"""Classes that would be lower than this are drawn together with others of the same parent."""

_LEAF = 14.0
_TOP = 46.0
_MAX_ICICLES = 2
"""Icicles of one run."""


@dataclass
class IcicleNode:
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
    own: ClassAnswers = field(default_factory=ClassAnswers)
    below: ClassAnswers = field(default_factory=ClassAnswers)
    leaves: int = 1
    children: list[IcicleNode] = field(default_factory=list)
    members: int = 1

    @property
    def answers(self) -> ClassAnswers:
        """Return the answers that colour the class: those on its own level, else those about classes below."""
        return self.own if self.own.n else self.below


def icicles(column: Series, run: str, taken: set[str]) -> list[Plot]:
    """Plot an icicle for each data set with a taxonomy, of the kind of question asked on most levels.

    `run` and `taken` name the plots.
    """
    tally = column.tally.classes
    chosen: dict[str, tuple[str, str]] = {}
    for ask in ("bias", "hierarchy"):
        kinds: dict[str, dict[str, int]] = {}
        for group, part in tally.of(ask):
            if any(SEPARATOR in path for path in part):
                levels = kinds.setdefault(group.dataset, {})
                levels[group.kind] = levels.get(group.kind, 0) + 1
        for dataset, levels in kinds.items():
            chosen[dataset] = (ask, min(levels, key=lambda kind: (-levels[kind], kind_order(kind))))
    plots = []
    for dataset, (ask, kind) in list(chosen.items())[:_MAX_ICICLES]:
        parts = {
            group: part
            for group, part in tally.parts.items()
            if part is not None and (group.dataset, group.ask, group.kind) == (dataset, ask, kind)
        }
        subject = " · ".join(short_label(text, 24) for text in (dataset, kind) if text)
        plots.append(
            Plot(
                f"Taxonomy coloured by accuracy: {subject}",
                "Each box is a class; its height is the number of classes below it. Colour is the accuracy of questions "
                "at its own level, otherwise of those below. The worst classes come first; very small ones are merged.",
                (_save if saves_files() else _svg)(
                    column,
                    parts,
                    level_names(tally, parts),
                    unique_name(taken, "taxonomy", dataset, kind, run),
                    f"Taxonomy coloured by accuracy, {subject}",
                ),
            )
        )
    return plots


def level_names(tally: ClassTally, parts: Mapping[QuestionGroup, Mapping[str, ClassAnswers]]) -> list[str]:
    """Return the name of each column: the level whose classes have that many ancestors, "" if none was asked."""
    names: dict[int, str] = {}
    for group, part in parts.items():
        for path in part:
            names.setdefault(path.count(SEPARATOR), group.level)
    return [names.get(depth, "") for depth in range(max(names) + 1)]


def build_tree(parts: Mapping[QuestionGroup, Mapping[str, ClassAnswers]]) -> IcicleNode:
    """Build one node for each class of any level, under a root without a name."""
    root = IcicleNode("", "")
    nodes: dict[str, IcicleNode] = {"": root}

    def node(path: str) -> IcicleNode:
        child = nodes.get(path)
        if child is None:
            child = nodes[path] = IcicleNode(class_name(path), path)
            node(path.rpartition(SEPARATOR)[0]).children.append(child)
        return child

    for part in parts.values():
        for path, answers in part.items():
            own = node(path).own
            own.n += answers.n
            own.total += answers.total
    _add_up(root)
    return root


def _add_up(node: IcicleNode) -> None:
    for child in node.children:
        _add_up(child)
    node.leaves = max(1, sum(child.leaves for child in node.children))
    for child in node.children:
        node.below.n += child.own.n + child.below.n
        node.below.total += child.own.total + child.below.total


def join_small_nodes(children: Sequence[IcicleNode], unit: float) -> list[IcicleNode]:
    """Sort children from the worst to the best, and join those lower than SMALLEST until they are high enough.

    Args:
        children: classes of one parent.
        unit: the height of one leaf.
    """
    shown_nodes: list[IcicleNode] = []
    small: list[IcicleNode] = []
    for child in sorted(children, key=lambda node: (node.answers.share, node.name)):
        if child.leaves * unit >= SMALLEST:
            shown_nodes.append(child)
            continue
        small.append(child)
        if sum(node.leaves for node in small) * unit >= SMALLEST:
            shown_nodes.append(_joined(small))
            small = []
    return [*shown_nodes, _joined(small)] if small else shown_nodes


def _joined(nodes: Sequence[IcicleNode]) -> IcicleNode:
    if len(nodes) == 1:
        return nodes[0]
    own, below = (
        ClassAnswers(sum(answers.n for answers in all_), sum(answers.total for answers in all_))
        for all_ in ([node.own for node in nodes], [node.below for node in nodes])
    )
    children = [child for node in nodes for child in node.children]
    members = sum(node.members for node in nodes)
    first, last = nodes[0].name.partition(" … ")[0], nodes[-1].name.rpartition(" … ")[2]
    return IcicleNode(f"{first} … {last}", "", own, below, sum(n.leaves for n in nodes), children, members)


def _boxes(node: IcicleNode, depth: int, top: float, unit: float) -> Iterator[tuple[IcicleNode, int, float, float]]:
    """Yield (class, column, y, height) of everything below a node."""
    for child in join_small_nodes(node.children, unit):
        height = child.leaves * unit
        yield child, depth, top, height
        yield from _boxes(child, depth + 1, top, unit)
        top += height


class _Geometry(NamedTuple):
    """The tree of a plot, its height and the width of a level, in points."""

    root: IcicleNode
    height: float
    width: float

    @classmethod
    def of(cls, parts: Mapping[QuestionGroup, Mapping[str, ClassAnswers]], levels: Sequence[str]) -> _Geometry:
        root = build_tree(parts)
        return cls(root, min(TALLEST, max(120.0, _LEAF * root.leaves)), WIDTH / len(levels))


def _save(
    column: Series,
    parts: Mapping[QuestionGroup, Mapping[str, ClassAnswers]],
    levels: Sequence[str],
    name: str,
    label: str,
) -> str:
    """Draw the icicle of `_svg` by matplotlib, one unit a point, and save it; return its name."""
    from matplotlib.patches import Rectangle

    root, height, width = _Geometry.of(parts, levels)
    figure, axes = new_figure((_TOP + height) / 72.0, WIDTH / 72.0)
    figure.set_layout_engine("none")
    axes.set_position((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0.0, WIDTH)
    axes.set_ylim(_TOP + height, 0.0)
    tones = _tones()

    def box(x: float, y: float, wide: float, tall: float, tone: int) -> None:
        axes.add_patch(Rectangle((x, y), wide, tall, facecolor=tones[tone], linewidth=0))

    def text(x: float, y: float, words: str, align: str, tint: str) -> None:
        axes.text(x, y, words, ha=align, va="baseline", fontsize=9, color=COLOURS[tint])

    for tone in range(TONES + 1):
        box(28 + 12.0 * tone, 4, 11.5, 9, tone)
    text(24, 12, "0 %", "right", "muted")
    text(32 + 12.0 * (TONES + 1), 12, "100 % correct", "left", "muted")
    for place, level in enumerate(levels):
        text(place * width + 2, _TOP - 6, short_label(level, int(width / 5.5)), "left", "muted")
    for node, place, y, tall in _boxes(root, 0, _TOP, height / root.leaves):
        gap = 0.6 if tall > 4 else 0.15
        box(place * width, y, width - 1, max(0.4, tall - gap), round(TONES * node.answers.share))
        if tall >= 9.5:
            words = short_label(node.name, int((width - 8) / 5.4))
            text(place * width + 4, y + min(tall / 2, 14.0) + 3, words, "left", "ink")
    return inline_svg(figure, name, label)


def _tones() -> list[str]:
    """Return the colours that the style sheet has as `tone-0` to `tone-10`."""
    light = light_colours()
    middle = mix_colours(light["muted"], light["soft"], 0.22)
    ends = [(light["series-2"], 0.13 * step) for step in range(5, 0, -1)]
    ends += [(light["series-1"], 0.13 * step) for step in range(6)]
    return [mix_colours(end, middle, share) for end, share in ends]


def _svg(
    column: Series,
    parts: Mapping[QuestionGroup, Mapping[str, ClassAnswers]],
    levels: Sequence[str],
    name: str,
    label: str,
) -> str:
    root, height, width = _Geometry.of(parts, levels)
    group_of_level = {part.level: part for part in parts}
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot icicle" id="{name}" data-name="{name}" role="group" '
        f'aria-label="{escape(label)}" viewBox="0 0 {WIDTH:g} {_TOP + height:g}">',
        *_legend(),
    ]
    for place, level in enumerate(levels):
        out.append(
            f'<text class="level" x="{place * width + 2:.1f}" y="{_TOP - 6:g}">{escape(short_label(level, int(width / 5)))}</text>'
        )
    for node, place, y, tall in _boxes(root, 0, _TOP, height / root.leaves):
        answers = node.answers
        tone = round(TONES * answers.share)
        box = (
            f'<rect class="tone-{tone}" x="{place * width:.1f}" y="{y:.2f}" width="{width - 1:.1f}" '
            f'height="{max(0.4, tall - (0.6 if tall > 4 else 0.15)):.2f}"><title>{escape(_title(node))}</title></rect>'
        )
        if tall >= 9.5:
            box += f'<text x="{place * width + 4:.1f}" y="{y + min(tall / 2, 14.0) + 3:.1f}">{escape(short_label(node.name, int((width - 8) / 4.9)))}</text>'
        part = group_of_level.get(levels[place])
        if node.path and part is not None and node.own.n:
            target = gallery_link(
                run=column.run, profile=column.profile, **meta_filters(group_filters(part, node.path))
            )
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
        f'<text class="level" x="{32 + (TONES + 1) * step:g}" y="12">100 % correct</text>',
    ]


def _title(node: IcicleNode) -> str:
    """Return the tooltip of a box."""
    name = escape_invisible(node.path) if node.path else f"{node.members:,} classes, {node.name}"
    parts = [f"{100 * node.own.share:.1f} % of {node.own.n:,} answers"] if node.own.n else []
    if node.below.n:
        parts.append(f"below it {100 * node.below.share:.1f} % of {node.below.n:,}")
    return f"{name}: {', '.join(parts)}"
