"""One model's reply for the case page: its text with the marked answer, and what each profile read from it and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.engine.journal import record_name
from snellen.errors import SnellenError
from snellen.reports.escape import clip, text_of_value
from snellen.runs.reviews.cases import is_read
from snellen.runs.scoring import Verdicts, profiles_of, rubric_for, scores_of
from snellen.scoring.calibration import OptionProbabilities, option_probabilities
from snellen.scoring.readings import EVIDENCE, PROFILE, STAGE
from snellen.scoring.scorers import reading_of
from snellen.scoring.shapes import Shapes, shapes_of
from snellen.text import pretty_json
from snellen.types import Record, Sample, Score
from snellen.viewer.cases.opened_runs import OpenedRun, Seal

REPLY_CHARACTERS = 20_000
AROUND_MARK = 600
REASON_CHARACTERS, DETAIL_CHARACTERS, VALUE_CHARACTERS, ERROR_CHARACTERS = 500, 2_000, 300, 2_000
OPTION_CHARACTERS, OPTIONS_SHOWN = 20, 26
LOCATED_PROFILES = 6
"""Different readings of a reply whose place in it is searched."""

_VERDICTS = {"correct": "right", "invalid": "unparseable", "error": "failed"}


@dataclass(frozen=True)
class Piece:
    """A part of a reply: `mark` is 0 for plain text, 1 for the answer under the selected profile, 2 for one of several
    answers; `omitted` counts characters that are left out in its place.
    """

    text: str
    mark: int = 0
    omitted: int = 0


@dataclass(frozen=True)
class ProfileReading:
    """What one or more profiles read from a reply, with equal results.

    Attributes:
        profiles: their names.
        verdict: as in the samples table: right, wrong, partial, unparseable, failed, unscored.
        value: the score as text; empty where it is not scored.
        extracted: the answer that was read; None where there is none.
        reason: why nothing was read, or why the verdict is what it is.
        detail: what else the profile found, as JSON; empty: nothing.
        quotes: the parts of the reply that were read as the answer.
        selected: True for the profile that the page is viewed by.
        spans: start and end of these parts.
        stage: the stage that read the answer, such as `reader`; empty: the profile does not say.
    """

    profiles: tuple[str, ...]
    verdict: str
    value: str
    extracted: str | None
    reason: str
    detail: str = ""
    quotes: tuple[str, ...] = ()
    selected: bool = False
    spans: tuple[tuple[int, int], ...] = ()
    stage: str = ""


@dataclass(frozen=True)
class ReplyView:
    """The reply of one run. All text is untrusted.

    Attributes:
        verdict: under the selected profile; `missing` without a record, `unknown` where it cannot be scored here.
        pieces: the reply; empty where nothing came.
        empty: True for a reply without a character.
        reasoning: what the model wrote before the answer, where the server tells the two apart.
        readings: by profile; empty where the reply cannot be scored here.
        error: kind and message of a failed request.
        facts: name and text: time, tokens, cost, the server's model, why it ended.
        notes: what a reader must know, one line each.
        judged: True if a judge's verdict decides it.
        probabilities: of the options, likeliest first, in percent as text; empty where none were recorded.
        seen_share: share of the whole probability that lies on them, in percent as text.
        shapes: gold and answer on the image; None for answers without coordinates, and where the gold answer is hidden.
    """

    verdict: str
    pieces: tuple[Piece, ...] = ()
    empty: bool = False
    reasoning: str = ""
    readings: tuple[ProfileReading, ...] = ()
    error: tuple[str, str] | None = None
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    judged: bool = False
    probabilities: tuple[tuple[str, str], ...] = ()
    seen_share: str = ""
    shapes: Shapes | None = None


def cell_verdict(score: Score) -> str:
    """Return the verdict of a score as the samples table names it."""
    return _VERDICTS.get(score.verdict, score.verdict)


def verdict_of(
    opened: OpenedRun, sample: Sample | None, record: Record | None, judge_reply: str | None, profile: str = ""
) -> str:
    """Return the verdict alone, as `ReplyView.verdict`."""
    if record is None:
        return "missing"
    scores, _ = _scores(opened, sample, record, judge_reply)
    if scores:
        return cell_verdict(scores[profile] if profile in scores else next(iter(scores.values())))
    return "failed" if record.status in ("error", "timeout") else "unknown"


def reply_view(
    opened: OpenedRun,
    sample: Sample | None,
    record: Record | None,
    judge_reply: str | None,
    seal: Seal,
    *,
    profile: str = "",
    characters: int = REPLY_CHARACTERS,
) -> ReplyView:
    """Build the view of one record.

    Args:
        opened: its run.
        sample: the question; None where the data cannot be read.
        record: None where the run has none.
        judge_reply: the judge's reply about it, if any.
        seal: what the reader may not see.
        profile: the profile that the page is viewed by; empty or unknown: the benchmark's first.
        characters: characters of the reply that are shown.
    """
    if record is None:
        return ReplyView("missing")
    scores, problem = _scores(opened, sample, record, judge_reply)
    selected = profile if profile in scores else next(iter(scores), "")
    judged = False
    readings: tuple[ProfileReading, ...] = ()
    if scores and sample is not None and opened.benchmark is not None:
        judged = rubric_for(opened.benchmark, sample, record) is not None
        readings = _readings(opened, sample, record, scores, selected, seal, judged=judged)
    response, error = record.response, None
    if record.error is not None:
        message = seal.clean(record.error.message)
        error = (clip(record.error.kind, 80), clip(message, ERROR_CHARACTERS))
    text = "" if response is None else seal.clean(response.text)
    spans = next((reading.spans for reading in readings if reading.selected), ())
    notes = [f"not scored here: {problem}"] if problem else []
    if response is not None and text != response.text and not seal.withheld:
        spans = ()
        notes.append("the gold answer is struck from this reply, so the part that was read is not marked")
    unknown = "failed" if record.status in ("error", "timeout") else "unknown"
    probabilities = None
    if sample is not None and response is not None and response.logprobs and not seal.withheld:
        probabilities = option_probabilities(sample, response.logprobs)
    return ReplyView(
        verdict=cell_verdict(scores[selected]) if selected else unknown,
        pieces=cut_into_pieces(text, () if seal.withheld else spans, characters),
        empty=response is not None and not text,
        reasoning="" if response is None else clip(seal.clean(response.reasoning), characters),
        readings=readings,
        error=error,
        facts=tuple(_facts(record, seal)),
        notes=tuple(notes),
        judged=judged,
        probabilities=() if probabilities is None else _percentages(probabilities),
        seen_share="" if probabilities is None else f"{probabilities.seen:.1%}",
        shapes=shapes_of(sample, scores[selected]) if sample is not None and selected and seal.open else None,
    )


def _percentages(probabilities: OptionProbabilities) -> tuple[tuple[str, str], ...]:
    ranked = sorted(probabilities.options.items(), key=lambda item: (-item[1], item[0]))
    return tuple((clip(option, OPTION_CHARACTERS), f"{share:.1%}") for option, share in ranked[:OPTIONS_SHOWN])


def _scores(
    opened: OpenedRun, sample: Sample | None, record: Record, judge_reply: str | None
) -> tuple[Mapping[str, Score], str]:
    """Return scores by profile; none, and why, where the reply cannot be scored."""
    benchmark = opened.benchmark
    if sample is None or benchmark is None:
        return {}, ""
    try:
        verdicts = None
        if judge_reply is not None:
            said = {record_name(sample.id, record.repeat): judge_reply}
            verdicts = Verdicts(said, "", rubric=opened.rubric_in_place)
        return scores_of(benchmark, sample, record, profiles_of(benchmark, "all"), verdicts), ""
    except (SnellenError, ValueError, RecursionError) as error:
        return {}, clip(str(error), REASON_CHARACTERS)


def _readings(
    opened: OpenedRun,
    sample: Sample,
    record: Record,
    scores: Mapping[str, Score],
    selected: str,
    seal: Seal,
    *,
    judged: bool,
) -> tuple[ProfileReading, ...]:
    """Return the readings, profiles with equal scores together, the selected profile's first."""
    groups: list[tuple[list[str], Score]] = []
    for name in sorted(scores, key=lambda name: name != selected):
        score = scores[name]
        for names, other in groups:
            if other == score:
                names.append(name)
                break
        else:
            groups.append(([name], score))
    readings = []
    for number, (names, score) in enumerate(groups):
        reading = _reading(names, score, seal, selected=selected in names)
        if is_read(score) and record.response is not None:
            reading = _with_spans(reading, record.response.text, [tuple(score.detail[EVIDENCE])], seal)
        elif not judged and record.status == "ok" and record.response is not None and number < LOCATED_PROFILES:
            reading = _with_place(reading, opened, sample, record.response.text, score.extracted, seal)
        readings.append(reading)
    return tuple(readings)


def _reading(names: Sequence[str], score: Score, seal: Seal, *, selected: bool) -> ProfileReading:
    extracted = text_of_value(score.extracted, VALUE_CHARACTERS)
    detail = ""
    if score.detail:
        detail = clip(pretty_json(_plain(score.detail)).decode().rstrip(), DETAIL_CHARACTERS)
    return ProfileReading(
        profiles=tuple(names),
        verdict=cell_verdict(score),
        value="" if score.value is None else f"{score.value:g}",
        extracted=None if extracted is None else seal.clean(extracted),
        reason=clip(seal.clean(score.reason or ""), REASON_CHARACTERS),
        detail=seal.clean(detail),
        selected=selected,
        stage=clip(str(score.detail.get(STAGE, "")), 40),
    )


def _with_spans(reading: ProfileReading, reply: str, spans: Sequence[tuple[int, int]], seal: Seal) -> ProfileReading:
    """Return the reading with the parts of the reply that it was read from."""
    if seal.withheld:
        return reading
    quotes = tuple(dict.fromkeys(clip(seal.clean(reply[start:end]), VALUE_CHARACTERS) for start, end in spans))
    return replace(reading, quotes=quotes, spans=tuple(spans))


def _plain(value: Any) -> Any:
    """Return a value of a scorer's detail as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _with_place(
    reading: ProfileReading, opened: OpenedRun, sample: Sample, reply: str, answer: Any, seal: Seal
) -> ProfileReading:
    """Return the reading with the parts of the reply that its answer was read from and, of `strict`, the stage that read it."""
    if opened.benchmark is None or seal.withheld:
        return reading
    found = reading_of(sample, reply)
    if found is None or found.value != answer:
        return reading
    if found.value is not None and PROFILE in reading.profiles:
        reading = replace(reading, stage=found.stage)
    return _with_spans(reading, reply, found.places, seal)


def cut_into_pieces(text: str, spans: Sequence[tuple[int, int]], characters: int) -> tuple[Piece, ...]:
    """Cut a reply at its marks; of a longer one than `characters`, show head, tail and what is around the marks."""
    if not text:
        return ()
    windows = [(0, len(text))]
    if len(text) > characters:
        around = [(max(0, start - AROUND_MARK), min(len(text), end + AROUND_MARK)) for start, end in spans]
        windows = _merged([(0, characters // 2), *around, (len(text) - characters // 2, len(text))])
    kind = 1 if len(spans) == 1 else 2
    pieces: list[Piece] = []
    at = 0
    for low, high in windows:
        if low > at:
            pieces.append(Piece("", omitted=low - at))
        at = low
        for start, end in spans:
            if low <= start and end <= high:
                pieces += [Piece(text[at:start])] if start > at else []
                pieces.append(Piece(text[start:end], kind))
                at = end
        pieces += [Piece(text[at:high])] if high > at else []
        at = high
    return tuple(pieces)


def _merged(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _facts(record: Record, seal: Seal) -> list[tuple[str, str]]:
    facts = []
    response = record.response
    if record.status == "refused":
        facts.append(("status", "refused"))
    if record.attempts > 1:
        facts.append(("attempts", f"{record.attempts:,}"))
    if response is None:
        return facts
    usage = response.usage
    if response.latency_s > 0:
        facts.append(("time", f"{response.latency_s:,.2f} s"))
    if usage.input_tokens or usage.output_tokens:
        thought = f", {usage.reasoning_tokens:,} of them reasoning" if usage.reasoning_tokens else ""
        cached = f" ({usage.cached_tokens:,} from the service's cache)" if usage.cached_tokens else ""
        facts.append(("tokens", f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{thought}"))
    if usage.cost is not None:
        facts.append(("cost", f"{'at least ' if usage.lacks else ''}${usage.cost:.6g}"))
    if response.finish_reason:
        facts.append(("ended by", clip(seal.clean(response.finish_reason), 80)))
    if response.model:
        facts.append(("served by", clip(seal.clean(response.model), 120)))
    return facts
