"""View of one case: the question of a sample, its images, and the reply of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.redaction.gold import quotes
from snellen.reports.escape import clip, text_of_value
from snellen.runs.answer_view import answer_view
from snellen.scoring.rubric import gold_forms
from snellen.types import Image, MediaSettings, Record, Sample, Text, Turn
from snellen.viewer.cases.exchanges import JudgeExchange, RawTrace, judge_exchange, raw_trace
from snellen.viewer.cases.opened_runs import OpenedRun, Seal
from snellen.viewer.cases.pictures import ImageStore, Sender, ShownPicture, shown_pictures
from snellen.viewer.cases.replies import ReplyView, reply_view, verdict_of
from snellen.viewer.cases.timeline import Timeline, timeline
from snellen.viewer.labels import model_label

QUESTION_CHARACTERS = 20_000
FACT_CHARACTERS = 300
TURN_CHARACTERS = 4_000
MAX_REPEATS = 32


@dataclass(frozen=True)
class CaseColumn:
    """A run of a case: its letter in verdict patterns, and what distinguishes it from the other runs."""

    letter: str
    opened: OpenedRun
    settings: str = ""
    repeats: int = 1


@dataclass(frozen=True)
class CaseLimits:
    """Size of a case: characters of each reply, and what is left out of an export for its size.

    Attributes:
        characters: of each reply.
        exchanges: whether judges' exchanges and timelines are shown.
        pictures: whether images are shown.
        paths: whether problems may name files of this machine.
    """

    characters: int = 20_000
    exchanges: bool = True
    pictures: bool = True
    paths: bool = True


@dataclass(frozen=True)
class QuestionView:
    """A question. All text is untrusted.

    Attributes:
        texts: its texts in order, and the system prompt before them.
        turns: role and text of earlier turns.
        images: how many images and videos stand among them.
        options: letter and text.
        gold: the gold answer as text; None where it is hidden or there is none.
        gold_letters: the letters of the right options; empty where it is hidden.
        hidden: True if the gold answer is not shown because the benchmark is restricted.
        facts: the fields of its meta.
        kind: which family of extractors reads the reply.
        group: what shares its cluster.
    """

    texts: tuple[str, ...]
    system: str
    options: tuple[tuple[str, str], ...]
    gold: str | None
    gold_letters: tuple[str, ...]
    hidden: bool
    facts: tuple[tuple[str, str], ...]
    kind: str
    group: str
    turns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class StudyView:
    """What stood before the question in one run, beside the benchmark's own system text. All text is untrusted.

    Attributes:
        system: the text of `--system`.
        examples: role and text of the turns of few-shot examples.
        hidden: how many of these turns are not shown, because they hold restricted gold answers.
        problem: why the examples cannot be shown.
    """

    system: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    hidden: int = 0
    problem: str = ""


@dataclass(frozen=True)
class CaseReply:
    """One run's part of a case; `study` is None where nothing stood before the benchmark's own question."""

    letter: str
    key: str
    model: str
    settings: str
    reply: ReplyView
    repeats: tuple[tuple[int, str], ...] = ()
    timeline: Timeline | None = None
    judge: JudgeExchange | None = None
    trace: str = ""
    has_trace: bool = False
    notes: tuple[str, ...] = ()
    study: StudyView | None = None


@dataclass(frozen=True)
class CaseView:
    """A sample with the replies of all runs. `problem` says why there is no question."""

    sample_id: str
    repeat: int
    question: QuestionView | None
    problem: str
    pictures: tuple[ShownPicture, ...]
    replies: tuple[CaseReply, ...]
    profiles: tuple[str, ...] = ()
    profile: str = ""
    notes: tuple[str, ...] = ()
    restricted: bool = False


def case_view(
    columns: Sequence[CaseColumn],
    sample_id: str,
    repeat: int,
    store: ImageStore,
    *,
    profile: str = "",
    show_gold: bool = False,
    limits: CaseLimits = CaseLimits(),
) -> CaseView | None:
    """Build the view of a sample; None if no run knows it.

    Args:
        columns: the runs.
        sample_id, repeat: the sample, and which of its repeats.
        store: takes the image files that the page shows.
        profile: scoring profile; empty: each benchmark's first.
        show_gold: show the gold answers of restricted benchmarks.
        limits: the size of the page.
    """
    samples = [column.opened.sample(sample_id) for column in columns]
    records = [column.opened.record(sample_id, repeat) for column in columns]
    chosen = next((sample for sample, _ in samples if sample is not None), None)
    if chosen is None and all(record is None for record in records):
        return None
    restricted = any(column.opened.restricted for column in columns)
    traces: list[RawTrace] = []
    replies: list[CaseReply] = []
    senders: list[Sender] = []
    for column, (sample, problem), record in zip(columns, samples, records, strict=True):
        seal = column.opened.seal(sample, show_gold=show_gold)
        has_record = record is not None
        trace = raw_trace(column.opened, sample_id, repeat, seal) if has_record and limits.exchanges else RawTrace()
        traces.append(trace)
        run = column.opened.run
        media = MediaSettings() if run is None else run.meta.spec.options.media
        if record is not None:
            senders.append(Sender(column.letter, media, trace.digests))
        replies.append(_reply(column, sample, problem, record, trace, seal, chosen, profile, limits))
    pictures: list[ShownPicture] = []
    if chosen is not None and limits.pictures:
        pictures = shown_pictures(chosen.prompt.parts, senders, store)
        known = frozenset(_digests(pictures))
        replies = [
            _with_timeline(reply, column, trace, sample, known, show_gold=show_gold)
            for reply, column, trace, (sample, _) in zip(replies, columns, traces, samples, strict=True)
        ]
    names = dict.fromkeys(
        name for column in columns if column.opened.benchmark is not None for name in column.opened.benchmark.score
    )
    first_problem = next((problem for sample, problem in samples if sample is None and problem), "")
    return CaseView(
        sample_id=sample_id,
        repeat=repeat,
        question=None if chosen is None else _question(chosen, restricted=restricted, show_gold=show_gold),
        problem=_reason(first_problem, limits) if chosen is None else "",
        pictures=tuple(pictures),
        replies=tuple(replies),
        profiles=tuple(names),
        profile=profile if profile in names else next(iter(names), ""),
        notes=tuple(_notes(samples, chosen, restricted=restricted, show_gold=show_gold)),
        restricted=restricted,
    )


def _question(sample: Sample, *, restricted: bool, show_gold: bool) -> QuestionView:
    show_target = show_gold or not restricted
    view = answer_view(sample, Record(sample.id, "ok"), {}, show_target=show_target)
    texts = tuple(clip(part.text, QUESTION_CHARACTERS) for part in sample.prompt.parts if isinstance(part, Text))
    facts = []
    for name, value in view.meta.items():
        if name == "target" and value == sample.target:
            continue  # it is the gold answer, which stands above
        if (text := text_of_value(_number(value), FACT_CHARACTERS)) is not None and text != "":
            facts.append((clip(str(name), 80), text))
    letters: tuple[str, ...] = ()
    if show_target and sample.options and isinstance(sample.target, (str, tuple, list)):
        accepted = [sample.target] if isinstance(sample.target, str) else list(sample.target)
        letters = tuple(letter for letter, text in sample.options.items() if letter in accepted or text in accepted)
    return QuestionView(
        texts=texts,
        system=clip(sample.prompt.system, QUESTION_CHARACTERS),
        options=tuple((clip(str(letter), 20), clip(str(text), 2_000)) for letter, text in sample.options.items()),
        gold=text_of_value(view.target, 2_000),
        gold_letters=letters,
        hidden=not show_target,
        facts=tuple(facts),
        kind=sample.kind,
        group=""
        if not show_target and quotes(sample.group, gold_forms(sample))
        else clip(sample.group, FACT_CHARACTERS),
        turns=_turns(sample.prompt.history) if show_target else (),
    )


def _turns(history: Sequence[Turn]) -> tuple[tuple[str, str], ...]:
    """Return role and text of turns; each image is one word."""
    return tuple(
        (
            turn.role,
            clip(
                "\n".join(
                    part.text if isinstance(part, Text) else "[image]" if isinstance(part, Image) else "[video]"
                    for part in turn.parts
                ),
                TURN_CHARACTERS,
            ),
        )
        for turn in history
    )


def _study(opened: OpenedRun, sample: Sample | None, seal: Seal, limits: CaseLimits) -> StudyView | None:
    """Return what the run's settings put before its questions; None where they put nothing."""
    if opened.run is None or sample is None:
        return None
    spec = opened.run.meta.spec
    system = clip(seal.clean(spec.system), QUESTION_CHARACTERS)
    if not spec.few_shot:
        return StudyView(system) if system else None
    asked, problem = opened.sample_as_asked(sample.id)
    if asked is None:
        return StudyView(system, problem=_reason(problem, limits))
    turns = asked.prompt.history[: len(asked.prompt.history) - len(sample.prompt.history)]
    return StudyView(system, _turns(turns)) if seal.open else StudyView(system, hidden=len(turns))


def _number(value: Any) -> Any:
    """Return a fraction that was written out in full (`0.3333333333333333`) as a number."""
    try:
        return float(value) if isinstance(value, str) and len(value) > 8 and value.startswith("0.") else value
    except ValueError:
        return value


def _reply(
    column: CaseColumn,
    sample: Sample | None,
    problem: str,
    record: Record | None,
    trace: RawTrace,
    seal: Seal,
    chosen: Sample | None,
    profile: str,
    limits: CaseLimits,
) -> CaseReply:
    opened = column.opened
    judge_reply = None if record is None else _judge_reply(opened, record)
    judge = None if record is None or not limits.exchanges else judge_exchange(opened, record, seal)
    notes = []
    if sample is None and (problem or opened.problem):
        notes.append(f"without its question: {_reason(opened.problem or problem, limits)}")
    if sample is not None and chosen is not None and not _same_question(sample, chosen):
        notes.append("this run was asked another question under this id; the question shown is that of the first run")
    sample_id = sample.id if sample is not None else "" if record is None else record.sample_id
    repeats = []
    for repeat in range(min(column.repeats, MAX_REPEATS) if column.repeats > 1 else 0):
        other = record if record is not None and repeat == record.repeat else opened.record(sample_id, repeat)
        judged = None if other is None else _judge_reply(opened, other)
        repeats.append((repeat, verdict_of(opened, sample, other, judged, profile)))
    return CaseReply(
        letter=column.letter,
        key=opened.key,
        model=model_label(opened.model),
        settings=column.settings,
        reply=reply_view(opened, sample, record, judge_reply, seal, profile=profile, characters=limits.characters),
        repeats=tuple(repeats),
        judge=judge,
        trace=trace.reason,
        has_trace=trace.count > 0 or trace.unsearched,
        notes=tuple(notes),
        study=None if record is None else _study(opened, sample, seal, limits),
    )


def _judge_reply(opened: OpenedRun, record: Record) -> str | None:
    """Return the judge's reply about a record; None if there is none, or one about an earlier reply."""
    judged = opened.judge_record(record.sample_id, record.repeat, record.finished_at)
    if judged is None or judged.status != "ok" or judged.response is None:
        return None
    return judged.response.text


def _reason(problem: str, limits: CaseLimits) -> str:
    """Return why there is no question; in an export without names of files."""
    return problem if limits.paths else "the run, its benchmark or its data could not be read when this page was made"


def _same_question(first: Sample, other: Sample) -> bool:
    """Return True if text, options and gold answer are equal; images are not compared."""
    texts = [[part.text for part in sample.prompt.parts if isinstance(part, Text)] for sample in (first, other)]
    return first is other or (texts[0] == texts[1] and first.options == other.options and first.target == other.target)


def _with_timeline(
    reply: CaseReply,
    column: CaseColumn,
    trace: RawTrace,
    sample: Sample | None,
    known: frozenset[str],
    *,
    show_gold: bool,
) -> CaseReply:
    if not trace.steps:
        return reply
    seal = column.opened.seal(sample, show_gold=show_gold)
    return replace(reply, timeline=timeline(trace.steps, seal, known))


def _digests(pictures: Sequence[ShownPicture]) -> list[str]:
    files = [picture.original for picture in pictures] + [sent.file for picture in pictures for sent in picture.sent]
    return [file.digest for file in files if file is not None]


def _notes(
    samples: Sequence[tuple[Sample | None, str]], chosen: Sample | None, *, restricted: bool, show_gold: bool
) -> list[str]:
    notes = []
    if restricted and not show_gold:
        notes.append("The benchmark is restricted: gold answers are hidden. snellen view --show-gold shows them.")
    if chosen is not None and not any(
        isinstance(part, Image) or not isinstance(part, Text) for part in chosen.prompt.parts
    ):
        notes.append("The question has no image.")
    return notes
