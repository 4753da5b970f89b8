"""Rows of EASI's further benchmarks and of ReVSI as questions: of the authors' files, and of VLMEvalKit's tables.

A reader takes (row, its place from 0, whether the row is of a table of the kit's). It opens no file: what stands beside a row,
such as the name of its file, is in the row under `FILE`. The columns are those that docs/spatial-more.md lists; where the two
layouts spell a column differently, the reader tries both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from snellen.benchmarks.spatial.question import LETTERS, SpatialQuestion, lettered, options_in
from snellen.benchmarks.spatial.scorers.stare import yes_no_letters
from snellen.benchmarks.spatial.sources.row_values import (
    FILE,
    Reader,
    Row,
    columns_as_options,
    maybe,
    one_of,
    paths,
    text,
    texts,
)
from snellen.benchmarks.spatial.tasks import MORE
from snellen.errors import DataError
from snellen.scoring.rules.literals import literal_list

MoreReader: TypeAlias = Callable[[Row, int, bool], SpatialQuestion]
SPBENCH_NUMBER = ("object_counting", "object_abs_distance", "object_size_estimation")
SPBENCH_TYPES = (*SPBENCH_NUMBER, "object_rel_distance", "object_rel_direction")
REVSI_CHOICE = (
    *("object_rel_direction_forward_easy", "object_rel_direction_backward_easy", "object_rel_direction_forward_hard"),
    *(
        "object_rel_direction_backward_hard",
        "object_rel_distance_closest",
        "object_rel_distance_farthest",
        "route_planning",
    ),
)
REVSI_NUMBER = (
    *("object_counting_single", "object_counting_multiple", "object_abs_distance", "object_size_estimation"),
    *("room_size_estimation_single", "room_size_estimation_multiple"),
)
OSI_NUMBER = (
    *("object_3d_localization", "absolute_distance", "depth_aware_counting", "absolute_displacement"),
    *("absolute_speed", "trajectory_length", "relative_direction_angular"),
)
STARE_KINDS = {"2d_va": "2d_trans", "2d_text_instruct": "2d_trans", "3d_va": "3d_trans", "3d_text_instruct": "3d_trans"}
STREAMING = "_streaming"
CIRCLE = 1_000_000
_SHARD = re.compile(r"-\d+-of-\d+$")


def _common(row: Row, at: int, kit: bool, *ids: str) -> dict[str, Any]:
    """The fields that all questions have: names by the kit's index, else by the first of `ids`, else by the place."""
    if kit:
        index = text(row, "index")
        return {"id": index, "index": index, "row": at, "kind": "choice"}
    name = next((value for column in ids if (value := maybe(row, column).strip())), "")
    return {"id": name or str(at), "row": at, "kind": "choice"}


def _in_parts(common: dict[str, Any], part: str) -> dict[str, Any]:
    """Name a question by its part as well: indices begin anew in each of a set's tables."""
    return {**common, "id": f"{part}_{common['id']}" if part else common["id"]}


def _whole(value: str) -> str:
    """A number as tables of floats write it (`3.0`) as the whole number that it is."""
    return value[:-2] if re.fullmatch(r"-?\d+\.0", value) else value


def _of_file(row: Row, known: tuple[str, ...]) -> str:
    """Return which of these names a row's file has, or a folder above it; empty where none."""
    path = PurePosixPath(maybe(row, FILE))
    names = [part.lower() for part in reversed((*path.parts[:-1], _SHARD.sub("", path.stem)))]
    for name in names:
        for candidate in known:
            if (
                name == candidate.lower()
                or name.startswith(f"{candidate.lower()}_")
                or name.endswith(f"_{candidate.lower()}")
            ):
                return candidate
    return ""


def _of_row_or_file(row: Row, name: str, column: str) -> str:
    """Return the subset of a row: by its column, else by its file. Raises DataError where neither says."""
    known = MORE[name].subsets
    value = maybe(row, column).strip()
    if value:
        return next((candidate for candidate in known if candidate.lower() == value.lower()), value)
    if of_file := _of_file(row, known):
        return of_file
    raise DataError(f"no column {column} and no name of its file says which of {', '.join(known)} the row is of")


def _written_options(row: Row, *columns: str) -> list[str]:
    """Return the options as the row writes them, from the first column that has any: a list, one in text, or a mapping."""
    for column in columns:
        value = row.get(column)
        if isinstance(value, str):
            value = _decoded(value)
        if isinstance(value, Mapping):
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


def _as_written(options: list[str]) -> dict[str, str]:
    return {"options": "\n".join(options)} if options else {}


def _media(row: Row, *columns: str) -> tuple[str, ...]:
    """Return the paths of the first of these columns that has any."""
    for column in columns:
        if column in row and (images := paths(row[column])):
            return images
    return ()


def _video(row: Row, *columns: str) -> tuple[str, ...]:
    """Return the path of a row's video; a name without a suffix is that of an MP4."""
    names = _media(row, *columns)
    return tuple(name if PurePosixPath(name).suffix else f"{name}.mp4" for name in names[:1])


def _unescaped(value: str) -> str:
    """As the kit does with STARE's texts: the two characters of a line break become one, a doubled backslash too."""
    return value.replace("\\n", "\n").replace("\\\\", "\\")


def _stare(row: Row, at: int, kit: bool) -> SpatialQuestion:
    question = _unescaped(text(row, "question")) if kit else text(row, "question")
    named = (
        maybe(row, "category_agg") or maybe(row, "category") or PurePosixPath(maybe(row, FILE)).parent.name
    ).strip()
    category = named.lower()
    base = category.removesuffix("_vsim")
    category = STARE_KINDS.get(base, base) + category[len(base) :]
    return SpatialQuestion(
        **_common(row, at, kit, "qid", "pid"),
        text=question,
        gold=text(row, "answer"),
        options=options_in(question),
        groups={"category": category, "yes_no": yes_no_letters(question)},
        media=_media(row, "image_path") if kit else (),
    )


def _spatialviz(row: Row, at: int, kit: bool) -> SpatialQuestion:
    category, task = text(row, "Category", "category"), text(row, "Task", "task")
    level, image = maybe(row, "Level") or maybe(row, "level"), maybe(row, "Image_id")
    choices = columns_as_options(row) or lettered(_written_options(row, "Choices", "choices"))
    folder = "/".join(part for part in (category, task, level) if part)
    common = _common(row, at, kit)
    if not kit and image:
        common["id"] = f"{folder}/{image}"
    return SpatialQuestion(
        **common,
        text=text(row, "Question", "question"),
        gold=text(row, "Answer", "answer"),
        options=choices,
        groups={"category": category, "task": task, "level": level},
        media=(f"{folder}/{image}.png",) if image else _media(row, "image_path"),
    )


def _erqa(row: Row, at: int, kit: bool) -> SpatialQuestion:
    question = text(row, "question")
    positions = row.get("visual_indices")
    return SpatialQuestion(
        **_common(row, at, kit, "question_id", "id"),
        text=question,
        gold=text(row, "answer"),
        options=options_in(question),
        groups={"question_type": text(row, "question_type", "category")},
        pieces={} if positions is None else {"visual_indices": str(positions)},
        media=_media(row, "image_path"),
        count=4,
    )


def _refspatial(row: Row, at: int, kit: bool) -> SpatialQuestion:
    category = _of_row_or_file(row, "refspatial", "category").strip().lower()
    common = _common(row, at, kit, "id")
    if not kit:
        common["id"] = f"{category}_{common['id']}"
    pieces = {name: maybe(row, name) for name in ("suffix", "object")}
    step = _whole(maybe(row, "step"))
    return SpatialQuestion(
        **{**common, "kind": "open"},
        text=text(row, "question", "prompt") if kit else text(row, "prompt", "question"),
        gold="",
        groups={"category": category, **({"step": step} if step else {})},
        pieces={**pieces, "prompt": maybe(row, "prompt")},
        media=_beside(row, _media(row, "image_path", "rgb_path")),
        masks=_beside(row, _media(row, "mask_path")),
    )


def _beside(row: Row, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return paths as they are below the data: those in a `question.json` are below its own folder."""
    file = PurePosixPath(maybe(row, FILE))
    return (
        tuple(f"{file.parent.name}/{name}" for name in names) if file.suffix == ".json" and file.parent.name else names
    )


def _robospatial(row: Row, at: int, kit: bool) -> SpatialQuestion:
    category = _of_row_or_file(row, "robospatial-home", "category")
    common = _common(row, at, kit)
    if not kit:
        common["id"] = f"{category}_{at}"
    gold = text(row, "answer")
    return SpatialQuestion(
        **{**common, "kind": "truth" if gold.strip().lower() in ("yes", "no") else "open"},
        text=text(row, "question"),
        gold=gold,
        groups={"category": category},
        media=_media(row, "image_path"),
        masks=_media(row, "mask_path"),
    )


def _spbench(folder: str, row: Row, at: int, kit: bool) -> SpatialQuestion:
    column = next(
        (name for name in ("question_type", "original_question_type") if maybe(row, name) in SPBENCH_TYPES),
        "question_type",
    )
    question_type = one_of(row, column, SPBENCH_TYPES)
    number = question_type in SPBENCH_NUMBER
    options = [] if number else _written_options(row, "candidates", "options")
    scene = maybe(row, "scene_name")
    names = _media(row, "image_path", "images", "image")
    return SpatialQuestion(
        **{**_common(row, at, kit, "id"), "kind": "number" if number else "choice"},
        text=text(row, "question"),
        gold=text(row, "answer", "ground_truth"),
        options=lettered(options),
        groups={"question_type": question_type},
        cluster=scene,
        pieces=_as_written(options),
        media=tuple(f"{folder}/{scene}/{name}" if scene and "/" not in name else name for name in names),
    )


def _recall(row: Row, at: int, kit: bool) -> SpatialQuestion:
    duration = _of_row_or_file(row, "vsi-super-recall", "question_type" if kit else "type")
    common = _in_parts(_common(row, at, kit, "id", "index"), duration)
    options = _written_options(row, "options", "candidates")
    media = _video(row, "video_path", "video")
    return SpatialQuestion(
        **common,
        text=text(row, "question"),
        gold=text(row, "answer"),
        options=lettered(options),
        groups={"question_type": duration},
        cluster=media[0] if media else "",
        pieces=_as_written(options),
        media=media,
    )


def _count(row: Row, at: int, kit: bool) -> SpatialQuestion:
    duration = _of_row_or_file(row, "vsi-super-count", "question_type" if kit else "split")
    media = _video(row, "video_path", "video")
    streamed = duration.endswith(STREAMING)
    answers = _written_options(row, "answers") if streamed else []
    if streamed and not answers and row.get("answers") != []:
        raise DataError(f"a row of {duration} has no list of answers; its columns are {', '.join(map(str, row))[:200]}")
    times = _written_options(row, "query_times")
    common = _in_parts(_common(row, at, kit, "id", "index"), duration)
    return SpatialQuestion(
        **{**common, "kind": "open" if streamed else "number"},
        text=text(row, "question"),
        gold=f"[{', '.join(answers)}]" if streamed else text(row, "answer"),
        groups={"question_type": duration},
        cluster=media[0] if media else "",
        pieces={"query_times": ", ".join(times)} if times else {},
        media=media,
    )


def _sti(row: Row, at: int, kit: bool) -> SpatialQuestion:
    options = _written_options(row, "options", "Candidates", "candidates")
    media = _video(row, "video", "Video", "video_path")
    times = {name: str(row[name]) for name in ("time_start", "time_end") if maybe(row, name)}
    choices = lettered(options)
    return SpatialQuestion(
        **_common(row, at, kit, "ID", "id"),
        text=text(row, "question", "Question"),
        gold=text(row, "answer", "Answer"),
        options=choices,
        groups={"task_type": text(row, "task_type", "Task")},
        cluster=media[0] if media else "",
        pieces=times,
        media=media,
    )


def _cv_bench(row: Row, at: int, kit: bool) -> SpatialQuestion:
    options = columns_as_options(row, LETTERS[:8]) if kit else lettered(_written_options(row, "choices"))
    prompt = maybe(row, "prompt")
    split = maybe(row, "split") or maybe(row, "type")
    common = _common(row, at, kit, "idx")
    return SpatialQuestion(
        **(_in_parts(common, split) if kit else common),
        text=maybe(row, "question") or prompt,
        gold=text(row, "answer"),
        options=options,
        groups={"split": split, "source": maybe(row, "source"), "category": text(row, "category", "task")},
        pieces={"prompt": prompt} if prompt else {},
        media=_media(row, "image_path", "filename"),
    )


def _lego(row: Row, at: int, kit: bool) -> SpatialQuestion:
    question_type = maybe(row, "question_type")
    common = _common(row, at, True)
    group = _whole(maybe(row, "g_index"))
    number = _whole(common["index"])
    if (
        not group
        and number.isdecimal()
        and len(number) < 16
        and (int(number) >= CIRCLE or "circular" in maybe(row, FILE).lower())
    ):
        group = str(int(number) % CIRCLE)
    groups = {"question_type": question_type, "category": text(row, "category")}
    if group:
        groups["circle"] = group
    return SpatialQuestion(
        **{**common, "kind": "short" if question_type == "sort" else "choice"},
        text=text(row, "question"),
        gold=text(row, "answer"),
        options=columns_as_options(row, LETTERS[:8]),
        groups=groups,
        cluster=group,
        pieces={"hint": maybe(row, "hint")} if maybe(row, "hint") else {},
        media=_media(row, "image_path"),
    )


def _spatial457(row: Row, at: int, kit: bool) -> SpatialQuestion:
    category = _of_row_or_file(row, "spatial457", "category")
    common = _common(row, at, kit, "question_index")
    if not kit:
        common["id"] = f"{category}_{common['id']}"
    image = maybe(row, "image_filename")
    answer = row.get("answer")
    return SpatialQuestion(
        **{**common, "kind": "short"},
        text=text(row, "question"),
        gold=str(answer) if isinstance(answer, bool) else text(row, "answer"),
        groups={"category": category},
        cluster=image,
        media=(f"images/{image}",) if image and "/" not in image else _media(row, "image_path", "image_filename"),
    )


def _dsr(row: Row, at: int, kit: bool) -> SpatialQuestion:
    options = _written_options(row, "options", "Options", "candidates")
    media = _video(row, "video", "video_path", "video_id")
    question = text(row, "question", "Question")
    return SpatialQuestion(
        **_common(row, at, kit, "id", "index"),
        text=question,
        gold=text(row, "answer", "Answer"),
        options=lettered(options) or options_in(question),
        groups={"task_type": text(row, "task_type", "type", "question_type", "category")},
        cluster=media[0] if media else "",
        pieces=_as_written(options),
        media=media,
    )


def _eriq(row: Row, at: int, kit: bool) -> SpatialQuestion:
    question = text(row, "question_raw", "question")
    names = _media(row, "image_path", "images", "image")
    return SpatialQuestion(
        **_common(row, at, kit, "id", "index"),
        text=question,
        gold=text(row, "answer"),
        options=options_in(question),
        groups={"task_type": text(row, "task_type")},
        media=tuple(name if name.startswith("images/") else f"images/{name.lstrip('/')}" for name in names),
    )


def _osi(row: Row, at: int, kit: bool) -> SpatialQuestion:
    category, kind = text(row, "category"), maybe(row, "question_type").strip().lower()
    options = _written_options(row, "options")
    number = kind.startswith("num") if kind else category in OSI_NUMBER
    name = _whole(maybe(row, "video_id") or ("" if "." in maybe(row, "video") else maybe(row, "video")))
    media = _video(row, "file_name") or _video(row, "video", "video_path")
    if name.isdecimal() and len(name) < 16:
        media = media if media and not media[0].partition(".")[0].isdecimal() else (f"{int(name):04}.mp4",)
    length = maybe(row, "video_length")
    return SpatialQuestion(
        **{**_common(row, at, kit, "index", "id"), "kind": "number" if number else "choice"},
        text=text(row, "question"),
        gold=text(row, "answer"),
        options={} if number else lettered(options),
        groups={"category": category, "question_type": kind or ("numerical" if number else "mcq")},
        cluster=media[0] if media else "",
        pieces={**_as_written(options), **({"video_length": length} if length else {})},
        media=media,
    )


def _revsi(row: Row, at: int, kit: bool) -> SpatialQuestion:
    question_type = one_of(row, "question_type", (*REVSI_NUMBER, *REVSI_CHOICE))
    number = question_type in REVSI_NUMBER
    options = [] if number else _written_options(row, "options")
    scene, budget = maybe(row, "scene_id"), _of_file(row, MORE["revsi"].subsets)
    media = _video(row, "video", "video_path") or (
        (f"{budget}/{scene}.mp4" if budget else f"{scene}.mp4",) if scene else ()
    )
    return SpatialQuestion(
        **{**_common(row, at, kit, "id"), "kind": "number" if number else "choice"},
        text=text(row, "question"),
        gold=text(row, "ground_truth", "answer"),
        options=lettered(options),
        groups={"question_type": question_type},
        cluster=scene or (media[0] if media else ""),
        pieces=_as_written(options),
        media=media,
    )


_READERS: Mapping[str, MoreReader] = {
    "stare": _stare,
    "spatialviz": _spatialviz,
    "erqa": _erqa,
    "refspatial": _refspatial,
    "robospatial-home": _robospatial,
    "spbench/si": partial(_spbench, "SPBench-SI-images"),
    "spbench/mv": partial(_spbench, "SPBench-MV-images"),
    "vsi-super-recall": _recall,
    "vsi-super-count": _count,
    "sti-bench": _sti,
    "cv-bench": _cv_bench,
    "lego-puzzles": _lego,
    "spatial457": _spatial457,
    "dsr-bench": _dsr,
    "eriq": _eriq,
    "osi-bench": _osi,
    "revsi": _revsi,
}


def _read(reader: MoreReader, kit: bool, row: Row, at: int) -> SpatialQuestion:
    return reader(row, at, kit)


OFFICIAL: Mapping[str, Reader] = {name: partial(_read, reader, False) for name, reader in _READERS.items()}
"""(row of the authors' files or of lmms-eval's copies, its place from 0) to the question."""

KIT: Mapping[str, Reader] = {name: partial(_read, reader, True) for name, reader in _READERS.items()}
"""(row of a table of VLMEvalKit's, its place from 0) to the question."""
