"""Texts: signs, words, codes, titles. Every character counts but for case, accents, blanks and outer punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.fold import FOLDS
from snellen.scoring.replies.phrases import single_words
from snellen.scoring.replies.sentences import Sentence, Word

BARE_WORDS, FRAMED_WORDS = 4, 5
"""Words of a phrase that is taken for an answer by itself, and of one behind `It is`."""
_QUOTED = re.compile(r"\"([^\"\n]{1,200})\"")
_STOPS = frozenset(".!。！")
_CLOSE = frozenset((",", ";", "(", "["))
_DASHES = frozenset(("-", "—", "–"))


class Text(AnswerType):
    """A text, as the reply or the cell has it."""

    kind: ClassVar[str] = "text"
    expected: ClassVar[str] = "a text"

    def parse(self, text: str) -> Any | None:
        """Return the text; None for an empty one."""
        return text.strip() or None

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if two texts are equal at the level of the question's context."""
        fold = FOLDS[self.context.level]
        return fold(str(value)) == fold(str(gold))

    def short(self, sentence: Sentence) -> Found | None:
        """Return the phrase that a short reply is, or that stands behind `It is` or `The sign says`; None for another sentence."""
        words = _without_end(sentence.words)
        if not words or sentence.asks or sentence.has("hedge", "or") or sentence.opens("refusal"):
            return None
        at, framed = _behind_subject(sentence, self._asked())
        quoted = list(_QUOTED.finditer(sentence.text, words[at].start if at < len(words) else 0))
        if len(quoted) == 1 and (framed or len(words) <= BARE_WORDS + 2):
            return Found(quoted[0][1], *quoted[0].span(1))
        return self._phrase(sentence, words[at:], framed)

    def _asked(self) -> frozenset[str]:
        return _words_of(self.context.question[-2_000:])

    def _phrase(self, sentence: Sentence, words: Sequence[Word], framed: bool) -> Found | None:
        """Return a phrase without article and trailing clause, if it is one: no verb, no preposition, few words."""
        while len(words) > 1 and words[0].text in single_words("adverb"):
            words = words[1:]
        called = [at for at, word in enumerate(words[:-1]) if word.text in ("called", "named")]
        if called:
            words, framed = words[called[-1] + 1 :], True
        has_article = len(words) > 1 and words[0].text in single_words("article")
        words, behind = _before_clause(words[has_article:])
        if not framed and (behind > BARE_WORDS or any(word.text == ":" for word in words)):
            return None
        spaced = [word.text for word in words if word.text[0].isalnum() and word.text[0] < "\u2e80"]
        unspaced = sum(word.text[0] >= "\u2e80" for word in words)
        if (
            not words
            or len(spaced) > (FRAMED_WORDS if framed else BARE_WORDS)
            or unspaced > (2 * BARE_WORDS if framed or not spaced else 0)
        ):
            return None
        if unspaced and (
            (not framed and unspaced > 2 * BARE_WORDS) or any(word.text in _SENTENCE_SIGNS for word in words)
        ):
            return None
        asked = self._asked()
        if any("'" in word and word.split("'")[-1] in ("d", "m", "ll", "re", "ve", "t") for word in spaced):
            return None
        if framed and any(word.endswith("ing") for word in spaced[1:]):
            return None
        if any(word in _NO_PHRASE for word in spaced) or (
            all(word in asked or word in single_words("article") for word in spaced) and spaced
        ):
            return None
        named = sentence.text[words[0].start].isupper() or not sentence.text[words[0].start].isalpha()
        if framed and not (
            has_article or named or unspaced or _covers(sentence, words[0].start, self.context.question[-500:])
        ):
            return None
        start, end = words[0].start, words[-1].end
        return Found(sentence.text[start:end], start, end)


_SENTENCE_SIGNS = frozenset("我你他她它不是有在的了这那")
_NO_PHRASE = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "has",
        "have",
        "had",
        "do",
        "does",
        "did",
        "can",
        "could",
        "will",
        "would",
        "should",
        "in",
        "on",
        "at",
        "with",
        "from",
        "by",
        "near",
        "that",
        "which",
        "who",
        "while",
        "i",
        "you",
        "we",
        "he",
        "she",
        "it",
        "they",
        "this",
        "there",
        "not",
        "several",
        "some",
        "various",
        "many",
    ]
)


@lru_cache(maxsize=1_024)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(word.text for word in Sentence(text, 0, len(text)).words)


def _without_end(words: Sequence[Word]) -> list[Word]:
    """Return the words without final stops, emoji and other signs that say nothing."""
    kept = list(words)
    while len(kept) > 1 and "".join(word.text for word in kept[-3:]) == "입니다":
        del kept[-3:]
    while (len(kept) > 2 and kept[-2].text + kept[-1].text in ("です", "이다")) or (
        len(kept) > 3 and kept[-1].text == "。"
    ):
        del kept[-2 if kept[-1].text != "。" else -1 :]
    while kept and (kept[-1].text in _STOPS or unicodedata.category(kept[-1].text[0]) == "So"):
        kept.pop()
    return kept


def _before_clause(words: Sequence[Word]) -> tuple[list[Word], int]:
    """Return the words before a trailing clause or bracket (behind a comma, a dash between blanks, `because`) and its length."""
    for at, word in enumerate(words):
        dashed = word.text in _DASHES and at > 0 and word.start > words[at - 1].end
        if at and (word.text in _CLOSE or dashed or word.text in ("because", "since", "weil", "denn", "porque", "car")):
            return list(words[:at]), 0 if word.text in ("(", "[") or dashed else len(words) - at - 1
    return list(words), 0


def _behind_subject(sentence: Sentence, asked: frozenset[str]) -> tuple[int, bool]:
    """Return the word at which the answer begins, behind `It is` or `The umbrella is`; 0 and False without such an opening."""
    words, found = sentence.words, sentence.phrases
    at = 0
    if sentence.opens("conclusion"):
        at = max(phrase.after for phrase in found if phrase.table == "conclusion" and phrase.first <= 1)
        while at < len(words) and words[at].text == ",":
            at += 1
    begin = at
    verbs = {phrase.first: phrase.after for phrase in found if phrase.table == "shows"}
    subjects = {phrase.first: phrase.after for phrase in found if phrase.table == "subject"}
    while at < len(words) and at - begin < 12:
        if (at > begin and at in verbs) or words[at].text in ("'s", "'re"):
            break
        if at in subjects and at == begin:
            contracted = words[subjects[at] - 1].text.endswith(("'s", "'re", "'est"))
            at = subjects[at]
            if contracted:
                return _verbs_end(words, at, verbs, asked), True
        elif words[at].text in asked or words[at].text in single_words("article"):
            at += 1
        else:
            return begin, False
    if at not in verbs or (at == begin and words[at].text not in _VERBS_ALONE and verbs[at] - at < 2):
        return begin, False
    return _verbs_end(words, at, verbs, asked), True


_VERBS_ALONE = frozenset(("es", "è", "é", "son", "sono", "são", "jest", "это"))
"""Verbs that need no subject before them."""


def _verbs_end(words: Sequence[Word], at: int, verbs: dict[int, int], asked: frozenset[str]) -> int:
    """Return the word behind verbs, adverbs, and what the question says too: `is holding`."""
    skipped = single_words("adverb") | {":", "called", "named", "as", "known"}
    articles = single_words("article")
    while at < len(words) and (
        at in verbs or words[at].text in skipped or (words[at].text in asked and words[at].text not in articles)
    ):
        at = verbs.get(at, at + 1)
    return at


def _covers(sentence: Sentence, end: int, question: str) -> bool:
    """Return True if the subject of a sentence is all that the question asks about: `What colour is the umbrella?`, `The umbrella is`."""
    words = [word.text for word in Sentence(question, 0, len(question)).words if word.text[0].isalnum()]
    verb = next((at for at, word in enumerate(words) if word in single_words("shows")), len(words))
    about = {word for word in words[verb + 1 :] if word not in single_words("function")}
    subject = {word.text for word in sentence.words if word.end <= end}
    return bool(about) and about <= subject
