"""Small drawn sets in the official layout of medical and remote-sensing benchmarks: a row, and a reply that every profile takes as right."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
IMAGE = "@image"
PARTS = ("aorta", "left lung", "spleen", "liver")
LAND_USE = "Land use classification/Overall Land use classification"


def expert(number: int, letter: str, kind: str) -> tuple[Row, str]:
    options = [{"letter": one, "content": text} for one, text in zip("ABCDE", (*PARTS, "heart"), strict=True)]
    choices = " ".join(f"({option['letter']}) {option['content']}" for option in options)
    row = {
        "id": f"MM-{number}", "question": f"What is at {number}?\nAnswer Choices: {choices}", "options": options,
        "label": [letter], "images": [f"MM-{number}-a.png"], "question_type": kind, "medical_task": "Diagnosis",
        "body_system": "Skeletal",
    }  # fmt: skip
    return row, f"It is clear, so the answer is {letter}."


def paper(number: int, letter: str) -> tuple[Row, str]:
    choices = {f"Choice {one}": f" {one}:{text}" for one, text in zip("ABCD", PARTS, strict=True)}
    row = {"Figure_path": f"PMC{number}_F1.png", "Question": f"Which part is {number}?", **choices}
    return {**row, "Answer": PARTS["ABCD".index(letter)], "Answer_label": letter}, letter


def slake(number: int, language: str, kind: str, answer: str) -> tuple[Row, str]:
    question = f"What is {number}?" if language == "en" else f"第{number}题？"
    return {
        "img_id": number, "img_name": f"xmlab{number}/source.png", "question": question, "answer": answer, "q_lang": language,
        "modality": ("CT", "MRI")[number % 2], "answer_type": kind, "content_type": "Organ", "qid": 100 + number,
    }, answer  # fmt: skip


def asked(number: int, answer: str) -> tuple[Row, str]:
    return {"image": IMAGE, "question": f"What is {number}?", "answer": answer}, answer


def omni(number: int, dataset: str, modality: str, options: Sequence[str], gold: str) -> tuple[Row, str]:
    row = {
        "dataset": dataset, "question_id": f"{dataset}_{number}", "question_type": "Anatomy Identification",
        "question": f"Which part is {number}?", "gt_answer": gold, "image_path": f"Images/{dataset}/{number}.png",
        "modality_type": modality, **{f"option_{letter}": text for letter, text in zip("ABCD", options, strict=False)},
    }  # fmt: skip
    return row, "ABCD"[list(options).index(gold)]


def remote(number: int, answer: str, category: str) -> tuple[Row, str]:
    options = [f"({letter}) {text}" for letter, text in zip("ABCD", ("river", "road", "field", "port"), strict=True)]
    row = {"index": number, "image": IMAGE, "question": f"Which of {number}?", "multi-choice options": options}
    return {**row, "answer": answer, "category": category, "l2-category": "all"}, answer


MEDICAL_SETS: dict[str, list[tuple[Row, str]]] = {
    "medxpertqa-mm": [
        expert(0, "B", "Reasoning"), expert(1, "C", "Reasoning"), expert(2, "E", "Understanding"), expert(3, "A", "Understanding"),
    ],
    "pmc-vqa": [paper(number, letter) for number, letter in enumerate("ABCD")],
    "slake": [
        slake(0, "en", "OPEN", "Left lung"), slake(1, "en", "CLOSED", "Yes"), slake(2, "zh", "OPEN", "肝脏"),
        slake(3, "zh", "CLOSED", "不是"), slake(4, "en", "OPEN", "Spleen"),
    ],
    **{name: [asked(0, "yes"), asked(1, "no"), asked(2, "left lung"), asked(3, "barium")] for name in ("vqa-rad", "path-vqa")},
    "omnimedvqa": [
        omni(0, "ACRIMA", "Fundus", PARTS[:2], "aorta"), omni(1, "ACRIMA", "Fundus", PARTS[:3], "spleen"),
        omni(2, "Chest CT", "CT", PARTS, "liver"),
    ],
    "xlrs-bench-lite": [
        remote(0, "A", "Counting/Overall counting"), remote(1, "B", "Counting/Overall counting"),
        remote(2, "AC", LAND_USE), remote(3, "D", LAND_USE),
    ],
}  # fmt: skip
"""Set to rows with replies; the first row of a set is answered wrongly where all are run."""
MEDICAL_FILES = ("medxpertqa-mm", "pmc-vqa", "slake", "omnimedvqa", "xlrs-bench-lite")
"""Sets that are no plain parquet of one image a row."""
MEDICAL_HEADLINES = {
    **dict.fromkeys(("medxpertqa-mm", "pmc-vqa", "vqa-rad", "path-vqa", "xlrs-bench-lite"), 3 / 4),
    "slake": 4 / 5,
    "omnimedvqa": 2 / 3,
}


def draw_medical(name: str, rows: Sequence[Row], pictures: Sequence[bytes], folder: Path) -> Path:
    """Write a set with its pictures, and return what `--data` names."""
    hub = folder / "hub"
    hub.mkdir()
    if name == "xlrs-bench-lite":
        shown = [{**row, "image": [{"bytes": data, "path": None}]} for row, data in zip(rows, pictures, strict=True)]
        pq.write_table(pa.Table.from_pylist(shown), hub / "train-00000-of-00001.parquet")
        return hub
    column, archive, inside = {
        "medxpertqa-mm": ("images", "images.zip", "images/"),
        "pmc-vqa": ("Figure_path", "images.zip", "images/"),
        "slake": ("img_name", "imgs.zip", "imgs/"),
        "omnimedvqa": ("image_path", "OmniMedVQA.zip", "OmniMedVQA/"),
    }[name]
    with zipfile.ZipFile(hub / archive, "w") as file:
        for row, data in zip(rows, pictures, strict=True):
            shown_as = row[column] if isinstance(row[column], str) else row[column][0]
            file.writestr(f"{inside}{shown_as}", data)
        for dataset in sorted({row["dataset"] for row in rows}) if name == "omnimedvqa" else ():
            part = [row for row in rows if row["dataset"] == dataset]
            file.writestr(f"OmniMedVQA/QA_information/Open-access/{dataset}.json", json.dumps(part))
            file.writestr(
                f"OmniMedVQA/QA_information/Restricted-access/{dataset}.json", json.dumps([{"question_id": 1}])
            )
    if name == "omnimedvqa":
        return hub / archive
    if name == "pmc-vqa":
        with (hub / "test_clean.csv").open("w", newline="") as table:
            writer = csv.DictWriter(table, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif name == "slake":
        (hub / "test.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    else:
        (hub / "MM").mkdir()
        (hub / "MM" / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return hub
