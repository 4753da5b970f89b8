"""STARE's images as VLMEvalKit's table names them, read from the parquet files that the kit unpacks them from.

The kit writes the images of each row to `images/<path of the parquet file, without its ending>/<qid>/<number>.png`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from snellen.errors import DataError
from snellen.sources import salvaged, within
from snellen.sources.parquet_images import ParquetCell
from snellen.sources.safe_paths import regular_file

_PATH = re.compile(r"images/(.+)/([^/]+)/(\d{1,3})\.png")


def packed_image(root: Path, name: str) -> ParquetCell | None:
    """Return the image that a table calls `name`, of a parquet file under `root`; None where there is none."""
    match = _PATH.fullmatch(name)
    if match is None or not root.is_dir():
        return None
    try:
        path = within(root, f"{match[1]}.parquet")
        status = regular_file(path)
        row = _rows(path, status.st_mtime_ns, status.st_size).get(match[2])
    except DataError:
        return None  # the caller says that the image is not there
    return None if row is None else ParquetCell(path, row, "images", int(match[3]))


@lru_cache(maxsize=16)
def _rows(path: Path, changed: int, size: int) -> dict[str, int]:
    """Return row number by qid."""
    numbers: dict[str, int] = {}
    for number, row in salvaged(path, columns=("qid",)):
        if not isinstance(row, DataError):
            numbers.setdefault(str(row["qid"]), number - 1)
    return numbers
