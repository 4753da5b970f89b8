"""The .env file of the working folder: one reader for all keys and settings in it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from snellen.errors import PreflightError

MOST_BYTES = 1 << 20


def dotenv_value(name: str, path: Path = Path(".env")) -> str | None:
    """Return the value of a variable in .env; None if there is no such file or variable.

    Raises:
        PreflightError: the file cannot be read, or is not UTF-8.
    """
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise PreflightError(
                f"{path.absolute()} is larger than {MOST_BYTES:,} bytes.", "Check that it is a file of settings."
            )
        if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
            raise PreflightError(
                f"{path.absolute()} is UTF-16 or binary; UTF-8 was expected.", "Save it as UTF-8, or set the variable."
            )
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PreflightError(
            f"{path.absolute()}, line {line}: not UTF-8.", "Save it as UTF-8, or set the variable in the environment."
        ) from None
    except OSError as error:
        raise PreflightError(f"{path.absolute()} cannot be read: {error.strerror}.", "Check its permissions.") from None
    # Imported only here: most runs have no .env, and start-up time counts.
    from dotenv import dotenv_values

    return dotenv_values(stream=StringIO(text), interpolate=False).get(name)
