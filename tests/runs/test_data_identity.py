"""Which data a run is about: digests of plug-ins without one, ids that do not match, and data that has moved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from benchmarks.fgbmk import released
from snellen import Benchmark, Data, Image, Metric, Prompt, Sample, Score, Scores, Text, evaluate, load_run, rerun
from snellen.cli import main
from snellen.errors import DataError, FingerprintError
from snellen.scoring import short, statistics
from snellen.sources.blobs import FileBlob


def plug_in(pictures: Path, gold: str = "cat", number: int = 4) -> Benchmark:
    """A benchmark without a digest, whose samples show files that nobody names on the command line."""

    def samples(data: Data) -> Iterator[Sample]:
        for i in range(number):
            picture = Image(FileBlob(pictures / f"{i}.png"))
            yield Sample(f"q{i}", Prompt((picture, Text("What is this?"))), gold, "short", meta={"index": i})

    def score(sample: Sample, reply: str) -> Score:
        right = reply == sample.target
        return Score(float(right), reply, "correct" if right else "wrong")

    def summarize(scores: Scores, profile: str) -> list[Metric]:
        return [statistics.mean("accuracy", scores)]

    return Benchmark("plug", "1", samples, {"strict": score}, summarize, {"strict": "equal texts"})


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(4):
        Pillow.new("L", (4, 4), i * 10).save(folder / f"{i}.png")
    return folder


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps({"id": f"q{i}", "reply": "cat"}) + "\n" for i in range(4)))
    return path


def test_a_plug_in_without_a_digest_does_not_mix_other_gold_answers_into_a_run(pictures, answers, tmp_path):
    evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "run")
    with pytest.raises(FingerprintError, match="data "):
        evaluate(plug_in(pictures, gold="dog"), f"replay:{answers}", out=tmp_path / "run")
    again = evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "run")
    assert again.meta.totals.ok == 4


def test_a_plug_in_without_a_digest_does_not_mix_other_images_of_the_same_names(pictures, answers, tmp_path):
    evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "run")
    Pillow.new("L", (4, 4), 255).save(pictures / "3.png")
    with pytest.raises(FingerprintError, match="data "):
        evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "run")


def test_the_digest_of_declared_data_covers_files_and_what_the_samples_say(pictures, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a\n1\n")
    data, benchmark = Data(path=table), plug_in(pictures)
    before = benchmark.digest(data)
    assert before == plug_in(pictures).digest(data)
    assert before != plug_in(pictures, gold="dog").digest(data)
    table.write_text("a\n2\n")
    assert before != benchmark.digest(data)


def test_a_run_of_0_1_of_a_plug_in_without_a_digest_goes_on_and_has_one_from_then_on(pictures, answers, tmp_path):
    run = evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "run", limit=2)
    meta = json.loads((run.path / "run_meta.json").read_text())
    meta["identity"]["data"] = ""
    (run.path / "run_meta.json").write_text(json.dumps(meta))
    grown = evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "run")
    assert grown.meta.totals.ok == 4 and str(grown.meta.identity["data"]).startswith("samples:")
    with pytest.raises(FingerprintError):
        evaluate(plug_in(pictures, gold="dog"), f"replay:{answers}", out=tmp_path / "run")


def rows(path: Path, **named: list[Any]) -> Path:
    columns = list(named)
    path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*named.values(), strict=True)))  # fmt: skip
    return path


@pytest.mark.parametrize("ids", [["0", "1", "2", "3"], [0, 1, 2, 3]])
def test_replayed_ids_that_match_no_sample_are_refused_with_the_option_that_matches(ids, pictures, tmp_path):
    path = rows(tmp_path / "a.jsonl", index=ids, prediction=["cat"] * 4)
    with pytest.raises(DataError, match="none of its 4 answers") as refusal:
        evaluate(plug_in(pictures), f"replay:{path}", out=tmp_path / "run")
    assert "--id-is position" in refusal.value.hint or "--id-is index" in refusal.value.hint
    assert not (tmp_path / "run").exists()
    for id_is in ("position", "index"):
        run = evaluate(plug_in(pictures), f"replay:{path}", out=tmp_path / id_is, id_is=id_is)
        assert run.metric("accuracy").value == 1.0


def test_replayed_ids_that_match_in_part_are_counted(pictures, tmp_path, capsys):
    path = rows(tmp_path / "a.jsonl", id=["q0", "q1", "other", "more"], reply=["cat"] * 4)
    run = evaluate(plug_in(pictures), f"replay:{path}", out=tmp_path / "run")
    assert run.remarks == (f"2 of 4 samples have no answer in replay:{path}; they count as failed",)
    assert run.meta.totals.error == 2


def test_lines_of_a_replayed_file_that_cannot_be_used_are_named(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("snellen.formats.readers.LINE_BYTES", 1000)
    path = rows(tmp_path / "a.jsonl", id=["q0", "q1", "q2", "q3"], reply=["cat", "cat " * 1000, "cat", "cat"])
    run = evaluate(plug_in(pictures), f"replay:{path}", out=tmp_path / "run")
    assert run.remarks == (
        f"1 of 4 samples have no answer in replay:{path}; they count as failed",
        "1 row cannot be used:",
        "  line 2: longer than 1,000 bytes",
    )


def test_scored_ids_that_match_no_sample_are_refused_with_the_option_that_matches(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = rows(tmp_path / "a.jsonl", index=list(range(5)), prediction=["yes"] * 5)
    assert main(["score", str(path), "--benchmark", "chart"]) == 3
    assert "--id-is position" in capsys.readouterr().err
    assert main(["score", str(path), "--benchmark", "chart", "--id-is", "position"]) == 0
    assert main(["run", "chart", "-m", f"replay:{path}", "--out", "run"]) == 3
    assert "--id-is position" in capsys.readouterr().err
    assert main(["run", "chart", "-m", f"replay:{path}", "--out", "run", "--id-is", "position", "--limit", "7"]) == 9
    assert "2 of 7 samples have no answer" in capsys.readouterr().err
    assert main(["run", "chart", "-m", "embedded", "--id-is", "position"]) == 2


@pytest.fixture
def birds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, images and a run that was typed with relative paths; returns the folder."""
    home = tmp_path / "home"
    released.write(home / "data")
    released.birds(home / "cub")
    monkeypatch.chdir(home)
    words = ["run", "fgbmk/cub/species/choice", "-m", "embedded", "--data", "data", "--images", "cub"]
    assert main([*words, "--out", "results/birds", "--quiet"]) == 0
    return home


def test_a_run_with_relative_paths_is_used_from_every_folder(birds, tmp_path, monkeypatch):
    meta = load_run("results/birds").folder.meta()
    assert str(meta.spec.data.path) == "data" and meta.places["path"] == str(birds / "data")
    value = load_run("results/birds").metric("accuracy").value
    monkeypatch.chdir(tmp_path)
    run = birds / "results" / "birds"
    assert load_run(run).metric("accuracy").value == value
    for words in (("score",), ("report",), ("failures",), ("rerun",)):
        assert main([words[0], str(run)]) == 0
    assert main(["report", str(run), "--out", "page.html"]) == 0
    assert "image not shown" not in Path("page.html").read_text()


def test_data_that_moved_with_its_run_is_looked_for_beside_the_run(birds, tmp_path, monkeypatch):
    place = tmp_path / "moved"
    shutil.copytree(birds / "results" / "birds", place / "birds")
    shutil.move(birds / "data", place / "data")
    shutil.move(birds / "cub", place / "cub")
    monkeypatch.chdir(tmp_path)
    assert load_run(place / "birds").metric("accuracy").n == 3


def test_other_data_under_the_same_name_is_not_taken_for_the_runs(birds, tmp_path, monkeypatch):
    shutil.copytree(birds / "results" / "birds", tmp_path / "birds")
    shutil.move(birds / "data", tmp_path / "data")
    shutil.move(birds / "cub", tmp_path / "cub")
    file = next((tmp_path / "data").rglob("species_question_choice.jsonl"))
    file.write_text(file.read_text().replace("fish crow", "rook"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="not that of this run") as refusal:
        load_run("birds").metric("accuracy")
    assert "--data" in refusal.value.hint


def test_data_that_is_gone_is_an_error_that_names_the_option(birds, tmp_path, monkeypatch, capsys):
    shutil.move(birds / "data", tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    run = str(birds / "results" / "birds")
    for words in (("score", run), ("report", run), ("failures", run), ("rerun", run, "--out", "again")):
        assert main(list(words)) == 3
        assert "--data" in capsys.readouterr().err
        assert main([*words, "--data", "elsewhere"]) == 0
    shutil.copytree(run, "copy")
    assert main(["compare", run, "copy", "--data", "elsewhere"]) == 0
    assert rerun(run, out="once-more", data="elsewhere").meta.totals.ok == 3


def test_a_run_is_ones_own_though_the_key_was_looked_for_before_it_was_made(pictures, answers, tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path / "first"))
    evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "run")
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path / "second"))
    assert not load_run(tmp_path / "run", benchmark=plug_in(pictures), trust=True).own
    evaluate(plug_in(pictures), f"replay:{answers}", out=tmp_path / "later")
    assert load_run(tmp_path / "later", benchmark=plug_in(pictures)).own


def test_an_image_that_many_samples_show_is_read_once_for_the_digest():
    class Counted:
        key, reads = "one picture", 0

        def read(self) -> bytes:
            Counted.reads += 1
            return b"bytes"

    def samples(data: Data) -> Iterator[Sample]:
        for i in range(50):
            yield Sample(f"q{i}", Prompt((Image(Counted()), Text("What is this?"))), "cat", "short")

    benchmark = Benchmark("plug", "1", samples, {"strict": short}, lambda scores, profile: [], {"strict": ""})
    assert benchmark.digest(Data(path=None, images=None)) == benchmark.digest(Data(path=None, images=None))
    assert Counted.reads == 2
