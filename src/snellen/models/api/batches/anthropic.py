"""Anthropic's Message Batches: the rows stand in the create call, and the results are lines in any order.

Source: section 2 of the providers' fact sheet. The service keeps no label, so a batch whose create call got no reply is recognised
by the ids of its rows, which begin with the label.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, BatchCancelledError, BatchExpiredError, ModelError, ServerError
from snellen.models.api.batches.replies import check_id, decoded_row, moment, number, text
from snellen.models.api.batches.service import (
    CLOCKS_APART_S,
    PAGE,
    BatchService,
    BatchShard,
    BatchState,
    BatchStatus,
    RowResult,
    Undecided,
)
from snellen.models.api.errors import STATUS_OF_TYPE, error_object, excerpt, from_code
from snellen.models.api.request import Piece

_HEAD, _TAIL = b'{"requests":[', b"]}"


class AnthropicBatches(BatchService):
    """Batches of Anthropic's own API."""

    name = "anthropic"

    def row(self, row: str, body: tuple[Piece, ...]) -> tuple[Piece, ...]:
        return (b'{"custom_id":' + msgspec.json.encode(row) + b',"params":', *body, b"}")

    async def create(self, shard: BatchShard) -> BatchStatus:
        """Send all rows in one call, streamed from the file."""
        assert shard.path is not None  # noqa: S101 - the engine sends files that are there
        # Each line end becomes the comma between two rows, and the last one falls away.
        length = len(_HEAD) + shard.path.stat().st_size - 1 + len(_TAIL)
        json = {"Content-Type": "application/json"}
        reply = await self._reply("POST", self._batch_url(), stream=_requests(shard), length=length, headers=json)
        return _status(reply)

    def _batch_url(self, rest: str = "") -> str:
        return self._endpoint.url(f"{self._rows.row.batch_path}{rest}")

    async def find(self, shard: BatchShard, other_ids: frozenset[str]) -> BatchStatus | Undecided | None:
        """Look for a batch of as many rows, made at that time; its rows show whether it is the one, once it has ended."""
        waiting = ""
        first = f"{self._rows.row.batch_path}?limit={PAGE}"
        async for row in self._listed(
            first, "after_id", ("data",), lambda page, last: text(page.get("last_id")) or last
        ):
            status = _status(row)
            if status.id in other_ids or status.total != shard.rows:
                continue
            if status.created_at is not None and not (
                shard.made_at - CLOCKS_APART_S <= status.created_at <= shard.made_at + 2 * CLOCKS_APART_S
            ):
                continue
            if status.state != "ended":
                waiting = status.id
                continue
            async for result in self.results(status):
                if result.row is None:
                    continue
                if result.row.startswith(f"{shard.label}-"):
                    return status
                break
        return Undecided(f"{waiting} may be it, and shows its rows when it has ended") if waiting else None

    async def status(self, batch: str) -> BatchStatus:
        return _status(await self._reply("GET", self._batch_url(f"/{check_id(batch, 'the batch')}")))

    async def cancel(self, batch: str) -> BatchStatus:
        url = self._batch_url(f"/{check_id(batch, 'the batch')}/cancel")
        return _status(await self._reply("POST", url, json=b"{}"))

    async def results(self, status: BatchStatus) -> AsyncIterator[RowResult]:
        """Yield the results. They are read from the endpoint; the address in `results_url` could lead elsewhere."""
        async for line in self._transport.lines(self._batch_url(f"/{check_id(status.id, 'the batch')}/results")):
            yield read_line(line)


async def _requests(shard: BatchShard) -> AsyncIterator[bytes]:
    assert shard.path is not None  # noqa: S101 - see create
    yield _HEAD
    with shard.path.open("rb") as file:
        before = b""
        for line in file:
            if before:
                yield before + b","
            before = line.removesuffix(b"\n")
        yield before
    yield _TAIL


def _status(row: dict[str, Any]) -> BatchStatus:
    words = text(row.get("processing_status"))
    counts = row.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    numbers = {name: number(counts.get(name)) for name in ("processing", "succeeded", "errored", "canceled", "expired")}
    state: BatchState = "ended" if words == "ended" else "running"
    return BatchStatus(
        id=check_id(row.get("id"), "the batch"),
        state=state,
        words=words,
        total=sum(numbers.values()),
        completed=numbers["succeeded"],
        failed=numbers["errored"] + numbers["canceled"] + numbers["expired"],
        created_at=moment(row.get("created_at")),
        expires_at=moment(row.get("expires_at")),
        cancelled=words == "canceling" or moment(row.get("cancel_initiated_at")) is not None or numbers["canceled"] > 0,
        expired=numbers["expired"] > 0,
    )


class _RowResult(Struct):
    type: Any = None
    message: msgspec.Raw = msgspec.Raw()
    error: Any = None


class _AnthropicRow(Struct):
    custom_id: Any = None
    result: _RowResult | None = None


_decoder = msgspec.json.Decoder(_AnthropicRow)


def read_line(line: bytes) -> RowResult:
    """Return the result in one line; a line that is none has neither row nor index."""
    try:
        row = decoded_row(_decoder, line)
    except BadReplyError as error:
        return RowResult(error=error)
    identity = row.custom_id if isinstance(row.custom_id, str) else None
    result = row.result or _RowResult()
    if result.type == "succeeded" and bytes(result.message):
        return RowResult(identity, reply=bytes(result.message))
    if result.type == "expired":
        return RowResult(identity, error=BatchExpiredError("The batch expired before this row was answered."))
    if result.type == "canceled":
        return RowResult(identity, error=BatchCancelledError("The batch was cancelled before this row was answered."))
    if result.type == "errored":
        return RowResult(identity, error=_row_error(result.error))
    return RowResult(identity, error=BadReplyError(f"The row has no result of a known type: {excerpt(line, 120)}"))


def _row_error(error: Any) -> ModelError:
    """Return the error of a row; the error object stands inside of another one of type `error`."""
    inner = error.get("error") if isinstance(error, dict) else None
    message, code = error_object(inner if isinstance(inner, dict) else error)
    kind = inner.get("type") if isinstance(inner, dict) else ""
    status = STATUS_OF_TYPE.get(kind if isinstance(kind, str) else "")
    return ServerError(message) if status is None else from_code(status, message, code)
