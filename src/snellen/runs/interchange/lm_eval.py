"""Export of a run as result files of lm-eval and lmms-eval: results of every profile, and one line per sample.

A scoring profile is a filter of lm-eval, because both define how an answer is read from a reply: `acc,strict` is the accuracy
under the profile `strict`. Source of the layouts: lm_eval 0.4.13 and lmms_eval 0.7.3, loggers/evaluation_tracker.py.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from snellen import __version__
from snellen.formats import writers
from snellen.formats.writers import Exported, gold_text, prompt_text
from snellen.redaction import redact_bytes
from snellen.runs.interchange.source import ExportSource, InterchangeAnswer
from snellen.text import pretty_json, slug
from snellen.types import Record, Sample

ACC, STDERR = "acc", "acc_stderr"
_NAME_LENGTH = 96
_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)

_encode = msgspec.json.Encoder(enc_hook=str).encode


def write_lm_eval(source: ExportSource, folder: Path, model: str, stamp: str) -> Exported:
    """lm-eval: <model>/results_<time>.json, and samples_<task>_<time>.jsonl with one line per sample and profile."""
    task = task_name(source)
    time = datetime.fromtimestamp(source.started_at, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    place = folder / (_NOT_IN_NAMES.sub("__", source.model)[:_NAME_LENGTH].strip("._") or "model")
    place.mkdir()
    samples, results = place / f"samples_{task}_{time}.jsonl", place / f"results_{time}.json"
    tally = ResultsTally(source)
    unanswered = 0
    with samples.open("wb") as file:
        for number, answers in enumerate(_by_sample(source.answers())):
            tally.add(answers)
            unanswered += sum(answer.record.response is None for answer in answers)
            for row in _rows(source, number, answers):
                file.write(redact_bytes(_encode(row)) + b"\n")
    results.write_bytes(redact_bytes(pretty_json(tally.results())))
    notes = [f"{unanswered:,} answers are missing: their resps are null"] if unanswered else []
    return Exported((results, samples), (*notes, *source.notes(images=False)))


def write_lmms_eval(source: ExportSource, folder: Path, model: str, stamp: str) -> Exported:
    """lmms-eval: <time>_samples_<task>.jsonl with doc_id, target, input, resps, and <time>_results.json."""
    tally = ResultsTally(source)
    first = next(iter(source.run.benchmark.score))
    scores: dict[str, float | None] = {}

    def answers() -> Iterator[tuple[Sample, Record]]:
        for group in _by_sample(source.answers()):
            tally.add(group)
            scores[group[0].sample.id] = mean_value(group, first)
            yield from ((answer.sample, answer.record) for answer in group)

    task = task_name(source)
    written = writers.lmms_eval(answers(), folder, model, stamp, benchmark=task, score_of=scores.pop)
    path = folder / f"{stamp}_results.json"
    path.write_bytes(redact_bytes(pretty_json(tally.results())))
    return Exported((*written.files, path), written.notes)


def task_name(source: ExportSource) -> str:
    """Return the benchmark's name as part of a file name."""
    return slug(source.run.benchmark.name, _NAME_LENGTH) or "benchmark"


class ResultsTally:
    """Sums over the answers, for the file of results."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        self._samples = self._examples = 0
        self._count = dict.fromkeys(source.run.benchmark.score, 0)
        self._total = dict.fromkeys(source.run.benchmark.score, 0.0)
        self._squares = dict.fromkeys(source.run.benchmark.score, 0.0)
        self._finished = source.started_at

    def add(self, answers: Sequence[InterchangeAnswer]) -> None:
        """Count the answers to one sample; with repeats their mean is the sample's value."""
        self._samples += 1
        self._examples = max(self._examples, len(answers[0].sample.prompt.history) // 2)
        self._finished = max(self._finished, *(answer.record.finished_at for answer in answers))
        for profile in self._count:
            value = mean_value(answers, profile)
            if value is not None:
                self._count[profile] += 1
                self._total[profile] += value
                self._squares[profile] += value * value

    def results(self) -> dict[str, Any]:
        """Return the content of the file of results."""
        source, task = self._source, task_name(self._source)
        benchmark, meta = source.run.benchmark, source.run.meta
        generation = meta.spec.options.generation
        settings = {
            "temperature": generation.temperature,
            "top_p": generation.top_p,
            "max_gen_toks": generation.max_tokens,
        }
        generation_settings = {name: value for name, value in settings.items() if value is not None}
        return {
            "results": {task: self._figures(task)},
            "group_subtasks": {task: []},
            "configs": {
                task: {
                    "task": task,
                    "output_type": "generate_until",
                    "repeats": meta.spec.repeats,
                    "filter_list": [{"name": profile} for profile in benchmark.score],
                    "metric_list": [{"metric": ACC, "aggregation": "mean", "higher_is_better": True}],
                    "generation_kwargs": generation_settings,
                    "metadata": {"version": benchmark.version, "snellen_fingerprint": meta.fingerprint},
                }
            },
            "versions": {task: benchmark.version},
            "n-shot": {task: self._examples},
            "higher_is_better": {task: {ACC: True}},
            "n-samples": {task: {"original": source.size, "effective": self._samples}},
            "config": {
                "model": source.model_kind,
                "model_args": {"model": source.model},
                "batch_size": None,
                "limit": None if meta.coverage.full else meta.coverage.limit,
                "bootstrap_iters": 0,
                "gen_kwargs": generation_settings,
                "random_seed": meta.spec.data.seed,
            },
            "git_hash": None,
            "date": source.started_at,
            "task_hashes": {},
            "model_source": f"snellen {__version__}",
            "model_name": source.model,
            "total_evaluation_time_seconds": str(round(self._finished - source.started_at, 3)),
        }

    def _figures(self, task: str) -> dict[str, Any]:
        """Return the figures by `metric,filter`; the standard error is that of lm-eval, over samples as if independent."""
        figures: dict[str, Any] = {"alias": task, "name": task, "sample_len": self._samples}
        for profile, n in self._count.items():
            metric = self._source.accuracies[profile]
            if metric.value is None:
                continue
            figures[f"{ACC},{profile}"] = metric.value
            error: float | str = "N/A"
            if n > 1:
                mean = self._total[profile] / n
                error = math.sqrt(max(self._squares[profile] / n - mean * mean, 0.0) / (n - 1))
            figures[f"{STDERR},{profile}"] = error
            if metric.ci95 is not None:
                figures[f"acc_ci95_low,{profile}"], figures[f"acc_ci95_high,{profile}"] = metric.ci95
        return figures


def mean_value(answers: Sequence[InterchangeAnswer], profile: str) -> float | None:
    """Return the mean score of the answers to one sample; None if none is scored."""
    values = [value for answer in answers if (value := answer.scores[profile].value) is not None]
    return sum(values) / len(values) if values else None


def _by_sample(answers: Iterator[InterchangeAnswer]) -> Iterator[list[InterchangeAnswer]]:
    """Yield the answers to each sample, which are neighbours."""
    for _, group in groupby(answers, key=lambda answer: answer.position):
        yield list(group)


def _rows(source: ExportSource, number: int, answers: Sequence[InterchangeAnswer]) -> Iterator[dict[str, Any]]:
    """Yield one row per profile for the answers to one sample."""
    sample = answers[0].sample
    prompt = prompt_text(sample)
    doc = {"id": sample.id, "question": prompt, **sample.options}
    target = gold_text(sample) or ""
    replies = [None if answer.record.response is None else answer.record.response.text for answer in answers]
    for profile in source.run.benchmark.score:
        extracted = [answer.scores[profile].extracted for answer in answers]
        yield {
            "doc_id": number,
            "doc": doc,
            "target": target,
            "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {}}},
            "resps": [replies],
            "filtered_resps": [None if value is None else str(value) for value in extracted],
            "filter": profile,
            "metrics": [ACC],
            "doc_hash": _hash(doc),
            "prompt_hash": _hash(prompt),
            "target_hash": _hash(target),
            ACC: mean_value(answers, profile),
            "sample_id": sample.id,
            "repeats": [answer.record.repeat for answer in answers],
            "status": [answer.record.status for answer in answers],
        }


def _hash(content: object) -> str:
    return hashlib.sha256(_encode(content)).hexdigest()
