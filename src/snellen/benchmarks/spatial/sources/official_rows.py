"""Rows of the authors' files, and of lmms-eval's copies of them, as questions. The `doc` of lmms-eval's samples is such a row.

Columns are those of the hub's data sets; docs/spatial.md lists them. Images in cells are read by `official`, not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from snellen.benchmarks.spatial.question import LETTERS, SpatialQuestion, lettered, options_in
from snellen.benchmarks.spatial.scorers import spar, vsi
from snellen.benchmarks.spatial.scorers.lmms_eval import embspatial_gold_letter, mindcube_type
from snellen.benchmarks.spatial.sources import more_rows
from snellen.benchmarks.spatial.sources.row_values import (
    Reader,
    Row,
    columns_as_options,
    maybe,
    one_of,
    paths,
    text,
    texts,
)
from snellen.benchmarks.spatial.sub_benches import tags
from snellen.errors import DataError
from snellen.scoring.rules.literals import literal_list
from snellen.types import Kind

VSI_TYPES = (*vsi.CHOICE, *vsi.NUMBER)
SPAR_TASKS = (*spar.CHOICE, *spar.NUMBER, *spar.VIEW_CHANGE)


def placed(row: Row, name: str, options: int) -> str:
    """Return the letter of a gold answer: of its place from 0 where it is a number (2, 2.0, "2"), else as it stands.

    Raises:
        DataError: it is missing, or there are options, and none has that place.
    """
    answer = text(row, name).strip()
    if re.fullmatch(r"-?\d{1,4}", answer) is None:
        return answer
    place = int(answer)
    if not 0 <= place < (options or len(LETTERS)):
        raise DataError(
            f"{name} is {answer}, the place of an option from 0; there are {options or len(LETTERS)} options"
        )
    return embspatial_gold_letter(place)


def _vsi(row: Row, at: int) -> SpatialQuestion:
    question_type, scene = one_of(row, "question_type", VSI_TYPES), maybe(row, "scene_name")
    source = maybe(row, "dataset")
    return SpatialQuestion(
        id=text(row, "id"),
        text=text(row, "question"),
        gold=text(row, "ground_truth"),
        kind="number" if question_type in vsi.NUMBER else "choice",
        options=lettered(texts(row.get("options"))),
        groups={"question_type": question_type, "source": source},
        cluster=f"{source}/{scene}" if scene else "",
        media=(f"{source}/{scene}.mp4",) if scene else (),
        row=at,
    )


def _mmsi(row: Row, at: int) -> SpatialQuestion:
    question = text(row, "question")
    category = text(row, "question_type").replace(".-", ".–")
    return SpatialQuestion(
        id=text(row, "id"),
        text=question,
        gold=text(row, "answer"),
        kind="choice",
        options=options_in(question),
        groups={"category": category},
        row=at,
        count=4,
    )


def _mindcube(row: Row, at: int) -> SpatialQuestion:
    name = text(row, "id")
    prompt = maybe(row, "input_prompt")
    question = maybe(row, "question") or prompt
    return SpatialQuestion(
        id=name,
        text=question,
        gold=text(row, "gt_answer"),
        kind="choice",
        options=options_in(question) or options_in(prompt),
        groups={"type": mindcube_type(name)},
        cluster=name.rpartition("_")[0] or name,
        pieces={"input_prompt": prompt} if prompt else {},
        media=paths(row.get("images")),
        row=at,
    )


def _viewspatial(row: Row, at: int) -> SpatialQuestion:
    choices, images = text(row, "choices"), paths(row.get("image_path"))
    return SpatialQuestion(
        id=str(at),
        text=text(row, "question"),
        gold=text(row, "answer"),
        kind="choice",
        options=lettered(choices.splitlines()),
        groups={"question_type": text(row, "question_type")},
        cluster=images[0] if images else "",
        pieces={"choices": choices},
        media=images,
        row=at,
    )


def _site(row: Row, at: int) -> SpatialQuestion:
    media = paths(row.get("visual"))
    return SpatialQuestion(
        id=str(at),
        text=text(row, "question"),
        gold=text(row, "answer"),
        kind="choice",
        options=dict(zip(LETTERS, texts(row.get("options")), strict=False)),
        groups={"category": text(row, "category"), "dataset": maybe(row, "dataset")},
        cluster=media[0] if media else "",
        media=media,
        row=at,
    )


def _blink(row: Row, at: int) -> SpatialQuestion:
    prompt = maybe(row, "prompt")
    return SpatialQuestion(
        id=text(row, "idx"),
        text=text(row, "question"),
        gold=text(row, "answer").strip().strip("()"),
        kind="choice",
        options=lettered(texts(row.get("choices"))),
        groups={"category": text(row, "sub_task")},
        pieces={"prompt": prompt} if prompt else {},
        row=at,
    )


def _three_dsr(row: Row, at: int) -> SpatialQuestion:
    name = text(row, "qid", "index")
    return SpatialQuestion(
        id=name,
        text=text(row, "question"),
        gold=text(row, "answer"),
        kind="choice",
        options=columns_as_options(row),
        groups={"category": text(row, "category"), "qid": name},
        cluster=name[:8],
        row=at,
    )


def _embspatial(row: Row, at: int) -> SpatialQuestion:
    options = lettered(texts(row.get("answer_options")))
    return SpatialQuestion(
        id=text(row, "question_id"),
        text=text(row, "question"),
        gold=placed(row, "answer", len(options)),
        kind="choice",
        options=options,
        groups={"source": text(row, "data_source"), "relation": maybe(row, "relation")},
        row=at,
    )


def _mmsi_video(row: Row, at: int) -> SpatialQuestion:
    kind = text(row, "type")
    main, _, sub = kind.removeprefix("(").partition(") ") if kind.startswith("(") else (kind, "", kind)
    pieces = {name: maybe(row, name) for name in ("system_prompt", "task_prompt", "user_prompt", "format_prompt")}
    options = texts(row.get("options"))
    return SpatialQuestion(
        id=maybe(row, "id") or str(at),
        text=pieces["user_prompt"] or pieces["task_prompt"],
        gold=text(row, "ground_truth").strip().upper()[:1],
        kind="choice",
        options=lettered(options) or options_in("\n".join(pieces.values())),
        groups={"task_type": main, "sub_task_type": sub, **tags(row)},
        pieces=pieces,
        media=paths(row.get("ref_images")),
        segments=segments(row.get("frames_list")),
        row=at,
    )


def segments(value: Any) -> tuple[tuple[str, ...], ...]:
    """Lists of frames, one a clip; a single list is one clip. Either may stand as a literal in a text."""
    if isinstance(value, str):
        value = literal_list(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    if all(isinstance(clip, str) for clip in value):
        return (tuple(texts(value)),) if value else ()
    return tuple(tuple(texts(clip)) for clip in value)


def _omnispatial(row: Row, at: int) -> SpatialQuestion:
    gold = maybe(row, "gt")
    options = lettered(texts(row.get("options")))
    if not gold:
        gold = placed(row, "answer", len(options))
    image = maybe(row, "image_path")
    return SpatialQuestion(
        id=text(row, "id"),
        text=text(row, "question"),
        gold=gold,
        kind="choice",
        options=options,
        groups={"task_type": text(row, "task_type"), "sub_task_type": maybe(row, "sub_task_type")},
        cluster=image,
        media=(image,) if image else (),
        row=at,
    )


def _spar(row: Row, at: int) -> SpatialQuestion:
    question, task = text(row, "question"), one_of(row, "task", SPAR_TASKS)
    kind = kind_of_spar(task)
    return SpatialQuestion(
        id=text(row, "id"),
        text=question,
        gold=text(row, "answer"),
        kind=kind,
        options=options_in(question) if kind == "choice" else {},
        groups={"question_type": task, "source": maybe(row, "source")},
        row=at,
        count=4 if kind == "choice" else 0,
    )


def kind_of_spar(task: str) -> Kind:
    """Return the kind of answer of a task of SPAR-Bench."""
    return "number" if task in spar.NUMBER else "short" if task in spar.VIEW_CHANGE else "choice"


QUESTIONS: Mapping[str, Reader] = {
    **more_rows.OFFICIAL,
    "vsi-bench": _vsi,
    "mmsi-bench": _mmsi,
    "mindcube-tiny": _mindcube,
    "viewspatial": _viewspatial,
    "site": _site,
    "blink": _blink,
    "3dsrbench": _three_dsr,
    "embspatial": _embspatial,
    "mmsi-video-bench": _mmsi_video,
    "omnispatial": _omnispatial,
    "spar-bench": _spar,
    "vsi-debiased": _vsi,
}
"""(row, its place from 0) to the question, by benchmark; each raises DataError where a needed column is missing."""
