"""Why answers were not correct: labels proposed from trace and verdict by a table of rules, settled by a person.

A label says where it came from (`rule` or `person`). What no rule covers stays `unknown`; nothing is guessed.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Benchmark
from snellen.engine.rescore import final_records, match, profiles_of, rubric_for, scores_of
from snellen.errors import DataError
from snellen.evaluation import Run
from snellen.models import trace
from snellen.models.trace import Step
from snellen.scoring.judge import gold_forms
from snellen.types import Record, Sample, Score

UNKNOWN = "unknown"
Source = Literal["rule", "person", "none"]


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table: the label, where all signals hold (`not X`: where X does not)."""

    label: str
    signals: tuple[str, ...]


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """failures.toml."""

    labels: tuple[str, ...]
    search_tools: tuple[str, ...]
    rule: tuple[Rule, ...]


class Decision(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a review: what a person says of one answer; of several lines on one answer the last counts."""

    sample_id: str
    label: str
    repeat: int = 0
    by: str = ""
    note: str = ""


class Labelled(Struct, frozen=True):
    """One answer that was not correct: its label, whose that is, and the signals that held."""

    sample_id: str
    repeat: int
    label: str
    source: Source
    signals: tuple[str, ...]


@cache
def table() -> Table:
    """The rules, as they come with the package."""
    return msgspec.convert(tomllib.loads((files("snellen") / "failures.toml").read_text("utf-8")), Table)


def signals(
    sample: Sample, record: Record, score: Score, steps: Sequence[Step] | None, said: str | None
) -> frozenset[str]:
    """What holds of one answer.

    Args:
        sample: the question; its target and aliases are compared as words, in lower case.
        record: what the model said.
        score: how that was scored.
        steps: the trace; None where the model wrote none in this shape, so that nothing is known of searches.
        said: the answer in the reply; None where there is none.
    """
    found = set()
    if record.status == "timeout":
        found.add("timed_out")
    if record.response is not None and record.response.finish_reason == trace.IMAGE_NEVER_SEEN:
        found.add("image_never_seen")
    if score.verdict == "invalid" and record.status == "ok":
        found.add("unreadable")
    answer = () if said is None else _words(said)
    gold = [words for form in gold_forms(sample) if (words := _words(form))]
    if answer:
        found.add("answered")
        if any(len(answer) < len(form) and _within(answer, form) for form in gold):
            found.add("answer_is_part_of_gold")
    if steps is None:
        return frozenset(found)
    found.add("traced")
    calls = [step for step in steps if step.role == "tool"]
    if any(word in step.tool.lower() for step in calls for word in table().search_tools):
        found.add("searched")
    results = [_words(step.result) for step in calls if not step.error]
    if answer and any(_within(answer, result) for result in results):
        found.add("answer_in_results")
    if any(_within(form, result) for result in results for form in gold):
        found.add("gold_in_results")
    return frozenset(found)


def proposed(found: frozenset[str], rules: Sequence[Rule] | None = None) -> str:
    """The label of the first rule that holds, else `unknown`."""
    for rule in table().rule if rules is None else rules:
        if all((one.removeprefix("not ") in found) != one.startswith("not ") for one in rule.signals):
            return rule.label
    return UNKNOWN


def label_run(run: Run, review: Mapping[tuple[str, int], Decision] | None = None) -> Iterator[Labelled]:
    """Every answer of a run that was scored and is not correct, in the order of the records.

    Args:
        run: one with verdicts, where its benchmark is judged: what is unscored is left out.
        review: a person's decisions by sample and repeat; they override the rules.
    """
    benchmark, spec = run.benchmark, run.meta.spec
    scorers, judged = profiles_of(benchmark, None), run.verdicts()
    traces = _places(run.folder.traces)
    records = final_records(run.folder.results)
    for sample, record in match(benchmark, spec.data, records, repeats=spec.repeats):
        (score,) = scores_of(benchmark, sample, record, scorers, judged).values()
        if score.verdict in ("correct", "unscored"):
            continue
        which = (sample.id, record.repeat)
        found = signals(sample, record, score, _steps(traces.get(which)), _answer(benchmark, sample, record, score))
        label, source = proposed(found), "rule"
        if review and which in review:
            label, source = review[which].label, "person"
        elif label == UNKNOWN:
            source = "none"
        yield Labelled(*which, label, msgspec.convert(source, Source), tuple(sorted(found)))


def counts(labelled: Sequence[Labelled]) -> dict[str, dict[str, int]]:
    """label -> {"rule", "person", "none": how many}, in the order of the table, `unknown` last; none left out."""
    held = Counter((one.label, one.source) for one in labelled)
    return {
        label: {source: held[label, source] for source in ("rule", "person", "none")}
        for label in (*table().labels, UNKNOWN)
    }


def read_review(path: Path) -> dict[tuple[str, int], Decision]:
    """A person's decisions, one JSON object a line: sample_id, label, and where wanted repeat, by, note.

    Raises:
        DataError: the file cannot be read, a line is no decision, or its label is not one of the table's.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    known = (*table().labels, UNKNOWN)
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = msgspec.json.decode(line, type=Decision)
        except msgspec.DecodeError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        if one.label not in known:
            raise DataError(f"{path}, line {number}: no such label: {one.label!r}", f"There are: {', '.join(known)}.")
        found[one.sample_id, one.repeat] = one
    return found


def _answer(benchmark: Benchmark, sample: Sample, record: Record, score: Score) -> str | None:
    """What a judge saw of the reply; without a judge what the scorer read (a judged score holds the verdict there)."""
    if record.response is None or record.status != "ok":
        return None
    if rubric_for(benchmark, sample, record) is None:
        return score.extracted if isinstance(score.extracted, str) else None
    judged = None if benchmark.judged_text is None else benchmark.judged_text(sample, record.response.text)
    return record.response.text if judged is None else judged.reply


class _Line(Struct):
    sample_id: str
    repeat: int
    trace: msgspec.Raw = msgspec.Raw(b"null")


class _Head(Struct):
    sample_id: str
    repeat: int


def _places(folder: Path) -> dict[tuple[str, int], tuple[Path, int]]:
    """Where each answer's last trace begins: file and offset, so that traces are not held in memory."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            at = 0
            for line in file:
                try:
                    head = msgspec.json.decode(line, type=_Head)
                except msgspec.DecodeError as error:
                    if line.endswith(b"\n"):
                        raise DataError(f"{path}, byte {at}: {error}") from error
                    break  # the last line of a killed run
                found[head.sample_id, head.repeat] = (path, at)
                at += len(line)
    return found


def _steps(place: tuple[Path, int] | None) -> list[Step] | None:
    if place is None:
        return None
    with place[0].open("rb") as file:
        file.seek(place[1])
        line = msgspec.json.decode(file.readline(), type=_Line)
    try:
        return trace.read(msgspec.json.decode(line.trace))
    except msgspec.ValidationError:
        return None  # an exchange with a server, which has no steps


def _words(text: Any) -> tuple[str, ...]:
    return tuple("".join(c if c.isalnum() else " " for c in str(text).casefold()).split())


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether the words stand in the other ones, side by side."""
    return f" {' '.join(part)} " in f" {' '.join(whole)} "
