"""Frames of videos are kept between runs; a test begins without any."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path_factory.mktemp("cache")))
