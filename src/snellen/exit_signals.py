"""Signals that end a command as Ctrl-C does, from the first import to the last line: SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2.

Schedulers send the last two before a time limit (`#SBATCH --signal=USR1@300`). The exit status is 128 and the signal's number.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_OF_PROGRAMS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""Signals that a program which calls this package may use for purposes of its own."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)) + _OF_PROGRAMS
_received: list[int] = []


def note(number: int) -> None:
    """Remember a signal; the first one counts."""
    _received.append(number)


def forget() -> None:
    """Forget the signal, before another command runs in the same process."""
    _received.clear()


def received() -> int | None:
    """Return the first signal that asked for an end; None if none did."""
    return _received[0] if _received else None


def exit_status() -> int:
    """Return 130 for Ctrl-C, 143 for SIGTERM: 128 and the number of the first signal."""
    return 128 + (received() or signal.SIGINT)


def by_what() -> str:
    """Name the cause of the end for people."""
    number = received() or signal.SIGINT
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def free_to_end() -> list[int]:
    """Return the signals of ENDING that are not ignored (`nohup` ignores SIGHUP) and not in use by the program that calls."""
    handlers = {number: signal.getsignal(number) for number in ENDING}
    unused = (signal.SIG_DFL, _interrupt)
    return [
        number
        for number, handler in handlers.items()
        if handler != signal.SIG_IGN and (number not in _OF_PROGRAMS or handler in unused)
    ]


def occupy_closed_streams() -> None:
    """Open the null device in place of a closed stdin, stdout or stderr.

    Otherwise the next opened file would get its number, and output would be written into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


@contextlib.contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Pass these signals to the handler of Ctrl-C in this block; only a main thread can handle signals.

    Ignored signals stay ignored, as `free_to_end` says.
    """
    forget()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in free_to_end()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def status_of(status: int) -> int:
    """Return the exit status of a command that ended with `status`: the signal's, if one ended it.

    For a server, Ctrl-C is the regular end, and its status stays 0.
    """
    number = received()
    if number is None or status not in (0, 128 + signal.SIGINT):
        return status
    return status if number == signal.SIGINT else exit_status()


def _interrupt(number: int, frame: FrameType | None) -> None:
    note(number)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # an event loop has its own handler of Ctrl-C
        handler(signal.SIGINT, frame)
        return
    raise KeyboardInterrupt  # a background job of a shell ignores Ctrl-C, but must end on these signals
