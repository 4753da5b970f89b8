"""Draw of an acuity run's answers for the gallery: a few of every condition, those nearest to its threshold.

Pictures of acuity are drawn when they are read, up to 8,192 pixels a side. A gallery of all answers would take minutes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

from snellen.benchmarks.acuity.questions import SAME
from snellen.benchmarks.acuity.steering import is_catch
from snellen.reports.acuity.view import AcuityView
from snellen.runs.answer_view import AnswerView
from snellen.scoring.psychometrics.fit import BIN

SHARES = {"wrong": 4, "right": 3, "catch": 2, "unusable": 2}
"""Answers of a condition at most, by group: wrong and right near the threshold, easiest levels, abstained or failed."""
SHARES_IN_WORDS = (
    "of each condition at most 4 wrong and 3 right answers near the threshold, 2 answers at the easiest level, wrong ones "
    "first, and 2 that abstained or failed"
)
_GROUPS = tuple(SHARES)

Drawn = TypeVar("Drawn")


class ThresholdSample(Generic[Drawn]):
    """Draws some answers of every condition of a run, the same ones whatever the order in which they are offered.

    Levels are compared in bins of 0.1 decades. Within a bin the lowest key is drawn; keys follow from the sample and a seed.

    Args:
        view: what the run measured.
        limit: answers at most. With little room every condition gets its first wrong answer before any gets a second one.
    """

    def __init__(self, view: AcuityView, limit: int) -> None:
        self._view, self._limit = view, max(0, limit)
        self._measured = {each.result.condition.key: each.result for each in view.conditions}
        self._heaps: dict[tuple[str, str], list[tuple[tuple[int, int, int], int, Drawn]]] = {}

    def offer(self, answer: AnswerView, key: int, order: int, build: Callable[[], Drawn]) -> None:
        """Take part in the draw; `make` is called only for an answer that may stay."""
        place = self._group(answer)
        heap = self._heaps.setdefault((str(answer.meta.get("condition", "")), place[0]), [])
        rank = (-place[1], -place[2], -key)
        if len(heap) < min(SHARES[place[0]], self._limit):
            heapq.heappush(heap, (rank, order, build()))
        elif heap and rank > heap[0][0]:
            heapq.heapreplace(heap, (rank, order, build()))

    def _group(self, answer: AnswerView) -> tuple[str, int, int]:
        """Return the group of an answer, whether it comes later in it, and its distance from the threshold in bins."""
        score = next(iter(answer.scores.values()), None)
        verdict = "error" if score is None or answer.status != "ok" else score.verdict
        level, result = str(answer.meta.get("level", SAME)), self._measured.get(str(answer.meta.get("condition", "")))
        distance = 0
        if result is not None and level != SAME:
            low, high = result.estimate.interval
            distance = round(abs(float(level) - (low + high) / 2) / BIN)
        if verdict not in ("correct", "wrong"):
            return "unusable", 0, distance
        slot = int(answer.meta.get("slot", 0))
        if result is not None and is_catch(self._view.plan, result.condition.attribute, slot, level):
            return "catch", int(verdict == "correct"), 0
        return ("right" if verdict == "correct" else "wrong"), 0, distance

    def drawn(self) -> list[Drawn]:
        """Return the answers that were drawn, in the order in which they were offered."""
        ranked = [
            ((place, _GROUPS.index(group), condition), order, item)
            for (condition, group), heap in self._heaps.items()
            for place, (_, order, item) in enumerate(sorted(heap, key=lambda entry: entry[0], reverse=True))
        ]
        chosen = heapq.nsmallest(self._limit, ranked, key=lambda entry: entry[0])
        return [item for _, _, item in sorted(chosen, key=lambda entry: entry[1])]
