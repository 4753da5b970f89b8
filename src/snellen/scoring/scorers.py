"""Ready-made scorers and a summary for benchmarks: `choice`, `truth`, `count`, `number`, `short`, `judged` and `accuracy`.

A scorer compares the answer that `snellen.scoring.extract` reads from a reply with the sample's gold answer (`target`).
A reply without exactly one answer is `invalid`, is worth 0 and stays in the denominator; its reason says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from snellen.errors import DataError
from snellen.scoring import metrics
from snellen.scoring.answers import AnswerContext, AnswerType
from snellen.scoring.answers.base import LEVELS
from snellen.scoring.answers.video_moment import VideoMoment
from snellen.scoring.coordinates import is_grounded
from snellen.scoring.extract import Reading, is_right, read_as, type_for
from snellen.scoring.extract.base import DECLARED, VERBATIM
from snellen.scoring.scores import SLICES, Scores
from snellen.types import Metric, Sample, Score

Summary: TypeAlias = Callable[[Scores, str], list[Metric]]
TEXT_LEVEL = "text_level"
"""Name of the meta that holds the `level` of `AnswerContext`; a table's column `level` is a slice."""


def choice(sample: Sample, reply: str) -> Score:
    """Score a multiple-choice reply by the option that it names, by letter, text or position.

    `sample.options` maps letters to texts; `sample.target` is the gold letter, or a sequence of accepted letters.

    >>> from snellen import Prompt, Sample, Text
    >>> question = Prompt((Text("Which bird is this?"),))
    >>> sample = Sample("1", question, "B", "choice", {"A": "robin", "B": "wren"})
    >>> choice(sample, "It has a short tail, so it must be the wren.")
    Score(value=1.0, extracted='B', verdict='correct', reason=None, detail={})
    >>> choice(sample, "A or B").verdict, choice(sample, "A or B").reason
    ('invalid', 'two answers: A, B')

    Raises:
        DataError: if the sample has no options.
    """
    return _score("choice", sample, reply)


def truth(sample: Sample, reply: str) -> Score:
    """Score a yes/no or true/false reply; `sample.target` is a bool, or a word such as `yes`.

    Meta `form` (`yes/no` or `T/F`) names the answer format, if the question asks for one.

    >>> from snellen import Prompt, Sample, Text
    >>> sample = Sample("1", Prompt((Text("Is this a robin?"),)), False, "truth")
    >>> truth(sample, "No, it is a wren.").verdict
    'correct'
    """
    return _score("truth", sample, reply)


def count(sample: Sample, reply: str) -> Score:
    """Score a count, in digits or words; `sample.target` is an int.

    >>> from snellen import Prompt, Sample, Text
    >>> sample = Sample("1", Prompt((Text("How many birds are there?"),)), 3, "count")
    >>> count(sample, "There are three birds on the wire.").extracted
    3
    """
    return _score("count", sample, reply)


def number(sample: Sample, reply: str) -> Score:
    """Score a measurement; it is correct within 1 % of `sample.target`, or if it is the target rounded to its digits.

    Meta `unit` (`m`, `kg`, `deg` …) names the target's unit: a reply in a compatible unit is converted.

    >>> from snellen import Prompt, Sample, Text
    >>> sample = Sample("1", Prompt((Text("How tall is the door?"),)), 2.0, "number", meta={"unit": "m"})
    >>> number(sample, "The door is about 200 cm tall.").verdict
    'correct'
    """
    return _score("number", sample, reply)


def short(sample: Sample, reply: str) -> Score:
    """Score a short answer, such as a name; `sample.target` is the gold text, or a tuple of accepted texts.

    Names are compared by whole words, without case, diacritics, articles and plurals. Meta `aliases` (a text or a
    sequence) names further accepted answers.

    >>> from snellen import Prompt, Sample, Text
    >>> sample = Sample("1", Prompt((Text("Which bird is this?"),)), "barn owl", "short")
    >>> short(sample, "This looks like a Barn Owl to me.").verdict
    'correct'
    """
    return _score("short", sample, reply)


NOT_JUDGED = "not judged yet: snellen judge RUN"
UNJUDGED = (
    "without a judge (--judge, or the declared one) only replies that are the gold answer word by word are right, and all "
    "others have no score"
)
"""What `judged` does, for notices."""


def judged(sample: Sample, reply: str) -> Score:
    """Score a free-text reply by a rule alone: the gold answer itself, word by word, is right, all else is left to a judge.

    Case, accents, blanks and outer punctuation do not count.

    >>> from snellen import Prompt, Sample, Text
    >>> sample = Sample("1", Prompt((Text("What is going on?"),)), "A man feeds the birds.", "judged")
    >>> judged(sample, "a man feeds the birds").verdict, judged(sample, "Somebody feeds pigeons.").verdict
    ('correct', 'unscored')
    """
    said = _reference(sample, reply)
    if said is None:
        return Score(None, None, "unscored", NOT_JUDGED)
    return Score(1.0, said, "correct", "the reference answer itself")


def is_reference(sample: Sample, reply: str) -> bool:
    """Return True if a reply to a question that is answered in words is its gold answer, word by word."""
    return _reference(sample, reply) is not None


def _reference(sample: Sample, reply: str) -> str | None:
    """Return what a reply says if that is a gold answer and nothing else."""
    answer, accepted = _asked("judged", sample)
    reading = read_as(answer, reply, list(map(str, accepted)))
    return str(reading.value) if reading.stage == VERBATIM else None


def by_kind(sample: Sample, reply: str) -> Score:
    """Score a reply by the kind of its sample, whichever that is.

    >>> from snellen import Prompt, Sample, Text
    >>> sample = Sample("1", Prompt((Text("What does the sign say?"),)), "No Smoking", "text")
    >>> by_kind(sample, "**no smoking**").verdict
    'correct'
    """
    if is_grounded(sample):
        from snellen.scoring.grounding import score_grounded  # most benchmarks have no coordinates

        return score_grounded(sample, reply)
    if sample.kind == "moment":
        from snellen.scoring.grounding import score_moment

        return score_moment(VideoMoment(), sample.target, reply)
    return judged(sample, reply) if sample.kind == "judged" else _score(sample.kind, sample, reply)


def _score(kind: str, sample: Sample, reply: str) -> Score:
    answer, accepted = _asked(kind, sample)
    reading = read_as(answer, reply, list(map(str, accepted)))
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = is_right(answer, reading, accepted)
    return Score(float(right), answer.plain(reading.value), "correct" if right else "wrong", reading.reason)


def _asked(kind: str, sample: Sample) -> tuple[AnswerType, Sequence[Any]]:
    """Return the type of a sample's answer and all answers that are accepted."""
    answer = type_for(kind, _context(sample))
    aliases = sample.meta.get("aliases") or ()
    return answer, [*_accepted(answer, sample.target), *((aliases,) if isinstance(aliases, str) else aliases)]


def answer_schema(sample: Sample) -> dict[str, Any]:
    """Return the JSON Schema of the answer to a question, by its kind; that of a text where the kind has no type."""
    if sample.kind == "open" or (sample.kind in ("choice", "choice_text", "multi-choice") and not sample.options):
        return {"type": "string"}
    return type_for(sample.kind, _context(sample)).schema()


def reading_of(sample: Sample, reply: str) -> Reading | None:
    """Return how a reply is read by the kind of its sample; None for the kind `open`, and for a choice whose options are not known."""
    generation = sample.prompt.generation
    if generation is not None and generation.reply_schema is not None:
        from snellen.scoring.structured import answer_in, without_schema  # few runs have a schema

        field = answer_in(generation.reply_schema, reply)
        if field.fault:
            return Reading(None, field.fault)
        reading = reading_of(without_schema(sample), field.text)
        if reading is None or reading.value is None:
            return reading
        return reading._replace(stage=DECLARED, places=(field.place,))
    if sample.kind == "open" or (sample.kind in ("choice", "choice_text", "multi-choice") and not sample.options):
        return None
    if is_grounded(sample):
        from snellen.scoring.grounding import grounded_reading

        return grounded_reading(sample, reply)
    answer, accepted = _asked(sample.kind, sample)
    return read_as(answer, reply, list(map(str, accepted)))


def _accepted(answer: AnswerType, target: Any) -> Sequence[Any]:
    """Return the accepted answers of a target."""
    return target if isinstance(target, (tuple, list)) and not answer.takes_lists else (target,)


def _context(sample: Sample) -> AnswerContext:
    meta = sample.meta
    return AnswerContext(
        options=sample.options,
        question=sample.prompt.words,
        unit=str(meta.get("unit") or ""),
        form=str(meta.get("form") or ""),
        decimal=str(meta.get("decimal") or "."),
        day_first=meta.get("day_first"),
        level=meta[TEXT_LEVEL] if meta.get(TEXT_LEVEL) in LEVELS else LEVELS[0],
        tolerance=meta.get("tolerance"),
    )


def accuracy(*by: str | tuple[str, ...]) -> Summary:
    """Return a summary: accuracy, its slices, and the shares of replies that are unparseable or failed.

    Args:
        by: meta columns to slice by. `"colour"` gives `accuracy/red` and so on for each value of meta `colour`. A
            tuple slices by several columns at once: `("kind", "level")` gives `accuracy/short/species`.

    Returns:
        A function for `Benchmark.summarize`. Its metrics are `accuracy`, the slices, `invalid` (no answer could be
        read) and `error` (no reply). Each has n, coverage and a 95 % interval; chance is the mean of meta `chance`.
        It raises DataError for a column that no sample has.

    >>> from snellen import Prompt, Sample, Text
    >>> from snellen.scoring.scores import ScoreBuilder
    >>> builder = ScoreBuilder()
    >>> for name, reply in [("robin", "A"), ("wren", "A"), ("wren", "B")]:
    ...     sample = Sample(name + reply, Prompt((Text("Which bird?"),)), "AB"[name == "wren"], "choice",
    ...                     {"A": "robin", "B": "wren"}, meta={"bird": name})
    ...     builder.add(sample, choice(sample, reply))
    >>> [(metric.name, metric.value) for metric in accuracy("bird")(builder.build(), "strict")][1:]
    [('accuracy/robin', 1.0), ('accuracy/wren', 0.5), ('invalid', 0.0), ('error', 0.0)]
    """
    columns = [(name,) if isinstance(name, str) else tuple(name) for name in by]

    def summarize(scores: Scores, profile: str) -> list[Metric]:
        for name in (name for names in columns for name in names):
            if len(scores) and name not in scores.meta:
                raise DataError(
                    f"accuracy({name!r}): no sample has a text or a number as {name!r} in its meta; "
                    f"there are {', '.join(scores.meta)}",
                    "Name one of these, or give the samples this meta. The recorded replies are kept.",
                )
        return metrics.standard(scores, columns)

    setattr(summarize, SLICES, tuple(dict.fromkeys(name for names in columns for name in names)))
    return summarize
