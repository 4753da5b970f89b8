"""Counts and numbers. A number may be asked for in a unit: another unit of the same dimension is converted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, ClassVar, NamedTuple

from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED, WORDS, AnswerType, Found, GoldError
from snellen.scoring.answers.choice import is_all_but
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.fold import stemmed
from snellen.scoring.answers.number_words import heads, joints, korean, language_of, scales, spelled
from snellen.scoring.answers.numerals import CJK_DIGITS, SCALES, find_numbers, parse_number
from snellen.scoring.answers.units import convert, unit_at, unit_named
from snellen.scoring.replies.sentences import (
    Sentence,
    in_brackets,
    ordered,
    places_of,
    single_words,
    words_in,
    words_of,
)
from snellen.text import terms

MOST_NUMBERS = 120
"""Numbers of a sentence that are weighed: the first 40 and the last."""
LONGEST_GAP = 24
"""Characters between two numbers of a range."""
CLOSE = 5
"""Words between the numbers of an enumeration."""
LONGEST = 120
"""Characters of a text that is one number with a unit or a noun."""
RELATIVE = Decimal("0.01")
"""A number with decimals is right within 1 % of the gold value, or within half a unit of the gold's last digit."""
_WORDS_OF_ABOUT = (
    r"about|approximately|approx\.?|around|roughly|nearly|almost|exactly|circa|ca\.?|~|≈|etwa|ungefähr|rund|environ|unos|unas"
    "|cerca de|около|примерно|约|大约|約"
)
_ABOUT = re.compile(rf"(?:{_WORDS_OF_ABOUT})\s*", re.IGNORECASE)
_ABOUT_END = re.compile(rf"(?<![^\W_])(?:{_WORDS_OF_ABOUT})$", re.IGNORECASE)
_RANGE = re.compile(
    r"\s{0,2}(?:-|–|—|~|～|to|bis|tot|till?|a|à|al|até|hasta|do|до|至|到|から|or|oder|o|ou|或|、)\s{0,2}", re.IGNORECASE
)
ZERO = terms("none zero nil keine keiner aucun aucune ninguno ninguna nenhum nenhuma nessuno nessuna 没有 ноль")
_NO = frozenset(
    ("no", "kein", "keine", "keinen", "aucun", "aucune", "ningún", "ninguna", "nenhum", "nenhuma", "nessun", "nessuna")
)


class Amount(NamedTuple):
    """A number as it was written: its value and the place of its last digit."""

    value: Decimal
    decimals: int


class Number(AnswerType):
    """A number, as a float."""

    kind: ClassVar[str] = "number"
    expected: ClassVar[str] = "a number"
    is_closed: ClassVar[bool] = True

    def schema(self) -> dict[str, Any]:
        """Return any number."""
        return {"type": "number"}

    def parse(self, text: str) -> Any | None:
        """Return the number that a whole text writes, perhaps with `about` before it and a unit or a noun of the question behind."""
        if len(text) > LONGEST:
            return None
        text = text.strip()
        text = f"-{text[2:]}" if _SPACED_MINUS.match(text) else text
        text = text[2:].lstrip() if text.startswith("- ") and not text[2:3].isdigit() else text
        text = text[match.end() :] if (match := _ABOUT.match(text)) is not None else text
        found = parse_number(text, self._decimal(text))
        if found is not None:
            return self._value(self._unscaled(found[0], text))
        clause = _CLAUSE.search(text)
        if (
            clause is not None
            and clause.start()
            and (_DASHED.match(text, clause.start()) or self._is_aside(text[clause.start() :]))
            and (head := self.parse(text[: clause.start()])) is not None
        ):
            return head
        sentence = Sentence(text)
        listed = list(self._amounts(sentence))
        if len(listed) != 1 or text[: listed[0].start].strip():
            return None
        behind = [word.text for word in sentence.words if word.start >= listed[0].end]
        fits = len(behind) <= 3 and all(
            stemmed(word) in self._asked() or not word[0].isalnum() or self._is_unit(word) or word in WORDS["counters"]
            for word in behind
        )
        return self._value(listed[0].value) if fits and not {"?", "+", "/"} & set(behind) else None

    def as_gold(self, text: str) -> Any | None:
        """Return the number of a text that is the gold cell, of which the table tells the decimal sign."""
        found = parse_number(text, self.context.decimal)
        return self.parse(text) if found is None else self._value(found[0])

    def _named(self, sentence: Sentence) -> int:
        """Return how many numbers a sentence names, those that are no answer too."""
        return len(find_numbers(sentence.text)) + sum(one.value is not None for one in self._worded(sentence, ()))

    def _is_aside(self, clause: str) -> bool:
        """Return True for a trailing clause that names no other number, or only gives reasons."""
        sentence = Sentence(clause)
        reasons = ("because", "since", "as", "weil", "denn", "porque")
        return any(word.text in reasons for word in sentence.words[:2]) or not self._named(sentence)

    def _decimal(self, text: str) -> str:
        """Return the decimal sign of a reply: a comma where the question is in a language that writes one.

        A comma before three digits groups thousands all the same: models write `1,200` in any language.
        """
        return "." if self._is_comma and _THOUSANDS.search(text) else "," if self._is_comma else "."

    @property
    def _is_comma(self) -> bool:
        return "," in (self.context.decimal, decimal_of(self.context.question))

    def is_open(self, text: str) -> bool:
        """Return True for a number whose only sign groups or parts its digits: `3,142` and `2.500` where commas are written."""
        return self.kind != "count" and self._is_comma and len(_OPEN.findall(text)) == 1

    def divided(self, value: Any, divisor: int) -> str:
        """Return a value's other form."""
        return str(Decimal(repr(value)) / divisor)

    def _is_unit(self, word: str) -> bool:
        return bool(self.context.unit) and word.casefold() == self.context.unit.casefold()

    def _value(self, value: Any) -> Any | None:
        number = float(value)
        return number if isfinite(number) else None

    def parse_gold(self, cell: Any) -> Any:
        """Return a gold number with the place of its last digit, by which a reply may be rounded."""
        text = undressed(repr(cell) if isinstance(cell, float) else str(cell))
        found = parse_number(text.removesuffix("%").rstrip(), self.context.decimal)
        if found is None or isinstance(cell, bool):
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return Amount(Decimal(found[0]), found[1])

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if a number is the gold one: exactly for whole numbers, else within 1 % or the gold's own rounding."""
        wanted = gold if isinstance(gold, Amount) else self.parse_gold(gold)
        return is_close(
            Decimal(repr(value)) if isinstance(value, float) else Decimal(value),
            wanted,
            self.context.tolerance,
            self.context.level,
        )

    def show(self, value: Any) -> str:
        """Return the number in digits."""
        return f"{value:.12g}"

    def candidates(self, text: str) -> Iterator[int]:
        """Yield the places of digits and number words."""
        yield from (match.start() for match in _DIGITS.finditer(text))
        low = text.lower()
        yield from places_of(low, _number_heads(low.isascii()))

    def find(self, sentence: Sentence) -> list[Found]:
        """Return the numbers that a sentence names as an answer; of several the total, or those of what is asked for."""
        found = self._chosen(sentence, list(self._amounts(sentence)))
        values = [(self._value(one.value), one) for one in found]
        return [Found(value, one.start, one.end) for value, one in values if value is not None]

    def _chosen(self, sentence: Sentence, found: list[Found]) -> list[Found]:
        """Return of the numbers of a sentence those that may answer: the result, or those of what is asked for."""
        if not self._is_either(sentence, found):
            new = [one for one in found if not self._is_echo(sentence.text[one.start : one.end])]
            found = new or [one for one in found if not self._is_year(one) or len(sentence.words) < 4]
        if len({one.value for one in found}) > 1:
            years = [one for one in found if self._is_year(one)]
            if years and _ASKS_YEAR.search(self.context.question) is not None:
                found = years
            dated = [one for one in years if _YEAR_BEFORE.search(_shortly_before(sentence.text, one.start))]
            found = [one for one in found if one not in dated] or found
        if len({one.value for one in found}) < 2 or self._is_either(sentence, found):
            return found
        found = [one for one in found if not in_brackets(sentence.text, one.start)] or found
        percents = [one for one in found if sentence.text[one.end : one.end + 2].strip()[:1] == "%"]
        if percents and asks_percent(self.context.question):
            found = percents
        if (of_them := self._of_them(sentence, found)) is None:
            return []
        return (
            of_them
            or self._result(sentence, found)
            or self._in_unit(sentence, found)
            or self._asked_for(sentence, found)
            or self._sum(sentence, found)
            or self._of_clause(sentence, found)
            or found
        )

    @staticmethod
    def _is_year(one: Found) -> bool:
        return bool(1_800 <= one.value <= 2_100)

    def _is_echo(self, written: str) -> bool:
        """Return True for a number that the question says too; `one` there may be a pronoun."""
        if written.lower() in ("one", "a", "no"):
            return False
        edge = r"\d" if written[-1].isdigit() else r"\w"
        pattern = rf"(?<![{edge}.,]){re.escape(written)}(?!{edge})"
        return re.search(pattern, self.context.question, re.IGNORECASE) is not None

    def _unscaled(self, value: Any, written: str) -> Any:
        """Return a number without `million` where the question asks in millions."""
        shared = _scales(written.lower()) & _scales(self.context.question[-2_000:].lower())
        return Decimal(value).scaleb(-max(shared)) if shared else value

    def short(self, sentence: Sentence) -> Found | None:
        """Return the only number that a short sentence names."""
        found = self.find(sentence)
        if sentence.has("hedge") and len(found) < self._named(sentence):
            return None  # `6 or so, maybe 7`
        return found[0] if found and all(one.value == found[0].value for one in found) else None

    def _in_unit(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        """Return the numbers that have the unit that is asked for, if they agree."""
        wanted = unit_named(self.context.unit) if self.context.unit else None
        return [
            one
            for one in found
            if wanted and (self._unit_behind(sentence.text, one.end) or not sentence.text[one.end - 1].isdigit())
        ]

    @staticmethod
    def _unit_behind(text: str, end: int) -> tuple[str, int] | None:
        return unit_at(text, end + len(text[end:]) - len(text[end:].lstrip(" -")))

    def _converted(self, text: str, found: Found) -> Found | None:
        """Return a number in the unit that is asked for; None for one of another dimension."""
        wanted = unit_named(self.context.unit) if self.context.unit else None
        named = self._unit_behind(text, found.end) if wanted else None
        if wanted is None or named is None or named[0] == wanted:
            return found
        value = convert(found.value, named[0], wanted)
        return (
            None
            if value is None
            else Found(Decimal(value.numerator) / Decimal(value.denominator), found.start, named[1])
        )

    def _is_either(self, sentence: Sentence, found: Sequence[Found]) -> bool:
        """Return True for `3 or 4` and `1 and 2`: only such a word between the last two numbers, or an `or` close to both."""
        if len(found) < 2:
            return False
        first, last = found[-2:]
        between = Sentence(sentence.text, first.end, last.start)
        alone = len(between.words) == 1 and (between.has("and") or between.words[0].text == ",")
        return alone or (last.start - first.end < 20 and between.has("or"))

    def _amounts(self, sentence: Sentence) -> Iterator[Found]:
        """Yield the numbers of a sentence but for labels (`image 2`), list marks, ranges, bounds (`at least 3`), wholes (`of 3`)."""
        text = sentence.text
        found = [Found(one.value, one.start, one.end) for one in find_numbers(text, self._decimal(text))]
        numbers = sorted([*found, *self._worded(sentence, found)], key=lambda one: (one.start, -one.end))
        if len(numbers) > MOST_NUMBERS:
            numbers = [*numbers[: MOST_NUMBERS // 3], *numbers[-2 * MOST_NUMBERS // 3 :]]
        bounds, labels = edges(sentence, "bound") - edges(sentence, "total"), edges(sentence, "label", self._asked())
        after = frozenset(sentence.words[phrase.first].start for phrase in sentence.phrases if phrase.table == "bound")
        between = [self._between(text, one.end, other.start) for one, other in itertools.pairwise(numbers)]
        ranged = _ranged(text, numbers, between)
        if sentence.has("every") and any(is_all_but(sentence, one.start) for one in numbers):
            return  # `All but one are red.`
        skipped, covered, asked = False, 0, self._asked()
        last: Found | None = None
        for at, number in enumerate(numbers):
            if number.value is None:
                covered, skipped = number.end, False
                continue
            before, behind, near = bare_end(text, number.start), text[number.end :], _shortly_before(text, number.start)
            joined = at > 0 and between[at - 1].strip().lower() in single_words("and") | {",", "to", "-"}
            labelled = before in labels and number.value == int(number.value) and ":" not in text[before : number.start]
            listed = number.start == 0 and behind[:2] in (". ", ") ") and bool(behind[2:].strip())
            listed = listed or (text[number.start : number.end] == "一" and asked.isdisjoint(behind[1:4]))  # `an`
            negated = _NEGATED.search(_shortly_before(text, before)) is not None
            dated = 1_800 <= number.value <= 2_100 and near.lower().endswith("from ")  # `It dates from 1998`
            bounded = (
                negated or (before in bounds and not dated) or number.end + len(behind) - len(behind.lstrip()) in after
            )
            compound = (
                (behind[:1] == "-" and behind[1:2].isalpha())
                or _OPERATOR.search(near) is not None
                or _UNKNOWN.match(behind) is not None
                or number.start < covered
            )
            pronoun = (
                text[number.start : number.end].lower() == "one"
                and len(numbers) > 1
                and _PRONOUN.match(behind) is not None
            )
            whole = pronoun or _WHOLE.search(near) is not None or _is_divided(text, number, at + 1 == len(numbers))
            skipped = (
                (skipped and joined)
                or whole
                or labelled
                or listed
                or bounded
                or compound
                or bool({at, at - 1} & ranged)
            )
            if skipped or (at > 0 and _OF_ALL.fullmatch(between[at - 1])):
                continue
            if (taken := self._taken(text, number)) is not None:
                covered = taken.end
                if not self._is_compared(text, taken.end):
                    yield from () if last is None else (last,)
                    last = taken
            elif last is not None and text[last.end : number.start].strip().lower() in _PART_JOINTS:
                last = None  # of `two dollars fifty` nobody reads the two alone
        yield from () if last is None else (last,)

    def _between(self, text: str, end: int, start: int) -> str:
        """Return what stands between two numbers, without the unit of the first and the currency of the second but at an `or`."""
        gap = text[end:start]
        if len(gap) > LONGEST_GAP or not gap.strip():
            return gap
        unit = self._unit_behind(text, end)
        rest = (gap if unit is None else text[unit[1] : start]).rstrip("$€£¥")
        return gap if rest.strip().lower() in single_words("or") else rest

    def _taken(self, text: str, number: Found) -> Found | None:
        """Return a number with its sign, in the unit and scale that are asked for; None for one of another dimension."""
        amount = self._converted(text, number)
        if amount is None:
            return None
        value = -amount.value if amount.value > 0 and is_below_zero(text, number.start) else amount.value
        return amount._replace(value=self._unscaled(value, text[amount.start : amount.end]))

    def _is_compared(self, text: str, end: int) -> bool:
        """Return True for a difference: `6 cm shorter`, where the question asks for none."""
        behind = _COMPARED.match(text, end)
        return behind is not None and behind[1].lower() not in self.context.question.lower()

    def _worded(self, sentence: Sentence, figures: Sequence[Found]) -> Iterator[Found]:
        """Yield numbers in words of other languages than English and Chinese; one that cannot be read has the value None.

        A scale multiplies figures before it (`5 mil`), and a word of their unit is none: `20 por ciento`.
        """
        words, text, end = sentence.words, sentence.text, 0
        ends = {one.end: one for one in figures}
        for run in spelled([word.text for word in words], words_in(self.context.question[:300])):
            first, last = words[run.first], words[run.last]
            before = max((place for place in (*ends, end) if place <= first.start), default=0)
            if before and (unit := unit_at(text, before)) is not None and unit[1] > first.start:
                continue
            end, figure = last.end, ends.get(before)
            between = {word.text for word in words[: run.first] if word.start >= before}
            if figure and between <= joints(run.language) and (run.value is None or run.value >= 1_000):
                is_scale = run.value in (10**3, 10**6, 10**9)
                yield Found(figure.value * run.value if is_scale else None, figure.start, end)
            elif text[: first.start].rstrip()[-1:].isdigit() or parse_number(text[first.start : end]) is not None:
                continue
            elif run.value != 1 or (not run.first and run.last == len(words) - 1):
                yield Found(run.value, first.start, end)
        yield from (Found(*one) for one in korean(text))

    def _asked(self) -> frozenset[str]:
        return _asked_words(self.context.question[-2_000:])

    def _asked_for(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        """Return the numbers behind which a word of the question stands, where all numbers are close: `3 apples and 2 pears`."""
        asked, words = self._asked(), sentence.words
        close = all(
            (other.start - one.end <= 12 or sum(one.end <= word.start < other.start for word in words) <= CLOSE)
            and ";" not in sentence.text[one.end : other.start]
            for one, other in itertools.pairwise(found)
        )
        behind = [[stemmed(word.text) for word in words if word.start >= one.end][:2] for one in found]
        behind = [near[: 1 if near and near[0] in _PREPOSITIONS else 2] for near in behind]  # `7.2 for class 3A`
        chosen = [one for one, near in zip(found, behind, strict=True) if not asked.isdisjoint(near)]
        return chosen if close and len({one.value for one in chosen}) == 1 else []

    def _of_them(self, sentence: Sentence, found: Sequence[Found]) -> list[Found] | None:
        """Return of a total and its part (`7 cars, 3 of them red`) the one about all that is asked for; both if neither is.

        None where the part is what is not asked for: `3 of them are not red`.
        """
        text = sentence.text
        parts = [
            one
            for one in found
            if _OF_THEM.match(text, one.end) or _OF_THEM_BEFORE.search(_shortly_before(text, one.start))
        ]
        if len(parts) != 1 or len(found) < 2 or (len(found) > 2 and parts[0] is not found[1]):
            return []
        total = found[parts[0] is found[0]]
        asked = {word[:4] for word in self._asked() - _HOW_MANY if word < "\u2e80"}
        about = {stemmed(word.text)[:4] for word in words_of(text[: parts[0].start])} if total is found[0] else set()
        ends = [*(one.start for one in found[2:]), len(text)]
        for part, end in zip(parts if len(found) < 3 else found[1:], ends, strict=True):
            said = {stemmed(word.text)[:4] for word in words_of(_CLAUSE_END.split(text[part.end : end])[0])}
            if asked & said - about:
                return None if said & _NO_PART else [part]
        return [total] if asked and asked <= about else list(found) if len(found) < 3 else []

    def _sum(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        """Return the first number if it is the sum of the others, of which none is what is asked for: `3 dogs: 2 pugs, 1 poodle`."""
        whole = found[0]
        if self.kind != "count" or len(found) < 3 or 2 * whole.value != sum(one.value for one in found):
            return []
        words = [stemmed(word.text) for word in sentence.words]
        at = sum(word.start < whole.end for word in sentence.words) + 2
        return [whole] if not self._asked().intersection(words[at:]).difference(words[:at]) else []

    def _of_clause(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        """Return the only number of the last clause, if it names what is asked for: `With sides 6 and 9, the area is 54`."""
        start = max((match.end() for match in _CLAUSE_END.finditer(sentence.text)), default=0)
        inside = [one for one in found if one.start >= start]
        end = inside[0].start if inside else start
        words = [(word.start, stemmed(word.text)) for word in sentence.words if word.text[0].isalpha()]
        named = self._asked().intersection(word for at, word in words if start <= at < end)
        before = {word for at, word in words if at < start}
        return inside if start and len(inside) == 1 and not named <= before else []

    def _result(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        """Return the result of a calculation: the number behind the last `=`, at a word of summing up, or behind all operations."""
        words, text = sentence.words, sentence.text
        equal = max((match.end() for match in _EQUALS.finditer(text)), default=-1)
        variables = list(_VARIABLE.finditer(text)) if equal >= 0 else []
        if len({match[1] for match in variables}) > 1:  # `x = 2, y = 3`
            ends, asked = [*(match.start() for match in variables[1:]), len(text)], words_in(self.context.question)
            parts = {match[1].lower(): (match.end(), end) for match, end in zip(variables, ends, strict=True)}
            named = [
                [one for one in found if low <= one.start < end][-1:]
                for name, (low, end) in parts.items()
                if name in asked
            ]
            if any(named) or len(variables) == len(list(_EQUALS.finditer(text))) == 2:
                return [one for part in named for one in part]
        if behind := [one for one in found if 0 <= equal <= one.start]:
            return behind[-1:]  # `5/20 = 0.25, which is 25 %`
        for phrase in reversed(sentence.phrases):
            if phrase.table == "total":
                start, end = words[phrase.first].start, words[phrase.after - 1].end
                before = [one for one in found if one.end <= start]
                behind = [one for one in found if one.start >= end]
                if behind and (not text[end : behind[0].start].strip(" ,:") or len({one.value for one in behind}) == 1):
                    return behind[:1]
                if before and not behind:
                    return before[-1:]
        gaps = [text[one.end : other.start].strip() for one, other in itertools.pairwise(found)]
        if gaps and gaps[-1].lower() in _SIGNS | {"divided by", "multiplied by"}:
            return []  # `2 × 500` has no result
        calculates = any(len(gap) < 8 and gap[-1:] in _SIGNS for gap in gaps if gap) or any(
            word.text in _OPERATIONS for word in words
        )
        return list(found[-1:]) if calculates else []


_COMPARED = re.compile(
    r"[- ]?(?:[a-zµ%°]{1,12} )?(more|fewer|less|shorter|longer|taller|higher|lower|larger|bigger|smaller|wider|heavier|lighter|older|younger|later"
    r"|earlier|mehr|weniger|de plus|de moins|más|menos|더)(?!\w)",
    re.IGNORECASE,
)
_SIGNS = frozenset("+-−–×x*/÷·")
_OPERATIONS = terms("minus adding subtracting dividing multiplying divided multiplied subtract divide multiply")
_DASHED = re.compile(r"\s[-–—]\s(?=[^\W\d][^=]*$)")
_CLAUSE = re.compile(r"[,;(]\s|\s[-–—]\s|\s(?:because|since|as|weil|da|denn|porque)\s")
_CLAUSE_END = re.compile(r"[,;:]\s|[，；：]")
_PREPOSITIONS = single_words("function") | terms("voor van für pour par per para di da z w na в на из для por")
_PRONOUN = re.compile(
    r"[,.;]|$|\s+(?:is|that|which|who|with|in|on|of|has|was|fewer|more|less|can|may|at)\b", re.IGNORECASE
)
_WHOLE = re.compile(
    r"(?:^(?:of|among|von|unter|parmi|sur|entre|de|dei|delle|tra|van|из|среди)|\b(?:out|all|none|half|most|any|some) of"
    r"|\b(?:kein(?:e[rs]?|s)|hälfte|aucune?|moitié|plupart|ningun[oa]|mitad|nessun[oa]|metà|nenhuma?|metade|geen|helft) (?:der|von|d[aeio]\w{0,3}|van))"
    r"(?: (?:the|these|those|all|den|diesen|les|ces|los|las|i|le|de))*\s*$",
    re.IGNORECASE,
)
_PART_JOINTS = single_words("and") | {"", "con"}
_OPERATOR = re.compile(
    r"(?:[\^±√∛∜≠≥≤<]|(?<![-=])>|(?<![^\W_])(?:log|ln|lg|sin|cos|tan|cot|exp|sqrt)(?:[_^]\{?\w{1,3}\}?)?|root of|\d ?(?:[x×·÷]|\*\*?)"
    r"|\}\{|(?<![^\W_])[xyzn] ?/)[ ({_]*$"
)
"""What stands before an operand or a bound: `log 2`, `x > 3`, `2 × 500`, `x/2`."""
_UNKNOWN = re.compile(
    r" ?[√∛∜π]| ?\\?(?:pi|sqrt)(?![^\W_]|-)| ?(?:[x×·÷]|\*\*?) ?\d| ?[×*·÷] ?[xyzn](?![^\W_])|[yzn](?![^\W_])| ?\^[ {(]*[-−\d]| (?:squared|cubed)\b"
    r"|\}\{| ?/ ?(?:[√∛∜π(]|[xyznabk](?![^\W_]))| ?[<>≤≥] ?(?:\d|[xyzn](?![^\W_]|>))"
    r"| ?/ ?0(?![.\d])|\+(?! ?\d)"
)
"""What a factor, a dividend or a bound stands before: `2π`, `2y`, `3/x`, `2 × 500`, `5^2`, `3 < x`, `3/0`, `5+`."""
_DIVISOR, _DIVIDEND = re.compile(r"[\d)] ?/ ?$"), re.compile(r"[^()]{0,40}\) ?/")
_NEGATED = re.compile(r"(?<!\w)(?:not|nicht|keine|pas|不是)$", re.IGNORECASE)
_SPACED_MINUS = re.compile(r"[-−–] \d")
_MINUS = re.compile(
    r"(?:минус|minus|eksi|moins|menos|meno|마이너스|영하|零下|氷点下|영하|负|マイナス)\s?$", re.IGNORECASE
)
_YEAR_BEFORE = re.compile(r"(?<!\w)(?:in|im|en|nel|em|since|seit|by|year|de|del|в)\s$", re.IGNORECASE)
_ASKS_YEAR = re.compile(
    r"(?i)\b(?:which|what|welche\w?|quelle|qu[eé]|che|quale|welke?|jakim|którym|каком) (?:years?|jahr|année|año|ano|anno|jaar|roku|году)\b"
    "|[哪几何]一?年|(?:몇|어느) ?(?:년|해)"
)
_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])")
_OPEN = re.compile(r"(?<![\d.,])[1-9]\d{0,2}[.,]\d{3}(?![.,]?\d)")
_DIGITS = re.compile(r"\d+")
_OF_ALL = re.compile(r"\s?(?:of|out of|von|der|aus|de|sur|su|из)(?: the| all| den| las| los| les)?\s?", re.IGNORECASE)
_THEM = "of (?:them|these|those|which)|davon|darunter|waarvan|varav|dont|d'entre (?:eux|elles)|including|incluid[oa]s?|inclusief|waaronder|w tym|в том числе|de (?:ell[oa]s|estos|estas|l[oa]s cuales)|di (?:loro|essi|cui)|из (?:них|которых)"
_HOW_MANY = terms(
    "how many wie viele hoeveel combien cuántos cuántas quantos quantas quanti quante сколько ile kaç hur många berapa"
)
_NO_PART = {word[:4] for word in single_words("negation")}
_OF_THEM, _OF_THEM_BEFORE = (
    re.compile(rf"\s(?:{_THEM})(?!\w)", re.IGNORECASE),
    re.compile(rf"(?<!\w)(?:{_THEM}|其中|うち),?\s?(?:\w+ )?$", re.IGNORECASE),
)
_REST = re.compile(
    r"(?<!\w)(?:the (?:rest|others?|remaining)|all (?:\w+ )?(?:but|except)|none|(?:der|die|den) (?:rest|übrigen|anderen)|keine?[rs]?"
    r"|le reste|aucune?|el resto|ningun[oa]|il resto|nessun[oa])(?!\w)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.;!?]\s|\n")
_PERCENT = re.compile(r"(?i)per ?cent(?!age points)|prozent(?!punkte)|por ?cent|pour ?cent|%|百分")
_EQUALS = re.compile(r"=|≈|→")
_VARIABLE = re.compile(r"(?<![^\W_])([^\W\d_]) ?= ?(?=[-−\d])")


@lru_cache(maxsize=1_024)
def _asked_words(question: str) -> frozenset[str]:
    """Return the words of a question that name something, but for what a number of its own counts: `after 6 hours`."""
    function, words = single_words("function"), words_of(question)
    counted = {words[at + 1].start for at, word in enumerate(words[:-1]) if word.text.isdecimal()}
    return frozenset(
        stemmed(word.text)
        for word in words
        if word.text not in function and word.text[0].isalpha() and word.start not in counted
    )


@lru_cache(maxsize=1_024)
def _scales(text: str) -> frozenset[int]:
    """Return the powers of ten that a text names: 6 for `million`, `Mio.` and `millions`."""
    words = {word.text for word in words_of(text)}
    return frozenset(
        power
        for word, power in {**SCALES, **scales()}.items()
        if (word in words and len(word) > 2) or (word > "\u2e7f" and word in text)
    )


@lru_cache(maxsize=1)
def _amounts_in_words() -> Mapping[str, int]:
    """Return words such as `pair` and `nobody` to the number that they say."""
    return {word: value for value, row in enumerate(ordered("amount")) for word in row.split()}


@lru_cache(maxsize=2)
def _number_heads(ascii_only: bool) -> tuple[str, ...]:
    """Return what number words begin with, in all languages, and words for zero."""
    words = {*ENGLISH_BELOW_HUNDRED, *ZERO, *_NO, *heads(), *CJK_DIGITS}
    words |= {"a hundred", "dozen", "half", "quarter", "third", "十"}
    return tuple(word for word in words if not ascii_only or word.isascii())


def _is_divided(text: str, number: Found, is_last: bool) -> bool:
    """Return True for a divisor that ends the numbers, `4.5/5`, and a number within a dividend in brackets: `(1+x)/2`."""
    is_divisor = is_last and _DIVISOR.search(_shortly_before(text, number.start)) is not None
    return is_divisor or (in_brackets(text, number.start) and _DIVIDEND.match(text, number.end) is not None)


def _ranged(text: str, numbers: Sequence[Found], between: Sequence[str]) -> set[int]:
    """Return the numbers that begin a range, of which the next one is the end, and those in words that stand side by side."""
    written = [text[one.start : one.end][:1].isdigit() for one in numbers]
    return {
        at
        for at, words in enumerate(between)
        if (_RANGE.fullmatch(words) and written[at] == written[at + 1])
        or (words == " " and not (written[at] or written[at + 1] or text[numbers[at + 1].end :][:1] == "-"))
    }


def _shortly_before(text: str, place: int) -> str:
    """Return the 40 characters before a place, with an ellipsis for those before them."""
    return text[:place] if place <= 40 else f"…{text[place - 40 : place]}"


@lru_cache(maxsize=1_024)
def decimal_of(question: str) -> str:
    """Return the decimal sign of the language of a question: a point in English and where no other language is told."""
    return "," if language_of(words_in(question[:300])) not in ("", "en") else "."


def asks_percent(question: str) -> bool:
    """Return True for a question that speaks of per cent."""
    return _PERCENT.search(question) is not None


def is_below_zero(text: str, start: int) -> bool:
    """Return True for a number behind a word for minus: `minus fünf`, `零下|氷点下|영하`."""
    return _MINUS.search(_shortly_before(text, start)) is not None


def bare_end(text: str, start: int) -> int:
    """Return where the text before a number ends, without blanks, opening brackets and `about`."""
    before = text[max(0, start - 40) : start].rstrip(" (#~≈.:$€£¥")
    shorter = _ABOUT_END.sub("", before).rstrip()
    return start - len(text[max(0, start - 40) : start]) + len(shorter)


def is_close(value: Decimal, gold: Amount, tolerance: float | None, level: str = "folded") -> bool:
    """Return True if a value answers as a gold number does; see `RELATIVE`."""
    if value == gold.value or level == "exact":
        return value == gold.value
    if tolerance is not None:
        return abs(value - gold.value) <= Decimal(repr(tolerance)) * abs(gold.value)
    if gold.value == gold.value.to_integral_value() and gold.decimals <= 0:
        return False
    half = Decimal(5).scaleb(-gold.decimals - 1) if gold.decimals < 20 else Decimal(0)
    return abs(value - gold.value) <= max(RELATIVE * abs(gold.value), half)


def edges(sentence: Sentence, table: str, but: frozenset[str] = frozenset()) -> frozenset[int]:
    """Return the ends of the phrases of a table, but for some words."""
    ends = [sentence.words[phrase.after - 1] for phrase in sentence.phrases if phrase.table == table]
    return frozenset(word.end for word in ends if word.text not in but)


class Count(Number):
    """A whole number from 0, as an int."""

    kind: ClassVar[str] = "count"
    expected: ClassVar[str] = "a whole number"

    def schema(self) -> dict[str, Any]:
        """Return any whole number."""
        return {"type": "integer"}

    def _value(self, value: Any) -> int | None:
        return int(value) if value == int(value) and value >= 0 else None

    def parse(self, text: str) -> int | None:
        """Return the whole number that a whole text writes; `none` is 0."""
        return 0 if text.strip().lower() in ZERO else super().parse(text)

    def parse_gold(self, cell: Any) -> Amount:
        """Return a gold count; `3.0` and `三个` are 3, and `none` is 0."""
        counted = self.parse(undressed(cell)) if isinstance(cell, str) else None
        amount = super().parse_gold(cell) if counted is None else Amount(Decimal(counted), 0)
        if amount.value != int(amount.value):
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return Amount(amount.value, 0)

    def show(self, value: Any) -> str:
        """Return the count in digits."""
        return str(value)

    def is_whole(self, text: str, start: int, end: int) -> bool:
        """Return True for a number of which a rest or none behind it is what is asked for: `8 cars; 3 are blue, the rest red`."""
        rest = _REST.search(text, end, end + 300)
        if rest is None:
            return False
        parts = text[max(0, start - 80) : rest.start()], _SENTENCE_END.split(text[rest.end() : rest.end() + 80])[0]
        said, about = ({stemmed(word.text) for word in words_of(part)} & self._asked() for part in parts)
        return bool(said and about - said)

    def find(self, sentence: Sentence) -> list[Found]:
        """Return the counts of a sentence; `no birds` is 0 where birds are asked for."""
        found, words, asked = super().find(sentence), sentence.words, self._asked()
        denied = sentence.has("negation")
        for at, word in enumerate(words):
            amount, none = _amounts_in_words().get(word.text), word.text in _NO or (denied and word.text == "any")
            if word.text in ZERO and at == 0 and not found:
                return [Found(0, word.start, word.end)]
            if amount is None and not none:
                continue
            named = any(stemmed(near.text) in asked for near in words[at + 1 : at + 4])
            if (amount == 0 and not found) or (named and not self._asked_for(sentence, found)):
                value = 0 if none or (amount == 1 and denied) else amount  # `five ducks and a pair of swans`
                return [Found(value, word.start, word.end)]
        return found
