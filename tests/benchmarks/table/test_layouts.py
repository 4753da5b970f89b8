"""Layouts that people really have: what reaches a model that knows the answers, and the accuracy that it gets."""

from __future__ import annotations

import base64
import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl import Workbook
from PIL import Image as Picture

import snellen
from servers.oracle import OracleServer, SentQuestion, digest
from snellen.runs.run import Run

COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")


def picture(colour: str, size: int = 24) -> bytes:
    """Return a drawn image of one colour."""
    content = io.BytesIO()
    Picture.new("RGB", (size, size), colour).save(content, "PNG")
    return content.getvalue()


IMAGES = {colour: picture(colour) for colour in COLOURS}
NAMES = {digest(image): colour for colour, image in IMAGES.items()}


class Question:
    """One drawn question: the colour of an image, among four."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.colour = COLOURS[number % len(COLOURS)]
        others = [colour for colour in COLOURS if colour != self.colour][:3]
        self.options = [*others[: number % 4], self.colour, *others[number % 4 :]]
        self.letter = "ABCD"[self.options.index(self.colour)]
        self.topic = ("sky", "sea")[number % 2]
        self.text = f"Which colour is square {number}?"
        self.base64 = base64.b64encode(IMAGES[self.colour]).decode()


QUESTIONS = [Question(number) for number in range(12)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))


def write_images(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for colour, image in IMAGES.items():
        (folder / f"{colour}.png").write_bytes(image)


def write_csv(path: Path, rows: Sequence[dict[str, Any]], separator: str = ",", encoding: str = "utf-8") -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lettered(question: Question) -> dict[str, str]:
    return dict(zip("ABCD", question.options, strict=True))


def by_letter(request: SentQuestion) -> str:
    """Answer as one who sees the first image; the last question is answered wrongly."""
    colour = NAMES[request.images[0]]
    if "square 11?" in request.text:
        colour = next(option for option in request.options.values() if option != colour)
    return request.letter(colour)


def by_name(request: SentQuestion) -> str:
    return "no idea" if "square 11?" in request.text else NAMES[request.images[0]]


def run_with(
    answer: Callable[[SentQuestion], str], benchmark: Path | str, tmp_path: Path, **settings: Any
) -> tuple[Run, list[SentQuestion]]:
    with OracleServer(answer) as server:
        run = snellen.evaluate(
            str(benchmark), "api:oracle", base_url=server.url, out=tmp_path / "run", concurrency=1, **settings
        )
        return run, server.requests


def require_right(run: Run, requests: Sequence[SentQuestion], *, options: bool = True) -> None:
    """Every question was asked once, with its own image and its own options in their order, and 11 of 12 are right."""
    assert len(requests) == 12
    for question, request in zip(QUESTIONS, requests, strict=True):
        assert question.text in request.text
        assert request.images == [digest(IMAGES[question.colour])]
        if options:
            assert list(request.options.values()) == question.options
    accuracy = run.metric("accuracy")
    assert (accuracy.value, accuracy.n, accuracy.coverage) == (pytest.approx(11 / 12), 12, 1.0)
    assert accuracy.chance == (0.25 if options else None)


def plain_rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{question.number}",
            "image": f"pics/{question.colour}.png",
            "question": question.text,
            **lettered(question),
            "answer": question.letter,
            "topic": question.topic,
        }
        for question in QUESTIONS
    ]


def csv_letters(folder: Path) -> Path:
    write_images(folder / "pics")
    return write_csv(folder / "my.csv", plain_rows())


def csv_semicolons_bom(folder: Path) -> Path:
    write_images(folder / "pics")
    return write_csv(folder / "my.csv", plain_rows(), ";", "utf-8-sig")


def csv_option_columns(folder: Path) -> Path:
    write_images(folder / "images")
    rows = [
        {
            "qid": question.number,
            "prompt": question.text,
            **{f"option_{letter.lower()}": text for letter, text in lettered(question).items()},
            "label": question.options.index(question.colour),
            "img": f"{question.colour}.png",
        }
        for question in QUESTIONS
    ]
    return write_csv(folder / "my.csv", rows)


def tsv_vlmevalkit(folder: Path) -> Path:
    first: dict[str, int] = {}
    rows = []
    for question in QUESTIONS:
        own = first.setdefault(question.colour, question.number)
        image = question.base64 if own == question.number else str(own)
        rows.append(
            {
                "index": question.number,
                "image": image,
                "question": question.text,
                **lettered(question),
                "answer": question.letter,
                "category": question.topic,
                "l2-category": "colours",
            }
        )
    return write_csv(folder / "MyBench.tsv", rows, "\t")


def jsonl_lists(folder: Path) -> Path:
    write_images(folder)
    rows = [
        {
            "question_id": f"x-{question.number}",
            "images": [f"{question.colour}.png"],
            "question": question.text,
            "choices": question.options,
            "answer": question.colour,
        }
        for question in QUESTIONS
    ]
    return write_jsonl(folder / "my.jsonl", rows)


def jsonl_data_uris(folder: Path) -> Path:
    rows = [
        {
            "image": f"data:image/png;base64,{question.base64}",
            "query": question.text,
            "options": lettered(question),
            "gt": f"({question.letter})",
        }
        for question in QUESTIONS
    ]
    return write_jsonl(folder / "my.jsonl", rows)


def json_object_of_one_list(folder: Path) -> Path:
    write_images(folder)
    rows = [
        {
            "id": question.number,
            "image": {"path": f"{question.colour}.png"},
            "question": question.text,
            "candidates": question.options,
            "correct_idx": question.options.index(question.colour) + 1,
        }
        for question in QUESTIONS
    ]
    (folder / "my.json").write_text(json.dumps({"version": 3, "questions": rows}))
    return folder / "my.json"


def csv_of_texts(folder: Path, options: Callable[[Question], str], answer: Callable[[Question], str]) -> Path:
    """Write a CSV whose options stand in one cell, and whose images lie beside it."""
    write_images(folder)
    rows = [
        {
            "image": f"{question.colour}.png",
            "question": question.text,
            "options": options(question),
            "answer": answer(question),
        }
        for question in QUESTIONS
    ]
    return write_csv(folder / "my.csv", rows)


def csv_options_as_python(folder: Path) -> Path:
    return csv_of_texts(folder, lambda question: repr(question.options), lambda question: question.letter.lower())


def csv_options_separated(folder: Path) -> Path:
    return csv_of_texts(folder, lambda question: "; ".join(question.options), lambda question: question.colour.upper())


def csv_options_by_lines(folder: Path) -> Path:
    def lines(question: Question) -> str:
        return "\n".join(f"{letter}. {text}" for letter, text in lettered(question).items())

    return csv_of_texts(folder, lines, lambda question: f"{question.letter}. {question.colour}")


def options_in_question(folder: Path) -> Path:
    write_images(folder)
    rows = [
        {
            "image": f"{question.colour}.png",
            "question": f"{question.text}\nA. {question.options[0]}\nB. {question.options[1]}\n"
            f"C. {question.options[2]}\nD. {question.options[3]}\nReply with one letter.",
            "answer": question.letter,
        }
        for question in QUESTIONS
    ]
    return write_csv(folder / "my.csv", rows)


def parquet_structs(folder: Path) -> Path:
    table = pa.table(
        {
            "image": [{"bytes": IMAGES[question.colour], "path": None} for question in QUESTIONS],
            "question": [question.text for question in QUESTIONS],
            "options": [question.options for question in QUESTIONS],
            "answer": [question.letter for question in QUESTIONS],
        }
    )
    pq.write_table(table, folder / "test-00000-of-00001.parquet")
    return folder / "test-00000-of-00001.parquet"


def parquet_lists_in_shards(folder: Path) -> Path:
    (folder / "set/data").mkdir(parents=True)
    for shard in range(2):
        part = QUESTIONS[shard * 6 : shard * 6 + 6]
        table = pa.table(
            {
                "images": [[{"bytes": IMAGES[question.colour], "path": "x.png"}] for question in part],
                "question": [question.text for question in part],
                "options": [str(question.options) for question in part],
                "answer": [question.letter for question in part],
            }
        )
        pq.write_table(table, folder / f"set/data/test-0000{shard}-of-00002.parquet")
    return folder / "set"


def excel(folder: Path) -> Path:
    write_images(folder)
    book = Workbook()
    sheet = book.active
    sheet.append(["No", "Image", "Question", "A", "B", "C", "D", "Answer", "Topic"])
    for question in QUESTIONS:
        sheet.append(
            [
                question.number,
                f"{question.colour}.png",
                question.text,
                *question.options,
                question.letter,
                question.topic,
            ]
        )
    book.save(folder / "my.xlsx")
    return folder / "my.xlsx"


def zip_with_images(folder: Path) -> Path:
    table = write_csv(folder / "my.csv", plain_rows())
    with zipfile.ZipFile(folder / "set.zip", "w") as archive:
        archive.write(table, "set/questions.csv")
        for colour, image in IMAGES.items():
            archive.writestr(f"set/pics/{colour}.png", image)
    return folder / "set.zip"


def llava_conversations(folder: Path) -> Path:
    write_images(folder)
    rows = []
    for question in QUESTIONS:
        options = "\n".join(f"{letter}. {text}" for letter, text in lettered(question).items())
        rows.append(
            {
                "id": f"llava-{question.number}",
                "image": f"{question.colour}.png",
                "conversations": [
                    {"from": "human", "value": f"<image>\n{question.text}\n{options}"},
                    {"from": "gpt", "value": question.letter},
                ],
            }
        )
    (folder / "my.json").write_text(json.dumps(rows))
    return folder / "my.json"


LAYOUTS = (
    *(csv_letters, csv_semicolons_bom, csv_option_columns, tsv_vlmevalkit, jsonl_lists, jsonl_data_uris),
    *(json_object_of_one_list, csv_options_as_python, csv_options_separated, csv_options_by_lines),
    *(options_in_question, parquet_structs, parquet_lists_in_shards, excel, zip_with_images, llava_conversations),
)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_each_question_arrives_with_its_image_and_its_options(layout: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    run, requests = run_with(by_letter, layout(folder), tmp_path)
    require_right(run, requests)


def open_rows() -> Iterator[dict[str, Any]]:
    for question in QUESTIONS:
        yield {"file_name": f"{question.colour}.png", "question": question.text, "answer": question.colour}


def test_an_image_folder_with_metadata_asks_open_questions(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_images(folder)
    write_jsonl(folder / "metadata.jsonl", list(open_rows()))
    run, requests = run_with(by_name, folder, tmp_path)
    require_right(run, requests, options=False)


def test_answers_of_several_accepted_texts_need_one_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_images(folder)
    rows = [{**row, "answer": ["a shade", row["answer"], "a tint"]} for row in open_rows()]
    run, requests = run_with(by_name, write_jsonl(folder / "my.jsonl", rows), tmp_path)
    require_right(run, requests, options=False)
