"""Does acuity explain answers: how far items lie above a model's threshold, against which of them it answered correctly.

The margin of an item is log10(size / threshold) in decades, turned so that more is easier. The area under its ROC curve for right
answers has an interval by clusters. Nothing is claimed unless that interval excludes .5.

Control of acuity by blank pictures: what is right without sight, and what pictures of each side cost in tokens.

A run with `--blank-images --through` asks the usual questions about grey pictures of the same sizes. Its share of right answers is the guess
rate that the curves assume, if nothing but the picture tells the answer. Its input tokens by side show where pictures are shrunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.benchmarks.acuity.processors import picture_scale
from snellen.benchmarks.acuity.questions import place_of
from snellen.errors import DataError, UsageError
from snellen.runs.acuity_results import MeasuredRun, measured_run
from snellen.runs.geometry import ItemGeometry, ItemLevel
from snellen.runs.run import Run
from snellen.runs.score_rows import model_facts
from snellen.runs.scoring import Scored
from snellen.scoring.psychometrics.curve import RIGHT
from snellen.scoring.statistics import interval, wilson
from snellen.scoring.statistics.intervals import mover
from snellen.scoring.statistics.roc import RocArea, mixed_roc_area
from snellen.types import Image

SEEN = 0.5
"""Widths of the curve below the threshold at which 5 % are seen."""
SAME_TOKENS = 0.01
"""Relative difference up to which two sides cost the same."""


class CountedAnswers(Struct, frozen=True):
    """Right answers of some, with a 95 % Wilson interval; None without answers."""

    right: int
    answers: int
    ci95: tuple[float, float] | None


class BlankCondition(Struct, frozen=True):
    """One condition.

    Attributes:
        name: with its side.
        guess: share of right guesses that the curve assumes.
        blank: answers about blank pictures.
        unseen: answers of the other run at levels of which its curve says that under 5 % are seen; None
            without such a run, or without a threshold.
        difference_ci95: 95 % interval of the share with unseen levels minus that with blank pictures.
        remarks: what differs.
    """

    name: str
    guess: float
    blank: CountedAnswers
    unseen: CountedAnswers | None
    difference_ci95: tuple[float, float] | None
    remarks: tuple[str, ...]


class SideTokens(Struct, frozen=True):
    """Mean input tokens of a question at one side of the picture, text included, and of how many answers."""

    side: int
    tokens: float
    answers: int


class BlankControl(Struct, frozen=True):
    """Conditions, tokens by side (smallest first), and in words from which side on they stay equal (empty: unknown)."""

    conditions: tuple[BlankCondition, ...]
    tokens: tuple[SideTokens, ...]
    usage: str


def blank_control(blank: Run, seeing: MeasuredRun | None = None) -> BlankControl:
    """Count the answers about blank pictures, and compare them with the lowest levels of a run that showed pictures.

    Raises:
        UsageError: a run is not of acuity, or `blank` was not asked with blank pictures, or `seeing` was.
    """
    if not blank.meta.spec.options.media.blank:
        raise UsageError(
            f"{blank.path} was not asked about blank pictures", "Run snellen acuity with --blank-images --through."
        )
    if seeing is not None and seeing.run.meta.spec.options.media.blank:
        raise UsageError(f"{seeing.run.path} was asked about blank pictures", "Name a run without --blank-images.")
    measured = measured_run(blank)
    tokens: defaultdict[int, list[int]] = defaultdict(list)
    sides_of = {each.key: each.side for each in measured.plan.conditions}

    def add(scored: Scored) -> None:
        response = scored.record.response
        if response is not None and response.usage.input_tokens:
            tokens[sides_of[place_of(scored.sample.id).key]].append(response.usage.input_tokens)

    blank.summarize(next(iter(blank.benchmark.score)), each=add, save=False)
    others = (
        {} if seeing is None else {(each.condition.name, each.condition.side): each for each in seeing.results}
    )  # names of keys differ: the blank run's say so
    conditions = []
    for each in measured.results:
        condition = each.condition
        if condition.attribute.form == "same-different":
            continue
        counted = _counted([outcome for _, outcome in each.answers])
        unseen = None
        other = others.get((condition.name, condition.side))
        if seeing is not None and other is not None and other.estimate.value is not None and other.width is not None:
            below = other.estimate.value - SEEN * other.width.value
            unseen = _counted([outcome for level, outcome in other.answers if level <= below])
        conditions.append(_compared(condition.key, condition.attribute.guess_rate, counted, unseen))
    sides = tuple(SideTokens(side, sum(each) / len(each), len(each)) for side, each in sorted(tokens.items()))
    return BlankControl(tuple(conditions), sides, usage_words(sides))


def _counted(outcomes: Sequence[int]) -> CountedAnswers:
    right = sum(outcome == RIGHT for outcome in outcomes)
    ends = wilson(right / len(outcomes), len(outcomes)) if outcomes else None
    return CountedAnswers(right, len(outcomes), None if ends is None else (ends[0], ends[1]))


def _compared(name: str, guess: float, blank: CountedAnswers, unseen: CountedAnswers | None) -> BlankCondition:
    remarks = []
    if blank.ci95 is not None and not blank.ci95[0] <= guess <= blank.ci95[1]:
        remarks.append(
            f"{100 * blank.right / blank.answers:.0f} % are right without a picture, and the curve assumes {100 * guess:.0f} %"
        )
    interval = None
    if unseen is not None and unseen.ci95 is not None and blank.ci95 is not None:
        shares = [each.right / each.answers for each in (unseen, blank)]
        interval = mover(shares, (unseen.ci95, blank.ci95), (1.0, -1.0))
        if not interval[0] <= 0.0 <= interval[1]:
            more = "more" if interval[0] > 0 else "fewer"
            remarks.append(f"{more} answers are right at the lowest levels than with blank pictures")
    return BlankCondition(name, guess, blank, unseen, interval, tuple(remarks))


def usage_words(sides: Sequence[SideTokens]) -> str:
    """Return from which side on pictures cost the same number of tokens; empty for fewer than two sides."""
    if len(sides) < 2:
        return ""
    last = sides[-1].tokens
    flat = [each for each in sides if abs(each.tokens - last) <= SAME_TOKENS * last]
    start = next(
        each for place, each in enumerate(sides) if all(later in flat for later in sides[place:])
    )  # fmt: skip
    if start is sides[-1]:
        return f"a question costs more tokens up to the largest side, {start.side} px: nothing shows that it is shrunk"
    return f"from {start.side} px on a question costs the same: larger pictures are shrunk, or billed alike"


DRAWS, SEED = 200, 20_260_401
"""Draws of the thresholds, where items of several conditions are compared."""
PIXELS = "px"


class ItemAnswer(Struct, frozen=True):
    """One scored answer: its sample, its cluster, whether it was right, and the pictures that were asked about."""

    sample_id: str
    group: str
    right: bool
    images: tuple[Image, ...]


class ScoredItems(Struct, frozen=True):
    """The answers of a run under one profile; `failed` counts those without an answer or a score."""

    run: Run
    profile: str
    answers: Sequence[ItemAnswer]
    failed: int

    def image_names(self) -> dict[str, str]:
        """Return sample id to the name of its first picture, or of its group where it has none."""
        return {each.sample_id: each.images[0].blob.key if each.images else each.group for each in self.answers}


class ShareRight(Struct, frozen=True):
    """Right answers among some items, with a 95 % interval."""

    right: int
    answers: int
    ci95: tuple[float, float] | None


class MarginResult(Struct, frozen=True):
    """What margins tell of right answers.

    Attributes:
        conditions: name of each condition that items have a level of, with its threshold in words.
        items: samples with a margin.
        area: of the margin for right answers.
        by_condition: the same for each condition alone; empty where there is one.
        seen, unseen: answers about items above and below the threshold.
        sentence: what may be claimed; empty where the interval includes .5.
        propagated: whether the interval holds the uncertainty of thresholds too.
        notes: what a reader must know.
    """

    conditions: Mapping[str, str]
    items: int
    area: RocArea
    by_condition: Mapping[str, RocArea]
    seen: ShareRight
    unseen: ShareRight
    sentence: str
    propagated: bool
    notes: Sequence[str]


def scored_items(run: Run, profile: str | None = None) -> ScoredItems:
    """Score a run and collect its answers; failed and unscored ones are left out and counted.

    Raises:
        UsageError: its pictures were blank, or it is a run of acuity.
    """
    if run.benchmark.name == "acuity":
        raise UsageError(f"{run.path} is a run of acuity itself", "Name a run of another benchmark after --explain.")
    if run.meta.spec.options.media.blank:
        raise UsageError(f"{run.path} was asked about blank pictures", "Name a run without --blank-images.")
    chosen = profile or next(iter(run.benchmark.score))
    answers: list[ItemAnswer] = []
    failed = 0

    def add(scored: Scored) -> None:
        nonlocal failed
        score = scored.scores[chosen]
        if score.verdict in ("error", "unscored"):
            failed += 1
            return
        sample = scored.sample
        images = tuple(part for part in sample.prompt.parts if isinstance(part, Image))
        answers.append(ItemAnswer(sample.id, sample.group, score.verdict == "correct", images))

    run.summarize(chosen, each=add, save=False)
    return ScoredItems(run, chosen, answers, failed)


def pair_geometry(items: ScoredItems) -> ItemGeometry:
    """Compare the two pictures of each item, and return size and colour of the region in which they differ.

    Raises:
        DataError: no item has two pictures of one size that differ.
    """
    from snellen.media import open_image
    from snellen.runs.geometry import differing_region
    from snellen.types import MediaSettings

    known: dict[tuple[str, str], tuple[Sequence[ItemLevel], str]] = {}
    levels: list[ItemLevel] = []
    without: defaultdict[str, set[str]] = defaultdict(set)
    for each in {answer.sample_id: answer for answer in items.answers}.values():
        if len(each.images) != 2:
            without["no two pictures"].add(each.sample_id)
            continue
        keys = each.images[0].blob.key, each.images[1].blob.key
        if keys not in known:
            pictures = [np.asarray(open_image(image, MediaSettings())) for image in each.images]
            known[keys] = differing_region(each.sample_id, *pictures)
        region, reason = known[keys]
        levels += [
            ItemLevel(each.sample_id, level.attribute, level.level, level.width, level.height) for level in region
        ]  # fmt: skip
        if reason:
            without[reason].add(each.sample_id)
    notes = [f"{len(samples):,} samples have {reason}" for reason, samples in without.items()]
    if not levels:
        raise DataError(f"no sample of {items.run.path} has two pictures that differ", "Give a file of levels instead.")
    return ItemGeometry(levels, "region in which two pictures differ: longer side / 5, and its colour", notes)


def explain(items: ScoredItems, acuity: MeasuredRun, geometry: ItemGeometry) -> MarginResult:
    """Set margins against right answers.

    A sample with several attributes has the smallest of its margins: all of them must be seen. Where samples of several
    conditions are compared, their thresholds are drawn from their posteriors, so that the interval holds their uncertainty
    too. With one condition the area does not depend on the threshold, which moves all margins alike.

    Raises:
        UsageError: the run of acuity has no threshold that belongs to a level, or no answer is about an item with one.
    """
    if acuity.run.meta.spec.options.media.blank:
        raise UsageError(f"{acuity.run.path} was asked about blank pictures", "Name a run without --blank-images.")
    by_name, notes = _conditions(acuity, geometry.levels)
    usable = [level for level in geometry.levels if level.attribute in by_name]
    answered = {answer.sample_id for answer in items.answers}
    usable = [level for level in usable if level.sample_id in answered]
    if unknown := {level.sample_id for level in geometry.levels} - answered:
        notes.append(f"{len(unknown):,} samples of {geometry.source} have no answer in the run")
    if not usable:
        raise UsageError(
            "no answer is about an item with a level and a threshold" + (f": {'; '.join(notes)}" if notes else ""),
            f"Sample ids of the run are like {next(iter(answered), 'none')!r}."
            if by_name
            else f"{acuity.run.path} measured {', '.join(each.condition.key for each in acuity.results)}. "
            "Measure the missing ones: snellen acuity --attributes NAME.",
        )
    sizes, scale_notes = _sizes(items, acuity, usable, by_name)
    order = sorted({level.sample_id for level in usable})
    place = {sample: row for row, sample in enumerate(order)}
    answers = [answer for answer in items.answers if answer.sample_id in place]
    rows = np.array([place[answer.sample_id] for answer in answers])
    right = np.array([answer.right for answer in answers])
    groups = np.unique([answer.group for answer in answers], return_inverse=True)[1].reshape(-1).astype(np.int64)
    used = sorted({level.attribute for level in usable})
    columns = {name: np.full(len(order), np.inf) for name in used}
    for level, size in zip(usable, sizes, strict=True):
        columns[level.attribute][place[level.sample_id]] = by_name[level.attribute].condition.attribute.level(size)
    drawn = _drawn_thresholds({name: by_name[name] for name in used})
    margins = [
        np.min([columns[name] - thresholds[name] for name in used], axis=0)[rows] for thresholds in drawn
    ]  # fmt: skip
    middle = {name: by_name[name].estimate.value or 0.0 for name in used}
    at_median: NDArray[np.float64] = np.min([columns[name] - middle[name] for name in used], axis=0)[rows]
    area = mixed_roc_area(margins, right, groups)
    alone = {}
    for name in used if len(used) > 1 else ():
        has = np.isfinite(columns[name])[rows]
        alone[name] = mixed_roc_area([columns[name][rows][has]], right[has], groups[has])
    return MarginResult(
        {name: _words(by_name[name]) for name in used},
        len(order),
        area,
        alone,
        _share(right, groups, at_median > 0),
        _share(right, groups, at_median <= 0),
        _sentence(area),
        len(used) > 1,
        [*notes, *scale_notes, *geometry.notes, *_notes(items, acuity, used, len(answers))],
    )


def _conditions(
    acuity: MeasuredRun, levels: Sequence[ItemLevel]
) -> tuple[dict[str, ConditionResult], list[str]]:  # fmt: skip
    """Return the condition of each attribute that levels name, and why others have none.

    Raises:
        UsageError: a name stands for conditions of several sides.
    """
    by_name: dict[str, ConditionResult] = {}
    notes = []
    for name in dict.fromkeys(level.attribute for level in levels):
        matching = [each for each in acuity.results if name in (each.condition.key, each.condition.name)]
        if len(matching) > 1:
            keys = ", ".join(each.condition.key for each in matching)
            raise UsageError(f"{name} was measured at several sides", f"Name one of {keys} in the geometry.")
        if not matching:
            notes.append(f"{name} was not measured in {acuity.run.path}")
        elif matching[0].value is None:
            notes.append(f"{name} has no threshold: {_words(matching[0])}")
        else:
            by_name[name] = matching[0]
    return by_name, notes


def _words(result: ConditionResult) -> str:
    from snellen.benchmarks.acuity.details import words

    return words(result)


def _sizes(
    items: ScoredItems, acuity: MeasuredRun, levels: Sequence[ItemLevel], by_name: Mapping[str, ConditionResult]
) -> tuple[list[float], list[str]]:
    """Return each level on the scale of its threshold: pixels as the model gets them, where that is known of both runs.

    A threshold is in pixels as drawn, so that a level is multiplied by the item's scale / the scale of the drawings.
    """
    in_pixels = [by_name[level.attribute].condition.attribute.unit.startswith(PIXELS) for level in levels]
    if not any(in_pixels):
        return [level.level for level in levels], []
    facts = model_facts(items.run.meta), model_facts(acuity.run.meta)
    images = {answer.sample_id: answer.images for answer in items.answers}
    shapes: dict[str, tuple[int, int] | None] = {}
    sizes = []
    for level, counted in zip(levels, in_pixels, strict=True):
        if not counted:
            sizes.append(level.level)
            continue
        if level.sample_id not in shapes:
            own = (level.width, level.height) if level.width is not None and level.height is not None else None
            shapes[level.sample_id] = own or _shape(images[level.sample_id])
        shape, side = shapes[level.sample_id], by_name[level.attribute].condition.side
        before = None if shape is None else picture_scale(*shape, facts[0])
        drawn = picture_scale(side, side, facts[1])
        if before is None or drawn is None:
            note = "what the model does to the size of these pictures is not known, so that pixels as sent are compared"
            return [each.level for each in levels], [note]
        sizes.append(level.level * before / drawn)
    return sizes, ["pixels are compared as the model gets them, after its processor"]


def _shape(images: Sequence[Image]) -> tuple[int, int] | None:
    """Return width and height of an item's first picture, upright; None if it cannot be read."""
    from snellen.media import read_header

    if not images:
        return None
    try:
        header = read_header(images[0].blob.read())
    except (DataError, OSError):
        return None
    return None if header is None or min(header.upright_size) < 1 else header.upright_size


def _drawn_thresholds(results: Mapping[str, ConditionResult]) -> list[dict[str, float]]:
    """Return thresholds in decades: draws from the posteriors, or the medians where there is one condition."""
    if len(results) == 1:
        return [{name: each.estimate.value or 0.0 for name, each in results.items()}]
    columns: dict[str, list[float]] = {}
    for number, (name, each) in enumerate(sorted(results.items())):
        generator = np.random.Generator(np.random.Philox(SEED + number))
        thresholds = each.posterior.model.thresholds
        cell = float(thresholds[1] - thresholds[0])
        rows, _ = each.posterior.draws(DRAWS, generator)
        columns[name] = (thresholds[rows] + cell * (generator.random(DRAWS) - 0.5)).tolist()
    return [{name: column[draw] for name, column in columns.items()} for draw in range(DRAWS)]


def _share(right: NDArray[np.bool_], groups: NDArray[np.int64], chosen: NDArray[np.bool_]) -> ShareRight:
    values = right[chosen].astype(np.float64)
    ends = interval(values, groups[chosen]) if len(values) else None
    return ShareRight(int(values.sum()), len(values), None if ends is None else (ends[0], ends[1]))


def _sentence(area: RocArea) -> str:
    if area.value is None or area.ci95 is None or not area.excludes_half:
        return ""
    low, high = area.ci95
    if low > 0.5:
        return (
            "Acuity explains some of the answers: of a right and a wrong one, the right one is about the item with more margin in "
            f"{100 * area.value:.0f} % of pairs [{100 * low:.0f}, {100 * high:.0f}]."
        )
    return (
        "Items with more margin are answered worse: of a right and a wrong answer, the right one has more margin in only "
        f"{100 * area.value:.0f} % of pairs [{100 * low:.0f}, {100 * high:.0f}]. Acuity does not explain that."
    )


def _notes(items: ScoredItems, acuity: MeasuredRun, used: Sequence[str], answers: int) -> list[str]:
    lines = []
    models = items.run.meta.spec.model, acuity.run.meta.spec.model
    if models[0] != models[1]:
        lines.append(f"the answers are of {models[0]}, and the thresholds of {models[1]}")
    if len(used) == 1:
        lines.append("with one condition the area does not depend on the threshold; only the shares above and below do")
    if omitted := len(items.answers) - answers:
        lines.append(f"{omitted:,} answers are about items without a margin")
    if items.failed:
        lines.append(f"{items.failed:,} answers failed or have no score, and are left out")
    open_conditions = [
        each.condition.key
        for each in acuity.results
        if each.estimate.state == "open" and {each.condition.key, each.condition.name} & set(used)
    ]
    if open_conditions:
        lines.append(f"not measured to the end: {', '.join(open_conditions)}")
    through = {each.condition.through for each in acuity.results if each.condition.through}
    if through:
        lines.append(f"the thresholds were measured through {', '.join(sorted(through))}")
    lines.append("larger parts may be easier for other reasons too: an association is no proof of a cause")
    return lines
