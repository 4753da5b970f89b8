"""Answers of other programs: match them with the samples of a benchmark and score them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.benchmarks.base import Answered, Benchmark, Data, Scorer
from snellen.engine.growth import sample_of
from snellen.errors import DataError, UsageError
from snellen.formats import Answer, AnswerFile, AnswerSurvey, Problems, final, survey
from snellen.runs import scoring
from snellen.runs.scoring import Scored, Summary
from snellen.types import Record, Response, Sample

if TYPE_CHECKING:
    from snellen.models.replay import ReplayModel

LOOKED_AT = 1000
"""Samples looked at for the meta field that a file's ids may be."""
ROW_READINGS = ("id", "position", "ordinal")
"""Readings of a file's ids that are no meta field: the samples' ids, positions from 0, numbers from 1."""
AHEAD = 4096
"""Samples read past an id that was not found, before asking whether the benchmark has it at all."""


@dataclass
class MatchTally:
    """Counts of how answers and samples matched.

    Attributes:
        rows: rows that count, of the file.
        matched: rows that found their sample.
        replies: those of them that hold a reply.
        unknown: rows whose id is no sample's; all counted, the first kept.
        samples: samples of the benchmark.
        answered: samples that have at least one row.
        repeats: how often each question was asked, by the highest repeat in the file.
        problems: rows that could not be used.
    """

    rows: int = 0
    matched: int = 0
    replies: int = 0
    unknown: Problems = field(default_factory=Problems)
    samples: int = 0
    answered: int = 0
    repeats: int = 1
    problems: Problems = field(default_factory=Problems)

    def notes(self) -> list[str]:
        """List what a reader of the scores must know, one line each; empty if nothing is odd."""
        lines = []
        if self.answered < self.samples:
            lines.append(
                f"{self.samples - self.answered:,} of {self.samples:,} samples have no answer in the file; "
                "they lower the coverage"
            )
        lines += self.unknown.lines("without a sample")
        if self.answered < self.samples and any(text.endswith(f"{str(self.samples)!r}") for text in self.unknown.first):
            lines.append(
                "if the file counts its rows from 1, pass --id-is ordinal; otherwise each reply answers the next sample"
            )
        return [*lines, *self.problems.lines("that could not be used")]


def to_record(answer: Answer) -> Record:
    """Convert an answer to a record of the engine; without a reply it is a failed sample."""
    response = None
    if answer.text is not None:
        response = Response(answer.text, latency_s=answer.latency_s, finish_reason=answer.finish_reason)
    return Record(answer.sample_id, answer.status, answer.repeat, response, answer.failure)


def score_file(
    file: AnswerFile,
    benchmark: Benchmark,
    data: Data,
    scorers: Mapping[str, Scorer],
    *,
    id_is: str = "id",
    each: Callable[[Scored], None] | None = None,
    verdicts: Mapping[str, str] | None = None,
) -> tuple[Summary, MatchTally]:
    """Score a file's answers under every profile in `scorers`, in the order of the file.

    Memory is that of the scores (about 40 bytes a row and profile) and of the samples between a row's place in the
    file and in the benchmark: next to nothing where both go in the same order.

    Args:
        benchmark: whose questions they answer.
        id_is: what the file's ids are: `id` (the sample's), `position` (0 for the first sample), `ordinal` (1 for it), or a
            meta field.
        each: sees every scored row.
        verdicts: a judge's replies by `record_name`.

    Raises:
        DataError: no row belongs to any sample, or none that does holds a reply.
    """
    ids = survey(file)
    if benchmark.grow is not None and id_is == "id":
        benchmark = _answered_by(file, ids, benchmark, data)
    tally = MatchTally(rows=ids.rows, repeats=ids.repeats, problems=ids.problems)
    tally.samples = scoring.count(benchmark, data)
    pairs = align(benchmark, data, final(file, ids), ids, tally, id_is)
    expected = tally.samples * tally.repeats
    summary = scoring.summarize(
        benchmark,
        pairs,
        scorers,
        expected=expected,
        each=each,
        verdicts=verdicts,
        unanswered=scoring.Unanswered(data, tally.repeats),
    )
    if not tally.matched:
        raise DataError(
            _nothing(file, benchmark, data, tally, id_is),
            id_hint(benchmark, data, id_is, lambda name: hash(name) in ids.ids),
        )
    if tally.problems.count and not tally.replies:
        raise DataError(
            f"{file.path}: no row holds a reply that can be used ({file.about}): {tally.problems.first[0]}",
            "Replies are texts. Name their column with --reply-field.",
        )
    return summary, tally


def _answered_by(file: AnswerFile, ids: AnswerSurvey, benchmark: Benchmark, data: Data) -> Benchmark:
    """Return a benchmark whose questions follow from answers as that of a file: its samples are those of the file's ids."""
    known: list[str] = []
    for name in dict.fromkeys(answer.sample_id for answer in final(file, ids)):
        with suppress(DataError):  # an unknown id is reported with the others
            known.append(sample_of(benchmark, data, name).id)
    return replace(
        benchmark,
        samples=lambda data: (sample_of(benchmark, data, name) for name in known),
        size=lambda data: len(known),
        grow=None,
        sample=None,
    )


def score_results(
    path: Path,
    pairs: Answered,
    benchmark: Benchmark,
    data: Data,
    scorers: Mapping[str, Scorer],
    problems: Problems,
    *,
    each: Callable[[Scored], None] | None = None,
    verdicts: Mapping[str, str] | None = None,
) -> Summary:
    """Score rows that bring their questions along (`Benchmark.results`), in the order of the file.

    Args:
        pairs: (sample, record) of each row.
        data: where those lie; without a path the file is taken to answer all there is.
        problems: what the reader has found odd.
        each: sees every scored row.
        verdicts: a judge's replies by `record_name`.

    Raises:
        DataError: no row could be used.
    """
    size = scoring.count(benchmark, data) if data.path is not None else None
    summary = scoring.summarize(
        benchmark,
        pairs,
        scorers,
        expected=size,
        each=each,
        verdicts=verdicts,
        unanswered=scoring.Unanswered(data),
    )
    if not summary.rows:
        first = f"; {problems.first[0]}" if problems.first else ""
        raise DataError(
            f"{path}: no row answers a question of {benchmark.name}{first}",
            "Pass the file with the answers, and name its benchmark with --benchmark.",
        )
    return summary


def align(
    benchmark: Benchmark, data: Data, answers: Iterator[Answer], ids: AnswerSurvey, tally: MatchTally, id_is: str
) -> Iterator[tuple[Sample, Record]]:
    """Yield (sample, record) in the order of the answers; rows without a sample go to the tally."""
    samples = keyed(benchmark, data, id_is)
    waiting: dict[str, tuple[Sample, int]] = {}
    known: set[int] | None = None
    for answer in answers:
        name = answer.sample_id
        entry = waiting.get(name)
        passed = 0
        while entry is None and (known is None or hash(name) in known):
            passed += 1
            if passed > AHEAD and known is None:
                known = {hash(key) for key, _ in keyed(benchmark, data, id_is)}
                continue
            key, sample = next(samples, ("", None))
            if sample is None:
                known = set()  # all samples were seen: what is not waiting is not there
                break
            if hash(key) in ids.ids:
                tally.answered += 1
                waiting[key] = (sample, ids.repeats)
                entry = waiting.get(name)
        if entry is None:
            tally.unknown.add(answer.where, repr(name))
            continue
        sample, pending = entry
        tally.matched += 1
        tally.replies += answer.text is not None
        yield sample, to_record(answer)
        if pending == 1:
            del waiting[name]
        else:
            waiting[name] = (sample, pending - 1)


def keyed(benchmark: Benchmark, data: Data, id_is: str) -> Iterator[tuple[str, Sample]]:
    """Yield (the id that the file would use, sample) for every sample.

    Raises:
        UsageError: the samples have no such meta field, or several have one value of it.
    """
    owners: dict[str, str] = {}
    if id_is not in ROW_READINGS:
        for sample in benchmark.samples(data):
            name = str(sample.meta.get(id_is, ""))
            if id_is in sample.meta and owners.setdefault(name, sample.id) != sample.id:
                raise UsageError(
                    f"--id-is {id_is}: samples {owners[name]!r} and {sample.id!r} of {benchmark.name} both have {name!r}, so "
                    "that it does not identify a sample",
                    "Use --id-is id or --id-is position, or name a meta field that is different for each sample.",
                )
    for position, sample in enumerate(benchmark.samples(data)):
        if id_is == "id":
            yield sample.id, sample
        elif id_is == "position":
            yield str(position), sample
        elif id_is == "ordinal":
            yield str(position + 1), sample
        elif id_is in sample.meta:
            yield str(sample.meta[id_is]), sample
        else:
            raise UsageError(
                f"--id-is {id_is}: sample {sample.id!r} of {benchmark.name} has no meta field of that name",
                f"It has {', '.join(sample.meta) or 'none'}; or use --id-is id, position or ordinal.",
            )


def meet_replay(model: ReplayModel, benchmark: Benchmark, data: Data, limit: int | None) -> list[str]:
    """Match a replayed file with the samples before a run; return one line for each caveat.

    Raises:
        DataError: no sample has an answer in the file; the hint names the `--id-is` by which they would have.
    """
    pairs = ((name, sample.id) for name, sample in keyed(benchmark, data, model.id_is))
    meeting = model.meet(itertools.islice(pairs, limit))
    if not meeting.samples or meeting.answered == meeting.samples:
        return []
    if not meeting.answered:
        example: Any = next(keyed(benchmark, data, model.id_is), ("(none)", None))[0]
        raise DataError(
            f"{model.name}: none of its {meeting.rows:,} answers belongs to a sample of {benchmark.name}: "
            f"the file's ids are like {meeting.first_id!r}, the samples' like {example!r}",
            id_hint(benchmark, data, model.id_is, model.holds),
        )
    return [
        f"{meeting.samples - meeting.answered:,} of {meeting.samples:,} samples have no answer in {model.name}; "
        "they count as failed",
        *meeting.unusable,
    ]


ANOTHER_FILE = "Name the right --benchmark and --data, the column of the ids (--id-field)"


def id_hint(
    benchmark: Benchmark, data: Data, id_is: str, holds: Callable[[str], bool], otherwise: str = ANOTHER_FILE
) -> str:
    """Return the hint for ids that match no sample: the `--id-is` by which most of the first samples have an answer.

    Args:
        holds: whether the file has this id.
        otherwise: what else may be wrong, as the beginning of a sentence.
    """
    samples = list(itertools.islice(benchmark.samples(data), LOOKED_AT))
    hits: dict[str, int] = {}
    values: dict[str, set[str]] = {}
    for position, sample in enumerate(samples):
        names = {
            "id": sample.id,
            "position": str(position),
            "ordinal": str(position + 1),
            **{name: str(value) for name, value in sample.meta.items()},
        }
        for name, value in names.items():
            hits[name] = hits.get(name, 0) + holds(value)
            values.setdefault(name, set()).add(value)
    hits = {name: count for name, count in hits.items() if len(values[name]) == len(samples)}  # others are no ids
    best = max((name for name in hits if name != id_is), key=lambda name: hits[name], default=None)
    if best is not None and hits[best]:
        return f"Give --id-is {best}: {hits[best]:,} of the first {len(samples):,} samples then have an answer."
    fields = ", ".join(name for name in hits if name not in ROW_READINGS)
    return (
        f"{otherwise}, or specify the ids: --id-is {'position' if id_is == 'id' else 'id'}"
        f"{f', or one of {fields}' if fields else ''}."
    )


def _nothing(file: AnswerFile, benchmark: Benchmark, data: Data, tally: MatchTally, id_is: str) -> str:
    if not tally.rows:
        first = f"; {tally.problems.first[0]}" if tally.problems.first else ""
        return f"{file.path}: no row holds an answer{first}"
    example: Any = next(keyed(benchmark, data, id_is), ("(none)", None))[0]
    return (
        f"{file.path}: none of its {tally.rows:,} rows belongs to a sample of {benchmark.name}: "
        f"the file's ids are like {tally.unknown.first[0].partition(': ')[2]}, the samples' like {example!r} ({file.about})"
    )
