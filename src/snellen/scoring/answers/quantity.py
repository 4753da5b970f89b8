"""Quantities: a number with its unit, money, percents, ratios."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.numerals import EXACT, Value, find_numbers, negated, number_at, plain, written
from snellen.scoring.answers.units import MINOR, PARTS_OF, convert, is_currency, may_be_same, unit_at, unit_named
from snellen.scoring.replies.sentences import Sentence

MOST_CHARACTERS = 200
"""Maximum characters of a quantity."""
_LATEX = (
    (re.compile(r"\^ ?(?:\{ ?\\circ ?\}|\\circ)|\\degree"), "°"),
    (re.compile(r"\\([%$€£#])"), r"\1"),
    (re.compile(r"\\[,;: ]|~"), " "),
)
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathit|rm|mathsf|unit) ?\{([^{}]{0,40})\}")
_MONEY_BEFORE = re.compile(
    r"(?P<sign>[-−–+]?)(?P<name>[A-Za-z]{0,3}[$€£¥￥₩₹₽₺₪₴₫฿₱₦₿]|[A-Z]{2,3}|Rs\.?|[Kk]r\.?|R\$|Rp|Fr\.) ?(?=[-−–+.\d])"
)
_MONEY_ENDING = re.compile(
    r"(?:(?<![\w)])[-−–+])?(?:[A-Za-z]{0,3}[$€£¥￥₩₹₽₺₪₴₫฿₱₦₿]|(?<!\w)(?:[A-Z]{2,3}|Rs\.?|[Kk]r\.?|R\$|Rp|Fr\.)) ?$"
)
_RATIO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(?: ?: ?(\d{1,9}(?:\.\d{1,9})?)){1,4}", re.ASCII)
_SLASHED = re.compile(r"\d+ ?/ ?\d+")
_LINK = re.compile(r",? ?(?:and |und )?", re.IGNORECASE)
_IN_ROW = {("°", "ft"): "arcmin", ("arcmin", "in"): "arcsec", ("h", "m"): "min"}
"""What a sign means after another unit: `48°51′24″`, `1h 30m`."""
_TEMPERATURES = ("°C", "°F", "K")


class Amount(NamedTuple):
    """A number with its unit's symbol, empty without one, and its decimals as written."""

    number: Value
    unit: str
    decimals: int


class Ratio(NamedTuple):
    """Numbers with colons between them, compared as written: `1:2` is not `2:4`, nor `1:05` `1:5`."""

    parts: tuple[str, ...]


class Quantity(AnswerType):
    """A number with a unit.

    Units that convert are converted. Whole numbers and money are exact, other numbers within 1 % or the rounding of the gold answer, or
    within the table's tolerance. A number without a unit is in the unit that the question asks for.
    """

    kind = "quantity"
    expected = "a number with a unit, such as `30 °C`, `$10.50`, `45%` or `1:2`"

    def parse(self, text: str) -> Amount | Ratio | None:
        """Return the amount or ratio that a text writes."""
        if len(text) > MOST_CHARACTERS:
            return None
        if "\\" in text:
            text = _LATEX_TEXT.sub(r"\1", text)
            for pattern, replacement in _LATEX:
                text = pattern.sub(replacement, text)
        text = plain(text).replace("：", ":").replace("∶", ":")
        text = " ".join(text.split())
        if _RATIO.fullmatch(text) is not None:
            return Ratio(tuple(part.strip() for part in text.split(":")))
        if text.startswith("百分之"):
            number = number_at(text, 3, self.context.decimal)
            return Amount(number.value, "%", number.decimals) if number and number.end == len(text) else None
        found = self._amount_at(text, 0)
        return found.value if found is not None and found.end == len(text) else None

    def same(self, value: Amount | Ratio, gold: Amount | Ratio) -> bool:
        """Return True if two amounts are equal, the unit of either given by the question where it has none."""
        if isinstance(value, Ratio) or isinstance(gold, Ratio):
            return value == gold
        given = "" if value.unit == "°" and gold.unit in _TEMPERATURES else value.unit
        unit, wanted = given or self._asked(gold.unit), gold.unit or self._asked(value.unit)
        number, answer = Fraction(gold.number), Fraction(value.number)
        exact = is_currency(wanted) or (gold.decimals <= 0 and number.denominator == 1)
        if unit == wanted:
            return self._near(answer, number, gold.decimals, exact)
        if may_be_same(unit, wanted):
            for symbol in MINOR & {unit, wanted}:
                answer, number = answer * (1 if unit == symbol else 100), number * (1 if wanted == symbol else 100)
            return answer == number
        there, back = convert(gold.number, wanted, unit), convert(value.number, unit, wanted)
        if there is None or back is None:
            return False
        return self._near(back, number, EXACT, exact and there.denominator == 1)

    def show(self, value: Amount | Ratio) -> str:
        """Return the number and the unit's symbol."""
        if isinstance(value, Ratio):
            return ":".join(value.parts)
        return f"{written(value.number, self.context.decimal)} {value.unit}".strip()

    def find(self, sentence: Sentence) -> Sequence[Found]:
        """Return every amount that a sentence names."""
        whole = sentence.text
        text = plain(whole)
        found: list[Found] = []
        for number in find_numbers(text, self.context.decimal):
            if found and number.start < found[-1].end:
                continue
            money = _MONEY_ENDING.search(text[max(0, number.start - 7) : number.start])
            amount = self._amount_at(text, number.start - len(money[0])) if money is not None else None
            if amount is None or not is_currency(amount.value.unit):
                amount = self._amount_at(text, number.start)
            if amount is not None:
                found.append(amount)
        return found

    def _amount_at(self, text: str, start: int) -> Found | None:
        """Return the amount that starts at a place: `$5`, `5 kg`, `5 ft 10 in`."""
        before = _MONEY_BEFORE.match(text, start)
        currency = unit_named(before["name"]) if before is not None else None
        if before is not None and currency is not None and is_currency(currency):
            number = number_at(text, before.end(), self.context.decimal)
            if number is None or (before["sign"] and text[before.end()] in "-−–+"):
                return None
            value = negated(number.value) if before["sign"] in ("-", "−", "–") else number.value
            after = unit_at(text, number.end)
            end = after[1] if after is not None and may_be_same(after[0], currency) else number.end
            return Found(Amount(value, currency, number.decimals), start, end)
        bare = number_at(text, start, self.context.decimal, scaled=False)
        if bare is None:
            return None
        if (unit := self._unit_at(text, bare.end)) is None:
            number = number_at(text, start, self.context.decimal) or bare
            unit = self._unit_at(text, number.end) if number.end > bare.end else None
            return Found(
                Amount(number.value, unit[0] if unit else "", number.decimals), start, unit[1] if unit else number.end
            )
        if _SLASHED.fullmatch(text, start, bare.end) is not None and Fraction(bare.value) > 1:
            return None  # a blood pressure of 120/80 mmHg
        return self._with_parts(text, Found(Amount(bare.value, unit[0], bare.decimals), start, unit[1]))

    def _with_parts(self, text: str, found: Found) -> Found:
        """Return an amount with the smaller units after it added, in the smallest of them."""
        amount, end = found.value, found.end
        for _ in range(3):
            link = _LINK.match(text, end)
            number = number_at(text, link.end() if link is not None else end, self.context.decimal, scaled=False)
            if number is None or amount.decimals or number.value < 0 or text[number.start] in "+-−–":
                break
            unit = unit_at(text, number.end)
            symbol = unit[0] if unit else {"ft": "in", "h": "min"}.get(amount.unit, "") if number.start == end else ""
            symbol = _IN_ROW.get((amount.unit, symbol), symbol)
            factor = PARTS_OF.get((amount.unit, symbol))
            if factor is None or number.value >= factor:
                break
            sign = -1 if amount.number < 0 else 1
            amount = Amount(amount.number * factor + sign * number.value, symbol, number.decimals)
            end = unit[1] if unit else number.end
        return Found(amount, found.start, end)

    def _unit_at(self, text: str, at: int) -> tuple[str, int] | None:
        """Return the unit at a place: a known one, or the word in which the question counts."""
        own = self.context.unit.strip()
        start = at + (text[at : at + 1] == " ")
        if (
            own
            and text[start : start + len(own)].casefold() == own.casefold()
            and not text[start + len(own) :][:1].isalnum()
        ):
            return unit_named(own) or own, start + len(own)
        is_word = text.startswith(" in ", at) and text[at + 4 : at + 5].isalpha()  # `5 in the box`
        return None if is_word else unit_at(text, at)

    def _asked(self, unit: str) -> str:
        """Return the unit that the question asks for: its own, or this one if the question names it."""
        own = self.context.unit.strip()
        if own:
            return unit_named(own) or own
        return unit if unit in self._named else ""

    @cached_property
    def _named(self) -> frozenset[str]:
        """The units that the question's text names: by a word or sign, or by a letter in brackets or after `in`."""
        question = plain(self.context.question[-2_000:])
        units = {unit_named(match[1]) for match in re.finditer(r"[(\[] ?([^()\[\]]{1,20}?) ?[)\]]", question)}
        units |= {unit_named(match[1]) for match in re.finditer(r"\bin (\S{1,20}?)(?=[?.,;:)]|$)", question)}
        for match in re.finditer(
            r"[^\W\d_]{3,}|[^\W\d_]{1,3}[$]|[^\w\s.,?!'\"-]C?F?|(?<!\w)(?!in\b|an\b|st\b|pt\b)[a-z][a-zA-Z](?!\w)",
            question,
        ):
            found = unit_at(question, match.start())
            units |= {found[0] if found else None, unit_named(match[0])}
        return frozenset(unit for unit in units if unit)

    def _near(self, value: Fraction, gold: Fraction, decimals: int, exact: bool) -> bool:
        """Return True if two numbers in one unit are the same answer."""
        if value == gold:
            return True
        if (value < 0) != (gold < 0) or not gold:
            return False
        if self.context.tolerance is not None:
            return abs(value - gold) <= abs(gold) * Fraction(self.context.tolerance)
        return not exact and abs(value - gold) <= max(abs(gold) / 100, Fraction(1, 2 * 10**decimals))
