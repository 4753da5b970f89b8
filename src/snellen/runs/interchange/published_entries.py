"""Published figures of a model, from `.eval_results/*.yaml` of its repository, to stand beside a run.

Source: huggingface/hub-docs, docs/hub/eval-results.md. A value has no unit there: above 1 it is taken for a percentage, else for a
fraction, and the table says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Benchmark, Published, PublishedRow
from snellen.errors import DataError, UsageError
from snellen.formats.eval_yaml import MOST_BYTES, parse_yaml
from snellen.runs.interchange.hub_results import names_of

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
            f"{file}: {error}", "An entry has dataset (id, task_id), value, and a date in quotes: docs/hub.md."
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
