"""Matching the images and classes of a feature store with those of a run's answers, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

_NAMES = ("whole names", "names without ending", "file names without folder and ending")


def _keys(ids: Sequence[str], way: int) -> list[str]:
    if way == 0:
        return [str(name) for name in ids]
    paths = [PurePosixPath(str(name).replace("\\", "/")) for name in ids]
    return [str(path.with_suffix("")) if way == 1 and path.name else path.stem for path in paths]


def join_by_image(
    rows_of: Sequence[str], image_of_answer: Sequence[str]
) -> tuple[str, NDArray[np.int64], NDArray[np.int64], int, int, int]:  # fmt: skip
    """Join rows and answers by image name, with the strictest of three comparisons that joins the most.

    Args:
        rows_of: [n] names of the rows' images.
        image_of_answer: [m] name of each answer's image.

    Returns:
        How names were compared; row and number of the answer of each pair; images that rows alone have, that answers
        alone have, and that go by the name of several rows or of several asked images, which are not joined.
    """
    images = list(dict.fromkeys(str(name) for name in image_of_answer))

    def compared(way: int) -> tuple[dict[str, int], dict[str, str]]:
        """Return the row of each unambiguous key, and the key of each image asked about."""
        row_keys, image_keys = _keys(rows_of, way), _keys(images, way)
        row_counts, image_counts = Counter(row_keys), Counter(image_keys)
        row = {key: number for number, key in enumerate(row_keys) if row_counts[key] == 1 and image_counts[key] < 2}
        return row, dict(zip(images, image_keys, strict=True))

    ways = [compared(way) for way in range(len(_NAMES))]
    joined = [sum(key in row for key in called.values()) for row, called in ways]
    way = joined.index(max(joined)) if any(joined) else len(_NAMES) - 1  # the loosest tells what nearly met
    row, called = ways[way]
    row_keys, answer_keys = set(_keys(rows_of, way)), set(called.values())
    pairs = [(row[key], number) for number, image in enumerate(image_of_answer) if (key := called[str(image)]) in row]
    ambiguous = sum(key in row_keys and key not in row for key in called.values())
    rows, of = (np.array(side, dtype=np.int64) for side in (list(zip(*pairs, strict=True)) if pairs else ((), ())))
    return _NAMES[way], rows, of, len(row_keys - answer_keys), len(answer_keys - row_keys), ambiguous


def class_key(name: str) -> str:
    """Normalise a class name for comparison: `017.Northern_Cardinal` and `northern cardinal` are one."""
    text = str(name).strip().lower()
    number, dot, rest = text.partition(".")
    if dot and number.isdigit() and rest.strip():
        text = rest
    return " ".join(text.replace("_", " ").replace("-", " ").split())


def count_misplaced(
    rows_of: Sequence[str], class_of_answer: Sequence[str], rows: NDArray[np.int64], of: NDArray[np.int64]
) -> tuple[int, int]:
    """Count joined images that a question assigns to another of the probe's classes, and those whose questions name
    only classes unknown to the probe."""
    row_classes = [class_key(name) for name in rows_of]
    known = set(row_classes)
    called = [(row, class_key(class_of_answer[number])) for row, number in zip(rows.tolist(), of.tolist(), strict=True)]
    met = {row for row, key in called if key in known}
    other = {row for row, key in called if key in known and key != row_classes[row]}
    return len(other), len({row for row, key in called if key} - met)
