"""Files of a folder by their names: as many looks at the disk as the folder needs, and the same files as one look each finds."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snellen.benchmarks.table.images import LOOKS, image_root
from snellen.errors import UnsafeArchiveError
from snellen.sources.tree import FolderTree

NAMES = ["a.jpg", "B.JPG", "c d.png", "é.jpg", "e\u0301.jpg", "linked.jpg", "broken.jpg", "inner"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "root" / "pictures"
    (place / "inner").mkdir(parents=True)
    for name in NAMES[:5]:
        (place / name).write_bytes(b"x")
    (place / "linked.jpg").symlink_to(place / "a.jpg")
    (place / "broken.jpg").symlink_to(place / "nothing.jpg")
    return place.parent


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from([*NAMES, "A.JPG", "none.jpg", "É.JPG", "x.png"]), max_size=3 * LOOKS))
def test_a_folder_that_is_listed_has_the_files_that_single_looks_find(folder: Path, names: list[str]) -> None:
    tree = image_root(folder, None)
    for at in range(LOOKS + 5):
        assert tree.find(f"pictures/missing{at}.jpg") is None
    for name in names:
        assert tree.find(f"pictures/{name}") == FolderTree(folder).find(f"pictures/{name}"), name


def looks_at_the_disk(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    looks, real = Counter[str](), os.lstat

    def counting(path: str, **given: int) -> os.stat_result:
        looks[str(Path(path).parent)] += 1
        return real(path, **given)

    monkeypatch.setattr(os, "lstat", counting)
    return looks


@pytest.mark.parametrize("place", ["pictures", "not_there", ""])
def test_names_that_are_missing_cost_one_listing_of_their_folder(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, looks = image_root(folder, None), looks_at_the_disk(monkeypatch)
    prefix = f"{place}/" if place else ""
    assert all(tree.find(f"{prefix}missing{at}.jpg") is None for at in range(40 * LOOKS))
    assert sum(looks.values()) < 5 * LOOKS
    if place == "pictures":
        assert tree.find("pictures/a.jpg") is not None


def test_frames_of_a_folder_are_listed_once_in_the_order_of_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = tmp_path / "clip"
    frames.mkdir()
    for number in range(300):
        (frames / f"{number}.jpg").write_bytes(b"x")
    (frames / "notes.txt").write_bytes(b"x")
    looks = looks_at_the_disk(monkeypatch)
    shown = image_root(tmp_path, None).frames("clip")
    assert [Path(blob.key).name for blob in shown] == [f"{number}.jpg" for number in range(300)]
    assert sum(looks.values()) < 20


def test_links_among_the_files_of_a_folder_stay_inside_of_it(folder: Path) -> None:
    names = {Path(blob.key).name for blob in FolderTree(folder).files_in("pictures")}
    assert names == {*NAMES} - {"broken.jpg", "inner"}
    (folder.parent / "outside.jpg").write_bytes(b"secret")
    (folder / "pictures" / "out.jpg").symlink_to(folder.parent / "outside.jpg")
    with pytest.raises(UnsafeArchiveError, match="outside of the folder"):
        FolderTree(folder).files_in("pictures")
