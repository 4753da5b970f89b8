"""Signal that asked this process to end, and its exit status: 128 and the signal's number."""

from __future__ import annotations

import signal

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
