"""Dates and times of day, in figures and with the names of months in a dozen languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.numerals import parse_number, plain
from snellen.scoring.replies.sentences import Sentence
from snellen.text import terms

MOST_CHARACTERS = 120
"""Maximum characters of a date or a time."""
_MONTHS = (
    "january jan januar jänner janvier janv enero ene gennaio janeiro januari styczeń stycznia январь января ocak tammikuu",
    "february feb februar februari février févr febrero febbraio fevereiro fev luty lutego февраль февраля şubat",
    "march mar märz mrz mars marzo março maart mrt marzec marca marts март марта mart",
    "april apr avril avr abril aprile kwiecień kwietnia апрель апреля nisan",
    "may mai mayo maggio maio mei maj maja май мая mayıs",
    "june jun juni juin junio giugno junho czerwiec czerwca июнь июня haziran",
    "july jul juli juillet juil julio luglio julho lipiec lipca июль июля temmuz",
    "august aug août agosto augustus augusti sierpień sierpnia август августа ağustos",
    "september sep sept septembre septiembre settembre setembro wrzesień września сентябрь сентября eylül",
    "october oct oktober okt octobre octubre ottobre outubro październik października октябрь октября ekim",
    "november nov novembre noviembre novembro listopad listopada ноябрь ноября kasım",
    "december dec dezember dez décembre déc diciembre dic dicembre dezembro desember grudzień grudnia декабрь декабря aralık",
)
_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun montag dienstag mittwoch "
    "donnerstag freitag samstag sonnabend sonntag lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miércoles jueves "
    "viernes sábado domingo lunedì martedì mercoledì giovedì venerdì sabato domenica maandag dinsdag woensdag donderdag vrijdag "
    "zaterdag zondag segunda-feira terça-feira quarta-feira quinta-feira sexta-feira понедельник вторник среда четверг пятница суббота"
)


def _bare(word: str) -> str:
    """Return a word without case and accents."""
    return "".join(char for char in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(char))


MONTHS = {_bare(word): month for month, words in enumerate(_MONTHS, 1) for word in words.split()}
WEEKDAYS = frozenset(map(_bare, terms(_DAYS)))

_START, _END = r"(?<![\w.,:/-])", r"(?![^\WT]|[/-]|[.,:]\d)"
_YEAR_FIRST = re.compile(
    _START + r"(?P<year>\d{4})(?:-(?P<only>\d\d)|(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2}))" + _END,
    re.ASCII,
)
_YEAR_LAST = re.compile(
    _START + r"(?P<first>\d{1,2})(?P<mark>[-/.]) ?(?P<next>\d{1,2})(?P=mark) ?(?P<year>\d{4}|\d\d)" + _END, re.ASCII
)
_MONTH_FIRST = re.compile(_START + r"(?P<month>\d{1,2})/(?P<year>\d{4})" + _END, re.ASCII)
_TIME_OF_DAY = (
    r"(?:[T ](?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
)
_AFTER_FIGURES = re.compile(_TIME_OF_DAY + r"(?![\w:])", re.ASCII)
_CJK = re.compile(
    r"(?:(?P<year>\d{4}|[〇零一二三四五六七八九]{4}) ?[年년] ?)?(?<!\d)(?P<month>\d{1,2}|[一二三四五六七八九十]{1,2}) ?[月월]"
    r"(?: ?(?P<day>\d{1,2}|[一二三四五六七八九十]{1,3}) ?[日号號일])?",
    re.ASCII,
)
_WORD = re.compile(r"[^\W\d_]{3,12}")
_DAY_BEFORE = re.compile(
    r"(?:(?<![\w.,:/-])(?P<year>\d{4})[ -]|(?<![\w.,:/-])(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|º|ª)?(?: of | de | di | |-|(?<=\.)))$", re.IGNORECASE
)  # fmt: skip
_AFTER = re.compile(
    r"\.?(?:[ -](?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?(?![\w:/%-]|\.\d|,\d{3}(?!\d)))?(?:(?:,| of| de| del|-)? ?(?P<year>\d{4})(?![\w:/%-]|[.,]\d))?",
    re.IGNORECASE,
)
_WEAK = re.compile(r"[^\W\d_A-Z]+\.? \d{1,2}|\d+ [^\W\d_A-Z]{1,4}", re.ASCII)
"""What may be words of a sentence: `march 5 miles`, `2 set`."""
_LEAD = re.compile(
    r"(?:(?P<name>(?<!\w)[^\W\d_]{3,13}(?:-feira)?)\.?,? )?(?P<article>(?<!\w)(?:the|den|le|el|il|der) )?$",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?<!\w)(?:the|den|le|el|il|der) $", re.IGNORECASE)


class Moment(NamedTuple):
    """A date; what it leaves open is None. A clock of midnight, as spreadsheets write, is none."""

    year: int | None
    month: int
    day: int | None
    clock: tuple[int, int, int] | None = None


def moment(year: Any, month: Any, day: Any, clock: tuple[int, int, int] | None = None) -> Moment | None:
    """Return the date of figures that exist in the calendar."""
    year, month, day = (None if part is None else int(part) for part in (year, month, day))
    try:
        date(2000 if year is None else year, month, 1 if day is None else day)
    except ValueError:
        return None
    return Moment(year, month, day, clock if clock != (0, 0, 0) else None) if (year, day) != (None, None) else None


class Date(AnswerType):
    """A date of at least two parts, one of them a year or a month's name.

    The gold answer's precision counts: `1 March 2024` answers `March 2024`, not the other way round. A value holds every reading:
    `01/02/2024` has two where the table's column does not tell which is the day.
    """

    kind = "date"
    expected = "a date, such as `2024-03-01` or `1 March 2024`"

    def parse(self, text: str) -> tuple[Moment, ...] | None:
        """Return the readings of a text that is one date."""
        found = self._dates(text) if len(text) <= MOST_CHARACTERS else iter(())
        return next((date.value for date in found if (date.start, date.end) == (0, len(text))), None)

    def parse_gold(self, cell: Any) -> tuple[Moment, ...]:
        """Return the one reading of a gold cell.

        Raises:
            GoldError: the cell holds no date, or one whose day and month cannot be told apart.
        """
        readings: tuple[Moment, ...] = super().parse_gold(cell)
        if len(readings) > 1:
            raise GoldError(f"{str(cell)[:80]!r} may be {self.show(readings)}: write it as year-month-day")
        return readings

    def same(self, value: tuple[Moment, ...], gold: tuple[Moment, ...]) -> bool:
        """Return True if a reading has every part that the gold date has."""
        return any(all(part in (None, own) for own, part in zip(reading, gold[0], strict=True)) for reading in value)

    def show(self, value: tuple[Moment, ...]) -> str:
        """Return the date as ISO 8601 writes it, as far as it is known."""
        return " or ".join(map(_shown, value))

    def find(self, sentence: Sentence) -> Sequence[Found]:
        """Return every date that a sentence names."""
        whole = sentence.text
        return [found for found in self._dates(whole) if not _WEAK.fullmatch(whole[found.start : found.end])]

    def _dates(self, text: str) -> Iterator[Found]:
        text = plain(text).replace("，", ",")
        found = [*self._in_figures(text), *_in_characters(text), *_with_names(text)]
        end = 0
        for one in sorted(found, key=lambda one: (one.start, -one.end)):
            if one.start >= end:
                yield one
                end = one.end

    def _in_figures(self, text: str) -> Iterator[Found]:
        for match in _YEAR_FIRST.finditer(text):
            end, clock = match.end(), None
            if match["day"] and (after := _AFTER_FIGURES.match(text, end)) is not None and after["hour"]:
                end, clock = after.end(), (int(after["hour"]), int(after["minute"]), int(after["second"] or 0))
            if (one := moment(match["year"], match["only"] or match["month"], match["day"], clock)) is not None:
                yield Found((one,), match.start(), end)
        for match in _MONTH_FIRST.finditer(text):
            if (one := moment(match["year"], match["month"], None)) is not None:
                yield Found((one,), match.start(), match.end())
        for match in _YEAR_LAST.finditer(text):
            if readings := tuple(dict.fromkeys(reading for reading in self._of(match) if reading is not None)):
                yield Found(readings, match.start(), match.end())

    def _of(self, match: re.Match[str]) -> list[Moment | None]:
        """Return the readings of two figures before a year, of which a full stop puts the day first."""
        year = match["year"]
        if len(year) == 2:
            year = f"{'20' if int(year) < 69 else '19'}{year}" if match["mark"] != "-" else "0"
        day_first = moment(year, match["next"], match["first"])
        month_first = moment(year, match["first"], match["next"])
        if match["mark"] == "." or (self.context.day_first and day_first):
            return [day_first]
        if self.context.day_first is False and month_first:
            return [month_first]
        return [day_first, month_first]


def _in_characters(text: str) -> Iterator[Found]:
    """Find `2024年3月1日`, also in Korean and with Chinese numerals."""
    for match in _CJK.finditer(text):
        numbers = (None if part is None else parse_number(part) for part in match.group("year", "month", "day"))
        year, month, day = (None if number is None else number[0] for number in numbers)
        found = moment(year, month, day)
        if found is not None:
            yield Found((found,), match.start(), match.end())


def _with_names(text: str) -> Iterator[Found]:
    """Find dates with a month's name: `Friday, the 1st of March 2024`, `March 1, 2024`, `1. März`."""
    for word in _WORD.finditer(text):
        month = MONTHS.get(_bare(word.group()))
        if month is None:
            continue
        at = max(0, word.start() - 16)
        before = _DAY_BEFORE.search(text[at : word.start()])
        after = _AFTER.match(text, word.end())
        parts = before.groupdict() if before is not None else {"day": None, "year": None}
        given = after.groupdict() if after is not None else {}
        day = parts["day"] or given.get("day")
        if parts["day"] and given.get("day"):
            continue
        found = moment(parts["year"] or given.get("year"), month, day)
        if found is None or (parts["year"] and given.get("year")):
            continue
        start = word.start() - (len(before.group()) if before is not None else 0)
        end = after.end() if after is not None and (given["day"] or given["year"]) else word.end()
        start -= _length_of_lead(text[max(0, start - 24) : start])
        yield Found((found,), start, end)


def _length_of_lead(before: str) -> int:
    """Return the length of a weekday and an article at the end of a text."""
    lead, article = _LEAD.search(before), _ARTICLE.search(before)
    if lead is not None and lead["name"] and _bare(lead["name"]) in WEEKDAYS:
        return len(lead.group())
    return 0 if article is None else len(article.group())


def _shown(value: Moment) -> str:
    if value.year is None:
        return f"{value.day} {_MONTHS[value.month - 1].split()[0].capitalize()}"
    text = f"{value.year:04d}-{value.month:02d}" + ("" if value.day is None else f"-{value.day:02d}")
    return text if value.clock is None else f"{text} " + ":".join(f"{part:02d}" for part in value.clock)


_HALF = r"(?: ?(?P<half>[ap]) ?\.?m\b\.?)"
_CLOSED = r"(?![:\d/%]|[.,]\d|-\d)"
_CLOCKS = tuple(
    re.compile(r"(?<![\w.:,/-])(?P<hour>\d{1,2})" + rest + _CLOSED, re.IGNORECASE | re.ASCII)
    for rest in (
        r":(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d{1,3})?)?" + _HALF + r"?(?: ?(?:Uhr|hrs|hours|h)\b)?",
        r"\.(?P<minute>\d\d)(?: ?Uhr\b|" + _HALF + ")",
        r"(?: ?h(?: ?(?P<minute>\d\d))?\b| ?o['’]clock\b|" + _HALF + ")",
        r" ?Uhr(?: (?P<minute>\d\d?))?\b",
    )
)
_CJK_CLOCK = re.compile(
    r"(?P<half>上午|下午|晚上|早上|午後|午前|오전|오후)? ?(?P<hour>\d{1,2}|[一二两三四五六七八九十]{1,3}) ?[点點时時시](?!间|間)"
    r"(?: ?(?P<minute>\d{1,2}|[一二三四五六七八九十零]{1,3}) ?[分분]|(?P<by>半|整))?(?: ?(?P<second>\d{1,2}) ?[秒초])?", re.ASCII
)  # fmt: skip
_PAST = re.compile(
    r"\b(?P<part>half|(?:a )?quarter|[a-z]{3,6}(?:-[a-z]{3,5})?|\d{1,2})(?: minutes?)? (?P<way>past|after|to|before|till) "
    r"(?P<hour>[a-z]{3,6}|\d{1,2})\b(?![:.]\d)" + _HALF + "?",
    re.IGNORECASE | re.ASCII,
)
_NAMED = {"noon": "pm", "midday": "pm", "midnight": "am"}


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
    """A time of day, at the precision of the gold answer; no seconds are 0 seconds.

    A gold time of 1 to 12 hours without am or pm leaves the half of the day open, as a dial does: `1:05 pm` answers `1:05`,
    `13:05` does not. `01:05` is in the morning.
    """

    kind = "time"
    expected = "a time of day, such as `10:05` or `1:05 pm`"

    def parse(self, text: str) -> Clock | None:
        """Return the time of a text that is one time of day."""
        found = self.find(Sentence(text, 0, len(text))) if len(text) <= MOST_CHARACTERS else ()
        return next((time.value for time in found if (time.start, time.end) == (0, len(text))), None)

    def same(self, value: Clock, gold: Clock) -> bool:
        """Return True if two times are the same to the minute, and to the second if the gold time has seconds."""
        if value.minute != gold.minute or (gold.second and value.second != gold.second):
            return False
        if not gold.half and value.half in ("am", "pm"):
            return value.hour % 12 == gold.hour % 12
        return value.of_day() == gold.of_day()

    def show(self, value: Clock) -> str:
        """Return hours, minutes, seconds if there are any, and the half of the day where it was given."""
        text = f"{value.hour:02d}" if value.half == "24" else str(value.hour)
        text += f":{value.minute:02d}" + (f":{value.second:02d}" if value.second else "")
        return f"{text} {value.half}" if value.half in ("am", "pm") else text

    def find(self, sentence: Sentence) -> Sequence[Found]:
        """Return every time of day that a sentence names."""
        whole = sentence.text
        text = plain(whole).replace("：", ":")
        found = [
            Found(value, match.start(), match.end())
            for pattern, read in (
                *((pattern, _in_digits) for pattern in _CLOCKS),
                (_CJK_CLOCK, _of_characters),
                (_PAST, _past),
            )
            for match in pattern.finditer(text)
            if (value := read(match)) is not None
        ]
        for match in re.finditer(r"\b(?:12 )?(noon|midday|midnight)\b", text, re.IGNORECASE):
            found.append(Found(Clock(12, 0, 0, _NAMED[match[1].lower()]), match.start(), match.end()))
        return sorted(found, key=lambda one: one.start)


def clock(hour: int, minute: int, second: int, half: str, written: str) -> Clock | None:
    """Return a time that exists; `written` is the hour as it stood."""
    if minute > 59 or second > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        return None
    return Clock(hour, minute, second, half or ("" if 1 <= hour <= 12 and written[0] != "0" else "24"))


def _in_digits(match: re.Match[str]) -> Clock | None:
    given = match.groupdict()
    half = given.get("half")
    minute, second = int(given.get("minute") or 0), int(given.get("second") or 0)
    return clock(int(match["hour"]), minute, second, f"{half.lower()}m" if half else "", match["hour"])


def _of_characters(match: re.Match[str]) -> Clock | None:
    hour, minute, second = (parse_number(part) if part else None for part in match.group("hour", "minute", "second"))
    if hour is None or (match["minute"] and minute is None):
        return None
    half = "" if not match["half"] else "pm" if match["half"] in "下午晚上午後오후" else "am"
    minutes = 30 if match["by"] == "半" else int(minute[0]) if minute else 0
    return clock(
        int(hour[0]), minutes, int(second[0]) if second else 0, half if int(hour[0]) <= 12 else "", match["hour"]
    )


def _past(match: re.Match[str]) -> Clock | None:
    hour, part = parse_number(match["hour"].lower()), match["part"].lower()
    minutes = {"half": (30, 0), "quarter": (15, 0), "a quarter": (15, 0)}.get(part) or parse_number(part)
    if hour is None or minutes is None or hour[1] or minutes[1] or not 1 <= hour[0] <= 12 or not 0 < minutes[0] < 60:
        return None
    at, past = int(hour[0]), int(minutes[0])
    if match["way"].lower() in ("to", "before", "till"):
        at, past = (at - 2) % 12 + 1, 60 - past
    return clock(at, past, 0, f"{match['half'].lower()}m" if match["half"] else "", str(at))
