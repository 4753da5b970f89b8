"""View of one answer for pages, files and queries: the question, the reply and its scores, without restricted gold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from snellen.redaction.gold import quotes, strike
from snellen.scoring.rubric import gold_forms
from snellen.scoring.scorers import reading_of
from snellen.scoring.shapes import Shapes, shapes_of
from snellen.types import Failure, Kind, Part, Record, Response, Sample, Score, Status

if TYPE_CHECKING:
    from snellen.scoring.calibration import OptionProbabilities
    from snellen.scoring.extract.base import Reading


class AnswerView(Struct, frozen=True):
    """One answer, with the question it belongs to. All text is untrusted; images are read when they are shown.

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
        probabilities: of the question's options, where the run recorded those of tokens.
        reading: reads the reply once more by profile `strict`, for its stage and place; None where the target is hidden.
        shapes: places gold and answer on the image; None where the target is hidden.
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
    probabilities: OptionProbabilities | None = None
    reading: Callable[[], Reading | None] | None = None
    shapes: Callable[[], Shapes | None] | None = None


def run_names(paths: Sequence[Path]) -> list[str]:
    """Return the names of runs' folders, with their parents where two are equal."""
    short = [path.name or path.resolve().name for path in paths]
    return [str(path) if short.count(name) > 1 else name for path, name in zip(paths, short, strict=True)]


_GOLD = frozenset({"aliases", "answer", "answers", "evidence", "gold", "target"})
"""Meta that repeats the gold answer."""


def answer_view(sample: Sample, record: Record, scores: Mapping[str, Score], *, show_target: bool = True) -> AnswerView:
    """Build the view of one record; `show_target` is False for restricted benchmarks unless the user asked.

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
        probabilities=None if response is None else _probabilities(sample, response),
        reading=partial(reading_of, sample, response.text) if response is not None and show_target else None,
        shapes=partial(shapes_of, sample, next(iter(scores.values()), None)) if show_target else None,
    )


def _probabilities(sample: Sample, response: Response) -> OptionProbabilities | None:
    if not response.logprobs:
        return None
    from snellen.scoring.calibration import option_probabilities  # few runs have probabilities

    return option_probabilities(sample, response.logprobs)


def _sealed(score: Score, gold: tuple[str, ...]) -> Score:
    """Return the score without a reason that quotes the gold answer, and strike the answer from what was read."""
    reason = None if score.reason is None or quotes(score.reason, gold) else score.reason
    extracted = strike(score.extracted, gold) if isinstance(score.extracted, str) else score.extracted
    return Score(score.value, extracted, score.verdict, reason)
