"""Cells of a workbook as it shows them: percents, currencies and units exact to the digit, dates and times as ISO 8601."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.sources.number_formats import plain_value, shown

ACCOUNTING = '_-* #,##0.00\\ "€"_-;-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'


@pytest.mark.parametrize(
    ("value", "number_format", "expected"),
    [
        (0.45, "0%", "45%"),
        (0.456, "0.0%", "45.6%"),
        (0.456, "0%", "45.6%"),
        (1 / 3, "0%", "33%"),
        (1, "0%", "100%"),
        (10.5, '"$"#,##0.00', "$10.50"),
        (10.5, "[$€-407] #,##0.00", "€ 10.50"),
        (-10.5, "_($* #,##0.00_);_($* (#,##0.00);_(@_)", "-$10.50"),
        (-3.25, ACCOUNTING, "-3.25 €"),
        (0, ACCOUNTING, "0.00 €"),
        (30, '0"°C"', "30°C"),
        (5, 'General" kg"', "5 kg"),
        (1_500_000, '0.0,,"M"', "1.5M"),
        (7, "00000", "00007"),
        (3.7, "0", 3.7),
        (1234.5, "#,##0.00", 1234.5),
        (0.5, "# ?/?", 0.5),
        (5550123, "000-0000", 5550123),
        (12345, "0.00E+00", 12345),
        (5, '[>3]0"big";0', 5),
        (True, "0%", True),
        (float("inf"), "0%", float("inf")),
        (datetime(2024, 3, 1), "mm-dd-yy", "2024-03-01"),
        (datetime(2024, 3, 1), "yyyy-mm-dd h:mm:ss", "2024-03-01"),
        (datetime(2024, 3, 1, 14, 30), "yyyy-mm-dd h:mm", "2024-03-01 14:30"),
        (datetime(2024, 3, 1, 14, 30), "d.m.yyyy", "2024-03-01"),
        (datetime(2024, 3, 1, 14, 30), "h:mm AM/PM", "14:30"),
        (datetime(2024, 3, 1), "mmm yyyy", "2024-03"),
        (datetime(2024, 3, 1), "yyyy", "2024"),
        (time(10), "h:mm:ss", "10:00"),
        (time(10, 0, 30), "h:mm:ss", "10:00:30"),
        (time(0, 1, 5), "mm:ss", "01:05"),
        (timedelta(hours=26, minutes=30), "[h]:mm", "26:30"),
        (timedelta(minutes=90, seconds=15), "[mm]:ss", "90:15"),
    ],
)
def test_a_cell_is_what_the_sheet_shows(value: Any, number_format: str, expected: Any) -> None:
    assert shown(value, number_format) == expected


@given(st.decimals(-9999, 9999, places=4), st.integers(0, 4), st.sampled_from(["0", "#,##0", "#"]))
def test_no_digit_of_a_typed_percent_is_lost_and_none_is_added(percent: Decimal, decimals: int, whole: str) -> None:
    pattern = whole + ("." + "0" * decimals if decimals else "") + "%"
    text = shown(float(percent / 100), pattern)
    assert text.endswith("%") and Decimal(text[:-1]) == percent
    assert len(text[:-1].partition(".")[2]) >= decimals


@given(st.datetimes(datetime(1900, 3, 1), datetime(9999, 12, 31)))
def test_a_moment_is_read_back_from_its_text(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    assert datetime.fromisoformat(shown(moment, "yyyy-mm-dd h:mm:ss")) == moment
    assert date.fromisoformat(shown(moment, "dd/mm/yyyy")) == moment.date()
    assert time.fromisoformat(shown(moment, "hh:mm:ss")) == moment.time()


@given(st.text(alphabet='0#?.,%;"\\_*[]$€-()E+/@ymdhs:x ', max_size=40), st.floats() | st.integers(-(10**6), 10**6))
def test_any_format_at_all_shows_something(number_format: str, value: float) -> None:
    cell = shown(value, number_format)
    assert isinstance(cell, str | int | float)


def test_typed_columns_become_exact_texts() -> None:
    assert plain_value([Decimal("10.50"), {"at": date(2024, 3, 1)}, 1]) == ["10.50", {"at": "2024-03-01"}, 1]
    assert plain_value(Decimal("1E+2")) == "100"
