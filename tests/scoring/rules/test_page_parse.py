"""Figures of pages in Markdown: those of OmniDocBench's evaluator, of apted and rapidfuzz, laws, and bounds of time."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from apted import APTED, Config
from drawn_pages import as_html, page, table
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from snellen.scoring.rules import page_parse
from snellen.scoring.rules.page_blocks import bare_formula, bare_table, bare_text, blocks
from snellen.scoring.rules.page_matching import Pair, least_window, quick_match
from snellen.scoring.rules.page_parse import WORST, page_parts, page_value
from stopwatch import is_done_within

VALUES = Path(__file__).parents[1] / "data" / "omnidocbench_values.json"
"""Figures of the drawn pages 0 to 29 by evalscope 1.14.1, `omnidoc_bench/legacy`, one page at a time."""


def figures(reply: str, *items: dict[str, Any], **more: Any) -> dict[str, float]:
    return dict(page_value(reply, json.dumps({"layout_dets": items, **more})).figures)


def text(words: str, order: int | None = 1, category: str = "text_block", **more: Any) -> dict[str, Any]:
    return {"category_type": category, "order": order, "anno_id": words, "text": words, **more}


@pytest.mark.parametrize("seed", range(30))
def test_a_drawn_page_has_the_figures_of_the_authors_evaluator(seed: int) -> None:
    record, reply = page(seed)
    assert dict(page_value(reply, json.dumps(record)).figures) == pytest.approx(json.loads(VALUES.read_text())[seed])


class Tree:
    def __init__(self, tag: str, cell: str = "", *children: Tree) -> None:
        self.tag, self.cell, self.children = tag, cell, children


class Costs(Config):  # type: ignore[misc]
    def rename(self, one: Tree, other: Tree) -> float:
        if one.tag != other.tag:
            return 1.0
        return Levenshtein.distance(one.cell, other.cell) / (max(len(one.cell), len(other.cell)) or 1)


def tree_of(rows: list[list[str]], *, filled: bool = True) -> Tree:
    lines = [Tree("tr", "", *(Tree("td", cell if filled else "") for cell in row)) for row in rows]
    return Tree("table", "", *lines)


def teds(read: list[list[str]], gold: list[list[str]], *, filled: bool = True) -> float:
    distance = APTED(tree_of(read, filled=filled), tree_of(gold, filled=filled), Costs()).compute_edit_distance()
    return 1 - distance / max(len(rows) + sum(map(len, rows)) for rows in (read, gold))


@pytest.mark.parametrize("seed", range(30))
def test_figures_of_pages_with_plain_pairs_are_those_of_apted_and_rapidfuzz(seed: int) -> None:
    """Blocks are misread by a tenth at most, so that each is nearest to its own, and stand in another order."""
    draw = random.Random(seed)
    golds = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(60, 90))) for _ in range(5)]
    read = ["".join("X" if draw.random() < 0.1 else sign for sign in gold) for gold in golds]
    formula, wrong = rf"\frac{{{golds[0]}}}{{b}}", rf"\frac{{{read[0].lower()}}}{{b}}"
    cells = table(draw)
    misread = [[cell.replace("5", "6") for cell in row] for row in cells[:-1]]
    order = draw.sample(range(5), 5)
    items = [text(gold, number) for number, gold in enumerate(golds, 1)]
    items.append({"category_type": "equation_isolated", "order": 6, "anno_id": "f", "latex": formula})
    items.append({"category_type": "table", "order": 7, "anno_id": "t", "html": as_html(cells)})
    parts = [*(read[at] for at in order), f"\\[ {wrong} \\]", as_html(misread, plain=True)]
    found = figures("\n\n".join(parts), *items)
    edits = sum(map(Levenshtein.distance, read, golds))
    assert found["text-edit"] == pytest.approx(edits / sum(map(len, golds)))
    assert found["formula-edit"] == pytest.approx(Levenshtein.distance(wrong, formula) / len(formula))
    assert found["order-edit"] == pytest.approx(Levenshtein.distance(range(5), order) / 5)
    assert found["table-teds"] == pytest.approx(teds(misread, cells))
    assert found["table-teds-structure"] == pytest.approx(teds(misread, cells, filled=False))


def test_blocks_are_taken_out_in_the_evaluators_order() -> None:
    reply = (
        "# Head $x_1$\n\n![a](b.png)\\begin{tabular}{c}a\\end{tabular}\n\n<table><tr><td>$y$</td></tr></table>\n\n"
        "$$a =\n b$$\n\n| p | q |\n|---|---|\n| 1 | 2 |\n\nend ______ of it"
    )
    found = [(block.kind, block.text) for block in blocks(reply)]
    kinds = [kind for kind, _ in found]
    assert kinds.count("table") == 2 and kinds.count("latex-table") == 1
    assert [content for kind, content in found if kind == "text"] == ["# Head $x_1$", "end ____ of it"]
    assert [content for kind, content in found if kind == "formula"] == ["\\[x_1\\]", "\\[a=b\\]"]  # inline ones too
    markdown = next(content for kind, content in found if kind == "table" and "border" in content)
    assert re.findall(r"<td[^>]*>(\w)</td>", markdown) == ["p", "q", "1", "2"]


@pytest.mark.parametrize(
    ("bare", "written", "expected"),
    [
        (bare_text, "A $x_1$, 5 % of (b)!\n中。", "Ax_15ofb中"),
        (bare_text, r"\(\alpha^2\)", "α2"),
        (bare_text, "$5$", "5"),
        (bare_formula, r"\[ \mathbf{A} = 1 \tag{3} \]", "{a}=1"),
        (bare_formula, r"\begin{aligned} X \end{aligned}.", "x"),
        (
            bare_table,
            '<table class="a"><thead><tr><th style="b">x <span>y</span></th></tr></thead></table>',
            '<html><body><table border="1" ><tr><td>x y</td></tr></table></body></html>',
        ),
        (bare_table, "no table", ""),
    ],
)
def test_what_is_compared_is_bare(bare: Any, written: str, expected: str) -> None:
    assert bare(written) == expected


@given(
    st.text(alphabet="abc", min_size=1, max_size=40) | st.text(alphabet="a b水", min_size=1, max_size=40),
    st.text(alphabet="abc水", min_size=1, max_size=12),
    st.integers(0, 13),
)
def test_windows_that_are_passed_over_are_never_the_nearest(text: str, part: str, most: int) -> None:
    windows = [text[at : at + len(part)] for at in range(len(text) - len(part) + 1)]
    expected = min([most, *(Levenshtein.distance(part, window) for window in windows)])
    assert least_window(text, part, most) == expected


@pytest.mark.parametrize("text", ["abcdefghij" * 60, "a" * 600, "水山火木" * 150, "lorem ipsum dolor sit amet, " * 22])
def test_of_a_text_that_is_far_off_few_windows_are_compared(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    distance = Levenshtein.distance

    def counted(*texts: str) -> int:
        nonlocal compared
        compared += 1
        return distance(*texts)

    monkeypatch.setattr("rapidfuzz.distance.Levenshtein.distance", counted)
    part = "XYZ" * 50
    assert least_window(text, part, 91) == 91
    assert compared <= (len(text) - len(part)) // 20


def test_a_block_that_a_reply_split_is_matched_whole() -> None:
    gold = ["abcdefghijklmnopqrstuvwxyz", "0123456789"]
    assert quick_match(gold, ["abcdefghijklm", "nopqrstuvwxyz", "0123456789"]) == [Pair((0,), (0, 1)), Pair((1,), (2,))]


def test_blocks_that_a_reply_joined_are_matched_together() -> None:
    gold = ["abcdefghijklmnopqrstuvwxyz", "0123456789"]
    assert quick_match(gold, ["abcdefghijklmnopqrstuvwxyz0123456789"]) == [Pair((0, 1), (0,))]


def test_a_gold_block_without_a_partner_counts_twice_where_no_block_of_the_reply_is_left() -> None:
    assert figures("aaaa", text("aaaa"), text("bbbb", 2))["text-edit"] == 8 / 12


def test_captions_and_headers_take_part_in_matching_alone() -> None:
    found = figures("head\n\naaaa", text("aaaa"), text("head", None, "header"))
    assert found == {"text-edit": 0, "order-edit": 0}


def test_a_text_that_a_page_break_cuts_is_one_text() -> None:
    relation = [{"relation_type": "truncated", "source_anno_id": "aaaa", "target_anno_id": "bbbb"}]
    assert figures("aaaabbbb", text("aaaa"), text("bbbb", 2), extra={"relation": relation})["text-edit"] == 0


def test_an_empty_reply_has_the_worst_figures_of_what_the_page_has() -> None:
    record, _ = page(5)
    found = page_value("", json.dumps(record)).figures
    assert {name: WORST[name] for name in found} == found
    assert {name.split("-")[0] for name in found} == set(page_parts(record))


@settings(max_examples=60)
@given(
    st.text(alphabet="ab $\\[]()|\n<>table/{}`#!-_:", max_size=80),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    ),
)
def test_any_reply_has_figures_and_odd_records_are_refused_or_scored(reply: str, odd: Any) -> None:
    record = {
        "layout_dets": [text("aaaa", odd), {"category_type": "table", "html": odd, "anno_id": odd}],  # type: ignore[arg-type]
        "extra": {"relation": odd},
    }
    value = page_value(reply, json.dumps(record))
    assert 0 <= value <= 1
    assert all(-1 <= figure <= 1 for figure in value.figures.values())
    for wrong in (odd, {"layout_dets": odd} if odd else {}):
        if not (isinstance(wrong, dict) and wrong.get("layout_dets") == []):
            with pytest.raises(ValueError, match="no page record"):
                page_parts(wrong)


@pytest.mark.parametrize(
    "hostile",
    [
        "![" * 50_000, "$" * 50_001, "\\[" * 50_000, "<table>" * 20_000, "\\begin{tabular}" * 10_000, "|" * 100_000, "a\n\n" * 60_000,
        "\\text{" * 30_000, "| a |\n" * 20_000, "```a\n" * 30_000, "{" * 100_000, " \n" * 90_000, "$x_" + "{" * 4_000 + "$",
        "abcdefghij" * 19_000, "<table>" + "<tr><td>" * 20_000, "![](" * 40_000, "\\(" * 80_000, "\\[" + "\\(" * 80_000 + "\\]",
        "|a|b|\n" * 26_000, "|a|\n|-|\n" + "|<!--|\n" * 22_000,
    ],
)  # fmt: skip
def test_a_hostile_reply_is_scored_in_seconds(hostile: str) -> None:
    record, _ = page(5)
    assert is_done_within(8, lambda: page_value(hostile, json.dumps(record)))


def test_a_reply_that_is_too_large_has_the_worst_figures_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_parse, "MOST_BLOCKS", 2)
    value = page_value("a\n\nb\n\nc", json.dumps({"layout_dets": [text("a")]}))
    assert (value, value.reason) == (0, "too large to compare")
