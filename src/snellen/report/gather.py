"""One pass over a run's answers: counts for the plots, and the answers that the gallery holds."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from snellen.report.by_class import ClassTally
from snellen.report.text import clipped, plain, visible
from snellen.report.view import Limits, RunView
from snellen.runs.answer_view import AnswerView
from snellen.types import Part, Text

RIGHT = ("correct", "unscored")
FEW = 12
"""A confusion matrix is drawn for at most so many targets."""

_NAMED = ("short", "choice_text", "open")
"""Kinds whose targets are names of one level; letters, numbers and truth values are alike on every level."""

_TRUTH = {"t": True, "true": True, "yes": True, "f": False, "false": False, "no": False}

_SHOWN = (str, int, float, list, tuple, set, frozenset)
"""Types of meta that the page shows; tables and readers that a scorer needs are left out."""

_VALUES = 400
"""Different values of one meta column that are kept for naming filters."""


@dataclass
class Confusion:
    """Target against what was read, for one kind (and task) of question; `cells` is None once targets are too many."""

    cells: Counter[tuple[str, str]] | None = field(default_factory=Counter)
    targets: dict[str, None] = field(default_factory=dict)

    def add(self, target: str, extracted: str) -> None:
        if self.cells is None:
            return
        self.targets.setdefault(target)
        if len(self.targets) > FEW:
            self.cells = None
        else:
            self.cells[target, extracted] += 1


@dataclass
class Tally:
    """What the plots and the header need of one run."""

    answers: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    latencies: array[float] = field(default_factory=lambda: array("f"))
    meta: dict[str, dict[str, None]] = field(default_factory=dict)
    confusions: dict[tuple[tuple[str, str], ...], Confusion] = field(default_factory=dict)
    disagreements: int = 0
    classes: ClassTally = field(default_factory=ClassTally)

    def add(self, answer: AnswerView) -> None:
        """Count one answer."""
        self.answers += 1
        self.statuses[answer.status] += 1
        if answer.error is not None:
            self.errors[visible(answer.error.kind)] += 1
        if answer.latency_s is not None:
            self.latencies.append(answer.latency_s)
        for profile, score in answer.scores.items():
            self.verdicts.setdefault(profile, Counter())[score.verdict] += 1
        self.disagreements += disagree(answer)
        for name, value in filters_of(answer).items():
            values = self.meta.setdefault(name, {})
            if len(values) < _VALUES:
                values.setdefault(value)
        self.classes.add(str(answer.kind), answer.meta, next(iter(answer.scores.values()), None))
        self._confuse(answer)

    def _confuse(self, answer: AnswerView) -> None:
        target = plain(answer.target, 40)
        if target is None or not answer.scores:
            return
        score = next(iter(answer.scores.values()))
        where: list[tuple[str, str]] = [("kind", answer.kind)]
        names = ("task", "level") if answer.kind in _NAMED else ("task",)
        where += [(name, str(answer.meta[name])) for name in names if name in answer.meta]
        extracted = plain(as_target(score.extracted, answer.target), 40)
        if score.verdict in ("error", "unscored"):
            return
        self.confusions.setdefault(tuple(where), Confusion()).add(target, "" if extracted is None else extracted)


def as_target(extracted: Any, target: Any) -> Any:
    """What was read, in the type of the target: a profile may read `T` or `yes` where the target is true."""
    if isinstance(target, bool) and isinstance(extracted, str):
        return _TRUTH.get(extracted.strip().lower(), extracted)
    return extracted


def disagree(answer: AnswerView) -> bool:
    """Whether two profiles judge the answer differently."""
    return len({score.verdict for score in answer.scores.values()}) > 1


def filters_of(answer: AnswerView) -> dict[str, str]:
    """What an answer can be filtered by: its kind and its short meta values, but for `chance`."""
    found = {"kind": str(answer.kind)}
    for name, value in answer.meta.items():
        if isinstance(value, (str, int, float)) and name not in ("kind", "chance"):
            text = plain(value, 80)
            if text is not None and len(text) <= 80:
                found[visible(name)[:60]] = text
    return found


def rank(answer: AnswerView) -> int:
    """0: wrong, unreadable or failed under the first profile; 1: so under another; 2: right everywhere."""
    verdicts = [score.verdict for score in answer.scores.values()]
    if answer.status != "ok" or not verdicts or verdicts[0] not in RIGHT:
        return 0
    return 1 if any(verdict not in RIGHT for verdict in verdicts) else 2


@dataclass(frozen=True)
class Kept:
    """One answer chosen for the gallery, texts already cut; `rank`, `run` and `order` say where it stood."""

    rank: int
    run: int
    order: int
    question: str
    shown: Mapping[str, Any]
    asked: Mapping[str, Any]
    parts: Sequence[Part]


@dataclass
class Gathered:
    """Tallies by run, the answers that the gallery holds in order, and how many there were by rank."""

    tallies: list[Tally]
    kept: list[Kept]
    seen: Counter[int]


def _lot(answer: AnswerView) -> int:
    """A number that is drawn for the question once and for all: the same questions are kept of every run."""
    return int.from_bytes(
        blake2b(f"{answer.sample_id}\0{answer.repeat}".encode(errors="replace"), digest_size=8).digest()
    )


def gather(runs: Sequence[RunView], limits: Limits) -> Gathered:
    """Read every run once. Memory holds `limits.answers` answers without their pictures, and counts."""
    heap: list[tuple[tuple[int, int, int, int], Kept]] = []
    seen: Counter[int] = Counter()
    tallies = []
    for number, run in enumerate(runs):
        tally = Tally()
        for order, answer in enumerate(run.answers()):
            tally.add(answer)
            place = rank(answer)
            seen[place] += 1
            worst_first = (-place, -_lot(answer), -number, -order)
            if len(heap) < limits.answers:
                heapq.heappush(heap, (worst_first, _keep(answer, run, number, order, place, limits)))
            elif heap and worst_first > heap[0][0]:
                heapq.heapreplace(heap, (worst_first, _keep(answer, run, number, order, place, limits)))
        tallies.append(tally)
    kept = sorted((kept for _, kept in heap), key=lambda one: (one.run, one.order))
    return Gathered(tallies, kept, seen)


def _texts(answer: AnswerView, limits: Limits) -> Iterator[str]:
    for part in answer.parts:
        if isinstance(part, Text):
            yield clipped(part.text, limits.characters)


def _keep(answer: AnswerView, run: RunView, number: int, order: int, place: int, limits: Limits) -> Kept:
    """Cut one answer down to what the page shows. Keys are short because they stand in the page 2,000 times."""
    verdicts: list[list[Any] | None] = []
    for profile in run.metrics:
        score = answer.scores.get(profile)
        if score is None:
            verdicts.append(None)
        else:
            reason = clipped(score.reason, 400) if score.reason else None
            verdicts.append([score.verdict, plain(as_target(score.extracted, answer.target)), reason, score.value])
    shown = {
        "k": answer.repeat,
        "s": answer.status,
        "t": None if answer.reply is None else clipped(answer.reply, limits.characters),
        "z": clipped(answer.reasoning, limits.characters),
        "e": None if answer.error is None else [visible(answer.error.kind), clipped(answer.error.message, 600)],
        "l": answer.latency_s,
        "n": answer.tokens,
        "v": verdicts,
    }
    asked = {
        "id": visible(answer.sample_id),
        "system": clipped(answer.system, limits.characters),
        "options": [[visible(k), clipped(v, 400)] for k, v in answer.options.items()],
        "target": plain(answer.target),
        "by": filters_of(answer),
        "meta": {visible(k): plain(v, 200) for k, v in answer.meta.items() if v is None or isinstance(v, _SHOWN)},
        "texts": list(_texts(answer, limits)),
    }
    key = repr((run.benchmark, asked, run.media))
    question = blake2b(key.encode(errors="replace"), digest_size=12).hexdigest()
    return Kept(place, number, order, question, shown, asked, answer.parts)
