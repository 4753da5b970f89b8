"""The twelve benchmarks by name: what EASI, VLMEvalKit and lmms-eval call them, and what their parts are called."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources

import msgspec
from msgspec import Struct

from snellen.errors import DataError


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """One benchmark.

    Attributes:
        name: as users type it, `vsi-bench`.
        id: its key in EASI's payload.
        title: in words.
        kit: VLMEvalKit's data name, or names.
        lmms: lmms-eval's task, or tasks.
        hub: the authors' data set on the hub.
        rows: how many questions the whole set has; more than one number where card and paper differ, none where nobody says.
        configs, splits, files: where the questions lie: folders and names of parquet or JSON files, or whole file names.
        media: names of the archives and folders with what is shown, as the hub's client takes them; none where images
            lie in the cells of the parquet files.
        by: the meta column that figures are broken down by.
        groups: a value of that column, in any of the harnesses' spellings, to the key of its sub-score in EASI's payload.

    Source: tasks.toml; names and keys as EASI v0.2.2 has them.
    """

    id: str
    title: str
    kit: str
    lmms: str
    hub: str
    rows: tuple[int, ...]
    configs: tuple[str, ...]
    splits: tuple[str, ...]
    files: tuple[str, ...]
    by: str
    media: tuple[str, ...] = ()
    name: str = ""
    groups: Mapping[str, str] = {}
    same_groups_as: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The payload's sub-score keys, each once, in order."""
        return tuple(dict.fromkeys(self.groups.values()))


def _read() -> dict[str, Task]:
    text = resources.files(__package__).joinpath("tasks.toml").read_text(encoding="utf-8")
    tables: dict[str, dict[str, object]] = tomllib.loads(text)
    for name, table in tables.items():
        table["name"] = name
        if other := table.get("same_groups_as"):
            table["groups"] = tables[str(other)]["groups"]
    return {name: msgspec.convert(table, Task) for name, table in tables.items()}


TASKS: Mapping[str, Task] = _read()
"""By name, in EASI's order: the eight of its average first (SITE being one), then the four others."""

SITE_HALVES = ("image", "video")

EIGHT: tuple[str, ...] = tuple(TASKS)[:8]


def task(name: str) -> Task:
    """Return the task of that name.

    Raises:
        DataError: there is none.
    """
    if name not in TASKS:
        raise DataError(f"there is no spatial benchmark {name!r}; they are {', '.join(TASKS)}.")
    return TASKS[name]
