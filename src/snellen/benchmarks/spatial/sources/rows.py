"""Rows of any layout as questions, by the declared columns of a set (`table.set_sections.Layout`).

A row is of the authors' files or lmms-eval's copies of them, whose `doc` is such a row (`official`), or of a table of
VLMEvalKit's, of questions or of answers (`kit`). No file is opened here: images in cells are the sources' business, and what
stands beside a row, such as the name of its file, is in the row under `FILE`. What no column says, a set's own rule (`OWN_RULES`)
makes of the row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

from snellen.benchmarks.spatial.question import LETTERS, SpatialQuestion, lettered, options_in
from snellen.benchmarks.spatial.scorers.base import STREAMING
from snellen.benchmarks.spatial.scorers.lmms_eval import mindcube_type
from snellen.benchmarks.spatial.scorers.vlmevalkit import yes_no_letters
from snellen.benchmarks.spatial.tasks import SUB_BENCHES, Task
from snellen.benchmarks.table.cell_form import Cell
from snellen.benchmarks.table.operations import operated, text_of
from snellen.benchmarks.table.set_sections import Layout
from snellen.errors import DataError
from snellen.scoring.rules.vlmevalkit import literal_list

Row: TypeAlias = Mapping[str, Any]
Fields: TypeAlias = dict[str, Any]
Own: TypeAlias = Callable[[Task, Row, Fields, bool], None]
FILE = "snellen:file"
"""The column that a source adds: the name of the row's file, with the folders above it."""
NOT_META = frozenset({"id", "question", "options", "answer", "cluster", "media", "video", "mask", "clips"})
"""Names of a set's values that mean something; every other name is a value that figures can be broken down by."""
KEPT = ("whole", "literal")
CIRCLE = 1_000_000
NO_TAG = frozenset({"", "none", "nan", "null", "[]", "false"})
STARE_KINDS = {"2d_va": "2d_trans", "2d_text_instruct": "2d_trans", "3d_va": "3d_trans", "3d_text_instruct": "3d_trans"}
_PLACEHOLDER = re.compile(r"<(?:image|video)-placeholder:\s*([^<>\s](?:[^<>]*[^<>\s])?)\s*>", re.IGNORECASE)
_NAN = re.compile(r":\s*nan\b(?=\s*[,}])")
_SHARD = re.compile(r"-\d+-of-\d+$")


def question(task: Task, layout: Literal["official", "kit"], row: Row, at: int) -> SpatialQuestion:
    """Return the question of a row, which is the `at`-th of its file, from 0.

    Raises:
        DataError: a needed column is missing, or holds what no rule is for.
    """
    how, kit = task.columns[layout], layout == "kit"
    values = how.rows
    fields: Fields = {"row": at, "kind": how.kind, "count": how.count}
    if kit:
        fields["index"] = text(row, "index")
    fields["groups"] = groups = {}
    if how.type_columns:
        groups["question_type"], fields["kind"] = _typed(row, task.declared.types, how.type_columns)
    names = declared_columns(values.get("id", ""))
    if not names:
        fields["id"] = fields["index"] if kit else str(at)
    elif "?" in "".join(names):
        fields["id"] = next((name for column in names if (name := maybe(row, column.rstrip("?")).strip())), str(at))
    else:
        fields["id"] = _value(task, row, values["id"])
    fields["text"] = _value(task, row, values["question"])
    fields["gold"] = _value(task, row, values.get("answer", ""))
    for name, cell in values.items():
        if name not in NOT_META:
            groups[name] = _value(task, row, cell)
    if how.tags:
        groups |= tags(row)
    if how.part and (part := groups.get(how.part, "")):
        fields["id"] = f"{part}_{fields['id']}"  # numbers begin anew in each part of a set
    fields["pieces"] = {name: piece for name in how.pieces if (piece := maybe(row, name))}
    _add_media(task, row, how, fields)
    if how.own:
        OWN_RULES[how.own](task, row, fields, kit)
    _add_options(task, row, how, fields)
    return SpatialQuestion(**fields)


def _add_media(task: Task, row: Row, how: Layout, fields: Fields) -> None:
    spec = how.rows.get("video", how.rows.get("media", ""))
    if any(
        name.endswith("?") for name in declared_columns(spec)
    ):  # one path as it stands, or a text that is made of it
        name = _value(task, row, spec)
        media: tuple[str, ...] = (name,) if name else ()
    else:
        media = paths(row, declared_columns(spec), kept=how.lists in KEPT)
    if "video" in how.rows:  # a name without a suffix is that of an MP4
        media = tuple(name if PurePosixPath(name).suffix else f"{name}.mp4" for name in media[:1])
    fields["media"] = media
    fields["masks"] = paths(row, declared_columns(how.rows.get("mask", "")))
    fields["segments"] = next((segments(row.get(name)) for name in declared_columns(how.rows.get("clips", ""))), ())
    shared = _value(task, row, how.rows.get("cluster", ""))
    fields["cluster"] = shared or (media[0] if how.by_media and media else "")


def _add_options(task: Task, row: Row, how: Layout, fields: Fields) -> None:
    """Add the options where the kind of question has any: from a list, lines, columns, or the text, the first that has some."""
    if fields["kind"] not in how.with_options or fields.get("options"):
        return
    if written := listed(row, *declared_columns(how.rows.get("options", "")), lists=how.lists):
        if how.options_as_written:
            fields["pieces"]["options"] = "\n".join(written)
        fields["options"] = dict(zip(LETTERS, written, strict=False)) if how.options_plain else lettered(written)
        return
    if lines := _value(task, row, how.options_lines):
        fields["pieces"]["choices"] = lines
    columns = _in_columns(row, how.options_columns)
    texts_ = {"text": fields["text"], "pieces": "\n".join(fields["pieces"].values())}
    in_texts = (options_in(texts_[place]) for place in how.options_in)
    fields["options"] = (lettered(lines.splitlines()) if lines else columns) or next(filter(None, in_texts), {})


def _in_columns(row: Row, letters: str) -> dict[str, str]:
    return {letter: cell for letter in letters if (cell := maybe(row, letter)) and cell.lower() != "nan"}


def declared_columns(spec: str | Cell) -> tuple[str, ...]:
    """Return the columns of a declared value, of which the first that a row has counts."""
    if isinstance(spec, Cell):
        return spec.first_of or (spec.column,)
    return (spec,) if spec else ()


def _value(task: Task, row: Row, spec: str | Cell) -> str:
    """Return a declared value: the first of the columns that the row has; empty where none has it and all may be missing."""
    columns = declared_columns(spec)
    if not columns:
        return ""
    cell = spec if isinstance(spec, Cell) else None
    needed = [name for name in columns if not name.endswith("?")]
    if cell and cell.subset:
        value = _subset(task, row, columns[0])
    else:
        value = next((value for name in columns if name not in needed and (value := maybe(row, name[:-1]))), "")
    if not value and needed:
        value = text(row, *needed)
        if cell and cell.place:
            value = value.strip()
            value = _letter_at(row, cell, needed[-1], int(value)) if re.fullmatch(r"-?\d{1,4}", value) else value
    return text_of(operated(cell, value, row)) if cell else value


def _letter_at(row: Row, cell: Cell, name: str, place: int) -> str:
    """Return the letter of an option by its place from 0. Raises DataError where there is none."""
    most = len(lettered(texts(row.get(cell.place)))) or len(LETTERS)
    if not 0 <= place < most:
        raise DataError(f"{name} is {place}, the place of an option from 0; there are {most} options")
    return LETTERS[place]


def _typed(row: Row, kinds: Mapping[str, Sequence[str]], columns: Sequence[str]) -> tuple[str, str]:
    """Return (type, kind of answer) of a question whose type says by which rule it is scored.

    Raises:
        DataError: no column has a known type.
    """
    types = {value: kind for kind in ("choice", "number", "short") for value in kinds.get(kind, ())}
    names = [name.removesuffix("?") for name in columns]
    for column, name in zip(columns, names, strict=True):
        if (value := maybe(row, name)) in types:
            return value, types[value]
        if value and column.endswith("?"):
            break
    name = next((name for name in names if maybe(row, name)), names[0])
    raise DataError(f"{name} is {text(row, name)[:60]!r}; expected one of {', '.join(types)}")


def tags(row: Row) -> dict[str, str]:
    """Return part to tag of a row, without the parts that it does not belong to; names are compared without case."""
    columns = {str(name).replace(" ", "_").lower(): value for name, value in row.items()}
    values = {name: columns.get(name.lower()) for name in SUB_BENCHES}
    texts = {name: "" if value is None else str(value).strip() for name, value in values.items()}
    return {name: text[:200] for name, text in texts.items() if text.lower() not in NO_TAG}


def text(row: Row, *names: str) -> str:
    """Return the first of these columns that the row has, as text.

    Raises:
        DataError: it has none of them.
    """
    for name in names:
        value = row.get(name)
        if value is not None and value == value:  # NaN is what tables have for nothing
            return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    raise DataError(f"the row has no {' and no '.join(names)}; its columns are {', '.join(map(str, row))[:200]}")


def maybe(row: Row, name: str) -> str:
    """Return a column as text, empty where the row does not have it."""
    value = row.get(name)
    return "" if value is None or value != value else str(value)


def texts(value: Any) -> list[str]:
    """Return a list of texts, which may stand as a literal in a text; empty for anything else, such as images."""
    if isinstance(value, str):
        value = literal_list(value) if value.lstrip().startswith("[") else None
    if not isinstance(value, Sequence):
        return []
    # Options such as 3 and 4 may have become numbers; images are structs or bytes.
    return [str(item) for item in value if isinstance(item, (str, int, float))]


def listed(row: Row, *columns: str, lists: str = "decoded") -> list[str]:
    """Return the first of these columns that has a list, of texts or in a text, which `Layout.lists` says how to read."""
    for column in columns:
        value = row.get(column)
        if lists in KEPT and isinstance(value, str) and value.strip():
            items = literal_list(value)
            if items is None:
                items = [value] if lists == "whole" else []
            return [str(item) for item in items]  # none is left out: the letters of the others would shift
        if isinstance(value, str) and lists == "decoded":
            value = _decoded(value)
        if isinstance(value, Mapping) and lists == "decoded":
            value = [value[letter] for letter in LETTERS if value.get(letter) is not None]
        if value is not None and (options := texts(value)):
            return options
    return []


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    if value.lstrip().startswith("{"):
        pairs = literal_list(f"[{value}]")
        return pairs[0] if pairs else None
    return literal_list(value)


def paths(row: Row, columns: Sequence[str], kept: bool = False) -> tuple[str, ...]:
    """Return the paths of the first of these columns that has any: a list, one alone, or structs that have one as `path`.

    What is no path in a list that stands in a text is left out, or `kept`, so that it is missed where the file is opened.
    """
    for column in columns:
        value = row.get(column)
        if isinstance(value, str):
            in_brackets = value.lstrip().startswith("[")
            items = literal_list(value) if in_brackets else None
            if items is None and value.strip() and (kept or not in_brackets):
                return (value.strip(),)
            if kept and items is not None:
                return tuple(map(str, items))
            value = items
        if isinstance(value, Mapping):
            value = [value]
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = [item.get("path") if isinstance(item, Mapping) else item for item in value]
        if names := texts(value):
            return tuple(names)
    return ()


def segments(value: Any) -> tuple[tuple[str, ...], ...]:
    """Return lists of frames, one a clip; a single list is one clip. Either may stand as a literal in a text."""
    if isinstance(value, str):
        value = literal_list(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    if all(isinstance(clip, str) for clip in value):
        return (tuple(texts(value)),) if value else ()
    return tuple(tuple(texts(clip)) for clip in value)


def _subset(task: Task, row: Row, column: str) -> str:
    """Return the subset of a row: by its column, else by its file. Raises DataError where neither says."""
    if value := maybe(row, column).strip():
        return next((known for known in task.subsets if known.lower() == value.lower()), value)
    if of_file := _of_file(row, task.subsets):
        return of_file
    known = ", ".join(task.subsets)
    raise DataError(f"no column {column} and no name of its file says which of {known} the row is of")


def _of_file(row: Row, known: Sequence[str]) -> str:
    """Return which of these names a row's file has, or a folder above it; empty where none."""
    path = PurePosixPath(maybe(row, FILE))
    for part in reversed((*path.parts[:-1], _SHARD.sub("", path.stem))):
        for candidate in known:
            name = candidate.lower()
            if part.lower() == name or part.lower().startswith(f"{name}_") or part.lower().endswith(f"_{name}"):
                return candidate
    return ""


def _whole(value: str) -> str:
    """Return a number as tables of floats write it (`3.0`) as the whole number that it is."""
    return value[:-2] if re.fullmatch(r"-?\d+\.0", value) else value


def _mindcube(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """The authors' ids say the type, and their tails which question it is about a group of views."""
    if not kit:
        fields["groups"]["type"] = mindcube_type(fields["id"])
        fields["cluster"] = fields["id"].rpartition("_")[0] or fields["id"]


def _mmsi_video(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """The authors write both types as one: `(Cross-Video) Memory Update`; a type alone is its own finer one."""
    kind = text(row, "type")
    fields["id"] = maybe(row, "id") or fields["id"]
    main, _, sub = kind.removeprefix("(").partition(") ") if kind.startswith("(") else (kind, "", kind)
    fields["groups"] = {"task_type": main, "sub_task_type": sub, **fields["groups"]}
    fields["gold"] = fields["gold"].strip().upper()[:1]


def _stare(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """The kind may stand in a column or be the file's folder; VLMEvalKit undoes the escapes in its table's texts."""
    if kit:
        fields["text"] = fields["text"].replace("\\n", "\n").replace("\\\\", "\\")
    named = maybe(row, "category_agg") or maybe(row, "category") or PurePosixPath(maybe(row, FILE)).parent.name
    category = named.strip().lower()
    base = category.removesuffix("_vsim")
    category = STARE_KINDS.get(base, base) + category[len(base) :]
    fields["groups"] = {"category": category, "yes_no": yes_no_letters(fields["text"])}


def _spatialviz(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """The authors' images lie in folders by category, task and level, and have no name but that; A to D go before lists."""
    fields["options"] = _in_columns(row, "ABCD")
    if image := maybe(row, "Image_id"):
        place = "/".join([*filter(None, fields["groups"].values()), image])
        fields["media"] = (f"{place}.png",)
        fields["id"] = fields["id"] if kit else place


def _refspatial(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """A step of placement is a number; paths in a `question.json` are below its own folder, and not below the data."""
    fields["groups"] = {name: _whole(value) for name, value in fields["groups"].items() if value}
    file = PurePosixPath(maybe(row, FILE))
    if file.suffix == ".json" and file.parent.name:
        for name in ("media", "masks"):
            fields[name] = tuple(f"{file.parent.name}/{path}" for path in fields[name])


def _robospatial(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """Two kinds of question are answered by yes or no, the third by points; names are those of lmms-eval's numbering."""
    fields["kind"] = "truth" if fields["gold"].strip().lower() in ("yes", "no") else "open"


def _spbench(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """The authors name images without their folders."""
    if scene := fields["cluster"]:
        folder = f"SPBench-{task.name[-2:].upper()}-images/{scene}"
        fields["media"] = tuple(name if "/" in name else f"{folder}/{name}" for name in fields["media"])


def _vsi_count(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """Questions about a streamed video are answered at several times, by a list."""
    duration = fields["groups"]["question_type"]
    if duration.endswith(STREAMING):
        answers = listed(row, "answers")
        if not answers and row.get("answers") != []:
            columns = ", ".join(map(str, row))[:200]
            raise DataError(f"a row of {duration} has no list of answers; its columns are {columns}")
        fields |= {"kind": "open", "gold": f"[{', '.join(answers)}]"}
    else:
        fields["gold"] = text(row, "answer")
    if times := listed(row, "query_times"):
        fields["pieces"]["query_times"] = ", ".join(times)


def _corecognition(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """Questions of the type TF are answered by yes or no. The table of the authors' archive names images and clips at their
    places in the question, and lists options apart.
    """
    if fields["groups"]["answer_type"].strip().upper() == "TF":
        fields["kind"] = "truth"
    if not maybe(row, FILE).endswith(".csv"):
        return
    beside = f"{maybe(row, 'images')};{maybe(row, 'videos')}".split(";")
    named = _PLACEHOLDER.findall(fields["text"]) or [name.strip() for name in beside if name.strip()]
    fields["media"] = tuple(named)
    asked = _PLACEHOLDER.sub("<image>" if len(named) > 1 else "", fields["text"]).strip()
    cells = _decoded(_NAN.sub(": None", maybe(row, "choices")))
    if fields["kind"] == "choice" and isinstance(cells, Mapping):
        fields["options"] = {letter: str(cells[letter]) for letter in LETTERS if cells.get(letter) is not None}
        if not options_in(asked):
            asked = "\n".join([asked, *(f"{letter}. {option}" for letter, option in fields["options"].items())])
    fields["text"] = asked


def _circular(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """Forms of one question, its options rotated, share what is left of their index by a million."""
    group, number = _whole(maybe(row, "g_index")), _whole(fields["id"])
    if not group and number.isdecimal() and len(number) < 16:
        group = str(int(number) % CIRCLE)
    if group:
        fields["groups"]["circle"] = fields["cluster"] = group


def _lego(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """Tables of plain and of rotated forms have the same columns; a number or the file's name tells the rotated ones."""
    fields["index"] = fields["id"]
    number = _whole(fields["index"])
    rotated = number.isdecimal() and len(number) < 16 and int(number) >= CIRCLE
    if maybe(row, "g_index") or rotated or "circular" in maybe(row, FILE).lower():
        _circular(task, row, fields, kit)
    if fields["groups"]["question_type"] == "sort":
        fields["kind"] = "short"


def _spatial457(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """The authors name images without their folder, and write truth values."""
    image = maybe(row, "image_filename")
    if image and "/" not in image:
        fields["media"] = (f"images/{image}",)
    if isinstance(row.get("answer"), bool):
        fields["gold"] = str(row["answer"])


def _eriq(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    names = fields["media"]
    fields["media"] = tuple(name if name.startswith("images/") else f"images/{name.lstrip('/')}" for name in names)


def _osi(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """A video may be given by its number, whose file has four digits."""
    category, kind = fields["groups"]["category"], fields["groups"]["question_type"]
    number = kind.startswith("num") if kind else category in task.declared.types["number"]
    name = _whole(maybe(row, "video_id") or ("" if "." in maybe(row, "video") else maybe(row, "video")))
    if name.isdecimal() and len(name) < 16:
        media = fields["media"]
        fields["media"] = media if media and not media[0].partition(".")[0].isdecimal() else (f"{int(name):04}.mp4",)
        fields["cluster"] = fields["media"][0]
    fields["kind"] = "number" if number else "choice"
    fields["groups"]["question_type"] = kind or ("numerical" if number else "mcq")


def _revsi(task: Task, row: Row, fields: Fields, kit: bool) -> None:
    """A clip is named by its scene, in a folder for each budget of frames."""
    if (scene := fields["cluster"]) and not fields["media"]:
        budget = _of_file(row, task.subsets)
        fields["media"] = (f"{budget}/{scene}.mp4" if budget else f"{scene}.mp4",)


OWN_RULES: Mapping[str, Own] = {
    "mindcube": _mindcube,
    "mmsi-video": _mmsi_video,
    "stare": _stare,
    "spatialviz": _spatialviz,
    "refspatial": _refspatial,
    "robospatial": _robospatial,
    "spbench": _spbench,
    "vsi-super-count": _vsi_count,
    "corecognition": _corecognition,
    "circular": _circular,
    "lego": _lego,
    "spatial457": _spatial457,
    "eriq": _eriq,
    "osi": _osi,
    "revsi": _revsi,
}
"""By the name that `own` of [layout] has. They get set, row, fields of its question, and whether the row is of the kit's table;
the fields are changed in place."""
