"""The further benchmarks named as `hf:...`: the hub's real client against a stand-in on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.spatial import more_drawn as drawn
from benchmarks.spatial.test_from_the_hub import fetched
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import FURTHER
from snellen.sources import Unreadable
from snellen.types import Image, Video

__all__ = ["fetched"]


def lost(name: str, data: Data) -> tuple[set[str], int]:
    """The ids of the questions, and how many show what is not there."""
    samples = list(FURTHER[name].samples(data))
    shown = [[part.blob for part in sample.prompt.parts if isinstance(part, Image | Video)] for sample in samples]
    missing = sum(any(isinstance(blob, Unreadable) for blob in blobs) for blobs in shown)
    return {sample.id for sample in samples}, missing


@pytest.mark.parametrize("name", drawn.DRAWN)
def test_every_further_benchmark_is_fetched_from_the_hub_and_no_card_or_training_data(
    name: str, tmp_path: Path, fetched: list[str]
) -> None:
    made = drawn.draw(name, tmp_path, kit=False)
    made.path.rename(tmp_path / "owner")
    (tmp_path / "owner" / "README.md").write_text("A card.", encoding="utf-8")
    (tmp_path / "owner" / "videos_for_training.tar").write_bytes(b"large")
    assert lost(name, Data(Path("hf:owner/data"))) == (set(made.shown), 0)
    assert not {"README.md", "videos_for_training.tar"} & set(fetched)


def test_of_a_duration_only_its_archive_is_fetched(tmp_path: Path, fetched: list[str]) -> None:
    drawn.draw("vsi-super-recall", tmp_path, kit=False).path.rename(tmp_path / "owner")
    data = Data(Path("hf:owner/data"), options={"subset": "10mins"})
    assert lost("vsi-super-recall", data) == ({"10mins_0"}, 0)
    assert [name for name in fetched if name.endswith(".zip")] == ["10mins.zip"]
