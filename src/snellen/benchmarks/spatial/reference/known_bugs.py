"""Known bugs of EASI: figures as EASI would have printed them, each bug off unless it is named.

They explain a difference to a score that somebody else got; nothing that is submitted has them. The faults lie in
known_bugs.toml, with those of single answers, which scoring profiles have, and those of judging.

Source: EASI v0.2.2 and the two harnesses, as known_bugs.toml says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from snellen.benchmarks.spatial.reference.published import Figures
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.errors import UsageError
from snellen.toml_text import packaged_toml

HALVES = ("site/image", "site/video")
"""The ids of figures over one half of SITE."""


class KnownBug(Struct, frozen=True, forbid_unknown_fields=True):
    """One fault: what it is `of` (figures, answers, judging, running), whose it is, which benchmarks it touches, and in words."""

    of: Literal["figures", "answers", "judging", "running"]
    harness: Literal["vlmevalkit", "lmms-eval", "both"]
    benchmarks: tuple[str, ...]
    text: str
    profile: str = ""


FAULTS: Mapping[str, KnownBug] = msgspec.convert(
    packaged_toml("snellen.benchmarks.spatial.reference", "known_bugs.toml"), dict[str, KnownBug]
)
"""By name."""
OF_FIGURES: tuple[str, ...] = tuple(name for name, fault in FAULTS.items() if fault.of == "figures")


def _no_score(figures: Figures) -> Figures:
    return Figures(None, dict.fromkeys(figures.parts))


def _no_parts(figures: Figures) -> Figures:
    return Figures(figures.overall, dict.fromkeys(figures.parts))


def _times_100(figures: Figures) -> Figures:
    return Figures(None if figures.overall is None else figures.overall * 100, figures.parts)


def _nan_parts(figures: Figures) -> Figures:
    levels = ("low", "middle", "high")
    return Figures(figures.overall, {key: value if key in levels else math.nan for key, value in figures.parts.items()})


def _no_categories(figures: Figures) -> Figures:
    overall_keys = ("overall", "circ_eval_overall")
    return Figures(
        figures.overall, {key: value if key in overall_keys else None for key, value in figures.parts.items()}
    )


_CHANGES: Mapping[str, Callable[[Figures], Figures]] = {
    "mmsi-video-times-100": _times_100,
    "mmsi-video-subscores-null": _no_parts,
    "spar-subscores-nan": _nan_parts,
    "3dsr-subscores-null": _no_categories,
    "3dsr-file-not-found": _no_score,
    "vsi-null": _no_score,
    "pinned-subscores-null": _no_parts,
    "site-null-when-judged": _no_score,
}


def check(names: Collection[str]) -> None:
    """Raises UsageError where one of the names is no fault of figures, saying where else it is, or what there is."""
    for name in names:
        fault = FAULTS.get(name)
        if fault is None:
            raise UsageError(f"EASI has no fault {name!r}", f"Those of figures: {', '.join(OF_FIGURES)}.")
        if fault.of == "answers":
            raise UsageError(
                f"{name} is in the scoring of single answers, and not in figures",
                f"snellen score RUN --profile {fault.profile} has it, --profile strict has it not.",
            )
        if fault.of == "running":
            raise UsageError(
                f"{name} stops a harness or changes what a model is shown, and nothing here has it",
                f"Of figures: {', '.join(OF_FIGURES)}.",
            )
        if fault.of == "judging":
            raise UsageError(
                f"{name} is in what a judge decides, and changes no figure", f"Of figures: {', '.join(OF_FIGURES)}."
            )


def with_faults(figures: Mapping[str, Figures], harness: str, names: Collection[str]) -> dict[str, Figures]:
    """Return the figures as EASI would have printed them.

    Args:
        figures: by the payload's id, as fractions; half of SITE is `site/image` or `site/video`.
        harness: vlmevalkit or lmms-eval: faults of the other one change nothing.
        names: of `OF_FIGURES`; none of them leaves everything as it is.

    Returns:
        Fractions, where a hundredfold percentage is above 1 and a figure that is no JSON is NaN. Half of SITE is left
        as it is unless `site-half` puts it in SITE's place.

    Raises:
        UsageError: see `check`.
    """
    check(names)
    changed = dict(figures)
    for name in names:
        fault = FAULTS[name]
        if fault.harness not in (harness, "both"):
            continue
        if name == "site-half":
            halves = [half for half in HALVES if half in changed]
            if len(halves) == 1 and "site" not in changed:
                changed["site"] = changed.pop(halves[0])
            continue
        for benchmark in fault.benchmarks:
            key = TASKS[benchmark].id
            if key in changed:
                changed[key] = _CHANGES[name](changed[key])
    return changed
