"""Lists on lines, and tables of one column or with ticks, as replies write them: which items they hold, or that none can be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.fold import stemmed
from snellen.scoring.answers.number_words import ordinal
from snellen.scoring.replies.sentences import Sentence, phrase_words, sentences, single_words, words_in, words_of
from snellen.text import terms

MOST_CHARACTERS = 20_000
"""Maximum characters of a reply in which lines are looked at."""
MOST_WORDS = 6
"""Words of an item; a longer one is a sentence."""
_NUMBER = re.compile(r"\(?\d{1,3}(?:st|nd|rd|th)?[.):]\s+(?=\S)")
_BULLET = re.compile(r"^[-*•·–]\s+(?=\S)")
_LED = re.compile(r"[^\n:：]{1,40}[:：][*_]{0,2}[ \t](?=[|]|[-*•–]\s|\(?\d{1,3}[.)]\s)")
_RULE = re.compile(r"[-_=*~]{3,}")
_HEAD = re.compile(r"\s?[:：]\s|\s[-–—]\s|\s\(")
"""What stands between an item and a remark on it."""
_REMARK_ENDS = re.compile(r"[,.;:)]")
_BROKEN_OFF = re.compile(r"\(?\d{1,3}[.)]|[-*•]")
_TICKED, _CROSSED = frozenset("✅✔☑✓"), frozenset("❌✗✘☒✖✕☐")
_BOXES = {True: re.compile(r"[\[(] ?[xX✓✔] ?[\])]"), False: re.compile(r"[\[(] {0,2}[\])]")}
_NO_TICK = dict.fromkeys(map(ord, _TICKED | _CROSSED | {"\ufe0f"}))
_LEADING = terms(
    "following list here below all find found identified items objects things visible sure certainly okay ones them overall"
    " folgende folgenden folgendes hier sind voici suivant suivants suivante suivantes siguientes aquí lista seguenti ecco seguintes eis"
    " вот список следующие 以下 如下 以下の 次の"
)
"""Words of a line that leads to a list and says nothing else of it."""
_CHECKING = terms(
    "ok fits fit match matches correct present visible there check included applies verdict result status"
)
"""Words of a column whose ticks say which rows are meant."""


class Block(NamedTuple):
    """The lines of a list or the rows of a table, without what is remarked on each, and their place in a text."""

    items: list[str]
    is_numbered: bool
    is_ticked: bool
    rows: int
    start: int
    end: int


class _Line(NamedTuple):
    text: str
    start: int
    end: int


@cache
def _tick() -> re.Pattern[str]:
    said = "|".join(map(re.escape, single_words("yes") | single_words("no")))
    return re.compile(
        rf"[{''.join(_TICKED | _CROSSED)}]|[\[(] ?[xX]? ?[\])]|[:|] {{0,2}}(?:{said})(?![^\W_])", re.IGNORECASE
    )


def may_be_ticked(text: str) -> bool:
    """Return True for a text with ticks or crosses, or yes and no behind a colon or in a cell."""
    return _tick().search(text) is not None


@cache
def _idle() -> frozenset[str]:
    tables = (
        "shows",
        "subject",
        "function",
        "answer",
        "final",
        "amount",
        "adverb",
        "article",
        "option",
        "yes",
        "link",
        "conclusion",
    )
    return phrase_words(*tables) | _LEADING | frozenset(ENGLISH_BELOW_HUNDRED)


def says_nothing(text: str, question: str) -> bool:
    """Return True if all words of a text stand in the question, announce an answer or say nothing: `The right colours are`."""
    asked = {_stem(word) for word in words_in(question[-2_000:])}
    words = [word.text for word in words_of(text) if word.text[0].isalpha()]
    return all(word in _idle() or _stem(word) in asked or _stem(word) in _idle() for word in words)


def _stem(word: str) -> str:
    return stemmed(word).replace("our", "or")  # colour, color


def block_in(text: str, question: str = "") -> Block | None:
    """Return the only list of two lines or more, or table, of a text in which nothing beside it denies, doubts or adds.

    Of ticked lines, or such with yes and no, those that are meant. A table has one column beside numbers and ticks.
    """
    if "\n" not in text or len(text) > MOST_CHARACTERS:
        return None
    if (led := _LED.match(text)) is not None:  # `Answer: - red`, and the other items below it
        text = f"{text[: led.end() - 1]}\n{text[led.end() :]}"
    groups, others, at = list[list[_Line]](), list[_Line](), 0
    fresh, apart = True, False
    for whole in text.split("\n"):
        line = _Line(whole.strip(), at, at + len(whole.rstrip()))
        at += len(whole) + 1
        if not line.text or _RULE.fullmatch(line.text):
            apart = True
        elif _is_item(line.text):
            fresh = fresh or (apart and not (_NUMBER.match(line.text) and _NUMBER.match(groups[-1][-1].text)))
            groups += [[]] if fresh else []
            groups[-1].append(line)
            fresh = apart = False
        else:
            others.append(line)
            fresh = True
    large = [group for group in groups if len(group) > 1]
    if len(large) != 1:
        return None
    rows = large[0]
    single = [group[0] for group in groups if len(group) == 1]
    if any(line.start > rows[0].start for line in single) or not all(
        says_nothing(line.text, question) for line in single
    ):
        return None
    block = _read(rows, question)
    return block if block is not None and _stands_alone(text, rows, others, block, question) else None


def _is_item(line: str) -> bool:
    """Return True for a row of a table, or a line that is no sentence, no question and no lead, or an item with a remark."""
    if line.startswith("|"):
        return line.endswith("|")
    if line.endswith((":", "：", "?", "？")):
        return False
    head = _HEAD.search(line, 0, 82)
    return head is not None or not line.endswith((".", "!", "。", "！"))


def _stands_alone(text: str, rows: Sequence[_Line], others: Sequence[_Line], block: Block, question: str) -> bool:
    """Return True if what stands before and behind a list neither denies nor doubts it, and adds nothing to it."""
    lead = max((line for line in others if line.start < rows[0].start), key=lambda line: line.start, default=None)
    if lead is not None and lead.text.endswith((":", "：")) and not says_nothing(lead.text, question):
        return False
    before, after = sentences(text, 0, block.start), sentences(text, block.end, len(text))
    refused = ("negation", "wrong", "correction", "refusal", "except")
    if any(one.has(*refused, "hedge", "or") or one.asks for one in before):
        return False
    named = {stemmed(word.text) for item in (*block.items, question[-2_000:]) for word in words_of(item)} - _idle()
    for one in after:
        said = {stemmed(word.text) for word in one.words if word.text[0].isalnum()}
        if one.has(*refused) or one.concluding or one.has("answer") or not said.isdisjoint(named):
            return False
        if _BROKEN_OFF.fullmatch(one.text.strip()):
            return False
    return True


def _read(lines: Sequence[_Line], question: str) -> Block | None:
    """Return the items of lines; None for what is no list, or of which it cannot be told which are meant."""
    tables = [line.text.startswith("|") for line in lines]
    numbers = [_NUMBER.match(line.text) for line in lines]
    cells = [[line.text[number.end() if number else 0 :]] for line, number in zip(lines, numbers, strict=True)]
    if any(tables):
        cells = [[cell.strip() for cell in line.text.strip("|").split("|")] for line in lines]
        if not all(tables) or len(cells) < 3 or any(map(str.isalnum, "".join(cells[1]))):
            return None
        head, cells = cells[0], cells[2:]
        if all(row[0].rstrip(".").isdigit() and len(row) > 1 for row in cells):
            head, cells = head[1:], [row[1:] for row in cells]
        if len({len(row) for row in cells}) > 1:
            return None
        ticking = [at for at in range(1, len(cells[0])) if any(_is_ticked(["", row[at]]) is not None for row in cells)]
        if not all(says_nothing(head[at], f"{question} {' '.join(_CHECKING)}") for at in ticking if at < len(head)):
            return None  # a column of what is wrong, or of one feature
    parts = [
        [part.strip() for cell in row for part in _HEAD.split(_BULLET.sub("", cell, count=1), maxsplit=1)]
        for row in cells
    ]
    ticks = [_is_ticked(row) for row in parts]
    is_ticked = None not in ticks
    are_labelled = not is_ticked and len(parts) > 1 and all(len(row) > 1 for row in parts)
    if are_labelled and len({_label(row[0]) for row in parts}) == 1:
        parts = [row[1:] for row in parts]  # `Colour 1: red`
    if is_ticked:
        if Sentence(question[-400:]).has("negation"):
            return None  # of what is not shown the crosses may be meant
        parts = [row for row, tick in zip(parts, ticks, strict=True) if tick]
    elif any(tick is not None for tick in ticks) or any(len(row) > 1 for row in cells):
        return None
    if any(Sentence(" ".join(row)).has("negation", "hedge", "or", "refusal") for row in parts):
        return None
    heads = [undressed(_unticked(row[0])) or (_unticked(row[1]) if len(row) > 1 else "") for row in parts]
    if not all(any(map(str.isalnum, head)) and len(head.split()) <= MOST_WORDS for head in heads):
        return None
    if any(Sentence(head).has("shows") for head in heads):
        return None
    return Block(heads, all(numbers), is_ticked, len(cells), lines[0].start, lines[-1].end)


def _label(head: str) -> tuple[str, ...]:
    """Return the words of a label without its number or ordinal."""
    words = [word.text for word in words_of(head)]
    return tuple(word for word in words if not word.isdecimal() and ordinal([word]) is None)


def _unticked(text: str) -> str:
    for box in _BOXES.values():
        text = box.sub("", text, count=1)
    return text.translate(_NO_TICK).strip()


def _is_ticked(parts: Sequence[str]) -> bool | None:
    """Return True for a line with a tick, or `yes` as its remark; False for one with a cross, or `no`; None for others."""
    whole = " ".join(parts)
    signs = set(whole)
    if signs & (_TICKED | _CROSSED):
        return not signs & _CROSSED
    for value, box in _BOXES.items():
        if box.match(whole):
            return value
    said = {undressed(_REMARK_ENDS.split(part)[0]).lower() for part in parts[1:]}
    is_yes, is_no = (not said.isdisjoint(single_words(table)) for table in ("yes", "no"))
    return is_yes if is_yes != is_no else None
