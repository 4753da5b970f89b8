"""What sentences of replies say: claims that are less than the question's, ranges, parts of a total, what is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring.extract import read
from snellen.scoring.replies.sentences import phrases, single_words

NAMES = st.sampled_from(["bottle", "lamp", "door", "box", "tower"])
STATES = st.sampled_from(["full", "red", "open", "wet", "broken"])


def value(kind, reply, question):
    return read(kind, reply, question=question).value


@given(NAMES, STATES, st.sampled_from(sorted(phrases("partly"))))
def test_a_claim_that_is_less_than_the_question_restates_nothing(name, state, word):
    question = f"Is the {name} {state}?"
    assert value("truth", f"The {name} is {state}.", question) is True
    assert value("truth", f"The {name} is {word} {state}.", question) is None
    assert value("truth", f"It is only {word} {state}.", question) is None


@given(STATES, st.sampled_from(sorted(word for word in single_words("every") if word.isascii())))
def test_a_claim_of_some_answers_no_question_of_all(state, every):
    question = f"Are {every} lamps {state}?"
    assert value("truth", f"{every.capitalize()} lamps are {state}.", question) is True
    for some in ("Some", "The left", "Only the left", "Three", "These"):
        assert value("truth", f"{some} lamps are {state}.", question) is None


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        ("Is the girl waving with her right hand?", "She is waving with her left hand.", None),
        ("Is the girl waving with her right hand?", "She is waving with her right hand.", True),
        ("Is the cup on the right?", "So the cup is on the left.", None),
        ("Is it right that the car is red?", "The car is red.", True),
        ("Are there any dogs?", "There are some dogs.", True),
        ("¿Está lloviendo?", "No, no está lloviendo; el cielo está despejado.", False),
        ("¿Está lloviendo?", "No está lloviendo.", False),
        ("Is it raining?", "No it is raining.", None),
    ],
)
def test_the_words_of_a_claim_that_count(question, reply, expected):
    assert value("truth", reply, question) is expected


@given(
    st.integers(2, 90),
    st.integers(1, 9),
    st.sampled_from(
        ["to", "bis", "tot", "till", "a", "à", "até", "hasta", "до", "do", "至", "到", "から", "~", "～", "–"]
    ),
)
def test_a_range_is_no_number(low, more, joint):
    assert value("count", f"There are {low} {joint} {low + more} cows.", "How many cows are there?") is None


@pytest.mark.parametrize(
    ("kind", "question", "reply", "expected"),
    [
        ("count", "Hoeveel koeien?", "Er staan ongeveer tien tot vijftien koeien.", None),
        ("number", "In which year do the lines cross?", "The two lines cross around 2012.", 2012),
        ("number", "From which platform does the train to Ulm leave?", "To Ulm from platform 4; to Bonn from platform 6.", None),
        ("count", "How many wear a hat?", "There are eight people in total. Of them, three wear a hat and five don't.", 3),
        ("count", "Wie viele Enten schwimmen?", "Es schwimmen neun Enten, darunter zwei Erpel.", 9),
        ("count", "Berapa banyak kucing di gambar ini?", "Ada dua belas kucing.", None),
        ("count", "Berapa banyak kucing di gambar ini?", "Ada tiga kucing.", 3),
        ("number", "Bao nhiêu người?", "Có bảy người trong ảnh.", 7),
        ("number", "Bao nhiêu người?", "Có hai mươi người trong ảnh.", None),
    ],
)  # fmt: skip
def test_of_several_numbers_that_which_is_asked_for_or_none(kind, question, reply, expected):
    assert value(kind, reply, question) == expected


@pytest.mark.parametrize("sign", ["R$", "US$", "$", "A$"])
def test_a_blank_behind_a_sign_of_money_makes_no_formula_of_it(sign):
    amount = read("quantity", f"It costs {sign} 6.50.", question="What does it cost?").value
    assert amount is not None and (float(amount.number), amount.decimals) == (6.5, 2)


def test_a_share_behind_an_amount_in_per_cent_restates_it():
    amount = value(
        "quantity", "Mit Nein antworteten 37.5 Prozent, also 3 von 8.", "Wie viel Prozent antworteten mit Nein?"
    )
    assert (float(amount.number), amount.unit) == (37.5, "%")
