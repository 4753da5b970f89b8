"""Answers of other programs: sample, reply, and the row's place in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct, structs

from snellen.types import Failure, Status

SHOWN = 20
PEOPLE = "people"
"""Form of the journal of `snellen answer`."""
NO_ANSWER = "no_answer"
FAILED_REQUESTS = ("[LMMS_EVAL_REQUEST_FAILED", "[LMMS_EVAL_BUDGET_EXCEEDED", "Failed to obtain answer via API")
"""What begins a reply that is none: lmms-eval (0.7.3) and VLMEvalKit write these where a request failed, and score them."""


class Answer(Struct, frozen=True, gc=False):
    """One row of an answer file.

    Attributes:
        sample_id: the sample's id in the file.
        text: the reply; None if the row has none.
        where: line, row or member of the file.
        repeat: number of earlier answers to the same question, from 0.
        status: as in results.jsonl; rows of other programs are `ok` with a reply and `error` without one.
        failure: why there is no reply.
        latency_s: seconds until the reply was there; 0: the file does not say.
        finish_reason: `late` for a person's answer after the time that was given.
    """

    sample_id: str
    text: str | None
    where: str
    repeat: int = 0
    status: Status = "ok"
    failure: Failure | None = None
    latency_s: float = 0.0
    finish_reason: str = ""


STATUSES: tuple[Status, ...] = ("ok", "error", "timeout", "refused")


def missing(sample_id: str, where: str, why: str, repeat: int = 0, status: Status = "error") -> Answer:
    """Return an answer without a reply: it stays in the denominator as a failed sample."""
    return Answer(sample_id, None, where, repeat, status, Failure(NO_ANSWER, f"{where}: {why}"))


def with_status(answer: Answer, status: Status) -> Answer:
    """Return an answer with the status that Snellen recorded: a refusal may have no text, and an empty reply is one."""
    text, repeat = answer.text, answer.repeat
    if status == "ok":
        return structs.replace(answer, text=text or "")
    if status == "refused":
        failure = Failure(NO_ANSWER, f"{answer.where}: refused")
        return structs.replace(answer, status=status, failure=None if text is not None else failure)
    return (
        answer
        if text is not None
        else missing(answer.sample_id, answer.where, f"the row says {status}", repeat, status)
    )


@dataclass
class Problems:
    """Problems with rows of a file: all are counted, the first are described."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, where: str, problem: str) -> None:
        """Record the problem of one row."""
        self.count += 1
        if len(self.first) < SHOWN:
            # Names in other people's files may hold control characters, and this goes to a terminal.
            line = f"{where}: {problem}"
            self.first.append(line if line.isprintable() else repr(line)[1:-1])

    def lines(self, predicate: str, limit: int = 5) -> list[str]:
        """Return the number of rows with problems (`predicate`: what they have in common) and the first of them."""
        if not self.count:
            return []
        lines = [
            f"{self.count:,} row{'s' if self.count != 1 else ''} {predicate}:",
            *(f"  {line}" for line in self.first[:limit]),
        ]
        return [*lines, f"  … and {self.count - limit:,} more"] if self.count > limit else lines


@dataclass(frozen=True)
class AnswerFile:
    """A file of answers that can be read more than once.

    Attributes:
        path: the file.
        form: `plain`, `snellen`, `people`, `vlmevalkit`, `lmms-eval` or `inspect`.
        read: starts a new pass over the rows, in the order of the file; unusable rows go to the Problems.
        about: the columns of ids and replies, for users.
        id_field: the field of the ids; `sample_id` has the samples' own ids by its name.
        model: the model that the file names; empty where it names none.
    """

    path: Path
    form: str
    read: Callable[[Problems], Iterator[Answer]]
    about: str = ""
    id_field: str = ""
    model: str = ""


@dataclass
class AnswerSurvey:
    """The result of one pass over a file: which questions it answers, how often, and which rows count.

    Ids are held as 64-bit hashes, so that a million take about 70 MB.

    Attributes:
        rows: usable rows.
        repeats: 1 + the highest repeat.
        ids: hash of every sample id.
        unusable: rows without an id or with fields of the wrong type.
        duplicates: further answers to a question that is answered already.
    """

    rows: int = 0
    repeats: int = 1
    ids: set[int] = field(default_factory=set)
    unusable: Problems = field(default_factory=Problems)
    duplicates: Problems = field(default_factory=Problems)
    _counting: dict[tuple[str, int], int] = field(default_factory=dict)
    _twice: set[tuple[str, int]] = field(default_factory=set)

    @property
    def problems(self) -> Problems:
        """The unusable rows, then the duplicates."""
        both = [*self.unusable.first, *self.duplicates.first]
        return Problems(self.unusable.count + self.duplicates.count, both[:SHOWN])


def survey(file: AnswerFile) -> AnswerSurvey:
    """Read the file once.

    An answer replaces an earlier failure of the same question (a journal with retries). Of two answers the first
    counts, and the other is reported.
    """
    result = AnswerSurvey()
    first: set[int] = set()
    later: set[int] = set()
    for number, answer in enumerate(file.read(result.unusable)):
        result.rows = number + 1
        key = (answer.sample_id, answer.repeat)
        if answer.repeat:
            known, code = later, hash(key)
            result.repeats = max(result.repeats, answer.repeat + 1)
        else:
            known, code = first, hash(answer.sample_id)
        if code not in known:
            known.add(code)
            if answer.text is None:
                result._counting[key] = number
            if answer.repeat:
                result.ids.add(hash(answer.sample_id))
        elif key in result._counting and key not in result._twice:
            result._counting[key] = number
            if answer.text is not None and answer.status == "ok":
                result._twice.add(key)
        else:
            result._twice.add(key)
            result.duplicates.add(
                answer.where, f"{answer.sample_id!r} is answered a second time; the first answer counts"
            )
    result.ids |= first
    return result


def final(file: AnswerFile, result: AnswerSurvey) -> Iterator[Answer]:
    """Yield the rows that count, in the order of the file: each question (and repeat) once."""
    yielded: set[tuple[str, int]] = set()
    for number, answer in enumerate(file.read(Problems())):
        key = (answer.sample_id, answer.repeat)
        if key in result._counting:
            if result._counting[key] == number:
                yield answer
        elif key in result._twice:
            if key not in yielded:
                yielded.add(key)
                yield answer
        else:
            yield answer
