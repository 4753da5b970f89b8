"""Lists: several texts in one answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.fold import FOLDS, stemmed
from snellen.scoring.answers.name import words as name_words
from snellen.scoring.answers.structure import whole_json
from snellen.scoring.answers.text import Text
from snellen.scoring.replies.sentences import Sentence, phrase_words, sentences, single_words, words_in
from snellen.scoring.rules.vlmevalkit import literal_list

MOST_CHARACTERS, MOST_ITEMS, LONGEST_ITEM = 4_000, 200, 100
"""Maximum characters and items of a list, and characters of an item. A longer text is no list."""
_MARK = re.compile(r"\s*(?:(?P<number>\(?\d{1,3}[.)])|[-*•·–])\s+(?=\S)")
_ARROWS = r"\s*(?:→|->|=>|⇒|>)\s*"
_SEPARATORS = (r"\s*\n\s*", _ARROWS, r"\s*[;；]\s*", r"\s*[|｜]\s*", r"\s*[,，、،]\s*")
_DASH = re.compile(r"\s+[-–—]\s+")
_LINE = re.compile(r"[^\n]+")
_ITEM = re.compile(
    r"\s*\|(?P<cells>.+)\|\s*|\s*(?P<number>\(?\d{1,3}(?:st|nd|rd|th)?[.):]\s+)?(?:[-*•·–]\s+)?(?P<item>[^|\n]*[^\s|.:!?。：！？]|[^|\n:]{1,80}:\s[^|\n]*[^\s|:?：？])\s*"
)
"""A row of a table, or a line of a list, which is no sentence and no lead, or an item with a remark: `A: True, it has four.`"""
_SENTENCE = tuple(".!。！")
_TICKED, _CROSSED = frozenset("✅✔☑✓"), frozenset("❌✗✘☒✖✕")
_NO_TICK = dict.fromkeys(map(ord, _TICKED | _CROSSED | {"\ufe0f"}))
_BROKEN_OFF = re.compile(r"\s*(?:\(?\d{1,3}[.)]|[-*•])\s*")
_REMARK_ENDS = re.compile(r"[,.;:]")
_HEAD = re.compile(r"\s*:\s|\s[-–—]\s|\s\(")
"""What stands between an item and a remark on it."""
MOST_WORDS = 6
"""Words of an item; a longer one is a sentence."""
_AND = re.compile(r"(?:^|\s+)(?:and|&|und|et|y|e|和|и)\s+(?=\S)", re.IGNORECASE)
_BRACKETS = {"[": "]", "(": ")", "{": "}", "【": "】"}
_AXES = (
    "(?:links|rechts|gauche|droite|izquierda|derecha|esquerda|direita|sinistra|destra|lewej|prawej)",
    "(?:oben|unten|haut|bas|arriba|abajo|cima|baixo|alto|basso|boven|onder|beneden|góry|dołu)",
)
_ALONG = "|".join(rf"{axis}(?: (?!(?:und|oder|et|ou|y|o|e|en|of|i|lub)\b)\w{{1,5}}){{1,2}} {axis}" for axis in _AXES)
"""Two directions of one axis tell an order: `de izquierda a derecha`."""
_ANY_ORDER = re.compile(
    r"\b(?:any|no particular|whatever) order|(?:beliebiger|egal\w*) Reihenfolge|Reihenfolge (?:ist )?(?:egal|gleich|beliebig)|任意顺序|順不同|順番は問"
    r"|\b(?:cualquier|qualquer|qualsiasi|quel|willekeurige|любом|dowolnej|sin|sem|senza|sans|без)\s(?:\w+\s)?(?:ord|volg|поряд|kolej)"
    r"|순서는? ?(?:상관|관계|무관)|بأي ترتيب|किसी भी क्रम",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?i)\b(?:(?<!\bin )order|order(?! to\b)|sequence|sort(?:ed)?(?! of\b)|rank(?:ed|ing)?|\w*scending|\w+(?:betic|ogic)ally|Reihenfolge|sortiert|ord(?:re|en))\b"
    r"|\b(?:left|right|top|bottom|first|front|\w{3,12}est) to \w+|顺序|順序|依次|从.{1,4}到"
    r"|\b(?:orden|ordre|ordem|ordine|volgorde|kolejno|порядк\w*|sırayla|orden(?!ador)\w*)\b|순서|順番|ترتيب|(?<![^\s,])क्रम"
    rf"|\b(?:{_ALONG}|arriba abajo|haut en bas|слева направо|справа налево|сверху вниз|снизу вверх|soldan sağa|sağdan sola|yukarıdan aşağı\w*)\b"
)


class Items(NamedTuple):
    """The items of a list, and whether it was written as a sequence: with arrows or numbers."""

    items: tuple[str, ...]
    is_sequence: bool


class Block(NamedTuple):
    """The lines of a list or the rows of a table, without what is remarked on each, and their place in a text."""

    items: list[str]
    is_numbered: bool
    is_ticked: bool
    start: int
    end: int


@cache
def _tick() -> re.Pattern[str]:
    said = "|".join(map(re.escape, single_words("yes") | single_words("no")))
    return re.compile(rf"[{''.join(_TICKED | _CROSSED)}]|[:|] {{0,2}}(?:{said})(?![^\W_])", re.IGNORECASE)


def may_be_ticked(text: str) -> bool:
    """Return True for a text with ticks or crosses, or yes and no behind a colon or in a cell."""
    return _tick().search(text) is not None


def block_in(text: str) -> Block | None:
    """Return the only list of two lines or more, or table, of a text in which no other sentence denies or doubts; of ticked lines those.

    A table has one column beside numbers and ticks.
    """
    if "\n" not in text:
        return None
    blocks: list[list[re.Match[str]]] = []
    for line in _LINE.finditer(text):
        item = _ITEM.fullmatch(text, line.start(), line.end())
        if item is not None and (not blocks or line.start() > blocks[-1][-1].end() + 2):
            blocks.append([])
        if item is not None:
            blocks[-1].append(item)
    if len(blocks) != 1 or len(blocks[0]) < 2:
        return None
    rows, start, end = blocks[0], blocks[0][0].start(), blocks[0][-1].end()
    before, after = sentences(text, 0, start), sentences(text, end, len(text))
    if _BROKEN_OFF.fullmatch(text, end):
        return None
    if any(one.has("negation", "wrong", "correction", "refusal") for one in (*before, *after)):
        return None
    if any(one.has("hedge", "or") or one.asks for one in before) or any(
        one.concluding or one.has("answer") for one in after
    ):
        return None
    cells = [[cell.strip() for cell in (row["cells"] or row["item"]).split("|")] for row in rows]
    if all(row["cells"] for row in rows):
        if len(cells) < 3 or any(map(str.isalnum, "".join(cells[1]))):
            return None
        cells = [row[1:] if row[0].isdigit() and len(row) > 1 else row for row in cells[2:]]
    parts = [[part.strip() for cell in row for part in _HEAD.split(cell, maxsplit=1)] for row in cells]
    ticks = [_is_ticked(row) for row in parts]
    if None not in ticks:
        parts = [row for row, is_ticked in zip(parts, ticks, strict=True) if is_ticked]
    elif any(len(row) > 1 or row[0].endswith(_SENTENCE) for row in cells):
        return None
    heads = [undressed(row[0].translate(_NO_TICK)) for row in parts]
    return Block(heads, all(row["number"] for row in rows), None not in ticks, start, end)


def _is_ticked(parts: Sequence[str]) -> bool | None:
    """Return True for a line with a tick, or `yes` as its remark; False for one with a cross, or `no`; None for others."""
    signs = set("".join(parts))
    if signs & (_TICKED | _CROSSED):
        return not signs & _CROSSED
    said = {undressed(_REMARK_ENDS.split(part)[0].rstrip(")")).lower() for part in parts[1:]}
    is_yes, is_no = (not said.isdisjoint(single_words(table)) for table in ("yes", "no"))
    return is_yes if is_yes != is_no else None


class Listing(AnswerType):
    """Several texts, as JSON, one a line, or between commas, semicolons, bars or arrows.

    The order counts where the question asks for one or the gold answer is written as a sequence: `a → b`, or `1. a 2. b` on lines.
    """

    kind = "list"
    expected = 'a list, such as `red, green` or `["red", "green"]`'

    def parse(self, text: str) -> Items | None:
        text = text.strip()
        if not text or len(text) > MOST_CHARACTERS:
            return None
        values = (whole_json(text) or literal_list(text)) if text[0] == "[" else None
        if isinstance(values, list):
            return _items(values)
        if text[-1] == _BRACKETS.get(text[0]) and text.count(text[0]) == 1:
            text = text[1:-1].strip()
        lines = text.splitlines()
        marks = [_MARK.match(line) for line in lines]
        if len(lines) > 1 and all(marks):
            items = [line[mark.end() :] for line, mark in zip(lines, marks, strict=True) if mark is not None]
            return _items(items, all(mark is not None and mark["number"] for mark in marks))
        for separator in _SEPARATORS:
            parts = [part for part in re.split(separator, text) if part]
            if len(parts) > 1:
                break
        if len(parts) == 1 and len(dashed := _DASH.split(text)) > 2:
            return _items(dashed)
        if separator in _SEPARATORS[2:]:
            parts[-1:] = [part for text in parts[-1:] for part in _AND.split(text) if part]
        return _items(parts, separator == _ARROWS)

    def schema(self) -> dict[str, Any]:
        """Return a list of texts."""
        return {"type": "array", "items": {"type": "string"}}

    def parse_gold(self, cell: Any) -> Items:
        values = cell.tolist() if hasattr(cell, "tolist") else cell
        values = sorted(values, key=str) if isinstance(values, set | frozenset) else values
        items: Items = super().parse_gold(json.dumps(values, default=str) if isinstance(values, list | tuple) else cell)
        return items

    def bare(self, sentence: Sentence) -> Items | None:
        """Return the items of a sentence if each is a phrase; of the first one without the words of the question before it."""
        listed = super().bare(sentence)
        if listed is None or sentence.has("refusal", "hedge"):
            return None
        text = Text(self.context)
        items: list[str] = []
        for item in listed.items:
            phrase = text.short(Sentence(item)) or (None if items else self._unframed(Sentence(item)))
            if phrase is None:
                return None
            is_framed = not items and len(item[: phrase.start].split()) > 1
            items.append(str(phrase.value) if is_framed else item)
        return Items(tuple(items), listed.is_sequence)

    def _unframed(self, sentence: Sentence) -> Found | None:
        """Return the first item of a sentence, behind words of the question and such as say nothing: `The logo has two colours: red`."""
        asked = {stemmed(word) for word in words_in(self.context.question[-2_000:])}
        passed = phrase_words("shows", "subject", "article", "function", "amount")
        words = sentence.words
        at = next(
            (
                at
                for at, word in enumerate(words)
                if stemmed(word.text) not in asked and word.text not in passed | {":"}
            ),
            0,
        )
        verbs = [one.after for one in sentence.phrases if one.table == "shows"]
        if at < 2 or not (words[at - 1].text == ":" or any(verb <= at for verb in verbs)):
            return None  # `The bowl holds apples` has another verb
        start, end = words[at].start, words[-1].end
        return Found(sentence.text[start:end], start, end)

    def anywhere(self, text: str) -> Found | None:
        """Return the items of the only list or table of one column in a reply, where no sentence beside it denies or doubts."""
        block = block_in(text)
        items = None if block is None else _items(block.items, block.is_numbered)
        if (
            block is None
            or items is None
            or any(len(item.split()) > MOST_WORDS or Sentence(item).has("shows", "negation") for item in items.items)
        ):
            return None
        return Found(items, block.start, block.end)

    def same(self, value: Items, gold: Items) -> bool:
        fold = name_words if self.context.level == "folded" else FOLDS[self.context.level]
        own, wanted = (list(map(fold, listed.items)) for listed in (value, gold))
        return own == wanted if gold.is_sequence or self._is_ordered else Counter(own) == Counter(wanted)

    def show(self, value: Items) -> str:
        text = (" → " if value.is_sequence else ", ").join(value.items)
        return text if self.parse(text) == value else json.dumps(value.items, ensure_ascii=False)

    @cached_property
    def _is_ordered(self) -> bool:
        question = self.context.question[-2_000:]
        return _ORDER.search(question) is not None and _ANY_ORDER.search(question) is None


def _items(values: Collection[Any], is_sequence: bool = False) -> Items | None:
    """Return items of texts and numbers; None for nested, empty or too long ones."""
    if not 0 < len(values) <= MOST_ITEMS or not all(isinstance(value, str | int | float | Decimal) for value in values):
        return None
    items = tuple(" ".join(str(value).split()) for value in values)
    is_sequence = is_sequence and len(items) > 1
    return Items(items, is_sequence) if all(0 < len(item) <= LONGEST_ITEM for item in items) else None
