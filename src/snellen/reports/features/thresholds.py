"""Results of `snellen features acuity --json` as tables of the page: thresholds of encoders beside those of answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError


class _Answers(Struct):
    words: str
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    sentence: str = ""


class _Readout(Struct):
    readout: str
    words: str
    remarks: list[str] = []
    answers: _Answers | None = None


class _Condition(Struct):
    name: str
    readouts: list[_Readout]


class _AcuityFileSettings(Struct):
    encoder: str
    output: str
    train: int
    test: int
    model: str | None = None


class _AcuityFile(Struct):
    settings: _AcuityFileSettings
    conditions: list[_Condition]
    notes: list[str] = []


class _Measure(Struct):
    measure: str = ""


class EncoderThresholdTable(Struct, frozen=True):
    """One table.

    Attributes:
        title: encoder and output.
        head: names of the columns.
        rows: as text.
        sentences: what may be claimed of the answers.
        notes: what a reader must know.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[list[Any]]:
        """Return header and rows, for copies."""
        return [list(self.head), *map(list, self.rows)]


def is_acuity(path: Path) -> bool:
    """Return True if a file names the measure `acuity`; other readers report what is wrong with other files."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Measure).measure == "acuity"
    except (OSError, msgspec.DecodeError, RecursionError):
        return False


def threshold_table(path: Path) -> EncoderThresholdTable:
    """Read one file.

    Raises:
        DataError: it is not what the command prints.
    """
    try:
        known = msgspec.json.decode(path.read_bytes(), type=_AcuityFile)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise DataError(
            f"{path} is not the output of `snellen features acuity --json`: {error}",
            "Save the command's output in a file.",
        ) from error
    compared = any(readout.answers is not None for each in known.conditions for readout in each.readouts)
    head = ["condition", "readout", "threshold of the features [95 % interval]"]
    if compared:
        head += [f"threshold of the answers of {known.settings.model or 'the run'}", "ratio [95 % interval]"]
    rows, sentences, notes = [], [], []
    for each in known.conditions:
        for readout in each.readouts:
            row = [each.name, readout.readout, readout.words]
            if compared:
                row += _answers(readout.answers)
            rows.append(tuple(row))
            notes += [f"{each.name}, {readout.readout}: {line}" for line in readout.remarks]
            if readout.answers is not None and readout.answers.sentence:
                sentences.append(f"{each.name}: {readout.answers.sentence}")
    drawn = (
        f"{known.settings.train:,} drawings of each level trained the readouts, and {known.settings.test:,} tested them"
    )
    title = f"{known.settings.encoder} · {known.settings.output}"
    return EncoderThresholdTable(title, tuple(head), tuple(rows), tuple(sentences), (*notes, drawn, *known.notes))


def _answers(answers: _Answers | None) -> list[str]:
    if answers is None:
        return ["–", "–"]
    if answers.ratio is None or answers.ci95 is None:
        return [answers.words, "–"]
    low, high = answers.ci95
    return [answers.words, f"{answers.ratio:.2f} [{low:.2f}, {high:.2f}]"]


def split_measured(files: Sequence[Path]) -> tuple[list[EncoderThresholdTable], list[Path]]:
    """Return the tables of the files about acuity, and the other files."""
    tables = [threshold_table(path) for path in files if is_acuity(path)]
    return tables, [path for path in files if not is_acuity(path)]
