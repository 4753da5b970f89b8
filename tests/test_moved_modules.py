"""Paths that version 0.1 documented can be imported for one release."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from snellen.moved_modules import MOVED


def test_old_paths_give_the_new_modules_with_a_warning() -> None:
    """In a process of their own: an import is done once a process."""
    assert all(find_spec(new) for new in MOVED.values())
    code = """
import importlib, warnings
from snellen.moved_modules import MOVED
for old_path, new_path in MOVED.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        old = importlib.import_module(old_path)
    new = importlib.import_module(new_path)
    names = [name for name in dir(new) if not name.startswith("_")]
    assert names and all(getattr(old, name) is getattr(new, name) for name in names), old_path
    assert any(new_path in str(warning.message) for warning in caught), old_path
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_path_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        __import__("snellen.reportings")
