"""Figures of a page that a model wrote as Markdown: text, formulas, tables and reading order.

Source: as in `page_blocks`; a page record is one of OmniDocBench's file. Formulas are compared as text, and from version 1.5 on
also by CDM, as `formula_matching` has it: the mean over a page's gold formulas, each with its partner in the reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from snellen.scoring.rules.documents import table_similarity
from snellen.scoring.rules.formula_boxes import missing_of_tex
from snellen.scoring.rules.formula_colours import bare
from snellen.scoring.rules.formula_matching import likenesses
from snellen.scoring.rules.page_blocks import (
    COUNTED,
    PARTS,
    Block,
    GoldBlock,
    bare_formula,
    bare_table,
    bare_text,
    blocks,
    gold_blocks,
)
from snellen.scoring.rules.page_matching import Pair, quick_match, simple_match
from snellen.scoring.rules.vlmevalkit import literal

CDM = "formula-cdm"
WORST: Mapping[str, float] = {
    **dict.fromkeys(("text-edit", "formula-edit", "table-edit", "order-edit"), 1.0),
    **dict.fromkeys(("table-teds", "table-teds-structure", CDM), 0.0),
}
"""Figure of a page to its worst value; distances are the better the lower."""
MOST_REPLY, MOST_BLOCKS = 200_000, 2_000
"""A reply of more signs, or of more blocks, is too large to compare: its page has the worst values."""


class PageValue(float):
    """The mean of a page's figures, distances d as 1 - d, without the distance of tables, TEDS of their structure and CDM.

    Attributes:
        figures: name to value, of what the page has.
        reason: why there is nothing to compare.
    """

    figures: Mapping[str, float]
    reason: str | None

    @classmethod
    def of(cls, figures: Mapping[str, float], reason: str | None = None) -> PageValue:
        """Return the value of some figures; 1 without any, as of a page of pictures alone."""
        names = ("text-edit", "formula-edit", "order-edit", "table-teds")
        shares = [1 - figures[name] if WORST[name] else max(0.0, figures[name]) for name in names if name in figures]
        value = cls(sum(shares) / len(shares) if shares else 1.0)
        value.figures, value.reason = figures, reason
        return value


class _Lines(Struct):
    """Blocks of one side that have text to compare: as they are compared, and where each stands.

    Attributes:
        texts: [n], none of them empty.
        sources: [n] formulas as they are written.
        counted: [n] False for a category that is matched alone.
        places: [all blocks]; as in the evaluator, block n takes the place of the n-th, whether or not that has text.
    """

    texts: list[str]
    sources: list[str]
    counted: list[bool]
    places: list[float]


def page_value(reply: str, gold: str, *, with_cdm: bool = False) -> PageValue:
    """Return the figures of a reply for a page record in JSON, CDM among them where TeX is installed.

    Raises ValueError for any other text.
    """
    record = _record(gold)
    found = [] if len(reply) > MOST_REPLY else blocks(reply)
    if len(reply) > MOST_REPLY or len(found) > MOST_BLOCKS:
        empty = page_figures([], record, with_cdm=with_cdm)
        return PageValue.of({name: WORST[name] for name in empty}, "too large to compare")
    return PageValue.of(page_figures(found, record, with_cdm=with_cdm))


def page_parts(record: Any) -> list[str]:
    """Return what a page record, or its JSON, has to compare: `text`, `formula`, `table`, `order`. Raises ValueError as above."""
    record = _record(record)
    found = [
        part
        for part in PARTS
        if any(block.text.strip() and _counts(block, part) for block in gold_blocks(record, part))
    ]
    orders = (block.order for block in gold_blocks(record, "text") if block.text.strip() and _counts(block, "text"))
    return [*found, "order"] if any(orders) else found


def _record(record: Any) -> Mapping[str, Any]:
    if isinstance(record, str):
        try:
            record = msgspec.json.decode(record)
        except (msgspec.DecodeError, RecursionError):
            record = literal(record)
    if not isinstance(record, Mapping):
        raise ValueError("no page record: an object with `layout_dets` was expected, in JSON")
    return record


def _counts(block: GoldBlock, part: str) -> bool:
    return part != "text" or block.category in COUNTED


def page_figures(found: Sequence[Block], record: Mapping[str, Any], *, with_cdm: bool = False) -> dict[str, float]:
    """Return the figures of the blocks of a reply, of what the page has.

    `text-edit`, `formula-edit`, `table-edit`: edits over the signs of the longer text of each pair, summed over pairs;
    `table-teds` and `table-teds-structure`: means over tables, which may be below 0; `order-edit`: edits between the gold
    blocks' order and that in which the reply has them, by the longer list; `formula-cdm`: mean over gold formulas. LaTeX tables
    are not scored.
    """
    figures: dict[str, float] = {}
    gold, reply = _gold_lines(record, "text"), _reply_lines(found, "text")
    if gold.places:
        try:
            pairs = quick_match(gold.texts, reply.texts)
        except ValueError:  # runs of merged blocks overlap
            pairs = simple_match(gold.texts, reply.texts)
        pairs = [pair for pair in pairs if not pair.gold or any(gold.counted[at] for at in pair.gold)]
        figures |= _edits("text-edit", pairs, gold, reply)
        figures |= _order(pairs, gold, reply)
    gold, reply = _gold_lines(record, "formula"), _reply_lines(found, "formula")
    try:
        pairs = quick_match(gold.texts, reply.texts)
    except ValueError:
        pairs = simple_match(gold.texts, reply.texts)
    pairs = [pair for pair in pairs if pair.gold]
    figures |= _edits("formula-edit", pairs, gold, reply)
    if with_cdm and pairs and not missing_of_tex():
        sources = tuple(
            (
                " ".join(bare(reply.sources[at]) for at in pair.reply),
                " ".join(bare(gold.sources[at]) for at in pair.gold),
            )
            for pair in pairs
        )
        figures[CDM] = sum(likenesses(sources)) / len(sources)
    return figures | _tables(found, record)


def _gold_lines(record: Mapping[str, Any], part: str) -> _Lines:
    strip = bare_text if part == "text" else bare_formula
    lines = [(block, strip(block.text)) for block in gold_blocks(record, part)]
    kept = [(block, text) for block, text in lines if text]
    counted = [_counts(block, part) for block, _ in kept]
    texts, sources = [text for _, text in kept], [block.text for block, _ in kept]
    return _Lines(texts, sources, counted, [block.order for block, _ in lines])


def _reply_lines(found: Iterable[Block], part: str) -> _Lines:
    strip = bare_text if part == "text" else bare_formula
    lines = [(block, strip(block.text)) for block in found if block.kind == part]
    kept = [(block, text) for block, text in lines if text]
    texts, sources = [text for _, text in kept], [block.source or block.text for block, _ in kept]
    return _Lines(texts, sources, [True] * len(texts), [block.place for block, _ in lines])


def _edits(name: str, pairs: Iterable[Pair], gold: _Lines, reply: _Lines) -> dict[str, float]:
    joined = [
        ("".join(gold.texts[at] for at in pair.gold), "".join(reply.texts[at] for at in pair.reply)) for pair in pairs
    ]
    return _share_of_edits(name, joined)


def _share_of_edits(name: str, texts: Sequence[tuple[str, str]]) -> dict[str, float]:
    from rapidfuzz.distance import Levenshtein

    signs = sum(max(len(one), len(other)) for one, other in texts)
    return {name: sum(Levenshtein.distance(*pair) for pair in texts) / signs} if signs else {}


def _order(pairs: Sequence[Pair], gold: _Lines, reply: _Lines) -> dict[str, float]:
    from rapidfuzz.distance import Levenshtein

    places = [([gold.places[at] for at in pair.gold], pair.reply) for pair in pairs if pair.gold]
    wanted = sorted(order for orders, _ in places for order in orders if order)
    read = sorted(((reply.places[part[0]], orders) for orders, part in places if part), key=lambda item: item[0])
    orders = [order for _, several in read for order in several if order]
    longest = max(len(wanted), len(orders))
    return {"order-edit": Levenshtein.distance(wanted, orders) / longest} if longest else {}


def _tables(found: Iterable[Block], record: Mapping[str, Any]) -> dict[str, float]:
    gold = [block.text for block in gold_blocks(record, "table") if block.text]
    reply = [block.text for block in found if block.kind == "table"]
    if not gold:
        return {}
    pairs = [pair for pair in simple_match(gold, reply) if pair.gold]
    texts = [("".join(_table(reply[at]) for at in pair.reply), _table(gold[pair.gold[0]])) for pair in pairs]
    means = {
        name: sum(table_similarity(one, other, structure_only=only, least=-1.0) for one, other in texts) / len(texts)
        for name, only in (("table-teds", False), ("table-teds-structure", True))
    }
    return _share_of_edits("table-edit", texts) | means


def _table(text: str) -> str:
    return bare_table(text) or text
