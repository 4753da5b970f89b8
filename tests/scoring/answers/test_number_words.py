"""Numbers in words and names of units in many languages: all of a number is read, or none of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring.answers.number_words import languages
from snellen.scoring.answers.units import unit_named
from snellen.scoring.extract import correct, read

num2words = pytest.importorskip(
    "num2words", reason="num2words is not installed: pip install 'snellen[local]'"
).num2words
WRITTEN = ("de", "fr", "es", "pt", "it", "nl", "ru", "pl", "tr", "sv")
NUMBERS = st.integers(2, 999) | st.integers(2_000, 999_999) | st.integers(2_000_000, 900_000_000)
QUESTIONS = {"fr": "Combien y en a-t-il ?", "sv": "Hur många finns det?"}  # `six` and `sex` are English too
DOUBTFUL = {word for language in languages().values() for word in language.doubtful}


def number(reply, question=""):
    return read("number", reply, question=question).value


@pytest.mark.parametrize("language", WRITTEN)
@given(value=NUMBERS)
def test_a_number_in_words_is_that_number(language, value):
    value = value % 1_000 + 2 if language == "tr" else value  # num2words takes 201,000 for 200,000 there
    text = num2words(value, lang=language).replace("dicotto", "diciotto")  # num2words drops a syllable of 118
    if text not in DOUBTFUL:
        assert number(text, QUESTIONS.get(language, "")) == value


@pytest.mark.parametrize("language", WRITTEN)
@given(first=st.integers(2, 99), second=st.integers(2, 99))
def test_of_number_words_side_by_side_no_part_is_read(language, first, second):
    both = f"{num2words(first, lang=language)} {num2words(second, lang=language)}"
    assert first == second or number(both, QUESTIONS.get(language, "")) not in (first, second)


@pytest.mark.parametrize(
    ("question", "reply", "value"),
    [
        ("Combien de pages ?", "L'étiquette est collée au dos du livre.", None),  # `dos` is two in Spanish
        ("¿Cuántas sillas hay?", "Hay once sillas en la sala.", 11),
        ("How many cups are there?", "Look at it once again.", None),
        ("What does it cost?", "It is six cents.", 6),
        ("Combien de pages ?", "Il y a six cents pages.", 600),
        ("Resimde kaç kuş var?", "The birds sit on the wire.", None),  # `on` is ten in Turkish
        ("¿Cuántos pájaros hay?", "I see them at once.", None),
        ("Quanti uccelli ci sono?", "The rent is due.", None),
        ("¿Cuántos hay?", "dos mil millones", 2_000_000_000),
        ("In welchem Jahr war das?", "zweitausendfünf", 2005),
        ("Wie viele Katzen sind im Bild?", "Ich sehe fünf Hunde und elf Katzen.", 11),
        ("Wie hoch war der Umsatz (in Mio. Euro)?", "12,5 Mio. €", 12.5),
        ("Wie hoch war der Umsatz (in Mio. Euro)?", "Der Umsatz lag bei 12,5 Millionen Euro.", 12.5),
    ],
)
def test_the_language_tells_what_a_word_means(question, reply, value):
    assert number(reply, question) == value


DAYS = {
    "en": ("the {} of March 2024", "March the {}, 2024", "March {}, 2024"),
    "de": ("am {}n März 2024", "der {} März 2024"),
    "nl": ("de {} maart 2024",),
    "ru": ("{} марта 2024",),
    "pl": ("{} marca 2024",),
}


@pytest.mark.parametrize(("language", "form"), [(language, form) for language in DAYS for form in DAYS[language]])
@given(day=st.integers(1, 31))
def test_a_day_in_words_is_that_day(language, form, day):
    reading = read("date", form.format(num2words(day, to="ordinal", lang=language)), question="When was it?")
    assert correct("date", reading, f"2024-03-{day:02d}"), reading


UNITS = {"de": "Meter", "fr": "mètres", "es": "metros", "pt": "metros", "it": "metri", "nl": "meter", "ru": "метров"}


@pytest.mark.parametrize("language", UNITS)
@given(value=NUMBERS, minus=st.booleans())
def test_an_amount_in_words_is_that_amount(language, value, minus):
    word = {"de": "minus", "fr": "moins", "es": "menos", "pt": "menos", "it": "meno", "nl": "min", "ru": "минус"}
    text = f"{num2words(value, lang=language).replace('dicotto', 'diciotto')} {UNITS[language]}"
    minus = minus and language != "nl"
    text = f"{word[language]} {text}" if minus else text
    reading = read("quantity", text, question=f"{' '.join(languages()[language].spoken)}?")
    assert reading.value is not None and (reading.value.number, reading.value.unit) == (-value if minus else value, "m")


SCALES = [(language, *table) for language in WRITTEN for table in languages()[language].values.items()]


@pytest.mark.parametrize(("language", "word", "scale"), [row for row in SCALES if row[2] >= 1_000])
def test_a_scale_multiplies_the_figures_before_it(language, word, scale):
    question = f"{' '.join(languages()[language].spoken)}?"
    assert number(f"12 {word}", question) == 12 * scale
    assert number(f"12 {word}", f"{question} ({word})") == 12, "asked for in this scale"


@pytest.mark.parametrize(("language", "word", "value"), [row for row in SCALES if row[2] < 0])
def test_of_an_amount_that_is_not_read_no_part_is(language, word, value):
    three, joint = num2words(3, lang=language), next(iter(languages()[language].joints), "")
    question = f"{' '.join(languages()[language].spoken)}?"
    for amount in (three, "3"):
        assert {number(f"{amount} {between} {word}", question) for between in ("", joint)} == {None}
    assert number(f"{three} {word}", f"{question} {word}") == 3, "what is asked for is counted"


@pytest.mark.parametrize(
    ("question", "reply", "value"),
    [
        ("Quel pourcentage ?", "Environ vingt-cinq pour cent.", 25),
        ("Quel pourcentage ?", "20 pour cent", 20),
        ("¿Qué porcentaje?", "veinte por ciento", 20),
        ("Quale percentuale?", "cinque per cento", 5),
    ],
)
def test_a_number_word_in_the_unit_of_a_number_is_none(question, reply, value):
    assert number(reply, question) == value


@pytest.mark.parametrize("reply", ["eins", "un", "uno", "uma", "één", "одна", "jeden", "bir", "واحد", "एक"])
def test_a_reply_of_one_word_for_one_is_one(reply):
    assert number(reply) == 1


@given(value=st.integers(0, 99))
def test_hindi_hundreds_take_each_number_below_a_hundred(value):
    words = {value: word for word, value in reversed(languages()["hi"].values.items()) if value >= 0}
    assert number(f"दो सौ {words[value]}" if value else "दो सौ") == 200 + value


@given(value=st.integers(1, 99), form=st.sampled_from(["{} 마리", "{} 마리입니다.", "사진에 {} 개가 있습니다."]))
def test_a_korean_number_before_a_word_that_counts_is_that_number(value, form):
    text = num2words(value, to="ordinal", lang="ko").removesuffix(" 번째").replace("첫", "한")
    assert number(form.format(text), "몇 마리입니까?") == value


@pytest.mark.parametrize("reply", ["열둘째 마리", "스물둘이 마리", "两三只", "有五六只鸟", "二、三羽", "twenty twenty"])
def test_of_a_number_that_is_not_read_no_part_is(reply):
    assert number(reply) is None


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("Ci sono due semafori a destra e uno a sinistra. In tutto sono quattro.", 4),
        ("A sinistra ci sono due cipressi. Nel quadro si vedono sei alberi.", 6),  # `si` is a condition in Spanish
    ],
)
def test_an_earlier_number_is_no_answer_where_a_later_one_is(reply, value):
    assert number(reply, "Quanti alberi e semafori si vedono?") == value


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("500ミリリットルです。", "mL"),
        ("62.4킬로그램입니다.", "kg"),
        ("1,5 вольта", "V"),
        ("La balanza marca 1,25 kilogramos.", "kg"),
        ("90 километров в час", "km/h"),
        ("25 градусов Цельсия", "°C"),
    ],
)
def test_units_are_known_by_their_names(reply, shown):
    assert read("quantity", reply).value.unit == shown


def test_roubles_in_words_are_money():
    assert read("quantity", "100 рублей").value.unit == "RUB"


@pytest.mark.parametrize("reply", ['{"answer": null}', '{"antwort": null, "note": "Kein Bild."}'])
def test_null_of_json_is_no_zero(reply):
    assert number(reply, "Wie viele Katzen sind auf dem Bild?") is None


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("The rating is 4.5/5.", 4.5),
        (r"\frac{-3}{4}", -0.75),
        (r"\frac{1+x}{2}", None),
        (r"\frac{1.5}{2}", None),
        ("10.5/2 is 5.25", 5.25),
    ],
)
def test_a_divisor_is_no_answer(reply, value):
    assert number(reply, "What is the rating?") == value


@pytest.mark.parametrize("word", ["год", "livres", "once", "mil", "pies", "tum", "libra"])
def test_a_name_that_is_another_word_is_no_unit(word):
    assert unit_named(word) is None
