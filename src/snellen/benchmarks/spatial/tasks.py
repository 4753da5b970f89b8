"""The spatial benchmarks by name: what EASI, VLMEvalKit and lmms-eval call them, and what their parts are called.

`TASKS` are the twelve of EASI's payload, `MORE` its further ones and ReVSI, which no payload has a place for. `CONSTANTS` are
the names and numbers of their scorers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

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

        together: splits that are read one behind the other, where none of `splits` is there.
        pictures: columns of parquet files whose images are shown; none: by the names that such columns usually have.
        subset_by: the meta column by which `-o subset=` selects questions; empty where subsets lie in folders of their own.
        subsets: what can be selected; none where there is no such option.

    Source: tasks.toml and more_tasks.toml; names and keys as EASI v0.2.2 has them.
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
    together: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    subset_by: str = ""
    subsets: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The payload's sub-score keys, each once, in order."""
        return tuple(dict.fromkeys(self.groups.values()))


def _read(file: str) -> dict[str, Task]:
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    tables: dict[str, dict[str, object]] = tomllib.loads(text)
    for name, table in tables.items():
        table["name"] = name
        if other := table.get("same_groups_as"):
            table["groups"] = tables[str(other)]["groups"]
    return {name: msgspec.convert(table, Task) for name, table in tables.items()}


TASKS: Mapping[str, Task] = _read("tasks.toml")
"""By name, in EASI's order: the eight of its average first (SITE being one), then the four others."""

MORE: Mapping[str, Task] = _read("more_tasks.toml")
"""The further benchmarks by name; none of them counts in a payload."""

EVERY: Mapping[str, Task] = {**TASKS, **MORE}

CONSTANTS: Mapping[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("scorers/constants.toml").read_text(encoding="utf-8")
)
"""Names and numbers of the scorers, by benchmark or rule."""

SITE_HALVES = ("image", "video")

EIGHT: tuple[str, ...] = tuple(TASKS)[:8]


def task(name: str) -> Task:
    """Return the task of that name.

    Raises:
        DataError: there is none.
    """
    if name not in EVERY:
        raise DataError(f"there is no spatial benchmark {name!r}; they are {', '.join(EVERY)}.")
    return EVERY[name]
