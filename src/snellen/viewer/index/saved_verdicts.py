"""Verdicts of the default profile from a run's own predictions.jsonl: known at once, before the questions are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from snellen.text import shorten
from snellen.types import Verdict
from snellen.viewer.index.journal_columns import id_array
from snellen.viewer.index.run_columns import MappedColumns
from snellen.viewer.index.run_state import CODE_OF_VERDICT, CODES, PARTS, RunIndexState
from snellen.viewer.index.sample_sets import SampleSet
from snellen.viewer.index.score_columns import EXTRACTED_CHARACTERS, REASON_CHARACTERS, answer_code
from snellen.viewer.index.storage import BATCH_ROWS, ColumnFile, ColumnWriter

SAVED = pa.schema([(f"0.{name}", type_) for name, type_ in PARTS])
LINE_BYTES = 1 << 20
CHUNK = 1 << 15


class _Prediction(Struct, gc=False):
    id: str
    verdict: Verdict
    extracted: Any = None
    reason: str | None = None
    repeat: int = 0


def is_current(run: Path) -> bool:
    """Return True if predictions.jsonl of a run is not older than its records."""
    try:
        saved = (run / "predictions.jsonl").lstat()
        return saved.st_mtime_ns >= (run / "results.jsonl").lstat().st_mtime_ns
    except OSError:
        return False


def save_verdicts(
    run: Path, folder: Path, state: RunIndexState, samples: SampleSet, *, secret: bool
) -> ColumnFile | None:
    """Write the verdicts of predictions.jsonl beside the records of the index; None if the file cannot be used.

    Args:
        run: the run's folder.
        folder, state: its part of the index, with all records.
        samples: its samples.
        secret: leave out what was read from replies: it may be the gold answer of a restricted set.
    """
    rows = MappedColumns(folder, state.rows)
    ordinal, repeat = rows.array("ordinal", np.int32), rows.array("repeat", np.int32)
    repeats = int(repeat.max(initial=0)) + 1
    place = np.full(len(samples) * repeats, -1, np.int64)  # sample and repeat to the line of its prediction
    columns: dict[str, list[Any]] = {name: [] for name, _ in PARTS}
    count = 0
    try:
        for ids, numbers, parts in _chunks(run / "predictions.jsonl"):
            known = samples.find(ids)
            usable = (known >= 0) & (numbers >= 0) & (numbers < repeats)
            lines = np.arange(count, count + len(ids))
            place[known[usable].astype(np.int64) * repeats + numbers[usable]] = lines[usable]
            for name, array in parts.items():
                columns[name].append(array)
            count += len(ids)
    except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    if not count:
        return None
    joined = {name: pa.concat_arrays(arrays) for name, arrays in columns.items()}
    line = place[ordinal.astype(np.int64) * repeats + repeat]
    failed = rows.array("status", np.uint8) >= 2
    writer = ColumnWriter(folder, "predictions", 1, SAVED)
    for start in range(0, len(line), BATCH_ROWS):
        part = slice(start, start + BATCH_ROWS)
        taken = pa.array(np.where(line[part] < 0, 0, line[part]), mask=line[part] < 0)
        values = {f"0.{name}": array.take(taken) for name, array in joined.items()}
        codes = values["0.code"].fill_null(CODES["unknown"]).to_numpy(zero_copy_only=False)
        values["0.code"] = pa.array(np.where(failed[part], CODES["failed"], codes).astype(np.uint8))
        values["0.answer"] = values["0.answer"].fill_null(0)
        if secret:
            values["0.extracted"] = values["0.reason"] = pa.nulls(len(codes), pa.string())
        writer.add(values)
    return writer.close()


def _chunks(path: Path) -> Iterator[tuple[pa.Array, Any, dict[str, pa.Array]]]:
    decode = msgspec.json.Decoder(_Prediction).decode
    with path.open("rb") as file:
        while True:
            rows: list[_Prediction] = []
            while len(rows) < CHUNK and (line := file.readline(LINE_BYTES)):
                rows.append(decode(line))
            if not rows:
                return
            ids = id_array([row.id for row in rows])
            numbers = np.array([max(-1, min(row.repeat, 1 << 30)) for row in rows], np.int64)
            yield ids, numbers, _parts(rows)


def _parts(rows: list[_Prediction]) -> dict[str, pa.Array]:
    worth = {"correct": 1.0, "wrong": 0.0, "invalid": 0.0, "error": 0.0}
    read = [None if row.extracted is None else shorten(str(row.extracted), EXTRACTED_CHARACTERS) for row in rows]
    answers = [0 if row.extracted is None else answer_code(row.extracted) for row in rows]
    return {
        "code": pa.array([CODE_OF_VERDICT[row.verdict] for row in rows], pa.uint8()),
        "value": pa.array([worth.get(row.verdict) for row in rows], pa.float64()),
        "extracted": _texts(read),
        "reason": _texts([None if row.reason is None else shorten(row.reason, REASON_CHARACTERS) for row in rows]),
        "answer": pa.array(answers, pa.uint32()),
    }


def _texts(values: list[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if value is None else value.encode("utf-8", "replace").decode() for value in values])
