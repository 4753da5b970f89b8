"""Replies that list: items on lines and in tables, ticked options, all but some; and what stands beside an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.benchmarks.table.gold_kinds import ColumnFacts, form_of, kind_of
from snellen.scoring.answers import AnswerContext
from snellen.scoring.extract import correct, read, read_as, type_for
from stopwatch import cpu_times

QUESTION = "List the things on the shelf."
BIRDS = dict(zip("ABCD", ("robin", "wren", "crow", "owl"), strict=True))
NAMES = st.lists(
    st.text("bdfgklmprt", min_size=3, max_size=8), min_size=2, max_size=6, unique_by=lambda name: name.rstrip("s")
)
LEADS = ("", "The things on the shelf are:\n\n", "Here is the list:\n")
ENDS = ("", "\n\nLet me know if you need more!", "\n\nThese are all of them.")


def lines(names: list[str], mark: str) -> str:
    return "\n".join(f"{mark.format(at)}{name}" for at, name in enumerate(names, 1))


def table(names: list[str], *, numbered: bool) -> str:
    head = "| # | Thing |\n|---|---|\n" if numbered else "| Thing |\n|---|\n"
    return head + "\n".join(f"| {at} | {name} |" if numbered else f"| {name} |" for at, name in enumerate(names, 1))


@given(
    NAMES, st.sampled_from(LEADS), st.sampled_from(ENDS), st.sampled_from(["- ", "* ", "{}. ", "- **", "table", "#"])
)
def test_the_items_of_a_list_or_table_are_the_answer(names, lead, end, form):
    block = {"table": lambda: table(names, numbered=False), "#": lambda: table(names, numbered=True)}.get(form)
    bold = [f"{name}**: seen at the left" for name in names] if form == "- **" else names
    reading = read("list", lead + (block() if block else lines(bold, form)) + end, question=QUESTION)
    assert reading.value is not None and list(reading.value.items) == names


@given(NAMES, st.sampled_from(["Answer: ", "**Answer:** ", "Items: "]), st.sampled_from(["- ", "• ", "{}. "]))
def test_a_list_behind_a_label_is_the_answer_with_its_first_item(names, label, mark):
    assert list(read("list", label + lines(names, mark), question=QUESTION).value.items) == names
    assert read("list", f"Not on it: {lines(names, mark)}", question=QUESTION).value is None


@given(NAMES, st.sampled_from(["Thing {}: ", "Item {}: ", "- No. {} – ", "{}th: "]))
def test_labels_that_differ_by_a_number_alone_are_no_items(names, label):
    said = "\n".join(f"{label.format(at)}{name}" for at, name in enumerate(names, 4))
    assert list(read("list", said, question=QUESTION).value.items) == names


CJK_ITEMS = st.lists(
    st.sampled_from(["猫", "犬", "りんご", "バナナ", "本棚", "平和", "鳥"]), min_size=2, max_size=4, unique=True
)


@given(CJK_ITEMS, st.sampled_from(["と", "、"]), st.sampled_from(["{}", "{}です。", "Answer: {}", "答えは{}です"]))
def test_items_that_japanese_words_join_are_apart(items, joint, form):
    """A joint within a word (平和, おとうと) parts nothing."""
    said = form.format(joint.join(items))
    assert list(read("list", said, question="何がありますか？").value.items) == items
    assert list(read("list", form.format("平和、おとうと"), question="何？").value.items) == ["平和", "おとうと"]


@given(NAMES, st.sampled_from(["{} or {}", "{}, not {}", "{}, {} or none"]))
def test_a_list_with_an_or_or_a_not_is_no_answer(names, form):
    for said in (form, f"Answer: {form}"):
        assert read("list", said.format(*names[:2]), question=QUESTION).value is None


@given(NAMES)
def test_a_list_that_breaks_off_or_is_denied_is_no_answer(names):
    listed = lines(names, "{}. ")
    assert read("list", f"{listed}\n{len(names) + 1}.", question=QUESTION).value is None
    assert read("list", f"These are not on the shelf:\n{listed}", question=QUESTION).value is None
    assert read("list", f"The shelf holds {names[0]}, {names[1]} and more.", question=QUESTION).value is None


@given(NAMES)
def test_items_agree_without_plurals_and_in_any_order(names):
    said = ", ".join(f"{name}s" for name in reversed(names))
    context = AnswerContext(question=QUESTION)
    assert correct("list", read("list", said, question=QUESTION), ", ".join(names), (), context)


TICKED = (
    lambda letter, text, chosen: f"- {letter}. {text} {'✅' if chosen else '❌'}",
    lambda letter, text, chosen: f"| {letter} | {text} | {'✓' if chosen else '✗'} |",
    lambda letter, text, chosen: f"- **{letter}. {text}**: {'Yes, it is there.' if chosen else 'No.'}",
    lambda letter, text, chosen: f"{letter}: {'true' if chosen else 'false'}",
    lambda letter, text, chosen: f"{'✅' if chosen else '❌'} {letter} ({text})",
)


@given(st.sets(st.sampled_from("ABCD"), min_size=1, max_size=3), st.sampled_from(TICKED), st.sampled_from(ENDS[:2]))
def test_ticked_options_are_the_answer(chosen, row, end):
    rows = [row(letter, text, letter in chosen) for letter, text in BIRDS.items()]
    head = "| Option | Bird | There? |\n|---|---|---|\n" if rows[0].startswith("|") else ""
    said = head + "\n".join(rows) + end
    assert read("multi-choice", said, options=BIRDS).value == tuple(sorted(chosen))
    if len(chosen) == 1:
        assert read("choice", said, options=BIRDS).value == min(chosen)


@given(st.lists(st.sampled_from("ABCD"), min_size=2, max_size=3, unique=True).map(sorted))
def test_options_in_a_row_are_the_answer_in_every_form(chosen):
    named = [f"{letter} ({BIRDS[letter]})" for letter in chosen]
    for said in (
        f"The birds are {' and '.join(named)}.",
        f"Les réponses vraies sont {' et '.join(chosen)}.",
        lines(named, "- "),
        "The right ones are:\n\n" + lines(named, "{}. "),
    ):
        assert read("multi-choice", said, options=BIRDS, question="Quelles réponses sont vraies ?").value == tuple(
            chosen
        )


@pytest.mark.parametrize(
    "form",
    ["All except {}.", "Everything but {}", "Alle außer {}", "Toutes sauf {}.", "Todas excepto {}", "Все, кроме {}"],
)
@given(letters=st.sets(st.sampled_from("ABCD"), min_size=1, max_size=3))
def test_all_but_some_are_the_others(form, letters):
    said = form.format(", ".join(sorted(letters)))
    assert read("multi-choice", said, options=BIRDS).value == tuple(sorted(set("ABCD") - letters))
    assert read("choice", said, options=BIRDS).value is None


def test_an_option_that_a_sentence_goes_on_from_is_no_answer():
    planets = dict(zip("ABC", ("Mercury", "Venus", "Earth"), strict=True))
    for said in ("Option B, Venus, is the second; the third is Earth.", "B, Venus, comes before Earth"):
        assert read("choice", said, options=planets).value is None
    assert read("choice", "B. Venus: it comes second", options=planets).value == "B"
    assert read("choice", "The last one but one", options=planets).value is None


@given(
    st.integers(1, 60),
    st.sampled_from(["{} degrees below zero", "Es sind {} Grad unter Null.", "氷点下{}度です", "{} °C bajo cero"]),
)
def test_a_temperature_below_zero_in_words_is_negative(degrees, form):
    value = read("quantity", form.format(degrees), unit="°C").value
    assert value is not None and value.number == -degrees


@given(st.integers(1, 99))
def test_a_share_in_per_cent_is_the_fraction_too_where_no_per_cent_are_asked_for(share):
    for question, expected in (("Which share is shaded?", True), ("What percentage is shaded?", False)):
        kind = type_for("number", AnswerContext(question=question))
        for said in (f"{share}%", f"So it is {share} %."):
            assert correct("number", read_as(kind, said), share / 100, (), kind.context) is expected
            assert correct("number", read_as(kind, said), share, (), kind.context)


@given(st.integers(5, 9), st.integers(1, 4))
def test_the_part_that_the_question_asks_for_is_read(whole, part):
    for said in (f"There are {whole} cars: {part} of them are red.", f"I see {whole} cars, of which {part} are red."):
        assert read("count", said, question="How many cars are red?").value == part
        assert read("count", said, question="How many cars are there?").value in (whole, None)


def test_another_clause_restates_no_claim_and_another_month_leaves_a_date_open():
    asked = "Is the traffic light green?"
    assert read("truth", "The traffic light is red; the green one is for pedestrians.", question=asked).value is None
    assert (
        read("truth", "The traffic light is red; the green one belongs to the crossing.", question=asked).value is None
    )
    assert read("truth", "The traffic light is green.", question=asked).value is True
    assert read("date", "It opened in March 2020 and closed in June.", question="When did it close?").value is None
    assert read("number", "The coin dates from 1998.", question="Which year is on the coin?").value == 1998
    assert {read("count", said).value for said in ("5+", "3 mehr als 5+")} == {None}
    assert read("number", "3/0").value is None


@pytest.mark.parametrize(
    ("said", "value"),
    [("The light is red, not green.", True), ("The light isn't green, it's red.", True), ("The light is green, not red.", False),
     ("The light is red and the car is not blue.", True), ("The light isn't red; it is green.", False), ("It is red.", True),
     ("The light was red, but now it is green.", None), ("The light is green, the car is red.", None)],
)  # fmt: skip
def test_what_is_said_of_something_else_turns_no_claim(said, value):
    assert read("truth", said, question="Is the light red?").value is value


@pytest.mark.parametrize(
    "lead",
    ["Answer:", "The answer is:", "Sure! Here is the answer:", "### Final answer\n", "The shelf has three things:"],
)
def test_a_marker_before_a_list_takes_all_of_it(lead):
    said = f"{lead}\n- vase\n- book\n- clock"
    loose = read("list", f"{lead}\n1. vase\n\n2. book\n\n3. clock", question="What things does the shelf have?").value
    assert loose is not None and loose.items == ("vase", "book", "clock")
    value = read("list", said, question="What things does the shelf have?").value
    assert value is not None and value.items == ("vase", "book", "clock")
    said = f"{lead}\n- A. robin\n- C. crow"
    assert read("multi-choice", said, options=BIRDS, question="What things does the shelf have?").value == ("A", "C")


@pytest.mark.parametrize(
    "said",
    ["All things except:\n- vase\n- book", "Things that were removed:\n- vase\n- book", "Steps:\n1. Look at it\n2. Count them",
     "- vase\n- book\n\nOnly the vase is on the shelf.", "- vase\n- maybe a book", "- vase ✅\n- book",
     "| Thing | Missing |\n|---|---|\n| vase | yes |\n| book | no |", "vase: yes\nbook: unclear"],
)  # fmt: skip
def test_a_list_of_something_else_is_no_answer(said):
    assert read("list", said, question="What things does the shelf have?").value is None


@pytest.mark.parametrize(
    ("kind", "reply"),
    [("multi-choice", "| red |{}|"), ("multi-choice", "A{}x"), ("list", "a{}:"), ("list", "| Hue |\n|---|\n| red |\n| {}|\n"),
     ("list", "- a\n{}- b\n")],
)  # fmt: skip
@pytest.mark.parametrize("blank", [" ", "\t", "\u3000", "- x\n"])
def test_lists_are_read_in_linear_time(kind, reply, blank):
    options = BIRDS if kind == "multi-choice" else None

    def seconds(times: int) -> float:
        said = reply.format(blank * times)
        return min(cpu_times(lambda: read(kind, said, options=options, question=str(times)), times=2))

    assert seconds(10_000) < 8 * seconds(2_500) + 0.2


def test_calculations_behind_a_first_sentence_are_not_overlooked():
    asked = "How many bikes have no lock?"
    assert read("count", "There are 9 bikes, 4 have a lock. 9 - 4 = 5.", question=asked).value in (5, None)


@pytest.mark.parametrize(
    ("cell", "form"),
    [("red; blue", "list"), ("apple, pear, fig", "list"), ("犬、猫", "list"), ("Paris, France", "text"), ("x; y;", "text"),
     ("1,234,567", "whole"), ("Monday, May 5, 2021", "date"), ("हाँ", "truth"), ("2,5 м", "quantity")],
)  # fmt: skip
def test_a_cell_of_several_items_is_a_list(cell, form):
    assert form_of(cell) == form


def test_a_number_of_things_is_a_count_in_a_column_of_other_numbers():
    mixed = ColumnFacts(whole=False)
    assert kind_of(3, mixed, "How many birds are there?") == kind_of("none", mixed, "Wie viele Vögel?") == "count"
    assert kind_of(3, mixed, "What is x?") == "number" and kind_of("none", mixed, "What is on top?") == "text"


@given(
    st.integers(1, 99),
    st.integers(1, 99),
    st.sampled_from(["{} dollars and {} cents", "It costs ${} and {} cents.", "{} euros et {} centimes"]),
)
def test_cents_belong_to_the_amount_before_them(whole, cents, form):
    value = read("quantity", form.format(whole, cents)).value
    assert value is not None and (value.number * 100, value.unit) == (
        100 * whole + cents,
        "EUR" if "euros" in form else "USD",
    )


def test_a_part_of_an_amount_whose_rest_cannot_be_read_is_no_answer():
    assert read("quantity", "Dos kilos y cuatrocientos gramos").value is None
    assert read("quantity", "4 dollars and 150 cents").value is None


@given(st.integers(0, 23), st.integers(10, 59))
def test_a_time_with_a_full_stop_is_read_behind_its_word_alone(hour, minute):
    said = f"The train leaves from platform 4 at {hour}.{minute}."
    found = read("time", said, question="When does it leave?").value
    assert found is not None and (found.hour, found.minute) == (hour, minute)
    assert read("time", f"The ticket costs {hour}.{minute}", question="When does it leave?").value is None
