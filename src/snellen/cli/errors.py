"""Error messages: cause, remedy and exit status; tracebacks only with SNELLEN_DEBUG."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import snellen
from snellen.cli.console import note
from snellen.errors import SnellenError, open_files_advice

DEBUG = "SNELLEN_DEBUG"
ADVICE = "Check the path, its permissions and the free disk space."
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
    """Return the error for what the machine refuses, such as a file or a full disk; None for other exceptions."""
    from snellen.errors import DataError, StorageError

    if isinstance(error, MemoryError):
        return DataError(
            f"memory ran out{f': {error}' if str(error) else ''}",
            "Free memory, or split the input into smaller files.",
        )
    if isinstance(error, BrokenPipeError) or not isinstance(error, OSError) or error.errno is None:
        return None
    path = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
    kind = StorageError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else DataError
    return kind(f"{path}{error.strerror or error}", open_files_advice(error) or ADVICE)


def tell_unexpected(error: Exception) -> int:
    """Print a fault of Snellen itself, with what is needed to report it; return the exit status."""
    traceback.print_exception(error)
    print(
        f"snellen: this is a fault in snellen {snellen.__version__}: {type(error).__name__}: {error}\n"
        "  Recorded results are intact. Please report the fault with the lines above (keys are redacted) "
        "and the output of `snellen doctor`.",
        file=sys.stderr,
    )
    return UNEXPECTED
