"""Export of a run as one Inspect log (.eval): every profile is a scorer, repeats are epochs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snellen import __version__
from snellen.formats.inspect_log import InspectLogWriter
from snellen.formats.writers import Exported
from snellen.runs.interchange.inspect_samples import InspectSamples, error_json, iso_time, token_counts
from snellen.runs.interchange.source import ACCURACY, ExportSource
from snellen.text import slug
from snellen.types import Metric

STATUS = {"complete": "success", "limited": "success", "running": "started", "partial": "cancelled", "failed": "error"}
"""State of a run to the status of a log."""
PROVIDERS = {"api": "openai-api", "gemini": "google", "local": "hf"}
"""Kind of a model to the provider before its name in Inspect; other kinds keep their name."""
_NAME_LENGTH = 60


def write_inspect(source: ExportSource, folder: Path, model: str, stamp: str) -> Exported:
    """One Inspect log (.eval): questions with images, replies, usage, errors, scores of every profile."""
    run, settings = source.run, source.settings
    started, state = source.started_at, source.overview.state
    name = inspect_model(source)
    converted = InspectSamples(name, images=settings.images)
    spec = _spec(source, name, started)
    plan = {"name": "plan", "steps": [], "config": _generation(source)}
    path = folder / f"{iso_time(started)[:19].replace(':', '-')}+00-00_{_task_slug(source)}_{spec['task_id']}.eval"
    finished, completed = started, 0
    with InspectLogWriter(path, {"eval": spec, "plan": plan}) as log:
        for answer in source.answers():
            log.add(*converted.convert(answer))
            finished = max(finished, answer.record.finished_at)
            completed += answer.record.error is None
        header: dict[str, Any] = {
            "status": STATUS[state],
            "eval": spec,
            "plan": plan,
            "results": {
                "total_samples": source.overview.requested or source.expected,
                "completed_samples": completed,
                "logged_samples": log.samples,
                "scores": [_scorer(source, profile, log.samples) for profile in run.benchmark.score],
            },
            "stats": {
                "started_at": iso_time(started),
                "completed_at": "" if state == "running" else iso_time(finished),
                "model_usage": {name: token_counts(converted.usage)},
            },
        }
        if state == "failed":
            header["error"] = error_json("no sample was answered")
        log.finish(header)
    return Exported((path,), tuple(_notes(converted, source)))


def inspect_model(source: ExportSource) -> str:
    """Return the name of the model as Inspect has it, `provider/name`.

    Of a model in a folder of this machine it holds the last part of the path alone.
    """
    kind = source.model_kind
    return f"{PROVIDERS.get(kind, slug(kind))}/{source.model}" if kind != source.model else f"snellen/{kind}"


def _task_slug(source: ExportSource) -> str:
    return slug(source.run.benchmark.name, _NAME_LENGTH).replace("_", "-") or "benchmark"


def _spec(source: ExportSource, model: str, started: float) -> dict[str, Any]:
    """Return the EvalSpec: what was run. Paths, endpoints and the names of key variables are not part of it."""
    run = source.run
    meta, benchmark = run.meta, run.benchmark
    identity = {name: meta.identity[name] for name in ("data", "prompts") if meta.identity.get(name)}
    return {
        "eval_id": _identifier(meta.fingerprint, "eval"),
        "run_id": _identifier(meta.fingerprint, "run"),
        "task_id": _identifier(meta.fingerprint, "task"),
        "created": iso_time(started),
        "task": benchmark.name,
        "task_version": benchmark.version,
        "task_display_name": benchmark.name,
        "dataset": {"name": benchmark.name, "samples": source.size, "shuffled": False},
        "model": model,
        "model_generate_config": _generation(source),
        "config": {"limit": meta.coverage.limit, "epochs": meta.spec.repeats} | {"log_images": source.settings.images},
        "packages": {"snellen": str(_version(meta.environment))},
        "scorers": [{"name": profile} for profile in benchmark.score],
        "metadata": {
            "snellen": {
                "fingerprint": meta.fingerprint,
                "benchmark_version": benchmark.version,
                "model_kind": source.model_kind,
                "seed": meta.spec.data.seed,
                "gold": not source.settings.no_gold,
                **identity,
            }
        },
    }


def _generation(source: ExportSource) -> dict[str, Any]:
    """Return the sampling settings that Inspect knows; extra fields of requests may hold anything and are left out."""
    generation = source.run.meta.spec.options.generation
    config = {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "max_tokens": generation.max_tokens,
        "seed": generation.seed,
        "stop_seqs": list(generation.stop) or None,
    }
    return {name: value for name, value in config.items() if value is not None}


def _version(environment: Mapping[str, Any]) -> object:
    versions = environment.get("versions")
    return versions.get("snellen", __version__) if isinstance(versions, Mapping) else __version__


def _scorer(source: ExportSource, profile: str, samples: int) -> dict[str, Any]:
    """Return one profile's metrics: accuracy with the ends of its interval, then the benchmark's other metrics."""
    accuracy = source.accuracies[profile]
    metrics = {} if accuracy.value is None else {ACCURACY: _metric(ACCURACY, accuracy.value, accuracy)}
    if accuracy.ci95 is not None:
        for name, value in zip(("ci_lower", "ci_upper"), accuracy.ci95, strict=True):
            metrics[name] = {"name": name, "value": value, "params": {"level": 0.95}}
    for metric in source.summary.metrics[profile]:
        if metric.value is not None and metric.name not in metrics:
            metrics[metric.name] = _metric(metric.name, metric.value, metric)
    unscored = source.unscored[profile]
    return {
        "name": profile,
        "scorer": profile,
        "scored_samples": samples - unscored,
        "unscored_samples": unscored,
        "params": {},
        "metrics": metrics,
        "metadata": {"about": source.run.benchmark.profiles[profile]},
    }


def _metric(name: str, value: float, metric: Metric) -> dict[str, Any]:
    """Return an EvalMetric, with interval, n and coverage in its metadata."""
    about = {
        "n": metric.n,
        "unit": metric.unit,
        "coverage": metric.coverage,
        "ci95": None if metric.ci95 is None else list(metric.ci95),
        "interval": None if metric.interval is None else metric.interval.text,
        "chance": metric.chance,
    }
    filled_fields = {field: value for field, value in about.items() if value is not None}
    return {"name": name, "value": value, "params": {}, "metadata": filled_fields}


def _identifier(fingerprint: str, part: str) -> str:
    """Return an id of 22 letters and digits that follows from the run's fingerprint."""
    return hashlib.sha256(f"{part}\0{fingerprint}".encode()).hexdigest()[:22]


def _notes(converted: InspectSamples, source: ExportSource) -> list[str]:
    texts = {
        f"{converted.unreadable:,} images are not embedded: unreadable, or of an unknown format": converted.unreadable,
        f"{converted.too_large:,} images are not embedded: their samples have too many bytes": converted.too_large,
        f"{converted.videos:,} videos are not embedded": converted.videos,
        f"{converted.renamed:,} ids have another form in the log; metadata.snellen.sample_id has them": converted.renamed,
    }
    return [*(text for text, count in texts.items() if count), *source.notes(images=source.settings.images)]
