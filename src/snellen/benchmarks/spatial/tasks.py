"""The sets that EASI, VLMEvalKit and lmms-eval know: the declarations of `benchmarks/sets`, as this package takes them.

`TASKS` are the twelve of EASI's payload, `MORE` the others. `CONSTANTS` are names and numbers of the harnesses' rules.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from msgspec import Struct

from snellen.benchmarks.registry import set_names
from snellen.benchmarks.table.declaration import SETS, Declaration, declaration
from snellen.benchmarks.table.set_sections import Layout
from snellen.errors import DataError


class Task(Struct, frozen=True, eq=False):
    """A set: its declaration, and what is asked of it in many places. Compared by identity, so that it is a key of caches.

    Attributes:
        declared: the whole declaration; the other attributes are of it.
        name, title: as users type it, and in words.
        id: its key in EASI's payload.
        kit, lmms: VLMEvalKit's data name and lmms-eval's task, or several by comma.
        hub, configs, splits, together, files, media, pictures: of its source.
        rows: how many questions the whole set has: several numbers where card and paper differ, none where nobody says.
        by, groups: the value that figures are broken down by, and its known values, each with its key in the payload.
        columns: those of the authors' files (`official`) and of VLMEvalKit's table (`kit`).
        subsets: what `-o subset=` selects from; none where there is no such option.
    """

    declared: Declaration
    name: str
    title: str
    id: str
    kit: str
    lmms: str
    hub: str
    rows: tuple[int, ...]
    configs: tuple[str, ...]
    splits: tuple[str, ...]
    together: tuple[str, ...]
    files: tuple[str, ...]
    media: tuple[str, ...]
    pictures: tuple[str, ...]
    by: str
    groups: Mapping[str, str]
    columns: Mapping[str, Layout]
    subsets: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The payload's sub-score keys, each once, in order."""
        return tuple(dict.fromkeys(self.groups.values()))

    @property
    def in_payload(self) -> bool:
        """Whether EASI's payload has a place for it."""
        return self.declared.easi.place > 0


def task_of(declared: Declaration) -> Task:
    """Return a declared set as this package takes it."""
    source, summary = declared.source, declared.summary
    rows = () if source.rows is None else (source.rows, *source.other_rows)
    groups = summary.groups if isinstance(summary.groups, Mapping) else {name: name for name in summary.groups}
    return Task(
        declared,
        declared.name,
        declared.title,
        declared.easi.id or declared.name.replace("-", "_").replace("/", "_"),
        ", ".join(declared.vlmevalkit.data),
        ", ".join(declared.lmms_eval.tasks),
        source.hub,
        rows,
        source.configs,
        source.splits,
        source.together,
        source.files,
        source.media,
        source.pictures,
        summary.by,
        groups,
        declared.layout,
        declared.subset.names,
    )


def averaged(task: Task) -> Mapping[str, tuple[str, ...]]:
    """Return the groups that figures over several groups are made of, by figure."""
    types = task.declared.types
    parts = task.declared.summary.averaged
    return {figure: types[groups] if isinstance(groups, str) else groups for figure, groups in parts.items()}


def _read() -> tuple[dict[str, Task], dict[str, Task]]:
    """Return the sets of the payload by their places, and the others by name."""
    texts = {f"{name}.toml": (SETS / f"{name}.toml").read_text(encoding="utf-8") for name in set_names()}
    tasks = [task_of(declaration(tomllib.loads(text), place)) for place, text in texts.items()]
    payload = sorted((task for task in tasks if task.in_payload), key=lambda task: task.declared.easi.place)
    return {task.name: task for task in payload}, {task.name: task for task in tasks if not task.in_payload}


TASKS: Mapping[str, Task]
MORE: Mapping[str, Task]
TASKS, MORE = _read()
EVERY: Mapping[str, Task] = {**TASKS, **MORE}

CONSTANTS: Mapping[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("scorers/constants.toml").read_text(encoding="utf-8")
)
"""Names and numbers of the scorers, by benchmark or rule."""

SITE_HALVES = ("image", "video")
SUB_BENCHES = ("Easy2hard", "Grounding", "Indoor_Scene_Perception", "Robot")
"""Parts that MMSI-Video-Bench's rows are tagged for, by the columns of VLMEvalKit's class."""

EIGHT: tuple[str, ...] = tuple(TASKS)[:8]
"""The sets that EASI's average is over."""


def task(name: str) -> Task:
    """Return the task of that name.

    Raises:
        DataError: there is none.
    """
    if name not in EVERY:
        raise DataError(f"there is no spatial benchmark {name!r}; they are {', '.join(EVERY)}.")
    return EVERY[name]
