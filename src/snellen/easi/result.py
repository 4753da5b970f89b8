"""EASI results: one benchmark of one model, from Snellen's runs or from files of lmms-eval and VLMEvalKit.

`locate_results` finds the answers, `snellen.easi.score.score_result` scores them. Submissions and comparisons with
EASI's published scores use the same type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snellen.benchmarks.spatial.interop.results import benchmark_files
from snellen.benchmarks.spatial.reference.published import Figures
from snellen.benchmarks.spatial.tasks import MORE, TASKS, Task
from snellen.easi.names import PARTS
from snellen.engine.run_folder import runs_in
from snellen.errors import UsageError
from snellen.formats.base import Problems
from snellen.formats.readers import JSON_LINES
from snellen.runs.run import Run, load_run
from snellen.runs.run_paths import left_out
from snellen.types import Metric

_NAMES = f"These are: {', '.join(TASKS)}."
_TIMED = re.compile(r"T\d{8}_G.+")


@dataclass(frozen=True)
class AnswerSource:
    """Answers to one benchmark, or to one half of SITE.

    Attributes:
        task: the benchmark.
        half: image or video for one half of SITE, else empty.
        run: a run of Snellen; None for files of another harness.
        form: `snellen`, `lmms` (lmms-eval) or `kit` (VLMEvalKit).
        paths: the files of another harness.
    """

    task: Task
    half: str = ""
    run: Run | None = None
    form: str = "snellen"
    paths: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """The path that messages name."""
        return str(self.run.path if self.run is not None else self.paths[0])


@dataclass(frozen=True)
class BenchmarkResult:
    """One benchmark of one model: its answers and, once scored, its metrics.

    Attributes:
        task: the benchmark.
        sources: one source, or the two halves of SITE.
        metrics: by name, under the profile it was scored with.
        done: answered questions.
        expected: questions of the full set.
        faults: reasons why it is incomplete, one line each; empty if complete.
        provenance: model, data and settings that produced it, for easi_provenance.json.
    """

    task: Task
    sources: tuple[AnswerSource, ...]
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    done: int = 0
    expected: int = 0
    faults: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def half(self) -> str:
        """image or video if only that half of SITE is present, else empty."""
        return self.sources[0].half if len(self.sources) == 1 else ""

    @property
    def name(self) -> str:
        """Snellen's name of the benchmark; `site/image` for half of SITE."""
        return f"{self.task.name}/{self.half}" if self.half else self.task.name

    @property
    def id(self) -> str:
        """The key in EASI's payload, with the half of SITE."""
        return f"{self.task.id}/{self.half}" if self.half else self.task.id

    @property
    def runs(self) -> list[Run]:
        return [source.run for source in self.sources if source.run is not None]

    @property
    def overall(self) -> Metric:
        return self.metrics.get("overall", Metric("overall", None, 0, coverage=0.0))

    @property
    def coverage(self) -> float:
        """Answered share of the full set, 0 to 1."""
        return min(1.0, self.done / self.expected) if self.expected else 0.0

    @property
    def complete(self) -> bool:
        """True if every question of the full set has a scored answer."""
        return not self.faults and self.coverage >= 1.0

    def figures(self) -> Figures:
        """Return the payload's scores: none for half of SITE, nor without any answer."""
        if self.overall.value is None or self.half or not self.done:
            return Figures(None)
        values = {name: metric.value for name, metric in self.metrics.items()}
        return Figures(self.overall.value, {key: values.get(key) for key in sub_keys(self.task)})


def sub_keys(task: Task) -> tuple[str, ...]:
    """Return the leaderboard's sub-score keys of a benchmark, in its order."""
    if task.name != "3dsrbench":
        return task.keys
    return (*task.keys, "overall", *(f"circ_eval_{key}" for key in task.keys), "circ_eval_overall")


def locate_results(
    paths: Sequence[str | Path], *, trust: bool = False, say: Callable[[str], None] = lambda line: None
) -> dict[str, BenchmarkResult]:
    """Locate the answers of one model, by task name in EASI's order; nothing is scored. `trust` as for `load_run`.

    Several paths may hold more than spatial results, as `eval_results/*` does: `say` is told what is left out.

    Raises:
        UsageError: a path without a spatial benchmark, two results for one benchmark, or results of two models.
        RunError, DataError: a result cannot be read.
    """
    results = by_benchmark(find_sources(paths, trust=trust, say=say))
    models = model_names(results)
    if len(models) > 1:
        raise UsageError(
            f"the runs are of {len(models)} models: {', '.join(models)}",
            "A submission is about one model: name its runs.",
        )
    return results


def by_benchmark(sources: Iterable[AnswerSource]) -> dict[str, BenchmarkResult]:
    """Return the results of answers by task name, in EASI's order, sets without a place there last. Raises UsageError for two results of one benchmark."""
    located: dict[str, list[AnswerSource]] = {name: [] for name in (*TASKS, *MORE)}
    for source in sources:
        located[source.task.name].append(source)
    for name, found in located.items():
        halves = [source.half for source in found]
        if len(found) > 1 and sorted(halves) != list(PARTS):
            raise UsageError(
                f"there are {len(found)} results of {name}: {', '.join(source.name for source in found)}",
                "Name the folders one by one, with one result for each benchmark.",
            )
    return {
        name: BenchmarkResult(TASKS.get(name) or MORE[name], tuple(found)) for name, found in located.items() if found
    }


def model_names(results: Mapping[str, BenchmarkResult]) -> list[str]:
    """Return the models of Snellen's runs, as the runs name them."""
    return sorted({run.meta.spec.model for result in results.values() for run in result.runs})


def payload_backend(results: Mapping[str, BenchmarkResult]) -> str:
    """Return the payload's `backend`: vlmevalkit or lmmseval if all answers are from it, else others."""
    forms = {source.form for result in results.values() for source in result.sources}
    return {"lmms": "lmmseval", "kit": "vlmevalkit"}.get(forms.pop(), "others") if len(forms) == 1 else "others"


def find_sources(
    paths: Sequence[str | Path],
    *,
    further: bool = False,
    trust: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> list[AnswerSource]:
    """Find the answers at paths: runs, folders of runs, and results of other harnesses; `trust` as for `load_run`.

    A judge's run about one of the runs is not named: its verdicts are read with that run. With `further`, runs of the spatial
    sets that the payload has no place for are found too.

    Raises:
        UsageError: a path does not exist, or none has answers to a spatial benchmark.
        RunError, DataError: a result cannot be read.
    """
    sources: list[AnswerSource] = []
    others: list[Run] = []
    without: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise UsageError(
                f"{path} does not exist", "Give run folders, or result folders of lmms-eval or VLMEvalKit."
            )
        runs = [load_run(folder, trust=trust) for folder in runs_in(path)]
        by_run = [(run, _of_run(run, further=further)) for run in runs]
        found = [source for _, source in by_run if source is not None] if runs else list(_of_harness_files(path))
        others += [run for run, source in by_run if source is None]
        if not runs and not found:
            without.append(path)
        sources += found
    if not sources:
        raise _nothing(paths, others)
    judged = {source.run.path.resolve() for source in sources if source.run is not None}
    left_out(say, without, "has no results of a spatial benchmark")
    for run in others:
        about = run.meta.spec.data.path
        if not (run.meta.judges and about is not None and about.resolve() in judged):
            say(f"{run.path} is a run of {run.meta.spec.benchmark}, which is not an EASI benchmark, and is left out")
    return sources


def _nothing(paths: Sequence[str | Path], others: Sequence[Run]) -> UsageError:
    """Return the error where no path has answers to a spatial benchmark."""
    if others:
        first = others[0]
        return UsageError(
            f"{first.path} is a run of {first.meta.spec.benchmark}, which is not an EASI benchmark", _NAMES
        )
    return UsageError(
        f"{', '.join(map(str, paths[:3]))}: no run of a spatial benchmark and no results of lmms-eval or VLMEvalKit",
        f"Expected runs of {', '.join(TASKS)}, files *_samples_<task>.jsonl, or <model>_<data>.xlsx.",
    )


def _of_run(run: Run, *, further: bool) -> AnswerSource | None:
    if further and (task := MORE.get(run.meta.spec.benchmark)) is not None:
        return AnswerSource(task, run=run)
    name, _, half = run.meta.spec.benchmark.partition("/")
    known = name in TASKS and (not half or (name == "site" and half in PARTS))
    return AnswerSource(TASKS[name], half, run=run) if known else None


def _of_harness_files(path: Path) -> Iterator[AnswerSource]:
    """Yield results of lmms-eval or VLMEvalKit by file name, in EASI's order.

    They are in the model's own folder. VLMEvalKit may only link them from there to the last of its folders
    `T<date>_G<hash>`.

    Raises:
        DataError: several files answer one benchmark, and none is the latest.
    """
    folders = [[path]]
    if path.is_dir():
        timed = sorted(folder for folder in path.iterdir() if folder.is_dir() and _TIMED.fullmatch(folder.name))
        folders = [sorted(file for file in folder.iterdir() if file.is_file()) for folder in (path, *timed[-1:])]
    for task in TASKS.values():
        for half in PARTS if task.name == "site" else ("",):
            for files in folders:
                if matches := benchmark_files(task, half, files, Problems()):
                    form = "lmms" if matches[0].suffix.lower() in JSON_LINES else "kit"
                    yield AnswerSource(task, half, form=form, paths=tuple(matches))
                    break
