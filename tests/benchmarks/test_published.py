"""Published tables are read whole or refused with what is wrong."""

from __future__ import annotations

import pytest

from snellen.benchmarks.published import column, load, read
from snellen.errors import DataError

TABLE = """
[[table]]
title = "Birds"
source = "A paper, table 2"
profile = "official"
columns = ["Near", "Far", "Avg"]
metrics = ["near/accuracy", "far/accuracy", "accuracy"]
rows = [
  { kind = "chance", name = "chance", values = [0.25, "-", 0.25] },
  { kind = "model", name = "Somebody-7B", values = [0.5, 1, 0.75] },
]
notes = ["Far: seen from a tower.", "Avg: of both.", "Near, Far: on two days.", "Note: all birds are drawn."]
"""


def test_a_table_is_read_with_its_dashes():
    (table,) = read(TABLE, "birds.toml")
    assert [(row.kind, row.name, row.values) for row in table.rows] == [
        ("chance", "chance", (0.25, None, 0.25)),
        ("model", "Somebody-7B", (0.5, 1.0, 0.75)),
    ]


def test_a_file_of_a_package_is_found():
    assert load("snellen.benchmarks.vlm2")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"-", 0.25]', '"-"]', "row chance has 2 values for 3 columns"),
        ("0.5, 1,", "50.0, 1,", "50.0 is not a fraction"),
        ("0.5, 1,", "nan, 1,", "nan is not a fraction"),
        ('"-"', '"?"', "Invalid enum value"),
        (', "Avg"]', "]", "2 columns and 3 metrics"),
        ('"Near", "Far",', '"Near", "Near",', "column Near stands there twice"),
        ('"Somebody-7B"', '"chance"', "row chance stands there twice"),
        ('kind = "chance"', 'kind = "model"', ""),
        ('kind = "model"', 'kind = "robot"', "Invalid enum value 'robot'"),
        ("source =", "sauce =", "unknown field"),
        ("[[table]]", "[[table]", "birds.toml"),
    ],
)
def test_a_table_that_does_not_hold_together_is_refused(old, new, said):
    assert old in TABLE
    text = TABLE.replace(old, new, 1)
    if not said:
        assert read(text, "birds.toml")  # a table without chance is one, too
        return
    with pytest.raises(DataError, match=said) as found:
        read(text, "birds.toml")
    assert "birds.toml" in str(found.value)


def test_models_before_chance_are_refused():
    text = TABLE.replace('"model"', '"chance"').replace('"chance"', '"model"', 1)
    with pytest.raises(DataError, match="in the order chance, human, model"):
        read(text, "birds.toml")


def test_one_column_keeps_the_notes_that_concern_it_and_the_rows_that_have_it():
    (table,) = read(TABLE, "birds.toml")
    far = column(table, "far")
    assert (far.columns, far.metrics) == (("Far",), ("accuracy",))
    assert [(row.name, row.values) for row in far.rows] == [("Somebody-7B", (1.0,))]
    assert far.notes == ("Far: seen from a tower.", "Near, Far: on two days.", "Note: all birds are drawn.")
    with pytest.raises(ValueError, match="no column is of 'farther'"):
        column(table, "farther")
