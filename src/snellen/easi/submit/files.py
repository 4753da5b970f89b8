"""Which files of a folder are lmms-eval's or VLMEvalKit's answers to which of the twelve benchmarks, by their names.

They lie in the model's own folder; VLMEvalKit's may be in the last of the folders `T<date>_G<hash>` in it instead, whose files
it only links from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from snellen.benchmarks.spatial.interop.results import benchmark_files
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.formats.base import Problems
from snellen.formats.readers import JSON_LINES

HALVES = ("image", "video")
_TIMED = re.compile(r"T\d{8}_G.+")


class Found(Struct, frozen=True):
    """Files with the answers to one benchmark, or to one half of SITE; `form` is lmms or kit."""

    task: str
    half: str
    form: str
    paths: tuple[Path, ...]


def found_in(path: Path) -> Iterator[Found]:
    """What a folder, or one file, holds, in EASI's order.

    Raises:
        DataError: several files answer one benchmark, and none is the later one.
    """
    places = [[path]]
    if path.is_dir():
        timed = sorted(folder for folder in path.iterdir() if folder.is_dir() and _TIMED.fullmatch(folder.name))
        places = [sorted(file for file in folder.iterdir() if file.is_file()) for folder in (path, *timed[-1:])]
    for task in TASKS.values():
        for half in HALVES if task.name == "site" else ("",):
            for files in places:
                if some := benchmark_files(task, half, files, Problems()):
                    form = "lmms" if some[0].suffix.lower() in JSON_LINES else "kit"
                    yield Found(task.name, half, form, tuple(some))
                    break
