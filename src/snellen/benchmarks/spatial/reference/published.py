"""What was published of models on EASI-8: the whole table, and the column of one benchmark."""

from __future__ import annotations

from functools import cache

from msgspec import structs

from snellen.benchmarks.base import Published
from snellen.benchmarks.published import column, load
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS


@cache
def table() -> Published:
    """Eight benchmarks, each under `<benchmark>/overall`.

    Source: the README of SenseNova-SI; its models and others, evaluated with EASI.
    """
    (found,) = load(__package__)
    return found


def of_benchmark(name: str) -> tuple[Published, ...]:
    """The column of one of the eight; nothing was published of the four others, nor of half of SITE."""
    if name not in EIGHT:
        return ()
    questions = min(TASKS[name].rows, default=None)
    return (structs.replace(column(table(), name), whole=table(), questions=questions),)
