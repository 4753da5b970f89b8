"""What a model's results come to on the twelve spatial benchmarks: figures, how whole they are, and how they were made.

Results are runs of ours, or what lmms-eval and VLMEvalKit wrote about each sample. Their replies are scored here, by one
profile for all of them; figures that they made themselves are not taken over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.spatial.benchmarks import SPATIAL
from snellen.benchmarks.spatial.constants import CONSTANTS
from snellen.benchmarks.spatial.prompts import FORMS
from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.engine import rescore
from snellen.engine.folder import RunFolder
from snellen.errors import DataError, UsageError
from snellen.evaluation import JUDGED, Run, load_run
from snellen.exporting import in_order
from snellen.interop.answers import Problems
from snellen.interop.easi_payload import Figures
from snellen.scoring.table import ScoreBuilder
from snellen.submitting.files import Found, found_in
from snellen.types import Metric, Record, Sample, Score

HALVES = ("image", "video")
Row = Callable[[Task, Sample, Record, Score], None]


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


@dataclass(frozen=True)
class Standing:
    """One benchmark.

    Attributes:
        task: which.
        metrics: by name, under the profile that was asked for.
        done: answers that there are.
        expected: answers that the whole set has.
        faults: why it is not whole, one line each; empty where it is.
        made: how it was made, for the file beside the payload.
    """

    task: Task
    metrics: Mapping[str, Metric]
    done: int
    expected: int
    faults: Sequence[str] = ()
    made: Mapping[str, Any] = field(default_factory=dict)

    @property
    def overall(self) -> Metric:
        return self.metrics.get("overall", Metric("overall", None, 0, coverage=0.0))

    @property
    def coverage(self) -> float:
        """Answers that there are of those that the whole set has, 0 to 1."""
        return min(1.0, self.done / self.expected) if self.expected else 0.0

    def figures(self) -> Figures:
        """What the payload has of it; half of SITE is no SITE."""
        if self.overall.value is None or self.made.get("half"):
            return Figures(None)
        return Figures(
            self.overall.value, {key: self.metrics[key].value for key in sub_keys(self.task) if key in self.metrics}
        )


def sub_keys(task: Task) -> tuple[str, ...]:
    """The sub-score keys that the leaderboard knows of a benchmark, in its order."""
    if task.name != "3dsrbench":
        return task.keys
    return (*task.keys, "overall", *(f"circ_eval_{key}" for key in task.keys), "circ_eval_overall")


def given(results: Sequence[str | Path]) -> dict[str, list[Given]]:
    """By the task's name, in EASI's order: where its answers are.

    Raises:
        UsageError: nothing of the twelve in one of them, two results for one benchmark, or results of two models.
        RunError, DataError: what is there cannot be read.
    """
    found: dict[str, list[Given]] = {name: [] for name in TASKS}
    for result in results:
        some = list(_in(Path(result)))
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


def standing(several: Sequence[Given], profile: str, each: Row) -> Standing:
    """Score the answers to one benchmark.

    Args:
        several: one result, or the two halves of SITE.
        profile: under whose rules.
        each: sees every row.

    Raises:
        SnellenError: the answers or their questions cannot be read; see snellen.errors.
    """
    task = several[0].task
    benchmark = SPATIAL[task.name]
    scorer = rescore.profiles_of(benchmark, profile)
    builder = ScoreBuilder()
    rows = done = unscored = count = 0
    faults: list[str] = []
    sources: list[dict[str, Any]] = []
    for one in several:
        problems = Problems()
        before = rows
        for sample, record in _pairs(one, benchmark, problems):
            score = rescore.scores_of(benchmark, sample, record, scorer)[profile]
            builder.add(sample, score, record.repeat)
            each(task, sample, record, score)
            rows += 1
            done += record.status in ("ok", "refused")
            unscored += score.value is None
        of = rows - before
        if one.run is not None:
            spec = one.run.meta.spec
            of = rescore.count(one.run.benchmark, spec.data) * spec.repeats
            faults += _run_faults(one.run)
        elif problems.count:
            faults.append(f"{problems.count:,} rows are odd or cannot be used: {problems.first[0]}")
        count += of
        sources.append(_made(one, of))
    half = several[0].half if len(several) == 1 else ""
    if half:
        faults.insert(0, f"only the {half} half of SITE is there; its figure pools both")
    repeats = max((one.run.meta.spec.repeats for one in several if one.run is not None), default=1)
    whole = min(task.rows) * repeats if task.rows else 0
    if count < whole and not half:
        faults.append(f"the data has {count:,} of the {whole:,} questions of the whole set")
    expected = max(count, whole)
    if done < count:
        faults.append(f"{count - done:,} of {count:,} questions have no answer")
    if unscored:
        faults.append(f"{unscored:,} answers are not scored yet")
    metrics = benchmark.summarize(builder.build(expected), profile) if rows else []
    made = {"profile": profile, "half": half, "sources": sources}
    return Standing(task, {metric.name: metric for metric in metrics}, done, expected, tuple(faults), made)


def _in(path: Path) -> Iterator[Given]:
    """What a path holds: a run, runs in a folder, or results of another harness."""
    if not path.exists():
        raise UsageError(
            f"{path}: there is nothing", "Give run folders, or folders of lmms-eval's or VLMEvalKit's results."
        )
    if RunFolder(path).exists():
        run = load_run(path)
        if run.meta.spec.benchmark == JUDGED or (one := _of_run(run)) is None:
            raise UsageError(f"{path} is a run of {run.meta.spec.benchmark}, which is none of EASI's", _NAMES)
        yield one
        return
    runs = [folder for folder in sorted(path.iterdir()) if RunFolder(folder).exists()] if path.is_dir() else []
    for folder in runs:
        run = load_run(folder)
        if run.meta.spec.benchmark != JUDGED and (one := _of_run(run)) is not None:
            yield one
    if not runs:
        for file in found_in(path):
            yield Given(TASKS[file.task], file.half, files=file)


_NAMES = f"These are: {', '.join(TASKS)}."


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


def _pairs(one: Given, benchmark: Benchmark, problems: Problems) -> Iterator[tuple[Sample, Record]]:
    """(sample, record), under the names that the whole benchmark has for them."""
    if one.run is not None:
        found, recorded = one.run.benchmark.digest(one.run.meta.spec.data), one.run.meta.identity.get("data")
        if found != recorded:
            raise DataError(
                f"{one.run.path}: the run's data has digest {recorded}, what lies there now {found}",
                "Put back the data that the questions were made from; its place is in run_meta.json.",
            )
        for sample, record in in_order(one.run):
            yield _in_half(one.half, sample, record)
    elif one.files is not None:
        for path in one.files.paths:
            # SITE's files say themselves which half they are of.
            pairs = benchmark.results(path, Data(), problems) if benchmark.results is not None else None
            if pairs is None:
                raise DataError(f"{path}: no answers of lmms-eval or VLMEvalKit are in it")
            yield from pairs


def _in_half(half: str, sample: Sample, record: Record) -> tuple[Sample, Record]:
    if not half:
        return sample, record
    name, group = f"{half}/{sample.id}", f"{half}/{sample.group}" if sample.group else ""
    return (
        structs.replace(sample, id=name, group=group, meta={**sample.meta, "task": half}),
        structs.replace(record, sample_id=name),
    )


def _run_faults(run: Run) -> Iterable[str]:
    coverage = run.meta.coverage
    if not coverage.full:
        yield f"{run.path.name}: only the first {coverage.limit:,} questions were asked (--limit)"
    if run.meta.state != "complete":
        yield f"{run.path.name}: the run is not at its end ({run.meta.state})"
    recorded = run.meta.identity.get("benchmark_version")
    if recorded != run.benchmark.version:
        yield f"{run.path.name}: made with version {recorded} of {run.benchmark.name}; this is {run.benchmark.version}"


def _made(one: Given, count: int) -> dict[str, Any]:
    """How the answers were made, without paths and endpoints."""
    if one.files is not None:
        harness = {"lmms": "lmms-eval", "kit": "VLMEvalKit"}[one.files.form]
        return {"harness": harness, "files": [path.name for path in one.files.paths], "questions": count}
    run = one.run
    if run is None:
        return {}
    meta, spec = run.meta, run.meta.spec
    options = {name: value for name, value in spec.data.options.items() if not set("/\\") & set(value)}
    return {
        "harness": "snellen",
        "run": run.path.resolve().name,
        "benchmark": run.benchmark.name,
        "benchmark_version": meta.identity.get("benchmark_version"),
        "fingerprint": meta.fingerprint,
        "data": meta.identity.get("data"),
        "prompts": meta.identity.get("prompts"),
        "prompting": options.get("prompting", FORMS[0]),
        "frames": _frames(one.task, one.half, options),
        "options": options,
        "generation": msgspec.to_builtins(spec.options.generation),
        "media": msgspec.to_builtins(spec.options.media),
        "seed": spec.data.seed,
        "repeats": spec.repeats,
        "questions": count,
        "versions": meta.environment.get("versions", {}),
        "judge": None,
    }


def _frames(task: Task, half: str, options: Mapping[str, str]) -> int | None:
    """How many frames of a video were shown at most; None where no video is."""
    own = CONSTANTS["frames"]
    shown = {"vsi-bench": "video", "vsi-debiased": "video", "site": "video", "mmsi-video-bench": "mmsi_video"}
    if task.name not in shown or half == "image":
        return None
    return int(options.get("sample-frames") or own[shown[task.name]])


def file_stem(name: str) -> str:
    """A name as a part of a file's name: letters, digits, hyphens, underscores, single points."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._-]+", "-", name)).strip("-.") or "model"
