"""Written numbers: digits of every script and locale, fractions, powers of ten, English words, Chinese numerals.

A value is an int, or a Decimal for what has decimals or is a fraction, so that values add and compare exactly. Its decimals are the
place of the last digit as written: 2 for `10.50`, -6 for `3 million`, `EXACT` for a fraction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from snellen.text import terms

EXACT = 28
"""Decimals of a fraction, which has no last digit."""
MOST_DIGITS = 60
"""Maximum characters of a number in digits. A longer one is no number."""
_UNDER_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_FROM_TWENTY = "twenty thirty forty fifty sixty seventy eighty ninety"
UNITS = {word: value for value, word in enumerate(_UNDER_TWENTY.split())}
TENS = {word: 10 * at for at, word in enumerate(_FROM_TWENTY.split(), 2)}
ENGLISH_BELOW_HUNDRED = {**UNITS, **TENS}
"""English words of one number each: twenty-one is two words."""
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Scale words of English, by power of ten."""
SUFFIXES = {
    **SCALES, "millions": 6, "billions": 9, "mio": 6, "mrd": 9, "tsd": 3, "tausend": 3, "millionen": 6, "milliarden": 9, "mn": 6, "bn": 9, "tn": 12,
    "万": 4, "萬": 4, "亿": 8, "億": 8,
}  # fmt: skip
"""Scale words after digits; those of one letter stand without a blank, see `_LETTERS`."""
_LETTERS = {"k": 3, "K": 3, "M": 6, "B": 9}
PARTS = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "eighth": 8, "tenth": 10}
PARTS |= {f"{word}s": value for word, value in PARTS.items()}
CJK_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2, "俩": 2}
CJK_SCALES = {"十": 10, "百": 100, "千": 1_000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
COUNTERS = frozenset(
    "个個只隻名人张張条條辆輛本把头頭匹朵棵座台臺件块塊位枚根双雙对對层層幅瓶杯支颗顆架艘份片间間种種次岁歲米度元点點年月日号號周天秒分时時公厘千克升吨つ"
)
"""Characters before which a lone Chinese digit counts: 三只, not 一般."""
_PRONOUN = terms("this that the no each any every which some other another")
"""Words after which `one` is no number."""
_VULGAR = {
    char: Decimal(int(top)) / Decimal(int(bottom))
    for char in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
    for top, _, bottom in [unicodedata.normalize("NFKC", char).partition("⁄")]
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")


class _Plain(dict[int, int]):
    """Digits, signs and blanks of every script to those of ASCII, one character for one."""

    def __missing__(self, code: int) -> int:
        char = chr(code)
        plain = ord("0") + unicodedata.decimal(char) if unicodedata.category(char) == "Nd" else code
        self[code] = plain
        return plain


_PLAIN = _Plain()
_PLAIN.update(str.maketrans("−﹣－＋．，٫٬’\u00a0\u202f\u2009\u3000⁄／", "−−−+.,.,'    //"))

_TOKEN = re.compile(r"(?:\d+|(?=\.\d))(?:(?:[.,']|\{,\}|\\,| (?=\d{3}(?!\d)))\d+){0,40}", re.ASCII)
_GLUED = re.compile(r"\d+(?::\d+)+|\d+(?:-\d+){2,}|\d+(?:/\d+){2,}|\d+(?:\.\d+){2,}(?!,)", re.ASCII)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:([.,' ])\d{3})(?:\1\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}", re.ASCII)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b|[⁰¹²³⁴⁵⁶⁷⁸⁹]", re.IGNORECASE)
_POWER = re.compile(
    r"[eE](?P<e>[+-]?\d{1,3})(?!\w)"
    r"|(?: ?(?:[x×*·]|\\times|\\cdot) ?10 ?(?:(?:\^|\*\*) ?[{(]?(?P<up>[+−-]?\d{1,3})[})]?|(?P<raised>[⁺⁻]?[⁰¹²³⁴-⁹]{1,3})))",
    re.ASCII,
)
_TEN = re.compile(r"10(?:(?:\^|\*\*) ?[{(]?(?P<up>[+−-]?\d{1,3})[})]?|(?P<raised>[⁺⁻]?[⁰¹²³⁴-⁹]{1,3}))")
_OVER = re.compile(r" ?/ ?([1-9]\d{0,14})(?![\d/]|[.,]\d)", re.ASCII)
_FRAC = re.compile(r"\\[dt]?frac ?(?:\{ ?(\d{1,15}) ?\} ?\{ ?(\d{1,15}) ?\}|(\d)(\d))", re.ASCII)
_MIXED = re.compile(r" ([1-9]\d{0,14}) ?/ ?([1-9]\d{0,14})(?![\d/]|[.,]\d)", re.ASCII)
_SUFFIX = re.compile(r" ?(Mio|Mrd|Tsd|[^\W\d_]{1,10})(?:(?<=Mio|Mrd|Tsd)\.)?")
_WORD = re.compile(r"[a-z]+", re.IGNORECASE | re.ASCII)
_NEXT = re.compile(r"(?: |-)([a-z]+)", re.IGNORECASE | re.ASCII)
_CJK = re.compile("[零〇一二两兩俩三四五六七八九十百千万萬亿億]{1,20}")
_CJK_PARTS = re.compile("([零〇一二两兩三四五六七八九十百千万]{1,20})分之([零〇一二两兩三四五六七八九十百千万]{1,20})")
_CJK_POINT = re.compile("[点點]([零〇一二三四五六七八九]{1,20})")
_SIGN = re.compile(
    r"(?P<mark>[-−–+])(?= ?[\d½⅓⅔¼¾\\]| ?\.\d)|(?P<word>minus|negative|plus)\s(?=\S)|负|負|マイナス", re.IGNORECASE
)
_SIGN_BEFORE = re.compile(
    r"(?:^|[^\w)\].,%°'’+−–-])(?P<sign>[-−–+]|− |(?<![^\W_])(?:minus|negative|plus)\s)$|(?P<cjk>负|負|マイナス)$",
    re.IGNORECASE,
)
_LETTER_BEFORE = re.compile(r"[^\W\d_]-?$")
_SPLIT = re.compile("[ ']")
_COMMAS = re.compile(r"\d+(?:,\d+){2,40}", re.ASCII)
_START = re.compile(
    r"[\d½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒\\零〇一二两兩俩三四五六七八九十百千]|\.(?=\d)|(?<![^\W_])(?:[a-z]{3,9}(?![^\W_])|a(?= [htmbd]))",
    re.IGNORECASE,
)

Value = int | Decimal


class Number(NamedTuple):
    """A number in a text, with its decimals as written and its place."""

    value: Value
    decimals: int
    start: int
    end: int


def plain(text: str) -> str:
    """Return a text of the same length with digits, signs and blanks of every script as those of ASCII."""
    return text.translate(_PLAIN)


def parse_number(text: str, decimal: str = ".") -> tuple[Value, int] | None:
    """Return the value of a text that is one number, with its decimals as written; None for any other text."""
    text = plain(text[:400]).strip() if len(text) <= 400 else ""
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
    return list(_numbers(plain(sentence), decimal))


def _numbers(text: str, decimal: str) -> Iterator[Number]:
    at = 0
    while (match := _START.search(text, at)) is not None:
        start = match.start()
        at = match.end()
        if (glued := _GLUED.match(text, start)) is not None and _interpreted(glued.group(), decimal) is None:
            at = glued.end()
        elif (row := _COMMAS.match(text, start)) is not None and _interpreted(row.group(), decimal) is None:
            for piece in re.finditer(r"\d{1,60}", row.group()):
                yield Number(int(piece.group()), 0, start + piece.start(), start + piece.end())
            at = row.end()
        elif _is_name(text, start) or (found := number_at(text, _signed_start(text, start), decimal)) is None:
            run = _TOKEN.match(text, start) or _CJK.match(text, start)
            at = max(at, run.end()) if run is not None else at
        elif _stands(text, found, start):
            yield found
            at = found.end
        else:
            at = max(at, found.end)


def number_at(text: str, start: int, decimal: str = ".", scaled: bool = True) -> Number | None:
    """Return the longest number that starts at a place of a `plain` text; None if none does.

    Args:
        text: the text, already `plain`.
        start: where the number or its sign starts.
        decimal: the decimal sign where `1,234` or `1.234` leaves it open.
        scaled: read a letter after the digits (`5k`, `5M`) as a scale.
    """
    sign = _SIGN.match(text, start)
    at = start
    if sign is not None:
        at = sign.end()
        if sign["mark"] and text[at : at + 1] == " ":
            if sign["mark"] != "−":
                return None
            at += 1
    body = _digits_at(text, at, decimal, scaled) or _words_at(text, at) or _cjk_at(text, at)
    if body is None:
        return None
    value, decimals, end = body
    negative = sign is not None and (sign["mark"] or (sign["word"] or "-").lower()) not in ("+", "plus")
    return Number(negated(value) if negative else value, decimals, start, end)


def negated(value: Value) -> Value:
    """Return a value with the other sign; Decimal's own minus rounds to 28 digits."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _signed_start(text: str, start: int) -> int:
    """Return the start of a number with the sign before it, unless the sign joins it to what stands before."""
    before = text[max(0, start - 12) : start]
    match = _SIGN_BEFORE.search(before)
    return start - len(match["sign"] or match["cjk"]) if match is not None else start


def _is_name(text: str, start: int) -> bool:
    """Return True if what starts here is the tail of a name or of a word: `A4`, `AB-123`, `第三`."""
    if text[start].isascii() and text[start].isdigit():
        before = text[max(0, start - 2) : start]
        return before[-1:] in ("_", "第") or (before[-1:] < "\u2e80" and bool(_LETTER_BEFORE.search(before)))
    return text[start - 1 : start] == "第"


def _stands(text: str, found: Number, start: int) -> bool:
    """Return True if a number in a sentence is one: no ordinal, no pronoun, no part of a word, no bare `half`."""
    last = text[found.end - 1]
    if last.isdigit():
        return _ORDINAL.match(text, found.end) is None
    words = text[start : found.end].lower()
    if words in PARTS or (words.startswith("a ") and found.decimals == EXACT):
        return False
    if words == "one":
        before = text[max(0, start - 12) : start].split()
        return not (before and before[-1].lower() in _PRONOUN)
    if text[start] in CJK_DIGITS and found.end - start == 1:
        following = text[found.end : found.end + 1]
        return not following.isalpha() or following.isascii() or following in COUNTERS
    return True


def _digits_at(text: str, at: int, decimal: str, scaled: bool) -> tuple[Value, int, int] | None:
    """Read digits with what belongs to them: a fraction, a power of ten, a scale word."""
    if (vulgar := _VULGAR.get(text[at : at + 1])) is not None:
        return vulgar, EXACT, at + 1
    if (frac := _FRAC.match(text, at)) is not None:
        return _quotient(frac[1] or frac[3], frac[2] or frac[4], frac.end())
    if (ten := _TEN.match(text, at)) is not None:
        value, _, end = _scaled(1, 0, _exponent(ten["up"], ten["raised"]), ten.end())
        return value, 0, end
    if (token := _TOKEN.match(text, at)) is None:
        return None
    end = token.end()
    read = _interpreted(token.group(), decimal)
    if read is None and (parts := _SPLIT.split(token.group(), 1))[1:]:
        end = at + len(parts[0])
        read = _interpreted(parts[0], decimal)
    if read is None:
        return None
    value, decimals = read
    if decimals == 0 and text[at:end].isdigit() and (fraction := _fraction_after(text, at, end)) is not None:
        return fraction
    if (power := _POWER.match(text, end)) is not None:
        return _scaled(value, decimals, _exponent(power["e"] or power["up"], power["raised"]), power.end())
    return _with_suffix(text, value, decimals, end, scaled)


def _interpreted(token: str, decimal: str) -> tuple[Value, int] | None:
    """Return value and decimals of digits with separators; None if these separate no thousands and decimals."""
    token = token.replace("{,}", ",").replace("\\,", " ")
    if len(token) > MOST_DIGITS:
        return None
    if token.isdigit():
        return int(token), 0
    whole, sign, rest = re.split(r"(\D)(?=\d+$)", token)
    if _GROUPED.fullmatch(token) is not None and (sign != decimal or token.count(sign) > 1):
        return int("".join(char for char in token if char.isdigit())), 0
    if sign not in ".," or not (whole.isdigit() or not whole or (_GROUPED.fullmatch(whole) and sign not in whole)):
        return None
    return Decimal("".join(char for char in whole if char.isdigit()) + "." + rest), len(rest)


def _fraction_after(text: str, at: int, end: int) -> tuple[Value, int, int] | None:
    """Read a whole number's fraction: `3/4`, `1 1/2`, `1½`, `2\\frac{1}{2}`."""
    if (text[at] != "0" or end == at + 1) and (over := _OVER.match(text, end)) is not None:
        return _quotient(text[at:end], over[1], over.end())
    if (mixed := _MIXED.match(text, end)) is not None:
        part = _quotient(mixed[1], mixed[2], mixed.end())
    elif (frac := _FRAC.match(text, end)) is not None:
        part = _quotient(frac[1] or frac[3], frac[2] or frac[4], frac.end())
    else:
        place = end + (text[end : end + 1] == " ")
        vulgar = _VULGAR.get(text[place : place + 1])
        part = None if vulgar is None else (vulgar, EXACT, place + 1)
    return None if part is None else (int(text[at:end]) + part[0], EXACT, part[2])


def _quotient(top: str, bottom: str, end: int) -> tuple[Value, int, int] | None:
    if not int(bottom) or len(top) > 15:
        return None
    return Decimal(int(top)) / Decimal(int(bottom)), EXACT, end


def _exponent(up: str | None, raised: str | None) -> int:
    return int((up or (raised or "0").translate(_RAISED)).replace("−", "-"))


def _scaled(value: Value, decimals: int, exponent: int, end: int) -> tuple[Value, int, int]:
    sign, digits, written_at = Decimal(value).as_tuple()
    scaled = Decimal((sign, digits, int(written_at) + exponent))
    whole = exponent <= 40 and decimals <= exponent
    return (int(scaled) if whole and scaled == int(scaled) else scaled), decimals - exponent, end


def _with_suffix(text: str, value: Value, decimals: int, end: int, scaled: bool) -> tuple[Value, int, int]:
    """Apply the scale after digits: `3.2 million`, `5k`, `3万`."""
    suffix = _SUFFIX.match(text, end)
    if suffix is not None:
        word, glued = suffix[1], text[end] != " "
        exponent = _LETTERS.get(word) if glued and scaled else None
        if exponent is None:
            exponent = SUFFIXES.get(word.lower())
        if exponent is None and not word[0].isascii():
            exponent = SUFFIXES.get(word[0])
            return (
                (value, decimals, end) if exponent is None else _scaled(value, decimals, exponent, suffix.start(1) + 1)
            )
        if exponent is not None:
            return _scaled(value, decimals, exponent, suffix.end())
    return value, decimals, end


def _words_at(text: str, at: int) -> tuple[Value, int, int] | None:
    """Read a number in English words: `twenty-one`, `a hundred and five`, `three point five`, `one and a half`, `two thirds`."""
    words = _words_of(text, at)
    whole, used = _whole(words)
    if not used:
        part = PARTS.get(words[0][0]) if words else None
        return None if part is None else (Decimal(1) / part, EXACT, words[0][1])
    following = [word for word, _ in words[used : used + 3]]
    if following[:1] == ["point"]:
        digits = ""
        for word, _ in words[used + 1 :]:
            if UNITS.get(word, 10) > 9:
                break
            digits += str(UNITS[word])
        if digits:
            return Decimal(f"{whole}.{digits}"), len(digits), words[used + len(digits)][1]
    if following[:2] == ["and", "a"] and len(following) == 3 and following[2] in PARTS:
        return whole + Decimal(1) / PARTS[following[2]], EXACT, words[used + 2][1]
    if following and following[0] in PARTS and following[0] != "second":
        return Decimal(whole) / PARTS[following[0]], EXACT, words[used][1]
    if words[0][0] in ("a", "an") and used == 1:
        return None
    return whole, 0, words[used - 1][1]


def _words_of(text: str, at: int) -> list[tuple[str, int]]:
    """Return up to 20 lower-case words from a place on, each with its end."""
    words: list[tuple[str, int]] = []
    match = _WORD.match(text, at)
    while match is not None and len(words) < 20:
        words.append((match[match.lastindex or 0].lower(), match.end()))
        match = _NEXT.match(text, match.end())
    return words


def _whole(words: list[tuple[str, int]]) -> tuple[int, int]:
    """Return the whole number that words begin with, and how many words it takes: 0 if none."""
    total = current = used = 0
    last = ""
    for at, (word, _) in enumerate(words):
        if word in UNITS and (last in ("", "scale", "and") or (last == "tens" and 0 < UNITS[word] < 10)):
            current, last, used = current + UNITS[word], "units", at + 1
        elif word in TENS and last in ("", "scale", "and"):
            current, last, used = current + TENS[word], "tens", at + 1
        elif word in SCALES and last in ("units", "tens", "scale"):
            power = 10 ** SCALES[word]
            if power == 100:
                current *= 100
            else:
                total, current = total + (current or 1) * power, 0
            last, used = "scale", at + 1
        elif word == "dozen" and last in ("units", "tens") and current:
            return (total + current) * 12, at + 1
        elif word == "and" and last == "scale":
            last = "and"
        elif word in ("a", "an") and at == 0:
            current, last = 1, "units"
            used = int(len(words) > 1 and words[1][0] in PARTS)
        else:
            break
    return total + current, used


def _cjk_at(text: str, at: int) -> tuple[Value, int, int] | None:
    """Read a Chinese numeral: `三`, `二十一`, `一百零五`, `三点五`, `四分之三`, `二〇二四`."""
    if (parts := _CJK_PARTS.match(text, at)) is not None:
        bottom, top = _cjk(parts[1]), _cjk(parts[2])
        return (Decimal(top) / Decimal(bottom), EXACT, parts.end()) if bottom and top is not None else None
    if (match := _CJK.match(text, at)) is None or match[0][0] in "万萬亿億":
        return None
    if (value := _cjk(match[0])) is None:
        return None
    if (point := _CJK_POINT.match(text, match.end())) is not None and not text.startswith("分", point.end()):
        digits = "".join(str(CJK_DIGITS[char]) for char in point[1])
        return Decimal(f"{value}.{digits}"), len(digits), point.end()
    return value, 0, match.end()


def _cjk(numeral: str) -> int | None:
    if not any(char in CJK_SCALES for char in numeral):
        return int("".join(str(CJK_DIGITS[char]) for char in numeral))
    total = section = 0
    digit: int | None = None
    for char in numeral:
        if char in CJK_DIGITS:
            if digit:
                return None  # 二三十: twenty or thirty
            digit = CJK_DIGITS[char]
        elif (scale := CJK_SCALES[char]) >= 10**4:
            total, section, digit = (total + section + (digit or 0)) * scale, 0, None
        else:
            section, digit = section + (1 if digit is None else digit) * scale, None
    return total + section + (digit or 0)
