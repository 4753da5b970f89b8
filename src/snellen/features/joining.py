"""Which pictures, and which classes, are the same where two sides call them differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

_NAMES = ("whole names", "names without ending", "file names without folder and ending")


def _keys(ids: Sequence[str], how: int) -> list[str]:
    if how == 0:
        return [str(one) for one in ids]
    paths = [PurePosixPath(str(one).replace("\\", "/")) for one in ids]
    return [str(one.with_suffix("")) if how == 1 and one.name else one.stem for one in paths]


def by_image(
    rows_of: Sequence[str], asked_of: Sequence[str]
) -> tuple[str, NDArray[np.int64], NDArray[np.int64], int, int, int]:  # fmt: skip
    """Join by names of pictures: of three ways of comparing them the strictest that joins the most.

    Args:
        rows_of: [n] what the rows' pictures are called.
        asked_of: [m] what the picture of each answer is called.

    Returns:
        How names were compared; row and number of the answer of each pair; pictures that rows alone have, that answers
        alone have, and that go by the name of several rows or of several asked pictures, which are not joined.
    """
    asked = list(dict.fromkeys(str(one) for one in asked_of))

    def compared(how: int) -> tuple[dict[str, int], dict[str, str]]:
        """Row of each name that is one row's and one asked picture's at most; and what each asked picture goes by."""
        mine, theirs = _keys(rows_of, how), _keys(asked, how)
        rows, pictures = Counter(mine), Counter(theirs)
        row = {key: number for number, key in enumerate(mine) if rows[key] == 1 and pictures[key] < 2}
        return row, dict(zip(asked, theirs, strict=True))

    ways = [compared(how) for how in range(len(_NAMES))]
    joined = [sum(key in row for key in called.values()) for row, called in ways]
    how = joined.index(max(joined)) if any(joined) else len(_NAMES) - 1  # the loosest tells what nearly met
    row, called = ways[how]
    known, there = set(_keys(rows_of, how)), set(called.values())
    pairs = [(row[key], number) for number, one in enumerate(asked_of) if (key := called[str(one)]) in row]
    ambiguous = sum(key in known and key not in row for key in called.values())
    rows, of = (np.array(side, dtype=np.int64) for side in (list(zip(*pairs, strict=True)) if pairs else ((), ())))
    return _NAMES[how], rows, of, len(known - there), len(there - known), ambiguous


def class_key(name: str) -> str:
    """A class's name as names are compared: `017.Northern_Cardinal` and `northern cardinal` are one."""
    text = str(name).strip().lower()
    number, dot, rest = text.partition(".")
    if dot and number.isdigit() and rest.strip():
        text = rest
    return " ".join(text.replace("_", " ").replace("-", " ").split())


def placed_elsewhere(
    rows_of: Sequence[str], asked_of: Sequence[str], rows: NDArray[np.int64], of: NDArray[np.int64]
) -> tuple[int, int]:
    """Joined pictures that a question places in another of the probe's classes; and those whose questions name no class
    of the probe's, but another."""
    mine = [class_key(one) for one in rows_of]
    known = set(mine)
    called = [(row, class_key(asked_of[number])) for row, number in zip(rows.tolist(), of.tolist(), strict=True)]
    met = {row for row, key in called if key in known}
    other = {row for row, key in called if key in known and key != mine[row]}
    return len(other), len({row for row, key in called if key} - met)
