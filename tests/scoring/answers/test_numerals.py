"""Written numbers are read as what they mean, whatever the script, locale and notation; other texts are not numbers."""

from decimal import Decimal
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.scoring.answers.numerals import EXACT, find_numbers, parse_number, written
from snellen.scoring.extract import read
from stopwatch import cpu_times

NUMBERS = {
    "−12": -12, "–5": -5, "＋5": 5, "minus five": -5, "负三": -3, "12,34,567": 1234567, "1{,}234": 1234, ".5": "0.5", "1e-3": "0.001", "1.5×10⁻³": "0.0015",
    "10^3": 1000, r"2 \times 10^{6}": 2000000, "½": "0.5", "1½": "1.5", "1 1/2": "1.5", r"2\frac12": "2.5", "１２": 12, "٣٫٥": "3.5", "twenty-one": 21,
    "a hundred and five": 105, "three thousand two hundred": 3200, "three point five": "3.5", "one and a half": "1.5", "three quarters": "0.75", "a dozen": 12,
    "half a dozen": 6, "half a million": 500000, "三": 3, "二十一": 21, "一百零五": 105, "三点五": "3.5", "四分之三": "0.75", "二〇二四": 2024, "十二万": 120000,
    "3万": 30000, "3.2 million": 3200000, "5k": 5000, "1.2 Mrd.": 1200000000,
}  # fmt: skip
NOT_NUMBERS = "1.2.3|192.168.0.1|10:05|2024-03-01|3-2|5-10|AB-123|1,2,3|1, 2|<5|~5|5 kg|3rd|3D|1/0|1/2/3|030/123|- 5|--5|one two|hundred|a|12 34|5!|5²|二三十|百分之五|"


def test_a_written_number_is_its_value_and_other_texts_are_no_numbers():
    assert {text: str((parse_number(text) or [None])[0]) for text in NUMBERS} == {
        text: str(value) for text, value in NUMBERS.items()
    }
    assert {text: value for text in NOT_NUMBERS.split("|") if (value := parse_number(text)) is not None} == {}


@settings(max_examples=80)
@given(st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3), st.sampled_from(".,"))
def test_a_value_is_read_back_as_written_in_either_locale(value, decimal):
    text = written(value, decimal)
    assert (parse_number(text, decimal) or [None])[0] == value or len(text) > 40


@settings(max_examples=60)
@given(whole=st.integers(-999_999_999, 999_999_999), places=st.integers(0, 5), digits=st.integers(0, 99_999))
def test_thousands_and_decimals_of_every_locale_mean_the_same(whole, places, digits):
    fraction = f"{digits:05d}"[:places]
    for thousands, decimal in zip((",", ".", " ", " ", "'", "\u202f", "", ""), ".,.,.,.,", strict=True):
        text = f"{whole:,}".replace(",", thousands) + (decimal + fraction if fraction else "")
        assert parse_number(text, decimal) == (Decimal(f"{whole}.{fraction or 0}"), places), text


@settings(max_examples=40)
@given(top=st.integers(0, 10**6), bottom=st.integers(1, 10**6))
def test_a_fraction_is_equal_to_the_same_one_in_other_terms(top, bottom):
    texts = (f"{top}/{bottom}", rf"\frac{{{top}}}{{{bottom}}}", f"{2 * top}/{2 * bottom}")
    plain, latex, doubled = map(parse_number, texts)
    assert plain == latex == doubled and plain is not None and plain[1] == EXACT
    assert abs(Fraction(plain[0]) - Fraction(top, bottom)) < Fraction(1, 10**20)


@settings(max_examples=80)
@given(
    top=st.integers(0, 99),
    bottom=st.integers(1, 99),
    signs=st.tuples(*(st.sampled_from(["", "-", "−", "+", "- ", " - "]),) * 2),
    form=st.sampled_from([r"\frac{{{}{}}}{{{}{}}}", r"$\dfrac{{{}{} }}{{ {}{}}}$", r"x = \frac{{{}{}}}{{{}{}}}"]),
)
def test_the_signs_of_a_fraction_belong_to_it(top, bottom, signs, form):
    value = read("number", form.format(signs[0], top, signs[1], bottom), question="What is x?").value
    minus = sum(sign.strip() in ("-", "−") for sign in signs) % 2
    assert value == pytest.approx((-1) ** minus * top / bottom)


@pytest.mark.parametrize("reply", [r"\sqrt{2}", "√16", "2√3", "2π", r"x = 3\pi", "∛8", r"\frac{\sqrt{2}}{2}", "x > 3", "x ≠ 2", "x = log 2", "2y", "3/x", r"\frac{1}{\sqrt{2}}", "2 × 500", r"2 \pi", "2 pi", "sqrt(2)", "the square root of 2", "5^2", "5 ^ 2", "2^{10}", "5 squared", r"\log_2 8", "x/2", "3 · x", "3 < x < 5", "5 > 3", "3 divided by 4", "2**10", "3*4", "1*2*3"])  # fmt: skip
@pytest.mark.parametrize("form", ["{}", "The answer is {}.", "Therefore, ${}$"])
def test_of_a_term_that_is_no_number_no_part_is_one(reply, form):
    assert read("number", form.format(reply), question="What is x?").value is None


@pytest.mark.parametrize("reply", ["5", "The square root of 25 is 5.", "x = 5", "10/2 = 5", "10*2/4 = 5", "2 + 3 = 5", "5 <b>", "<b>5</b>", "**5** x", "5^\\circ", "I count 5 (x is 5)", "2^2 + 1 = 5"])  # fmt: skip
def test_the_value_of_a_term_is_read(reply):
    assert read("number", reply, question="What is x?").value == 5


SENTENCES = {
    "There are 3 cats and -2 dogs": "3 -2", "page A4, AB-123 at 10:05 on 2024-03-01 in v1.2.3, the 3rd": "", "5kg, 5-10 or 1,2,3": "5 5 10 1 2 3", "x=−5 (-6) 3x -5": "-5 -6 3 -5",
    "this one is one cat": "1", "一般有三只猫，第二个": "3", "the left half of twenty-one": "21", "In 1998 234 people": "1998 234", "half a dozen apples": "6", "0.75 ± 0.05 m": "0.75 0.05",
    "百分之25": "25", "占百分之四十五": "45", "2.35千克": "2.35", "图中有5只鸟": "5", "十字路口有十人": "10", "nineteen eighty-four": "19 84", "a few hundred": "",
}  # fmt: skip


def test_the_numbers_of_a_sentence_are_found_with_their_places():
    for sentence, expected in SENTENCES.items():
        found = find_numbers(sentence)
        assert " ".join(str(number.value) for number in found) == expected, sentence
        assert all((parse_number(sentence[one.start : one.end]) or [None])[0] == one.value for one in found), sentence


def test_finding_takes_time_in_proportion_to_the_length():
    for piece in (
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
    ):
        short, long = (partial(find_numbers, piece * (length // len(piece))) for length in (4_000, 40_000))
        assert min(cpu_times(long)) < 30 * max(*cpu_times(short), 0.002), piece
