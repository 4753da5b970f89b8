"""Annotators' decisions: files with one JSON object a line, and where two annotators differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from snellen.engine.journal import RecordHead, intact
from snellen.errors import DataError
from snellen.redaction import redact
from snellen.runs.external_answers import id_hint, keyed
from snellen.runs.failures.answers import Key
from snellen.runs.failures.rules import labels
from snellen.runs.run import Run

MOST_BYTES = 64 << 20
LONGEST = {"by": 80, "note": 2_000}
FORM = (
    'A review is a file of JSON lines: {"sample_id": "...", "label": "..."}, with repeat, by, note and run where needed '
    "(`snellen --help failures`)."
)


class ReviewDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a review: an annotator's label of one answer; the last line on an answer counts.

    `run` is the name of the run's folder; it may be left out where a review is about one run.
    """

    sample_id: str
    label: str
    repeat: int = 0
    by: str = ""
    note: str = ""
    run: str = ""


Review = Mapping[Key, Sequence[ReviewDecision]]
"""The decisions on each answer, one a person, the one that was given last at the end."""


def read_reviews(paths: Sequence[Path], runs: Sequence[str] = ("",)) -> dict[str, Review]:
    """Read the decisions in several files, by the run that they are about.

    Args:
        paths: the files, an earlier one before a later one; lines without `by` go by the file's name.
        runs: names of the runs' folders.

    Raises:
        DataError: a file cannot be read, a line is no decision, its label is not one of the table's, or it does not say
            which of several runs it is about.
    """
    by_run: dict[str, dict[Key, dict[str, ReviewDecision]]] = {run: {} for run in runs}
    for path in paths:
        lines, used = _lines(path), 0
        for number, decision in lines:
            run = decision.run or (runs[0] if len(runs) == 1 else "")
            if not run:
                hint = f'Runs: {", ".join(runs)}. Name one on each line: "run": "NAME".'
                raise DataError(f"{path}, line {number}: it does not say which run it is about", hint)
            if run in by_run:
                used += 1
                decisions = by_run[run].setdefault((decision.sample_id, decision.repeat), {})
                by = decision.by or path.stem
                decisions.pop(by, None)
                decisions[by] = structs.replace(decision, by=by, note=redact(decision.note))
        if lines and not used:
            raise DataError(
                f"{path}: all its {len(lines):,} decisions are about other runs than {', '.join(runs)}",
                "Pass the folders that they name, or correct `run`.",
            )
    return {
        run: {key: tuple(decisions.values()) for key, decisions in decided.items()} for run, decided in by_run.items()
    }


SHOWN = 5


def meet_run(decided: Review, run: Run, id_is: str = "id") -> tuple[Review, list[str]]:
    """Match decisions with the recorded answers of a run.

    Args:
        decided: the decisions on this run, keyed as the files have it.
        run: the run that they are about.
        id_is: what the files' ids are: `id`, `position` (from 0), `ordinal` (from 1), or a meta field of the samples.

    Returns:
        The decisions keyed by the samples' own ids, without those that match no answer, and one line on the latter.

    Raises:
        DataError: no decision matches an answer; the hint names the `--id-is` that would match.
        UsageError: the samples have no such meta field.
    """
    if not decided:
        return decided, []
    answers = {(answer.sample_id, answer.repeat) for answer in intact(run.folder.results, RecordHead)}
    data, own = run.meta.spec.data, {}
    if id_is != "id":
        own = {name: sample.id for name, sample in keyed(run.benchmark, data, id_is)}
    matched: dict[Key, Sequence[ReviewDecision]] = {}
    unmatched = []
    for (name, repeat), decisions in decided.items():
        key = (name if id_is == "id" else own.get(name, ""), repeat)
        if key in answers:
            matched[key] = decisions
        else:
            unmatched.append(name if repeat == 0 else f"{name} (repeat {repeat})")
    if not unmatched:
        return matched, []
    if not matched:
        names = {name for name, _ in decided}
        example = next(iter(sorted(answers)), ("(none)", 0))[0]
        raise DataError(
            f"--review: none of {len(decided):,} decisions belongs to an answer of {run.path}: their sample_id is like "
            f"{unmatched[0]!r}, the run's like {example!r}",
            id_hint(run.benchmark, data, id_is, names.__contains__, "Give the review of this run"),
        )
    examples = ", ".join(repr(name) for name in unmatched[:SHOWN]) + (", ..." if len(unmatched) > SHOWN else "")
    return matched, [f"{len(unmatched):,} of {len(decided):,} decisions belong to no answer of the run: {examples}"]


def read_review(path: Path) -> dict[Key, ReviewDecision]:
    """Read the last decision on each answer in one file, by any annotator. Raises as `read_reviews`."""
    return {(decision.sample_id, decision.repeat): decision for _, decision in _lines(path)}


def _lines(path: Path) -> list[tuple[int, ReviewDecision]]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path}: larger than {MOST_BYTES:,} bytes", "A review has one short line an answer.")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", FORM) from error
    known, decisions = labels(), []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            decision = msgspec.json.decode(line, type=ReviewDecision)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: {error}", FORM) from error
        if decision.label not in known:
            raise DataError(
                f"{path}, line {number}: no such label: {decision.label!r}", f"There are: {', '.join(known)}."
            )
        for name, longest in LONGEST.items():
            if len(getattr(decision, name)) > longest:
                raise DataError(f"{path}, line {number}: {name} has more than {longest:,} characters")
        decisions.append((number, decision))
    if not decisions:
        raise DataError(f"{path} is empty; expected one decision a line", FORM)
    return decisions


def disputed(decisions: Sequence[ReviewDecision]) -> bool:
    """Return True if annotators differ about an answer."""
    return len({decision.label for decision in decisions}) > 1
