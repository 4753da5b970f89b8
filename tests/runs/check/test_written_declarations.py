"""Every entry of the catalogue can be checked, and the declaration that is written of it asks the same samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.table.benchmark import Table
from snellen.benchmarks.table.declaration import Declaration, Source
from snellen.benchmarks.table.entries import entry, names
from snellen.errors import SnellenError
from snellen.runs.check.check import CheckSettings, check_benchmark
from snellen.runs.check.written_declaration import moved_source, write_declaration
from snellen.types import Image, Text, Video

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "table"))
from card_sets_drawn import empty_wordnet
from catalogue_drawn import draw


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LMUData", raising=False)
    monkeypatch.setattr("nltk.data.path", empty_wordnet(tmp_path / "nltk"))


def clip_of(video: Video) -> tuple[Any, ...]:
    """Return the bytes of a clip and of its subtitles, and which part of it is shown how."""
    subtitles = video.subtitles
    spoken = subtitles and (subtitles.blob and subtitles.blob.read(), structs.replace(subtitles, blob=None))
    return video.blob and video.blob.read(), spoken, structs.replace(video, blob=None, subtitles=None)


def sent(benchmark: Benchmark, data: Data) -> list[Any]:
    """Return ids, prompts with the bytes of their images, gold answers and meta."""
    return [
        (
            sample.id,
            [
                part.text if isinstance(part, Text) else part.blob.read() if isinstance(part, Image) else clip_of(part)
                for part in sample.prompt.parts
            ],
            sample.target,
            dict(sample.options),
            dict(sample.meta),
        )
        for sample in benchmark.samples(data)
    ]


@pytest.mark.parametrize("name", names())
def test_an_entry_is_checked_and_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "drawn").mkdir()
    drawn = draw(entry(name), tmp_path / "drawn")
    data = Data(path=drawn.path, images=drawn.images)
    benchmark = registry.find(name)
    result = check_benchmark(benchmark, data, CheckSettings(examples=2))
    assert (result.samples, len(result.examples)) == (drawn.rows, 2)
    target = tmp_path / "deep" / "my.toml"
    target.parent.mkdir()
    write_declaration(target, benchmark, data, name)
    assert sent(registry.find(str(target)), Data()) == sent(benchmark, data)


def test_a_source_is_named_from_the_folder_of_the_declaration(tmp_path: Path) -> None:
    (tmp_path / "real" / "sets").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sets")
    hub = Table(Declaration("hf:owner/set", Source(hub="owner/set", revision="abc"), {}))
    split = Data(options={"split": "test", "sheet": "mine"})
    assert moved_source(hub, split, tmp_path) == Source(hub="owner/set", revision="abc", split="test", sheet="mine")
    other = Data(path=Path("hf:other/set@main"))
    assert moved_source(hub, other, tmp_path) == Source(hub="other/set", revision="main")
    mirrored = Source(tsv="https://example.org/t.tsv", md5="0" * 32, rows=3, images="pics")
    table = Table(Declaration("set", mirrored, {}), base=tmp_path / "real")
    assert moved_source(table, Data(), tmp_path) == structs.replace(mirrored, images="real/pics")
    own = Data(path=tmp_path / "link" / "my.tsv")
    assert moved_source(table, own, tmp_path) == Source(file="real/sets/my.tsv", images="real/pics")
    # From a linked folder `..` leads to the parent of the folder that it links to.
    assert moved_source(table, own, tmp_path / "link").file == "my.tsv"
    assert moved_source(table, Data(), tmp_path / "link").images == "../pics"


def test_an_entry_without_its_data_says_what_is_needed() -> None:
    with pytest.raises(SnellenError, match="vsr"):
        check_benchmark(registry.find("vsr"), Data(), CheckSettings())
