"""In which space a run's boxes and points are read: decided before its first request, recorded, and never told from a reply."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark
from snellen.engine.run_folder import RunFolder, RunMeta, RunSpec
from snellen.errors import UsageError
from snellen.models.coordinates import CoordinateFamily, family_of
from snellen.scoring.coordinates import (
    COORDINATES,
    COORDINATES_BY,
    ODD_METRIC,
    SENT,
    SIDES,
    Coordinates,
    SentSize,
    parse_coordinates,
)
from snellen.types import MediaSettings, Metric

BY_OPTION, BY_BENCHMARK, BY_PROMPT, BY_FAMILY = "--coordinates", "the benchmark's prompt", "the prompt", "family"
BY_DEFAULT = "the default, since the prompt's own words do not say it (--coordinates)"
SETTINGS = (COORDINATES, COORDINATES_BY, SENT)
ASKED = Coordinates("thousand")
"""What the prompt asks for where nothing else decides."""


def with_coordinates(spec: RunSpec, benchmark: Benchmark, folder: RunFolder | None = None) -> RunSpec:
    """Return the spec with the space of its boxes and points; as it is for a benchmark without, and for a run begun without.

    The order of decision: the option, what the benchmark's prompt asks for, the model's family, else the prompt asks for
    `thousand` with x first.

    Raises:
        UsageError: the gold answers fit several spaces, or nothing says how images are resized for `sent-pixel`.
    """
    options = spec.data.options
    if benchmark.table is None or (COORDINATES not in options and folder is not None and _begun_without(folder)):
        return spec
    if COORDINATES in options and COORDINATES_BY in options and options[COORDINATES_BY] != BY_OPTION:
        return spec
    from snellen.benchmarks.table.gold_regions import NO_SPACE
    from snellen.benchmarks.table.gold_regions import OPTION as GOLD_OPTION

    surveyed = benchmark.table.survey(spec.data)
    rules = surveyed.rules
    if not SIDES.keys() & surveyed.kinds.keys():
        if COORDINATES in options:
            raise UsageError(
                f"{benchmark.name}: --coordinates has no effect, since no answer is a box or a point",
                f"Omit it, or say what its answers are: --kind box. They are now: {', '.join(surveyed.kinds)}.",
            )
        return spec
    if rules.gold is None:
        if rules.gold_fits:
            fits = " and ".join(map(str, rules.gold_fits))
            several = f"could be {fits}: all of them fit the images"
            which = several if len(rules.gold_fits) > 1 else f"fit no space: {NO_SPACE}"
            raise UsageError(
                f"{benchmark.name}: the gold boxes or points {which}",
                f"Say which: --{GOLD_OPTION} {rules.gold_fits[0]}. No request was sent.",
            )
        if COORDINATES in options:
            raise UsageError(
                f"{benchmark.name}: --coordinates needs the space of the gold answers, which no image tells",
                f"Name it: --{GOLD_OPTION} pixel:xyxy, or the folder of the images: --images PATH.",
            )
        return spec
    where, by = _decided(spec, benchmark)
    by = BY_DEFAULT if by == BY_PROMPT and not rules.asks_regions else by
    settings = {COORDINATES: str(where), COORDINATES_BY: by}
    if where.space == "sent-pixel":
        settings[SENT] = _sent_size(spec)
    return structs.replace(spec, data=structs.replace(spec.data, options={**options, **settings}))


def _decided(spec: RunSpec, benchmark: Benchmark) -> tuple[Coordinates, str]:
    """Return space and order, and what decides them."""
    if (text := spec.data.options.get(COORDINATES)) is not None:
        return parse_coordinates(text), BY_OPTION
    if benchmark.table is not None and (space := benchmark.table.declaration.answer.space):
        return parse_coordinates(space, "[answer] space"), BY_BENCHMARK
    if (family := _family(spec)) is not None:
        return family[1].form, f"{BY_FAMILY} {family[0]}"
    return ASKED, BY_PROMPT


def _sent_size(spec: RunSpec) -> str:
    """Return what decides the size of images as the model received them. Raises UsageError where nothing does."""
    media, family = spec.options.media, _family(spec)
    resize = None if family is None else family[1].resize
    if any(word in media.corrupt for word in ("downscale", "square")):
        raise UsageError(
            f"--coordinates sent-pixel: --corrupt {media.corrupt} changes the size of images",
            "Omit one of the two: a box in such pixels would be read as one of the whole image.",
        )
    limits = MediaSettings(
        max_long_side=media.max_long_side,
        max_pixels=media.max_pixels,
        min_pixels=media.min_pixels,
        resize=media.resize,
    )
    if resize is None and limits == MediaSettings():
        raise UsageError(
            f"--coordinates sent-pixel: nothing says to which size {spec.model} resizes images",
            "Send them at a size that it takes as it is: --max-long-side PIXELS or --max-pixels PIXELS.",
        )
    return msgspec.json.encode(SentSize(limits, resize)).decode()


def _family(spec: RunSpec) -> tuple[str, CoordinateFamily] | None:
    """Return the family of a run's model; None for replayed answers, whose path says nothing of it."""
    return None if spec.model.startswith("replay:") else family_of(spec.model)


def _begun_without(folder: RunFolder) -> bool:
    """Return True for a run that was begun before the space of replies was recorded."""
    return folder.exists() and COORDINATES not in folder.meta().spec.data.options


def chosen(spec: RunSpec) -> dict[str, str]:
    """Return the settings of a run that say in which space its boxes and points are read; empty for a run without."""
    return {name: text for name in SETTINGS if (text := spec.data.options.get(name)) is not None}


def reread(folder: RunFolder, meta: RunMeta) -> RunMeta:
    """Return the meta with the space in which the run was scored last: `snellen score RUN --coordinates` changes it."""
    if COORDINATES not in meta.spec.data.options:
        return meta
    try:
        saved = msgspec.json.decode(folder.summary.read_bytes(), type=_ScoredSpace).coordinates
    except (OSError, ValueError, RecursionError):
        return meta
    data = structs.replace(meta.spec.data, options={**meta.spec.data.options, **saved})
    return structs.replace(meta, spec=structs.replace(meta.spec, data=data))


class _ScoredSpace(Struct):
    coordinates: dict[str, str] = {}


def odd_line(metrics: Iterable[Metric]) -> str:
    """Return the warning that a run's coordinates are in another space than they are read in; empty without a sign of it."""
    odd = next((metric.value for metric in metrics if metric.name == ODD_METRIC and metric.value is not None), None)
    if odd is None:
        return ""
    return (
        f"{ODD_METRIC}: {odd:.0%} of the replies with coordinates lie outside of the image, are inverted or hold no number "
        "above 1: read them in another space with snellen score RUN --coordinates SPACE[:ORDER]"
    )


def coordinates_line(spec: RunSpec) -> str:
    """Return in which space the boxes and points of a run are read, and why; empty for a run without."""
    options = spec.data.options
    if COORDINATES not in options:
        return ""
    by = options.get(COORDINATES_BY, BY_OPTION)
    reason = f"the prompt asks for it, as nothing else decides (--{COORDINATES})" if by == BY_PROMPT else f"by {by}"
    return f"boxes and points are read as {options[COORDINATES]}: {reason}"
