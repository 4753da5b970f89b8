"""Laws of reading replies, for every kind of answer: dress, separation, permutation, abstention, blindness, frames."""

from __future__ import annotations

import json
import re
import string
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from snellen.scoring.answers import AnswerContext, GoldError, answer_type
from snellen.scoring.extract import Reading, is_right, read_as, type_for
from snellen.scoring.replies.sentences import phrases

MARKER = re.compile(r"(?is).*answer(?![a-z])|[èé](?!\w)|:(?=\s)|\\[\[(]")
"""What marks an answer itself, or that there is none, and a verb or sign in front of one: `Answer x` is an x, and so is `è x`."""
DRAWS = settings(max_examples=2_000)
SIGNS = "+-−–—<>=≤≥≠%‰$€£¥#&@*/\\^_~|°±×÷→()[]{}.,:;!?'\"«»“”„「」…·•✓✗№§"
LETTERS = (
    string.ascii_letters
    + string.digits
    + "äöüßéèñçãøåłıАВСЕБГДжщαβγΩπ中文字牌停车場東京駅입구출구한글ابתש日は🛑🚫😀½²³"
)
TEXTS = st.text(st.sampled_from(LETTERS + SIGNS + "   "), min_size=1, max_size=24).filter(
    lambda text: any(char.isprintable() and not char.isspace() and char != "\ufe0f" for char in text)
)
WORDS = st.lists(st.sampled_from(
    ["No", "Smoking", "Exit", "St.", "John's", "C++", "C#", "A", "B+", "AB-", "vitamin", "Straße", "駅", "出口", "Выход", "R&D", "24/7", "1,5", "3.14", "-2", "#1", "@home", "x<y", "x>y", "re-sign", "resign", "Mr.", "Dr.", "U.S.", "Wi-Fi", "don't", "naïve", "café", "50%", "off", "$5", "10:05", "a.m.", "yes", "no", "none", "maybe", "true", "the", "an", "Answer", "key", "final", "(b)", "[3]", "{x}", "<b>", "\\alpha"]
), min_size=1, max_size=5).map(" ".join)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-(10**6), 10**9).map(str),
    st.integers(0, 10**9).map(lambda n: f"{n:,}"),
    st.decimals(-9999, 9999, places=2).map(str),
    st.decimals(0, 1, places=4).map(str),
)
COUNTS = st.integers(0, 10**6).map(str)
QUANTITIES = st.builds(
    lambda n, form: form.format(n),
    st.one_of(st.integers(-50, 5_000).map(str), st.decimals(0, 999, places=2).map(str)),
    st.sampled_from(
        ["{} °C", "{} kg", "{}%", "{} km/h", "{} m", "${}", "€{}", "{} €", "{} GB", "{} °F", "{} cm", "{} mph", "{} lb"]
    ),
)
DATES = st.dates().map(lambda day: day.isoformat()).filter(lambda text: text > "1000")
TIMES = st.times().map(lambda time: time.strftime("%H:%M"))
RATIOS = st.builds("{}:{}".format, st.integers(1, 99), st.integers(1, 9))
TRUTHS = st.sampled_from(
    ["yes", "no", "Yes", "No", "true", "false", "True", "False", "ja", "nein", "是", "否", "да", "нет", "sí"]
)
LISTS = st.lists(
    st.text(st.sampled_from("abcdefgхцж中文0123456789+#"), min_size=2, max_size=7), min_size=2, max_size=5, unique=True
).map(json.dumps)
BOXES = st.builds("[{}, {}, {}, {}]".format, *(st.integers(0, 99),) * 2, *(st.integers(100, 999),) * 2)
POINTS = st.builds("({}, {})".format, st.integers(0, 999), st.integers(0, 999))
OBJECTS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=5),
    st.integers(0, 99) | st.text("xyz中 ", min_size=1, max_size=5),
    min_size=1,
    max_size=3,
).map(lambda found: json.dumps(found, ensure_ascii=False))
OPEN: dict[str, st.SearchStrategy[str]] = {
    "text": TEXTS | WORDS,
    "name": WORDS,
    "judged": TEXTS | WORDS,
    "number": NUMBERS,
    "count": COUNTS,
    "quantity": QUANTITIES | RATIOS,
    "date": DATES,
    "time": TIMES,
    "truth": TRUTHS,
    "list": LISTS,
    "box": BOXES,
    "point": POINTS,
    "json": OBJECTS,
}
DRESSES = (
    "{}", "**{}**", "Answer: {}", "The answer is {}.", "<answer>{}</answer>", "\\boxed{{{}}}", '"{}"', "`{}`", "  {}\n",
    "I looked at the picture twice.\n\nAnswer: {}", "<think>Perhaps 7, or A, or yes. Let me see.</think>\n{}",
    "**Answer:** {}", "Final answer: {}", "<think>\nhm\n</think>\n\n<answer>{}</answer>",
)  # fmt: skip


@st.composite
def golds(draw: st.DrawFn) -> tuple[str, str]:
    """Return a kind and a gold cell that it accepts."""
    kind = draw(st.sampled_from(sorted(OPEN)))
    gold = draw(OPEN[kind])
    try:
        answer_type(kind).parse_gold(gold)
    except GoldError:
        assume(False)
    return kind, gold


@st.composite
def choices(draw: st.DrawFn) -> tuple[dict[str, str], str]:
    """Return options whose texts differ, and the letter of one."""
    texts = draw(
        st.lists(
            TEXTS | WORDS | NUMBERS | QUANTITIES,
            min_size=2,
            max_size=6,
            unique_by=lambda text: " ".join(text.split()).casefold(),
        )
    )
    options = dict(zip(string.ascii_uppercase, (text.strip() for text in texts), strict=False))
    return options, draw(st.sampled_from(sorted(options)))


def right(kind: str, reply: str, gold: Any, context: AnswerContext = AnswerContext()) -> tuple[bool, Reading]:
    answer = type_for(kind, context)
    reading = read_as(answer, reply, [str(gold)])
    return reading.value is not None and is_right(answer, reading, [gold]), reading


@DRAWS
@given(golds(), st.sampled_from(DRESSES))
def test_the_gold_answer_in_any_dress_is_right(drawn, dress):
    kind, gold = drawn
    assume(not any(mark in gold for mark in ("<", "boxed", "answer", "think", "####")) or "<" not in dress)
    assume(gold.strip(".。:：,; ") and not MARKER.match(gold))
    reply = dress.format(gold)
    found, reading = right(kind, reply, gold)
    assert found, (kind, reply, reading)


@given(
    st.sampled_from(phrases("correction")),
    st.sampled_from([str.upper, str.capitalize, str.title]),
    st.sampled_from(
        ["Answer: {}", "Final answer: {}.", "<answer>{}</answer>", 'The sign says "{}".', '{{"answer": "{}"}}']
    ),
)
def test_a_word_of_correction_that_is_the_answer_corrects_nothing(phrase, case, dress):
    """A stop sign says HALT, and a film is called `A Closer Look`; whole sentences (`I was wrong`) may need a reader."""
    gold = case(phrase)
    found, reading = right("text", dress.format(gold), gold)
    assert found or (reading.value is None and "corrects" not in reading.reason), (gold, reading)


@given(
    st.lists(st.sampled_from(["Paris", "New London", "42", "Red Kite"]), min_size=2, max_size=2, unique=True),
    st.sampled_from(["Wait", "Actually", "No wait", "Hold on", "Moment", "En fait"]),
    st.sampled_from(
        ["{}. {}, {}", "Answer: {}. {}, {}.", "{}. {}: {}", "{}... {}, it is {}.", "{}\n{}, **{}**", "{}. {} - {}"]
    ),
)
def test_what_stands_behind_a_correction_is_the_answer(names, word, form):
    found, reading = right("text", form.format(names[0], word, names[1]), names[1])
    assert found, reading


@DRAWS
@given(
    choices(),
    st.sampled_from(DRESSES),
    st.sampled_from(["{letter}", "({letter})", "{letter}. {text}", "{text}", "Option {letter}"]),
)
def test_an_option_in_any_dress_is_that_option(drawn, dress, form):
    options, letter = drawn
    text = options[letter]
    assume("text" not in form or len(text) > 1)  # a text of one letter may be another option's letter
    assume(not any(mark in text for mark in ("<", "boxed", "answer", "think", "####", "{", "}")))
    reply = dress.format(form.format(letter=letter, text=text))
    found, reading = right("choice", reply, letter, AnswerContext(options))
    assert found, (options, reply, reading)


@DRAWS
@given(golds(), st.data())
def test_the_verbatim_reply_of_one_value_is_wrong_for_another(drawn, data):
    kind, gold = drawn
    answer = answer_type(kind)
    other = data.draw(OPEN[kind])
    try:
        values = answer.parse_gold(gold), answer.parse_gold(other)
    except GoldError:
        assume(False)
    assume(not answer.same(read_as(answer, other, [other]).value, values[0]))
    assume(not MARKER.match(other))
    found, reading = right(kind, other, gold)
    assert not found, (kind, gold, other, reading)


@DRAWS
@given(st.text(st.sampled_from("0123456789.,-+:/<>=%$°xyzABC "), min_size=1, max_size=8), st.data())
def test_a_text_that_differs_by_one_sign_is_wrong(gold, data):
    assume(gold.strip() and gold == gold.strip())
    at = data.draw(st.integers(0, len(gold) - 1))
    sign = data.draw(st.sampled_from("0123456789.,-+:/<>=%$°"))
    other = data.draw(
        st.sampled_from([gold[:at] + gold[at + 1 :], gold[:at] + sign + gold[at:], gold[:at] + sign + gold[at + 1 :]])
    )
    strip = " .,;:"
    assume(
        other.strip(strip)
        and " ".join(other.split()).strip(strip).casefold() != " ".join(gold.split()).strip(strip).casefold()
    )
    for kind in ("text", "name", "judged"):
        if kind == "name" and "".join(other.split()) == "".join(gold.split()):
            continue  # names are compared by words
        found, reading = right(kind, other, gold)
        assert not found, (kind, gold, other, reading)


@DRAWS
@given(
    st.text("はがさみしまかん", min_size=2, max_size=5) | st.text("이가은는순신방수", min_size=2, max_size=5),
    st.sampled_from(
        [
            "The answer is {}.",
            "答えは{}です。",
            "答えは、{}",
            "答えは {} です",
            "Answer: {}",
            "정답은 {}",
            "The answer is, {}.",
        ]
    ),
)
def test_an_answer_that_begins_like_a_particle_is_read_whole(gold, form):
    """`はし`, `이순신`: what begins the answer is no particle behind `answer is`, and a comma behind the verb is none of it."""
    assume("答" not in form or "\u3040" <= gold[0] < "\u3100")
    assume("정답" not in form or gold[0] > "\uabff")
    found, reading = right("text", form.format(gold), gold)
    assert found, reading


@DRAWS
@given(choices(), st.randoms(), st.sampled_from(["{letter}", "The answer is {letter}.", "{text}", "Answer: {text}"]))
def test_shuffled_options_move_the_letter_and_nothing_else(drawn, shuffle, form):
    options, letter = drawn
    text = options[letter]
    assume(len(text) > 1 and not any(mark in text for mark in ("<", "boxed", "{", "}")))
    texts = list(options.values())
    shuffle.shuffle(texts)
    turned = dict(zip(options, texts, strict=True))
    moved = next(name for name, other in turned.items() if other == text)
    before = read_as(type_for("choice", AnswerContext(options)), form.format(letter=letter, text=text))
    after = read_as(type_for("choice", AnswerContext(turned)), form.format(letter=moved, text=text))
    assert before.value == letter and after.value == moved and before.stage == after.stage


@DRAWS
@given(
    st.lists(st.text("wxz中文字", min_size=2, max_size=8), min_size=2, max_size=5, unique=True),
    st.data(),
    st.sampled_from(["{}. {}", "({}) {}", "{}：{}", "{}) {}"]),
    st.sampled_from([" ", "\n", "; ", "，"]),
    st.sampled_from(["{}\n{}", "Which one is it? {} {}", "这是什么？{} {}", "Options: {}\n\n{}"]),
    st.sampled_from(["{letter}", "The answer is {letter}.", "{text}", "答案是{letter}"]),
)
def test_options_that_a_reply_repeats_change_no_reading(texts, data, item, between, frame, answer):
    options = dict(zip(string.ascii_uppercase, texts, strict=False))
    letter = data.draw(st.sampled_from(sorted(options)))
    echo = between.join(item.format(*one) for one in options.items())
    kind = type_for("choice", AnswerContext(options))
    said = read_as(kind, frame.format(echo, answer.format(letter=letter, text=options[letter])))
    assert said.value == letter, said
    assert read_as(kind, frame.format(echo, "")).value is None


NOTHING = (    "", "   ", "\n", "I cannot tell from this image.", "I'm sorry, but I can't help with that.", "Could you upload the image again?",
    "<think>It may be the first one, since", "Which of the two do you mean?", "抱歉，我无法判断。", "Das kann ich leider nicht erkennen.",
)  # fmt: skip


@given(st.sampled_from(sorted(OPEN)), st.sampled_from(NOTHING))
def test_a_reply_without_an_answer_is_not_read(kind, reply):
    reading = read_as(answer_type(kind, AnswerContext(question="What is shown?")), reply)
    assert reading.value is None and reading.reason


@DRAWS
@given(
    choices(),
    st.data(),
    st.sampled_from(
        [
            "{} or {}",
            "Answer: {}\nAnswer: {}",
            "<answer>{}</answer> <answer>{}</answer>",
            "Either {} or {}.",
            "\\boxed{{{}}} \\boxed{{{}}}",
        ]
    ),
)
def test_two_options_are_no_answer(drawn, data, form):
    options, letter = drawn
    other = data.draw(st.sampled_from([name for name in options if name != letter]))
    assume(not any(len(text.strip()) < 3 or " " in text for text in options.values()))
    reading = read_as(type_for("choice", AnswerContext(options)), form.format(letter, other))
    assert reading.value is None, (options, reading)


BIRDS = type_for("choice", AnswerContext(dict(zip("ABCD", ("robin", "wren", "crow", "owl"), strict=True))))


@given(
    st.sampled_from(phrases("or")),
    st.sampled_from([" ", ""]),
    st.permutations("ABCD"),
    st.sampled_from(["", " is right", " ist richtig.", " est correct", " верно", "입니다", "です。"]),
)
def test_letters_joined_by_an_or_of_any_language_are_no_answer(word, blank, letters, end):
    assume(blank or word > "\u2e7f")
    assert read_as(BIRDS, f"{letters[0]}{blank}{word}{blank}{letters[1]}{end}").value is None


PAIRS = {
    "count": st.builds("{}|{}".format, st.integers(2, 12), st.integers(13, 30)),
    "number": st.builds("{}.5|{}.25".format, st.integers(2, 12), st.integers(13, 30)),
    "quantity": st.builds("{}{}|{} m".format, st.integers(2, 12), st.sampled_from(["", " m"]), st.integers(13, 30)),
    "time": st.builds("{}:15|{}:30".format, st.integers(2, 9), st.integers(13, 22)),
    "date": st.builds("{} May 2021|{} June 2021".format, st.integers(2, 9), st.integers(13, 22)),
    "truth": st.sampled_from(["yes|no", "true|false", "no|yes"]),
    "choice": st.sampled_from(["A|wren", "wren|C", "crow|owl", "owl|A"]),
}


@given(
    st.sampled_from(sorted(PAIRS)).flatmap(lambda kind: st.tuples(st.just(kind), PAIRS[kind])),
    st.sampled_from([*phrases("or"), "か"]),
    st.sampled_from(
        ("{}", "**{}**", "Answer: {}", "The answer is {}.", "It is {}.", "I think it's {}", "\\boxed{{{}}}")
    ),
)
def test_two_values_joined_by_an_or_of_any_language_are_no_answer(pair, word, form):
    kind, (one, other) = pair[0], pair[1].split("|")
    said = form.format(f"{one}か{other}" if word == "か" else f"{one} {word} {other}")
    answer = BIRDS if kind == "choice" else type_for(kind, AnswerContext(unit="m" if kind == "quantity" else ""))
    assert read_as(answer, said).value is None


def test_an_or_that_begins_the_next_sentence_leaves_none_either():
    assert read_as(BIRDS, "Answer: B. Or maybe C.").value is None
    assert read_as(BIRDS, "The answer is B. Or, in other words, the wren.").value == "B"
    assert read_as(BIRDS, "It is B. Or so it seems.").value in ("B", None)


MOVED = (
    "{} before {}",
    "{} after {}",
    "{} vor {}",
    "{} nach dem {}",
    "{} avant le {}",
    "{} después de las {}",
    "{} dopo {}",
    "{} до {}",
)


@given(
    st.sampled_from(("shortly", "the day", "two hours", "some minutes", "kurz", "une heure", "not")),
    st.sampled_from(MOVED),
    st.sampled_from([("date", "3 March 2024"), ("date", "2024-03-03"), ("time", "10:10"), ("time", "3 pm")]),
    st.sampled_from(("{}", "Answer: {}", "It was {}.", "**{}**")),
)
def test_a_moment_that_is_moved_is_no_answer(amount, move, moment, form):
    """But a word that the question has moves nothing: `When must it end at the latest, before which hour?`."""
    kind, said = moment[0], form.format(move.format(amount, moment[1]))
    assert read_as(type_for(kind, AnswerContext(question="When was it?")), said).value is None
    asked = AnswerContext(question=f"Which moment comes {move.format('', '')}?")
    assert read_as(type_for(kind, asked), form.format(moment[1])).value is not None
    assert read_as(type_for(kind, asked), f"It was {move.split()[1]} {moment[1]}.").value is not None


@given(
    st.integers(1, 12),
    st.integers(13, 28),
    st.sampled_from(("-", "–", " – ", " or ", " bis ", " to ", "/", " & ")),
    st.sampled_from(("{}{}{} May 2024", "May {}{}{}, 2024", "the {}th{}{}th of May 2024")),
)
def test_a_day_of_two_is_no_answer(first, second, joint, form):
    assert read_as(type_for("date", AnswerContext()), form.format(first, joint, second)).value is None


@given(
    st.sampled_from(["text", "name", "list"]),
    st.text("äü中文字한😀🛑ñ-, ", min_size=2, max_size=12),
    st.sampled_from(["{}", 'a "{}"', "{}/b"]),
    st.sampled_from(["{}", "```json\n{}\n```", "Here it is: {}"]),
)
def test_escapes_of_json_change_no_reading(kind, text, form, frame):
    assume(text.strip(" ,-"))
    text = form.format(text.strip(" ,-"))
    replies = [frame.format(json.dumps({"answer": text}, ensure_ascii=ascii_only)) for ascii_only in (True, False)]
    readings = [read_as(answer_type(kind), reply, [text]) for reply in replies]
    assert readings[0].value == readings[1].value is not None
    assert is_right(answer_type(kind), readings[0], [text]), readings


@given(
    st.integers(1, 999),
    st.integers(1, 999),
    st.sampled_from(",."),
    st.sampled_from(["{}{}", "Antwort: **{}{}**", "Die Brücke ist {}{} lang.", "Es sind etwa {}{}."]),
    st.sampled_from([("number", "", ""), ("quantity", " m", " Meter"), ("quantity", " kg", " kg")]),
)
def test_a_sign_that_groups_or_parts_digits_is_read_both_ways_where_commas_are_written(whole, rest, sign, form, kind):
    """`2,500` in a German question: a model may write it as in English, and `3.142`, too. In English it is one number."""
    name, unit, shown = kind
    said, values = form.format(f"{whole}{sign}{rest:03}", shown), (f"{whole}{rest:03}", f"{whole}.{rest:03}")
    german = AnswerContext(question="Wie lang ist die Brücke, und wie schwer ist sie?")
    for value in values:
        assert right(name, said, f"{value}{unit}", german)[0], said
    assert not right(name, said, f"{whole + 1}{rest:03}{unit}", german)[0]
    english = AnswerContext(question="How long is the bridge?")
    assert right(name, said, f"{values[sign == ',']}{unit}", english)[0] is False


@given(
    st.permutations("ABCD"),
    st.text("bdfgklmprt", min_size=3, max_size=8),
    st.sampled_from(
        ["{0}, {2} {1}", "{0}. {2}, {1}.", "{0}\n\n{2}: {1}", "{0} … {2} {1}!", "({0}) {2} ({1})", "{0}!! {2} {1}!!"]
    ),
)
def test_of_two_letters_with_an_unknown_word_between_the_first_is_not_read(letters, word, form):
    """`A, oops B`: the word may correct, join or rule out."""
    assert read_as(BIRDS, form.format(*letters[:2], word)).value in (None, letters[1])
    assert read_as(BIRDS, f"{letters[0]}, {word} {letters[1]}").value is None
    assert read_as(BIRDS, f"{letters[0]} {word} {letters[1]}? {word}: {letters[0]}").value in (None, letters[0])


LESSER = ("is worse than", "is less likely than", "looks weaker than", "ist schlechter als", "est moins probable que")
GREATER = ("is better than", "is more likely than", "ist dunkler als", "est plus probable que", "fits better than the")


@given(st.permutations([*"ABCD", "robin", "wren", "crow"]), st.sampled_from(LESSER), st.sampled_from(GREATER))
def test_of_two_options_that_are_compared_the_lesser_is_no_answer(named, lesser, greater):
    """But where the question asks for it, `is worse than` names the answer before it."""
    first, second = map(BIRDS.parse, named[:2])
    assume(first != second)
    assert read_as(BIRDS, f"{named[0]} {lesser} {named[1]}.").value in (None, second)
    assert read_as(BIRDS, f"{named[0]} {greater} {named[1]}.").value in (None, first)
    asked = type_for("choice", AnswerContext(BIRDS.context.options, f"Which one {lesser} the other?"))
    assert read_as(asked, f"{named[0]} {lesser} {named[1]}.").value in (None, first)


@given(
    st.permutations("abmntxyz"),
    st.lists(st.integers(-30, 99), min_size=2, max_size=2, unique=True),
    st.sampled_from(
        ["{} = {}, {} = {}", "{}={} and {}={}.", "The solution is {} = {}; {} = {}.", "Answer: {} = {}, {} = {}"]
    ),
)
def test_of_two_variables_the_one_that_is_asked_for_is_read(names, values, form):
    said = form.format(names[0], values[0], names[1], values[1])
    for name, value in zip(names, values, strict=False):
        assert read_as(type_for("number", AnswerContext(question=f"What is {name}?")), said).value == value
    assert read_as(type_for("number", AnswerContext(question="What solves it?")), said).value is None


@given(
    st.integers(6, 30),
    st.integers(2, 5),
    st.permutations(["red", "blue", "green"]),
    st.sampled_from(["cars", "birds", "houses"]),
)
def test_of_a_total_and_its_parts_only_the_part_that_is_asked_for_is_read(total, part, colours, noun):
    """The total is right for all of them; a part that is left over is no number that the reply says."""
    asked, other, third = colours
    kind = type_for("count", AnswerContext(question=f"How many {asked} {noun} are there?"))
    everything = type_for("count", AnswerContext(question=f"How many {noun} are there?"))
    for said in (
        f"There are {total} {noun}. Of these, {part} are {asked}.",
        f"I see {total} {noun}. Of them, {part} are {asked} and {part + 1} are {other}.",
        f"THERE ARE {total} {noun.upper()}, {part} OF THEM ARE {asked.upper()}.",
    ):
        assert read_as(kind, said).value == part, said
        assert read_as(everything, said).value in (total, None), said
    for said in (
        f"There are {total} {noun}. {part} are {other}. The rest are {asked}.",
        f"There are {total} {noun}; {part} of them are {other} and the others are {asked}.",
        f"There are {total} {noun}. All but {part} are {asked}.",
        f"All but {part} are {asked}.",
        f"There are {total} {noun}; {part} of them are not {asked}.",
        f"There are {total} {noun}. Of these, {part} are {other}.",
        f"Half of the {total} {noun} are {asked}.",
        f"There are {total} {noun}, none of which are {asked}.",
    ):
        assert read_as(kind, said).value is None, (said, read_as(kind, said))
    assert read_as(kind, f"None of the {total} {noun} are {asked}.").value == 0
    assert read_as(kind, f"There are {total} {asked} {noun}; the rest are {third}.").value == total


CLAIMS = st.sampled_from([("light", "red", "bright"), ("shop", "open", "full"), ("road", "wet", "icy")])


@given(CLAIMS)
def test_a_claim_that_is_reported_or_over_is_no_answer_and_not_only_denies_none(claim):
    thing, state, more = claim
    kind = type_for("truth", AnswerContext(question=f"Is the {thing} {state}?"))
    for said in (
        "Some say the {} is {}.",
        "The {} used to be {}.",
        "Allegedly, the {} is {}.",
        "The {} is anything but {}.",
    ):
        assert not read_as(kind, said.format(thing, state)).value, said
    for said in (f"The {thing} is not only {state} but {more}.", f"Not only is the {thing} {state}, it is {more}."):
        assert read_as(kind, said).value is True, said
    only = type_for("truth", AnswerContext(question=f"Is only the {thing} {state}?"))
    assert read_as(only, f"Not only the {thing} is {state}.").value is not True


ORDINALS = {
    "en": ("first second third fourth", "the {} {} the {} option", "or and"),
    "de": ("erste zweite dritte vierte", "die {} {} die {} Antwort", "oder und"),
    "es": ("primera segunda tercera cuarta", "la {} {} la {} opción", "o y"),
    "nl": ("eerste tweede derde vierde", "de {} {} de {} optie", "of en"),
    "ru": ("первый второй третий четвёртый", "{} {} {} вариант", "или и"),
}


@given(st.sampled_from(sorted(ORDINALS)), st.permutations(range(4)), st.data())
def test_options_by_place_that_are_joined_are_no_answer(language, places, data):
    words, form, joints = (part.split() if part.count("{") < 2 else part for part in ORDINALS[language])
    joint = data.draw(st.sampled_from(joints))
    assert read_as(BIRDS, form.format(words[places[0]], joint, words[places[1]])).value is None


@given(st.permutations("ABCD"), st.sampled_from(["Of {} and {}, {} is right.", "{} or {}? No, {} is right."]))
def test_an_option_behind_two_that_are_joined_is_the_answer(letters, form):
    for third in letters[1:3]:
        assert read_as(BIRDS, form.format(*letters[:2], third)).value == third


def test_options_by_place_that_are_joined_are_ruled_out_together():
    assert read_as(BIRDS, "The first option and the second are wrong; the third option is right.").value == "C"


def test_an_echo_ends_with_the_last_option():
    numbers = type_for("choice", AnswerContext({"A": "1", "B": "2", "C": "3", "D": "4"}))
    assert read_as(numbers, "A. 1 B. 2 C. 3 D. 42").value is None
    assert read_as(numbers, "A. 1 B. 2 C. 3 D. 4. 2").value == "B"


@given(st.sampled_from(["second to last", "third to the last", "twenty-first", "thirty second"]))
def test_a_part_of_a_place_is_no_option(place):
    assert read_as(BIRDS, f"The {place} option.").value is None


@DRAWS
@given(golds(), st.data(), st.sampled_from(DRESSES))
def test_only_the_verbatim_stage_looks_at_the_gold_answer(drawn, data, dress):
    kind, gold = drawn
    reply = dress.format(gold)
    answer = answer_type(kind)
    told = read_as(answer, reply, [data.draw(OPEN[kind])])
    if told.stage != "verbatim":
        assert told == read_as(answer, reply)


@DRAWS
@given(golds(), st.sampled_from(DRESSES), TEXTS | WORDS)
@example(("count", "3"), "Answer: {}", "5")
def test_what_is_thought_changes_no_reading_and_evidence_reads_the_same(drawn, dress, thought):
    kind, gold = drawn
    assume("think" not in dress and "<" not in thought and "<" not in gold and "[" not in thought + gold)
    answer = answer_type(kind)
    plain = read_as(answer, dress.format(gold))
    framed = read_as(answer, f"<think>{thought}</think>\n{dress.format(gold)}")
    assert (plain.value, plain.reason) == (framed.value, framed.reason)
    if plain.value is not None:
        reply = dress.format(gold)
        start, end = plain.places[0]
        again = read_as(answer, reply[start:end], [reply[start:end]])
        assert 0 <= start < end <= len(reply) and again.value == plain.value, (reply, reply[start:end], plain, again)


@DRAWS
@given(golds(), st.sampled_from(["think", "thinking", "reasoning"]), st.sampled_from(DRESSES[:6]))
def test_what_is_only_thought_is_no_answer(drawn, tag, dress):
    kind, gold = drawn
    assume("<" not in gold and "<" not in dress)
    found, reading = right(kind, f"<{tag}>{dress.format(gold)}</{tag}>", gold)
    assert not found, reading


def test_clashing_answers_are_named_in_the_order_of_the_reply():
    options = dict(zip("ABCD", ("rice", "pasta", "salad", "soup"), strict=True))
    reading = read_as(type_for("choice", AnswerContext(options)), "A. rice\nB. pasta\nC. salad\nD. soup")
    assert reading.reason == "two answers: A, B, C, D"
