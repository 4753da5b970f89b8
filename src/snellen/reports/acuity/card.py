"""The lines of the acuity card: one a condition, with a lane for each run, ordered as an eye chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.comparison import compare_conditions
from snellen.benchmarks.acuity.conditions import Condition
from snellen.benchmarks.acuity.through import change_words
from snellen.reports.acuity.view import (
    STATE_WORDS,
    AcuityView,
    MeasuredCondition,
    fault_text,
    interval_text,
    level_text,
    people_value,
    threshold_text,
)
from snellen.reports.escape import escape_invisible
from snellen.reports.links import gallery_link, meta_filters


class CardRun(Struct, frozen=True):
    """A run of the card: its name on the page, its view, its colour (1 to 8), and its key where that is not its name."""

    name: str
    view: AcuityView
    colour: int
    key: str = ""


class AnswerLinks(Struct, frozen=True):
    """Where a page has the answers of a condition.

    Attributes:
        address: of the answers of a run to a condition, by its key.
        words: what the link leads to, with `{}` for the number of questions.
    """

    address: Callable[[CardRun, str], str]
    words: str


def _in_gallery(run: CardRun, condition: str) -> str:
    return gallery_link(run=run.name, **meta_filters({"condition": condition}))


GALLERY = AnswerLinks(_in_gallery, "some of {} answers")
"""The gallery of a report, which has some answers of each condition."""


class CardLane(Struct, frozen=True):
    """One run in a line of the card; places are percentages of the range, the hardest level at 0.

    Attributes:
        run, colour: whose.
        measured: what was measured.
        at, low, high: threshold and interval; None where there is no threshold.
        seen_from: where the seen part begins; 100 where nothing is seen.
        text, interval: threshold and interval in words; empty for no interval.
        questions: how many.
        fault: in red; empty where all is well.
        remark: a state that is no fault.
        link, link_words: to the answers.
    """

    run: str
    colour: int
    measured: MeasuredCondition
    at: float | None
    low: float | None
    high: float | None
    seen_from: float
    text: str
    interval: str
    questions: int
    fault: str
    remark: str
    link: str
    link_words: str


class ThresholdRatio(Struct, frozen=True):
    """How many times finer a run sees than the first one.

    Attributes:
        run: its name.
        text, interval: the factor and its 95 % interval.
        better: the run whose threshold is better; empty where the interval includes 1.
        smallest: the smallest factor that intervals of these widths could show.
    """

    run: str
    text: str
    interval: str
    better: str
    smallest: str


class PeopleTick(Struct, frozen=True):
    """Where people's value lies on a line, in percent of the range, and in words with its source."""

    low: float
    high: float
    text: str


class CardLine(Struct, frozen=True):
    """One condition of the card."""

    key: str
    label: str
    attribute: Attribute
    side: int
    lanes: tuple[CardLane, ...]
    ratios: tuple[ThresholdRatio, ...]
    tick: PeopleTick | None
    hardest: str
    easiest: str

    @property
    def name(self) -> str:
        """Return the label, without characters that a page must not contain."""
        return escape_invisible(self.label)

    @property
    def fault(self) -> bool:
        """Return True if a lane has a fault."""
        return any(lane.fault for lane in self.lanes)


def card_lines(runs: Sequence[CardRun], links: AnswerLinks = GALLERY) -> list[CardLine]:
    """Build the lines of the card: those whose range is seen the furthest come first, as on an eye chart."""
    order: dict[str, list[tuple[CardRun, MeasuredCondition]]] = {}
    for run in runs:
        for measured in run.view.conditions:
            order.setdefault(measured.result.condition.key, []).append((run, measured))
    several = len({measured.result.condition.side for members in order.values() for _, measured in members}) > 1
    lines = [_line(key, members, links, several=several) for key, members in order.items()]
    return sorted(lines, key=lambda line: sum(lane.seen_from for lane in line.lanes) / len(line.lanes))


def _line(
    key: str, members: Sequence[tuple[CardRun, MeasuredCondition]], links: AnswerLinks, *, several: bool
) -> CardLine:
    condition = members[0][1].result.condition
    attribute = condition.attribute
    return CardLine(
        key,
        _titled(condition, several),
        attribute,
        condition.side,
        tuple(_lane(run, measured, links) for run, measured in members),
        _ratios(members),
        _tick(attribute),
        level_text(attribute.hard, attribute.unit),
        level_text(attribute.easy, attribute.unit),
    )


def _titled(condition: Condition, several: bool) -> str:
    name = f"{condition.name}@{condition.side}" if several else condition.name
    return f"{name} through {change_words(condition.through)}" if condition.through else name


def place(attribute: Attribute, level: float) -> float:
    """Return the place of a level in decades, in percent of the range and within it."""
    low, high = attribute.levels[0], attribute.levels[-1]
    return round(100 * min(1.0, max(0.0, (level - low) / (high - low))), 2)


def _lane(run: CardRun, measured: MeasuredCondition, links: AnswerLinks) -> CardLane:
    result = measured.result
    attribute, threshold_estimate = result.condition.attribute, result.estimate
    at = None if threshold_estimate.value is None else place(attribute, threshold_estimate.value)
    ends = (None, None) if at is None else tuple(place(attribute, end) for end in threshold_estimate.interval)
    seen_from = at if at is not None else 0.0 if threshold_estimate.state == "ceiling" else 100.0
    return CardLane(
        run.name,
        run.colour,
        measured,
        at,
        ends[0],
        ends[1],
        seen_from,
        threshold_text(result),
        "" if at is None else interval_text(result.low, result.high, attribute.unit),
        threshold_estimate.asked,
        fault_text(result),
        STATE_WORDS[threshold_estimate.state],
        links.address(run, result.condition.key),
        links.words.format(f"{threshold_estimate.asked:,}"),
    )


def _tick(attribute: Attribute) -> PeopleTick | None:
    value = people_value(attribute.name)
    if value is None or not value.comparable or value.low is None or value.high is None:
        return None
    ends = sorted(place(attribute, attribute.level(end)) for end in (value.low, value.high))
    return PeopleTick(ends[0], ends[1], value.text)


def _ratios(members: Sequence[tuple[CardRun, MeasuredCondition]]) -> tuple[ThresholdRatio, ...]:
    """Compare every run with the first as `snellen acuity --compare` does; only thresholds can be compared."""
    (first, baseline), *others = members
    ratios = []
    for run, measured in others:
        (compared,) = compare_conditions([baseline.result], [measured.result])
        if compared.ratio is None or compared.ci95 is None or compared.smallest_ratio is None:
            continue
        low, high = compared.ci95
        better = {"first": first.name, "second": run.name, None: ""}[compared.better]
        smallest = f"{compared.smallest_ratio:.2f}"
        ratios.append(ThresholdRatio(run.name, f"{compared.ratio:.2f}", f"[{low:.2f}, {high:.2f}]", better, smallest))
    return tuple(ratios)
