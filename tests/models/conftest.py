"""Frames of videos are kept between runs, and a test begins without any; one tiny model serves all tests that read it."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A checkpoint with random weights, which a test copies before it changes it."""
    import tiny_vlm  # needs torch, which most tests do not
    import torch

    torch.set_num_threads(1)
    return tiny_vlm.build(tmp_path_factory.mktemp("models") / "tiny")
