"""A built set asked with misleading hints and over corrupted pictures, to the end of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.chart import world, write_images
from snellen.cli import main
from snellen.questions.generate import BuildSettings, generate
from snellen.types import Sample, Text


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("set")
    write_images.write(folder / "creatures", 1)
    attributes = ["image,attribute,value"]
    attributes += [f"{path},colour,{who.name('colour')}" for path, who, _ in write_images.portraits(1)]
    (folder / "attributes.csv").write_text("\n".join(attributes) + "\n")
    generate(
        BuildSettings(
            out=folder / "questions",
            images=folder / "creatures",
            taxonomy=str(folder / "creatures" / write_images.TAXONOMY),
            attributes=folder / "attributes.csv",
            kinds=("truth", "choice", "short", "attributes"),
            noun="creature",
            templates="chart",
            copy_images=True,
        )
    )
    return folder / "questions"


def asked(folder: Path, **options: str) -> list[Sample]:
    return list(registry.find(str(folder)).samples(Data(options=options)))


def said(sample: Sample) -> str:
    part = sample.prompt.parts[-1]
    assert isinstance(part, Text)
    return part.text


def known(level: str) -> set[str]:
    if level == "colour":
        return set(world.COLOURS)
    taxa = [world.Creature(k, g, s, 0, 0, 0, 0, 0, 0) for k in range(3) for g in range(3) for s in range(3)]
    return {one.name(level) for one in taxa}


def test_every_question_of_a_built_set_gets_a_hint_at_a_wrong_class_of_its_level(built):
    plain, hinted = asked(built), asked(built, hint="wrong")
    assert len(plain) == len(hinted) > 27 * 9
    for before, after in zip(plain, hinted, strict=True):
        name = after.meta["hinted"]
        assert after.meta["hint"] == "wrong" and "hint" not in before.meta
        assert (before.id, before.target) == (after.id, after.target)
        text, hint = said(after).rsplit("\n", 1)
        assert text == said(before) and hint.endswith(f" {name}.")
        assert name in known(before.meta["level"])
        if before.kind == "truth" and before.target is False:
            assert name.lower() == before.meta["asked"]
        else:
            assert name.lower() != before.meta["label"]
        if before.options:
            assert name in before.options.values()


@pytest.fixture
def run(built, tmp_path, monkeypatch, capsys):
    """Return a function that asks species of the set: exit status, the run with its metrics, and what was said of errors."""
    monkeypatch.chdir(tmp_path)

    def ran(*words: str) -> tuple[int, dict, str]:
        status = main(["run", str(built), "-m", "embedded", "--levels", "species", "-q", "--json", *words])
        said = capsys.readouterr()
        if status:
            return status, {}, said.err
        (found,) = json.loads(said.out)["runs"]
        return status, {one["name"]: one["value"] for one in found["profiles"][0]["metrics"]}, said.err

    return ran


def test_a_corrupted_picture_is_harder_to_read_and_the_run_says_what_was_done(run):
    _, seen, _ = run("--out", "plain")
    _, noisy, _ = run("--out", "noisy", "--corrupt", "salt-pepper:40", "--corrupt", "blur:31", "--report")
    assert noisy["accuracy"] < seen["accuracy"] - 0.1
    meta = json.loads(Path("noisy/run_meta.json").read_text())
    assert meta["identity"]["media"] == {"corrupt": "salt-pepper:40,blur:31"}
    assert "image was corrupted (salt-pepper:40,blur:31)" in Path("noisy/report.html").read_text()
    status, _, said = run("--out", "noisy")
    assert status != 0 and "media.corrupt" in said


def test_hints_are_an_option_of_the_command_and_part_of_what_was_run(run):
    assert run("--out", "hinted", "--hint", "wrong", "--limit", "20")[0] == 0
    meta = json.loads(Path("hinted/run_meta.json").read_text())
    assert meta["identity"]["data_options"] == {"levels": "species", "hint": "wrong"}
    status, _, said = run("--hint", "right")
    assert status == 2 and "the only kind of hint is wrong" in said
