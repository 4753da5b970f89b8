"""Any text may come back from a model: the extractors never fail on one, stay linear, and see through its dress."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snellen.scoring.extract import KINDS, clean, correct, read, tokenize

OPTIONS = {"A": "golden eagle", "B": "red kite", "C": "common buzzard", "D": "osprey"}
GIVEN: dict[str, dict[str, Any]] = {
    "truth": {"question": "Is the bird a red kite? Answer yes or no.", "form": "yes/no"},
    "choice": {"question": "Which bird is shown?", "options": OPTIONS},
    "choice_text": {"question": "Which bird is shown?", "options": list(OPTIONS.values())},
    "count": {"question": "How many birds are there?"},
    "number": {"question": "How long is the bird in cm?", "unit": "cm"},
    "short": {"question": "What species of bird is this?"},
}
VOCABULARY = [
    "A",
    "B",
    "C",
    "D",
    "a",
    "i",
    "I",
    "yes",
    "no",
    "not",
    "true",
    "false",
    "is",
    "are",
    "the",
    "answer",
    "final",
    ":",
    ".",
    ",",
    ";",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "/",
    "|",
    "#",
    "*",
    "**",
    "`",
    "```",
    "$",
    "\\",
    "\\boxed{",
    "\\text{",
    "\\frac{",
    "}",
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "wait",
    "actually",
    "so",
    "therefore",
    "or",
    "and",
    "either",
    "neither",
    "than",
    "but",
    "because",
    "golden",
    "eagle",
    "red",
    "kite",
    "osprey",
    "buzzard",
    "three",
    "3",
    "2-3",
    "2,5",
    "1.",
    "10:30",
    "half",
    "dozen",
    "cm",
    "m",
    "ft",
    '"',
    "'",
    "{",
    '"answer":',
    '"B"',
    "}",
    "是",
    "不是",
    "选",
    "答案",
    "三",
    "第二",
    "（",
    "）",
    "：",
    "Ｂ",
    "½",
    "²",
    "→",
    "✓",
    "✗",
    "\n",
    "\n\n",
    "-",
    "--",
    "...",
    "?",
    "!",
    "%",
    "it",
    "this",
    "There",
    "option",
    "first",
    "last",
    "none",
    "of",
    "above",
    "don't",
    "can't",
    "maybe",
]


@pytest.mark.parametrize("kind", KINDS)
@given(reply=st.text(alphabet=st.characters(), max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_gives_a_value_or_a_reason(kind: str, reply: str) -> None:
    reading = read(kind, reply, **GIVEN[kind])
    assert (reading.value is None) != (reading.reason is None)


@pytest.mark.parametrize("kind", KINDS)
@given(words=st.lists(st.sampled_from(VOCABULARY), max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_word_salad_gives_a_value_or_a_reason(kind: str, words: list[str]) -> None:
    reading = read(kind, " ".join(words), **GIVEN[kind])
    assert (reading.value is None) != (reading.reason is None)
    if kind == "choice" and reading.value is not None:
        assert reading.value in OPTIONS


@given(
    question=st.text(max_size=200),
    reply=st.sampled_from(["It is.", "They are not the same.", "3 birds", "This is a hawk."]),
)
@settings(max_examples=150, deadline=None)
def test_any_question_will_do(question: str, reply: str) -> None:
    for kind in ("truth", "count", "number", "short"):
        read(kind, reply, question=question)


MEGABYTE = 1_000_000
HOSTILE = [
    "a " * (MEGABYTE // 2),
    "A" * MEGABYTE,
    "(" * MEGABYTE,
    "<think>" * (MEGABYTE // 7),
    "<answer>" * (MEGABYTE // 8),
    "\\boxed{" * (MEGABYTE // 7),
    "{" * MEGABYTE,
    '{"answer": ' * (MEGABYTE // 11),
    "**" * (MEGABYTE // 2),
    "1" * MEGABYTE,
    "1," * (MEGABYTE // 2),
    "1 " * (MEGABYTE // 2),
    "not " * (MEGABYTE // 4),
    "no, " * (MEGABYTE // 4),
    "the answer is " * (MEGABYTE // 14),
    "the " * (MEGABYTE // 4),
    "it is a " * (MEGABYTE // 8),
    "\n" * MEGABYTE,
    "- \n" * (MEGABYTE // 3),
    "A. golden eagle\n" * (MEGABYTE // 16),
    "... " * (MEGABYTE // 4),
    "wait, " * (MEGABYTE // 6),
    "twenty " * (MEGABYTE // 7),
    "三" * MEGABYTE,
    "是" * MEGABYTE,
    "Ａ" * MEGABYTE,
    "\ud800" * MEGABYTE,
    "$\\frac{1}{" * (MEGABYTE // 10),
    "# " * (MEGABYTE // 2),
    "[x](" * (MEGABYTE // 4),
    "| " * (MEGABYTE // 2),
    " " * MEGABYTE,
    "x" + " " * MEGABYTE + "y",
    "so " * (MEGABYTE // 3),
    "of the " * (MEGABYTE // 7),
    "while " * (MEGABYTE // 6),
    "e.g. " * (MEGABYTE // 5),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reply", HOSTILE, ids=lambda reply: repr(reply[:12]))
def test_a_hostile_megabyte_is_read_in_linear_time(kind: str, reply: str) -> None:
    """Four times the text takes about four times as long, not sixteen times; and a megabyte takes no time to notice."""

    def cpu_s(text: str) -> float:
        start = time.process_time()
        read(kind, text, **GIVEN[kind])
        return time.process_time() - start

    quarter = max(cpu_s(reply[: len(reply) // 4]) for _ in range(2))
    whole = cpu_s(reply)
    assert whole < 1.5
    assert whole < 10 * quarter + 1.0


DRESSES = ["{}", "**{}**", "`{}`", "```\n{}\n```", "> {}", "- {}", "\n\n{}\n", '"{}"', "<answer>{}</answer>", "\\boxed{{{}}}", "\\boxed{{\\text{{{}}}}}", "$\\text{{{}}}$", '{{"answer": "{}"}}', "<think>A or B? yes, 7. Hmm.</think>{}", "<b>{}</b>", "### {}", "{}.", "{}\n", "「{}」"]  # fmt: skip
LEADS = ["{}", "Answer: {}", "The answer is {}", "Final answer: {}", "My answer is {}", "So the answer is {}", "**Answer:** {}", "答案：{}", "Therefore, the final answer is {}", "After looking closely at the picture, I conclude that the answer is {}"]  # fmt: skip
ANSWERS = [
    ("truth", "Yes", True), ("truth", "no", False), ("choice", "C", "C"), ("choice", "B. red kite", "B"), ("choice", "osprey", "D"),
    ("choice_text", "common buzzard", "common buzzard"), ("count", "3", 3), ("count", "twelve", 12), ("number", "2.5 cm", 2.5),
    ("number", "31", 31.0), ("short", "Red Kite", "Red Kite"), ("short", "Cooper's hawk", "Cooper's Hawk"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "answer", "value"), ANSWERS)
@given(
    dress=st.sampled_from(DRESSES),
    lead=st.sampled_from(LEADS),
    upper=st.booleans(),
    pad=st.sampled_from(["", " ", "\n", "\u200b", "\t"]),
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_known_answer_is_read_in_every_dress(
    kind: str, answer: str, value: Any, dress: str, lead: str, upper: bool, pad: str
) -> None:
    said = answer.upper() if upper and kind != "number" else answer
    inner = lead.format(said) if dress.startswith(("```", "<think", "{}", "\n")) else said
    block = "\n" if dress.startswith(("#", ">", "-", "```")) else ""
    reply = pad + (dress.format(inner) if inner != said else lead.format(block + dress.format(said))) + pad
    reading = read(kind, reply, **GIVEN[kind])
    assert correct(kind, reading, value), (reply, reading)


@given(
    order=st.permutations(list(OPTIONS.values())),
    name=st.sampled_from(list(OPTIONS.values())),
    form=st.sampled_from(
        ["{}", "It is a {}.", "The bird looks like a {}, so my answer is {}.", "not sure, but probably a {}"]
    ),
)
@settings(max_examples=100, deadline=None)
def test_the_order_of_the_options_does_not_matter(order: list[str], name: str, form: str) -> None:
    assert read("choice_text", form.replace("{}", name), options=order).value == name


@given(
    left=st.sampled_from("ABCD"),
    right=st.sampled_from("ABCD"),
    link=st.sampled_from(
        [
            "{} or {}",
            "{} and {}",
            "{}, {}",
            "{}/{}",
            "either {} or {}",
            "The answer is {} or {}.",
            "It could be {}, or perhaps {}.",
        ]
    ),
)
@settings(max_examples=100, deadline=None)
def test_two_different_letters_are_never_an_answer(left: str, right: str, link: str) -> None:
    reading = read("choice", link.format(left, right), options=OPTIONS)
    assert reading.value == (left if left == right else None), reading


DRESSED = st.lists(st.sampled_from([*"ab \t\n-*_=~:|#>•+.1", "---", "**", "~~", "# "]), max_size=40).map("".join)


@settings(max_examples=500, deadline=None)
@given(DRESSED)
def test_lines_lose_what_the_pattern_finds_at_the_head_of_any_line(text: str) -> None:
    for signs, pattern in (
        (clean._RULE_SIGNS, clean._RULE),
        (clean._LINE_SIGNS, clean._LINE_START),
    ):
        anywhere = re.compile(f"^(?:{pattern.pattern})", re.MULTILINE)
        assert clean._without_start(text, signs, pattern) == anywhere.sub("", text)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(["e.g", "i.e", *tokenize._SHORTENED.split(), *"aB1( \n.ſé"]), max_size=4).map("".join))
def test_no_abbreviation_is_passed_over_for_its_last_letters(text: str) -> None:
    for written in (text, text.upper()):
        assert tokenize._may_be_shortened(written) or tokenize._ABBREVIATION.search(written) is None
