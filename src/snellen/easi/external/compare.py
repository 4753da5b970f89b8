"""Comparison of a harness's scores with Snellen's scores of the same replies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from snellen.benchmarks.spatial.interop import harness_metrics, results
from snellen.benchmarks.spatial.interop.harness_metrics import HarnessMetrics, read_all_lmms_results, read_kit_acc
from snellen.benchmarks.spatial.sources import lmms_eval_rows
from snellen.easi.external import lmms_eval, vlmevalkit
from snellen.easi.external.import_run import HarnessAnswers
from snellen.easi.external.settings import BenchmarkJob
from snellen.formats.base import Problems
from snellen.formats.readers import table_rows
from snellen.runs.run import Run
from snellen.runs.scoring import Scored
from snellen.types import Metric

TOLERANCE = 2e-4
"""Points by which two figures may differ by rounding: theirs have four decimals, lmms-eval's of VSI-Bench six as fractions."""
SHOWN = 10
MRA = "MRA:.5:.95:.05"
CHARACTERS = 80


def of_lmms(
    job: BenchmarkJob, written: Mapping[str, lmms_eval.LmmsEvalFiles], problems: Problems
) -> HarnessMetrics | None:
    """Read lmms-eval's scores of a benchmark; SITE's from its rows, as EASI does. None if it wrote none."""
    if job.task.name == "site":
        samples = [path for part, _ in job.parts if part in written for path in written[part].samples]
        return harness_metrics.pooled_site(samples, problems) if samples else None
    (files,) = written.values()
    return harness_metrics.from_lmms_eval(job.task, read_all_lmms_results(files.results, problems))


def of_kit(
    job: BenchmarkJob, written: Mapping[str, vlmevalkit.VLMEvalKitFiles], problems: Problems, *, judged: bool = False
) -> HarnessMetrics | None:
    """Read VLMEvalKit's scores of a benchmark, by rules or by a judge. None if it wrote none."""
    if job.task.name == "site":
        scored = [files.judged if judged else files.scored for files in written.values()]
        paths = [path for path in scored if path is not None]
        return harness_metrics.pooled_site(paths, problems) if paths else None
    (files,) = written.values()
    path = files.figures
    if judged:
        by_rules = path is not None and any(tag in path.name for tag in vlmevalkit.RULE_TAGS)
        path = files.judged_figures or (None if by_rules else path)
    return None if path is None else harness_metrics.from_vlmevalkit(job.task, read_kit_acc(path))


def differences(
    run: Run, job: BenchmarkJob, theirs: HarnessMetrics | None, scored: Iterable[HarnessAnswers], profile: str
) -> tuple[float | None, list[str]]:
    """Return the overall score in percent, and the differences from the harness, one line each.

    Args:
        run: our run of the replies; its summary is written.
        theirs: the harness's figures.
        scored: its files that say what it gave each row.
        profile: our profile of it.
    """
    by_sample: dict[str, Scored] = {}

    def each(scored: Scored) -> None:
        by_sample.setdefault(scored.sample.id, scored)

    summary = run.summarize("all", each=each)
    # EASI pools SITE without rows whose options nobody knows; the kit's own table gives them four.
    pooled = "easi" if job.task.name == "site" and profile == vlmevalkit.PROFILE else profile
    metrics = {metric.name: metric for metric in summary.metrics[pooled]}
    overall = _points(metrics.get("overall"))
    if theirs is None:
        return overall, []
    lines = [*theirs.notes]
    for key, value in {"overall": theirs.overall, **theirs.parts}.items():
        own = _points(metrics.get(key))
        if value is not None and own is not None and abs(own - value) > TOLERANCE:
            lines.append(f"{key}: theirs {value:.4f}, ours {own:.4f} ({own - value:+.4f})")
    if lines or theirs.overall is None:
        lines += _samples(job, by_sample, scored, profile)
    return overall, lines


def _points(metric: Metric | None) -> float | None:
    return None if metric is None or metric.value is None else round(100 * metric.value, 4)


def _samples(
    job: BenchmarkJob, by_sample: Mapping[str, Scored], scored: Iterable[HarnessAnswers], profile: str
) -> list[str]:
    parted: list[str] = []
    compared = count = 0
    for answers in scored:
        for name, value, read in _theirs(job, answers):
            own = by_sample.get(name)
            if own is None or value is None:
                continue
            compared += 1
            score = own.scores[profile]
            if score.value is None or abs(score.value - value) <= 1e-6:
                continue
            count += 1
            if len(parted) < SHOWN:
                reply = own.record.response.text if own.record.response is not None else ""
                excerpt = " ".join(reply.split())[:CHARACTERS]
                why = f" ({score.reason})" if score.reason else ""
                parted.append(
                    f"  {name}: theirs {value:g}{read}, ours {score.value:g}, read {score.extracted!r}{why}; gold "
                    f"{own.sample.meta.get('gold')!r}, reply {excerpt!r}"
                )
    if not compared:
        return ["  what it gave each sample is in none of its files"]
    rest = [f"  and {count - SHOWN:,} more"] if count > SHOWN else []
    return (
        [f"{count:,} of {compared:,} samples are scored otherwise:", *parted, *rest]
        if count
        else [f"all {compared:,} samples are scored alike: the figures are made of them in another way"]
    )


def _theirs(job: BenchmarkJob, answers: HarnessAnswers) -> Iterator[tuple[str, float | None, str]]:
    """Yield (sample id, the harness's score, its extracted answer) of each row."""
    scores: dict[str, tuple[float | None, str]] = {}
    for where, row in table_rows(answers.path, Problems()):
        scores[where] = (lmms_eval_rows.score_of(row), "") if answers.form == "lmms" else _kit_score(row)
    for where, question, _ in results.question_rows(job.task, answers.path, answers.form, Problems()):
        name = f"{answers.part}/{question.id}" if job.name == "site" else question.id
        value, read = scores[where]
        yield name, value, read


def _kit_score(row: Mapping[str, Any]) -> tuple[float | None, str]:
    read = row.get("pred_extracted")
    reading = "" if read is None else f", read {read!r}"
    for column in (MRA, "hit"):
        try:
            value = float(str(row.get(column)))
        except ValueError:
            continue
        if math.isfinite(value):
            return value, reading
    return None, reading
