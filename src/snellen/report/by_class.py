"""Counts by class for the plots over a taxonomy, gathered in the one pass over answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from snellen.report.text import visible
from snellen.scoring.taxonomy import SEPARATOR, coarse_to_fine
from snellen.types import Score

CLASSES = 100_000
"""Classes that are counted in all; what would go beyond is left out, whole parts at a time: about 30 MB."""


KINDS = ("choice_text", "choice", "short", "count", "number", "open", "truth")
"""Kinds of question, those first whose wrong answers say the most."""


class Asked(NamedTuple):
    """What classes can be compared within: one data set, one way of asking, one level, one kind of question."""

    dataset: str
    ask: str
    level: str
    kind: str


@dataclass
class Seen:
    """Answers about one class: how many, and the sum of their scores."""

    n: int = 0
    total: float = 0.0

    @property
    def share(self) -> float:
        """The mean score, 0 for none."""
        return self.total / self.n if self.n else 0.0


@dataclass
class ClassTally:
    """Answers by class under the first profile.

    Attributes:
        parts: class to answers; a class is its path (`order > genus > species`) where that is known, else its label.
            None for a part that has more classes than there is room for.
        depths: level to the depths that it has been seen at.
    """

    parts: dict[Asked, dict[str, Seen] | None] = field(default_factory=dict)
    depths: dict[str, set[int]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _room: int = CLASSES

    def add(self, kind: str, meta: Mapping[str, Any], score: Score | None) -> None:
        """Count one answer; those without a level, a class or a score are none."""
        level = meta.get("level")
        if not isinstance(level, str):
            return
        depths = self.depths.setdefault(level, set()) if len(self.depths) < 400 or level in self.depths else set()
        depth = meta.get("depth")
        if depth is not None and str(depth).isdigit():
            depths.add(int(depth))
        label = meta.get("path") or meta.get("label")
        if not isinstance(label, str) or not label or score is None or score.verdict == "unscored":
            return
        dataset, ask = str(meta.get("dataset", "")), str(meta.get("ask", "hierarchy"))
        part = self.parts.setdefault(Asked(dataset, ask, level, kind), {})
        if part is None:
            return
        seen = part.get(label)
        if seen is None:
            if self._room <= 0:
                self._room += len(part)
                self.parts[Asked(dataset, ask, level, kind)] = None
                return
            self._room -= 1
            seen = part[self._names.setdefault(label, label)] = Seen()
        seen.n += 1
        seen.total += score.value or 0.0

    def levels(self) -> list[str]:
        """The levels that were seen, coarse to fine."""
        return coarse_to_fine(self.depths)

    def of(self, ask: str) -> Iterator[tuple[Asked, Mapping[str, Seen]]]:
        """Parts with two classes or more, levels from coarse to fine, else in order of first appearance."""
        order = {level: place for place, level in enumerate(self.levels())}
        for asked in sorted(self.parts, key=lambda asked: order.get(asked.level, len(order))):
            part = self.parts[asked]
            if asked.ask == ask and part is not None and len(part) > 1:
                yield asked, part


def telling(kind: str) -> int:
    """Place of a kind among KINDS, others last."""
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def class_name(path: str) -> str:
    """The class itself, without its ancestors, fit to be shown."""
    return visible(path.rpartition(SEPARATOR)[2])


def filters(asked: Asked, path: str = "") -> dict[str, str]:
    """Which answers stand behind a part, or behind one class of it."""
    found = {"kind": asked.kind, "level": asked.level}
    if asked.dataset:
        found["dataset"] = asked.dataset
    return {**found, "label": class_name(path)} if path else found
