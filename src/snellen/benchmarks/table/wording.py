"""Wording of a table without a declared prompt: images, question, lettered options, a request for the answer's form.

Images stand at the marks in the text if it has any: `<image>` one after the other, `<image 1>` by number. Otherwise they come
first, in their order.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence

from snellen.benchmarks.table.cells import options_in
from snellen.benchmarks.table.declaration import PromptStyle
from snellen.benchmarks.table.gold_kinds import is_ratio
from snellen.benchmarks.table.languages import ENGLISH, Language, languages
from snellen.benchmarks.table.operations import CellError
from snellen.benchmarks.table.prompts import prompt_text
from snellen.benchmarks.table.question import Question
from snellen.scoring.answers.video_moment import FRAMES
from snellen.scoring.coordinates import FORMS, MOST, SIDES, Coordinates
from snellen.types import Image, Part, Prompt, Text, Video

_MARK = re.compile(
    r"<(?:image|img|video)[ _-]?(\d{1,3})?>|<ImageHere>|\[image[ _-]?(\d{1,3})?\]|\{image[ _-]?(\d{1,3})?\}", re.I
)
_PLAIN = {style: PromptStyle(style=style) for style in ("letters", "question")}
_REQUESTED_AS = {"count": "number", "short": "text", "name": "text"}
"""Kinds that are asked for in the words of another one."""


def prompt_writer(
    style: PromptStyle,
    *,
    in_question: bool = False,
    form: str = "yes/no",
    language: str = ENGLISH,
    coordinates: Coordinates | None = None,
    asks_space: bool = False,
) -> Callable[[Question], Prompt]:
    """Return what makes the prompts of a table: it raises CellError for another number of image marks than of images."""
    write = text_writer(
        style, in_question=in_question, form=form, language=language, coordinates=coordinates, asks_space=asks_space
    )
    return lambda question: Prompt(tuple(placed(write(question), [*map(Image, question.images), *question.videos])))


def is_plain(style: PromptStyle) -> bool:
    """Return True for a prompt without words of its own, in Snellen's style or as the bare question."""
    return style == _PLAIN.get(style.style)


def question_text(
    question: Question, style: PromptStyle, *, in_question: bool, form: str, language: str = ENGLISH
) -> str:
    """Return the text of one prompt; see `text_writer`."""
    return text_writer(style, in_question=in_question, form=form, language=language)(question)


def text_writer(
    style: PromptStyle,
    *,
    in_question: bool,
    form: str,
    language: str,
    coordinates: Coordinates | None = None,
    asks_space: bool = False,
) -> Callable[[Question], str]:
    """Return what makes the texts of prompts, with their image marks.

    Args:
        in_question: the question holds its options, and is sent as it is.
        form: how truth questions are answered, `yes/no` or `T/F`.
        language: the code of the language of the request.
        coordinates: the space and order in which boxes and points are asked for; None: nothing is said of them.
        asks_space: the space is named in words.
    """
    if not is_plain(style):
        return lambda question: prompt_text(style, question.question, question.options, question.hint, question.cells)
    words, is_lettered = languages()[language], style.style == "letters"

    def write(question: Question) -> str:
        lines = [f"{words.hint}{question.hint}"] if question.hint else []
        lines.append(question.question)
        if is_lettered and not (in_question and question.options):
            if not lists_options(question):
                lines += [f"{letter}. {text}" for letter, text in question.options.items()]
            if request := words.requests.get(requested_as(question, form)):
                if question.kind == "boxes" and '"label"' in str(question.answer):
                    request = request.replace(FORMS["xyxy"], f'{{"bbox_2d": {FORMS["xyxy"]}, "label": "…"}}')
                if coordinates is not None and question.kind in SIDES:
                    request = _in_space(request, coordinates, words if asks_space else None)
                lines.append(request)
        return "\n".join(lines)

    return write


def _in_space(request: str, coordinates: Coordinates, words: Language | None) -> str:
    """Return the request for boxes or points in the order of the coordinates, and in their space where words are given."""
    request = request.replace(FORMS["xyxy"], coordinates.box_form).replace("[x, y]", coordinates.point_form)
    if words is None:
        return request
    most = MOST.get(coordinates.space)
    space = words.requests["pixels"] if most is None else words.requests["shares"].replace("{most}", str(most))
    return f"{request} {space}"


def requested_as(question: Question, form: str) -> str:
    """Return by which name the requests of a language have that for a question's answer; free texts have none."""
    if question.kind == "truth":
        return form
    if question.kind == "quantity" and isinstance(question.answer, str) and is_ratio(question.answer):
        return "ratio"
    if question.kind == "moment" and "frame" in str(question.answer).casefold():
        return FRAMES
    return _REQUESTED_AS.get(question.kind, question.kind)


def lists_options(question: Question) -> bool:
    """Return True if the text of a question holds all of its options with their letters already."""
    if not question.options:
        return False
    for text in question.options.values():
        if text not in question.question:
            return False
    return options_in(question.question) == dict(question.options)


def may_hold_mark(text: str) -> bool:
    """Return False for a text without a bracket that an image mark begins with, which is told sooner than a match."""
    return "<" in text or "[" in text or "{" in text


def numbered_marks(text: str, options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a question and its options whose image marks have numbers, if options have marks without.

    Options may be asked in another order, and their images go with them.
    """
    if not any(may_hold_mark(option) and _MARK.search(option) for option in options.values()):
        return text, dict(options)
    whole = [text, *options.values()]
    marks = [mark for part in whole for mark in _MARK.finditer(part)]
    if any(any(mark.groups()) for mark in marks):
        return text, dict(options)
    numbers = itertools.count(1)
    first, *rest = [_MARK.sub(lambda _: f"<image {next(numbers)}>", part) for part in whole]
    return first, dict(zip(options, rest, strict=True))


def placed(text: str, media: Sequence[Part]) -> list[Part]:
    """Return the parts of a prompt, images and clips at the marks of its text. Raises CellError as `prompt_of`."""
    marks = list(_MARK.finditer(text)) if may_hold_mark(text) else []
    if not marks:
        return [*media, Text(text)] if text else list(media)
    numbers = [next((int(number) for number in mark.groups() if number), None) for mark in marks]
    if all(number is None for number in numbers):
        if len(marks) != len(media):
            raise CellError(f"{_count(len(marks), 'image mark')} and {_count(len(media), 'image')}")
        order = list(range(len(media)))
    else:
        order = [-1 if number is None else number - 1 for number in numbers]
        if set(order) != set(range(len(media))):
            named = ", ".join(mark[0] for mark in marks[:4])
            raise CellError(f"its marks {named} do not fit {_count(len(media), 'image')}")
    parts: list[Part] = []
    at = 0
    for mark, place in zip(marks, order, strict=True):
        if before := text[at : mark.start()].strip("\n") if not parts else text[at : mark.start()]:
            parts.append(Text(before))
        parts.append(media[place])
        at = mark.end()
    rest = text[at:]
    if rest.strip():
        parts.append(Text(rest.lstrip("\n") if not any(isinstance(part, Text) for part in parts) else rest))
    return _without_blank_texts(parts)


def _without_blank_texts(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if isinstance(part, (Image, Video)) or part.text.strip()]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
