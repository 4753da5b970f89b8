"""A user's own TOML: `snellen run my.toml`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from catalogue_drawn import picture

import snellen
from servers.oracle import OracleServer, SentQuestion, digest
from snellen.benchmarks import registry
from snellen.cli import main
from snellen.errors import DataError, SnellenError
from snellen.types import Text

BIRDS = ("robin", "wren", "barn owl", "red kite", "jay")
HEAD = """
name = "birds"
licence = "CC0"
[source]
csv = "tables/birds.csv"
images = "pictures"
"""
CHOICE = """
[rows]
id = "file"
image = { column = "file", folder = true }
question = { text = "Which bird is this?" }
options = { column = "", make = 4, from = "bird", seed = 7 }
answer = { column = "bird", as = "text" }
place = { column = "file", before = "-" }
[score]
read = "letter-or-text"
[[report]]
metric = "accuracy"
headline = true
[[report]]
by = "place"
"""
OPEN = """
[rows]
id = "file"
image = "file"
question = { text = "Which bird is this?" }
answer = "bird"
[group]
place = ["spot"]
[score]
read = "whole"
equals = "exact"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "set" / "pictures").mkdir(parents=True)
    (tmp_path / "set" / "tables").mkdir()
    lines = ["file,bird"]
    for number in range(20):
        name = f"{('lake', 'wood')[number % 2]}-{number}.png"
        (tmp_path / "set" / "pictures" / name).write_bytes(picture(number))
        lines.append(f"{name},{BIRDS[number % 5]}")
    (tmp_path / "set" / "tables" / "birds.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "set"


def declared(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def right(request: SentQuestion) -> str:
    number = next(number for number in range(20) if digest(picture(number)) == request.images[0])
    return request.letter(BIRDS[number % 5]) if request.options else BIRDS[number % 5]


def test_a_labelled_list_becomes_a_choice_with_drawn_options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)  # relative paths begin at the TOML
    path = declared(folder, CHOICE)
    with OracleServer(right) as server:
        run = snellen.evaluate(str(path), "api:oracle", base_url=server.url, out=folder.parent / "run")
    figures = {metric.name: metric for metric in run.figures("strict")["strict"]}
    assert (figures["accuracy"].value, figures["accuracy"].n, figures["accuracy"].chance) == (1.0, 20, 0.25)
    assert figures["accuracy/wood"].n == 10
    letters = {next(letter for letter, bird in request.options.items() if bird in BIRDS) for request in server.requests}
    assert letters == {"A"}
    assert all(len(set(request.options.values())) == 4 for request in server.requests)
    assert len({right(request) for request in server.requests}) > 1


def test_the_command_line_runs_it_and_shows_published_figures_beside_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "[[figure]]\nmodel = 'Heron-7B'\nvalue = 61.5\nby = 'the authors'\nsource = 'their paper'\n"
    path = declared(folder, CHOICE + more)
    path.write_text(path.read_text().replace("[rows]", "rows = 21\nmd5 = 'ffffffffffffffffffffffffffffffff'\n[rows]"))
    with OracleServer(right) as server:
        out = str(folder / "run")
        assert (
            main(["run", str(path), "--model", "api:oracle", "--base-url", server.url, "--out", out, "--report"]) == 0
        )
    told = capsys.readouterr()
    shown = " ".join((told.out + told.err).split())
    assert "birds.csv is another table than the declared one: its MD5 is" in shown
    assert "the table has 20 rows; 21 are known of birds" in shown
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "Heron-7B" in page
    assert "their paper" in page


def test_a_rule_without_reports_gets_every_profile_and_the_usual_figures(folder: Path) -> None:
    benchmark = registry.find(str(declared(folder, OPEN.replace('[group]\nplace = ["spot"]\n', ""))))
    assert list(benchmark.score) == ["strict", "vlmevalkit", "lmms-eval"]
    sample = next(iter(benchmark.samples(snellen.Data())))
    assert (sample.kind, sample.target) == ("short", "robin")
    assert benchmark.score["vlmevalkit"](sample, " Robin ").value == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CHOICE.replace('column = "bird"', 'column = "brid"'), "there is no column 'brid'; the columns are file, bird"),
        (
            CHOICE.replace('read = "letter-or-text"', 'read = "letters"'),
            r"Invalid enum value 'letters' - at `\$\.score",
        ),
        (
            CHOICE.replace('image = { column = "file"', 'image = { column = "flie"'),
            r"\[rows\] image: there is no column 'flie'; the columns are file, bird",
        ),
        (CHOICE.replace('by = "place"', 'by = "palce"'), r"by names 'palce'.*\[rows\] has"),
        (OPEN, r"\[group\] place: 'spot' is neither in \[rows\] nor a column"),
        (
            CHOICE.replace('read = "letter-or-text"', 'profiles.authors.read = "letter-and-text"'),
            r"'letter-and-text' - at `\$\.score\.profiles\.authors\.read`; one of answer-line, .*yes-no was expected\n"
            r"The nearest is 'letter-or-text'",
        ),
        (
            CHOICE.replace('"letter-or-text"', '"whole"\nprofiles.author = {}'),
            r"score\.profiles\.author`; one of authors, ",
        ),
        (CHOICE.replace('"accuracy"', '["f1", "acuracy"]'), r"report\[0\]\.metric\[1\]`; one of accuracy, "),
        (
            CHOICE.replace('"letter-or-text"', '"whole"\nprofiles.authors = { read = "final", stages = ["bx"] }'),
            r"stages has 'bx'; one of whole, .*behind was expected",
        ),
        (
            CHOICE + '[prompt]\noption = "({key}) {text}"',
            r"\[prompt\] option has \{key\}; \{letter\} and \{text\} are known",
        ),
        (CHOICE + '[prompt]\nafter = "{spce}"', r"\[prompt\] after has \{spce\}; \{request\} and \{space\} are known"),
        (
            CHOICE + '[prompt]\nby = "bird"\nvalues.jay.before = "{questoin}"',
            r"\[prompt\] values\.jay before has \{questoin\}",
        ),
        (
            CHOICE.replace('column = "bird"', 'column = "brid"').replace('{ column = "file"', '{ column = "flie"'),
            r"image: there is no column 'flie'; \[rows\] answer: there is no column 'brid'; .*\n"
            r"Correct image and answer in the declaration, or name the columns: --map image=COLUMN,answer=COLUMN",
        ),
    ],
)
def test_a_mistake_is_named_with_file_section_and_key(folder: Path, text: str, message: str) -> None:
    path = declared(folder, text)
    with pytest.raises(SnellenError, match=message):
        list(registry.find(str(path)).samples(snellen.Data()))


def test_braces_that_name_nothing_are_text(folder: Path) -> None:
    path = declared(folder, CHOICE + "[prompt]\nafter = ' Write \\boxed{Answer}, {\"answer\": 1}, {} or {one word}.'")
    text = next(iter(registry.find(str(path)).samples(snellen.Data()))).prompt.parts[-1]
    assert isinstance(text, Text) and text.text.endswith(' Write \\boxed{Answer}, {"answer": 1}, {} or {one word}.')


def test_a_file_for_a_packaged_set_is_told_all_columns_that_it_lacks(folder: Path) -> None:
    (folder / "own.csv").write_text("id,image,question,answer\n1,pictures/lake-0.png,How many?,1\n")
    with pytest.raises(DataError, match=r"'decoded_image'.*'query'.*'choices'; the columns are id, image") as raised:
        list(registry.find("mathvista").samples(snellen.Data(folder / "own.csv")))
    assert "--map image=COLUMN,question=COLUMN,options=COLUMN" in str(raised.value)
    assert "in the declaration" not in str(raised.value)
    data = snellen.Data(folder / "own.csv", options={"map": "image=image,question=question,options=none"})
    reading = registry.find("mathvista").reading(data)
    assert reading is not None and "image ← `image`" in reading.text and "no column `pid`" in reading.text


def test_json_lines_name_a_column_that_no_row_has_and_say_of_none_that_it_is_used(folder: Path) -> None:
    rows = [{"file": "pictures/lake-0.png", "q": "Which bird?", "a": "robin"}]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = 'name = "own"\n[source]\nfile = "own.jsonl"\n[rows]\nimage = "IMAGE"\nquestion = "q"\nanswer = "a"\nplace = "site"\n'
    (folder / "own.toml").write_text(head.replace("IMAGE", "photo"))
    with pytest.raises(DataError, match=r"image: there is no column 'photo'; the columns are file, q, a"):
        registry.find(str(folder / "own.toml")).reading(snellen.Data())
    (folder / "own.toml").write_text(head.replace("IMAGE", "file"))
    reading = registry.find(str(folder / "own.toml")).reading(snellen.Data())
    assert reading is not None and "no column `site`" in reading.text
    assert "place" not in reading.text and "by `site`" not in reading.text


def test_a_named_folder_of_images_that_is_not_there_stops_a_run(folder: Path) -> None:
    path = declared(folder, CHOICE)
    path.write_text(path.read_text().replace('images = "pictures"', 'images = "picture"'))
    benchmark = registry.find(str(path))
    with pytest.raises(DataError, match=f"images: {folder / 'picture'} is not there"):
        benchmark.reading(snellen.Data())
    assert benchmark.reading(snellen.Data(images=folder / "pictures")) is not None


def test_letters_in_the_image_are_options_without_reports(folder: Path) -> None:
    text = CHOICE.partition("[[report]]")[0].replace(
        '{ column = "", make = 4, from = "bird", seed = 7 }', '{ letters = "ABCD" }'
    )
    text = text.replace('answer = { column = "bird", as = "text" }', 'answer = { text = "C" }')
    sample = next(iter(registry.find(str(declared(folder, text))).samples(snellen.Data())))
    assert (sample.kind, sample.target, list(sample.options)) == ("choice", "C", [*"ABCD"])
    assert "A. A" not in str(sample.prompt) and "Answer with the letter." in str(sample.prompt)


def test_a_list_counts_the_rows_of_the_named_data_and_names_columns(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = declared(folder, CHOICE)
    (folder / "four.csv").write_text("\n".join((folder / "tables" / "birds.csv").read_text().split("\n")[:5]) + "\n")
    assert main(["list", str(path), "--data", str(folder / "four.csv"), "--images", str(folder / "pictures")]) == 0
    told = capsys.readouterr().out
    assert "questions            4\n" in told and "reads columns        file, bird\n" in told
    assert main(["list", str(path), "--data", str(folder / "four.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmarks"][0]["size"] == 4


def test_a_column_of_a_slice_that_the_table_lacks_is_named(folder: Path) -> None:
    path = declared(folder, CHOICE.replace('place = { column = "file"', 'place = { column = "site"'))
    reading = registry.find(str(path)).reading(snellen.Data())
    assert reading is not None and "no column `site`" in reading.text


def test_a_table_that_is_not_there_is_named_with_its_whole_path(folder: Path) -> None:
    path = declared(folder, CHOICE)
    (folder / "tables" / "birds.csv").unlink()
    with pytest.raises(DataError, match=str(folder / "tables" / "birds.csv")):
        list(registry.find(str(path)).samples(snellen.Data()))


def test_a_declared_table_whose_first_option_is_always_right_is_shuffled_and_that_is_said(folder: Path) -> None:
    rows = [
        {"file": f"{('lake', 'wood')[n % 2]}-{n}.png", "q": "Which?", "o": list(BIRDS), "a": "robin"} for n in range(20)
    ]
    (folder / "tables" / "birds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = """
[rows]
id = "file"
image = "file"
question = "q"
options = { column = "o", list = true }
answer = { column = "a", as = "text" }
[score]
read = "letter-or-text"
[[report]]
headline = true
"""
    path = folder / "my.toml"
    path.write_text(HEAD.replace('csv = "tables/birds.csv"', 'file = "tables/birds.jsonl"') + text)
    benchmark = registry.find(str(path))
    samples = list(benchmark.samples(snellen.Data()))
    assert len({sample.target for sample in samples}) > 2
    assert all(sample.options[sample.target] == "robin" for sample in samples)
    reading = benchmark.reading(snellen.Data())
    assert reading is not None
    assert "the first option is always right, so that options are shuffled with seed 0" in reading.text


def test_the_kits_reading_is_an_option_and_the_difference_is_said(folder: Path) -> None:
    table = "index\timage\tquestion\tA\tB\tC\tanswer\n"
    for number in range(4):
        option = ("None", "two")[number > 0]
        table += f"{number}\tpictures/{('lake', 'wood')[number % 2]}-{number}.png\tHow many?\tone\t{option}\tthree\tA\n"
    (folder / "kit.tsv").write_text(table)
    benchmark = registry.find(str(folder / "kit.tsv"))
    plain, asked = (benchmark.reading(snellen.Data(options=options)) for options in ({}, {"as_kit": "false"}))
    assert plain is not None and "VLMEvalKit" not in plain.text
    assert asked is not None and "VLMEvalKit reads 1 row otherwise" in asked.text
    own = next(iter(benchmark.samples(snellen.Data())))
    theirs = next(iter(benchmark.samples(snellen.Data(options={"as_kit": "true"}))))
    assert list(own.options.values()) == ["one", "None", "three"]
    assert list(theirs.options.values()) == ["one", "three"]
    assert benchmark.digest(snellen.Data()) != ""
