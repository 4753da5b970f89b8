"""Read the database of OpenCode, which the agent itself may have written over: only inside the reader (reader.py)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from snellen.models.agents.transcript import Transcript, digest_of_uri, joined, token_count, without_images
from snellen.models.trace import Step
from snellen.types import Usage

DATABASE, LOG = "opencode.db", "opencode.db-wal"
READ_S = 20.0
MAX_CHARS = 128 << 20


def read(files: Mapping[str, bytes], scratch: Path) -> Transcript:
    """Return the conversation as far as the database and its log hold it.

    SQLite acts on files beside a database: a rollback journal there can name other files, which are then deleted. So the
    database is opened as a copy in a folder where nothing else lies.

    Args:
        files: the database, and its write-ahead log, which holds what was not yet copied into it.
        scratch: an empty folder of the reader's.
    """
    if DATABASE not in files:
        return Transcript()
    for name in (DATABASE, LOG):
        if name in files:
            (scratch / name).write_bytes(files[name])
    messages, every = _messages(scratch / DATABASE)
    steps = list[Step]()
    turn, last, parts_of_last = 0, dict[str, Any](), list[dict[str, Any]]()
    for message, parts in messages:
        if message.get("role") == "user":
            images = tuple(digest_of_uri(part["url"]) for part in parts if _is_image(part))
            text = joined(part for part in parts if not part.get("synthetic"))
            steps.append(Step(turn, "user", text, images=images))
        elif message.get("role") == "assistant":
            turn, last, parts_of_last = turn + 1, message, parts
            tokens = message.get("tokens") or {}
            time = message.get("time") or {}
            steps.append(
                Step(
                    turn,
                    "assistant",
                    joined(parts),
                    error="error" in message,
                    tokens_in=_read_tokens(tokens),
                    tokens_out=token_count(tokens.get("output", 0)),
                    seconds=_span(time.get("created"), time.get("completed")),
                )
            )
            steps += (_tool_step(turn, part) for part in parts if part.get("type") == "tool")
    ends = [part.get("reason") for part in parts_of_last if part.get("type") == "step-finish"]
    finished = bool(ends) and ends[-1] not in ("tool-calls", "error", "unknown") and "error" not in last
    return Transcript(
        steps=tuple(steps),
        finished=finished,
        answer=joined(parts_of_last).strip() if finished else "",
        reasoning=joined(parts_of_last, "reasoning"),
        fault=_fault(last),
        usage=_usage([message for message, _ in every]),
        raw=tuple(msgspec.json.encode(without_images({"info": message, "parts": parts})) for message, parts in every),
    )


_Message = tuple[dict[str, Any], list[dict[str, Any]]]


def _messages(path: Path) -> tuple[list[_Message], list[_Message]]:
    """Return the messages of the session, and those of all sessions (sub-agents have their own), each with its parts."""
    with contextlib.closing(sqlite3.connect(path, timeout=5)) as base:
        _guard(base)
        try:
            children = {name for (name,) in base.execute("SELECT id FROM session WHERE parent_id IS NOT NULL")}
            parts: dict[str, list[dict[str, Any]]] = {}
            characters = 0
            for of, data in base.execute("SELECT message_id, data FROM part ORDER BY time_created, id"):
                characters = _counted(characters, data)
                parts.setdefault(of, []).append(msgspec.json.decode(data))
            rows = []
            for row in base.execute("SELECT id, session_id, data FROM message ORDER BY time_created, id"):
                characters = _counted(characters, row[2])
                rows.append(row)
        except sqlite3.DatabaseError:  # killed before its tables were made, or no database of OpenCode's
            return [], []
    every = [(session, (msgspec.json.decode(data), parts.get(name, []))) for name, session, data in rows]
    return [message for session, message in every if session not in children], [message for _, message in every]


def _guard(base: sqlite3.Connection) -> None:
    """Read plain tables alone, and for 20 s: a model may have put another database in its place."""
    end = monotonic() + READ_S
    base.set_progress_handler(lambda: monotonic() > end, 100_000)
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CHARS // 4)
    base.execute("PRAGMA trusted_schema = OFF")
    base.execute("PRAGMA cell_size_check = ON")
    base.set_authorizer(_reads_tables)


def _reads_tables(action: int, name: str | None, column: str | None, base: str | None, view: str | None) -> int:
    """Allow reading, and never through a view or a trigger; see sqlite3_set_authorizer."""
    plain = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ) and view is None
    return sqlite3.SQLITE_OK if plain else sqlite3.SQLITE_DENY


def _counted(characters: int, data: str) -> int:
    """Return the characters so far; columns can be worked out as they are read, so that the file's size says nothing."""
    if (characters := characters + len(data)) > MAX_CHARS:
        raise ValueError(f"more than {MAX_CHARS >> 20} MB")
    return characters


def _tool_step(turn: int, part: dict[str, Any]) -> Step:
    state = part.get("state") or {}
    time = state.get("time") or {}
    images = tuple(
        digest_of_uri(attachment["url"]) for attachment in state.get("attachments") or () if _is_image(attachment)
    )
    return Step(
        turn,
        "tool",
        tool=part.get("tool", ""),
        arguments=state.get("input"),
        result=str(state.get("output") or state.get("error") or ""),
        error=state.get("status") != "completed",
        images=images,
        seconds=_span(time.get("start"), time.get("end")),
    )


def _is_image(part: dict[str, Any]) -> bool:
    return str(part.get("mime", "")).startswith("image/") and str(part.get("url", "")).startswith("data:")


def _fault(message: dict[str, Any]) -> str:
    error = message.get("error")
    if not isinstance(error, dict):
        return ""
    text = (error.get("data") or {}).get("message", "")
    return f"{error.get('name', 'error')}: {text}" if text else str(error.get("name", "error"))


def _read_tokens(tokens: dict[str, Any]) -> int:
    cache = tokens.get("cache") or {}
    return sum(map(token_count, (tokens.get("input", 0), cache.get("read", 0), cache.get("write", 0))))


def _usage(messages: list[dict[str, Any]]) -> Usage:
    tokens = [message.get("tokens") or {} for message in messages if message.get("role") == "assistant"]
    return Usage(
        input_tokens=sum(map(_read_tokens, tokens)),
        output_tokens=sum(
            token_count(message.get("output", 0)) + token_count(message.get("reasoning", 0)) for message in tokens
        ),
        reasoning_tokens=sum(token_count(message.get("reasoning", 0)) for message in tokens),
        cached_tokens=sum(token_count((message.get("cache") or {}).get("read", 0)) for message in tokens),
    )


def _span(start: Any, end: Any) -> float:
    """Return seconds between two times in milliseconds."""
    return round(max(0, end - start) / 1000, 3) if isinstance(start, int) and isinstance(end, int) else 0.0
