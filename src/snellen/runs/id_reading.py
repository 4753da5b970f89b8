"""Readings of a file's ids: the samples' own ids, positions from 0, numbers from 1, or a meta field.

A file rarely says which it has, and integers fit several. The reading by which most ids have a sample is used. Where two
readings fit alike and give other samples, the user decides.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import DataError, UsageError
from snellen.formats import AnswerFile, AnswerSurvey, Problems
from snellen.runs.external_answers import id_hint, keyed
from snellen.types import Sample

INDEX = "index"
IN_WORDS = {
    "id": "ids of the samples",
    "position": "positions from 0",
    "ordinal": "numbers from 1",
    INDEX: "values of the samples' field index",
}

FITTING = 0.9
"""Share of a file's ids that must have a sample by a reading that the user has not named, where none is a sample's id."""


@dataclass(frozen=True)
class IdReading:
    """The reading of a file's ids: its name, as `--id-is` takes it, and why it was chosen, for people."""

    name: str
    why: str = ""


def choose_reading(
    file: AnswerFile, survey: AnswerSurvey, benchmark: Benchmark, data: Data, id_is: str | None = None
) -> IdReading:
    """Choose how a file's ids are read.

    Args:
        benchmark, data: whose samples they belong to.
        id_is: the user's choice; None: find it. `index` without a field of that name counts from 0 or from 1, as the file
            does.

    Raises:
        UsageError: two readings fit the file and give other samples.
        DataError: no id belongs to any sample.
    """
    if not survey.rows:
        first = f": {survey.unusable.first[0]}" if survey.unusable.first else ""
        raise DataError(f"{file.path}: no row holds an answer{first}", "Pass the file that holds the answers.")
    if id_is is not None and id_is != INDEX:
        if not any(hash(key) in survey.ids for key, _ in keyed(benchmark, data, id_is)):
            raise _no_sample(file, survey, benchmark, data, id_is)
        return IdReading(id_is)
    fits = _fits(benchmark, data, survey.ids)
    if id_is == INDEX:
        if INDEX in fits.fields:
            return IdReading(INDEX)
        return _of_best(file, survey, benchmark, data, fits, ("position", "ordinal"))
    if fits.hits["id"] and (file.form == "snellen" or file.id_field == "sample_id"):
        return IdReading("id")
    names = ("id", "position", *fits.fields) if fits.hits["id"] else ("position", *fits.fields)
    if fits.hits["ordinal"] > fits.hits["id"]:  # rows counted from 1 are nearly the ids of a table counted from 0
        names = (*names, "ordinal")
    return _of_best(file, survey, benchmark, data, fits, names)


@dataclass
class _Fits:
    """How many ids of the file have a sample by each reading, and by each two of them the same one."""

    hits: Counter[str]
    same: Counter[tuple[str, str]]
    fields: tuple[str, ...]


def _fits(benchmark: Benchmark, data: Data, ids: set[int]) -> _Fits:
    hits, same = Counter[str](), Counter[tuple[str, str]]()
    seen: set[int] = set()
    unique = True
    for position, sample in enumerate(benchmark.samples(data)):
        keys = _keys(position, sample)
        unique = unique and INDEX in keys and hash(keys[INDEX]) not in seen
        if unique:
            seen.add(hash(keys[INDEX]))
        present = [name for name, key in keys.items() if hash(key) in ids]
        hits.update(present)
        same.update(pair for pair in itertools.combinations(sorted(present), 2) if keys[pair[0]] == keys[pair[1]])
    return _Fits(hits, same, (INDEX,) if unique and seen else ())


def _keys(position: int, sample: Sample) -> dict[str, str]:
    keys = {"id": sample.id, "position": str(position), "ordinal": str(position + 1)}
    return keys | {INDEX: str(sample.meta[INDEX])} if INDEX in sample.meta else keys


def _of_best(
    file: AnswerFile, survey: AnswerSurvey, benchmark: Benchmark, data: Data, fits: _Fits, names: tuple[str, ...]
) -> IdReading:
    """Return the reading among `names` that fits best."""
    distinct = len(survey.ids)
    most = max(fits.hits[name] for name in names)
    rivals = [name for name in names if most and fits.hits[name] == most]
    by_definition = file.form == "lmms-eval" and rivals == ["position"]  # its doc_id is the place in the data
    if "id" in names and "id" not in rivals and not by_definition:
        rivals.insert(0, "id")  # ids of samples are never passed over in silence
    if not rivals or ("id" not in rivals and most < FITTING * distinct and not by_definition):
        if len(rivals) > 1:
            raise _ambiguous(file, survey, benchmark, data, fits, rivals)
        raise _no_sample(file, survey, benchmark, data, "id")
    chosen, *others = rivals
    different = [
        name
        for name in others
        if not fits.hits[chosen] == fits.hits[name] == fits.same[(min(chosen, name), max(chosen, name))]
    ]
    if different:
        raise _ambiguous(file, survey, benchmark, data, fits, [chosen, *different])
    if chosen == "id":
        return IdReading("id")
    others_fit = "fewer are ids of samples" if fits.hits["id"] else "none is the id of a sample"
    return IdReading(chosen, f"the file's ids are read as {IN_WORDS[chosen]}; {others_fit}")


def _no_sample(file: AnswerFile, survey: AnswerSurvey, benchmark: Benchmark, data: Data, id_is: str) -> DataError:
    example = next((answer.sample_id for answer in file.read(Problems())), "(none)")
    own = next((key for key, _ in keyed(benchmark, data, id_is)), "(none)")
    return DataError(
        f"{file.path}: its {len(survey.ids):,} ids are not those of {benchmark.name}: the file's are like {example!r}, the "
        f"samples' like {own!r} ({file.about})",
        id_hint(benchmark, data, id_is, lambda name: hash(name) in survey.ids),
    )


def _ambiguous(
    file: AnswerFile, survey: AnswerSurvey, benchmark: Benchmark, data: Data, fits: _Fits, rivals: list[str]
) -> UsageError:
    lines = [f"{file.path}: its ids could be {' or '.join(IN_WORDS[name] for name in rivals)} ({file.about})"]
    example = _example(survey, benchmark, data, rivals)
    for name in rivals:
        line = f"  as {IN_WORDS[name]}: {fits.hits[name]:,} of {len(survey.ids):,} have a sample"
        sample_id = next((sample.id for key, sample in keyed(benchmark, data, name) if key == example), None)
        if example is not None:
            line += f"; {example!r} is {'no sample' if sample_id is None else f'sample {sample_id!r}'}"
        lines.append(line)
    choices = " or ".join(f"--id-is {name}" for name in rivals)
    return UsageError("\n".join(lines), f"Say which they are: {choices}. Nothing was written.")


def _example(survey: AnswerSurvey, benchmark: Benchmark, data: Data, rivals: list[str]) -> str | None:
    """Return an id of the file that two readings give to different samples."""
    for position, sample in enumerate(benchmark.samples(data)):
        keys = _keys(position, sample)
        own = [keys[name] for name in rivals if name in keys]
        if len(set(own)) > 1 and (example := next((key for key in own if hash(key) in survey.ids), None)) is not None:
            return example
    return None
