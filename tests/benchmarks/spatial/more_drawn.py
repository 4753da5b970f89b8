"""EASI's further benchmarks and ReVSI, drawn small: in the layouts of the authors' repositories and as VLMEvalKit's tables.

File names, columns and the spelling of categories are those of the data sets; questions are worded anew, and pictures are
coloured noise. Beside the data stands what a model is to be shown: texts, bytes of pictures, and of a clip its frames.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks.spatial import more_films_drawn, more_variants_drawn
from benchmarks.spatial.kit_drawn import text as base64_text
from benchmarks.spatial.kit_drawn import tsv
from benchmarks.spatial.more_parts import (
    JSON_REQUEST,
    LETTERED,
    LINES,
    STARE_END,
    TEXT,
    Drawn,
    Holds,
    Part,
    Row,
    Shown,
    options,
)
from benchmarks.spatial.official_drawn import PICTURE, PICTURES, SIDES, TEXTS, cell, packed, parquet, picture
from snellen.benchmarks.spatial.tasks import MORE

DRAWN = tuple(MORE)


def draw(name: str, folder: Path, *, kit: bool) -> Drawn:
    """Draw a benchmark in the authors' layout, or as the kit's table, into `folder/NAME`."""
    where = folder / name.replace("/", "-") / ("kit" if kit else "official")
    where.mkdir(parents=True, exist_ok=True)
    return _DRAWINGS[name](where, kit)


def _stare(where: Path, kit: bool) -> Drawn:
    drawn = Drawn(where)
    rows: list[Row] = []
    kinds = ("2d_trans", "3d_trans_vsim", "folding_nets", "tangram_puzzle", "temporal", "perspective")
    for at, kind in enumerate(kinds):
        many = 1 + at % 3
        marks = ("", "First <image> then <image>. ", "See <image>: ")[at % 3]
        yes_no = kind in ("folding_nets", "tangram_puzzle")
        asked = f"{marks}Which one, {at}?{' A. yes B. no' if yes_no else ' A. x B. y C. z D. w'}"
        images = [picture(at * 5 + turn) for turn in range(many)]
        own = {"question": asked, "answer": "AB"[at % 2], "other_info": ""}
        if kit:
            paths = [f"images/{kind}/test-00000-of-00001/{at}/{turn}.png" for turn in range(many)]
            packed(where / f"{kind}.zip", dict(zip(paths, images, strict=True)))
            rows.append({"index": at, "image_path": paths, **own, "category": f" {kind.upper()} "})
        else:
            rows.append(
                {"qid": f"q{at}", **own, "images": [cell(at * 5 + turn) for turn in range(many)], "category": kind}
            )
        marked = asked if "<image>" in asked else f"{asked}\n<image>"
        pieces = f"{marked}\n\n{STARE_END}".split("<image>")
        parts: list[Part] = []
        for turn, piece in enumerate(pieces):
            parts += [piece.strip()] if piece.strip() else []
            parts += images[turn : turn + 1]
        drawn.shown[str(at) if kit else f"q{at}"] = tuple(parts)
    if kit:
        tsv(where / "StareBench.tsv", rows)
        return drawn
    schema = {"qid": TEXT, "question": TEXT, "answer": TEXT, "other_info": TEXT, "images": PICTURES, "category": TEXT}
    for row in rows:
        parquet(where / row["category"] / "test-00000-of-00001.parquet", [row], schema)
    return drawn


def _spatialviz(where: Path, kit: bool) -> Drawn:
    drawn = Drawn(where)
    instruction = (
        "Answer with a single option letter (A, B, C, or D), enclosed within the <answer></answer> tag. For example: "
        "<answer>A</answer>. Ensure that your output contains only the final answer, without any intermediate reasoning or "
        "additional content.\n"
    )
    rows: list[Row] = []
    media: dict[str, bytes] = {}
    for at, (category, task) in enumerate((("MentalRotation", "2DRotation"), ("MentalAnimation", "BlockMoving"))):
        asked, place = f"What comes of it, {at}?", f"{category}/{task}/Level{at}/{at:03}"
        media[f"{place}.png"] = picture(at)
        if kit:
            own = {"index": at, "image": base64_text(at), "question": asked, **options()}
            rows.append({**own, "category": category, "task": task, "answer": "ABCD"[at]})
        else:
            own = {"Category": category, "Task": task, "Level": f"Level{at}", "Image_id": f"{at:03}", "Question": asked}
            rows.append({**own, "Choices": list(SIDES), "Answer": "ABCD"[at], "Explanation": "none"})
        words = f"{instruction}Question:{asked}\n{LINES}\n"
        drawn.shown[str(at) if kit else place] = (picture(at), words)
    if kit:
        tsv(where / "SpatialVizBench.tsv", rows)
        return drawn
    parquet(
        where / "data" / "test-00000-of-00001.parquet", rows, {n: TEXTS if n == "Choices" else TEXT for n in rows[0]}
    )
    packed(where / "images.zip", media)
    return drawn


def _erqa(where: Path, kit: bool) -> Drawn:
    """Images at positions in characters, in front where all positions are 0 or their number is wrong, behind the end."""
    drawn = Drawn(where)
    rows: list[Row] = []
    one, two, three = picture(1), picture(2), picture(3)
    cases: list[tuple[list[int], Sequence[int], Shown]] = [
        ([1], [0], (one, "Where is it now? A. x B. y")),
        ([1, 2], [6, 0], (two, "Where ", one, "is it now? A. x B. y")),
        ([1, 2], [9], (one, two, "Where is it now? A. x B. y")),
        ([1, 2, 3], [99, 5, 5], ("Where", two, three, one, " is it now? A. x B. y")),
    ]
    for at, (seeds, positions, shown) in enumerate(cases):
        own = {"question": "Where is it now? A. x B. y", "question_type": "Pointing", "answer": "AB"[at % 2]}
        if kit:
            images = [base64_text(seed) for seed in seeds]
            written = json.dumps(positions) if at % 2 else ", ".join(map(str, positions))
            rows.append({"index": at, "image": images, **own, "visual_indices": written})
        else:
            images = [cell(seed) for seed in seeds]
            rows.append({"question_id": f"ERQA_{at}", **own, "images": images, "visual_indices": list(positions)})
        drawn.shown[str(at) if kit else f"ERQA_{at}"] = shown
    if kit:
        tsv(where / "ERQA.tsv", rows)
        return drawn
    schema = {"question_id": TEXT, "question": TEXT, "question_type": TEXT, "answer": TEXT, "images": PICTURES}
    parquet(where / "data" / "test-00000-of-00001.parquet", rows, {**schema, "visual_indices": pa.list_(pa.int64())})
    return drawn


def mask(seed: int) -> bytes:
    """A mask that is white in its left half."""
    from io import BytesIO

    from PIL import Image as pillow

    out = BytesIO()
    image = pillow.new("L", (28, 28), 0)
    image.paste(255, (0, 0, 14, 28))
    image.putpixel((27, seed % 28), 255)
    image.save(out, "PNG")
    return out.getvalue()


def _refspatial(where: Path, kit: bool) -> Drawn:
    drawn = Drawn(where)
    schema = {"id": pa.int64(), "image": PICTURE, "mask": PICTURE, "object": TEXT, "prompt": TEXT, "suffix": TEXT}
    rows: list[Row] = []
    for at, split in enumerate(("location", "placement", "unseen")):
        asked, seed = f"Please point at the cup {at}.", at * 3
        if kit:
            files = {f"{split}/image/{at}.png": picture(seed), f"{split}/mask/{at}.png": mask(at)}
            packed(where / f"{split}.zip", files)
            image, masked = files
            rows.append({"index": at, "image_path": [image], "mask_path": masked, "question": asked, "category": split})
            rows[-1]["answer"] = ""
        else:
            own = {"id": at, "image": cell(seed), "mask": {"bytes": mask(at), "path": None}, "object": "the cup"}
            row = {**own, "prompt": asked, "suffix": "Give tuples.", "step": at + 1}
            parquet(where / "data" / f"{split}-00000-of-00001.parquet", [row], {**schema, "step": pa.int64()})
        drawn.shown[str(at) if kit else f"{split}_{at}"] = (picture(seed), f"{asked}{JSON_REQUEST}")
    if kit:
        tsv(where / "RefSpatial.tsv", rows)
    return drawn


def _robospatial(where: Path, kit: bool) -> Drawn:
    drawn = Drawn(where)
    schema = {
        "category": TEXT,
        "question": TEXT,
        "answer": TEXT,
        "img": PICTURE,
        "depth_image": PICTURE,
        "mask": PICTURE,
    }
    rows: list[Row] = []
    questions = {
        "compatibility": ("Does the cup fit left of the plate? Answer yes or no.", "yes"),
        "configuration": ("Is the cup left of the plate? Answer yes or no.", "no"),
        "context": (
            "Where is room left of the plate? Your answer should be formatted as a list of tuples, with numbers from 0 to 1.",
            "[(0.1, 0.1), (0.4, 0.1), (0.4, 0.4), (0.1, 0.4)]",
        ),
    }
    for at, (split, (asked, gold)) in enumerate(questions.items()):
        if kit:
            rows.append({"index": at, "image": base64_text(at), "question": asked, "answer": gold, "category": split})
        else:
            own = {"category": split, "question": asked, "answer": gold, "img": cell(at), "depth_image": cell(at + 50)}
            shown_mask = {"bytes": mask(at), "path": None} if split == "context" else None
            parquet(where / "data" / f"{split}-00000-of-00001.parquet", [{**own, "mask": shown_mask}], schema)
        words = asked if split != "context" else f"Where is room left of the plate?\n\n{JSON_REQUEST}"
        drawn.shown[str(at) if kit else f"{split}_{at}"] = (picture(at), words)
    if kit:
        tsv(where / "RoboSpatialHome.tsv", rows)
    return drawn


def _spbench(half: str, where: Path, kit: bool) -> Drawn:
    drawn = Drawn(where)
    rows: list[Row] = []
    media: dict[str, bytes] = {}
    for at, kind in enumerate(("object_abs_distance", "object_rel_distance")):
        many = 1 if half == "SI" else 2
        names = [f"{at}{turn}.jpg" for turn in range(many)]
        images = [picture(at * 4 + turn, "JPEG") for turn in range(many)]
        paths = [f"SPBench-{half}-images/scene0000_0{at}/{name}" for name in names]
        media |= dict(zip(paths, images, strict=True))
        asked, gold = f"How far is the lamp, {at}?", "1.5" if at == 0 else "B"
        options = LETTERED if at else None
        if kit:
            own = {"index": at, "image_path": paths, "question": asked, "candidates": options, "question_type": kind}
            rows.append({**own, "answer": gold})
        else:
            own = {"id": at + 1, "dataset": "scannet", "scene_name": f"scene0000_0{at}", "question_type": kind}
            rows.append({**own, "question": asked, "ground_truth": gold, "options": options, "images": names})
        choice = "Please answer with the option's letter from the given choices (e.g., A, B, etc.) directly."
        number = "Please answer the question using a numerical value (e.g., 42 or 3.1) directly."
        words = f"Question: {asked}\n" + (f"Options:\n{LINES}\n\n{choice}" if at else f"\n{number}")
        drawn.shown[str(at if kit else at + 1)] = (*images, words)
    packed(where / f"SPBench-{half}-images.zip", media)
    if kit:
        tsv(where / f"SPBench-{half}.tsv", rows)
        return drawn
    kinds: Row = {"id": pa.int64(), "options": TEXTS, "images": TEXTS}
    parquet(where / f"SPBench-{half}.parquet", rows, {column: kinds.get(column, TEXT) for column in rows[0]})
    return drawn


def _cv_bench(where: Path, kit: bool) -> Drawn:
    drawn = Drawn(where)
    parts = {"2D": ("ADE20K", "Relation"), "3D": ("Omni3D", "Depth")}
    for at, (split, (source, task)) in enumerate(parts.items()):
        asked = f"Which is nearer, {at}? Select from the following choices.\n(A) left\n(B) right"
        if kit:
            own = {"index": 0, "image": base64_text(at), "prompt": asked, "A": "left", "B": "right", "answer": "B"}
            tsv(where / f"CV-Bench-{split}.tsv", [{**own, "split": split, "source": source, "category": task}])
        else:
            own = {"idx": at, "type": split, "task": task, "image": cell(at), "question": f"Which is nearer, {at}?"}
            row = {**own, "choices": ["left", "right"], "answer": "(B)", "prompt": asked, "source": source}
            kinds = {"idx": pa.int64(), "image": PICTURE, "choices": TEXTS}
            parquet(where / f"test_{split.lower()}.parquet", [row], {name: kinds.get(name, TEXT) for name in row})
        drawn.shown[f"{split}_0" if kit else str(at)] = (picture(at), asked)
    return drawn


def _lego(where: Path, kit: bool) -> Drawn:
    """The authors give the kit's table; its circular form lies beside."""
    drawn = Drawn(where)
    rows: list[Row] = []
    steps = dict(zip("ABCD", ("s1", "s2", "s3", "s4"), strict=True))
    images = [base64_text(1), base64_text(2)]
    asked = {
        "mcq": "Is <image 2> built of <image 1>?",
        "sort": "Order these steps.",
    }
    for at, (kind, question) in enumerate(asked.items()):
        own = {"index": at, "image": images, "question_type": kind, "question": question, **steps}
        rows.append({**own, "category": ("height", "ordering")[at], "answer": ("B", "BDAC")[at]})
    tsv(where / "LEGO.tsv", rows)
    circular = [{**rows[0], "index": turn * 1_000_000, "answer": "BCDA"[turn]} for turn in range(4)]
    tsv(where / "LEGO_circular.tsv", circular)
    listed = "A. s1\nB. s2\nC. s3\nD. s4\n"
    order = "Please respond with only the sequence of letters (e.g., 'BDAC') that correctly orders the steps."
    drawn.shown["0"] = ("Question: Is ", picture(2), " built of ", picture(1), Holds(("?\nOptions:\n", listed)))
    drawn.shown["1"] = (picture(1), picture(2), f"Question: Order these steps.\nOptions:\n{listed}{order}")
    return drawn


def _spatial457(where: Path, kit: bool) -> Drawn:
    """The authors' questions are lists in objects, one a level; the kit's are a table."""
    drawn = Drawn(where)
    rows: list[Row] = []
    for at, level in enumerate(("L1_single", "L5_collision")):
        asked = f"What colour has the bus, {at}?"
        if kit:
            own = {"index": at, "image": base64_text(at), "question": asked, "answer": "Red", "category": level}
            rows.append(own)
        else:
            name = f"superCLEVR_new_{at:06}.png"
            (where / "images").mkdir(exist_ok=True)
            (where / "images" / name).write_bytes(picture(at))
            (where / "questions").mkdir(exist_ok=True)
            question = {"image_filename": name, "question": asked, "answer": (True, 3)[at], "question_index": at}
            document = {"info": {"split": "new"}, "questions": [question]}
            (where / "questions" / f"{level}_questions.json").write_text(json.dumps(document), encoding="utf-8")
        template = "{'Reasoning': '<your reasons>', 'Answer': '<Your answer>'}"
        drawn.shown[str(at) if kit else f"{level}_{at}"] = (Holds(()), picture(at), asked, Holds((template,)))
    if kit:
        tsv(where / "Spatial457.tsv", rows)
    return drawn


def _eriq(where: Path, kit: bool) -> Drawn:
    """Images at marks; those beyond the marks are not shown."""
    drawn = Drawn(where)
    names = ["t1/a.png", "t1/b.png"]
    (where / "images" / "t1").mkdir(parents=True, exist_ok=True)
    for at, name in enumerate(names):
        (where / "images" / name).write_bytes(picture(at))
    questions = ["<image>\nThen <image> came. A. yes B. no", "See <image> alone. A. yes B. no"]
    own = [{"question_raw": q, "answer": "A", "task_type": "QA_TASK_PROGRESS"} for q in questions]
    if kit:
        tsv(where / "ERIQ.tsv", [{"index": at, "image_path": names, **row} for at, row in enumerate(own)])
    else:
        rows = [{"id": str(at), "image_path": names, **row} for at, row in enumerate(own)]
        (where / "eriq.json").write_text(json.dumps(rows), encoding="utf-8")
    drawn.shown["0"] = (picture(0), "Then", picture(1), "came. A. yes B. no")
    drawn.shown["1"] = ("See", picture(0), "alone. A. yes B. no")
    return drawn


_DRAWINGS: Mapping[str, Callable[[Path, bool], Drawn]] = {
    "stare": _stare,
    "spatialviz": _spatialviz,
    "erqa": _erqa,
    "refspatial": _refspatial,
    "robospatial-home": _robospatial,
    "spbench/si": partial(_spbench, "SI"),
    "spbench/mv": partial(_spbench, "MV"),
    "vsi-super-recall": more_films_drawn.recall,
    "vsi-super-count": more_films_drawn.count,
    "sti-bench": more_films_drawn.sti,
    "cv-bench": _cv_bench,
    "lego-puzzles": _lego,
    "spatial457": _spatial457,
    "dsr-bench": more_films_drawn.dsr,
    "eriq": _eriq,
    "osi-bench": more_films_drawn.osi,
    "revsi": more_films_drawn.revsi,
    "mindcube-full": more_variants_drawn.mindcube,
    "spar-bench-tiny": more_variants_drawn.spar,
    "omnispatial-direct": partial(more_variants_drawn.omnispatial, "Reply with the letter"),
    "omnispatial-default": partial(more_variants_drawn.omnispatial, "Keep to what the picture shows"),
    "omnispatial-zeroshot-cot": partial(more_variants_drawn.omnispatial, "reason step by step"),
    "blink-circular": more_variants_drawn.blink,
    "corecognition": more_variants_drawn.corecognition,
}
