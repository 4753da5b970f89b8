"""Anthropic's Message Batches: the rows stand in the create call, and the results are lines in any order.

Source: section 2 of the providers' fact sheet. The service keeps no label, so a batch whose create call got no reply is recognised
by the ids of its rows, which begin with the label.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, BatchCancelledError, BatchExpiredError, ModelError, ServerError
from snellen.models.api.batches.replies import check_id, decoded, moment, number, text
from snellen.models.api.batches.service import (
    CLOCKS_APART_S,
    BatchService,
    BatchShard,
    BatchState,
    BatchStatus,
    RowResult,
    Undecided,
)
from snellen.models.api.errors import error_object, excerpt, from_code
from snellen.models.api.request import Piece

PAGE, MOST_PAGES = 100, 200
_HEAD, _TAIL = b'{"requests":[', b"]}"
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status that stands for a type of error."""


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
        reply = await self._transport.call(
            "POST",
            self._url(),
            stream=_requests(shard),
            length=length,
            headers={"Content-Type": "application/json"},
        )
        return _status(decoded(reply.body))

    def _url(self, rest: str = "") -> str:
        path = f"{self._rows.row.batch_path}{rest}"
        if "?" in path and self._endpoint.query:
            return f"{self._endpoint.base}{path}&{self._endpoint.query}"
        return self._endpoint.url(path)

    async def find(self, shard: BatchShard, other_ids: frozenset[str]) -> BatchStatus | Undecided | None:
        """Look for a batch of as many rows, made at that time; its rows show whether it is the one, once it has ended."""
        waiting = ""
        async for status in self._list():
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

    async def _list(self) -> AsyncIterator[BatchStatus]:
        after, seen = "", set[str]()
        for _ in range(MOST_PAGES):
            rest = f"?limit={PAGE}" + (f"&after_id={quote(after, safe='')}" if after else "")
            page = decoded((await self._transport.call("GET", self._url(rest))).body)
            rows = page.get("data")
            rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
            new = 0
            for row in rows:
                status = _status(row)
                new += status.id not in seen
                seen.add(status.id)
                yield status
            if not rows or not new or page.get("has_more") is False:
                return
            after = text(page.get("last_id")) or text(rows[-1].get("id"))

    async def status(self, batch: str) -> BatchStatus:
        url = self._url(f"/{check_id(batch, 'the batch')}")
        return _status(decoded((await self._transport.call("GET", url)).body))

    async def cancel(self, batch: str) -> BatchStatus:
        url = self._url(f"/{check_id(batch, 'the batch')}/cancel")
        return _status(decoded((await self._transport.call("POST", url, json=b"{}")).body))

    async def results(self, status: BatchStatus) -> AsyncIterator[RowResult]:
        """Yield the results. They are read from the endpoint; the address in `results_url` could lead elsewhere."""
        async for line in self._transport.lines(self._url(f"/{check_id(status.id, 'the batch')}/results")):
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
        row = _decoder.decode(line)
    except (ValueError, RecursionError):
        return RowResult(error=BadReplyError(f"A line of the results is no row: {excerpt(line, 120) or 'too long'}"))
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
    status = _STATUS.get(kind if isinstance(kind, str) else "")
    return ServerError(message) if status is None else from_code(status, message, code)
