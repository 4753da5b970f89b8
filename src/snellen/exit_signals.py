"""Signals that end a command: SIGTERM and SIGHUP act like Ctrl-C, from the first import to the last line.

The exit status differs: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
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
    """Return 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (received() or signal.SIGINT)


def by_what() -> str:
    """Name the cause of the end for people."""
    number = received() or signal.SIGINT
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


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

    Ignored signals stay ignored: `nohup` ignores SIGHUP.
    """
    forget()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in numbers}
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
