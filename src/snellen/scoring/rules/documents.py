"""Comparisons of text, tables, fields and boxes that were read from pages, each 0 to 1, as OCRBench v2 makes them.

Sources: Zhong et al. 2019, arXiv 1911.10683 (TEDS), and the evaluation of Yuliang-Liu/MultimodalOCR at 794c36d
(`OCRBench_v2/eval_scripts`, as in VLMEvalKit at e8e78f0), reproduced from their description.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from snellen.errors import MissingExtraError
from snellen.installation import install_hint
from snellen.scoring.rules.formula_boxes import require_tex
from snellen.scoring.rules.vlmevalkit import literal

NEEDED = {
    **dict.fromkeys(("teds", "teds-of-mapping"), ("apted", "lxml")),
    "outline": ("apted",),
    **dict.fromkeys(("page-parse", "page-parse-cdm"), ("apted", "lxml", "pylatexenc")),
    "cdm": ("pypdfium2",),
    **dict.fromkeys(("page", "letters-or-page"), ("nltk", "jieba")),
}
"""Comparison to the packages that it needs, which the extra `documents` brings."""
MOST_NODES = 2_000
"""A tree of more nodes than this, and of ten times those of the gold answer, is worth 0 and not compared."""
MOST_PAIRS = 150_000
"""So is one with more pairs of its nodes and the gold answer's, and a quarter more nodes: about two seconds' work."""
MOST_SIGNS = 50_000_000
"""And one with more signs in its cells, each taken for every node of the gold answer, and a quarter more signs."""
SPECIAL = "!?.:,*\"()·[]/'"
"""Signs that a gold word may have at either end beyond the word that was read."""
IGNORED = "###"
"""A gold word that is not counted."""
_FENCE = re.compile(r"```(?:python|json)?\n(.*?)\n```", re.DOTALL | re.IGNORECASE)
_WORDS = re.compile(r"[\w\s]+")
_PAIR = re.compile(r"([\w\s]++)[\"']?\s*+[:=]\s*[\"']?([^\n,\"'{}]+)")
_BOX = re.compile(r"[(\[]\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*[)\]]")
_ITEM = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_CLEANED = [
    (re.compile(pattern), new)
    for pattern, new in (
        ("<bos>|<eos>|<pad>|<unk>", ""), (r"\s##(\S)", r"\1"), (r"\\\s", r"\\"), (r"\s\*\s\*\s", "**"), (r"{\s", "{"),
        (r"\s}", "}"), (r"\s}", "}"), (r"\\begin\s", r"\\begin"), (r"\\end\s", r"\\end"), ("[*_]", " "),
    )
]  # fmt: skip


def require_packages(comparisons: Iterable[str]) -> None:
    """Raise MissingExtraError where comparisons need a package, or WordNet's data for METEOR, that is not installed."""
    for name in sorted(set(comparisons) & set(NEEDED)):
        if missing := [package for package in NEEDED[name] if find_spec(package) is None]:
            message = f'equals = "{name}" needs {" and ".join(missing)}, which {"is" if len(missing) == 1 else "are"} not installed'
            raise MissingExtraError(message, install_hint("documents"))
        if name == "cdm":
            require_tex()
        if "nltk" in NEEDED[name] and not _has_wordnet():
            message = f'equals = "{name}" has METEOR, which needs WordNet, and NLTK does not find it'
            raise MissingExtraError(message, "Fetch it with: python -m nltk.downloader wordnet")


def _has_wordnet() -> bool:
    from nltk.data import find

    for place in ("corpora/wordnet", "corpora/wordnet.zip"):
        with suppress(LookupError):
            return bool(find(place))
    return False


class TooLarge(float):
    """The 0 of a reply that is too large to compare."""

    reason = "too large to compare"


class Node(Struct, eq=False):
    """A node of a tree that APTED compares: a tag or a line, its spans, and the signs of a cell."""

    tag: str
    spans: tuple[int, int] = (1, 1)
    signs: tuple[str, ...] = ()
    children: list[Node] = []

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, parents first."""
        open_nodes = [self]
        while open_nodes:
            node = open_nodes.pop()
            yield node
            open_nodes += reversed(node.children)


def edit_similarity(reply: Sequence[str], gold: Sequence[str]) -> float:
    """Return 1 less the edit distance by the longer text; two empty texts are alike."""
    from rapidfuzz.distance import Levenshtein

    return float(Levenshtein.normalized_similarity(reply, gold))


def contained_or_similar(reply: str, gold: str, *, cased: bool = False, spaced: bool = True) -> float:
    """Return 1 where a reply contains a short gold answer, and for a longer one ANLS, which is 0 below a half.

    Args:
        cased: capitals count.
        spaced: short is of fewer than five words; else blanks are removed, and it has fewer than four commas' parts.
    """
    reply, gold = (text.strip().replace("\n", " ") for text in (reply, gold))
    if not cased:
        reply, gold = reply.lower(), gold.lower()
    if not spaced:
        reply, gold = reply.replace(" ", ""), gold.replace(" ", "")
    if len(gold.split()) < 5 if spaced else len(gold.split(",")) < 4:
        return float(gold in reply)
    return similar if (similar := edit_similarity(reply, gold)) >= 0.5 else 0.0


def count_share(reply: str, gold: str) -> float:
    """Return 1 less the relative error of the first whole number in a reply, 0 from an error of a half on."""
    found = re.search(r"\d{1,18}", reply)
    if found is None or not (gold := gold.strip()).isdecimal() or int(gold) == 0:
        return 0.0
    share = 1 - abs(int(found[0]) - int(gold)) / int(gold)
    return share if int(found[0]) > 0 and share > 0.5 else 0.0


def letters_or_page(reply: str, gold: str, question: str) -> float:
    """Return 1 where a reply contains the signs of a gold answer, joined by a usual sign; `page_similarity` for 简答 questions."""
    if "简答" in question:
        return page_similarity(reply, gold)
    joints = ("", ".", ". ", ",", ", ", "、", ";", "; ", " ", "和")
    return float(any(joint.join(gold) in reply for joint in joints))


def page_similarity(reply: str, gold: str) -> float:
    """Return the mean of BLEU, METEOR, the F-measure of the sets of words, and `edit_similarity`.

    Words are those of jieba where either text has Chinese signs, else they stand between blanks.
    """
    if not reply or not gold:
        return 0.0
    from nltk.metrics import f_measure
    from nltk.translate import bleu
    from nltk.translate.meteor_score import meteor_score

    wanted, read = _words(gold, reply)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BLEU warns of every short text
        scores = bleu([wanted], read), meteor_score([wanted], read), f_measure(set(wanted), set(read))
    return (sum(float(score or 0.0) for score in scores) + edit_similarity(reply, gold)) / 4


def _words(*texts: str) -> list[list[str]]:
    if not re.search("[一-龥]", "".join(texts)):
        return [text.split() for text in texts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba's own escapes
        import jieba
    jieba.setLogLevel("ERROR")
    return [jieba.lcut(text) for text in texts]


def teds(reply: str, gold: str) -> float:
    """Return the similarity of two tables by tree edit distance (TEDS): HTML where the gold table is, else Markdown."""
    if not re.search(r"<(?:body|table|tr|td)\b", gold):
        return table_similarity(_markdown_page(reply), _markdown_page(gold))
    found = re.search("<body.*", flat := reply.replace("\n", "")) or re.search("<table.*", flat)
    return 0.0 if found is None else table_similarity(_whole_page(found[0]), _whole_page(gold.replace("\n", "")))


def mapping_teds(reply: str, gold: str) -> float:
    """Return TEDS of two mappings, as tables with a row for each key; 0 where the reply has no Python dictionary."""
    read, wanted = _dictionary(reply), _gold_mapping(gold)
    pages = [_page_of((key, " ".join(str(value))) for key, value in values.items()) for values in (read, wanted)]
    return table_similarity(*pages) if read and wanted else 0.0


def _dictionary(text: str) -> Mapping[str, Any]:
    content = max(
        re.findall(r"```(?:python|json)?\n(.*?)\n```", text, re.DOTALL | re.IGNORECASE), key=len, default=text
    )
    content = re.sub("#.*", "", re.sub(r"\A\s*\w+\s*=\s*", "", content.strip()))
    value = literal(content[: content.rfind("}") + 1].strip())
    return value if isinstance(value, Mapping) else {}


def _gold_mapping(text: str) -> Mapping[str, Any]:
    """Return the dictionary of a gold answer, which may stand in a list, and as text in a text."""
    value: Any = text.strip()
    while isinstance(value, list | str) and value:
        value = value[0] if isinstance(value, list) else _parsed(value)
    return value if isinstance(value, Mapping) else {}


def _parsed(text: str) -> Any:
    """Parse JSON, else a Python literal; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return literal(text)


def _page_of(rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<html><body><table>{body}</table></body></html>"


def _markdown_page(text: str) -> str:
    lines = text.strip("`markdown").strip("`").strip().split("\n")
    cells = (line.strip().split("|")[1:-1] for line in [lines[0], *lines[2:]])
    return _page_of([cell.strip() or " " * bool(cell) for cell in row] for row in cells)


def _whole_page(table: str) -> str:
    table = ("" if "<table" in table else "<table>") + table + ("" if "</table>" in table else "</table>")
    table = table if "<body>" in table else f"<body>{table}</body>"
    return table if "<html>" in table else f"<html>{table}</html>"


def table_similarity(reply: str, gold: str, *, structure_only: bool = False, least: float = 0.0) -> float:
    """Return TEDS of the first tables of two HTML pages, or of their structure alone, whatever is in the cells.

    The reference goes below 0, since roots are no nodes; `least` is where it is cut.
    """
    try:
        (read, found), (wanted, known) = _table_tree(reply), _table_tree(gold)
    except (ValueError, RecursionError):  # no markup, or spans that are no numbers
        return 0.0
    for tree in (read, wanted) if structure_only else ():
        for node in tree.walk() if tree else ():
            node.signs = ()
    return _similarity(read, wanted, max(found, known), least) if read and wanted and max(found, known) else 0.0


def _table_tree(page: str) -> tuple[Node | None, int]:
    """Return the tree of the first table of a page, and how many elements are in it, those of its cells among them."""
    from lxml import etree, html

    try:
        root = html.fromstring(page, parser=html.HTMLParser(remove_comments=True, encoding="utf-8"))
    except etree.ParserError:
        return None, 0
    tables = root.xpath("body/table")
    return (_html_node(tables[0]), sum(1 for _ in tables[0].iter()) - 1) if tables else (None, 0)


def _html_node(element: Any) -> Node:
    if element.tag != "td":
        return Node(str(element.tag), children=[_html_node(child) for child in element])
    spans = int(element.get("colspan", "1")), int(element.get("rowspan", "1"))
    return Node("td", spans, tuple(_signs(element))[1:-1])


def _signs(element: Any) -> Iterator[str]:
    """Yield the tags and letters of a cell, as PubTabNet's script does."""
    yield f"<{element.tag}>"
    yield from element.text or ""
    for child in element:
        yield from _signs(child)
    yield f"</{element.tag}>"
    if element.tag != "td":
        yield from element.tail or ""


def outline_similarity(reply: str, gold: str) -> float:
    """Return the similarity of two outlines by tree edit distance (STEDS): headings with the lines below them.

    Lines count as equal where neither is blank, whatever they say, as in the authors' script.
    """
    lines = [text.count("\n") + 3 for text in (reply, gold)]  # each is a node, beside the root and its title
    return TooLarge() if _is_too_large(*lines) else _similarity(_outline(reply), _outline(gold))


def _outline(text: str) -> Node:
    root, title = Node("ROOT", children=[]), Node("TITLE", children=[])
    root.children.append(title)
    last, tags = title, {"ROOT", "TITLE"}
    for line in text.split("\n"):
        for pattern, new in _CLEANED:
            line = pattern.sub(new, line)
        node = Node(line.replace("#", "") if line.startswith("#") else line, children=[])
        if line.startswith("#"):
            root.children.append(node)
            is_first = node.tag not in tags
            last = node if is_first else next(other for other in root.walk() if other.tag == node.tag)
            last = last if node.tag else title
        else:
            last.children.append(node)
        tags.add(node.tag)
    return root


def _is_too_large(reply: int, gold: int) -> bool:
    """Return True for a tree with too many nodes for a comparison with that of a gold answer."""
    return reply > max(MOST_NODES, 10 * gold) or reply * gold > max(MOST_PAIRS, 1.25 * gold**2)


def _similarity(read: Node, wanted: Node, nodes: int = 0, least: float = 0.0) -> float:
    """Return 1 less the edit distance of two trees by the larger number of nodes, or that of the elements of tables."""
    from apted import APTED, Config

    sizes = [sum(1 for _ in tree.walk()) for tree in (read, wanted)]
    signs = [sum(len(node.signs) for node in tree.walk()) for tree in (read, wanted)]
    if _is_too_large(*sizes) or signs[0] * sizes[1] > max(MOST_SIGNS, 1.25 * signs[1] * sizes[1]):
        return TooLarge()

    class Costs(Config):  # type: ignore[misc]  # the package has no types
        def rename(self, one: Node, other: Node) -> float:
            return _cell_distance(one, other) if nodes else float(not (one.tag.strip() and other.tag.strip()))

    try:
        distance = float(APTED(read, wanted, Costs()).compute_edit_distance())
    except RecursionError:
        return 0.0
    return max(least, 1 - distance / (nodes or max(sizes)))


def _cell_distance(one: Node, other: Node) -> float:
    if (one.tag, one.spans) != (other.tag, other.spans):
        return 1.0
    return 1 - edit_similarity(one.signs, other.signs) if one.tag == "td" else 0.0


def fields(text: str) -> dict[str, str]:
    """Return the fields of a reply: a JSON or Python dictionary in it, else its pairs of `name: value`."""
    fenced = _FENCE.search(text)
    content = fenced[1] if fenced else text.strip()
    value = _parsed(content)
    if value is None:
        value = dict(_pairs(content))
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return {}
    return {name.strip(): str(found).strip() for name, found in value.items()}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (run := _WORDS.search(text, at)) is not None:
        pair = _PAIR.match(text, run.start())
        at = run.end() if pair is None else pair.end()
        if pair is not None:
            yield pair[1].strip(), pair[2].strip()


def fields_share(reply: str, gold: str) -> float:
    """Return the share of the fields of reply and gold answer together that are equal, but for case and blanks.

    The gold answer is a dictionary, whose values may be lists of accepted ones.
    """
    read, wanted = fields(reply), _gold_mapping(gold)
    accepted = {name: value if isinstance(value, list) else [value] for name, value in wanted.items()}
    names = {*read, *accepted}
    right = sum(_bare(read[name]) in map(_bare, accepted.get(name, ())) for name in read)
    return right / len(names) if names else 0.0


def _bare(value: Any) -> str:
    return re.sub(r"\s", "", str(value).lower())


def last_box(reply: str) -> Sequence[int] | None:
    """Return the last four whole numbers in brackets, each 0 to 1,000; None without any."""
    boxes = (tuple(int(number[:6]) for number in match.groups()) for match in _BOX.finditer(reply))
    return max(((at, box) for at, box in enumerate(boxes) if max(box) <= 1000), default=(0, None))[1]


def overlap(box: Any, gold: Any) -> float:
    """Return the intersection over union of two boxes, whose sides are cut to whole numbers; 0 for anything else."""
    try:
        one, other = ([int(side) for side in sides] for sides in (box, gold))
        common, areas = _common(one, other), (_common(one, one), _common(other, other))
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0
    return common / union if (union := sum(areas) - common) else 0.0


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the area that two boxes share; of one box with itself its own."""
    width, height = (min(one[at + 2], other[at + 2]) - max(one[at], other[at]) for at in (0, 1))
    return max(0, width) * max(0, height)


def answer_and_box(reply: str, golds: Iterable[str], box: Any) -> float:
    """Return half the value of the field `answer`, and half the overlap of the field `bbox` with a box."""
    read = fields(reply)
    said = max((contained_or_similar(read["answer"], gold) for gold in golds), default=0.0) if "answer" in read else 0.0
    return (said + overlap(literal(read.get("bbox", "")), box)) / 2


def spotted(reply: str, boxes: Sequence[Sequence[int]], words: Sequence[str]) -> float:
    """Return the F-measure of words that were found at their place: an overlap above a half, and the same capitals.

    Args:
        reply: a list of left, top, right, bottom and word, each number whole and 0 to 1,000.
        boxes: corners of the gold words, of which the smallest upright box counts.
        words: the gold words; `###` is not counted.
    """
    gold = [
        ((min(box[0::2]), min(box[1::2]), max(box[0::2]), max(box[1::2])), word.upper())
        for box, word in zip(boxes, words, strict=False)
    ]
    ignored = [box for box, word in gold if word == IGNORED]
    found = [
        item
        for item in _spots(reply)
        if not any(2 * _common(item[0], box) > _common(item[0], item[0]) for box in ignored)
    ]
    if not found or not gold:
        return 0.0
    wanted, taken, right = [item for item in gold if item[1] != IGNORED], set[int](), 0
    for box, word in wanted:
        at = next((at for at, item in enumerate(found) if at not in taken and overlap(item[0], box) > 0.5), None)
        if at is not None:
            taken.add(at)
            right += found[at][1] in _without_special(word)
    return 2 * right / (len(wanted) + len(found)) if wanted else 0.0


def _spots(reply: str) -> list[tuple[tuple[int, ...], str]]:
    value = literal(reply)
    items = value if isinstance(value, list | tuple) else []
    if value is None:
        items = [match[1].split(",", 4) for match in _ITEM.finditer(reply)]
    spots = dict[tuple[tuple[int, ...], str], None]()
    for item in items:
        if isinstance(item, list | tuple) and len(item) >= 5:
            sides = [str(side).strip() for side in item[:4]]
            box = tuple(int(side) for side in sides if re.fullmatch(r"\d{1,4}", side) and int(side) <= 1000)
            if len(box) == 4 and box[0] < box[2] and box[1] < box[3]:
                spots[box, str(item[4]).replace("\n", "").strip().strip("\"'").upper()] = None
    return list(spots)


def _without_special(word: str) -> set[str]:
    starts = [word, word[1:]] if word[:1] in SPECIAL else [word]
    return {
        text[:-1] if cut else text for text in starts for cut in ((False, True) if word[-1:] in SPECIAL else (False,))
    }
