"""Dates and times of day, in figures and with the names of months in a dozen languages, see words.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from snellen.scoring.answers.base import UNITS, WORDS, AnswerType, Found, GoldError
from snellen.scoring.answers.fold import without_marks
from snellen.scoring.answers.number_words import languages, ordinal, spelled
from snellen.scoring.answers.numerals import parse_number, plain
from snellen.scoring.replies.sentences import Sentence, single_words, words_in, words_of

MOST_CHARACTERS = 120
"""Maximum characters of a date or a time."""
LONGEST_GAP = 40
"""Characters before a moment in which a word that moves it begins."""
MONTHS = {without_marks(word): month for month, words in enumerate(WORDS["months"], 1) for word in words.split()}
_LETTERS = re.compile(r"[^\W\d_]{3,}")
WEEKDAYS = frozenset(map(without_marks, WORDS["weekdays"].split()))
_OPEN, _CLOSED = r"(?<![\w.,:/-])", r"(?![^\WT]|[/-]|[.,:]\d)"
_FIGURES = (
    rf"{_OPEN}(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){_CLOSED}",
    rf"{_OPEN}(?P<year>\d{{4}})-(?P<month>\d\d){_CLOSED}|{_OPEN}(?P<number>\d{{1,2}})/(?P<last>\d{{4}}){_CLOSED}",
    rf"{_OPEN}(?P<first>\d{{1,2}})(?P<mark>[-/.]) ?(?P<next>\d{{1,2}})(?P=mark) ?(?P<year>\d{{4}}|\d\d){_CLOSED}",
    r"(?:(?:(?P<era>令和|平成|昭和|大正|明治|民国|民國) ?(?P<of>\d{1,3}|元|[一二三四五六七八九十]{1,3})|(?P<year>\d{4}|[〇零一二三四五六七八九]{4})) ?[年년] ?)?(?<!\d)(?P<month>\d{1,2}|[一二三四五六七八九十]{1,2}) ?[月월]"
    r"(?: ?(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3}) ?[日号號일])?",
)
_ERAS = {"令和": (2018, 99), "平成": (1988, 31), "昭和": (1925, 64), "大正": (1911, 15), "明治": (1867, 45)}
_ERAS |= dict.fromkeys(("民国", "民國"), (1911, 199))
"""Year before an era, and its last year."""
_TIME_OF_DAY = re.compile(r"(?a)[T ]([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?(?![\w:])")
_WORD = re.compile(r"[^\W\d_]{3,12}")
_BEFORE = re.compile(
    r"(?i)(?:(?<!\w)(?P<name>[^\W\d_][\w-]{2,14})\.?,? )?(?P<date>(?:(?<!\w)(?:the|den|le|el|der) )?"
    rf"(?:{_OPEN}(?:(?P<year>\d{{4}})[ -]|(?P<day>\d{{1,2}})(?:[a-z]{{2}}|[.º])?(?: (?:day )?of | de | |-|(?<=\.))))?)$"
)
_AFTER = re.compile(
    r"(?i)(?:\.?[ -](?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?(?![\w:/%-]|\.\d|,\d{3}(?!\d)))?"
    r"(?:\.?(?:,| of| de| del|-)? ?(?P<year>\d{4})(?![\w:/%-]|[.,]\d))?"
)
_OTHER_DAY = re.compile(
    r"(?i)(?<![\w.:])(?P<day>\d{1,2})(?:st|nd|rd|th|[.º])?,? (?:or|to|and|oder|bis|und|ou|et|o|y|a) (?:the |den |le |el )?$"
)
"""A day whose month and year stand behind a second one: `the 22nd or the 23rd of February`."""
_RANGE = r"(?:[-–—~/&至到]|to|bis|through|until|à|al|до)"
_GAP = "|".join((*single_words("article"), "de", "del", "dem", "den"))
_MOVED = re.compile(
    rf"(?i)(?<!best )(?<![^\W_])(?:(?:minutes?|quarter|half|seconds?) (?:to|of)|{'|'.join(WORDS['moved_by'].split())}"
    rf"|差[^点點]{{0,6}})(?:[ ,]{{1,2}}(?:{_GAP}))*[ (]*$"
    rf"|\d(?:[a-z]{{2}}|[.º])? ?{_RANGE} ?(?:\d\d?(?:[a-z]{{2}}|[.º])?(?: of| de)? )?$"
)
"""What moves or bounds the moment behind it: `one minute to midnight`, `the day before 3 March`, `halb 3 Uhr`, `差一刻八点`, `3–5 May 2024`."""
_MOVES = re.compile(
    rf"(?i) ?{_RANGE} ?\d|,? ?(?:(?:and|und|et|y|e|en) )?(?:un )?(?:{'|'.join(WORDS['moves'].split())})(?![a-zà-ÿ])"
)
"""What moves the moment before it: `3 h et demie`, `3点一刻`."""
_TO = re.compile(rf"\s?(?:{_RANGE})\s?(?:le |the |den |au )?", re.IGNORECASE)
_CLOCK_BEHIND = re.compile(r" ?[-–—] ?\d{1,2}:\d\d")
"""The time of a date: `3 May 2024 - 10:15`."""
_WEAK = re.compile(r"[^\W\d_A-Z]+\.? \d{1,2}|(?:the )?[^\W_A-Z]+ [^\W\d_A-Z]{1,4}", re.ASCII)
"""What may be words of a sentence: `march 5 miles`, `2 set`, `the second may`."""


class Moment(NamedTuple):
    """A date; what it leaves open is None. A clock of midnight, as spreadsheets write, is none."""

    year: int | None
    month: int
    day: int | None
    clock: tuple[int, int, int] | None = None


def _number(text: str | None) -> int | None:
    number = parse_number(text or "")
    return None if number is None else int(number[0])


def moment(year: str | None, month: str, day: str | None, clock: tuple[int, int, int] | None = None) -> Moment | None:
    """Return the date of figures that exist in the calendar."""
    found = Moment(_number(year), _number(month) or 0, _number(day), clock if clock != (0, 0, 0) else None)
    try:
        date(2000 if found.year is None else found.year, found.month, 1 if found.day is None else found.day)
    except ValueError:
        return None
    return found if (found.year, found.day) != (None, None) else None


class Date(AnswerType):
    """A date of a year or a month's name and more, at the precision of the gold answer: `1 March 2024` answers `March 2024`.

    A value holds every reading: `01/02/2024` has two where the table's column does not tell which is the day.
    """

    kind = "date"
    expected = "a date, such as `2024-03-01` or `1 March 2024`"

    def parse(self, text: str) -> tuple[Moment, ...] | None:
        found = self._dates(text) if len(text) <= MOST_CHARACTERS else iter(())
        return next((date.value for date in found if (date.start, date.end) == (0, len(text))), None)

    def parse_gold(self, cell: Any) -> tuple[Moment, ...]:
        readings: tuple[Moment, ...] = super().parse_gold(cell)
        if len(readings) > 1:
            raise GoldError(f"{str(cell)[:80]!r} may be {self.show(readings)}: write it as year-month-day")
        return readings

    def same(self, value: tuple[Moment, ...], gold: tuple[Moment, ...]) -> bool:
        return any(all(part in (None, own) for own, part in zip(reading, gold[0], strict=True)) for reading in value)

    def show(self, value: tuple[Moment, ...]) -> str:
        return " or ".join(map(_shown, value))

    def find(self, sentence: Sentence) -> Sequence[Found]:
        whole, asked = sentence.text, self.context.question
        found = [one for one in self._dates(whole) if not _WEAK.fullmatch(whole[one.start : one.end])]
        ranged = _ranged(found, whole)
        return [one for one in found if one in ranged or not _is_moved(one, whole, asked)]

    def short(self, sentence: Sentence) -> Found | None:
        """Return the only date of a short sentence, where no other month is named: `It opened in March 2020 and closed in June`."""
        found = super().short(sentence)
        outside = "" if found is None else f"{sentence.text[: found.start]} {sentence.text[found.end :]}"
        named = (word for word in _LETTERS.findall(outside) if word[0].isupper() or len(word) > 5)
        return None if any(without_marks(word.lower()) in MONTHS for word in named) else found

    def _dates(self, text: str) -> Iterator[Found]:
        end, (text, places) = 0, _with_digits(plain(text).replace("，", ","))
        for one in sorted((*self._in_figures(text), *_with_names(text)), key=lambda one: (one.start, -one.end)):
            if one.start >= end:
                yield Found(one.value, places[one.start], places[one.end])
                end = one.end

    def _in_figures(self, text: str) -> Iterator[Found]:
        for match in (match for pattern in _FIGURES for match in re.finditer(pattern, text, re.ASCII)):
            parts, end, clock = match.groupdict(), match.end(), None
            if parts.get("day") and (after := _TIME_OF_DAY.match(text, end)) is not None:
                end, clock = after.end(), (int(after[1]), int(after[2]), int(after[3] or 0))
            year, month = parts["year"] or parts.get("last"), parts.get("month") or parts.get("number")
            if parts.get("era"):
                (before, last), of = _ERAS[parts["era"]], 1 if parts["of"] == "元" else _number(parts["of"]) or 0
                if not 1 <= of <= last:
                    continue
                year = str(before + of)
            readings = [moment(year, month, parts.get("day"), clock)] if month else self._of(parts)
            if any(readings):
                yield Found(tuple(dict.fromkeys(filter(None, readings))), match.start(), end)

    def _of(self, parts: dict[str, str]) -> list[Moment | None]:
        """Return the readings of two figures before a year, of which a full stop puts the day first."""
        year, first, second = parts["year"], parts["first"], parts["next"]
        if len(year) == 2:
            year = f"{'20' if int(year) < 69 else '19'}{year}" if parts["mark"] != "-" else "0"
        day_first, month_first = moment(year, second, first), moment(year, first, second)
        if parts["mark"] == "." or (self.context.day_first and day_first):
            return [day_first]
        return [month_first] if self.context.day_first is False and month_first else [day_first, month_first]


def _with_digits(text: str) -> tuple[str, Sequence[int]]:
    """Return a text with a month's name with its days in words as digits, and the place of each character: `the 5 of March`."""
    words = [word for word in words_of(text) if word.text != "-"]
    said = [word.text for word in words]
    months = [without_marks(word) in MONTHS for word in said]
    if not any(months):
        return text, range(len(text) + 1)
    runs = [(run.first, run.last, run.value) for run in spelled(said)]
    ordinals = [(at, ordinal(said[: at + 1])) for at in range(len(said))]
    runs += [(at - one[1] + 1, at, one[0]) for at, one in ordinals if one is not None]
    pieces, places, begin = list[str](), list[int](), 0
    for first, last, value in sorted(runs, key=lambda run: (run[0], -run[1])):
        is_day = (
            not any(months[first : last + 1]) or True in months[last + 1 : last + 2]
        )  # `sept` is seven in French, too
        if is_day and words[first].start >= begin and value is not None and value < 32:
            pieces += [text[begin : words[first].start], str(value)]
            places += [*range(begin, words[first].start), *[words[first].start] * len(str(value))]
            begin = words[last].end
    return "".join([*pieces, text[begin:]]), [*places, *range(begin, len(text) + 1)]


def _with_names(text: str) -> Iterator[Found]:
    """Find dates with a month's name: `Friday, the 1st of March 2024`, `March 1, 2024`, `1. März`."""
    for word in _WORD.finditer(text):
        month = MONTHS.get(without_marks(word[0].casefold()))
        if month is None:
            continue
        before = _BEFORE.search(text, max(0, word.start() - 40), word.start())
        after = _AFTER.match(text, word.end())
        if before is None or after is None or any(before[part] and after[part] for part in ("day", "year")):
            continue
        found = moment(before["year"] or after["year"], str(month), before["day"] or after["day"])
        if found is not None:
            is_day = without_marks((before["name"] or "").casefold()) in WEEKDAYS
            other = _OTHER_DAY.search(text, max(0, before.start("date") - 40), before.start("date"))
            day = moment(before["year"] or after["year"], str(month), other["day"]) if other and before["day"] else None
            if other and day is not None:
                yield Found((day,), other.start(), other.end())
            yield Found((found,), before.start() if is_day else before.start("date"), after.end())


def _shown(value: Moment) -> str:
    if value.year is None:
        return f"{value.day} {WORDS['months'][value.month - 1].split()[0].capitalize()}"
    text = f"{value.year:04d}-{value.month:02d}" + ("" if value.day is None else f"-{value.day:02d}")
    return text if value.clock is None else f"{text} " + ":".join(f"{part:02d}" for part in value.clock)


_PART_OF_DAY = "(?: (?:in the (?:(?P<am>morning)|(?P<pm>afternoon|evening))|at (?P<night>night)))?"
_CLOCK = re.compile(
    r"(?ai)(?<![\w.:,/-])(?P<hour>\d{1,2})(?:(?P<sign>[:.]| ?h ?| Uhr )(?P<minute>\d\d)(?::(?P<second>\d\d))?)?"
    r"(?P<mark> ?(?:(?P<half>[ap]) ?\.?m\b\.?|(?:Uhr|hrs|h|o['’]clock)\b))?(?![\w:/%]|[.,]\d|-\d)" + _PART_OF_DAY
)
_AT = re.compile(r"(?i)(?<!\w)(?:at|um|om|kl\.?|alle|às|klokken|o godzinie|в)\s$")
"""Words before a time with a full stop: `at 14.35`."""
_STOPPED = re.compile(r"(?a)(?<!.)([01]?\d|2[0-3])\.([0-5]\d)(?!.)")
"""`8.40`: all of a text where a time is asked for; elsewhere it is a number."""
_CJK_CLOCK = re.compile(
    r"(?a)(?:(?P<am>上午|早上|午前|오전)|(?P<pm>下午|午後|오후)|(?P<night>晚上|夜))? ?(?P<hour>\d{1,2}|[一二两三四五六七八九十]{1,3}) ?[点點时時시](?!间|間)"
    r"(?: ?(?P<minute>\d{1,2}|[一二三四五六七八九十零]{1,3}) ?[分분]| ?(?P<by>[半반]|[一三]刻))?(?: ?(?P<second>\d{1,2}) ?[秒초])?"
)
_COUNT = rf"(?:(?:twenty[ -])?(?:{'|'.join([*UNITS][1:10])})|{'|'.join([*UNITS][10:])}|twenty|\d{{1,2}})"
_OTHER_HOUR = re.compile(rf"(?ai)(?<![\w.:])(?P<hour>\d{{1,2}}|{_COUNT}) (?:or|to|and|oder|bis|und|ou|et|o|y|a) $")
"""An hour whose `o'clock` stands behind a second one: `3 or 4 o'clock`."""
_SPOKEN = re.compile(
    rf"(?ai)(?:\b(?:(?P<minute>half|(?:a )?quarter|{_COUNT})(?: minutes?)? past|(?P<left>(?:a )?quarter|{_COUNT} minutes?) (?:to|before)) "
    rf"(?P<hour>{_COUNT})\b(?![:.]\d)|\b(?=[a-z])(?P<whole>{_COUNT}) o['’]clock\b|\b(?:12 )?(?P<name>noon|midnight)\b)"
    + _PART_OF_DAY
)


_HOUR = r"(?:(?:las?|les?|as|às|alle|l['’])\s?)?(?P<h>[^\W\d_]+(?:-dia)?|\d{1,2})(?:\s?(?:uhr|heures?|h|horas?|ore|uur|часов|часа)(?!\w))?"
_MINUTES = r"(?P<m>[^\W\d_]+(?:-[^\W\d_]+)?|\d{1,2})(?:\s(?:minuten|minut[eoi]s?|minuti|minuter))?"


_OPENS = re.compile(r"(?i)\b(?:hours|open|from|odds|ratio)\b")
"""Words of a question for which `ten to five` is no time."""
_NOON = frozenset(WORDS["noon"].split())
_HALF_OF_DAY = re.compile(
    "|".join(
        rf"(?P<{half}>,? (?:{'|'.join(word.strip() for word in WORDS[name].split('|'))})(?!\w))"
        for half, name in (("pm", "evening"), ("am", "morning"))
    )
)


class Clock(NamedTuple):
    """A time of day. `half` is `am` or `pm`, `24` for the hours of 0 to 23, empty where a dial leaves the half of the day open."""

    hour: int
    minute: int
    second: int
    half: str

    def of_day(self) -> int:
        """Return the hour of 0 to 23."""
        return self.hour % 12 + 12 * (self.half == "pm") if self.half in ("am", "pm") else self.hour


class Time(AnswerType):
    """A time of day, at the precision of the gold answer. Of 1 to 12 hours it leaves the half of the day open, as a dial does.

    So `1:05 pm` answers `1:05`, `13:05` does not. `01:05` is in the morning.
    """

    kind = "time"
    expected = "a time of day, such as `10:05` or `1:05 pm`"

    def parse(self, text: str) -> Clock | None:
        text = _STOPPED.sub(r"\1:\2", text) if self.context.question else text
        found = self.find(Sentence(text)) if len(text) <= MOST_CHARACTERS else ()
        return next((time.value for time in found if (time.start, time.end) == (0, len(text))), None)

    def parse_gold(self, cell: Any) -> Clock:
        clock: Clock = super().parse_gold(_STOPPED.sub(r"\1:\2", cell) if isinstance(cell, str) else cell)
        return clock

    def same(self, value: Clock, gold: Clock) -> bool:
        if value.minute != gold.minute or (gold.second and value.second != gold.second):
            return False
        if not gold.half and value.half in ("am", "pm"):
            return value.hour % 12 == gold.hour % 12
        return value.of_day() == gold.of_day()

    def show(self, value: Clock) -> str:
        text = f"{value.hour:02d}" if value.half == "24" else str(value.hour)
        text += f":{value.minute:02d}" + (f":{value.second:02d}" if value.second else "")
        return f"{text} {value.half}" if value.half in ("am", "pm") else text

    def find(self, sentence: Sentence) -> Sequence[Found]:
        text = plain(sentence.text).replace("：", ":")
        matches = (match for pattern in (_CLOCK, _CJK_CLOCK, _SPOKEN) for match in pattern.finditer(text))
        found = [Found(_clock(match), match.start(), match.end()) for match in matches]
        worded = list(_in_words(text, self.context.question))
        inside = [range(one.start, one.end) for one in worded]
        found = [one for one in found if one.value is not None and not any(one.start in place for place in inside)]
        found = sorted(worded + found, key=lambda one: one.start)
        ranged = _ranged(found, text)
        found = [one for one in found if one in ranged or not _is_moved(one, text, self.context.question)]
        for one in list(found):
            other = _OTHER_HOUR.search(text, max(0, one.start - 24), one.start)
            hour = None if other is None else _number(other["hour"])
            if other is not None and hour is not None:
                found.append(Found(one.value._replace(hour=hour), other.start(), other.end()))
        return sorted(found, key=lambda one: one.start)


@cache
def _spoken_clocks() -> list[tuple[str, str, re.Pattern[str], int, str]]:
    """Return the times in words of each language: a word that each such time has, its pattern, and what it adds to the hour."""
    listed = []
    for language, rows in WORDS["clock"].items():
        for form, added in rows.items():
            words = form.split()
            pattern = r"\s".join({"h": _HOUR, "m": _MINUTES}.get(word, re.escape(word)) for word in words)
            number, signed = (added, "") if "m" not in added else (added[:-2], added[-2])
            key = max((word for word in words if word not in "hm"), key=len)
            listed.append((language, key, re.compile(rf"(?<![\w-]){pattern}(?!\w)"), int(number or 0), signed))
    return listed


def _in_words(text: str, question: str) -> Iterator[Found]:
    """Find times in words: `viertel nach acht`, `las dos menos cuarto`, `wpół do dziesiątej`, `halb acht abends`."""
    low, found = text.lower(), list[Found]()
    for language, key, pattern, added, sign in _spoken_clocks():
        for match in pattern.finditer(low) if key in low else ():
            hour, minutes = _spoken(match["h"], language), _spoken(match["m"], language) if sign else 0
            if hour is None or minutes is None or not 1 <= hour <= 12 or (sign and minutes not in range(5, 30, 5)):
                continue
            before = low[max(0, match.start() - 20) : match.start()].split()[-1:]
            if before and (_spoken(before[0], language) is not None or (language == "en" and before == ["from"])):
                continue  # `from ten to five`, `twenty five to six`
            if language == "en" and (match["m"].isdigit() or _OPENS.search(question)):
                continue
            of_day = 60 * hour + added + (minutes if sign == "+" else -minutes)
            half, behind = "", _HALF_OF_DAY.match(low, match.end())
            if behind is not None:
                half = behind.lastgroup or ""
            elif match["h"] in _NOON:
                half = "pm" if of_day >= 720 else "am"
            end = match.end() if behind is None else behind.end()
            found.append(Found(Clock((of_day // 60 - 1) % 12 + 1, of_day % 60, 0, half), match.start(), end))
    end = 0
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if one.start >= end:
            yield one
            end = one.end


def _spoken(word: str, language: str) -> int | None:
    """Return the number that a word or figure of a time says: a cardinal, a Slavic ordinal, or noon."""
    if word.isdigit() or word in _NOON:
        return int(word) if word.isdigit() else 12
    own = languages()[language]
    return own.values.get(word, own.ordinals.get(word)) if language != "en" else _number(word)


def _ranged(found: Sequence[Found], text: str) -> list[Found]:
    """Return the moments that are the ends of a range, of which neither is the answer: `9 am to 5 pm`."""
    return [one for ends in pairwise(found) if _TO.fullmatch(text, ends[0].end, ends[1].start) for one in ends]


def _is_moved(one: Found, text: str, question: str) -> bool:
    """Return True for a moment that a word beside it moves or bounds, unless the question has that word."""
    beside = _MOVED.search(text, max(0, one.start - LONGEST_GAP), one.start) or _MOVES.match(text, one.end)
    if beside is not None and not isinstance(one.value, Clock) and _CLOCK_BEHIND.match(text, one.end):
        return False
    return beside is not None and words_in(question).isdisjoint(beside[0].lower().split())


def _half(match: re.Match[str], hour: int) -> str:
    """Return the half of the day that words behind or before an hour name: twelve at night is midnight."""
    if not 1 <= hour <= 12 or not (match["am"] or match["pm"] or match["night"]):
        return ""
    return "pm" if match["pm"] or (match["night"] and 5 <= hour < 12) else "am"


def _clock(match: re.Match[str]) -> Clock | None:
    """Return the time of a match; None for one that no clock shows."""
    if match.re is _SPOKEN:
        if match["name"]:
            return Clock(12, 0, 0, {"n": "pm", "m": "am"}[match["name"][0].lower()])
        hour, said = _number(match["hour"] or match["whole"]), (match["minute"] or match["left"] or "0").lower()
        said = said.removeprefix("a ").removesuffix("s").removesuffix(" minute")
        minute = {"half": 30, "quarter": 15}.get(said, _number(said))
        if hour is None or not 1 <= hour <= 12 or minute is None or minute > 59:
            return None
        if match["left"] and minute:
            hour, minute = (hour - 2) % 12 + 1, 60 - minute
        return Clock(hour, minute, 0, _half(match, hour))
    hour, minute, second = (_number(match[part]) for part in ("hour", "minute", "second"))
    if match.re is _CLOCK:
        half = f"{match['half'].lower()}m" if match["half"] else _half(match, hour or 0)
        if not match["mark"] and not match["sign"]:
            return None
        if not match["mark"] and match["sign"] == "." and not _AT.search(match.string, 0, match.start()):
            return None
    else:
        half = _half(match, hour or 0)
        minute = {"一刻": 15, "三刻": 45}.get(match["by"], 30) if match["by"] else minute
    minute, second = minute or 0, second or 0
    if hour is None or minute > 59 or second > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        return None
    return Clock(hour, minute, second, half or ("" if 1 <= hour <= 12 and match["hour"][0] != "0" else "24"))
