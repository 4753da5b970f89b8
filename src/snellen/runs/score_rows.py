"""Scores by sample: the file of `snellen score --per-sample`, and the samples on which profiles disagree."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from snellen.engine.journal import storage_error
from snellen.engine.output_file import JSON_LINES, require_output_file
from snellen.runs.scoring import Scored, differing

BUFFERED_BYTES = 1 << 20


class PerSampleFile:
    """File of JSON lines {sample_id, profile, value, extracted, verdict, reason}, one for each sample and profile.

    A row of a repeated question also has `repeat`, from the second time on, and one whose profile found more `detail`.
    The file is there once it is whole.

    Raises:
        UsageError: `path` is no name for such a file, or that of `answers`, which is read. StorageError: it cannot be written.
    """

    def __init__(self, path: Path, answers: Path) -> None:
        require_output_file(path, "--per-sample", JSON_LINES, [answers])
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._encode = msgspec.json.Encoder(enc_hook=str).encode
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = self._part.open("wb", buffering=BUFFERED_BYTES)
        except OSError as error:
            raise storage_error(path, error) from error

    def add(self, scored: Scored) -> None:
        """Write one row a profile."""
        try:
            for profile, score in scored.scores.items():
                row: dict[str, Any] = {
                    "sample_id": scored.sample.id,
                    "profile": profile,
                    "value": score.value,
                    "extracted": score.extracted,
                    "verdict": score.verdict,
                    "reason": score.reason,
                }
                if score.detail:
                    row["detail"] = score.detail
                if scored.record.repeat:
                    row["repeat"] = scored.record.repeat
                self._file.write(self._encode(row) + b"\n")
        except OSError as error:
            raise storage_error(self._path, error) from error

    def __enter__(self) -> PerSampleFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
            if kind is None:
                self._part.replace(self._path)
        except OSError as failed:
            raise storage_error(self._path, failed) from failed
        finally:
            self._part.unlink(missing_ok=True)


def disagreement(scored: Scored) -> list[str]:
    """Format what each profile read and why, if they differ in value or verdict; else return nothing."""
    if not differing(scored.scores):
        return []
    width = max(map(len, scored.scores))
    repeat = f" (repeat {scored.record.repeat})" if scored.record.repeat else ""
    lines = [f"{scored.sample.id}{repeat}"]
    for profile, score in scored.scores.items():
        read = "nothing" if score.extracted is None else repr(score.extracted)
        worth = "unscored" if score.value is None else f"{score.value:g}"
        reason = f" ({score.reason})" if score.reason else ""
        lines.append(f"  {profile:<{width}}  {score.verdict} {worth}, read {read}{reason}")
    return lines
