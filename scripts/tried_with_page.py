"""The page docs/tried-with.md: programs with versions and outcomes, figures of both sides, reasons of differences."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element

HEAD = """# Tried with

Written by `make test-external` on {day}, after {minutes:.0f} minutes ({machine}). Environments that are
there are used again: their minutes are those of their installation, most of which ran side by side. No network but
the package index is used: servers listen on loopback, data are drawn, models are untrained.

| program | versions | what is tried | tests |
|---|---|---|---|
"""
FIGURES = """
## Figures

The harness's own figure, and Snellen's by its profile of the harness, of the same replies, in percent.

| harness | model | benchmark | answers | questions | theirs | ours |
|---|---|---|---|---|---|---|
"""
REASONS = """
## Reasons

Of a figure that differs, every sample that is scored otherwise was checked to be of this kind.

"""


def page(
    programs: Mapping[str, Any], versions: Mapping[str, str], cases: Mapping[str, Sequence[Element]], minutes: float
) -> str:
    """Build the page.

    Args:
        programs: all of them; those without `versions` were not tried.
        versions: what was installed, by program.
        cases: pytest's test cases, by program.
        minutes: how long installing and testing took.
    """
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    text = HEAD.format(day=f"{datetime.now(UTC):%Y-%m-%d}", minutes=minutes, machine=machine)
    for name, program in programs.items():
        ended = outcome(cases.get(name, ())) if name in versions else "`VLMEVALKIT` names no checkout"
        text += f"| {name} | {versions.get(name, 'not tried')} | {program['about']} | {ended} |\n"
    properties = [found for each in cases.values() for case in each for found in case.iter("property")]
    figures = [json.loads(found.get("value", "")) for found in properties if found.get("name") == "figure"]
    if figures:
        text += FIGURES
    for one in sorted(figures, key=lambda one: (one["harness"], one["model"], one["benchmark"])):
        cells = [str(one[key]) for key in ("harness", "model", "benchmark", "answers", "questions")]
        text += f"| {' | '.join(cells)} | {one['theirs']:.4f} | {one['ours']:.4f} |\n"
    reasons = sorted({f"- {one['harness']}, {one['benchmark']}: {one['why']}\n" for one in figures if one["why"]})
    return text + (REASONS + "".join(reasons) if reasons else "")


def outcome(cases: Sequence[Element]) -> str:
    """Say how many tests passed, failed, and were skipped, with the reasons."""
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    if not cases:
        return ""
    words = [f"{len(cases) - sum(counts.values())} passed", *(f"{n} {kind}" for kind, n in counts.items() if n)]
    skipped = {found.get("message", "").rpartition(": ")[2] for case in cases for found in case.iter("skipped")}
    return ", ".join(words) + "".join(f" ({reason})" for reason in sorted(skipped))
