"""Columns by name and content: what is found, what is refused, and which rows are left out, without any request."""

from __future__ import annotations

import base64
import csv
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl import Workbook
from PIL import Image as Picture

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data, DataReading
from snellen.errors import DataError, SnellenError, UsageError
from snellen.types import Image, Sample, Text, Video

CHOICE = {"question": "Which?", "A": "red", "B": "green", "C": "blue", "image": "a.png"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with four images, which is the working folder."""
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "data"
    place.mkdir()
    for number, name in enumerate("abcd"):
        Picture.new("RGB", (16 + number, 16), (40 * number, 90, 10)).save(place / f"{name}.png")
    monkeypatch.chdir(place)
    return place


def write_csv(rows: Sequence[dict[str, Any]], name: str = "my.csv") -> str:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)
    return name


def write_json(rows: Any, name: str = "my.json") -> str:
    Path(name).write_text(json.dumps(rows))
    return name


def reading(name: str, images: Path | None = None, **options: str) -> DataReading:
    result = registry.find(name).reading(Data(images=images, options=options))
    assert result is not None
    return result


def samples(name: str, images: Path | None = None, **options: str) -> list[Sample]:
    return list(registry.find(name).samples(Data(images=images, options=options)))


def texts(sample: Sample) -> str:
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))


def refused(name: str, kind: type[SnellenError] = UsageError, **options: str) -> str:
    with pytest.raises(kind) as error:
        registry.find(name).reading(Data(options=options))
    return f"{error.value.message} {error.value.hint}"


def test_two_columns_that_could_be_the_answer_are_refused_with_the_maps_that_decide() -> None:
    rows = [{**CHOICE, "answer": "ABC"[n % 3], "label": "BCA"[n % 3]} for n in range(6)]
    message = refused(write_csv(rows))
    assert "'answer' and 'label'" in message
    assert "--map answer=answer or --map answer=label" in message
    assert [sample.target for sample in samples("my.csv", map="answer=label")][:3] == ["B", "C", "A"]


def test_two_columns_that_could_be_the_question_are_refused() -> None:
    rows = [{**CHOICE, "answer": "A", "prompt": f"What {n}?", "question": f"Which {n}?"} for n in range(3)]
    message = refused(write_csv(rows))
    assert "'question' and 'prompt'" in message and "--map question=prompt" in message
    assert "What 1?" in texts(samples("my.csv", map="question=prompt")[1])


def test_two_columns_that_could_be_the_image_name_the_map_that_sends_both() -> None:
    rows = [{**CHOICE, "answer": "A", "photo": "b.png"} for _ in range(3)]
    assert "--map image=image+photo" in refused(write_csv(rows))
    sample = samples("my.csv", map="image=photo+image")[0]
    names = [Path(part.blob.key).name for part in sample.prompt.parts if isinstance(part, Image)]
    assert names == ["b.png", "a.png"]


def test_a_letter_and_its_text_are_one_answer() -> None:
    rows = [{**CHOICE, "answer": "ABC"[n], "answer_text": ("red", "green", "blue")[n]} for n in range(3)]
    assert [sample.target for sample in samples(write_csv(rows))] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("answers", "letters"),
    [((0, 1, 2), "ABC"), ((1, 2, 3), "ABC"), ((3, 1, 1), "CAA"), ((0, 0, 1), "AAB")],
)
def test_a_zero_or_an_index_equal_to_the_number_of_options_says_where_indexes_begin(
    answers: Sequence[int], letters: str
) -> None:
    write_csv([{**CHOICE, "answer": answer} for answer in answers])
    assert "".join(sample.target for sample in samples("my.csv")) == letters


def test_indexes_that_could_begin_at_0_or_1_are_refused() -> None:
    message = refused(write_csv([{**CHOICE, "answer": answer} for answer in (1, 2, 1)]))
    assert "--map answer=answer:index0 or --map answer=answer:index1" in message
    assert [sample.target for sample in samples("my.csv", map="answer=answer:index0")] == ["B", "C", "B"]
    assert [sample.target for sample in samples("my.csv", map="answer=answer:index1")] == ["A", "B", "A"]


def test_answers_that_are_all_0_or_1_are_refused() -> None:
    write_csv([{"question": "Is it?", "image": "a.png", "label": n % 2} for n in range(4)])
    assert "--map answer=label:bool or --map answer=label:number" in refused("my.csv")
    assert [sample.target for sample in samples("my.csv", map="answer=label:bool")] == [False, True, False, True]


def test_a_mapped_column_that_is_missing_is_named() -> None:
    write_csv([{**CHOICE, "answer": "A"}])
    assert "question=promt: there is no such column" in refused("my.csv", map="question=promt")


def test_a_table_without_an_answer_names_the_map() -> None:
    assert "--map answer=COLUMN" in refused(write_csv([{"question": "Which?", "image": "a.png"}]))


def test_rows_that_cannot_be_asked_are_named_with_row_id_and_reason() -> None:
    good = [{"id": f"r{n}", **CHOICE, "image": f"{'abcd'[n % 4]}.png", "answer": "ABC"[n % 3]} for n in range(20)]
    good[3]["image"] = "none.png"
    good[5]["answer"] = "E"
    good[7]["question"] = " "
    good[9]["id"] = "r1"
    good[11]["answer"] = ""
    Path("torn.png").write_bytes(Path("a.png").read_bytes()[:40])
    Path("text.png").write_text("this is no image")
    good[13]["image"] = "torn.png"
    good[15]["image"] = "text.png"
    good[17]["image"] = "https://example.org/a.png"
    good[19]["image"] = ""
    result = reading(write_csv(good))
    assert (result.rows, result.samples) == (20, 11)
    assert [line.partition(":")[0] for line in result.omitted] == [
        f"row {n} (line {n + 1}) (id r{n - 1 if n != 10 else 1})" for n in (4, 6, 8, 10, 12, 14, 16, 18, 20)
    ]
    reasons = "\n".join(result.omitted)
    for reason in (
        *("image missing: 'none.png'", "answer 'E' is not among its 3 options", "its question is empty"),
        *("duplicate id: row 2 (line 3) has it too", "it has no answer", "torn.png is", "text.png is no JPEG"),
        *("is an address on the network; download", "image missing: its cell is empty"),
    ):
        assert reason in reasons
    assert "9 rows left out: row 4 (line 5) (id r3): image missing" in result.text
    benchmark = registry.find("my.csv")
    assert benchmark.size(Data()) == 20
    assert len(samples("my.csv")) == 11


def test_some_questions_may_hold_their_options_where_the_answers_name_these() -> None:
    rows = [
        {"question": "Which colour?\nA. red\nB. blue", "answer": "B"},
        {"question": "Which shape? (A) square (B) circle (C) star", "answer": "C"},
        {"question": "Is it dark?", "answer": "yes"},
        {"question": "How many?", "answer": "42"},
        {"question": "What is written?", "answer": "Hello"},
    ]
    asked, text = samples(name := write_csv(rows)), reading(name).text
    assert [(one.kind, one.target) for one in asked[:2]] == [("choice", "B"), ("choice", "C")]
    assert [one.kind for one in asked[2:]] == ["truth", "count", "text"]
    assert "as it stands" not in text and text.endswith("a request that fits its kind but where it holds options")
    steps = [{"question": f"Which steps? A. Boil B. Pour {n}", "answer": f"Boil it for {n} minutes"} for n in range(2)]
    assert "choice" not in {one.kind for one in samples(write_csv([*steps, *rows[2:]], "steps.csv"))}


def test_the_paragraph_says_how_the_table_was_read() -> None:
    rows = [
        {"prompt": "Which?", "choices": "red; green; blue", "label": "ABC"[n % 3], "pic": "abcd"[n % 4] + ".png"}
        | {"topic": ("x", "y")[n % 2], "notes": f"free text {n}"}
        for n in range(8)
    ]
    text = reading(write_csv(rows)).text
    for words in (
        *("8 samples, 4 images (CSV)", "choice of 3 from A…C", "question ← `prompt`", "options ← `choices`"),
        *("answer ← `label` (letters)", "image ← `pic`", "by `topic`", "ids: row numbers from 0", "not used: `notes`"),
        "prompt: images, the question, lettered options and a request for the letter",
    ):
        assert words in text


def test_an_index_of_a_reference_shows_the_images_of_another_row() -> None:
    image = base64.b64encode(Path("a.png").read_bytes()).decode()
    rows = [
        {"index": n, "image": image if n == 2 else "2" if n else "1", **CHOICE, "answer": "A"} | {} for n in range(3)
    ]
    for row in rows:
        row["image"] = {0: "1", 1: "2", 2: image}[row["index"]]
    assert all(
        part.blob.read() == Path("a.png").read_bytes()
        for sample in samples(write_csv(rows))
        for part in sample.prompt.parts
        if isinstance(part, Image)
    )
    assert len({sample.group for sample in samples("my.csv")}) == 1


def test_images_stand_at_their_marks() -> None:
    rows = [
        {"images": ["a.png", "b.png"], "question": "Compare <image> with <image>. Same?", "answer": "no"},
        {"images": ["a.png", "b.png"], "question": "Is <image 2> left of <image 1>?", "answer": "yes"},
        {"images": ["a.png"], "question": "Is <image> <image>?", "answer": "yes"},
        {"images": ["a.png"], "question": "Is <image 2> it?", "answer": "no"},
    ]
    result = reading(write_json(rows))
    assert [line.partition(": ")[2] for line in result.omitted] == [
        "2 image marks and 1 image",
        "its marks <image 2> do not fit 1 image",
    ]
    first, second = samples("my.json")
    assert [p.text if isinstance(p, Text) else Path(p.blob.key).name for p in first.prompt.parts] == [
        *("Compare ", "a.png", " with ", "b.png", ". Same?\nAnswer with yes or no."),
    ]
    assert [Path(p.blob.key).name for p in second.prompt.parts if isinstance(p, Image)] == ["b.png", "a.png"]


def test_truth_questions_are_answered_in_the_words_of_the_file() -> None:
    write_csv([{"question": "Is it?", "image": "a.png", "answer": ("True", "False")[n % 2]} for n in range(4)])
    first = samples("my.csv")[0]
    assert (first.kind, first.target, first.meta["form"], first.meta["chance"]) == ("truth", True, "T/F", "0.5")
    assert texts(first).endswith("Answer with true or false.")
    write_json([{"question": "Is it?", "image": "a.png", "answer": n % 2 == 0} for n in range(4)], "b.json")
    assert texts(samples("b.json")[0]).endswith("Answer with yes or no.")


def test_a_prompt_can_be_that_of_another_harness_or_the_bare_question() -> None:
    write_csv([{**CHOICE, "answer": "AB"[n % 2]} for n in range(2)])
    assert texts(samples("my.csv")[0]) == "Which?\nA. red\nB. green\nC. blue\nAnswer with the letter."
    assert texts(samples("my.csv", prompt="question")[0]) == "Which?"
    kit = texts(samples("my.csv", prompt="kit-mcq")[0])
    assert kit.startswith("Question: Which?\nOptions:\nA. red\nB. green\nC. blue\n")
    assert "prompt: kit-mcq" in reading("my.csv", prompt="kit-mcq").text


def test_numbers_are_counts_or_measurements() -> None:
    write_csv([{"question": "How many?", "image": "a.png", "answer": n} for n in (3, 4, 12)])
    assert [(s.kind, s.target) for s in samples("my.csv")] == [("count", 3), ("count", 4), ("count", 12)]
    write_csv([{"question": "How far?", "image": "a.png", "answer": n} for n in ("3", "4.5", "1,200")], "b.csv")
    assert [(s.kind, s.target) for s in samples("b.csv")] == [("number", "3"), ("number", "4.5"), ("number", "1,200")]
    assert "chance" not in samples("my.csv")[0].meta


def test_a_clip_is_sent_as_a_video() -> None:
    Path("x.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(200))
    write_csv([{"video": "x.mp4", "question": f"Which {n}?", "A": "up", "B": "down", "answer": "A"} for n in range(2)])
    parts = samples("my.csv")[0].prompt.parts
    assert isinstance(parts[0], Video) and parts[0].blob is not None
    write_csv(
        [{"video": "x", "question": f"Which {n}?", "A": "up", "B": "down", "answer": "A"} for n in range(2)], "b.csv"
    )
    assert isinstance(samples("b.csv")[0].prompt.parts[0], Video)


def test_folders_of_classes_ask_for_the_class() -> None:
    for name in ("barn_owl", "wren"):
        Path("birds", name).mkdir(parents=True)
        Picture.new("RGB", (9, len(name)), "red").save(Path("birds", name, "1.png"))
    first, second = samples("birds")
    assert first.options == {"A": "barn owl", "B": "wren"}
    assert (first.id, first.target, second.target) == ("barn_owl/1.png", "A", "B")
    assert samples("birds", question="Which bird?")[0].prompt.parts[1].text.startswith("Which bird?")  # type: ignore[union-attr]


def test_several_tables_in_a_folder_are_refused_until_one_is_chosen() -> None:
    Path("set").mkdir()
    for split in ("train", "test"):
        write_csv([{**CHOICE, "image": "../a.png", "answer": "A"}], f"set/{split}.csv")
    message = refused("set")
    assert "train.csv" in message and "-o split=train" in message
    assert "must stay under their root" in refused("set", DataError, split="test")


def test_an_image_cannot_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(Path("a.png").read_bytes())
    Path("link.png").symlink_to(tmp_path / "secret.png")
    rows = [{**CHOICE, "image": name, "answer": "A"} for name in ("a.png", "../secret.png", "link.png")]
    result = reading(write_csv(rows))
    assert result.samples == 1
    assert "'..'" in result.omitted[0] and "symbolic link" in result.omitted[1]


def test_an_absolute_path_is_found_by_its_end_under_images(folder: Path) -> None:
    rows = [{**CHOICE, "image": f"/home/them/set/{name}.png", "answer": "A"} for name in "abc"]
    Path("../tables").mkdir()
    write_csv(rows, "../tables/my.csv")
    assert "--images FOLDER" in refused("../tables/my.csv", DataError)
    assert reading("../tables/my.csv", folder).samples == 3


def test_a_file_that_is_not_utf8_is_refused_with_its_line() -> None:
    Path("my.csv").write_bytes("question,A,B,answer\nWas?,rot,gr\xfcn,A\n".encode("latin-1"))
    message = refused("my.csv", DataError)
    assert "my.csv, line 2: byte 0xfc is not UTF-8" in message and "UTF-8" in message
    assert "-o encoding=CP1252" in message and "grün" in message
    assert samples("my.csv", encoding="cp1252")[0].options["B"] == "grün"
    Path("b.csv").write_text("question,A,B,answer\nWas?,rot,grün,A\n", encoding="utf-16")
    assert samples("b.csv")[0].options["B"] == "grün"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"question\n",
        b'question,answer\n"a,b\n',
        b"[",
        b"{}",
        b"[1]",
        b"null",
        b'{"a": {"b": 1}}',
        b"\0" * 50,
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx", ".zip"])
def test_a_broken_file_is_an_error_and_no_traceback(content: bytes, suffix: str) -> None:
    Path(f"my{suffix}").write_bytes(content)
    with pytest.raises(SnellenError):
        registry.find(f"my{suffix}").reading(Data())


def test_strange_cells_are_taken_as_they_are() -> None:
    rows = [
        {**CHOICE, "question": "=1+1", "A": "=cmd()", "answer": "A"},
        {**CHOICE, "question": "x" * 200_000, "answer": "A"},
        {**CHOICE, "question": "nul\0", "answer": "A"},
        {**CHOICE, "question": 'a "quoted", question\nof two lines', "answer": "B"},
    ]
    result = reading(write_csv(rows))
    assert result.samples == 3 and "NUL" in result.omitted[0]
    assert "=cmd()" in texts(samples("my.csv")[0])
    Path("b.jsonl").write_text('{"question": "half \\ud800", "answer": "x"}\n{"question": "Which?", "answer": "y"}\n')
    assert reading("b.jsonl").samples == 1


def test_a_row_with_a_cell_without_a_value_is_left_out_and_named() -> None:
    book = Workbook()
    book.active.append(["question", "A", "B", "answer", "remark"])
    for line in (
        ["Which?", "=1+1", "red", "A", "#REF!"],
        ["What?", "#N/A", "red", "A", ""],
        ["Who?", "b", "c", "A", "#N/A"],
    ):
        book.active.append(line)
    book.save("my.xlsx")
    assert [sample.options for sample in samples("my.xlsx")] == [{"A": "b", "B": "c"}]
    first, second = reading("my.xlsx").omitted
    assert first == (
        "row 1 (sheet row 2) (id 0): column 'A': cell B2 holds the formula =1+1 without its value; open the workbook in Excel "
        "and save it"
    )
    assert second == "row 2 (sheet row 3) (id 1): column 'A': cell B3 holds the error value #N/A"


def test_a_sheet_without_a_question_names_the_others_and_an_empty_column_of_images_is_not_asked_blind() -> None:
    book = Workbook()
    book.active.append(["author", "year"])
    book.active.append(["Max", 2024])
    page = book.create_sheet("Data")
    for line in (["question", "image", "answer"], ["Which?", None, "x"], ["What?", None, "y"]):
        page.append(line)
    book.save("my.xlsx")
    with pytest.raises(SnellenError, match="no column could be the question") as error:
        reading("my.xlsx")
    assert "-o sheet='Data'" in error.value.hint
    with pytest.raises(SnellenError, match="the column of images, 'image', is empty in every row") as error:
        reading("my.xlsx", sheet="Data")
    assert "--map image=none" in error.value.hint
    assert reading("my.xlsx", sheet="Data", map="image=none").samples == 2


def test_python_lists_are_parsed_and_never_evaluated() -> None:
    rows = [
        {"question": "Which?", "answer": "A", "options": cell}
        for cell in (
            "['a', 'b']",
            "['a' 'b']",
            "array(['a', 'b'], dtype=object)",
            "[__import__('os').system('x'), 'b']",
        )
    ]
    result = reading(write_csv(rows))
    assert result.samples == 3 and "its options cannot be read" in result.omitted[0]
    assert all(sample.options == {"A": "a", "B": "b"} for sample in samples("my.csv"))


def test_a_table_whose_first_option_is_always_right_is_shuffled_and_says_so() -> None:
    write_csv([{"question": f"Which {n}?", "A": "gold", "B": "x", "C": "y", "answer": "A"} for n in range(30)])
    assert "options are shuffled with seed 0" in reading("my.csv").text
    letters = [sample.target for sample in samples("my.csv")]
    assert len(set(letters)) == 3
    assert all(sample.options[sample.target] == "gold" for sample in samples("my.csv"))
    assert letters == [sample.target for sample in samples("my.csv")]


def test_circular_evaluation_asks_every_rotation() -> None:
    write_csv([{**CHOICE, "answer": "B"}, {**CHOICE, "question": "Who?", "answer": "C"}])
    turned = samples("my.csv", circular="true")
    assert [sample.id for sample in turned] == ["0", "0#1", "0#2", "1", "1#1", "1#2"]
    assert [sample.options[sample.target] for sample in turned] == ["green"] * 3 + ["blue"] * 3
    assert [sample.target for sample in turned[:3]] == ["B", "A", "C"]
    assert registry.find("my.csv").size(Data(options={"circular": "true"})) == 6


def test_a_dialogue_of_messages_is_a_question_with_its_answer() -> None:
    rows = [
        {
            "images": ["a.png"],
            "messages": [
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": f"What is {n}?"}]},
                {"role": "assistant", "content": f"thing {n}"},
            ],
        }
        for n in range(3)
    ]
    write_json(rows)
    sample = samples("my.json")[1]
    assert (sample.kind, sample.target) == ("text", "thing 1")
    assert isinstance(sample.prompt.parts[0], Image)


def test_a_zip_of_parquet_with_images_inside_is_read_in_place() -> None:
    table = pa.table(
        {
            "image": [{"bytes": Path(f"{name}.png").read_bytes(), "path": None} for name in "ab"],
            "question": ["Which?", "Who?"],
            "answer": ["x", "y"],
        }
    )
    pq.write_table(table, "t.parquet")
    with zipfile.ZipFile("set.zip", "w") as archive:
        archive.write("t.parquet")
    blobs = [part.blob for sample in samples("set.zip") for part in sample.prompt.parts if isinstance(part, Image)]
    assert [blob.read() for blob in blobs] == [Path("a.png").read_bytes(), Path("b.png").read_bytes()]


def rows_with_ids(ids: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for number, sample_id in enumerate(ids):
        yield {"id": sample_id, "question": f"Which {number}?", "answer": f"x{number}"}


def test_ids_are_those_of_the_file_where_they_are_unique() -> None:
    write_csv(list(rows_with_ids(["a", "b", "c"])))
    assert [sample.id for sample in samples("my.csv")] == ["a", "b", "c"]
    write_csv(list(rows_with_ids(["a", "a", "b", "b"])), "b.csv")
    assert [sample.id for sample in samples("b.csv")] == ["0", "1", "2", "3"]
    assert "`id` repeats, so that ids are row numbers" in reading("b.csv").text


def test_the_digest_covers_the_table_and_its_images() -> None:
    write_csv([{**CHOICE, "answer": "A"}, {**CHOICE, "image": "b.png", "answer": "B"}])
    before = registry.find("my.csv").digest(Data())
    image = io.BytesIO()
    Picture.new("RGB", (5, 5), "white").save(image, "PNG")
    Path("b.png").write_bytes(image.getvalue())
    from snellen.benchmarks.table.survey import _first_opened

    _first_opened.cache_clear()
    after = registry.find("my.csv").digest(Data())
    assert before.partition("+")[0] == after.partition("+")[0] and before != after
