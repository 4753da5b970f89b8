"""How an error reaches the user: what happened, what to do, and an exit status; a traceback only on demand."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import snellen
from snellen.cli.console import note
from snellen.errors import SnellenError

DEBUG = "SNELLEN_DEBUG"
UNEXPECTED = 70
"""Exit status of a fault in Snellen itself (EX_SOFTWARE of sysexits.h)."""


def tell(error: SnellenError) -> int:
    """Print an expected error to stderr and return its exit status."""
    note(f"snellen: {error.message}")
    for line in error.hint.splitlines():
        note(f"  {line}")
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    return error.exit_code


def environment_fault(error: Exception) -> SnellenError | None:
    """The user's words for what the machine refuses: a file that cannot be opened, a full disk. None for other errors."""
    from snellen.errors import DataError, StorageError

    if isinstance(error, MemoryError):
        return DataError(
            f"memory ran out{f': {error}' if str(error) else ''}",
            "Free memory, or split what is read into smaller files.",
        )
    if isinstance(error, BrokenPipeError) or not isinstance(error, OSError) or error.errno is None:
        return None
    path = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
    kind = StorageError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else DataError
    return kind(f"{path}{error.strerror or error}", "Check the path and its permissions, and the room on the disk.")


def tell_unexpected(error: Exception) -> int:
    """Print a fault of the program itself, with what is needed to report it."""
    traceback.print_exception(error)
    print(
        f"snellen: this is a fault in snellen {snellen.__version__}: {type(error).__name__}: {error}\n"
        "  What was recorded is intact. Please report it with the lines above (keys are struck out) "
        "and the output of `snellen doctor`.",
        file=sys.stderr,
    )
    return UNEXPECTED
