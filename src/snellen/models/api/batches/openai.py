"""OpenAI's batches, as compatible services offer them too: a file of requests in, a file of replies and one of errors out.

Source: section 1 of the providers' fact sheet (`POST /files`, `/batches`, `GET /files/{id}/content`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, BatchCancelledError, BatchExpiredError, ModelError, ServerError
from snellen.models.api.batches.replies import check_id, decoded_row, moment, number, text, unusable_results
from snellen.models.api.batches.rows import BatchRows
from snellen.models.api.batches.service import (
    PAGE,
    BatchService,
    BatchShard,
    BatchState,
    BatchStatus,
    RowResult,
    best_match,
)
from snellen.models.api.batches.transport import BatchTransport
from snellen.models.api.errors import error_object, from_code
from snellen.models.api.request import Piece
from snellen.models.api.uploads import FileContent, upload_form

LABEL = "snellen_batch"
"""Name under which `metadata` holds a shard's label."""
_ENDED = ("completed", "expired", "cancelled", "canceled")


class OpenAiBatches(BatchService):
    """Batches of OpenAI and of services that are compatible with it."""

    name = "openai"

    def __init__(self, rows: BatchRows, transport: BatchTransport) -> None:
        super().__init__(rows, transport)
        azure = "/openai" in self._endpoint.base and rows.row.deployment_path
        self._path = rows.row.path if azure else f"/v1{rows.row.path}"
        self._batches, self._files = rows.row.batch_path, rows.row.files_path

    def uploads(self, shard: BatchShard) -> bool:
        return True

    def row(self, row: str, body: tuple[Piece, ...]) -> tuple[Piece, ...]:
        head = {"custom_id": row, "method": "POST", "url": self._path}
        return (msgspec.json.encode(head)[:-1] + b',"body":', *body, b"}")

    async def upload(self, shard: BatchShard) -> str:
        """Upload the file as multipart form data, streamed from disk."""
        assert shard.path is not None  # noqa: S101 - the engine uploads files that are there
        content = FileContent(f"{shard.label}.jsonl", "application/jsonl", shard.path)
        file = await upload_form(self._transport, self._endpoint.url(self._files), content, {"purpose": "batch"})
        return check_id(file.get("id"), "the uploaded file")

    async def create(self, shard: BatchShard) -> BatchStatus:
        body = {
            "input_file_id": shard.input,
            "endpoint": self._path,
            "completion_window": "24h",
            "metadata": {LABEL: shard.label},
        }
        return _status(await self._reply("POST", self._endpoint.url(self._batches), json=msgspec.json.encode(body)))

    async def find(self, shard: BatchShard, other_ids: frozenset[str]) -> BatchStatus | None:
        return best_match(
            [
                status
                async for status in self._list(shard.label)
                if status.id not in other_ids
                and (status.label == shard.label or (shard.input and status.input == shard.input and not status.label))
            ]
        )

    async def _list(self, label: str) -> AsyncIterator[BatchStatus]:
        async for row in self._listed(f"{self._batches}?limit={PAGE}", "after", ("data",), lambda page, last: last):
            try:
                yield _status(row)
            except BadReplyError:
                if label in str(row):
                    raise  # another row is somebody else's

    async def status(self, batch: str) -> BatchStatus:
        return _status(await self._reply("GET", self._endpoint.url(f"{self._batches}/{check_id(batch, 'the batch')}")))

    async def cancel(self, batch: str) -> BatchStatus:
        url = self._endpoint.url(f"{self._batches}/{check_id(batch, 'the batch')}/cancel")
        return _status(await self._reply("POST", url, json=b"{}"))

    async def results(self, status: BatchStatus) -> AsyncIterator[RowResult]:
        for output in status.outputs:
            try:
                name = check_id(output, "the file of results")
            except BadReplyError as error:
                raise unusable_results(status.id, error) from None
            url = self._endpoint.url(f"{self._files}/{name}/content")
            async for line in self._transport.lines(url):
                yield self.read_line(line)

    def read_line(self, line: bytes) -> RowResult:
        """Return the result in one line of an output or error file; a line that is none has neither row nor index."""
        try:
            row = decoded_row(_decoder, line)
        except BadReplyError as error:
            return RowResult(error=error)
        identity = row.custom_id if isinstance(row.custom_id, str) else None
        if row.error:
            return RowResult(identity, error=row_error(*error_object(row.error)))
        if row.response is None:
            return RowResult(identity, error=BadReplyError("The row has neither a response nor an error."))
        body, status = bytes(row.response.body), row.response.status_code
        if isinstance(status, int) and not isinstance(status, bool) and not 200 <= status < 300:
            return RowResult(identity, error=self._rows.read_error(status, body))
        return RowResult(identity, reply=body, request_id=text(row.response.request_id)[:200])


def _status(row: dict[str, Any]) -> BatchStatus:
    """Read a batch object; Together wraps it in `job` and writes states in capitals."""
    inner = row.get("job")
    row = inner if isinstance(inner, dict) else row
    words = text(row.get("status")).lower()
    outputs = tuple(identity for name in ("output_file_id", "error_file_id") if (identity := text(row.get(name))))
    state: BatchState = "running"
    if words in _ENDED:
        state = "ended"
    elif words == "failed":
        state = "ended" if outputs else "failed"
    counts = row.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    message, lines = _errors(row.get("errors"))
    metadata = row.get("metadata")
    return BatchStatus(
        id=check_id(row.get("id"), "the batch"),
        state=state,
        words=words,
        label=text(metadata.get(LABEL)) if isinstance(metadata, dict) else "",
        total=number(counts.get("total")),
        completed=number(counts.get("completed")),
        failed=number(counts.get("failed")),
        created_at=moment(row.get("created_at")),
        expires_at=moment(row.get("expires_at")),
        input=text(row.get("input_file_id")),
        outputs=outputs,
        message=message,
        lines=lines,
        cancelled=words.startswith("cancel"),
        expired=words == "expired",
    )


def _errors(errors: Any) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return the message of a file that failed validation, and the lines that it names."""
    rows = errors.get("data") if isinstance(errors, dict) else errors
    messages: list[str] = []
    lines: list[tuple[int, str]] = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        message, code = error_object(row)
        messages.append(f"{message} ({code})" if code else message)
        line = row.get("line")
        if isinstance(line, int) and not isinstance(line, bool) and line > 0:
            lines.append((line, messages[-1]))
    more = f"; and {len(messages) - 3:,} more" if len(messages) > 3 else ""
    return "; ".join(messages[:3]) + more, tuple(lines)


class _RowReply(Struct):
    status_code: Any = None
    request_id: Any = None
    body: msgspec.Raw = msgspec.Raw()


class OpenAiRow(Struct):
    """One line of an output or error file."""

    custom_id: Any = None
    response: _RowReply | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(OpenAiRow)


def row_error(message: str, code: str) -> ModelError:
    """Return the error of a row that the service did not answer."""
    if "expired" in code:
        return BatchExpiredError(f"The batch expired before this row was answered: {message}")
    if "cancel" in code:
        return BatchCancelledError(f"The batch was cancelled before this row was answered: {message}")
    if code.isdecimal() and len(code) == 3 and 400 <= int(code) < 600:
        return from_code(int(code), message, code)
    return ServerError(f"{code}: {message}" if code else message)
