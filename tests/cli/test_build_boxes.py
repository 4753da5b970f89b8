"""Boxes for vp-zoom: a detector writes them once, the run reads them, and images without one are as the user said."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

pytestmark = pytest.mark.usefixtures("printed_as_schema")

PICTURES = {"cup/a.png": (60, 40), "cup/b.png": (40, 60), "toy/c.png": (50, 50)}


@pytest.fixture
def linking_set(tmp_path: Path) -> Path:
    """A set in VLM2-Bench's layout: three questions on cups and toys, one on people; one image is broken."""
    data = tmp_path / "data-set"
    for cue, media, kind, images in (
        ("oc", "data/oc/original_obj", "cup", [["cup/a.png", "cup/b.png"], ["cup/a.png", "toy/c.png"]]),
        ("pc", "data/pc/image/picks_face", "person", [["cup/a.png", "cup/b.png"]]),
    ):
        for name, size in PICTURES.items():
            path = data / media / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (200, 60, 60)).save(path)
        rows = [
            {"q_id": f"{at}_p", "type": kind, "question": "T or F?", "gt_answer": "T", "images": shown}
            for at, shown in enumerate(images)
        ]
        folder = data / f"jsonl/{cue}/vanilla"
        folder.mkdir(parents=True)
        (folder / f"{cue}_cpr.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return data


@pytest.fixture
def faces(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for face_recognition: two faces in a broad picture, none in a high one; (top, right, bottom, left)."""
    module = ModuleType("face_recognition")
    module.face_locations = lambda pixels: (  # type: ignore[attr-defined]
        [(1, 9, 9, 1), (5, 35, 30, 10)] if pixels.shape[1] > pixels.shape[0] else []
    )
    monkeypatch.setitem(sys.modules, "face_recognition", module)
    return module


def rows(path: Path) -> dict[str, dict[str, Any]]:
    return {row["image"]: row for row in map(json.loads, path.read_text().splitlines())}


@pytest.mark.parametrize("kind", ["owlv2", "grounding_dino"])
def test_a_zero_shot_detector_gives_one_box_an_image_inside_of_it(snellen, tmp_path, linking_set, kind):
    pytest.importorskip("torch")
    import tiny_detectors

    folder = getattr(tiny_detectors, kind)(tmp_path / kind)
    words = ("build", "boxes", "vp-zoom-o", "--data", linking_set, "--detector", folder, "--min-score", "0.01")
    said = snellen(*words, "--missing", "whole")
    assert said.status == 0, said.err
    first = (tmp_path / "boxes.jsonl").read_bytes()
    found = rows(tmp_path / "boxes.jsonl")
    assert list(found) == list(PICTURES)
    for name, (width, height) in PICTURES.items():
        x0, y0, x1, y1 = found[name]["box"]
        assert 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height
        assert found[name]["label"] in ("cup", "whole image")
    snellen(*words, "--missing", "whole")
    assert (tmp_path / "boxes.jsonl").read_bytes() == first


def test_the_owl_of_the_test_finds_a_box_in_each_image(snellen, tmp_path, linking_set):
    pytest.importorskip("torch")
    import tiny_detectors

    said = snellen(
        "build", "boxes", "vp-zoom-o", "--data", linking_set, "--detector", tiny_detectors.owlv2(tmp_path / "owl")
    )
    assert "boxes of 3 images" in said.out and "-o prompting=vp-zoom -o boxes=boxes.jsonl" in said.out
    assert all(0.1 <= row["score"] <= 1 for row in rows(tmp_path / "boxes.jsonl").values())


def test_the_largest_face_is_the_box_and_an_image_without_a_face_is_left_out_or_shown_whole(
    snellen, tmp_path, linking_set, faces
):
    words = ("build", "boxes", "vp-zoom-p", "--data", linking_set, "--detector", "face_recognition")
    said = snellen(*words)
    assert said.status == 0 and "1 images: nothing was found (fail); the first is cup/b.png" in said.err
    assert rows(tmp_path / "boxes.jsonl") == {
        "cup/a.png": {"image": "cup/a.png", "box": [10.0, 5.0, 35.0, 30.0], "label": "face"}
    }
    assert json.loads(snellen(*words, "--json").out) == {"found": 1, "empty": ["cup/b.png"], "unreadable": []}
    snellen(*words, "--missing", "whole")
    assert rows(tmp_path / "boxes.jsonl")["cup/b.png"] == {
        "image": "cup/b.png",
        "box": [0.0, 0.0, 40.0, 60.0],
        "label": "whole image",
    }


def test_a_run_shows_what_the_boxes_enclose(snellen, tmp_path, linking_set, faces):
    snellen(
        "build", "boxes", "vp-zoom-p", "--data", linking_set, "--detector", "face_recognition", "--missing", "whole"
    )
    run = (
        "run",
        "vlm2/pc-cpr",
        "--data",
        linking_set,
        "-m",
        "pixels",
        "-o",
        "prompting=vp-zoom-p",
        "-o",
        "boxes=boxes.jsonl",
    )
    said = snellen(*run, "--out", "r")
    assert said.status == 0, said.err
    (record,) = map(json.loads, (tmp_path / "r/results.jsonl").read_text().splitlines())
    assert record["response"]["text"] == "red" and not record.get("error")


def test_a_broken_image_is_counted_and_costs_itself_alone(snellen, tmp_path, linking_set, faces):
    (linking_set / "data/pc/image/picks_face/cup/b.png").write_bytes(b"no picture")
    said = snellen("build", "boxes", "vp-zoom-p", "--data", linking_set, "--detector", "face_recognition")
    assert "1 images: cannot be read; the first is cup/b.png" in said.err and "boxes of 1 images" in said.out


def test_what_is_no_detector_and_what_is_no_data_is_refused(snellen, tmp_path, linking_set, monkeypatch, faces):
    words = ("build", "boxes", "vp-zoom-o", "--detector")
    said = snellen(*words, "nobody-has-this", "--data", linking_set)
    assert said.status != 0 and "there is no model folder nobody-has-this" in said.err
    (tmp_path / "none").mkdir()
    said = snellen(*words, "face_recognition", "--data", "none")
    assert said.status != 0 and "oc_cpr.jsonl" in said.err
    monkeypatch.setitem(sys.modules, "face_recognition", None)
    said = snellen(*words, "face_recognition", "--data", linking_set)
    assert said.status == 3 and "pip install face_recognition" in said.err


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Three images in folders, one of them broken."""
    for name, size in {"crow/1.jpg": (60, 40), "wren/1.png": (40, 60)}.items():
        path = tmp_path / "birds" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (200, 60, 60)).save(path)
    (tmp_path / "birds/wren/2.png").write_bytes(b"no picture")
    return tmp_path / "birds"


def test_masks_of_things_in_boxes_are_what_a_run_corrupts_around(snellen, tmp_path, birds):
    pytest.importorskip("torch")
    import tiny_detectors

    owl, sam = tiny_detectors.owlv2(tmp_path / "owl"), tiny_detectors.sam2(tmp_path / "sam")
    words = ("build", "masks", "--images", birds, "--query", "bird", "--detector", owl, "--segmenter")
    said = snellen(*words, sam)
    assert said.status == 0, said.err
    assert "masks: masks of 2 images" in said.out and "cannot be read; the first is wren/2.png" in said.err
    assert f"--images {birds} --corrupt grey@background --mask masks" in said.out
    found = {path.relative_to("masks").as_posix(): Image.open(path) for path in Path("masks").rglob("*.png")}
    assert {name: (mask.mode, mask.size) for name, mask in found.items()} == {
        "crow/1.png": ("L", (60, 40)),
        "wren/1.png": ("L", (40, 60)),
    }
    for mask in found.values():
        assert {value for _, value in mask.getcolors()} == {0, 255}
    said = snellen(*words, sam, "--json", "--min-score", "1")
    assert json.loads(said.out) == {"found": 0, "empty": ["crow/1.jpg", "wren/1.png"], "unreadable": ["wren/2.png"]}
    (birds / "wren/2.png").unlink()
    Path("q.csv").write_text("image,question,answer\ncrow/1.jpg,Which colour?,red\nwren/1.png,Which colour?,red\n")
    run = ("run", "q.csv", "-m", "pixels", "--images", birds, "--corrupt", "grey@background", "--mask", "masks")
    assert snellen(*run, "--out", "r").status == 0
    records = [json.loads(line) for line in Path("r/results.jsonl").read_text().splitlines()]
    assert [record["response"]["text"] for record in records] == ["red", "red"]


def test_what_outlines_nothing_and_images_of_one_name_are_refused(snellen, tmp_path, birds):
    pytest.importorskip("torch")
    import tiny_detectors

    owl = tiny_detectors.owlv2(tmp_path / "owl")
    words = ("build", "masks", "--query", "bird", "--detector", owl)
    said = snellen(*words, "--images", birds, "--segmenter", owl)
    assert (
        said.status != 0 and "is no SAM" in said.err and "hf:facebook/sam2.1-hiera-large" in " ".join(said.err.split())
    )
    sam = tiny_detectors.sam2(tmp_path / "sam")
    Image.new("RGB", (8, 8)).save(birds / "wren/1.jpg")
    said = snellen(*words, "--images", birds, "--segmenter", sam)
    assert said.status == 3 and "4 images with 3 names without endings" in said.err
    assert not Path("masks").exists()
