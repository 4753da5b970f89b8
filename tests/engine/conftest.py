"""Fixtures of the engine: frames of videos are kept between runs, and a test begins without any in a folder of its own."""

import pytest


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The answers of one process, which runs over Ray are held against."""
    from ray_runs import alone  # needs the extra `ray`, which a test without it does not

    return alone(tmp_path_factory.mktemp("alone"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path_factory.mktemp("cache")))
