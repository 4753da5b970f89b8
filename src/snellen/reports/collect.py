"""One pass over runs: counts for header and plots, counts by class, and the answers of the gallery."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

from snellen.reports.escape import clip, escape_invisible, text_of_value
from snellen.reports.views import MANY, PageLimits, RunView
from snellen.runs.answer_view import AnswerView
from snellen.scoring.calibration import ConfidenceRows
from snellen.scoring.coordinates import SIDES
from snellen.scoring.readings import EVIDENCE, PROFILE, READER, STAGE
from snellen.scoring.shapes import Shapes
from snellen.scoring.taxonomy import SEPARATOR, coarse_to_fine
from snellen.types import Part, Score, Text

CLASSES = 100_000
"""Classes that are counted in all; what would go beyond is left out, whole parts at a time: about 30 MB."""


KINDS = ("choice_text", "choice", "short", "count", "number", "open", "truth")
"""Kinds of question, those first whose wrong answers say the most."""


class QuestionGroup(NamedTuple):
    """Group of questions whose classes are comparable: one data set, one way of asking, one level, one kind."""

    dataset: str
    ask: str
    level: str
    kind: str


@dataclass
class ClassAnswers:
    """Answers about one class: how many, and the sum of their scores."""

    n: int = 0
    total: float = 0.0

    @property
    def share(self) -> float:
        """Return the mean score, 0 for none."""
        return self.total / self.n if self.n else 0.0


@dataclass
class ClassTally:
    """Answers by class under the first profile.

    Attributes:
        parts: class to answers; a class is its path (`order > genus > species`) where that is known, else its label.
            None for a part that has more classes than there is room for.
        depths: level to the depths that it has been seen at.
    """

    parts: dict[QuestionGroup, dict[str, ClassAnswers] | None] = field(default_factory=dict)
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
        part = self.parts.setdefault(QuestionGroup(dataset, ask, level, kind), {})
        if part is None:
            return
        answers = part.get(label)
        if answers is None:
            if self._room <= 0:
                self._room += len(part)
                self.parts[QuestionGroup(dataset, ask, level, kind)] = None
                return
            self._room -= 1
            answers = part[self._names.setdefault(label, label)] = ClassAnswers()
        answers.n += 1
        answers.total += score.value or 0.0

    def levels(self) -> list[str]:
        """Return the levels, coarse to fine."""
        return coarse_to_fine(self.depths)

    def of(self, ask: str) -> Iterator[tuple[QuestionGroup, Mapping[str, ClassAnswers]]]:
        """Yield groups with two classes or more, from coarse to fine, else in order of first appearance."""
        order = {level: place for place, level in enumerate(self.levels())}
        for group in sorted(self.parts, key=lambda group: order.get(group.level, len(order))):
            part = self.parts[group]
            if group.ask == ask and part is not None and len(part) > 1:
                yield group, part


def kind_order(kind: str) -> int:
    """Return the place of a kind among KINDS, others last."""
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def class_name(path: str) -> str:
    """Return the class without its ancestors, fit for display."""
    return escape_invisible(path.rpartition(SEPARATOR)[2])


def group_filters(group: QuestionGroup, path: str = "") -> dict[str, str]:
    """Return the link filters of a group, or of one class of it."""
    filters = {"kind": group.kind, "level": group.level}
    if group.dataset:
        filters["dataset"] = group.dataset
    return {**filters, "label": class_name(path)} if path else filters


RIGHT = ("correct", "unscored")
FEW = 12
"""A confusion matrix is drawn for at most so many targets."""

SEED = 0
"""Seed of the draw of answers on pages of many runs."""

_NAMED = ("short", "choice_text", "open")
"""Kinds whose targets are names of one level; letters, numbers and truth values are alike on every level."""

_TRUTH = {"t": True, "true": True, "yes": True, "f": False, "false": False, "no": False}

_SHOWN = (str, int, float, list, tuple, set, frozenset)
"""Types of meta that the page shows; tables and readers that a scorer needs are left out."""

_VALUES = 400
"""Different values of one meta column that are kept for naming filters."""


@dataclass
class AnswerConfusion:
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
class RunTally:
    """Counts of one run for header and plots."""

    answers: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    latencies: array[float] = field(default_factory=lambda: array("f"))
    meta: dict[str, dict[str, None]] = field(default_factory=dict)
    confusions: dict[tuple[tuple[str, str], ...], AnswerConfusion] = field(default_factory=dict)
    disagreements: int = 0
    classes: ClassTally = field(default_factory=ClassTally)
    confidences: ConfidenceRows = field(default_factory=ConfidenceRows)
    counts_confusions: bool = True

    def add(self, answer: AnswerView) -> None:
        """Count one answer."""
        self.answers += 1
        self.statuses[answer.status] += 1
        if answer.error is not None:
            self.errors[escape_invisible(answer.error.kind)] += 1
        if answer.latency_s is not None:
            self.latencies.append(answer.latency_s)
        for profile, score in answer.scores.items():
            self.verdicts.setdefault(profile, Counter())[score.verdict] += 1
        self.disagreements += profiles_disagree(answer)
        if answer.probabilities is not None and answer.scores:
            score = next(iter(answer.scores.values()))
            self.confidences.add(str(answer.kind), answer.sample_id, score, answer.probabilities)
        for name, value in answer_filters(answer).items():
            values = self.meta.setdefault(name, {})
            if len(values) < _VALUES:
                values.setdefault(value)
        self.classes.add(str(answer.kind), answer.meta, next(iter(answer.scores.values()), None))
        if self.counts_confusions:
            self._confuse(answer)

    def _confuse(self, answer: AnswerView) -> None:
        target = text_of_value(answer.target, 40)
        if (
            target is None or not answer.scores or answer.kind in (*SIDES, "moment")
        ):  # right by overlap, not by the same text
            return
        score = next(iter(answer.scores.values()))
        where: list[tuple[str, str]] = [("kind", answer.kind)]
        names = ("task", "level") if answer.kind in _NAMED else ("task",)
        where += [(name, str(answer.meta[name])) for name in names if name in answer.meta]
        extracted = text_of_value(convert_like_target(score.extracted, answer.target), 40)
        if score.verdict in ("error", "unscored"):
            return
        self.confusions.setdefault(tuple(where), AnswerConfusion()).add(target, "" if extracted is None else extracted)


def convert_like_target(extracted: Any, target: Any) -> Any:
    """Convert an extracted answer to the target's type: a profile may extract `T` or `yes` for a target of true."""
    if isinstance(target, bool) and isinstance(extracted, str):
        return _TRUTH.get(extracted.strip().lower(), extracted)
    return extracted


def profiles_disagree(answer: AnswerView) -> bool:
    """Return True if two profiles give the answer different verdicts."""
    return len({score.verdict for score in answer.scores.values()}) > 1


def answer_filters(answer: AnswerView) -> dict[str, str]:
    """Return the values an answer can be filtered by: its kind and its short meta values, except `chance`."""
    filters = {"kind": str(answer.kind)}
    for name, value in answer.meta.items():
        if isinstance(value, (str, int, float)) and name not in ("kind", "chance"):
            text = text_of_value(value, 80)
            if text is not None and len(text) <= 80:
                filters[escape_invisible(name)[:60]] = text
    return filters


def failure_rank(answer: AnswerView) -> int:
    """Rank an answer for the gallery. 0: wrong, unparseable or failed under the first profile; 1: so under another; 2: right everywhere."""
    verdicts = [score.verdict for score in answer.scores.values()]
    if answer.status != "ok" or not verdicts or verdicts[0] not in RIGHT:
        return 0
    return 1 if any(verdict not in RIGHT for verdict in verdicts) else 2


@dataclass(frozen=True)
class GalleryAnswer:
    """One answer chosen for the gallery, texts already cut; `rank`, `run` and `order` say where it stood."""

    rank: int
    run: int
    order: int
    question: str
    answer_data: Mapping[str, Any]
    question_data: Mapping[str, Any]
    parts: Sequence[Part]
    shapes: Callable[[], Shapes | None] | None = None


@dataclass
class CollectedRuns:
    """Tallies by run, the answers that the gallery holds in order, and how many there were by rank.

    `counts` is without the runs in `near_thresholds`, whose answers are drawn by condition; these are named by their number.
    """

    tallies: list[RunTally]
    gallery: list[GalleryAnswer]
    counts: Counter[int]
    near_thresholds: tuple[int, ...] = ()


def _sampling_key(answer: AnswerView, seed: int | None = None) -> int:
    """Return a number that depends on the sample and the seed alone, so that the gallery has the same samples of every run."""
    name = f"{answer.sample_id}\0{answer.repeat}" + ("" if seed is None else f"\0{seed}")
    return int.from_bytes(blake2b(name.encode(errors="replace"), digest_size=8).digest())


def collect_runs(runs: Sequence[RunView], limits: PageLimits) -> CollectedRuns:
    """Read every run once. Memory holds about `limits.answers` answers without their images, and counts.

    Runs of acuity give a few answers of each condition. They come first; the others share the rest of the room.
    """
    # options of acuity are lettered in balanced order, differently for every question: a matrix of letters says nothing
    tallies = [RunTally(counts_confusions=run.acuity is None) for run in runs]
    adaptive = tuple(number for number, run in enumerate(runs) if run.acuity is not None)
    gallery: list[GalleryAnswer] = []
    for place, number in enumerate(adaptive):
        room = (limits.answers - len(gallery)) // (len(adaptive) - place)
        gallery += _draw_near_thresholds(runs[number], number, tallies[number], limits, room)
    others = [(number, run) for number, run in enumerate(runs) if number not in adaptive]
    choose = _collect_stratified if len(runs) >= MANY else _collect_worst
    chosen, counts_by_rank = choose(others, tallies, limits, limits.answers - len(gallery))
    gallery = sorted([*gallery, *chosen], key=lambda answer: (answer.run, answer.order))
    return CollectedRuns(tallies, gallery, counts_by_rank, adaptive)


def _draw_near_thresholds(
    run: RunView, number: int, tally: RunTally, limits: PageLimits, room: int
) -> list[GalleryAnswer]:
    """Choose answers of every condition of a run of acuity near its threshold."""
    from snellen.reports.acuity.view import ThresholdSample

    assert run.acuity is not None  # noqa: S101 - such runs alone
    sample: ThresholdSample[GalleryAnswer] = ThresholdSample(run.acuity, room)
    for order, answer in enumerate(run.answers()):
        tally.add(answer)
        make = partial(_gallery_answer, answer, run, number, order, failure_rank(answer), limits)
        sample.offer(answer, _sampling_key(answer, SEED), order, make)
    return sample.drawn()


def _collect_stratified(
    runs: Sequence[tuple[int, RunView]], tallies: Sequence[RunTally], limits: PageLimits, room: int
) -> tuple[list[GalleryAnswer], Counter[int]]:
    """Choose right and wrong answers of every run and slice, with about the same number of answers from each run."""
    counts_by_rank: Counter[int] = Counter()
    gallery: list[GalleryAnswer] = []
    for place, (number, run) in enumerate(runs):
        sample: StratifiedSample[GalleryAnswer] = StratifiedSample((room - len(gallery)) // (len(runs) - place))
        for order, answer in enumerate(run.answers()):
            tallies[number].add(answer)
            rank = failure_rank(answer)
            counts_by_rank[rank] += 1
            make = partial(_gallery_answer, answer, run, number, order, rank, limits)
            sample.offer(Stratum(rank, slice_of(answer)), _sampling_key(answer, SEED), order, make)
        gallery += sample.drawn()
    return gallery, counts_by_rank


def _collect_worst(
    runs: Sequence[tuple[int, RunView]], tallies: Sequence[RunTally], limits: PageLimits, room: int
) -> tuple[list[GalleryAnswer], Counter[int]]:
    """Choose incorrect answers first, then those that profiles disagree on, then correct ones."""
    heap: list[tuple[tuple[int, int, int, int], GalleryAnswer]] = []
    counts_by_rank: Counter[int] = Counter()
    for number, run in runs:
        for order, answer in enumerate(run.answers()):
            tallies[number].add(answer)
            place = failure_rank(answer)
            counts_by_rank[place] += 1
            worst_first = (-place, -_sampling_key(answer), -number, -order)
            if len(heap) < room:
                heapq.heappush(heap, (worst_first, _gallery_answer(answer, run, number, order, place, limits)))
            elif heap and worst_first > heap[0][0]:
                heapq.heapreplace(heap, (worst_first, _gallery_answer(answer, run, number, order, place, limits)))
    return [answer for _, answer in heap], counts_by_rank


def _texts(answer: AnswerView, limits: PageLimits) -> Iterator[str]:
    for part in answer.parts:
        if isinstance(part, Text):
            yield clip(part.text, limits.characters)


def _place_of(answer: AnswerView, score: Score, profile: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """Return the stage that read an answer by profile `strict`, and the places of the reply that it was read from."""
    if score.detail.get(STAGE) == READER:
        return READER, [(start, end) for start, end in [score.detail.get(EVIDENCE, (0, 0))] if end]
    found = (
        answer.reading() if profile == PROFILE and answer.reading is not None and score.extracted is not None else None
    )
    return ("", ()) if found is None or found.value != score.extracted else (found.stage, found.places)


def _gallery_answer(
    answer: AnswerView, run: RunView, number: int, order: int, place: int, limits: PageLimits
) -> GalleryAnswer:
    """Cut one answer down to what the page shows. Keys are short because they stand in the page 2,000 times."""
    verdicts: list[list[Any] | None] = []
    shown: list[tuple[int, int]] = []
    for profile in run.metrics:
        score = answer.scores.get(profile)
        if score is None:
            verdicts.append(None)
        else:
            reason = clip(score.reason, 400) if score.reason else None
            extracted = text_of_value(convert_like_target(score.extracted, answer.target))
            read_by, places = _place_of(answer, score, profile)
            shown = [place for place in places if place[1] <= limits.characters] or shown
            verdicts.append([score.verdict, extracted, reason, score.value, *([read_by] if read_by else [])])
    answer_data: dict[str, Any] = {
        "k": answer.repeat,
        "s": answer.status,
        "t": None if answer.reply is None else clip(answer.reply, limits.characters),
        "z": clip(answer.reasoning, limits.characters),
        "e": None if answer.error is None else [escape_invisible(answer.error.kind), clip(answer.error.message, 600)],
        "l": answer.latency_s,
        "n": answer.tokens,
        "v": verdicts,
    }
    if (
        shown
        and answer.reply is not None
        and clip(answer.reply, limits.characters).startswith(answer.reply[: max(end for _, end in shown)])
    ):
        answer_data["w"] = shown
    question_data = {
        "id": escape_invisible(answer.sample_id),
        "system": clip(answer.system, limits.characters),
        "options": [[escape_invisible(k), clip(v, 400)] for k, v in answer.options.items()],
        "target": text_of_value(answer.target),
        "by": answer_filters(answer),
        "meta": {
            escape_invisible(k): text_of_value(v, 200)
            for k, v in answer.meta.items()
            if v is None or isinstance(v, _SHOWN)
        },
        "texts": list(_texts(answer, limits)),
    }
    key = repr((run.benchmark, question_data, run.media))
    question = blake2b(key.encode(errors="replace"), digest_size=12).hexdigest()
    return GalleryAnswer(place, number, order, question, answer_data, question_data, answer.parts, answer.shapes)


SLICES = 64
"""Slices of a run that are told apart; answers of further ones are drawn together."""

_COLUMNS = ("task", "level")
"""Meta columns that make a slice, beside the kind of question."""

Kept = TypeVar("Kept")


class Stratum(NamedTuple):
    """Answers that are drawn together: how right they are (0 wrong, 1 disputed, 2 right), and their slice."""

    rank: int
    slice_of: tuple[str, ...]


def slice_of(answer: AnswerView) -> tuple[str, ...]:
    """Return the slice of an answer: its kind, task and level."""
    return (str(answer.kind), *(str(answer.meta.get(name, ""))[:80] for name in _COLUMNS))


def share_out(sizes: Sequence[int], room: int) -> list[int]:
    """Share room among strata evenly; what a small stratum does not need goes to the larger ones."""
    shares = [0] * len(sizes)
    left = room
    for number, place in enumerate(sorted(range(len(sizes)), key=lambda at: (sizes[at], at))):
        shares[place] = min(sizes[place], left // (len(sizes) - number))
        left -= shares[place]
    return shares


class StratifiedSample(Generic[Kept]):
    """Draws a fixed number of items from a stream, shared evenly among its strata.

    Of each stratum those with the lowest keys stay. Keys that depend on the sample and a seed alone make the draw the same
    for every run. Memory holds about twice the room: what a full stratum's present share excludes can never return, as
    that share only shrinks.
    """

    def __init__(self, room: int) -> None:
        self._room = max(0, room)
        self._strata: dict[Stratum, list[tuple[int, int, Kept]]] = {}
        self._bounds: dict[Stratum, int] = {}
        self._slices: set[tuple[str, ...]] = set()
        self._size = 0

    def offer(self, stratum: Stratum, key: int, order: int, make: Callable[[], Kept]) -> None:
        """Take part in the draw; `make` is called only for an item that may stay."""
        if stratum.slice_of not in self._slices:
            if len(self._slices) >= SLICES:
                stratum = Stratum(stratum.rank, ())
            else:
                self._slices.add(stratum.slice_of)
        items = self._strata.setdefault(stratum, [])
        bound = self._bounds.get(stratum, self._room)
        if len(items) >= bound:
            if not items or (-key, -order) <= items[0][:2]:
                return
            heapq.heapreplace(items, (-key, -order, make()))
            return
        heapq.heappush(items, (-key, -order, make()))
        self._size += 1
        if self._size > 2 * (self._room + len(self._strata)):
            self._shrink(spare=1)

    def _shrink(self, spare: int) -> None:
        """Drop what strata have no room for, the highest keys first; a share may grow by one when its rounding changes."""
        places = sorted(self._strata)
        shares = share_out([len(self._strata[place]) for place in places], self._room)
        for place, share in zip(places, shares, strict=True):
            items = self._strata[place]
            while len(items) > share + spare:
                heapq.heappop(items)
                self._bounds[place] = share + spare
        self._size = sum(map(len, self._strata.values()))

    def drawn(self) -> Iterator[Kept]:
        """Yield the items that were drawn, in the order in which they were offered."""
        self._shrink(spare=0)
        items = [item for items in self._strata.values() for item in items]
        return (chosen for _, _, chosen in sorted(items, key=lambda item: -item[1]))
