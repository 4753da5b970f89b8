"""Frames of videos are kept between runs; a test begins without any, and leaves none behind in the user's own folder."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path_factory.mktemp("cache")))
