"""Labelled images: rows of (image, label) from a table or from folder names.

Images of a set: check that they exist and are images, and write anonymous copies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from snellen.errors import DataError, MediaError
from snellen.media import Header, open_image, read_header
from snellen.questions.taxonomy import Homonyms, Taxonomy, TaxonomyLine, from_lines, key, spelled, without_number
from snellen.questions.taxonomy_readers import RANKS
from snellen.sources import BytesBlob, Tree, member_name
from snellen.sources.safe_paths import regular_file
from snellen.types import DECODED_SUFFIXES, Image, MediaSettings

HEAD_BYTES = 1 << 16
ENDINGS = {"jpeg": ".jpg", "png": ".png"}
# JPEG segments that are kept: those that decoding needs, JFIF (APP0), ICC profiles (APP2) and Adobe's colours (APP14).
_DROPPED_JPEG = frozenset({0xE1, *range(0xE3, 0xEE), 0xEF, 0xFE})
_KEPT_PNG = frozenset(
    {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"bKGD"}
)


def check_images(images: Images, tree: Tree) -> list[str]:
    """Return the format of each image by its first bytes; nothing is decoded.

    Raises:
        DataError: one is missing or is no image; with file and row.
    """
    return [_kind(images, at, tree) for at in range(len(images.names))]


def _kind(images: Images, at: int, tree: Tree) -> str:
    name, where = images.names[at], images.where(at)
    if not tree.exists(name):
        raise DataError(f"{where}: there is no image {name!r} in {tree.path}", "Check --images, or remove the row.")
    with tree.open(name) as stream:
        data = stream.read(HEAD_BYTES)
        header = read_header(data)
        if header is None and len(data) == HEAD_BYTES:  # a long Exif block stands before the size
            header = read_header(data + stream.read())
    if header is None:
        raise DataError(f"{where}: {name!r} is not an image ({len(data):,} bytes were looked at)", "Remove the row.")
    return header.format


def neutral_names(order: Sequence[int], images: Images, kinds: Sequence[str] | None, copied: bool) -> list[str]:
    """Build neutral file names in image order: a zero-padded number (six digits or more) and a suffix."""
    width = max(6, len(str(len(order))))
    names = []
    for number, at in enumerate(order, 1):
        if copied and kinds is not None:
            ending = ENDINGS.get(kinds[at], ".png")
        else:
            ending = PurePosixPath(images.names[at]).suffix.lower() or ".jpg"
        names.append(f"{number:0{width}d}{ending}")
    return names


def copy_images(images: Images, order: Sequence[int], names: Sequence[str], tree: Tree, to: Path) -> None:
    """Write stripped copies under neutral names.

    Raises:
        DataError: an image cannot be decoded; with file and row.
    """
    to.mkdir()
    for at, name in zip(order, names, strict=True):
        try:
            data = strip_metadata(tree.read(images.names[at]), images.names[at])
        except MediaError as error:
            raise DataError(f"{images.where(at)}: {error.message}", error.hint) from error
        (to / name).write_bytes(data)


def strip_metadata(data: bytes, name: str) -> bytes:
    """Return an image without Exif, XMP, IPTC, comments, texts and trailing bytes.

    JPEG and PNG that stand upright keep their very pixels. Others (WebP, GIF, BMP, TIFF; an image that Exif turns) are
    decoded, turned and written as PNG, or JPEG of quality 95 where they were JPEG.
    """
    header = read_header(data)
    if header is None:
        raise MediaError(f"{name!r} is not an image", "Remove it.")
    if header.orientation == 1 and header.complete and header.format in ("jpeg", "png"):
        try:
            return b"".join(_jpeg(data) if header.format == "jpeg" else _png(data))
        except (IndexError, ValueError, struct.error):
            return _reencode(data, header, name)  # segments that contradict each other: a decoder has to show
    return _reencode(data, header, name)


def _jpeg(data: bytes) -> Iterator[bytes]:
    yield data[:2]
    at = 2
    while True:
        if data[at] != 0xFF:
            at = data.index(b"\xff", at)
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            yield data[at : at + 2]
            at += 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker not in _DROPPED_JPEG and not (marker == 0xE2 and data[at + 4 : at + 15] != b"ICC_PROFILE"):
            if marker == 0xDA:
                yield data[at : _end_of_jpeg(data, at)]
                return
            yield data[at : at + 2 + length]
        at += 2 + length


def _end_of_jpeg(data: bytes, scan: int) -> int:
    """Return the offset just after the end marker of the image whose first scan begins at `scan`."""
    at = scan
    while True:
        at = data.index(b"\xff", at)
        marker = data[at + 1]
        if marker == 0xD9:
            return at + 2
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD7:
            at += 1 if marker == 0xFF else 2
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + length


def _png(data: bytes) -> Iterator[bytes]:
    yield data[:8]
    at = 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        if kind in _KEPT_PNG:
            yield data[at : at + 12 + length]
        at += 12 + length
        if kind == b"IEND":
            return


def _reencode(data: bytes, header: Header, name: str) -> bytes:
    from PIL import Image as pillow

    picture = open_image(Image(BytesBlob(name, data)), MediaSettings())
    out = BytesIO()
    clean = pillow.frombytes(picture.mode, picture.size, picture.tobytes())  # pixels alone
    if header.format == "jpeg":
        clean.save(out, "JPEG", quality=95, subsampling=0)
    else:
        clean.save(out, "PNG")
    return out.getvalue()


def has_metadata(data: bytes) -> bool:
    """Return True if a JPEG or PNG carries Exif, XMP, a comment or a text."""
    header = read_header(data)
    if header is None or header.format not in ("jpeg", "png"):
        return False
    stripped_bytes = b"".join(_jpeg(data) if header.format == "jpeg" else _png(data))
    return len(stripped_bytes) < len(data)


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
            if path.suffix.lower() in DECODED_SUFFIXES:
                raise DataError(f"{tree.path}: {name} is not in a class folder", "Move it into one, or give --rows.")
            continue
        if path.suffix.lower() not in DECODED_SUFFIXES:
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
