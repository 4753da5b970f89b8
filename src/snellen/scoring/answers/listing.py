"""Lists: several texts in one answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.fold import FOLDS, stemmed
from snellen.scoring.answers.listed_lines import block_in, says_nothing
from snellen.scoring.answers.name import words as name_words
from snellen.scoring.answers.structure import whole_json
from snellen.scoring.answers.text import Text
from snellen.scoring.replies.sentences import Sentence, phrase_words, words_in
from snellen.scoring.rules.vlmevalkit import literal_list

MOST_CHARACTERS, MOST_ITEMS, LONGEST_ITEM = 4_000, 200, 100
"""Maximum characters and items of a list, and characters of an item. A longer text is no list."""
_MARK = re.compile(r"\s*(?:(?P<number>\(?\d{1,3}[.)])|[-*•·–])\s+(?=\S)")
_ARROWS = r"\s*(?:→|->|=>|⇒|>)\s*"
_SEPARATORS = (r"\s*\n\s*", _ARROWS, r"\s*[;；]\s*", r"\s*[|｜]\s*", r"\s*[,，、،]\s*")
_DASH = re.compile(r"\s+[-–—]\s+")
_LED = re.compile(r"(.+?)(?:: |[:：](?=[\u2e80-\uffef]))(.+)", re.DOTALL)
_PICTURED = re.compile(r"(?<=\w)\s+[\u2600-\u27bf\ufe0f\u200d\U0001f300-\U0001faff]+$")
"""Emoji behind an item: `potatoes 🥔`."""
_LETTER = re.compile(r"(?:[a-z]|[ivx]{1,4})[.)]\s+(?=\S)")
_AND = re.compile(r"(?:^|\s+)(?:and|&|und|et|y|e|和|и)\s+(?=\S)", re.IGNORECASE)
_CJK_AND = tuple(
    re.compile(rf"(?<=[\u3040-\ud7ff]){joint}(?=[\u3040-\ud7ff])")
    for joint in (
        "(?:(?<![\u3040-\u309f])と|と(?![\u3040-\u309f])|(?<=[\u3040-\u309f]{2})と(?=[\u3040-\u309f]{2}))",
        "[와과] ",
        "[与與跟及]",
        "和",
    )
)
_COPULA = re.compile(r"(?<=[\u3040-\ud7ff])(?:です|である|입니다)$")
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
            last = [part for text in parts[-1:] for part in _AND.split(_COPULA.sub("", text)) if part]
            split = (
                (one.split(last[-1]) for one in _CJK_AND if one is not _CJK_AND[1] or len(parts) == 1)
                if last and not last[-1].isascii()
                else ()
            )
            parts[-1:] = last[:-1] + next((some for some in split if len(some) > 1 and all(some)), last[-1:])
        led = _LED.fullmatch(parts[0]) if len(parts) > 1 else None
        if led is not None and says_nothing(led[1], self.context.question):
            parts[0] = led[2]  # `The logo has two colours: red, blue`
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
        if listed is None or sentence.has("refusal", "hedge", "or"):
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
        """Return the items of the only list or table of one column in a reply."""
        block = block_in(text, self.context.question)
        items = None if block is None else _items([_LETTER.sub("", item) for item in block.items], block.is_numbered)
        return None if block is None or items is None else Found(items, block.start, block.end)

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
    items = tuple(_PICTURED.sub("", " ".join(str(value).split())) for value in values)
    is_sequence = is_sequence and len(items) > 1
    return Items(items, is_sequence) if all(0 < len(item) <= LONGEST_ITEM for item in items) else None
