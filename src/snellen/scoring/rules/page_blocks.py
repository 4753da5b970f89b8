r"""Blocks of a page in Markdown, and their text as it is compared, as OmniDocBench's evaluator takes them out.

Source: the evaluator of Ouyang et al. 2024, arXiv 2412.07626, as evalscope 1.14.1 carries it (`omnidoc_bench/legacy`),
reproduced from its behaviour. The order decides: LaTeX tables, HTML tables, formulas, Markdown tables, code, paragraphs.
"""

from __future__ import annotations

import html
import logging
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct

BlockKind: TypeAlias = Literal["text", "formula", "table", "latex-table"]
MOST_FORMULA = 5_000
"""An inline formula of more signs stays as it is written."""
_RUNS = (
    (re.compile("_{4,}"), "____"),
    (re.compile(" {4,}"), "    "),
    (re.compile(r"([^a-zA-Z0-9])\1{10,}"), r"\1\1\1\1"),
)
_CODE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_COMMANDS = (
    re.compile(r"\\title\s*\{([^}]{0,5000})\}"),
    re.compile(r"\\text\s*\{([^}]{0,5000})\}"),
    re.compile(r"\\section\*?\{([^}]{0,5000})\}"),
)
_FORMULA = (("$$", "$$"), ("\\[", "\\]"), ("$", "$"), ("\\(", "\\)"))
_INLINE = (("$", "$"), ("\\(", "\\)"))
_INLINE_IN = (("$$", "$$"), *_INLINE)
_TABULAR = re.compile(r"(\\begin\{tabular\})|\\end\{tabular\}")
_TABLE = re.compile("(<table[^<>]*>)|</table>")


class Block(Struct, frozen=True):
    """A block of a reply, with the place by which blocks are ordered; of a formula also as it is written."""

    kind: BlockKind
    place: int
    text: str
    source: str = ""


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in Markdown, in their order.

    Inline formulas are blocks, and stay in their paragraph. A line alone is a paragraph where no blank line is.
    """
    page = "\n".join(map(_without_images, page.split("\n")))
    page = re.sub(r"^```markdown\n?", "", page, flags=re.MULTILINE)
    page = re.sub(r"```\n?$", "", page, flags=re.MULTILINE)
    for run, short in _RUNS:
        page = run.sub(short, page)
    found: list[Block] = []
    floats = list(_spans(page, (("\\begin{table}", "\\end{table}"),)))
    rest = _blanked(page, floats)
    # The evaluator takes one sign behind a tabular with it, often the line break.
    tabulars = [(start, min(end + 1, len(page))) for start, end in _outermost(_TABULAR, rest)]
    found += [Block("latex-table", start, page[start:end]) for start, end in (*floats, *tabulars)]
    page = _blanked(page, [*floats, *tabulars])
    tables = _outermost(_TABLE, page)
    found += [Block("table", start, page[start:end]) for start, end in tables]
    page = _blanked(page, tables)
    displayed = []
    for start, end in _spans(page, _FORMULA):
        text = "".join(page[start:end].split())
        inner = next((text[first:last] for first, last in _spans(text, _INLINE_IN)), None)
        changed = _changed(text, _INLINE_IN, lambda part: f"\\[{_inside(part)}\\]")
        found.append(Block("formula", start, changed, page[start:end]))
        if inner is None or (inner.startswith("$$") and _inside(inner)):
            displayed.append((start, end))
    page = _blanked(page, displayed)
    if sum(1 for _ in _spans(page + "\n", (("|", "|\n"),))) >= 2:
        page = _with_html_tables(page)
        tables = list(_spans(page, (("<table", "</table>"),)))
        found += [Block("table", start, page[start:end]) for start, end in tables]
        page = _blanked(page, tables)
    codes = list(_CODE.finditer(page))
    found += [Block("text", code.start(), code[2].strip()) for code in codes]
    page = _blanked(page, [code.span() for code in codes])
    for command in _COMMANDS:
        page = command.sub(lambda match: match[1].strip(), page)
    found += _paragraphs(page)
    return sorted(found, key=lambda block: block.place)


def _without_images(line: str) -> str:
    parts, at = [], 0
    while (start := line.find("![", at)) >= 0 and (path := line.find("](", start + 2)) >= 0:
        if (end := line.find(")", path + 2)) < 0:
            break
        parts.append(line[at:start])
        at = end + 1
    return "".join((*parts, line[at:]))


def _inside(inline: str) -> str:
    """Return an inline formula without its marks; `$$` alone is an empty one."""
    mark = 1 if inline == "$$" or not inline.startswith(("$$", "\\(")) else 2
    return inline[mark:-mark]


def _blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in sorted(spans):
        if end > at:
            start = max(start, at)
            parts += [text[at:start], " " * (end - start)]
            at = end
    return "".join((*parts, text[at:]))


def _spans(text: str, marks: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Yield what stands between two marks, with them, from left to right; of two marks at a place the first counts."""
    opening = re.compile("|".join(re.escape(mark) for mark, _ in marks))
    absent: set[str] = set()
    at = 0
    while (match := opening.search(text, at)) is not None:
        at = match.start() + 1
        for mark, closing in marks:
            if closing not in absent and text.startswith(mark, match.start()):
                if (end := text.find(closing, match.start() + len(mark))) >= 0:
                    at = end + len(closing)
                    yield match.start(), at
                    break
                absent.add(closing)


def _changed(text: str, marks: Sequence[tuple[str, str]], change: Callable[[str], str]) -> str:
    """Return a text with each of its `_spans` changed; a pattern would look for the end of each mark again."""
    parts, at = [], 0
    for start, end in _spans(text, marks):
        parts += [text[at:start], change(text[start:end])]
        at = end
    return "".join((*parts, text[at:]))


def _outermost(mark: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Return the outermost pairs of nested marks, whose group 1 opens; marks without a partner do not count."""
    pairs: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in mark.finditer(text):
        if match[1] is not None:
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            while pairs and pairs[-1][0] > start:
                pairs.pop()
            pairs.append((start, match.end()))
    return pairs


def _with_html_tables(text: str) -> str:
    """Return a text with Markdown tables in HTML, in which rows are cells of one kind.

    As in the evaluator, a cell with `---` or a colon is dropped with its line, a row without cells too, and the line
    before a table is lost.
    """
    text = text.replace("\r", "") + "\n"
    pieces, at = [], 0
    for start, end in _spans(text, (("|", "|\n"),)):
        pieces += [text[at:start], _row(text[start:end])]
        at = end
    lines, kept, last = ("".join(pieces) + text[at:]).split("\n"), [], ""
    table: list[str] = []
    inside = False
    for line in lines:
        if "<table>" in line:
            inside = True
            table.append(last)
        elif inside:
            if not re.search(":|---", last) and "</thead>" not in last:
                table.append("\n" + last)
            if "</table>" in last:
                inside = False
                kept.append(_merged("".join(table)))
                table = []
        else:
            kept.append(last)
        last = line
    if last:
        kept.append(_merged("".join((*table, "\n", last))) if inside or "</table>" in last else last)
    page = "\n".join(kept)
    return page.replace("<table>", '<table border="1" >').replace("<td>", '<td colspan="1" rowspan="1">')


def _row(source: str) -> str:
    """Return the first of some lines, and those from the third on, as rows of a table, a tag a line."""
    first, *others = source.strip().split("\n")
    rows = [[cell.strip() for cell in line.strip().split("|")[1:-1]] for line in (first, *others[1:])]
    made = ["    <tr>\n" + "".join(f"      <td>{cell}</td>\n" for cell in row) + "    </tr>\n" for row in rows]
    return f"<table>\n{''.join(made)}</tbody>\n</table>\n"


def _merged(text: str) -> str:
    """Return the rows of neighbouring tables as one table; a row of a table without cells is dropped."""
    rows: list[str] = []
    for start, end in _spans(_changed(text, (("<!--", "-->"),), lambda _: ""), (("<table>", "</table>"),)):
        lines = [line for line in text[start:end].split("\n") if not re.search(r"</?t(?:able|head|body)>", line)]
        rows += lines if len(lines) > 2 else []
    table = "\n".join(rows)
    return f"\n\n<table>\n{table}\n</table>\n\n"


def _paragraphs(page: str) -> Iterator[Block]:
    parts = page.split("\n\n")
    parts = page.split("\n") if len(parts) == 1 else parts
    place = 0  # as in the evaluator, without the line breaks between paragraphs
    for part in parts:
        text = "\n".join(line.strip() for line in part.split("\n") if line.strip())
        if text.startswith("<table") and text.endswith("</table>"):
            yield Block("table", place, text)
        elif text.startswith("$") and text.endswith("$"):
            if text.strip("$ \n"):
                yield Block("formula", place, text)
        elif text:
            yield Block("text", place, text)
        place += len(part)


def bare_text(text: str) -> str:
    """Return a paragraph as it is compared: inline formulas as Unicode, then letters, digits and `_` alone; case is kept."""
    text = "\n".join(_changed(line, _INLINE, _as_unicode) for line in text.split("\n"))
    for blank in ("\\t", "\\n", "\t", "\n", "/t", "/n"):
        text = text.replace(blank, "")
    return re.sub(r"[^\w\u4e00-\u9fff]", "", text)


def _as_unicode(inline: str) -> str:
    formula = re.sub(r"\\([\\_&%^])", "", _inside(inline))
    if not any(sign in formula for sign in "\\^_") or len(formula) > MOST_FORMULA:
        return inline
    from pylatexenc.latexwalker import LatexWalkerError

    try:
        text: str = _converter().latex_to_text(formula + " " * formula.endswith("\\"))
    except (LatexWalkerError, RecursionError, ValueError, IndexError, AttributeError, TypeError):
        return inline  # the converter fails on some malformed formulas, which then stand as they are
    return text.strip()


@lru_cache(maxsize=1)
def _converter() -> Any:
    from pylatexenc.latex2text import LatexNodes2Text

    logging.getLogger("pylatexenc").setLevel(logging.ERROR)  # it warns of every odd formula
    return LatexNodes2Text()


_REMOVED = re.compile(
    r"\\tag\{.{0,2000}?\}|\\hspace\{.{0,2000}?\}|\\begin\{.{0,2000}?\}|\\end\{.{0,2000}?\}|\\arraycolsep.{0,2000}?\}"
)
_FONTS_AND_BLANKS = (
    "mathbf", "mathrm", "mathnormal", "mathit", "mathbb", "mathcal", "mathscr", "mathfrak", "mathsf", "mathtt", "textbf",
    "text", "boldmath", "boldsymbol", "operatorname", "bm", "symbfit", "mathbfcal", "symbf", "scriptscriptstyle", "notag",
    "setlength", "coloneqq", "space", "thickspace", "thinspace", "medspace", "nobreakspace", "negmedspace", "quad", "qquad",
    "enspace", "substackw",
)  # fmt: skip
"""Commands that are removed from formulas, in this order, in which one may leave the end of a longer one."""


def bare_formula(text: str) -> str:
    r"""Return a formula as it is compared: without `\[`, tags, environments, fonts and blanks, in lower case."""
    inside = re.search(r"\\\[(.{1,20000}?)(?<!\\)\\\]", text)
    text = _REMOVED.sub("", inside[1].strip() if inside else text).strip(".")
    for command in _FONTS_AND_BLANKS:
        text = text.replace("\\" + command, "")
    return text.replace(" ", "").lower()


def bare_table(table: str) -> str:
    """Return an HTML table as it is compared: one kind of cell, no style, no inline tags; empty where no table is in it."""
    from lxml import etree
    from lxml import html as markup

    if "<table" not in table.replace(" ", ""):
        return ""
    try:
        root = markup.fragment_fromstring(table, create_parent="div")
        for element in list(root.iter("th", "thead", "span", "math")):
            if element.tag == "th":
                element.tag = "td"
            elif element.tag == "math":
                element.tail = f"${element.get('alttext', '')}${element.tail or ''}"
                element.drop_tree()
            else:
                element.drop_tag()
        text = markup.tostring(root, encoding="unicode")
    except (etree.LxmlError, ValueError, AssertionError, RecursionError):
        return ""
    # As Beautiful Soup writes such blanks, and tags without an end.
    text = re.sub(r">[^\S\n]*\n\s*<", "><", text)
    text = re.sub(r"<(br|col|img|hr|input)\b([^<>]*)>", r"<\1\2/>", text)
    text = unicodedata.normalize("NFKC", html.unescape(text).replace("\n", "")).strip()
    start, end = re.search(r"<table\b[^<>]*>", text, re.IGNORECASE), text.lower().rfind("</table>")
    text = text[start.end() : end] if start is not None and start.end() <= end else ""
    for name in ("style", "height", "width", "align", "class"):
        text = re.sub(f' {name}="[^"]*"', "", text)
    text = re.sub(r"\s+", " ", re.sub("</?tbody>", "", text))
    text = f'<html><body><table border="1" >{text}</table></body></html>'
    text = re.sub("</?(?:sup|sub|span|div|p)>", "", text)
    return re.sub("<colgroup>.*?</colgroup>", "", text)


COUNTED = frozenset(("text_block", "title", "code_txt", "code_txt_caption", "reference"))
"""Categories of text that the figures are made of."""
MATCHED_ALONE = (
    *("equation_caption", "figure_caption", "figure_footnote", "table_caption", "table_footnote", "code_algorithm"),
    *("code_algorithm_caption", "header", "footer", "page_footnote", "page_number"),
)
"""Categories of text that are matched, so that a reply may have them, and then dropped."""
TEXTS = (*("text_block", "title", "code_txt", "code_txt_caption", "reference"), *MATCHED_ALONE)
PARTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "text": ("text", TEXTS),
    "formula": ("latex", ("equation_isolated",)),
    "table": ("html", ("table",)),
}
"""Part of a page to the member of a block that holds it, and to its categories in their order."""


class GoldBlock(Struct, frozen=True):
    """A block of a page record: its category, its place in the reading order (0: none) and its text."""

    category: str
    order: float
    text: str


def gold_blocks(record: Mapping[str, Any], part: str) -> list[GoldBlock]:
    """Return the blocks of one part of a page record, in the reading order; blocks that a page break cuts are joined.

    Raises:
        ValueError: the record is no page of OmniDocBench.
    """
    member, categories = PARTS[part]
    items = record.get("layout_dets")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise ValueError("no page record: it has no list `layout_dets` of blocks")
    if part == "text":
        items = _joined(items, record.get("extra"))
    by_category = [item for category in categories for item in items if item.get("category_type") == category]
    found = [GoldBlock(item["category_type"], _order(item), str(item.get(member, ""))) for item in by_category]
    return sorted(found, key=lambda block: block.order)


def _order(item: Mapping[str, Any]) -> float:
    order = item.get("order")
    return order if isinstance(order, int | float) and order == order else 0


def _joined(items: Sequence[Mapping[str, Any]], extra: Any) -> list[Mapping[str, Any]]:
    """Join texts that relations call truncated; as in the evaluator, a block in the middle of three is there twice."""
    relations = extra.get("relation") if isinstance(extra, Mapping) else None
    chains: list[list[Any]] = []
    for relation in relations if isinstance(relations, list) else ():
        if isinstance(relation, Mapping) and relation.get("relation_type") == "truncated":
            pair = [relation.get("source_anno_id"), relation.get("target_anno_id")]
            longer = [chain for chain in chains if pair[0] in chain or pair[1] in chain]
            for chain in longer:
                chain += pair
            if not longer:
                chains.append(pair)
    cut = [name for chain in chains for name in chain]
    kept = [item for item in items if item.get("anno_id") not in cut]
    for chain in chains:
        parts = [item for name in chain for item in items if item.get("anno_id") == name]
        if parts:
            parts.sort(key=_order)
            kept.append({**parts[0], "text": "".join(str(item.get("text", "")) for item in parts)})
    return kept
