"""The drawings of the twelve data sets are the same each time, so that what other tests find in them holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.spatial import official_drawn as drawn
from snellen.sources import digest


@pytest.mark.parametrize("name", drawn.DRAWN)
def test_a_data_set_is_drawn_the_same_to_the_byte(name: str, tmp_path: Path) -> None:
    once = digest(drawn.draw(name, tmp_path / "once"))
    drawn.film.cache_clear()
    drawn.picture.cache_clear()
    assert digest(drawn.draw(name, tmp_path / "again")) == once
