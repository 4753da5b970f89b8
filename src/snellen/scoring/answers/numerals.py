"""Written numbers: digits of every script and locale, fractions, powers of ten, English words, Chinese numerals.

A value is an int, or a Decimal for what has decimals or is a fraction. Its decimals are the place of the last digit as written.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from itertools import takewhile
from typing import NamedTuple

from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED, UNITS, WORDS

EXACT = 28
"""Decimals of a fraction, which has no last digit."""
MOST_DIGITS = 60
"""Maximum characters of a number in digits. A longer one is no number."""
SCALES, _PARTS = (
    {word: int(value) for value, words in WORDS[table].items() for word in words.split()}
    for table in ("scales", "parts")
)
_STARTING = {*ENGLISH_BELOW_HUNDRED, *_PARTS, "a", "dozen", "minus", "negative", "plus"}
_NUMBER_WORDS = {*_STARTING, "hundred", "thousand", "million", "billion", "trillion", "and", "point", "an"}
CJK_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | dict.fromkeys("两兩俩", 2) | {"〇": 0}
_CJK_SCALES = {"十": 10, "百": 100, "千": 1_000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻−", "0123456789+--")
_PLAIN = str.maketrans("﹣－＋．，٫٬’\u00a0\u202f\u2009\u3000⁄／", "−−+.,.,'    //")
_DIGIT = re.compile("(?![0-9])\\d")

_START = re.compile(
    r"(?i)(?P<sign>(?<![\w)\].,%°'+−–-])(?:[-–+]|− ?)|[负負]|マイナス)?"
    r"(?P<body>\d+|\.(?=\d)|[½⅓⅔¼¾⅕-⅞⅐⅑⅒\\零〇一二两兩俩三四五六七八九十百千]|(?P<word>(?<![^\W_])(?:a|[a-z]{3,9})(?![^\W_])))"
)
_TOKEN = re.compile(r"(?:\d+|(?=\.\d))(?:(?:[.,']|\{,\}|\\,| (?=\d{3}(?!\d)))\d+){0,40}", re.ASCII)
_GLUED = re.compile(r"\d+(?:(?::\d+)+|(?:-\d+){2,}|(?:/\d+){2,}|(?:\.\d+){2,}(?!,)|(?:,\d+){2,40})", re.ASCII)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:([.,' ])\d{3})(?:\1\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}", re.ASCII)
_NAME_BEFORE = re.compile(r"(?:[_第]|[^\W\d_⺀-\U0010ffff]|[^\W\d_]-)$")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b|[⁰¹²³⁴⁵⁶⁷⁸⁹]", re.IGNORECASE)
_UP = r"10 ?(?:(?:\^|\*\*) ?[{(]?([+−-]?\d{1,3})[})]?|([⁺⁻]?[⁰¹²³⁴-⁹]{1,3}))"
_TEN = re.compile(_UP, re.ASCII)
_POWER = re.compile(r"[eE]([+-]?\d{1,3})(?!\w)| ?(?:[x×*·]|\\times|\\cdot) ?" + _UP, re.ASCII)
_FRACTION = re.compile(
    r"(?a)[½⅓⅔¼¾⅕-⅞⅐⅑⅒]|\\[dt]?frac ?(?:\{ ?([-+−]? ?\d{1,15}) ?\} ?\{ ?([-+−]? ?\d{1,15}) ?\}|(\d)(\d))"
    r"|(0|[1-9]\d{0,14}) ?/ ?([-+−]? ?[1-9]\d{0,14})(?![\d/]|[.,]\d)"
)
_SCALE = re.compile(r"(?i)[kmb](?![^\W_])| ?(?:(?:mio|mrd|tsd)\b\.?|[a-z]{2,10}\b|[万萬亿億]|千(?![克米瓦卡]))")
_WORD = re.compile("(?ai)[ -]?([a-z]+)")
_CJK = re.compile("[零〇一二两兩俩三四五六七八九十百千万萬亿億]{1,20}")
_CJK_BEHIND = re.compile("分之([零一二两三四五六七八九十百千]{1,20})|[点點]([零〇一二三四五六七八九]{1,20})(?!分)")
_ONE_BY_ONE = re.compile(r" (?:by one|at a time|after the other)\b")
_SIGN = re.compile(r"− ?|[-–负負]|マイナス|(?:minus|negative)\s|(?P<plus>\+|plus\s)", re.IGNORECASE)

Value = int | Decimal
_Body = tuple[Value, int, int]
"""Value, decimals and end."""


class Number(NamedTuple):
    """A number in a text, with its decimals as written and its place."""

    value: Value
    decimals: int
    start: int
    end: int


def plain(text: str) -> str:
    """Return a text of the same length with digits, signs and blanks of every script as those of ASCII."""
    if text.isascii():
        return text
    return _DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text.translate(_PLAIN))


def parse_number(text: str, decimal: str = ".") -> tuple[Value, int] | None:
    """Return the value of a text that is one number, with its decimals as written; None for any other text."""
    text = plain(text).strip() if len(text) <= 400 else ""
    found = number_at(text, 0, decimal)
    return (found.value, found.decimals) if found is not None and found.end == len(text) else None


def written(value: Value, decimal: str = ".") -> str:
    """Return a value in digits, so that it is read as the same value."""
    number = Decimal(value)
    text = str(number) if abs(number.adjusted()) > 20 else f"{number:f}"
    return text.replace(".", decimal)


def find_numbers(sentence: str, decimal: str = ".") -> list[Number]:
    """Return the numbers of a sentence in order.

    Letters may follow at once: a unit, as in `5kg`. Not numbers: the digits of names, ordinals, times, dates and versions (`A4`, `AB-123`,
    `3rd`, `10:05`, `2024-03-01`, `1.2.3`), `one` as a pronoun, a Chinese digit within a word.
    """
    text, found, end = plain(sentence), list[Number](), 0
    for match in _START.finditer(text):
        word, start = match["word"], match.start("body")
        if match.start() < end or (word and word.lower() not in _STARTING):
            continue
        glued = _GLUED.match(text, start) if text[start].isdigit() else None
        if glued is not None and _interpreted(glued[0], decimal) is None:
            pieces = re.finditer(r"\d{1,60}", glued[0] if "," in glued[0] else "")
            found += [Number(int(one[0]), 0, start + one.start(), start + one.end()) for one in pieces]
            end = glued.end()
            continue
        before = text[max(0, start - 2) : start]
        is_name = before[-1:] == "第" or (text[start] in ".0123456789" and _NAME_BEFORE.search(before))
        number = None if is_name else number_at(text, match.start(), decimal)
        if number is None:
            run = _TOKEN.match(text, start) or _CJK.match(text, start)
            end = run.end() if run is not None else start + 1
            continue
        end = number.end
        if _stands(text, number, start):
            found.append(number)
    return found


def number_at(text: str, start: int, decimal: str = ".", scaled: bool = True) -> Number | None:
    """Return the longest number that starts, perhaps with its sign, at a place of a `plain` text; None if none does.

    `decimal` is the decimal sign where `1,234` or `1.234` leaves it open. A letter after digits (`5k`, `5M`) is a scale if `scaled`.
    """
    sign = _SIGN.match(text, start)
    at = start if sign is None else sign.end()
    body = _digits_at(text, at, decimal, scaled) or _words_at(text, at) or _cjk_at(text, at)
    if body is None:
        return None
    value, decimals, end = body
    return Number(value if sign is None or sign["plus"] else negated(value), decimals, start, end)


def negated(value: Value) -> Value:
    """Return a value with the other sign; Decimal's own minus rounds to 28 digits."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _stands(text: str, found: Number, start: int) -> bool:
    """Return True if a number in a sentence is one: no ordinal, no pronoun, no part of a word, no bare `half`."""
    if text[found.end - 1].isdigit():
        return _ORDINAL.match(text, found.end) is None
    words, behind = text[start : found.end].lower(), text[found.end : found.end + 2]
    if words == "one":
        before = text[max(0, start - 12) : start].lower().split()
        if _ONE_BY_ONE.match(text, found.end) or before[-2:] == ["one", "by"]:
            return False
        return not before or before[-1] not in WORDS["not_counted_by_one"].split()
    if len(words) == 1 and _CJK.match(words):
        counts = not behind[:1].isalpha() or behind[0].isascii() or behind[0] in WORDS["counters"]
        return counts and behind != "分之" and not (words == "千" and behind[0:1] in tuple("克米瓦卡"))
    return words not in _PARTS and not (words.startswith("a ") and found.decimals == EXACT)


def _digits_at(text: str, at: int, decimal: str, scaled: bool) -> _Body | None:
    """Read digits with what belongs to them: a fraction, a power of ten, a scale word."""
    if (fraction := _fraction_at(text, at)) is not None:
        return fraction
    if (ten := _TEN.match(text, at)) is not None:
        return _scaled(1, 0, ten)[0], 0, ten.end()
    token = _TOKEN.match(text, at)
    digits = token[0] if token is not None else ""
    if (read := _interpreted(digits, decimal)) is None:
        digits = re.split("[ ']", digits)[0]
        if (read := _interpreted(digits, decimal)) is None:
            return None
    end = at + len(digits)
    if digits.isdigit() and (part := _fraction_at(text, end + text.startswith(" ", end), int(digits))) is not None:
        return part
    if (power := _POWER.match(text, end)) is not None:
        return (*_scaled(*read, power), power.end())
    if (scale := _SCALE.match(text, end)) is not None and (scaled or len(scale[0]) > 1 or not scale[0].isascii()):
        word = scale[0].strip(" .")
        exponent = SCALES.get(word if len(word) == 1 else word.lower())
        return (*read, end) if exponent is None else (*_scaled(*read, exponent), scale.end())
    return (*read, end)


def _interpreted(token: str, decimal: str) -> tuple[Value, int] | None:
    """Return value and decimals of digits with separators; None if these separate no thousands and decimals."""
    if not 0 < len(token) <= MOST_DIGITS:
        return None
    if token.isdigit():
        return int(token), 0
    token = token.replace("{,}", ",").replace("\\,", " ")
    whole, sign, rest = re.split(r"(\D)(?=\d+$)", token)
    if _GROUPED.fullmatch(token) is not None and (sign != decimal or token.count(sign) > 1):
        return int(re.sub(r"\D", "", token)), 0
    if sign not in ".," or not (whole.isdigit() or not whole or (_GROUPED.fullmatch(whole) and sign not in whole)):
        return None
    return Decimal(re.sub(r"\D", "", whole) + "." + rest), len(rest)


def _fraction_at(text: str, at: int, whole: int = 0) -> _Body | None:
    """Read `3/4`, `½` or `\\frac{3}{4}`, and add it to a whole number."""
    if (match := _FRACTION.match(text, at)) is None:
        return None
    parts = [part for part in match.groups() if part] or unicodedata.normalize("NFKC", match[0]).split("⁄")
    top, bottom = (int(part.replace("−", "-").replace(" ", "")) for part in parts)
    return (Decimal(whole * bottom + top) / bottom, EXACT, match.end()) if bottom else None


def _scaled(value: Value, decimals: int, by: int | re.Match[str]) -> tuple[Value, int]:
    exponent = by if isinstance(by, int) else int(next(filter(None, by.groups())).translate(_RAISED))
    sign, digits, written_at = Decimal(value).as_tuple()
    scaled = Decimal((sign, digits, int(written_at) + exponent))
    is_whole = exponent <= 40 and decimals <= exponent and scaled == int(scaled)
    return (int(scaled) if is_whole else scaled), decimals - exponent


def _words_at(text: str, at: int) -> _Body | None:
    """Read English words: `twenty-one`, `a hundred and five`, `three point five`, `one and a half`, `two thirds`, `half a dozen`."""
    words, ends = list[str](), list[int]()
    while (match := _WORD.match(text, at)) is not None and len(words) < 20:
        at, word = match.end(), match[1].lower()
        if word not in _NUMBER_WORDS:
            break
        words.append(word)
        ends.append(at)
    words += [""] * 3
    whole, used = _whole(words)
    if not used:
        part = _PARTS.get(words[0])
        whole, used = _whole(words[1:]) if part == 2 and words[1] in ("a", "an") else (0, 0)
        if whole > 1:
            return whole // 2, 0, ends[used]
        return None if part is None else (Decimal(1) / part, EXACT, ends[0])
    digits = [str(UNITS[word]) for word in takewhile(lambda word: UNITS.get(word, 10) < 10, words[used + 1 :])]
    if words[used] == "point" and digits:
        return Decimal(f"{whole}.{''.join(digits)}"), len(digits), ends[used + len(digits)]
    if words[used : used + 2] == ["and", "a"] and (part := _PARTS.get(words[used + 2])) is not None:
        return whole + Decimal(1) / part, EXACT, ends[used + 2]
    if (part := _PARTS.get(words[used])) is not None:
        return Decimal(whole) / part, EXACT, ends[used]
    return (whole, 0, ends[used - 1]) if used > 1 or words[0] not in ("a", "an") else None


def _whole(words: list[str]) -> tuple[int, int]:
    """Return the whole number that words begin with, and how many words it takes: 0 if none."""
    total = current = used = 0
    room = 100  # what may be added next is less: after a scale 100, after tens 10, after units nothing
    for at, word in enumerate(words):
        value = ENGLISH_BELOW_HUNDRED.get(word, 1 if word in ("a", "an") and not at else None)
        if value is not None and (0 < value < room or not at):
            current, room = current + value, 10 if value >= 20 else 0
        elif word in SCALES and 0 < used == at:
            power, room = 10 ** SCALES[word], 100
            total, current = (total, current * 100) if power == 100 else (total + (current or 1) * power, 0)
        elif word == "dozen" and not at:
            return 12, 1
        elif word == "dozen" and 0 < used == at and room < 100:
            return (total + current) * 12, at + 1
        elif word == "and" and room == 100 and 0 < used == at:
            continue
        else:
            break
        used = at + 1
    return total + current, used


def _cjk_at(text: str, at: int) -> _Body | None:
    """Read a Chinese numeral: `三`, `二十一`, `一百零五`, `三点五`, `四分之三`, `二〇二四`; `百分之` is a percent."""
    match = _CJK.match(text, at)
    value = None if match is None or match[0][0] in "万萬亿億" else _cjk(match[0])
    if match is None or value is None:
        return None
    behind = _CJK_BEHIND.match(text, match.end())
    if behind is not None and behind[2]:
        digits = "".join(str(CJK_DIGITS[char]) for char in behind[2])
        return Decimal(f"{value}.{digits}"), len(digits), behind.end()
    top = _cjk(behind[1]) if behind is not None and value and match[0] != "百" else None
    return (value, 0, match.end()) if top is None or behind is None else (Decimal(top) / value, EXACT, behind.end())


def _cjk(numeral: str) -> int | None:
    if _CJK_SCALES.keys().isdisjoint(numeral):
        digits = [CJK_DIGITS[char] for char in numeral]
        is_about = len(digits) == 2 and digits[1] == digits[0] + 1 > 1  # 两三: two or three
        return None if is_about else int("".join(map(str, digits)))
    total = section = 0
    digit: int | None = None
    for char in numeral:
        if char in CJK_DIGITS:
            if digit:
                return None  # 二三十: twenty or thirty
            digit = CJK_DIGITS[char]
        elif (scale := _CJK_SCALES[char]) >= 10**4:
            total, section, digit = (total + section + (digit or 0)) * scale, 0, None
        else:
            section, digit = section + (1 if digit is None else digit) * scale, None
    return total + section + (digit or 0)
