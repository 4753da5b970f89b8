"""Cells as options and as gold answers.

Options: a list, an object, either written as text, lines that begin with letters (`A. robin`), or a separated text. Answers: a
letter, an index, the text of an option, a truth value, a number, one or several accepted texts.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypeVar

from snellen.benchmarks.table.literals import NoLiteralError, is_literal, literal, unmarked
from snellen.benchmarks.table.operations import CellError
from snellen.benchmarks.table.rows import plain_text

T = TypeVar("T")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Convention: TypeAlias = Literal["letter", "text", "index0", "index1", "bool"]
CONVENTIONS: tuple[Convention, ...] = ("letter", "text", "index0", "index1", "bool")
LETTER_INDEX = "letter-index0"
"""A convention that is only declared: a whole number is an index from 0, anything else a letter."""
SEPARATORS = ("\n", "|", ";", "\t", ",")
TRUTH = {"yes": True, "no": False, "true": True, "false": False, "y": True, "n": False, "t": True, "f": False}
_CAPITALS, _LETTER_KEYS = frozenset(LETTERS), frozenset(LETTERS + LETTERS.lower())
_WHOLE = re.compile(r"\s*[-+]?\d{1,18}(?:\.0+)?\s*")
_LINE = re.compile(r"^[ \t]*[(\[]?([A-Za-z])[).:\]、．][ \t]*(\S.*)$", re.MULTILINE)
_INLINE = re.compile(r"(?:^|(?<=[\s,;?.:]))(?:\(([A-Za-z])\)|([A-Z])[.):])\s*(?=\S)")
_COMMA = re.compile(r"(?<!\d),|,(?!\d{3}(?!\d))")
_SEVERAL = (
    re.compile(r"[;|\n]"),
    re.compile(
        r"\s*[,;/&+、，|\n]\s*(?:(?:and|und|et|y|e|и)\s+)?|\s+(?:and|und|et|y|e|и)\s+|\s*[和と및]\s*", re.IGNORECASE
    ),
    re.compile(r"\s+"),
)
"""What stands between the options that an answer lists, the surest first."""
MOST_LISTED = 2_000
"""Characters of an answer that may list options."""
_LETTER = re.compile(r"[(\[]?\s*([A-Za-z])\s*[)\].:,]*")
_LETTERED_TEXT = re.compile(r"[(\[]?([A-Za-z])[)\].:]\s+(\S.*)", re.DOTALL)
_WORDED = re.compile(r"(?:option|choice|answer)[ _:]*(?:is )?[(\[]?([A-Za-z0-9]+)[)\]]?\.?", re.IGNORECASE)


def options_of(value: Any, separator: str = "") -> dict[str, str]:
    """Return letter to text; empty for an empty cell.

    Args:
        separator: what stands between options of a text; empty: found from the text.

    Raises:
        CellError: a text or an object of an unknown form, or more than 26 options.
    """
    if value is None or value == "" or value != value:
        return {}
    if isinstance(value, str):
        value = _from_text(value, separator)
    if isinstance(value, dict):
        return _from_object(value)
    if isinstance(value, (list, tuple)):
        return _lettered([_text_of(element) for element in value])
    raise CellError(f"its options are {value!r:.60}; a list was expected")


def _text_of(element: Any) -> str:
    if isinstance(element, dict):
        for name in ("text", "content", "value", "option", "choice", "answer"):
            if isinstance(element.get(name), (str, int, float)):
                return plain_text(element[name])
    return plain_text(element)


def _from_text(text: str, separator: str) -> Any:
    if separator:
        return _parts(text, separator)
    if is_literal(text):
        try:
            return literal(text)
        except NoLiteralError as error:
            raise CellError(f"its options cannot be read: {error}") from error
    if lettered := options_in(text):
        return lettered
    if mark := separator_of(text):
        return _parts(text, mark)
    raise CellError(f"its options {text[:60]!r} are one text; a list, or texts between semicolons, were expected")


def _parts(text: str, mark: str) -> list[str]:
    """Split options at a separator. A comma in quotes, or in `1,000` where others are followed by a space, is none."""
    if mark == "," and '"' in text and "\n" not in text:
        parts = next(csv.reader([text], skipinitialspace=True), [])
    elif mark == "," and ", " in text:
        parts = _COMMA.split(text)
    else:
        parts = text.split(mark)
    return [part.strip() for part in parts if part.strip()]


def separator_of(text: str) -> str:
    """Return what stands between the options of a text; empty if it holds no two."""
    return next((mark for mark in SEPARATORS if sum(bool(part.strip()) for part in text.split(mark)) > 1), "")


def _from_object(value: Mapping[str, Any]) -> dict[str, str]:
    if value and value.keys() <= _LETTER_KEYS:
        options = {key.upper(): text if isinstance(text, str) else _text_of(text) for key, text in value.items()}
        return {letter: text for letter, text in options.items() if text.strip()}
    texts, labels = value.get("text", value.get("texts")), value.get("label", value.get("labels"))
    if isinstance(texts, list):
        if isinstance(labels, list) and len(labels) == len(texts) and all(_is_letter(label) for label in labels):
            return {str(label).upper(): _text_of(text) for label, text in zip(labels, texts, strict=True)}
        return _lettered([_text_of(text) for text in texts])
    keys = [str(key).strip() for key in value]
    if keys and all(map(_is_letter, keys)):
        options = {key.upper(): _text_of(text) for key, text in zip(keys, value.values(), strict=True)}
        return {letter: text for letter, text in options.items() if text.strip()}
    texts = list(value.values())
    if all(key.isascii() and key.isdigit() and len(key) < 3 for key in keys):
        texts = [value[key] for key in sorted(value, key=int)]
    return _lettered([_text_of(text) for text in texts])


def _is_letter(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 1 and text.isascii() and text.isalpha()


def _lettered(texts: Sequence[str]) -> dict[str, str]:
    """Letter texts in their order; letters that all of them begin with are theirs."""
    if len(texts) > len(LETTERS):
        raise CellError(f"{len(texts):,} options; at most {len(LETTERS)} have a letter")
    own = [_LETTERED_TEXT.fullmatch(text.strip()) for text in texts]
    if all(own) and [match[1].upper() for match in own if match] == list(LETTERS[: len(texts)]):
        return {match[1].upper(): match[2].strip() for match in own if match}
    return {LETTERS[at]: text.strip() for at, text in enumerate(texts) if text.strip()}


def options_in(text: str) -> dict[str, str]:
    """Return the lettered options that stand in a text, by lines or in one line; empty if there are no two.

    Letters begin with A and follow each other: `A. robin` and `B. wren` by lines, `(A) robin (B) wren` in one.
    """
    lines = [(match[1].upper(), match[2].strip()) for match in _LINE.finditer(text)]
    by_line = _consecutive(lines)
    if len(by_line) > 1 and not (len(by_line) == 2 and _INLINE.search(by_line[-1][1])):
        return dict(by_line)
    marks = [((match[1] or match[2]).upper(), match.start(), match.end()) for match in _INLINE.finditer(text)]
    chosen = _consecutive([(letter, (start, end)) for letter, start, end in marks])
    if len(chosen) > 1:
        line_end = text.find("\n", chosen[-1][1][1])
        ends = [*(start for _, (start, _) in chosen[1:]), len(text) if line_end < 0 else line_end]
        parts = [text[begin:end].strip(" \t\r\n,;") for (_, (_, begin)), end in zip(chosen, ends, strict=True)]
        if all(parts):
            return dict(zip(LETTERS, parts, strict=False))
    return {}


def _consecutive(marks: Sequence[tuple[str, T]]) -> list[tuple[str, T]]:
    """Return the last run of at least two marks whose letters are A, B, C …; others between them are skipped."""
    run: list[tuple[str, T]] = []
    longest: list[tuple[str, T]] = []
    for letter, place in marks:
        if letter == "A":
            run = [(letter, place)]
        elif run and len(run) < len(LETTERS) and letter == LETTERS[len(run)]:
            run.append((letter, place))
            longest = run
    return longest


def whole(value: Any) -> int | None:
    """Return a cell as a whole number; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(float(value))
    return None


def number_of(value: Any) -> int | float | None:
    """Return a cell as a number; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else None
    text = str(value).strip()
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", text):
        text = text.replace(",", "")
    if not re.fullmatch(r"[-+]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][-+]?\d{1,2})?", text):
        return None
    return int(text) if re.fullmatch(r"[-+]?\d{1,18}", text) else float(text)


def truth_of(value: Any, *, numbers: bool = False) -> bool | None:
    """Return a cell as a truth value; None if it is none. `numbers`: 1 and 0 are truth values too."""
    if isinstance(value, bool):
        return value
    if numbers and whole(value) in (0, 1):
        return whole(value) == 1
    return TRUTH.get(str(value).strip().rstrip(".").lower()) if isinstance(value, str) else None


def plain_answer(value: Any) -> Any:
    """Return the answer in a cell: that of a list of one, or of an object with a label or a text."""
    if isinstance(value, str):
        if value[:1] != "[" or not is_literal(value):
            return value
        with suppress(NoLiteralError):
            several = literal(value)
            value = several[0] if len(several) == 1 and not is_labelled_box(several[0]) else value
    if isinstance(value, (list, tuple)) and len(value) == 1 and not is_labelled_box(value[0]):
        value = value[0]
    if isinstance(value, dict) and not is_labelled_box(value):
        for name in ("label", "letter", "index", "answer", "value", "text"):
            if isinstance(value.get(name), (str, int, float)):
                return value[name]
    return value


def is_labelled_box(value: Any) -> bool:
    """Return True for an object with a box, whose label is no answer without it."""
    return isinstance(value, dict) and not {"bbox", "bbox_2d", "box_2d"}.isdisjoint(value)


def letter_of(value: Any, options: Mapping[str, str], convention: str) -> str | None:
    """Return the letter of the option that an answer names under a convention; None if it names none.

    Args:
        options: letter to text.
        convention: `letter`, `text`, `index0`, `index1`, or `bool` for options that say yes and no.
    """
    letter = _letter_of(value, options, convention)
    if letter is None and isinstance(value, str) and (plain := unmarked(value)) != value:
        letter = _letter_of(plain, options, convention)
        if letter is None and convention == "text":
            letter = _letter_of(plain, {letter: unmarked(option) for letter, option in options.items()}, convention)
    return letter


def letters_of(value: Any, options: Mapping[str, str], convention: str) -> tuple[str, ...]:
    """Return the letters of the options that an answer names, one or several (`A,C`, `AC`, a list), in their order.

    Empty if a part of it names none. An answer that is one option names that one alone.
    """
    if convention == "letter" and isinstance(value, str) and value in options and value in _CAPITALS:
        return (value,)  # nearly every answer
    letter = letter_of(value, options, convention)
    if letter is not None:
        return (letter,)
    for parts in _parts_of_answer(value, convention):
        letters = [letter_of(part, options, convention) for part in parts]
        if len(letters) > 1 and None not in letters and len(set(letters)) == len(letters):
            return tuple(letter for letter in options if letter in letters)
    return ()


def _parts_of_answer(value: Any, convention: str) -> Iterator[Sequence[Any]]:
    """Yield the ways in which an answer may list several options."""
    if isinstance(value, (list, tuple)):
        yield value
        return
    text = unmarked(value).strip() if isinstance(value, str) else ""
    if not text or len(text) > MOST_LISTED:
        return
    if is_literal(text):
        with suppress(NoLiteralError):
            listed = literal(text)
            if isinstance(listed, list):
                yield listed
                return
        text = text[1:-1]
    if convention == "letter" and text.isascii() and text.isalpha() and 1 < len(text) <= len(LETTERS):
        if text.isupper() or list(text) == sorted(text):
            yield list(text)
        return
    for mark in _SEVERAL:
        parts = [part.strip() for part in mark.split(text)]
        parts = [part for part in parts if part]
        if len(parts) > 1:
            yield parts


def _letter_of(value: Any, options: Mapping[str, str], convention: str) -> str | None:
    if convention == LETTER_INDEX:
        convention = "letter" if whole(value) is None else "index0"
    if convention in ("index0", "index1"):
        position = whole(value)
        if position is None and isinstance(value, str) and (worded := _WORDED.fullmatch(value.strip())):
            position = whole(worded[1])
        return None if position is None else _at(options, position - (convention == "index1"))
    if convention == "bool":
        truth = truth_of(value, numbers=True)
        saying = [letter for letter, option in options.items() if truth is not None and truth_of(option) is truth]
        return saying[0] if len(saying) == 1 else None
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        value = plain_text(value)
    text = plain_text(value).strip()
    if convention == "letter":
        if (letter := letter_in(text)) in options:
            return letter
        lettered = _LETTERED_TEXT.fullmatch(text)
        if lettered is not None and _same(options.get(lettered[1].upper(), ""), lettered[2]):
            return lettered[1].upper()
        return None
    alike = [letter for letter, option in options.items() if option.strip() == text]
    if not alike:
        folded = _folded(text)
        alike = [letter for letter, option in options.items() if option.strip() and _folded(option) == folded]
    return alike[0] if len(alike) == 1 else None


def letter_in(value: Any) -> str:
    """Return the letter that is all of an answer, `B`, `(b)` or `Option B`; empty for any other."""
    if not isinstance(value, str):
        return ""
    if value in _LETTER_KEYS:
        return value.upper()
    match = _LETTER.fullmatch(value.strip()) or _WORDED.fullmatch(value.strip())
    return match[1].upper() if match is not None and _is_letter(match[1]) else ""


def _at(options: Mapping[str, str], position: int) -> str | None:
    """Return the letter at a position from 0, where an empty option keeps its place: C is 2 without a B too."""
    letters = list(options)
    in_order = letters == sorted(letters) and all(letter in LETTERS for letter in letters)
    if in_order and 0 <= position < len(LETTERS):
        return LETTERS[position] if LETTERS[position] in options else None
    return letters[position] if 0 <= position < len(letters) else None


def _same(first: str, second: str) -> bool:
    return bool(first.strip()) and _folded(first) == _folded(second)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def accepted_texts(value: Any) -> tuple[str, ...]:
    """Return the accepted texts of an open answer: one, or those of a list; empty for an empty cell."""
    if isinstance(value, str) and is_literal(value) and value.strip()[0] == "[":
        try:
            value = literal(value)
        except NoLiteralError:
            return (value.strip(),)
    if isinstance(value, dict):
        inner = value.get("text", value.get("answers", value.get("answer", value.get("value"))))
        return () if inner is None else accepted_texts(inner)
    if isinstance(value, (list, tuple)):
        return tuple(text for element in value for text in accepted_texts(element))
    text = plain_text(value).strip()
    return (text,) if text else ()
