"""Rows of VLMEvalKit's tables, of questions (TSV) and of answers (xlsx, csv, TSV), as questions.

A row's name is its index. Lists stand as text in cells; images in base64 are read by `vlmevalkit`, not here.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from snellen.benchmarks.spatial.question import LETTERS as ALPHABET
from snellen.benchmarks.spatial.question import SpatialQuestion, lettered, options_in
from snellen.benchmarks.spatial.scorers import vsi
from snellen.benchmarks.spatial.sources import more_rows
from snellen.benchmarks.spatial.sources.official_rows import SPAR_TASKS, VSI_TYPES, kind_of_spar, segments
from snellen.benchmarks.spatial.sources.row_values import Reader, Row, columns_as_options, maybe, one_of, text, texts
from snellen.benchmarks.spatial.sub_benches import tags
from snellen.scoring.rules.literals import literal_list

LETTERS = "ABCDEFGH"


def listed(row: Row, *names: str) -> list[str]:
    """Return the first of these columns that holds a list, of texts or in text.

    A text that is no list is a list of one.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            items = literal_list(value)
            return [value] if items is None else [str(item) for item in items]
        if items := texts(value):
            return items
    return []


def _common(row: Row, at: int) -> SpatialQuestion:
    """Read the columns that the rows of all benchmarks have; each reader adds its own."""
    index = text(row, "index")
    return SpatialQuestion(
        id=index, text=maybe(row, "question"), gold=text(row, "answer"), kind="choice", row=at, index=index
    )


def _vsi(row: Row, at: int) -> SpatialQuestion:
    question_type, video = one_of(row, "question_type", VSI_TYPES), maybe(row, "video")
    return structs.replace(
        _common(row, at),
        kind="number" if question_type in vsi.NUMBER else "choice",
        options={} if question_type in vsi.NUMBER else lettered(listed(row, "candidates", "options")),
        groups={"question_type": question_type},
        cluster=video,
        media=(video,) if video else (),
    )


def _mmsi(row: Row, at: int) -> SpatialQuestion:
    question = _lettered_columns(row, at)
    return structs.replace(question, options=question.options or options_in(question.text), count=4)


def _mindcube(row: Row, at: int) -> SpatialQuestion:
    prompt = maybe(row, "input_prompt")
    question = maybe(row, "question") or prompt
    return structs.replace(
        _common(row, at),
        text=question,
        options=options_in(question) or options_in(prompt),
        groups={"type": text(row, "category")},
        pieces={"input_prompt": prompt} if prompt else {},
        media=tuple(listed(row, "image_path")),
    )


def _viewspatial(row: Row, at: int) -> SpatialQuestion:
    choices, images = maybe(row, "candidates") or maybe(row, "choices"), tuple(listed(row, "image_path"))
    return structs.replace(
        _common(row, at),
        options=lettered(choices.splitlines()) if choices else {},
        groups={"question_type": text(row, "question_type")},
        cluster=images[0] if images else "",
        pieces={"choices": choices} if choices else {},
        media=images,
    )


def _site(row: Row, at: int) -> SpatialQuestion:
    media = tuple(listed(row, "image_path", "video_path", "video"))
    options = literal_list(maybe(row, "options") or maybe(row, "candidates")) or texts(row.get("options"))
    return structs.replace(
        _common(row, at),
        options=dict(zip(ALPHABET, map(str, options), strict=False)),
        groups={"category": text(row, "category"), "dataset": maybe(row, "dataset")},
        cluster=media[0] if media else "",
        media=media,
    )


def _lettered_columns(row: Row, at: int) -> SpatialQuestion:
    return structs.replace(
        _common(row, at),
        options=columns_as_options(row, LETTERS),
        groups={"category": text(row, "category")},
        pieces={"hint": maybe(row, "hint")} if maybe(row, "hint") else {},
    )


def _three_dsr(row: Row, at: int) -> SpatialQuestion:
    name = text(row, "qid", "index")
    return structs.replace(
        _common(row, at),
        id=name,
        options=columns_as_options(row),
        groups={"category": text(row, "category"), "qid": name},
        cluster=name[:8],
    )


def _embspatial(row: Row, at: int) -> SpatialQuestion:
    return structs.replace(
        _common(row, at),
        options=lettered(listed(row, "options", "candidates")),
        groups={"source": text(row, "data_source"), "relation": maybe(row, "relation")},
    )


def _mmsi_video(row: Row, at: int) -> SpatialQuestion:
    pieces = {name: maybe(row, name) for name in ("system_prompt", "task_prompt", "user_prompt", "format_prompt")}
    frames = literal_list(maybe(row, "image_path")) or row.get("image_path")
    return structs.replace(
        _common(row, at),
        text=pieces["user_prompt"] or maybe(row, "question"),
        options=lettered(listed(row, "options", "candidates")) or options_in("\n".join(pieces.values())),
        groups={"task_type": text(row, "task_type"), "sub_task_type": maybe(row, "sub_task_type"), **tags(row)},
        pieces=pieces,
        media=tuple(listed(row, "ref_images")),
        segments=segments(frames),
    )


def _omnispatial(row: Row, at: int) -> SpatialQuestion:
    images = tuple(listed(row, "image_path"))
    return structs.replace(
        _common(row, at),
        options=lettered(listed(row, "options", "candidates")) or columns_as_options(row),
        groups={"task_type": text(row, "task_type"), "sub_task_type": maybe(row, "sub_task_type")},
        cluster=images[0] if images else "",
        media=images,
    )


def _spar(row: Row, at: int) -> SpatialQuestion:
    question, task = maybe(row, "question"), one_of(row, "task" if maybe(row, "task") else "question_type", SPAR_TASKS)
    kind = kind_of_spar(task)
    return structs.replace(
        _common(row, at),
        text=question,
        kind=kind,
        options=options_in(question) if kind == "choice" else {},
        groups={"question_type": task, "source": maybe(row, "source")},
        count=4 if kind == "choice" else 0,
    )


QUESTIONS: Mapping[str, Reader] = {
    **more_rows.KIT,
    "vsi-bench": _vsi,
    "mmsi-bench": _mmsi,
    "mindcube-tiny": _mindcube,
    "viewspatial": _viewspatial,
    "site": _site,
    "blink": _lettered_columns,
    "3dsrbench": _three_dsr,
    "embspatial": _embspatial,
    "mmsi-video-bench": _mmsi_video,
    "omnispatial": _omnispatial,
    "spar-bench": _spar,
    "vsi-debiased": _vsi,
}
"""(row, its place from 0) to the question, by benchmark; each raises DataError where a needed column is missing."""
