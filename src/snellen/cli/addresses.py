"""Addresses among a command's words: s3://bucket/runs/x becomes the path of its local copy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snellen.cli.benchmark_options import own_options
from snellen.cli.console import note
from snellen.cli.suggestions import descend
from snellen.errors import UsageError
from snellen.sources.hub import hub_file, is_hub_file
from snellen.sources.remote import is_remote, is_web_file, local_copy

READING = ("run", "check", "score", "compare", "report", "view", "query", "features")
READ_OPTIONS = ("--images", "--data", "--benchmark", "--labels")


def with_local_copies(root: Any, words: Sequence[str]) -> list[str]:
    """Return the words with each address that a command reads replaced by its copy.

    Raises:
        UsageError: the command or the option writes.
        DataError, MissingExtraError, StorageError: as `local_copy`.
    """
    command, path, _ = descend(root, list(words))
    own = own_options(command) if hasattr(command, "params") else {}
    name = path[0] if path else ""
    has_images = any(word.partition("=")[0] == "--images" for word in words)
    line, option = list(words), ""
    for at, word in enumerate(words):
        key, sign, value = word.partition("=") if word.startswith("--") else (option, "", word)
        option = word if word.startswith("-") and not sign and own.get(word, True) else ""
        is_read = name in READING and (not key or key == "--labels")
        if not is_remote(value) and not (
            is_read and (is_web_file(value) or (name == "features" and is_hub_file(value)))
        ):
            continue
        if name not in READING or (key and key not in READ_OPTIONS):
            what = f"{key} of snellen {name}" if key else f"snellen {name}"
            raise UsageError(
                f"{what} takes no address such as {value}: Snellen reads them and does not write to them.",
                "Use a path of this machine, and copy the result with the service's own program. Addresses are read by: "
                f"{', '.join(READING)}, and by {', '.join(READ_OPTIONS)}.",
            )
        copied = _copied(value, beside=not key and not has_images and name != "features")
        line[at] = (f"{key}=" if sign else "") + str(copied)
        if path == ["features", "import"] and not key and not any(word.startswith("--out") for word in words):
            line += ["--out", copied.stem]  # not beside the copy
    return line


def _copied(address: str, *, beside: bool) -> Path:
    if is_hub_file(address):
        return hub_file(address)
    path, fetched = local_copy(address, beside=beside)
    note(f"{address}: read from its copy {path} ({fetched:,} bytes fetched)")
    return path
