"""A small VLM2-Bench in the official layout, drawn: creatures of the chart stand for objects and people.

Field names, ids and the forms of gold answers are those that the released scripts read; the questions are worded anew.
Everything follows from the arguments.
"""

from __future__ import annotations

import base64
import csv
import json
import re
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as pillow

from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.rng import Stream
from snellen.benchmarks.vlm2.layout import BY_NAME, SUBTASKS, Subtask

av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")

SIZE = 48
VIEWS = 4
KINDS = ("pet", "cup", "toy")
CUES = ("add_remove", "swap", "attribute", "environment")
COUNTED = ("AB", "AAB", "ABCD", "AA", "ABC", "AAAA", "AAA", "AABC", "AAAB")
GROUPED = ("AAB", "ABC", "AABC", "ABCD", "AAAB")
FRAMES = 6
ACTIVITIES = ("walk", "read", "cook")

Files = dict[str, bytes]


def draw(where: Path, *, groups: int = 3, vanilla: str = "vanilla", top: str = "") -> Path:
    """The data set as a folder, or as a zip where the name ends so.

    Args:
        where: what is written.
        groups: pairs, questions or videos of each subtask.
        vanilla: the folder's spelling; pc-vid's is always misspelt, as in the released scripts.
        top: a folder that everything lies under, with `/` at its end.
    """
    return write({top + name: data for name, data in contents(groups, vanilla).items()}, where)


def write(files: Mapping[str, bytes], where: Path) -> Path:
    """Files as a folder or zip."""
    if where.suffix == ".zip":
        with zipfile.ZipFile(where, "w") as archive:
            for name, data in files.items():
                archive.writestr(zipfile.ZipInfo(name, (2025, 2, 28, 0, 0, 0)), data)
        return where
    for name, data in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return where


def draw_tsv(where: Path, *, groups: int = 3, form: str = "python") -> Path:
    """VLMEvalKit's table of the image subtasks, with the very same pictures.

    Args:
        form: how the list of pictures is written: `python`, `json`, or `paths` with the pictures in files beside it.
    """
    files = contents(groups)
    column = "image_path" if form == "paths" else "image"
    with where.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out, delimiter="\t", lineterminator="\n")
        table.writerow(["index", "question", "answer", "category", column])
        for subtask in SUBTASKS:
            if subtask.family == "video":
                continue
            for row in rows(files, subtask):
                half = {"T": "_p", "F": "_n"}[row["gt_answer"]] if subtask.cue == "gc" else ""
                index = f"{subtask.name}_{row['q_id']}{half}"
                pictures = [files[f"{subtask.media}/{name}"] for name in row["images"]]
                cells = [base64.b64encode(data).decode() for data in pictures]
                if form == "paths":
                    cells = [f"/root/LMUData/images/VLM2Bench/{index}_{k}.jpg" for k in range(1, len(pictures) + 1)]
                    for cell, data in zip(cells, pictures, strict=True):
                        path = where.parent / "images" / "VLM2Bench" / Path(cell).name
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(data)
                written = json.dumps(cells) if form == "json" else str(cells)
                table.writerow([index, row["question"], row["gt_answer"], subtask.name, written])
    return where


def question_file(subtask: Subtask | str, vanilla: str = "vanilla") -> str:
    """The name of a subtask's question file in `contents`."""
    one = BY_NAME[subtask] if isinstance(subtask, str) else subtask
    return f"jsonl/{one.cue}/{'vallina' if one.family == 'video' else vanilla}/{one.questions}"


def rows(files: Mapping[str, bytes], subtask: Subtask | str, vanilla: str = "vanilla") -> list[dict[str, Any]]:
    """Rows of a question file."""
    return [json.loads(line) for line in files[question_file(subtask, vanilla)].splitlines()]


def with_rows(files: Mapping[str, bytes], subtask: Subtask | str, changed: list[Any]) -> Files:
    """The files with other rows in a question file; a text or bytes stands for a line as it is."""
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in changed]
    return {**files, question_file(subtask): b"\n".join(lines) + b"\n"}


@lru_cache(maxsize=4)
def _contents(groups: int, vanilla: str) -> Files:
    files: Files = {}
    questions: dict[str, list[dict[str, Any]]] = {subtask.name: [] for subtask in SUBTASKS}
    for number in range(groups):
        for name in ("gc-mat", "gc-trk"):
            questions[name] += _general(BY_NAME[name], number, files)
        for cue in ("oc", "pc"):
            questions[f"{cue}-cpr"] += _compared(BY_NAME[f"{cue}-cpr"], number, files)
            questions[f"{cue}-cnt"].append(_counted(BY_NAME[f"{cue}-cnt"], number, files))
            questions[f"{cue}-grp"].append(_grouped(BY_NAME[f"{cue}-grp"], number, files))
        questions["pc-vid"].append(_filmed(BY_NAME["pc-vid"], number, files))
    for name, found in questions.items():
        files[question_file(name, vanilla)] = b"".join(json.dumps(row).encode() + b"\n" for row in found)
    return files


def contents(groups: int = 3, vanilla: str = "vanilla") -> Files:
    """Name to bytes of every file."""
    return dict(_contents(groups, vanilla))


def _portrait(who: str, view: int) -> pillow.Image:
    """A view of somebody; views differ in place, size of the body and light."""
    creature = world.creature(Stream("drawn", who))
    stream = Stream("drawn", who, view)
    return pillow.fromarray(world.finished(world.portrait(creature, stream, SIZE, world.Dials()), stream))


def _encoded(picture: pillow.Image, form: str) -> bytes:
    out = BytesIO()
    picture.save(out, form)
    return out.getvalue()


def _general(subtask: Subtask, number: int, files: Files) -> list[dict[str, Any]]:
    """A pair of questions about one edit; both carry one q_id, of which some are numbers and some texts."""
    images = [f"{subtask.name[3:]}/{number:03}/{which}.png" for which in ("original", "edited")]
    for view, name in enumerate(images):
        files[f"{subtask.media}/{name}"] = _encoded(_portrait(f"{subtask.name}-{number}-{view}", 0), "PNG")
    shared = {
        "q_id": number + 1 if subtask.name == "gc-mat" else f"{number + 1}",
        "task": CUES[number % len(CUES)],
        "edited_prompt": "put another creature in its place",
        "images": images,
    }
    asked = 'Somebody was asked: "What changed from image 1 to image 2?" Is "{}" a right answer? T or F.'
    return [
        {**shared, "question": asked.format("the creature"), "gt_answer": "T"},
        {**shared, "question": asked.format("the ground"), "gt_answer": "F"},
    ]


def _sequence(subtask: Subtask, number: int, pattern: str, files: Files) -> list[str]:
    """Paths of a sequence of pictures: one letter, one identity."""
    names = []
    for place, letter in enumerate(pattern):
        who = f"{KINDS[number % len(KINDS)]}_{'ABCD'.index(letter) + number}"
        name = f"{who}/{place % VIEWS}.jpg"
        path = f"{subtask.media}/{name}"
        if path not in files:
            files[path] = _encoded(_portrait(f"{subtask.cue}-{who}", place % VIEWS), "JPEG")
        names.append(name)
    return names


def _shared(subtask: Subtask, number: int, images: list[str]) -> dict[str, Any]:
    return {"type": KINDS[number % len(KINDS)] if subtask.cue == "oc" else "person", "images": images}


def _compared(subtask: Subtask, number: int, files: Files) -> list[dict[str, Any]]:
    pattern = ("AA", "AB", "AAA", "AAB")[number % 4]
    shared = _shared(subtask, number, _sequence(subtask, number, pattern, files))
    same = len(set(pattern)) == 1
    main = f"tf_{number + 1}" if subtask.cue == "pc" and number % 2 else f"{number + 1}"
    return [
        {
            "q_id": f"{main}_{half}",
            **shared,
            "question": f'Is this statement true: "The images {verb} the same one"? Answer T or F.',
            "gt_answer": "T" if same == (half == "p") else "F",
        }
        for half, verb in (("p", "show"), ("n", "do not show"))
    ]


def _counted(subtask: Subtask, number: int, files: Files) -> dict[str, Any]:
    pattern = COUNTED[number % len(COUNTED)]
    return {
        "q_id": number + 1 if subtask.cue == "oc" else f"{number + 1}",
        **_shared(subtask, number, _sequence(subtask, number, pattern, files)),
        "question": "Answer with one number, e.g. 2.\nHow many different ones do the images show?",
        "gt_answer": len(set(pattern)),
        "image_seq_len": len(pattern),
    }


def _grouped(subtask: Subtask, number: int, files: Files) -> dict[str, Any]:
    pattern = GROUPED[number % len(GROUPED)]
    right = _spoken([place for place, letter in enumerate(pattern, 1) if pattern.count(letter) > 1])
    texts = list(dict.fromkeys([right, "None", "1 and 3", "2 and 3", "1, 2 and 3", "1 and 2"]))[:4]
    texts = texts[number % 4 :] + texts[: number % 4]
    options = [f"{letter}) {text}" for letter, text in zip("ABCD", texts, strict=True)]
    return {
        "q_id": f"{number + 1}",
        **_shared(subtask, number, _sequence(subtask, number, pattern, files)),
        "question": "Copy one choice, as in A) 1 and 2.\nWhich images show the same one? " + "; ".join(options),
        "gt_answer": options[texts.index(right)],
    }


def _spoken(places: list[int]) -> str:
    if not places:
        return "None"
    return re.sub(r", (\d+)\Z", r" and \1", ", ".join(map(str, places)))


def _filmed(subtask: Subtask, number: int, files: Files) -> dict[str, Any]:
    form = ("AB", "ABA")[number % 2]
    vid = f"{ACTIVITIES[number % len(ACTIVITIES)]}_{number + 1}_{form}"
    ending = (".mp4", ".mp4", ".mov")[number % 3]
    files[f"{subtask.media}/{vid}{ending}"] = clip([f"film-{number}-{letter}" for letter in form])
    return {"vid": vid, "question": "Describe the video, and above all who is in it."}


def clip(who: list[str]) -> bytes:
    """A film of 96 x 96: each of these for six frames, at ten frames a second."""
    out = BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 2 * SIZE, 2 * SIZE, "yuv420p"
        for name in who:
            shown = _portrait(name, 0).resize((2 * SIZE, 2 * SIZE))
            for _ in range(FRAMES):
                container.mux(stream.encode(av.VideoFrame.from_image(shown)))
        container.mux(stream.encode())
    return out.getvalue()
