"""The largest memory that a process has held, by Linux's own count.

`resource.getrusage(...).ru_maxrss` is not used: a child inherits its parent's, so that under a large parent no growth is
seen, or one that is not there.
"""

from __future__ import annotations

from pathlib import Path

PEAK_KB = """int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))"""
"""A Python expression, for a program of its own: kilobytes since it began."""


def peak_kb() -> int:
    """Return the kilobytes that this process has held at most since it began, or since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def forget_peak() -> None:
    """Begin to count again, from what this process holds now."""
    Path("/proc/self/clear_refs").write_text("5")
