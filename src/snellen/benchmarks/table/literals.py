"""Values written as text in a cell: lists and objects in JSON, in Python's syntax, or as numpy prints them.

The text is parsed and never evaluated. Parsing is linear in its length and bounded in depth.

Markup of training data around a gold answer is one form of it: `<answer>no</answer>`, `\\boxed{1}`, `#### 4`, `The answer is B.`
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.text import Text
from snellen.scoring.extract.declared import declared
from snellen.scoring.replies.reply import visible
from snellen.scoring.replies.sentences import possible

DEPTH = 8
CHARACTERS = 1 << 24
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>[bruBRU]{0,2}(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"))
      | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
      | (?P<word>[A-Za-z_][A-Za-z_0-9.]*)
      | (?P<mark>[][(){},:=])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U00([01][0-9a-fA-F]{5})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_WORDS = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False, "nan": None}
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_OPENING = frozenset("[{(a")


class NoLiteralError(ValueError):
    """A text that looks like a list or an object and is none."""


def is_literal(text: str) -> bool:
    """Return True for a text that begins and ends like a list, a tuple or an object."""
    text = text.strip()
    if text[:1] not in _OPENING:
        return False
    return text[-1] == _CLOSING.get(text[0], "") != ")" or text.startswith(("array([", "(('", '(("', "('", '("'))


def literal(text: str) -> Any:
    """Return the list or object that a text writes.

    Raises:
        NoLiteralError: it writes neither.
    """
    text = text.strip()
    if len(text) > CHARACTERS:
        raise NoLiteralError(f"longer than {CHARACTERS:,} characters")
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        tokens = _Tokens(text)
        value = tokens.value(0)
        tokens.end()
    if not isinstance(value, (list, dict)):
        raise NoLiteralError("a list or an object was expected")
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoLiteralError(f"unexpected {text[at : at + 10].strip()!r}")
        at = match.end()
        yield str(match.lastgroup), str(match[str(match.lastgroup)])


class _Tokens:
    """Tokens of a text, read one after the other."""

    def __init__(self, text: str) -> None:
        self._following = _tokens(text)
        self._next: tuple[str, str] | None = next(self._following, None)

    def _take(self) -> tuple[str, str]:
        token = self._next
        if token is None:
            raise NoLiteralError("the text ends in the middle")
        self._next = next(self._following, None)
        return token

    def end(self) -> None:
        if self._next is not None and self._next != ("mark", ","):
            raise NoLiteralError(f"{self._next[1]!r} follows the end")

    def value(self, depth: int) -> Any:
        if depth > DEPTH:
            raise NoLiteralError(f"nested deeper than {DEPTH} levels")
        kind, text = self._take()
        if kind == "text":
            return _unquoted(text)
        if kind == "number":
            return float(text) if set(".eE") & set(text) else int(text[:400])
        if kind == "mark" and text in "[(":
            return self._list(_CLOSING[text], depth)
        if kind == "mark" and text == "{":
            return self._object(depth)
        if kind == "word" and text in _WORDS:
            return _WORDS[text]
        if kind == "word" and self._next == ("mark", "("):  # array([...], dtype=object)
            self._take()
            values = self._list(")", depth)
            return values[0] if values and isinstance(values[0], list) else values
        raise NoLiteralError(f"unexpected {text[:20]!r}")

    def _list(self, closing: str, depth: int) -> list[Any]:
        values: list[Any] = []
        while self._next != ("mark", closing):
            if self._next is not None and self._next[0] == "word" and self._next[1] not in _WORDS:
                word = self._take()[1]
                if self._next == ("mark", "="):  # dtype=object says nothing about the values
                    self._take()
                    self._take()
                    continue
                raise NoLiteralError(f"unexpected {word[:20]!r}")
            values.append(self.value(depth + 1))
            if self._next == ("mark", ","):  # numpy writes none
                self._take()
        self._take()
        return values

    def _object(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while self._next != ("mark", "}"):
            name = self.value(depth + 1)
            if self._take() != ("mark", ":"):
                raise NoLiteralError("a colon was expected behind a name")
            values[str(name)] = self.value(depth + 1)
            if self._next == ("mark", ","):
                self._take()
            elif self._next != ("mark", "}"):
                raise NoLiteralError("a comma was expected")
        self._take()
        return values


def _unquoted(text: str) -> str:
    quoted = text.lstrip("bruBRU")
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    plain = _ESCAPE.sub(_character, inner)
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")  # JSON writes an emoji as two escapes
    except UnicodeDecodeError as error:
        raise NoLiteralError("half of a surrogate pair") from error


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if not code:
        return _ESCAPED.get(match[4], match[4])
    number = int(code, 16)
    if number > sys.maxunicode:
        raise NoLiteralError(f"there is no character {code}")
    return chr(number)


_BEHIND_BOX = re.compile(r"[\s.。!$)\]\\*]*")
_HASHES, _BOX = "####", "\\boxed"
_WRAPPED = ("$", "\\", "<", "#")


def unmarked(text: str) -> str:
    """Return the answer that stands in the markup of training data; the text itself where there is none.

    A solution that ends with a boxed answer, with one behind `####` or behind `The answer is`, is that answer.

    >>> unmarked("Two and two are four.\\n#### 4"), unmarked("<think>no</think><answer>yes</answer>")
    ('4', 'yes')
    """
    if "<" in text and (tagged := _last_tagged(text)):
        return unmarked(tagged)
    if _HASHES in text and (behind := text.rpartition(_HASHES)[2].strip()):
        return undressed(behind)
    if _BOX in text and (boxed := _last_boxed(text)):
        return undressed(boxed)
    if text[:1] in _WRAPPED and text[-1:] in ("$", "}", ")", "]", ">"):
        return undressed(text)
    is_sentence = ":" in text or text.count(" ") > 1 or not text.isascii()
    return _announced(text) if is_sentence and _may_announce(text.lower()) else text


def _may_announce(low: str) -> bool:
    return any(word in low for word in possible(low, "answer"))


def _announced(text: str) -> str:
    """Return what stands behind `The answer is`, as a reply would be read; the text itself where it announces nothing."""
    reading = declared(visible(text), Text())
    return text if reading is None or not reading.value else str(reading.value)


def _last_tagged(text: str) -> str:
    """Return the content of the last `<answer>`; empty without one."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    return text[start + len("<answer>") : end].strip() if start >= 0 else ""


def _last_boxed(text: str) -> str:
    """Return the content of the last box that a text ends with; empty if it ends otherwise."""
    start = text.rfind(_BOX) + len(_BOX)
    opening = text.find("{", start)
    if opening < 0 or text[start:opening].strip():
        return ""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            ends = _BEHIND_BOX.fullmatch(text, at + 1) is not None
            return text[opening + 1 : at].strip() if ends else ""
    return ""
