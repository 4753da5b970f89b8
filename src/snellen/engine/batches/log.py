"""Log of a run's batches, batches.jsonl: append-only, one event a line, on disk before the step that it announces.

begin    token of the run's labels; service and address
made     a shard's file lies in batches/: label, rows, size, digest
uploaded the service has the file: its id
creating the create call comes next; without `created` behind it, the service is asked whether there is such a batch
created  the batch's id
state    the service's state of the batch has changed
limits   smaller limits, learned from a refusal
taken    every row of the batch has a record, or is asked again; nothing is left to do
read     a file of results was read: answers, rows asked again, failed and without a result, and lines that are of no row
dropped  nothing was paid for the shard and its rows are asked in another one: refused, failed validation, or never sent
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from snellen.engine import journal
from snellen.engine.folder_checks import check_files
from snellen.engine.run_folder import BATCH_LOG
from snellen.errors import RunError
from snellen.models.api.batches.replies import BatchLimits
from snellen.models.api.batches.service import BatchShard
from snellen.redaction import redact_bytes

FOLDER = "batches"
FORMAT = 1
LARGEST_EVENT = 1 << 24
_NAME = re.compile(r"[A-Za-z0-9_-]{0,64}")
_DECODE_ERRORS = (ValueError, RecursionError)
Count: TypeAlias = Annotated[int, Meta(ge=0)]


class BatchEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the log; which fields are set depends on `event`."""

    event: str
    at: float
    label: str = ""
    format: int = 0
    token: str = ""
    service: str = ""
    place: str = ""
    rows: Count = 0
    size: Count = 0
    digest: str = ""
    input: str = ""
    id: str = ""
    state: str = ""
    total: Count = 0
    completed: Count = 0
    failed: Count = 0
    expires_at: float | None = None
    limits: BatchLimits | None = None
    answered: Count = 0
    again: Count = 0
    missing: Count = 0
    strange: Count = 0
    reason: str = ""


class LoggedShard(Struct, frozen=True, kw_only=True):
    """A shard as the log has it.

    Attributes:
        label, rows, size, digest, made_at: of its file.
        input: the service's id of the uploaded file.
        creating_at: when its create call was announced last; None: never.
        id: of its batch; empty: not known.
        created_at: when the id was written.
        state: the service's last word.
        closed: `taken` or `dropped`; empty: open.
        completed, failed: rows, as last polled. answered, again: as taken up.
        reason: why it was dropped.
    """

    label: str
    rows: int
    size: int
    digest: str
    made_at: float
    input: str = ""
    creating_at: float | None = None
    id: str = ""
    created_at: float | None = None
    expires_at: float | None = None
    state: str = ""
    closed: str = ""
    completed: int = 0
    failed: int = 0
    answered: int = 0
    again: int = 0
    reason: str = ""

    def shard(self, folder: Path) -> BatchShard:
        """Return it as the service takes it; its file's path only where the file is there as a whole."""
        path = folder / FOLDER / f"{self.label}.jsonl"
        whole = path.is_file() and path.stat().st_size == self.size
        return BatchShard(
            label=self.label,
            path=path if whole else None,
            rows=self.rows,
            size=self.size,
            input=self.input,
            made_at=self.creating_at or self.made_at,
        )


class BatchLog:
    """The log open for writing. The run's folder is locked by the caller.

    Args:
        folder: of the run.

    Raises:
        RunError: the log is of another format, or damaged before its last line.
        StorageError: it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / BATCH_LOG
        try:
            (folder / FOLDER).mkdir(exist_ok=True)
            journal.repair(self.path)
            self.state = read_log(folder)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self._size = os.fstat(self._fd).st_size
        except OSError as error:
            raise journal.storage_error(self.path, error) from error

    def begin(self, service: str, place: str) -> None:
        """Write the head of a new log; of an old one, check that it is of the same service.

        Raises:
            RunError: batches are open at another service.
        """
        state = self.state
        if not state.token:
            self.append("begin", format=FORMAT, token=secrets.token_hex(5), service=service, place=place)
        elif (state.service, state.place) != (service, place):
            raise RunError(
                f"the batches of {self.folder} lie at {state.place} ({state.service}), and this run asks {place} ({service})",
                f"Name the same endpoint again: --base-url {state.place}",
            )

    def append(self, event: str, **fields: Any) -> None:
        """Write one event, and bring it to the disk."""
        line = BatchEvent(event=event, at=round(time.time(), 3), **fields)
        data = redact_bytes(msgspec.json.encode(line)) + b"\n"
        journal.append_whole(self._fd, data, self._size, self.path)
        self._size += len(data)
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise journal.storage_error(self.path, error) from error
        self.state.apply(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class BatchLogState:
    """What the events of a log add up to.

    Attributes:
        token: of the labels; empty where nothing was begun.
        service, place: where the batches lie.
        shards: by label, in the order in which they were made.
        limits: learned from refusals; None: none.
        last_read: what the last reading of a file of results has brought; None: none was read.
    """

    def __init__(self) -> None:
        self.token = self.service = self.place = ""
        self.shards: dict[str, LoggedShard] = {}
        self.limits: BatchLimits | None = None
        self.last_read: BatchEvent | None = None

    def apply(self, line: BatchEvent) -> None:
        """Take one event into account; one about an unknown shard, or of an unknown kind, changes nothing."""
        if line.event == "begin":
            self.token, self.service, self.place = line.token, line.service, line.place
        elif line.event == "read":
            self.last_read = line
        elif line.event == "limits":
            self.limits = line.limits
        elif line.event == "made":
            self.shards[line.label] = LoggedShard(
                label=line.label, rows=line.rows, size=line.size, digest=line.digest, made_at=line.at
            )
        elif (shard := self.shards.get(line.label)) is not None:
            self.shards[line.label] = _changed(shard, line)

    @property
    def next_label(self) -> str:
        """Return the label of the next shard: `snellen-TOKEN-NUMBER`."""
        return f"snellen-{self.token}-{len(self.shards) + 1}"

    def open(self) -> list[LoggedShard]:
        """Return the shards that are neither taken up nor dropped."""
        return [shard for shard in self.shards.values() if not shard.closed]


def _changed(shard: LoggedShard, line: BatchEvent) -> LoggedShard:
    if line.event == "uploaded":
        return structs.replace(shard, input=line.input)
    if line.event == "creating":
        return structs.replace(shard, creating_at=line.at)
    if line.event == "created":
        return structs.replace(shard, id=line.id, created_at=line.at, expires_at=line.expires_at)
    if line.event == "state":
        return structs.replace(
            shard,
            state=line.state,
            completed=line.completed,
            failed=line.failed,
            expires_at=line.expires_at or shard.expires_at,
        )
    if line.event == "taken":
        return structs.replace(shard, closed="taken", answered=line.answered, again=line.again)
    if line.event == "dropped":
        return structs.replace(shard, closed="dropped", reason=line.reason)
    return shard


def read_log(folder: Path) -> BatchLogState:
    """Return the state that a run's log describes; an empty one where there is no log. A torn last line is left out.

    Raises:
        RunError: it cannot be read, is of a newer format, or damaged, or is no regular file.
    """
    state = BatchLogState()
    path = folder / BATCH_LOG
    check_files(folder)  # a command asks for open batches before it takes the run's lock
    if not path.exists():
        return state
    for number, line in _lines(path):
        try:
            event = msgspec.json.decode(line, type=BatchEvent)
        except _DECODE_ERRORS as error:
            raise RunError(
                f"{path}, line {number}: not an event: {error}",
                "Restore the file. Without it the batches at the service cannot be found, and would be paid for again.",
            ) from None
        if _NAME.fullmatch(event.label) is None or _NAME.fullmatch(event.token) is None:
            raise RunError(
                f"{path}, line {number}: a label that Snellen does not write; files would be named by it",
                "Restore the file. If the run is from somebody else, do not continue it.",
            )
        if event.format > FORMAT:
            raise RunError(
                f"{path} has format {event.format}; this version knows {FORMAT}", "Upgrade Snellen to go on with it."
            )
        state.apply(event)
    return state


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number in itertools.count(1):
                line = file.readline(LARGEST_EVENT)
                if len(line) == LARGEST_EVENT:
                    raise RunError(
                        f"{path}, line {number}: longer than {LARGEST_EVENT:,} bytes, which no event is",
                        "Restore the file. If the run is from somebody else, do not continue it.",
                    )
                if not line.endswith(b"\n"):
                    return
                yield number, line
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}", "Check its permissions.") from error


def batch_facts(folder: Path) -> dict[str, Any]:
    """Return what run_meta.json says of a run's batches, for its environment; empty for a run without any.

    Raises:
        RunError: the log cannot be read.
    """
    state = read_log(folder)
    taken = [shard for shard in state.shards.values() if shard.closed == "taken"]
    if not state.shards:
        return {}
    answers = sum(shard.answered for shard in taken)
    return {"batches": {"service": state.service, "batches": len(taken), "answers": answers}}


def open_batches(folder: Path) -> int:
    """Return the number of batches of a run that may still bring answers."""
    return sum(1 for shard in read_log(folder).open() if shard.creating_at is not None)


MOST_SECONDS = 1e11
"""Seconds since the epoch; a later moment is none that a service means."""


class BatchProgress(Struct, frozen=True):
    """State of the open batches.

    Attributes:
        open: number of batches that were sent and not yet taken up.
        states: how many are in which of the service's states.
        rows, answered: rows in them, and rows that the service has finished.
        end_at: expected end in seconds since the epoch, at the pace so far; None: unknown.
        expires_at: when the last of them ends at the latest; None: the service does not say.
    """

    open: int
    states: dict[str, int]
    rows: int
    answered: int
    end_at: float | None
    expires_at: float | None

    def text(self) -> str:
        """Format as a part of the progress line."""
        states = ", ".join(f"{count} {state}" for state, count in self.states.items())
        plural = "" if self.open == 1 else "es"
        parts = [f"{self.open} batch{plural} ({states}): {self.answered:,}/{self.rows:,} rows finished at the service"]
        if self.end_at is not None:
            parts.append(f"expected end {local_time(self.end_at)}")
        elif self.expires_at is not None:
            parts.append(f"ends by {local_time(self.expires_at)}")
        return " · ".join(parts)

    def event(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "open": self.open,
            "states": self.states,
            "rows": self.rows,
            "finished": self.answered,
            "end_at": None if self.end_at is None else round(self.end_at),
            "expires_at": None if self.expires_at is None else round(self.expires_at),
        }


def batch_progress(shards: Iterable[LoggedShard], now: float | None = None) -> BatchProgress:
    """Sum up open shards. The expected end is that of the slowest one, at its own pace since it was created."""
    now = time.time() if now is None else now
    sent = [shard for shard in shards if shard.id]
    ends: list[float | None] = []
    for shard in sent:
        finished = shard.completed + shard.failed
        began = shard.created_at or shard.made_at
        if finished >= shard.rows:
            ends.append(now)
        elif finished and now > began:
            ends.append(now + (shard.rows - finished) * (now - began) / finished)
        else:
            ends.append(None)
    expected_ends = [end for end in ends if end is not None]
    latest = [shard.expires_at for shard in sent if shard.expires_at is not None]
    return BatchProgress(
        open=len(sent),
        states=dict(Counter(shard.state or "sent" for shard in sent)),
        rows=sum(shard.rows for shard in sent),
        answered=sum(min(shard.rows, shard.completed + shard.failed) for shard in sent),
        end_at=max(expected_ends) if expected_ends and len(expected_ends) == len(ends) else None,
        expires_at=max(latest, default=None),
    )


def local_time(moment: float) -> str:
    """Format seconds since the epoch in this machine's time zone, with the day where it is not today.

    What a service or the log of somebody else's run names may be no moment of a calendar: `unknown`.
    """
    if not 0 <= moment < MOST_SECONDS:
        return "unknown"
    there = time.localtime(moment)
    today = there[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if today else "%Y-%m-%d %H:%M", there)
