"""A built set is run, scored and run again like any benchmark, from any folder."""

from __future__ import annotations

import csv
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as pillow

from snellen import evaluate, load_run, rerun
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.models.base import Model
from snellen.questions.generate import BuildSettings, generate
from snellen.runs.score import score
from snellen.types import Prompt, Response, Sample, Text

CLASSES = (
    ("gulls", "ivory gull"),
    ("gulls", "herring gull"),
    ("gulls", "common gull"),
    ("owls", "barn owl"),
    ("owls", "snowy owl"),
    ("owls", "tawny owl"),
)


def png(shade: int) -> bytes:
    out = BytesIO()
    pillow.new("RGB", (8, 8), (shade, shade, shade)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Images with a folder for each class, and a taxonomy."""
    for number, (_, species) in enumerate(CLASSES):
        for index in range(4):
            path = tmp_path / "images" / species.replace(" ", "_") / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(10 * number + index))
    with (tmp_path / "taxonomy.csv").open("w") as table:
        rows = csv.writer(table)
        rows.writerow(["order", "species", "aliases"])
        rows.writerows([*one, "ghost owl" if one[1] == "barn owl" else ""] for one in CLASSES)
    return tmp_path


def built(source: Path, **settings: Any) -> Path:
    given: dict[str, Any] = {
        "out": source / "birds",
        "images": source / "images",
        "taxonomy": str(source / "taxonomy.csv"),
        "noun": "bird",
        "kinds": ("truth", "choice", "short", "bias"),
    }
    given |= settings
    generate(BuildSettings(**given))
    return Path(given["out"])


def samples(folder: Path, **data: Any) -> list[Sample]:
    return list(registry.find(str(folder)).samples(Data(**data)))


class Knowing(Model):
    """Answers from the pixels: it has seen every image, and says the species whatever is asked."""

    name = "knowing"

    async def answer(self, prompt: Prompt) -> Response:
        image, text = prompt.parts
        shade = pillow.open(BytesIO(image.blob.read())).getpixel((0, 0))[0]
        order, species = CLASSES[shade // 10]
        assert isinstance(text, Text)
        if "yes or no" in text.text:
            return Response("yes" if species in text.text or order in text.text else "no")
        return Response(order if " order" in text.text else species)


def by(metrics: Any) -> dict[str, Any]:
    return {metric["name"]: metric for metric in metrics.to_pylist()}


def test_samples_say_what_is_asked_and_never_what_the_image_is_called(source):
    found = samples(built(source))
    assert len(found) == 24 * 8 and len({one.id for one in found}) == len(found)
    assert [one.kind for one in found[::24]][:3] == ["truth", "choice_text", "short"]
    for one in found:
        text = one.prompt.parts[-1]
        assert "png" not in text.text and "images" not in text.text and one.group.removesuffix(".png").isdigit()
        label, path = one.meta["label"], one.meta["path"]
        assert path.split(" > ")[-1] == label and path.count(" > ") == int(one.meta["depth"])
        if one.kind == "choice_text":
            assert one.target in one.options.values() and label == one.target
            assert float(one.meta["chance"]) == 1 / len(one.options)
        if one.kind == "truth":
            assert one.target == (one.meta["asked"] == label)


def test_a_run_from_another_folder_is_scored_and_run_again(source, monkeypatch, tmp_path):
    built(source)
    monkeypatch.chdir(source)
    run = evaluate("birds/", Knowing(), images=source / "images", out=source / "results")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    metrics = by(load_run(source / "results").metrics("strict"))
    assert metrics["accuracy"]["value"] == 1.0 and metrics["accuracy"]["coverage"] == 1.0
    assert metrics["majority"]["value"] == 0.5
    assert metrics["accuracy/species/short"]["n"] == 24
    assert metrics["accuracy/species/short"]["chance"] == pytest.approx(1 / 6)
    assert metrics["drop/order-species/short"]["value"] == 0.0
    again = rerun(source / "results", out=source / "again", model=Knowing())
    assert by(again.metrics("official"))["accuracy"]["value"] == 1.0
    assert run.meta.fingerprint == again.meta.fingerprint


def test_images_may_lie_in_a_zip_or_in_the_set_itself(source):
    folder = built(source)
    with zipfile.ZipFile(source / "images.zip", "w") as archive:
        for path in sorted((source / "images").rglob("*.png")):
            archive.write(path, path.relative_to(source / "images"))
    packed = samples(folder, images=source / "images.zip")
    plain = samples(folder, images=source / "images")
    for one, other in zip(packed, plain, strict=True):
        assert one.prompt.parts[0].blob.read() == other.prompt.parts[0].blob.read()
    copied = samples(built(source, out=source / "copied", copy_images=True))
    pixels = [pillow.open(BytesIO(one.prompt.parts[0].blob.read())).tobytes() for one in copied[:24]]
    assert pixels == [pillow.open(BytesIO(one.prompt.parts[0].blob.read())).tobytes() for one in plain[:24]]


def test_a_missing_image_costs_its_own_question_and_says_which(source):
    folder = built(source)
    (source / "images/barn_owl/0.png").unlink()
    found = samples(folder, images=source / "images")
    lost = 0
    for one in found:
        try:
            one.prompt.parts[0].blob.read()
        except DataError as error:
            lost += 1
            assert one.id in error.message and "barn_owl/0.png" in error.message
    assert lost == 8
    with pytest.raises(DataError, match="no images were given"):
        samples(folder)[0].prompt.parts[0].blob.read()


def test_a_run_is_scored_when_its_images_are_gone_and_its_set_lies_elsewhere(source):
    folder = built(source)
    evaluate(str(folder), Knowing(), images=source / "images", out=source / "results")
    (source / "images").rename(source / "away")
    assert by(load_run(source / "results").metrics("official"))["accuracy"]["coverage"] == 1.0
    with pytest.raises(DataError, match="nothing is at "):
        samples(folder, images=source / "images")[0].prompt.parts[0].blob.read()
    folder.rename(source / "moved")
    with pytest.raises(UsageError, match="birds") as gone:
        score(source / "results")
    assert "--benchmark" in (gone.value.hint or "")
    summary, _ = score(source / "results", str(source / "moved"), profile="all")
    assert summary.rows == summary.expected == 192
    with pytest.raises(DataError, match="digest"):
        score(source / "results", str(built(source, images=source / "away", seed=1)))


def test_levels_stand_coarse_to_fine_in_the_summary_whatever_came_first(source):
    folder = built(source, kinds=("choice", "truth"))
    run = evaluate(str(folder), Knowing(), images=source / "images", out=source / "results")
    names = [metric["name"] for metric in run.metrics("strict").to_pylist()]
    assert [name for name in names if name in ("accuracy/order", "accuracy/species")] == [
        "accuracy/order",
        "accuracy/species",
    ]
    assert names.index("accuracy/order/truth") < names.index("accuracy/species/choice_text")


def test_a_runs_table_shows_where_it_falls_and_says_where_the_rest_of_the_diagnosis_is(source, monkeypatch, capsys):
    built(source)
    monkeypatch.chdir(source)
    assert main(["run", "birds", "--model", "embedded", "--images", "images", "--out", "one"]) == 0
    shown = capsys.readouterr().out
    assert "accuracy/order" in shown and "drop/order-species/short" in shown
    assert "class_worst/" not in shown and "kinship/" not in shown and "stem/" not in shown
    assert "snellen score --all one" in shown
    assert main(["run", "birds", "--model", "embedded", "--images", "images", "--limit", "1"]) == 0
    assert (source / "results" / "birds-embedded").is_dir(), "wherever the set lies"
    capsys.readouterr()
    assert main(["score", "one", "--all"]) == 0
    assert "class_worst/species/short" in capsys.readouterr().out


def test_scoring_reads_no_image_and_tells_how_near_a_wrong_answer_is(source):
    folder = built(source)
    benchmark = registry.find(str(folder))
    score = benchmark.score["strict"]
    owl = [one for one in samples(folder) if one.meta["label"] == "barn owl"]
    short = next(one for one in owl if one.kind == "short")
    assert score(short, "It is a Barn-Owl.").verdict == "correct"
    assert score(short, "ghost owl").verdict == "correct"
    assert score(short, "snowy owl").detail == {"answer": "snowy owl", "kinship": "sibling"}
    assert score(short, "ivory gull").detail["kinship"] == "other"
    truth = next(one for one in owl if one.kind == "truth")
    text = truth.prompt.parts[-1].text
    for exploit in ("yes and no", text, ""):
        assert score(truth, exploit).value == 0.0, exploit
    assert benchmark.score["official"](truth, "yes and no").value == 1.0
    choice = next(one for one in owl if one.kind == "choice_text")
    assert score(choice, choice.prompt.parts[-1].text).value == 0.0
    assert score(choice, "the barn owl").value == 1.0


def test_levels_and_kinds_choose_what_is_asked_and_change_the_digest(source):
    folder = built(source)
    benchmark = registry.find(str(folder))
    some = Data(options={"levels": "species", "kinds": "choice,bias"})
    found = list(benchmark.samples(some))
    assert {one.id.rpartition("/")[0] for one in found} == {"species/choice", "bias/truth"}
    assert len(found) == benchmark.size(some) == 24 * 3
    assert benchmark.digest(some) != benchmark.digest(Data())
    with pytest.raises(UsageError, match="family: the set has order, species"):
        benchmark.size(Data(options={"levels": "family"}))


def test_a_set_of_another_format_is_refused(source):
    folder = built(source)
    manifest = folder / "benchmark.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(DataError, match="its layout has version 2"):
        registry.find(str(folder))


def test_a_built_set_that_moved_with_its_run_is_found_and_one_that_lies_elsewhere_is_named(
    source, tmp_path, monkeypatch
):
    place = tmp_path / "project"
    place.mkdir()
    folder = built(source, out=place / "birds", copy_images=True)
    done = evaluate(str(folder), Knowing(), out=place / "results" / "run", limit=8)
    figures = [metric.value for metric in done.summarize("strict").metrics["strict"]]
    place = place.rename(tmp_path / "moved")
    monkeypatch.chdir("/")

    def values(**given: Any) -> list[float | None]:
        run = load_run(place / "results" / "run").moved(given.get("data"), None)
        return [metric.value for metric in run.summarize("strict").metrics["strict"]]

    assert values() == figures
    (place / "birds").rename(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="--data FOLDER"):
        values()
    assert values(data=tmp_path / "elsewhere") == figures
