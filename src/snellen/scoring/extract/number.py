"""Extraction of measurements: one number, converted to the expected unit.

Conversion factors are exact by definition (international yard and pound, SI).
"""

from __future__ import annotations

import itertools
import math
import re
from functools import lru_cache
from typing import NamedTuple

from snellen.scoring.extract.base import Reading
from snellen.scoring.extract.clean import CleanReply
from snellen.scoring.extract.final_answer import NOTHING, SentenceFinding, conclude
from snellen.scoring.extract.numerals import CJK_DIGITS, CJK_SCALES, cjk_at, digits, fraction, words_at
from snellen.scoring.extract.tokenize import tokenize
from snellen.scoring.name_match import stem
from snellen.text import terms

_FACTORS: dict[str, dict[str, float]] = {
    "length": {
        "m": 1.0, "cm": 0.01, "mm": 0.001, "km": 1000.0, "dm": 0.1, "µm": 1e-6, "nm": 1e-9,
        "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344,
    },
    "area": {"m^2": 1.0, "cm^2": 1e-4, "mm^2": 1e-6, "km^2": 1e6, "ft^2": 0.09290304, "in^2": 0.00064516, "ha": 1e4},
    "volume": {"m^3": 1.0, "cm^3": 1e-6, "l": 1e-3, "ml": 1e-6, "cl": 1e-5},
    "mass": {"kg": 1.0, "g": 1e-3, "mg": 1e-6, "t": 1000.0, "lb": 0.45359237, "oz": 0.028349523125},
    "time": {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0, "wk": 604800.0, "yr": 31557600.0},
    "angle": {"deg": 1.0, "rad": 57.29577951308232},
    "share": {"%": 1.0},
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704},
    "pixels": {"px": 1.0},
}  # fmt: skip
_NAMES = {
    "m": "m meter meters metre metres mtr 米 公尺 メートル",
    "cm": "cm cms centimeter centimeters centimetre centimetres 厘米 公分 センチ",
    "mm": "mm millimeter millimeters millimetre millimetres 毫米",
    "km": "km kms kilometer kilometers kilometre kilometres 千米 公里",
    "dm": "dm decimeter decimeters decimetre decimetres",
    "µm": "µm um micron microns micrometer micrometers",
    "in": "in inch inches 英寸",
    "ft": "ft foot feet 英尺",
    "yd": "yd yds yard yards",
    "mi": "mi mile miles 英里",
    "m^2": "m^2 m2 sqm 平方米 平米", "cm^2": "cm^2 cm2", "ft^2": "ft^2 ft2 sqft", "km^2": "km^2 km2", "ha": "ha hectare hectares",
    "mm^2": "mm^2 mm2", "in^2": "in^2",
    "m^3": "m^3 m3", "cm^3": "cm^3 cm3 cc", "l": "l liter liters litre litres 升", "ml": "ml milliliter milliliters millilitre millilitres 毫升", "cl": "cl",
    "kg": "kg kgs kilo kilos kilogram kilograms 公斤 千克", "g": "g gram grams gr 克", "mg": "mg milligram milligrams",
    "t": "t ton tons tonne tonnes 吨", "lb": "lb lbs pound pounds", "oz": "oz ounce ounces",
    "s": "s sec secs second seconds 秒 秒钟", "ms": "ms millisecond milliseconds", "min": "min mins minute minutes 分钟",
    "h": "h hr hrs hour hours 小时", "d": "d day days 天", "wk": "wk week weeks", "yr": "yr year years 年",
    "deg": "deg degs degree degrees ° 度", "rad": "rad radian radians",
    "%": "% percent percentage pct",
    "m/s": "m/s mps", "km/h": "km/h kmh kph", "mph": "mph",
    "px": "px pixel pixels 像素",
}  # fmt: skip
_CANONICAL = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_KIND = {unit: kind for kind, units in _FACTORS.items() for unit in units}
_AFTER = re.compile(
    r"\s*+(?:-\s*+)?(?P<square>(?:square|sq\.?)\s+)?(?P<cubic>(?:cubic|cu\.?)\s+)?"
    r"(?P<unit>[^\W\d_]+(?:\^?[23](?!\d))?(?:\s?/\s?[a-z]+)?|°|%|\"|')(?P<post>\s+(?:per|an?)\s+(?:second|hour)|\s+squared)?"
)


def canonical(name: str) -> str | None:
    """Return the unit of a name (`metres`: `m`); None for a name that is no unit."""
    name = name.strip().rstrip(".")
    lowered = name.lower().replace(" ", "")
    square = lowered.startswith("square") or lowered.startswith("sq")
    if square and lowered not in _CANONICAL:
        base = _CANONICAL.get(re.sub(r"^(?:square|sq\.?)", "", lowered))
        return f"{base}^2" if base and f"{base}^2" in _KIND else None
    if lowered in ("degreescelsius", "celsius", "°c", "c", "fahrenheit", "°f", "f"):
        return None
    return _CANONICAL.get(lowered)


def unit_after(text: str, at: int) -> tuple[str, int] | None:
    """Read the unit at position `at` of a text, after a number: (unit, position after it)."""
    match = _AFTER.match(text, at)
    if match is None:
        return None
    name = match.group("unit").replace(" ", "")
    end = match.end()
    if name == '"':
        return "in", match.end("unit")
    if name == "'":
        return "ft", match.end("unit")
    unit = _CANONICAL.get(name.lower())
    if unit is None and "/" in name:
        unit = _CANONICAL.get(name.split("/")[0].lower())
        end = match.start("unit") + match.group("unit").index("/")
    if unit is None:
        # CJK units are written without a space and run on: 米, 厘米高
        for length in (3, 2, 1):
            unit = _CANONICAL.get(name[:length]) if not name[:1].isascii() else None
            if unit is not None:
                return unit, match.start("unit") + length
        return None
    post = match.group("post") or ""
    if match.group("square") or "squared" in post:
        unit = f"{unit}^2" if f"{unit}^2" in _KIND else unit
    elif match.group("cubic"):
        unit = f"{unit}^3" if f"{unit}^3" in _KIND else unit
    elif "second" in post and unit == "m":
        unit = "m/s"
    elif "hour" in post and unit in ("km", "mi"):
        unit = "km/h" if unit == "km" else "mph"
    else:
        end = match.end("unit") if post else end
    return unit, end


def convert(value: float, unit: str, wanted: str) -> float | None:
    """Convert `value` from `unit` to `wanted`; None if their dimensions differ."""
    if unit == wanted:
        return value
    kind = _KIND.get(unit)
    if kind is None or kind != _KIND.get(wanted):
        return None
    return value * _FACTORS[kind][unit] / _FACTORS[kind][wanted]


_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.)])[-+]\s?(?=[\d.(])|(?:minus|negative)\s+(?=\d))?"
    r"(?:(?P<whole>\d+)[ -](?P<mixed>\d+)\s?/\s?(?P<mixedby>\d+)"
    r"|\(?(?P<top>\d+)\)?\s?/\s?\(?(?P<bottom>\d+)\)?(?![\d/])"
    r"|(?P<spaced>\d{1,3}(?:[ \u202f]\d{3})+(?:[.,]\d+)?)(?!\d)"
    r"|(?P<digits>\d+(?:[.,]\d+)*|\.\d+))"
    r"(?P<power>\s?(?:[x×*]\s?10\s?\^?\s?\(?\s?(?P<exponent>[-+]?\s?\d{1,2})\)?|[eE](?P<exponent2>[-+]?\d{1,3})(?!\w)))?"
    r"(?P<scale>\s?(?:million|billion|thousand|hundred|[kK]|M)(?![\w/]))?",
)
_INDEXED = re.compile(
    r"\b(?:images?|pictures?|photos?|figures?|fig\.?|frames?|steps?|options?|views?|step|question|no\.|number|object|point|section|page|row|column)\s*#?\s*$",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"\b(?:at least|at most|more than|fewer than|less than|greater than|over|under|above|below|up to|no more than|exceeds?|exceeding|a (?:minimum|maximum) of|[<>≤≥])\s*$",
    re.IGNORECASE,
)
_RANGE = re.compile(r"^\s*(?:[-~–]|to|or|and|至|到|或)\s*$", re.IGNORECASE)
_EXACT = re.compile(
    r"(?:\b(?:is|was|are|=|≈|about|around|approximately|roughly|equals?|measures?|be|to|of|at|nearly|almost|some|comes to|gives?|as)|[=≈~:]|是|为|约|大约)\s*(?:about|around|approximately|roughly|approx\.?|exactly|~|≈|an estimated|estimated at|close to|just|only|nearly|some|at|to be|approximately equal to)?\s*$",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\bbetween\b[^.]{0,20}$", re.IGNORECASE)
_PLUS_MINUS = re.compile(r"^\s*(?:±|\+/-|\+-|plus or minus|give or take)", re.IGNORECASE)
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_IN = re.compile(r"\b(?:in|since|from|by|until|as of|year|during)\s*$", re.IGNORECASE)
_DRAWN = re.compile(
    r"\b(?:so|therefore|thus|hence|giving|which gives|which means|meaning|making|yielding|resulting in|comes to|i\.e|precisely|specifically|exactly|rounded to)\b|[=≈]|=>|->",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\b(?:considering|given|based on|since|because|assuming|if|compared|relative to|using|as the|while|whereas)\b",
    re.IGNORECASE,
)
_SCALE = {"million": 1e6, "billion": 1e9, "thousand": 1e3, "hundred": 1e2, "k": 1e3, "m": 1e6}
_COMPOUND = {"ft": "in", "m": "cm", "h": "min", "min": "s", "lb": "oz", "kg": "g", "km": "m", "cm": "mm"}
_STOP = terms(
    "what is the a an how of in to are you this that it estimate approximate approximately image picture "
    "answer give number value unit units please provide based from for between and which many much"
)


class Amount(NamedTuple):
    """A number in a text, from start to end; `value` is in the expected unit if `unit` can be converted to it."""

    value: float
    unit: str | None
    start: int
    end: int


def read_number(reply: CleanReply, question: str, unit: str | None) -> Reading:
    """Read the one number of a reply, converted to `unit` if the reply uses another unit of that dimension."""
    wanted = canonical(unit) if unit else None
    nouns = _nouns(question) if question else frozenset()

    def sentence(text: str, announced: bool) -> SentenceFinding:
        return _read(text, announced, wanted, nouns)

    return conclude(reply.text, sentence, show=lambda v: f"{v:g}")


@lru_cache(maxsize=2_048)
def _nouns(question: str) -> frozenset[str]:
    return frozenset(stem(w) for w in tokenize(question[-600:].lower()).words if w.isalpha() and w not in _STOP)


MOST_AMOUNTS = 120
"""Maximum numbers of one sentence that are considered: the first 40 and the last 80."""


def _read(text: str, announced: bool, wanted: str | None, nouns: frozenset[str]) -> SentenceFinding:
    amounts = _amounts(text, wanted)
    if len(amounts) > MOST_AMOUNTS:
        amounts = amounts[:40] + amounts[40 - MOST_AMOUNTS :]
    if len(amounts) > 1:
        amounts = [a for a in amounts if not _BOUND.search(_before(text, a))] or amounts
    amounts = _main(text, amounts, wanted)
    if not amounts:
        return NOTHING
    for low, high in itertools.pairwise(amounts):
        between = text[low.end : high.start]
        if low.value != high.value and _RANGE.match(between):
            if between.strip().lower() == "and" and not _BETWEEN.search(_before(text, low)):
                continue
            return SentenceFinding(problem=f"a range: {low.value:g} to {high.value:g}")
        if _PLUS_MINUS.match(between):
            amounts = [a for a in amounts if a is not high]
    if len(amounts) == 1 and _BOUND.search(_before(text, amounts[0])):
        return SentenceFinding(problem="a bound, not a number")
    values = _distinct(amounts)
    if len(values) == 1:
        lone = amounts[0]
        exact = lone.start == 0 or _EXACT.search(_before(text, lone)) is not None
        bare = lone.start <= 1 and len(text) - amounts[-1].end < 12
        return SentenceFinding(values, firm=announced or bare or (exact and _about(text, lone, nouns) > 0))
    equal = max(text.rfind("="), text.rfind("≈"))
    after = [a for a in amounts if a.start > equal] if equal >= 0 else []
    if after:
        return SentenceFinding((after[0].value,), firm=True)
    if announced and amounts[0].start <= 24:
        return SentenceFinding((amounts[0].value,), firm=True)
    if nouns:
        scores = [_about(text, a, nouns) for a in amounts]
        if scores.count(max(scores)) == 1 and max(scores):
            return SentenceFinding((amounts[scores.index(max(scores))].value,), firm=True)
    exact_ones = [a for a in amounts if _EXACT.search(_before(text, a))]
    about_question = [a for a in exact_ones if _about(text, a, nouns)]
    for candidates in (about_question, exact_ones):
        candidate_values = _distinct(candidates)
        if len(candidate_values) == 1:
            return SentenceFinding(candidate_values, firm=candidates is about_question and bool(nouns))
    return SentenceFinding(values)


def _before(text: str, amount: Amount) -> str:
    """Return the text before an amount, at most 48 characters."""
    return text[max(0, amount.start - 48) : amount.start]


def _main(text: str, amounts: list[Amount], wanted: str | None) -> list[Amount]:
    """Select the amounts that can be the answer: conclusions before premises, the right dimension before others."""
    if len(amounts) < 2:
        return amounts
    if wanted and any(a.unit == wanted for a in amounts):
        amounts = [a for a in amounts if a.unit is None or a.unit == wanted]
    comma = text.rfind(",")
    if _REASON.match(text) and comma > 0 and any(a.start > comma for a in amounts):
        amounts = [a for a in amounts if a.start > comma]
    drawn = list(_DRAWN.finditer(text))
    after = [a for a in amounts if drawn and a.start >= drawn[-1].end()]
    if after:
        return after
    reason = _REASON.search(text)
    before = [a for a in amounts if reason is not None and a.end <= reason.start()]
    return before or amounts


def _about(text: str, amount: Amount, nouns: frozenset[str]) -> int:
    """Count the words of the question in the clause before the number."""
    clause = re.split(r"[,;(]|\b(?:and|while|whereas|but)\b", text[max(0, amount.start - 120) : amount.start])[-1]
    return len({s for w in tokenize(clause.lower()).words if (s := stem(w)) in nouns})


def _distinct(amounts: list[Amount]) -> tuple[float, ...]:
    """Return values that differ by more than rounding: `1.5 m (4.92 ft)` is one value."""
    values: list[float] = []
    for amount in amounts:
        if not any(abs(amount.value - value) <= 0.02 * max(abs(value), abs(amount.value)) for value in values):
            values.append(amount.value)
    return tuple(values)


def _amounts(text: str, wanted: str | None) -> list[Amount]:
    amounts: list[Amount] = []
    for match in _NUMBER.finditer(text):
        value = _value(match)
        if value is None or not _counts(text, match):
            continue
        unit, stop = unit_after(text, match.end()) or (None, match.end())
        if unit in ("in", "ft") and text.endswith(('"', "'"), 0, match.start()):
            unit, stop = None, match.end()  # a quoted number, not inches
        amounts.append(Amount(value, unit, match.start(), stop))
    if not amounts:
        amounts = _spelled(text)
    merged = _compound(text, amounts)
    return [_in_unit(a, wanted) for a in merged] if wanted else merged


def _counts(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 12) : match.start()]
    if before[-1:] == "^" or (before[-1:].isalpha() and before[-1:].isascii()) or _INDEXED.search(before):
        return False
    if (before[-1:] == ":" and before[-2:-1].isdigit()) or (
        text[match.end() : match.end() + 1] == ":" and text[match.end() + 1 : match.end() + 2].isdigit()
    ):
        return False  # a time of day
    if _YEAR.fullmatch(match.group().strip()) and _IN.search(before):
        return False
    return not text[match.end() : match.end() + 2].lower().startswith(("st", "nd", "rd", "th"))


def _value(match: re.Match[str]) -> float | None:
    value: float | None
    if match.group("whole"):
        part = fraction(match.group("mixed"), match.group("mixedby"))
        value = None if part is None else float(match.group("whole")[:15]) + part
    elif match.group("top"):
        value = fraction(match.group("top"), match.group("bottom"))
    elif match.group("spaced"):
        value = digits(match.group("spaced").replace(" ", "").replace("\u202f", "").replace(",", "."))
    else:
        token = match.group("digits")
        value = float("0" + token[:300]) if token.startswith(".") else digits(token)
    if value is None:
        return None
    exponent = match.group("exponent") or match.group("exponent2")
    value = float(value)
    if exponent:
        power = int(exponent.replace(" ", ""))
        value *= 10.0**power if power <= 308 else math.inf
    if match.group("scale"):
        value *= _SCALE[match.group("scale").strip().lower()]
    if not math.isfinite(value):
        return None
    sign = (match.group("sign") or "").strip()
    return -value if sign in ("-", "minus", "negative") else value


_HALVES = {"half": 0.5, "quarter": 0.25, "third": 1 / 3, "quarters": 0.25, "thirds": 1 / 3}


def _spelled(text: str) -> list[Amount]:
    spoken = tokenize(text)
    words, spans = spoken.words, spoken.spans
    amounts: list[Amount] = []
    i = 0
    while i < len(words):
        hit: tuple[float, int] | None = words_at(words, i)
        if hit is None and (words[i] in CJK_DIGITS or words[i] in CJK_SCALES):
            hit = cjk_at(words, i)
        if hit is None and words[i] in ("half", "quarter"):
            hit = (_HALVES[words[i]], i + 1)
        if hit is None:
            i += 1
            continue
        value, end = float(hit[0]), hit[1]
        if words[end : end + 1] and words[end] in _HALVES:  # `one half`, `three quarters`
            value, end = value * _HALVES[words[end]], end + 1
        if words[end : end + 1] == ["point"]:
            decimals = ""
            j = end + 1
            while j < len(words) and (digit := words_at(words, j)) is not None and digit[0] < 10:
                decimals += str(digit[0])
                j = digit[1]
            if decimals:
                value, end = float(f"{int(value)}.{decimals}"), j
        elif words[end : end + 2] == ["and", "a"] and words[end + 2 : end + 3] and words[end + 2] in _HALVES:
            value, end = value + _HALVES[words[end + 2]], end + 3
        before = words[i - 1] if i else ""
        if before in ("minus", "negative"):
            value = -value
        if words[i:end] != ["one"] or before not in ("this", "that", "the", "no", "each"):
            name, stop = unit_after(text, spans[end - 1][1]) or (None, spans[end - 1][1])
            amounts.append(Amount(value, name, spans[i][0], stop))
        i = end
    return amounts


def _compound(text: str, amounts: list[Amount]) -> list[Amount]:
    """Merge compound amounts: `5 ft 10 in` and `1 m 20 cm` are one amount."""
    merged: list[Amount] = []
    for amount in amounts:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.unit is not None
            and (
                _COMPOUND.get(last.unit) == amount.unit
                or (amount.unit is None and last.unit == "ft" and text[last.end - 1] == "'")
            )
            and text[last.end : amount.start].strip().lower() in ("", "and", ",")
        ):
            part = convert(amount.value, amount.unit or "in", last.unit)
            if part is not None and part < 1.01:
                merged[-1] = Amount(last.value + part, last.unit, last.start, amount.end)
                continue
        merged.append(amount)
    return merged


def _in_unit(amount: Amount, wanted: str) -> Amount:
    if amount.unit is None:
        return amount
    value = convert(amount.value, amount.unit, wanted)
    return amount if value is None else amount._replace(value=value, unit=wanted)
