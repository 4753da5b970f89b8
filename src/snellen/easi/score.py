"""Scores of a model's answers on the twelve spatial benchmarks, with completeness and provenance.

Results are runs of ours, or what lmms-eval and VLMEvalKit wrote about each sample. Their replies are scored here, by one
profile for all of them; figures that they made themselves are not taken over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.spatial import FURTHER, SPATIAL
from snellen.benchmarks.spatial.prompts.words import FORMS, whose_words
from snellen.benchmarks.spatial.tasks import Task
from snellen.easi import judged_scores
from snellen.easi.result import AnswerSource, BenchmarkResult
from snellen.engine.run_folder import RunFolder, RunMeta
from snellen.errors import DataError
from snellen.formats.base import Problems
from snellen.runs import scoring
from snellen.runs.export import in_order
from snellen.runs.judge.verdicts import read
from snellen.runs.run import Run
from snellen.runs.status import ENDED, present_state
from snellen.scoring.rubric import built_in
from snellen.scoring.scores import ScoreBuilder, score_record
from snellen.scoring.statistics import with_cluster
from snellen.text import slug
from snellen.types import Record, Sample, Score

LEAST = {"3dsrbench": 2772}
"""Where nobody says how many rows the whole set has: its questions before they are rotated and flipped."""
RowSink = Callable[[Task, Sample, Record, Score], None]


def score_result(result: BenchmarkResult, profile: str, each: RowSink = lambda *row: None) -> BenchmarkResult:
    """Score the answers to one benchmark and return the result with its metrics.

    Args:
        result: as located by `locate_results`.
        each: receives every row.

    Raises:
        SnellenError: the answers or their questions cannot be read; see snellen.errors.
    """
    task, half = result.task, result.half
    benchmark = SPATIAL.get(task.name) or FURTHER[task.name]
    scoring.profiles_of(benchmark, profile)  # refuse an unknown profile before anything is read
    builder = ScoreBuilder()
    rows = done = unscored = count = 0
    faults = [f"only the {half} half of SITE is there; its figure pools both"] if half else []
    provenance: list[dict[str, Any]] = []
    judged_runs = [_judged(source, profile) for source in result.sources]
    for source, judged in zip(result.sources, judged_runs, strict=True):
        problems = Problems()
        before, replies, verdicts = rows, 0, 0
        for sample, record, score in _scored(source, benchmark, profile, judged, problems):
            builder.add(sample, score, record.repeat)
            each(task, sample, record, score)
            rows += 1
            done += record.status in ("ok", "refused")
            unscored += score.value is None
            replies += record.status == "ok"
            verdicts += record.status == "ok" and score.verdict != "unscored"
        of = rows - before
        if source.run is not None:
            spec = source.run.meta.spec
            of = scoring.count(source.run.benchmark, spec.data) * spec.repeats
            faults += _run_faults(source.run)
        elif problems.count:
            faults.append(
                f"{problems.count:,} row{'s' if problems.count > 1 else ''} with problems: {problems.first[0]}"
            )
        count += of
        judging = "not judged"
        if judged is not None and verdicts:
            judging = f"judged by {judged.meta().spec.model}: {verdicts:,} of {replies:,} replies"
        provenance.append({**_provenance(source, judged, of), "judging": judging})
    if len({judged is None for judged in judged_runs}) > 1:
        faults.append("one half was judged and the other was not")
    repeats = max((run.meta.spec.repeats for run in result.runs), default=1)
    full_size = (min(task.rows) if task.rows else LEAST.get(task.name, 0)) * repeats
    if count < full_size and not half:
        faults.append(f"the data has {count:,} of the {full_size:,} questions of the whole set")
    expected = max(count, full_size)
    if done < count:
        faults.append(f"{count - done:,} of {count:,} questions have no answer")
    if unscored:
        faults.append(f"{unscored:,} answers are not scored yet")
    metrics = with_cluster(benchmark.summarize(builder.build(expected), profile), benchmark.cluster) if rows else []
    return replace(
        result,
        metrics={metric.name: metric for metric in metrics},
        done=done,
        expected=expected,
        faults=tuple(faults),
        provenance={"profile": profile, "half": half, "sources": provenance},
    )


def _scored(
    source: AnswerSource, benchmark: Benchmark, profile: str, judged: RunFolder | None, problems: Problems
) -> Iterator[tuple[Sample, Record, Score]]:
    """Yield every answer with its sample and score, under the ids of the full benchmark."""
    run = source.run
    if run is not None:
        verdicts = None if judged is None else read(judged, run.folder)
        rubric = None if judged is None else judged_scores.rubric_of(judged.meta(), run.benchmark.name)
        for sample, record in in_order(run):
            score = (
                score_record(sample, record, run.benchmark.score[profile])
                if verdicts is None or rubric is None
                else judged_scores.regraded(run.benchmark, sample, record, verdicts, rubric)
            )
            yield (*_in_half(source.half, sample, record), score)
        return
    own = registry.find(f"{source.task.name}/{source.half}") if source.half else benchmark
    for path in source.paths:
        pairs = own.results(path, Data(), problems) if own.results is not None else None
        if pairs is None:
            raise DataError(f"{path} has no answers of lmms-eval or VLMEvalKit")
        for sample, record in pairs:
            yield (*_in_half(source.half, sample, record), score_record(sample, record, own.score[profile]))


def _judged(source: AnswerSource, profile: str) -> RunFolder | None:
    """Return the complete judged run beside a run, if the profile uses a judge."""
    if source.run is None or profile != judged_scores.PROFILE:
        return None
    return judged_scores.beside(source.run.folder)


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
        yield f"{run.path.name}: {structs.replace(coverage, of=None).part} were requested ({'--shard' if coverage.shards else '--limit'})"
    if (state := present_state(run.path, run.sized_meta)) not in ENDED:
        yield f"{run.path.name}: the run is incomplete ({state})"
    if run.benchmark.digest(run.meta.spec.data) != run.meta.identity.get("data"):
        yield f"{run.path.name}: the data or the prompts have changed since the run"
    recorded = run.meta.identity.get("benchmark_version")
    if recorded != run.benchmark.version:
        yield f"{run.path.name}: made with version {recorded} of {run.benchmark.name}; this is {run.benchmark.version}"


def harness_of(meta: RunMeta) -> str:
    """Return the name of the other harness that asked a run's questions; empty: Snellen did."""
    harness = meta.identity.get("harness")
    return str(harness["name"]) if isinstance(harness, Mapping) else ""


def words_of(meta: RunMeta) -> str:
    """Return whose words a run's questions were asked in."""
    return harness_of(meta) or whose_words(meta.spec.data)


def _provenance(source: AnswerSource, judged: RunFolder | None, count: int) -> dict[str, Any]:
    """Return the origin of the answers, without paths and endpoints."""
    if source.paths:
        harness = {"lmms": "lmms-eval", "kit": "VLMEvalKit"}[source.form]
        return {"harness": harness, "files": [path.name for path in source.paths], "questions": count}
    run = source.run
    if run is None:
        return {}
    meta, spec = run.meta, run.meta.spec
    options = {name: value for name, value in spec.data.options.items() if not set("/\\") & set(value)}
    return {
        "harness": harness_of(meta) or "snellen",
        "run": run.path.resolve().name,
        "benchmark": run.benchmark.name,
        "benchmark_version": meta.identity.get("benchmark_version"),
        "fingerprint": meta.fingerprint,
        "data": meta.identity.get("data"),
        "gold": run.benchmark.gold(spec.data, str(meta.identity.get("data") or "")) or None,
        "prompts": meta.identity.get("prompts"),
        "prompting": options.get("prompting", FORMS[0]),
        "words": words_of(meta),
        "frames": _frames(source.task, source.half, options),
        "options": options,
        "generation": msgspec.to_builtins(spec.options.generation),
        "media": msgspec.to_builtins(spec.options.media),
        "seed": spec.data.seed,
        "repeats": spec.repeats,
        "questions": count,
        "versions": meta.environment.get("versions", {}),
        "judge": None if judged is None else _judge(judged.meta(), run.benchmark.name),
    }


def _judge(meta: RunMeta, benchmark: str) -> dict[str, str]:
    """Return the judge that decided, with its rubric and whose words that is."""
    rubric = judged_scores.rubric_of(meta, benchmark) or built_in(judged_scores.RUBRIC)
    words = {"words": rubric.source} if rubric.source else {}
    name = f"{rubric.name.rpartition('/')[2]} {rubric.digest}"
    return {"model": meta.spec.model, "fingerprint": meta.fingerprint, "rubric": name, **words}


def _frames(task: Task, half: str, options: Mapping[str, str]) -> int | str | None:
    """Return the maximum number of video frames, or the sampling rate (`2fps`); None without video."""
    own = task.declared.frames.count
    if not own or half == "image":
        return None
    frames = options.get("sample-frames") or str(own)
    return int(frames) if frames.isdecimal() else frames


def file_stem(name: str) -> str:
    """Make a name part of a file name: letters, digits, hyphens, underscores, single points."""
    return re.sub(r"\.{2,}", ".", slug(name)) or "model"
