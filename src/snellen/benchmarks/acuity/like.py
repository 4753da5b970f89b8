"""The very questions of another run: its journal's ids, asked of another model, so that both can be compared in pairs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.benchmarks.acuity.conditions import plan
from snellen.benchmarks.acuity.questions import check_drawable, place_of
from snellen.benchmarks.base import Data
from snellen.errors import DataError, UsageError

JOURNAL = "results.jsonl"


class _RecordId(Struct):
    sample_id: str


def digest(data: Data) -> str:
    """Return the digest of the questions of the other run; empty for a run that chooses its own.

    Raises:
        UsageError: the design and the data do not fit together.
        DataError: the other run cannot be read, or has no question.
    """
    if not is_like(data):
        return ""
    return blake2b("\n".join(questions_of(data)).encode(), digest_size=16).hexdigest()


def is_like(data: Data) -> bool:
    """Return True if the questions of another run are asked.

    Raises:
        UsageError: a run is named and another design, or the design and no run.
    """
    like = plan(data.options).design == "like"
    if like and data.path is None:
        raise UsageError("--design like asks another run's questions, and no run is named", "Add --like RUN.")
    if not like and data.path is not None:
        raise UsageError(
            f"--data {data.path} has no effect: acuity draws its own samples and reads no data",
            "Omit --data. To ask the questions of another run: snellen acuity --like RUN",
        )
    return like


def questions_of(data: Data) -> tuple[str, ...]:
    """Return the ids of the other run's questions, in the order of conditions, rounds and slots.

    Raises:
        DataError: the other run cannot be read, has no question, or is no run of acuity.
    """
    assert data.path is not None  # noqa: S101 - checked by is_like
    journal = Path(data.path) / JOURNAL
    try:
        changed = journal.stat().st_mtime_ns, journal.stat().st_size
        names = _names(journal, changed)
    except OSError as error:
        raise DataError(
            f"the run {data.path}, whose questions are to be asked, cannot be read: {error.strerror}",
            "Name a run of acuity: --like RUN, or its new place: --data RUN.",
        ) from error
    conditions = {condition.key: condition for condition in plan(data.options).conditions}
    try:
        places = sorted((place_of(name) for name in names), key=lambda place: (place.key, place.round, place.slot))
        for place in places:
            if place.key in conditions:
                check_drawable(conditions[place.key], place)
    except ValueError as error:
        raise DataError(f"{data.path} is no run of acuity: {error}", "Name a run of acuity.") from error
    ids = [place.id for key in conditions for place in places if place.key == key]
    if not ids:
        raise DataError(f"{data.path} has no question of these conditions", "Run it first, or name another run.")
    return tuple(ids)


@lru_cache(maxsize=8)
def _names(journal: Path, changed: tuple[int, int]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for line in journal.read_bytes().splitlines():
        try:
            names[msgspec.json.decode(line, type=_RecordId).sample_id] = None
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a torn or damaged line: the other run's own commands say so
    return tuple(names)


def open_ids(data: Data, answers: Mapping[str, object]) -> list[str]:
    """Return the questions without an answer; none if the other run is gone, since a recorded run can be scored without it."""
    if data.path is None or not (Path(data.path) / JOURNAL).exists():
        return []
    return [name for name in questions_of(data) if name not in answers]
