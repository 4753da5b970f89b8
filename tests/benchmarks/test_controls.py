"""Controls of a benchmark: what stays of each sample, and that gold answers follow their options."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.controls import controlled, draw_order, name_of, other_pictures, pictures_of, shuffled
from snellen.errors import UsageError
from snellen.scoring.scorers import accuracy, choice
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, Prompt, Sample, Text, Turn, Video

LETTERS = "ABCDEFGH"
OPTION = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, categories=("L", "N")), min_size=1, max_size=12)
FORMS = ("{letter}. {text}", "({letter}) {text}", "{letter}) {text}", "{letter}: {text}", "**{letter}.** {text}")


def picture(name: str) -> Image:
    return Image(BytesBlob(name, b""))


def benchmark_of(*samples: Sample) -> Benchmark:
    return Benchmark(
        "listed", "1", lambda data: iter(samples), {"s": choice}, accuracy(), {"s": ""}, digest=lambda data: "x"
    )


@given(
    texts=st.lists(OPTION, min_size=2, max_size=8, unique=True),
    form=st.sampled_from(FORMS),
    gold=st.integers(0, 7),
    several=st.booleans(),
    number=st.integers(1, 16),
    seed=st.integers(0, 3),
)
def test_shuffled_options_keep_their_gold_answer_in_options_and_prompt(texts, form, gold, several, number, seed):
    options = dict(zip(LETTERS, texts, strict=False))
    lines = "\n".join(form.format(letter=letter, text=text) for letter, text in options.items())
    letter = LETTERS[gold % len(texts)]
    target = tuple(sorted({letter, "A"})) if several else letter
    kind = "multi-choice" if several else "choice"
    sample = Sample("q", Prompt((picture("p"), Text(f"Which?\n{lines}\nAnswer."))), target, kind, options)
    moved = shuffled(sample, number, seed)
    if moved is None:  # an option reads as words about other options, or stands in the listing earlier
        return
    texts_of = lambda each: [each.options[mark] for mark in each.target]  # noqa: E731
    assert sorted(texts_of(moved)) == sorted(texts_of(sample))
    assert list(moved.options) == list(options) and sorted(moved.options.values()) == sorted(texts)
    shown = "\n".join(form.format(letter=mark, text=text) for mark, text in moved.options.items())
    assert moved.prompt.parts == (picture("p"), Text(f"Which?\n{shown}\nAnswer."))
    assert list(moved.options.values()) == [texts[at] for at in draw_order("q", len(texts), number, seed)]


def test_every_order_is_drawn_about_equally_often():
    counts = Counter(tuple(draw_order(f"q{at}", 3, 1, 0)) for at in range(6_000))
    assert len(counts) == 6 and max(counts.values()) < 1_150 and min(counts.values()) > 850


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("A. red\nB. all of the above", {"A": "red", "B": "all of the above"}),
        ("A. red\nB. Both A and C\nC. blue", {"A": "red", "B": "Both A and C", "C": "blue"}),
        ("Is A (cat) left of B (dog)? Choose A (cat) or B (dog).", {"A": "cat", "B": "dog"}),
        ("A. red\nB. same as option A", {"A": "red", "B": "same as option A"}),
        ("A. red\nB. A, C", {"A": "red", "B": "A, C"}),
        ("A. rot\nB. keine der genannten Farben", {"A": "rot", "B": "keine der genannten Farben"}),
        ("A. rouge\nB. toutes les réponses", {"A": "rouge", "B": "toutes les réponses"}),
        ("A. 红\nB. 以上都对", {"A": "红", "B": "以上都对"}),
        ("Which is it?", {"A": "red", "B": "blue"}),
        ("B. blue\nA. red", {"A": "red", "B": "blue"}),
        ("A. red", {"A": "red"}),
    ],
)
def test_options_that_speak_of_others_or_are_not_listed_are_left_in_place(text, options):
    assert shuffled(Sample("q", Prompt((Text(text),)), "A", "choice", options), 1, 0) is None


@pytest.mark.parametrize(
    "question", ["A cat sits.", "Vitamin A, cat?", "Is A (cat) left of B (dog)?", "A: cat\nB: dog"]
)
def test_a_question_that_reads_like_an_option_stays_as_it_is(question):
    sample = Sample("q", Prompt((Text(f"{question}\nA. cat\nB. dog"),)), "A", "choice", {"A": "cat", "B": "dog"})
    made = [shuffled(sample, number, 0) for number in range(1, 9)]
    assert {each.prompt.parts[0].text for each in made} == {
        f"{question}\nA. cat\nB. dog",
        f"{question}\nA. dog\nB. cat",
    }
    assert all(each.options[each.target] == "cat" for each in made)


def test_options_within_a_sentence_are_shuffled_where_the_answer_is_a_text():
    options = {"A": "brown", "B": "green", "C": "pink"}
    prompt = Prompt((Text("Which colour? Answer with brown, green or pink."),))
    moved = [shuffled(Sample("q", prompt, "pink", "choice_text", options), number, 0) for number in range(1, 17)]
    assert {each.target for each in moved} == {"pink"}
    assert "Which colour? Answer with pink, brown or green." in {each.prompt.parts[0].text for each in moved}


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=20), st.integers(0, 3))
def test_other_pictures_are_a_derangement(sets, seed):
    samples = [
        Sample(f"q{at}", Prompt((*(picture(str(name)) for name in names), Text("?"))), "A", "open")
        for at, names in enumerate(sets)
    ]
    others = other_pictures(iter(samples), seed)
    for keys, taken in others.items():
        assert set(keys).isdisjoint(name_of(part) for part in taken) and len(keys) == len(taken)
    single = {tuple(map(str, names)) for names in sets if len(names) == 1}
    given_away = Counter(name_of(others[keys][0]) for keys in single if keys in others)
    assert len(single) == 1 or (given_away == Counter(keys[0] for keys in single))


def test_other_pictures_do_not_depend_on_the_limit_and_go_through_earlier_turns():
    history = (Turn("user", (picture("a"), Text("What?"))), Turn("assistant", (Text("A cat."),)))
    first = Sample("1", Prompt((Text("And its colour?"),), history=history), "red", "short")
    second = Sample("2", Prompt((picture("b"), Text("What?"))), "dog", "short")
    bare = Sample("3", Prompt((Text("What?"),)), "dog", "short")
    changed = list(controlled(benchmark_of(first, second, bare), "other").samples(Data()))
    assert [sample.id for sample in changed] == ["1", "2"]
    assert changed[0].prompt.history[0].parts[0] == picture("b") and changed[1].prompt.parts[0] == picture("a")


def test_text_alone_and_options_alone_leave_no_picture_and_keep_ids_and_gold():
    options = {"A": "red", "B": "blue"}
    parts = (picture("a"), Text("Which? A. red B. blue"), Video(BytesBlob("v", b"")))
    sample = Sample("1", Prompt(parts, "Be brief."), "B", "choice", options)
    bare = Sample("2", Prompt((Text("Which?"),)), "x", "short")
    benchmark = benchmark_of(sample, bare)
    for control, text in (
        ("text", "Which? A. red B. blue"),
        ("options", "A. red\nB. blue\nAnswer with the letter of the correct option."),
    ):
        under = controlled(benchmark, control)
        (changed,) = under.samples(Data())
        assert (changed.id, changed.target, changed.options) == ("1", "B", options)
        assert changed.prompt.parts == (Text(text),) and changed.prompt.system == "Be brief."
        assert under.size(Data()) == 1 and under.study == {"control": control} and under.digest(Data()) == "x"
        assert controlled(under, control) is under


@pytest.mark.parametrize("control", ["shuffle-0", "shuffle-17", "shuffle-x", "blank", "shuffle-1 "])
def test_an_unknown_control_is_refused(control):
    with pytest.raises(UsageError, match="there is no control"):
        controlled(benchmark_of(), control)


def test_a_benchmark_whose_questions_follow_from_answers_is_refused():
    growing = replace(benchmark_of(), grow=lambda data, answers: [], sample=lambda data, name: None)
    with pytest.raises(UsageError, match="chooses its questions by the answers"):
        controlled(growing, "text")


def test_the_chart_has_every_control():
    chart = registry.find("chart")
    sizes = {name: controlled(chart, name).size(Data()) for name in ("text", "options", "other", "shuffle-1")}
    assert sizes["text"] == sizes["other"] == chart.size(Data()) and 0 < sizes["shuffle-1"] <= sizes["options"]
    assert all(pictures_of(sample) for sample in controlled(chart, "other").samples(Data()))
