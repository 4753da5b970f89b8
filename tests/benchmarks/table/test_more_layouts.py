"""Layouts with several images, with images in options, of data sets of the hub, and tables of 100,000 rows."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from coloured_pictures import COLOURS as ALL_COLOURS
from coloured_pictures import IMAGES, NAMES, data_folder

import snellen
from peak_memory import PEAK_KB
from servers.oracle import OracleServer, SentQuestion, digest
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.runs.run import Run
from snellen.types import Image, Sample, Text

COLOURS = ALL_COLOURS[:4]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = data_folder(tmp_path, monkeypatch)
    for colour in COLOURS:
        Path(f"{colour}.png").write_bytes(IMAGES[colour])
    return place


def samples(name: str, **options: str) -> list[Sample]:
    return list(registry.find(name).samples(Data(options=options)))


def shown(sample: Sample) -> list[str]:
    """Return the parts of a prompt, an image as its colour in brackets."""
    return [
        part.text if isinstance(part, Text) else f"[{NAMES[digest(part.blob.read())]}]"
        for part in sample.prompt.parts
        if isinstance(part, (Text, Image))
    ]


def ask(answer: Any, name: str, **settings: Any) -> tuple[Run, list[SentQuestion]]:
    with OracleServer(answer) as server:
        run = snellen.evaluate(name, "api:oracle", base_url=server.url, out="run", concurrency=1, **settings)
        return run, server.requests


def test_the_second_of_two_images_is_asked_about() -> None:
    pairs = [(first, second) for first in COLOURS for second in COLOURS if first != second]
    rows = [
        {"image_1": f"{first}.png", "image_2": f"{second}.png", "question": "Which colour is the second?"}
        | {"options": json.dumps(list(COLOURS)), "answer": COLOURS.index(second)}
        for first, second in pairs
    ]
    with Path("my.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)
    run, requests = ask(lambda request: request.letter(NAMES[request.images[1]]), "my.csv")
    assert [tuple(NAMES[image] for image in request.images) for request in requests] == pairs
    assert run.metric("accuracy").value == 1.0
    assert run.metric("accuracy").chance == 0.25


def mmmu_like() -> None:
    empty: dict[str, Any] | None = None
    images = {
        f"image_{number}": [
            {"bytes": IMAGES[COLOURS[number - 1]], "path": None} if number <= count else empty for count in (1, 3)
        ]
        for number in range(1, 8)
    }
    table = pa.table(
        {
            "id": ["validation_Art_1", "validation_Art_2"],
            "question": ["<image 1> What is it?", "Which follows <image 1>?"],
            "options": ["['a', 'b']", "['<image 2>', '<image 3>']"],
            "explanation": ["?", "?"],
            **images,
            "answer": ["B", "A"],
            "question_type": ["multiple-choice", "multiple-choice"],
            "subfield": ["Painting", "Drawing"],
        }
    )
    pq.write_table(table, "validation-00000-of-00001.parquet")


def test_images_stand_in_the_question_and_in_the_options() -> None:
    mmmu_like()
    first, second = samples("validation-00000-of-00001.parquet")
    assert (first.id, first.target) == ("validation_Art_1", "B")
    assert shown(first) == ["[red]", " What is it?\nA. a\nB. b\nAnswer with the letter."]
    assert shown(second) == [
        *("Which follows ", "[red]", "?\nA. ", "[green]", "\nB. ", "[blue]", "\nAnswer with the letter."),
    ]


def test_images_of_options_go_with_their_options_in_every_rotation() -> None:
    row = {"images": ["red.png", "green.png", "blue.png"], "question": "Which is like <image>?"}
    row |= {"options": ["<image>", "<image>"], "answer": "B"}
    Path("my.json").write_text(json.dumps([row]))
    plain, turned = samples("my.json", circular="true")
    assert [part for part in shown(plain) if part.startswith("[")] == ["[red]", "[green]", "[blue]"]
    assert [part for part in shown(turned) if part.startswith("[")] == ["[red]", "[blue]", "[green]"]
    assert (plain.target, turned.target) == ("B", "A")


def test_a_science_set_of_the_hub_counts_its_options_from_0() -> None:
    table = pa.table(
        {
            "image": [{"bytes": IMAGES[colour], "path": "image.png"} for colour in COLOURS],
            "question": [f"Which, {colour}?" for colour in COLOURS],
            "choices": [list(COLOURS)] * 4,
            "answer": pa.array([0, 1, 2, 3], pa.int8()),
            "hint": ["Look closely.", "", "", ""],
            "task": ["closed choice"] * 4,
            "grade": ["grade2", "grade3", "grade2", "grade3"],
            "lecture": ["long"] * 4,
            "solution": ["The answer is clear."] * 4,
        }
    )
    pq.write_table(table, "my.parquet")
    run, requests = ask(lambda request: request.letter(NAMES[request.images[0]]), "my.parquet")
    assert run.metric("accuracy").value == 1.0
    assert requests[0].text.startswith("Hint: Look closely.\nWhich, red?")
    assert run.metric("accuracy/grade/grade2").n == 2


def test_metadata_beside_images_in_a_split_is_read() -> None:
    for split in ("train", "test"):
        Path("set", split).mkdir(parents=True)
        Path("set", split, "red.png").write_bytes(IMAGES["red"])
        lines = "file_name,question,answer\nred.png,Which colour?,red\n"
        Path("set", split, "metadata.csv").write_text(lines)
    (sample,) = samples("set", split="test")
    assert shown(sample)[0] == "[red]" and sample.target == "red"


def test_names_without_an_ending_and_addresses_beside_names() -> None:
    rows = [
        {"image": colour, "image_url": f"https://example.org/{colour}.png", "question": "Which?", "answer": colour}
        for colour in COLOURS
    ]
    Path("my.json").write_text(json.dumps(rows))
    assert [shown(sample)[0] for sample in samples("my.json")] == [f"[{colour}]" for colour in COLOURS]


def test_columns_of_one_object_are_rows() -> None:
    Path("my.json").write_text(json.dumps({"question": ["Who?", "What?"], "answer": [{"text": "a"}, {"text": "b"}]}))
    assert [sample.target for sample in samples("my.json")] == ["a", "b"]
    Path("b.json").write_text(json.dumps({"x1": {"question": "Who?", "answer": "a"}}))
    assert samples("b.json")[0].id == "x1"
    Path("c.json").write_text(json.dumps({"meta": {}, "data": {"items": [{"question": "Who?", "answer": "a"}]}}))
    assert samples("c.json", each="data.items")[0].target == "a"


MEASURE = """
import sys
from snellen.cli import main
status = main(sys.argv[1:])
print("peak", status, PEAK_KB)
"""


def test_100000_rows_are_read_checked_and_scored_in_300_mb(tmp_path: Path) -> None:
    with Path("big.csv").open("w", newline="") as file, Path("replies.jsonl").open("w") as replies:
        writer = csv.writer(file)
        writer.writerow(["id", "image", "question", "A", "B", "C", "D", "answer", "topic"])
        for n in range(100_000):
            image = f"{COLOURS[n % 4]}.png"
            writer.writerow([f"q{n}", image, f"Which colour is number {n}?", *COLOURS, "ABCD"[n % 4], f"t{n % 7}"])
            replies.write(f'{{"id": "q{n}", "reply": "{"ABCD"[n % 4]}"}}\n')
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            MEASURE.replace("PEAK_KB", PEAK_KB),
            "score",
            "replies.jsonl",
            "--benchmark",
            "big.csv",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    *output, last = done.stdout.strip().splitlines()
    status, peak = last.removeprefix("peak ").split()
    metrics = json.loads("\n".join(output))["profiles"][0]["metrics"]
    assert status == "0"
    assert (metrics[0]["name"], metrics[0]["value"], metrics[0]["n"]) == ("accuracy", 1.0, 100_000)
    assert int(peak) < 300 * 1024
