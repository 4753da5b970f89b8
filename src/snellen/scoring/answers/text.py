"""Texts: signs, words, codes, titles. Every character counts but for case, accents, blanks and outer punctuation."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.fold import FOLDS
from snellen.scoring.replies.phrases import phrases
from snellen.scoring.replies.sentences import Sentence

MOST_WORDS = 6
"""Words of a bare phrase that is taken for an answer without a sentence around it."""
_QUOTED = re.compile(r"\"([^\"\n]{1,200})\"")
_BRACKET = re.compile(r"\s*\(([^()\n]{1,120})\)")


class Text(AnswerType):
    """A text, as the reply or the cell has it."""

    kind: ClassVar[str] = "text"
    expected: ClassVar[str] = "a text"

    def parse(self, text: str) -> str | None:
        """Return the text; None for an empty one."""
        return text.strip() or None

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if two texts are equal at the level of the question's context."""
        fold = FOLDS[self.context.level]
        return fold(str(value)) == fold(str(gold))

    def short(self, sentence: Sentence) -> Found | None:
        """Return the phrase that a short reply is, or that its sentence ends in: `It is a red kite`, `The sign says "X"`."""
        quoted = list(_QUOTED.finditer(sentence.text))
        if len(quoted) == 1 and sentence.words and not sentence.asks:
            return Found(quoted[0][1], *quoted[0].span(1))
        start = self._behind_subject(sentence)
        return self._phrase(sentence, start or 0, framed=start is not None)

    def _behind_subject(self, sentence: Sentence) -> int | None:
        """Return where the answer begins behind `It is`, `The umbrella is`; None for a text without such an opening."""
        words = sentence.words
        asked = {word.text for word in Sentence(self.context.question, 0, len(self.context.question)).words}
        subjects, verbs, articles = (_single(name) for name in ("subject", "shows", "article"))
        at = 0
        while (
            at < len(words)
            and at < 12
            and (words[at].text in asked or words[at].text in articles or words[at].text in subjects)
        ):
            if words[at].text in subjects and words[at].text.endswith(("'s", "'re", "'est")):
                at += 1
                return _after_verbs(words, at)
            if words[at].text in verbs and at:
                break
            at += 1
        if at == 0 or at >= len(words) or words[at].text not in verbs:
            return None
        return _after_verbs(words, at)

    def _phrase(self, sentence: Sentence, start: int, *, framed: bool) -> Found | None:
        words = [word for word in sentence.words if word.start >= start]
        while words and not framed and words[0].text in ("-", ">", "*"):
            words.pop(0)
        while len(words) > 1 and words[0].text in _single("article"):
            words.pop(0)
        end = self._end(sentence, words)
        kept = [word for word in words if word.end <= end]
        while kept and kept[-1].text in (".", ",", ";", ":", "!"):
            kept.pop()
        lettered = [word for word in kept if word.text[0].isalnum()]
        verbs = _single("shows") - {"a", "o", "e", "i", "is" if framed else ""}
        spaced = [word for word in lettered if word.text[0] < "\u2e80"]
        if not kept or sentence.asks or len(spaced) > MOST_WORDS or (len(lettered) - len(spaced)) > 20:
            return None
        if (not framed and any(word.text in verbs for word in spaced)) or kept[0].text in (
            "not",
            "no",
            "nicht",
            "pas",
            "n't",
        ):
            return None
        if any(word.text in ("or", "oder", "ou", "o", "或", "または") for word in kept[1:-1]) or sentence.has("hedge"):
            return None
        asked = {word.text for word in Sentence(self.context.question, 0, len(self.context.question)).words}
        if asked and all(word.text in asked for word in lettered):
            return None  # `a bird`, where a species of bird was asked for
        return Found(sentence.text[kept[0].start : kept[-1].end], kept[0].start, kept[-1].end)

    def _end(self, sentence: Sentence, words: list[Any]) -> int:
        """Return where a trailing clause or bracket begins."""
        others = _single("other")
        for at, word in enumerate(words):
            if at and word.text in ("(", "[", ";", ":"):
                return int(words[at - 1].end)
            if (
                at
                and word.text in (",", "-")
                and at + 1 < len(words)
                and (words[at + 1].text in others or words[at + 1].start > word.end)
            ):
                if word.text == "-" and words[at - 1].end == word.start:
                    continue
                return int(words[at - 1].end)
            if at > 1 and word.text in ("because", "since", "which", "weil", "denn", "porque", "因为"):
                return int(words[at - 1].end)
        return len(sentence.text)


def _after_verbs(words: list[Any], at: int) -> int | None:
    verbs, skipped = (
        _single("shows"),
        frozenset(
            (
                "likely",
                "probably",
                "most",
                "clearly",
                "a",
                "be",
                "to",
                "kind",
                "type",
                "of",
                ":",
                "as",
                "called",
                "named",
            )
        ),
    )
    first = at
    while at < len(words) and (words[at].text in verbs or (at > first and words[at].text in skipped - {"a"})):
        at += 1
    return int(words[at].start) if at < len(words) else None


_SETS: dict[str, frozenset[str]] = {}


def _single(table: str) -> frozenset[str]:
    """Return the single words of a table of phrases."""
    if table not in _SETS:
        _SETS[table] = frozenset(word for phrase in phrases(table) for word in ([phrase] if " " not in phrase else []))
    return _SETS[table]
