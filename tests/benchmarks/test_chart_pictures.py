"""The chart's creatures as files: the folders and the taxonomy say what is in the picture, and the bytes are fixed."""

from __future__ import annotations

import csv
from hashlib import sha256
from io import BytesIO

import numpy as np
import pytest
from PIL import Image as pillow

from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.world import Dials
from snellen.benchmarks.chart.write_images import TAXONOMY, portraits, write
from snellen.errors import UsageError


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(pillow.open(BytesIO(data))).astype(int)


def test_every_species_lies_in_the_folders_of_its_taxonomy(tmp_path):
    assert write(tmp_path / "set", per_species=2) == 54
    found = sorted(path.relative_to(tmp_path / "set").as_posix() for path in (tmp_path / "set").rglob("*.png"))
    assert len(found) == 54
    assert found[0] == "morid/fennix/fennix_maris/001.png"
    with (tmp_path / "set" / TAXONOMY).open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [len({row[level] for row in rows}) for level in world.LEVELS] == [3, 9, 27]
    paths = {"/".join(row[level].replace(" ", "_") for level in world.LEVELS) for row in rows}
    assert paths == {path.rpartition("/")[0] for path in found}


def test_the_crest_of_a_picture_has_the_colour_of_its_class():
    for path, who, data in portraits(1, size=192):
        assert path.startswith(world.CLASSES[who.klass] + "/" + world.GENERA[who.klass][who.genus])
        crest = np.array(world.MARKS[who.klass])
        others = [np.array(mark) for at, mark in enumerate(world.MARKS) if at != who.klass]
        top = pixels(data)[:90, 48:144].reshape(-1, 3)
        # A picture's brightness is 86 to 110 per cent, with grain of 15 levels.
        near = [(np.abs(top - mark).max(axis=1) < 52).sum() for mark in (crest, *others)]
        assert near[0] > 200 and near[0] > 1.5 * max(near[1:]), (path, near)


def test_the_pictures_are_the_same_bytes_everywhere_and_others_under_another_seed():
    one = [sha256(data).hexdigest()[:16] for _, _, data in portraits(1)]
    assert one[:2] == ["45533316d79bc4d0", "8e0a9906ec6d40a1"]
    assert len(set(one)) == 27
    assert not set(one) & {sha256(data).hexdigest()[:16] for _, _, data in portraits(1, seed=1)}


def test_more_pictures_leave_the_first_ones_as_they_are():
    few = {path: data for path, _, data in portraits(1)}
    many = {path: data for path, _, data in portraits(3)}
    assert few.items() < many.items()


def test_faded_marks_are_harder_to_tell_and_nothing_else_moves():
    plain, faded = (pixels(next(portraits(1, dials=Dials(taxa=taxa)))[2]) for taxa in (0, 900))
    changed = (np.abs(plain - faded).max(axis=2) > 0).mean()
    assert 0.02 < changed < 0.3


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        write(tmp_path, 1)
    with pytest.raises(UsageError, match="1 to 999"):
        write(tmp_path / "new", 0)
    with pytest.raises(UsageError, match="0 to 1000"):
        write(tmp_path / "new", 1, dials=Dials(taxa=1001))
    assert not (tmp_path / "new").exists()
