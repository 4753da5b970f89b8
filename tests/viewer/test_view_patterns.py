"""Verdict patterns: what they select, what they refuse, and that SQL selects the same samples."""

from __future__ import annotations

import itertools

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import UsageError
from snellen.viewer.index import VERDICTS
from snellen.viewer.index.sample_page import RunColumn, column_letter, pattern_sql

COLUMNS = [RunColumn("A", ("gpt-4o", "shared")), RunColumn("B", ("qwen 7b", "shared")), RunColumn("C", ("B",))]


ROWS = list(itertools.product(VERDICTS, repeat=3))


@pytest.fixture(scope="module")
def selected():
    """Return the rows, of every combination of three verdicts, that a pattern selects."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE samples (v0 TINYINT, v1 TINYINT, v2 TINYINT)")
        connection.executemany("INSERT INTO samples VALUES (?, ?, ?)", [[*map(VERDICTS.index, row)] for row in ROWS])

        def select(text):
            rows = connection.execute(f"FROM samples WHERE {pattern_sql(text, COLUMNS) or 'true'}").fetchall()
            return {tuple(VERDICTS[code] for code in row) for row in rows}

        yield select


@pytest.mark.parametrize(
    ("text", "verdicts", "fits"),
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
def test_a_pattern_selects_the_samples_that_it_describes(selected, text, verdicts, fits):
    assert (verdicts in selected(text)) is fits


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
        pattern_sql(text, COLUMNS)
    assert problem in str(caught.value)
    assert caught.value.hint


def test_an_empty_pattern_is_no_pattern():
    assert pattern_sql("  \n", COLUMNS) == ""


def test_columns_are_lettered_as_in_a_spreadsheet():
    assert [column_letter(place) for place in (0, 25, 26, 27, 51, 52, 701, 702)] == (
        ["A", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]
    )


NAMES = ["A", "B", "C"]
CLAIMS = {
    "all": lambda hits: all(hits),
    "any": lambda hits: any(hits),
    "none": lambda hits: not any(hits),
    "most": lambda hits: sum(hits) > 1,
}


def claim(subject, negated, verdicts):
    """Return a claim as text, and what it says as a function of three verdicts."""

    def fits(row):
        hits = [(verdict in verdicts) != negated for verdict in row]
        return CLAIMS[subject](hits) if subject in CLAIMS else hits[NAMES.index(subject)]

    return f"{subject} {'not ' if negated else ''}{'/'.join(verdicts)}", fits


claims = st.builds(
    claim,
    st.sampled_from([*NAMES, *CLAIMS]),
    st.booleans(),
    st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=3),
)
patterns = st.recursive(
    claims,
    lambda parts: st.one_of(
        st.builds(lambda a, b: (f"({a[0]} and {b[0]})", lambda row: a[1](row) and b[1](row)), parts, parts),
        st.builds(lambda a, b: (f"({a[0]} or {b[0]})", lambda row: a[1](row) or b[1](row)), parts, parts),
        st.builds(lambda a: (f"not ({a[0]})", lambda row: not a[1](row)), parts),
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(pattern=patterns)
def test_a_pattern_selects_what_its_words_say(selected, pattern):
    text, fits = pattern
    assert selected(text) == {row for row in ROWS if fits(row)}


@settings(max_examples=200)
@given(st.text(alphabet="AB()'\",/ notrightwrongandor", max_size=60))
def test_any_text_is_a_pattern_or_a_clear_error(selected, text):
    try:
        assert selected(text) <= set(ROWS)
    except UsageError as error:
        assert error.hint
