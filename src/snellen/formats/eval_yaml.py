"""`eval.yaml`: the file in the root of a data set of the hub that says how it is asked and scored.

Sources: huggingface/hub-docs, docs/hub/eval-results.md; the reader of inspect_ai 0.3.285, `_eval/task/hf.py`, whose fields are the
known ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from snellen.errors import DataError

NAME = "eval.yaml"
CARD = "README.md"
FRAMEWORK = "inspect-ai"
MOST_BYTES = 1 << 20
MOST_DEPTH = 50
LITERAL = "literal:"
"""Begins a target that is the same text in every row."""

SolverName: TypeAlias = Literal[
    "prompt_template",
    "system_message",
    "user_message",
    "chain_of_thought",
    "use_tools",
    "generate",
    "self_critique",
    "multiple_choice",
]
ScorerName: TypeAlias = Literal[
    "includes",
    "match",
    "pattern",
    "answer",
    "exact",
    "f1",
    "model_graded_qa",
    "model_graded_fact",
    "choice",
    "math",
]


class _Known(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the file: an unknown field is an error, as at the hub."""


class FieldSpec(_Known, frozen=True):
    """Columns of a task.

    Attributes:
        input: the question.
        target: the gold answer, or `literal:` and a text that is every row's; an integer names an option, from 0.
        choices: the options: a column of lists, or several columns.
        input_image: an image, as a data URI or of the hub's image feature.
        metadata: columns that templates may name in braces.
    """

    input: str
    target: str
    choices: str | tuple[str, ...] | None = None
    input_image: str | None = None
    metadata: tuple[str, ...] = ()


class SolverStep(_Known, frozen=True):
    """A step on the way from a row to the request."""

    name: SolverName
    args: Mapping[str, Any] = {}


class ScorerStep(_Known, frozen=True):
    """A way of scoring replies."""

    name: ScorerName
    args: Mapping[str, Any] = {}


class EvalTask(_Known, frozen=True):
    """One task: rows, requests and scores.

    Attributes:
        field_spec: its columns.
        solvers: how the request is made.
        scorers: how replies are scored, one figure each.
        id: its name; the only task of a file may have none.
        config, split: the rows.
        shuffle_choices: options stand in another order than in the file.
        epochs: how often each question is asked.
        epoch_reducer: what is made of the scores of one question; default: their mean.
    """

    field_spec: FieldSpec
    solvers: tuple[SolverStep, ...]
    scorers: tuple[ScorerStep, ...]
    id: str | None = None
    config: str = "default"
    split: str = "test"
    shuffle_choices: bool | None = None
    epochs: int = 1
    epoch_reducer: str | None = None

    def __post_init__(self) -> None:
        if not self.solvers or not self.scorers:
            raise ValueError(f"{'solvers' if not self.solvers else 'scorers'} is empty; at least one was expected")
        if not 1 <= self.epochs <= 1_000_000:
            raise ValueError(f"epochs is {self.epochs}; 1 to 1,000,000 was expected")
        if self.id is not None and not re.fullmatch(r"[\w.-]{1,200}", self.id):
            raise ValueError(f"id is {self.id!r}; letters, digits, `_`, `-` and `.` were expected")


class EvalFile(_Known, frozen=True):
    """The file."""

    tasks: tuple[EvalTask, ...]
    name: str = ""
    description: str = ""
    evaluation_framework: str = FRAMEWORK

    def task(self, name: str, place: str) -> EvalTask:
        """Return the task of that id; an empty name is the only one. Raises DataError with the ids that there are."""
        found = [task for task in self.tasks if task.id == name] if name else list(self.tasks)
        if len(found) == 1:
            return found[0]
        ids = ", ".join(task.id or "(without id)" for task in self.tasks)
        problem = f"there is no task {name!r}" if name else f"it has {len(found)} tasks"
        raise DataError(f"{place}: {problem}", f"Name one of them behind a slash: {ids}.")


class DataFiles(Struct, frozen=True):
    """The files of a configuration's split, as the data set's card names them, and the columns that it lists."""

    files: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def read_eval_yaml(data: bytes, place: str) -> EvalFile:
    """Read the file.

    Raises:
        DataError: no YAML, for another framework, an unknown field, a missing one, or two tasks that cannot be told apart.
    """
    values = parse_yaml(data, place)
    if not isinstance(values, dict):
        raise DataError(f"{place}: a mapping with `tasks` was expected, and {type(values).__name__} was found")
    framework = values.get("evaluation_framework", FRAMEWORK)
    if framework != FRAMEWORK:
        raise DataError(
            f"{place} is for the framework {str(framework)[:80]!r}, whose tasks only that program runs",
            f"Run it there, or ask its questions as a table: name the data set with its commit. Snellen runs {FRAMEWORK}.",
        )
    try:
        file = msgspec.convert(values, EvalFile)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{place}: {error}", "Correct the file: `snellen --help hub` lists the fields that the hub knows."
        ) from error
    ids = [task.id for task in file.tasks]
    if not ids:
        raise DataError(f"{place}: it has no tasks", "Add one: `snellen --help hub` shows the form.")
    if len(ids) > 1 and (None in ids or len(set(ids)) < len(ids)):
        raise DataError(f"{place}: {len(ids)} tasks, and their ids do not tell them apart", "Give each its own `id`.")
    return file


def read_card(data: bytes, place: str, config: str, split: str) -> DataFiles:
    """Read which files of a data set a configuration's split has, from the front matter of its card; none where it does not say.

    Raises:
        DataError: the front matter is no YAML, or names a configuration's files, and none of this split.
    """
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    front = re.match(r"---\r?\n(.*?)\r?\n---", text, re.DOTALL)
    values = parse_yaml(front[1].encode(), place) if front else None
    if not isinstance(values, dict):
        return DataFiles()
    named = [one for one in _list(values.get("configs")) if isinstance(one, dict) and one.get("config_name") == config]
    columns = tuple(
        str(feature["name"])
        for info in _list(values.get("dataset_info"))
        if isinstance(info, dict) and info.get("config_name", config) == config
        for feature in _list(info.get("features"))
        if isinstance(feature, dict) and "name" in feature
    )
    if not named or "data_files" not in named[0]:
        return DataFiles(columns=columns)
    files = named[0]["data_files"]
    by_split: dict[str, list[str]] = {}
    for entry in _list(files):
        if isinstance(entry, str):
            by_split.setdefault("train", []).append(entry)  # files without a split are the hub's `train`
        elif isinstance(entry, dict) and "path" in entry:
            by_split.setdefault(str(entry.get("split", "train")), []).extend(map(str, _list(entry["path"])))
        elif isinstance(entry, dict):
            for name, paths in entry.items():
                by_split.setdefault(str(name), []).extend(map(str, _list(paths)))
    if split not in by_split:
        known = ", ".join(sorted(by_split)) or "none"
        raise DataError(f"{place}: the configuration {config!r} has no split {split!r}", f"It has: {known}.")
    folder = str(named[0].get("data_dir") or "").strip("/")
    return DataFiles(tuple(f"{folder}/{path}" if folder else path for path in by_split[split]), columns)


def write_yaml(values: Any) -> str:
    """Return values as YAML, in their order."""
    import yaml  # imports lexers that few commands need

    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120))


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def parse_yaml(data: bytes, place: str) -> Any:
    """Parse YAML without aliases, by which a small file could stand for a very large one. Raises DataError."""
    import yaml

    if len(data) > MOST_BYTES:
        raise DataError(f"{place}: more than {MOST_BYTES:,} bytes; a file of a few kilobytes was expected")
    try:
        text, depth = data.decode("utf-8-sig"), 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise DataError(f"{place}: it has an alias (`*name`), which is not read", "Write the value out.")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH:  # its time grows with the square of the depth
                raise DataError(f"{place}: it is nested more than {MOST_DEPTH} deep", "Correct the file.")
        return yaml.safe_load(text)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{place}: it is no YAML in UTF-8: {reason}", "Correct the file.") from error
