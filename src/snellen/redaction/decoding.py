"""Decoding of disguised text: escapes of JSON, HTML and URLs, tags, terminal sequences. Characters keep their source.

Keys and gold answers are searched in three readings of a text: as it stands, decoded, and decoded without markup. What is
found in a reading is replaced at its source, so that a JSON document stays one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

_SHORT, _MAX_REMEMBERED = 16, 4096
"""Characters of an escape whose meaning is remembered, and their number: texts repeat few escapes many times."""
_meanings: dict[str, str] = {}
ROUNDS = 3
"""Layers of escapes that are undone: a JSON text inside a JSON text inside a URL."""

# Each begins with a literal character, by which a text without any is passed over ten times as quickly. What repeats is
# bounded: while a pattern matches, no other thread runs.
_ESCAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "\\",
        re.compile(
            r"\\(?:\\(?:\\\\){0,4095}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
            r"|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|U[0-9a-fA-F]{8}"
            r"|x[0-9a-fA-F]{2}(?:\\x[0-9a-fA-F]{2}){0,4095}|[0-3][0-7]{2}(?:\\[0-3][0-7]{2}){0,4095}|[nrtbfv0])"
        ),
    ),
    (
        "&",
        re.compile(
            r"&(?:(?:amp;){0,64}+\#(?:0*+[0-9]{1,7}|[xX]0*+[0-9a-fA-F]{1,6});?|(?:amp;){0,64}[A-Za-z][A-Za-z0-9]{1,31};"
            r"|(?:amp;){0,64}(?:nbsp|shy|szlig|[oO]slash|[cC]cedil|ae?lig|AE?lig|[a-zA-Z](?:acute|grave|circ|uml|tilde|ring)))"
        ),
    ),
    ("%", re.compile(r"%(?:25){0,64}(?:[0-9a-fA-F]{2}(?:%(?:25){0,64}[0-9a-fA-F]{2}){0,4095}|u[0-9a-fA-F]{4})")),
    ("0x", re.compile(r"0x[0-9a-fA-F]{2}(?:[\s,;]{1,3}0x[0-9a-fA-F]{2}){0,4095}(?![0-9a-fA-F])")),
)
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)\Z")
_HEX = re.compile(r"[0-9a-fA-F]+")
_BYTES = {  # by the first character of a run: one byte of it
    "%": re.compile(r"%(?:25){0,64}([0-9a-fA-F]{2})"),
    "\\": re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3}))"),
    "0": re.compile(r"0x([0-9a-fA-F]{2})"),
}
_BLANKS = ("\\n", "\\r", "\\t")
_FEW, _SHORT_TEXT = 65, 2000
"""A text is taken apart at fewer occurrences of a character than these: it costs less than a search for what follows it."""
DRAWN_LETTERS = {code: chr(code - 0xE0000) for code in range(0xE0020, 0xE007F)} | {
    first + number: chr(ord("a") + number) for first in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6) for number in range(26)
}
"""Characters that stand for ASCII without being a compatible form of it: tags, which no font draws, squares and flags."""
# Comments, scripts and styles with what they hold; tags; terminal sequences; targets of links; notes and BBCode.
_MARKUP: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "<",
        re.compile(
            r"<(?:!--(?:[^<]|<(?!!--))*?-->|(?:script|style)\b[^<>]*>[^<]*</(?:script|style)\s*>"
            r"""|[A-Za-z/](?:[^<>"']|"[^"<]*"|'[^'<]*')*+>|[^<>]*>)""",
            re.IGNORECASE,
        ),
    ),
    ("\x1b", re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")),
    ("\x9b", re.compile(r"\x9b[0-9;?]*[ -/]*[@-~]")),
    ("](", re.compile(r"""\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\\*(?:"[^"\n]*"|'[^'\n]*'))?\s*\)""")),
    ("][", re.compile(r"\]\[[^\[\]]*\]")),
    (
        "[",
        re.compile(
            r"\[(?:[0-9]{1,3}|\^[^\[\]\s]{1,40}|/?(?:b|i|u|s|code|color|font|quote|size|url)(?:=[^\[\]\n]{0,80})?)\]",
            re.IGNORECASE,
        ),
    ),
)
_UNICODE = re.compile(r"\\{1,16}u[0-9a-fA-F]{4}(?:\\{1,16}u[0-9a-fA-F]{4}){0,4095}")
_BACKSLASHES = re.compile(r"\\{2,16}")
_PIECE = 1 << 16
"""Characters of a long text that markup is taken out of at once."""
_COMMAND = re.compile(
    r"\\\\{0,7}(?:(?:[hv]space\*?|(?:text|f)?colou?r(?:box)?|href|hyperref|label|cite|footnotemark)"
    r"\s?(?:\[[^\[\]]{0,80}\]|\{[^{}]{0,200}\})"
    r"|[A-Za-z]{2,20}(?=\s?[{\[])|q?quad(?![A-Za-z])|[cvHkrudbt](?:(?=\{)|\s{1,3}(?=[A-Za-z])))"
)
"""A command of LaTeX before its argument, with an argument that is not shown; a command that sets an accent."""


_Characters: TypeAlias = Callable[[re.Match[str]], list[tuple[str, int, int]]]


class DecodedText(NamedTuple):
    """Decoded text with its source: character i stands for the source from `starts[i]` to before `ends[i]`."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def as_it_stands(text: str) -> DecodedText:
    """Return the text unchanged, with its positions."""
    return DecodedText(text, range(len(text)), range(1, len(text) + 1))


def readings(text: str) -> Iterator[DecodedText]:
    """Yield the text as it is, decoded, and decoded without markup; equal neighbours are omitted."""
    reading = as_it_stands(text)
    yield reading
    if _may_hold_commands(text):
        plain = _rewritten(reading, _COMMAND, _nothing)
        if plain is not reading:
            yield plain
    for _ in range(ROUNDS):
        before = reading
        for mark, escape in _ESCAPES:
            if mark in reading.text:
                reading = _rewritten(reading, escape, _characters)
        if reading is before:
            break
        yield reading
    plain = reading
    for mark, markup in _MARKUP:
        if mark in plain.text:
            plain = _rewritten(plain, markup, _nothing)
    if plain is not reading:
        yield plain


def texts(text: str) -> Iterator[str]:
    """Yield the texts of `readings` without sources; quick for plain text. May omit rounds between."""
    yield text
    if _may_hold_commands(text):
        plain = _without(text, "\\", _COMMAND)
        if len(plain) < len(text):
            yield plain
    spaced = _with_blanks(text)
    if spaced is None or _may_hold_escapes(spaced):
        decoded = text
        for decoded in _decoded_rounds(text):
            yield decoded
    else:
        decoded = spaced
        if decoded is not text:
            yield decoded
    if not ("<" in decoded or "[" in decoded or "]" in decoded or "\x1b" in decoded or "\x9b" in decoded):
        return
    plain = decoded
    for mark, markup in _MARKUP:
        if mark in plain and (len(mark) == 1 or _holds_pair(plain, mark)):
            plain = _without(plain, mark, markup)
    if len(plain) < len(decoded):
        yield plain


def _with_blanks(text: str) -> str | None:
    r"""Return the text with a space for each \n, \r and \t; None where it has other escapes than these and \", or many."""
    if "\\" not in text:
        return text
    pieces = text.split("\\", _FEW)
    if len(pieces) > _FEW:
        return None
    decoded = pieces[:1]
    changed = False
    for piece in pieces[1:]:
        first = piece[:1]
        if first == '"':
            decoded.append("\\" + piece)
        elif first and first in "nrt":
            decoded.append(" " + piece[1:])
            changed = True
        else:
            return None
    return "".join(decoded) if changed else text


def _may_hold_escapes(text: str) -> bool:
    """Return False if a text without backslash escapes certainly holds no other escape."""
    return "&" in text or "%" in text or ("x" in text and "0x" in text)


def _holds_pair(text: str, pair: str) -> bool:
    """Return whether two characters follow each other; in a long text with a rare first one sooner than a search for both."""
    if len(text) < _SHORT_TEXT:
        return pair in text
    pieces = text.split(pair[0], _FEW)
    if len(pieces) > _FEW:
        return pair in text
    return any(piece[:1] == pair[1] for piece in pieces[1:])


def _decoded_rounds(text: str) -> Iterator[str]:
    """Yield the text after each round of decoding that changes it."""
    decoded = text
    for _ in range(ROUNDS):
        before = decoded
        if "\\u" in decoded:
            decoded = _UNICODE.sub(_unicode, decoded)
        if "\\" in decoded and "\\\\" not in decoded:
            for blank in _BLANKS:
                if blank in decoded:  # a replacement of nothing takes ten times the time
                    decoded = decoded.replace(blank, " ")
        for mark, escape in _ESCAPES:
            if mark in decoded:
                decoded = escape.sub(_replacement, decoded)
        if decoded is before:
            return
        yield decoded


def _without(text: str, mark: str, markup: re.Pattern[str]) -> str:
    """Remove the pattern's matches; a long text goes piece by piece, so that other threads can run."""
    if len(text) <= _PIECE:
        return markup.sub("", text)
    pieces: list[str] = []
    at = 0
    while at < len(text):
        end = text.find(mark, at + _PIECE)
        end = len(text) if end < 0 else end
        pieces.append(markup.sub("", text[at:end]))
        at = end
    return "".join(pieces)


def _unicode(match: re.Match[str]) -> str:
    """Decode a run of \\uXXXX, with the backslashes before each: `texts` are only searched, in all layers at once."""
    text = _BACKSLASHES.sub(r"\\", match[0]).encode().decode("unicode_escape")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if "d" in match[0].lower() else text


def replaced(text: str, spans: Iterable[tuple[int, int]], marker: str) -> str:
    """Replace each span (start, end) by the marker; spans that touch or overlap become one."""
    pieces: list[str] = []
    at = last = 0
    for start, end in sorted(spans):
        if pieces and start <= last:
            last = max(last, end)
            at = last
            continue
        pieces += (text[at:start], marker)
        at = last = end
    return "".join((*pieces, text[at:])) if pieces else text


def source_spans(text: str, reading: DecodedText, positions: Sequence[int], loose: int = 0) -> list[tuple[int, int]]:
    """Return the spans of the source behind these characters of a reading, with what lies between them.

    A quotation mark between two characters stays: in JSON it is structure. Fewer than `loose` characters before the first
    such mark, or behind the last one, are no part of what was found: they begin or end another text by chance.
    """
    pieces: list[list[int]] = []  # start, end, number of characters
    for position in positions:
        begins, ends = reading.starts[position], reading.ends[position]
        if pieces and '"' not in text[pieces[-1][1] : begins]:
            pieces[-1][1] = max(pieces[-1][1], ends)
            pieces[-1][2] += 1
        else:
            pieces.append([begins, ends, 1])
    if len(pieces) > 1 and pieces[-1][2] < loose:
        pieces.pop()
    if len(pieces) > 1 and pieces[0][2] < loose:
        del pieces[0]
    return [(_before_escape(text, start), end) for start, end, _ in pieces]


def _before_escape(text: str, start: int) -> int:
    """Return the start of the escape that `start` lies in: half of one would not be JSON."""
    cut = _CUT_ESCAPE.search(text, max(0, start - 5), start)
    start = start if cut is None else cut.start()
    while start > 0 and text[start - 1] == "\\":
        start -= 1
    return start


def _rewritten(reading: DecodedText, pattern: re.Pattern[str], characters: _Characters) -> DecodedText:
    """Replace each match of the pattern; return the same object if nothing matches."""
    text, starts, ends = reading
    out: list[str] = []
    new_starts: list[int] = []
    new_ends: list[int] = []
    at = 0
    for match in pattern.finditer(text):
        first, last = match.span()
        out.append(text[at:first])
        new_starts.extend(starts[at:first])
        new_ends.extend(ends[at:first])
        for character, begins, stops in characters(match):
            out.append(character)
            new_starts.append(starts[begins])
            new_ends.append(ends[stops - 1])
        at = last
    if at == 0:
        return reading
    out.append(text[at:])
    new_starts.extend(starts[at:])
    new_ends.extend(ends[at:])
    return DecodedText("".join(out), new_starts, new_ends)


def _nothing(match: re.Match[str]) -> list[tuple[str, int, int]]:
    return []


def _replacement(match: re.Match[str]) -> str:
    escape = match[0]
    meaning = _meanings.get(escape)
    if meaning is None:
        meaning = "".join(character for character, _, _ in _characters(match))
        if len(escape) <= _SHORT and len(_meanings) < _MAX_REMEMBERED:
            _meanings[escape] = meaning
    return meaning


def _characters(match: re.Match[str]) -> list[tuple[str, int, int]]:
    """Yield (character, start, end) of an escape; white space for an escape of a control character."""
    escape, (start, end) = match[0], match.span()
    if escape[0] in "%0" or escape[:2] == "\\x" or (escape[0] == "\\" and len(escape) > 3 and escape[1].isdigit()):
        if escape[-5:-4] == "u":
            return [(chr(int(escape[-4:], 16)), start, end)]
        return list(_of_bytes(match.string, start, end))
    return [(character, start, end) for character in _decoded(escape)]


def _of_bytes(text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Decode a run of escaped bytes as UTF-8, or as Latin-1 if they are not UTF-8."""
    units = list(_BYTES[text[start]].finditer(text, start, end))
    data = bytes(int(unit[1], 16) if unit[1] else int(unit[2], 8) for unit in units)
    number = 0
    for character in data.decode("utf-8", "surrogateescape"):
        size = len(character.encode("utf-8", "surrogateescape"))
        first, last = units[number].start(), units[number + size - 1].end()
        yield chr(data[number]) if "\udc80" <= character <= "\udcff" else character, first, last
        number += size


def _may_hold_commands(text: str) -> bool:
    return "\\" in text and ("{" in text or "quad" in text)


def _decoded(escape: str) -> str:
    if escape[0] == "&":
        escape = "&" + escape[1:].replace("amp;", "") if escape.replace("amp;", "") != "&" else "&amp;"
        from html import unescape  # its table of names takes a millisecond, and most texts name no character

        text = unescape(escape if escape.endswith(";") else f"{escape};")
        return text if text != escape else ""
    code = escape.lstrip("\\")
    if not code:
        return "\\" * (len(escape) // 2)
    if code[0] in "nrtbfv":
        return " "
    numbers = [int(digits, 16) for digits in _HEX.findall(code)]
    if len(numbers) == 2:
        high, low = numbers
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    return chr(numbers[0]) if numbers and numbers[0] < 0x110000 else " "
