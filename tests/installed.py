"""The example plug-in, installed as users install one: by pip, into a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent.parent / "examples" / "plugin"


@pytest.fixture(scope="session")
def lights_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed example (benchmark `lights`, model `pixels`), for PYTHONPATH."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(target), str(PLUGIN)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def lights(lights_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example plug-in, for this process and for those it starts."""
    monkeypatch.syspath_prepend(str(lights_folder))
    monkeypatch.setenv("PYTHONPATH", str(lights_folder), prepend=os.pathsep)
    return lights_folder
