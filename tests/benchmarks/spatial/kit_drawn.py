"""The twelve spatial benchmarks, drawn small in the layout of VLMEvalKit's tables, media beside them in zips.

File names, columns and the spelling of categories are those of the tables; questions are worded anew. Everything follows
from the arguments.
"""

from __future__ import annotations

import csv
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.spatial.official_drawn import SCENES, SIDES, SPAR_NUMBER, VSI_CHOICE, VSI_NUMBER, film, packed, picture
from snellen.benchmarks.spatial.tasks import TASKS

Row = dict[str, Any]
DRAWN = tuple(TASKS)
COUNTS = {"vsi-bench": 10, "vsi-debiased": 10, "mmsi-bench": 11, "mindcube-tiny": 3, "viewspatial": 5, "site": 12}
COUNTS |= {"blink": 14, "3dsrbench": 24, "embspatial": 3, "mmsi-video-bench": 5, "omnispatial": 10, "spar-bench": 20}


def draw(name: str, folder: Path) -> Path:
    """A benchmark's table and media in its own folder `folder/NAME`, which is returned; always the same to the byte."""
    where = folder / name
    where.mkdir(parents=True, exist_ok=True)
    _DRAWINGS[name](where)
    return where


def text(seed: int) -> str:
    """A picture as the tables have it."""
    return b64encode(picture(seed)).decode()


def tsv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Rows as pandas writes a table: None is an empty cell, a list is Python's text of it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(list(rows[0]))
        writer.writerows(["" if cell is None else cell for cell in row.values()] for row in rows)
    return path


def _vsi(where: Path) -> None:
    rows: list[Row] = []
    for at, kind in enumerate([*VSI_CHOICE, *VSI_NUMBER]):
        source, scene = SCENES[at % 3]
        choice = kind in VSI_CHOICE
        options = [f"{letter}. {side}" for letter, side in zip("ABCD", SIDES, strict=True)]
        own = {"index": at, "video": f"{source}/{scene}.mp4", "question_type": kind, "scene_name": scene}
        asked = {"question": f"In room {at}, where is the lamp?", "candidates": options if choice else None}
        rows.append({**own, **asked, "answer": "ABCD"[at % 4] if choice else f"{at + 1}"})
    tsv(where / ("VSI-Bench-Debiased.tsv" if where.name == "vsi-debiased" else "VSI-Bench.tsv"), rows)
    for at, (source, scene) in enumerate(SCENES):
        packed(where / f"{source}.zip", {f"{source}/{scene}.mp4": film(40 + 8 * at)})


def _mmsi(where: Path) -> None:
    kinds = [name for name in TASKS["mmsi-bench"].groups if "(" not in name]
    rows: list[Row] = []
    for at, kind in enumerate(kinds):
        shown = [text(at + turn) for turn in range(1 + at % 3)]
        asked = {"question": f"Where does view {at} look?", "hint": "Views are in turn." if at % 2 else None}
        options = dict(zip("ABCD", ("north", "south", "east", "west"), strict=True))
        image = shown if len(shown) > 1 else shown[0]
        rows.append({"index": at, "image": image, **asked, **options, "category": kind, "answer": "ABCD"[at % 4]})
    tsv(where / "MMSIBench_wo_circular.tsv", rows)


def _mindcube(where: Path) -> None:
    rows: list[Row] = []
    media: dict[str, bytes] = {}
    for at, kind in enumerate(("among", "around", "rotation")):
        names = [f"other_all_image/{kind}/{at:03}/view_{view}.jpg" for view in range(2 + at)]
        media |= {f"data/{name}": picture(at * 7 + view, "JPEG") for view, name in enumerate(names)}
        marked = "".join(f"View {view + 1}: <image>\n" for view in range(len(names)))
        asked = f"From view {at}, what stands behind? A. Chair B. Table C. Lamp D. Shelf"
        own = {"index": at, "id": f"{kind}_group{at:03}_q1_1", "category": kind, "image_path": names}
        rows.append({**own, "question": asked, "input_prompt": f"Look.\n{marked}\n{asked}", "answer": "ABCD"[at % 4]})
    tsv(where / "MindCubeBench_tiny_raw_qa.tsv", rows)
    packed(where / "data.zip", media)


def _viewspatial(where: Path) -> None:
    rows: list[Row] = []
    photos: dict[str, bytes] = {}
    for at, kind in enumerate(TASKS["viewspatial"].groups):
        names = [f"val2017/{at:06}{turn:06}.jpg" for turn in range(1 + at % 2)]
        photos |= {name: picture(at + turn, "JPEG") for turn, name in enumerate(names)}
        options = [f"{letter}. {side}" for letter, side in zip("ABCD", SIDES, strict=True)]
        asked = {"question": f"Where is chair {at} for the person?", "candidates": "\n".join(options)}
        rows.append({"index": at, "question_type": kind, "image_path": names, **asked, "answer": options[at % 4]})
    tsv(where / "ViewSpatialBench.tsv", rows)
    packed(where / "val2017.zip", photos)


def _site(where: Path) -> None:
    for half, column, end in (("Image", "options", "png"), ("Video", "candidates", "mp4")):
        rows: list[Row] = []
        media: dict[str, bytes] = {}
        for at, category in enumerate(TASKS["site"].groups):
            name = f"{half.lower()}s/set{at % 2}/{at}.{end}"
            media[name] = picture(at) if half == "Image" else film(36)
            shown = {"image_path": json.dumps([name])} if half == "Image" else {"video_path": name}
            many = 2 + at % 3
            asked = {"question": f"How many in {half} {at}?", column: [str(turn + 1) for turn in range(many)]}
            own = {"index": at, "category": category, "dataset": f"set{at % 2}"}
            rows.append({**own, **shown, **asked, "answer": "ABCD"[at % many]})
        tsv(where / f"SiteBench{half}.tsv", rows)
        packed(where / f"data_chunked_{0 if half == 'Image' else 1:02}.zip", media)


def _blink(where: Path) -> None:
    rows: list[Row] = []
    for at, kind in enumerate(TASKS["blink"].groups):
        many = 2 + at % 3
        options = {letter: SIDES[n] if n < many else None for n, letter in enumerate("ABCD")}
        shown = [text(at * 5 + turn) for turn in range(1 + at % 4)]
        image = json.dumps(shown) if at % 2 else shown[0] if len(shown) == 1 else shown
        own = {"index": at, "image": image, "question": f"Which side, {at}?", **options}
        rows.append({**own, "category": kind, "answer": "ABCD"[at % many], "split": "val"})
    tsv(where / "BLINK.tsv", rows)


def _three_dsr(where: Path) -> None:
    """As in the circular table: the rotated form has its picture from the row before it."""
    rows: list[Row] = []
    for at, kind in enumerate(TASKS["3dsrbench"].groups):
        for turn, form in enumerate(("", "-1")):
            own = {"index": 2 * at + turn, "qid": f"{at:08X}{form}", "image": f"{2 * at}" if turn else text(at)}
            sides = ("the dog", "the cup") if turn else ("the cup", "the dog")
            asked = {"question": f"Which is nearer, {at}?", "A": sides[0], "B": sides[1], "C": None, "D": None}
            rows.append({**own, **asked, "category": kind, "answer": "AB"[(at + turn) % 2]})
    tsv(where / "3DSRBench.tsv", rows)


def _embspatial(where: Path) -> None:
    rows: list[Row] = []
    for at, source in enumerate(TASKS["embspatial"].groups):
        asked = {"question": f'How do "cup" and box {at} stand?', "options": list(SIDES), "answer": "ABCD"[at % 4]}
        rows.append({"index": at, "image": text(at), **asked, "data_source": source, "relation": "left"})
    tsv(where / "EmbSpatialBench.tsv", rows)


def _mmsi_video(where: Path) -> None:
    rows: list[Row] = []
    frames: dict[str, bytes] = {}
    for at, kind in enumerate(TASKS["mmsi-video-bench"].groups):
        clips = [[f"frames/{at}_{turn}/{n:03}.jpg" for n in range(4 + at)] for turn in range(1 + at % 2)]
        frames |= {name: picture(n, "JPEG") for names in clips for n, name in enumerate(names)}
        shown = [f"ref_images/{at}.png"] if at % 3 == 0 else []
        frames |= {name: picture(at) for name in shown}
        prompts = {
            "system_prompt": "Watch the clips.",
            "task_prompt": f"Clips:{' <video>' * len(clips)}{' and <image>' * len(shown)}.",
            "user_prompt": f"Where does person {at} go?",
            "format_prompt": "Give the letter.",
        }
        own = {"index": at, "image_path": clips, "ref_images": shown, "video_fps": "[1.0]", **prompts}
        kinds = {"task_type": kind, "sub_task_type": kind}
        rows.append({**own, **kinds, "options": [f"{x}. go" for x in "ABCD"], "answer": "ABCD"[at % 4]})
    tsv(where / "MMSIVideoBench.tsv", rows)
    packed(where / "frames.zip", frames)


def _omnispatial(where: Path) -> None:
    rows: list[Row] = []
    media: dict[str, bytes] = {}
    for at, kind in enumerate(TASKS["omnispatial"].groups):
        name = f"OmniSpatial-test/Complex_Logic/{at}.png"
        media[name] = picture(at)
        many = 2 + at % 3
        own = {"index": at, "image_path": name, "question": f"Which part fits, {at}?", "options": list(SIDES[:many])}
        rows.append({**own, "task_type": "Complex_Logic", "sub_task_type": kind, "answer": "ABCD"[at % many]})
    tsv(where / "OmniSpatialBench.tsv", rows)
    packed(where / "OmniSpatial-test.zip", media)


def _spar(where: Path) -> None:
    rows: list[Row] = []
    for at, task in enumerate(name for name in TASKS["spar-bench"].groups if name not in ("high", "low", "middle")):
        number, moves = task in SPAR_NUMBER, task == "view_change_infer"
        gold = "move_right:1,move_up:0.5" if moves else f"{at + 1}.5" if number else "ABCD"[at % 4]
        listed = "" if number or moves else "\nA. left\nB. right\nC. up\nD. down"
        shown = [text(at + turn) for turn in range(1 + at % 3)]
        own = {"index": at, "image": shown, "task": task, "question": f"Say it for task {at}.{listed}"}
        rows.append({**own, "answer": gold, "source": "drawn"})
    tsv(where / "SparBench.tsv", rows)


_DRAWINGS: Mapping[str, Callable[[Path], None]] = {
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
