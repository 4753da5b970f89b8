"""Nothing in a given folder is left out in silence: mixed files, files of other names, and files that cannot be read."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import released

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.errors import DataError
from snellen.types import Sample

BIRDS = list(released.BIRDS)
POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 2724321\n"
)
ATTRIBUTES = [
    released.row(1, BIRDS[0], "Is the wing color of the bird brown?", "yes"),
    released.row(2, BIRDS[0], "What is the bill shape of the bird? [hooked, dagger, needle]", "dagger"),
    released.row(3, BIRDS[1], "Is the bill length of the bird longer than head? Answer with yes or no.", "no"),
    released.row(4, BIRDS[1], "What is the size of this bird? [large, small, very small]", "small"),
    released.row(5, BIRDS[2], "What is the crown color of the bird? Answer with one word.", "black"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return released.write(tmp_path / "data")


def samples(name: str, data: Path, **options: str) -> list[Sample]:
    return list(registry.find(name).samples(Data(data, None, options)))


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def attribute_file(folder: Path) -> Path:
    return written(
        folder / "human-oriented/attribute_recognition/cub_attribute_questions.jsonl", released.lines(ATTRIBUTES)
    )


def test_an_attribute_file_of_both_kinds_is_read_row_by_row(tmp_path):
    attribute_file(tmp_path)
    truth = samples("fgbmk/cub/attributes/truth", tmp_path)
    choice = samples("fgbmk/cub/attributes/choice", tmp_path)
    assert [(one.kind, one.target, one.meta["attribute"]) for one in truth] == [
        ("truth", True, "wing color"),
        ("truth", False, "bill length"),
    ]
    assert [(one.kind, one.target) for one in choice] == [
        ("choice_text", "dagger"),
        ("choice_text", "small"),
        ("short", "black"),
    ]
    assert list(choice[0].options.values()) == ["hooked", "dagger", "needle"]
    whole = samples("fgbmk", tmp_path)
    assert {one.id for one in whole} == {one.id for one in truth + choice}
    assert len(whole) == len(ATTRIBUTES)
    assert registry.find("fgbmk").size(Data(tmp_path)) == len(ATTRIBUTES)


@pytest.mark.parametrize("name", ["cub_attribute_questions.jsonl", "mine.jsonl"])
def test_an_attribute_file_outside_of_its_folder_is_known_by_its_rows(tmp_path, name):
    path = written(tmp_path / name, released.lines(ATTRIBUTES[:4]))
    tasks = [one.meta["task"] for one in samples("fgbmk", path)]
    assert tasks.count("cub/attributes/truth") == tasks.count("cub/attributes/choice") == 2
    assert len(samples("fgbmk/cub/attributes/truth", path)) == 2


def test_a_file_of_several_kinds_levels_and_data_sets_is_split(tmp_path):
    files = released.files()
    path = written(tmp_path / "everything.jsonl", "".join(released.lines(rows) for rows in files.values()))
    tasks = [str(one.meta["task"]) for one in samples("fgbmk", path)]
    expected = released.write(tmp_path / "tree")
    assert sorted(tasks) == sorted(str(one.meta["task"]) for one in samples("fgbmk", expected))
    assert len(samples("fgbmk/cub/genus/choice", path)) == 2
    assert len(samples("fgbmk/aircraft/bias", path)) == 2


def test_a_file_of_another_name_adds_what_no_released_file_has(tree, tmp_path):
    before = [one.id for one in samples("fgbmk", tree)]
    birds = released.files()[f"{released.HIERARCHY}/cub/species/species_question_choice.jsonl"]
    car = released.row(
        7, "car_ims/000046.jpg", "Is the fine-grained category of the car Acura TL?" + released.YES_NO, "no", "Audi A5"
    )
    written(tree / "extra.jsonl", released.lines([*birds, car]))
    after = [one.id for one in samples("fgbmk", tree)]
    assert set(after) - set(before) == {"stanfordcar/species/truth/7"}
    entry = next(entry for entry in registry.find("fgbmk").files(Data(tree)) if entry.name == "extra.jsonl")
    assert entry.used
    assert "3 of fgbmk/cub/species/choice" in entry.note


def test_rows_that_name_no_known_data_set_are_asked_all_the_same(tmp_path):
    path = written(
        tmp_path / "own.jsonl",
        released.lines([
            released.row(1, "beetles/1.png", "What is the species of the beetle?" + released.listed("stag", "dung"), "dung")
        ]),
    )  # fmt: skip
    (one,) = samples("fgbmk", path)
    assert (one.meta["task"], one.target, one.kind) == ("other/species/choice", "dung", "choice_text")


def test_every_file_is_listed_with_its_use_or_the_reason(tree, capsys):
    written(tree / "README.md", "# hello\n")
    written(tree / "notes/settings.jsonl", '{"a": 1}\n')
    written(tree / "machine-oriented/cub/train.csv", "images/x.jpg,0\n")
    written(tree / "images/x.jpg", "")
    written(tree / "broken.jsonl", "{\n")
    written(tree / "merge.jsonl", released.lines([{**ATTRIBUTES[0], "prompt": "Is it?"}]))
    copy = "copy/human-oriented/" + f"{released.HIERARCHY}/cub/species/species_question_choice.jsonl"
    written(tree / "deeper/and" / copy, released.lines(ATTRIBUTES))
    (tree / "linked").symlink_to(tree / "notes", target_is_directory=True)
    entries = {entry.name: entry for entry in registry.find("fgbmk").files(Data(tree))}
    assert sum(entry.used for entry in entries.values()) == len(released.files())
    reasons = {name: entry.note for name, entry in entries.items() if not entry.used}
    assert "no JSON lines" in reasons["README.md"]
    assert "no 'image'" in reasons["notes/settings.jsonl"]
    assert "features extract" in reasons["machine-oriented/"]
    assert "folder of images" in reasons["images/"]
    assert "no row that can be read" in reasons["broken.jsonl"]
    assert "snellen score" in reasons["merge.jsonl"]
    assert "another file of" in reasons[f"deeper/and/{copy}"]
    assert "link" in reasons["linked/"]
    assert main(["list", "fgbmk", "--data", str(tree)]) == 0
    shown = capsys.readouterr().out
    for name in entries:
        assert name in shown
    assert main(["list", "fgbmk", "--data", str(tree), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["benchmarks"][0]
    assert {file["name"] for file in facts["files"]} == set(entries)


def test_a_run_says_at_its_start_which_files_it_uses_and_which_not(tree, tmp_path, capsys):
    written(tree / "stray.jsonl", '{"a": 1}\n')
    words = ["run", "fgbmk", "-m", "embedded", "--data", tree, "--out", tmp_path / "run", "--limit", "1"]
    main([str(word) for word in words])
    said = capsys.readouterr().err
    assert "uses FG-BMK/benchmark/human-oriented/attribute_recognition/attribute_question_choice.jsonl" in said
    assert "does not use stray.jsonl: its rows are no questions" in said


def test_files_that_the_options_leave_out_are_listed_in_one_line(tree):
    files = registry.find("fgbmk").files(Data(tree, None, {"datasets": "mtarsi"}))
    assert [(entry.note, entry.questions) for entry in files if entry.used] == [("fgbmk/mtarsi/species/truth", 1)]
    (rest,) = [entry for entry in files if not entry.used]
    assert rest.name == f"{len(released.files()) - 1} question files"
    alone = registry.find("fgbmk/mtarsi/species/truth").files(Data(tree))
    assert [entry.used for entry in alone] == [True, False]


def pointer_in(tree: Path, name: str = "knowledge_bias_estimation/cub/questions_true_false_all_class.jsonl") -> Path:
    return written(tree / "FG-BMK/benchmark/human-oriented" / name, POINTER)


def test_a_pointer_of_git_lfs_leaves_the_rest_and_lowers_the_coverage(tree, tmp_path, capsys):
    pointer_in(tree)
    released.birds(tmp_path / "images" / "CUB_200_2011")
    words = ["run", "fgbmk", "--model", "embedded", "--data", tree, "--images", tmp_path / "images"]
    status = main([str(word) for word in [*words, "--datasets", "cub", "--out", tmp_path / "run"]])
    said = capsys.readouterr()
    assert status == 0, said.err
    assert "git lfs pull --include" in said.err
    assert "11,588 questions are missing" in " ".join(said.err.split())
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    asked = sum(len(rows) for name, rows in released.files().items() if "cub" in name or "attribute" in name)
    assert summary["rows"] == asked
    assert summary["expected"] == asked + 11_588
    metrics = {one["name"]: one for one in summary["profiles"][0]["metrics"]}
    assert metrics["accuracy"]["coverage"] == pytest.approx(asked / (asked + 11_588))
    assert main(["score", str(tmp_path / "run")]) == 0
    assert f"only {asked:,} of {asked + 11_588:,} samples could be read" in " ".join(capsys.readouterr().err.split())


def test_an_attribute_pointer_counts_by_its_size(tree):
    before = registry.find("fgbmk").size(Data(tree))
    pointer_in(tree, "attribute_recognition/cub_attribute_questions.jsonl")
    whole = registry.find("fgbmk")
    assert len(samples("fgbmk", tree)) == before
    assert before is not None and whole.size(Data(tree)) == before + 2_724_321 // 250
    assert any("Git LFS" in line for line in registry.find("fgbmk/cub/attributes/choice").notices(Data(tree)))


def test_a_benchmark_of_which_only_a_pointer_is_there_names_the_command_that_fetches_it(tree):
    (tree / ".git").mkdir()
    path = pointer_in(tree)
    with pytest.raises(DataError, match=f"pointer of Git LFS.*git -C {tree} lfs pull --include"):
        samples("fgbmk/cub/bias", tree)
    with pytest.raises(DataError, match="pointer of Git LFS"):
        samples("fgbmk/cub/bias", path)
    with pytest.raises(DataError, match="pointer of Git LFS"):
        samples("fgbmk", path.parent)


def test_a_pointer_with_a_copy_elsewhere_costs_nothing(tree):
    size = registry.find("fgbmk").size(Data(tree))
    copy = pointer_in(tree, f"{released.HIERARCHY}/cub/genus/genus_question_choice.jsonl")
    shutil.copy(copy, tree / "x")
    written(copy, released.lines(released.files()[f"{released.HIERARCHY}/cub/genus/genus_question_choice.jsonl"]))
    written(tree / "z" / f"{released.HIERARCHY}/cub/genus/genus_question_choice.jsonl", POINTER)
    assert registry.find("fgbmk").size(Data(tree)) == size


def test_an_empty_file_and_a_broken_archive_are_named_and_the_rest_is_read(tree):
    size = registry.find("fgbmk").size(Data(tree))
    assert size is not None
    written(tree / "FG-BMK/benchmark/human-oriented" / released.HIERARCHY / "stanfordcar/species/species_question_choice.jsonl", "")  # fmt: skip
    (tree / "broken.zip").write_bytes(b"PK")
    entries = {entry.name.rpartition("/")[2]: entry for entry in registry.find("fgbmk").files(Data(tree))}
    assert entries["species_question_choice.jsonl"].note == "the file is empty"
    assert not entries["broken.zip"].used
    assert registry.find("fgbmk").size(Data(tree)) == size + 8_041


def test_curly_quotes_and_other_spellings_of_the_true_option_are_read(tmp_path):
    text = "Which species does this aves in the photo belong to? Choose one answer: \u201cFish-Crow\u201d, \u201cwren\u201d."
    path = written(tmp_path / "species_question_choice.jsonl", released.lines([released.row(1, BIRDS[2], text, "fish crow")]))  # fmt: skip
    (one,) = samples("fgbmk/cub/species/choice", path)
    assert (one.kind, one.target, list(one.options.values())) == ("choice_text", "Fish-Crow", ["Fish-Crow", "wren"])
