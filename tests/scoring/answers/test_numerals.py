"""Written numbers are read as what they mean, whatever the script, locale and notation; other texts are not numbers."""

from __future__ import annotations

import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.scoring.answers.numerals import EXACT, find_numbers, parse_number, written

NUMBERS = {
    "-12": -12, "−12": -12, "–5": -5, "＋5": 5, "minus five": -5, "负三": -3, "1,234.5": "1234.5", "1.234,5": "1234.5", "1 234": 1234, "1’234.50": "1234.5",
    "1,5": "1.5", "0,123": "0.123", "12,34,567": 1234567, "1{,}234": 1234, ".5": "0.5", "1e-3": "0.001", "1.5 × 10^3": 1500, "1.5×10⁻³": "0.0015", "10^3": 1000,
    r"2 \times 10^{6}": 2000000, "3/4": "0.75", "½": "0.5", "1½": "1.5", "1 1/2": "1.5", r"-\frac{3}{4}": "-0.75", r"2\frac12": "2.5", "１２": 12, "٣٫٥": "3.5",
    "twenty-one": 21, "a hundred and five": 105, "three thousand two hundred": 3200, "two million": 2000000, "three point five": "3.5", "one and a half": "1.5",
    "three quarters": "0.75", "a dozen": 12, "三": 3, "二十一": 21, "一百零五": 105, "三点五": "3.5", "四分之三": "0.75", "二〇二四": 2024, "十二万": 120000,
    "3万": 30000, "3.2 million": 3200000, "5k": 5000, "1.2 Mrd.": 1200000000,
}  # fmt: skip
NOT_NUMBERS = "1.2.3|192.168.0.1|10:05|2024-03-01|3-2|5-10|AB-123|1,2,3|1, 2|<5|~5|5 kg|3rd|3D|1/0|1/2/3|030/123|- 5|--5|one two|hundred|a|12 34|5!|5²|二三十|"


@pytest.mark.parametrize("text", NUMBERS)
def test_a_written_number_is_its_value(text: str) -> None:
    assert (parse_number(text) or [None])[0] == Decimal(NUMBERS[text])


def test_other_texts_are_no_numbers() -> None:
    assert {text: value for text in NOT_NUMBERS.split("|") if (value := parse_number(text)) is not None} == {}


@settings(max_examples=80)
@given(
    value=st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3), decimal=st.sampled_from(".,")
)
def test_a_value_is_read_back_as_written_in_either_locale(value: int | Decimal, decimal: str) -> None:
    text = written(value, decimal)
    assert (parse_number(text, decimal) or [None])[0] == value or len(text) > 40


@settings(max_examples=60)
@given(whole=st.integers(-999_999_999, 999_999_999), places=st.integers(0, 5), digits=st.integers(0, 99_999))
def test_thousands_and_decimals_of_every_locale_mean_the_same(whole: int, places: int, digits: int) -> None:
    fraction = f"{digits:05d}"[:places]
    expected = Decimal(f"{whole}.{fraction or 0}")
    for thousands, decimal in (
        (",", "."),
        (".", ","),
        (" ", "."),
        (" ", ","),
        ("'", "."),
        ("\u202f", ","),
        ("", "."),
        ("", ","),
    ):
        text = f"{whole:,}".replace(",", thousands) + (decimal + fraction if fraction else "")
        assert parse_number(text, decimal) == (expected, places), text


@settings(max_examples=40)
@given(top=st.integers(0, 10**6), bottom=st.integers(1, 10**6))
def test_a_fraction_is_equal_to_the_same_one_in_other_terms(top: int, bottom: int) -> None:
    plain, latex, doubled = (
        parse_number(text) for text in (f"{top}/{bottom}", rf"\frac{{{top}}}{{{bottom}}}", f"{2 * top}/{2 * bottom}")
    )
    assert plain == latex == doubled and plain is not None and plain[1] == EXACT
    assert abs(Fraction(plain[0]) - Fraction(top, bottom)) < Fraction(1, 10**20)


SENTENCES = {
    "There are 3 cats and -2 dogs": "3 -2", "page A4, AB-123 at 10:05 on 2024-03-01 in v1.2.3, the 3rd": "", "5kg, 5-10 or 1,2,3": "5 5 10 1 2 3", "x=−5 (-6) 3x -5": "-5 -6 3 -5",
    "this one is one cat": "1", "一般有三只猫，第二个": "3", "the left half of twenty-one": "21", "It is $1,234.50.": "1234.50", "In 1998 234 people": "1998 234",
}  # fmt: skip


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_numbers_of_a_sentence_are_found_with_their_places(sentence: str) -> None:
    found = find_numbers(sentence)
    assert " ".join(str(number.value) for number in found) == SENTENCES[sentence]
    assert all((parse_number(sentence[number.start : number.end]) or [None])[0] == number.value for number in found)


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1,",
        "1 ",
        "-",
        "1/",
        "one ",
        "hundred and ",
        "1.",
        "一",
        "一点",
        "minus ",
        "1e",
        "⅓",
        "1:",
        "1-",
        "1{,}",
        "\\frac{1}{",
    ],
)
def test_finding_takes_time_in_proportion_to_the_length(piece: str) -> None:
    def cpu_s(length: int) -> float:
        start = time.process_time()
        find_numbers(piece * (length // len(piece)))
        return time.process_time() - start

    assert min(cpu_s(40_000) for _ in range(3)) < 30 * max(cpu_s(4_000), 0.002)
