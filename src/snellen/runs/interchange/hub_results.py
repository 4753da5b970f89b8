"""Results on the Hugging Face hub: a run's headline as .eval_results/<name>.yaml and `model-index` front matter, and the published figures of a model read from there.

Source: huggingface/hub-docs, docs/hub/eval-results.md; huggingface_hub 2.4.0, `_eval_results.py` and `repocard_data.py`.

A published value has no unit: above 1 it is taken for a percentage, else for a
fraction, and the table says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Benchmark, Published, PublishedRow
from snellen.errors import DataError, UsageError
from snellen.formats.eval_yaml import MOST_BYTES, parse_yaml
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


FOLDER = ".eval_results"
HUB = "hf:"
MOST_FILES = 1_000
UNIT = "values have no unit: above 1 they are read as percentages, else as fractions"


class EntryDataset(Struct, frozen=True, forbid_unknown_fields=True):
    """The benchmark: a data set of the hub, and a task of its eval.yaml."""

    id: str
    task_id: str
    revision: str | None = None


class EntrySource(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a figure comes from."""

    url: str
    name: str | None = None
    user: str | None = None
    org: str | None = None


class ResultEntry(Struct, frozen=True, forbid_unknown_fields=True, rename={"verify_token": "verifyToken"}):
    """One figure of a model.

    Attributes:
        dataset: what was measured.
        value: the figure.
        verify_token: the signature of a job of the hub.
        date: in ISO 8601, as text.
        source: where it comes from.
        notes: how it was measured.
    """

    dataset: EntryDataset
    value: float
    verify_token: str | None = None
    date: str | None = None
    source: EntrySource | None = None
    notes: str | None = None

    def __post_init__(self) -> None:
        if not isfinite(self.value) or not 0 <= self.value <= 100:
            raise ValueError(f"value is {self.value}; a number from 0 to 100 was expected")

    @property
    def task(self) -> str:
        """Return data set and task, as a benchmark is named after `hf:`."""
        return f"{self.dataset.id}/{self.dataset.task_id}"

    @property
    def fraction(self) -> float:
        """Return the figure as a fraction; see UNIT."""
        return self.value / 100 if self.value > 1 else self.value


def read_entries(place: str) -> tuple[str, list[ResultEntry]]:
    """Read the published figures of a model.

    Args:
        place: `hf:owner/model`, the folder of its files, the folder `.eval_results`, or one file of it.

    Returns:
        The model's name, and its figures in the order of the files.

    Raises:
        DataError: nothing is there, or an entry is not in the form of the hub.
    """
    folder, model = Path(place).expanduser(), ""
    if place.startswith(HUB):
        from snellen.sources.hub import download

        repo, _, revision = place[len(HUB) :].partition("@")
        pattern = [f"{FOLDER}/*.yaml"]
        folder, model = download(repo, revision=revision or None, patterns=pattern, kind="model").path, repo
    if folder.is_file():
        files, home = [folder], folder.absolute().parent
    else:
        home = folder.absolute()
        inner = home if home.name == FOLDER else home / FOLDER
        files = sorted(inner.glob("*.yaml"))[:MOST_FILES] if inner.is_dir() else []
    if not files:
        raise DataError(f"{place}: no {FOLDER}/*.yaml is there", "Name a model's repository, or a file of that form.")
    model = model or (home.parent if home.name == FOLDER else home).name
    return model, [entry for file in files for entry in _entries(file)]


def _entries(file: Path) -> list[ResultEntry]:
    if not file.is_file():
        raise DataError(f"{file}: it is no file", "Remove it.")
    with file.open("rb") as opened:
        values = parse_yaml(opened.read(MOST_BYTES + 1), str(file))
    try:
        return msgspec.convert(values, list[ResultEntry])
    except msgspec.ValidationError as error:
        raise DataError(
            f"{file}: {error}", "An entry has dataset (id, task_id), value, and a date in quotes: `snellen --help hub`."
        ) from error


def published_by_task(place: str) -> Iterator[tuple[str, Published]]:
    """Yield the figures of a model, each task's as a table of its own; raise as `read_entries`."""
    model, entries = read_entries(place)
    for task in dict.fromkeys(entry.task for entry in entries):
        own = [entry for entry in entries if entry.task == task]
        yield f"{HUB}{task}", _table(model, place, task, own, "value", "published/value", "")


def published_about(benchmark: Benchmark, places: Sequence[str]) -> list[Published]:
    """Return the figures of models about a benchmark, as tables of its first metric.

    Raises:
        DataError: as `read_entries`. UsageError: the benchmark is no data set of the hub, or no figure is about it.
    """
    dataset, task = names_of(benchmark)
    if not dataset:
        raise UsageError(
            f"{benchmark.name} is no data set of the hub, and figures of models name one",
            "Name it as hf:OWNER/NAME/TASK.",
        )
    tables = []
    for place in places:
        model, entries = read_entries(place)
        own = [entry for entry in entries if entry.dataset.id == dataset and task in ("", entry.dataset.task_id)]
        if not own:
            known = ", ".join(dict.fromkeys(entry.task for entry in entries)) or "none"
            raise UsageError(f"{place}: no figure is about {dataset}{f'/{task}' if task else ''}", f"It has: {known}.")
        profile = next(iter(benchmark.score))
        tables.append(_table(model, place, own[0].task, own, "accuracy", "accuracy", profile))
    return tables


def _table(
    model: str, place: str, task: str, entries: Sequence[ResultEntry], column: str, metric: str, profile: str
) -> Published:
    rows = tuple(
        PublishedRow(
            model.rpartition("/")[2] + (f" ({', '.join(beside)})" if len(entries) > 1 else ""),
            "model",
            (entry.fraction,),
        )
        for number, entry in enumerate(entries, 1)
        for beside in [[part for part in (entry.notes, entry.date) if part] or [str(number)]]
    )
    said = [
        ", ".join(filter(None, [entry.source.name or entry.source.org or entry.source.user, entry.source.url]))
        for entry in entries
        if entry.source is not None
    ]
    conditions = [entry.notes for entry in entries if entry.notes]
    return Published(
        title=f"{task}, as published in the repository of {model}",
        source="; ".join(dict.fromkeys(said)) or place,
        columns=(column,),
        metrics=(metric,),
        profile=profile,
        rows=rows,
        notes=(UNIT, *dict.fromkeys(conditions)),
        by=model,
    )
