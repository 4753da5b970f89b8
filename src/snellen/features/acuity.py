"""Thresholds of an encoder on the drawings of acuity: how small, faint or alike may things be that its features tell apart?

docs/acuity-studies.md, "What the encoder resolves", has the method and its limits.

At each of some levels a readout is trained on drawings of that level and tested on others. The counts of right answers are
fitted by the psychometric function of the answers, with the same guess rate and the same grid. Both thresholds therefore mean
the same: half of the drawings are seen, guesses and slips left out.

Readouts of features: a linear probe, and the nearest class centroid by cosine, each trained on other drawings.

Encoders read no question: a drawing comes with the alternatives that a picture decides between. Drawings are encoded in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.benchmarks.acuity.attribute import DECIMALS, Attribute, Pixels, Scene
from snellen.benchmarks.acuity.comparison import difference_quantiles
from snellen.benchmarks.acuity.conditions import AcuityPlan, Condition, plan
from snellen.benchmarks.acuity.details import SMALL_P, beyond_hardest, number, words
from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.benchmarks.chart.rng import Stream
from snellen.errors import UsageError
from snellen.features.extract.loop import torch_threads
from snellen.features.extract.preprocess import Transform, normalise, resize_and_crop, resized_size
from snellen.features.probes.closed_form import STRENGTHS, compute_moments, score_path, solve
from snellen.features.probes.head import scaling
from snellen.scoring.psychometrics.curve import RIGHT, WRONG, Posterior, Shape
from snellen.scoring.psychometrics.estimate import CatchTrials, estimate, fit_p, monotone_p
from snellen.types import IntervalMethod, Metric

if TYPE_CHECKING:
    from snellen.features.encoders.base import Encoder


Part: TypeAlias = Literal["train", "test"]


class LabelledDrawing(Struct, frozen=True, eq=False):
    """One drawing.

    Attributes:
        pixels: [height, width] or [height, width, 3] code values.
        level: that the pixels have, in decades.
        names: what the picture may show, the right name first.
    """

    pixels: Pixels
    level: float
    names: tuple[str, ...]


def refusal(attribute: Attribute) -> str | None:
    """Return why no readout of one picture's features can answer an attribute's questions; None if one can."""
    if attribute.clip:
        return "its pictures are the frames of a clip, and an encoder sees one picture at a time"
    if attribute.images > 1 or attribute.form == "same-different":
        return "it is about several pictures, and an encoder sees one picture at a time"
    if not attribute.options:
        return "its answer is written, so that there are no alternatives to separate"
    if attribute.worded is not None and attribute.alternatives is None:
        return "the words of the question decide what is right, and an encoder reads no words"
    return None


def drawings(
    condition: Condition, level: float, part: Part, number: int, *, seed: int, scale: float = 0.0
) -> Iterator[LabelledDrawing]:
    """Draw a condition at one level, each picture anew; right options come equally often, to within one.

    Training and test pictures have streams of their own, and show different recorded things (scans), so that no picture
    is in both.

    Args:
        condition: what is drawn; `refusal` of its attribute must be None.
        level: one of the attribute's levels, in decades.
        part: train or test.
        number: of drawings.
        seed: the same seed gives the same pictures.
        scale: length from another condition, as in `Scene`.
    """
    attribute = condition.attribute
    for index in range(number):
        answer = index % len(attribute.options)
        key = f"{condition.key}/x{level:+.{DECIMALS}f}/{part}/{index}"
        retry = 0
        while True:
            streams = partial(Stream, "acuity-features", seed, key, retry)
            scene = partial(_scene, condition, level, answer, scale, streams)
            if attribute.exemplar is None or attribute.exemplar(scene()) % 2 == (part == "test"):
                break
            retry += 1
        names = _options(attribute, answer) if attribute.alternatives is None else attribute.alternatives(scene())
        realised = level if attribute.realised is None else attribute.level(attribute.realised(scene()))
        (pixels,) = attribute.draw(scene())
        yield LabelledDrawing(pixels, realised, names)


def _scene(condition: Condition, level: float, answer: int, scale: float, streams: Callable[[], Stream]) -> Scene:
    """Return a scene with a stream at its beginning."""
    return Scene(condition.attribute.value(level), answer, streams(), condition.side, condition.variant, scale)


def _options(attribute: Attribute, answer: int) -> tuple[str, ...]:
    others = (option for place, option in enumerate(attribute.options) if place != answer)
    return attribute.options[answer], *others


def encode_pictures(encoder: Encoder, pictures: Sequence[Pixels], batch_size: int = 64) -> NDArray[np.float32]:
    """Return the first output [n, d] of pictures in memory, by the encoder's own transform.

    Grey pictures become three equal channels, as PNG files of them do when they are decoded.
    """
    import torch

    rows = []
    with torch_threads(encoder, batch_size), torch.inference_mode():
        for start in range(0, len(pictures), batch_size):
            images = [
                resize_and_crop(_three_channels(pixels), encoder.transform)
                for pixels in pictures[start : start + batch_size]
            ]
            stacked = torch.stack(images).to(encoder.device)
            values = encoder.encode(normalise(stacked, encoder.transform))[encoder.outputs[0]]
            rows.append(values.float().cpu().numpy())
    return np.concatenate(rows)


def _three_channels(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels)


def seen_share(transform: Transform, side: int) -> float:
    """Return the share of a square picture's side that is left after the transform's crop: 1 where nothing is cut off."""
    if transform.crop is None:
        return 1.0
    height, width = resized_size(side, side, transform)
    return min(1.0, transform.crop[0] / height, transform.crop[1] / width)


FAMILIES = ("default", "all", "chart", "chart/*")
EMBEDDED = "embedded"


class EncoderConditions(Struct, frozen=True):
    """What is measured.

    Attributes:
        conditions: in order.
        labels: name of each, with its side where several sides are measured.
        omitted: one line for each condition of a family that no encoder can be measured on.
    """

    conditions: tuple[Condition, ...]
    labels: tuple[str, ...]
    omitted: tuple[str, ...]


def select_conditions(
    encoder: str, attributes: str | None, sides: str | None, run: AcuityPlan | None = None
) -> EncoderConditions:
    """Choose the conditions.

    Args:
        encoder: as typed; the embedded one has the family `chart` as its usual conditions.
        attributes, sides: as in `snellen acuity`; None: those of the run, else the usual ones.
        run: what the run measured whose answers are compared; only its conditions are measured then.

    Raises:
        UsageError: there is no such condition, the run has none of them, or a named one needs more than one picture's
            features.
    """
    options = {} if sides is None else {"sides": sides}
    usual = "chart" if encoder == EMBEDDED else "default"
    candidates: Sequence[Condition] = plan(
        {**options, "attributes": usual if attributes is None else attributes}
    ).conditions
    if run is not None:
        measured = {each.key: each for each in run.conditions}
        if attributes is None:
            candidates = [each for each in run.conditions if sides is None or str(each.side) in _words(sides)]
        elif sides is None:
            names = {each.name for each in candidates}
            candidates = [each for each in run.conditions if each.name in names]
        else:
            candidates = [each for each in candidates if each.key in measured]
        if not candidates:
            raise UsageError("the run has none of these conditions", f"It has: {', '.join(measured)}.")
    explicit = set(_words(attributes or "")) - set(FAMILIES)
    conditions, omitted = [], []
    for condition in candidates:
        reason = refusal(condition.attribute)
        if reason is None:
            conditions.append(condition)
        elif explicit & {condition.name, condition.attribute.name}:
            raise UsageError(
                f"{condition.name} cannot be measured on features: {reason}",
                "Name conditions of one picture with options, such as --attributes gap,contrast.",
            )
        else:
            omitted.append(f"{condition.name} is not measured: {reason}")
    if not conditions:
        raise UsageError("none of these conditions can be measured on features", "Add --attributes gap, for example.")
    several = len({condition.side for condition in conditions}) > 1 and len(conditions) > len(
        {condition.name for condition in conditions}
    )
    labels = tuple(condition.key if several else condition.name for condition in conditions)
    return EncoderConditions(tuple(conditions), labels, tuple(dict.fromkeys(omitted)))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


Readout: TypeAlias = Literal["probe", "cosine"]
READOUTS: tuple[Readout, ...] = ("probe", "cosine")
FOLDS = 4
"""Parts of the training drawings that choose the probe's penalty by cross-validation."""


class LabelledFeatures(Struct, frozen=True, eq=False):
    """Features of some drawings.

    Attributes:
        values: [n, d] float32.
        classes: [n] index of the right name.
        rivals: [n, a] indices of the names that come into question, rising; the right one is among them.
    """

    values: NDArray[np.float32]
    classes: NDArray[np.int64]
    rivals: NDArray[np.int64]

    def take(self, rows: NDArray[np.bool_]) -> LabelledFeatures:
        """Return some rows."""
        return LabelledFeatures(self.values[rows], self.classes[rows], self.rivals[rows])


def right_answers(readout: Readout, train: LabelledFeatures, test: LabelledFeatures, classes: int) -> NDArray[np.bool_]:
    """Return [n] whether the readout names each test drawing correctly, among its own alternatives.

    probe: least squares on one-hot targets of standardised features, its ridge penalty chosen by cross-validation within
    the training drawings. cosine: the centroid with the largest cosine, after the mean of the training drawings is
    subtracted. Equal scores go to the name with the lowest index, so that constant features reach chance.
    """
    scores = _probe_scores(train, test, classes) if readout == "probe" else _cosine_scores(train, test, classes)
    return _named(scores, test)


def _named(scores: NDArray[np.float64], rows: LabelledFeatures) -> NDArray[np.bool_]:
    among = np.take_along_axis(scores, rows.rivals, axis=1)
    best = np.take_along_axis(rows.rivals, among.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.asarray(best == rows.classes)


def _probe_scores(train: LabelledFeatures, test: LabelledFeatures, classes: int) -> NDArray[np.float64]:
    scale = scaling("standardise", train.values)
    train_values, test_values = (scale.apply(rows.values).astype(np.float64) for rows in (train, test))
    # A ridge solution lies in the span of the training rows: few axes stand for thousands of features.
    mean = train_values.mean(axis=0)
    axes = np.linalg.svd(train_values - mean, full_matrices=False)[2].T
    train_values, test_values = (train_values - mean) @ axes, (test_values - mean) @ axes
    grid = STRENGTHS["ridge"]
    right = np.zeros(len(grid))
    folds = _folds(train.classes)
    for fold in range(FOLDS):
        held_out = folds == fold
        if held_out.all() or not held_out.any():
            continue
        moments = compute_moments(train_values[~held_out], train.classes[~held_out], classes)
        held_out_rows = train.take(held_out)
        for place, scores in enumerate(score_path(moments, "ridge", grid, train_values[held_out])):
            right[place] += _named(np.asarray(scores, dtype=np.float64), held_out_rows).sum()
    best = len(grid) - 1 - int(right[::-1].argmax())  # of equal ones the strongest penalty
    weights, bias = solve(compute_moments(train_values, train.classes, classes), "ridge", grid[best])
    return np.asarray(test_values @ weights + bias, dtype=np.float64)


def _folds(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [n] the fold of each row: those of a class are spread evenly."""
    folds = np.zeros(len(classes), dtype=np.int64)
    for each in np.unique(classes):
        rows = np.flatnonzero(classes == each)
        folds[rows] = (np.arange(len(rows)) + each) % FOLDS
    return folds


def _cosine_scores(train: LabelledFeatures, test: LabelledFeatures, classes: int) -> NDArray[np.float64]:
    mean = train.values.mean(axis=0, dtype=np.float64)
    centroids = np.zeros((classes, train.values.shape[1]))
    for each in np.unique(train.classes):
        centroids[each] = train.values[train.classes == each].mean(axis=0, dtype=np.float64) - mean
    return _unit(test.values - mean) @ _unit(centroids).T


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))


EncodePictures: TypeAlias = Callable[[Sequence[Pixels]], NDArray[np.float32]]
"""Pictures, [height, width] or [height, width, 3] code values each, to features [n, d]."""
EncoderState: TypeAlias = Literal["measured", "floor", "ceiling", "not separated"]

LEVELS, TRAIN, TEST = 12, 192, 96
"""Levels of a condition, and drawings of each level that train and that test a readout."""
METHOD = IntervalMethod("posterior of the threshold, equal tails")


class EncoderSettings(Struct, frozen=True):
    """How thresholds of an encoder are measured.

    Attributes:
        levels: number of levels, spread evenly over those that can be drawn, both ends included.
        train, test: drawings of each level that train and that test a readout.
        shape: of the curve.
        seed: of the drawings.
    """

    levels: int = LEVELS
    train: int = TRAIN
    test: int = TEST
    shape: Shape = "logistic"
    seed: int = 0


class LevelCount(Struct, frozen=True):
    """Right answers at one level: the physical level that was drawn, how many of how many."""

    level: float
    right: int
    tested: int


class AnswersRatio(Struct, frozen=True):
    """Threshold of the answers against that of a readout.

    Attributes:
        answers: threshold and state of the answers in words.
        ratio: how many times finer the readout resolves; None where one of the two has no threshold.
        ci95: its 95 % interval, from both posteriors.
        sentence: what may be claimed; empty where the interval includes 1, or there is no ratio.
    """

    answers: str
    ratio: float | None
    ci95: tuple[float, float] | None
    sentence: str


class ReadoutThreshold(Struct, frozen=True, eq=False):
    """One readout of one condition.

    Attributes:
        readout: probe or cosine.
        state: measured; floor or ceiling where the interval reaches beyond the levels; not separated where fewer than 60 %
            are right at the easiest level.
        value, low, high: threshold in the attribute's unit; `value` is None unless measured.
        words: the same for people.
        counts: right answers by level, hardest first.
        fit_p, monotone_p: small where the curve does not fit, or does not rise.
        posterior: over the grid of thresholds.
        against: the comparison with the answers; None without a run.
    """

    readout: Readout
    state: EncoderState
    value: float | None
    low: float
    high: float
    words: str
    counts: tuple[LevelCount, ...]
    fit_p: float
    monotone_p: float
    posterior: Posterior
    against: AnswersRatio | None = None

    def remarks(self) -> list[str]:
        """Return what a reader must know beside the threshold."""
        if self.monotone_p < SMALL_P:
            return ["does not rise with the level"]
        return ["the curve does not fit"] if self.fit_p < SMALL_P else []


class EncoderThreshold(Struct, frozen=True, eq=False):
    """One condition: both readouts of an encoder's features."""

    condition: Condition
    readouts: tuple[ReadoutThreshold, ...]

    def metrics(self, label: str) -> list[Metric]:
        """Return `threshold/gap/probe` and `threshold/gap/cosine`, in the attribute's unit, n being the tested drawings."""
        return [
            Metric(
                f"threshold/{label}/{each.readout}",
                each.value,
                sum(count.tested for count in each.counts),
                None if each.value is None else (each.low, each.high),
                self.condition.attribute.unit,
                interval=None if each.value is None else METHOD,
            )
            for each in self.readouts
        ]

    def as_json(self, label: str) -> dict[str, Any]:
        """Return the result in plain types."""
        attribute = self.condition.attribute
        return {
            "name": label,
            "attribute": attribute.name,
            "side": self.condition.side,
            "unit": attribute.unit,
            "guess": attribute.guess_rate,
            "readouts": [_readout_json(each) for each in self.readouts],
        }


def _readout_json(readout_threshold: ReadoutThreshold) -> dict[str, Any]:
    measured = readout_threshold.value is not None
    against = readout_threshold.against
    return {
        "readout": readout_threshold.readout,
        "state": readout_threshold.state,
        "words": readout_threshold.words,
        "value": readout_threshold.value,
        "ci95": [readout_threshold.low, readout_threshold.high] if measured else None,
        "levels": [[count.level, count.right, count.tested] for count in readout_threshold.counts],
        "fit_p": readout_threshold.fit_p,
        "monotone_p": readout_threshold.monotone_p,
        "remarks": readout_threshold.remarks(),
        "answers": None
        if against is None
        else {
            "words": against.answers,
            "ratio": against.ratio,
            "ci95": None if against.ci95 is None else list(against.ci95),
            "sentence": against.sentence,
        },
    }


def spread_levels(levels: Sequence[float], count: int) -> list[float]:
    """Return `wanted` of the candidate levels, hardest first, spread evenly, both ends included; all if there are fewer."""
    places = np.unique(np.round(np.linspace(0, len(levels) - 1, min(count, len(levels)))).astype(int))
    return [levels[place] for place in places]


def encoder_threshold(
    condition: Condition,
    encode: EncodePictures,
    settings: EncoderSettings,
    *,
    scale: float = 0.0,
    answers: ConditionResult | None = None,
    done: Callable[[int], None] | None = None,
) -> EncoderThreshold:
    """Measure both readouts of one condition.

    Args:
        scale: length from another condition, as in `Scene`.
        answers: the same condition of a run; its drawings need not be these.
        done: called with the number of drawings after each level.
    """
    levels = spread_levels(condition.attribute.levels, settings.levels)
    outcomes: dict[Readout, list[tuple[float, int]]] = {readout: [] for readout in READOUTS}
    counts: dict[Readout, list[LevelCount]] = {readout: [] for readout in READOUTS}
    for level in levels:
        parts = [
            list(drawings(condition, level, "train", settings.train, seed=settings.seed, scale=scale)),
            list(drawings(condition, level, "test", settings.test, seed=settings.seed, scale=scale)),
        ]
        names = sorted({name for part in parts for drawing in part for name in drawing.names})
        train, test = (_features(part, encode, names) for part in parts)
        realised = [drawing.level for drawing in parts[1]]
        for readout in READOUTS:
            right = right_answers(readout, train, test, len(names))
            outcomes[readout] += [
                (at, RIGHT if is_right else WRONG) for at, is_right in zip(realised, right, strict=True)
            ]  # fmt: skip
            middle = condition.attribute.value(float(np.mean(realised)))
            counts[readout].append(LevelCount(middle, int(right.sum()), len(right)))
        if done is not None:
            done(settings.train + settings.test)
    return EncoderThreshold(
        condition,
        tuple(
            _fitted(condition, readout, outcomes[readout], counts[readout], settings.shape, answers)
            for readout in READOUTS
        ),
    )


def _features(part: Sequence[LabelledDrawing], encode: EncodePictures, names: Sequence[str]) -> LabelledFeatures:
    place = {name: index for index, name in enumerate(names)}
    rivals = np.array([sorted(place[name] for name in drawing.names) for drawing in part], dtype=np.int64)
    classes = np.array([place[drawing.names[0]] for drawing in part], dtype=np.int64)
    return LabelledFeatures(encode([drawing.pixels for drawing in part]), classes, rivals)


def _fitted(
    condition: Condition,
    readout: Readout,
    outcomes: Sequence[tuple[float, int]],
    counts: Sequence[LevelCount],
    shape: Shape,
    answers: ConditionResult | None,
) -> ReadoutThreshold:
    attribute = condition.attribute
    posterior = Posterior.start(condition.model(shape)).fold(outcomes)
    easiest = CatchTrials(counts[-1].right, counts[-1].tested)
    number_tested = len(outcomes)
    threshold_estimate = estimate(
        posterior, answered=number_tested, asked=number_tested, most=number_tested, catch=easiest, fixed=True
    )
    states: Mapping[str, EncoderState] = {
        "floor": "floor",
        "ceiling": "ceiling",
        "task not understood": "not separated",
    }
    state = states.get(threshold_estimate.state, "measured")
    low, high = sorted(attribute.value(end) for end in threshold_estimate.interval)
    value = None if threshold_estimate.value is None else attribute.value(threshold_estimate.value)
    text = {
        "floor": "not resolved at any level",
        "ceiling": beyond_hardest(attribute),
        "not separated": "not separated at the easiest level",
    }.get(state) or f"{_quantity(value or 0.0, attribute.unit)} [{number(low)}, {number(high)}]"
    checks = fit_p(posterior, outcomes), monotone_p(outcomes)
    readout_threshold = ReadoutThreshold(readout, state, value, low, high, text, tuple(counts), *checks, posterior)
    return (
        readout_threshold
        if answers is None
        else structs.replace(readout_threshold, against=compare_with_answers(readout_threshold, answers))
    )


def _quantity(value: float, unit: str) -> str:
    return number(value) if unit == "contrast" else f"{number(value)} {unit}"


def compare_with_answers(readout_threshold: ReadoutThreshold, answers: ConditionResult) -> AnswersRatio:
    """Compare a readout's threshold with that of the answers to the same condition.

    The sentence is empty if the interval of the ratio includes 1, or if one of the two curves does not fit or does not rise.
    It is empty too if the run has not finished the condition.
    """
    answers_text = words(answers)
    if readout_threshold.value is None or answers.value is None:
        return AnswersRatio(answers_text, None, None, "")
    low, middle, high = (10.0**end for end in difference_quantiles(answers.posterior, readout_threshold.posterior))
    checks = [
        p
        for p in (readout_threshold.fit_p, readout_threshold.monotone_p, answers.fit_p, answers.monotone_p)
        if p is not None
    ]
    sentence = ""
    if min(checks) >= SMALL_P and answers.estimate.state != "open":
        sentence = _claim(readout_threshold, answers, low, high)
    return AnswersRatio(answers_text, middle, (low, high), sentence)


def _claim(readout_threshold: ReadoutThreshold, answers: ConditionResult, low: float, high: float) -> str:
    attribute = answers.condition.attribute
    more = attribute.sign > 0
    quantity = f"{_quantity(answers.value or 0.0, attribute.unit)} [{number(answers.low)}, {number(answers.high)}]"
    if low > 1.0:
        verbs = ("resolves", "need") if more else ("tolerates", "tolerate only")
        return f"The encoder ({readout_threshold.readout}) {verbs[0]} {readout_threshold.words}; the answers {verbs[1]} {quantity}."
    if high < 1.0:
        verbs = ("need", "needs") if more else ("tolerate", "tolerates only")
        return f"The answers {verbs[0]} {quantity}; the {readout_threshold.readout} {verbs[1]} {readout_threshold.words}, so it misses what the model uses."
    return ""
