"""Prompts of the further benchmarks: the harnesses' texts by their digests, the order of parts, frames, options, odd rows."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import more_drawn as drawn
from benchmarks.spatial.kit_drawn import tsv
from benchmarks.spatial.official_drawn import film, picture
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import prompts
from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.prompts.layouts import parsed_positions
from snellen.benchmarks.spatial.prompts.words import forms
from snellen.benchmarks.spatial.question import ShownMedia
from snellen.benchmarks.spatial.scorers.points import Mask
from snellen.benchmarks.spatial.sources.rows import question as question_of
from snellen.benchmarks.spatial.tasks import MORE
from snellen.errors import DataError, UsageError
from snellen.sources import BytesBlob, Unreadable
from snellen.types import Image, Part, Prompt, Sample, Text, Video

LAMP = "Where is the lamp?"
OPTIONS = "['A. left', 'B. right', 'C. front', 'D. behind']"
LETTERS = {"A": "left", "B": "right", "C": "front", "D": "behind"}
TUPLES = " Your answer should be formatted as a list of tuples."
IMAGE = ("image",)
CLIP = ("clip",)


def composed(name: str, form: str, row: dict[str, Any], *, images: int = 1, **options: str) -> Prompt:
    """The prompt of one row of the kit's, or of the authors' where the form is lmms-eval's."""
    task = MORE[name]
    layout = "kit" if form.startswith("vlmevalkit") else "official"
    question = question_of(task, layout, {"index": "1", "answer": "A", **row}, 0)
    how = prompts.prompt_settings(Data(options={"prompting": form, **options}), task)
    blobs = tuple(BytesBlob(f"{at}.png", picture(at)) for at in range(images))
    is_clip = "sample-frames" in prompts.options(task)
    media = ShownMedia(video=BytesBlob("a.mp4", film(20))) if is_clip else ShownMedia(images=blobs)
    return prompts.compose(how, task, question, media)


def outline(prompt: Prompt) -> list[tuple[Any, ...]]:
    """Images and clips by kind, texts by their first hexadecimal digits and their length."""
    return [
        (sha256(part.text.encode()).hexdigest()[:12], len(part.text))
        if isinstance(part, Text)
        else CLIP
        if isinstance(part, Video)
        else IMAGE
        for part in prompt.parts
    ]


ASKED = {"question": LAMP}
CHOICE = {**ASKED, "options": OPTIONS}
TYPED = {"task_type": "x", **CHOICE}
RECALL = {"question_type": "10mins", "type": "10mins"}
OSI = {**CHOICE, "video_length": 27.0667}
EQUAL: list[tuple[str, str, dict[str, Any], list[tuple[Any, ...]]]] = [
    ("stare", "vlmevalkit", {**ASKED, "category": "temporal"}, [("ea3e2914b552", 18), IMAGE, ("ee9ffc70885c", 264)]),
    ("stare", "vlmevalkit-cot", {**ASKED, "category": "x"}, [("ea3e2914b552", 18), IMAGE, ("80f2d5da8bdf", 145)]),
    ("stare", "lmms-eval", {**ASKED, "category": "x"}, [IMAGE, ("e6be4e4f5833", 160)]),
    ("spatialviz", "vlmevalkit", {**ASKED, **LETTERS, "category": "c", "task": "t"}, [IMAGE, ("57bfc3983908", 306)]),
    (
        "spatialviz",
        "vlmevalkit-cot",
        {**ASKED, **LETTERS, "category": "c", "task": "t"},
        [IMAGE, ("cda40f8f4336", 355)],
    ),
    (
        "spatialviz",
        "lmms-eval",
        {"Question": LAMP, "Choices": list(LETTERS.values()), "Category": "c", "Task": "t"},
        [IMAGE, ("e633f1b430ab", 355)],
    ),
    ("erqa", "vlmevalkit", {**ASKED, "question_type": "x", "visual_indices": "[0]"}, [IMAGE, ("ea3e2914b552", 18)]),
    (
        "erqa",
        "vlmevalkit",
        {**ASKED, "question_type": "x", "visual_indices": "[5]"},
        [("1daaa38f33cd", 5), IMAGE, ("fc3ef0b0e027", 13)],
    ),
    ("erqa", "vlmevalkit", {**ASKED, "question_type": "x", "visual_indices": "[99]"}, [IMAGE, ("ea3e2914b552", 18)]),
    (
        "erqa",
        "vlmevalkit-upstream",
        {"question": f"Look <image> now. {LAMP}", "category": "x"},
        [("a0de5719f595", 4), IMAGE, ("8d6749eeb459", 23)],
    ),
    ("refspatial", "vlmevalkit", {**ASKED, "category": "location"}, [IMAGE, ("a49b44a9e8dc", 123)]),
    (
        "refspatial",
        "vlmevalkit-upstream",
        {"prompt": LAMP, "question": "ignored", "category": "location"},
        [IMAGE, ("79890392d8d0", 121)],
    ),
    (
        "refspatial",
        "lmms-eval",
        {"prompt": LAMP, "suffix": "Your answer should be a list.", "category": "location"},
        [IMAGE, ("2f79839682d6", 101)],
    ),
    (
        "refspatial",
        "lmms-eval-json",
        {"prompt": LAMP, "object": "the lamp", "category": "unseen"},
        [IMAGE, ("0d4c129ccd3d", 78)],
    ),
    (
        "robospatial-home",
        "vlmevalkit",
        {"question": LAMP + TUPLES, "category": "context"},
        [IMAGE, ("a35f098c776a", 125)],
    ),
    (
        "robospatial-home",
        "vlmevalkit",
        {"question": f"{LAMP} Answer yes or no.", "category": "compatibility", "answer": "yes"},
        [IMAGE, ("ed0a2340e029", 36)],
    ),
    (
        "spbench/si",
        "vlmevalkit",
        {**ASKED, "candidates": OPTIONS, "question_type": "object_rel_distance"},
        [IMAGE, ("5e8b95c7d80a", 165)],
    ),
    (
        "spbench/mv",
        "vlmevalkit",
        {**ASKED, "candidates": "[]", "question_type": "object_counting"},
        [IMAGE, ("28ac769c3cac", 108)],
    ),
    (
        "vsi-super-recall",
        "vlmevalkit",
        {**CHOICE, **RECALL, "question": f" {LAMP} "},
        [CLIP, ("45255c32261445ed"[:12], 128)],
    ),
    ("vsi-super-recall", "lmms-eval", {**CHOICE, **RECALL}, [CLIP, ("45255c322614", 128)]),
    ("vsi-super-count", "vlmevalkit", {"question": f" {LAMP} ", **RECALL}, [CLIP, ("f19a164d4576", 105)]),
    ("vsi-super-count", "lmms-eval", {**ASKED, "split": "10mins"}, [CLIP, ("f19a164d4576", 105)]),
    (
        "dsr-bench",
        "vlmevalkit",
        {**TYPED, "options": json.dumps([f"{x}. {y}" for x, y in LETTERS.items()])},
        [("cd86cf0a93cd", 187), CLIP, ("fe779ae8a298", 73)],
    ),
    ("eriq", "vlmevalkit", {"question_raw": f"<image>\n{LAMP}", "task_type": "x"}, [IMAGE, ("ea3e2914b552", 18)]),
    (
        "revsi",
        "vlmevalkit",
        {**ASKED, "question_type": "object_counting_single", "options": "None"},
        [CLIP, ("c90cc24efc20", 109)],
    ),
    ("revsi", "vlmevalkit", {**CHOICE, "question_type": "route_planning"}, [CLIP, ("13f855a36bd6", 157)]),
    ("revsi", "lmms-eval", {**CHOICE, "question_type": "object_abs_distance"}, [CLIP, ("c90cc24efc20", 109)]),
    (
        "cv-bench",
        "lmms-eval",
        {"choices": list(LETTERS.values()), "prompt": f"{LAMP} (A) x (B) y", "task": "Count"},
        [IMAGE, ("5d64fde246dc", 124)],
    ),
    ("osi-bench", "lmms-eval", {**OSI, "category": "absolute_distance"}, [CLIP, ("f073c8a9cbca", 411)]),
    ("osi-bench", "lmms-eval-text-first", {**OSI, "category": "absolute_distance"}, [CLIP, ("71fe426f1f8f", 411)]),
    ("osi-bench", "lmms-eval", {**OSI, "category": "absolute_speed"}, [CLIP, ("2a804f2584b9", 410)]),
    ("osi-bench", "lmms-eval", {**CHOICE, "category": "absolute_speed"}, [CLIP, ("ed344860d74a", 299)]),
    ("osi-bench", "lmms-eval", {**OSI, "category": "relative_distance"}, [CLIP, ("a7b7a482de49", 451)]),
    ("osi-bench", "lmms-eval", {**OSI, "category": "trajectory_description"}, [CLIP, ("4f713a0be487", 279)]),
    ("osi-bench", "lmms-eval-text-first", {**OSI, "category": "trajectory_description"}, [CLIP, ("2cfba9e10f7f", 279)]),
]


@pytest.mark.parametrize(
    ("name", "form", "row", "expected"), EQUAL, ids=[f"{case[0]}-{at}" for at, case in enumerate(EQUAL)]
)
def test_texts_are_the_harnesses_to_the_character(
    name: str, form: str, row: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    assert outline(composed(name, form, row)) == expected


def test_sti_bench_says_at_which_rate_its_frames_come() -> None:
    row = {**ASKED, "time_start": 1.5, "time_end": 4, "options": str(list(LETTERS.values())), "task_type": "x"}
    by_rate = composed("sti-bench", "vlmevalkit", row, **{"sample-frames": "2fps"})
    assert outline(by_rate) == [CLIP, ("2e7cb113f267", 226)]
    by_number = composed("sti-bench", "vlmevalkit", row)  # 30 frames of 20 at 10 a second
    assert isinstance(text := by_number.parts[1], Text) and "sampled at about 15.00 FPS." in text.text
    task = MORE["sti-bench"]
    how = prompts.prompt_settings(Data(), task)
    question = question_of(task, "kit", {"index": "1", "answer": "A", **row}, 0)
    damaged = prompts.compose(how, task, question, ShownMedia(video=BytesBlob("b.mp4", b"no film")))
    assert isinstance(text := damaged.parts[1], Text) and "sampled at an unspecified frame rate." in text.text


def test_osi_bench_counts_the_frames_that_a_rate_makes() -> None:
    row = {**OSI, "category": "absolute_speed"}
    prompt = composed("osi-bench", "vlmevalkit", row, **{"sample-frames": "2fps"})
    texts = [part.text for part in prompt.parts if isinstance(part, Text)]
    assert texts[1].startswith("The video is 27.07 seconds long. The following 4 frames")
    first = composed("osi-bench", "vlmevalkit-visual-first", row)
    assert [type(part) for part in first.parts] == [Text, Video, Text]
    refused = composed("osi-bench", "vlmevalkit", {**row, "category": "relative_direction_angular"})
    assert any(isinstance(part, Image) and isinstance(part.blob, Unreadable) for part in refused.parts)


@pytest.mark.parametrize(
    ("total", "count", "expected"),
    [
        (16, 16, list(range(16))),
        (104, 16, [6, 12, 18, 24, 30, 36, 42, 48, 55, 61, 67, 73, 79, 85, 91, 97]),
        (7, 16, [0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6]),
    ],
)
def test_revsi_takes_frames_inside_of_the_clip(total: int, count: int, expected: list[int]) -> None:
    assert frames.inner(total, count) == expected


def test_a_clip_too_short_for_one_frame_shows_its_first_in_revsi_and_none_elsewhere() -> None:
    assert frames.revsi_by_rate(10, 25.0, 1.0) == [0] and frames.by_rate(10, 25.0, 1.0) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[0, 5]", [0, 5]),
        ("[1e999]", []),
        ("0, 5", [0, 5]),
        ("(3,4)", [3, 4]),
        ("7", [7]),
        ("", []),
        ("a,b", []),
        ("[[1]]", []),
    ],
)
def test_positions_of_images_are_read_from_json_or_by_commas(value: str, expected: list[int]) -> None:
    assert parsed_positions(value) == expected


def test_surplus_images_stay_in_stare_only_as_far_as_there_are_pieces() -> None:
    prompt = composed("stare", "vlmevalkit", {"question": "See <image>.", "category": "temporal"}, images=4)
    assert [type(part) for part in prompt.parts] == [Text, Image, Text, Image]
    unmarked = composed("eriq", "vlmevalkit", {"question_raw": LAMP, "task_type": "x"}, images=2)
    assert [type(part) for part in unmarked.parts] == [Text]


def test_an_image_that_lego_does_not_have_costs_its_sample() -> None:
    row = {"question": "See <image 3>.", "question_type": "mcq", "category": "x"}
    parts: tuple[Part, ...] = composed("lego-puzzles", "vlmevalkit", row, images=2).parts
    assert isinstance(parts[0], Image) and isinstance(parts[0].blob, Unreadable) and "image 3" in parts[0].blob.message


def samples(name: str, path: Path, **options: str) -> list[Sample]:
    return list(registry.find(name).samples(Data(path=path, options=options)))


def test_a_subset_is_asked_alone_and_streamed_rows_only_by_name(tmp_path: Path) -> None:
    path = drawn.draw("vsi-super-count", tmp_path, kit=False).path
    assert [s.meta["question_type"] for s in samples("vsi-super-count", path, subset="30mins")] == ["30mins"]
    streamed = samples("vsi-super-count", path, subset="10mins_streaming")
    assert [s.kind for s in streamed] == ["open"] and streamed[0].meta["gold"] == "[2.0, 3.0]"
    text = streamed[0].prompt.parts[1]
    assert isinstance(text, Text) and "60.0, 120.0" in text.text and "JSON list" in text.text
    notices = registry.find("vsi-super-count").notices(Data(path=path))
    assert any("2 rows ask about a streamed video" in line and "10mins_streaming" in line for line in notices)


def test_the_circular_form_of_lego_is_asked_by_name_and_its_rows_are_one_group(tmp_path: Path) -> None:
    path = drawn.draw("lego-puzzles", tmp_path, kit=True).path
    assert {s.meta.get("circle", "") for s in samples("lego-puzzles", path)} == {""}
    circular = samples("lego-puzzles", path, subset="circular")
    assert len(circular) == 4 and {s.meta["circle"] for s in circular} == {"0"} and {s.group for s in circular} == {"0"}


def test_budgets_of_revsi_lie_in_folders_of_their_own(tmp_path: Path) -> None:
    path = drawn.draw("revsi", tmp_path, kit=False).path
    (first, _) = samples("revsi", path, subset="16_frame")
    assert isinstance(video := first.prompt.parts[0], Video) and video.blob is not None and video.pick is not None
    assert video.blob.key.endswith("16_frame/s0.mp4") and video.pick.numbers(16) == list(range(16))
    with pytest.raises(DataError, match="no questions of revsi"):
        samples("revsi", path, subset="64_frame")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("stare", {"subset": "4d"}, "stare has no such subset"),
        ("erqa", {"prompting": "cot"}, "erqa has no such form"),
        ("osi-bench", {"sample-frames": "many"}, "a number from 1"),
        ("osi-bench", {"prompting": "lmms-eval", "sample-frames": "2fps"}, "not by lmms-eval"),
    ],
)
def test_an_option_that_a_benchmark_does_not_have_is_named(
    name: str, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = drawn.draw(name, tmp_path, kit=False).path
    with pytest.raises(UsageError, match=message):
        samples(name, path, **options)


def test_masks_come_with_the_samples_from_cells_and_from_files(tmp_path: Path) -> None:
    for kit in (False, True):
        for at, sample in enumerate(samples("refspatial", drawn.draw("refspatial", tmp_path, kit=kit).path)):
            mask = sample.meta["mask"]
            assert isinstance(mask, Mask) and mask.blob.read() == drawn.mask(at)
    context = samples("robospatial-home", drawn.draw("robospatial-home", tmp_path, kit=False).path)
    assert [isinstance(s.meta["mask"], Mask) for s in context] == [False, False, True]
    table = samples("robospatial-home", drawn.draw("robospatial-home", tmp_path, kit=True).path)
    assert not any("mask" in s.meta for s in table)
    assert [(s.kind, s.target) for s in context] == [("truth", True), ("truth", False), ("open", None)]


def test_the_raw_folders_of_refspatial_are_read_without_the_parquet_files(tmp_path: Path) -> None:
    for split in ("Location", "Placement"):
        for kind, data in (("image", picture(1)), ("mask", drawn.mask(1))):
            (tmp_path / split / kind).mkdir(parents=True)
            (tmp_path / split / kind / "0.png").write_bytes(data)
        row = {"id": 0, "object": "cup", "prompt": "Point.", "suffix": "", "step": 2}
        row |= {"rgb_path": "image/0.png", "mask_path": "mask/0.png"}
        (tmp_path / split / "question.json").write_text(json.dumps([row]), encoding="utf-8")
    found = samples("refspatial", tmp_path)
    assert [s.id for s in found] == ["location_0", "placement_0"] and [s.meta["step"] for s in found] == ["2", "2"]
    assert all(isinstance(s.prompt.parts[0], Image) and s.prompt.parts[0].blob.read() == picture(1) for s in found)
    assert all(s.meta["mask"].blob.read() == drawn.mask(1) for s in found)


def test_a_row_that_cannot_be_read_costs_only_itself_and_is_named(tmp_path: Path) -> None:
    good = {
        "index": 0,
        "image": drawn.base64_text(1),
        "question": "q",
        "answer": "1.5",
        "question_type": "object_abs_distance",
    }
    rows = [good, {**good, "index": 1, "question_type": "object_taste"}, {**good, "index": 2, "answer": None}]
    tsv(tmp_path / "SPBench-SI.tsv", [{"candidates": "", **row} for row in rows])
    found = samples("spbench/si", tmp_path)
    assert [sample.meta.get("unreadable", "") for sample in found] == ["", "yes", "yes"]
    notices = registry.find("spbench/si").notices(Data(path=tmp_path))
    assert any("2 rows cannot be read" in line and "line 3" in line for line in notices)


def test_rows_of_eriq_that_are_asked_without_their_images_are_named(tmp_path: Path) -> None:
    path = drawn.draw("eriq", tmp_path, kit=True).path
    row = {
        "image_path": ["t1/a.png"],
        "question_raw": "Which? A. yes B. no",
        "answer": "A",
        "task_type": "QA_TASK_PROGRESS",
    }
    tsv(path / "ERIQ.tsv", [{"index": 0, **row}])
    notices = registry.find("eriq").notices(Data(path=path))
    assert any("1 questions have no mark for their images" in line for line in notices)


def test_a_video_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = drawn.draw("osi-bench", tmp_path, kit=False).path
    (path / "videos_part2.zip").unlink()
    notices = registry.find("osi-bench").notices(Data(path=path))
    assert any("2 questions show pictures or videos that are not there" in line for line in notices)


def test_words_of_a_users_own_take_the_place_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text(
        'prompting = "vlmevalkit"\n["spbench/si"]\ntext = "Say {question} of {options}"\n', encoding="utf-8"
    )
    row = {**ASKED, "candidates": OPTIONS, "question_type": "object_rel_distance"}
    prompt = composed("spbench/mv", "vlmevalkit", row, prompts=str(file))
    assert isinstance(text := prompt.parts[1], Text) and text.text.startswith("Say Where is the lamp? of A. left")
    file.write_text('prompting = "vlmevalkit"\n[erqa]\ntext = "nothing"\n', encoding="utf-8")
    with pytest.raises(DataError, match="shows no question"):
        composed("erqa", "vlmevalkit", {**ASKED, "question_type": "x"}, prompts=str(file))
    file.write_text('prompting = "lmms-eval-json"\n[erqa]\ntext = "{question}"\n', encoding="utf-8")
    with pytest.raises(DataError, match="was expected"):
        composed("erqa", "vlmevalkit", {**ASKED, "question_type": "x"}, prompts=str(file))


@pytest.mark.parametrize("name", drawn.DRAWN)
def test_every_form_of_every_benchmark_has_a_prompt(name: str, tmp_path: Path) -> None:
    path = drawn.draw(name, tmp_path, kit=False).path
    for form in forms(MORE[name]):
        for sample in samples(name, path, prompting=form):
            texts = [part.text for part in sample.prompt.parts if isinstance(part, Text)]
            assert texts and not any("{question}" in text or "{options}" in text for text in texts)
            assert any(isinstance(part, Image | Video) for part in sample.prompt.parts)


def test_a_table_of_stare_finds_its_images_in_the_parquet_files_that_the_kit_unpacks(tmp_path: Path) -> None:
    official = drawn.draw("stare", tmp_path, kit=False).path
    row = {"index": 0, "question": "See <image>. A. x B. y", "answer": "A", "category": "perspective"}
    names = ["images/perspective/test-00000-of-00001/q5/1.png", "images/perspective/test-00000-of-00001/q6/0.png"]
    table = tsv(
        tmp_path / "StareBench.tsv", [{**row, "index": at, "image_path": [name]} for at, name in enumerate(names)]
    )
    benchmark = registry.find("stare")
    first, second = benchmark.samples(Data(path=table, images=official))
    assert isinstance(image := first.prompt.parts[1], Image) and image.blob.read() == picture(5 * 5 + 1)
    assert any(isinstance(part, Image) and isinstance(part.blob, Unreadable) for part in second.prompt.parts)
