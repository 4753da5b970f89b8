"""How a command is ended from outside: SIGTERM and SIGHUP do what Ctrl-C does, from the first import to the last line.

Only the exit status differs: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from snellen import exit_signals

HEARD = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def occupy_closed_streams() -> None:
    """Open the null device in place of a closed stdin, stdout or stderr.

    The next file that is opened would otherwise get its number, and what is printed would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


@contextlib.contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """In this block these signals go to whatever hears Ctrl-C; only the main thread of a program can hear any.

    A signal that is ignored stays so: `nohup` sets SIGHUP aside.
    """
    exit_signals.forget()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in HEARD if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def exit_status(status: int) -> int:
    """The status of a command that ended with `status`: that of the signal, where one ended it.

    A server that Ctrl-C ends has done all that it should, and its status stays 0.
    """
    number = exit_signals.received()
    if number is None or status not in (0, 128 + signal.SIGINT):
        return status
    return status if number == signal.SIGINT else exit_signals.exit_status()


def _interrupt(number: int, frame: FrameType | None) -> None:
    exit_signals.note(number)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # an event loop hears Ctrl-C in a way of its own
        handler(signal.SIGINT, frame)
        return
    raise KeyboardInterrupt  # a shell's job in the background ignores Ctrl-C, and must end all the same
