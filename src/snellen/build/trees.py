"""Taxonomies from trees: nested JSON and Newick."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from snellen.build.taxonomy import Homonyms, Line, Taxonomy, from_lines
from snellen.errors import DataError
from snellen.sources.confine import regular_file

_TOKEN = re.compile(r"\s+|\[[^\]]*\]|'(?:[^']|'')*'|[(),;:]|[^\s\[\]'(),;:]+")


class _Node(msgspec.Struct):
    """One node of a nested JSON tree; other fields are passed over."""

    name: str = ""
    children: list[_Node] = []
    aliases: list[str] = []


_Path = tuple[str, tuple[str, ...], tuple[str, ...]]


def read_json(path: Path, levels: Sequence[str] | None, homonyms: Homonyms = "error") -> Taxonomy:
    """A taxonomy from nested `{"name": ..., "children": [...]}`, or a list of such trees; `aliases` are optional.

    A root above all others that stands for no level is left out.

    Raises:
        DataError: no such tree, or leaves at other depths than the levels.
    """
    regular_file(path)
    data = path.read_bytes()
    try:
        found = msgspec.json.decode(data, type=list[_Node] | _Node)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(
            f'{path}: {error}; nested {{"name": ..., "children": [...]}} was expected', "Is it the right file?"
        ) from error
    roots = found if isinstance(found, list) else [found]
    return _from_paths(list(_walked(roots, str(path))), levels, str(path), homonyms)


def _walked(roots: Sequence[_Node], source: str) -> Iterator[_Path]:
    stack: list[tuple[_Node, tuple[str, ...]]] = [(root, ()) for root in reversed(roots)]
    while stack:
        node, above = stack.pop()
        names = (*above, node.name)
        where = f"{source}, node {' > '.join(name or '(no name)' for name in names)}"
        if not node.name.strip() and above:
            raise DataError(f"{where}: it has no name", "Give every class a name.")
        yield where, names, tuple(node.aliases)
        stack += [(child, names) for child in reversed(node.children)]


def read_newick(path: Path, levels: Sequence[str] | None, homonyms: Homonyms = "error") -> Taxonomy:
    """A taxonomy from a Newick tree: `((laysan,sooty)albatross,(herring)gull)bird;`, inner nodes named.

    Branch lengths and comments are passed over; underscores of unquoted names are spaces.
    Source of the grammar: Felsenstein, the Newick tree format.

    Raises:
        DataError: not Newick, an inner node without a name, or leaves at other depths than the levels.
    """
    regular_file(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: it is not UTF-8: {error}", "Save the file as UTF-8.") from error
    return _from_paths(_newick(text, str(path)), levels, str(path), homonyms)


class _Clade:
    """A node of a Newick tree while it is read."""

    def __init__(self, line: int) -> None:
        self.name = ""
        self.line = line
        self.children: list[_Clade] = []


def _newick(text: str, source: str) -> list[_Path]:
    root = _Clade(1)
    open_: list[_Clade] = []
    last = root
    at, after_colon, ended = 0, False, False
    while at < len(text):
        match = _TOKEN.match(text, at)
        line = text.count("\n", 0, at) + 1
        if match is None:
            raise DataError(f"{source}, line {line:,}: {text[at : at + 20]!r} is no Newick", "Is a quote left open?")
        sign, at = match.group(), match.end()
        if sign[0].isspace() or sign[0] == "[":
            continue
        if ended:
            raise DataError(f"{source}, line {line:,}: {sign!r} after the end of the tree", "Give one tree a file.")
        if sign == "(":
            open_.append(last)
            last = _Clade(line)
            open_[-1].children.append(last)
        elif sign in ",)":
            if not open_:
                raise DataError(f"{source}, line {line:,}: {sign!r} without a '(' before it", "Mend the tree.")
            if sign == ")":
                last = open_.pop()
            else:
                last = _Clade(line)
                open_[-1].children.append(last)
        elif sign == ";":
            ended = True
        elif sign == ":":
            after_colon = True
            continue
        elif not after_colon:
            if last.name:
                raise DataError(
                    f"{source}, line {line:,}: two names, {last.name!r} and {sign!r}", "A comma is missing."
                )
            last.name = sign[1:-1].replace("''", "'") if sign[0] == "'" else sign.replace("_", " ")
            last.line = line
        after_colon = False
    if open_ or not ended:
        raise DataError(f"{source}: the tree is cut off: {len(open_)} '(' are open", "It ends with a semicolon.")
    return list(_clades(root, source))


def _clades(root: _Clade, source: str) -> Iterator[_Path]:
    stack: list[tuple[_Clade, tuple[str, ...]]] = [(root, ())]
    while stack:
        clade, above = stack.pop()
        names = (*above, clade.name)
        where = f"{source}, line {clade.line:,}"
        if not clade.name and clade is not root:
            raise DataError(
                f"{where}: a node under {above[-1] or 'the root'!r} has no name",
                "Every class needs one: name the inner nodes, too.",
            )
        yield where, names, ()
        stack += [(child, names) for child in reversed(clade.children)]


def _from_paths(paths: list[_Path], levels: Sequence[str] | None, source: str, homonyms: Homonyms) -> Taxonomy:
    if not levels:
        raise DataError(f"{source}: a tree does not say what its levels are called", "Name them: --levels class,genus.")
    deepest = max(len(names) for _, names, _ in paths)
    roots = {names[0] for _, names, _ in paths}
    drop = 1 if len(roots) == 1 and (deepest == len(levels) + 1 or not next(iter(roots))) else 0
    lines = [Line(where, names[drop:], aliases) for where, names, aliases in paths if len(names) > drop]
    for line in lines:
        if len(line.names) > len(levels):
            raise DataError(
                f"{line.where}: {' > '.join(line.names)} has {len(line.names)} levels; "
                f"--levels names {len(levels)} ({', '.join(levels)})",
                "Name every level, coarse to fine.",
            )
    if max((len(line.names) for line in lines), default=0) < len(levels):
        raise DataError(
            f"{source}: it has {deepest - drop} levels; --levels names {len(levels)} ({', '.join(levels)})",
            "Name as many as there are, coarse to fine.",
        )
    return from_lines(levels, lines, source, homonyms=homonyms)
