"""What a tracker is sent about a run: its settings and its metrics with their intervals, and never a question or an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from snellen import __version__
from snellen.redaction import redact_bytes
from snellen.runs.run import Run
from snellen.scoring.metric_text import is_diagnosis
from snellen.types import Metric

_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]", re.ASCII)
NAME_CHARACTERS = 200
COLUMNS = ("profile", "metric", "value", "ci95_low", "ci95_high", "n", "coverage", "chance", "unit", "interval")


class TrackedRun(Struct, frozen=True):
    """A run as every tracker gets it.

    Attributes:
        name: what the tracker shows as the run's name.
        benchmark: the benchmark's name.
        settings: what the run was made with, as plain values.
        values: numbers by name: each metric with `_ci95_low`, `_ci95_high`, `_n`, `_coverage` and `_chance`.
        rows: one row a metric, in the order of COLUMNS.
        step: of a training; None for a single run.
        series: identifies the tracker's run that several steps share; empty for a single run.
    """

    name: str
    benchmark: str
    settings: dict[str, Any]
    values: dict[str, float]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    step: int | None = None
    series: str = ""


def tracked_run(
    run: Run, metrics: Mapping[str, Sequence[Metric]], *, step: int | None = None, series: str = "", name: str = ""
) -> TrackedRun:
    """Build what is sent about a run folder, with these metrics by profile.

    Args:
        step, series: of a training, see TrackedRun.
        name: shown by the tracker; by default benchmark and model.
    """
    meta = run.meta
    totals = {
        "samples/answered": float(meta.totals.done),
        "samples/without_answer": float(meta.totals.error + meta.totals.timeout),
        "tokens/input": float(meta.totals.input_tokens),
        "tokens/output": float(meta.totals.output_tokens),
        "seconds": meta.totals.seconds,
        **({} if meta.totals.cost is None else {f"cost{'_at_least' * bool(meta.totals.uncounted)}": meta.totals.cost}),
    }
    settings = {
        **meta.identity,
        "model_name": meta.spec.model,
        "limit": meta.coverage.limit,
        "samples": meta.coverage.of,
        "state": run.state,
        "fingerprint": meta.fingerprint,
        "run_folder": str(run.path.absolute()),
        "snellen": __version__,
    }
    benchmark = run.benchmark.name
    return TrackedRun(
        name or f"{benchmark} {meta.spec.model_with_adapter}",
        benchmark,
        plain(settings),
        {**values_of(benchmark, metrics), **{f"{benchmark}/{key}": value for key, value in totals.items()}},
        rows_of(metrics),
        step,
        series,
    )


def tracked_answers(benchmark: str, answers: str, metrics: Mapping[str, Sequence[Metric]]) -> TrackedRun:
    """Build what is sent about a scored file of answers."""
    settings = plain({"benchmark": benchmark, "answers": answers, "snellen": __version__})
    return TrackedRun(f"{benchmark} {answers}", benchmark, settings, values_of(benchmark, metrics), rows_of(metrics))


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON values, without keys."""
    encoded = msgspec.json.encode(settings, enc_hook=str)
    decoded: dict[str, Any] = msgspec.json.decode(redact_bytes(encoded))
    return decoded


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return settings as texts by dotted name, for trackers that know no nested ones; those that are not set are omitted."""
    texts: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            texts.update(flat(value, f"{prefix}{name}."))
        elif value not in (None, "", []):
            texts[f"{prefix}{name}"] = str(value)
    return texts


def values_of(benchmark: str, metrics: Mapping[str, Sequence[Metric]], *, separator: str = "/") -> dict[str, float]:
    """Return the numbers of metrics by name: `chart/digits/accuracy`, `chart/digits/accuracy_ci95_low` and so on.

    A diagnosis by class is omitted, as in the printed table. Several profiles stand before the metric's name.
    """
    values: dict[str, float] = {}
    for profile, rows in metrics.items():
        head = benchmark + separator + (f"{profile}{separator}" if len(metrics) > 1 else "")
        for metric in _main(rows):
            name = clean_name(f"{head}{metric.name}")
            low, high = metric.ci95 if metric.ci95 is not None else (None, None)
            numbers = {
                "": metric.value,
                "_ci95_low": low,
                "_ci95_high": high,
                "_n": float(metric.n),
                "_coverage": metric.coverage,
                "_chance": metric.chance,
            }
            for suffix, number in numbers.items():
                if number is not None:
                    values.setdefault(f"{name}{suffix}", float(number))
    return values


def rows_of(metrics: Mapping[str, Sequence[Metric]]) -> list[tuple[Any, ...]]:
    """Return one row a metric, in the order of COLUMNS."""
    return [
        (
            profile,
            metric.name,
            metric.value,
            *(metric.ci95 or (None, None)),
            metric.n,
            metric.coverage,
            metric.chance,
            metric.unit,
            "" if metric.interval is None else metric.interval.text,
        )
        for profile, rows in metrics.items()
        for metric in _main(rows)
    ]


def clean_name(name: str) -> str:
    """Return a metric's name with the characters that all trackers take: MLflow refuses brackets and doubled slashes.

    `pass^4` becomes `pass_hat_4`, as it is read aloud, since `pass@4` becomes `pass_4`.
    """
    parts = (_NOT_IN_NAMES.sub("_", part.replace("^", "_hat_")).strip() for part in name.split("/"))
    return "/".join("_" if set(part) <= {"."} else part for part in parts if part)[:NAME_CHARACTERS].rstrip("/ ")


def _main(rows: Sequence[Metric]) -> list[Metric]:
    return [metric for metric in rows if not is_diagnosis(metric.name)]
