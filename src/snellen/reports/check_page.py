"""The page of `snellen check --page`: questions with images, options and gold answers, which are drawn where they are regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import DataError
from snellen.reports.escape import clip, text_of_value
from snellen.reports.overlay import Area, as_html, draw_regions
from snellen.reports.render import fill_template, read_asset, write_page
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import PageLimits
from snellen.scoring.coordinates import REPLY_SPACE, SIDES, Coordinates
from snellen.scoring.grounding import GOLD_SPACE
from snellen.scoring.shapes import shapes_of
from snellen.types import Image, Sample, Text

FIRST = 12
LIMITS = PageLimits(long_side=1_000, picture_bytes=40_000_000)


def write_check_page(benchmark: Benchmark, data: Data, out: Path, reading: str, count: int = FIRST) -> Path:
    """Write the first `count` questions as one self-contained page, with how the file is read on top; return its path.

    Where gold coordinates fit several spaces, each gold answer is drawn in each of them.

    Raises:
        DataError: the data cannot be read. StorageError: the page cannot be written.
    """
    rules = None if benchmark.table is None else benchmark.table.survey(data).rules
    fits = () if rules is None else rules.gold_fits if rules.gold is None else (rules.gold,)
    album, samples = ThumbnailAlbum(LIMITS), list(islice(benchmark.samples(data), count))
    shown = [_view(sample, fits, album, restricted=benchmark.restricted) for sample in samples]
    lines = sorted(clip(reading, 2_000).split("; "), key=lambda line: not line.startswith("gold coordinates"))
    fields = {"title": clip(benchmark.name, 200), "lines": lines, "samples": shown}
    style = read_asset("report.css") + read_asset("regions.css")
    return write_page(fill_template("check.html.jinja", style, "", **fields), out)


def _view(sample: Sample, fits: Sequence[Coordinates], album: ThumbnailAlbum, *, restricted: bool) -> dict[str, Any]:
    parts = [part for part in sample.prompt.parts if not isinstance(part, Text)]
    pictures = [picture for part in parts for picture in album.add(part)][: LIMITS.pictures]
    figures = [] if restricted else list(_figures(sample, fits, album))
    return {
        "id": clip(sample.id, 200),
        "figures": figures,
        "pictures": [
            (album.uris.get(one.get("p", "")), one.get("note", ""))
            for one in pictures[any(drawn for _, drawn in figures) :]
        ],
        "texts": [clip(part.text, LIMITS.characters) for part in sample.prompt.parts if isinstance(part, Text)],
        "options": [(clip(letter, 20), clip(text, 400)) for letter, text in sample.options.items()],
        "gold": "hidden: the benchmark is restricted" if restricted else text_of_value(sample.target, 200),
    }


def _figures(sample: Sample, fits: Sequence[Coordinates], album: ThumbnailAlbum) -> Iterator[tuple[str, Any]]:
    """Yield each space with the gold answer drawn in it, or with the reason why it is not drawn."""
    for fit in fits if sample.kind in SIDES else ():
        meta = {REPLY_SPACE: str(fit), **sample.meta, GOLD_SPACE: str(fit)}
        try:
            shapes = shapes_of(structs.replace(sample, meta=meta))
        except DataError as error:
            yield f"{fit}: {error.message}", ""
            continue
        if shapes is not None and shapes.image is not None and (name := album.add(shapes.image)[0].get("p")):
            part = partial(_part, album, shapes.image)
            yield str(fit), as_html(draw_regions(shapes, album.uris[name], part))


def _part(album: ThumbnailAlbum, image: Image, area: Area) -> str | None:
    return album.uris.get(album.add_part(image, area) or "")
