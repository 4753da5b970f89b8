"""Laws of the answer types: what is shown is read back, dress says nothing, other values are other answers, and reading is linear."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from snellen.scoring.answers import AnswerContext, GoldError, answer_type, units
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.moment import MONTHS
from snellen.scoring.replies.sentences import Sentence
from stopwatch import cpu_times

DRESS = ("{}", "**{}**", '"{}"', "`{}`", "{}.", " {}\n", "<answer>{}</answer>", "“{}”", "\\boxed{{{}}}")
UNITS = sorted(set(units._names()[0].values()))
whole = st.integers(-(10**9), 10**9)
decimals = st.decimals(-(10**6), 10**6, places=2, allow_nan=False, allow_infinity=False)
amounts = st.builds("{} {}".format, whole | decimals, st.sampled_from(UNITS))
dates = st.dates(dt.date(1000, 1, 1), dt.date(2999, 12, 31))
words = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)
items = st.lists(words, min_size=1, max_size=6).map(lambda texts: json.dumps(texts, ensure_ascii=False))
coordinates = st.integers(0, 1000)
boxes = st.builds(
    lambda x, y, width, height: f"[{x}, {y}, {x + width}, {y + height}]",
    coordinates,
    coordinates,
    st.integers(1, 500),
    st.integers(1, 500),
)
leaves = st.none() | st.booleans() | whole | decimals.map(str) | words
objects = st.dictionaries(words, leaves | st.lists(leaves, max_size=3), min_size=1, max_size=4).map(
    lambda value: json.dumps(value)
)
WRITTEN: dict[str, st.SearchStrategy[str]] = {
    "quantity": amounts | st.builds("{}:{}".format, st.integers(0, 99), st.integers(0, 99)),
    "date": dates.map(str),
    "time": st.times().map(lambda value: value.strftime("%H:%M:%S")) | st.builds("{}:{:02d} {}".format, st.integers(1, 12), st.integers(0, 59), st.sampled_from(["am", "pm"])),
    "list": items,
    "box": boxes,
    "point": st.builds("({}, {})".format, coordinates, coordinates),
    "json": objects,
    "formula": st.builds(r"\frac{{{}}}{{{}}} {} x^{{{}}}".format, st.integers(0, 99), st.integers(1, 99), st.sampled_from(["+", "-", "<", r"\leq"]), st.integers(2, 99)),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_gold_value_is_read_back_as_shown_and_in_any_dress(kind):
    @settings(max_examples=40)
    @given(cell=WRITTEN[kind], dress=st.sampled_from(DRESS))
    def law(cell, dress):
        answers = answer_type(kind)
        gold = answers.parse_gold(cell)
        assume(not (dress.startswith('"') and '"' in cell))
        for reply in (cell, answers.show(gold), dress.format(cell)):
            value = answers.parse(undressed(reply))
            assert value is not None and answers.same(value, gold), reply

    law()


@pytest.mark.parametrize("kind", ["quantity", "date", "time", "list", "json"])
def test_the_reply_of_another_value_is_wrong(kind):
    @settings(max_examples=60)
    @given(cell=WRITTEN[kind], other=WRITTEN[kind])
    def law(cell, other):
        answers = answer_type(kind)
        gold, value = answers.parse_gold(cell), answers.parse(other)
        assert answers.same(value, gold) <= _alike(kind, value, gold)

    law()


def _alike(kind: str, value: Any, gold: Any) -> bool:
    """Whether two values may be the same, told without the type's own rules."""
    if kind == "quantity":
        if not hasattr(value, "number") or not hasattr(gold, "number"):
            return bool(value == gold)
        number = (
            value.number
            if units.may_be_same(value.unit, gold.unit)
            else units.convert(value.number, value.unit, gold.unit)
        )
        nearest = max(Fraction(abs(gold.number)) / 100, Fraction(1, 200))
        return number is not None and (
            units.MINOR & {value.unit, gold.unit} != set() or abs(Fraction(number) - Fraction(gold.number)) <= nearest
        )
    if kind == "time":
        return (value.hour % 12, value.minute) == (gold.hour % 12, gold.minute)
    if kind == "list":
        return sorted(text.casefold() for text in value.items) == sorted(
            text.casefold() for text in gold.items
        ) or not all(map(str.isascii, gold.items))
    return (
        bool(value == gold)
        if kind == "date"
        else {key.casefold() for key in gold} <= {key.casefold() for key in value} or not all(map(str.isascii, gold))
    )


@settings(max_examples=60)
@given(
    number=st.integers(1, 10**6),
    unit=st.sampled_from(["kg", "$", "°C", "%", "km/h", "€", "mi"]),
    wrong=st.sampled_from(["-{n}{u}", "{m}{u}", "{n}0{u}", "{n}"]),
)
def test_a_quantity_that_differs_by_a_sign_a_digit_or_its_unit_is_wrong(number, unit, wrong):
    answers = answer_type("quantity")
    reply = answers.parse(wrong.format(n=number, m=number + 1, u=f" {unit}"))
    assert reply is not None and not answers.same(reply, answers.parse_gold(f"{number} {unit}"))


SAME = {
    "quantity": [
        ("5000 g", "5 kg"), ("11.02 lb", "5 kg"), ("86 °F", "30 °C"), ("$10.5", "$10.50"), ("10.50 US dollars", "$10.50"), ("10,50 €", "€10.50"),
        ("177.8 cm", "5 ft 10 in"), ("5'10\"", "5 ft 10 in"), ("45 percent", "45%"), ("百分之四十五", "45 %"), ("1 h 30 min", "90 min"), ("¥500", "500 JPY"),
        ("50 cents", "$0.50"), (r"30^\circ\mathrm{C}", "30 °C"), ("3.28 kg", "3.27 kg"), ("five kilograms", "5 kg"), ("5 pounds", "£5"),
    ],
    "date": [
        ("March 1st, 2024", "2024-03-01"), ("1. März 2024", "01.03.2024"), ("2024年3月1日", "1 March 2024"), ("Friday, 1 March 2024", "March 2024"),
        ("01/02/2024", "2024-02-01"), ("01/02/2024", "2024-01-02"), ("1 de marzo de 2024", "2024-03-01 00:00:00"), ("1 марта 2024", "2024-03-01"),
        ("令和六年三月一日", "2024-03-01"), ("民國113年3月1日", "2024-03-01"),
    ],
    "time": [("1:05 pm", "13:05"), ("1:05 pm", "1:05"), ("10.05 Uhr", "10:05:00"), ("half past ten", "10:30"), ("17h30", "5:30 pm"), ("10点5分", "10:05"), ("10:05 in the evening", "22:05"), ("half past ten at night", "22:30"), ("3:15 in the morning", "3:15 am"), ("晚上12点", "00:00"), ("00:30 in the morning", "00:30")],
    "list": [("Blue and red", "red, blue"), ("- red\n- blue", '["red", "blue"]'), ("a → b", "a > b")],
    "box": [("<box>(16,16),(48,48)</box>", "[16, 16, 48, 48]"), ('{"bbox_2d": [15, 16, 48, 49]}', "[16, 16, 48, 48]"), ("x1=16, y1=16, x2=48, y2=48", "16 16 48 48")],
    "point": [("(5, 6)", "[1, 2, 5, 8]"), ('{"point_2d": [500, 501]}', "[500, 500]"), ("[5, 6]", "[5, 5, 2]")],
    "json": [('```json\n{"b": "Red.", "a": 1, "c": 0}\n```', '{"a": 1, "b": "red"}'), ('{"a": "5", "b": 3.27}', '{"a": 5, "b": 3.28}')],
    "formula": [(r"\dfrac{1}{2}", r"\frac12"), ("x²", "x^{2}"), (r"\left(a \le b\right)", "(a ≤ b)")],
}  # fmt: skip
DIFFERENT = {
    "quantity": [
        ("$105.0", "$10.50"), ("€10.50", "$10.50"), ("5010 g", "5 kg"), ("12 lb", "5 kg"), ("5", "5 kg"), ("0.45", "45%"), ("-5 °C", "5 °C"), ("2:1", "1:2"),
        ("3605 s", "1 h"), ("5 m", "5 kg"), ("30 °", "30 °C"), ("10:5", "1:05"), ("C$5", "$5"), ("5 MW", "5 mW"),
    ],
    "date": [("March 2024", "2024-03-01"), ("1 March", "2024-03-01"), ("01/02/2024", "2024-01-03"), ("2024-03-01", "2023-03")],
    "time": [("13:05", "1:05"), ("22:05", "10:05"), ("1:05", "13:05"), ("10:05", "10:05:30")],
    "list": [("red", "red, blue"), ("red, red, blue", "red, blue"), ("b → a", "a → b")],
    "box": [("[16, 16, 48, 48]", "[100, 100, 140, 140]"), ("[0.1, 0.1, 0.4, 0.4]", "[100, 100, 400, 400]")],
    "point": [("[0, 6]", "[1, 2, 5, 8]"), ("[520, 500]", "[500, 500]")],
    "json": [('{"a": 1}', '{"a": 1, "b": 2}'), ('{"a": true}', '{"a": 1}'), ('{"a": [1, 2]}', '{"a": [2, 1]}'), ('{"a": "null"}', '{"a": null}')],
    "formula": [("x > y", "x < y"), ("x + 1", "x - 1"), ("(0, 1)", "[0, 1]")],
}  # fmt: skip


@pytest.mark.parametrize(("pairs", "expected"), [(SAME, True), (DIFFERENT, False)])
def test_ordinary_ways_to_write_a_value_and_ordinary_other_values(pairs, expected):
    for kind, cases in pairs.items():
        answers = answer_type(kind)
        for reply, cell in cases:
            value = answers.parse(undressed(reply))
            assert value is not None and answers.same(value, answers.parse_gold(cell)) is expected, (kind, reply, cell)


NO_VALUE = {
    "quantity": "5-10 kg|5 to 10 kg|<5 kg|≥ 30 °C|~5 kg|5 ± 1 kg|2 x 500 g|10 × 15 cm|1.2.3|3-2|AB-123|+49 30 123456|2024-05-06|120/80 mmHg|5 €/kg|$5 each|A4|7th|5 in the box|kg|5?",
    "date": "12|1984|2024|3.5|May|1.2.3|10:05|555-1234|192.168.0.1|30 February 2024|2011/12|2010-2012|3/4|AB-12-2023|1 or 2 March 2024|March 24-26, 2024|Q3 2024|44 BC|20240301",
    "time": "10:5|25:00|12:60|1:2|16:9|10.05|10|3-2|10:05-11:00|10:05 or 10:06|24:00|75:30|13 pm|3時間|10:05:99",
    "list": "|[]|[[1], [2]]",
    "box": "48|[48]|[48, 48, 16, 16]|[1, 1, 1, 2]|[1, 2, 3]|1, 2, 3, 4, 5|192.168.0.1|[NaN, 1, 2, 3]|[[1,2,3,4],[5,6,7,8]]|+1 555 123 4567|(030) 123456|1 2 3 4 kg",
    "point": "5|[1, 2, 3]|3.5|10:05|[1, 2, 3, 4]|(030) 123456",
    "json": '[1]|{}|{"a": NaN}|{"a": 1} and more|{"a": 1e999999999}|red|{',
    "formula": "I do not know|the area is x|",
}  # fmt: skip


@pytest.mark.parametrize("kind", NO_VALUE)
def test_a_text_that_is_not_exactly_one_value_is_none(kind):
    answers = answer_type(kind)
    assert {text: value for text in NO_VALUE[kind].split("|") if (value := answers.parse(text)) is not None} == {}


@pytest.mark.parametrize("kind", WRITTEN)
def test_any_text_and_any_cell_is_a_value_or_a_refusal(kind):
    @settings(max_examples=60)
    @given(
        text=st.text(max_size=60) | st.text("0123456789.,:/-+ $€%'\"[](){}amphkg一三年月日点", max_size=30),
        decimal=st.sampled_from(".,"),
    )
    def law(text, decimal):
        answers = answer_type(kind, AnswerContext(question=text, decimal=decimal))
        try:
            gold = answers.parse_gold(text)
        except GoldError:
            return
        shown = answers.show(gold)
        value = answers.parse_gold(shown)
        assert kind == "point" or answers.same(value, gold), (shown, value, gold)
        for found in answers.find(Sentence(text, 0, len(text))):
            value = answers.parse(text[found.start : found.end])
            assert value is not None and (value == found.value or kind == "point"), text[found.start : found.end]

    law()


ASKED = [
    ("5", "5 kg", "How many kilograms?", "", True), ("5", "5 kg", "Weight in kg?", "", True), ("5", "5 kg", "What is it?", "kg", True), ("5000", "5 kg", "", "g", True),
    ("5", "5 m", "How long is it (m)?", "", True), ("5", "5 in", "What is in the box?", "", False), ("10.5", "$10.50", "How many dollars?", "", True),
    ("45", "45%", "What percentage?", "", True), ("30 degrees", "30 °C", "Temperature in °C?", "", True), ("5 apples", "5", "", "apples", True),
    ("5 lb", "5", "", "kg", False),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "cell", "question", "unit", "expected"), ASKED)
def test_a_number_without_a_unit_is_in_the_unit_that_the_question_asks_for(reply, cell, question, unit, expected):
    answers = answer_type("quantity", AnswerContext(question=question, unit=unit))
    assert answers.same(answers.parse(reply), answers.parse_gold(cell)) is expected


def test_cells_of_spreadsheets_are_read():
    assert answer_type("date").show(answer_type("date").parse_gold(dt.datetime(2024, 3, 1))) == "2024-03-01"
    assert answer_type("time").show(answer_type("time").parse_gold(dt.time(10, 5))) == "10:05"
    assert answer_type("list").parse_gold(["red", 3]).items == ("red", "3")
    assert answer_type("box").parse_gold((1, 2, 3, 4)) == (1, 2, 3, 4)
    assert answer_type("json").parse_gold({"a": Decimal("1.5")})


def test_a_gold_date_whose_day_is_open_is_refused_unless_the_column_tells():
    with pytest.raises(GoldError, match="may be 2024-02-01 or 2024-01-02"):
        answer_type("date").parse_gold("01/02/2024")
    for day_first, shown in ((True, "2024-02-01"), (False, "2024-01-02")):
        answers = answer_type("date", AnswerContext(day_first=day_first))
        assert answers.show(answers.parse_gold("01/02/2024")) == shown


def test_the_order_of_a_list_counts_where_the_question_asks_for_one():
    for question, expected in (
        ("Which colours?", True),
        ("Colours from left to right?", False),
        ("Sorted by size, in any order", True),
    ):
        answers = answer_type("list", AnswerContext(question=question))
        assert answers.same(answers.parse("b, a"), answers.parse_gold("a, b")) is expected


@pytest.mark.parametrize(
    ("question", "is_ordered"),
    [
        ("Quelles couleurs de gauche à droite ?", True),
        ("Lis les lignes de haut en bas.", True),
        ("Diga as cores da esquerda para a direita.", True),
        ("Укажи цвета слева направо.", True),
        ("क्रम में रंग बताएं", True),
        ("Name the colours in order.", True),
        ("In order to open the box, which colours are pressed?", False),
        ("What sort of colours are these?", False),
        ("Quels objets sont en haut à droite ?", False),
        ("Welche Dinge sind oben links?", False),
        ("Was ist links und rechts zu sehen?", False),
        ("Что находится слева?", False),
        ("¿Qué hay en el ordenador?", False),
        ("कार्यक्रम में क्या है?", False),
    ],
)
def test_a_place_or_a_purpose_is_no_order(question, is_ordered):
    answers = answer_type("list", AnswerContext(question=question))
    assert answers.same(answers.parse("b, a"), answers.parse_gold("a, b")) is not is_ordered


@pytest.mark.parametrize("gold", ["无解", "v = 5 км/ч", "U_{вых} = 5", r"x=1 \text{ или } x=2"])
def test_a_formula_may_hold_letters_of_any_script(gold):
    answers = answer_type("formula")
    assert answers.same(answers.parse(gold), answers.parse_gold(gold))


@pytest.mark.parametrize("text", ["Площадь равна 5", "面积是 5", "المساحة تساوي 5"])
def test_a_sentence_is_no_formula(text):
    assert answer_type("formula").parse(text) is None


def test_a_month_in_every_language_makes_a_date_only_with_a_day_or_year():
    answers = answer_type("date")
    for month, number in MONTHS.items():
        assert answers.parse(month) is None
        assert answers.show(answers.parse(f"1 {month} 2024")) == f"2024-{number:02d}-01"


@pytest.mark.parametrize("text", ["昭和99年1月1日", "昭和65年1月1日", "平成32年1月1日", "令和0年1月1日"])
def test_a_year_that_its_era_never_had_is_no_date(text):
    assert answer_type("date").parse(text) is None


FOUND = [
    ("quantity", "He is 5 ft 10 in tall.", ["70 in"]), ("quantity", "It costs $10.50 (10 €).", ["10.50 USD"]), ("quantity", "about 5-10 kg", []),
    ("quantity", "There are 5 in a row", []), ("quantity", "It is 3 kg or 4 kg.", ["3 kg", "4 kg"]), ("date", "born 1 May 1990, died 2024-03-01", ["1990-05-01", "2024-03-01"]), ("date", "they march 5 miles", []),
    ("time", "from 9am to 5:30 pm", ["9:00 am", "5:30 pm"]), ("box", "It is at [1, 2, 3, 4].", ["[1, 2, 3, 4]"]), ("json", 'So {"a": 1} and {b}', ['{"a": 1}']),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "sentence", "shown"), FOUND)
def test_every_value_that_a_sentence_may_answer_with_is_found(kind, sentence, shown):
    answers = answer_type(kind)
    assert [answers.show(found.value) for found in answers.find(Sentence(sentence, 0, len(sentence)))] == shown


PIECES = ["1", "1,", "1.", "1:", "1/", "-1", "1 ", "1 kg ", "$1", "5 ft ", "may ", "1 may ", "2024-", "half past ", "三", "1月", "[", "[1,", "(1,", '{"a":', "{", '"', "x1=1 ", "a, ", "- a\n", " and ", "minus ", "one ", "a ", "\\frac{"]  # fmt: skip


@pytest.mark.parametrize("kind", WRITTEN)
def test_reading_takes_time_in_proportion_to_the_length(kind):
    answers = answer_type(kind)
    for piece in PIECES:
        short, long = (piece * (length // len(piece)) for length in (2_000, 16_000))
        for read in (answers.parse, lambda text: answers.find(Sentence(text, 0, len(text)))):
            short_s = max(*cpu_times(partial(read, short)), 0.004)
            assert min(cpu_times(partial(read, long))) < 24 * short_s, (kind, piece)
