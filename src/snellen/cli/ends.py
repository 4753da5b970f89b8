"""How a command is ended from outside: SIGTERM does what Ctrl-C does, from the first import to the last line."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130
"""Exit status of a command that was ended by Ctrl-C or SIGTERM."""


@contextlib.contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """In this block SIGTERM goes to whatever hears Ctrl-C; only the main thread of a program can hear either."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # an event loop hears Ctrl-C in a way of its own
        handler(signal.SIGINT, frame)
        return
    raise KeyboardInterrupt  # a shell's job in the background ignores Ctrl-C, and must end all the same
