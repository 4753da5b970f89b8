"""What the papers and the project page of FG-BMK say, to be shown beside a run: whole, or a member's columns."""

from __future__ import annotations

from functools import cache

from msgspec import structs

from snellen.benchmarks.base import Published
from snellen.benchmarks.published import column, load


@cache
def tables() -> tuple[Published, ...]:
    """Human-oriented tables of arXiv 2504.14988v3, arXiv 2606.19053 and the project page."""
    return load(__package__)


def of_member(name: str) -> tuple[Published, ...]:
    """The columns of each table that are about one file of questions (`cub/species/choice`)."""
    found = (structs.replace(table, metrics=tuple(map(_in_member, table.metrics))) for table in tables())
    return tuple(
        column(table, name) for table in found if any(metric.startswith(f"{name}/") for metric in table.metrics)
    )


def _in_member(metric: str) -> str:
    """The whole run diagnoses a data set, `cub/class_worst/bias/...`; that is a metric of `cub/bias`, too."""
    dataset, _, rest = metric.partition("/")
    return f"{dataset}/bias/{rest}" if rest.startswith("class_worst/bias/") else metric
