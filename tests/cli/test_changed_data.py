"""Runs whose data has changed since: the figures say so wherever they are shown, and nothing is said of unchanged data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from snellen import evaluate, load_run
from snellen.runs.compare import compare
from snellen.runs.export import export

QUESTIONS = "question,A,B,answer\nWhich is a fruit?,apple,stone,{}\nWhich is red?,blood,grass,A\n"
PLUGIN = """
from pathlib import Path

from snellen.benchmarks.base import Benchmark
from snellen.scoring import accuracy, choice
from snellen.types import Prompt, Sample, Text


def samples(data):
    for number in range(4):
        text = Text(f"Is {number} even? A. yes B. no")
        target = Path("gold.txt").read_text()
        yield Sample(str(number), Prompt((text,)), target, kind="choice", options={"A": "yes", "B": "no"})


PARITY = Benchmark("parity", "1", samples, {"strict": choice}, accuracy(), {"strict": "letters"})
"""
CHANGED = "data has changed since the run"


def notes(pair: list[Path]) -> list[str]:
    (pairing,) = compare(*pair)
    return [*pairing.notes]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two runs over one table, with answers of another seed in the second."""
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text(QUESTIONS.format("A"))
    return [evaluate("q.csv", "embedded", out=name, seed=seed).path for seed, name in enumerate(("one", "two"))]


def test_nothing_is_said_of_data_that_is_as_it_was(pair):
    run = load_run(pair[0])
    assert run.changed_data == ""
    assert not [line for line in run.notes() if CHANGED in line]
    assert not [line for line in notes(pair) if CHANGED in line]


def test_other_gold_in_a_table_is_stated_with_every_figure(pair, tmp_path, snellen):
    (tmp_path / "q.csv").write_text(QUESTIONS.format("B"))
    assert [line for line in notes(pair) if line.startswith("one: ") and CHANGED in line]
    assert CHANGED in "".join(export(pair[0], "jsonl", out=tmp_path / "exported").notes)
    snellen("report", pair[0], "--out", tmp_path / "page.html")
    assert CHANGED in (tmp_path / "page.html").read_text("utf-8")
    assert CHANGED in snellen("failures", pair[0]).out
    assert snellen("score", pair[0]).status != 0  # a table that changed is named on purpose: --benchmark


def test_other_gold_in_a_plugin_is_stated(tmp_path, monkeypatch, snellen):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "parity_plugin.py").write_text(PLUGIN)
    (tmp_path / "gold.txt").write_text("A")
    asked = snellen("run", "parity_plugin:PARITY", "-m", "embedded", "--out", "run")
    assert asked.status == 0, asked.err
    before = snellen("score", "run", "--trust")
    assert before.status == 0
    assert CHANGED not in before.out + before.err
    (tmp_path / "gold.txt").write_text("B")
    after = snellen("score", "run", "--trust")
    assert CHANGED in after.out + after.err


IMAGES = "id,image,question,A,B,answer\n" + "".join(f"q{i},p{i % 3}.png,Which is it?,one,two,A\n" for i in range(12))
OTHER_IMAGES = "images have changed or gone since the run"


@pytest.fixture
def pictured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run over a table with four questions to each of three images."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for number in range(3):
        Image.new("RGB", (32, 32), (number * 40, 10, 90)).save(tmp_path / "data" / f"p{number}.png")
    (tmp_path / "data" / "pictured.csv").write_text(IMAGES)
    replies = "".join(f'{{"id": "q{number}", "reply": "{"AB"[number % 3 == 1]}"}}\n' for number in range(12))
    (tmp_path / "replies.jsonl").write_text(replies)
    return evaluate("data/pictured.csv", "replay:replies.jsonl", out="pictured").path


def another_process(*words: object) -> tuple[int, str]:
    """Call the command in a process that has read no image before; return its status and all that it printed."""
    code = "import sys; from snellen.cli import main; sys.exit(main(sys.argv[1:]))"
    ended = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, timeout=120)
    return ended.returncode, ended.stdout + ended.stderr


def test_other_images_under_the_same_names_are_stated(pictured, tmp_path):
    assert OTHER_IMAGES not in another_process("score", pictured)[1]
    Image.new("RGB", (32, 32), (1, 2, 3)).save(tmp_path / "data" / "p1.png")
    assert OTHER_IMAGES in another_process("score", pictured)[1]
    assert OTHER_IMAGES in another_process("failures", pictured)[1]
    another_process("report", pictured, "--out", tmp_path / "page.html")
    assert OTHER_IMAGES in (tmp_path / "page.html").read_text("utf-8").lower()
    status, refused = another_process("rerun", pictured)
    assert status != 0 and "snellen rerun" not in refused and "put it back as it was" in refused


def test_a_run_whose_images_are_gone_keeps_its_interval(pictured, tmp_path):
    before = load_run(pictured).summarize(save=False).metrics["strict"][0]
    assert before.interval is not None and before.interval.clusters == 3
    for number in range(3):
        (tmp_path / "data" / f"p{number}.png").unlink()
    status, printed = another_process("score", pictured, "--json")
    after = json.loads(printed[: printed.rindex("}") + 1])["profiles"][0]["metrics"][0]
    assert status == 0 and OTHER_IMAGES not in printed  # no image can be shown, so none is taken for another
    assert after["ci95"] == pytest.approx(before.ci95) and after["interval"]["clusters"] == 3


def test_a_record_of_a_row_whose_image_is_gone_is_named_by_that(pictured, tmp_path):
    (tmp_path / "data" / "p1.png").unlink()
    status, refused = another_process("score", pictured)
    assert status == 3 and "belongs to a row of pictured.csv that is left out now" in refused
    assert "image missing: 'p1.png'" in refused and "other data" not in refused
