"""What sentences of replies say: claims that are less than the question's, ranges, parts of a total, what is asked for."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snellen.benchmarks.table.gold_kinds import ColumnFacts, kind_of
from snellen.scoring.answers import AnswerContext, answer_type
from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED, WORDS
from snellen.scoring.answers.number_words import languages
from snellen.scoring.extract import is_right, read, read_as
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


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        ("Which city had most rain in 2019 according to the chart?", "Bergen had most rain in 2019.", "Bergen"),
        ("Which month has the least rain?", "August, with only 14 mm, has the least rain.", "August"),
        ("Which city had most rain?", "The city in the north had most rain.", None),
        ("Which city had most rain?", "Not Bergen but Oslo had most rain.", None),
        (
            "Which bird is it?",
            "### Bird\n\nThe bird is a **wren** (*T. troglodytes*).\n\n**Features:**\n- small",
            "wren",
        ),
        ("这道菜叫什么？", "这道菜是**宫保鸡丁**，由鸡丁和花生炒制而成。", "宫保鸡丁"),
        ("What brand is it?", "It is a **Dell**, or perhaps an HP.", None),
        ("Vad står det på skylten?", "Det står ”Utgång” på skylten.", "Utgång"),
        ("What does the label say?", "Es tut mir leid, das Etikett ist zu unscharf.", None),
        ("最大的动物是什么？", "抱歉，我无法看到图片，请重新上传。", None),
        ("Was ist größer?", "Also ist B größer als A.", None),
        ("What sport is it?", "They are playing soccer.", None),
    ],
)
def test_a_text_is_what_a_sentence_says_and_no_more_of_it(question, reply, expected):
    assert value("text", reply, question) == expected


@pytest.mark.parametrize(
    ("question", "reply", "gold", "right"),
    [
        ("제한 속도는 얼마입니까?", "시속 60km입니다.", "60 km/h", True),
        ("What does the thermometer read?", "38.6", "38.6 °C", True),
        ("What does the thermometer read?", "38.6 °F", "38.6 °C", False),
        ("Какая температура?", "12 градусов ниже нуля.", "-12 °C", True),
        ("What is the angle?", "38", "38 °C", False),
    ],
)
def test_words_beside_an_amount_name_its_unit(question, reply, gold, right):
    answer = answer_type("quantity", AnswerContext(question=question))
    reading = read_as(answer, reply)
    assert is_right(answer, reading, [gold]) is right


@given(st.integers(2, 99), st.sampled_from(["{}个", "{}人", "{}개", "{}本", "{} 명"]))
def test_a_number_with_a_word_that_counts_is_a_count(number, form):
    cell = form.format(number)
    assert kind_of(cell, ColumnFacts(), "몇 개? 几个? 何人?") == "count"
    answer = answer_type("count", AnswerContext(question="몇 개? 几个? 何人?"))
    assert answer.parse(cell) == int(answer.parse_gold(cell).value) == number


def test_roots_in_one_sign_are_formulas():
    assert [kind_of(cell, ColumnFacts()) for cell in ("√2/2", "16π", "√ done", "π Day")] == [
        "formula",
        "formula",
        "text",
        "text",
    ]
    answer = answer_type("formula", AnswerContext())
    assert answer.same(answer.parse("√2"), answer.parse_gold(r"\sqrt{2}"))


def test_emoji_and_a_lead_are_no_part_of_an_item():
    question = "Which vegetables are in the basket?"
    listed = value("list", "The basket contains:\n* leeks 🥬\n* potatoes 🥔", question)
    assert listed.items == ("leeks", "potatoes")
    assert value("list", "从左到右依次是：红色、黄色。", "从左到右依次是什么？").items == ("红色", "黄色")


@given(st.lists(st.integers(2, 9), min_size=2, max_size=4))
def test_a_number_that_is_the_sum_of_its_parts_is_the_total(parts):
    listed = ", ".join(
        f"{part} {breed}" for part, breed in zip(parts, ("pugs", "poodles", "beagles", "boxers"), strict=False)
    )
    reply = f"There are {sum(parts)} dogs: {listed}."
    assert value("count", reply, "How many dogs are there?") == sum(parts)
    assert value("count", reply, "How many poodles are there?") in (parts[1], None)


@pytest.mark.parametrize(
    ("cell", "question", "kind"),
    [
        ("Transport, Housing, Food", "Name the three largest segments.", "list"),
        ("jaguar, tucán", "¿Qué animales aparecen en el mural?", "list"),
        ("goat, sheep", "Which animals are in the enclosure?", "list"),
        ("Baker Street, London", "What is the address?", "text"),
        ("Paris, France", "Which city is it?", "text"),
        ("Hello, world", "What words are on the sign?", "text"),
    ],
)
def test_items_between_commas_are_a_list_where_several_things_are_asked_for(cell, question, kind):
    assert kind_of(cell, ColumnFacts(), question) == kind


@pytest.mark.parametrize(
    ("kind", "question", "reply", "expected"),
    [
        ("truth", "La bottiglia è piena?", "Non è possibile stabilirlo, poiché la bottiglia è opaca.", None),
        ("truth", "La bottiglia è piena?", "Non è piena.", False),
        ("truth", "Are there any people?", "There are no people; a few seagulls are all that is there.", False),
        ("text", "사진 속 꽃의 이름은?", "사진 속의 꽃은 무궁화로 보입니다.", None),
        ("text", "Cosa c'è scritto?", 'Sul cartello c\'è scritto "VIETATO L’ACCESSO".', "VIETATO L’ACCESSO"),
    ],
)
def test_what_cannot_be_told_is_no_answer_and_a_quotation_ends_with_its_own_mark(kind, question, reply, expected):
    assert value(kind, reply, question) == expected


def test_letters_behind_a_marker_of_chinese_are_all_read():
    options = {"A": "苹果", "B": "香蕉", "C": "葡萄", "D": "橙子"}
    assert read("multi-choice", "正确选项是A、B、D。", options=options).value == ("A", "B", "D")
    reply = "It conveys fear; the answer could be B or D."
    assert read("choice", reply, options={"A": "Joy", "B": "Grief", "C": "Anger", "D": "Fear"}).value is None


CLOCKS = [(language, form, added) for language, forms in WORDS["clock"].items() for form, added in forms.items()]


@pytest.mark.parametrize(("language", "form", "added"), CLOCKS)
@given(hour=st.integers(1, 12), minutes=st.sampled_from([5, 10, 20]), frame=st.sampled_from(["{}", "{}.", "→ {}"]))
def test_times_in_words_are_read_in_each_language(language, form, added, hour, minutes, frame):
    own = languages()[language]
    listed = ENGLISH_BELOW_HUNDRED if language == "en" else own.values
    cardinals = {number: word for word, number in listed.items() if number > 0}
    hours = {number: word for word, number in own.ordinals.items()} if language in ("ru", "pl") else cardinals
    assume(hour in hours and minutes in cardinals)  # eleven is two words in Turkish
    said = " ".join({"h": hours[hour], "m": cardinals[minutes]}.get(word, word) for word in form.split())
    sign = {"+m": minutes, "-m": -minutes}.get(added[-2:], 0)
    of_day = (60 * hour + int(added.removesuffix("+m").removesuffix("-m") or 0) + sign) % 720
    read_as_clock = value("time", frame.format(said), "What time is it?")
    assert read_as_clock is not None, said
    assert ((60 * read_as_clock.hour + read_as_clock.minute) % 720, read_as_clock.half) == (of_day, "")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Beginn ist um halb acht abends.", (7, 30, "pm")),
        ("Sono le quattro meno un quarto del pomeriggio.", (3, 45, "pm")),
        ("Il est midi et demi.", (12, 30, "pm")),
        ("现在是四点一刻。", (4, 15, "")),
        ("It is open from ten to five.", None),
        ("It is twenty-five to six.", (5, 35, "")),
        ("It is quarter to eight.", (7, 45, "")),
        ("Sunset is at a quarter to eight in the evening.", (7, 45, "pm")),
        ("It is 7:45 (quarter to eight).", (7, 45, "")),
        ("It is ten to 4 o'clock.", (3, 50, "")),
        ("It is twenty five to six.", None),
        ("Saat on bir buçuk.", None),
        ("Nicht halb acht, sondern acht Uhr.", None),
        ("Es ist halb drei oder Viertel vor drei.", None),
    ],
)
def test_words_beside_a_time_in_words_count(reply, expected):
    clock = value("time", reply, "What time is it?")
    assert (clock and (clock.hour, clock.minute, clock.half)) == expected


@pytest.mark.parametrize(
    ("kind", "question", "reply", "expected"),
    [
        ("text", "Who is wearing glasses?", "In the image, the woman is wearing glasses.", "woman"),
        ("text", "Which country has most people?", "According to the chart, China has most people.", "China"),
        ("text", "Which country has most people?", "The chart shows that China has most people.", None),
        ("text", "Who has the ball?", "Nobody has the ball.", None),
        ("text", "Which train leaves first?", "The night train leaves first.", None),
        ("text", "Who signed it?", "Maria Lind signed it.", "Maria Lind"),
        ("text", "Who won the race?", "Anna almost won the race.", None),
        ("text", "What is the title?", "It is by **Vincent van Gogh**, and its title is Starry Night.", "Starry Night"),
        ("text", "What room is it?", "It is a living room.", "living room"),
        ("text", "What does it say?", '{"answer": "NO\\nPARKING"}', "NO PARKING"),
        ("time", "When does the shop open?", "9 am to 5 pm", None),
        ("time", "What are the opening hours?", "ten to five", None),
        ("count", "How many people live there?", "Around 2000 people in 500 homes.", 2000),
        ("count", "How many cars are there?", "There are 7 cars, including 3 red ones.", 7),
        ("number", "Find AB.", "m = 2, n = 3, AB = 6", 6),
        ("number", "Find x.", "x = 2, y = 3", 2),
        ("number", "What is it?", "x = 2, y = 3", None),
        ("number", "What is the price?", "20 and 35 are not the price.", None),
        ("truth", "Is it a dog?", "It is almost certainly a dog.", True),
        ("truth", "Does the dog have spots?", "The dog has some spots.", True),
        ("truth", "Are both cats asleep?", "They are asleep.", True),
        ("truth", "¿Se ve un perro?", "No se ve un perro en la imagen.", False),
        ("truth", "¿Es un perro?", "No es un gato sino un perro.", None),
    ],
)
def test_a_rule_reaches_no_further_than_what_it_is_for(kind, question, reply, expected):
    assert value(kind, reply, question) == expected


@pytest.mark.parametrize("reply", ["B. 20 °C", "B. The fruit has vitamin C.", "B. The line passes through C"])
def test_a_letter_that_ends_an_explanation_is_no_second_answer(reply):
    assert read("choice", reply, options={"A": "red", "B": "blue", "C": "green"}).value == "B"
