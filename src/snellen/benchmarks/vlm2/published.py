"""What others published about VLM2-Bench: whole for the suite, one column for a subtask."""

from __future__ import annotations

from functools import cache

from snellen.benchmarks.base import Published
from snellen.benchmarks.published import column, load


@cache
def tables() -> tuple[Published, ...]:
    """The main table of the paper's fourth version, then that of the README and of earlier versions.

    Source: Zhang et al. 2025, arXiv 2502.12084 (v1 to v4), and the README of the released code.
    """
    return load(__package__)


def of_subtask(name: str) -> tuple[Published, ...]:
    """The fourth version's column of one subtask (`oc-cnt`); the older table has the same cells for all models."""
    return (column(tables()[0], name),)
