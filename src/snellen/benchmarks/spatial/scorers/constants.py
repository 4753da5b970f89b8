"""The names and numbers of constants.toml, read once."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

CONSTANTS: dict[str, Any] = tomllib.loads(
    resources.files("snellen.benchmarks.spatial.scorers").joinpath("constants.toml").read_text(encoding="utf-8")
)
"""Tables by benchmark or rule, as in the file."""
