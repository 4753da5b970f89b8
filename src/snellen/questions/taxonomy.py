"""Taxonomies: classes at levels from coarse to fine, each with one parent.

Readers of files hand in paths, one a line; what is wrong with a taxonomy (two parents, a cycle, a gap) is found here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError
from snellen.text import normalized

Homonyms: TypeAlias = Literal["error", "qualify"]
_MARKS = re.compile(r"[\s_\-]+")


class TaxonomyLine(NamedTuple):
    """One path of a taxonomy, as read from a file.

    Attributes:
        where: file and row, for messages.
        names: from coarse to fine; empty where a level is missing, which only the last ones may be.
        aliases: other names of the last one.
    """

    where: str
    names: tuple[str, ...]
    aliases: tuple[str, ...] = ()


def key(name: str) -> str:
    """Return the normalized form used to match names: lower case, hyphens and underscores as spaces, no apostrophes.

    >>> key("Brewer's_Black-bird")
    'brewers black bird'
    """
    plain = name if name.isascii() else normalized("NFC", name)
    return _MARKS.sub(" ", plain.casefold().replace("'", "").replace("’", "")).strip()


def spelled(name: str) -> str:
    """Return the display form of a name: underscores as spaces, single spaces."""
    return " ".join(name.replace("_", " ").split())


@dataclass(frozen=True)
class Taxonomy:
    """Classes by level. Classes of a level are sorted by path, so that all descendants of a class are contiguous.

    Attributes:
        levels: names of the levels, coarse to fine.
        names: for each level its classes.
        parents: for each level [classes] the index of each class's parent in the level above; zeros for the first.
        aliases: (depth, class) to further accepted names.
        source: file or rule that it is from.
        note: what a reader must know about it.
    """

    levels: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    parents: tuple[NDArray[np.int32], ...]
    aliases: Mapping[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    source: str = ""
    note: str = ""

    def ancestors(self, depth: int, at: int) -> NDArray[np.int32]:
        """Return the index [classes of `depth`] of each class's ancestor at the level `at`; never decreasing."""
        index = np.arange(len(self.names[depth]), dtype=np.int32)
        for level in range(depth, at, -1):
            index = self.parents[level][index]
        return index

    def paths(self, depth: int) -> list[str]:
        """Return each class of a level with its ancestors, coarse to fine, joined by ` > `."""
        above = [""] if depth == 0 else [f"{path} > " for path in self.paths(depth - 1)]
        parents = self.parents[depth].tolist()
        return [above[parent] + name for parent, name in zip(parents, self.names[depth], strict=True)]

    @cached_property
    def _finest(self) -> dict[str, int]:
        known = {key(name): at for at, name in enumerate(self.names[-1])}
        for (depth, at), names in self.aliases.items():
            if depth == len(self.levels) - 1:
                for name in names:
                    known.setdefault(key(name), at)
        return known

    def find(self, label: str) -> int | None:
        """Return the index of a finest-level class by name or alias; a leading number (`001.`) is ignored."""
        known = self._finest
        index = known.get(key(label))
        return index if index is not None else known.get(key(without_number(label)))

    def unknown(self, label: str, where: str) -> DataError:
        """Build the error for a label that `find` does not know."""
        matches = difflib.get_close_matches(key(label), self._finest, n=3)
        coarse = next((level for level, names in zip(self.levels, self.names, strict=True) if label in names), None)
        finest = self.levels[-1]
        hint = (
            f"Did you mean {' or '.join(matches)}?"
            if matches
            else f"Add a row for it, or correct the label ({finest} names)."
        )
        if coarse is not None and coarse != finest:
            hint = f"It is a {coarse}; images are labelled at the finest level ({finest})."
        elif label.isdigit():
            hint = "It looks like an index: give the class names with --classes."
        return DataError(f"{where}: the label {label!r} is no {finest} of {self.source or 'the taxonomy'}", hint)


def without_number(label: str) -> str:
    """Strip a leading number and full stop from a folder name: `001.Black_footed_Albatross`."""
    return re.sub(r"^\d+\.(?=\D)", "", label)


def from_lines(
    levels: Sequence[str], lines: Iterable[TaxonomyLine], source: str, *, homonyms: Homonyms = "error", note: str = ""
) -> Taxonomy:
    """Build a taxonomy from paths; repeated paths are the same class.

    Args:
        levels: names of the levels, coarse to fine.
        lines: the paths.
        source: what messages call the whole.
        homonyms: what to do with one name under two parents: refuse, or call them `name (parent)`.
        note: what a reader must know.

    Raises:
        DataError: two parents, a cycle, a gap in a path, a name with a double quote, no lines; with file and row.
    """
    if not levels or len(set(map(str.lower, levels))) != len(levels):
        raise DataError(f"levels {', '.join(levels) or 'none'}: one or more different names were expected")
    nodes: list[dict[tuple[str, ...], tuple[str, str]]] = [{} for _ in levels]
    also: dict[tuple[str, ...], dict[str, None]] = {}
    for line in lines:
        path = _path(line, levels)
        keys = tuple(map(key, path))
        for depth, name in enumerate(path):
            nodes[depth].setdefault(keys[: depth + 1], (name, line.where))
        for alias in map(spelled, line.aliases):
            if alias and key(alias) != keys[-1]:
                also.setdefault(keys, {})[alias] = None
    if not nodes[0]:
        raise DataError(f"{source}: no classes found", "Check the path.")
    _refuse_cycles(nodes)
    titles = [_titles(level_nodes, nodes, levels, depth, homonyms) for depth, level_nodes in enumerate(nodes)]
    order = [sorted(level_nodes) for level_nodes in nodes]
    index = [{path: at for at, path in enumerate(paths)} for paths in order]
    return Taxonomy(
        levels=tuple(levels),
        names=tuple(tuple(titles[depth][path] for path in paths) for depth, paths in enumerate(order)),
        parents=tuple(
            np.array([index[depth - 1][path[:-1]] if depth else 0 for path in paths], dtype=np.int32)
            for depth, paths in enumerate(order)
        ),
        aliases=_unambiguous(also, nodes, index),
        source=source,
        note=note,
    )


def _path(line: TaxonomyLine, levels: Sequence[str]) -> tuple[str, ...]:
    names = [spelled(name) for name in line.names]
    while names and not names[-1]:
        names.pop()
    if not names or len(names) > len(levels):
        raise DataError(
            f"{line.where}: {len(names)} names were found; 1 to {len(levels)} ({', '.join(levels)}) expected"
        )
    for level, name in zip(levels, names, strict=False):
        if not key(name):
            raise DataError(f"{line.where}: there is no {level} above {names[-1]!r}", "Fill the gap in that row.")
        if '"' in name or not name.isprintable():
            raise DataError(
                f"{line.where}: the {level} {name!r} holds a double quote or a control character",
                "Options are quoted in questions; write the name without it.",
            )
    return tuple(names)


def _titles(
    level_nodes: Mapping[tuple[str, ...], tuple[str, str]],
    nodes: Sequence[Mapping[tuple[str, ...], tuple[str, str]]],
    levels: Sequence[str],
    depth: int,
    homonyms: Homonyms,
) -> dict[tuple[str, ...], str]:
    """Return the display name of each class of a level. Raises DataError for one name under two parents."""
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for path in level_nodes:
        by_name.setdefault(path[-1], []).append(path)
    titles = {path: name for path, (name, _) in level_nodes.items()}
    for paths in by_name.values():
        if len(paths) == 1:
            continue
        above = [nodes[depth - 1][path[:-1]][0] for path in paths[:2]]
        if homonyms == "error":
            name, where = level_nodes[paths[1]]
            raise DataError(
                f"{where}: the {levels[depth]} {name!r} stands under {above[1]!r}, and under {above[0]!r} in "
                f"{level_nodes[paths[0]][1]}",
                "A class has one parent. Correct one of the rows, or set --homonyms qualify.",
            )
        for path in paths:
            titles[path] = f"{level_nodes[path][0]} ({nodes[depth - 1][path[:-1]][0]})"
    return titles


def _refuse_cycles(nodes: Sequence[Mapping[tuple[str, ...], tuple[str, str]]]) -> None:
    """Raise DataError if a name is its own ancestor, directly or through other rows.

    A name right under itself is none (`Puma > Puma`): classes that are alone in theirs are often called like it.
    """
    below: dict[str, dict[str, str]] = {}
    for level_nodes in nodes[1:]:
        for path, (_, where) in level_nodes.items():
            if path[-2] != path[-1]:
                below.setdefault(path[-2], {}).setdefault(path[-1], where)
    done: set[str] = set()
    for start in below:
        trail: list[str] = []
        stack: list[Iterator[str]] = [iter((start,))]
        while stack:
            name = next(stack[-1], None)
            if name is None:
                stack.pop()
                if trail:
                    done.add(trail.pop())
            elif name in trail:
                circle = [*trail[trail.index(name) :], name]
                where = below[circle[-2]][name]
                raise DataError(
                    f"{where}: {' > '.join(circle)} is a cycle", "A class cannot be its own ancestor; correct the row."
                )
            elif name not in done and name in below:
                trail.append(name)
                stack.append(iter(below[name]))


def _unambiguous(
    also: Mapping[tuple[str, ...], Mapping[str, None]],
    nodes: Sequence[Mapping[tuple[str, ...], tuple[str, str]]],
    index: Sequence[Mapping[tuple[str, ...], int]],
) -> dict[tuple[int, int], tuple[str, ...]]:
    """Return aliases that name exactly one class of their level; shared aliases would make two answers right."""
    owners: dict[tuple[int, str], set[tuple[str, ...]]] = {}
    for depth, level_nodes in enumerate(nodes):
        for path in level_nodes:
            owners.setdefault((depth, path[-1]), set()).add(path)
    for path, aliases in also.items():
        for alias in aliases:
            owners.setdefault((len(path) - 1, key(alias)), set()).add(path)
    unambiguous: dict[tuple[int, int], tuple[str, ...]] = {}
    for path, aliases in sorted(also.items()):
        own = tuple(alias for alias in aliases if len(owners[len(path) - 1, key(alias)]) == 1)
        if own:
            unambiguous[len(path) - 1, index[len(path) - 1][path]] = own
    return unambiguous
