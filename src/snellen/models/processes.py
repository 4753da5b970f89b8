"""Process groups: start a command in its own group, on Linux behind a guard, and end it with all its children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from msgspec import Struct

from snellen.models import subreaper


class ProcessGroup(Struct, frozen=True):
    """A process that leads its group. `guard_pipe` is our end of the pipe that its guard reads; None: no guard."""

    process: subprocess.Popen[bytes]
    guard_pipe: int | None


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    output: IO[bytes] | int,
    errors: IO[bytes] | int = subprocess.STDOUT,
) -> ProcessGroup:
    """Start a command, which reads nothing.

    Args:
        argv, env: the command and its whole environment.
        output, errors: where its streams go: a file, or subprocess.PIPE; without `errors` both go to `output`.

    Raises:
        OSError: it cannot be started.
    """
    # The guard inherits the reading end; ours stays open as long as the group may live.
    reading, guard_pipe = os.pipe() if sys.platform == "linux" else (None, None)
    guard = [] if reading is None else [sys.executable, "-I", subreaper.__file__, str(reading)]
    try:
        process = subprocess.Popen(  # noqa: S603 - a program that the user asked for, no shell
            [*guard, *argv],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            pass_fds=() if reading is None else (reading,),
        )
    except BaseException:
        if guard_pipe is not None:
            os.close(guard_pipe)
        raise
    finally:
        if reading is not None:
            os.close(reading)
    return ProcessGroup(process, guard_pipe)


def end(group: ProcessGroup, grace_s: float, ask: Callable[[], object] | None = None) -> None:
    """End a group; nothing of it is left on return. A second Ctrl-C shortens the grace and nothing else.

    Args:
        group: what to end; its leader may be gone already.
        grace_s: seconds between being asked to end and being killed.
        ask: asks it to end, in place of SIGTERM to the group; may raise subprocess.TimeoutExpired.
    """
    process = group.process
    try:
        if ask is not None:
            ask()
        else:
            tell(process.pid, signal.SIGTERM)
        process.wait(grace_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass  # it had its time
    finally:
        if group.guard_pipe is not None:
            os.close(group.guard_pipe)  # the guard ends what is left, also what has left the group
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
        tell(process.pid, signal.SIGKILL)  # the leader may be gone and the group not
        process.wait()


def tell(group: int, number: signal.Signals) -> None:
    """Send a signal to all of a process group, if there still is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
