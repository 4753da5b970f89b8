"""What a report is made of. Whoever knows a run folder fills these; the report reads nothing from disk itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from snellen.benchmarks.base import Published
from snellen.redaction.gold import quotes, strike
from snellen.scoring.judge import gold_forms
from snellen.scoring.statistics import Comparison
from snellen.types import Failure, Kind, MediaSettings, Metric, Part, Record, Sample, Score, Status


class AnswerView(Struct, frozen=True):
    """One answer, with the question it belongs to. All text is untrusted; pictures are read when they are shown.

    Attributes:
        sample_id: the question; equal ids in several runs are the same question.
        kind: which family of extractors read the reply.
        parts: what the model was shown, in order.
        scores: profile to score; the first profile is the one that filters go by at first.
        target: the gold answer; None where it is hidden or there is none.
        repeat: how many times the question had been asked before.
        status: as in results.jsonl.
        system: the system prompt.
        options: letter to text, in the order shown.
        reply: what the model wrote; None where nothing came.
        reasoning: what it wrote before the answer, where the server tells the two apart.
        meta: what answers can be filtered by.
        error: why there is no reply.
        latency_s: seconds from sending to the last byte; None where not known.
        tokens: output tokens; None where not known.
    """

    sample_id: str
    kind: Kind
    parts: tuple[Part, ...]
    scores: Mapping[str, Score]
    target: Any = None
    repeat: int = 0
    status: Status = "ok"
    system: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    reply: str | None = None
    reasoning: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    error: Failure | None = None
    latency_s: float | None = None
    tokens: int | None = None


class LabelsView(Struct, frozen=True):
    """Why a run's answers were not correct, counted.

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
        conditions: how the questions were asked where that is not how the benchmark asks them ("prompting = cot"); said
            wherever the run stands beside published figures.
        labels: why answers were not correct; None where nobody has said.
        media: what was done to pictures on their way to the model.
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
    conditions: Sequence[str] = ()
    labels: LabelsView | None = None
    media: MediaSettings = MediaSettings()


class PairedView(Struct, frozen=True):
    """One paired comparison: `first` and `second` are run names, `metric` says of what."""

    first: str
    second: str
    profile: str
    metric: str
    comparison: Comparison


class Limits(Struct, frozen=True):
    """How much one page holds.

    Attributes:
        answers: answers in the gallery over all runs; unusable and wrong ones first, then right ones.
        picture_bytes: encoded thumbnails in all.
        long_side: longest side of a thumbnail in pixels; smaller pictures keep their size.
        pictures: thumbnails a question.
        characters: of each text (question, reply, reasoning); what is beyond is counted and left out.
    """

    answers: int = 2_000
    picture_bytes: int = 12_000_000
    long_side: int = 320
    pictures: int = 12
    characters: int = 6_000


def run_names(paths: Sequence[Path]) -> list[str]:
    """The names of runs' folders, with their parents where two are equal."""
    short = [path.name or path.resolve().name for path in paths]
    return [str(path) if short.count(name) > 1 else name for path, name in zip(paths, short, strict=True)]


_GOLD = frozenset({"aliases", "answer", "answers", "evidence", "gold", "target"})
"""Meta that repeats the gold answer."""


def answer_view(sample: Sample, record: Record, scores: Mapping[str, Score], *, show_target: bool = True) -> AnswerView:
    """The view of one record; `show_target` is False for restricted benchmarks unless the user asked.

    Without the target, meta and reasons that name it go too, and it is struck from reply, reasoning, error and what was
    read. A right reply in other words stays.
    """
    response, error = record.response, record.error
    meta = sample.meta
    if not show_target:
        gold = gold_forms(sample)
        meta = {name: value for name, value in meta.items() if name not in _GOLD and not quotes(str(value), gold)}
        scores = {profile: _sealed(score, gold) for profile, score in scores.items()}
        if response is not None:
            text, reasoning = strike(response.text, gold), strike(response.reasoning, gold)
            response = structs.replace(response, text=text, reasoning=reasoning)
        if error is not None:
            error = structs.replace(error, message=strike(error.message, gold))
    return AnswerView(
        sample_id=sample.id,
        kind=sample.kind,
        parts=sample.prompt.parts,
        scores=scores,
        target=sample.target if show_target else None,
        repeat=record.repeat,
        status=record.status,
        system=sample.prompt.system,
        options=sample.options,
        reply=response.text if response is not None else None,
        reasoning=response.reasoning if response is not None else "",
        meta=meta,
        error=error,
        latency_s=response.latency_s if response is not None and response.latency_s > 0 else None,
        tokens=response.usage.output_tokens or None if response is not None else None,
    )


def _sealed(score: Score, gold: tuple[str, ...]) -> Score:
    """The score without a reason that quotes the gold answer, and with the answer struck from what was read."""
    reason = None if score.reason is None or quotes(score.reason, gold) else score.reason
    extracted = strike(score.extracted, gold) if isinstance(score.extracted, str) else score.extracted
    return Score(score.value, extracted, score.verdict, reason)
