"""Quantities: a number with its unit, money, percents, ratios."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.number import Number, is_below_zero
from snellen.scoring.answers.numerals import EXACT, Value, negated, number_at, plain, written
from snellen.scoring.answers.units import MINOR, PARTS_OF, convert, is_currency, may_be_same, unit_at, unit_named
from snellen.scoring.replies.sentences import Sentence

MOST_CHARACTERS = 200
"""Maximum characters of a quantity."""
_LATEX = (
    (re.compile(r"\\(?:text|mathrm|mathit|rm|mathsf|unit) ?\{([^{}]{0,40})\}"), r"\1"),
    (re.compile(r"\^ ?(?:\{ ?\\circ ?\}|\\circ)|\\degree"), "°"),
    (re.compile(r"\\([%$€£#])"), r"\1"),
    (re.compile(r"\\[,;: ]|~"), " "),
)
_SIGN = "[A-Za-z]{0,3}[$€£¥￥₩₹₽₺₪₴₫฿₱₦₿]|[A-Z]{2,3}|Rs\\.?|[Kk]r\\.?|R[p$]|Fr\\.|百分之"
_SIGNED = re.compile(rf"(?P<sign>[-−–+]?)(?P<name>{_SIGN}) ?(?:(?=[-−–+.\d])|(?<=百分之))")
_SIGN_BEFORE = re.compile(rf"(?:(?<![\w)])[-−–+])?(?<![0-9A-Za-z])(?:{_SIGN}) ?$")
_RATIO = re.compile(r"\d{1,9}(?:\.\d{1,9})?(?: ?: ?\d{1,9}(?:\.\d{1,9})?){1,4}", re.ASCII)
_SLASHED = re.compile(r"\d+ ?/ ?\d+")
_LINK = re.compile(r",? ?(?:(?:and|und|et|y|e|i|и) )?", re.IGNORECASE)
_NAMES = re.compile(r"[(\[] ?([^()\[\]]{1,20}?) ?[)\]]|\bin (\S{1,20}?)(?=[?.,;:)]|$)")
_WORDS = re.compile(
    r"[^\W\d_]{3,}|[^\W\d_]{1,3}[$]|[^\w\s.,?!'\"-]C?F?|(?<!\w)(?!in\b|an\b|st\b|pt\b)[a-z][a-zA-Z](?!\w)"
)
_BELOW = re.compile(
    r"(?i) ?(?:below (?:zero|freezing)|unter null|bajo cero|au-dessous de zéro|sous zéro|sotto (?:lo )?zero|abaixo de zero|onder nul|ниже нуля|мороза|under noll)"
)
_PART_OF = re.compile(r"([^\W\d_]+),? ?(?:(?:and|und|et|y|e|i|и) )?$")
_CENTS = {("USD", "¢"): 100, ("EUR", "¢"): 100, ("GBP", "p"): 100}
_TEMPERATURES = ("°C", "°F", "K")
_TEMPERATURE = re.compile(
    r"(?i)temp[eé]rat|therm[oô]m[eè]t|term[oóôò]met|температур|термометр|[温溫氣気][温溫度]|체온|기온|온도|sıcaklık|suhu|nhiệt độ|حرارة|तापमान|how (?:hot|cold|warm)"
)
"""Words of questions that name degrees."""
_AN_HOUR = re.compile(r"(?:시속|[时時]速) ?$")
_HOURLY = {"km": "km/h", "mi": "mi/h"}


class Amount(NamedTuple):
    """A number with its unit's symbol, empty without one, and its decimals as written. The unit of a ratio is all of it: `1:2`."""

    number: Value
    unit: str
    decimals: int


class Quantity(Number):
    """A number with a unit, that of the question where it has none. Units that convert are converted.

    Whole numbers and money are exact, others within 1 % or the rounding of the gold answer, or within the table's tolerance.
    """

    kind = "quantity"
    expected = "a number with a unit, such as `30 °C`, `$10.50`, `45%` or `1:2`"

    def schema(self) -> dict[str, Any]:
        """Return a number where the question names the unit, else a text with number and unit."""
        return {"type": "number" if self.context.unit else "string"}

    def parse(self, text: str) -> Amount | None:
        return self._parsed(text, self._decimal(text))

    def as_gold(self, text: str) -> Amount | None:
        return self._parsed(text, self.context.decimal)

    def _parsed(self, text: str, decimal: str) -> Amount | None:
        if len(text) > MOST_CHARACTERS:
            return None
        for pattern, replacement in _LATEX if "\\" in text else ():
            text = pattern.sub(replacement, text)
        text = " ".join(plain(text).replace("：", ":").replace("∶", ":").split())
        if _RATIO.fullmatch(text) is not None:
            return Amount(1, text.replace(" ", ""), 0)
        found = self._amount_at(text, 0, decimal)
        return found.value if found is not None and found.end == len(text) else None

    def same(self, value: Amount, gold: Amount) -> bool:
        given = "" if value.unit == "°" and gold.unit in _TEMPERATURES else value.unit
        warm = gold.unit in _TEMPERATURES and _TEMPERATURE.search(self.context.question) is not None
        unit = given or (gold.unit if warm else self._asked_unit(gold.unit))
        wanted = gold.unit or self._asked_unit(value.unit)
        number, answer = Fraction(gold.number), Fraction(value.number)
        exact = is_currency(wanted) or (gold.decimals <= 0 and number.denominator == 1)
        if unit == wanted:
            return self._near(answer, number, gold.decimals, exact)
        if may_be_same(unit, wanted):
            factors = [1 if name in MINOR else 100 for name in (unit, wanted)] if MINOR & {unit, wanted} else [1, 1]
            return answer * factors[0] == number * factors[1]
        there, back = convert(gold.number, wanted, unit), convert(value.number, unit, wanted)
        is_exact = exact and there is not None and there.denominator == 1
        return back is not None and self._near(back, number, EXACT, is_exact)

    def forms(self, value: Amount | str) -> tuple[Any, ...]:
        return (self.as_gold(value) if isinstance(value, str) else value,)

    def divided(self, value: Amount, divisor: int) -> str:
        return self.show(value._replace(number=Decimal(value.number) / divisor))

    def show(self, value: Amount) -> str:
        return (
            value.unit if ":" in value.unit else f"{written(value.number, self.context.decimal)} {value.unit}".strip()
        )

    def find(self, sentence: Sentence) -> list[Found]:
        found: list[Found] = []
        for one in self._amounts(sentence):
            whole = self._with_part(sentence.text, found[-1], one) if found else None
            before = _PART_OF.search(sentence.text, found[-1].end if found else 0, one.start)
            if whole is None and before is not None and (unit_named(before[1]) or "", one.value.unit) in PARTS_OF:
                continue  # of `Dos kilos y cuatrocientos gramos` nobody reads the grams alone
            found = [*found[:-1], whole] if whole is not None else [*found, one]
        return self._chosen(sentence, [one for one in found if one.value.unit] or found)

    @staticmethod
    def _with_part(text: str, whole: Found, part: Found) -> Found | None:
        """Return two amounts as one where the second is of a smaller unit and follows at once: `Dos kilos y cuatrocientos gramos`."""
        factor = (PARTS_OF | _CENTS).get((whole.value.unit, part.value.unit))
        if factor is None or whole.value.decimals or not 0 <= part.value.number < factor:
            return None
        if _LINK.fullmatch(text, whole.end, part.start) is None:
            return None
        value = Amount(whole.value.number * factor + part.value.number, part.value.unit, part.value.decimals)
        if part.value.unit in MINOR:  # `4 dollars and 50 cents` are dollars still
            value = Amount(Decimal(value.number) / factor, whole.value.unit, 2)
        return Found(value, whole.start, part.end)

    def _taken(self, text: str, number: Found) -> Found | None:
        text, decimal = plain(text), self._decimal(text)
        before = _SIGN_BEFORE.search(text, max(0, number.start - 7), number.start)
        amount = self._amount_at(text, before.start(), decimal) if before is not None else None
        if amount is None or amount.end <= number.start:
            amount = self._worded_amount(text, number) or self._amount_at(text, number.start, decimal)
        bare = amount is not None and not amount.value.unit and not (self.context.unit or self._named_units)
        is_part = amount is not None and amount.end < number.end  # `5 millones`
        return None if amount is None or bare or is_part else self._as_said(text, amount)

    @staticmethod
    def _as_said(text: str, amount: Found) -> Found:
        """Return an amount as words around it say: `5 degrees below zero`, `氷点下3度`, `시속 60km`."""
        if amount.value.unit in _HOURLY and _AN_HOUR.search(text, max(0, amount.start - 4), amount.start):
            return amount._replace(value=amount.value._replace(unit=_HOURLY[amount.value.unit]))
        unit, below = amount.value.unit, _BELOW.match(text, amount.end)
        if unit not in (*_TEMPERATURES, "°") or amount.value.number <= 0:
            return amount
        if below is None and not is_below_zero(text, amount.start):
            return amount
        value = amount.value._replace(number=negated(amount.value.number))
        return Found(value, amount.start, amount.end if below is None else below.end())

    def _worded_amount(self, text: str, number: Found) -> Found | None:
        """Return the amount of a number in words of another language than English: `minus fünf Grad Celsius`."""
        own = None if text[number.start].isdigit() else number_at(text, number.start)
        if text[number.start].isdigit() or (own is not None and own.end >= number.end):
            return None
        value = negated(number.value) if is_below_zero(text, number.start) else number.value
        unit, end = self._unit_at(text, number.end) or ("", number.end)
        return Found(Amount(value, unit, 0), number.start, end)

    def _in_unit(self, sentence: Sentence, found: Sequence[Found]) -> list[Found]:
        return [one for one in found if self._asked_unit(one.value.unit)]

    @staticmethod
    def _is_year(one: Found) -> bool:
        return not one.value.unit and 1_800 <= one.value.number <= 2_100

    def parse_gold(self, cell: Any) -> Any:
        if (value := self.as_gold(undressed(str(cell)))) is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return value

    def short(self, sentence: Sentence) -> Found | None:
        return AnswerType.short(self, sentence)

    def _amount_at(self, text: str, start: int, decimal: str) -> Found | None:
        """Return the amount that starts at a place: `$5`, `5 kg`, `5 ft 10 in`, `百分之五`."""
        before = _SIGNED.match(text, start)
        sign, name = before.group("sign", "name") if before is not None else ("", "")
        unit = "%" if name == "百分之" else unit_named(name) or ""
        if before is not None and (is_currency(unit) or unit == "%"):
            number = number_at(text, before.end(), decimal)
            if number is None or (sign and text[number.start] in "-−–+"):
                return None
            after = unit_at(text, number.end)
            end = after[1] if after is not None and may_be_same(after[0], unit) else number.end
            return Found(
                Amount(negated(number.value) if sign in tuple("-−–") else number.value, unit, number.decimals),
                start,
                end,
            )
        if (number := number_at(text, start, decimal, scaled=False)) is None:
            return None
        if (behind := self._unit_at(text, number.end)) is None and (
            scaled := number_at(text, start, decimal)
        ) is not None:
            number, behind = scaled, self._unit_at(text, scaled.end)
        if behind is None:
            return Found(Amount(number.value, "", number.decimals), start, number.end)
        if _SLASHED.fullmatch(text, start, number.end) is not None and number.value > 1:
            return None  # a blood pressure of 120/80 mmHg
        return self._with_parts(text, Amount(number.value, behind[0], number.decimals), start, behind[1], decimal)

    def _with_parts(self, text: str, amount: Amount, start: int, end: int, decimal: str) -> Found:
        """Return an amount with the smaller units after it added, in the smallest of them."""
        while not amount.decimals:
            link = _LINK.match(text, end)
            number = number_at(text, link.end() if link is not None else end, decimal, scaled=False)
            if number is None or number.value < 0 or text[number.start] in "+-−–":
                break
            unit = unit_at(text, number.end) or ({"ft": "in", "h": "min"}.get(amount.unit, ""), number.end)
            symbol = "min" if (amount.unit, unit[0]) == ("h", "m") else unit[0]
            factor = PARTS_OF.get((amount.unit, symbol))
            if (
                factor is None
                or symbol in MINOR
                or number.value >= factor
                or (unit[1] == number.end and number.start != end)
            ):
                break
            total = amount.number * factor + (-number.value if amount.number < 0 else number.value)
            amount, end = Amount(total, symbol, number.decimals), unit[1]
        return Found(amount, start, end)

    def _unit_at(self, text: str, at: int) -> tuple[str, int] | None:
        """Return the unit at a place: a known one, or the word in which the question counts."""
        own, start = self.context.unit.strip(), at + text.startswith(" ", at)
        end = start + len(own)
        if own and text[start:end].casefold() == own.casefold() and not text[end : end + 1].isalnum():
            return unit_named(own) or own, end
        is_word = text.startswith(" in ", at) and text[at + 4 : at + 5].isalpha()  # `5 in the box`
        return None if is_word else unit_at(text, at)

    def _asked_unit(self, unit: str) -> str:
        """Return the unit that the question asks for: its own, or this one if the question names it."""
        own = self.context.unit.strip()
        return unit_named(own) or own or (unit if unit in self._named_units else "")

    @cached_property
    def _named_units(self) -> frozenset[str]:
        """The units that the question's text names: by a word or sign, or by a letter in brackets or after `in`."""
        question = plain(self.context.question[-2_000:])
        units = {unit_named(match[1] or match[2]) for match in _NAMES.finditer(question)}
        for match in _WORDS.finditer(question):
            units |= {(unit_at(question, match.start()) or (None,))[0], unit_named(match[0])}
        return frozenset(unit for unit in units if unit)

    def _near(self, value: Fraction, gold: Fraction, decimals: int, exact: bool) -> bool:
        """Return True if two numbers in one unit are the same answer."""
        if value == gold or (value < 0) != (gold < 0) or not gold:
            return value == gold
        if self.context.tolerance is not None:
            return abs(value - gold) <= abs(gold) * Fraction(self.context.tolerance)
        return not exact and abs(value - gold) <= max(abs(gold) / 100, Fraction(1, 2 * 10**decimals))
