"""Templates of FG-BMK's authors: read out of question files, used by a build, and named in what it built."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from snellen.questions.verify import verify_set

CLASSES = ("sora", "american crow", "fish crow", "rook", "jay", "magpie")
FORMS = {
    "true_false": (
        "Is this aves of the species known as {}? Yes, or no.",
        "Is the species of the aves {}? Yes, or no.",
    ),
    "choice": ("Which {{species}} is it: {}?", "Of these species, {}, which is the aves here?"),
    "short_answer": ("Tell the species of the aves.", "Give species names for this aves."),
}
RECORDS = {"true_false": "yes", "choice": "sora", "short_answer": "sora"}


def question_file(folder: Path, kind: str, texts: list[str], data_set: str = "cub", level: str = "species") -> None:
    path = folder / "human-oriented/hierarchical_granularity_recognition" / data_set / level
    path.mkdir(parents=True, exist_ok=True)
    rows = [
        {"question_id": number, "image": f"{number}.jpg", "text": text, "class": RECORDS[kind], "category": "generic"}
        for number, text in enumerate(texts, 1)
    ]
    (path / f"{level}_question_{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def released(folder: Path) -> Path:
    """A small copy of the released tree: each form of a kind filled in with twelve classes."""
    for kind, forms in FORMS.items():
        put_in = [f'"{name}", "owl", "gull"' if kind == "choice" else name for name in CLASSES]
        question_file(folder, kind, [form.format(text) for form in forms for text in put_in])
    return folder


def built(snellen: Any, folder: Path, *more: str) -> list[dict[str, Any]]:
    (folder / "rows.csv").write_text("".join(f"{n}.jpg,{CLASSES[n % 6]}\n" for n in range(60)))
    given = ("--rows", "rows.csv", "--levels", "species", "--noun", "bird", "--out", "set")
    said = snellen("build", "questions", *given, *more)
    assert said.status == 0, said.err
    return pq.read_table(folder / "set/questions.parquet").to_pylist()


def test_templates_are_what_is_left_when_classes_level_and_noun_are_taken_out(snellen, tmp_path):
    said = snellen("prompts", "import", "--from", "fg-bmk", "--path", released(tmp_path / "copy"), "--out", "t.toml")
    assert said.status == 0 and "FG-BMK's authors, from their question files of cub for bias, truth, choice" in said.out
    assert "no question file holds attribute_truth, attribute_choice" in " ".join(said.err.split())
    words = tomllib.loads((tmp_path / "t.toml").read_text())
    assert (
        words["truth"]["stems"]
        == words["bias"]["stems"]
        == [
            "Is the {level} of the {noun} {name}? Yes, or no.",
            "Is this {noun} of the {level} known as {name}? Yes, or no.",
        ]
    )
    assert words["choice"]["stems"] == [
        "Of these {level}, {quoted}, which is the {noun} here?",
        "Which {{{level}}} is it: {quoted}?",
    ]
    assert words["short"]["stems"] == ["Give {level} names for this {noun}.", "Tell the {level} of the {noun}."]


@pytest.mark.usefixtures("printed_as_schema")
def test_import_build_and_check_print_what_their_schemas_say(snellen, tmp_path):
    words = ("--from", "fg-bmk", "--path", released(tmp_path / "copy"), "--out", "t.toml", "--json")
    assert json.loads(snellen("prompts", "import", *words).out)["files"] == ["t.toml"]
    built(snellen, tmp_path, "--templates", "t.toml", "--json")
    assert json.loads(snellen("build", "check", "set", "--json").out)["holds"]


def test_a_set_built_with_them_asks_in_these_words_and_says_whose_they_are(snellen, tmp_path):
    snellen("prompts", "import", "--from", "fg-bmk", "--path", released(tmp_path / "copy"), "--out", "t.toml")
    table = built(snellen, tmp_path, "--templates", "t.toml")
    texts = {row["text"] for row in table}
    assert "Is this bird of the species known as american crow? Yes, or no." in texts
    assert any(text.startswith("Which {species} is it: ") for text in texts)
    manifest = json.loads((tmp_path / "set/benchmark.json").read_text())
    assert manifest["settings"]["words"] == "FG-BMK's authors, from their question files of cub"
    assert manifest["notes"] == ["The words are those of FG-BMK's authors, from their question files of cub."]
    assert manifest["notes"][0] in (tmp_path / "set/README.md").read_text()
    assert verify_set(tmp_path / "set").holds


def test_an_article_of_the_authors_stays_as_they_wrote_it(snellen, tmp_path):
    texts = [f"From this, is the aves shown a {name}? Yes, or no." for name in CLASSES]
    question_file(tmp_path / "copy", "true_false", texts)
    snellen("prompts", "import", "--from", "fg-bmk", "--path", tmp_path / "copy", "--out", "t.toml")
    table = built(snellen, tmp_path, "--templates", "t.toml", "--kinds", "truth")
    assert "From this, is the bird shown a american crow? Yes, or no." in {row["text"] for row in table}
    assert verify_set(tmp_path / "set").holds


def test_of_data_sets_with_other_stems_the_larger_one_counts_and_the_other_is_named(snellen, tmp_path):
    released(tmp_path / "copy")
    question_file(tmp_path / "copy", "short_answer", ["Which flower?"] * 4, data_set="flowers102")
    said = snellen("prompts", "import", "--from", "fg-bmk", "--path", tmp_path / "copy", "--out", "t.toml")
    assert "other stems are in flowers102/species/short" in " ".join(said.err.split())
    assert len(tomllib.loads((tmp_path / "t.toml").read_text())["short"]["stems"]) == 2


def test_attribute_questions_give_the_attribute_and_the_bare_list_of_its_values(snellen, tmp_path):
    path = tmp_path / "copy/human-oriented/attribute_recognition"
    path.mkdir(parents=True)
    texts = ["What is the bill shape of the bird [cone, dagger]", "Is the bill shape of the bird cone?"]
    rows = [
        {"question_id": n, "image": f"{n}.jpg", "text": texts[n % 2], "class": ("cone", "yes")[n % 2], "category": "x"}
        for n in range(8)
    ]
    (path / "cub_attribute_questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = snellen("prompts", "import", "--from", "fg-bmk", "--path", tmp_path / "copy", "--out", "t.toml")
    assert said.status == 0, said.err
    (tmp_path / "values.csv").write_text(
        "image,attribute,value\n"
        + "".join(f"{n}.jpg,tail pattern,{'solid' if n % 2 else 'spotted'}\n" for n in range(60))
    )
    table = built(
        snellen,
        tmp_path,
        "--templates",
        "t.toml",
        "--kinds",
        "attributes",
        "--attributes",
        "values.csv",
        "--options",
        "all",
    )
    assert {row["text"] for row in table} == {
        "What is the tail pattern of the bird [solid, spotted]",
        "What is the tail pattern of the bird [spotted, solid]",
        "Is the tail pattern of the bird solid?",
        "Is the tail pattern of the bird spotted?",
    }


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["Is it so?"] * 6, "line 1 asks in a form that is not known here: 'Is it so?'"),
        ([f"Question {n}: known as {n}?" for n in range(40)], "its 40 questions have 40 stems"),
    ],
)
def test_texts_that_are_no_filled_in_templates_are_refused(snellen, tmp_path, texts, complaint):
    question_file(tmp_path / "copy", "true_false", texts)
    said = snellen("prompts", "import", "--from", "fg-bmk", "--path", tmp_path / "copy", "--out", "t.toml")
    assert said.status != 0 and complaint in " ".join(said.err.split()) and not (tmp_path / "t.toml").exists()


def test_a_folder_without_question_files_is_refused(snellen, tmp_path):
    (tmp_path / "empty").mkdir()
    said = snellen("prompts", "import", "--from", "fg-bmk", "--path", "empty", "--out", "t.toml")
    assert said.status != 0 and "no question file of FG-BMK was found" in " ".join(said.err.split())
    said = snellen("prompts", "import", "--from", "fg-bmk", "--out", "t.toml")
    assert said.status == 2 and "--from fg-bmk takes --path" in said.err


def test_a_set_that_snellen_built_is_not_taken_for_the_authors(snellen, tmp_path):
    built(snellen, tmp_path)
    files = sorted((tmp_path / "set").rglob("*.jsonl"))
    assert files
    for path in ("set", ".", files[0]):
        said = snellen("prompts", "import", "--from", "fg-bmk", "--path", path, "--out", "t.toml")
        assert said.status != 0 and "Snellen built the set in" in " ".join(said.err.split()), said.err
    released(tmp_path / "copy")
    said = snellen("prompts", "import", "--from", "fg-bmk", "--path", ".", "--out", "t.toml")
    assert said.status == 0 and "question files of cub for" in said.out, said.err
