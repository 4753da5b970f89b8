"""UTF-8 for the command line and for paths, in every locale."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def require_utf8_mode() -> None:
    """Restart in Python's UTF-8 mode if the locale is ASCII only, as with LC_ALL=C and PYTHONUTF8=0.

    ASCII cannot express paths and texts with umlauts. The process keeps its id, streams and arguments.
    """
    if sys.flags.utf8_mode or sys.getfilesystemencoding().lower() not in ("ascii", "us-ascii", "ansi_x3.4-1968"):
        return
    words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    sys.stdout is None or sys.stdout.flush()
    os.execv(sys.executable, words)  # noqa: S606 - this program itself


def require_text(words: Sequence[str]) -> None:
    """Refuse arguments that are not text: bytes that are not UTF-8, and lone surrogates.

    Raises:
        UsageError: an argument is not text; it names the first one.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            from snellen.errors import UsageError  # lazy: it imports msgspec, which --help does not need

            raise UsageError(
                f"the argument {word[:200]!a} is not UTF-8 at character {error.start + 1}",
                "Pass UTF-8 text. Rename a file or folder whose name is not UTF-8.",
            ) from None
