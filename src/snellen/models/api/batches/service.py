"""Batch services as the engine sees them: the state of a batch, the result of a row, and the calls that a service offers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Struct

from snellen.errors import BatchCancelledError, BatchExpiredError, ModelError
from snellen.models.api.batches.replies import BatchLimits, decoded

if TYPE_CHECKING:  # aiohttp takes 0.1 s to import, which a run without batches does not need
    from snellen.models.api.batches.rows import BatchRows
    from snellen.models.api.batches.transport import BatchTransport
    from snellen.models.api.request import Body, Piece
    from snellen.types import Prompt, Response

BatchState: TypeAlias = Literal["running", "ended", "failed"]
FILLED = 0.95
"""Share of the limit in bytes that a batch is filled to; services count what stands around the rows too."""
PAGE, MOST_PAGES = 100, 200
CLOCKS_APART_S = 600.0
"""Most seconds by which the clock of a service and this machine's are taken to differ."""


class BatchShard(Struct, frozen=True, kw_only=True):
    """One batch as it is sent: a file of rows.

    Attributes:
        label: names it at the service, in this run's log and in each row's id.
        path: the file with one row a line; None once it is no longer on disk.
        rows, size: lines and bytes of the file.
        input: the service's id of the uploaded file; empty before, or where nothing is uploaded.
        made_at: when the file was made, in seconds since the epoch.
    """

    label: str
    path: Path | None = None
    rows: int = 0
    size: int = 0
    input: str = ""
    made_at: float = 0.0


class BatchStatus(Struct, frozen=True, kw_only=True):
    """State of a batch at its service.

    Attributes:
        state: running until there is nothing to wait for; failed: it was never begun, and nothing was paid.
        words: the service's own word for the state.
        label: of the shard, where the service keeps it.
        total, completed, failed: rows, as the service counts them.
        created_at, expires_at: seconds since the epoch.
        input: id of the uploaded file.
        outputs: what `results` reads: ids of files.
        message: why it failed.
        lines: of rows that made it fail: (line from 1, reason).
        cancelled, expired: why rows may be without an answer.
    """

    id: str
    state: BatchState
    words: str = ""
    label: str = ""
    total: int = 0
    completed: int = 0
    failed: int = 0
    created_at: float | None = None
    expires_at: float | None = None
    input: str = ""
    outputs: tuple[str, ...] = ()
    message: str = ""
    lines: tuple[tuple[int, str], ...] = ()
    cancelled: bool = False
    expired: bool = False

    @property
    def missing_row(self) -> ModelError:
        """Return the error of a row that the results lack."""
        if self.cancelled:
            return BatchCancelledError(f"The batch was cancelled before this row was answered ({self.id}).")
        if self.expired:
            return BatchExpiredError(f"The batch expired before this row was answered ({self.id}).")
        return BatchExpiredError(f"The results of the batch lack this row ({self.id}).")


class RowResult(Struct, frozen=True):
    """Result of one row: its reply's bytes and the provider's id of it, or the error. `row` is its id; None: it is row `index` from 0; both None: unknown."""

    row: str | None = None
    index: int | None = None
    reply: bytes | None = None
    error: ModelError | None = None
    request_id: str = ""


class Undecided(Struct, frozen=True):
    """Answer of `find` while a batch that may be the one does not show its rows yet."""

    reason: str


class BatchService:
    """A service that takes batches. One instance serves one run; nothing is sent before the first call.

    Attributes:
        name: of the protocol: `openai`, `anthropic` or `gemini`; `file` for requests that another program answers.
        offline: nothing is sent or polled (`batches.files`).

    Args:
        rows: writes bodies and reads replies.
        transport: connections to the service.
    """

    name = ""
    offline = False

    def __init__(self, rows: BatchRows, transport: BatchTransport) -> None:
        self._rows, self._transport = rows, transport
        self._endpoint = rows.endpoint

    @property
    def limits(self) -> BatchLimits:
        """Return the limits of one batch, as the service documents them."""
        return documented_limits(self.name, self._endpoint.host)

    @property
    def place(self) -> str:
        """Return the address, for messages and the run's log. Never a key."""
        return str(self._endpoint)

    async def _reply(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        """Return the JSON object that the service answers a call with. Raises ModelError."""
        return decoded((await self._transport.call(method, url, **options)).body)

    async def _listed(
        self,
        path: str,
        after_option: str,
        names: Sequence[str],
        after_of: Callable[[dict[str, Any], str], str],
        **options: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects in a list of the service, page by page.

        Args:
            path: of the first page, with a query.
            after_option: the query's name for the place to go on from.
            names: of the field that holds the objects of a page; the first that is there.
            after_of: the place to go on from, by the page and the id of its last object; empty: the list has ended.
            options: of the calls.
        """
        after, seen = "", {""}
        for _ in range(MOST_PAGES):
            more = f"&{after_option}={quote(after, safe='')}" if after else ""
            page = await self._reply("GET", self._endpoint.url(path + more), **options)
            rows = next((page[name] for name in names if page.get(name)), None)
            rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
            for row in rows:
                yield row
            last = rows[-1].get("id") if rows else ""
            after = "" if page.get("has_more") is False else after_of(page, last if isinstance(last, str) else "")
            if after in seen:  # the end, or a service that does not heed the place
                return
            seen.add(after)

    def uploads(self, shard: BatchShard) -> bool:
        """Return True if a shard is uploaded before the create call."""
        return False

    async def write(self, prompt: Prompt) -> Body:
        """Return a request's body; large images are uploaded. Raises ModelError."""
        return await self._rows.write(prompt)

    def row(self, row: str, body: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Return one line of a shard's file in pieces, without the line end."""
        raise NotImplementedError

    def read(self, result: RowResult, request: bytes) -> Response:
        """Return the answer in a row's reply. Raises ModelError. `request` is the traced body."""
        return self._rows.read(result.reply or b"", request, result.request_id)

    def adapts(self, error: ModelError, request: bytes) -> bool:
        """Return True if later bodies are written differently because of this error, so that asking again can help."""
        return self._rows.adapts(error, request)

    async def upload(self, shard: BatchShard) -> str:
        """Upload a shard's file and return its id at the service; nothing is paid for it. Raises ModelError."""
        return ""

    async def create(self, shard: BatchShard) -> BatchStatus:
        """Create the batch of a shard. Raises ModelError; `may_exist` says whether it was created all the same."""
        raise NotImplementedError

    async def find(self, shard: BatchShard, other_ids: frozenset[str]) -> BatchStatus | Undecided | None:
        """Look for the batch of a shard in the service's list; None: it is not there.

        Args:
            shard: its create call got no reply.
            other_ids: ids of batches that belong to other shards.
        """
        raise NotImplementedError

    async def status(self, batch: str) -> BatchStatus:
        """Return the state of a batch. Raises ModelError."""
        raise NotImplementedError

    def results(self, status: BatchStatus) -> AsyncIterator[RowResult]:
        """Yield the results of a batch that has ended, in any order. Raises ModelError."""
        raise NotImplementedError

    async def cancel(self, batch: str) -> BatchStatus:
        """Cancel a batch; rows that were answered are still paid for. Raises ModelError."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release connections."""
        await self._transport.close()


def best_match(statuses: Sequence[BatchStatus]) -> BatchStatus | None:
    """Return the batch of a shard among several with its label, as a gateway's repeated call leaves them; None of none.

    One that failed or was cancelled brings no answers, so that any other one comes first.
    """
    return min(statuses, key=lambda status: (status.state == "failed", status.cancelled, status.expired), default=None)


def may_exist(error: ModelError) -> bool:
    """Return True if a call that failed may have had its effect: no reply, half of one, or a server's own fault.

    A connection that was never made, and a reply of 4xx, say that it had none.
    """
    from snellen.errors import BadReplyError, ModelTimeoutError, NetworkError, ServerError

    if isinstance(error, NetworkError | ModelTimeoutError):
        return error.unavailable is not True
    return isinstance(error, ServerError | BadReplyError)


def documented_limits(protocol: str, host: str) -> BatchLimits:
    """Return the limits of one batch from limits.toml: those of the host, else of the protocol."""
    table = _tables()
    row = table.get("hosts", {}).get(host) or table[protocol]
    return msgspec.convert(row, BatchLimits)


@cache
def _tables() -> dict[str, Any]:
    text = files("snellen.models.api.batches").joinpath("limits.toml").read_bytes()
    tables: dict[str, Any] = msgspec.toml.decode(text)
    return tables
