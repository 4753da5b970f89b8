"""Question files of others in their official layout: VQA v2, LVIS, FiftyOne's folder and LLaVA; figures are computed here anew."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import snellen
from benchmarks.table.test_hub_tasks import Says
from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.benchmarks.table.benchmark import open_table
from snellen.errors import DataError, SnellenError
from snellen.types import Text

QUESTIONS, ANNOTATIONS = "v2_OpenEnded_mscoco_val2014_questions.json", "v2_mscoco_val2014_annotations.json"
HEAD = {
    "info": {"version": "2.0", "year": 2017},
    "data_type": "mscoco",
    "data_subtype": "val2014",
    "license": {"name": "CC BY 4.0"},
}
THOUSAND = Data(options={"coordinates": "thousand"})
ANSWERS = {9000: (9, "other", ["red"] * 2 + ["dark red"] * 8), 25001: (25, "number", ["2"] * 9 + ["two"])}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def picture(name: str, size: tuple[int, int] = (200, 100)) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "red").save(name)


def vqa(place: str = "vqa", **changed: Any) -> Path:
    """The two files of VQA v2 and their images; `changed` are members of the first annotation."""
    for image, _, _ in ANSWERS.values():
        picture(f"{place}/val2014/COCO_val2014_{image:012d}.jpg")
    questions = [
        {"image_id": image, "question": f"What is it, {known}?", "question_id": known}
        for known, (image, _, _) in ANSWERS.items()
    ]
    notes = [
        {
            "question_type": "what",
            "multiple_choice_answer": answers[0],
            "answers": [
                {"answer": answer, "answer_confidence": "yes", "answer_id": at} for at, answer in enumerate(answers, 1)
            ],
            "image_id": image,
            "answer_type": kind,
            "question_id": known,
        }
        for known, (image, kind, answers) in ANSWERS.items()
    ]
    notes[0] |= changed
    Path(place, QUESTIONS).write_text(json.dumps({**HEAD, "task_type": "Open-Ended", "questions": questions}))
    Path(place, ANNOTATIONS).write_text(json.dumps({**HEAD, "annotations": notes}))
    return Path(place)


def vqa_accuracy(reply: str, answers: list[str]) -> float:
    """VQA accuracy as it is defined: the mean over nine of the ten answers of min(1, equal ones / 3)."""
    parts = [min(1.0, sum(answer == reply for answer in nine) / 3) for nine in combinations(answers, 9)]
    return sum(parts) / len(parts)


def test_ids_of_questions_and_images_are_compared_as_texts():
    place = vqa()
    content = json.loads(Path(place, QUESTIONS).read_text())
    for question in content["questions"]:
        question |= {"question_id": str(question["question_id"]), "image_id": str(question["image_id"])}
    content["questions"].append(content["questions"][0] | {"question_id": "7", "image_id": "9" * 5000})
    Path(place, QUESTIONS).write_text(json.dumps(content))
    table = open_table(str(place / QUESTIONS)).table.survey(Data(images=place / "val2014"))
    assert table.kinds["short"] == 2 and "no annotation has its question_id" in str(table.omitted)


@pytest.mark.parametrize("name", [f"vqa/{QUESTIONS}", "vqa"])
def test_vqa_is_scored_by_vqa_accuracy_over_ten_answers(name: str):
    vqa()
    first, second = find(name).samples(Data())
    assert (first.id, second.id) == ("9000", "25001") and len(first.target) == 10
    assert [part.text for part in first.prompt.parts if isinstance(part, Text)] == [
        "What is it, 9000?\nAnswer the question using a single word or phrase."
    ]
    run = snellen.evaluate(name, Says("red", "2"), out="run", concurrency=1)
    red, two = vqa_accuracy("red", ANSWERS[9000][2]), vqa_accuracy("2", ANSWERS[25001][2])
    assert red == pytest.approx(0.6)
    assert run.metric("vqa-score").value == pytest.approx((red + two) / 2)
    assert run.metric("vqa-score/number").value == pytest.approx(two)


def test_the_answers_of_vqa_are_part_of_the_data():
    before = find(str(vqa())).digest(Data())
    vqa(answers=[{"answer": "blue", "answer_id": 1}])
    assert find("vqa").digest(Data()) != before


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"question_id": 77}, "no annotation has its question_id"),
        ({"image_id": 10}, "it is about image 9, and its annotation about 10"),
        ({"answers": "red"}, "no list of answers"),
        ({"answers": []}, "no list of answers"),
    ],
)
def test_what_does_not_fit_in_vqa_is_left_out_and_named(changed: dict[str, Any], reason: str):
    reading = find(str(vqa(**changed))).reading(Data())
    assert reading is not None and reading.samples == 1 and reason in reading.omitted[0]


def test_vqa_without_answers_images_or_safe_names_is_refused():
    place = vqa()
    (place / "val2014/COCO_val2014_000000000009.jpg").unlink()
    reading = find("vqa").reading(Data())
    assert reading is not None and "COCO_val2014_000000000009.jpg" in reading.omitted[0]
    text = (place / QUESTIONS).read_text()
    (place / QUESTIONS).write_text(text.replace('"val2014"', '"../.."'))
    with pytest.raises(DataError, match="names without a slash"):
        list(find("vqa").samples(Data()))
    (place / QUESTIONS).write_text(text)
    (place / ANNOTATIONS).unlink()
    with pytest.raises(DataError, match=f"the answers are missing: no {ANNOTATIONS}"):
        list(find("vqa").samples(Data()))


def lvis(**changed: Any) -> None:
    """One image of LVIS: two cans, an air conditioner of which some boxes are missing, and apples that are not there."""
    picture("val2017/000000000001.jpg")
    image = {
        "id": 1, "width": 200, "height": 100, "license": 1, "neg_category_ids": [3], "not_exhaustive_category_ids": [2],
        "coco_url": "http://images.cocodataset.org/val2017/000000000001.jpg", **changed,
    }  # fmt: skip
    notes = [
        {"id": at, "image_id": 1, "category_id": category, "bbox": box, "area": 1.0, "segmentation": []}
        for at, (category, box) in enumerate([(1, [10, 20, 30, 40]), (2, [0, 0, 9, 9]), (1, [60, 20, 30, 40])])
    ]
    names = [
        {"id": at, "name": name, "synonyms": [], "frequency": "c"}
        for at, name in enumerate(["spray_can", "air_conditioner", "apple"], 1)
    ]
    Path("lvis_v1_val.json").write_text(json.dumps({"images": [image], "annotations": notes, "categories": names}))


def test_lvis_asks_for_each_category_that_was_looked_for_and_for_none_with_missing_boxes():
    lvis()
    samples = {sample.id: sample for sample in find("lvis_v1_val.json").samples(THOUSAND)}
    assert [*samples] == ["1:1", "1:3"]
    assert [box["bbox"] for box in json.loads(samples["1:1"].target)] == [[10, 20, 30, 40], [60, 20, 30, 40]]
    assert samples["1:3"].target == "[]"
    assert "Find every spray can in the image." in next(
        p.text for p in samples["1:1"].prompt.parts if isinstance(p, Text)
    )
    score = find("lvis_v1_val.json").score["strict"]
    right = "[[50, 200, 200, 600], [300, 200, 450, 600]]"  # of 1000
    assert [score(samples["1:1"], right).value, score(samples["1:3"], "[]").value] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"coco_url": "http://host/../../etc/passwd.jpg"}, "under their root"),
        ({"coco_url": "http://host/val2017/none.jpg"}, "image missing"),
        ({"coco_url": ""}, "no file name"),
        ({"id": 2}, "no image has this id"),
    ],
)
def test_hostile_and_lost_images_of_lvis_are_named(changed: dict[str, Any], reason: str):
    lvis(**changed)
    try:
        reading = find("lvis_v1_val.json").reading(Data())
        said = " ".join(reading.omitted) if reading is not None else ""
        next(iter(find("lvis_v1_val.json").samples(Data())), None)
    except SnellenError as error:
        said = str(error)
    assert reason in said


def test_a_folder_of_fiftyone_is_its_samples_and_not_their_description():
    picture("set/data/a.png")
    detection = {"_cls": "Detection", "label": "cat", "bounding_box": [0.1, 0.2, 0.3, 0.4]}
    sample = {
        "_id": {"$oid": "a1"}, "filepath": "data/a.png", "_cls": "Sample",
        "ground_truth": {"_cls": "Detections", "detections": [detection]},
    }  # fmt: skip
    Path("set/samples.json").write_text(json.dumps({"samples": [sample]}))
    Path("set/metadata.json").write_text(json.dumps({"version": "1.0", "name": "set", "media_type": "image"}))
    (found,) = find("set").samples(THOUSAND)
    assert found.id == "a1" and find("set").score["strict"](found, "[[100, 200, 400, 600]]").value == 1.0


def test_llava_conversations_with_marks_are_asked_in_their_order():
    picture("images/a.png")
    turns = [{"from": "human", "value": "Before\n<image>\nafter?"}, {"from": "gpt", "value": "Red"}]
    rows = [
        {"id": "1", "image": "a.png", "conversations": turns},
        {"id": "2", "image": "../a.png", "conversations": turns},
    ]
    Path("llava.json").write_text(json.dumps(rows))
    reading = find("llava.json").reading(Data())
    (found,) = find("llava.json").samples(Data())
    assert [type(part).__name__ for part in found.prompt.parts] == ["Text", "Image", "Text"] and found.target == "Red"
    assert reading is not None and "'..'" in reading.omitted[0]
