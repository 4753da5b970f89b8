"""The twelve spatial benchmarks, drawn small in the layouts of the authors' repositories on the hub.

File names, columns and the spelling of categories are those of the data sets; questions are worded anew, and pictures are
coloured noise. Everything follows from the arguments.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image as pillow

from media.clips import clip
from snellen.benchmarks.spatial.tasks import TASKS

Row = dict[str, Any]
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
PICTURES = pa.list_(PICTURE)
TEXTS = pa.list_(pa.string())
SIDES = ("left", "right", "front", "back")
SCENES = (("arkitscenes", "41069021"), ("scannet", "scene0011_00"), ("scannetpp", "09c1414f1b"))
VSI_CHOICE = (
    "object_rel_direction_easy",
    "object_rel_direction_medium",
    "object_rel_direction_hard",
    "object_rel_distance",
    "route_planning",
    "obj_appearance_order",
)
VSI_NUMBER = ("object_abs_distance", "object_counting", "object_size_estimation", "room_size_estimation")
SPAR_NUMBER = [f"{what}_prediction_{form}" for what in ("depth", "distance") for form in ("oc", "oo", "oc_mv", "oo_mv")]
DRAWN = tuple(TASKS)


def draw(name: str, folder: Path, *, each: int = 1) -> Path:
    """A benchmark's data in its own folder `folder/NAME`, which is returned; drawn again, it is the same to the byte.

    Args:
        name: one of the twelve; a half of SITE (`site/image`) is drawn with the other.
        folder: where it goes; made if it is missing.
        each: questions of each category.
    """
    where = folder / name.partition("/")[0]
    where.mkdir(parents=True, exist_ok=True)
    _DRAWINGS[name.partition("/")[0]](where, each)
    return where


def count(name: str, each: int = 1) -> int:
    """How many questions a run of what `draw` made has."""
    sizes = {"vsi-debiased": 5, "vsi-bench": 10, "site": 12, "site/image": 6, "site/video": 6, "3dsrbench": 24}
    own = {"mindcube-tiny": 4, "spar-bench": 20, "mmsi-bench": 11, "embspatial": 3}
    return {**{key: len(TASKS[key].keys) for key in TASKS}, **sizes, **own}[name] * each


@lru_cache(maxsize=64)
def picture(seed: int, kind: str = "PNG", side: int = 28) -> bytes:
    """A small picture of coloured noise."""
    out = io.BytesIO()
    noise = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
    pillow.fromarray(noise).save(out, kind)
    return out.getvalue()


@lru_cache(maxsize=16)
def film(frames: int = 40) -> bytes:
    """A real MP4 of that many frames, ten a second."""
    return clip(frames)


def cell(seed: int, path: str | None = None) -> Row:
    """A picture as the hub's parquet has it."""
    return {"bytes": picture(seed), "path": path}


def parquet(path: Path, rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], *, group: int = 4) -> None:
    """Rows as a parquet file of several row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(list(schema.items())))
    pq.write_table(table, path, row_group_size=group)


def packed(path: Path, members: Mapping[str, bytes]) -> None:
    """Members as a zip, its times fixed."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2025, 1, 1, 0, 0, 0)), data)


def _lettered(texts: Sequence[str] = SIDES) -> list[str]:
    return [f"{letter}. {text}" for letter, text in zip("ABCDEF", texts, strict=False)]


def _vsi_rows(each: int) -> list[Row]:
    rows: list[Row] = []
    for at, kind in enumerate([*VSI_CHOICE, *VSI_NUMBER] * each):
        source, scene = SCENES[at % 3]
        choice = kind in VSI_CHOICE
        own = {"id": at, "dataset": source, "scene_name": scene, "question_type": kind, "pruned": at % 2 == 1}
        asked = {"question": f"In room {at}, where is the lamp?", "options": _lettered() if choice else None}
        rows.append({**own, **asked, "ground_truth": "ABCD"[at % 4] if choice else f"{at + 1}"})
    return rows


def _vsi(where: Path, each: int) -> None:
    """`full` is declared as test*.parquet on the hub, which takes in the other files as well."""
    text = pa.string()
    schema = {"id": pa.int64(), "dataset": text, "scene_name": text, "question_type": text, "pruned": pa.bool_()}
    schema |= {"question": text, "options": TEXTS, "ground_truth": text}
    rows = _vsi_rows(each)
    parquet(where / "test.parquet", rows, schema)
    parquet(where / "test_debiased.parquet", [row for row in rows if not row["pruned"]], schema)
    parquet(where / "test_pruned.parquet", [row for row in rows if row["pruned"]], schema)
    for kind in ("route_planning", "object_counting"):
        parquet(where / f"test_{kind}.parquet", [row for row in rows if row["question_type"] == kind], schema)
    jsonl(where / "test.jsonl", rows)
    for at, (source, scene) in enumerate(SCENES):
        packed(where / f"{source}.zip", {f"{source}/{scene}.mp4": film(40 + 8 * at)})


def jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _mmsi(where: Path, each: int) -> None:
    kinds = [name for name in TASKS["mmsi-bench"].groups if "(" in name] + ["MSR"]
    text = pa.string()
    schema = {"id": pa.int64(), "images": pa.list_(pa.binary()), "question_type": text, "question": text}
    schema |= {"answer": text, "thought": text}
    rows: list[Row] = []
    for at, kind in enumerate(kinds * each):
        asked = f"Where does view {at} look? Options: A: north, B: south, C: east, D: west"
        shown = [picture(at), picture(at + 1)]
        own = {"id": at, "images": shown, "question_type": kind.replace("–", "-") if at % 2 else kind}
        rows.append({**own, "question": asked, "answer": "ABCD"[at % 4], "thought": "none"})
    parquet(where / "MMSI_Bench.parquet", rows, schema)


def _mindcube(where: Path, each: int) -> None:
    """Rows as JSON lines with paths of pictures, which lie in data.zip under one folder more; the whole set lies beside."""
    rows: list[Row] = []
    media: dict[str, bytes] = {}
    for at, kind in enumerate(("among", "around", "aroundnew", "rotation") * each):
        names = [f"other_all_image/{kind}/{at:03}/view_{view}.jpg" for view in range(2 + at % 3)]
        media |= {f"data/{name}": picture(at * 7 + view, "JPEG") for view, name in enumerate(names)}
        asked = f"From view {at}, what stands behind? A. Chair B. Table C. Lamp D. Shelf"
        marked = "".join(f"View {view + 1}: <image>\n" for view in range(len(names)))
        own = {"id": f"{kind}_group{at:03}_q1_1", "category": [kind], "type": "", "images": names}
        rows.append(
            {**own, "question": asked, "input_prompt": f"Look.\n{marked}\n{asked}", "gt_answer": "ABCD"[at % 4]}
        )
    jsonl(where / "MindCube_tinybench_raw_qa.jsonl", rows)
    jsonl(where / "MindCube_raw_qa.jsonl", [*rows, {**rows[0], "id": "among_group999_q1_1"}])
    packed(where / "data.zip", media)


def _viewspatial(where: Path, each: int) -> None:
    """One JSON list; paths begin with a folder that the archives do not have."""
    rows: list[Row] = []
    scenes: dict[str, bytes] = {}
    photos: dict[str, bytes] = {}
    for at, kind in enumerate(list(TASKS["viewspatial"].groups) * each):
        name = f"val2017/{at:012}.jpg" if at % 2 else f"scannetv2_val/scene{at:04}_00/original_images/{at}.jpg"
        (photos if at % 2 else scenes)[name] = picture(at, "JPEG")
        options = _lettered(("front", "left", "back-right", "right"))
        asked = {"question": f"Where is chair {at} for the person?", "choices": "\n".join(options)}
        rows.append(
            {"question_type": kind, "image_path": [f"ViewSpatial-Bench/{name}"], **asked, "answer": options[at % 4]}
        )
    (where / "ViewSpatial-Bench.json").write_text(json.dumps(rows), encoding="utf-8")
    packed(where / "scannetv2_val.zip", scenes)
    packed(where / "val2017.zip", photos)


def _site(where: Path, each: int) -> None:
    """Two configurations, their media spread over numbered archives; options and pictures vary in number."""
    text = pa.string()
    schema = {"question": text, "options": TEXTS, "answer": text, "category": text, "dataset": text, "visual": TEXTS}
    chunks: list[dict[str, bytes]] = [{}, {}]
    for half in ("image", "video"):
        rows: list[Row] = []
        for at, category in enumerate(list(TASKS["site"].groups) * each):
            many = 2 + at % 3
            names = [f"{half}s/set{at % 2}/{at}_{turn}" for turn in range(1 + at % 2 if half == "image" else 1)]
            names = [f"{name}.{'png' if half == 'image' else 'mp4'}" for name in names]
            chunks[at % 2] |= {name: picture(at) if half == "image" else film(36) for name in names}
            asked = "How many in <image>?" if half == "image" and at % 3 == 0 else f"How many in {half} {at}?"
            own = {"question": asked, "options": [str(turn + 1) for turn in range(many)], "answer": "ABCD"[at % many]}
            rows.append({**own, "category": category, "dataset": f"set{at % 2}", "visual": names})
        parquet(where / f"{half}_test" / "test-00000-of-00001.parquet", rows, schema)
    for number, members in enumerate(chunks):
        packed(where / f"data_chunked_{number:02}.zip", members)


def _blink(where: Path, each: int) -> None:
    """A folder for each task, the split `val` asked and the split `test`, whose answers are hidden, beside it."""
    text = pa.string()
    schema = {"idx": text, "question": text, "sub_task": text, **{f"image_{n}": PICTURE for n in range(1, 5)}}
    schema |= {"choices": TEXTS, "answer": text, "prompt": text}
    for turn, kind in enumerate(TASKS["blink"].groups):
        rows: list[Row] = []
        for at in range(each):
            many = 2 + (turn + at) % 3
            shown = {f"image_{n}": cell(turn * 5 + n) if n <= 1 + turn % 4 else None for n in range(1, 5)}
            listed = " ".join(f"({letter}) {side}" for letter, side in zip("ABCD"[:many], SIDES, strict=False))
            asked = {"question": f"Which side, {at}?", "prompt": f"Which side, {at}?\n{listed}"}
            own = {"idx": f"val_{kind}_{at + 1}", "sub_task": kind, "choices": list(SIDES[:many])}
            rows.append({**own, **asked, **shown, "answer": f"({'ABCD'[(turn + at) % many]})"})
        parquet(where / kind / "val-00000-of-00001.parquet", rows, schema)
        hidden = [{**row, "idx": row["idx"].replace("val", "test"), "answer": "hidden"} for row in rows]
        parquet(where / kind / "test-00000-of-00001.parquet", hidden, schema)


def _three_dsr(where: Path, each: int) -> None:
    """lmms-eval's copy: the circular configuration and the plain one; the authors' own file is a table of VLMEvalKit's."""
    text = pa.string()
    schema = {"index": pa.int64(), "qid": text, "question": text, **dict.fromkeys("ABCD", text), "answer": text}
    schema |= {"category": text, "image_source": text, "image": PICTURE}
    rows: list[Row] = []
    for at, kind in enumerate(list(TASKS["3dsrbench"].groups) * each):
        for turn, form in enumerate(("", "-flip")):
            own = {"index": 2 * at + turn, "qid": f"{at:08X}{form}", "category": kind, "image_source": "drawn"}
            asked = {"question": f"Which is nearer, {at}?", "A": "the cup", "B": "the dog", "C": "nan", "D": None}
            rows.append({**own, **asked, "answer": "AB"[(at + turn) % 2], "image": cell(at)})
    parquet(where / "3dsr_circular" / "test-00000-of-00001.parquet", rows, schema)
    plain = {name: kind for name, kind in schema.items() if name != "qid"}
    bare = [{name: row[name] for name in plain} for row in rows if not row["qid"].endswith("-flip")]
    parquet(where / "3dsr" / "test-00000-of-00001.parquet", bare, plain)


def _embspatial(where: Path, each: int) -> None:
    text = pa.string()
    schema = {"question_id": text, "question": text, "image": PICTURE, "answer_options": TEXTS, "answer": pa.int64()}
    schema |= {"relation": text, "data_source": text}
    rows: list[Row] = []
    for at, source in enumerate(list(TASKS["embspatial"].groups) * each):
        own = {"question_id": f"{source}_{at}", "data_source": source, "relation": ("above", "left", "close")[at % 3]}
        asked = {"question": f"How do cup and box {at} stand?", "answer_options": list(SIDES), "answer": at % 4}
        rows.append({**own, **asked, "image": cell(at)})
    parquet(where / "data" / "test-00000-of-00001.parquet", rows, schema)


def _mmsi_video(where: Path, each: int) -> None:
    """One JSON list; each clip's frames and the reference pictures by path, in archives of their own."""
    kinds = ("(Cross-Video) Memory Update", "(Motion Understanding) Camera Motion", "Planning", "Prediction")
    rows: list[Row] = []
    frames: dict[str, bytes] = {}
    references: dict[str, bytes] = {}
    for at, kind in enumerate((*kinds, "(Spatial Construction) Scene Attribute") * each):
        clips = [[f"frames/{at}_{turn}/{n:03}.jpg" for n in range(4 + at % 3)] for turn in range(1 + at % 2)]
        frames |= {name: picture(n, "JPEG") for names in clips for n, name in enumerate(names)}
        shown = [f"ref_images/{at}.png"] if at % 3 == 0 else []
        references |= {name: picture(at) for name in shown}
        prompts = {
            "system_prompt": "Watch the clips.",
            "task_prompt": f"Clips:{' <video>' * len(clips)}{' and <image>' * len(shown)}.",
            "user_prompt": f"Where does person {at} go? A. left B. right C. up D. down",
            "format_prompt": "Give the letter.",
        }
        videos = [{"path": f"videos/{at}_{turn}.mp4", "start": 0, "end": 1} for turn in range(len(clips))]
        own = {"id": at, "type": kind, **prompts, "video_list": videos, "frames_list": clips, "ref_images": shown}
        rows.append({**own, "options": _lettered(("left", "right", "up", "down")), "ground_truth": "ABCD"[at % 4]})
    (where / "mmsivideo.json").write_text(json.dumps(rows), encoding="utf-8")
    packed(where / "frames.zip", frames)
    packed(where / "ref_images.zip", references)


def _omnispatial(where: Path, each: int) -> None:
    """One archive that holds both the list of questions and the pictures."""
    rows: list[Row] = []
    media: dict[str, bytes] = {}
    for at, kind in enumerate(list(TASKS["omnispatial"].groups) * each):
        name = f"Complex_Logic/{at}.png"
        media[f"OmniSpatial-test/{name}"] = picture(at)
        many = 2 + at % 3
        own = {"id": f"{at}_0", "task_type": "Complex_Logic", "sub_task_type": kind, "image_path": name}
        asked = {"question": f"Which part fits, {at}?", "options": list(SIDES[:many])}
        rows.append({**own, **asked, "answer": at % many, "gt": "ABCD"[at % many]})
    packed(where / "OmniSpatial-test.zip", {"OmniSpatial-test/data.json": json.dumps(rows).encode(), **media})


def _spar(where: Path, each: int) -> None:
    """Two shards; ids are numbers, and a question has one to three pictures."""
    text = pa.string()
    schema = {"id": pa.int64(), "img_type": text, "format_type": text, "task": text, "source": text}
    schema |= {"image": PICTURES, "question": text, "answer": text}
    rows: list[Row] = []
    tasks = [name for name in TASKS["spar-bench"].groups if name not in ("high", "low", "middle")]
    for at, task in enumerate(tasks * each):
        number, moves = task in SPAR_NUMBER, task == "view_change_infer"
        gold = "move_right:1,move_up:0.5" if moves else f"{at + 1}.5" if number else "ABCD"[at % 4]
        asked = f"Say it for task {at}." if number or moves else f"Which, {at}?\n" + "\n".join(_lettered())
        own = {"id": at, "img_type": "multi_view" if task.endswith("_mv") else "single_view", "task": task}
        kind = "fill" if number else "sentence" if moves else "select"
        shown = [cell(at + turn) for turn in range(1 + at % 3)]
        rows.append({**own, "format_type": kind, "source": "drawn", "image": shown, "question": asked, "answer": gold})
    half = len(rows) // 2
    parquet(where / "data" / "test-00000-of-00002.parquet", rows[:half], schema)
    parquet(where / "data" / "test-00001-of-00002.parquet", rows[half:], schema)


_DRAWINGS: Mapping[str, Callable[[Path, int], None]] = {
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
