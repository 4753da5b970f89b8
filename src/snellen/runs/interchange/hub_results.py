"""Export of a run's headline for the Hugging Face hub: .eval_results/<name>.yaml and `model-index` front matter.

Source: huggingface/hub-docs, docs/hub/eval-results.md; huggingface_hub 2.4.0, `_eval_results.py` and `repocard_data.py`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snellen.benchmarks.base import Benchmark
from snellen.errors import UsageError
from snellen.formats.writers import Exported
from snellen.redaction import redact
from snellen.runs.interchange.source import ExportSource
from snellen.text import slug
from snellen.types import Metric

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_NAME_LENGTH = 96
_DIGITS = 4


def write_hub_results(source: ExportSource, folder: Path, model: str, stamp: str) -> Exported:
    """Hugging Face: .eval_results/<benchmark>.yaml for the model's repository, and model-index front matter."""
    import yaml

    dataset, revision, task = hub_dataset(source)
    for _ in source.answers():  # the metrics are complete after the last answer
        pass
    profile = next(iter(source.run.benchmark.score))
    accuracy = source.accuracies[profile]
    if accuracy.value is None:
        raise UsageError(
            f"{source.run.path} has no value of {accuracy.name} under the profile {profile}", "Judge or resume the run."
        )
    value = round(accuracy.value * 100, _DIGITS)
    date = datetime.fromtimestamp(source.started_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = slug(source.run.benchmark.name, _NAME_LENGTH) or "benchmark"
    entry: dict[str, Any] = {
        "dataset": {"id": dataset, "task_id": task, **({"revision": revision} if revision else {})},
        "value": value,
        "date": date,
        "notes": redact(_conditions(source, profile, accuracy)),
    }
    results = folder / ".eval_results" / f"{name}.yaml"
    results.parent.mkdir()
    results.write_text(yaml.safe_dump([entry], sort_keys=False, allow_unicode=True), encoding="utf-8")
    card = folder / "model-index.md"
    index = {"model-index": [_model_index(source, dataset, revision, task, profile, value)]}
    front = yaml.safe_dump(index, sort_keys=False, allow_unicode=True)
    card.write_text(f"---\n{redact(front)}---\n", encoding="utf-8")
    notes = (
        f"the value is the accuracy in percent under the profile {profile}; put the files into the model's repository, and the "
        "front matter of model-index.md into its README.md",
    )
    return Exported((results, card), (*notes, *source.notes(images=False)))


def hub_dataset(source: ExportSource) -> tuple[str, str, str]:
    """Return data set id, revision (or an empty text) and task id.

    Raises:
        UsageError: neither the options nor the benchmark name them.
    """
    settings, benchmark = source.settings, source.run.benchmark
    own, own_task = names_of(benchmark)
    dataset, _, revision = (settings.dataset or own).partition("@")
    task = settings.task or own_task
    if not settings.dataset and not revision and benchmark.table is not None:
        revision = benchmark.table.declaration.source.revision
    missing = [option for option, text in (("--dataset", dataset), ("--task", task)) if not text]
    if missing:
        raise UsageError(
            f"{benchmark.name} does not name its data set and task of the hub; missing: {', '.join(missing)}",
            "Add --dataset OWNER/NAME and --task ID: the data set with the Benchmark tag, and a task of its eval.yaml.",
        )
    if not _REPOSITORY.fullmatch(dataset):
        raise UsageError(f"--dataset {dataset!r} is no id of the hub", "Write OWNER/NAME or OWNER/NAME@REVISION.")
    return dataset, revision, task


def names_of(benchmark: Benchmark) -> tuple[str, str]:
    """Return the data set of the hub that a benchmark is, and its task; empty texts where it does not say."""
    declared = None if benchmark.table is None else benchmark.table.declaration
    dataset = benchmark.about.get("hub_dataset") or (declared.source.hub if declared is not None else "")
    task = benchmark.about.get("hub_task") or (str(declared.eval_task.get("id") or "") if declared is not None else "")
    return dataset, task


def _conditions(source: ExportSource, profile: str, accuracy: Metric) -> str:
    """Return what a reader must know of the figure, in one line."""
    texts = [f"snellen {profile}", f"n={accuracy.n}"]
    if accuracy.ci95 is not None:
        low, high = (f"{100 * end:.2f}" for end in accuracy.ci95)
        texts.append(f"95% CI {low}-{high}")
    if accuracy.coverage < 1.0:
        texts.append(f"coverage {accuracy.coverage:.1%}")
    return ", ".join(texts)


def _model_index(
    source: ExportSource, dataset: str, revision: str, task: str, profile: str, value: float
) -> dict[str, Any]:
    """Return one model of `model-index`, with the accuracy of every profile."""
    benchmark = source.run.benchmark
    metrics = []
    for name in benchmark.score:
        metric = source.accuracies[name]
        if metric.value is not None:
            rounded = value if name == profile else round(metric.value * 100, _DIGITS)
            metrics.append({"type": "accuracy", "value": rounded, "name": f"accuracy ({name}), percent"})
    about = {"type": dataset, "name": benchmark.name, "config": task, **({"revision": revision} if revision else {})}
    return {
        "name": source.settings.model_id.rpartition("/")[2] or source.model,
        "results": [
            {
                "task": {"type": "visual-question-answering", "name": benchmark.name},
                "dataset": about,
                "metrics": metrics,
            }
        ],
    }
