"""Operations on cells: a closed set, and none of them evaluates a cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.benchmarks.table.cell_form import Cell
from snellen.benchmarks.table.operations import (
    CellError,
    drawn_options,
    first_is_always_right,
    lettered,
    parsed_list,
    shuffled,
    value,
)

LABELS = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=12, unique=True)


def cell(**keys: Any) -> Cell:
    return msgspec.convert(keys, Cell)


@pytest.mark.parametrize(
    ("keys", "row", "expected"),
    [
        ({"column": "index", "cut": "_", "field": 3}, {"index": "VD_map_1_0_7"}, "0"),
        ({"column": "index", "cut": "_", "field": -1}, {"index": "VD_map_1_0_7"}, "7"),
        ({"column": "kinds", "split": ","}, {"kinds": ""}, []),
        ({"column": "file", "before": "_"}, {"file": "img_red_2.png"}, "img"),
        ({"column": "file", "after": "_"}, {"file": "img_red_2.png"}, "red_2.png"),
        ({"column": "file", "before": "/"}, {"file": "plain"}, "plain"),
        (
            {"column": "task", "rename": {"count": "a/b"}, "fill": "{}/{clip}"},
            {"task": "count", "clip": "{}.mp4"},
            "a/b/{}.mp4",
        ),
        ({"column": "qid", "first": 8}, {"qid": "ABCDEFGH-1-flip"}, "ABCDEFGH"),
        ({"column": "qid", "remove": "-flip"}, {"qid": "A-flip-1"}, "A-1"),
        ({"column": "index", "modulo": 1000000}, {"index": "2000007"}, 7),
        ({"column": "category", "split": ","}, {"category": "a,b"}, ["a", "b"]),
        ({"column": "category", "rename": {"x": "Relation"}}, {"category": "x"}, "Relation"),
        ({"column": "options", "list": True}, {"options": "['it''s', \"b\"]"}, ["its", "b"]),
        ({"column": "options", "list": True}, {"options": '["a", "b"]'}, ["a", "b"]),
        ({"column": "options", "list": True, "drop": 4}, {"options": ["(A) red", "(B) blue"]}, ["red", "blue"]),
        ({"text": "Which?"}, {}, "Which?"),
        ({"column": "missing"}, {}, None),
        ({"column": "#"}, {}, 4),
    ],
)
def test_an_operation_changes_a_cell(keys: Mapping[str, Any], row: Mapping[str, Any], expected: object) -> None:
    assert value(cell(**keys), row, 4) == expected


@pytest.mark.parametrize(
    ("keys", "content", "message"),
    [
        ({"column": "c", "cut": "_", "field": 5}, "a_b", "'_' cuts into 2 parts; field 5"),
        ({"column": "c", "modulo": 10}, "x7", "a whole number was expected"),
        ({"column": "c", "modulo": 10}, "9" * 5000, "a whole number was expected"),
        ({"column": "c", "list": True}, "a, b", r"a list such as \['a', 'b'\] was expected"),
        ({"column": "c", "list": True}, "[__import__('os').getcwd()]", "a list such as"),
        ({"column": "c", "list": True}, "[" * 100_000, "a list such as"),
    ],
)
def test_a_cell_that_does_not_fit_is_named(keys: Mapping[str, Any], content: str, message: str) -> None:
    with pytest.raises(CellError, match=message):
        value(cell(**keys), {"c": content}, 0)


@pytest.mark.parametrize(
    ("spec", "row", "expected"),
    [
        ("A-Z", {"A": "x", "B": "", "C": 3, "answer": "A"}, {"A": "x", "C": "3"}),
        (("A", "C"), {"A": "x", "B": "y", "C": "z"}, {"A": "x", "C": "z"}),
        (("first", "second"), {"first": "x", "second": "y"}, {"A": "x", "B": "y"}),
        (cell(column="o", list=True), {"o": "['x', 'y']"}, {"A": "x", "B": "y"}),
        ("o", {"o": {"A": "x", "D": "y"}}, {"A": "x", "D": "y"}),
        (cell(column="o", split="\n", drop=3), {"o": "A: x\nB: y"}, {"A": "x", "B": "y"}),
        (cell(column="o", list=True, letters="AB"), {"o": ""}, {"A": "A", "B": "B"}),
    ],
)
def test_options_are_read_from_columns_lists_and_objects(spec: Any, row: Mapping[str, Any], expected: object) -> None:
    assert lettered(spec, row, 0) == expected


@given(LABELS, st.integers(0, 2**31), st.text(max_size=20))
def test_a_shuffle_keeps_the_options_and_the_answer(labels: list[str], seed: int, sample: str) -> None:
    options = dict(zip("ABCDEFGHIJKL", labels, strict=False))
    mixed, letter = shuffled(options, "A", seed, sample)
    assert sorted(mixed.values()) == sorted(options.values())
    assert list(mixed) == list(options)
    assert mixed[letter] == options["A"]
    assert shuffled(options, "A", seed, sample) == (mixed, letter)


@given(LABELS, st.integers(2, 6), st.integers(0, 100), st.data())
def test_drawn_options_hold_the_gold_label_once(labels: list[str], count: int, seed: int, data: st.DataObject) -> None:
    gold = data.draw(st.sampled_from(labels))
    options, letter = drawn_options(gold, labels, count, seed, "id")
    assert options[letter] == gold
    assert len(set(options.values())) == len(options) == min(count, len(labels))


@given(st.lists(st.text(max_size=20), max_size=8))
def test_a_list_is_read_back_in_json_and_in_python(items: list[str]) -> None:
    assert parsed_list(str(items)) == items
    assert parsed_list(msgspec.json.encode(items).decode()) == items


def test_a_shuffled_table_has_its_answers_at_every_place() -> None:
    letters = {shuffled({"A": "a", "B": "b", "C": "c"}, "A", 1, str(at))[1] for at in range(60)}
    assert letters == {"A", "B", "C"}


def test_a_table_whose_gold_is_always_first_is_noticed() -> None:
    options = {"A": "x", "B": "y"}
    assert first_is_always_right([("A", options)] * 20)
    assert not first_is_always_right([("A", options)] * 19)
    assert not first_is_always_right([("A", options)] * 19 + [("B", options)])
