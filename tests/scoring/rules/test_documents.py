"""Comparisons of tables, outlines, fields and boxes of pages: values by hand, laws, and time that grows with the reply."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import MissingExtraError
from snellen.scoring.rules import documents
from snellen.scoring.rules.documents import (
    answer_and_box,
    contained_or_similar,
    count_share,
    fields,
    fields_share,
    last_box,
    letters_or_page,
    mapping_teds,
    outline_similarity,
    overlap,
    spotted,
    teds,
)
from stopwatch import is_done_within

ROW = "<table><tr><td>{}</td><td>{}</td></tr></table>"


@pytest.mark.parametrize(
    ("reply", "gold", "value"),
    [
        (ROW.format("a", "bc"), ROW.format("a", "bc"), 1),
        (f"Here it is:\n```html\n{ROW.format('a', 'bc')}\n```", ROW.format("a", "bc"), 1),
        (ROW.format("a", "bd"), ROW.format("a", "bc"), 1 - 0.5 / 3),  # one of two letters of one of three nodes
        (ROW.format("a", ""), ROW.format("a", "bc"), 1 - 1 / 3),
        ("<table><tr><td>a</td></tr></table>", ROW.format("a", "bc"), 1 - 1 / 3),
        ("<table><tr><td colspan=2>a</td></tr></table>", ROW.format("a", "bc"), 1 - 2 / 3),
        ("<table><tr><td rowspan='x'>a</td></tr></table>", ROW.format("a", "bc"), 0),
        ("a | bc", ROW.format("a", "bc"), 0),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 3 |", 1 - 1 / 6),
        ("```markdown\n| a | b |\n| --- | --- |\n| 1 | 2 |\n```", "| a | b |\n|---|---|\n| 1 | 2 |", 1),
        ("<table>" * 400, ROW.format("a", "bc"), 0),
    ],
)
def test_tables_are_as_alike_as_the_edits_of_their_trees_say(reply: str, gold: str, value: float) -> None:
    assert teds(reply, gold) == pytest.approx(value)


def test_mappings_are_compared_as_tables_of_two_columns() -> None:
    assert mapping_teds("x = {'a': 12}", "[{'a': 12}]") == 1
    assert mapping_teds("{'a': 12}", "{'a': 13}") == pytest.approx(1 - (1 / 3) / 3)  # "1 2" and "1 3"
    assert mapping_teds('{"a": true}', "{'a': 1}") == 0  # JSON's words are no Python


def test_an_outline_is_worth_its_headings_and_numbers_of_lines_whatever_they_say() -> None:
    gold = "# One\nfirst line\n# Two"
    assert outline_similarity("# Uno\nanything\n# Dos", gold) == 1
    assert outline_similarity("# One\n# Two", gold) == pytest.approx(1 - 1 / 5)
    assert outline_similarity("# One\n\n# Two", gold) == pytest.approx(1 - 1 / 5)  # a blank line equals none


def test_fields_count_over_those_of_both_sides() -> None:
    gold = "[{'total': ['5', '5.0'], 'date': ['1 May']}]"
    assert fields_share('```json\n{"total": 5.0, "date": "1may"}\n```', gold) == 1
    assert fields_share("total: 5, currency: EUR", gold) == pytest.approx(1 / 3)
    assert fields("company = ACME\ntotal: '3'") == {"company": "ACME", "total": "3"}
    assert fields("[1, 2]") == {}


def test_the_last_box_in_thousandths_counts() -> None:
    assert last_box("from (0, 0, 5, 5) to [10,10,20,20], 2024 (1, 2, 3, 1001)") == (10, 10, 20, 20)
    assert last_box("(1.5, 2, 3, 4)") is None
    assert overlap((0, 0, 10, 10), ("5", 0, 15, 10)) == pytest.approx(50 / 150)
    assert overlap((0, 0, 0, 0), (0, 0, 0, 0)) == overlap((1, 2), "box") == overlap(None, None) == 0
    assert answer_and_box('{"answer": "the Ship", "bbox": [0, 0, 10, 5]}', ["ship"], [0, 0, 10, 10]) == 0.75


def test_words_are_spotted_at_their_place() -> None:
    boxes, words = [[0, 0, 10, 0, 10, 10, 0, 10], [20, 0, 30, 0, 30, 10, 20, 10]], ["Ship!", "###"]
    assert spotted("[[0, 0, 10, 10, 'SHIP']]", boxes, words) == 1
    assert spotted("[[0, 0, 10, 10, 'SHIP'], [20, 0, 30, 10, 'x']]", boxes, words) == 1  # what lies on ### is left out
    assert spotted("(0,0,10,10,ship),(50,50,60,60,sea)", boxes, words) == pytest.approx(2 / 3)
    assert spotted("[[0, 0, 5, 10, 'SHIP']]", boxes, words) == 0  # an overlap of a half is too small
    assert spotted("none", boxes, words) == spotted("", [], []) == 0


def test_short_answers_are_contained_and_long_ones_similar() -> None:
    assert contained_or_similar("It says: A SHIP\nhere", "a ship here") == 1
    assert contained_or_similar("A SHIP", "a ship", cased=True) == 0
    assert contained_or_similar("one two three four fiva", "one two three four five") == pytest.approx(1 - 1 / 23)
    assert contained_or_similar("one", "one two three four five") == 0
    assert contained_or_similar("红 色", "红色", spaced=False) == 1


@pytest.mark.parametrize(
    ("reply", "share"), [("about 6", 0.75), ("12", 0), ("4", 0), ("5", 5 / 8), ("none", 0), ("0", 0)]
)
def test_a_count_is_worth_its_nearness(reply: str, share: float) -> None:
    assert count_share(reply, "8") == share


def test_letters_may_be_joined_in_several_ways() -> None:
    joined = [letters_or_page(f"选 {text}", "AC", "选择题") for text in ("AC", "A, C", "A和C", "A、C", "C, A")]
    assert joined == [1, 1, 1, 1, 0]


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_reply_breaks_a_comparison_and_each_is_worth_0_to_1(reply: str, gold: str) -> None:
    for compare in (teds, mapping_teds, outline_similarity, fields_share, contained_or_similar, count_share):
        assert 0 <= compare(reply, gold) <= 1
    assert 0 <= spotted(reply, [[0, 0, 1, 1]], ["a"]) <= 1
    last_box(reply)


@pytest.mark.parametrize(
    "part", ["<td>", "<table>", "| a ", "a ", "[", "(1, ", "{'a': ", "a: ", "# ", "\n", "'", "\\end "]
)
def test_a_long_reply_is_compared_in_time_that_grows_with_its_length(part: str) -> None:
    reply = part * (120_000 // len(part))

    def compared():
        for compare in (teds, mapping_teds, outline_similarity, fields_share):
            compare(reply, ROW.format("a", "b") if compare is teds else "[{'a': 1}]")
        teds(reply, "| a |\n|---|\n| b |")
        spotted(reply, [[0, 0, 1, 1]], ["a"]), last_box(reply)

    assert is_done_within(5, compared)


def table(rows: int, cell: str) -> str:
    return "<table>" + ("<tr>" + f"<td>{cell}</td>" * 5 + "</tr>") * rows + "</table>"


@pytest.mark.parametrize(
    ("compare", "reply", "gold"),
    [
        (teds, "<table>" + ("<tr>" + "<td>x" * 5) * 330, table(50, "cell")),
        (teds, table(80, "y" * 500), table(50, "cell")),
        (teds, table(2, "y" * 200_000), table(50, "cell")),
        (outline_similarity, "".join(f"# {at}\n" for at in range(8_000)), "# a\nb"),
        (outline_similarity, "line\n" * 1_900, "line\n" * 150),
    ],
)
def test_a_reply_that_is_too_large_is_worth_0_and_not_compared(compare, reply: str, gold: str) -> None:
    assert is_done_within(2, lambda: compare(reply, gold))
    share = compare(reply, gold)
    assert share == 0 and isinstance(share, documents.TooLarge)


def test_a_large_gold_answer_is_compared_with_a_reply_of_its_size() -> None:
    large = table(70, "a")
    assert teds(large, large) == 1
    assert teds(large.replace(">a<", ">b<", 1), large) == pytest.approx(1 - 1 / 420)


def test_tags_in_cells_count_in_the_denominator_as_in_pubtabnets_script() -> None:
    gold = "<table><tr><td>a</td><td>b</td></tr></table>"
    assert teds("<table><tr><td>" + "<b>" * 100 + "z</table>", gold) == pytest.approx(1 - 2 / 102)


def test_a_heading_takes_the_lines_of_the_first_node_that_says_the_same() -> None:
    root = documents._outline("a\n# b\nc\n#a\nd\n# b\ne\n#\nf")
    title, *headings = root.children
    assert [node.tag for node in title.children] == ["a", "f"] and title.children[0].children[0].tag == "d"
    assert [node.tag for node in headings[0].children] == ["c", "e"]


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    documents.require_packages(["teds", "outline", "text", ""])
    monkeypatch.setattr("nltk.data.path", [str(tmp_path)])
    with pytest.raises(MissingExtraError, match="METEOR, which needs WordNet") as error:
        documents.require_packages(["page"])
    assert "python -m nltk.downloader wordnet" in str(error.value.hint)
    monkeypatch.setattr("snellen.scoring.rules.documents.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match='"teds" needs apted and lxml, which are not installed') as error:
        documents.require_packages(["teds"])
    assert "[documents]" in str(error.value.hint)
