"""Official tables of declared benchmarks: looked for in VLMEvalKit's folder, else fetched, and checked by their digest.

The order is: the user's --data, the file in `$LMUData` or `~/LMUData`, Snellen's cache, and the declared addresses.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from snellen.benchmarks.table.declaration import Declaration, Source
from snellen.errors import DataError, UsageError
from snellen.sources.digests import cache_folder, with_md5
from snellen.sources.remote import fetch, file_name, is_address

FOLDER = "LMUData"
"""Environment variable, and folder in the user's home, where VLMEvalKit keeps its tables."""


def address_of(source: Source) -> str:
    """Return the web address of a source; empty for paths and data sets of the hub."""
    written = "" if source.kind == "hub" else str(getattr(source, source.kind))
    return written if is_address(written) else ""


def table_name(source: Source) -> str:
    """Return the file name under which VLMEvalKit keeps a table."""
    return source.table or file_name(address_of(source))


def kit_folders() -> list[Path]:
    """Return the folders in which VLMEvalKit would keep its tables, the variable's first."""
    named = os.environ.get(FOLDER)
    folders = [Path(named)] if named else []
    return [folder for folder in (*folders, Path.home() / FOLDER) if folder.is_dir()]


def local_table(source: Source) -> Path | None:
    """Return the table in one of VLMEvalKit's folders, by the kit's name or by that of the address."""
    names = dict.fromkeys(name for name in (table_name(source), file_name(address_of(source))) if name)
    paths = (folder / name for folder in kit_folders() for name in names)
    return next((path for path in paths if path.is_file()), None)


@lru_cache(maxsize=64)
def official_table(source: Source) -> Path:
    """Return the path of a table whose source is an address: local, or fetched and checked.

    Raises:
        DataError: no address has it, or the content differs from the declared digest.
    """
    path = local_table(source)
    if path is not None:
        if fault := digest_fault(path, source):
            raise DataError(
                f"{path} is another table than the declared one: {fault}",
                f"Delete it to fetch the declared one, or use it as it is: --data {path}",
            )
        return path
    address = address_of(source)
    cached = cached_table(source)
    if cached.is_file() and not digest_fault(cached, source):
        return cached
    try:
        return fetch([address, *source.mirrors], cached, check=lambda path: _require(path, source), on_size=_note)
    except DataError as error:
        raise DataError(
            f"the table {table_name(source)} could not be fetched: {error.message}",
            f"Fetch {address} yourself and name it: --data FILE. Or put it as {table_name(source)} into the folder that ${FOLDER} names.",
        ) from error


def cached_table(source: Source) -> Path:
    """Return the path of a table in Snellen's cache."""
    return cache_folder() / "tables" / _folder(source) / table_name(source)


def is_here(source: Source) -> bool:
    """Return True if the table of an address lies on this machine."""
    return bool(address_of(source)) and (local_table(source) is not None or cached_table(source).is_file())


def _folder(source: Source) -> str:
    """Return the folder of a table in the cache: one for each content, or for each address without a digest."""
    return source.sha256 or source.md5 or blake2b(address_of(source).encode(), digest_size=16).hexdigest()


def _note(address: str, size: int | None) -> None:
    amount = "" if size is None else f" ({size / 1e6:,.1f} MB)"
    print(f"Fetching {address}{amount}", file=sys.stderr, flush=True)


def _require(path: Path, source: Source) -> None:
    if fault := digest_fault(path, source):
        raise DataError(f"it is another table than the declared one: {fault}")


def digest_fault(path: Path, source: Source) -> str:
    """Return how a file's digest differs from the declared one; empty where it does not, or none is declared."""
    if not source.sha256 and not source.md5:
        return ""
    sha256, md5 = with_md5(path)
    name, own, wanted = (
        ("SHA-256", sha256.removeprefix("sha256:"), source.sha256) if source.sha256 else ("MD5", md5, source.md5)
    )
    return "" if own == wanted.lower() else f"its {name} is {own}, and {wanted.lower()} was expected"


def missing_data(declared: Declaration) -> UsageError:
    """Return the error for a benchmark whose data Snellen cannot fetch: what is needed, and from where."""
    source = declared.source
    images = "" if not source.images and not _needs_images(declared) else " --images FOLDER"
    return UsageError(
        f"{declared.name}: its data is not fetched: {getattr(source, source.kind)} was expected",
        f"Fetch it from {declared.url or 'its authors'}, then type: snellen run {declared.name} --data FILE{images}",
    )


def _needs_images(declared: Declaration) -> bool:
    image = declared.rows.get("image")
    return getattr(image, "folder", False)
