"""Which files of a folder are lmms-eval's or VLMEvalKit's answers to which of the twelve benchmarks, by their names.

lmms-eval: `<time>_samples_<task>.jsonl`, of several times the last. VLMEvalKit: `<model>_<data>.xlsx` and what its scorers
write beside it, in the model's folder or in the last of the folders `T<date>_G<hash>` in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import UsageError

_SAMPLES = re.compile(r"(?:(?P<time>.*?)_)?samples_(?P<task>.+)\.jsonl")
_TIMED = re.compile(r"T\d{8}_G.+")
_KIT_ENDINGS = ("", "_extract_matching", "_exact_matching_result")
_KIT_FORMS = (".xlsx", ".tsv", ".csv", ".jsonl")
HALVES = ("image", "video")


class Found(Struct, frozen=True):
    """Files with the answers to one benchmark, or to one half of SITE; `form` is lmms or kit."""

    task: str
    half: str
    form: str
    paths: tuple[Path, ...]


def found_in(path: Path) -> Iterator[Found]:
    """What a folder, or one file, holds.

    Raises:
        UsageError: two files answer one benchmark, and neither is the later one.
    """
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    if path.is_dir():
        timed = sorted(folder for folder in path.iterdir() if folder.is_dir() and _TIMED.fullmatch(folder.name))
        files += [file for folder in timed[-1:] for file in sorted(folder.iterdir()) if file.is_file()]
    for task in TASKS.values():
        for half in HALVES if task.name == "site" else ("",):
            lmms, kit = _lmms(task, half, files), _kit(task, half, files)
            if lmms and kit:
                raise UsageError(
                    f"{path}: {lmms[0].name} and {kit[0].name} both answer {task.name}", "Name one of the two files."
                )
            if lmms or kit:
                yield Found(task.name, half, "lmms" if lmms else "kit", tuple(lmms or kit))


def _names(names: str, half: str) -> list[str]:
    """The harness's names of a task, of one half of it where there are two."""
    return [name for name in names.split(", ") if half in name.lower()]


def _lmms(task: Task, half: str, files: list[Path]) -> list[Path]:
    """The last file of each of lmms-eval's tasks that make up the benchmark: one, or BLINK's fourteen."""
    last: dict[str, Path] = {}
    for file in files:
        match = _SAMPLES.fullmatch(file.name)
        if match and any(_is_task(match["task"], name) for name in _names(task.lmms, half)):
            last[match["task"]] = max(file, last.get(match["task"], file), key=lambda one: one.name)
    exact = [last[name] for name in _names(task.lmms, half) if name in last]
    if exact or task.name == "blink":
        return exact or [last[name] for name in sorted(last)]
    if len(last) > 1:
        raise UsageError(
            f"{', '.join(sorted(file.name for file in last.values()))}: all answer {task.name}",
            "Name one of the files.",
        )
    return list(last.values())


def _is_task(found: str, name: str) -> bool:
    """Whether lmms-eval's task is the wanted one, or a variant of it (more frames, the video itself, not circular)."""
    stem = name.removesuffix("_multiimage").removesuffix("_circular")
    same = found == stem or found.startswith(f"{stem}_")
    return same and ("debiased" in found) == ("debiased" in name) and ("tiny" in found) == ("tiny" in name)


def _kit(task: Task, half: str, files: list[Path]) -> list[Path]:
    """The kit's table of predictions, else a table of its scorers, which has the predictions too."""
    for name in _names(task.kit, half):
        stem = re.sub(r"_\d+frame$", "", name)
        for ending in _KIT_ENDINGS:
            wanted = re.compile(rf"(?:.*_)?{re.escape(stem)}(?:_\w+?frame|_[\d.]+fps)?{ending}")
            found = {file.name: file for file in files if file.suffix in _KIT_FORMS and wanted.fullmatch(file.stem)}
            by_form = [file for form in _KIT_FORMS for file in found.values() if file.suffix == form]
            same = [file for file in by_form if by_form and file.suffix == by_form[0].suffix]
            if len(same) > 1:
                raise UsageError(
                    f"{', '.join(sorted(file.name for file in same))}: all answer {task.name}", "Name one of the files."
                )
            if same:
                return same
    return []
