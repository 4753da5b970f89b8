"""Batches that another program answers: `vllm run-batch` reads a file of requests and writes one of results.

The form is that of OpenAI's batches. A file of requests counts as created once it stands where the user wants it; nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from snellen.errors import BadReplyError, BadRequestError, BatchError, DataError, UsageError
from snellen.models.api.batches.openai import OpenAiRow, row_error
from snellen.models.api.batches.replies import LineSplitter
from snellen.models.api.batches.rows import BatchRows
from snellen.models.api.batches.service import BatchService, BatchShard, BatchStatus, RowResult
from snellen.models.api.errors import error_object, excerpt
from snellen.models.api.request import Piece

CHUNK = 1 << 16
PATH = "/v1/chat/completions"
"""The address that `vllm run-batch` knows for questions; a file's rows name it, whatever the model's address."""
_decoder = msgspec.json.Decoder(OpenAiRow)


class FileBatches(BatchService):
    """Files of requests and of results.

    Args:
        rows: writes bodies and reads replies.
        target: file of requests to write; None: none may be written.
        results: files of results to read.
        ended: the program that answers has ended, so that rows without a result are asked again.
    """

    name = "file"
    offline = True

    def __init__(
        self, rows: BatchRows, target: Path | None = None, results: tuple[Path, ...] = (), *, ended: bool = False
    ) -> None:
        self._rows = rows
        self._endpoint = rows.endpoint
        self._target = target
        self.result_files, self.ended = results, ended

    @property
    def place(self) -> str:
        return "file"

    def uploads(self, shard: BatchShard) -> bool:
        return True

    def row(self, row: str, body: tuple[Piece, ...]) -> tuple[Piece, ...]:
        head = {"custom_id": row, "method": "POST", "url": PATH}
        return (msgspec.json.encode(head)[:-1] + b',"body":', *body, b"}")

    async def upload(self, shard: BatchShard) -> str:
        """Return the path at which the file of requests is to stand, so that the log has it first."""
        if self._target is None:
            raise UsageError(
                "The requests of this run are written to files, and none is named.",
                "Write them: snellen batch write BENCHMARK --model api:NAME --out FILE.jsonl --run FOLDER",
            )
        if _is_taken(self._target):
            raise UsageError(f"{self._target} exists; it is not overwritten.", "Choose another name with --out.")
        return str(self._target)

    async def create(self, shard: BatchShard) -> BatchStatus:
        """Put the file in its place. Raises BatchError, BadRequestError."""
        target = Path(shard.input)
        if _is_there(shard):
            return _written(shard)
        if target != self._target:  # the log alone does not decide where a file is written
            raise BatchError(
                f"The requests {shard.label} were meant for {target}, and are not there.",
                f"Write them with --out {target}, or give them up: snellen batch drop RUN {shard.label}",
            )
        if shard.path is not None:
            _publish(shard.path, target)
        else:
            raise BatchError(
                f"The requests for {target} are not there any more.", "Give the batch up: snellen batch drop"
            )
        return _written(shard)

    async def find(self, shard: BatchShard, other_ids: frozenset[str]) -> BatchStatus | None:
        return _written(shard) if _is_there(shard) else None

    async def read_files(self) -> AsyncIterator[RowResult]:
        """Yield the results in all files of results, in the order of their lines. Raises DataError."""
        for path in self.result_files:
            splitter = LineSplitter()
            try:
                with path.open("rb") as file:
                    while chunk := file.read(CHUNK):
                        for line in splitter.add(chunk):
                            yield self.read_line(line)
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror or error}", "Check the path.") from error
            for line in splitter.end():
                yield self.read_line(line)

    def read_line(self, line: bytes) -> RowResult:
        """Return the result in one line; a line that is none has neither row nor index.

        vLLM puts the status of a failed request beside an empty body, and its words into `error`.
        """
        try:
            row = _decoder.decode(line)
        except (ValueError, RecursionError):
            return RowResult(
                error=BadReplyError(f"A line of the results is no row: {excerpt(line, 120) or 'too long'}")
            )
        identity = row.custom_id if isinstance(row.custom_id, str) else None
        status = None if row.response is None else row.response.status_code
        failed = isinstance(status, int) and not isinstance(status, bool) and not 200 <= status < 300
        if row.error:
            inner = row.error.get("error") if isinstance(row.error, dict) else None
            message, code = error_object(inner or row.error)
            return RowResult(identity, error=row_error(message, str(status) if failed else code))
        if row.response is None:
            return RowResult(identity, error=BadReplyError("The row has neither a response nor an error."))
        body = bytes(row.response.body)
        if failed and isinstance(status, int):
            return RowResult(identity, error=self._rows.read_error(status, body))
        return RowResult(identity, reply=body)

    async def close(self) -> None:
        """Nothing is open."""


def _written(shard: BatchShard) -> BatchStatus:
    return BatchStatus(id=shard.label, state="running", words="written", label=shard.label, total=shard.rows)


def _is_there(shard: BatchShard) -> bool:
    target = Path(shard.input)
    return bool(shard.input) and target.is_file() and target.stat().st_size == shard.size


def _is_taken(path: Path) -> bool:
    """Return True if something has this name, a link to nothing included."""
    return os.path.lexists(path)


def _publish(source: Path, target: Path) -> None:
    """Put a file at another path, as a whole or not at all; what is there is not replaced.

    Raises:
        BadRequestError: it cannot be written; the batch counts as refused, and its samples are free for another file.
    """
    part: Path | None = None
    try:
        with contextlib.suppress(FileNotFoundError):
            if target.samefile(source):
                return
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:  # another disk, or one without links
            part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
            with source.open("rb") as file, part.open("xb") as copy:
                shutil.copyfileobj(file, copy, CHUNK)
                copy.flush()
                os.fsync(copy.fileno())
            if _is_taken(target):
                raise FileExistsError from None
            part.rename(target)
            part = None
    except FileExistsError:
        raise BadRequestError(f"{target} exists; it is not overwritten.", "Choose another name with --out.") from None
    except OSError as error:
        raise BadRequestError(
            f"{target} cannot be written: {error.strerror or error}", "Choose another place with --out."
        ) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
