"""What a cell of a workbook shows: its value by its number format, with a point for decimals and dates as ISO 8601 has them.

A format rounds: `0%` shows 0.456 as 46%. Digits that somebody typed are kept nevertheless (45.6%); a number of more than
TYPED_DIGITS was computed, and is rounded as the sheet rounds it.
Source: ECMA-376, part 1, 18.8.31 (numFmts).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from math import isfinite
from typing import Any

from msgspec import Struct

TYPED_DIGITS = 12
FORMAT_CHARACTERS = 512
"""Maximum characters of a format; Excel allows 255."""
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]|(?P<bracket>\[[^\]]*\])'
    r"|(?P<digit>[0#?]|(?i:General))|(?P<percent>%)|(?P<exponent>[Ee][+-])|(?P<end>;)|(?P<literal>.)",
    re.DOTALL,
)
_CONDITION = re.compile(r"\[[<>=]")
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_HALVES = re.compile(r"am/pm|a/p", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"?|\\.|[_*].|\[[^\]]*\]', re.DOTALL)


class NumberFormat(Struct, frozen=True):
    """One section of a number format that shows more than a bare number.

    Attributes:
        before, after: what stands around the digits: a currency, a unit, a percent sign.
        decimals: digits after the point that are always shown, and the most that are.
        digits: digits before the point that are always shown.
        factor: what the value is multiplied by: 100 for a percent, 1/1000 for each scaling comma.
        rounds: False for `General`.
    """

    before: str
    after: str
    decimals: tuple[int, int]
    digits: int
    factor: Decimal
    rounds: bool


def shown(value: Any, number_format: str) -> Any:
    """Return what a cell shows: a text for dates, times, percents and numbers with a unit, else the value itself."""
    if isinstance(value, datetime | date | time | timedelta):
        return shown_moment(value, number_format)
    if isinstance(value, bool) or not isinstance(value, int | float) or number_format == "General":
        return value
    if not isfinite(value):
        return value
    sections = _sections(number_format)
    section = sections[1] if value < 0 and len(sections) > 1 else sections[0]
    return value if section is None else _shown_number(value, section)


def _shown_number(value: float, section: NumberFormat) -> str:
    number = Decimal(repr(value)) * section.factor
    _, digits, exponent = number.normalize().as_tuple()
    places = max(0, -exponent) if isinstance(exponent, int) else 0
    least, most = section.decimals
    if section.rounds and places > most and len(digits) > TYPED_DIGITS:
        number, places = number.quantize(Decimal(1).scaleb(-most), ROUND_HALF_UP), least
        number = number.normalize() if number else number
        places = max(least, -exponent) if isinstance(exponent := number.as_tuple().exponent, int) else least
    places = max(least, places)
    whole, point, fraction = f"{abs(number):.{places}f}".partition(".")
    sign = "-" if number < 0 else ""
    return f"{sign}{section.before}{whole.zfill(section.digits)}{point}{fraction}{section.after}"


@lru_cache(maxsize=1024)
def _sections(number_format: str) -> tuple[NumberFormat | None, ...]:
    """Return the sections for positive and negative numbers; None for one that shows a bare number."""
    if len(number_format) > FORMAT_CHARACTERS or _CONDITION.search(number_format):
        return (None,)
    sections: list[list[tuple[str, str]]] = [[]]
    for match in _TOKEN.finditer(number_format):
        kind = match.lastgroup or ""
        if kind == "end":
            sections.append([])
        elif kind:
            sections[-1].append((kind, match[kind]))
    return tuple(_section(tokens, negative=at == 1) for at, tokens in enumerate(sections[:2]))


def _section(tokens: Sequence[tuple[str, str]], *, negative: bool) -> NumberFormat | None:
    places = [at for at, (kind, _) in enumerate(tokens) if kind == "digit"]
    if not places or any(kind == "exponent" for kind, _ in tokens):
        return None
    inner = tokens[places[0] : places[-1] + 1]
    tail = tokens[places[-1] + 1 :]
    commas = 0
    while commas < len(tail) and tail[commas] == ("literal", ","):
        commas += 1
    if any(kind not in ("digit", "literal") or (kind == "literal" and text not in ".,") for kind, text in inner):
        return None  # a fraction, or a mask such as 000-0000
    point = next((at for at, token in enumerate(inner) if token == ("literal", ".")), len(inner))
    fraction = [text for kind, text in inner[point:] if kind == "digit"]
    whole = [text for kind, text in inner[:point] if kind == "digit"]
    rest = tail[commas:]
    if rest[:1] == [("literal", ".")]:
        rest = rest[1:]
    percents = sum(kind == "percent" for kind, _ in tokens)
    before, after = _words(tokens[: places[0]], negative), _words(rest, negative)
    if not before and not after and whole.count("0") < 2:
        return None
    factor = Decimal(100) ** percents / Decimal(1000) ** commas
    decimals = (fraction.count("0"), len(fraction))
    return NumberFormat(
        before, after, decimals, max(1, whole.count("0")), factor, all(len(text) == 1 for text in whole)
    )


def _words(tokens: Sequence[tuple[str, str]], negative: bool) -> str:
    """Return what stands before or after the digits; the sign of negative numbers is not among it."""
    kinds = ("quoted", "escaped", "currency", "percent", "literal")
    text = "".join(text for kind, text in tokens if kind in kinds).replace("\N{NO-BREAK SPACE}", " ")
    text = text.replace("\N{NARROW NO-BREAK SPACE}", " ")
    if negative:
        text = re.sub(r"[()\-\N{MINUS SIGN}]", "", text)
    return text if text.strip() else ""


def plain_value(value: Any) -> Any:
    """Return a value of a typed column, in which decimals, dates and times are texts, also inside of lists and objects."""
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else None
    if isinstance(value, datetime | date | time | timedelta):
        return shown_moment(value)
    if isinstance(value, list):
        return [plain_value(element) for element in value]
    if isinstance(value, dict):
        return {name: plain_value(element) for name, element in value.items()}
    return value


def shown_moment(value: datetime | date | time | timedelta, number_format: str = "yyyy-mm-dd h:mm:ss.000000") -> str:
    """Return a date, a time, both or a duration as its format shows it, in the form of ISO 8601.

    Midnight of a date is the date alone, and full minutes are shown without seconds.
    """
    if isinstance(value, timedelta):
        return _shown_duration(value, number_format)
    letters = _HALVES.sub("h", _QUOTED.sub("", number_format)).lower()
    has_time = "h" in letters or "s" in letters
    has_date = "y" in letters or "d" in letters or ("m" in letters and not has_time)
    if isinstance(value, time):
        return _shown_time(value, letters)
    day = f"{value.year:04}-{value.month:02}-{value.day:02}"
    if not isinstance(value, datetime):
        return _shown_date(day, letters)
    if not has_time and has_date:
        return _shown_date(day, letters)
    clock = value.timetz()
    if not has_date and has_time:
        return _shown_time(clock, letters)
    return day if clock == time(0) else f"{day} {_shown_time(clock, letters)}"


def _shown_date(day: str, letters: str) -> str:
    if "d" in letters or "y" not in letters:
        return day
    return day[:7] if "m" in letters else day[:4]


def _shown_time(clock: time, letters: str) -> str:
    if ".0" not in letters:
        clock = clock.replace(microsecond=0)
    text = clock.isoformat()
    if "h" not in letters and "s" in letters:
        return text[3:]
    if "s" not in letters or not (clock.second or clock.microsecond):
        return text[:5] + text[8:]
    return text


def _shown_duration(length: timedelta, number_format: str) -> str:
    sign = "-" if length < timedelta(0) else ""
    total = round(abs(length).total_seconds())
    match = _ELAPSED.search(number_format)
    unit = match[1][0].lower() if match else "h"
    minutes, seconds = divmod(total, 60)
    if unit == "s":
        return f"{sign}{total}"
    if unit == "m":
        return f"{sign}{minutes}:{seconds:02}"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02}" + (f":{seconds:02}" if seconds else "")


class CellFault(float):
    """A cell without a value: an error value, or a formula that was never calculated. It is not a number (NaN).

    Attributes:
        text: what the file has in its place.
        reason: where the cell is and what it holds, in words.
    """

    text: str
    reason: str

    def __new__(cls, text: str, reason: str) -> CellFault:
        fault = super().__new__(cls, "nan")
        fault.text, fault.reason = text, reason
        return fault
