"""Which pictures, and which classes, are the same where two sides call them differently.

Says against sees: what a probe reads from the features of a class, beside what a model answers about its pictures.

A class that a linear probe tells from the others is seen: the features hold it. Whether the model says it is another
matter. Each class is a point (probe accuracy, answer accuracy), and the accuracy that answers lack is parted into what
the features lack already and what is lost between features and words.

Probe and questions differ in what guessing reaches (one of 200 classes, one of two words), so they are compared above
chance: (accuracy - chance) / (1 - chance), 0 for guessing and 1 for no error, as Cohen's kappa has it (Cohen 1960,
Educational and Psychological Measurement 20:37).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.scoring.statistics import interval, of_sums
from snellen.types import Interval, IntervalMethod, Metric

_NAMES = ("whole names", "names without ending", "file names without folder and ending")


def _keys(ids: Sequence[str], how: int) -> list[str]:
    if how == 0:
        return [str(one) for one in ids]
    paths = [PurePosixPath(str(one).replace("\\", "/")) for one in ids]
    return [str(one.with_suffix("")) if how == 1 and one.name else one.stem for one in paths]


def by_image(
    rows_of: Sequence[str], asked_of: Sequence[str]
) -> tuple[str, NDArray[np.int64], NDArray[np.int64], int, int, int]:  # fmt: skip
    """Join by names of pictures: of three ways of comparing them the strictest that joins the most.

    Args:
        rows_of: [n] what the rows' pictures are called.
        asked_of: [m] what the picture of each answer is called.

    Returns:
        How names were compared; row and number of the answer of each pair; pictures that rows alone have, that answers
        alone have, and that go by the name of several rows or of several asked pictures, which are not joined.
    """
    asked = list(dict.fromkeys(str(one) for one in asked_of))

    def compared(how: int) -> tuple[dict[str, int], dict[str, str]]:
        """Row of each name that is one row's and one asked picture's at most; and what each asked picture goes by."""
        mine, theirs = _keys(rows_of, how), _keys(asked, how)
        rows, pictures = Counter(mine), Counter(theirs)
        row = {key: number for number, key in enumerate(mine) if rows[key] == 1 and pictures[key] < 2}
        return row, dict(zip(asked, theirs, strict=True))

    ways = [compared(how) for how in range(len(_NAMES))]
    joined = [sum(key in row for key in called.values()) for row, called in ways]
    how = joined.index(max(joined)) if any(joined) else len(_NAMES) - 1  # the loosest tells what nearly met
    row, called = ways[how]
    known, there = set(_keys(rows_of, how)), set(called.values())
    pairs = [(row[key], number) for number, one in enumerate(asked_of) if (key := called[str(one)]) in row]
    ambiguous = sum(key in known and key not in row for key in called.values())
    rows, of = (np.array(side, dtype=np.int64) for side in (list(zip(*pairs, strict=True)) if pairs else ((), ())))
    return _NAMES[how], rows, of, len(known - there), len(there - known), ambiguous


def class_key(name: str) -> str:
    """A class's name as names are compared: `017.Northern_Cardinal` and `northern cardinal` are one."""
    text = str(name).strip().lower()
    number, dot, rest = text.partition(".")
    if dot and number.isdigit() and rest.strip():
        text = rest
    return " ".join(text.replace("_", " ").replace("-", " ").split())


def placed_elsewhere(
    rows_of: Sequence[str], asked_of: Sequence[str], rows: NDArray[np.int64], of: NDArray[np.int64]
) -> tuple[int, int]:
    """Joined pictures that a question places in another of the probe's classes; and those whose questions name no class
    of the probe's, but another."""
    mine = [class_key(one) for one in rows_of]
    known = set(mine)
    called = [(row, class_key(asked_of[number])) for row, number in zip(rows.tolist(), of.tolist(), strict=True)]
    met = {row for row, key in called if key in known}
    other = {row for row, key in called if key in known and key != mine[row]}
    return len(other), len({row for row, key in called if key} - met)


Join = Literal["image", "class"]
QUADRANTS = ("sees and says", "sees but does not say", "says without seeing", "neither")
HALFWAY = 0.5
_FEW = 6
"""Classes below which a correlation over classes says nothing."""


class NothingInCommon(UsageError):
    """These two cannot be joined; either may be joined with others."""


class Sees(Struct, frozen=True, eq=False):
    """What a probe did on its test rows.

    Attributes:
        ids: [n] what each row's picture is called.
        classes: [n] the name of each row's class.
        right: [n] 1 where the probe named it, else 0.
        chance: what guessing reaches: 1 / classes.
    """

    ids: Sequence[str]
    classes: Sequence[str]
    right: NDArray[np.float64]
    chance: float


class Says(Struct, frozen=True, eq=False):
    """Scored answers of a question run.

    Attributes:
        ids: [m] the picture that each question is about.
        classes: [m] its class as the questions call it; "" where they do not say.
        value: [m] scores from 0 to 1.
        chance: [m] what guessing reaches on each question.
    """

    ids: Sequence[str]
    classes: Sequence[str]
    value: NDArray[np.float64]
    chance: NDArray[np.float64]


class Settings(Struct, frozen=True):
    """What the comparison depends on.

    Attributes:
        join: "image": probe and answers on the same pictures; "class": on pictures of the same class.
        matched: how pictures were recognised: whole names, names without ending, or file names alone.
        sees_from, says_from: from which accuracy above chance a class counts as seen, or said; 0.5 is halfway.
        probe_chance, answer_chance: what guessing reaches, mean over what was joined.
        average: over what a class's accuracy is averaged.
    """

    join: Join
    matched: str
    sees_from: float
    says_from: float
    probe_chance: float
    answer_chance: float
    average: str


class ClassPoint(Struct, frozen=True):
    """One class.

    Attributes:
        probe, answer: accuracies, 0 to 1, with 95 % intervals.
        gap: probe minus answer, both above chance: positive where more is seen than said.
        lost: what answers lack above chance; `lost_seeing` of it the probe lacks too, `lost_saying` is the rest.
        quadrant: one of QUADRANTS; `clear` where neither interval crosses its threshold.
    """

    name: str
    images: int
    answers: int
    probe: float
    probe_ci95: tuple[float, float] | None
    answer: float
    answer_ci95: tuple[float, float] | None
    probe_chance: float
    answer_chance: float
    gap: float
    gap_ci95: tuple[float, float] | None
    lost: float
    lost_seeing: float
    lost_saying: float
    quadrant: str
    clear: bool


class SaysSees(Struct, frozen=True):
    """Every class that both sides have, and what only one side has.

    Attributes:
        settings: as declared.
        classes: largest gap first.
        overall: metrics over all that was joined.
        only_probe, only_answers: pictures (of join "class": classes) that only one side has.
        ambiguous: pictures asked about (of join "class": classes of the probe) whose name, as names were compared, is
            that of several rows or of several asked pictures (of several classes); they are not joined.
        other_class: joined pictures that the questions place in another of the probe's classes than the probe does.
        unknown_class: joined pictures that the questions place in a class that the probe has not, as it is written.
    """

    settings: Settings
    classes: tuple[ClassPoint, ...]
    overall: tuple[Metric, ...]
    only_probe: int
    only_answers: int
    ambiguous: int
    other_class: int = 0
    unknown_class: int = 0

    @property
    def quadrants(self) -> dict[str, int]:
        """Classes in each quadrant."""
        counts = Counter(one.quadrant for one in self.classes)
        return {name: counts[name] for name in QUADRANTS}

    def metrics(self) -> list[Metric]:
        """Overall figures, then the share of classes in each quadrant."""
        count = len(self.classes)
        shares = [Metric(f"quadrant/{name}", many / count, count) for name, many in self.quadrants.items()]
        return [*self.overall, *shares]

    def notes(self) -> list[str]:
        """What a reader of the figures has to know, one sentence each."""
        what = "pictures" if self.settings.join == "image" else "classes"
        told = []
        if self.only_probe:
            told.append(f"{self.only_probe:,} {what} that the probe was tested on were asked about in no question.")
        if self.only_answers:
            told.append(f"{self.only_answers:,} {what} that were asked about are not among the probe's test rows.")
        if self.ambiguous and self.settings.join == "image":
            told.append(
                f"{self.ambiguous:,} pictures were left out because several rows go by their name, or several pictures "
                "that were asked about do."
            )
        elif self.ambiguous:
            told.append(f"{self.ambiguous:,} classes of the probe were left out because several are written alike.")
        if self.other_class:
            told.append(
                f"{self.other_class:,} joined pictures are of another class for the questions than for the probe; they "
                "stand at the probe's. If these are not the same pictures, their names only look alike."
            )
        if self.unknown_class and self.unknown_class == sum(one.images for one in self.classes):
            told.append(
                f"The questions call no class as the probe does, so nobody checked that the {self.unknown_class:,} joined "
                f"pictures are the same ones: they were joined by {self.settings.matched}."
            )
        unclear = sum(not one.clear for one in self.classes)
        if unclear:
            told.append(
                f"{unclear:,} of {len(self.classes):,} classes lie so near a threshold, or on so few pictures, that "
                "their interval crosses it: their quadrant may be another."
            )
        if len(self.classes) < _FEW:
            told.append(f"With {len(self.classes)} classes there is no correlation over classes.")
        return told


def says_sees(
    sees: Sees,
    says: Says,
    *,
    join: Join = "image",
    sees_from: float = HALFWAY,
    says_from: float = HALFWAY,
) -> SaysSees:
    """Set what a probe reads beside what a model answers, class by class.

    Joined by image, the class of a picture is the probe's, a picture's answers are averaged first, and every picture
    of a class weighs the same on both sides, so that gaps are paired. Joined by class, each side has pictures of its
    own, and names of classes are compared without case, leading numbers, blanks, `_` and `-`; classes of the probe that
    are written alike in this way are not joined, and counted.

    Args:
        sees: right or wrong, row by row.
        says: scores, answer by answer.
        join: see above.
        sees_from, says_from: accuracy above chance from which a class counts as seen, as said; 0 to 1.

    Raises:
        UsageError: a threshold outside 0 to 1.
        NothingInCommon: no picture (class) that both sides have.
        DataError: arrays of different lengths.
    """
    for name, level in (("sees", sees_from), ("says", says_from)):
        if not 0.0 < level <= 1.0:
            raise UsageError(f"the threshold of {name} is {level}", "Give a number above 0, up to 1 (0.5 is halfway).")
    if join not in get_args(Join):
        raise UsageError(f"there is no join {join!r}", "Choose image or class.")
    _same("probe", len(sees.ids), len(sees.classes), len(sees.right))
    _same("answers", len(says.ids), len(says.classes), len(says.value), len(says.chance))
    _finite("probe", np.asarray(sees.right), np.array([sees.chance]))
    _finite("answers", np.asarray(says.value), np.asarray(says.chance))
    own_chance = np.full(len(sees.right), sees.chance)
    other_class = unknown_class = 0
    if join == "image":
        matched, rows, of, only_probe, only_answers, ambiguous = by_image(sees.ids, says.ids)
        images, index = np.unique(rows, return_inverse=True)
        counts = np.bincount(index)
        value = np.bincount(index, weights=says.value[of]) / counts
        chance = np.bincount(index, weights=says.chance[of]) / counts
        names = np.asarray(sees.classes, dtype=object)[images]
        other_class, unknown_class = placed_elsewhere(sees.classes, says.classes, rows, of)
        left = _Side(names, np.asarray(sees.right)[images], own_chance[images], images)
        right = _Side(names, value, chance, images, counts)
        average = "pictures of the class, each the mean of its answers"
    else:
        mine = np.array([class_key(one) for one in sees.classes], dtype=object)
        theirs = np.array([class_key(one) for one in says.classes], dtype=object)
        called = dict(zip(mine.tolist(), sees.classes, strict=True))
        alike = Counter(key for key, _ in set(zip(mine.tolist(), sees.classes, strict=True)))
        twice = {key for key, count in alike.items() if count > 1}
        both = (set(mine) & set(theirs)) - twice - {""}
        only_probe, only_answers = len(set(mine) - both - twice), len(set(theirs) - both - twice - {""})
        ambiguous = sum(alike[key] for key in twice)
        kept, asked = np.isin(mine, list(both)), np.isin(theirs, list(both))
        groups = np.unique(np.asarray(says.ids, dtype=str), return_inverse=True)[1].reshape(-1)
        names = np.asarray(sees.classes, dtype=object)
        left = _Side(names[kept], np.asarray(sees.right)[kept], own_chance[kept], np.flatnonzero(kept))
        renamed = np.array([called[one] for one in theirs[asked]], dtype=object)
        right = _Side(renamed, np.asarray(says.value)[asked], np.asarray(says.chance)[asked], groups[asked])
        matched, average = "names of classes", "rows of the probe; answers"
    if not len(left.names) or not len(right.names):
        raise NothingInCommon(_nothing_in_common(sees, says, join, ambiguous), _remedy(join))
    paired = join == "image"
    seen, said = _by_class(left), _by_class(right)
    points = [_point(name, seen[name], said[name], paired, sees_from, says_from) for name in seen]
    points.sort(key=lambda one: (-one.gap, one.name))
    settings = Settings(
        join, matched, sees_from, says_from, sees.chance, float(right.chance.mean()), average
    )  # fmt: skip
    overall = (*_overall(left, right, paired), *_correlations(points))
    return SaysSees(settings, tuple(points), overall, only_probe, only_answers, ambiguous, other_class, unknown_class)


class _Side(Struct, frozen=True, eq=False):
    """One side of the join: [n] class names, values, chances and clusters; how many answers stand behind a value."""

    names: NDArray[Any]
    value: NDArray[np.float64]
    chance: NDArray[np.float64]
    cluster: NDArray[np.int64]
    answers: NDArray[np.int64] | None = None

    def of(self, rows: NDArray[np.int64]) -> _Side:
        return _Side(
            self.names[rows],
            self.value[rows],
            self.chance[rows],
            self.cluster[rows],
            None if self.answers is None else self.answers[rows],
        )

    def above(self) -> NDArray[np.float64]:
        """[n] above chance: linear in the values, so that means of it are the above-chance value of the means."""
        chance = float(self.chance.mean())
        return np.asarray((self.value - chance) / (1.0 - chance))


def _by_class(side: _Side) -> dict[str, _Side]:
    """Each class's part, in one pass over the rows."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(side.names.tolist()):
        rows.setdefault(name, []).append(row)
    return {name: side.of(np.array(mine, dtype=np.int64)) for name, mine in rows.items()}


def _point(
    name: str, left: _Side, right: _Side, paired: bool, sees_from: float, says_from: float
) -> ClassPoint:  # fmt: skip
    seen, said = left.above(), right.above()
    probe_ci, answer_ci = (interval(one.value, one.cluster, cluster="image") for one in (left, right))
    gap_ci = _difference(probe_ci, answer_ci, left, right, paired)
    over, under = float(seen.mean()), float(said.mean())
    lost = 1.0 - under
    lost_seeing = min(max(1.0 - over, 0.0), lost)
    at = _quadrant(over >= sees_from, under >= says_from)
    edges = [(probe_ci, left, sees_from), (answer_ci, right, says_from)]
    return ClassPoint(
        name=name,
        images=len(left.value),
        answers=int(len(right.value) if right.answers is None else right.answers.sum()),
        probe=float(left.value.mean()),
        probe_ci95=probe_ci,
        answer=float(right.value.mean()),
        answer_ci95=answer_ci,
        probe_chance=float(left.chance.mean()),
        answer_chance=float(right.chance.mean()),
        gap=over - under,
        gap_ci95=gap_ci,
        lost=lost,
        lost_seeing=lost_seeing,
        lost_saying=lost - lost_seeing,
        quadrant=at,
        clear=all(_clear(span, side, level) for span, side, level in edges),
    )


def _quadrant(sees: bool, says: bool) -> str:
    return QUADRANTS[(0 if says else 1) if sees else (2 if says else 3)]


def threshold(chance: float, level: float) -> float:
    """The accuracy that lies `level` of the way from chance to 1."""
    return chance + level * (1.0 - chance)


def _clear(span: tuple[float, float] | None, side: _Side, level: float) -> bool:
    edge = threshold(float(side.chance.mean()), level)
    return span is not None and not span[0] < edge <= span[1]


def _difference(
    probe: tuple[float, float] | None, answer: tuple[float, float] | None, left: _Side, right: _Side, paired: bool
) -> tuple[float, float] | None:
    """Interval of a difference above chance from the intervals of its two sides, by squares that are added.

    Newcombe 1998, Statistics in Medicine 17:873 (method 10), and with the correlation of pairs 17:2635; it holds
    where nothing varies, as in a class of ten pictures that are all right. Where a side does not vary, the correlation
    is taken as 0, which makes the interval wider.
    """
    if probe is None or answer is None:
        return None
    a, b = _above(float(left.value.mean()), left), _above(float(right.value.mean()), right)
    low_a, high_a = (_above(one, left) for one in probe)
    low_b, high_b = (_above(one, right) for one in answer)
    r = 0.0
    if paired and np.ptp(left.value) > 0.0 and np.ptp(right.value) > 0.0:
        r = float(np.clip(np.corrcoef(left.value, right.value)[0, 1], 0.0, 1.0))
    down, up = (a - low_a, high_b - b), (high_a - a, b - low_b)
    below, beyond = (float(np.sqrt(max(0.0, x * x + y * y - 2.0 * r * x * y))) for x, y in (down, up))
    return Interval(a - b - below, a - b + beyond, IntervalMethod("Newcombe"))


def _above(share: float, side: _Side) -> float:
    chance = float(side.chance.mean())
    return (share - chance) / (1.0 - chance)


def _overall(sees: _Side, says: _Side, paired: bool) -> list[Metric]:
    """Accuracies of both sides, the gap, what is said of the seen and of the unseen, and where accuracy is lost."""
    found = [
        _mean("probe_accuracy", sees.value, sees.cluster, float(sees.chance.mean())),
        _mean("answer_accuracy", says.value, says.cluster, float(says.chance.mean())),
    ]
    seen, said = sees.above(), says.above()
    probe_ci, answer_ci = found[0].ci95, found[1].ci95
    gap_ci = _difference(probe_ci, answer_ci, sees, says, paired)
    found.append(Metric("gap", float(seen.mean() - said.mean()), len(said), gap_ci))
    lost_ci = None if answer_ci is None else _described(answer_ci, found[1]).map(lambda end: 1.0 - _above(end, says))
    found.append(Metric("lost", float(1.0 - said.mean()), len(said), lost_ci))
    if not paired:
        return found
    for name, rows in (("said_of_seen", sees.value >= 0.5), ("said_of_unseen", sees.value < 0.5)):
        if rows.any():
            found.append(_mean(name, says.value[rows], says.cluster[rows], float(says.chance[rows].mean())))
        else:
            found.append(Metric(name, None, 0))

    def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        lack_seeing, lack_saying = sums[:, 0], sums[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.clip(lack_seeing / lack_saying, 0.0, 1.0)
        return np.where(lack_saying > 0.0, part, np.nan)

    value, span = of_sums(np.stack([1.0 - seen, 1.0 - said], axis=1), sees.cluster, share, cluster="image")
    known = bool(np.isfinite(value))
    found.append(Metric("lost/seeing", value if known else None, len(said), span if known else None))
    turned = None if span is None else span.map(lambda end: 1.0 - end)
    found.append(Metric("lost/saying", 1.0 - value if known else None, len(said), turned if known else None))
    return found


def _described(ends: tuple[float, float], metric: Metric) -> Interval:
    """A metric's interval with the description of how it was made."""
    return Interval(*ends, metric.interval or IntervalMethod("Wilson"))


def _mean(name: str, value: NDArray[np.float64], cluster: NDArray[np.int64], chance: float) -> Metric:
    return Metric(name, float(value.mean()), len(value), interval(value, cluster, cluster="image"), chance=chance)


def _correlations(points: Sequence[ClassPoint]) -> list[Metric]:
    """Pearson's r over classes and the same over ranks (Spearman's), with bootstrap intervals over classes.

    Ranks are those among all classes and are not formed anew in each resample.
    """
    x, y = np.array([one.probe for one in points]), np.array([one.answer for one in points])
    found = []
    for name, left, right in (("correlation", x, y), ("correlation/rank", _ranks(x), _ranks(y))):
        if len(points) < _FEW or np.ptp(left) == 0.0 or np.ptp(right) == 0.0:
            found.append(Metric(name, None, len(points), unit="r"))
            continue
        left, right = left - left.mean(), right - right.mean()
        columns = np.stack([np.ones(len(left)), left, right, left * left, right * right, left * right], axis=1)
        value, span = of_sums(columns, np.arange(len(left), dtype=np.int64), _pearson)
        over = IntervalMethod("bootstrap", cluster="class", clusters=len(points))
        cut = None if span is None else Interval(*span.cut(-1.0, 1.0), over)
        found.append(Metric(name, value, len(points), cut, unit="r"))
    return found


def _pearson(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """[b] correlations from sums of 1, x, y, xx, yy, xy; NaN where a side does not vary."""
    n, x, y, xx, yy, xy = sums.T
    spread = (xx - x * x / n) * (yy - y * y / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (xy - x * y / n) / np.sqrt(spread)
    return np.where(spread > 1e-15, np.clip(found, -1.0, 1.0), np.nan)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(((ends - counts + 1 + ends) / 2.0)[index.reshape(-1)])


def _finite(what: str, value: NDArray[np.float64], chance: NDArray[np.float64]) -> None:
    if not np.isfinite(value).all() or (value.size and not (value.min() >= 0.0 and value.max() <= 1.0)):
        raise DataError(f"{what}: values that are no numbers from 0 to 1", "Leave out what has no score, and say so.")
    if not ((chance >= 0.0) & (chance < 1.0)).all():
        raise DataError(
            f"{what}: a chance that is not from 0 to below 1",
            "Leave out questions that can be answered in one way only: nothing lies above guessing.",
        )


def _same(what: str, *lengths: int) -> None:
    if len(set(lengths)) > 1:
        raise DataError(f"{what}: arrays of {', '.join(map(str, lengths))} entries", "Give one entry a row.")


def _nothing_in_common(sees: Sees, says: Says, join: Join, ambiguous: int) -> str:
    what = "picture" if join == "image" else "class"
    mine = sees.ids if join == "image" else sees.classes
    theirs = says.ids if join == "image" else says.classes
    first = (repr(str(mine[0])) if len(mine) else "none", repr(str(theirs[0])) if len(theirs) else "none")
    alike = f"; {ambiguous:,} go by a name that several have" if ambiguous else ""
    return (
        f"probe and answers have no {what} in common: the probe's first is {first[0]}, the answers' {first[1]}{alike}"
    )


def _remedy(join: Join) -> str:
    if join == "image":
        return "Extract features of the pictures that were asked about, or join classes by their names: --join class."
    return "Name the classes alike: names of a store stand in classes.txt beside its splits."
