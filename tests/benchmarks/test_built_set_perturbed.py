"""A built set asked with misleading hints and over corrupted pictures, to the end of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.chart import world, write_images
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


def run(folder: Path, built: Path, *words: str) -> dict[str, dict]:
    command = [sys.executable, "-m", "snellen", "run", str(built), "-m", "embedded", "--levels", "species"]
    done = subprocess.run([*command, "-q", "--json", *words], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    return {**found, "value": {one["name"]: one["value"] for one in found["profiles"][0]["metrics"]}}


def test_a_corrupted_picture_is_harder_to_read_and_the_run_says_what_was_done(built, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    seen = run(tmp_path, built, "--out", "plain")["value"]["accuracy"]
    noisy = run(tmp_path, built, "--out", "noisy", "--corrupt", "salt-pepper:40", "--corrupt", "blur:31", "--report")
    assert noisy["value"]["accuracy"] < seen - 0.1
    meta = json.loads((tmp_path / "noisy" / "run_meta.json").read_text())
    assert meta["identity"]["media"] == {"corrupt": "salt-pepper:40,blur:31"}
    assert "image was corrupted (salt-pepper:40,blur:31)" in (tmp_path / "noisy" / "report.html").read_text()
    refused = subprocess.run(
        [sys.executable, "-m", "snellen", "run", str(built), "-m", "embedded", "--levels", "species", "--out", "noisy"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert refused.returncode != 0 and "media.corrupt" in refused.stderr


def test_hints_are_an_option_of_the_command_and_part_of_what_was_run(built, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run(tmp_path, built, "--out", "hinted", "--hint", "wrong", "--limit", "20")
    meta = json.loads((tmp_path / "hinted" / "run_meta.json").read_text())
    assert meta["identity"]["data_options"] == {"levels": "species", "hint": "wrong"}
    command = [sys.executable, "-m", "snellen", "run", str(built), "-m", "embedded", "--hint", "right"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and "the only kind of hint is wrong" in done.stderr
