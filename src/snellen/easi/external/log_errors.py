"""Errors in a harness's log, by benchmark.

Neither harness tells by its exit status: lmms-eval logs `Error during evaluation` and ends with 0, VLMEvalKit goes on with the
next data set. A traceback is folded into its last line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

MOST = 3
LONGEST = 300
TAIL_BYTES = 8 << 20
KINDS: Mapping[str, str] = {
    "out of memory": r"out of memory|OutOfMemoryError|Unable to allocate .* for an array|DefaultCPUAllocator",
    "killed": r"(?:^|\s)Killed(?:\s|$)|SIGKILL|[Ss]ignal 9\b|exitcode *[:=] *-9",
    "between the GPUs": r"\bNCCL (?:error|failure)|ncclUnhandled|ncclSystemError|ncclInternalError|Watchdog caught collective",
    "no space on the disk": r"No space left on device|Disk quota exceeded",
    "port taken": r"EADDRINUSE|[Aa]ddress already in use",
    "task or data not found": (
        r"[Tt]asks? .*not found|DatasetNotFoundError|Couldn't (?:find|reach) (?:a |the )?(?:dataset|cache|file)"
        r"|BuilderConfig '.*' not found|Unknown split|not a valid dataset|Dataset .* is not (?:supported|valid)"
    ),
    "model not loaded": (
        r"not a valid model identifier|does not appear to have a file named|Can't load (?:tokenizer|the |config|feature|image)"
        r"|Error\(s\) in loading state_dict|Unrecognized (?:model|configuration)|no model for this name|Model .* not found"
        r"|SafetensorError|trust_remote_code"
    ),
    "not allowed": r"40[13] Client Error|AuthenticationError|PermissionDenied|[Ii]nvalid API [Kk]ey|gated repo",
    "network": r"Max retries exceeded|Connection refused|ConnectionError|LocalEntryNotFoundError|Temporary failure in name",
    "failed": r"Error during evaluation:|combination failed|AssertionError",
}
"""Kind of fault to the pattern of a line, the most telling first."""
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in KINDS.items())
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(r"^\s*\[?rank\s*\d+\]?:\s?", re.IGNORECASE)
_RAISED = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Timeout\w*)\b")
_QUIET = re.compile(
    r"\|\s*WARNING\b|\bWARNING\b.*(?:deprecat|futurewarning)|FutureWarning|DeprecationWarning|UserWarning"
)
TRACEBACK = "Traceback (most recent call last):"
BETWEEN = ("During handling of", "The above exception")


class LoggedError(Struct, frozen=True):
    """One error: its kind, and the log line."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def lines_of(log: Path, start: int = 0) -> list[str]:
    """Read the lines of a log from a byte offset, at most the last 8 MB; empty if unreadable."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start, size - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return re.split(r"[\r\n]+", text)


def faults(lines: Iterable[str], names: Sequence[str] = ()) -> dict[str, list[LoggedError]]:
    """Return errors by benchmark, the first three distinct ones each; unassigned ones under the empty name.

    Args:
        lines: the log.
        names: what the harness calls the benchmarks; a line is of the longest name in it.
    """
    by_name: dict[str, list[LoggedError]] = {}
    seen_lines: set[tuple[str, str]] = set()
    longest = sorted(names, key=len, reverse=True)
    for line in _folded(lines):
        kind = kind_of(line)
        if kind is None:
            continue
        name = next((candidate for candidate in longest if candidate in line), "")
        alike = re.sub(r"\d+", "0", line)
        if (name, alike) in seen_lines:
            continue
        seen_lines.add((name, alike))
        by_name.setdefault(name, []).append(LoggedError(kind, line[:LONGEST]))
    # The summing-up of a failure comes after what says why; what says why goes first.
    return {name: sorted(errors, key=lambda error: error.kind == "failed")[:MOST] for name, errors in by_name.items()}


def kind_of(line: str) -> str | None:
    """Return the kind of error of a line, `failed` for the last line of any traceback, None for no error."""
    if _QUIET.search(line):
        return None
    hit = next((kind for kind, pattern in _KINDS if pattern.search(line)), None)
    return hit if hit is not None else "failed" if _RAISED.match(line) else None


def _folded(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without colours and ranks; of a traceback only the last line."""
    inside = False
    for raw in lines:
        bare = _PREFIX.sub("", _COLOURS.sub("", raw)).rstrip()
        line = "".join(mark if mark.isprintable() else " " for mark in bare).strip()
        if TRACEBACK in line:
            inside = True
        elif not line or (inside and (bare[0].isspace() or line.startswith(BETWEEN))):
            continue
        else:
            inside = False
            yield line
