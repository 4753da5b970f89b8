"""Options that give the answer away or cannot be told apart."""

from __future__ import annotations

import pytest
from checked_rows import affected, by_code, checked, row
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from snellen.benchmarks.table.answers import options_level
from snellen.runs.check.options import option_text, row_options
from snellen.scoring.answers.fold import folded
from stopwatch import is_done_within

BIRDS = ("robin", "wren", "crow", "gull")


def codes(*options: str, answer: str = "A", question: str = "Which bird is this?", shuffled: bool = False) -> set[str]:
    return set(by_code(checked([row(1, question, options, answer)], shuffled=shuffled))) - {"always-first"}


def test_ordinary_options_are_no_finding() -> None:
    assert codes(*BIRDS) == set()
    assert codes("a robin", "A wren", "a crow") == set()
    assert codes("1", "2", "3", "4") == set()
    assert codes("Yes", "No") == set()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "All of the above",
            "none of the above.",
            "None of these",
            "Both",
            "Neither of them",
            "all of the above answers",
        ),
        *("None of the options are correct", "no correct answer", "All are correct"),
    ],
)
def test_catch_all_options_are_noted_where_options_change_places(text: str) -> None:
    assert codes("robin", "wren", text, shuffled=True) == {"catch-all-option"}
    assert codes("robin", "wren", text) == set()


@pytest.mark.parametrize("text", ["all birds", "none", "both wings", "nothing above the roof", "above"])
def test_only_whole_catch_all_phrases_count(text: str) -> None:
    assert codes("robin", "wren", text, shuffled=True) == ({"catch-all-option"} if text == "none" else set())


@pytest.mark.parametrize(
    "text", ["Both A and B", "A and C", "A, B and C", "either (A) or (B)", "Option B", "A & B only"]
)
def test_options_that_name_options_are_found(text: str) -> None:
    assert codes("robin", "wren", "crow", text) == {"option-names-options"}


@pytest.mark.parametrize("text", ["Vitamin A and D", "A and Z", "Plan B", "and", "A crow and a wren"])
def test_letters_that_are_no_options_are_not_found(text: str) -> None:
    assert "option-names-options" not in codes("robin", "wren", "crow", text)


@pytest.mark.parametrize("text", ["B", "b", "(B) wren", "B. wren", "[B]: wren", "C) crow"])
def test_an_option_with_the_letter_of_another_is_found(text: str) -> None:
    result = checked([row(1, "Which?", (text, "wren", "crow"), "A")])
    assert by_code(result)["letter-in-option"].rows[0].detail.startswith("A is ")


def test_letters_that_stand_for_themselves_are_no_finding() -> None:
    assert codes("A", "B", "C", "D") == set()
    assert codes("B", "A", "C", "D") == {"letter-in-option"}


def test_equal_options_are_found_whatever_their_spaces_and_those_that_differ_in_case_or_accents_alone() -> None:
    result = checked([row(1, "Which?", ("a  robin.", "wren", "a robin"), "C")])
    assert by_code(result)["equal-options"].rows[0].detail.endswith("one of which is the gold answer")
    alike = by_code(
        checked([row(1, "Which?", ("Polish", "polish", "x"), "C"), row(2, "Which?", ("peché", "péché", "x"), "A")])
    )
    assert [found.detail.partition(",")[0] for found in alike["options-alike"].rows] == [
        *("A and B are 'Polish' and 'polish'", "A and B are 'peché' and 'péché'"),
    ]
    assert codes("", "", "crow") == set()


def test_a_blank_option_as_gold_answer_stands_in_no_question() -> None:
    assert codes(" ", "wren", "crow", question="Which answer is it?") == set()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Is the robin in this photo a male?", {"answer-in-question"}),
        ("The ROBIN, again?", {"answer-in-question"}),
        ("Is it a robin or a wren?", set()),
        ("Which of the robins is it?", set()),
        ("The microrobin?", set()),
    ],
)
def test_the_gold_answer_in_the_question_is_found_as_a_whole_word(question: str, expected: set[str]) -> None:
    assert codes(*BIRDS, question=question) == expected


def test_an_open_answer_in_the_question_is_found() -> None:
    rows = [
        row(1, "What does the sign EXIT say?", answer="exit"),
        row(2, "What is 2 in words?", answer="two"),
        row(3, "Which of yes or no?", answer=True, kind="truth"),
        row(4, "何という鳥ですか、駒鳥ですか?", answer="駒鳥"),
    ]
    assert affected(checked(rows), "answer-in-question") == ["row 1", "row 4"]


@pytest.mark.parametrize("mark", ["wren (correct)", "wren [Right answer]", "*correct* wren", "wren ✓"])
def test_one_option_that_is_marked_as_right_is_found(mark: str) -> None:
    assert codes("lark", mark, "crow") == {"marked-option"}
    assert codes(mark, mark + "s", "crow") == set()


@pytest.mark.parametrize("question", ["Which? The answer is B.", "Which? (Answer: B)", "Which? option=B"])
def test_a_question_that_states_the_gold_letter_is_found(question: str) -> None:
    assert codes("lark", "wren", "crow", answer="B", question=question) == {"answer-in-question"}
    assert codes("lark", "wren", "crow", answer="C", question=question) == set()


def test_a_gold_answer_that_is_no_option_is_an_error() -> None:
    finding = by_code(checked([row(1, "Which?", BIRDS, "F")]))["gold-not-an-option"]
    assert (finding.level, finding.rows[0].detail) == ("error", "'F' is none of A, B, C, D")


def test_gold_answers_of_a_restricted_benchmark_are_not_examined() -> None:
    rows = [row(number, "The robin?", BIRDS, "A") for number in range(30)]
    result = checked(rows, restricted=True)
    assert {finding.code for finding in result.findings} == {"duplicate-question"}
    assert {example.gold for example in result.examples} == {None}
    assert result.answers == []


@pytest.mark.parametrize(
    "hostile", ["a " * 200_000, "A and " * 100_000, "(" * 200_000, "aa" * 200_000, "all of the " * 50_000]
)
def test_hostile_texts_take_no_time(hostile: str) -> None:
    rows = [row(1, hostile, (hostile, hostile + "b", hostile[:300], "a" * 299 + "b"), "C")]
    assert is_done_within(5, lambda: checked(rows))


WORDS = st.sampled_from(
    [
        "red",
        "Blue",
        "B",
        "a",
        "all",
        "None",
        "of",
        "the",
        "above",
        "(correct)",
        "B.",
        "C)",
        "3.5",
        "x-ray",
        "é",
        "ı",
        "12",
    ]
) | st.sampled_from(["&", "A,", "both", "İ", " ", "\t", "\n"])


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join) | st.text(max_size=8), max_size=5))
def test_options_read_at_once_say_what_each_says_by_itself(texts: list[str]) -> None:
    """The way for rows without odd options changes nothing: lengths, forms, signs, and how far the options differ."""
    options = dict(zip("ABCDE", texts, strict=False))
    about, each = row_options(options), [option_text(text) for text in texts]
    assert (about.lengths, about.folded, about.plain) == tuple(
        [getattr(text, name) for text in each] for name in ("length", "folded", "plain")
    )
    signs = [astuple(text)[3:] for text in each]
    assert [astuple(text)[3:] for text in about.odd] == (signs if any(map(any, signs)) else [])
    assert bool(options_level(options)) == (len(set(map(folded, texts))) < len(texts))
