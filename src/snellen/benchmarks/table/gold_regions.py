"""Space and order of a column of gold boxes or points, told from the whole column and the sizes of its images.

An order fits if every box then lies in its image with its corners in order. A smaller space is taken before a larger one that
fits too if the boxes would lie in it by chance less than once in a hundred times: boxes of one image are one draw, equal boxes
too (but for pixels, the usual space), and a draw tells at most one in nine, so that three are needed (icons stand in corners). What stays open is asked for.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from msgspec import Struct, field

from snellen.benchmarks.table.column_names import plain_name
from snellen.benchmarks.table.declaration import AnswerSpace
from snellen.benchmarks.table.images import IMAGE_SUFFIXES
from snellen.benchmarks.table.operations import CellError
from snellen.errors import DataError, UsageError
from snellen.scoring.answers.video_moment import moment_names
from snellen.scoring.answers.written_regions import Region, areas_of, regions_of
from snellen.scoring.coordinates import (
    COORDINATES,
    COORDINATES_BY,
    MOST,
    MOST_ODD,
    ODD_METRIC,
    SENT,
    SPACES,
    Coordinates,
    exact,
    parse_coordinates,
)

OPTION = "gold-space"
SIZED = 300
"""Rows, at most, whose images are looked at for their sizes, chosen by what stands in them: their order does not count."""
SLACK = 1.005
"""How far a gold box may reach over the edge of its image, as annotations do."""
CHANCE, DRAW = 0.01, 0.11
MISFITS = 0.02
"""The share of the boxes that may lie otherwise: a column has faults."""
NO_SPACE = "some reach over the edges of their images"
Size: TypeAlias = tuple[int, int]
COLUMNS: Mapping[tuple[str, ...], str] = {
    ("x1", "y1", "x2", "y2"): "xyxy",
    ("xmin", "ymin", "xmax", "ymax"): "xyxy",
    ("ymin", "xmin", "ymax", "xmax"): "yxyx",
    ("left", "top", "right", "bottom"): "xyxy",
    ("left", "top", "width", "height"): "xywh",
    ("x", "y", "width", "height"): "xywh",
    ("x", "y", "w", "h"): "xywh",
    ("xcenter", "ycenter", "width", "height"): "cxcywh",
    ("cx", "cy", "w", "h"): "cxcywh",
}
"""Names of four columns that hold a box, as `plain_name` writes them, and their order."""
_KEYED = {"corners": "xyxy", "sized": "xywh", "centre": "xyxy"}


class GoldRegions(Struct):
    """Gold boxes and points of a column, with the sizes of the images of some rows; `order` where column names say it."""

    order: str = ""
    regions: list[tuple[Region, Size | None]] = field(default_factory=list)
    draws: list[tuple[int, str]] = field(default_factory=list)
    images: int = 0
    masks: int = 0
    level: int = 0
    alike: Counter[int] = field(default_factory=Counter)

    def add(self, cell: Any, size: Callable[[], Size | None], image: str = "", row: str = "") -> None:
        """Add the regions of a gold cell, if it holds some; `size` is called for a sample, chosen by the text of the row."""
        if not may_hold_regions(cell):
            return
        if ({"size", "counts"} <= cell.keys()) if isinstance(cell, dict) else '"counts"' in cell or _is_file(cell):
            self.masks += 1
            return
        found = [one for one in regions_of(cell) if len(one.numbers) in (2, 4) and None not in one.numbers]
        parts = [] if found else [part for area in areas_of(cell) for part in area if None not in part.numbers]
        found += [
            one._replace(numbers=one.numbers[at : at + 2]) for one in parts for at in range(0, len(one.numbers) - 1, 2)
        ]
        if not found:
            return
        text = zlib.crc32(f"{cell} {row or len(self.draws)}".encode(errors="replace"))
        self.alike[text] += 1
        draw = zlib.crc32(f"{text} {self.alike[text]}".encode())
        known = size() if draw % (1 << self.level) == 0 else None
        self.images += known is not None
        self.regions += [(one, known) for one in found]
        self.draws += [(draw, image or str(draw))] * len(found)
        while self.images > SIZED and self.level < SIZED.bit_length():
            self.level += 1
            kept = [draw % (1 << self.level) == 0 for draw, _ in self.draws]
            self.regions = [
                (one, size if is_kept else None) for (one, size), is_kept in zip(self.regions, kept, strict=True)
            ]
            self.images = len({draw for (draw, _), (_, size) in zip(self.draws, self.regions, strict=True) if size})

    def fits(self) -> tuple[Coordinates, ...]:
        """Return the spaces and orders that fit the column, one if it tells; none where no image has a size."""
        if self.masks and not self.regions:
            return (Coordinates("pixel"),)
        if not self.images:
            return ()
        boxes = [one for one in self.regions if len(one[0].numbers) == 4]
        spaces = [
            space for space in (*MOST, "pixel") if self._fitting(Coordinates(space), self.regions, bounds_only=True)
        ]
        spaces = [space for space in spaces if not any(self._is_by_chance(other, space) for other in spaces)]
        fitting = []
        for space in spaces:
            usual = ("xyxy", "xywh", "cxcywh") if space == "unit" else ("xyxy", "xywh")
            likely = (self.order,) if self.order else usual
            orders = [order for order in likely if self._fitting(Coordinates(space, order), boxes)]
            if not orders and not self.order:
                orders = [order for order in ("cxcywh", "yxyx") if self._fitting(Coordinates(space, order), boxes)]
            fitting += [Coordinates(space, order) for order in orders[: None if boxes else 1]]
        return tuple(fitting)

    def open_question(self, fits: tuple[Coordinates, ...], chosen: str) -> tuple[tuple[Coordinates, ...], str]:
        """Return what is asked for where not one space fits, and the note on it; nothing where no image has a size.

        Raises:
            DataError: boxes or points of replies are read in a space, `chosen`, which needs the sizes of the images.
        """
        if not self.images:
            if chosen:
                raise DataError(
                    f"boxes and points are read as {chosen}, which needs the sizes of the images, and none was found",
                    "Name the folder of the images: --images PATH.",
                )
            return (), ""
        named = " and ".join(map(self.written, fits))
        fits, said = (fits, f"could be {named}") if fits else ((Coordinates("pixel"),), f"fit no space: {NO_SPACE}")
        return fits, f"gold coordinates {said}: say which, as in --gold-space {self.written(fits[0])}"

    def written(self, where: Coordinates) -> str:
        """Return a space with the order of its numbers, of points alone as xy or yx."""
        is_box = any(len(one.numbers) == 4 for one, _ in self.regions)
        return str(where) if is_box else f"{where.space}:{'yx' if where.y_first else 'xy'}"

    def _fitting(
        self, where: Coordinates, regions: Sequence[tuple[Region, Size | None]], *, bounds_only: bool = False
    ) -> bool:
        """Return True if (nearly) all regions, of known images in pixels, lie in their images; with `bounds_only` in any order."""
        if where.space not in MOST:
            regions = [one for one in regions if one[1] is not None]
        return self._misfits(where, regions, bounds_only=bounds_only) <= MISFITS * len(regions)

    def require_fit(self, where: Coordinates, option: str) -> str:
        """Return a warning where many boxes and points cannot be written in a named space and order; empty without.

        Raises:
            UsageError: most of them cannot.
        """
        misfits = self._misfits(where, self.regions)
        numbers = [number for one, _ in self.regions for number in one.numbers if number is not None]
        tiny = where.space not in ("unit", "percent") and numbers and 0 < max(numbers) < 1
        found = f"{misfits:,} of {len(self.regions):,} reach over their images or are inverted in it"
        if not tiny and 2 * misfits <= len(self.regions):
            return (
                f"{ODD_METRIC}: of the gold boxes or points {found}" if misfits > MOST_ODD * len(self.regions) else ""
            )
        fits = [str(one) for one in self.fits() if one != where]
        raise UsageError(
            f"{option} {where}: the gold boxes or points are in another space: {'no number is above 1' if tiny else found}; "
            f"{SPACES[where.space]} was expected, as {where.box_form}",
            f"The column fits {' and '.join(fits)}: {option} {fits[0]}."
            if fits
            else f"Correct the column, or {option}.",
        )

    def _misfits(
        self, where: Coordinates, regions: Sequence[tuple[Region, Size | None]], *, bounds_only: bool = False
    ) -> int:
        misfits = 0
        for region, size in regions:
            order = _KEYED.get(region.form)
            numbers = [number for number in region.numbers if number is not None]
            corners = numbers if bounds_only else (Coordinates(where.space, order) if order else where).corners(numbers)
            sides = (MOST[where.space],) * 2 if where.space in MOST else size
            if bounds_only and sides is not None:
                sides = (max(sides), max(sides))
            is_within = all(number >= 0 for number in corners) and (
                sides is None or all(number <= SLACK * sides[at % 2] for at, number in enumerate(corners))
            )
            is_box = len(corners) == 2 or bounds_only or (corners[0] < corners[2] and corners[1] < corners[3])
            misfits += not (is_within and is_box)
        return misfits

    def _is_by_chance(self, small: str, large: str) -> bool:
        """Return True if regions of the larger space would hardly all lie in the smaller one; pixels are the usual space."""
        total, by_image = 0.0, dict[str, float]()
        by_box: dict[tuple[Any, ...], float] = {}
        least = math.log(DRAW) if small in ("percent", "thousand") else -math.inf
        for (one, size), (_, image) in zip(self.regions, self.draws, strict=True):
            extents = [(MOST[space],) * 2 if space in MOST else size for space in (small, large)]
            if extents[0] is not None and extents[1] is not None:
                shares = (math.log(min(1.0, few / many)) for few, many in zip(*extents, strict=True))
                chance = max(least, sum(shares))
                total += chance
                by_image[image] = max(chance, by_image.get(image, -math.inf))
                by_box[tuple(one.numbers)] = max(chance, by_box.get(tuple(one.numbers), -math.inf))
        told = total if small == "pixel" else max(sum(by_image.values()), sum(by_box.values()))
        return told < math.log(CHANCE)


def spaces_of(
    regions: GoldRegions, options: Mapping[str, str], declared: AnswerSpace, notes: list[str], form: str = ""
) -> dict[str, Any]:
    """Return in which spaces gold boxes and replies are read, by the names of `TableRules`; note what the column says.

    `form` is the space that the form of the file says.

    Raises:
        DataError, UsageError: see `GoldRegions.open_question` and `require_fit`.
    """
    option = f"--{OPTION}" if options.get(OPTION) else "[answer] gold"
    named = options.get(OPTION) or declared.gold or form
    gold = parse_coordinates(named, option) if named else None
    chosen = options.get(COORDINATES, "")
    fits = regions.fits() if gold is None else ()
    if gold is not None:
        notes += filter(None, [regions.require_fit(gold, option)])
    elif len(fits) == 1:
        gold = fits[0]
    if regions.regions and gold is not None:
        notes.append(f"gold coordinates are {regions.written(gold)} ({SPACES[gold.space]})")
    elif regions.regions:
        fits, said = regions.open_question(fits, chosen)
        notes += [said] if said else []
    return {
        "gold": gold,
        "gold_fits": fits if gold is None else (),
        "coordinates": parse_coordinates(chosen) if chosen else None,
        "asks_space": bool(chosen) and not options.get(COORDINATES_BY, "").startswith("family"),
        "sent_size": options.get(SENT, ""),
    }


def draw_of(row: Mapping[str, Any], spec: object) -> tuple[str, str]:
    """Return the name of the image of a row, and the short texts and numbers in it, by which a sample is chosen."""
    named = row.get(spec) if isinstance(spec, str) else None
    named = named.get("path") if isinstance(named, dict) else named
    cells = [one for one in row.values() if isinstance(one, (int, float)) or (isinstance(one, str) and len(one) < 1000)]
    return named[-1000:] if isinstance(named, str) else "", repr(cells)


def box_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the four columns that hold a box by their names; empty where there are none."""
    by_name = {plain_name(column): column for column in columns}
    named = next((names for names in COLUMNS if by_name.keys() >= {*names}), ())
    return tuple(by_name[name] for name in named)


def moment_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the two columns that hold the start and the end of a moment by their names; empty where there are none."""
    by_name = {name: column for column in columns if (name := plain_name(column)) not in ("from", "to")}
    return tuple(by_name[name] for name in moment_names(by_name) or ())


def order_of_columns(spec: object) -> str:
    """Return the order that the names of the columns of an answer say; empty where they say none."""
    return COLUMNS.get(tuple(map(plain_name, spec)), "") if isinstance(spec, tuple) else ""


def may_hold_regions(cell: Any) -> bool:
    """Return True for a cell whose first character, or whose type, is that of coordinates, and for the name of a mask's file."""
    if not isinstance(cell, str):
        return isinstance(cell, (list, tuple, dict))
    return cell.lstrip()[:1] in ("[", "(", "{", "<") or _is_file(cell)


def _is_file(cell: Any) -> bool:
    return isinstance(cell, str) and cell.lower().endswith(IMAGE_SUFFIXES)


def joined_columns(
    read: Callable[[Mapping[str, Any], int], Any], spec: object
) -> Callable[[Mapping[str, Any], int], Any]:
    """Return what reads an answer from two or four columns of numbers as one cell; any other reader as it is."""
    if not isinstance(spec, tuple) or len(spec) not in (2, 4):
        return read

    is_box, moment = bool(order_of_columns(spec)), moment_columns(spec)

    def joined(row: Mapping[str, Any], number: int) -> Any:
        cells = read(row, number)
        if moment:
            return dict(
                zip(
                    ("start_frame", "end_frame") if "frame" in moment[0].lower() else ("start", "end"),
                    cells,
                    strict=True,
                )
            )
        numbers = [exact(cell) for cell in cells]
        if None in numbers and is_box:
            name, cell = next((name, cell) for name, cell, one in zip(spec, cells, numbers, strict=True) if one is None)
            raise CellError(f"its box has no number as {name!r}: {str(cell)[:40]!r}")
        return [_plain(one) for one in numbers if one is not None] if None not in numbers else cells

    return joined


def _plain(number: Fraction) -> float | int:
    return int(number) if number.denominator == 1 else float(number)
