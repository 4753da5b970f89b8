"""Links into the gallery: the part of the address after # says which answers are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qs, quote, urlencode

from snellen.reports.collect import RunTally
from snellen.reports.escape import escape_invisible

NOT_RIGHT = "wrong,partial,invalid,error"

FAILURES = frozenset({"invalid", "error"})
"""Metrics of failures; never the headline of a member of a suite."""

_VERDICT_METRICS = {
    "usable_rate": "invalid,error",
    "invalid": "invalid",
    "error": "error",
    "wrong": "wrong",
    "partial": "partial",
    "correct": "correct",
}


def gallery_link(**filters: str | None) -> str:
    """`#…` for these filters; an underscore at the end of a name is dropped, None and empty values are left out.

    Keys are `run`, `profile`, `verdict` (several joined by commas), `error`, `target`, `read`, `q` and `by.<name>`.
    """
    pairs = [(name.rstrip("_"), value) for name, value in filters.items() if value]
    return "#" + urlencode(pairs, quote_via=quote)


def describe_link(address: str) -> str:
    """Describe the answers that a link of the gallery leads to, for those who do not see what it stands on."""
    filters = parse_qs(address.removeprefix("#"))
    verdict = filters.pop("verdict", [""])[0]
    filters.pop("profile", None)
    kind = "incorrect answers" if verdict == NOT_RIGHT else f"answers ({verdict})" if verdict else "answers"
    parts = [f"{name.removeprefix('by.')} {', '.join(values)}" for name, values in filters.items()]
    return escape_invisible(": ".join(filter(None, (kind, ", ".join(parts)))))


def meta_filters(filters: Mapping[str, str]) -> dict[str, str]:
    """Convert meta values to link filters: {"level": "species"} becomes {"by.level": "species"}."""
    return {f"by.{name}": value for name, value in filters.items()}


def metric_filters(metric: str, tally: RunTally, filters: Mapping[str, str] | None = None) -> dict[str, str]:
    """Derive the filters of a metric's answers from its name: `accuracy/short/species` is kind short, level species.

    A first part that is one of the values of `task` is the member of a suite: `digits/accuracy` is task digits. Each
    part after the metric's own name is looked up among the values of the meta columns, each column used once; a part
    that no column knows filters nothing. `given` overrides.
    """
    if filters is not None:
        return dict(filters)
    task, parts = split_member(metric, tally)
    filters = {"task": task} if task else {}
    if not task and parts[0] in tally.meta.get("dataset", {}):
        filters["dataset"] = parts.pop(0)
    for part in _levels(parts[0], parts[1:], tally):
        columns = sorted(tally.meta, key=lambda name: (name != "kind", name not in ("level", "task")))
        for column in columns:
            if column not in filters and part in tally.meta[column]:
                filters[column] = part
                break
    return filters


def split_member(metric: str, tally: RunTally) -> tuple[str, list[str]]:
    """Split a metric's name into its member of a suite, "" if none, and the remaining parts."""
    parts = metric.split("/")
    tasks = tally.meta.get("task", {})
    for length in range(len(parts) - 1, 0, -1):
        if (task := "/".join(parts[:length])) in tasks:
            return task, parts[length:]
    return "", parts


def _levels(head: str, parts: Sequence[str], tally: RunTally) -> Iterator[str]:
    """Yield the parts of a name; of a pair of levels the one whose answers count."""
    levels = tally.meta.get("level", {})
    for part in parts:
        cuts = [at for at, mark in enumerate(part) if mark == "-"]
        pair = next(
            ((part[:at], part[at + 1 :]) for at in cuts if part[:at] in levels and part[at + 1 :] in levels), None
        )
        yield part if pair is None or part in levels else pair[0 if head == "consistency" else 1]


def metric_link(metric: str, tally: RunTally, run: str, profile: str, filters: Mapping[str, str] | None = None) -> str:
    """Link a metric to the answers that count against it (for `invalid` and `error`: to those it counts)."""
    verdict = _VERDICT_METRICS.get(split_member(metric, tally)[1][0], NOT_RIGHT)
    return gallery_link(
        run=run, profile=profile, verdict=verdict, **meta_filters(metric_filters(metric, tally, filters))
    )
