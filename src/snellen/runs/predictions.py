"""File predictions.jsonl of a run: what was read from each reply, without gold answers.

One line a sample (and repeat), sorted by id: `id`, `extracted`, `verdict` and `reason` of the benchmark's first profile,
`repeat` from the second reply on. Of a reply that a judge decides, `extracted` is what the judge was shown and
`judge_verdict` its label. The same records and verdicts give the same bytes.
"""

from __future__ import annotations

import os
import re
import tempfile
from array import array
from pathlib import Path
from typing import Any

import msgspec

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Benchmark
from snellen.engine.journal import storage_error
from snellen.redaction import redact_lines
from snellen.redaction.gold import WITHHELD, strike
from snellen.scoring.rubric import gold_forms
from snellen.types import Record, Sample, Score

IN_MEMORY = 16 << 20
"""Bytes of rows that are kept in memory; more are kept in a temporary file."""
REDACTED_TOGETHER = 64
_NONE = 2**64 - 1


class PredictionRows:
    """The rows of one scoring, in any order; memory hardly grows with them."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.profile = next(iter(benchmark.score))
        self._benchmark = benchmark
        self._waiting: list[tuple[int, bytes]] = []  # rows that are not redacted yet
        self._rows = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by `write`, or with this object
        self._starts = array("Q")
        self._encode = msgspec.json.Encoder(enc_hook=str).encode

    def set(self, row: int, sample: Sample, record: Record, score: Score | None, *, judged: bool = False) -> None:
        """Set the row with this number; None: its score is still to come."""
        while len(self._starts) <= row:
            self._starts.append(_NONE)
        if score is None:
            return
        content = prediction(self._benchmark, sample, record, score, judged=judged)
        self._waiting.append((row, self._encode(content)))
        if len(self._waiting) == REDACTED_TOGETHER:
            self._redact()

    def _redact(self) -> None:
        for (row, _), line in zip(self._waiting, redact_lines([line for _, line in self._waiting]), strict=True):
            self._starts[row] = self._rows.tell()
            self._rows.write(line + b"\n")
        self._waiting.clear()

    def write(self, path: Path) -> None:
        """Write the file, and drop the rows.

        Raises:
            StorageError: it cannot be written.
        """
        self._redact()
        order: list[tuple[str, int, int]] = []
        with self._rows as rows:
            for start in self._starts:
                if start != _NONE:
                    rows.seek(start)
                    head = msgspec.json.decode(rows.readline(), type=_RowHead)
                    order.append((head.id, head.repeat, start))
            try:
                with replacing(path) as part, part.open("wb") as file:
                    for _, _, start in sorted(order):
                        rows.seek(start)
                        file.write(rows.readline())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise storage_error(path, error) from error


class _RowHead(msgspec.Struct):
    id: str
    repeat: int = 0


def prediction(benchmark: Benchmark, sample: Sample, record: Record, score: Score, *, judged: bool) -> dict[str, Any]:
    """Return one row: the answer as it was read, its verdict and the reason, without the gold answer."""
    reply = "" if record.response is None else record.response.text
    extracted, label = score.extracted, None
    if judged:
        narrowed = None if benchmark.judged_text is None else benchmark.judged_text(sample, reply)
        extracted, label = reply.strip() if narrowed is None else narrowed.reply, score.extracted
    if benchmark.restricted and isinstance(extracted, str) and extracted not in reply:
        extracted = strike(extracted, gold_forms(sample))
    row: dict[str, Any] = {
        "id": sample.id,
        "extracted": extracted,
        "verdict": score.verdict,
        "reason": None if score.reason is None else _without_gold(score.reason, sample),
    }
    if label is not None:
        row["judge_verdict"] = label
    if record.repeat:
        row["repeat"] = record.repeat
    return row


def _without_gold(reason: str, sample: Sample) -> str:
    """Return the reason without the gold answer that it names, as of a row whose gold cannot be used."""
    if "gold" not in reason:
        return reason
    target = sample.target if isinstance(sample.target, (list, tuple)) else [sample.target]
    for gold in (*gold_forms(sample), *target, sample.target, sample.meta.get("gold")):
        if gold not in (None, ""):
            reason = re.sub(rf"(?<!\w){re.escape(repr(gold))}(?!\w)", WITHHELD, reason)
    return reason
