"""EASI's 30 defects: the page that lists them names tests that exist, and what no other room proves is proved here."""

from __future__ import annotations

import ast
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.spatial import official_drawn as drawn
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.reference.known_bugs import FAULTS
from snellen.easi.external.lmms_eval import free_port
from snellen.types import Text

ROOT = Path(__file__).parents[3]
PAGE = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("easi-defects.md", "easi-faults.md"))
ROWS = {
    int(cells[0]): cells
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
    for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]
}


def test_all_30_are_there_once_each_with_what_is_done_instead():
    numbers = [int(found) for found in re.findall(r"^\| (\d+) \|", PAGE, re.M)]
    assert numbers == list(range(1, 31))
    for cells in ROWS.values():
        assert len(cells) == 4 and all(cells)


@pytest.mark.parametrize("number", range(1, 31))
def test_every_test_that_a_row_names_is_there(number):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", ROWS[number][3])
    assert named, "no test is named"
    assert len(named) == ROWS[number][3].count("`") // 2, "something is named that is no test"
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert function in there, (path, function)


FURTHER_ROWS = {
    int(cells[0][1:]): cells
    for line in PAGE.splitlines()
    if re.match(r"\| F\d+ \|", line)
    for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]
}


@pytest.mark.parametrize("number", range(1, 16))
def test_each_fault_of_the_further_benchmarks_names_tests_that_exist(number):
    assert sorted(FURTHER_ROWS) == list(range(1, 16))
    cells = FURTHER_ROWS[number]
    assert len(cells) == 4 and all(cells)
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", cells[3])
    assert named and len(named) == cells[3].count("`") // 2
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (path, function)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_on_the_page_in_the_words_of_its_file(name):
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert line.endswith(f"| {FAULTS[name].text} |")


@pytest.mark.parametrize("form", ["vlmevalkit", "lmms-eval"])
def test_omnispatial_is_asked_to_think_and_to_close_with_a_letter_in_both_forms(form, tmp_path):
    data = Data(path=drawn.draw("omnispatial", tmp_path), options={"prompting": form})
    samples = list(registry.find("omnispatial").samples(data))
    assert len(samples) == drawn.count("omnispatial")
    for sample in samples:
        *_, text = [part.text for part in sample.prompt.parts if isinstance(part, Text)]
        asked = (sample.prompt.system + text).splitlines()
        assert [line[0] for line in asked if line[1:2] == "." and line[:1].isdecimal()] == ["1", "2", "3", "4"]
        assert "`Answer: X`" in "".join(asked)


def test_no_two_jobs_are_given_a_port_that_is_in_use():
    held = []
    try:
        for _ in range(20):
            port = free_port()
            held.append(socket.create_server(("127.0.0.1", port)))  # refused where somebody listens there
        assert len({one.getsockname()[1] for one in held}) == 20
    finally:
        for one in held:
            one.close()


def test_the_twelve_need_neither_harness_nor_torch(tmp_path):
    """Read, put as prompts and scored, in a process that cannot import any of them."""
    data = drawn.draw("blink", tmp_path)
    script = f"""
import sys
for name in ("torch", "transformers", "lmms_eval", "vlmeval", "pandas"):
    sys.modules[name] = None
from pathlib import Path
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.tasks import TASKS
for name in TASKS:
    benchmark = registry.find(name)
found = registry.find("blink")
samples = list(found.samples(Data(path=Path({str(data)!r}))))
print(len(samples), sum(found.score["easi"](one, "A").value for one in samples))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    count, right = done.stdout.split()
    assert int(count) == drawn.count("blink") and 0 < float(right) < int(count)
