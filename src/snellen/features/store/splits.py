"""Lists of images with labels: csv files of one split each, without a header.

A line is `path,label`. The last comma parts them, since paths may hold commas. A label is a class id, several ids
between blanks (an image with several labels), or the name of a class. classes.txt beside the file, where there is
one, holds the name of class i in line i, from 0. (The layout of FG-BMK's machine-oriented splits.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.features.store.columns import SPLITS
from snellen.features.store.labels import NUMBERS, from_texts
from snellen.features.store.writer import StoreRows
from snellen.sources.hub import POINTER_BYTES, fetch_hint, pointer_of

CLASSES = "classes.txt"


class _SplitFile(Struct, frozen=True):
    name: str
    path: Path
    lines: list[int]
    ids: list[str]
    labels: list[str]


def read_splits(splits: Sequence[str | Path]) -> StoreRows:
    """Read all rows of the splits, one file after the other.

    Args:
        splits: `FILE`, the split being named after the file (train.csv, cub_test.csv), or `NAME=FILE`.

    Raises:
        UsageError: two files of one split, or none at all.
        DataError: a file cannot be read, a line is not `path,label`, labels are part numbers and part names, a class
            has no name in classes.txt, or two lists of names differ. The message names file and line.
    """
    files = [_read(split) for split in splits]
    names = [file.name for file in files]
    if not files or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), "")
        raise UsageError(
            f"two files are the split {twice!r}." if twice else "no split is named.",
            "Name every split once: --split train=FILE --split test=FILE.",
        )
    known = _class_names(files)
    texts = [label for file in files for label in file.labels]
    places = [(file.path, line) for file in files for line in file.lines]

    def place(row: int) -> str:
        return f"line {places[row][1]:,} of {places[row][0]}"

    numbers = [bool(NUMBERS.fullmatch(text)) for text in texts if text.strip()]
    if any(numbers) and not all(numbers) and not (known and set(texts) <= set(known)):
        row = next(i for i, text in enumerate(texts) if text.strip() and not NUMBERS.fullmatch(text))
        raise DataError(
            f"{place(row)}: the label {texts[row]!r} is no number, and others are",
            "Files have no header; if this line is one, take it out. Labels are all ids or all names.",
        )
    labels = from_texts(texts, known, str(files[0].path.parent), place)
    return StoreRows(
        [row_id for file in files for row_id in file.ids], [file.name for file in files for _ in file.ids], labels
    )


def split_name(path: Path) -> str:
    """Return the name of a file's split: train, val or test if a word of the file name says so, else the whole name."""
    words = [SPLITS[word] for word in re.split(r"[^a-z]+", path.stem.lower()) if word in SPLITS]
    return words[0] if len(set(words)) == 1 else path.stem


def _read(argument: str | Path) -> _SplitFile:
    name, sign, rest = str(argument).partition("=")
    path = Path(rest) if sign and not Path(argument).exists() else Path(argument)
    text = _text(path, "Check --split.")
    if (pointer := pointer_of(text[:POINTER_BYTES].encode())) is not None:
        raise DataError(
            f"{path} is a pointer of Git LFS: {pointer.size_text} were not fetched",
            f"{fetch_hint(path)}. Or omit this --split, to extract the others.",
        )
    file = _SplitFile(name if path != Path(argument) else split_name(path), path, [], [], [])
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        image, comma, label = line.rpartition(",")
        if not comma or not image.strip():
            raise DataError(
                f"{path}, line {number:,}: {line[:80]!r}; `path,label` was expected",
                "One image a line, no header; the last comma parts path and label.",
            )
        file.lines.append(number)
        file.ids.append(image.strip())
        file.labels.append(label.strip())
    if not file.ids:
        raise DataError(f"{path} has no rows", "One image a line was expected: path,label.")
    return file


def _text(path: Path, hint: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", hint) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error}", "Save it as UTF-8.") from error


def _class_names(files: Sequence[_SplitFile]) -> list[str] | None:
    names_by_file: dict[Path, list[str]] = {}
    for file in files:
        path = file.path.parent / CLASSES
        if path.is_file() and path not in names_by_file:
            lines = _text(path, "It names the classes of the split beside it.").split("\n")
            while lines and not lines[-1].strip():
                lines.pop()
            names_by_file[path] = [line.strip() for line in lines]
    lists = list(names_by_file.values())
    if any(names != lists[0] for names in lists[1:]):
        raise DataError(
            f"{' and '.join(map(str, names_by_file))} name the classes differently",
            "The splits of one store share their classes. Use one classes.txt for all.",
        )
    return lists[0] if lists else None
