"""What drawn data holds and what is shown of it: the parts of prompts, and texts of the further benchmarks' questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from benchmarks.spatial.official_drawn import SIDES

Row = dict[str, Any]
TEXT = pa.string()
LETTERED = [f"{letter}. {side}" for letter, side in zip("ABCD", SIDES, strict=True)]
LINES = "\n".join(LETTERED)
JSON_REQUEST = (
    'Output the point coordinates in JSON format.\nFor example:\n[\n  {"point_2d": [x, y], "label": "point_1"}\n]\n'
)
DIRECT = "Answer with the option's letter from the given choices directly."
STARE_END = (
    "Answer with the option's letter from the given choices and put the letter in one <answer> answer </answer>\n"
    "Please ensure that your output only contains the final answer (a single option letter) without any additional content "
    "(such as intermediate reasoning steps)."
)


@dataclass(frozen=True)
class Frames:
    """Frames of a drawn clip that are shown, by their numbers."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Holds:
    """A text that holds these pieces in this order."""

    pieces: tuple[str, ...]


Part: TypeAlias = "str | bytes | Frames | Holds"
Shown: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True)
class Drawn:
    """A drawn benchmark.

    Attributes:
        path: its folder.
        shown: what is sent for each question, by its id.
        options: words for `-o`, so that clips of few frames do.
    """

    path: Path
    shown: dict[str, Shown] = field(default_factory=dict)
    options: tuple[str, ...] = ()


def options(letters: str = "ABCD") -> Row:
    """The options as columns or a mapping."""
    return dict(zip(letters, SIDES, strict=False))


FEW = ("sample-frames=4",)
"""The option by which clips of few frames do."""
