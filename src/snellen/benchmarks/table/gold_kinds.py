"""Kinds of gold answers, told row by row: from the cell, and from its column where the cell leaves it open.

A cell has a form first (`form_of`). `0` and `1` are numbers or truth values, `3:45` is a time or a ratio, `1,5` has a decimal
comma and `01/02/2024` is a day in January or February: `ColumnForms` counts what all cells of the column say of that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct, field

from snellen.benchmarks.table.cells import is_labelled_box, number_of
from snellen.benchmarks.table.column_names import plain_name
from snellen.benchmarks.table.languages import asks_for_text, truth_words
from snellen.benchmarks.table.literals import NoLiteralError, is_literal, literal
from snellen.scoring.answers import AnswerContext, GoldError, answer_type, kinds
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.fold import folded as fold
from snellen.scoring.answers.moment import MONTHS, WEEKDAYS
from snellen.scoring.answers.number import decimal_of
from snellen.scoring.answers.video_moment import Moment, moment_names, moments_in
from snellen.scoring.answers.written_regions import NO_NUMBER
from snellen.text import terms
from snellen.toml_text import packaged_toml

OPEN = "open"
"""The name of a kind that the gold cell decides, for a question without options."""
MOST_WORDS = 8
"""Words of a gold answer that is compared by rule; a longer one is a free text."""
FEWEST_WORDS = 3
"""Words of a gold answer from which on a question that asks to describe or explain has a free text as its answer."""
LONGEST = 200
"""Characters of a cell that may be a number, a date or the like."""
NUMBERS = ("bit", "whole", "number")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_COLON = re.compile(r"\d{1,4}(?:[.,]\d+)?(?:\s*:\s*\d{1,4}(?:[.,]\d+)?){1,3}", re.ASCII)
_CLOCK = re.compile(r"(?:[01]?\d|2[0-4]):[0-5]\d", re.ASCII)
_SLASHED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(?:\d{2}|\d{4})", re.ASCII)
_FORMULA = re.compile(r"\\[a-zA-Z]+|[\^_]\{|\w\^\w|√\s?(?:[\d(]|[a-z]\b)|\dπ|π/\d")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_COUNTED = re.compile(
    r"(?i)\bhow many\b|\bwie ?viele\b|\bcombien d|\bcu[aá]nt[oa]s\b|\bquant[oaie]s\b|\bquant[ei]\b|\bhoeveel\b|\bhur många\b|\bilu?\b|\bkaç\b"
    r"|сколько|多少[个只条张人辆]|几[个只条张人辆]|何[匹個人本枚台]|いくつ|몇|\bكم عدد|कितन[ेी]"
)
"""Questions that ask for a number of things, in a dozen languages."""
_ITEMS = re.compile(
    r"[^;；]+(?:(?:; ?|；)[^;；]+)+|[^\W\d_A-ZÀ-ÞА-Я][^,\sA-ZÀ-ÞА-Я]*(?:, [^,\sA-ZÀ-ÞА-Я]+){2,}|-?\d[\d.]*(?:, -?\d[\d.]*){2,}|[^、,;\u3040-\u309f\s]+(?:、[^、,;\u3040-\u309f\s]+)+"
)
"""A list in a cell: items between semicolons; three words in small letters or numbers between commas, since names, places and sayings
have commas too; words between the commas of Chinese and Japanese."""
_SEVERAL = re.compile(
    r"(?i)\b(?:list (?:all|the)|name (?:all|the (?:two|three|four|five|six))|(?:which|what) (?:two|three|four|five|all)|welche (?:zwei|drei|vier|fünf)"
    r"|(?:which|what) (?!words|letters)\w+s (?:are|were|do|have|can|appear)|welche \w+ (?:sind|stehen|liegen|haben)|qué \w+s (?:aparecen|están|hay|se ven)"
    r"|nenne (?:alle|die (?:zwei|drei|vier))|quel(?:le)?s|cu[aá]les|quais|quali)\b|哪些|какие|列出"
)
"""Questions that ask for several things."""
_CODE = frozenset("=<>{}()[]")
MOST_ITEM_WORDS = 3
_SIGN_WORDS = frozenset(("minus", "negative", "plus"))
_NUMERAL = re.compile(r"\d[\d.,]*\d|\d", re.ASCII)
_LETTERS = {"t": True, "f": False, "y": True, "n": False}
"""Letters that are truth values in a column of truth values."""


@cache
def _kind_words() -> Mapping[str, str]:
    kind_names = packaged_toml("snellen.benchmarks.table", "kind_names.toml")
    named = {plain_name(word): kind for kind, words in kind_names.items() for word in (kind, *words)}
    return {**named, **{plain_name(kind): kind for kind in kinds() if kind not in ("short", "choice_text")}}


def kind_named(text: str) -> str | None:
    """Return the kind that a word or two name, `open` for one that the gold cell decides; None for other words.

    >>> kind_named("Yes/No"), kind_named("MCQ"), kind_named("free-form"), kind_named("birds")
    ('truth', 'choice', 'open', None)
    """
    return _kind_words().get(plain_name(text)) if len(text) <= 60 else None


class ColumnFacts(Struct, frozen=True):
    """What a column says of cells that leave their kind open.

    Attributes:
        bits_are_truth: 0 and 1 are truth values.
        letters_are_truth: T, F, Y and N are.
        words_are_labels: yes and no stand among other labels, such as `maybe`.
        whole: every number is a whole one from 0.
        colons_are_ratios: `3:45` is a ratio.
        decimal: the decimal sign of numbers whose own signs do not tell.
        day_first: `01/02/2024` is in February; None: no cell tells.
        mixed_decimals: some numbers have a decimal point, others a comma.
        about_clips: the questions are about clips, so that `0:12 - 0:20` is a moment.
    """

    bits_are_truth: bool = False
    letters_are_truth: bool = False
    words_are_labels: bool = False
    whole: bool = True
    colons_are_ratios: bool = False
    decimal: str = "."
    day_first: bool | None = None
    mixed_decimals: bool = False
    about_clips: bool = False


class ColumnForms(Struct):
    """Counts over the open answers of a column, row by row.

    Attributes:
        rows: how many there are.
        forms: how many have each form.
        signed: numbers that are negative, or no whole ones.
        decimals: by decimal sign, how many show it beyond doubt.
        asked: by the decimal sign of their questions' language, how many do not show theirs: `12.480`.
        days: by order (True: the day stands first), how many dates show it beyond doubt.
        truth_forms: truth values by the words of their questions, `yes/no` and `T/F`.
    """

    rows: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    decimals: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    days: Counter[bool] = field(default_factory=Counter)
    truth_forms: Counter[str] = field(default_factory=Counter)
    truth_openings: set[str] = field(default_factory=set)
    labels: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, cell: Any, question: str = "") -> None:
        """Count one answer; `cell` is one text, number or truth value."""
        self.rows += 1
        form = form_of(cell) if isinstance(cell, str) else form_of_value(cell)
        self.forms[form] += 1
        if form == "text":
            if len(self.labels) < 1_000 and isinstance(cell, str) and len(cell) < 40:
                key = (_opening(question), cell.casefold())
                self.labels[key] = self.labels.get(key, 0) + 1
        elif form == "truth":
            self.truth_forms["yes/no" if isinstance(cell, bool) else truth_words()[_word(cell)][1]] += 1
            if len(self.truth_openings) < 1_000:
                self.truth_openings.add(_opening(question))
        elif form == "letter":
            self.truth_forms["T/F" if cell.strip().lower() in "tf" else "yes/no"] += 1
        elif isinstance(cell, str) and form in ("number", "quantity"):
            if sign := decimal_sign(cell):
                self.decimals[sign] += 1
            elif "." in cell or "," in cell:
                self.asked[decimal_of(question)] += 1
        elif form == "slashed" and (first := day_stands_first(cell)) is not None:
            self.days[first] += 1

    @property
    def is_truth(self) -> bool:
        """Return True if every answer is a truth value by its words."""
        return 0 < self.rows == self.forms["truth"] + self.forms["letter"]

    @property
    def is_bits(self) -> bool:
        """Return True if every answer, of two at least, is 0 or 1."""
        return 1 < self.rows == self.forms["bit"]

    def facts(self) -> ColumnFacts:
        """Return what the column says."""
        truths = self.forms["truth"] + self.forms["letter"]
        points, commas = self.decimals["."], self.decimals[","]
        told = self.decimals or self.asked
        days = self.days
        return ColumnFacts(
            bits_are_truth=truths > 0 and truths + self.forms["bit"] == self.rows,
            letters_are_truth=truths + self.forms["bit"] == self.rows,
            words_are_labels=self._holds_labels(),
            whole=not self.forms["number"],
            colons_are_ratios=self.forms["ratio"] > 0 and not self.forms["clock"],
            decimal="," if told[","] > told["."] else ".",
            day_first=None if days[True] == days[False] else days[True] > days[False],
            mixed_decimals=bool(points and commas),
        )

    def _holds_labels(self) -> bool:
        """Return True if questions that begin as those of truth values are answered by one to three other words, repeatedly."""
        others = [count for (opening, _), count in self.labels.items() if opening in self.truth_openings]
        return 0 < len(others) <= 3 and min(others) > 1


def _opening(question: str) -> str:
    return " ".join(question.split(None, 2)[:2]).casefold()


def _word(text: str) -> str:
    return undressed(text).casefold()


def form_of_value(cell: Any) -> str:
    """Return the form of a cell that is no text."""
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, (int, float)):
        whole = cell == int(cell) if cell == cell and abs(cell) < 1e18 else False
        return ("bit" if cell in (0, 1) else "whole") if whole and cell >= 0 else "number"
    if isinstance(cell, (list, tuple)):
        if cell and all(isinstance(one, (list, tuple)) and len(one) == 4 and _are_coordinates(one) for one in cell):
            return "boxes"
        if cell and all(map(is_labelled_box, cell)):
            return "boxes"
        if len(cell) > 2 and all(
            isinstance(one, (list, tuple)) and len(one) == 2 and _are_coordinates(one) for one in cell
        ):
            return "outline"
        return {4: "box", 2: "point"}.get(len(cell), "texts") if _are_coordinates(cell) else "texts"
    if is_labelled_box(cell):
        several = [one for one in cell.values() if isinstance(one, list) and one and isinstance(one[0], (list, tuple))]
        return "boxes" if several else "box"
    if isinstance(cell, dict) and (
        {"size", "counts"} <= cell.keys() or not {"polygon", "segmentation"}.isdisjoint(cell)
    ):
        return "region"
    if isinstance(cell, dict):
        is_moment = len(cell) == 2 and "to" not in cell and moment_names(map(plain_name, cell)) is not None
        return "moment" if is_moment else "json"
    return "text"


def _are_coordinates(values: Sequence[Any]) -> bool:
    """Return True for numbers; a missing one is a fault of its row, which is no list of texts for it."""
    return any(map(_is_number, values)) and all(one is None or _is_number(one) for one in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@lru_cache(maxsize=16_384)
def form_of(text: str) -> str:
    """Return the form of a text.

    Returns:
        `truth`, `letter` (of a truth value), `bit` (0 or 1), `whole` (a whole number from 0), `number`, `clock`, `colon` (a time or
        a ratio), `ratio`, `slashed` (a date whose month may stand first), `date`, `time`, `quantity`, `formula`, `box`, `boxes`, `point`,
        `outline` (of a region, or points), `region`, `moment`, `json`, `list` (between semicolons), `texts` (several accepted ones),
        else `text`.
    """
    plain = undressed(text)
    if len(plain) < 4 and plain.isascii() and plain.isdigit():
        return "bit" if plain in ("0", "1") else "whole"
    word = plain.casefold()
    if word in truth_words():
        return "truth"
    if word in _LETTERS:
        return "letter"
    if is_literal(plain):
        return _literal_form(plain)
    if len(plain) > LONGEST:
        return "text"
    if _may_be_figures(plain):
        form = _numeric_form(plain)
        if form:
            return form
    if _FORMULA.search(plain) is not None and _parses("formula", plain):
        return "formula"
    return "list" if _is_list(plain) else "text"


def _is_list(text: str) -> bool:
    """Return True for short items between separators: `red; blue`, `apple, pear, fig`, `犬、猫`."""
    if _ITEMS.fullmatch(text) is None or not _CODE.isdisjoint(text):
        return False
    items = re.split("[;；]|, |、", text)
    return all(
        any(map(str.isalnum, item)) and len(item.split()) <= MOST_ITEM_WORDS and len(item) < 30 for item in items
    )


def _literal_form(text: str) -> str:
    try:
        value = literal(NO_NUMBER.sub("null", text))
    except NoLiteralError:
        return "text"
    return form_of_value(value)


def _may_be_figures(text: str) -> bool:
    """Return True for a text with a digit that begins as numbers, amounts and dates do, and not with another word."""
    if not any(map(str.isnumeric, text)):
        return False
    first = text[0]
    if not first.isalpha() or first > "\u2e7f":
        return True
    word = _FIRST_WORD.match(text)
    bare = "" if word is None else fold(word[0]).rstrip(".")
    return len(bare) < 4 or bare in MONTHS or bare in WEEKDAYS or bare in _SIGN_WORDS


def _numeric_form(text: str) -> str:
    """Return the form of a text with a digit; empty for one that is no number, date, time or quantity."""
    number = number_of(text) if text.isascii() else None
    if number is not None:
        whole = isinstance(number, int) and number >= 0
        return ("bit" if text in ("0", "1") else "whole") if whole else "number"
    if ":" in text and _COLON.fullmatch(text):
        if _CLOCK.fullmatch(text) is None:
            return "time" if _parses("time", text) else "ratio" if _parses("quantity", text) else ""
        return "clock" if text.partition(":")[2].startswith("0") or text.startswith("0") else "colon"
    if _SLASHED.fullmatch(text):
        return "slashed"
    is_percent = text[-1] == "%"  # a number only where one is asked for
    return next((kind for kind in ("number", "date", "time", "quantity")[3 * is_percent :] if _parses(kind, text)), "")


def _parses(kind: str, text: str) -> bool:
    for sign in ".," if "," in text or "." in text else ".":
        with suppress(GoldError):
            checked(kind, text, AnswerContext(decimal=sign))
            return True
    return False


def decimal_sign(text: str) -> str:
    """Return the decimal sign of the first number in a text; empty if the number does not tell.

    >>> decimal_sign("1,5 kg"), decimal_sign("1.234,50 €"), decimal_sign("1,234,567"), decimal_sign("1,234")
    (',', ',', '.', '')
    """
    match = _NUMERAL.search(text)
    signs = [char for char in match[0] if char in ".,"] if match is not None else []
    if match is None or not signs:
        return ""
    groups = re.split("[.,]", match[0])
    if len(set(signs)) == 2:
        return signs[-1] if signs.count(signs[-1]) == 1 and all(len(group) == 3 for group in groups[1:-1]) else ""
    if len(signs) > 1:
        return {",": ".", ".": ","}[signs[0]] if all(len(group) == 3 for group in groups[1:]) else ""
    is_grouped = len(groups[1]) == 3 and groups[0].lstrip("0") != "" and len(groups[0]) <= 3
    return "" if is_grouped else signs[0]


def is_ratio(text: str) -> bool:
    """Return True for a text of numbers between colons."""
    return ":" in text and _COLON.fullmatch(text.strip()) is not None


def day_stands_first(text: str) -> bool | None:
    """Return True for a date that begins with its day, False for one that begins with its month; None if both could be."""
    match = _SLASHED.fullmatch(undressed(text))
    if match is None:
        return None
    first, second = int(match[1]), int(match[3])
    return True if match[2] == "." or first > 12 >= second else False if second > 12 >= first else None


def is_free_text(text: str, question: str) -> bool:
    """Return True for a gold answer that is a sentence: of more than eight words, or of three where a description is asked for."""
    words = text.count(" ") + 1 if text.isascii() else len(text.split()) + len(_UNSPACED.findall(text)) / 2
    return words > MOST_WORDS or (words >= FEWEST_WORDS and asks_for_text(question))


_KIND_OF_FORM = {
    form: form for form in terms("truth number date time quantity formula box boxes point region moment json list")
}
_KIND_OF_FORM |= {"clock": "time", "slashed": "date", "ratio": "quantity", "whole": "count", "bit": "count"}


def kind_of(cell: Any, facts: ColumnFacts, question: str = "") -> str:
    """Return the kind of an open answer: of one text, number, truth value, list of numbers or object."""
    form = form_of(cell) if isinstance(cell, str) else form_of_value(cell)
    if facts.about_clips and form in ("text", "texts") and any(isinstance(one, Moment) for one in moments_in(cell)):
        return "moment"
    if form == "text" and isinstance(cell, str) and _COUNTED.search(question):
        counted = answer_type("count", AnswerContext(question=question)).parse(undressed(cell))
        if counted is not None:
            return "count"
    if form == "text" and isinstance(cell, str) and "," in cell and _is_several(cell, question):
        return "list"
    if form == "text":
        return "judged" if isinstance(cell, str) and is_free_text(cell, question) else "text"
    if form == "truth" and facts.words_are_labels:
        return "text"
    if form == "letter":
        return "truth" if facts.letters_are_truth and not facts.words_are_labels else "text"
    if form == "bit" and facts.bits_are_truth:
        return "truth"
    if form in ("bit", "whole"):
        return "count" if facts.whole or _COUNTED.search(question) is not None else "number"
    if form == "colon":
        return "quantity" if facts.colons_are_ratios else "time"
    return _KIND_OF_FORM.get(form, "text")


def _is_several(cell: str, question: str) -> bool:
    """Return True for short items between commas where the question asks for several things."""
    items = undressed(cell).split(", ")
    short = all(item and "," not in item and len(item.split()) <= MOST_ITEM_WORDS for item in items)
    return short and any(map(str.isalpha, cell)) and _CODE.isdisjoint(cell) and _SEVERAL.search(question) is not None


def kind_of_texts(texts: Sequence[str], question: str = "") -> str:
    """Return the kind of an answer with several accepted texts."""
    return "judged" if texts and all(is_free_text(text, question) for text in texts) else "text"


def context_of(kind: str, cell: Any, facts: ColumnFacts) -> dict[str, Any]:
    """Return what a type must know of an answer beside its question, by the name in `AnswerContext`, where it is not the default."""
    if not isinstance(cell, str):
        return {}
    if kind in ("number", "quantity", "count"):
        sign = decimal_sign(cell) or facts.decimal
        return {"decimal": sign} if sign != "." else {}
    if kind == "date" and _SLASHED.fullmatch(undressed(cell)):
        own = day_stands_first(cell)
        first = facts.day_first if own is None else own
        return {} if first is None else {"day_first": first}
    return {}


def checked(kind: str, cell: Any, context: AnswerContext) -> Any:
    """Return the value of a gold cell. Raises GoldError, with the cell and what was expected."""
    try:
        return answer_type(kind, context).parse_gold(cell)
    except (ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, GoldError):
            raise
        raise GoldError(f"{str(cell)[:80]!r} cannot be read as {kind}: {error}") from error
