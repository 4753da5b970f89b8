"""easi_results.json and easi_results.zip of one model, written after every evaluation as EASI's script does.

A benchmark has a score there only if its run is complete; null means not evaluated. The zip holds the answers to all
benchmarks of the model's folder, complete or not. `snellen submit easi` makes its own files, under stricter conditions.

Source: EASI v0.2.2, `<out>/easi_results.json` and `<out>/easi_results.zip`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from snellen.easi.status import Board, whole_runs
from snellen.easi.submit.client import FILE_NAME
from snellen.easi.submit.package import PAYLOAD, prepare_unchecked
from snellen.easi.submit.payload import Metadata
from snellen.engine.journal import storage_error
from snellen.engine.resume import verified_meta
from snellen.engine.run_folder import RunFolder
from snellen.errors import RunError


class ResultFiles(NamedTuple):
    """The files of an evaluation; `missing` names the benchmarks whose score is null because their run is incomplete."""

    payload: Path
    archive: Path
    missing: tuple[str, ...]


def write_result_files(board: Board, details: Metadata, out: Path) -> ResultFiles:
    """Write both files into the model's folder, and again into `out`, where EASI's script puts the newest ones.

    Args:
        board: of the evaluation that has ended.
        details: facts about the model; empty fields are unknown.
        out: the folder that holds the models' folders.

    Raises:
        SnellenError: the answers cannot be read again, or a file cannot be written.
    """
    runs = whole_runs(board.folder)
    incomplete = tuple(path.name for path in runs if not _complete(path))
    places = [board.folder, *([out] if out.resolve() != board.folder.resolve() else [])]
    try:
        with tempfile.TemporaryDirectory(dir=board.folder, prefix=".easi-results-") as temporary:
            folder = prepare_unchecked(runs, details, profile=board.profile, out=Path(temporary), null=incomplete)
            for place in places:
                _put([folder / PAYLOAD, folder / FILE_NAME], place)
    except OSError as error:
        raise storage_error(Path(error.filename or board.folder), error) from error
    return ResultFiles(board.folder / PAYLOAD, board.folder / FILE_NAME, incomplete)


def _complete(path: Path) -> bool:
    try:
        meta = verified_meta(RunFolder(path))
    except RunError:
        return False
    return meta.state == "complete" and meta.coverage.full and not (meta.totals.error or meta.totals.timeout)


def _put(files: Sequence[Path], place: Path) -> None:
    """Copy files to a folder, each in one step."""
    for file in files:
        part = place / f".{file.name}.part"
        shutil.copyfile(file, part)
        part.replace(place / file.name)
