"""API keys from the environment or a .env file in the working folder, never from the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence

from snellen import redaction
from snellen.dotenv_file import dotenv_value
from snellen.errors import PreflightError, UsageError
from snellen.redaction.arguments import VARIABLE, may_be_shown

DEFAULT_VARIABLE = "OPENAI_API_KEY"


def find_key(variable: str | None, usual: Sequence[str] = (DEFAULT_VARIABLE,)) -> str | None:
    """Return the API key, registered for redaction, or None where there is none (a local server often wants none).

    Args:
        variable: name of the environment variable that holds the key; None: the first of `usual` that is set.
        usual: the service's own variables.

    The environment wins over .env, as python-dotenv does it.

    Raises:
        PreflightError: a variable was named and is not set, or its value cannot stand in an HTTP header.
        UsageError: what was named is no variable, but perhaps the key itself.
    """
    require_variable(variable)
    names = (variable,) if variable else usual
    name = next((each for each in names if _value(each)), names[0])
    key = _value(name)
    if key:
        redaction.register(key)
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise PreflightError(
            f"The value of {name} holds characters that a key cannot have (spaces, line breaks, non-ASCII).",
            f"Set {name} to the key alone.",
        )
    if len(key) > 1 and key[0] in "\"'`" and key[-1] == key[0]:
        raise PreflightError(
            f"The value of {name} begins and ends with a quotation mark, which is no part of a key.",
            f"Set {name} to the key alone, without quotes (docker --env-file and some editors keep them).",
        )
    if not key and variable is not None:
        raise PreflightError(
            f"The environment variable {variable} is not set, in the environment or in .env.",
            f"Set it (export {variable}=…), write it into .env, or name another one with --key-env.",
        )
    return key or None


def is_set(name: str) -> bool:
    """Return True if a variable is set, in the environment or in .env."""
    return bool(_value(name))


def _value(name: str) -> str:
    return (os.environ.get(name) or dotenv_value(name) or "").strip()


def require_variable(variable: str | None) -> None:
    """Raise UsageError where --key-env is no name of a variable, without a word of it: it may be the key itself."""
    if variable is None or may_be_shown(variable):
        return
    if VARIABLE.fullmatch(variable) and (os.environ.get(variable) or dotenv_value(variable)):
        return
    redaction.register(variable)
    raise UsageError(
        "--key-env takes the name of an environment variable, and what was given is none; it is not shown, since it may "
        "be the key itself.",
        "Set a variable to the key (export MY_KEY=…) and name it: --key-env MY_KEY. A key that was typed into a command "
        "stands in the shell's history: replace it.",
    )
