"""Taxonomy readers: tables (a column for each level, or parent and child), Darwin Core, JSON trees, Newick."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import msgspec

from snellen.errors import DataError
from snellen.questions.taxonomy import Homonyms, Taxonomy, TaxonomyLine, from_lines, key
from snellen.sources import Tree, numbered, open_tree
from snellen.sources.safe_paths import regular_file

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
ALIASES = ("aliases", "alias", "vernacularname", "vernacular_name", "common_name", "commonname")
CHILD = ("name", "child", "scientificname", "taxonid")
PARENT = ("parent", "parent_name", "parentname", "parentnameusage", "parentnameusageid")
_SPECIES = ("canonicalname", "scientificname")

NumberedRow = tuple[str, Mapping[str, str]]


def read_table(path: Path, levels: Sequence[str] | None, homonyms: Homonyms = "error") -> Taxonomy:
    """Read a taxonomy from CSV or TSV: a column for each level, or columns `name` and `parent`.

    Args:
        path: the table, with a line of column names.
        levels: which columns, coarse to fine; for name and parent: what the levels are called. None: the columns in
            their order, without those of aliases; the Linnean ranks in theirs.
        homonyms: see `from_lines`.

    Columns called `aliases`, `vernacularName`, `common_name` ... hold further names of the row's finest class,
    with `|` or `;` between them.

    Raises:
        DataError: a column is missing, or the taxonomy is none; with file and line.
    """
    rows = [(f"{path}, line {line:,}", {k: v or "" for k, v in row.items()}) for line, row in numbered(path)]
    return _from_rows(rows, levels, str(path), homonyms)


def read_darwin_core(path: Path, levels: Sequence[str] | None, homonyms: Homonyms = "error") -> Taxonomy:
    """Read a taxonomy from a Darwin Core archive (zip or folder with meta.xml), vernacular names as aliases.

    Source of the layout: Darwin Core text guide, TDWG.

    Raises:
        DataError: no meta.xml, no taxon core, or the taxonomy is none.
    """
    with closing(open_tree(path)) as tree:
        tables = _described(tree)
        core = next((table for table in tables if table.core), None)
        if core is None:
            raise DataError(f"{path}: meta.xml names no core file", "Check that it is a Darwin Core archive.")
        rows = list(_cells(tree, core))
        vernacular: dict[str, list[str]] = {}
        for table in tables:
            if not table.core and "vernacularName" in table.columns.values():
                for _, row in _cells(tree, table):
                    vernacular.setdefault(row.get("", ""), []).append(row["vernacularName"])
        for _, row in rows:
            names = vernacular.get(row.get("") or row.get("taxonID", ""))
            if names:
                row["aliases"] = "|".join(names)
    return _from_rows(rows, levels, str(path), homonyms)


def _from_rows(rows: Sequence[NumberedRow], levels: Sequence[str] | None, source: str, homonyms: Homonyms) -> Taxonomy:
    if not rows:
        raise DataError(f"{source}: there are no rows below the line of column names")
    by_name = {column.casefold(): column for column in rows[0][1]}
    child = next((by_name[column] for column in CHILD if column in by_name), None)
    parent = next((by_name[column] for column in PARENT if column in by_name), None)
    wanted = list(levels or _default_levels(by_name))
    ranked = all(level.casefold() in by_name or (level == "species" and _species(by_name)) for level in wanted)
    if wanted and ranked:
        return from_lines(wanted, _by_columns(rows, wanted, by_name), source, homonyms=homonyms)
    if child and parent:
        if not levels:
            raise DataError(f"{source}: it has a column {parent!r}", "Name its levels with --levels, coarse to fine.")
        return from_lines(levels, _by_parent(rows, len(levels), child, parent, by_name), source, homonyms=homonyms)
    missing = next((level for level in wanted if level.casefold() not in by_name), "")
    raise DataError(
        f"{source}: no column {missing!r}; it has {', '.join(rows[0][1])}", "Name its columns with --levels a,b,c."
    )


def _default_levels(by_name: Mapping[str, str]) -> list[str]:
    ranks = [rank for rank in RANKS if rank in by_name]
    if ranks:
        return ranks if "species" in ranks or not _species(by_name) else [*ranks, "species"]
    if any(column in by_name for column in PARENT):
        return []
    return [column for folded, column in by_name.items() if folded and folded not in ALIASES]


def _species(by_name: Mapping[str, str]) -> str | None:
    return next((by_name[column] for column in _SPECIES if column in by_name), None)


def _by_columns(
    rows: Sequence[NumberedRow], levels: Sequence[str], by_name: Mapping[str, str]
) -> Iterator[TaxonomyLine]:
    columns = [by_name.get(name.casefold()) or _species(by_name) or name for name in levels]
    rank = by_name.get("taxonrank")
    stands_in = "species" in levels and "species" not in by_name
    also = [by_name[column] for column in ALIASES if column in by_name]
    for where, row in rows:
        names = [row.get(column, "").strip() for column in columns]
        if rank is not None:
            level = row[rank].strip().casefold()
            if level and level not in [name.casefold() for name in levels]:
                continue
            if stands_in and level and level != "species":
                names[-1] = ""
        if any(names):
            yield TaxonomyLine(where, tuple(names), _aliases(row, also))


def _aliases(row: Mapping[str, str], columns: Sequence[str]) -> tuple[str, ...]:
    cells = (row.get(column, "") for column in columns)
    return tuple(name.strip() for cell in cells for name in cell.replace(";", "|").split("|") if name.strip())


def _by_parent(
    rows: Sequence[NumberedRow], depth: int, child: str, parent: str, by_name: Mapping[str, str]
) -> Iterator[TaxonomyLine]:
    """Yield paths from child-parent pairs. Raises DataError for a cycle, two parents or an unknown parent."""
    title = _species(by_name) or child
    by_number = parent.casefold() == "parentnameusageid"
    number = by_name.get("taxonid", by_name.get("", child)) if by_number else title  # "": the id that joins an archive
    also = [by_name[column] for column in ALIASES if column in by_name]
    above: dict[str, tuple[str, str, str]] = {}
    for where, row in rows:
        own, top = key(row[number]), key(row[parent])
        known = above.get(own)
        if known and known[0] != top and known[0] and top:
            raise DataError(
                f"{where}: {row[title]!r} stands under {row[parent]!r}, and under another parent in {known[2]}",
                "A class has one parent; correct one of the rows.",
            )
        above[own] = (top or (known[0] if known else ""), row[title], where)
    for where, row in rows:
        trail: list[str] = []
        at = key(row[number])
        while at:
            if at in trail:
                circle = " > ".join(above[ancestor][1] for ancestor in reversed([*trail[trail.index(at) :], at]))
                raise DataError(f"{where}: {circle} is a cycle", "A class cannot be its own ancestor; correct the row.")
            if at not in above:
                if trail:  # a parent that has no row of its own is a class of the first level
                    above[at] = ("", row[parent] if len(trail) == 1 else at, where)
                else:
                    break
            trail.append(at)
            at = above[at][0]
        names = tuple(above[ancestor][1] for ancestor in reversed(trail))
        if len(names) > depth:
            raise DataError(
                f"{where}: {' > '.join(names)} has {len(names)} levels; --levels names {depth}", "Name all of them."
            )
        if names:
            yield TaxonomyLine(where, names, _aliases(row, also))


class _ArchiveTable(NamedTuple):
    """One file of an archive. `columns` maps positions to terms; the empty term is the key that joins files."""

    core: bool
    name: str
    separator: str
    quote: str
    encoding: str
    skip: int
    columns: Mapping[int, str]
    key: int | None


def _described(tree: Tree) -> list[_ArchiveTable]:
    name = next((member for member in tree.names() if member.rpartition("/")[2] == "meta.xml"), None)
    if name is None:
        raise DataError(f"{tree.path}: no meta.xml found", "Check that it is a Darwin Core archive.")
    text = tree.read(name)
    if b"<!" in text.replace(b"<!--", b""):
        raise DataError(f"{tree.path}: meta.xml declares a document type", "Remove that line.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - declarations, which entities need, were refused above
    except ElementTree.ParseError as error:
        raise DataError(f"{tree.path}: meta.xml is no XML: {error}", "Download the archive again.") from error
    prefix = name[: -len("meta.xml")]
    return [table for element in root if (table := _table(element, prefix, str(tree.path)))]


def _table(element: ElementTree.Element, prefix: str, source: str) -> _ArchiveTable | None:
    kind = element.tag.rpartition("}")[2]
    if kind not in ("core", "extension"):
        return None
    inner = {child.tag.rpartition("}")[2]: child for child in element.iter()}
    location = inner.get("location")
    if location is None or not location.text:
        raise DataError(f"{source}: meta.xml gives no location for its {kind}", "Download the archive again.")
    fields = [child for child in element if child.tag.rpartition("}")[2] == "field" and child.get("index") is not None]
    columns = {int(child.get("index", "0")): child.get("term", "").rpartition("/")[2] for child in fields}
    joined = inner.get("id" if kind == "core" else "coreid")
    escaped = element.get("fieldsTerminatedBy", ",")
    return _ArchiveTable(
        core=kind == "core",
        name=prefix + location.text.strip(),
        separator={"\\t": "\t", "": "\t"}.get(escaped, escaped),
        quote=element.get("fieldsEnclosedBy", '"'),
        encoding=element.get("encoding", "utf-8"),
        skip=int(element.get("ignoreHeaderLines", "0") or 0),
        columns=columns,
        key=None if joined is None else int(joined.get("index", "0")),
    )


def _cells(tree: Tree, table: _ArchiveTable) -> Iterator[tuple[str, dict[str, str]]]:
    place = f"{tree.path}!{table.name}"
    with TextIOWrapper(tree.open(table.name), encoding=table.encoding, newline="") as text:
        reader = csv.reader(
            text,
            delimiter=table.separator,
            quotechar=table.quote or None,
            quoting=csv.QUOTE_MINIMAL if table.quote else csv.QUOTE_NONE,
        )
        try:
            for number, cells in enumerate(reader, 1):
                if number <= table.skip or not cells:
                    continue
                where = f"{place}, line {reader.line_num:,}"
                last_field = max([*table.columns, table.key or 0])
                if len(cells) <= last_field:
                    raise DataError(
                        f"{where}: {len(cells)} fields found, {last_field + 1} expected", "Correct the line."
                    )
                row = {term: cells[at] for at, term in table.columns.items()}
                if table.key is not None:
                    row[""] = cells[table.key]
                yield where, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{place}, line {reader.line_num:,}: {error}", "Download the archive again.") from error


_TOKEN = re.compile(r"\s+|\[[^\]]*\]|'(?:[^']|'')*'|[(),;:]|[^\s\[\]'(),;:]+")


class _Node(msgspec.Struct):
    """One node of a nested JSON tree; other fields are ignored."""

    name: str = ""
    children: list[_Node] = []
    aliases: list[str] = []


_Path = tuple[str, tuple[str, ...], tuple[str, ...]]


def read_json(path: Path, levels: Sequence[str] | None, homonyms: Homonyms = "error") -> Taxonomy:
    """Read a taxonomy from nested `{"name": ..., "children": [...]}`, or a list of such trees; `aliases` are optional.

    A root above all others that stands for no level is left out.

    Raises:
        DataError: no such tree, or leaves at other depths than the levels.
    """
    regular_file(path)
    data = path.read_bytes()
    try:
        decoded = msgspec.json.decode(data, type=list[_Node] | _Node)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(
            f'{path}: {error}; nested {{"name": ..., "children": [...]}} expected', "Check the path."
        ) from error
    roots = decoded if isinstance(decoded, list) else [decoded]
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
    """Read a taxonomy from a Newick tree: `((laysan,sooty)albatross,(herring)gull)bird;`, inner nodes named.

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
    """A node of a Newick tree during parsing."""

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
            raise DataError(
                f"{source}, line {line:,}: {text[at : at + 20]!r} is not Newick", "Check for an unclosed quote."
            )
        sign, at = match.group(), match.end()
        if sign[0].isspace() or sign[0] == "[":
            continue
        if ended:
            raise DataError(f"{source}, line {line:,}: {sign!r} after the end of the tree", "Keep one tree per file.")
        if sign == "(":
            open_.append(last)
            last = _Clade(line)
            open_[-1].children.append(last)
        elif sign in ",)":
            if not open_:
                raise DataError(f"{source}, line {line:,}: {sign!r} without a '(' before it", "Correct the tree.")
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
        raise DataError(f"{source}: a tree has no level names", "Name them: --levels class,genus.")
    deepest = max(len(names) for _, names, _ in paths)
    roots = {names[0] for _, names, _ in paths}
    drop = 1 if len(roots) == 1 and (deepest == len(levels) + 1 or not next(iter(roots))) else 0
    lines = [TaxonomyLine(where, names[drop:], aliases) for where, names, aliases in paths if len(names) > drop]
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
            "Name every level, coarse to fine.",
        )
    return from_lines(levels, lines, source, homonyms=homonyms)
