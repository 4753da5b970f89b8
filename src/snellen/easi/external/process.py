"""One harness command: own process group, logged output, complete clean-up."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

from snellen import redaction
from snellen.errors import PreflightError, StorageError
from snellen.models import processes

GRACE_S = 20.0
LONGEST = 64 << 10
_BREAK = re.compile(rb"[\r\n]")
Tell = Callable[[str], None]


class CommandEnd(Struct, frozen=True):
    """The end of a command: exit status (128 plus the signal number if killed), and whether it timed out."""

    status: int
    timed_out: bool = False


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with changes, and register its keys for redaction."""
    merged = {**os.environ, **changes}
    redaction.register_environment(merged)
    return merged


def run(
    argv: Sequence[str], env: Mapping[str, str], log: Path, *, limit_s: float | None, tell: Tell | None
) -> CommandEnd:
    """Run a command to its end. An exception meanwhile, such as Ctrl-C, ends the whole process group.

    Args:
        argv, env: the command and its whole environment.
        log: what it says is added to this file, keys struck out.
        limit_s: seconds after which it is ended.
        tell: also gets each line; None: nobody does.

    Raises:
        PreflightError: it cannot be started.
    """
    try:
        started = processes.start(argv, env, subprocess.PIPE)
    except OSError as error:
        raise PreflightError(f"{argv[0]} cannot be started: {error.strerror}", "Check the path.") from error
    process = started.process
    failed: list[OSError] = []
    copier = threading.Thread(target=_copy, args=(process.stdout, log, tell, failed), daemon=True)
    copier.start()
    timed_out = False
    try:
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
    finally:
        processes.end(started, GRACE_S)
        copier.join(GRACE_S)
    if failed:
        raise StorageError(f"cannot write {log}: {failed[0].strerror}", "Make room, or choose another output folder.")
    status = process.returncode
    return CommandEnd(128 - status if status < 0 else status, timed_out)


def _copy(source: IO[bytes] | None, log: Path, tell: Tell | None, failed: list[OSError]) -> None:
    """Copy output lines to the log; a log that cannot be written does not stop the command."""
    if source is None:
        return
    with source, contextlib.ExitStack() as stack:
        try:
            target: IO[bytes] | None = stack.enter_context(log.open("ab"))
        except OSError as error:
            failed.append(error)
            target = None
        buffer = b""
        while True:
            chunk = os.read(source.fileno(), LONGEST)
            buffer += chunk
            last = max(buffer.rfind(b"\n"), buffer.rfind(b"\r")) + 1
            if not chunk or (not last and len(buffer) > LONGEST):
                last = len(buffer)
            complete, buffer = redaction.redact_bytes(buffer[:last]), buffer[last:]
            try:
                if target is not None and complete:
                    target.write(complete)
                    target.flush()
            except OSError as error:
                failed.append(error)
                target = None
            if tell is not None:
                for line in filter(None, _BREAK.split(complete)):
                    tell(line.decode("utf-8", "replace"))
            if not chunk:
                return
