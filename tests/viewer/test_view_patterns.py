"""Verdict patterns: what they select, what they refuse, and that SQL selects the same samples."""

from __future__ import annotations

import itertools

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import UsageError
from snellen.viewer.index import VERDICTS
from snellen.viewer.index.patterns import (
    RunColumn,
    column_letter,
    matches,
    parse_pattern,
    pattern_sql,
)

COLUMNS = [RunColumn("A", ("gpt-4o", "shared")), RunColumn("B", ("qwen 7b", "shared")), RunColumn("C", ("B",))]


def selects(text, *verdicts):
    return matches(parse_pattern(text, COLUMNS), verdicts)


@pytest.mark.parametrize(
    ("text", "verdicts", "selected"),
    [
        ("A right and B wrong", ("right", "wrong", "missing"), True),
        ("A right and B wrong", ("right", "right", "missing"), False),
        ("A right, B wrong", ("right", "wrong", "wrong"), True),
        ("a RIGHT AND b Wrong", ("right", "wrong", "right"), True),
        ("A wrong or B wrong and C wrong", ("wrong", "right", "right"), True),
        ("(A wrong or B wrong) and C wrong", ("wrong", "right", "right"), False),
        ("not A right", ("failed", "right", "right"), True),
        ("A not right", ("unparseable", "right", "right"), True),
        ("A is wrong/failed", ("failed", "right", "right"), True),
        ("gpt-4o right and 'qwen 7b' wrong", ("right", "wrong", "right"), True),
        ('"B" wrong', ("right", "right", "wrong"), True),  # a quoted text is a name; the letter B is the second column
        ("all wrong", ("wrong", "wrong", "wrong"), True),
        ("all wrong", ("wrong", "wrong", "failed"), False),
        ("any missing", ("right", "right", "missing"), True),
        ("none right", ("wrong", "failed", "missing"), True),
        ("none right", ("wrong", "right", "missing"), False),
        ("most wrong", ("wrong", "wrong", "right"), True),
        ("most wrong", ("wrong", "right", "right"), False),
        ("A incorrect", ("wrong", "right", "right"), True),
    ],
)
def test_a_pattern_selects_the_samples_that_it_describes(text, verdicts, selected):
    assert selects(text, *verdicts) is selected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A", "the end after 'A'"),
        ("A rihgt", "'rihgt' after 'A'"),
        ("A right B wrong", "'B' at character 9"),
        ("D right", "no run is called 'D'"),
        ("shared right", "several runs are called 'shared'"),
        ("(A right", "not closed"),
        ("A right and", "ends where a run"),
        ('"qwen right', "quotation mark"),
        ("(" * 41 + "A right" + ")" * 41, "more than 40 brackets"),
        ("not " * 400 + "A right", "more than 40 brackets"),
        ("A right and " * 300, "at most 2,000 are read"),
        ("/", "no run is called '/'"),
    ],
)
def test_a_pattern_that_cannot_be_read_says_what_stands_where(text, problem):
    with pytest.raises(UsageError, match=r"(?s).*") as caught:
        parse_pattern(text, COLUMNS)
    assert problem in str(caught.value)
    assert caught.value.hint


def test_an_empty_pattern_is_no_pattern():
    assert parse_pattern("  \n", COLUMNS) is None


def test_columns_are_lettered_as_in_a_spreadsheet():
    assert [column_letter(place) for place in (0, 25, 26, 27, 51, 52, 701, 702)] == (
        ["A", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]
    )


subjects = st.sampled_from(["A", "B", "C", "all", "any", "none", "most", "'qwen 7b'"])
claims = st.builds(
    lambda subject, negated, verdicts: f"{subject} {'not ' if negated else ''}{'/'.join(verdicts)}",
    subjects,
    st.booleans(),
    st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=3),
)
patterns = st.recursive(
    claims,
    lambda parts: st.one_of(
        st.builds("({} and {})".format, parts, parts),
        st.builds("({} or {})".format, parts, parts),
        st.builds("not ({})".format, parts),
    ),
    max_leaves=6,
)


ROWS = list(itertools.product(VERDICTS, repeat=3))


@pytest.fixture(scope="module")
def table():
    """A table of every combination of three verdicts."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE samples (n INT, v0 TEXT, v1 TEXT, v2 TEXT)")
        connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?)", [(n, *row) for n, row in enumerate(ROWS)])
        yield connection


@settings(max_examples=60, deadline=None)
@given(text=patterns)
def test_sql_selects_the_same_samples_as_the_pattern(table, text):
    pattern = parse_pattern(text, COLUMNS)
    where = pattern_sql(pattern, lambda run, verdicts: f"v{run} IN ({', '.join(repr(v) for v in verdicts)})")
    selected = table.execute(f"SELECT n FROM samples WHERE {where}").fetchall()
    assert {n for (n,) in selected} == {n for n, row in enumerate(ROWS) if matches(pattern, row)}


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="AB()'\",/ notrightwrongandor", max_size=60))
def test_any_text_is_a_pattern_or_a_clear_error(text):
    try:
        pattern = parse_pattern(text, COLUMNS)
    except UsageError as error:
        assert error.hint
    else:
        assert pattern is None or matches(pattern, ("right", "wrong", "failed")) in (True, False)
