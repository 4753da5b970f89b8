"""Gemini's batches: rows in the create call, or in a file of JSON lines for more of them; the state is that of an operation.

Source: section 3 of the providers' fact sheet. Addresses and field names follow the REST form in camelCase.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, ModelError, ServerError
from snellen.models.api.batches.replies import check_id, decoded_row, moment, number, text, unusable_results
from snellen.models.api.batches.service import (
    FILLED,
    PAGE,
    BatchService,
    BatchShard,
    BatchState,
    BatchStatus,
    RowResult,
    best_match,
)
from snellen.models.api.errors import error_object, from_code
from snellen.models.api.request import Piece
from snellen.models.api.uploads import FILE_NAME, FileContent, prefixed, upload_resumable

LARGEST_INLINE = 256 << 20
"""Bytes of a state that holds the answers themselves."""
_BATCH = re.compile(r"batches/[A-Za-z0-9_-]{1,200}")
_ENDED = ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "CANCELLED", "EXPIRED", "FAILED")
_KEY, _REQUEST = b'{"key":', b',"request":'
_CODES = {3: 400, 5: 404, 7: 403, 8: 429, 13: 500, 14: 503, 16: 401}
"""HTTP status that stands for a numeric code of gRPC."""


class GeminiBatches(BatchService):
    """Batches of the Gemini API. What fits into the create call is sent in it, the rest through the Files API."""

    name = "gemini"

    def row(self, row: str, body: tuple[Piece, ...]) -> tuple[Piece, ...]:
        return (_KEY + msgspec.json.encode(row) + _REQUEST, *body, b"}")

    def uploads(self, shard: BatchShard) -> bool:
        return shard.size + 64 * shard.rows > int(FILLED * self.limits.inline_bytes)

    async def upload(self, shard: BatchShard) -> str:
        """Upload the file by the resumable protocol: announced first, then sent as a whole."""
        assert shard.path is not None  # noqa: S101 - the engine uploads files that are there
        content = FileContent(shard.label, "application/jsonl", shard.path)
        file = await upload_resumable(self._transport, self._endpoint, "/files", content)
        return check_id(file.get("name"), "the uploaded file", FILE_NAME)

    async def create(self, shard: BatchShard) -> BatchStatus:
        model = quote(self._rows.model, safe="/")
        url = self._endpoint.url(self._rows.row.batch_path.format(model=model))
        name = msgspec.json.encode(shard.label)
        if shard.input:
            body = {"batch": {"displayName": shard.label, "inputConfig": {"fileName": shard.input}}}
            return _status(await self._reply("POST", url, json=msgspec.json.encode(body)))
        assert shard.path is not None  # noqa: S101 - the engine sends files that are there
        head = b'{"batch":{"displayName":' + name + b',"inputConfig":{"requests":{"requests":['
        tail = b"]}}}}"
        length = len(head) + sum(map(len, _inline(shard.path))) + len(tail)
        json = {"Content-Type": "application/json"}
        stream = _around(head, shard.path, tail)
        reply = await self._reply("POST", url, stream=stream, length=length, headers=json, limit=LARGEST_INLINE)
        return _status(reply)

    async def find(self, shard: BatchShard, other_ids: frozenset[str]) -> BatchStatus | None:
        matches: list[BatchStatus] = []
        async for row in self._listed(
            f"/batches?pageSize={PAGE}",
            "pageToken",
            ("operations", "batches"),
            lambda page, last: text(page.get("nextPageToken")),
            limit=LARGEST_INLINE,
        ):
            try:
                status = _status(row)
            except BadReplyError:
                if shard.label in str(row):
                    raise
                continue  # somebody else's
            if status.id not in other_ids and status.label == shard.label:
                matches.append(status)
        return best_match(matches)

    async def status(self, batch: str) -> BatchStatus:
        return _status(await self._state(batch))

    async def _state(self, batch: str) -> dict[str, Any]:
        url = self._endpoint.url(f"/{check_id(batch, 'the batch', _BATCH)}")
        return await self._reply("GET", url, limit=LARGEST_INLINE)

    async def cancel(self, batch: str) -> BatchStatus:
        url = self._endpoint.url(f"/{check_id(batch, 'the batch', _BATCH)}:cancel")
        await self._transport.call("POST", url, json=b"{}")
        return await self.status(batch)

    async def results(self, status: BatchStatus) -> AsyncIterator[RowResult]:
        """Yield the results: of a file line by line, else those in the state, which are joined by key or by order."""
        if not status.outputs:
            for index, answer in enumerate(_inline_answers(await self._state(status.id))):
                yield _inline_result(answer, index)
            return
        for output in status.outputs:
            try:
                name = check_id(output, "the file of results", FILE_NAME)
            except BadReplyError as error:
                raise unusable_results(status.id, error) from None
            url = prefixed(self._endpoint, "/download", f"/{name}:download")
            async for line in self._transport.lines(url + ("&" if "?" in url else "?") + "alt=media"):
                yield read_line(line)


def _inline(path: Path) -> list[bytes]:
    """Return the rows of a file as members of the create call; a few megabytes at most."""
    members: list[bytes] = []
    with path.open("rb") as file:
        for line in file:
            end = line.index(_REQUEST)
            key = line[len(_KEY) : end]
            request = line[end + len(_REQUEST) :].rstrip(b"\n").removesuffix(b"}")
            comma = b"," if members else b""
            members.append(comma + b'{"request":' + request + b',"metadata":{"key":' + key + b"}}")
    return members


async def _around(head: bytes, path: Path, tail: bytes) -> AsyncIterator[bytes]:
    yield head
    for member in _inline(path):
        yield member
    yield tail


def _status(row: dict[str, Any]) -> BatchStatus:
    """Read an operation; the facts stand in its metadata, or in the object itself."""
    metadata = row.get("metadata")
    facts: dict[str, Any] = metadata if isinstance(metadata, dict) else row
    words = text(facts.get("state"))
    short = words.removeprefix("JOB_STATE_").removeprefix("BATCH_STATE_")
    stats = facts.get("batchStats")
    stats = stats if isinstance(stats, dict) else {}
    error = row.get("error") or facts.get("error")
    outputs = tuple(name for name in (_responses_file(row),) if name)
    state: BatchState = "ended" if short in _ENDED else "running"
    if short == "FAILED" and not outputs and not _inline_answers(row):
        state = "failed"
    return BatchStatus(
        id=check_id(facts.get("name") or row.get("name"), "the batch", _BATCH),
        state=state,
        words=words,
        label=text(facts.get("displayName")),
        total=number(stats.get("requestCount")),
        completed=number(stats.get("successfulRequestCount")),
        failed=number(stats.get("failedRequestCount")),
        created_at=moment(facts.get("createTime")),
        outputs=outputs,
        message=error_object(error)[0] if error else "",
        cancelled=short == "CANCELLED",
        expired=short == "EXPIRED",
    )


def _places(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects that may hold the results."""
    metadata = row.get("metadata")
    facts = metadata if isinstance(metadata, dict) else {}
    places = [row.get("response"), facts.get("output"), row.get("output"), row.get("dest")]
    return [place for place in places if isinstance(place, dict)]


def _responses_file(row: dict[str, Any]) -> str:
    for place in _places(row):
        named = place.get("responsesFile") or place.get("fileName")
        if isinstance(named, str):
            return named
    return ""


def _inline_answers(row: dict[str, Any]) -> list[Any]:
    for place in _places(row):
        answers = place.get("inlinedResponses")
        if isinstance(answers, dict):
            answers = answers.get("inlinedResponses")
        if isinstance(answers, list):
            return answers
    return []


def _inline_result(answer: Any, index: int) -> RowResult:
    if not isinstance(answer, dict):
        return RowResult(index=index, error=BadReplyError("The row has neither a response nor an error."))
    metadata = answer.get("metadata")
    key = metadata.get("key") if isinstance(metadata, dict) else None
    key = key if isinstance(key, str) else None
    place = None if key is not None else index
    if answer.get("error"):
        return RowResult(key, place, error=_row_error(answer["error"]))
    return RowResult(key, place, reply=msgspec.json.encode(answer.get("response")))


class _GeminiRow(Struct):
    key: Any = None
    response: msgspec.Raw = msgspec.Raw()
    error: Any = None


_decoder = msgspec.json.Decoder(_GeminiRow)


def read_line(line: bytes) -> RowResult:
    """Return the result in one line of a file of results; a line that is none has neither row nor index."""
    try:
        row = decoded_row(_decoder, line)
    except BadReplyError as error:
        return RowResult(error=error)
    key = row.key if isinstance(row.key, str) else None
    if row.error:
        return RowResult(key, error=_row_error(row.error))
    if not bytes(row.response):
        return RowResult(key, error=BadReplyError("The row has neither a response nor an error."))
    return RowResult(key, reply=bytes(row.response))


def _row_error(error: Any) -> ModelError:
    message, code = error_object(error)
    status = int(code) if code.isdecimal() and len(code) < 4 else 0
    status = _CODES.get(status, status)
    return from_code(status, message, code) if 400 <= status < 600 else ServerError(message)
