"""EASI's further benchmarks and ReVSI, drawn small: in the layouts of the authors' repositories and as VLMEvalKit's tables.

File names, columns and the spelling of categories are those of the data sets; questions are worded anew, and pictures are
coloured noise. Beside the data stands what a model is to be shown: texts, bytes of pictures, and of a clip its frames.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from benchmarks.spatial.kit_drawn import text as base64_text
from benchmarks.spatial.kit_drawn import tsv
from benchmarks.spatial.official_drawn import PICTURE, PICTURES, SIDES, TEXTS, cell, film, packed, parquet, picture
from snellen.benchmarks.spatial.tasks import MORE

Row = dict[str, Any]
DRAWN = tuple(MORE)
TEXT = pa.string()
LETTERED = [f"{letter}. {side}" for letter, side in zip("ABCD", SIDES, strict=True)]
LINES = "\n".join(LETTERED)
JSON_REQUEST = (
    'Output the point coordinates in JSON format.\nFor example:\n[\n  {"point_2d": [x, y], "label": "point_1"}\n]\n'
)
DIRECT = "Answer with the option's letter from the given choices directly."
STARE_END = (
    "Answer with the option's letter from the given choices and put the letter in one <answer> answer </answer>\n"
    "Please ensure that your output only contains the final answer (a single option letter) without any additional content "
    "(such as intermediate reasoning steps)."
)


@dataclass(frozen=True)
class Frames:
    """Frames of a drawn clip that are shown, by their numbers."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Holds:
    """A text that holds these pieces in this order."""

    pieces: tuple[str, ...]


Part: TypeAlias = "str | bytes | Frames | Holds"
Shown: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True)
class Drawn:
    """A drawn benchmark.

    Attributes:
        path: its folder.
        shown: what is sent for each question, by its id.
        options: words for `-o`, so that clips of few frames do.
    """

    path: Path
    shown: dict[str, Shown] = field(default_factory=dict)
    options: tuple[str, ...] = ()


def draw(name: str, folder: Path, *, kit: bool) -> Drawn:
    """Draw a benchmark in the authors' layout, or as the kit's table, into `folder/NAME`."""
    where = folder / name.replace("/", "-") / ("kit" if kit else "official")
    where.mkdir(parents=True, exist_ok=True)
    return _DRAWINGS[name](where, kit)


def _options(letters: str = "ABCD") -> Row:
    return dict(zip(letters, SIDES, strict=False))


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
            own = {"index": at, "image": base64_text(at), "question": asked, **_options()}
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


FEW = ("sample-frames=4",)


def _recall(where: Path, kit: bool) -> Drawn:
    """A parquet file, or a table, and an archive for each duration."""
    drawn = Drawn(where, options=FEW)
    for at, duration in enumerate(("10mins", "240mins")):
        asked = " In which order did they come? "
        packed(where / f"{duration}.zip", {f"{duration}/{at:08}.mp4": film(22 + at)})
        if kit:
            own = {"index": 0, "video": f"{duration}/{at:08}.mp4", "question": asked, "options": LETTERED}
            tsv(where / f"VsiSuperRecall_{duration}.tsv", [{**own, "answer": "C", "question_type": duration}])
        else:
            own = {"video_path": f"{duration}/{at:08}.mp4", "question": asked, "options": LETTERED, "answer": "C"}
            schema = {column: TEXTS if column == "options" else TEXT for column in own}
            parquet(where / f"test_{duration}.parquet", [{**own, "type": duration}], {**schema, "type": TEXT})
        frames = Frames(((0, 7, 14, 21), (0, 7, 14, 22))[at])
        words = f"In which order did they come?\nOptions:\n{LINES}\n{DIRECT}"
        drawn.shown[f"{duration}_0" if kit or not at else f"{duration}_1"] = (frames, words)
    return drawn


def _count(where: Path, kit: bool) -> Drawn:
    """One parquet file of all durations, streamed rows among them; a table for each duration, with its streamed rows."""
    drawn = Drawn(where, options=FEW)
    rows: list[Row] = []
    for at, duration in enumerate(("10mins", "30mins")):
        name, asked = f"{duration}/{at:08}.mp4", f"How many different chairs, {at}?"
        packed(where / f"{duration}_part1.zip", {name: film(22)})
        if kit:
            own = {"index": 0, "video": name, "question": asked, "answer": 14}
            more = {"index": 1, "video": name, "question": asked, "answer": 0, "question_type": f"{duration}_streaming"}
            kinds = {"answers": None, "query_times": None}
            streamed = {"answers": [2, 3], "query_times": [60, 120]}
            tsv(
                where / f"VsiSuperCount_{duration}.tsv",
                [{**own, "question_type": duration, **kinds}, {**more, **streamed}],
            )
        else:
            own = {"video_path": name, "question": asked, "answer": 14.0, "answers": None, "query_times": None}
            rows.append({**own, "split": duration})
            rows.append(
                {**own, "answer": None, "answers": [2, 3], "query_times": [60, 120], "split": f"{duration}_streaming"}
            )
        words = f"These are frames of a video.\n{asked}\nPlease answer the question using a single word or phrase."
        drawn.shown[f"{duration}_0" if kit or not at else f"{duration}_2"] = (Frames((0, 7, 14, 21)), words)
    if not kit:
        lists = pa.list_(pa.float64())
        kinds = {"answer": pa.float64(), "answers": lists, "query_times": lists}
        parquet(where / "test.parquet", rows, {column: kinds.get(column, TEXT) for column in rows[0]})
    return drawn


def _sti(where: Path, kit: bool) -> Drawn:
    """The prompt says how many frames come on a second of the clip: 4 of 22 at 10 a second."""
    drawn = Drawn(where, options=FEW)
    packed(where / "video.zip", {"video/a.mp4": film(22)})
    asked = "How far did it go?"
    if kit:
        own = {"index": 0, "video": "video/a.mp4", "question": asked, "options": list(SIDES), "answer": "D"}
        rows = [{**own, "task_type": "Displacement & Path Length", "time_start": 0.5, "time_end": 2}]
        tsv(where / "STI-Bench.tsv", rows)
    else:
        own = {"ID": 7, "Video": "a.mp4", "Question": asked, "Candidates": json.dumps(_options()), "Answer": "D"}
        row = {**own, "Task": "Displacement & Path Length", "time_start": "0.5", "time_end": "2"}
        parquet(where / "qa.parquet", [row], {column: pa.int64() if column == "ID" else TEXT for column in row})
    words = (
        "Answer the question below based on the frames provided, which are sampled at about 1.82 FPS.\n"
        f"Question: From 0.5 seconds to 2 seconds. {asked}\nA left\nB right\nC front\nD back\n"
        "Please output only the option you choose!"
    )
    drawn.shown["0" if kit else "7"] = (Frames((0, 7, 14, 21)), words)
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


def _dsr(where: Path, kit: bool) -> Drawn:
    """One frame a second: of 22 frames at 10 a second the first and the eleventh."""
    drawn = Drawn(where)
    packed(where / "raw_data.zip" if kit else where / "dsr-bench.zip", {"dsr-bench/a.mp4": film(22)})
    asked = "Which way does it turn?"
    if kit:
        own = {"index": 0, "video": "raw_data/dsr-bench/a.mp4", "question": asked, "options": json.dumps(LETTERED)}
        tsv(where / "DSRBench.tsv", [{**own, "answer": "A", "task_type": "rel_dir"}])
    else:
        row = {"id": "a_0", "video": "a.mp4", "question": asked, "options": LETTERED, "answer": "A", "type": "rel_dir"}
        parquet(where / "benchmark.parquet", [row], {name: TEXTS if name == "options" else TEXT for name in row})
    first = (
        "\nThese are the frames of a video. Select the best answer to the following multiple-choice question based on the "
        "video. Respond with only the letter (A, B, C, or D) of the correct option.\n"
    )
    words = f"Question: {asked}\n{LINES}\nAnswer: "
    drawn.shown["0" if kit else "a_0"] = (first, Frames((0, 10)), words)
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


def _osi(where: Path, kit: bool) -> Drawn:
    """Videos by number, in numbered archives; a clip without a length has no line about it."""
    drawn = Drawn(where, options=FEW)
    packed(where / "videos_part1.zip", {"part1/0003.mp4": film(22)})
    packed(where / "videos_part2.zip", {"part2/0012.mp4": film(22)})
    rows: list[Row] = [
        {"index": 0, "question": "How far?", "category": "absolute_distance", "question_type": "numerical"},
        {"index": 1, "question": "Which is near?", "category": "relative_distance", "question_type": "mcq"},
        {"index": 2, "question": "Which way?", "category": "trajectory_description", "question_type": "mcq"},
    ]
    for at, row in enumerate(rows):
        number = 12 if at else 3
        row |= {
            "options": LETTERED if at else None,
            "answer": "B" if at else "3.5",
            "video_length": None if at == 2 else 27.0667,
        }
        row |= {"video": f"{number:04}.mp4" if kit else number, "file_name": f"{number:04}.mp4"}
    if kit:
        tsv(where / "OSI-Bench.tsv", rows)
    else:
        kinds = {"index": pa.int64(), "video": pa.int64(), "options": TEXTS, "video_length": pa.float64()}
        parquet(where / "data.parquet", rows, {name: kinds.get(name, TEXT) for name in rows[0]})
    opening = (
        "These are frames of a video.\nIn the video, objects are identified by numeric tags shown nearby.\n"
        "With that in mind, please answer the following question based on the video.\n"
    )
    length = (
        "The video is 27.07 seconds long. The following 4 frames are uniformly sampled from it in chronological order:"
    )
    number_end = "Your answer must be only the final numeric value, without units or any other text.\nThe answer is:"
    end = "Your answer must be only the single letter (e.g., A, B, C, or D) of the correct option.The answer is:"
    frames = Frames((0, 7, 14, 21))
    drawn.shown["0"] = (f"{opening}Question: How far?\n\n{number_end}", length, frames)
    drawn.shown["1"] = (f"{opening}Question: Which is near?\n{LINES}\n\n{end}", length, frames)
    drawn.shown["2"] = (f"Question: Which way?\n{LINES}\n\n{end}", frames)
    return drawn


def _revsi(where: Path, kit: bool) -> Drawn:
    """A folder of questions and clips for each budget of frames; the frames lie inside of the clip."""
    drawn = Drawn(where)
    rows: list[Row] = []
    for at, kind in enumerate(("object_counting_single", "route_planning")):
        own = {"question": f"What of it, {at}?", "question_type": kind, "options": LETTERED if at else None}
        gold = "B" if at else "3"
        if kit:
            rows.append({"index": at, "video": "32_frame/s0.mp4", **own, "ground_truth": gold, "answer": gold})
        else:
            rows.append(
                {"id": at, "dataset": "scannet", "scene_id": "s0", "num_frames": "32", **own, "ground_truth": gold}
            )
        words = f"These are frames of a video.\nWhat of it, {at}?\n"
        words += (
            f"Options:\n{LINES}\n{DIRECT}" if at else "Answer the question using a single integer or decimal number."
        )
        drawn.shown[str(at)] = (Frames(tuple(range(32))), words)
    packed(where / "video.zip", {"32_frame/s0.mp4": film(32), "16_frame/s0.mp4": film(16)})
    if kit:
        tsv(where / "revsi_32_frame.tsv", rows)
        return drawn
    kinds: Row = {"id": pa.int64(), "options": TEXTS}
    for budget in ("16_frame", "32_frame"):
        schema = {name: kinds.get(name, TEXT) for name in rows[0]}
        parquet(where / budget / "test-00000-of-00001.parquet", rows, schema)
    return drawn


_DRAWINGS: Mapping[str, Callable[[Path, bool], Drawn]] = {
    "stare": _stare,
    "spatialviz": _spatialviz,
    "erqa": _erqa,
    "refspatial": _refspatial,
    "robospatial-home": _robospatial,
    "spbench/si": partial(_spbench, "SI"),
    "spbench/mv": partial(_spbench, "MV"),
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
