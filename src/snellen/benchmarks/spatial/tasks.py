"""The sets that EASI, VLMEvalKit and lmms-eval know: the declarations of `benchmarks/sets`, as this package takes them.

`TASKS` are the twelve of EASI's payload, `MORE` the others. `CONSTANTS` are names and numbers of the harnesses' rules.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from snellen.benchmarks.registry import set_names
from snellen.benchmarks.table.declaration import SETS, Declaration, declaration
from snellen.benchmarks.table.set_sections import Layout
from snellen.toml_text import packaged_toml

PAYLOAD = 12
"""How many sets EASI's payload has places for."""


class Task(Struct, frozen=True, eq=False):
    """A set: its declaration, and what of its sections is asked for in many places, by the same names but for these.

    It is compared by identity, so that it is a key of caches.

    Attributes:
        id: its key in EASI's payload.
        kit, lmms: VLMEvalKit's data name and lmms-eval's task, or several by comma.
        rows: how many questions the whole set has: several numbers where card and paper differ, none where nobody says.
        groups: known values of `by`, each with its key in the payload.
        columns: what is declared of the authors' files (`official`) and of VLMEvalKit's table (`kit`).
    """

    declared: Declaration
    name: str
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
        return 0 < self.declared.easi.place <= PAYLOAD


def task_of(declared: Declaration) -> Task:
    """Return a declared set as this package takes it."""
    source, summary = declared.source, declared.summary
    rows = () if source.rows is None else (source.rows, *source.other_rows)
    groups = summary.groups if isinstance(summary.groups, Mapping) else {name: name for name in summary.groups}
    return Task(
        declared,
        declared.name,
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


def _read() -> dict[str, Task]:
    texts = {f"{name}.toml": (SETS / f"{name}.toml").read_text(encoding="utf-8") for name in set_names()}
    tasks = [task_of(declaration(tomllib.loads(text), place)) for place, text in texts.items()]
    tasks.sort(key=lambda task: task.declared.easi.place or len(texts) + 1)
    return {task.name: task for task in tasks}


EVERY: Mapping[str, Task] = _read()
"""By name, in EASI's order; sets that EASI has not stand behind, by name."""
TASKS: Mapping[str, Task] = {name: task for name, task in EVERY.items() if task.in_payload}
MORE: Mapping[str, Task] = {name: task for name, task in EVERY.items() if not task.in_payload}

CONSTANTS: Mapping[str, Any] = packaged_toml("snellen.benchmarks.spatial", "scorers/constants.toml")
"""Names and numbers of the scorers, by benchmark or rule."""

SITE_HALVES = ("image", "video")
SUB_BENCHES = ("Easy2hard", "Grounding", "Indoor_Scene_Perception", "Robot")
"""Parts that MMSI-Video-Bench's rows are tagged for, by the columns of VLMEvalKit's class."""

EIGHT: tuple[str, ...] = tuple(TASKS)[:8]
"""The sets that EASI's average is over."""
