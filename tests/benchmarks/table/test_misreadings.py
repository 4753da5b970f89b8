"""Tables that are easily read wrongly in silence: each is read as its author means it, or refused."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from PIL import Image as Picture

from servers.oracle import digest
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data, DataReading
from snellen.errors import SnellenError
from snellen.types import Image, Sample, Text

COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")


def picture(colour: str) -> bytes:
    content = io.BytesIO()
    Picture.new("RGB", (20, 20), colour).save(content, "PNG")
    return content.getvalue()


IMAGES = {colour: picture(colour) for colour in COLOURS}
NAMES = {digest(image): colour for colour, image in IMAGES.items()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "data"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def write_table(rows: Sequence[dict[str, Any]], name: str = "my.csv") -> str:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return name


def write_lines(rows: Sequence[dict[str, Any]], name: str = "my.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def read(name: str, images: Path | None = None, **options: str) -> tuple[DataReading, list[Sample]]:
    benchmark, data = registry.find(name), Data(images=images, options=options)
    reading = benchmark.reading(data)
    assert reading is not None
    return reading, list(benchmark.samples(data))


def refusal(name: str, **options: str) -> str:
    with pytest.raises(SnellenError) as error:
        read(name, **options)
    return f"{error.value.message} {error.value.hint}"


def colours(sample: Sample) -> list[str]:
    return [NAMES[digest(part.blob.read())] for part in sample.prompt.parts if isinstance(part, Image)]


def text_of(sample: Sample) -> str:
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))


def test_numbered_images_are_files_and_no_references_to_rows() -> None:
    numbers = dict(zip((3, 9, 1, 2, 0, 7), COLOURS, strict=True))
    for number, colour in numbers.items():
        Path(f"{number}.png").write_bytes(IMAGES[colour])
    rows = [{"id": at, "image": number, "question": f"{at}?", "answer": "x"} for at, number in enumerate(numbers)]
    _, samples = read(write_table(rows))
    assert [colours(sample) for sample in samples] == [[colour] for colour in COLOURS]


def test_absolute_names_that_end_alike_never_share_an_image() -> None:
    Path("1.png").write_bytes(IMAGES["red"])
    rows = [{"id": part, "image": f"/data/{part}/1.png", "question": "?", "answer": "x"} for part in ("test", "train")]
    reading, samples = read(write_table(rows))
    assert [sample.id for sample in samples] == ["test"]
    assert "'/data/train/1.png' and '/data/test/1.png' are both found as '1.png'" in reading.omitted[0]


def test_images_beside_a_table_deep_in_an_archive_are_found() -> None:
    write_table([{"image": "a.png", "question": "?", "answer": "x"}])
    with zipfile.ZipFile("set.zip", "w") as archive:
        archive.write("my.csv", "my-set/v1/my.csv")
        archive.writestr("my-set/v1/pictures/a.png", IMAGES["blue"])
        archive.writestr("other/a.png", IMAGES["red"])
    _, samples = read("set.zip")
    assert colours(samples[0]) == ["blue"]


def test_named_images_come_before_those_beside_the_table(tmp_path: Path) -> None:
    write_table([{"image": "a.png", "question": "?", "answer": "x"}])
    Path("inner").mkdir()
    Path("my.csv").rename("inner/my.csv")
    Path("inner/a.png").write_bytes(IMAGES["red"])
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.png").write_bytes(IMAGES["green"])
    _, samples = read(".", tmp_path / "own")
    assert colours(samples[0]) == ["green"]


@pytest.mark.parametrize(("in_table", "on_disk"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_with_accents_are_found_in_either_normal_form(in_table: str, on_disk: str) -> None:
    Path(normalize(on_disk, "Übung é.png")).write_bytes(IMAGES["red"])
    write_table([{"image": normalize(in_table, "Übung é.png"), "question": "?", "answer": "x"}])
    _, samples = read("my.csv")
    assert colours(samples[0]) == ["red"]
