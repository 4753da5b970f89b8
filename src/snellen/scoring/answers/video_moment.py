"""Moments of a video: from a start to an end, in seconds, as a clock shows them, or in frames.

A reply that names no unit has that of the gold answer. Seconds are never frames, since no frame rate is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.grounded import NO_NUMBER, Fault
from snellen.scoring.answers.structure import json_in, whole_json
from snellen.scoring.replies.sentences import Sentence

INVERTED, NO_LENGTH, BEFORE = "the end stands before the start", "a moment without length", "a time before the start"
FRAMES, SECONDS = "frames", "s"
MOST_CHARACTERS = 2_000
_FACTORS = {"h": 3600, "m": 60, "分": 60}
_TIME = re.compile(
    r"(?:\b(?P<before>frames?|seconds?)\s?#?\s?)?(?<![\w.:])(?:(?P<clock>\d{1,3}:[0-5]\d(?::[0-5]\d)?(?:[.,]\d{1,6})?)"
    r"|(?P<number>-?(?:\d{1,9}(?:\.\d{1,20})?|\.\d{1,20})))(?![\w:.]*\d:)"
    r"\s?(?P<unit>(?:hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|frames?)(?![a-z])\.?|[分秒帧])?"
    r"(?:\s?(?P<rest>\d{1,2}(?:\.\d{1,9})?)\s?(?:seconds?|secs?|s(?![a-z])|秒))?",
    re.IGNORECASE,
)
_NAME = r"(?:[\s_-]?(?:times?|frames?|seconds?|sec))?[\"']?\s?(?:[:=]|is|at)?(?:\s?(?:around|about))?\s?[\"'<\[(]?"
_LEAD = re.compile(
    rf"(?P<word>between|from|(?:it\s)?\b(?:start|begin)\w{{0,4}}{_NAME})?\s{{0,2}}(?P<open>[\[(<][\"']?)?$",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"[\"'>]?\s?(?:(?P<sign>[-–—~→,;至到]|-{1,2}>|\b(?:to|until|till|through|and|bis)\b)\s?"
    rf"|[\])]?[,;.]?\s{{0,2}}(?:and\s)?(?:it\s)?[\"']?(?P<ends>\b(?:end|stop|finish)\w{{0,3}}{_NAME}))[\"'<]?",
    re.IGNORECASE,
)
_CLOSE = re.compile(r"[\"']?[\])>](?:\s?(?P<unit>seconds?|secs?|s|frames?)(?![a-z]))?|[\"']", re.IGNORECASE)
_BEHIND = re.compile(r"\s?(?:$|[.,;:!?)\]<]|(?:when|while|as|in|of|and|for|during|is|where)\b)", re.IGNORECASE)
"""What may stand behind two numbers without a unit, which else count something: `3 to 4 people`."""
_BULLET = re.compile(r"^\s*[-*•]\s+", re.MULTILINE)
_UNIT = re.compile(r"frame|[帧分秒]|(?<![a-z])(?:h(?:ou)?r?s?|m(?:in(?:ute)?)?s?|s(?:ec(?:ond)?)?s?)(?![a-z])")
_START, _END = (
    re.compile(rf"(?:t|time|frame)?(?:{words})(?:s|time|secs?|seconds?|frame|timestamp)?")
    for words in ("start|begin|from", "end|to")
)
_HOLDERS = ("moment", "segment", "span", "interval", "window", "timestamp", "timestamps", "time", "answer", FRAMES)


class Moment(NamedTuple):
    """Start and end; the unit is `s` or `frames`, empty where nothing says it."""

    start: Fraction
    end: Fraction
    unit: str = ""


class VideoMoment(AnswerType):
    """A moment `[start, end]` of a video; of two different ones none is the answer."""

    kind = "moment"
    expected = "a start and a later end, such as `[12.5, 20]` in seconds, `00:12 - 00:20` or `frames 120 to 240`"

    def parse(self, text: str) -> Moment | Fault | None:
        data = whole_json(text) if len(text) <= MOST_CHARACTERS else None
        return self._one(moments_in(text if data is None else data))

    def parse_gold(self, cell: Any) -> Moment:
        value = self._one(moments_in(cell)) if not isinstance(cell, str) else self.parse(undressed(cell))
        if value is None or isinstance(value, Fault):
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}" + (f": {value}" if value else ""))
        return value._replace(unit=value.unit or SECONDS)

    def show(self, value: Any) -> str:
        if isinstance(value, Fault):
            return value
        return f"[{', '.join(f'{float(one):g}' for one in value[:2])}] {value.unit}".strip()

    def find(self, sentence: Sentence) -> Sequence[Found]:
        text = sentence.text[:MOST_CHARACTERS]
        found = [Found(self._one(moments_in(one.value)), one.start, one.end) for one in json_in(text)]
        for pair, is_named in _pairs(text):
            inside = any(one.start <= pair.start < one.end for one in found)
            if not inside and (is_named or _BEHIND.match(text, pair.end)):
                found.append(pair)
        return sorted((one for one in found if one.value is not None), key=lambda one: one.start)

    def short(self, sentence: Sentence) -> Found | None:
        found = self.find(sentence)
        return Found(self._one([one.value for one in found]), found[0].start, found[-1].end) if found else None

    def _one(self, moments: Sequence[Moment | Fault]) -> Moment | Fault | None:
        """Return the only one of several moments; None without any."""
        different = list(dict.fromkeys(moments))
        fault = next((one for one in different if isinstance(one, Fault)), None)
        if len(different) > 1 and fault is None:
            return Fault(f"two answers: {', '.join(map(self.show, different[:2]))}")
        return fault or next(iter(different), None)


def overlap(value: Moment, gold: Moment) -> Fraction:
    """Return the intersection over union of two moments."""
    shared = max(min(value.end, gold.end) - max(value.start, gold.start), Fraction(0))
    return shared / (value.end - value.start + gold.end - gold.start - shared)


def moment_names(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the names of a start and an end among those of columns or members, plain ones; None without just one of each."""
    listed = [*names]
    starts, ends = ([name for name in listed if part.fullmatch(name)] for part in (_START, _END))
    return (starts[0], ends[0]) if len(starts) == len(ends) == 1 else None


def moments_in(data: Any) -> list[Moment | Fault]:
    """Return the moments that a text or a value of JSON is or holds: `[12.5, 20]`, `["0:12", "0:20"]`, `{"start": 12.5, "end": 20}`."""
    data = data.tolist() if hasattr(data, "tolist") else data
    if isinstance(data, str):
        text = _BULLET.sub("", data).strip(" \n{}.'\"") if len(data) <= MOST_CHARACTERS else ""
        return [pair.value for pair, _ in _pairs(text) if (pair.start, pair.end) == (0, len(text))]
    if isinstance(data, Mapping):
        names = {re.sub(r"[\W_]", "", str(name).lower()): value for name, value in data.items()}
        if (pair := moment_names(names)) is not None:
            return _of_two(names[pair[0]], names[pair[1]], FRAMES if "frame" in "".join(pair) else "")
        name = next((name for name in _HOLDERS if names.get(name) is not None), "")
        found = moments_in(names[name]) if name else []
        return [
            one if isinstance(one, Fault) else one._replace(unit=one.unit or "" if name != FRAMES else FRAMES)
            for one in found
        ]
    if not isinstance(data, Sequence):
        return []
    if len(data) == 2 and not any(isinstance(one, (Mapping, list, tuple)) for one in data):
        return _of_two(data[0], data[1], "") or [
            one for text in data if isinstance(text, str) for one in moments_in(text)
        ]
    return [moment for one in data if isinstance(one, (Mapping, list, tuple, str)) for moment in moments_in(one)]


def _of_two(start: Any, end: Any, unit: str) -> list[Moment | Fault]:
    if any(one is None or one != one for one in (start, end)):
        return [Fault(NO_NUMBER)]
    found = moments_in(f"{str(start).strip()} to {str(end).strip()}")
    return [one if isinstance(one, Fault) else one._replace(unit=one.unit or unit) for one in found]


def _pairs(text: str) -> Iterator[tuple[Found, bool]]:
    """Yield the moments that a text writes, and whether more than two numbers says that they are one."""
    end = 0
    for first, second in pairwise(_TIME.finditer(text)):
        link = _LINK.fullmatch(text, first.end(), second.start()) if first.start() >= end else None
        if link is None:
            continue
        lead = _LEAD.search(text, max(end, first.start() - 40), first.start())
        sign, word, is_open = (link["sign"] or "").casefold(), lead["word"] or "" if lead else "", lead and lead["open"]
        if (sign in (",", ";") and not is_open) or (sign == "and" and word.casefold() != "between"):
            continue
        close = _CLOSE.match(text, second.end())
        units = [
            _unit(f"{match['before']} {match['unit']} {name}") or _unit(close and close["unit"])
            for match, name in ((first, word), (second, link["ends"]))
        ]
        end = close.end() if close else second.end()
        value = _between(first, second, units)
        if value is not None:
            is_named = bool(word or link["ends"] or is_open or any(units) or first["clock"])
            yield Found(value, lead.start() if lead else first.start(), end), is_named


def _unit(words: str | None) -> str:
    """Return the unit that words name: `frames`, `h`, `m`, `s`; empty without one."""
    match = _UNIT.search((words or "").casefold())
    return (
        "" if match is None else FRAMES if match[0] in ("frame", "帧") else {"秒": SECONDS}.get(match[0], match[0][0])
    )


def _between(first: re.Match[str], second: re.Match[str], units: Sequence[str]) -> Moment | Fault | None:
    """Return the moment between two times; None where their units do not go together."""
    units = [unit or units[1 - at] for at, unit in enumerate(units)]
    is_clock = [match["clock"] is not None for match in (first, second)]
    if is_clock[0] != is_clock[1] or (FRAMES in units and (units[0] != units[1] or is_clock[0])):
        return None  # `0:12 - 20` may be meant in minutes
    start, end = (_amount(match, unit) for match, unit in zip((first, second), units, strict=True))
    if start < 0 or start >= end:
        return Fault(BEFORE if start < 0 else INVERTED if start > end else NO_LENGTH)
    return Moment(start, end, FRAMES if FRAMES in units else SECONDS if is_clock[0] or any(units) else "")


def _amount(match: re.Match[str], unit: str) -> Fraction:
    """Return a time in seconds, or the number of a frame."""
    if match["clock"]:
        parts = reversed(match["clock"].replace(",", ".").split(":"))
        return sum((Fraction(part) * 60**at for at, part in enumerate(parts)), Fraction(0))
    return Fraction(match["number"]) * _FACTORS.get(unit, 1) + Fraction(match["rest"] or 0)
