"""Exports of COCO, Label Studio and FiftyOne, and parquet lists, as tables of boxes, points and outlines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import snellen
from snellen.benchmarks.base import Data
from snellen.benchmarks.table.benchmark import open_table
from snellen.benchmarks.table.gold_regions import GoldRegions
from snellen.errors import DataError, UsageError
from snellen.types import Text

SIZE = (200, 100)
BOXES = {
    "a.png": [("cat", (10, 20, 60, 80)), ("dog", (100, 10, 190, 90))],
    "b.png": [("cat", (0, 0, 150, 60))],
    "c.png": [],
}


@pytest.fixture(autouse=True)
def images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    for name in BOXES:
        Image.new("RGB", SIZE).save(f"images/{name}")


def wide(box) -> list[int]:
    return [box[0], box[1], box[2] - box[0], box[3] - box[1]]


def shares(box, most=1):
    return [number * most / SIZE[at % 2] for at, number in enumerate(wide(box))]


def coco(**more):
    ids = {"cat": 3, "dog": 7}
    notes = [
        {"id": at, "image_id": image, "category_id": ids[label], "bbox": wide(box), "area": 10.0, "iscrowd": 0, **more}
        for image, (name, marks) in enumerate(BOXES.items())
        for at, (label, box) in enumerate(marks)
    ]
    files = [{"id": at, "file_name": name, "width": 200, "height": 100} for at, name in enumerate(BOXES)]
    categories = [{"id": number, "name": name} for name, number in ids.items()]
    return {"info": {}, "images": files, "annotations": notes, "categories": categories, "licenses": [{"id": 1}]}


def label_studio(*, lean=False):
    tasks = []
    for at, (name, marks) in enumerate(BOXES.items()):
        values = [
            {
                **dict(zip(("x", "y", "width", "height"), shares(box, 100), strict=True)),
                "rotation": 0,
                "rectanglelabels": [label],
            }
            for label, box in marks
        ]
        if lean:
            tasks.append({"id": at, "image": f"/data/upload/1/{name}", "label": values, "annotator": 1})
        else:
            result = [{"type": "rectanglelabels", "value": value, "original_width": 200} for value in values]
            sets = [{"was_cancelled": True, "result": [{}]}, {"result": result}]
            tasks.append(
                {"id": at, "data": {"image": f"s3://bucket/{name}?x=1"}, "annotations": sets, "predictions": []}
            )
    return tasks


def fiftyone(*, lean=False):
    found = {
        name: [{"_cls": "Detection", "label": label, "bounding_box": shares(box)} for label, box in marks]
        for name, marks in BOXES.items()
    }
    if lean:
        classes = ["dog", "cat"]
        labels = {
            name.partition(".")[0]: [{**one, "label": classes.index(one["label"])} for one in part]
            for name, part in found.items()
        }
        return {"classes": classes, "labels": labels}
    return {
        "name": "set",
        "samples": [
            {
                "_id": {"$oid": f"0{at}"},
                "filepath": f"/far/data/{name}",
                "ground_truth": {"_cls": "Detections", "detections": part},
            }
            for at, (name, part) in enumerate(found.items())
        ],
    }


FORMS = {
    "coco": (coco, "pixel:xywh"),
    "label-studio": (label_studio, "percent:xywh"),
    "label-studio-min": (lambda: label_studio(lean=True), "percent:xywh"),
    "fiftyone": (fiftyone, "unit:xywh"),
    "fiftyone-labels": (lambda: fiftyone(lean=True), "unit:xywh"),
}


def replies(marks) -> str:
    scaled = [
        {"bbox_2d": [1000 * number / SIZE[at % 2] for at, number in enumerate(box)], "label": label}
        for label, box in marks
    ]
    return json.dumps(scaled)


@pytest.mark.parametrize("form", FORMS)
def test_an_export_is_a_set_of_boxes_for_each_image(form):
    export, space = FORMS[form]
    Path("set.json").write_text(json.dumps(export()))
    samples = list(open_table("set.json").samples(Data(options={"coordinates": "thousand"})))
    lines = [
        json.dumps({"id": one.id, "reply": replies(marks)}) for one, marks in zip(samples, BOXES.values(), strict=False)
    ]
    Path("replies.jsonl").write_text("\n".join(lines))
    run = snellen.evaluate("set.json", "replay:replies.jsonl", images="images", out="run")
    surveyed = run.benchmark.table.survey(run.meta.spec.data)
    assert (surveyed.kinds["boxes"], str(surveyed.rules.gold)) == (3, space), surveyed.omitted
    assert any(f"gold coordinates are {space}" in note for note in surveyed.notes)
    figures = {metric.name: metric.value for metric in run.figures()["strict"]}
    assert figures["accuracy"] == figures["precision@0.5"] == figures["recall@0.5"] == figures["coco_map"] == 1.0
    text = next(part.text for part in samples[0].prompt.parts if isinstance(part, Text))
    assert "Find each of these in the image: " in text and "cat" in text and "dog" in text
    assert text.partition("\n")[2].startswith(
        'Answer with all boxes as [{"bbox_2d": [x1, y1, x2, y2], "label": "…"}, …].'
    )


def test_one_category_is_asked_for_by_its_name_and_needs_no_label():
    export = coco(category_id=3)
    export["categories"] = export["categories"][:1]
    Path("set.json").write_text(json.dumps(export))
    sample = next(open_table("set.json").samples(Data()))
    assert "Find every cat in the image." in str(sample.prompt.parts[-1].text) and "label" not in sample.target


def test_an_image_without_boxes_asks_for_an_empty_set():
    Path("set.json").write_text(json.dumps(coco()))
    lines = [json.dumps({"id": "2", "reply": reply}) for reply in ("[]",)]
    Path("replies.jsonl").write_text("\n".join(lines))
    run = snellen.evaluate("set.json", "replay:replies.jsonl", images="images", out="run")
    assert [row["value"] for row in run.scores().to_pylist() if row["value"] is not None][-1] == 1.0


def surveyed(export):
    Path("set.json").write_text(json.dumps(export))
    table = open_table("set.json").table.survey(Data(images=Path("images")))
    return table, " ".join(one.reason for one in table.omitted.values())


def test_an_image_that_nobody_annotated_is_left_out_and_named():
    tasks = label_studio()
    tasks[1]["annotations"] = []
    tasks[2]["annotations"] = tasks[2]["annotations"][:1]
    table, reasons = surveyed(tasks)
    assert table.kinds["boxes"] == 1 and reasons.count("it is not annotated") == 2
    lean = fiftyone(lean=True)
    lean["labels"] |= {"c": None, "b": [{"label": 7, "bounding_box": [0, 0, 1, 1]}]}
    table, reasons = surveyed(lean)
    assert table.kinds["boxes"] == 1 and "image c: it is not annotated" in reasons
    assert "image b: label 7 is none of its 2 classes" in reasons
    whole = fiftyone()
    whole["samples"][2]["ground_truth"] = None
    assert "it is not annotated" in surveyed(whole)[1]


def test_each_label_of_a_rectangle_counts():
    tasks = label_studio()
    tasks[0]["annotations"][1]["result"][0]["value"]["rectanglelabels"] = ["cat", "dog"]
    assert surveyed(tasks)[0].kinds["boxes"] == 3
    gold = next(open_table("set.json").samples(Data())).target
    assert gold.count('"cat"') == 1 and gold.count('"dog"') == 2


@pytest.mark.parametrize("mark", [{"ellipselabels": ["cat"], "radiusX": 5}, {"brushlabels": ["cat"], "rle": [1]}])
def test_lean_tasks_with_other_shapes_are_left_out_and_named(mark):
    tasks = label_studio(lean=True)
    tasks[0]["label"].append({"x": 1, "y": 1, **mark})
    table, reasons = surveyed(tasks)
    assert table.kinds["boxes"] == 2 and f"image 0: {next(iter(mark))} is not read" in reasons


def test_annotations_find_their_image_by_the_text_of_its_id():
    export = coco()
    export["annotations"][2]["image_id"] = "1"
    assert surveyed(export)[0].kinds["boxes"] == 3
    assert [one.target.count("bbox") for one in open_table("set.json").samples(Data())] == [2, 1, 0]
    export["annotations"].append(export["annotations"][0] | {"image_id": 99})
    assert "image 99: no image has this id; 1 annotations name 1 absent images" in surveyed(export)[1]


def test_images_of_coco_have_their_name_in_their_address_and_ids_may_be_floats():
    export = coco()
    for image in export["images"]:
        image["coco_url"] = f"http://images.cocodataset.org/val2017/{image.pop('file_name')}"
    for one in export["annotations"]:
        one["image_id"] = float(one["image_id"])
    table, reasons = surveyed(export)
    assert (table.kinds["boxes"], reasons) == (3, "")
    assert [one.target.count("bbox") for one in open_table("set.json").samples(Data())] == [2, 1, 0]


def classified(form: str, *labels: list[str]):
    """Return an export of images that have classes alone."""
    if form == "studio":
        choices = [{"type": "choices", "from_name": "bird", "value": {"choices": part}} for part in labels]
        names = [*BOXES]
        return [
            {"id": at, "data": {"image": f"/data/upload/3/{names[at]}"}, "annotations": [{"result": [one]}]}
            for at, one in enumerate(choices)
        ]
    samples = fiftyone()["samples"]
    for sample, part in zip(samples, labels, strict=True):
        of_classes = [{"_cls": "Classification", "label": label} for label in part]
        whole = {"_cls": "Classifications", "classifications": of_classes}
        sample["ground_truth"] = of_classes[0] if form == "one" else whole
    return {"samples": samples}


@pytest.mark.parametrize("form", ["studio", "one", "several"])
def test_classes_of_whole_images_are_a_choice_among_those_of_the_file(form):
    table, reasons = surveyed(classified(form, ["wren"], ["owl"], ["wren"]))
    assert (dict(table.kinds), reasons) == ({"choice": 3}, "")
    samples = list(open_table("set.json").samples(Data()))
    assert [(one.target, dict(one.options)) for one in samples] == [
        (letter, {"A": "owl", "B": "wren"}) for letter in "BAB"
    ]


def test_several_classes_of_an_image_are_all_right_and_an_empty_set_is_left_out():
    table, reasons = surveyed(classified("several", ["wren", "owl"], ["owl"], []))
    assert dict(table.kinds) == {"multi-choice": 2} and "it is not annotated" in reasons
    assert [one.target for one in open_table("set.json").samples(Data())] == [("A", "B"), ("A",)]


def test_classes_stand_behind_shapes_and_of_two_questions_none_is_taken():
    export = fiftyone()
    for sample in export["samples"]:
        sample["weather"] = {"_cls": "Classification", "label": "rain"}
        sample["objects"] = sample.pop("ground_truth")
    assert dict(surveyed(export)[0].kinds) == {"boxes": 3}
    tasks = classified("studio", ["wren"], ["owl"], ["wren"])
    tasks[1]["annotations"][0]["result"][0]["from_name"] = "weather"
    assert "2 questions have choices: bird, weather" in refusal(tasks)
    del tasks[1:]
    tasks[0]["annotations"][0]["result"][0] = {"type": "textarea", "value": {"text": ["x"]}}
    assert "no box, point, outline or class is marked" in refusal(tasks)


def refusal(export) -> str:
    Path("set.json").write_text(json.dumps(export))
    with pytest.raises((DataError, UsageError)) as refused:
        open_table("set.json").table.survey(Data())
    return str(refused.value)


def test_what_is_missing_or_not_read_is_stated():
    lost = coco()
    lost["categories"] = lost["categories"][:1]
    assert "annotation 1 has category 7, which no category names" in refusal(lost)
    several = fiftyone()
    for sample in several["samples"]:
        sample["gold"], sample["model"] = sample.pop("ground_truth"), {"detections": []}
    assert "2 fields hold marks: gold, model" in refusal(several)
    brush = [
        {
            "id": 1,
            "data": {"image": "a.png"},
            "annotations": [{"result": [{"type": "brushlabels", "value": {"rle": []}}]}],
        }
    ]
    assert "none of its 1 images can be asked about: brushlabels is not read" in refusal(brush)


@pytest.mark.parametrize(
    "change", [{"annotations": [{"image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4]}, 7]}, {"images": [{"id": []}]}]
)
def test_a_damaged_export_is_named(change):
    assert "an export of annotated images is damaged" in refusal(coco() | change)


OTHERS = [
    {"classes": ["a"], "labels": {"x": [1], "y": 3}},
    {"classes": ["a"], "labels": [1]},
    {"samples": [{"file": "x"}], "labels": {"x": "abc"}},
    [{"annotations": [1], "data": {}}],
    [{"annotations": [{"text": "x"}], "data": {"image": "x.png"}}],
    [1, 2],
    "x",
    {"images": [1], "annotations": [2], "categories": [3]},
]


@pytest.mark.parametrize("value", OTHERS)
def test_other_objects_are_no_exports(value):
    from snellen.benchmarks.table.annotation_forms import annotated

    assert annotated(value, "x") is None


def test_rotated_boxes_and_two_annotators_leave_their_image_out():
    tasks = label_studio()
    tasks[0]["annotations"][1]["result"][0]["value"]["rotation"] = 30
    tasks[1]["annotations"] *= 2
    tasks.append({**tasks[0], "id": 9, "annotations": [{"result": label_studio()[0]["annotations"][1]["result"]}]})
    Path("set.json").write_text(json.dumps(tasks))
    surveyed = open_table("set.json").table.survey(Data())
    reasons = [row.reason for row in surveyed.omitted.values()]
    assert "a rectangle is rotated by 30°" in reasons[0] and "it has 2 annotations" in reasons[1]
    assert surveyed.samples == 2


def test_points_and_outlines_have_a_row_for_each_label():
    result = [
        {"type": "keypointlabels", "value": {"x": 10, "y": 20, "width": 1, "keypointlabels": ["nose"]}},
        {"type": "keypointlabels", "value": {"x": 50, "y": 50, "width": 1, "keypointlabels": ["eye"]}},
        {"type": "keypointlabels", "value": {"x": 60, "y": 50, "width": 1, "keypointlabels": ["eye"]}},
        {"type": "polygonlabels", "value": {"points": [[0, 0], [50, 0], [50, 50]], "polygonlabels": ["sail"]}},
        {"type": "choices", "value": {"choices": ["sharp"]}},
    ]
    Path("set.json").write_text(json.dumps([{"id": 4, "data": {"img": "a.png"}, "annotations": [{"result": result}]}]))
    samples = list(open_table("set.json").samples(Data(options={"coordinates": "percent"})))
    assert [(one.id, one.kind) for one in samples] == [("4:nose", "point"), ("4:eye", "points"), ("4:sail", "region")]
    texts = [str(one.prompt.parts[-1].text).partition("\n")[0] for one in samples]
    assert texts == [
        "Point to the nose in the image.",
        "Point to every eye in the image.",
        "Outline the sail in the image.",
    ]
    from snellen.scoring.scorers import by_kind

    given = ["[10, 20]", "[[50, 50], [60, 50]]", "[[0, 0], [50, 0], [50, 50]]"]
    assert [by_kind(one, reply).value for one, reply in zip(samples, given, strict=True)] == [1.0, 1.0, 1.0]


def test_annotations_with_questions_stay_rows_of_their_own():
    rows = [{"image_id": 0, "category_id": 3, "bbox": [0, 0, 9, 9], "question": "What?", "answer": "cat"}]
    Path("set.json").write_text(json.dumps({**coco(), "annotations": rows}))
    assert open_table("set.json").table.survey(Data()).kinds == {"text": 1}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([[10.0, 20.0, 60.0, 80.0], [100.0, 10.0, 190.0, 90.0], [0.5, 0.5, 150.0, 60.0]], "box"),
        (
            [
                [[10.0, 20.0, 60.0, 80.0], [100.0, 10.0, 190.0, 90.0]],
                [[0.0, 5.0, 150.0, 60.0], [1.0, 2.0, 3.0, 4.0]],
                [[1.0, 2.0, 190.0, 99.0], [1.0, 2.0, 3.0, 9.0]],
            ],
            "boxes",
        ),
        (
            [
                [{"bbox": [10, 20, 60, 80], "label": "cat"}],
                [{"bbox": [100, 10, 190, 90], "label": "dog"}],
                [{"bbox": [0, 0, 150, 60], "label": "cat"}],
            ],
            "boxes",
        ),
        ([{"bbox": [[10, 20, 60, 80], [100, 10, 190, 90]], "category": ["cat", "dog"]}] * 3, "boxes"),
    ],
)
def test_parquet_lists_and_structs_are_boxes(cells, kind):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"image": [*BOXES], "question": ["Where?"] * 3, "answer": cells})
    pq.write_table(table, "set.parquet")
    surveyed = open_table("set.parquet").table.survey(Data(options={"gold-space": "pixel:xyxy"}))
    assert surveyed.kinds == {kind: 3}, surveyed.omitted
    samples = list(
        open_table("set.parquet").samples(Data(options={"gold-space": "pixel:xyxy", "coordinates": "pixel"}))
    )
    from snellen.scoring.scorers import by_kind

    golds = cells[0]
    if isinstance(golds, dict):
        golds = [{"bbox": box, "label": name} for box, name in zip(golds["bbox"], golds["category"], strict=True)]
    assert by_kind(samples[0], json.dumps(golds)).value == 1.0


def fits(cells, *, images=None, size=(1920, 1080)):
    regions = GoldRegions()
    for at, cell in enumerate(cells):
        regions.add(cell, lambda: size, f"{at if images is None else at % images}.png", f"row {cell} {at}")
    return [str(one) for one in regions.fits()]


def test_icons_of_one_screenshot_leave_the_space_open():
    icons = [[5 + 20 * at, 5, 20 + 20 * at, 20] for at in range(4)]
    for cells, images in ((icons, 1), (icons[:1] * 40, None), (icons, 2)):
        assert {"percent:xyxy", "pixel:xyxy"} <= {*fits(cells, images=images)}
    assert fits([[40 + at, 50, 70 + at, 90] for at in range(20)]) == ["percent:xyxy"]


def test_the_space_of_a_column_does_not_depend_on_the_order_of_its_rows():
    small = [[110, 110, 200 + at % 30, 160 + at % 20] for at in range(320)]
    large = [[400, 300, 600, 450]] * 80
    assert fits(small + large, size=(640, 480)) == fits(large + small, size=(640, 480)) == ["pixel:xyxy"]


def masked(picture, name="m.png", **more):
    picture.save(f"images/{name}", **more)
    row = {"id": "1", "image": "a.png", "question": "Outline the cat.", "mask": name}
    Path("t.jsonl").write_text(json.dumps(row))
    table = open_table("t.jsonl")
    data = Data(images=Path("images"), options={"map": "answer=mask", "kind": "region"})
    try:
        return json.loads(next(table.samples(data)).target)
    except DataError as error:
        return error.message


def test_masks_in_files_are_read_by_transparency_and_refused_when_they_do_not_fit():
    plain = Image.new("L", SIZE, 0)
    plain.paste(255, (10, 10, 60, 60))
    gold = masked(plain)
    clear = Image.new("RGBA", SIZE, (255, 255, 255, 0))
    clear.paste((255, 0, 0, 255), (10, 10, 60, 60))
    assert masked(clear) == gold
    assert sum(masked(plain, "m.jpg", quality=5)["counts"][1::2]) == pytest.approx(2500, rel=0.02)
    assert "its mask has 100 x 50 pixels, and its image 200 x 100" in masked(plain.resize((100, 50)))
    for empty in (Image.new("L", SIZE, 0), Image.new("RGBA", SIZE, (0, 0, 0, 0))):
        assert "no pixel of its mask is marked" in masked(empty)


def test_an_empty_list_says_that_no_box_is_there_in_a_table_of_ones_own():
    rows = [{"id": "a", "image": "1.png", "question": "Dogs?", "answer": [[1, 1, 9, 9]]}]
    rows += [{**rows[0], "id": str(cell), "answer": cell} for cell in ([], "[]")]
    Path("own.json").write_text(json.dumps(rows))
    Image.new("RGB", (20, 20)).save("1.png")
    surveyed = open_table("own.json").table.survey(Data(options={"kind": "boxes", "gold_space": "pixel:xyxy"}))
    assert (surveyed.kinds["boxes"], surveyed.omitted) == (3, {})
