"""Boxes of VLM2-Bench: files of boxes, and images replaced by the pixels of their box."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image as pillow

from benchmarks.vlm2.test_prompting import CPR, Counted, asked, file_of, noise, pixels_of, written
from snellen.benchmarks import vlm2
from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import dot_grid, prompts
from snellen.errors import DataError, UsageError
from snellen.media import MediaCache
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, MediaSettings


def test_boxes_are_read_alike_from_every_kind_of_file(tmp_path):
    rows = [
        {"image": "pet/a.jpg", "box": [1, 2, 30, 40.5], "score": 0.2},
        {"image": "pet/a.jpg", "box": [5, 6, 70, 80], "score": 0.9},
        {"image": "pet/a.jpg", "box": [7, 7, 9, 9], "score": 0.9},
        {"image": "./cup\\b.jpg", "box": [0, 0, 10, 10]},
        {"image": "cup/b.jpg", "box": [1, 1, 10, 10]},
    ]
    table = "image,x0,y0,x1,y1,score\n" + "".join(
        f"{row['image']},{','.join(map(str, row['box']))},{row.get('score', '')}\n" for row in rows
    )
    packed = "image\tbox\tscore\n" + "".join(
        f"{row['image']}\t{json.dumps(row['box'])}\t{row.get('score', '')}\n" for row in rows
    )
    for name, text in {
        "b.jsonl": "\n".join(map(json.dumps, rows)),
        "b.json": json.dumps(rows),
        "b.csv": table,
        "b.tsv": packed,
    }.items():
        found = dot_grid.read_boxes(written(tmp_path, name, text))
        assert {image: (box.x0, box.y0, box.x1, box.y1) for image, box in found.by_image.items()} == {
            "pet/a.jpg": (5, 6, 70, 80),
            "cup/b.jpg": (0, 0, 10, 10),
        }, name


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('{"image": "a", "box": [NaN, 0, 1, 5]}', "x0 is nan"),
        ('{"image": "a", "box": [0, 0, Infinity, 5]}', "x1 is"),
        ('{"image": "a", "box": [0, "top", 9, 5]}', "y0 is 'top'"),
        ('{"image": "a", "box": [0, true, 9, 5]}', "y0 is True"),
        ('{"image": "a", "box": [10, 10, 10, 20]}', "is empty"),
        ('{"image": "a", "box": [100, 100, 40, 50]}', "is empty; corners were expected"),
        ('{"image": "a", "box": [0.1, 0.2, 0.5, 1.0]}', "not fractions"),
        ('{"image": "a", "box": [1, 2, 3]}', "four numbers"),
        ('{"image": "a", "box": {"x": 1}}', "four numbers"),
        ('{"image": "a", "box": "1 2 3 4"}', "was expected"),
        ('{"image": "a", "x0": 1, "y0": 2, "x1": 5}', "neither box nor y1"),
        ('{"image": "", "box": [0, 0, 9, 9]}', "image is ''"),
        ('{"box": [0, 0, 9, 9]}', "image is None"),
        ('{"image": "a", "box": [0, 0, 9, 9], "score": NaN}', "score is nan"),
    ],
)
def test_a_row_that_is_no_box_is_named_by_file_and_line_and_the_others_are_counted(tmp_path, row, words):
    path = written(tmp_path, "b.jsonl", f'{{"image": "z", "box": [0, 0, 9, 9]}}\n{row}\n\n{row}\n')
    with pytest.raises(DataError, match=words) as raised:
        asked(CPR, prompting="vp-zoom", boxes=str(path))
    assert raised.value.message.startswith(f"{path}, line 2: ")
    assert "1 more rows are at fault" in raised.value.message


def test_a_file_of_boxes_that_is_missing_or_empty_is_an_error(tmp_path):
    for path in (tmp_path / "none.jsonl", written(tmp_path, "b.jsonl", ""), written(tmp_path, "b.json", "[]")):
        with pytest.raises(DataError, match=path.name):
            dot_grid.read_boxes(path)


@given(
    size=st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
    corner=st.tuples(*[st.floats(-3000, 3000)] * 2),
    sides=st.tuples(*[st.floats(0.01, 6000)] * 2),
    margin=st.floats(0, 10),
)
def test_a_crop_lies_in_the_picture_holds_the_boxs_part_of_it_and_grows_with_the_margin(size, corner, sides, margin):
    width, height = size
    box = dot_grid.Box(*corner, corner[0] + sides[0], corner[1] + sides[1])
    assume(box.x1 > box.x0 and box.y1 > box.y0)
    try:
        left, upper, right, lower = dot_grid.clipped(box, margin, width, height)
    except ValueError:
        inside = max(0, min(box.x1, width) - max(box.x0, 0)) * max(0, min(box.y1, height) - max(box.y0, 0))
        assert inside < 0.51 * sides[0] * sides[1]
        return
    assert 0 <= left < right <= width and 0 <= upper < lower <= height
    assert left <= max(box.x0, 0) and right >= min(box.x1, width)
    assert upper <= max(box.y0, 0) and lower >= min(box.y1, height)
    bare = dot_grid.clipped(box, 0, width, height)
    assert left <= bare[0] and upper <= bare[1] and right >= bare[2] and lower >= bare[3]
    assert bare[2] - bare[0] <= sides[0] + 2 and bare[3] - bare[1] <= sides[1] + 2


def test_a_margin_is_a_fraction_of_the_boxs_own_sides():
    assert dot_grid.clipped(dot_grid.Box(100, 100, 200, 140), 0.5, 1000, 1000) == (50, 80, 250, 160)
    assert dot_grid.clipped(dot_grid.Box(10, 100, 110, 140), 0.5, 1000, 145) == (0, 80, 160, 145)


def test_a_picture_is_replaced_by_the_pixels_of_its_box_when_it_is_read(tmp_path):
    path = written(tmp_path, "b.jsonl", '{"image": "cup/a.png", "box": [10, 20, 50, 45]}')
    source = noise(80, 60)
    blob = Counted("root/cup/a.png", file_of(source))
    how = asked(CPR, prompting="vp-zoom", boxes=str(path))
    part = prompts.compose(how, CPR, [Image(blob)], ["cup/a.png"], "Q").parts[0]
    assert blob.reads == 0
    assert (pixels_of(part.blob.read()) == source[20:45, 10:50]).all()
    assert part.blob.read() == part.blob.read()
    wider = asked(CPR, prompting="vp-zoom", boxes=str(path), crop_margin="0.2")
    other = prompts.compose(wider, CPR, [Image(blob)], ["cup/a.png"], "Q").parts[0]
    assert (pixels_of(other.blob.read()) == source[15:50, 2:58]).all()
    assert other.blob.key != part.blob.key
    assert all(key.startswith("root/cup/a.png#crop=") for key in (part.blob.key, other.blob.key))


def test_boxes_go_by_the_picture_as_it_is_seen_when_exif_turns_it():
    stored = np.zeros((60, 100, 3), np.uint8)
    stored[:, 80:] = (250, 250, 250)  # the right end as stored; turned clockwise (orientation 6), the lower end
    exif = pillow.Exif()
    exif[0x0112] = 6
    blob = BytesBlob("a.jpg", file_of(stored, "JPEG", quality=98, exif=exif))
    found = dot_grid.Boxes("b.jsonl", {"a.jpg": dot_grid.Box(0, 80, 60, 100)})
    cut = pixels_of(found.crop(blob, "a.jpg", 0).read())
    assert cut.shape == (20, 60, 3)
    assert cut.min() > 200
    above = pixels_of(dot_grid.Boxes("b", {"a.jpg": dot_grid.Box(0, 0, 60, 78)}).crop(blob, "a.jpg", 0).read())
    assert above.max() < 50


def test_an_image_without_a_box_fails_alone_when_it_is_read_and_the_nearest_name_is_told(tmp_path):
    path = written(tmp_path, "b.jsonl", '{"image": "cup/a1.png", "box": [10, 20, 50, 45]}')
    blob = Counted("cup/a2.png", file_of(noise(80, 60)))
    how = asked(CPR, prompting="vp-zoom", boxes=str(path))
    whole, broken = prompts.compose(how, CPR, [Image(blob)] * 2, ["cup/a1.png", "cup/a2.png"], "Q").parts[:2]
    assert pixels_of(whole.blob.read()).shape == (25, 40, 3)
    with pytest.raises(DataError, match=r"b\.jsonl: no box for the image cup/a2\.png; the nearest .* cup/a1\.png"):
        broken.blob.read()
    with pytest.raises(DataError, match="no box"):
        MediaCache(MediaSettings()).get(broken)


def test_a_box_that_lies_outside_of_its_picture_is_named_with_its_line_and_the_pictures_size(tmp_path):
    path = written(tmp_path, "b.csv", "image,x0,y0,x1,y1\na.png,60,10,140,40\n")
    blob = BytesBlob("a.png", file_of(noise(80, 60)))
    found = dot_grid.read_boxes(path).crop(blob, "a.png", 0)
    with pytest.raises(DataError, match=r"b\.csv, line 2: .*80 x 60 pixels upright: 25% of the box lies inside"):
        found.read()


def test_boxes_for_unknown_images_and_images_without_a_box_are_counted(tmp_path):
    rows = "\n".join(json.dumps({"image": name, "box": [0, 0, 9, 9]}) for name in ("a", "b", "c"))
    how = asked(CPR, prompting="vp-zoom", boxes=str(written(tmp_path, "b.jsonl", rows)))
    first, second = prompts.notices(how, ["./a", "d", "e", "a"])
    assert "2 of 3 images in it are shown by no question (the first is b)" in first
    assert "2 of 3 images have no box" in second and "(the first is d)" in second
    assert prompts.notices(how, ["a", "b", "c"]) == []
    assert prompts.notices(asked(), ["a"]) == []


@pytest.mark.parametrize("margin", ["-0.1", "nan", "inf", "ten", "11", ""])
def test_a_margin_that_is_no_fraction_is_refused(tmp_path, margin):
    path = written(tmp_path, "b.jsonl", '{"image": "a", "box": [10, 20, 50, 45]}')
    with pytest.raises(UsageError, match="crop-margin"):
        asked(CPR, prompting="vp-zoom", boxes=str(path), crop_margin=margin)


def test_other_boxes_give_another_digest_and_other_variants_none(tmp_path):
    path = written(tmp_path, "b.jsonl", '{"image": "a", "box": [10, 20, 50, 45]}')
    data = Data(options={"prompting": "vp-zoom", "boxes": str(path)})
    before = prompts.digest(data)
    assert before == prompts.digest(data) != ""
    path.write_text('{"image": "a", "box": [10, 20, 50, 46]}')
    assert prompts.digest(data) != before
    assert prompts.digest(Data(options={"prompting": "cot"})) == ""


def test_a_run_over_other_boxes_is_another_experiment_and_its_samples_know_how_they_were_asked(tmp_path):
    pictures = tmp_path / "data" / "oc" / "original_obj" / "cup"
    questions = tmp_path / "jsonl" / "oc" / "vanilla"
    for folder in (pictures, questions):
        folder.mkdir(parents=True)
    for name in ("1.png", "2.png"):
        (pictures / name).write_bytes(file_of(noise(40, 30)))
    row = {"q_id": "1_p", "type": "cup", "question": "Q", "gt_answer": "T", "images": ["cup/1.png", "cup/2.png"]}
    (questions / "oc_cpr.jsonl").write_text(json.dumps(row) + "\n")
    found = written(tmp_path, "b.jsonl", '{"image": "cup/1.png", "box": [0, 0, 20, 15]}')
    data = Data(tmp_path, options={"prompting": "vp-zoom", "boxes": str(found)})
    sample = next(vlm2.OC_CPR.samples(data))
    assert sample.meta["prompting"] == "vp-zoom"
    assert pixels_of(sample.prompt.parts[0].blob.read()).shape == (15, 20, 3)
    assert [vlm2.OC_CPR.score[profile](sample, "Not F.\nMY_ANSWER: T").value for profile in vlm2.OC_CPR.score] == [
        1.0
    ] * 5
    with pytest.raises(DataError, match=r"no box for the image cup/2\.png"):
        sample.prompt.parts[1].blob.read()
    assert any("1 of 2 images have no box" in line for line in vlm2.OC_CPR.notices(data))
    before = vlm2.OC_CPR.digest(data)
    found.write_text('{"image": "cup/1.png", "box": [0, 0, 20, 14]}')
    assert vlm2.OC_CPR.digest(data) != before
