"""Prompts of declared benchmarks: images first, then one text, unless marks in the text say where an image stands.

`kit-mcq` is VLMEvalKit's form of a multiple-choice question (commit e8e78f0), `letters` that of MuirBench and lmms-eval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import structs

from snellen.benchmarks.table.declaration import PromptStyle
from snellen.benchmarks.table.operations import text_of
from snellen.benchmarks.table.question import Question
from snellen.types import Image, Part, Prompt, Text

T = TypeVar("T")
PLACE_OF_IMAGES = "{images}"
KIT_REQUEST = "Please select the correct answer from the options above. \n"
LETTER_REQUEST = "Answer with the option's letter from the given choices directly."


def prompt_text(
    style: PromptStyle,
    question: str,
    options: Mapping[str, str],
    hint: str = "",
    cells: Mapping[str, Any] | None = None,
) -> str:
    """Return the text of a prompt, with its image marks.

    Args:
        options: letter to text; empty for an open question.
        hint: a text before the question; empty without one.
        cells: the row's cells, for `by` and `only_when`.
    """
    style = _style_of(style, cells)
    if style.template:
        return _templated(style, style.template.replace(PLACE_OF_IMAGES, ""), question, options, cells or {})
    text = _FORMS[style.style](style, question, options, hint)
    if all(text_of((cells or {}).get(column)) == value for column, value in style.only_when.items()):
        text = f"{style.before}{text}{style.after}"
    return text


def _style_of(style: PromptStyle, cells: Mapping[str, Any] | None) -> PromptStyle:
    other = style.values.get(text_of((cells or {}).get(style.by))) if style.by else None
    return style if other is None else _style_of(other, cells)


def _kit(style: PromptStyle, question: str, options: Mapping[str, str], hint: str) -> str:
    text = f"Hint: {hint}\n" if hint else ""
    text += f"Question: {question}\n"
    if options:
        lines = "".join(f"{letter}. {option}\n" for letter, option in options.items())
        text += f"Options:\n{lines}{KIT_REQUEST if style.request is None else style.request}"
    return text


def _letters(style: PromptStyle, question: str, options: Mapping[str, str], hint: str) -> str:
    text = f"{hint}\n{question}" if hint else question
    if not options:
        return text
    form = style.option.replace("{letter}", "{0}").replace("{text}", "{1}")
    lines = "\n".join(_option(form, letter, option) for letter, option in options.items() if letter != option)
    blank = "" if style.heading.startswith("\n") else " "
    listed = f"{blank}{style.heading}\n{lines}" if style.heading else f"\n{lines}" if lines else ""
    request = LETTER_REQUEST if style.request is None else style.request
    return f"{text}{listed}\n{request}" if request else f"{text}{listed}"


_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


def _templated(
    style: PromptStyle, template: str, question: str, options: Mapping[str, str], cells: Mapping[str, Any]
) -> str:
    """Return a template with its fields filled in, in one pass: what a row puts there is no field."""
    form = style.option.replace("{letter}", "{0}").replace("{text}", "{1}")
    values = {
        "question": question,
        "options": "\n".join(_option(form, letter, text) for letter, text in options.items()),
        "letters": ",".join(options),
    }

    def filled(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        name = found[1]
        return values[name] if name in values else text_of(cells[name]) if name in cells else found[0]

    return _FIELD.sub(filled, template)


def _option(form: str, letter: str, text: str) -> str:
    return "".join({"{0}": letter, "{1}": text}.get(part, part) for part in re.split(r"(\{[01]\})", form))


def _question(style: PromptStyle, question: str, options: Mapping[str, str], hint: str) -> str:
    return f"{hint}\n{question}" if hint else question


_FORMS = {"kit-mcq": _kit, "letters": _letters, "question": _question}


def placed(text: str, images: Sequence[T], mark: str) -> list[str | T]:
    """Return text and images in the order in which they are sent; texts are never empty.

    Images without a mark of their own stand before the text, in their order. A mark without an image is removed where marks
    are counted (`<image>`), and stays where they are numbered (`<image {n}>`; `{n0}`: from 0).
    """
    if not mark:
        return [*images, text] if text else [*images]
    parts: list[str | T] = []
    used: set[int] = set()
    first_number = 0 if "{n0}" in mark else 1
    pattern = re.escape(mark.replace("{n0}", "{n}")).replace(re.escape("{n}"), r"(\d{1,3})")
    at = counted = 0
    for match in re.finditer(pattern, text):
        number = int(match[1]) - first_number if match.groups() else counted
        counted += 1
        if match.groups() and not 0 <= number < len(images):
            continue
        parts.append(text[at : match.start()])
        if number < len(images):
            parts.append(images[number])
            used.add(number)
        at = match.end()
    parts.append(text[at:])
    first = [image for number, image in enumerate(images) if number not in used]
    return [*first, *(part for part in parts if part != "")]


def prompt(style: PromptStyle, question: Question) -> Prompt:
    """Return the prompt of a question; clips stand before the images."""
    images: list[Part] = [*question.videos, *(Image(blob) for blob in question.images)]
    style = _style_of(style, question.cells)
    if images and PLACE_OF_IMAGES in style.template:
        before, _, after = style.template.partition(PLACE_OF_IMAGES)
        first, last = (
            _templated(style, words, question.question, question.options, question.cells)
            for words in (before, after.removeprefix("\n"))
        )
        shown = (Text(first), *images, Text(last))
        return Prompt(tuple(part for part in shown if not isinstance(part, Text) or part.text))
    text = prompt_text(style, question.question, question.options, question.hint, question.cells)
    parts = placed(text, images, style.image_marks)
    return Prompt(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def requested_prompt(
    style: PromptStyle, asks: tuple[Callable[[Question], Prompt], Callable[[Question], Prompt]], question: Question
) -> Prompt:
    """Return the prompt of a question with the request for its answer in its place in the style's words.

    Args:
        style: as declared, with `{request}` or `{space}`.
        asks: what writes the prompts of bare questions, with and without the space of coordinates.
    """
    style = _style_of(style, question.cells)
    bare = structs.replace(question, question="", hint="", images=(), videos=(), options={})
    request, form = ("".join(part.text for part in ask(bare).parts if isinstance(part, Text)).strip() for ask in asks)
    before, after = (
        words.replace("{request}", request).replace("{space}", request.removeprefix(form).strip())
        for words in (style.before, style.after)
    )
    return prompt(structs.replace(style, by="", before=before, after=after.rstrip()), question)
