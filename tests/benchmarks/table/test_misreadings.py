"""Tables that are easily read wrongly in silence: each is read as its author means it, or refused."""

from __future__ import annotations

import base64
import csv
import json
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from coloured_pictures import COLOURS, IMAGES, NAMES, data_folder
from openpyxl import Workbook
from openpyxl.drawing.image import Image as Picture

from servers.oracle import digest
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data, DataReading
from snellen.errors import SnellenError
from snellen.types import Image, Sample, Text


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return data_folder(tmp_path, monkeypatch)


def write_table(rows: Sequence[dict[str, Any]], name: str = "my.csv") -> str:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return name


def write_lines(rows: Sequence[dict[str, Any]], name: str = "my.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def read(name: str, images: Path | None = None, **options: str) -> tuple[DataReading, list[Sample]]:
    benchmark, data = registry.find(name), Data(images=images, options=options)
    reading = benchmark.reading(data)
    assert reading is not None
    return reading, list(benchmark.samples(data))


def refusal(name: str, **options: str) -> str:
    with pytest.raises(SnellenError) as error:
        read(name, **options)
    return f"{error.value.message} {error.value.hint}"


def colours(sample: Sample) -> list[str]:
    return [NAMES[digest(part.blob.read())] for part in sample.prompt.parts if isinstance(part, Image)]


def text_of(sample: Sample) -> str:
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))


def test_numbered_images_are_files_and_no_references_to_rows() -> None:
    numbers = dict(zip((3, 9, 1, 2, 0, 7), COLOURS, strict=True))
    for number, colour in numbers.items():
        Path(f"{number}.png").write_bytes(IMAGES[colour])
    rows = [{"id": at, "image": number, "question": f"{at}?", "answer": "x"} for at, number in enumerate(numbers)]
    _, samples = read(write_table(rows))
    assert [colours(sample) for sample in samples] == [[colour] for colour in COLOURS]


def test_absolute_names_that_end_alike_never_share_an_image() -> None:
    Path("1.png").write_bytes(IMAGES["red"])
    rows = [{"id": part, "image": f"/data/{part}/1.png", "question": "?", "answer": "x"} for part in ("test", "train")]
    reading, samples = read(write_table(rows))
    assert [sample.id for sample in samples] == ["test"]
    assert "'/data/train/1.png' and '/data/test/1.png' are both found as '1.png'" in reading.omitted[0]


def test_images_beside_a_table_deep_in_an_archive_are_found() -> None:
    write_table([{"image": "a.png", "question": "?", "answer": "x"}])
    with zipfile.ZipFile("set.zip", "w") as archive:
        archive.write("my.csv", "my-set/v1/my.csv")
        archive.writestr("my-set/v1/pictures/a.png", IMAGES["blue"])
        archive.writestr("other/a.png", IMAGES["red"])
    _, samples = read("set.zip")
    assert colours(samples[0]) == ["blue"]


def test_named_images_come_before_those_beside_the_table(tmp_path: Path) -> None:
    write_table([{"image": "a.png", "question": "?", "answer": "x"}])
    Path("inner").mkdir()
    Path("my.csv").rename("inner/my.csv")
    Path("inner/a.png").write_bytes(IMAGES["red"])
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.png").write_bytes(IMAGES["green"])
    _, samples = read(".", tmp_path / "own")
    assert colours(samples[0]) == ["green"]


@pytest.mark.parametrize(("in_table", "on_disk"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_with_accents_are_found_in_either_normal_form(in_table: str, on_disk: str) -> None:
    Path(normalize(on_disk, "Übung é.png")).write_bytes(IMAGES["red"])
    write_table([{"image": normalize(in_table, "Übung é.png"), "question": "?", "answer": "x"}])
    _, samples = read("my.csv")
    assert colours(samples[0]) == ["red"]


TEXTS = ("red", "green", "blue")


def question(at: int, **more: Any) -> dict[str, Any]:
    return {"question": f"Which colour is square {at}?", **more}


@pytest.mark.parametrize(
    "columns",
    [
        ("a", "b", "c"),
        ("1", "2", "3"),
        ("opa", "opb", "opc"),
        ("answerA", "answerB", "answerC"),
        ("ending0", "ending1", "ending2"),
        ("alternative_1", "alternative_2", "alternative_3"),
    ],
)
def test_options_in_columns_of_any_usual_name_are_asked(columns: tuple[str, ...]) -> None:
    rows = [question(at, **dict(zip(columns, TEXTS, strict=True)), label="BAC"[at % 3]) for at in range(4)]
    _, samples = read(write_table(rows))
    assert [sample.target for sample in samples] == ["B", "A", "C", "B"]
    assert "A. red\nB. green\nC. blue" in text_of(samples[0])


def test_letters_find_their_options_in_the_one_list_of_another_name() -> None:
    _, samples = read(write_lines([question(at, menu=list(TEXTS), tags=["x"], label="BAC"[at % 3]) for at in range(4)]))
    assert [dict(sample.options) for sample in samples] == [dict(zip("ABC", TEXTS, strict=True))] * 4


def test_letters_without_options_are_refused_with_the_map_that_decides() -> None:
    rows = [question(at, auswahl="red / green / blue", answer="ABCD"[at]) for at in range(4)]
    message = refusal(name := write_table(rows))
    assert "answers in 'answer' are letters, and no column could hold their options" in message
    assert "--map options=none" in message
    _, samples = read(name, map="options=none")
    assert {sample.kind for sample in samples} == {"text"}


def test_letters_without_any_column_for_options_are_told() -> None:
    reading, samples = read(write_table([question(at, topic="x", answer="ABCD"[at]) for at in range(4)]))
    assert "the answers in `answer` are letters, and no column could hold their options" in reading.text
    assert {sample.kind for sample in samples} == {"text"}


def test_letters_with_two_lists_name_both() -> None:
    name = write_lines([question(at, menu=list(TEXTS), also=list("xyz"), label="BAC"[at % 3]) for at in range(4)])
    assert "--map options=menu or --map options=also" in refusal(name)


def test_numbers_beside_a_list_are_counts_or_indexes_and_refused() -> None:
    name = write_lines([question(at, menu=list(TEXTS), label=at % 3) for at in range(4)])
    assert "are numbers, or indexes of 'menu'" in refusal(name)
    _, counted = read(name, map="options=none")
    assert counted[2].target == 2
    _, chosen = read(name, map="options=menu")
    assert chosen[2].target == "C"


def test_yes_and_no_in_another_language_are_truth_values_and_labels_beside_them_make_texts() -> None:
    _, samples = read(write_table([question(at, answer=("ja", "nein")[at % 2]) for at in range(4)]))
    assert [(sample.kind, sample.target) for sample in samples[:2]] == [("truth", True), ("truth", False)]
    _, labels = read(write_table([question(at, answer=("yes", "no", "maybe")[at % 3]) for at in range(6)]))
    assert {sample.kind for sample in labels} == {"text"}


def test_0_and_1_with_the_options_yes_and_no_are_refused_and_truth_values_are_read() -> None:
    numbered = write_lines([question(at, choices=["yes", "no"], label=at % 2) for at in range(4)])
    message = refusal(numbered)
    assert "--map answer=label:index0 or --map answer=label:bool" in message
    _, by_truth = read(numbered, map="answer=label:bool")
    _, by_index = read(numbered, map="answer=label:index0")
    assert [sample.target for sample in by_truth[:2]] == ["B", "A"]
    assert [sample.target for sample in by_index[:2]] == ["A", "B"]
    _, truths = read(write_lines([question(at, choices=["Yes", "No"], label=at % 2 == 0) for at in range(4)]))
    assert [sample.target for sample in truths[:2]] == ["A", "B"]


def test_an_empty_option_keeps_its_place_among_indexes() -> None:
    rows = [question(at, options="['red', None, 'blue']", answer=at) for at in (0, 2, 1)]
    reading, samples = read(write_table(rows))
    assert [(sample.target, sample.options[sample.target]) for sample in samples] == [("A", "red"), ("C", "blue")]
    assert "answer '1' is not among" in reading.omitted[0]


def test_options_under_numbers_stand_in_the_order_of_the_numbers() -> None:
    options = json.dumps({"2": "green", "1": "red", "3": "blue"})
    _, samples = read(write_table([question(at, options=options, answer=at + 1) for at in range(3)]))
    assert [sample.options[sample.target] for sample in samples] == list(TEXTS)


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("1,000, 2,000, 3,000", ["1,000", "2,000", "3,000"]),
        ("100,200,300", ["100", "200", "300"]),
        ('"red, dark","blue, light","green"', ["red, dark", "blue, light", "green"]),
        ("red, dark; blue, light; green", ["red, dark", "blue, light", "green"]),
        ("(a) red (b) blue (c) green", ["red", "blue", "green"]),
        ("red,blue,green", ["red", "blue", "green"]),
    ],
)
def test_commas_inside_of_options_do_not_split_them(cell: str, options: list[str]) -> None:
    _, samples = read(write_table([question(at, options=cell, answer="ABC"[at % 3]) for at in range(3)]))
    assert list(samples[0].options.values()) == options


@pytest.mark.parametrize("answer", ["(B)", "b", "B.", "B) green", '["B"]', "['B']", "Option B", "Answer: B", "green"])
def test_an_answer_names_its_option_in_any_dress(answer: str) -> None:
    rows = [question(at, A="red", B="green", answer="A" if at else answer) for at in range(3)]
    _, samples = read(write_table(rows))
    assert samples[0].target == "B"


def listed(at: int, **more: Any) -> dict[str, Any]:
    text = f"Which colour is square {at}?\nA. red\nB. green\nC. blue"
    return {"question": text, **more}


def test_options_that_the_question_lists_too_are_sent_once_and_never_shuffled() -> None:
    rows = [listed(at, options=json.dumps(list(TEXTS)), answer="A") for at in range(30)]
    reading, samples = read(write_table(rows))
    assert "30 questions list their options" in reading.text
    assert [text_of(sample).count("A. red") for sample in samples] == [1] * 30
    assert {sample.target for sample in samples} == {"A"}
    assert all("Answer with the letter." in text_of(sample) for sample in samples)


@pytest.mark.parametrize("columns", [{}, {"options": json.dumps(list(TEXTS))}])
def test_options_in_the_question_cannot_be_rotated(columns: dict[str, str]) -> None:
    name = write_table([listed(at, **columns, answer="ABC"[at % 3]) for at in range(6)])
    assert "stand in the question, where they cannot be rotated" in refusal(name, circular="true")
    table = registry.find(name).table
    assert table is not None
    with pytest.raises(SnellenError, match="cannot be rotated"):
        table.survey(Data(options={"circular": "true"}))


def test_questions_sent_alone_cannot_be_rotated() -> None:
    name = write_table([question(at, A="red", B="green", answer="AB"[at % 2]) for at in range(4)])
    assert "cannot be rotated" in refusal(name, circular="true", prompt="question")
    assert len(read(name, circular="true")[1]) == 8


def data_uri(colour: str) -> str:
    return f"data:image/png;base64,{base64.b64encode(IMAGES[colour]).decode()}"


@pytest.mark.parametrize(
    "part",
    [
        lambda colour: {"type": "image_url", "image_url": {"url": data_uri(colour)}},
        lambda colour: {"type": "image_url", "image_url": f"{colour}.png"},
        lambda colour: {"type": "image", "image": f"{colour}.png"},
        lambda colour: {"type": "input_image", "image_url": data_uri(colour)},
        lambda colour: {
            "type": "image",
            "source": {"type": "base64", "data": base64.b64encode(IMAGES[colour]).decode()},
        },
    ],
)
def test_images_in_the_parts_of_a_message_stand_where_the_message_has_them(part: Callable[[str], Any]) -> None:
    for colour, image in IMAGES.items():
        Path(f"{colour}.png").write_bytes(image)
    rows = [
        {
            "messages": [
                {"role": "system", "content": "Be short."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "First "},
                        part(first),
                        part(second),
                        {"type": "text", "text": "Same?"},
                    ],
                },
                {"role": "assistant", "content": [{"type": "text", "text": "no"}]},
            ]
        }
        for first, second in (("red", "green"), ("blue", "red"))
    ]
    _, samples = read(write_lines(rows))
    assert [colours(sample) for sample in samples] == [["red", "green"], ["blue", "red"]]
    assert isinstance(samples[0].prompt.parts[0], Text)
    assert {sample.target for sample in samples} == {False}


def test_the_system_text_of_messages_is_sent_as_such() -> None:
    turns = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "red"}]
    rows: list[dict[str, Any]] = [
        {"messages": [{"role": "system", "content": "Be short."}, *turns]},
        {"messages": turns},
    ]
    reading, samples = read(write_lines(rows))
    assert "system ← `conversations:system`" in reading.text
    assert [sample.prompt.system for sample in samples] == ["Be short.", ""]
    rows = [{"question": "Which?", "answer": "red", "rules": "Be short."}]
    assert read(write_lines(rows), map="system=rules")[1][0].prompt.system == "Be short."


def test_an_answer_beside_a_dialogue_with_another_answer_is_ambiguous() -> None:
    turns = [{"from": "human", "value": "Which?"}, {"from": "gpt", "value": "red"}]
    name = write_lines([{"conversations": turns, "answer": "blue"}])
    assert "--map answer=answer or --map answer=conversations:answer" in refusal(name)
    _, samples = read(name, map="answer=answer")
    assert samples[0].target == "blue"


@pytest.mark.parametrize("options", [{}, {"each": "annotations"}])
def test_annotations_find_the_files_of_their_images_by_id(options: dict[str, str]) -> None:
    Path("images").mkdir()
    files = []
    for number, colour in enumerate(COLOURS):
        Path(f"images/{colour}.png").write_bytes(IMAGES[colour])
        files.append({"id": 100 - number, "file_name": f"{colour}.png"})
    rows = [{"id": at, "image_id": 100 - at, "question": f"{at}?", "answer": "x"} for at in (3, 0, 5)]
    Path("my.json").write_text(json.dumps({"info": {}, "images": files, "annotations": rows, "licenses": [{"id": 1}]}))
    _, samples = read("my.json", **options)
    assert [colours(sample) for sample in samples] == [["yellow"], ["red"], ["orange"]]


def test_image_ids_name_files_where_no_column_has_images() -> None:
    Path("images").mkdir()
    for colour in COLOURS[:2]:
        Path(f"images/{colour}.jpg").write_bytes(IMAGES[colour])
    rows = [{"imageId": colour, "question": "?", "answer": "x"} for colour in COLOURS[:3]]
    reading, samples = read(write_lines(rows))
    assert [colours(sample) for sample in samples] == [["red"], ["green"]]
    assert "image missing: 'blue'" in reading.omitted[0]


def test_a_missing_numbered_image_is_not_replaced_by_that_of_another_row() -> None:
    Path("9.png").write_bytes(IMAGES["red"])
    rows = [{"id": at, "image": number, "question": f"{at}?", "answer": "x"} for at, number in enumerate((1, 9, 9))]
    reading, samples = read(write_table(rows))
    assert [sample.id for sample in samples] == ["1", "2"]
    assert "image missing: '1'" in reading.omitted[0]


def test_files_with_the_ending_of_another_form_are_read_by_their_content() -> None:
    rows = [question(at, answer="red, dark") for at in range(3)]
    Path("list.jsonl").write_text(json.dumps(rows, indent=1))
    write_lines(rows, "lines.json")
    write_table(rows, "commas.tsv")
    for name in ("list.jsonl", "lines.json", "commas.tsv"):
        assert [sample.target for sample in read(name)[1]] == ["red, dark"] * 3, name
    write_lines(rows[:2], "cut.json")
    with Path("cut.json").open("a") as file:
        file.write('{"question": "cut')
    reading, samples = read("cut.json")
    assert len(samples) == 2
    assert "line 3" in reading.omitted[0]


def test_numbers_of_a_class_label_are_read_as_its_words() -> None:
    features = {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}, "image": {"_type": "Image"}}
    table = pa.table({"image": [{"bytes": IMAGES["red"]}, {"bytes": IMAGES["blue"]}], "label": [1, 0]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, "labels.parquet")
    _, samples = read("labels.parquet", question="What is it?")
    assert [(sample.kind, sample.target) for sample in samples] == [("text", "dog"), ("text", "cat")]


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"info": {"features": 3}}', b'{"info": null}'])
def test_broken_metadata_of_a_parquet_file_is_no_error(metadata: bytes) -> None:
    table = pa.table({"question": ["a", "b", "c"], "label": [2, 1, 0]}).replace_schema_metadata(
        {"huggingface": metadata}
    )
    pq.write_table(table, "plain.parquet")
    assert [sample.target for sample in read("plain.parquet")[1]] == [2, 1, 0]


SEVERAL = (
    "AC",
    "A,C",
    "A and C",
    "['A', 'C']",
    '["A", "C"]',
    "red; blue",
    '["red", "blue"]',
    "(A), (C)",
    "\\boxed{A, C}",
)


@pytest.mark.parametrize("answer", SEVERAL)
def test_an_answer_of_several_options_in_any_form_is_all_of_them(answer: str) -> None:
    _, samples = read(write_table([question(at, A="red", B="green", C="blue", answer=answer) for at in range(3)]))
    assert [(sample.kind, sample.target) for sample in samples] == [("multi-choice", ("A", "C"))] * 3
    assert text_of(samples[0]).endswith("Answer with the letters of all right options, separated by commas.")


def test_an_option_with_a_comma_is_one_option() -> None:
    rows = [question(at, A="red, dark", B="green", C="A, C", answer=("red, dark", "A, C")[at % 2]) for at in range(4)]
    _, samples = read(write_table(rows))
    assert [(sample.kind, sample.target) for sample in samples[:2]] == [("choice", "A"), ("choice", "C")]


def test_one_letter_among_answers_of_several_is_asked_as_they_are() -> None:
    rows = [question(at, A="red", B="green", C="blue", answer=("AC", "B", "BC")[at % 3]) for at in range(3)]
    _, samples = read(write_table(rows))
    assert [sample.target for sample in samples] == [("A", "C"), ("B",), ("B", "C")]
    rows = [question(at, A="red", B="green", C="blue", answer=("A", "B", "BC")[at % 3]) for at in range(3)]
    assert [sample.kind for sample in read(write_table(rows))[1]] == ["choice", "choice", "multi-choice"]


@pytest.mark.parametrize("heading", ["image", "Bild", None])
def test_pictures_pasted_into_a_sheet_are_the_images_of_their_rows(heading: str | None) -> None:
    book = Workbook()
    for line in (["question", heading, "answer"], ["Which?", None, "red"], ["And this?", None, "blue"]):
        book.active.append(line)
    for row, colour in ((2, "red"), (3, "blue")):
        book.active.add_image(Picture(BytesIO(IMAGES[colour])), f"B{row}")
    book.save("pasted.xlsx")
    with zipfile.ZipFile("pasted.zip", "w") as archive:
        archive.write("pasted.xlsx")
    for name in ("pasted.xlsx", "pasted.zip"):
        reading, samples = read(name)
        assert f"image ← `{heading or 'picture'}`" in reading.text
        assert [colours(sample) for sample in samples] == [["red"], ["blue"]]


def test_formulas_without_a_value_are_no_answers_and_are_named() -> None:
    book = Workbook()
    book.active.append(["question", "answer"])
    book.active.append(["What is two and two?", "=2+2"])
    book.active.append(["What is one and one?", "2"])
    book.save("sums.xlsx")
    reading, samples = read("sums.xlsx")
    assert "column 'answer': cell B2 holds the formula =2+2 without its value" in reading.omitted[0]
    assert [sample.target for sample in samples] == [2]


def test_a_packed_table_is_refused_with_the_name_of_the_plain_one() -> None:
    Path("my.csv.gz").write_bytes(b"packed")
    assert "'my.csv.gz' is a packed table" in refusal("my.csv.gz")
    assert "my.csv" in refusal("my.csv.gz").partition("comes out of it")[2]


def test_a_cut_off_image_has_the_same_reason_in_every_run() -> None:
    Path("cut.png").write_bytes(IMAGES["red"][:40])
    Path("red.png").write_bytes(IMAGES["red"])
    rows = [{"image": name, "question": "?", "answer": "x"} for name in ("cut.png", "red.png")]
    reading, samples = read(write_table(rows))
    assert len(samples) == 1
    assert "cut.png is cut off (its header is not whole)" in reading.omitted[0]
