"""Written numbers: digits in every style, English words, Chinese numerals, fractions."""

from __future__ import annotations

import re
from fractions import Fraction

_UNDER_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
UNITS = dict(zip(_UNDER_TWENTY.split(), range(20), strict=True))
TENS = dict(zip(_TENS.split(), range(20, 100, 10), strict=True))
ENGLISH_BELOW_HUNDRED = {**UNITS, **TENS}
"""English words of one number each, without misspellings: twenty-one is two words."""
TENS["fourty"] = 40
SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
CJK_DIGITS = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"〇": 0, "两": 2, "兩": 2, "俩": 2}
CJK_SCALES = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "萬": 10_000}

BEYOND = 10**30
"""Maximum number in words: a reply may repeat `hundred` a thousand times, which overflows a float."""

_PLAIN = re.compile(r"\d+")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPED_EU = re.compile(r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}(?:\.\d{3})+,\d+")
_DECIMAL = re.compile(r"\d+\.\d+")
_COMMA = re.compile(r"\d+,\d+")


def digits(token: str) -> float | int | None:
    """Parse a number in digits: `21`, `1,234`, `1.234,5`, `2,5`, `3.0`; None if it is no number.

    A comma with exactly three digits after it groups thousands; any other single comma is a decimal comma.
    """
    if _PLAIN.fullmatch(token):
        return int(token) if len(token) < 19 else float(token[:300])
    if _GROUPED.fullmatch(token):
        token = token.replace(",", "")
        return float(token) if "." in token else int(token)
    if _GROUPED_EU.fullmatch(token):
        token = token.replace(".", "").replace(",", ".")
        return float(token) if "." in token else int(token)
    if _DECIMAL.fullmatch(token):
        return float(token[:300])
    if _COMMA.fullmatch(token):
        return float(token.replace(",", ".")[:300])
    return None


def words_at(words: list[str], at: int) -> tuple[int, int] | None:
    """Parse the number in English words that starts at `at`: (value, index after it); None if none starts there.

    `twenty-one`, `twenty one`, `a hundred and five`, `two dozen`, `three thousand two hundred`.
    """
    end = len(words)
    total = current = 0
    i = at
    last = ""  # what kind of word came before: units, tens, scale
    while i < end:
        word = words[i]
        if (word in UNITS and last in ("", "scale")) or (word in UNITS and last == "tens" and 0 < UNITS[word] < 10):
            current += UNITS[word]
            last = "units"
        elif word in TENS and last in ("", "scale"):
            current += TENS[word]
            last = "tens"
        elif word in SCALES and last:
            scale = SCALES[word]
            if scale == 100:
                current = (current or 1) * 100
            else:
                total += (current or 1) * scale
                current = 0
            total, current = min(total, BEYOND), min(current, BEYOND)
            last = "scale"
        elif word in ("dozen", "dozens") and last:
            return (total + current) * 12, i + 1
        elif (word == "-" and last == "tens" and i + 1 < end and 0 < UNITS.get(words[i + 1], 0) < 10) or (
            word == "and" and last == "scale" and i + 1 < end and (words[i + 1] in UNITS or words[i + 1] in TENS)
        ):
            pass
        elif word in ("a", "an") and not last and i + 1 < end and words[i + 1] in SCALES:
            current, last = 1, "units"
        else:
            break
        i += 1
    if not last:
        return None
    return total + current, i


def cjk_at(words: list[str], at: int) -> tuple[int, int] | None:
    """Parse the Chinese numeral that starts at `at`, one character per word: 三, 十二, 二十一, 一百零五, 两."""
    total = section = digit = 0
    i = at
    started = False
    while i < len(words):
        char = words[i]
        if char in CJK_DIGITS:
            digit = CJK_DIGITS[char]
        elif char in CJK_SCALES and (started or char in "十百千"):
            scale = CJK_SCALES[char]
            if scale == 10_000:
                total, section, digit = min((total + section + digit) * scale, BEYOND), 0, 0
            else:
                section += (digit if digit or not started else 0 if section else 1) * scale if digit else scale
                digit = 0
        else:
            break
        started = True
        i += 1
    if not started:
        return None
    return total + section + digit, i


def fraction(top: str, bottom: str) -> float | None:
    """Return top / bottom; None if bottom is zero or either has more than 15 digits."""
    if len(top) > 15 or len(bottom) > 15 or not top.isdigit() or not bottom.isdigit() or int(bottom) == 0:
        return None
    return float(Fraction(int(top), int(bottom)))


def as_number(text: str) -> float | int | None:
    """Parse a text that is one number (`3`, `three`, `1,200`); None for any other text."""
    words = text.lower().replace("-", " ").split()
    if len(words) == 1 and (value := digits(words[0])) is not None:
        return value
    spelled = words_at(words, 0)
    return spelled[0] if spelled is not None and spelled[1] == len(words) else None
