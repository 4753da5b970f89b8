"""Keys: every text on its way to a file, a terminal or a report goes through `redact`.

Struck are the keys that this process was given (`register`), and whatever has the shape of a key of the usual services.
A key that was given is struck in these forms, at any place of a text:

- as it is, in any mix of upper and lower case;
- with anything between its characters that is no letter and no digit: spaces, line breaks, zero-width and control
  characters, punctuation, tags, terminal sequences;
- with its characters escaped, wholly or in part, as in JSON, HTML, URLs, `\\x6b` or `0x6b`, in up to three layers;
- in letters of full width, and other forms that Unicode calls compatible; in tag characters, squares and flags;
- backwards;
- as hexadecimal digits, and as base64 of any text that holds it, standard or for URLs, padded or not;
- a part of it: a third of its letters and digits, or 16 where that is fewer, but at least 8 with a digit among them, or
  12 without; of the last two forms, and backwards, a half.

Numbers in a row, with commas or spaces between them, stay: a list of labels may have the digits of a key in their order.
As hexadecimal digits of a key they are struck.

A key of fewer than 12 letters and digits without a digit among them may be an ordinary word. It is struck as it is, and
in the last form but one. A key of fewer than 8 characters is a placeholder and stays.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from snellen.redaction.decoding import DRAWN_LETTERS, DecodedText, readings, replaced, source_spans, texts
from snellen.text import normalized

REDACTED = "[redacted]"

_SHORT, _MAX_REMEMBERED = 64, 256
"""Characters of a text that is remembered as clear, and their number: replies repeat names, reasons and short answers."""

# A shorter "key" is a placeholder (EMPTY, none, dummy); striking it out would alter the answers of models.
_SHORTEST = 8
# A key without digits may be words: `not-needed` must not be found in "it is not needed".
_SHORTEST_WORDS = 12

# (character, marker, pattern): a search for one character, then for the marker, comes first. They are a thousand and a
# hundred times cheaper than the pattern, and fail for most texts. "Bearer" wants a digit after it: the word occurs in prose.
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("-", "sk-", r"\bsk-[\w*-]{16,}"),
    ("_", "hf_", r"\bhf_[A-Za-z0-9]{16,}"),
    ("_", "gsk_", r"\bgsk_[A-Za-z0-9]{16,}"),
    ("-", "xai-", r"\bxai-[A-Za-z0-9]{16,}"),
    ("-", "nvapi-", r"\bnvapi-[\w-]{16,}"),
    ("I", "AIza", r"\bAIza[\w-]{30,}"),
    ("_", "ghp_", r"\bghp_[A-Za-z0-9]{20,}"),
    ("_", "github_pat_", r"\bgithub_pat_\w{20,}"),
    ("K", "AKIA", r"\bAKIA[A-Z0-9]{16}\b"),
    ("r", "earer ", r"(?<=[Bb]earer )(?=\S*\d)[\w.~+/=*-]{8,}"),
    ("R", "EARER ", r"(?<=BEARER )(?=\S*\d)[\w.~+/=*-]{8,}"),
)
_PATTERNS = tuple((character, marker, re.compile(pattern, re.ASCII)) for character, marker, pattern in _SHAPES)
_ENDINGS = tuple((end, tuple(marker[:-1] for _, marker, _ in _SHAPES if marker[-1] == end)) for end in "-_")
"""Markers by their last character: a text with few of it is taken apart there, sooner than searched for each marker."""
_OTHER_MARKERS = tuple((character, marker) for character, marker, _ in _SHAPES if marker[-1] not in "-_")
_FEW, _TAKEN_APART = 65, 600
"""Fewer occurrences than this are few; a shorter text than this is searched for each marker all the same."""

_LOWER = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_OTHERS = bytes(code for code in range(256) if code not in _LETTERS)
# Characters that are rare in prose. A search among these alone takes a fifth of the time.
_RARE = b"0123456789bfgjkpqvwxyz"
_COMMON = bytes(code for code in range(256) if code not in _RARE and code != ord("\n"))
_RARE_GRAM = 5
# Up to here one pattern takes less time than a search for each part.
_SHORT_RARE = 1 << 11
_BASE64 = frozenset(_LETTERS.decode() + "+/-_=")
_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)S?$", re.IGNORECASE)
_DRAWN = (b"\xf3\xa0", b"\xf0\x9f\x84", b"\xf0\x9f\x85", b"\xf0\x9f\x86", b"\xf0\x9f\x87")
"""What UTF-8 of DRAWN_LETTERS begins with: a search for it is much cheaper than their translation."""
_DISGUISES = (b"\\", b"&", b"%", b"<", b"[", b"]", b"0x", b"\x1b", "\x9b".encode())
"""What escapes, markup and commands begin with, in UTF-8 (see snellen.redaction.decoding)."""
_RUN = re.compile(r"[A-Za-z0-9]+|[^\x00-\x7f]")
_CHUNK, _OVERLAP = 1 << 14, 1 << 12
# Numbers in a row: a list of labels, figures of a table. Digits that stand together are none.
_NUMBERS, _BETWEEN = re.compile(r"[\d\s,.;:+()\[\]-]+"), re.compile(r"[\s,;]")


class _KeyForm(NamedTuple):
    """Form of a key in small letters and digits; `least` of them in a row are struck.

    Attributes:
        least: length of the shortest part that is struck.
        digit: whether a part needs a digit, unless it has 12 letters.
        coded: it is base64, whose first and last character may hold bits of the key and of what stands beside it.
    """

    text: str
    least: int
    digit: bool = False
    coded: bool = False


class _KnownKeys(NamedTuple):
    """Search index of keys: every form, and strings of which a matching text holds at least one.

    Attributes:
        clear: short texts that were searched and hold none of these.
        exact: keys as they are, also as JSON has them, longest first.
        words: those of `exact` that have no form without their punctuation.
        forms: all others.
        grams: to be searched among letters and digits.
        rare: to be searched among the rare ones of these.
        any_rare: one pattern of all of `rare`; quicker in a short text.
    """

    clear: set[str]
    exact: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    forms: tuple[_KeyForm, ...] = ()
    grams: tuple[bytes, ...] = ()
    rare: tuple[bytes, ...] = ()
    any_rare: re.Pattern[bytes] | None = None


_secrets: list[str] = []
_known = _KnownKeys(clear=set())


def register(secret: str) -> None:
    """Remember a secret for `redact`. Placeholders of fewer than 8 characters are not secrets and are left alone."""
    global _known
    secret = secret.strip()
    if len(secret) < _SHORTEST or secret in _secrets:
        return
    _secrets.append(secret)
    _known = _prepared(_secrets)


def register_environment(environment: Mapping[str, str]) -> None:
    """Register what variables with names of keys hold, and passwords of proxies, before other programs' code gets them."""
    for name, value in environment.items():
        if _VARIABLE.search(name):
            register(value)
    register_proxies(environment)


def register_proxies(environment: Mapping[str, str]) -> None:
    """Register the passwords in HTTPS_PROXY and its like, or a user without one: a proxy may echo them."""
    for name, value in environment.items():
        if name.lower().endswith("_proxy") and "@" in value:
            # Not by urlsplit: an address without a scheme, or with a slash in the password, is faulty and no less secret.
            user, mark, password = value.rpartition("@")[0].rpartition("://")[2].partition(":")
            register(secret := password if mark else user)
            register(unquote(secret))


def forget() -> None:
    """Forget every registered secret; for tests, which register keys of their own."""
    global _known
    _secrets.clear()
    _known = _KnownKeys(clear=set())


def redact(text: str) -> str:
    """Replace every registered secret and everything with the shape of a key by `[redacted]`.

    Works on JSON as on prose: the result of a redacted JSON document is a JSON document. Where there is nothing to
    replace it is the same object, after some microseconds a kilobyte and key.
    """
    known, before = _known, text
    if text in known.clear:
        return text
    if known.exact and _may_hold_key(text):
        text = _struck(text)
    if len(text) < _TAKEN_APART or _may_hold_shape(text):
        for character, marker, pattern in _PATTERNS:
            if character in text and marker in text:
                text = pattern.sub(REDACTED, text)
    if text is before and len(text) <= _SHORT and len(known.clear) < _MAX_REMEMBERED:
        known.clear.add(text)
    return text


def _may_hold_shape(text: str) -> bool:
    """Return False if the text certainly holds nothing with the shape of a key."""
    for end, markers in _ENDINGS:
        if end in text:
            pieces = text.split(end, _FEW)
            if len(pieces) > _FEW or any(piece.endswith(markers) for piece in pieces):
                return True
    return any(character in text and marker in text for character, marker in _OTHER_MARKERS)


def redact_bytes(data: bytes) -> bytes:
    """Redact UTF-8 bytes, such as an encoded record; return the same object if nothing was found."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")


def redact_lines(lines: list[bytes]) -> list[bytes]:
    """Redact lines of UTF-8; short and plain ones together cost a tenth of one search each.

    Each is searched alone where one may hold an escape or markup, which may begin in one line and end in another, and
    where a search over all of them finds something.
    """
    joined = b"\n".join(lines)
    if not any(mark in joined for mark in _DISGUISES) and redact_bytes(joined) is joined:
        return lines
    return [redact_bytes(line) for line in lines]


def _prepared(secrets: Sequence[str]) -> _KnownKeys:
    exact: list[str] = []
    words: list[str] = []
    forms: list[_KeyForm] = []
    for secret in dict.fromkeys(form for key in secrets for form in (key, *_decoded_forms(key))):
        plain = _letters_of(secret).decode()
        is_words = len(plain) < (_SHORTEST if any(c.isdigit() for c in plain) else _SHORTEST_WORDS)
        written = dict.fromkeys((secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]))
        exact += written
        if is_words:
            words += written
        forms += _forms(secret, "" if is_words else plain)
    grams: list[bytes] = []
    rare: list[bytes] = []
    for form in forms:
        chosen = _rare_grams(form)
        if chosen is None:
            grams += _grams(form)
        else:
            rare += chosen
    # Longest first: a secret that contains another one must go as a whole.
    exact.sort(key=len, reverse=True)
    any_rare = re.compile(b"|".join(dict.fromkeys(rare))) if rare else None
    return _KnownKeys(
        set(),
        tuple(exact),
        tuple(words),
        tuple(forms),
        tuple(dict.fromkeys(grams)),
        tuple(dict.fromkeys(rare)),
        any_rare,
    )


def _decoded_forms(secret: str) -> list[str]:
    """Return a key that holds escapes as the readings of a text show it: `a%2Fb` in an address becomes `a/b` there."""
    return [form for form in texts(secret) if form != secret and len(form) >= _SHORTEST]


def _forms(secret: str, plain: str) -> Iterator[_KeyForm]:
    """Yield the forms of one key; `plain` are its letters and digits, empty if these may be words."""
    if plain:
        half = max(_SHORTEST, len(plain) // 2)
        yield _KeyForm(plain, min(len(plain), max(_SHORTEST, min(16, len(plain) // 3))), digit=True)
        yield _KeyForm(plain[::-1], half, digit=True)
    data = secret.encode("utf-8", "surrogatepass")
    written = data.hex()
    yield _KeyForm(written, max(2 * _SHORTEST, len(written) // 2))
    for shift in range(3):
        coded = b64encode(bytes(shift) + data).decode()
        # Only characters that hold nothing but bits of the key.
        coded = coded[(8 * shift + 5) // 6 : 8 * (shift + len(data)) // 6]
        text = _letters(coded)
        yield _KeyForm(text, min(len(text), max(11, len(text) // 2)), coded=True)


def _letters(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").translate(_LOWER, _OTHERS).decode()


def _grams(form: _KeyForm) -> list[bytes]:
    """Return parts of a form: any `least` of its characters in a row hold one of them."""
    size = (form.least + 1) // 2
    step = form.least - size + 1
    text = form.text.encode()
    return [text[at : at + size] for at in range(0, len(text) - size + 1, step)]


def _rare_grams(form: _KeyForm) -> list[bytes] | None:
    """Return such parts among the rare characters alone; None if a part may have too few of them."""
    chosen: list[bytes] = []
    for at in range(len(form.text) - form.least + 1):
        rare = form.text[at : at + form.least].encode().translate(None, _COMMON)
        if len(rare) < _RARE_GRAM:
            return None
        if not any(gram in rare for gram in chosen):
            chosen.append(rare[-_RARE_GRAM:])
    return chosen


def _may_hold_key(text: str) -> bool:
    """Return False if the text certainly holds no form of a key. Searches its readings at the speed of C."""
    known = _known
    for word in known.words:
        if word in text:
            return True
    at_once = len(text) <= _CHUNK  # the readings of a longer text would take several times its memory
    letters: list[bytes] = []
    for reading in texts(text):
        if known.words and reading is not text and any(word in reading for word in known.words):
            return True
        letters.append(_letters_of(reading))
        if not at_once and _may_match(letters.pop(), known):
            return True
    return at_once and _may_match(b"\n".join(letters), known)


def _letters_of(reading: str) -> bytes:
    """Return the small letters and digits of a reading, compatible and drawn ones among them."""
    if reading.isascii():
        return reading.encode().translate(_LOWER, _OTHERS)
    reading = normalized("NFKD", reading)  # an accent is no part of a letter of a key
    encoded = reading.encode("utf-8", "surrogatepass")
    if any(head in encoded for head in _DRAWN):
        encoded = reading.translate(DRAWN_LETTERS).encode("utf-8", "surrogatepass")
    return encoded.translate(_LOWER, _OTHERS)


def _may_match(letters: bytes, known: _KnownKeys) -> bool:
    """Return True if letters and digits hold a part of a form of a key."""
    for gram in known.grams:
        if gram in letters:
            return True
    if known.any_rare is None:
        return False
    rare = letters.translate(None, _COMMON)
    if len(rare) <= _SHORT_RARE:
        return known.any_rare.search(rare) is not None
    return any(gram in rare for gram in known.rare)


def _struck(text: str) -> str:
    for secret in _known.exact:
        if secret in text:
            text = text.replace(secret, REDACTED)
    if len(text) > 2 * _CHUNK:
        # Most of a long text is clear. What is spread over more than a chunk is found in the second pass.
        spans = []
        for start in range(0, len(text), _CHUNK):
            chunk = text[start : start + _CHUNK + _OVERLAP]
            if _may_hold_key(chunk):
                spans += [(start + begins, start + ends) for begins, ends in _spans(chunk)]
        text = replaced(text, spans, REDACTED)
        if not _may_hold_key(text):
            return text
    return replaced(text, _spans(text), REDACTED)


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of the text that hold a form of a key."""
    spans: list[tuple[int, int]] = []
    for reading in readings(text):
        letters, positions = _folded(reading)
        for form in _known.forms:
            for first, last in _parts(letters, form):
                added = source_spans(text, reading, positions[first:last], loose=4)
                if form.coded:
                    added = [_with_margin(text, span) for span in added]
                elif form.digit:  # a list of labels may have the digits of a key in their order, not those of its bytes
                    added = [span for span in added if not _is_list_of_numbers(text, span)]
                spans += added
        for word in _known.words:
            at = reading.text.find(word)
            while at >= 0:
                spans += source_spans(text, reading, range(at, at + len(word)))
                at = reading.text.find(word, at + len(word))
    return spans


def _is_list_of_numbers(text: str, span: tuple[int, int]) -> bool:
    return _NUMBERS.fullmatch(text, *span) is not None and _BETWEEN.search(text, *span) is not None


def _with_margin(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Widen the span by up to two characters of base64 on each side, and padding."""
    first, last = span
    if "\\" not in text[max(0, first - 6) : first]:  # not into an escape
        for _ in range(2):
            first -= first > 0 and text[first - 1] in _BASE64
    for _ in range(4):
        last += last < len(text) and text[last] in _BASE64
    return first, last


def _folded(reading: DecodedText) -> tuple[str, list[int]]:
    """Return the small letters and digits of a reading, and the position of each."""
    out: list[str] = []
    positions: list[int] = []
    for run in _RUN.finditer(reading.text):
        if run[0].isascii():
            out.append(run[0].lower())
            positions.extend(range(*run.span()))
        elif letters := _compatible(run[0]):
            out.append(letters)
            positions.extend([run.start()] * len(letters))
    return "".join(out), positions


@lru_cache(1 << 14)
def _compatible(character: str) -> str:
    return _letters(normalized("NFKD", character).translate(DRAWN_LETTERS))


def _parts(letters: str, form: _KeyForm) -> Iterator[tuple[int, int]]:
    """Yield the spans where at least `least` characters of the form stand in a row, each once."""
    form_text, size, done = form.text, (form.least + 1) // 2, -1
    places: list[tuple[int, int]] = []
    for offset in range(0, len(form_text) - size + 1, form.least - size + 1):
        gram = form_text[offset : offset + size]
        at = letters.find(gram)
        while at >= 0:
            places.append((at, offset))
            at = letters.find(gram, at + 1)
    for at, offset in sorted(places):
        if at + size <= done:
            continue
        first, last, left, right = at, at + size, offset, offset + size
        while left > 0 and first > 0 and letters[first - 1] == form_text[left - 1]:
            first, left = first - 1, left - 1
        while right < len(form_text) and last < len(letters) and letters[last] == form_text[right]:
            last, right = last + 1, right + 1
        part = letters[first:last]
        enough = len(part) >= form.least and (
            not form.digit or len(part) >= _SHORTEST_WORDS or any(character.isdigit() for character in part)
        )
        if enough:
            done = last
            yield first, last
