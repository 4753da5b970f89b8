"""Answers of a run with their scores and, where recorded, the steps that led to them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Benchmark
from snellen.engine import journal
from snellen.engine.final_records import final_records
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models import trace
from snellen.models.trace import Step
from snellen.runs.scoring import match, profiles_of, rubric_for, scores_of
from snellen.sources.journal_lines import bounded_lines
from snellen.types import Record, Sample, Score

log = logging.getLogger(__name__)
Key = tuple[str, int]
Place = tuple[Path, int]


class Answered(Struct, frozen=True):
    """One answer under the benchmark's first profile.

    Attributes:
        sample, record, score: question, what was said, how it counts.
        answer: the answer in the reply, None where there is none.
        place: file and offset of its trace; None where it left none.
    """

    sample: Sample
    record: Record
    score: Score
    answer: str | None
    place: Place | None

    @property
    def failed(self) -> bool:
        """Return True if the answer is scored and not correct."""
        return self.score.verdict not in ("correct", "unscored")

    def steps(self) -> list[Step] | None:
        """Return the answer's steps; None if no trace in that shape was written."""
        return read_steps(self.place)


def answers(
    folder: RunFolder, benchmark: Benchmark, spec: RunSpec, verdicts: Mapping[str, str] | None
) -> Iterator[Answered]:
    """Yield every answer of a run, in the order of its records.

    Args:
        folder, benchmark, spec: the run, what it asked, and how.
        verdicts: a judge's replies, where the benchmark is judged: what has none is unscored.

    Raises:
        SnellenError: the samples cannot be read again.
    """
    scorers, traces = profiles_of(benchmark, None), places(folder.traces)
    for sample, record in match(benchmark, spec.data, final_records(folder.results), repeats=spec.repeats):
        (score,) = scores_of(benchmark, sample, record, scorers, verdicts).values()
        answer = answer_of(benchmark, sample, record, score)
        yield Answered(sample, record, score, answer, traces.get((sample.id, record.repeat)))


def answer_of(benchmark: Benchmark, sample: Sample, record: Record, score: Score) -> str | None:
    """Return the answer that a judge saw; without a judge, the answer that the scorer read."""
    if record.response is None or record.status != "ok":
        return None
    if rubric_for(benchmark, sample, record) is None:
        return score.extracted if isinstance(score.extracted, str) else None
    judged = None if benchmark.judged_text is None else benchmark.judged_text(sample, record.response.text)
    return record.response.text if judged is None else judged.reply


class TraceLine(Struct):
    """One line of a file of traces."""

    sample_id: str
    repeat: int
    trace: msgspec.Raw = msgspec.Raw(b"null")


def places(folder: Path) -> dict[Key, Place]:
    """Map each answer to its last trace's file and offset, so that traces are not held in memory.

    A line that is no trace is passed over, with a warning that names it.
    """
    positions = {}
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            at = 0
            for number, line in enumerate(bounded_lines(file, path), 1):
                try:
                    head = msgspec.json.decode(line, type=TraceLine)
                except journal.NOT_JSON as error:
                    if line.endswith(b"\n"):  # else the last line of a run that is writing
                        log.warning("%s, line %s: not a trace: %s", path, number, error)
                else:
                    positions[head.sample_id, head.repeat] = (path, at)
                at += len(line)
    return positions


def read_steps(place: Place | None) -> list[Step] | None:
    """Read the steps of one trace; None if there is none, or one in another shape (an exchange with a server)."""
    if place is None:
        return None
    with place[0].open("rb") as file:
        file.seek(place[1])
        line = msgspec.json.decode(file.readline(), type=TraceLine)
    try:
        return trace.read(msgspec.json.decode(line.trace))
    except (msgspec.ValidationError, RecursionError):
        return None
