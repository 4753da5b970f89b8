"""Agents for the tests: the installed ones, or installed here if `make test-agents` asks for it."""

from __future__ import annotations

import io
import os

import pytest
from PIL import Image as Pillow

from snellen.errors import AgentInstallError
from snellen.models.agents import install


def picture(seed: int = 0) -> bytes:
    """A PNG of 80 x 60 pixels of noise, the same for the same seed."""
    import numpy as np

    pixels = np.random.default_rng(seed).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="session", params=["openclaw", "opencode"])
def agent(request):
    """The name of an agent that is installed."""
    return installed(request.param)


@pytest.fixture(scope="session")
def opencode():
    return installed("opencode")


def installed(name: str) -> str:
    """The name; skips, saying why, where the agent is not and cannot be installed."""
    if install.find(name) is None:
        if not os.environ.get("SNELLEN_TEST_INSTALL"):
            pytest.skip(f"{name} is not installed; `make test-agents` installs it")
        try:
            install.install(name)
        except AgentInstallError as error:
            pytest.skip(f"{name} CANNOT BE INSTALLED HERE, so nothing of it is tested: {error}")
    return name
