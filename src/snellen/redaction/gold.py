"""Gold answers of restricted sets: every text written for such a set goes through `strike`.

A gold answer, in each accepted form, is struck wherever its letters and digits stand in their order, whatever its case,
accents and Unicode form, and whatever stands between them that is no letter and no digit: spaces, hyphens, underscores,
punctuation, Markdown, tags, zero-width characters. It is also found joined (`GoldenEagle`, `goldeneagle`), in escapes of
JSON, HTML and URLs, and in base64 of nine bytes and more.

A form is found as a whole: `cat` is not struck from `category`. It must begin and end where a word does, or where small
letters meet a capital; a plural in `s` or `es` is one of its ends. Chinese, Japanese, Korean, Thai and other scripts need no
such end, nor do forms of 12 characters, or of 10 in two words. Between the letters of one word of a form of fewer than 8
characters no white space may stand, unless all of them stand apart (`e a g l e`). A form of 8 characters is found backwards
too, a shorter one where a text turns the direction of writing. Of one that an ellipsis cuts, half is struck.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

from snellen.redaction.decoding import DRAWN_LETTERS, DecodedText, as_it_stands, readings, replaced, source_spans, texts

WITHHELD = "[gold withheld]"

_JOINED, _WEAK, _SPACE, _DECIMAL = 1, 2, 3, 4
"""What stands before a character: a change of case or from letter to digit, a mark, white space, a decimal point."""
_ANYWHERE, _ANYWHERE_WORDS, _SPACED, _BACKWARDS, _APART, _CAMEL, _PLURAL, _CUT = 12, 10, 8, 8, 3, 3, 3, 4
"""Least lengths of forms: found inside words, the same for two words, found with white space inside a word, found backwards,
found with all letters apart, found at a change of case, found with an ending; of a part that is struck before an ellipsis."""
_PREFIX = 6
_FEW = 64
_CUTS = 1_000
"""Ellipses of a text that are looked at."""
_RUN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]|[\x00-/:-@\[-`{-\x7f]+")
# Ranges of scripts that are written without spaces, or whose words take endings without one; compared as numbers, since
# a pattern of them takes a hundredth of a second to compile.
_UNSPACED = (
    *((0x0E00, 0x0FFF), (0x1000, 0x11FF), (0x1780, 0x17FF), (0x2E80, 0x318F), (0x31A0, 0x9FFF)),
    *((0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)),
)
_LATE_JAMO = ((0x1160, 0x11FF), (0xD7B0, 0xD7FF))
_CODED = re.compile(r"[A-Za-z0-9+/_-]{40,}(?:\r?\n[A-Za-z0-9+/_-]+)+={0,2}|[A-Za-z0-9+/_-]{8,}={0,2}")
_TURNED = re.compile("\u202e|202[eE]|8238|80%(?:25)*[aA][eE]")
"""The mark that turns the direction of writing, also escaped."""
_ELLIPSIS = re.compile(r"\[?(?:…|\.{3}|\\u2026)(?:[….]|\\u2026)*")
_LEFT_OUT = re.compile(r"characters left out …\]\n?")
_UNSEEN = frozenset("\u115f\u1160\u3164\uffa0")
"""Letters by their category that no font draws."""
_LOOKALIKES = (
    dict(zip("авекмнорстухѕіјԁһԛԝӏүѵ", "abekmhopctyxsijdhqwlyv", strict=True))
    | dict(zip("αβγεηικνορτυχω", "abyenikvoptuxw", strict=True))
    | dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
    | dict(zip("ɑɛɡɩɵɾʋօսհոցզ", "aegiorvouhngq", strict=True))
    | dict(zip("یکہھ", "يكهه", strict=True))
)
"""Small letters of other scripts that look like Latin ones, in Cyrillic, Greek, small capitals, phonetic letters and
Armenian; and Persian letters that look like Arabic ones."""
_MARKS = frozenset(map(chr, (*range(0x2B9, 0x2E0), 0x640, 0xA788, 0xA78B, 0xA78C)))
"""Letters by their category that are drawn as apostrophes, accents or a longer line: ʻ ʼ ː, and the Arabic tatweel."""
_LETTERS = {
    **{"ø": "o", "ł": "l", "đ": "d", "ŧ": "t", "ƀ": "b", "ɨ": "i", "ʉ": "u", "ƶ": "z", "ɇ": "e", "ð": "d"},
    **{"þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŋ": "n"},
}


class _PlainLetters(dict[int, str]):
    """Code point to plain letters and digits: without case, accents and variants; empty for all else."""

    def __missing__(self, code: int) -> str:
        self[code] = plain = "".join(map(_letter, _base(chr(code))))
        return plain


def _base(character: str) -> str:
    """Return a character without compatible forms and case; for a letter in a square, flag or tag the letter."""
    if letter := DRAWN_LETTERS.get(ord(character)):
        return letter.lower()
    parts = unicodedata.normalize("NFKD", character).casefold()
    return unicodedata.normalize("NFKD", "".join(_LETTERS.get(part, part) for part in parts))


def _letter(character: str) -> str:
    if not character.isalnum() or character in _UNSEEN or character in _MARKS:
        return ""
    digit = unicodedata.decimal(character, None)
    return _LOOKALIKES.get(character, character) if digit is None else str(digit)


_PLAIN = _PlainLetters()


class _Skeleton(NamedTuple):
    """The letters and digits of a reading, the position of each there, and what stands before each (0: nothing)."""

    text: str
    positions: list[int]
    before: bytearray


class _GoldForm(NamedTuple):
    text: str
    starts: frozenset[int]
    """Where its own words begin, from 1 on."""
    anywhere: bool
    spaced: bool


class _GoldIndex(NamedTuple):
    """Forms by their first characters: lengths of the forms that begin so, longest first, and the lengths of the keys."""

    lengths: dict[str, tuple[int, ...]]
    prefixes: tuple[int, ...]


class _Forms(NamedTuple):
    """Forms to be searched: by their letters and digits; all of them; those that may begin inside a word; those that have
    neither letters nor digits."""

    by_text: dict[str, _GoldForm]
    all: _GoldIndex
    inside: _GoldIndex
    marks: tuple[str, ...]


def strike(text: str, forms: Iterable[str], marker: str = WITHHELD) -> str:
    """Replace each of these gold answers by the marker; return the same object if there is none.

    Takes time in proportion to the text, however many forms there are.
    """
    known = _prepared(tuple(forms), _TURNED.search(text) is not None)
    spans: list[tuple[int, int]] = []
    if known.by_text and _may_hold(text, known):
        for reading in readings(text):
            skeleton = _skeleton(reading)
            for first, last in _places(skeleton, known):
                spans += source_spans(text, reading, skeleton.positions[first:last])
    spans += _coded_spans(text, known)
    spans += _cut_spans(text, known)
    text = replaced(text, spans, marker)
    for mark in known.marks:
        text = text.replace(mark, marker)
    return text


def quotes(text: str, forms: Iterable[str]) -> bool:
    """Return True if a text holds one of the forms, inside words too, so that it must not be published.

    A form of one or two letters must be a word of its own: it is in every other text.
    """
    known = _prepared(tuple(forms), _TURNED.search(text) is not None)
    if any(mark in text for mark in known.marks):
        return True
    for reading in texts(text):
        plain = letters(reading)
        for form in known.by_text:
            if (len(form) > 2 or _is_unspaced(form[0])) and form in plain:
                return True
        if any(len(form) <= 2 for form in known.by_text) and _holds(reading, known):
            return True
    return any(True for spans in (_coded_spans(text, known), _cut_spans(text, known)) for _ in spans)


def letters(text: str) -> str:
    """Return letters and digits alone, without case, accents and compatible forms, to compare names by."""
    return text.translate(_PLAIN)


@lru_cache(4096)
def _prepared(forms: tuple[str, ...], turned: bool) -> _Forms:
    by_text: dict[str, _GoldForm] = {}
    marks: list[str] = []
    for written in forms:
        skeleton = _skeleton(as_it_stands(written))
        if not skeleton.text:
            marks += [written.strip()] * bool(written.strip())
            continue
        starts = frozenset(at for at in range(1, len(skeleton.text)) if skeleton.before[at])
        size = len(skeleton.text)
        known = by_text.get(skeleton.text)
        by_text[skeleton.text] = _GoldForm(
            skeleton.text,
            starts if known is None else starts | known.starts,
            size >= _ANYWHERE or (size >= _ANYWHERE_WORDS and bool(starts)) or (known is not None and known.anywhere),
            size >= _SPACED or any(map(_is_unspaced, skeleton.text)),
        )
    for form in list(by_text.values()):
        if turned or len(form.text) >= _BACKWARDS:
            starts = frozenset(len(form.text) - at for at in form.starts)
            by_text.setdefault(form.text[::-1], form._replace(text=form.text[::-1], starts=starts))
    inside = [text for text, form in by_text.items() if form.anywhere or _is_unspaced(text[0])]
    return _Forms(by_text, _index(by_text), _index(inside), tuple(marks))


def _index(forms: Iterable[str]) -> _GoldIndex:
    lengths: dict[str, set[int]] = {}
    for text in forms:
        lengths.setdefault(text[:_PREFIX], set()).add(len(text))
    return _GoldIndex(
        {prefix: tuple(sorted(sizes, reverse=True)) for prefix, sizes in lengths.items()},
        tuple(sorted({len(prefix) for prefix in lengths}, reverse=True)),
    )


def _may_hold(text: str, known: _Forms) -> bool:
    """Return False if the text certainly holds none of a few forms."""
    if len(known.by_text) > _FEW:
        return True
    return any(form in plain for plain in map(letters, texts(text)) for form in known.by_text)


def _skeleton(reading: DecodedText) -> _Skeleton:
    out: list[str] = []
    positions: list[int] = []
    before = bytearray()
    gap, last = _SPACE, ""  # what stands before the next character; the run or character before it, if it is adjacent
    text = reading.text
    for run in _RUN.finditer(text):
        word = run[0]
        if word == " ":  # the commonest by far
            gap, last = max(gap, _SPACE), ""
            continue
        if not word.isascii():
            plain = _PLAIN[ord(word)]
            if not plain:
                gap, last = max(gap, _SPACE if word.isspace() else _WEAK), ""
                if unicodedata.category(word).startswith("M") and before:
                    gap, last = 0, word  # an accent is part of its letter
                continue
            unspaced = _is_unspaced(plain[0])
            if last and unspaced != _is_unspaced(last[-1]):
                gap = _WEAK
            elif last.islower() and word.isupper():
                gap = _JOINED
            positions.extend([run.start()] * len(plain))
            last = plain
        elif word[0].isalnum():
            plain = word.lower()
            if last.isascii() and last:
                gap = _JOINED
            elif last and _is_unspaced(last[-1]):
                gap = _WEAK
            positions.extend(range(*run.span()))
            last = plain
        else:
            at, end = run.span()
            decimal = word == "." and text[at - 1 : at].isdigit() and text[end : end + 1].isdigit()
            hyphen = "-" in word or "\xad" in word
            space = not hyphen and any(character.isspace() for character in word)
            gap, last = max(gap, _DECIMAL if decimal else _SPACE if space else _WEAK), ""
            continue
        out.append(plain)
        before.append(gap)
        before.extend(bytes(len(plain) - 1))
        gap = 0
    return _Skeleton("".join(out), positions, before)


def _places(skeleton: _Skeleton, known: _Forms) -> Iterator[tuple[int, int]]:
    """Yield the positions of forms in the skeleton; of two that begin at one place the longer one."""
    text = skeleton.text
    places: set[int] = set()
    starts = tuple(compress(range(len(text)), skeleton.before))
    for index, positions in ((known.all, starts), (known.inside, range(len(text)))):
        begins = index.lengths
        for size in index.prefixes:
            places.update(at for at in positions if text[at : at + size] in begins)
    for at in sorted(places):
        end = max((_end(skeleton, at, form) for form in _candidates(text, at, known)), default=0)
        if end:
            yield at, end


def _candidates(text: str, at: int, known: _Forms) -> Iterator[_GoldForm]:
    for size in known.all.prefixes:
        for length in known.all.lengths.get(text[at : at + size], ()):
            form = known.by_text.get(text[at : at + length])
            if form is not None and min(length, _PREFIX) == size:
                yield form


def _end(skeleton: _Skeleton, at: int, form: _GoldForm) -> int:
    """Return the end of a form that begins at a place; 0 if it is not complete there."""
    text, _, before = skeleton
    size = len(form.text)
    end = at + size
    inner = before[at + 1 : end]
    if not form.spaced and not (size >= _APART and all(inner) and not form.text.isdecimal()):
        for number, gap in enumerate(inner, 1):
            if gap == _SPACE and number not in form.starts and not _is_unspaced(text[at + number]):
                return 0
    if end < len(text) and _is_late_jamo(text[end]) and _is_unspaced(text[end - 1]) and not before[end]:
        return 0  # the last syllable goes on
    if form.anywhere:
        return end
    if not (_is_unspaced(text[at]) or _is_edge(skeleton, at, size)):
        return 0
    if _is_unspaced(text[end - 1]) or _is_edge(skeleton, end, size):
        return end
    if size >= _PLURAL and text[end - 1].isalpha():
        for ending in ("s", "es")[text[end - 1] == "s" :]:
            if text.startswith(ending, end) and _is_edge(skeleton, end + len(ending), size):
                return end + len(ending)
    return 0


def _is_unspaced(character: str) -> bool:
    return character > "\u0dff" and any(first <= ord(character) <= last for first, last in _UNSPACED)


def _is_late_jamo(character: str) -> bool:
    """Return True if a character continues a Korean syllable that was taken apart."""
    return any(first <= ord(character) <= last for first, last in _LATE_JAMO)


def _is_edge(skeleton: _Skeleton, at: int, size: int) -> bool:
    """Return True if a word begins or ends before this character."""
    if at >= len(skeleton.text):
        return True
    gap = skeleton.before[at]
    return gap in (_WEAK, _SPACE) or (gap == _JOINED and size >= _CAMEL)


def _coded_spans(text: str, known: _Forms) -> Iterator[tuple[int, int]]:
    """Yield the spans of base64 whose text holds one of the forms."""
    if not known.by_text:
        return
    if not any(
        _holds(decoded, known)
        for plain in texts(text)
        for run in _CODED.finditer(plain)
        for decoded in _decoded(run[0])
    ):
        return
    for reading in readings(text):
        for run in _CODED.finditer(reading.text):
            if any(_holds(decoded, known) for decoded in _decoded(run[0])):
                yield from source_spans(text, reading, range(*run.span()))


def _cut_spans(text: str, known: _Forms) -> Iterator[tuple[int, int]]:
    """Yield the spans of forms cut by an ellipsis: half of one before it, or behind a count of omitted text."""
    if not 0 < len(known.by_text) <= _FEW or ("…" not in text and "..." not in text and "u2026" not in text):
        return
    longest = max(map(len, known.by_text))
    for mark in islice(_ELLIPSIS.finditer(text), _CUTS):
        first = max(0, mark.start() - 12 * longest - 40)
        skeleton = _skeleton(as_it_stands(text[first : mark.start()]))
        for form in known.by_text.values():
            for size in range(len(form.text) - 1, max(_CUT, (len(form.text) + 1) // 2) - 1, -1):
                at = len(skeleton.text) - size
                if size in form.starts or at < 0 or not skeleton.text.endswith(form.text[:size]):
                    continue  # a whole word before an ellipsis is an ordinary word
                if _end(skeleton, at, _part(form, 0, size)):
                    yield first + skeleton.positions[at], mark.start()
                    break
    for mark in islice(_LEFT_OUT.finditer(text), _CUTS):
        skeleton = _skeleton(as_it_stands(text[mark.end() : mark.end() + 12 * longest + 40]))
        for form in known.by_text.values():
            for size in range(len(form.text) - 1, max(_CUT, (len(form.text) + 1) // 2) - 1, -1):
                begin = len(form.text) - size
                if begin in form.starts or not skeleton.text.startswith(form.text[begin:]):
                    continue
                if _end(skeleton, 0, _part(form, begin, size)):
                    yield mark.end(), mark.end() + skeleton.positions[size - 1] + 1
                    break


def _part(form: _GoldForm, begin: int, size: int) -> _GoldForm:
    starts = frozenset(at - begin for at in form.starts)
    return form._replace(text=form.text[begin : begin + size], starts=starts)


def _decoded(code: str) -> Iterator[str]:
    """Yield the texts that a run of base64 may hold; in an address, also its parts between slashes."""
    code = "".join(code.split())
    for part in dict.fromkeys((code, *code.split("/"))):
        plain = part.rstrip("=").replace("-", "+").replace("_", "/")
        plain = plain[: len(plain) - (len(plain) % 4 == 1)]
        try:
            yield b64decode(plain + "=" * (-len(plain) % 4)).decode()
        except ValueError:  # no base64, or not that of a text
            continue


def _holds(text: str, known: _Forms) -> bool:
    return any(True for _ in _places(_skeleton(as_it_stands(text)), known))
