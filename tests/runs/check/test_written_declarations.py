"""Every entry of the catalogue can be checked, and the declaration that is written of it asks the same samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.table.entries import entry, names
from snellen.errors import SnellenError
from snellen.runs.check.benchmark_check import check_benchmark
from snellen.runs.check.check import CheckSettings
from snellen.runs.check.written_declaration import write_declaration
from snellen.types import Image, Text

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "table"))
from catalogue_drawn import draw


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LMUData", raising=False)


def sent(benchmark: Benchmark, data: Data) -> list[Any]:
    """Return ids, prompts with the bytes of their images, gold answers and meta."""
    return [
        (
            sample.id,
            [
                part.text if isinstance(part, Text) else part.blob.read() if isinstance(part, Image) else str(part)
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


def test_an_entry_without_its_data_says_what_is_needed() -> None:
    with pytest.raises(SnellenError, match="vsr"):
        check_benchmark(registry.find("vsr"), Data(), CheckSettings())
