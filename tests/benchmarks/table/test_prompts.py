"""Prompts of declared benchmarks, as the harnesses write them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from snellen.benchmarks.table.declaration import PromptStyle
from snellen.benchmarks.table.prompts import placed, prompt_text

OPTIONS = {"A": "mast", "B": "hull"}


def style(**keys: Any) -> PromptStyle:
    return msgspec.convert(keys, PromptStyle)


@pytest.mark.parametrize(
    ("keys", "options", "hint", "expected"),
    [
        (
            {"style": "kit-mcq"},
            OPTIONS,
            "",
            "Question: Taller?\nOptions:\nA. mast\nB. hull\nPlease select the correct answer from the options above. \n",
        ),
        (
            {"style": "kit-mcq"},
            OPTIONS,
            "It is a ship.",
            "Hint: It is a ship.\nQuestion: Taller?\nOptions:\nA. mast\nB. hull\n"
            "Please select the correct answer from the options above. \n",
        ),
        ({"style": "kit-mcq"}, {}, "", "Question: Taller?\n"),
        (
            {"style": "letters"},
            OPTIONS,
            "",
            "Taller?\nA. mast\nB. hull\nAnswer with the option's letter from the given choices directly.",
        ),
        ({"style": "letters"}, {}, "", "Taller?"),
        (
            {"heading": "The choices are:", "option": "({letter}) {text}", "request": "The best is:"},
            {"A": "{letter}", "B": "{text}"},
            "",
            "Taller? The choices are:\n(A) {letter}\n(B) {text}\nThe best is:",
        ),
        ({"style": "letters", "request": ""}, {"A": "A", "B": "B"}, "", "Taller?"),
        ({"style": "question", "after": "\nOne word."}, {}, "", "Taller?\nOne word."),
    ],
)
def test_a_style_writes_question_options_and_request(
    keys: dict[str, Any], options: dict[str, str], hint: str, expected: str
) -> None:
    assert prompt_text(style(**keys), "Taller?", options, hint) == expected


def test_words_of_some_rows_only() -> None:
    by_type = style(style="question", by="type", values={"yes_no": {"style": "question", "after": " Yes or no?"}})
    assert prompt_text(by_type, "Red?", {}, cells={"type": "yes_no"}) == "Red? Yes or no?"
    assert prompt_text(by_type, "Red?", {}, cells={"type": "other"}) == "Red?"
    only = style(style="question", after=" Why?", only_when={"level": "2"})
    assert prompt_text(only, "Red?", {}, cells={"level": 2}) == "Red? Why?"
    assert prompt_text(only, "Red?", {}, cells={"level": 1}) == "Red?"


@pytest.mark.parametrize(
    ("text", "images", "mark", "expected"),
    [
        ("Is it red?", [1, 2], "", [1, 2, "Is it red?"]),
        ("Is <image> like <image>?", [1, 2], "<image>", ["Is ", 1, " like ", 2, "?"]),
        ("Is <image> like <image>?", [1], "<image>", ["Is ", 1, " like ", "?"]),
        ("<image 2> or <image 1>?", [1, 2], "<image {n}>", [2, " or ", 1, "?"]),
        ("<image_1> or <image_0>?", [1, 2], "<image_{n0}>", [2, " or ", 1, "?"]),
        ("<image 1> and <image 1>", [1], "<image {n}>", [1, " and ", 1]),
        ("See <image 3>.", [1, 2], "<image {n}>", [1, 2, "See <image 3>."]),
        ("See <image>.", [1, 2, 3], "<image>", [2, 3, "See ", 1, "."]),
    ],
)
def test_images_stand_at_their_marks_and_the_others_first(
    text: str, images: list[int], mark: str, expected: list[Any]
) -> None:
    assert placed(text, images, mark) == expected
