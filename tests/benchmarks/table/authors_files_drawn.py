"""Small drawn downloads of clip sets as their authors' repositories have them: nested objects, two files, lines, ZIP files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from video_sets_drawn import event_clip

OPTIONS = "A. up\nB. down\nC. left"


def write(folder: Path, files: dict[str, Any]) -> Path:
    """Write files: bytes and texts as they are, an object as a ZIP file where its name says so, anything else as JSON."""
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(packed(content) if name.endswith(".zip") else plain(content))
    return folder


def plain(content: Any) -> bytes:
    if isinstance(content, bytes):
        return content
    return content.encode() if isinstance(content, str) else json.dumps(content, indent=1).encode()


def packed(members: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, plain(member))
    return content.getvalue()


def clips(*names: str, folder: str = "videos/") -> dict[str, bytes]:
    return {f"{folder}{name}.mp4": event_clip(number) for number, name in enumerate(names)}


def _of_perception(number: int, answer: int) -> dict[str, Any]:
    return {
        "id": number, "question": f"Question {answer}: what moves?", "options": ["a ball", "a cup", "nothing"], "answer_id": answer,
        "area": "Physics", "reasoning": "Descriptive", "tag": ["motion"],
    }  # fmt: skip


PERCEPTION = {
    "video_7": {"metadata": {"split": "valid", "video_id": "video_7"}, "mc_question": [_of_perception(0, 2), _of_perception(3, 0)]},
    "video_9": {"metadata": {"split": "valid", "video_id": "video_9"}, "mc_question": [_of_perception(0, 1)]},
}  # fmt: skip
OF_ALL_TASKS = {
    name: about | {"object_tracking": [{"id": 1, "label": "box"}]} for name, about in PERCEPTION.items()
} | {"video_11": {"metadata": {"split": "valid"}, "sound_localisation": []}}
"""The file of all tasks: a video may have no question."""


def _by_aspect(*rows: tuple[str, str, str, str]) -> dict[str, dict[str, list[dict[str, str]]]]:
    """Return video, aspect, question and answer as TempCompass nests them."""
    nested: dict[str, dict[str, list[dict[str, str]]]] = {}
    for video, aspect, question, answer in rows:
        nested.setdefault(video, {}).setdefault(aspect, []).append({"question": question, "answer": answer})
    return nested


CHOICES = _by_aspect(
    ("10", "action", f"Question 0: where to?\n{OPTIONS}", "C. left"),
    ("10", "action", f"Question 1: where does it go?\n{OPTIONS}", "A. up"),
    ("10_reverse", "order", f"Question 2: and then?\n{OPTIONS}", "B. down"),
)
INFORMED = "Write a caption.\nInformation A: {'action': 'up'}\nGenerated Caption:"
TEMPCOMPASS = {
    "questions/multi-choice.json": CHOICES,
    "questions/yes_no.json": _by_aspect(
        ("10", "action", "Question 0: up?", "no"), ("10", "speed", "Question 1: left?", "yes"), ("10_reverse", "order", "Question 2?", "no")
    ),
    "questions/caption_matching.json": _by_aspect(
        ("10", "action", "Question 0?\nSentence A: It goes up.\nSentence B: It goes left.", "Sentence B: It goes left."),
        ("10_reverse", "order", "Question 1?\nOption 1: It falls.\nOption 2: It rises.", "Option 1: It falls."),
    ),
    "questions/captioning.json": _by_aspect(("10", "action", f"0. {INFORMED}", "C. left"), ("10_reverse", "order", f"1. {INFORMED}", "B. down")),
    "predictions/gemini/multi-choice.json": _by_aspect(("10", "action", "not this file", "A. up")),
    **clips("10", "10_reverse"),
}  # fmt: skip

UIDS = ("001934bb", "00594c2d", "0089a0d6")
EGOSCHEMA = {
    "questions.json": [
        {"q_uid": uid, "google_drive_id": "x", "question": f"Question {n}: what was it about?", **{f"option {at}": f"theme {at}" for at in range(5)}}
        for n, uid in enumerate(UIDS)
    ],
    "subset_answers.json": {UIDS[2]: 4, UIDS[0]: 0},
    "uid_to_ego4d.json": {UIDS[0]: {"vid": "v"}},
    **clips(*UIDS),
}  # fmt: skip

CHARADES = {
    "charades_sta_test.txt": "3MSZA 1.0 3.0##a person turns a light on # 1.\n3MSZA 0.0 2.0##the person sits down.\n\nAO8RW 0.5 2.5##open it.\n",
    "charades_sta_train.txt": "AO8RW 0.0 1.0##of training.\n",
    **clips("3MSZA", "AO8RW", folder="Charades_v1_480/"),
}

MLVU = {
    "test-ground-truth/test_mcq_gt.json": [
        {"video": "a.mp4", "question": "Question 0?", "candidates": ["up", "down"], "answer": "down", "question_type": "count", "question_id": "AC_0"}
    ],
    "test-ground-truth/test_ssc_gt.json": [
        {"video": "a.mp4", "question": "Describe scene 0.", "answer": "It turns white.", "question_type": "subsummary", "scoring_points": ["0a", "0b"]},
        {"video": "b.mp4", "question": "Describe scene 1.", "answer": "It stays.", "question_type": "subsummary", "scoring_points": ["1a"]},
    ],
    "test-ground-truth/test_vs_gt.json": [{"video": "b.mp4", "question": "Summarize 2.", "answer": "All of it.", "question_type": "summary"}],
    "test_generation_tasks.json": [{"video": "a.mp4", "question": "Describe scene 0.", "question_type": "subsummary"}],
    **clips("a", "b", folder="MLVU_Test/video/"),
}  # fmt: skip
