"""Any text may come back from a model: reading never fails on one, stays linear, and sees through its dress."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snellen.scoring.answers import AnswerContext, kinds
from snellen.scoring.extract import correct, read

OPTIONS = {"A": "golden eagle", "B": "red kite", "C": "common buzzard", "D": "osprey"}
GIVEN: dict[str, dict[str, Any]] = {
    "truth": {"question": "Is the bird a red kite? Answer yes or no.", "form": "yes/no"},
    "choice": {"question": "Which bird is shown?", "options": OPTIONS},
    "choice_text": {"question": "Which bird is shown?", "options": list(OPTIONS.values())},
    "multi-choice": {"question": "Which birds are shown?", "options": OPTIONS},
    "count": {"question": "How many birds are there?"},
    "number": {"question": "How long is the bird in cm?", "unit": "cm"},
    "quantity": {"question": "How long is the bird in cm?", "unit": "cm"},
}
WHICH = {"question": "What species of bird is this?"}
WORDS = """A B C D a i I yes no not true false is are the answer final : . , ; ( ) [ ] { } < > / | # * ** ` ``` $ \\ \\boxed{
\\text{ \\frac{ <think> </think> <answer> </answer> wait actually so therefore or and either neither than but because golden
eagle red kite osprey buzzard three 3 2-3 2,5 1. 10:30 half dozen cm m ft " ' "answer": "B" 是 不是 选 答案 三 第二 （ ） ： Ｂ ½ ² → ✓ ✗ - --
... ? ! % it this There option first last none of above don't can't maybe March 2024-03-01 [1,2,3,4] $5 60% x^2"""
MEGABYTE = 1_000_000
HOSTILE = [
    *(
        "a ",
        "A",
        "(",
        "<think>",
        "<answer>",
        "\\boxed{",
        '{"answer": ',
        "**",
        "1",
        "1,",
        "1 ",
        "not ",
        "no, ",
        "the answer is ",
    ),
    *(
        "it is a ",
        "\n",
        "- \n",
        "A. golden eagle\n",
        "... ",
        "wait, ",
        "twenty ",
        "三",
        "是",
        "Ａ",
        "\ud800",
        "$\\frac{1}{",
        "[x](",
        "| ",
    ),
    *("so ", "5 cm ", "1/", "10:30 ", "March ", "e.g. ", "a: 1\n", "\u200b", '{"a": 1}, '),
]
DRESSES = ["{}", "**{}**", "`{}`", "```\n{}\n```", "> {}", "- {}", "\n\n{}\n", '"{}"', "<answer>{}</answer>", "\\boxed{{{}}}", "\\boxed{{\\text{{{}}}}}", "$\\text{{{}}}$", '{{"answer": "{}"}}', "<think>A or B? yes, 7. Hmm.</think>{}", "<b>{}</b>", "### {}", "{}.", "「{}」"]  # fmt: skip
LEADS = ["{}", "Answer: {}", "The answer is {}", "Final answer: {}", "My answer is {}", "So the answer is {}", "**Answer:** {}", "答案：{}", "Therefore, the final answer is {}", "After looking closely at the picture, I conclude that the answer is {}"]  # fmt: skip
ANSWERS = [
    ("truth", "Yes", True), ("truth", "no", False), ("choice", "C", "C"), ("choice", "B. red kite", "B"), ("choice", "osprey", "D"),
    ("choice_text", "common buzzard", "common buzzard"), ("multi-choice", "A, C", "A, C"), ("count", "3", 3), ("count", "twelve", 12),
    ("number", "2.5 cm", 2.5), ("number", "31", 31.0), ("quantity", "25 mm", "2.5 cm"), ("short", "Red Kite", "Red Kite"),
    ("short", "Cooper's hawk", "Cooper's Hawk"), ("text", "KX-42", "KX-42"), ("date", "2024-03-01", "1 March 2024"), ("time", "10:05", "10:05"),
    ("list", "red, green", "red, green"), ("box", "[16, 16, 48, 48]", "[16, 16, 48, 48]"), ("point", "(5, 6)", "(5, 6)"),
]  # fmt: skip


def is_value_or_reason(kind: str, reply: str) -> bool:
    reading = read(kind, reply, **GIVEN.get(kind, WHICH))
    return (reading.value is None) != (reading.reason is None)


@pytest.mark.parametrize("kind", kinds())
@given(
    reply=st.text(st.characters(), max_size=400) | st.lists(st.sampled_from(WORDS.split()), max_size=60).map(" ".join)
)
@settings(max_examples=150, deadline=None)
def test_any_text_and_any_word_salad_gives_a_value_or_a_reason(kind, reply):
    assert is_value_or_reason(kind, reply)


def cpu_s(kind: str, text: str) -> float:
    start = time.process_time()
    read(kind, text, **GIVEN.get(kind, WHICH))
    return time.process_time() - start


@pytest.mark.parametrize("kind", kinds())
def test_a_hostile_megabyte_is_read_in_linear_time(kind):
    """Four times the text takes about four times as long, not sixteen times; and a megabyte takes no time to notice."""
    slow = []
    for piece in HOSTILE:
        reply = piece * (MEGABYTE // len(piece))
        whole = cpu_s(kind, reply)
        if whole > 0.3:
            quarter = max(cpu_s(kind, reply[: len(reply) // 4]) for _ in range(2))
            if whole >= 2.0 or whole >= 10 * quarter + 0.5:
                slow.append((piece, quarter, whole))
    assert slow == []


@pytest.mark.parametrize(("kind", "answer", "value"), ANSWERS)
@given(
    dress=st.sampled_from(DRESSES), lead=st.sampled_from(LEADS), pad=st.sampled_from(["", " ", "\n", "\u200b", "\t"])
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_known_answer_is_read_in_every_dress(kind, answer, value, dress, lead, pad):
    inner = lead.format(answer) if dress.startswith(("```", "<think", "{}", "\n")) else answer
    block = "\n" if dress.startswith(("#", ">", "-", "```")) else ""
    reply = pad + (dress.format(inner) if inner != answer else lead.format(block + dress.format(answer))) + pad
    given = GIVEN.get(kind, WHICH)
    options = given.get("options", {})
    context = AnswerContext(options if isinstance(options, dict) else {}, given["question"], given.get("unit", ""))
    reading = read(kind, reply, **given)
    assert correct(kind, reading, value, context=context), (reply, reading)
