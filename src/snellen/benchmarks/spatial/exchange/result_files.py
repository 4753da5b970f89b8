"""Which files of a folder hold a harness's answers to one benchmark.

lmms-eval writes `<time>_samples_<task>.jsonl`, for BLINK one a subtask; of several runs in a folder the last by name counts,
as for EASI. VLMEvalKit writes `<model>_<data>.xlsx` (or tsv, csv) and, beside it, tables that its scorers made of it, which
are read where the first is not there.
"""

from __future__ import annotations

import re
from pathlib import Path

from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import DataError
from snellen.formats.base import Problems

HALVES = ("image", "video")
SCORED = ("_exact_matching_result", "_extract_matching", "_llm_")
OTHER_SETS = ("debiased", "pruned", "tiny")
_SAMPLES = re.compile(r"(?:.*_)?samples_(?P<task>.+)\.jsonl", re.IGNORECASE)
_FRAMES = r"(?:_\d+frame|_\d+(?:\.\d+)?fps)?"


def of_folder(task: Task, part: str, folder: Path, problems: Problems) -> list[Path]:
    """The files of one benchmark, or of one half of SITE, in order of their names; none where the folder has none.

    Files that are passed over for a later one are noted.

    Raises:
        DataError: it has files of several variants of the task, of several models, or of both harnesses.
    """
    return of_files(task, part, sorted(path for path in folder.iterdir() if path.is_file()), problems)


def of_files(task: Task, part: str, files: list[Path], problems: Problems) -> list[Path]:
    """The same of files in order of their names."""
    at = HALVES.index(part) if part else 0
    lmms = _samples(task.lmms.split(", ")[at], files, problems)
    kit = _tables(task.kit.split(", ")[at], files)
    if lmms and kit:
        raise DataError(
            f"{lmms[0].parent}: answers of lmms-eval ({lmms[0].name}) and of VLMEvalKit ({kit[0].name}) to one benchmark",
            "Give one of the files.",
        )
    return lmms or kit


def require_own(task: Task, path: Path) -> None:
    """Refuse a file that a harness named after another benchmark: many tables have the columns of several.

    Args:
        task: whose answers are asked for; of SITE either half's.
        path: one file; a name that is no harness's says nothing.

    Raises:
        DataError: it is named after another benchmark, and not after this one.
    """
    named = [other for other, half in _names() if of_files(TASKS[other], half, [path], Problems())]
    if not named or task.name in named:
        return
    raise DataError(
        f"{path}: by its name these are answers to {' or '.join(named)}, not to {task.name}",
        f"Score it with --benchmark {named[0]}, or give it another name if that one is wrong.",
    )


def _names() -> list[tuple[str, str]]:
    return [(name, half) for name in TASKS for half in (HALVES if name == "site" else ("",))]


def is_variant(name: str, task: str) -> bool:
    """Whether a task of lmms-eval's asks the questions of `task`, if need be in another way: `vsibench` is
    `vsibench_multiimage` with videos in place of frames, while the debiased and the tiny sets are others. Parts of BLINK are
    its variants."""
    stem = re.sub(r"_(multiimage|circular|u50|test)$", "", task)
    return (name == stem or name.startswith(f"{stem}_")) and all((one in name) == (one in task) for one in OTHER_SETS)


def _samples(task: str, files: list[Path], problems: Problems) -> list[Path]:
    last: dict[str, Path] = {}
    for path in files:
        hit = _SAMPLES.fullmatch(path.name)
        name = hit["task"] if hit else ""
        if not is_variant(name, task):
            continue
        if name in last:
            problems.add(last[name].name, f"passed over for {path.name}, which is of the same task and later")
        last[name] = path
    if task == "blink":
        subtasks = {name: path for name, path in last.items() if name.startswith("blink_")}
        return list(subtasks.values()) or list(last.values())
    if task in last:
        return [last[task]]
    if len(last) > 1:
        raise DataError(
            f"{files[0].parent}: samples of {', '.join(last)}, each of them a variant of {task}",
            "Give one of the files.",
        )
    return list(last.values())


def _tables(data: str, files: list[Path]) -> list[Path]:
    stem = re.sub(r"_\d+frame$", "", data)
    named = re.compile(rf"(?:.*_)?{re.escape(stem)}{_FRAMES}(?P<rest>|_.*)\.(?:xlsx|csv|tsv)", re.IGNORECASE)
    found = [(hit["rest"], path) for path in files if (hit := named.fullmatch(path.name))]
    for wanted in ("", *SCORED):
        some = [path for rest, path in found if (rest.startswith(wanted) if wanted else not rest)]
        if len(some) > 1:
            raise DataError(
                f"{some[0].parent}: {', '.join(path.name for path in some[:6])} all hold answers to {data}",
                "Give one of the files.",
            )
        if some:
            return some
    return []
