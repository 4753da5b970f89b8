"""The spatial benchmarks by name: what EASI, VLMEvalKit and lmms-eval call them, and what their parts are called.

`TASKS` are the twelve of EASI's payload, `MORE` its further ones and ReVSI, which no payload has a place for. `CONSTANTS` are
the names and numbers of their scorers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.types import Kind

Columns: TypeAlias = str | tuple[str, ...]
"""A column, or several, the first of which that a row has counts; one whose name ends with `?`, before others, may be missing."""


LAYOUTS = ("official", "kit")


class Cell(Struct, frozen=True, forbid_unknown_fields=True):
    """A value of a row, changed by the operations in this order.

    Attributes:
        column: where it stands.
        subset: it is one of the set's subsets, which the name of the row's file may say where the column is missing.
        place: a whole number in a column that must be there is the place, from 0, of an option of the list in this column,
            whose letter it becomes.
        strip: characters that are taken off both ends, as blanks are.
        replace: text to text.
        lower: in lower case, without blanks around.
        first: that many characters.
        fill: a text around it, with other columns' values in braces; none where the value is empty.
    """

    column: Columns
    subset: bool = False
    place: str = ""
    strip: str = ""
    replace: Mapping[str, str] = {}
    lower: bool = False
    first: int = 0
    fill: str = ""


class Layout(Struct, frozen=True, forbid_unknown_fields=True):
    """The columns of a set in one of its layouts, from which `sources.rows` makes questions (`question.SpatialQuestion`).

    Attributes:
        id: of the question; empty: VLMEvalKit's index, else the row's place.
        part: the group whose name goes before the id.
        text, gold: question and gold answer.
        kind: of all questions, unless their type says it.
        kinds: the section of `scorers/constants.toml` that has the types by kind; `type_columns` say a row's type:
            the first that has one of these, or that ends with `?` and has anything.
        groups, cluster: what figures are broken down by, and what rows share; `by_media`: where no column says the latter, the
            first path shown.
        tags: rows are tagged for MMSI-Video-Bench's parts.
        pieces: columns that prompts use by name.
        media, video, segments, masks: paths of what is shown (one video), of clips of frames, of masks.
        count: how many options there are where no row says.
        lists: how a text is read where a list is looked for: a literal of texts (`texts`); a literal of anything, and one
            option where it is none (`whole`) or nothing (`literal`), and no further column is; JSON too, or a mapping A, B ...
            (`decoded`).
        options_list: columns that list the options; `options_plain` keeps letters that they bring along, and
            `options_as_written` keeps the list for the prompt.
        options_lines, options_columns: the column with an option a line; the letters of columns with one option each.
        options_in: where options stand in words: `text`, `pieces`.
        with_options: the kinds of questions that have options.
        own: the set's own rule in `sources.rows`, for what no column says.
    """

    id: Columns = ()
    part: str = ""
    text: Columns = "question"
    gold: Columns | Cell = "answer"
    kind: Kind = "choice"
    kinds: str = ""
    type_columns: tuple[str, ...] = ("question_type",)
    groups: Mapping[str, Columns | Cell] = {}
    cluster: Columns | Cell = ()
    by_media: bool = False
    tags: bool = False
    pieces: tuple[str, ...] = ()
    media: tuple[str, ...] | Cell = ()
    video: bool = False
    segments: str = ""
    masks: tuple[str, ...] = ()
    count: int = 0
    lists: Literal["texts", "whole", "literal", "decoded"] = "texts"
    options_list: tuple[str, ...] = ()
    options_plain: bool = False
    options_as_written: bool = False
    options_lines: Columns = ()
    options_columns: str = ""
    options_in: tuple[str, ...] = ()
    with_options: tuple[str, ...] = ("choice",)
    own: str = ""


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
        broken_down_by: the meta columns that figures are broken down by, where there are more than `by`, or others.
        columns: those of the authors' files (`official`) and of VLMEvalKit's table (`kit`).
        exported: columns of the rows that lmms-eval (`lmms`) and VLMEvalKit (`kit`) write, by `interop.export`'s values.
        needed: columns without which VLMEvalKit's table is not the benchmark's; of several in a list one is enough.
        md5: that of VLMEvalKit's tables, by the file's name: the kit fetches a table with another one anew.
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
    columns: Mapping[str, Layout] = {}
    needed: tuple[tuple[str, ...], ...] = ()
    md5: Mapping[str, str] = {}
    broken_down_by: tuple[str, ...] = ()
    exported: Mapping[str, Mapping[str, str]] = {}
    same_groups_as: str = ""
    same_columns_as: str = ""
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
    tables: dict[str, dict[str, Any]] = tomllib.loads(text)
    for name, table in tables.items():
        table["name"] = name
        for key, keys in (("groups", ("groups",)), ("columns", ("columns", "exported"))):
            if other := table.get(f"same_{key}_as"):
                table |= {same: tables[other][same] for same in keys if same in tables[other]}
    tasks = ({**table, "columns": _layouts(table["columns"])} for table in tables.values())
    return {task["name"]: msgspec.convert(task, Task) for task in tasks}


def _layouts(columns: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return both layouts, each with what they have in common."""
    common = {name: value for name, value in columns.items() if name not in LAYOUTS}
    return {layout: {**common, **columns.get(layout, {})} for layout in LAYOUTS}


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
SUB_BENCHES = ("Easy2hard", "Grounding", "Indoor_Scene_Perception", "Robot")
"""Parts that MMSI-Video-Bench's rows are tagged for, by the columns of VLMEvalKit's class."""

EIGHT: tuple[str, ...] = tuple(TASKS)[:8]


def task(name: str) -> Task:
    """Return the task of that name.

    Raises:
        DataError: there is none.
    """
    if name not in EVERY:
        raise DataError(f"there is no spatial benchmark {name!r}; they are {', '.join(EVERY)}.")
    return EVERY[name]
