"""The commands of README.md and docs/index.md, in their order, after the install line that stands above them.

The environments hold the declared requirements alone (`fresh_environments`). Models behind an API are a server on
loopback, checkpoints of the hub are tiny ones of the same families, and runs of the chart are cut short.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import openpyxl
import pytest
from PIL import Image as pillow

HERE = Path(__file__).parent
TESTS = HERE.parent
sys.path[:0] = [
    str(HERE),
    *(str(TESTS / room) for room in ("models", "features", "benchmarks/vlm2", "benchmarks/fgbmk")),
]
import drawn  # noqa: E402
import released  # noqa: E402
import tiny_encoders  # noqa: E402
import tiny_families  # noqa: E402
from pages import DOCS, examples, steps  # noqa: E402

import fresh_environments  # noqa: E402
from benchmarks.fika import made  # noqa: E402
from servers.oracle import OracleServer, SentQuestion  # noqa: E402

PAGES = (DOCS.parent / "README.md", DOCS / "index.md")
FRESH = "in a fresh environment"
ELSEWHERE = {
    "pip install": "the environment was made with the same requirements, of packages that are here",
    "snellen agents install": "fetches Node and a package of npm",
    "snellen run fika --data fika-bench-testset.zip --model agent:": "needs the agent that the line above installs",
    "snellen easi ": "reads twelve benchmarks from the hub",
    "snellen report eval_results/": "needs the results of the line above",
    "snellen submit easi": "needs the results of the line above",
}
"""Beginnings of commands that are not run here, and why."""
HERE_INSTEAD = {"local:Qwen/Qwen3-VL-8B-Instruct": "local:./tiny-qwen3-vl", "hf:facebook/dinov2-large": "./tiny-dinov2"}
SHORTER = {"snellen run chart ": "--limit 40", "snellen acuity --model ": "--most 8"}
COLOURS = ("red", "green", "blue", "black")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="environments are made of links, which Windows lacks"),
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fresh_environments.build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def server() -> Iterator[OracleServer]:
    """Answer every question with its first option, and as judges of the two rubrics do."""

    def answer(question: SentQuestion) -> str:
        if '"verdict"' in question.text:
            return '{"verdict": "incorrect", "reason": "another thing"}'
        return "Score: 1" if "Score:" in question.text else "ANSWER: A"

    with OracleServer(answer, "gpt-6-astra") as running:
        yield running


def environment(programs: Path, server: OracleServer) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {
        **kept,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": "sk-loopback-Q7f3a9c1e5b2",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a user whose data the pages name."""
    (tmp_path / "photos").mkdir()
    table = [("image", "question", "answer")]
    for number, colour in enumerate(COLOURS):
        pillow.new("RGB", (32, 32), colour).save(tmp_path / "photos" / f"{number}.png")
        table.append((f"photos/{number}.png", "What colour is it?", colour))
    with (tmp_path / "my.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table)
    book = openpyxl.Workbook()
    for row in table:
        book.active.append(row)
    book.save(tmp_path / "my.xlsx")
    return tmp_path


@pytest.fixture
def data(folder: Path) -> None:
    """The benchmarks, answers and checkpoints that the README names, a few rows each."""
    tiny_encoders.build("dinov2", folder / "tiny-dinov2")
    (qwen,) = (family for family in tiny_families.FAMILIES if family.name == "Qwen3-VL")
    tiny_families.build(qwen, folder / "tiny-qwen3-vl")
    content = drawn.contents(groups=1)
    drawn.write(content, folder / "vlm2-bench_dataset.zip")
    (questions,) = (name for name in content if name.endswith(drawn.question_file("oc-cnt").rpartition("/")[2]))
    (folder / "oc_cnt.jsonl").write_bytes(content[questions])
    replies = [{**row, "model_answer": "2"} for row in drawn.rows(content, "oc-cnt")]
    (folder / "someone_elses_answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in replies))
    made.whole(folder / "fika-bench-testset.zip", 4)
    released.write(folder)
    released.birds(folder / "CUB")
    shown = [f"{image},{name}" for image, name in released.BIRDS.items()]
    (folder / "train.csv").write_text("\n".join(shown * 2))
    (folder / "test.csv").write_text("\n".join(shown))
    candidates = [
        {"id": f"c{number}", "image": f"{number}.png", "question": "What exactly is this?", "answer": colour}
        for number, colour in enumerate(COLOURS)
    ]
    (folder / "candidates.jsonl").write_text("".join(json.dumps(row) + "\n" for row in candidates))
    sample = {"id": 0, "dataset": "arkitscenes", "scene_name": "a", "question_type": "object_counting"}
    sample |= {"question": "How many chairs?", "options": None, "ground_truth": "3"}
    theirs = {"doc_id": 0, "doc": sample, "target": "3", "resps": [["3"]], "filtered_resps": ["3"]}
    (folder / "their_samples.jsonl").write_text(json.dumps(theirs) + "\n")


def commands(page: Path) -> list[str]:
    """Return the commands of the blocks that are run in a fresh environment."""
    blocks = [one for one in examples(page) if not one.why_not or FRESH in one.why_not]
    return [step.command.partition("  #")[0].partition("   #")[0].strip() for one in blocks for step in steps(one.body)]


def run(command: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=dict(variables), capture_output=True, text=True, timeout=600
    )


def view(folder: Path, variables: Mapping[str, str]) -> str:
    """Return the first page of `snellen view`, and end it as Ctrl-C does."""
    process = subprocess.Popen(
        ["snellen", "view", "--no-open", "--port", "0"],
        cwd=folder,
        env=dict(variables),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert address is not None, line + process.stderr.read()
        page: str = urllib.request.urlopen(address[0], timeout=600).read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(600) in (0, 130)
        return page
    finally:
        process.kill()
        process.wait()


def test_every_command_of_the_first_pages_runs_after_their_install_line(wheel, server, folder, data, tmp_path_factory):
    variables = environment(
        fresh_environments.install(wheel, tmp_path_factory.mktemp("venv") / "local", "local"), server
    )
    absent = run("python -c 'import pytest'", folder, variables)
    assert "No module named 'pytest'" in absent.stderr, "the environment holds more than the project declares"
    skipped = set()
    for page in PAGES:
        asked = commands(page)
        assert asked[0] == "pip install 'snellen[local]'", page
        for command in asked:
            if beginning := next((begins for begins in ELSEWHERE if command.startswith(begins)), None):
                skipped.add(beginning)
                continue
            for there, here in {**HERE_INSTEAD, "https://api.example.com/v1": server.url}.items():
                command = command.replace(there, here)
            if command == "snellen view":
                assert "chart-embedded" in view(folder, variables)
                continue
            shorter = next((more for begins, more in SHORTER.items() if command.startswith(begins)), "")
            done = run(f"{command} {shorter}", folder, variables)
            assert done.returncode == 0, f"{page.name}: {command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert skipped == set(ELSEWHERE)


def test_the_core_alone_reads_workbooks_asks_models_behind_an_api_and_shows_them(
    wheel, server, folder, tmp_path_factory
):
    variables = environment(fresh_environments.install(wheel, tmp_path_factory.mktemp("venv") / "core"), server)
    for command in (
        "snellen check my.xlsx",
        "snellen run my.xlsx --model api:gpt-6-astra",
        "snellen score results/my-gpt-6-astra --profile all",
        "snellen report results/my-gpt-6-astra",
        "snellen export results/my-gpt-6-astra --format vlmevalkit",
        "snellen demo",
        "snellen list",
        "snellen doctor",
        "snellen run my.xlsx --model embedded",
        "snellen run chart --model embedded --limit 40",
        "snellen acuity --model embedded --most 8",
    ):
        done = run(command, folder, variables)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "my-gpt-6-astra" in view(folder, variables)
    refused = run("snellen run my.xlsx --model embedded --dtype bfloat16", folder, variables)
    assert refused.returncode == 3, refused.stderr
    (hint,) = re.findall(r"pip install '([^']+)'", " ".join(refused.stderr.split()))
    assert hint == f"snellen[local] @ {wheel.as_uri()}"
