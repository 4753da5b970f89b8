"""snellen check: the report, its JSON, exit codes, and the declaration that it writes."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from PIL import Image as Pillow

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.table import survey
from snellen.cli.options import parse_pairs
from snellen.runs.check.finding import KINDS
from snellen.sources.blobs import FileBlob
from snellen.types import Image, Sample, Text

pytestmark = pytest.mark.installed

Snellen = Callable[..., Any]
COLOURS = ("red", "green", "blue", "pink")


def picture(path: Path, colour: str = "red", size: tuple[int, int] = (60, 40)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.new("RGB", size, colour).save(path)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def colour_rows(folder: Path, count: int = 24) -> list[list[str]]:
    """Return rows of balanced choices about four images, which are drawn."""
    for colour in COLOURS:
        picture(folder / f"{colour}.png", colour)
    return [
        [
            f"q{number}",
            f"{COLOURS[number % 4]}.png",
            f"Colour of shape {number}?",
            *COLOURS,
            "ABCD"[number % 4],
            "ab"[number % 2],
        ]
        for number in range(count)
    ]


HEADER = ("id", "image", "question", "A", "B", "C", "D", "answer", "topic")


def test_a_sound_file_is_read_shown_and_priced(snellen: Snellen, tmp_path: Path) -> None:
    write_csv(tmp_path / "my.csv", HEADER, colour_rows(tmp_path))
    (tmp_path / "prices.toml").write_text("[big-vlm]\ninput = 2.0\noutput = 8.0\n")
    said = snellen(
        "check", "my.csv", "--samples", 2, "--prices", "prices.toml", "-m", "api:big-vlm", "--max-tokens", 10
    )
    assert (said.status, said.err.count("\n")) == (0, 1)
    assert said.out.startswith("my.csv: 24 samples, 4 images (CSV); choice of 4 from A…D; question ← `question`")
    assert said.out.count("--- row") == 2
    assert (
        "red.png, 60 x 40 PNG, " in said.out
        or "green.png, 60 x 40 PNG, " in said.out
        or ".png, 60 x 40 PNG" in said.out
    )
    assert "gold: " in said.out and "Nothing odd was found." in said.out
    assert "output <= 240. Estimated cost: ~$" in said.out
    assert "Estimated cost: unknown: name the model with -m KIND:NAME" in snellen("check", "my.csv").out


def test_the_reading_is_that_of_a_run(snellen: Snellen, tmp_path: Path) -> None:
    write_csv(tmp_path / "my.csv", HEADER, colour_rows(tmp_path))
    reading = snellen("check", "my.csv").out.splitlines()[0]
    run = snellen("run", "my.csv", "-m", "embedded", "--limit", 2)
    assert reading in run.err


def test_the_estimate_is_that_of_a_dry_run(snellen: Snellen, tmp_path: Path) -> None:
    write_csv(tmp_path / "my.csv", HEADER, colour_rows(tmp_path))
    (tmp_path / "prices.toml").write_text("[big-vlm]\ninput = 2.0\noutput = 8.0\n")
    options = ("-m", "api:big-vlm", "--prices", "prices.toml", "--max-tokens", 7, "--max-long-side", 30, "--json")
    check = json.loads(snellen("check", "my.csv", *options).out)
    dry = json.loads(snellen("run", "my.csv", "--dry-run", *options).out)["runs"][0]
    assert {name: check[name] for name in ("input_tokens", "output_tokens", "cost")} == {
        name: dry[name] for name in ("input_tokens", "output_tokens", "cost")
    }
    assert check["samples"] == dry["questions"]


def test_findings_name_rows_ids_and_reasons(snellen: Snellen, tmp_path: Path) -> None:
    rows = colour_rows(tmp_path)
    rows[3][1] = "gone.png"
    rows[5][7] = "E"
    rows.append([*rows[1][:0], "q-copy", *rows[1][1:]])
    rows.append(["q-none", "red.png", "Which one?", "None", "NA", "grey", "None of the above", "A", "a"])
    write_csv(tmp_path / "my.csv", HEADER, rows)
    said = snellen("check", "my.csv", "--samples", 0)
    assert said.status == 0
    assert "error    2 rows cannot be asked and are left out  [row-omitted]" in said.out
    assert "row 4 (line 5) (id q3): image missing: 'gone.png'" in said.out
    assert "row 6 (line 7) (id q5): answer 'E' is not among its 4 options" in said.out
    assert "[duplicate-question]\n           row 25 (line 26) (id q-copy): as row 2 (line 3)" in said.out
    assert "catch-all-option" not in said.out and "pandas" not in said.out
    assert "[catch-all-option]" in snellen("check", "my.csv", "--samples", 0, "-o", "circular=true").out
    asked = snellen("check", "my.csv", "--samples", 0, "-o", "as_kit=false").out
    assert "note     1 row has a cell that pandas" in asked


def kit_tsv(folder: Path) -> str:
    """Write a table whose first four rows hold their images; the others name the row of theirs, as VLMEvalKit does."""
    rows = colour_rows(folder)
    lines = ["index\timage\tquestion\tA\tB\tC\tD\tanswer"]
    for number, row in enumerate(rows):
        image = base64.b64encode((folder / row[1]).read_bytes()).decode() if number < 4 else str(number % 4)
        lines.append("\t".join([str(number), image, row[2], *row[3:7], row[7]]))
    lines[9] = lines[9].replace("green", "None")
    (folder / "kit.tsv").write_text("\n".join(lines) + "\n")
    return "kit.tsv"


def test_cells_that_pandas_empties_are_counted_and_references_to_images_are_not(
    snellen: Snellen, tmp_path: Path
) -> None:
    said = json.loads(snellen("check", kit_tsv(tmp_path), "-o", "as_kit=false", "--json").out)
    (finding,) = [finding for finding in said["findings"] if finding["code"] == "as-kit-differs"]
    assert finding["count"] == 1
    assert "VLMEvalKit reads 1 row otherwise" in said["reading"]
    kit = json.loads(snellen("check", "kit.tsv", "--as-kit", "--json").out)
    assert (kit["samples"], kit["images"]) == (24, 4)
    assert "as-kit-differs" not in {finding["code"] for finding in kit["findings"]}


def test_each_image_is_read_once(snellen: Snellen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    write_csv(tmp_path / "my.csv", HEADER, colour_rows(tmp_path))
    for colour in COLOURS:
        os.utime(tmp_path / f"{colour}.png", (1e9, 1e9))
    reads: list[str] = []
    plain = FileBlob.read

    def counted(blob: FileBlob) -> bytes:
        reads.append(blob.path.name)
        return plain(blob)

    monkeypatch.setattr(FileBlob, "read", counted)
    for _ in range(2):  # the second time their checksums are remembered, and only their sizes are read
        reads.clear()
        assert json.loads(snellen("check", "my.csv", "--json").out)["images"] == 4
        assert sorted(reads) == sorted(f"{colour}.png" for colour in COLOURS)
        survey._first_opened.cache_clear()


def test_the_estimate_of_circular_evaluation_counts_every_rotation(snellen: Snellen, tmp_path: Path) -> None:
    write_csv(tmp_path / "my.csv", HEADER, colour_rows(tmp_path))
    once = json.loads(snellen("check", "my.csv", "--json").out)
    circular = json.loads(snellen("check", "my.csv", "-o", "circular=true", "--json").out)
    assert circular["input_tokens"] == 4 * once["input_tokens"]
    assert circular["samples"] == once["samples"] == 24


def test_rows_left_out_fail_only_with_strict_data(snellen: Snellen, tmp_path: Path) -> None:
    rows = colour_rows(tmp_path)
    rows[3][1] = "gone.png"
    write_csv(tmp_path / "my.csv", HEADER, rows)
    assert snellen("check", "my.csv").status == 0
    strict = snellen("check", "my.csv", "--strict-data")
    assert strict.status == 3 and "gone.png" in strict.out
    write_csv(tmp_path / "my.csv", HEADER, colour_rows(tmp_path))
    assert snellen("check", "my.csv", "--strict-data").status == 0


def test_omitted_rows_are_cut_at_twenty_unless_all_are_wanted(snellen: Snellen, tmp_path: Path) -> None:
    rows = colour_rows(tmp_path, 60)
    for row in rows[:50]:
        row[1] = "gone.png"
    write_csv(tmp_path / "my.csv", HEADER, rows)
    short = snellen("check", "my.csv", "--samples", 0).out
    assert (
        short.count("(id q") - short.splitlines()[0].count("(id q") == 20 and "and 30 more. --all lists them." in short
    )
    long = snellen("check", "my.csv", "--samples", 0, "--all").out
    assert long.count("(id q") - long.splitlines()[0].count("(id q") == 50 and "more. --all" not in long
    as_json = json.loads(snellen("check", "my.csv", "--json").out)
    assert (len(as_json["omitted"]), as_json["rows"], as_json["samples"]) == (50, 60, 10)


def test_the_questions_of_each_part_are_counted_by_kind_and_drawn(snellen: Snellen, tmp_path: Path) -> None:
    rows = [[*row[:-1], ("birds", "fish", "fish")[number % 3]] for number, row in enumerate(colour_rows(tmp_path))]
    write_csv(tmp_path / "my.csv", (*HEADER[:-1], "category"), rows)
    result = snellen("check", "my.csv", "--samples", 0, "--figures", "drawn")
    assert re.search(r"fish *│ *16 *│ *16 *│ *66.7%", result.out)
    with (tmp_path / "drawn/figures.csv").open(newline="") as file:
        captions = {row["title"].partition(" by ")[2]: row["caption"] for row in csv.DictReader(file)}
    assert captions == {
        "part": "24 questions, with the share of each part.",
        "kind of answer": "24 questions, with the share of each kind of answer.",
    }
    found = json.loads(snellen("check", "my.csv", "--json").out)
    assert found["parts"] == {"birds": {"choice": 8}, "fish": {"choice": 16}}


def test_json_has_stable_names(snellen: Snellen, tmp_path: Path) -> None:
    rows = colour_rows(tmp_path)
    rows.append(["q-copy", *rows[0][1:]])
    write_csv(tmp_path / "my.csv", HEADER, rows)
    result = json.loads(snellen("check", "my.csv", "--json", "--samples", 3).out)
    assert list(result) == [
        *("data", "benchmark", "reading", "rows", "samples", "images", "videos", "kinds", "levels", "findings"),
        *("omitted", "answers", "chance", "characters", "longest", "examples", "input_tokens", "output_tokens", "cost"),
        "parts",
    ]
    assert result["data"] == "my.csv" and result["levels"] == {"error": 0, "warning": 1, "note": 0}
    assert list(result["findings"][0]) == ["code", "level", "count", "message", "rows"]
    assert result["findings"][0]["rows"] == [{"row": "row 25 (line 26)", "id": "q-copy", "detail": "as row 1 (line 2)"}]
    assert len(result["examples"]) == 3
    assert list(result["examples"][0]) == ["row", "id", "kind", "system", "prompt", "options", "gold"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone.csv",), "gone.csv"),
        (("my.csv", "--prices", "p.toml"), "--prices p.toml needs a model"),
        (("my.csv", "--force"), "--force has no effect without --write"),
        (("my.csv", "-o", "colour=red"), "has no option 'colour'"),
        (("my.csv", "--map", "answer=nothing"), "there is no such column"),
        (("my.csv", "--write", "my.csv"), "also the input"),
        (("my.csv", "--write", "x.json"), "--write"),
        (("chart/digits", "--write", "x.toml"), "is no table"),
        (("ambiguous.csv",), "2 columns could be the answer"),
        (("empty.csv",), "the file is empty"),
    ],
)
def test_errors_say_what_to_do_and_write_nothing(
    snellen: Snellen, tmp_path: Path, words: Sequence[str], message: str
) -> None:
    write_csv(tmp_path / "my.csv", HEADER, colour_rows(tmp_path))
    write_csv(tmp_path / "ambiguous.csv", ("question", "label", "answer"), [["q?", "x", "y"], ["r?", "z", "w"]])
    (tmp_path / "empty.csv").write_text("")
    before = sorted(tmp_path.iterdir())
    said = snellen("check", *words)
    assert said.status in (2, 3) and message in said.err and "Traceback" not in said.err
    assert sorted(tmp_path.iterdir()) == before


def test_the_documentation_lists_every_kind_of_finding_with_its_level() -> None:
    page = (Path(__file__).parents[2] / "docs" / "check-findings.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `([a-z-]+)` \| (error|warning|note) \|", page, re.M))
    assert list(table.items()) == [(code, kind.level) for code, kind in KINDS.items()]


def test_a_registered_benchmark_is_checked_too(snellen: Snellen) -> None:
    said = snellen("check", "chart/digits", "--samples", 1)
    assert said.status == 0
    assert said.out.startswith("chart/digits: 320 samples, ") and "Gold answers" in said.out


def test_control_characters_of_a_file_do_not_reach_the_terminal(snellen: Snellen, tmp_path: Path) -> None:
    rows = colour_rows(tmp_path)
    rows[0][2] = "Colour \x1b[2J of\x9b31m it?"
    rows[1][0] = "id\x1b]0;title\x07"
    write_csv(tmp_path / "my.csv", HEADER, rows)
    said = snellen("check", "my.csv", "--samples", 24)
    assert "\x1b" not in said.out and "\x9b" not in said.out and "\x07" not in said.out


def sent(name: str, **data: Any) -> list[Any]:
    """Return what a benchmark asks: ids, prompts with the bytes of their images, options, gold answers and meta."""

    def plain(sample: Sample) -> Any:
        parts = [
            part.text if isinstance(part, Text) else part.blob.read() if isinstance(part, Image) else str(part)
            for part in sample.prompt.parts
        ]
        return sample.id, parts, sample.target, sample.kind, dict(sample.options), sample.group, dict(sample.meta)

    return [plain(sample) for sample in registry.find(name).samples(Data(**data))]


def letters_csv(folder: Path) -> str:
    write_csv(folder / "q.csv", HEADER, colour_rows(folder))
    return "q.csv"


def index_jsonl(folder: Path) -> str:
    rows = colour_rows(folder)
    lines = [
        {"picture": row[1], "prompt": row[2], "choices": row[3:7], "label": "ABCD".index(row[7]), "skill": row[8]}
        for row in rows
    ]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return "q.jsonl"


def repeated_ids(folder: Path) -> str:
    rows = [["same", row[1], row[2], row[7]] for row in colour_rows(folder)]
    write_csv(folder / "q.csv", ("id", "img", "question", "answer"), rows)
    return "q.csv"


def always_first(folder: Path) -> str:
    rows = [[*row[:7], "A", row[8]] for row in colour_rows(folder)]
    write_csv(folder / "q.csv", HEADER, rows)
    return "q.csv"


def truths_zip(folder: Path) -> str:
    buffer = BytesIO()
    Pillow.new("RGB", (40, 40), "red").save(buffer, "PNG")
    with zipfile.ZipFile(folder / "q.zip", "w") as archive:
        archive.writestr("images/red.png", buffer.getvalue())
        rows = "\n".join(f"images/red.png,Is it red {number}?,{'yes' if number % 2 else 'no'}" for number in range(10))
        archive.writestr("q.csv", f"image,question,answer\n{rows}\n")
    return "q.zip"


def class_folders(folder: Path) -> str:
    for colour in COLOURS:
        picture(folder / "classes" / colour / "1.png", colour)
    return "classes"


def excel_sheet(folder: Path) -> str:
    book = openpyxl.Workbook()
    book.active.append(["nothing"])
    sheet = book.create_sheet("mine")
    sheet.append(["question", "answer"])
    for number in range(5):
        sheet.append([f"What is {number} + 1?", number + 1])
    book.save(folder / "q.xlsx")
    return "q.xlsx"


def two_tables(folder: Path) -> str:
    for name in ("first", "second"):
        write_csv(
            folder / "set" / f"{name}.csv", ("question", "answer"), [[f"{name} {number}?", "x"] for number in range(4)]
        )
    return "set"


def pictures_elsewhere(folder: Path) -> str:
    write_csv(folder / "q.csv", HEADER, colour_rows(folder / "elsewhere" / "pics"))
    return "q.csv"


def ambiguous(folder: Path) -> str:
    rows = [[row[2], row[7], "no"] for row in colour_rows(folder)]
    write_csv(folder / "q.csv", ("question", "label", "answer"), rows)
    return "q.csv"


def hard_names(folder: Path) -> str:
    rows = [[row[2], row[7], row[8]] for row in colour_rows(folder)]
    write_csv(folder / "Fragen „1“.csv", ("Frage = [1]", 'die "Antwort"', "topic"), rows)
    return "Fragen „1“.csv"


@pytest.mark.parametrize(
    ("layout", "options", "images"),
    [
        (letters_csv, (), ""),
        (letters_csv, ("prompt=question",), ""),
        (index_jsonl, (), ""),
        (repeated_ids, (), ""),
        (always_first, (), ""),
        (truths_zip, (), ""),
        (class_folders, (), ""),
        (class_folders, ("question=Which colour is this?",), ""),
        (excel_sheet, ("sheet=mine",), ""),
        (two_tables, ("file=second.csv",), ""),
        (pictures_elsewhere, (), "elsewhere/pics"),
        (ambiguous, ("map=answer=label",), ""),
        (kit_tsv, (), ""),
        (kit_tsv, ("as_kit=true",), ""),
        (hard_names, ('map=question=Frage = [1],answer=die "Antwort"',), ""),
    ],
)
@pytest.mark.parametrize("target", ["my.toml", "deep/er/my.toml"])
def test_a_written_declaration_asks_the_same(
    snellen: Snellen,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: Callable[[Path], str],
    options: tuple[str, ...],
    images: str,
    target: str,
) -> None:
    name = layout(tmp_path)
    (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
    words = [word for option in options for word in ("-o", option)] + (["--images", images] if images else [])
    said = snellen("check", name, *words, "--write", target)
    assert said.status == 0, said.err
    assert f"Written: {target}. Run it: snellen run {target} -m MODEL" in said.err
    expected = sent(name, options=parse_pairs(options), images=Path(images) if images else None)
    monkeypatch.chdir("/")
    assert sent(str(tmp_path / target)) == expected
    assert len(expected) > 3
    declared = registry.find(str(tmp_path / target))
    given = registry.find(str(tmp_path / name))
    data = Data(options=parse_pairs(options), images=tmp_path / images if images else None)
    assert declared.digest(Data()) == given.digest(data)


def test_a_written_declaration_says_what_is_a_guess(snellen: Snellen, tmp_path: Path) -> None:
    rows = [[row[1], row[2], row[7], row[8]] for row in colour_rows(tmp_path)]
    write_csv(tmp_path / "q.csv", ("file", "text", "label", "topic"), rows)
    snellen("check", "q.csv", "--write", "my.toml")
    lines = (tmp_path / "my.toml").read_text().splitlines()
    assert lines[0].startswith("# How `snellen check q.csv` read this table.")
    assert lines[lines.index('question = "text"') - 1] == "# a guess, by its name: no column has a better one"
    assert lines[lines.index('image = "file"') - 1].startswith("# a guess, by its name")
    assert lines[lines.index('answer = "label"') - 1] == "# by its name"
    assert lines[lines.index('topic = "topic"') - 1].startswith("# a slice")


def test_a_declaration_is_replaced_only_with_force(snellen: Snellen, tmp_path: Path) -> None:
    write_csv(tmp_path / "q.csv", HEADER, colour_rows(tmp_path))
    (tmp_path / "my.toml").write_text("mine")
    refused = snellen("check", "q.csv", "--write", "my.toml")
    assert refused.status == 2 and "--force" in refused.err and (tmp_path / "my.toml").read_text() == "mine"
    assert snellen("check", "q.csv", "--write", "my.toml", "--force").status == 0
    assert 'question = "question"' in (tmp_path / "my.toml").read_text()


def test_a_column_called_without_image_is_refused_by_name(snellen: Snellen, tmp_path: Path) -> None:
    rows = [[row[2], row[7], row[8]] for row in colour_rows(tmp_path)]
    write_csv(tmp_path / "q.csv", ("question", "answer", "without_image"), rows)
    said = snellen("check", "q.csv", "--map", "category=without_image+question", "--write", "my.toml")
    assert said.status in (2, 3) and "without_image" in said.err and not (tmp_path / "my.toml").exists()
