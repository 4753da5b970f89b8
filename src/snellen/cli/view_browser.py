"""Environment of `snellen view`: whether a browser can be opened, and a token that the user set."""

from __future__ import annotations

import os
import sys

from snellen.errors import UsageError

TOKEN_VARIABLE = "SNELLEN_VIEW_TOKEN"  # noqa: S105 - a name, no token
LEAST_TOKEN = 16


def browser_wanted() -> bool:
    """Return True on a desktop: a terminal, no SSH session, no CI, and a display where one is needed."""
    if not sys.stderr.isatty() or any(os.environ.get(name) for name in ("CI", "SSH_CONNECTION", "SSH_TTY")):
        return False
    return sys.platform in ("win32", "darwin") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    )


def fixed_token() -> str:
    """Return the token of SNELLEN_VIEW_TOKEN, or a new random one. Raises UsageError for one that is easily guessed."""
    from snellen.viewer.security import new_token

    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        return new_token()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise UsageError(
            f"{TOKEN_VARIABLE} must have {LEAST_TOKEN} characters or more, all letters, digits, - or _",
            "Unset it to get a random token.",
        )
    return token
