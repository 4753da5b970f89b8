"""Text of the command line and of paths: UTF-8 everywhere, whatever the locale says."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def speak_utf8() -> None:
    """Begin again in Python's UTF-8 mode where the locale knows ASCII only, as with LC_ALL=C and PYTHONUTF8=0.

    Paths and texts with umlauts could not be named there. The process keeps its id, its streams and its arguments.
    """
    if sys.flags.utf8_mode or sys.getfilesystemencoding().lower() not in ("ascii", "us-ascii", "ansi_x3.4-1968"):
        return
    words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    sys.stdout is None or sys.stdout.flush()
    os.execv(sys.executable, words)  # noqa: S606 - this very program


def require_text(words: Sequence[str]) -> None:
    """Refuse arguments that are no text: bytes that are not UTF-8, halves of characters.

    Raises:
        UsageError: with the first of them.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            from snellen.errors import UsageError  # only here: it imports msgspec, and every start comes by here

            raise UsageError(
                f"the argument {word[:200]!a} is not UTF-8 at character {error.start + 1}",
                "Give it in UTF-8; a file or folder of such a name can be renamed.",
            ) from None
