"""Answers that another program wrote meet the samples of a benchmark: which belong together, and what is left over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snellen.benchmarks.base import Answered, Benchmark, Data, Scorer
from snellen.engine import rescore
from snellen.engine.rescore import Scored, Summary
from snellen.errors import DataError, UsageError
from snellen.interop import Answer, AnswerFile, Problems, Survey, final, survey
from snellen.types import Record, Response, Sample

AHEAD = 4096
"""Samples read past an id that was not found, before asking whether the benchmark has it at all."""


@dataclass
class Tally:
    """How answers and samples met.

    Attributes:
        rows: rows that count, of the file.
        matched: rows that found their sample.
        unknown: rows whose id is no sample's; all counted, the first kept.
        samples: samples of the benchmark.
        answered: samples that have at least one row.
        repeats: how often each question was asked, by the highest repeat in the file.
        problems: rows that could not be used.
    """

    rows: int = 0
    matched: int = 0
    unknown: Problems = field(default_factory=Problems)
    samples: int = 0
    answered: int = 0
    repeats: int = 1
    problems: Problems = field(default_factory=Problems)

    def notes(self) -> list[str]:
        """What the reader of the scores must know, one line each; nothing where all is well."""
        lines = []
        if self.answered < self.samples:
            lines.append(
                f"{self.samples - self.answered:,} of {self.samples:,} samples have no answer in the file; "
                "they lower the coverage"
            )
        return [*lines, *self.unknown.lines("belong to no sample"), *self.problems.lines("cannot be used")]


def to_record(answer: Answer) -> Record:
    """An answer as a record of the engine; without a reply it is a failed sample."""
    response = None if answer.text is None else Response(answer.text)
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
) -> tuple[Summary, Tally]:
    """Score a file's answers under every profile in `scorers`, in the order of the file.

    Memory is that of the scores (about 40 bytes a row and profile) and of the samples between a row's place in the
    file and in the benchmark: next to nothing where both go in the same order.

    Args:
        file: the answers.
        benchmark: whose questions they answer.
        data: where those lie.
        scorers: profile to scorer.
        id_is: what the file's ids are: `id` (the sample's), `position` (0 for the first sample), or a meta field.
        each: sees every scored row.
        verdicts: a judge's replies by `rescore.judged_name`.

    Raises:
        DataError: no row belongs to any sample.
    """
    found = survey(file)
    tally = Tally(rows=found.rows, repeats=found.repeats, problems=found.problems)
    tally.samples = rescore.count(benchmark, data)
    pairs = align(benchmark, data, final(file, found), found, tally, id_is)
    whole = tally.samples * tally.repeats
    summary = rescore.summarize(benchmark, pairs, scorers, expected=whole, each=each, verdicts=verdicts)
    if not tally.matched:
        raise DataError(
            _nothing(file, benchmark, data, tally, id_is),
            "Name the right --benchmark and --data, or say what the ids are: --id-is position, or --id-is META.",
        )
    return summary, tally


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
        path: the file, for messages.
        pairs: (sample, record) of each row.
        benchmark: whose questions they answer.
        data: where those lie; without a path the file is taken to answer all there is.
        scorers: profile to scorer.
        problems: what the reader has found odd.
        each: sees every scored row.
        verdicts: a judge's replies by `rescore.judged_name`.

    Raises:
        DataError: no row could be used.
    """
    size = rescore.count(benchmark, data) if data.path is not None else None
    summary = rescore.summarize(benchmark, pairs, scorers, expected=size, each=each, verdicts=verdicts)
    if not summary.rows:
        first = f"; {problems.first[0]}" if problems.first else ""
        raise DataError(
            f"{path}: no row answers a question of {benchmark.name}{first}",
            "Give the file with the answers, and name the benchmark that they answer.",
        )
    return summary


def align(
    benchmark: Benchmark, data: Data, answers: Iterator[Answer], found: Survey, tally: Tally, id_is: str
) -> Iterator[tuple[Sample, Record]]:
    """(sample, record) in the order of the answers; rows of no sample go to the tally."""
    samples = keyed(benchmark, data, id_is)
    waiting: dict[str, tuple[Sample, int]] = {}
    known: set[int] | None = None
    for answer in answers:
        name = answer.sample_id
        held = waiting.get(name)
        passed = 0
        while held is None and (known is None or hash(name) in known):
            passed += 1
            if passed > AHEAD and known is None:
                known = {hash(key) for key, _ in keyed(benchmark, data, id_is)}
                continue
            key, sample = next(samples, ("", None))
            if sample is None:
                known = set()  # all samples were seen: what is not waiting is not there
                break
            if hash(key) in found.ids:
                tally.answered += 1
                waiting[key] = (sample, found.repeats)
                held = waiting.get(name)
        if held is None:
            tally.unknown.add(answer.where, repr(name))
            continue
        sample, left = held
        tally.matched += 1
        yield sample, to_record(answer)
        if left == 1:
            del waiting[name]
        else:
            waiting[name] = (sample, left - 1)


def keyed(benchmark: Benchmark, data: Data, id_is: str) -> Iterator[tuple[str, Sample]]:
    """(the id that the file would use, sample) of every sample.

    Raises:
        UsageError: the samples have no such meta field.
    """
    for position, sample in enumerate(benchmark.samples(data)):
        if id_is == "id":
            yield sample.id, sample
        elif id_is == "position":
            yield str(position), sample
        elif id_is in sample.meta:
            yield str(sample.meta[id_is]), sample
        else:
            raise UsageError(
                f"--id-is {id_is}: sample {sample.id!r} of {benchmark.name} has no meta field of that name",
                f"It has {', '.join(sample.meta) or 'none'}; or say id or position.",
            )


def _nothing(file: AnswerFile, benchmark: Benchmark, data: Data, tally: Tally, id_is: str) -> str:
    if not tally.rows:
        first = f"; {tally.problems.first[0]}" if tally.problems.first else ""
        return f"{file.path}: no row holds an answer{first}"
    ours: Any = next(keyed(benchmark, data, id_is), ("(none)", None))[0]
    return (
        f"{file.path}: none of its {tally.rows:,} rows belongs to a sample of {benchmark.name}: "
        f"the file's ids are like {tally.unknown.first[0].partition(': ')[2]}, the samples' like {ours!r} ({file.about})"
    )
