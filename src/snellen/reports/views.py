"""Views that a report is rendered from. Callers that read run folders fill them; the report reads nothing from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from snellen.benchmarks.base import Published
from snellen.runs.answer_view import AnswerView
from snellen.runs.metric_differences import MetricDifference
from snellen.scoring.statistics import Comparison
from snellen.types import MediaSettings, Metric

if TYPE_CHECKING:
    from snellen.reports.acuity.view import AcuityView

MANY = 4
"""Number of runs from which on a page has one table of all runs, with the rest folded."""


class LabelCounts(Struct, frozen=True):
    """Counts of a run's failure labels.

    Attributes:
        answers: how many were not correct and have a label, or `unknown`.
        counts: label to whose it is (rule, judge, person, none) to how many.
        review: how many a person should look at, since rule and judge, or two people, differ.
        notes: agreement, who judged, and what a reader must know.
    """

    answers: int
    counts: Mapping[str, Mapping[str, int]]
    review: int = 0
    notes: Sequence[str] = ()


class RunView(Struct, frozen=True):
    """One run.

    Attributes:
        name: the run folder's name; unique among the runs of one report.
        benchmark: e.g. `chart/creatures`.
        model: as the user typed it.
        metrics: profile to metrics, the default profile first.
        answers: starts a new pass over the run's answers each time it is called; they are never all held.
        facts: label to text, shown in the header in this order (fingerprint, versions, tokens, cost, times).
        profiles: profile name to one line that says what it is.
        notes: what a reader must know first (only 200 of 2,000 asked; gold hidden), shown above the scores.
        filters: metric name to the meta values (and `kind`) of its answers, where its name does not say them.
        published: tables of others that this run's metrics are comparable with.
        overall: profile to the metrics of the suite that this run gives together with others of the page, one run of each
            group holding them.
        conditions: how the questions were asked where that is not how the benchmark asks them ("prompting = cot"); said
            wherever the run stands beside published figures.
        labels: why answers were not correct; None where nobody has said.
        media: what was done to images on their way to the model.
        settings: what distinguishes the run from others of its model on the page (`corrupt=blur:5`).
        state: `complete`, `partial`, `running` or `failed`; empty where that is not known.
        expected: samples times repeats of the whole benchmark; None where that is not known.
        tokens: input and output tokens of all answers; None where none were recorded.
        cost: in US dollars; None where it is not known.
        acuity: thresholds with their curves; None for other benchmarks.
    """

    name: str
    benchmark: str
    model: str
    metrics: Mapping[str, Sequence[Metric]]
    answers: Callable[[], Iterator[AnswerView]]
    facts: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    filters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    published: Sequence[Published] = ()
    overall: Mapping[str, Sequence[Metric]] = field(default_factory=dict)
    conditions: Sequence[str] = ()
    labels: LabelCounts | None = None
    media: MediaSettings = MediaSettings()
    settings: str = ""
    state: str = ""
    expected: int | None = None
    tokens: tuple[int, int] | None = None
    cost: float | None = None
    cost_is_least: bool = False
    acuity: AcuityView | None = None


class PairedView(Struct, frozen=True):
    """One paired comparison: `first` and `second` are run names, `metric` says of what.

    `units` are the differences of the benchmark's published metrics, in their own units such as pairs of questions.
    """

    first: str
    second: str
    profile: str
    metric: str
    comparison: Comparison
    units: Sequence[MetricDifference] = ()


class PageLimits(Struct, frozen=True):
    """Size limits of one page.

    Attributes:
        answers: answers in the gallery over all runs; unusable and wrong ones first, then right ones. From MANY runs on,
            right and wrong ones of every run and slice (snellen.reports.collect).
        picture_bytes: encoded thumbnails in all.
        long_side: longest side of a thumbnail in pixels; smaller images keep their size.
        pictures: thumbnails a question.
        characters: of each text (question, reply, reasoning); what is beyond is counted and left out.
        lossless_bytes: size up to which an image that the run changed is embedded as it was sent.
    """

    answers: int = 2_000
    picture_bytes: int = 12_000_000
    long_side: int = 320
    pictures: int = 12
    characters: int = 6_000
    lossless_bytes: int = 24_000
