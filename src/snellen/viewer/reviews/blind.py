"""Blind view of a case: names of models are removed from what a reviewer reads, with a count of the removals."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from snellen.viewer.cases.case_view import CaseReply, CaseView
from snellen.viewer.cases.replies import Piece

HIDDEN = "[name hidden]"
SHORTEST = 4
"""Characters of a name that is searched at least; shorter ones are parts of other words."""
_REST = r"(?:[-_ ]?v?\d+(?:\.\d+)*\w*)?(?:[-_]\w+)*"
"""What may follow a name and tells of it too: a version, a size, a variant."""
_FAMILY = re.compile(r"[^\W\d_]{4,}")
_KEPT = frozenset({"verdict", "profiles", "digest", "kind", "mime", "tool"})
"""Fields that hold words of Snellen's own."""


def names_to_hide(models: Iterable[str], question: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names to hide of these models, the longest first.

    Of `api:org/Some-VL-7B` these are the whole name, `org/Some-VL-7B`, `Some-VL-7B` and its family `Some`. A name that is
    part of the question is no name of a model there, and plain lower-case words without a digit are too common to hide.

    Args:
        models: as in run_meta.json, or as a server names them.
        question: the texts of the question, its options and its gold answer.
    """
    names: set[str] = set()
    for model in models:
        kind, colon, rest = model.partition(":")
        whole = rest if colon and kind.isalpha() else model
        base = re.split(r"[\\/]", whole.rstrip("\\/"))[-1]
        names |= {name for name in (model, whole, base) if not (name.isalpha() and name.islower())}
        owner = re.split(r"[\\/]", whole)[0]
        family = _FAMILY.match(base)
        if re.search(r"\d", base):
            names |= {owner, *([family[0]] if family else [])}
    asked_about = " ".join(question).casefold()
    return tuple(
        sorted(
            (name for name in names if len(name) >= SHORTEST and name.casefold() not in asked_about),
            key=lambda name: (-len(name), name),
        )
    )


class NameScrubber:
    """Removes names from texts, and counts the removals."""

    def __init__(self, names: Iterable[str]) -> None:
        parts = [r"[\s_-]*".join(map(re.escape, re.split(r"[\s_-]+", name))) for name in names]
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(parts)}){_REST}(?!\w)", re.IGNORECASE) if parts else None
        self.count = 0

    def text(self, text: str) -> str:
        """Return a text without the names."""
        if self._pattern is None:
            return text
        text, number = self._pattern.subn(HIDDEN, text)
        self.count += number
        return text

    def pieces(self, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Return the pieces of a reply without the names, those among them that a mark cuts in two."""
        if self._pattern is None:
            return pieces
        text = "".join(piece.text for piece in pieces)
        spans = [match.span() for match in self._pattern.finditer(text)]
        self.count += len(spans)
        scrubbed, start = [], 0
        for piece in pieces:
            end = start + len(piece.text)
            parts, at = [], start
            for low, high in spans:
                if low < end and high > start:
                    parts += [text[at : max(low, start)], HIDDEN if low >= start else ""]
                    at = min(high, end)
            scrubbed.append(dataclasses.replace(piece, text="".join([*parts, text[at:end]])))
            start = end
        return tuple(piece for piece in scrubbed if piece.text or piece.omitted)

    def value(self, value: Any) -> Any:
        """Return a value of a view without the names: a text, a dataclass, or a tuple of these."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, tuple):
            return tuple(self.value(item) for item in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                field.name: self.value(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if field.name not in _KEPT
            }
            return dataclasses.replace(value, **fields)
        return value


def blinded(case: CaseView, models: Iterable[str]) -> tuple[CaseReply, int]:
    """Return the reply of a case of one run as a blind reviewer sees it, and how many names were removed.

    Run, model, settings, time, tokens, cost and the judge's name are left out. The question stays as it is.
    """
    (column,) = case.replies
    question = case.question
    texts: list[str] = []
    if question is not None:
        texts = [*question.texts, *(text for _, text in question.options), question.gold or ""]
    scrubber = NameScrubber(names_to_hide(models, texts))
    judge = column.judge
    reply = CaseReply(
        letter="",
        key="",
        model="",
        settings="",
        reply=dataclasses.replace(
            scrubber.value(dataclasses.replace(column.reply, facts=(), pieces=())),
            pieces=scrubber.pieces(column.reply.pieces),
        ),
        timeline=scrubber.value(column.timeline),
        judge=None if judge is None else scrubber.value(dataclasses.replace(judge, model="", run="")),
    )
    return reply, scrubber.count
