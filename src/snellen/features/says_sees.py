"""Says against sees: accuracy of a probe on a class, compared with the accuracy of a model's answers about its images.

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
from snellen.scoring.statistics import interval, mean_of, of_sums
from snellen.scoring.statistics.bootstrap import FEWEST_POINTS, correlations
from snellen.scoring.statistics.intervals import mover
from snellen.types import Interval, IntervalMethod, Metric

Join = Literal["image", "class"]
QUADRANTS = ("sees and says", "sees but does not say", "says without seeing", "neither")
HALFWAY = 0.5


class NothingInCommon(UsageError):
    """Probe and answers have nothing in common; either may be joined with others."""


class ProbeResults(Struct, frozen=True, eq=False):
    """Probe results on its test rows.

    Attributes:
        ids: [n] what each row's image is called.
        classes: [n] the name of each row's class.
        right: [n] 1 where the probe named it, else 0.
        chance: what guessing reaches: 1 / classes.
    """

    ids: Sequence[str]
    classes: Sequence[str]
    right: NDArray[np.float64]
    chance: float


class AnswerScores(Struct, frozen=True, eq=False):
    """Scored answers of a question run.

    Attributes:
        ids: [m] the image that each question is about.
        classes: [m] its class as the questions call it; "" where they do not say.
        value: [m] scores from 0 to 1.
        chance: [m] what guessing reaches on each question.
    """

    ids: Sequence[str]
    classes: Sequence[str]
    value: NDArray[np.float64]
    chance: NDArray[np.float64]


class SaysSeesSettings(Struct, frozen=True):
    """Settings of the comparison.

    Attributes:
        join: "image": probe and answers on the same images; "class": on images of the same class.
        matched: how images were recognised: whole names, names without ending, or file names alone.
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
        only_probe, only_answers: images (of join "class": classes) that only one side has.
        ambiguous: images asked about (of join "class": classes of the probe) whose name, as names were compared, is
            that of several rows or of several asked images (of several classes); they are not joined.
        other_class: joined images that the questions place in another of the probe's classes than the probe does.
        unknown_class: joined images that the questions place in a class that the probe has not, as it is written.
    """

    settings: SaysSeesSettings
    classes: tuple[ClassPoint, ...]
    overall: tuple[Metric, ...]
    only_probe: int
    only_answers: int
    ambiguous: int
    other_class: int = 0
    unknown_class: int = 0

    @property
    def quadrants(self) -> dict[str, int]:
        """Count the classes in each quadrant."""
        counts = Counter(point.quadrant for point in self.classes)
        return {name: counts[name] for name in QUADRANTS}

    def metrics(self) -> list[Metric]:
        """Return the overall metrics, then the share of classes in each quadrant."""
        count = len(self.classes)
        shares = [Metric(f"quadrant/{name}", many / count, count) for name, many in self.quadrants.items()]
        return [*self.overall, *shares]

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        noun = "images" if self.settings.join == "image" else "classes"
        notes = []
        if self.only_probe:
            notes.append(f"{self.only_probe:,} {noun} of the probe's test rows appear in no question.")
        if self.only_answers:
            notes.append(f"{self.only_answers:,} {noun} of the questions are not among the probe's test rows.")
        if self.ambiguous and self.settings.join == "image":
            notes.append(
                f"{self.ambiguous:,} images were omitted because several rows, or several images of questions, share "
                "their name."
            )
        elif self.ambiguous:
            notes.append(
                f"{self.ambiguous:,} classes of the probe were omitted because their normalised names are equal."
            )
        if self.other_class:
            notes.append(
                f"{self.other_class:,} joined images have another class in the questions than in the probe; they "
                "count as the probe's class. Check that these are the same images."
            )
        if self.unknown_class and self.unknown_class == sum(point.images for point in self.classes):
            notes.append(
                f"No class name of the questions matches the probe's, so it is not verified that the {self.unknown_class:,} joined "
                f"images are the same: they were joined by {self.settings.matched}."
            )
        unclear = sum(not point.clear for point in self.classes)
        if unclear:
            notes.append(
                f"{unclear:,} of {len(self.classes):,} classes are so close to a threshold, or have so few images, that "
                "their interval crosses it; their quadrant is uncertain."
            )
        if len(self.classes) < FEWEST_POINTS:
            notes.append(f"With {len(self.classes)} classes, no correlation over classes is computed.")
        return notes


def says_sees(
    sees: ProbeResults,
    says: AnswerScores,
    *,
    join: Join = "image",
    sees_from: float = HALFWAY,
    says_from: float = HALFWAY,
) -> SaysSees:
    """Compare what a probe reads with what a model answers, class by class.

    Joined by image, the class of an image is the probe's, an image's answers are averaged first, and every image
    of a class weighs the same on both sides, so that gaps are paired. Joined by class, each side has images of its
    own, and names of classes are compared without case, leading numbers, blanks, `_` and `-`; classes of the probe that
    are written alike in this way are not joined, and counted.

    Args:
        sees: right or wrong, row by row.
        says: scores, answer by answer.
        sees_from, says_from: accuracy above chance from which a class counts as seen, as said; 0 to 1.

    Raises:
        UsageError: a threshold outside 0 to 1.
        NothingInCommon: no image (class) that both sides have.
        DataError: arrays of different lengths.
    """
    for name, level in (("sees", sees_from), ("says", says_from)):
        if not 0.0 < level <= 1.0:
            raise UsageError(f"the threshold of {name} is {level}", "Give a number above 0, up to 1 (0.5 is halfway).")
    if join not in get_args(Join):
        raise UsageError(f"there is no join {join!r}", "Choose image or class.")
    _require_same_length("probe", len(sees.ids), len(sees.classes), len(sees.right))
    _require_same_length("answers", len(says.ids), len(says.classes), len(says.value), len(says.chance))
    _require_finite("probe", np.asarray(sees.right), np.array([sees.chance]))
    _require_finite("answers", np.asarray(says.value), np.asarray(says.chance))
    own_chance = np.full(len(sees.right), sees.chance)
    other_class = unknown_class = 0
    if join == "image":
        matched, rows, of, only_probe, only_answers, ambiguous = join_by_image(sees.ids, says.ids)
        images, index = np.unique(rows, return_inverse=True)
        counts = np.bincount(index)
        value = np.bincount(index, weights=says.value[of]) / counts
        chance = np.bincount(index, weights=says.chance[of]) / counts
        names = np.asarray(sees.classes, dtype=object)[images]
        other_class, unknown_class = count_misplaced(sees.classes, says.classes, rows, of)
        probe_side = _Side(names, np.asarray(sees.right)[images], own_chance[images], images)
        answer_side = _Side(names, value, chance, images, counts)
        average = "pictures of the class, each the mean of its answers"
    else:
        probe_classes = np.array([class_key(name) for name in sees.classes], dtype=object)
        answer_classes = np.array([class_key(name) for name in says.classes], dtype=object)
        called = dict(zip(probe_classes.tolist(), sees.classes, strict=True))
        alike = Counter(key for key, _ in set(zip(probe_classes.tolist(), sees.classes, strict=True)))
        twice = {key for key, count in alike.items() if count > 1}
        both = (set(probe_classes) & set(answer_classes)) - twice - {""}
        only_probe, only_answers = (
            len(set(probe_classes) - both - twice),
            len(set(answer_classes) - both - twice - {""}),
        )
        ambiguous = sum(alike[key] for key in twice)
        in_probe, in_answers = np.isin(probe_classes, list(both)), np.isin(answer_classes, list(both))
        groups = np.unique(np.asarray(says.ids, dtype=str), return_inverse=True)[1].reshape(-1)
        names = np.asarray(sees.classes, dtype=object)
        probe_side = _Side(
            names[in_probe], np.asarray(sees.right)[in_probe], own_chance[in_probe], np.flatnonzero(in_probe)
        )
        renamed = np.array([called[name] for name in answer_classes[in_answers]], dtype=object)
        answer_side = _Side(
            renamed, np.asarray(says.value)[in_answers], np.asarray(says.chance)[in_answers], groups[in_answers]
        )
        matched, average = "names of classes", "rows of the probe; answers"
    if not len(probe_side.names) or not len(answer_side.names):
        raise NothingInCommon(_nothing_in_common(sees, says, join, ambiguous), _remedy(join))
    paired = join == "image"
    probe_by_class, answers_by_class = _by_class(probe_side), _by_class(answer_side)
    points = [
        _point(name, probe_by_class[name], answers_by_class[name], paired, sees_from, says_from)
        for name in probe_by_class
    ]
    points.sort(key=lambda point: (-point.gap, point.name))
    settings = SaysSeesSettings(
        join, matched, sees_from, says_from, sees.chance, float(answer_side.chance.mean()), average
    )  # fmt: skip
    overall = (
        *_overall(probe_side, answer_side, paired),
        *correlations([point.probe for point in points], [point.answer for point in points], cluster="class"),
    )
    return SaysSees(settings, tuple(points), overall, only_probe, only_answers, ambiguous, other_class, unknown_class)


class _Side(Struct, frozen=True, eq=False):
    """One side of the join: [n] class names, values, chances and clusters; how many answers stand behind a value."""

    names: NDArray[Any]
    value: NDArray[np.float64]
    chance: NDArray[np.float64]
    cluster: NDArray[np.int64]
    answers: NDArray[np.int64] | None = None

    def of(self, rows: NDArray[np.int64]) -> _Side:
        answers = None if self.answers is None else self.answers[rows]
        return _Side(self.names[rows], self.value[rows], self.chance[rows], self.cluster[rows], answers)

    def above(self) -> NDArray[np.float64]:
        """[n] above chance: linear in the values, so that means of it are the above-chance value of the means."""
        chance = float(self.chance.mean())
        return np.asarray((self.value - chance) / (1.0 - chance))


def _by_class(side: _Side) -> dict[str, _Side]:
    """Split a side by class, in one pass over the rows."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(side.names.tolist()):
        rows.setdefault(name, []).append(row)
    return {name: side.of(np.array(members, dtype=np.int64)) for name, members in rows.items()}


def _point(
    name: str, probe_side: _Side, answer_side: _Side, paired: bool, sees_from: float, says_from: float
) -> ClassPoint:  # fmt: skip
    probe_above, answer_above = probe_side.above(), answer_side.above()
    probe_ci, answer_ci = (interval(side.value, side.cluster, cluster="image") for side in (probe_side, answer_side))
    gap_ci = _difference(probe_ci, answer_ci, probe_side, answer_side, paired)
    over, under = float(probe_above.mean()), float(answer_above.mean())
    lost = 1.0 - under
    lost_seeing = min(max(1.0 - over, 0.0), lost)
    at = _quadrant(over >= sees_from, under >= says_from)
    edges = [(probe_ci, probe_side, sees_from), (answer_ci, answer_side, says_from)]
    return ClassPoint(
        name=name,
        images=len(probe_side.value),
        answers=int(len(answer_side.value) if answer_side.answers is None else answer_side.answers.sum()),
        probe=float(probe_side.value.mean()),
        probe_ci95=probe_ci,
        answer=float(answer_side.value.mean()),
        answer_ci95=answer_ci,
        probe_chance=float(probe_side.chance.mean()),
        answer_chance=float(answer_side.chance.mean()),
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


def accuracy_threshold(chance: float, level: float) -> float:
    """Return the accuracy that lies `level` of the way from chance to 1."""
    return chance + level * (1.0 - chance)


def _clear(span: tuple[float, float] | None, side: _Side, level: float) -> bool:
    edge = accuracy_threshold(float(side.chance.mean()), level)
    return span is not None and not span[0] < edge <= span[1]


def _difference(
    probe: tuple[float, float] | None,
    answer: tuple[float, float] | None,
    probe_side: _Side,
    answer_side: _Side,
    paired: bool,
) -> tuple[float, float] | None:
    """Compute the interval of a difference above chance from the intervals of its two sides, by squares that are added.

    Newcombe 1998, Statistics in Medicine 17:873 (method 10), and with the correlation of pairs 17:2635; it holds
    where nothing varies, as in a class of ten images that are all right. Where a side does not vary, the correlation
    is taken as 0, which makes the interval wider.
    """
    if probe is None or answer is None:
        return None
    a, b = _above(float(probe_side.value.mean()), probe_side), _above(float(answer_side.value.mean()), answer_side)
    low_a, high_a = (_above(end, probe_side) for end in probe)
    low_b, high_b = (_above(end, answer_side) for end in answer)
    r = 0.0
    if paired and np.ptp(probe_side.value) > 0.0 and np.ptp(answer_side.value) > 0.0:
        r = float(np.clip(np.corrcoef(probe_side.value, answer_side.value)[0, 1], 0.0, 1.0))
    ends = mover((a, b), ((low_a, high_a), (low_b, high_b)), (1.0, -1.0), r)
    return Interval(*ends, IntervalMethod("Newcombe"))


def _above(share: float, side: _Side) -> float:
    chance = float(side.chance.mean())
    return (share - chance) / (1.0 - chance)


def _overall(sees: _Side, says: _Side, paired: bool) -> list[Metric]:
    """Compute accuracies of both sides, the gap, accuracy on seen and unseen images, and where accuracy is lost."""
    metrics = [
        _mean("probe_accuracy", sees.value, sees.cluster, float(sees.chance.mean())),
        _mean("answer_accuracy", says.value, says.cluster, float(says.chance.mean())),
    ]
    probe_above, answer_above = sees.above(), says.above()
    probe_ci, answer_ci = metrics[0].ci95, metrics[1].ci95
    gap_ci = _difference(probe_ci, answer_ci, sees, says, paired)
    metrics.append(Metric("gap", float(probe_above.mean() - answer_above.mean()), len(answer_above), gap_ci))
    lost_ci = None if answer_ci is None else _described(answer_ci, metrics[1]).map(lambda end: 1.0 - _above(end, says))
    metrics.append(Metric("lost", float(1.0 - answer_above.mean()), len(answer_above), lost_ci))
    if not paired:
        return metrics
    for name, rows in (("said_of_seen", sees.value >= 0.5), ("said_of_unseen", sees.value < 0.5)):
        if rows.any():
            metrics.append(_mean(name, says.value[rows], says.cluster[rows], float(says.chance[rows].mean())))
        else:
            metrics.append(Metric(name, None, 0))

    def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        lack_seeing, lack_saying = sums[:, 0], sums[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.clip(lack_seeing / lack_saying, 0.0, 1.0)
        return np.where(lack_saying > 0.0, part, np.nan)

    value, span = of_sums(
        np.stack([1.0 - probe_above, 1.0 - answer_above], axis=1), sees.cluster, share, cluster="image"
    )
    known = bool(np.isfinite(value))
    metrics.append(Metric("lost/seeing", value if known else None, len(answer_above), span if known else None))
    turned = None if span is None else span.map(lambda end: 1.0 - end)
    metrics.append(Metric("lost/saying", 1.0 - value if known else None, len(answer_above), turned if known else None))
    return metrics


def _described(ends: tuple[float, float], metric: Metric) -> Interval:
    """A metric's interval with the description of how it was made."""
    return Interval(*ends, metric.interval or IntervalMethod("Wilson"))


def _mean(name: str, value: NDArray[np.float64], cluster: NDArray[np.int64], chance: float) -> Metric:
    return mean_of(name, value, cluster, cluster="image", chance=chance)


def _require_finite(side: str, value: NDArray[np.float64], chance: NDArray[np.float64]) -> None:
    if not np.isfinite(value).all() or (value.size and not (value.min() >= 0.0 and value.max() <= 1.0)):
        raise DataError(
            f"{side}: values that are no numbers from 0 to 1",
            "Exclude answers without a score, and report their number.",
        )
    if not ((chance >= 0.0) & (chance < 1.0)).all():
        raise DataError(
            f"{side}: a chance that is not from 0 to below 1",
            "Leave out questions that can be answered in one way only: nothing lies above guessing.",
        )


def _require_same_length(side: str, *lengths: int) -> None:
    if len(set(lengths)) > 1:
        raise DataError(f"{side}: arrays of {', '.join(map(str, lengths))} entries", "Give one entry per row.")


def _nothing_in_common(sees: ProbeResults, says: AnswerScores, join: Join, ambiguous: int) -> str:
    noun = "image" if join == "image" else "class"
    probe_names = sees.ids if join == "image" else sees.classes
    answer_names = says.ids if join == "image" else says.classes
    first = (
        repr(str(probe_names[0])) if len(probe_names) else "none",
        repr(str(answer_names[0])) if len(answer_names) else "none",
    )
    alike = f"; {ambiguous:,} have an ambiguous name" if ambiguous else ""
    return (
        f"probe and answers have no {noun} in common: the probe's first is {first[0]}, the answers' {first[1]}{alike}"
    )


def _remedy(join: Join) -> str:
    if join == "image":
        return "Extract features of the images of the questions, or join by class name: --join class."
    return "Use the same class names on both sides: those of a store are in classes.txt next to its splits."


_NAMES = ("whole names", "names without ending", "file names without folder and ending")


def _keys(ids: Sequence[str], way: int) -> list[str]:
    if way == 0:
        return [str(name) for name in ids]
    paths = [PurePosixPath(str(name).replace("\\", "/")) for name in ids]
    return [str(path.with_suffix("")) if way == 1 and path.name else path.stem for path in paths]


def join_by_image(
    rows_of: Sequence[str], image_of_answer: Sequence[str]
) -> tuple[str, NDArray[np.int64], NDArray[np.int64], int, int, int]:  # fmt: skip
    """Join rows and answers by image name, with the strictest of three comparisons that joins the most.

    Args:
        rows_of: [n] names of the rows' images.
        image_of_answer: [m] name of each answer's image.

    Returns:
        How names were compared; row and number of the answer of each pair; images that rows alone have, that answers
        alone have, and that go by the name of several rows or of several asked images, which are not joined.
    """
    images = list(dict.fromkeys(str(name) for name in image_of_answer))

    def compared(way: int) -> tuple[dict[str, int], dict[str, str]]:
        """Return the row of each unambiguous key, and the key of each image asked about."""
        row_keys, image_keys = _keys(rows_of, way), _keys(images, way)
        row_counts, image_counts = Counter(row_keys), Counter(image_keys)
        row = {key: number for number, key in enumerate(row_keys) if row_counts[key] == 1 and image_counts[key] < 2}
        return row, dict(zip(images, image_keys, strict=True))

    ways = [compared(way) for way in range(len(_NAMES))]
    joined = [sum(key in row for key in called.values()) for row, called in ways]
    way = joined.index(max(joined)) if any(joined) else len(_NAMES) - 1  # the loosest tells what nearly met
    row, called = ways[way]
    row_keys, answer_keys = set(_keys(rows_of, way)), set(called.values())
    pairs = [(row[key], number) for number, image in enumerate(image_of_answer) if (key := called[str(image)]) in row]
    ambiguous = sum(key in row_keys and key not in row for key in called.values())
    rows, of = (np.array(side, dtype=np.int64) for side in (list(zip(*pairs, strict=True)) if pairs else ((), ())))
    return _NAMES[way], rows, of, len(row_keys - answer_keys), len(answer_keys - row_keys), ambiguous


def class_key(name: str) -> str:
    """Normalise a class name for comparison: `017.Northern_Cardinal` and `northern cardinal` are one."""
    text = str(name).strip().lower()
    number, dot, rest = text.partition(".")
    if dot and number.isdigit() and rest.strip():
        text = rest
    return " ".join(text.replace("_", " ").replace("-", " ").split())


def count_misplaced(
    rows_of: Sequence[str], class_of_answer: Sequence[str], rows: NDArray[np.int64], of: NDArray[np.int64]
) -> tuple[int, int]:
    """Count joined images that a question assigns to another of the probe's classes, and those whose questions name
    only classes unknown to the probe."""
    row_classes = [class_key(name) for name in rows_of]
    known = set(row_classes)
    called = [(row, class_key(class_of_answer[number])) for row, number in zip(rows.tolist(), of.tolist(), strict=True)]
    met = {row for row, key in called if key in known}
    other = {row for row, key in called if key in known and key != row_classes[row]}
    return len(other), len({row for row, key in called if key} - met)
