"""Fixtures of the feature tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function from the kind of an encoder to the folder of a tiny one, built once a module."""
    from tiny_encoders import build  # needs torch, which a test without encoders does not

    built: dict[str, str] = {}

    def folder(kind):
        if kind not in built:
            built[kind] = str(build(kind, tmp_path_factory.mktemp(kind)))
        return built[kind]

    return folder
