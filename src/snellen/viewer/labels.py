"""Labels of benchmarks and models: names as people say them, without the paths of the machine that ran them.

A file of questions is a benchmark named by its path, and so is a model in a folder or a file of recorded answers. Pages show the
last part of such a name; an export holds nothing else of it.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath

_PATH = re.compile(r"[/~.\\]|[A-Za-z]:[/\\]")
"""Beginning of a path: an absolute one on any system, one of a home folder, or one relative to where the run was started."""

_FOLDERS = re.compile(r"(?<![\w:/])(?:~|[A-Za-z]:)?[\\/](?:[^\s,;\\/]*[\\/]+)*(?=[^\s,;\\/])")
"""Folders of a path within a text."""


def benchmark_label(name: str) -> str:
    """Return the name of a benchmark for people.

    >>> benchmark_label("/home/ada/birds/questions.csv"), benchmark_label("chart/digits")
    ('questions.csv', 'chart/digits')
    """
    return _last_part(name)


def model_label(name: str) -> str:
    """Return the name of a model for people: KIND:NAME, and of a path its last part.

    >>> model_label("local:/models/Qwen3-VL-8B"), model_label("api:gpt-4o"), model_label("local:Qwen/Qwen3-VL-8B")
    ('local:Qwen3-VL-8B', 'api:gpt-4o', 'local:Qwen/Qwen3-VL-8B')
    """
    kind, colon, rest = name.partition(":")
    if not colon or _PATH.match(name):
        return _last_part(name)
    return f"{kind}:{_last_part(rest)}"


def without_folders(text: str) -> str:
    """Return settings in which a path is its last part: an export tells nothing of the machine."""
    return _FOLDERS.sub("", text)


def _last_part(text: str) -> str:
    if not _PATH.match(text):
        return text
    path = PureWindowsPath(text) if "\\" in text else PurePosixPath(text)
    return path.name or text
