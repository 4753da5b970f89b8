"""Where a model's answers to the twelve benchmarks are: runs of ours, or files of lmms-eval and VLMEvalKit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.easi.submit.files import Found, found_in
from snellen.engine.run_folder import JUDGED, RunFolder
from snellen.errors import UsageError
from snellen.runs.run import Run, load_run

HALVES = ("image", "video")
_NAMES = f"These are: {', '.join(TASKS)}."


@dataclass
class Given:
    """Where the answers to one benchmark are: a run of ours (`run`), or files of another harness (`files`).

    `half` is image or video where it is one half of SITE.
    """

    task: Task
    half: str = ""
    run: Run | None = None
    files: Found | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.run.path if self.run is not None else self.files.paths[0] if self.files is not None else "")


def given(results: Sequence[str | Path], *, trust: bool = False) -> dict[str, list[Given]]:
    """By the task's name, in EASI's order: where its answers are; `trust` as for `load_run`.

    Raises:
        UsageError: nothing of the twelve in one of them, two results for one benchmark, or results of two models.
        RunError, DataError: what is there cannot be read.
    """
    found: dict[str, list[Given]] = {name: [] for name in TASKS}
    for result in results:
        some = list(_in(Path(result), trust=trust))
        if not some:
            raise UsageError(
                f"{result}: neither a run of a spatial benchmark nor results of lmms-eval or VLMEvalKit are in it",
                f"Runs of {', '.join(TASKS)} were looked for, files *_samples_<task>.jsonl, and <model>_<data>.xlsx.",
            )
        for one in some:
            found[one.task.name].append(one)
    for name, several in found.items():
        halves = [one.half for one in several]
        if len(several) > 1 and sorted(halves) != list(HALVES):
            raise UsageError(
                f"there are {len(several)} results of {name}: {', '.join(one.name for one in several)}",
                "One benchmark has one result: name the folders one by one, without the other.",
            )
    _one_model(found)
    return {name: several for name, several in found.items() if several}


def models(found: Mapping[str, Sequence[Given]]) -> list[str]:
    """The models that runs of ours were made with, as they name them."""
    runs = [one.run for several in found.values() for one in several if one.run is not None]
    return sorted({run.meta.spec.model for run in runs})


def backend(found: Mapping[str, Sequence[Given]]) -> str:
    """What the payload calls the harness: vlmevalkit or lmmseval where all answers are from it, else others."""
    forms = {"snellen" if one.files is None else one.files.form for several in found.values() for one in several}
    return {"lmms": "lmmseval", "kit": "vlmevalkit"}.get(forms.pop(), "others") if len(forms) == 1 else "others"


def _in(path: Path, *, trust: bool) -> Iterator[Given]:
    """What a path holds: a run, runs in a folder, or results of another harness."""
    if not path.exists():
        raise UsageError(
            f"{path}: there is nothing", "Give run folders, or folders of lmms-eval's or VLMEvalKit's results."
        )
    if RunFolder(path).exists():
        run = load_run(path, trust=trust)
        if run.meta.spec.benchmark == JUDGED or (one := _of_run(run)) is None:
            raise UsageError(f"{path} is a run of {run.meta.spec.benchmark}, which is none of EASI's", _NAMES)
        yield one
        return
    runs = [folder for folder in sorted(path.iterdir()) if RunFolder(folder).exists()] if path.is_dir() else []
    for folder in runs:
        run = load_run(folder, trust=trust)
        if run.meta.spec.benchmark != JUDGED and (one := _of_run(run)) is not None:
            yield one
    if not runs:
        for file in found_in(path):
            yield Given(TASKS[file.task], file.half, files=file)


def _of_run(run: Run) -> Given | None:
    name, _, half = run.meta.spec.benchmark.partition("/")
    known = name in TASKS and (not half or (name == "site" and half in HALVES))
    return Given(TASKS[name], half, run=run) if known else None


def _one_model(found: Mapping[str, Sequence[Given]]) -> None:
    names = models(found)
    if len(names) > 1:
        raise UsageError(
            f"the runs are of {len(names)} models: {', '.join(names)}",
            "A submission is about one model: name its runs.",
        )
