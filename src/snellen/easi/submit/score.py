"""What a model's results come to on the twelve spatial benchmarks: figures, how whole they are, and how they were made.

Results are runs of ours, or what lmms-eval and VLMEvalKit wrote about each sample. Their replies are scored here, by one
profile for all of them; figures that they made themselves are not taken over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.spatial import SPATIAL
from snellen.benchmarks.spatial.prompts.wordings import FORMS
from snellen.benchmarks.spatial.reference.published import Figures
from snellen.benchmarks.spatial.scorers.constants import CONSTANTS
from snellen.benchmarks.spatial.tasks import Task
from snellen.easi import judged_scores
from snellen.easi.submit.results import Given
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError
from snellen.formats.base import Problems
from snellen.runs import scoring
from snellen.runs.export import in_order
from snellen.runs.judge.verdicts import Verdicts, read
from snellen.runs.run import Run
from snellen.runs.status import present_state
from snellen.scoring.record import score_record
from snellen.scoring.rubric import built_in
from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics import with_cluster
from snellen.text import slug
from snellen.types import Metric, Record, Sample, Score

LEAST = {"3dsrbench": 2772}
"""Where nobody says how many rows the whole set has: its questions before they are rotated and flipped."""
Row = Callable[[Task, Sample, Record, Score], None]


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
        """What the payload has of it: no figure for half of SITE, nor where nothing was answered."""
        if self.overall.value is None or self.made.get("half") or not self.done:
            return Figures(None)
        values = {name: metric.value for name, metric in self.metrics.items()}
        return Figures(self.overall.value, {key: values.get(key) for key in sub_keys(self.task)})


def sub_keys(task: Task) -> tuple[str, ...]:
    """The sub-score keys that the leaderboard knows of a benchmark, in its order."""
    if task.name != "3dsrbench":
        return task.keys
    return (*task.keys, "overall", *(f"circ_eval_{key}" for key in task.keys), "circ_eval_overall")


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
    scoring.profiles_of(benchmark, profile)  # that it is known, before anything is read
    builder = ScoreBuilder()
    rows = done = unscored = count = 0
    faults: list[str] = []
    sources: list[dict[str, Any]] = []
    for one in several:
        problems = Problems()
        before, replies, verdicts = rows, 0, 0
        for sample, record, score in _scored(one, benchmark, profile, problems):
            builder.add(sample, score, record.repeat)
            each(task, sample, record, score)
            rows += 1
            done += record.status in ("ok", "refused")
            unscored += score.value is None
            replies += record.status == "ok"
            verdicts += record.status == "ok" and score.verdict != "unscored"
        of = rows - before
        if one.run is not None:
            spec = one.run.meta.spec
            of = scoring.count(one.run.benchmark, spec.data) * spec.repeats
            faults += _run_faults(one.run)
        elif problems.count:
            faults.append(f"{problems.count:,} rows are odd or cannot be used: {problems.first[0]}")
        count += of
        sources.append({**_made(one, profile, of), "judging": _judging(one, profile, replies, verdicts)})
    if len({bool(_judged(one, profile)) for one in several}) > 1:
        faults.append("one half was judged and the other was not")
    half = several[0].half if len(several) == 1 else ""
    if half:
        faults.insert(0, f"only the {half} half of SITE is there; its figure pools both")
    repeats = max((one.run.meta.spec.repeats for one in several if one.run is not None), default=1)
    whole = (min(task.rows) if task.rows else LEAST.get(task.name, 0)) * repeats
    if count < whole and not half:
        faults.append(f"the data has {count:,} of the {whole:,} questions of the whole set")
    expected = max(count, whole)
    if done < count:
        faults.append(f"{count - done:,} of {count:,} questions have no answer")
    if unscored:
        faults.append(f"{unscored:,} answers are not scored yet")
    metrics = with_cluster(benchmark.summarize(builder.build(expected), profile), benchmark.cluster) if rows else []
    made = {"profile": profile, "half": half, "sources": sources}
    return Standing(task, {metric.name: metric for metric in metrics}, done, expected, tuple(faults), made)


def _scored(
    one: Given, benchmark: Benchmark, profile: str, problems: Problems
) -> Iterator[tuple[Sample, Record, Score]]:
    """Every answer with its question and its score, under the names that the whole benchmark has for them."""
    if one.run is not None:
        yield from _of_judged(one, one.run) if _judged(one, profile) else _of_rules(one, one.run, profile)
    elif one.files is not None:
        own = registry.find(f"{one.task.name}/{one.half}") if one.half else benchmark
        score = own.score[profile]
        for path in one.files.paths:
            pairs = own.results(path, Data(), problems) if own.results is not None else None
            if pairs is None:
                raise DataError(f"{path}: no answers of lmms-eval or VLMEvalKit are in it")
            for sample, record in pairs:
                yield (*_in_half(one.half, sample, record), score_record(sample, record, score))


def _of_rules(one: Given, run: Run, profile: str) -> Iterator[tuple[Sample, Record, Score]]:
    for sample, record in in_order(run):
        score = score_record(sample, record, run.benchmark.score[profile])
        yield (*_in_half(one.half, sample, record), score)


def _of_judged(one: Given, run: Run) -> Iterator[tuple[Sample, Record, Score]]:
    judged = judged_scores.beside(run.folder)
    said = read(judged, run.folder) if judged is not None else Verdicts({}, "")
    schema = built_in(judged_scores.RUBRIC).verdict
    for sample, record in in_order(run):
        score = judged_scores.regraded(run.benchmark, sample, record, said, schema)
        yield (*_in_half(one.half, sample, record), score)


def _judged(one: Given, profile: str) -> RunFolder | None:
    """The whole judged run beside a run, where the profile is the one that a judge works for."""
    return judged_scores.beside(one.run.folder) if one.run is not None and profile == judged_scores.PROFILE else None


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
    if (state := present_state(run.path, run.meta)) != "complete":
        yield f"{run.path.name}: the run is not at its end ({state})"
    if run.benchmark.digest(run.meta.spec.data) != run.meta.identity.get("data"):
        yield f"{run.path.name}: the data, or how its questions are put, is not what it was when they were asked"
    recorded = run.meta.identity.get("benchmark_version")
    if recorded != run.benchmark.version:
        yield f"{run.path.name}: made with version {recorded} of {run.benchmark.name}; this is {run.benchmark.version}"


def _made(one: Given, profile: str, count: int) -> dict[str, Any]:
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
        "gold": run.benchmark.gold(spec.data, str(meta.identity.get("data") or "")) or None,
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
        "judge": _judge(one, profile),
    }


def _judge(one: Given, profile: str) -> dict[str, str] | None:
    """The judge that decided, and the rubric that it went by."""
    folder = _judged(one, profile)
    if folder is None:
        return None
    meta = folder.meta()
    rubric = built_in(judged_scores.RUBRIC)
    return {
        "model": meta.spec.model,
        "fingerprint": meta.fingerprint,
        "rubric": f"{judged_scores.RUBRIC} {rubric.digest}",
    }


def _judging(one: Given, profile: str, replies: int, verdicts: int) -> str:
    """Who judged how many of the replies; `not judged` where rules alone made the score."""
    folder = _judged(one, profile)
    if folder is None or not verdicts:
        return "not judged"
    return f"judged by {folder.meta().spec.model}: {verdicts:,} of {replies:,} replies"


def _frames(task: Task, half: str, options: Mapping[str, str]) -> int | str | None:
    """How many frames of a video were shown at most, or how many a second (`2fps`); None where no video is."""
    own = CONSTANTS["frames"]
    shown = {"vsi-bench": "video", "vsi-debiased": "video", "site": "video", "mmsi-video-bench": "mmsi_video"}
    if task.name not in shown or half == "image":
        return None
    asked = options.get("sample-frames") or str(own[shown[task.name]])
    return int(asked) if asked.isdecimal() else asked


def file_stem(name: str) -> str:
    """A name as a part of a file's name: letters, digits, hyphens, underscores, single points."""
    return re.sub(r"\.{2,}", ".", slug(name)) or "model"
