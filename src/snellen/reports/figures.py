"""Figures of a report as files: each plot as SVG and as PDF under one name, and an index of titles and captions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from snellen.atomic_write import replacing
from snellen.errors import StorageError, UsageError
from snellen.redaction import redact
from snellen.reports.escape import escape_invisible
from snellen.reports.plots.base import Plot
from snellen.reports.plots.svg import saving_figures
from snellen.text import csv_text

INDEX = "figures.csv"
_LINKS = re.compile(r"[;.] ?[Ee]ach \w+ (?:links|leads) to [^.;]*(?=[.;])")
"""Part of a caption that is about links; a file has none."""


def require_folder(folder: Path, option: str) -> None:
    """Raise UsageError if `folder`, named by `option`, is a file."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{option} {folder} is a file; a folder was expected", "Name another folder.")


def write_figures(draw: Callable[[], Iterable[Plot]], folder: Path, option: str) -> list[Path]:
    """Write every plot as NAME.svg and NAME.pdf with its fonts embedded, and `figures.csv` with titles and captions.

    Args:
        draw: draws the plots; called once, while figures are saved.
        folder: where to write; it is created.
        option: the option that names the folder, for messages.

    Returns:
        The files: the index, then each plot's.

    Raises:
        UsageError: the folder's name is a file's.
        StorageError: a file cannot be written.
    """
    require_folder(folder, option)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with saving_figures(folder):  # a plot's drawing is then its file name
            plots = list(draw())
        lines = [[plot.svg, *map(escape_invisible, (plot.title, _LINKS.sub("", plot.caption)))] for plot in plots]
        index = write_text(folder / INDEX, csv_text([["file", "title", "caption"], *lines]))
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}", f"Choose another {option}.") from error
    return [index, *(folder / f"{plot.svg}.{ending}" for plot in plots for ending in ("svg", "pdf"))]


def write_text(path: Path, text: str) -> Path:
    """Write a text file, free of keys, whole or not at all."""
    with replacing(path) as part:
        part.write_text(redact(text), encoding="utf-8", newline="\n")
    return path
