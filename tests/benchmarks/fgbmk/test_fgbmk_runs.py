"""FG-BMK end to end: a run from the command line, the authors' prediction rows, and exports of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import released

from snellen import evaluate
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.errors import DataError
from snellen.formats.base import Problems
from snellen.models.base import Model
from snellen.runs.compared_runs import ComparedRun
from snellen.runs.export import export
from snellen.runs.metric_differences import unit_differences
from snellen.runs.score import score
from snellen.types import Prompt, Response, Text


class Echo(Model):
    """Repeats the question."""

    name = "echo"

    async def answer(self, prompt: Prompt) -> Response:
        return Response(next(part.text for part in prompt.parts if isinstance(part, Text)))


class Crow(Echo):
    """Knows one bird."""

    name = "crow"

    async def answer(self, prompt: Prompt) -> Response:
        return Response("American Crow")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return released.write(tmp_path / "data")


def predictions(path: Path, replies: list[str | None], *, category: bool = True) -> Path:
    """Prediction rows of the species choice file in the form of the authors' demos."""
    rows = released.files()[f"{released.HIERARCHY}/cub/species/species_question_choice.jsonl"]
    answered = []
    for one, reply in zip(rows, replies, strict=True):
        shown = {"question_id": one["question_id"], "image": one["image"], "prompt": one["text"], "text": reply}
        answered.append({**shown, "class": one["class"], **({"category": one["category"]} if category else {})})
    path.write_text(released.lines(answered))
    return path


def test_a_model_that_repeats_the_question_is_right_officially_and_never_strictly(tree, tmp_path):
    images = released.birds(tmp_path / "cub")
    done = evaluate("fgbmk/cub/species/choice", Echo(), data=tree, images=images, out=tmp_path / "run")
    metrics = {profile: {one.name: one for one in found} for profile, found in done.summarize("all").metrics.items()}
    assert metrics["official"]["image_accuracy"].value == 1.0
    assert metrics["strict"]["accuracy"].value == 0.0
    assert metrics["strict"]["invalid"].value == 1.0
    assert metrics["official"]["accuracy"].chance == 0.5


def test_the_whole_runs_from_the_command_line_with_each_file_by_itself(tree, tmp_path, capsys):
    released.birds(tmp_path / "images" / "CUB_200_2011")
    run = tmp_path / "run"
    words = ["run", "fgbmk", "--model", "embedded", "--data", tree, "--images", tmp_path / "images", "--out", run]
    status = main([str(word) for word in [*words, "--suite", "genus,species", "--datasets", "cub", "--quiet"]])
    assert status == 0, capsys.readouterr().err
    summary = json.loads((run / "summary.json").read_text())
    names = [one["name"] for one in next(one for one in summary["profiles"] if one["profile"] == "official")["metrics"]]
    assert names[:2] == ["image_accuracy", "accuracy"]
    for name in (
        "accuracy/species",
        "accuracy/genus/choice_text",
        "cub/species/truth/majority",
        "cub/genus/choice/invalid",
    ):
        assert name in names


def test_two_runs_are_compared_by_published_shares_and_not_by_figures_in_points(tmp_path):
    images = tmp_path / "images/707.png"
    images.parent.mkdir()
    images.write_bytes(released.pixel())
    asked = [(name, gold) for name in ("707-320", "A340-600") for gold in ("yes", "no")]
    rows = [
        released.row(number, "images/707.png", f"Is it this one? ({number}) Answer with yes or no.", gold, name)
        for number, (name, gold) in enumerate(asked)
    ]
    file = tmp_path / "questions_true_false_all_class.jsonl"
    file.write_text(released.lines(rows))
    where = {"data": file, "images": tmp_path}
    sides = [
        ComparedRun(evaluate("fgbmk/aircraft/bias", model, out=tmp_path / model.name, **where))
        for model in (Echo(), Crow())
    ]
    measured = {metric.name for metric in sides[0].run.summarize("official").metrics["official"]}
    units = unit_differences(sides[0], sides[1], "official")
    published = {name for table in sides[0].benchmark.published for name in table.metrics}
    assert "class_gap/bias/species/truth" in published & measured
    assert {unit.name for unit in units} == {"accuracy"}


def test_images_that_are_missing_fail_alone_and_the_rest_is_answered(tree, tmp_path):
    images = released.birds(tmp_path / "cub")
    (images / list(released.BIRDS)[2]).unlink()
    words = ["run", "fgbmk/cub/species/choice", "-m", "embedded", "--data", tree, "--images", images, "--quiet"]
    main([str(word) for word in [*words, "--out", tmp_path / "run"]])
    records = [json.loads(line) for line in (tmp_path / "run/results.jsonl").read_text().splitlines()]
    failed = [one for one in records if one["status"] == "error"]
    assert len(records) == 3
    assert [one["sample_id"] for one in failed] == ["cub/species/choice/3"]
    assert "line 3" in failed[0]["error"]["message"]


def test_a_run_is_scored_and_reported_when_its_images_are_gone(tree, tmp_path, capsys):
    images = released.birds(tmp_path / "cub")
    run = tmp_path / "run"
    words = ["run", "fgbmk/cub/species/choice", "-m", "embedded", "--data", tree, "--images", images, "--quiet"]
    assert main([str(word) for word in [*words, "--out", run]]) == 0
    images.rename(tmp_path / "away")
    assert main(["score", str(run), "--profile", "all"]) == 0
    assert main(["report", str(run)]) == 0
    capsys.readouterr()
    assert main([str(word) for word in [*words, "--out", tmp_path / "other"]]) == 4
    assert str(images) in capsys.readouterr().err


def test_prediction_rows_are_scored_without_the_question_file(tmp_path):
    path = predictions(tmp_path / "merge.jsonl", ["Black-footed Albatross", "fish crow", "rock wren or fish crow"])
    seen = []
    summary, notes = score(path, "fgbmk/cub/species/choice", profile="all", each=seen.append)
    metrics = {profile: {one.name: one.value for one in found} for profile, found in summary.metrics.items()}
    assert metrics["official"]["accuracy"] == pytest.approx(2 / 3)
    assert metrics["strict"]["accuracy"] == pytest.approx(1 / 3)
    assert metrics["strict"]["invalid"] == pytest.approx(1 / 3)
    assert notes == []
    assert len(seen) == 3


def test_blip_rows_without_category_and_null_replies_are_taken(tmp_path):
    path = predictions(tmp_path / "m.jsonl", ["american crow", None, "fish crow"], category=False)
    summary, notes = score(path, "fgbmk/cub/species/choice")
    found = {one.name: one.value for one in summary.metrics["official"]}
    assert found["accuracy"] == pytest.approx(1 / 3)
    assert found["error"] == pytest.approx(1 / 3)
    assert "null or missing" in "".join(notes)


def test_short_answers_of_prediction_rows_know_the_classes_of_their_file(tmp_path):
    classes = ["rose", "pink primrose"]
    text = "Can you identify the species of this flower from the image? Directly answer with species names."
    rows = [
        {"question_id": i, "image": f"jpg/{i}.jpg", "prompt": text, "text": "Pink Primrose", "class": gold}
        for i, gold in enumerate(classes, 1)
    ]
    path = tmp_path / "short.jsonl"
    path.write_text(released.lines(rows))
    summary, _ = score(path, "fgbmk/flowers102/species/short", profile="all")
    found = summary.metrics
    assert [one.value for one in found["official"] if one.name == "accuracy"] == [1.0]
    assert [one.value for one in found["strict"] if one.name == "accuracy"] == [0.5]


def test_prediction_rows_of_another_kind_are_refused(tmp_path):
    path = predictions(tmp_path / "merge.jsonl", ["a", "b", "c"])
    with pytest.raises(DataError, match="no row is an answer to fgbmk/cub/species/truth"):
        score(path, "fgbmk/cub/species/truth")


def test_files_of_another_form_are_met_by_id(tree, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(released.lines([{"id": "cub/species/choice/2", "reply": "american crow"}]))
    assert registry.find("fgbmk/cub/species/choice").results(path, Data(), Problems()) is None
    summary, _ = score(path, "fgbmk/cub/species/choice", data=tree)
    assert [one.value for one in summary.metrics["official"] if one.name == "accuracy"] == [1.0]


def test_a_run_is_exported_in_the_authors_form_and_scores_the_same(tree, tmp_path):
    images = released.birds(tmp_path / "cub")
    done = evaluate("fgbmk", Crow(), data=tree, images=images, out=tmp_path / "run", benchmark_options={"kinds": "choice", "datasets": "cub"})  # fmt: skip
    written = export(done, "authors", out=tmp_path / "out")
    assert [path.name.partition("_crow_")[0] for path in written.files] == [
        "cub_genus_choice",
        "cub_species_choice",
        "cub_attributes_choice",
    ]
    lines = [json.loads(line) for line in written.files[1].read_text().splitlines()]
    assert list(lines[0]) == ["question_id", "image", "prompt", "text", "class", "category"]
    assert lines[1]["text"] == "American Crow"
    assert lines[1]["category"] == "generic"
    again, _ = score(written.files[1], "fgbmk/cub/species/choice")
    own = {one.name: one.value for one in done.summarize("official").metrics["official"]}
    assert own["cub/species/choice/accuracy"] == {one.name: one.value for one in again.metrics["official"]}["accuracy"]


def test_list_shows_the_family_in_one_block(capsys):
    assert main(["list", "fgbmk"]) == 0
    said = capsys.readouterr().out
    assert "fgbmk/inat2021/<kingdom, phylum, class, order, family, genus, species>/<kind>" in said
    assert "fgbmk/cub/species/choice" not in said
    assert main(["list", "--json"]) == 0
    assert '"fgbmk/cub/species/choice"' in capsys.readouterr().out


def test_a_run_folder_that_is_called_like_a_suite_is_no_place_of_the_suite(tree, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    released.birds(tmp_path / "img" / "cub")
    asked = ["run", "fgbmk", "--suite", "species", "--data", "data", "--images", "img", "--model", "embedded"]
    for out in ("species", "again"):  # the second run finds the folder of the first
        assert main([*asked, "--out", out]) in (0, 9), capsys.readouterr().err
        assert main(["score", out]) == 0, capsys.readouterr().err
        places = json.loads((tmp_path / out / "run_meta.json").read_text()).get("places", {})
        assert "option suite" not in places
