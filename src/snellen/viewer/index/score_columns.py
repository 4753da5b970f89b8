"""Scores of records as columns: verdict, value, what was read and why, for each scoring profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from snellen.text import shorten
from snellen.types import Score
from snellen.viewer.index.run_state import CODE_OF_VERDICT, CODES, CONFIDENCE, PARTS, TEXTS, score_schema
from snellen.viewer.index.storage import ColumnFile, ColumnWriter

EXTRACTED_CHARACTERS, REASON_CHARACTERS = 300, 300
HEAD, TAIL = 6_000, 2_000
"""Characters of a reply that text search and SQL see: its beginning and its end."""
FLUSH_ROWS = 1 << 14
FLUSH_CHARACTERS = 16_000_000
_NAMES = tuple(name for name, _ in (*PARTS, CONFIDENCE))


class IndexScoreColumns:
    """Rows of scores and texts on their way to two files, which cover the same records.

    Args:
        folder: the run's folder in the index.
        number: number of the files.
        profiles: profile to its column.
        scored: False: there are no scores, only texts.
    """

    def __init__(self, folder: Path, number: int, profiles: Mapping[str, int], *, scored: bool) -> None:
        columns = 1 + max(profiles.values(), default=-1)
        self._firsts = [next(name for name, column in profiles.items() if column == at) for at in range(columns)]
        self._scores = ColumnWriter(folder, "scores", number, score_schema(columns)) if scored else None
        self._place = folder / f"text-{number:06d}.parquet"
        self._texts = pq.ParquetWriter(self._place, TEXTS, compression="zstd", compression_level=1)
        self._columns: list[tuple[list[Any], ...]] = [tuple([] for _ in _NAMES) for _ in range(columns)]
        self._flags: list[int] = []
        self._text: list[str | None] = []
        self._error: list[str | None] = []
        self._characters = 0
        self.rows, self.has_confidence = 0, False

    def add(
        self,
        scores: Mapping[str, Score] | None,
        flags: int,
        text: str | None,
        error: str | None,
        *,
        failed: bool,
        confidences: Mapping[str, float | None] | None = None,
    ) -> None:
        """Append a record.

        Args:
            scores: by profile; None: failed, or no such sample.
            flags: bits of `run_state`.
            text: the reply.
            error: message of a failure.
            failed: there is no reply.
            confidences: probability of the option that was read, by profile; None: no option probabilities.
        """
        if self._scores is not None:
            for name, column in zip(self._firsts, self._columns, strict=True):
                score = None if scores is None else scores.get(name)
                if score is None:
                    values: tuple[Any, ...] = (
                        CODES["failed" if failed else "unknown"],
                        0.0 if failed else None,
                        None,
                        None,
                        0,
                        None,
                    )
                else:
                    read = None if score.extracted is None else shorten(str(score.extracted), EXTRACTED_CHARACTERS)
                    why = None if score.reason is None else shorten(score.reason, REASON_CHARACTERS)
                    answer = 0 if score.extracted is None else answer_code(score.extracted)
                    confidence = None if confidences is None else confidences.get(name)
                    self.has_confidence |= confidence is not None
                    values = (CODE_OF_VERDICT[score.verdict], score.value, read, why, answer, confidence)
                for rows, value in zip(column, values, strict=True):
                    rows.append(value)
            self._flags.append(flags)
        stored = None if text is None else text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} … {text[-TAIL:]}"
        self._text.append(stored)
        self._error.append(None if error is None else shorten(error, REASON_CHARACTERS))
        self._characters += len(stored or "")
        self.rows += 1
        if len(self._text) >= FLUSH_ROWS or self._characters >= FLUSH_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if not self._text:
            return
        if self._scores is not None:
            columns: dict[str, Any] = {
                f"{at}.{name}": rows
                for at, column in enumerate(self._columns)
                for name, rows in zip(_NAMES, column, strict=True)
            }
            self._scores.add({**columns, "flags": self._flags})
        self._texts.write_batch(pa.record_batch([_texts(self._text), _texts(self._error)], schema=TEXTS))
        self._columns = [tuple([] for _ in _NAMES) for _ in self._columns]
        self._flags, self._text, self._error, self._characters = [], [], [], 0

    def close(self) -> tuple[ColumnFile | None, ColumnFile]:
        """Finish the files of scores and of texts."""
        self._flush()
        self._texts.close()
        texts = ColumnFile(self._place.name, self.rows, self._place.stat().st_size)
        return None if self._scores is None else self._scores.close(), texts


def _texts(values: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # a lone surrogate
        plain = [None if value is None else value.encode("utf-8", "replace").decode() for value in values]
        return pa.array(plain, pa.string())


def answer_code(extracted: Any) -> int:
    """Return a number that is equal for equal answers, never 0."""
    return crc32(str(extracted).strip().casefold().encode(errors="surrogatepass")) or 1
