"""Labelled images: rows of (image, label) from a table or from folder names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from snellen.errors import DataError
from snellen.questions.taxonomy import Homonyms, Taxonomy, TaxonomyLine, from_lines, key, spelled, without_number
from snellen.questions.taxonomy_readers import RANKS
from snellen.sources import Tree, member_name
from snellen.sources.safe_paths import regular_file

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
HEADINGS = ("image", "path", "file", "filename", "img")


class Images(NamedTuple):
    """Images and their labels, one for each row.

    Attributes:
        source: the file or folder that they are from.
        names: [n] paths under --images.
        labels: [n] labels as they stand there; an index into a list of classes is resolved.
        rows: [n] row numbers, from 1.
        word: what a row is called in messages (`line` of a file, `image` of a folder).
    """

    source: str
    names: list[str]
    labels: list[str]
    rows: list[int]
    word: str

    def where(self, at: int) -> str:
        """Return file and row of an image, for messages."""
        name = "" if self.word == "line" else f" ({self.names[at]})"
        return f"{self.source}, {self.word} {self.rows[at]:,}{name}"


def read_classes(path: Path) -> list[str]:
    """Read class names by index, one for each line; the first line is index 0."""
    regular_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: it is not UTF-8: {error}", "Save the file as UTF-8.") from error
    while lines and not lines[-1].strip():
        lines.pop()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise DataError(f"{path}, line {number:,}: it is empty", "One name a line; the first has index 0.")
    return [line.strip() for line in lines]


def read_rows(path: Path, classes: Sequence[str] | None = None) -> Images:
    """Read (image, label) rows from CSV or TSV. The last comma (or tab) separates them, so image names may hold commas.

    A first line whose image is called `image`, `path` or `file` is a heading.

    Args:
        path: the table.
        classes: names by index, where labels are indices.

    Raises:
        DataError: a row without a label, an index that is not there, an image twice; with file and line.
    """
    regular_file(path)
    mark = "\t" if path.suffix.lower() == ".tsv" else ","
    names: list[str] = []
    labels: list[str] = []
    rows: list[int] = []
    with path.open(encoding="utf-8-sig", newline=None) as lines:
        try:
            for number, line in enumerate(lines, 1):
                name, separator, label = line.rstrip("\n").rpartition(mark)
                if not line.strip() or (number == 1 and name.strip().casefold() in HEADINGS):
                    continue
                where = f"{path}, line {number:,}"
                name, label = _unquoted(name), _unquoted(label)
                if not separator or not name or not label:
                    raise DataError(f"{where}: {line.strip()!r} found; image{mark}label expected")
                names.append(member_name(name, where))
                labels.append(_resolved(label, classes, where))
                rows.append(number)
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: it is not UTF-8: {error}", "Save the file as UTF-8.") from error
    return _once(Images(str(path), names, labels, rows, "line"))


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1].replace('""', '"') if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _resolved(label: str, classes: Sequence[str] | None, where: str) -> str:
    if classes is None:
        return label
    if label.isdigit():
        if int(label) >= len(classes):
            raise DataError(
                f"{where}: the label {label} is beyond the {len(classes):,} classes (0 to {len(classes) - 1})"
            )
        return classes[int(label)]
    if label not in classes:
        raise DataError(f"{where}: the label {label!r} is not among the {len(classes):,} classes")
    return label


def read_folders(tree: Tree) -> Images:
    """Read images from a tree with a folder for each class; the label is the name of the image's folder.

    Hidden files, and files that lie at the top, are passed over.

    Raises:
        DataError: no class folder, a file in one that is no image by its name.
    """
    names: list[str] = []
    labels: list[str] = []
    for name in tree.names():
        path = PurePosixPath(name)
        if any(part.startswith(".") for part in path.parts):
            continue
        if len(path.parts) == 1:
            if path.suffix.lower() in PICTURES:
                raise DataError(f"{tree.path}: {name} is not in a class folder", "Move it into one, or give --rows.")
            continue
        if path.suffix.lower() not in PICTURES:
            raise DataError(
                f"{tree.path}, image {len(names) + 1:,}: {name!r} is not an image (by its name)",
                "Move it out of the class folders, or list the images with --rows.",
            )
        names.append(name)
        labels.append(path.parts[-2])
    if not names:
        raise DataError(f"{tree.path}: there are no class folders with images", "List the images with --rows.")
    return Images(str(tree.path), names, labels, list(range(1, len(names) + 1)), "image")


def _once(images: Images) -> Images:
    if not images.names:
        raise DataError(f"{images.source}: there are no rows", "Each is image,label.")
    first_rows: dict[str, int] = {}
    for at, name in enumerate(images.names):
        first = first_rows.setdefault(name, at)
        if first != at:
            raise DataError(
                f"{images.where(at)}: {name!r} is listed twice, first in {images.word} {images.rows[first]:,}",
                "Each image has one row and one label.",
            )
    return images


def flat(images: Images, level: str, classes: Sequence[str] | None = None) -> Taxonomy:
    """Build a taxonomy of one level: the labels, and the classes without images."""
    lines = [TaxonomyLine(images.where(at), (without_number(label),)) for at, label in enumerate(images.labels)]
    lines += [TaxonomyLine(images.source, (name,)) for name in classes or ()]
    return from_lines((level,), lines, images.source)


def by_folders(images: Images, levels: Sequence[str], homonyms: Homonyms = "error") -> Taxonomy:
    """Build a taxonomy from the last folders of each image path: `birds/gulls/herring gull/1.jpg`."""

    def lines() -> Iterator[TaxonomyLine]:
        for at, name in enumerate(images.names):
            folders = name.split("/")[:-1]
            if len(folders) < len(levels):
                raise DataError(
                    f"{images.where(at)}: {name!r} lies in {len(folders)} folders; {len(levels)} "
                    f"({', '.join(levels)}) were expected",
                )
            yield TaxonomyLine(images.where(at), tuple(map(without_number, folders[-len(levels) :])))

    return from_lines(levels, lines(), f"the folders of {images.source}", homonyms=homonyms)


def by_inaturalist(
    images: Images, levels: Sequence[str] | None, homonyms: Homonyms = "error"
) -> tuple[Taxonomy, Images]:
    """Build a taxonomy from iNaturalist folder names: `00123_Animalia_Chordata_Aves_..._Larus_canus`.

    The species is genus and epithet. Returns the taxonomy and the images labelled by species.

    Raises:
        DataError: a folder of another form, a level that is no Linnean rank.
    """
    wanted = tuple(levels or RANKS)
    odd = [level for level in wanted if level not in RANKS]
    if odd or wanted[-1] != "species" or sorted(wanted, key=RANKS.index) != list(wanted):
        raise DataError(
            f"--levels {','.join(wanted)}: some of {', '.join(RANKS)} were expected, in this order, to species"
        )
    lines: dict[str, TaxonomyLine] = {}
    labels: list[str] = []
    for at, name in enumerate(images.names):
        folder = name.split("/")[-2] if "/" in name else ""
        parts = folder.split("_")
        if len(parts) != 1 + len(RANKS) or not parts[0].isdigit():
            raise DataError(
                f"{images.where(at)}: the folder {folder!r} is not of the form 00123_Kingdom_..._Genus_epithet",
                "For sets other than iNaturalist, give a table with --taxonomy FILE.",
            )
        species = f"{parts[6]} {parts[7]}"
        path = dict(zip(RANKS, [*parts[1:7], species], strict=True))
        lines.setdefault(folder, TaxonomyLine(images.where(at), tuple(path[level] for level in wanted)))
        labels.append(species)
    taxonomy = from_lines(wanted, lines.values(), f"the folders of {images.source}", homonyms=homonyms)
    return taxonomy, images._replace(labels=labels)


def by_last_word(names: Sequence[str], levels: Sequence[str], source: str) -> Taxonomy:
    """Build two levels: the last word of a name, and the name (`black footed albatross` is an `albatross`)."""
    if len(levels) != 2:
        raise DataError(f"--levels {','.join(levels)}: the last word of the name makes two levels", "Name two.")
    lines = [
        TaxonomyLine(source, (key(spelled(without_number(name))).split()[-1], without_number(name))) for name in names
    ]
    note = f"The level {levels[0]!r} is the last word of the name: a pseudo-genus, and no taxon."
    return from_lines(levels, lines, source, note=note)
