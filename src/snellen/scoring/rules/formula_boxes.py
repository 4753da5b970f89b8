r"""Boxes of the tokens of formulas, rendered by pdfLaTeX and PDFium, as character detection matching (CDM) takes them.

Source: as in `formula_tokens`: 12 pt, landscape A5, A4 or A3 by the number of tokens, 200 pixels an inch; a token's box is that of
the pixels in its colour. A formula that yields no page, or several, has no boxes; errors of TeX alone do not matter.

Formulas are what a model wrote, so pdfLaTeX may run no program, read nothing but TeX's own files, and write nothing outside a folder
that is deleted; it has `MOST_SECONDS`, and `MOST_BYTES` for a file. Formulas share a run, a page each; one that does not keep to its
page, or changes what lasts beyond it, has a run of its own, so that its boxes are those that it has alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from shutil import which

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import MediaError, MissingExtraError
from snellen.media.pdf import drawn_pages
from snellen.scoring.rules.formula_colours import Coloured, colour

MOST_SECONDS, MOST_BYTES, MOST_TOGETHER, MOST_ENDED = 15, 1 << 26, 50, 6
"""Limits of a run of pdfLaTeX: its time, a file that it writes, and how many formulas it is given; and after how many runs that
took too long no other is begun for the same formulas."""
DPI, MARGIN = 200, 8
"""Pixels an inch, and pixels around a formula that count as its picture."""
PACKAGES = ("geometry", "booktabs", "amsmath", "upgreek", "amssymb", "xcolor")
FILES = (*(f"{name}.sty" for name in (*PACKAGES, "CJK")), "mathcolor.ltx", "c70gkai.fd")
INSTALL = (
    "Install TeX Live with these, on Debian: "
    "apt-get install texlive-latex-extra latex-cjk-chinese latex-cjk-chinese-arphic-gkai00mp"
)
MARK = "snellen-mark"
"""Begins the lines in TeX's log that hold, before and after each formula, its number, the depth of groups and the page."""
_LASTING = re.compile(
    r"\\(?:global|[gx]def|globaldefs|[a-z]*counter|catcode|csname|output|shipout|end\s*\{document\}|newpage|clearpage)"
)
_ROOM = ((1300, 3), (600, 4), (-1, 5))
"""Above how many tokens the paper is A3, A4, A5."""


class Boxes(Struct, frozen=True):
    """The tokens of a formula that can be seen, and where: places [tokens, 4] of left, top, right, bottom; size: width, height."""

    tokens: tuple[str, ...]
    places: NDArray[np.float64]
    size: tuple[int, int]


def require_tex() -> None:
    """Raise MissingExtraError where pdfLaTeX or a package of it is not installed."""
    if missing := missing_of_tex():
        raise MissingExtraError(missing, INSTALL)


@lru_cache(maxsize=1)
def missing_of_tex() -> str:
    """Return what is said where pdfLaTeX or a file of it is not there; empty where all is."""
    missing = [name for name in ("pdflatex", "kpsewhich") if which(name) is None]
    if not missing:
        found = subprocess.run(["kpsewhich", *FILES], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607
        missing = [name for name in FILES if f"/{name}\n" not in found]
    return f"CDM renders formulas by pdfLaTeX, and {', '.join(missing)} not found" if missing else ""


def boxes(formulas: Sequence[Coloured]) -> list[Boxes | None]:
    """Return the boxes of each formula; None for one that cannot be rendered."""
    groups: dict[tuple[int, bool, int], list[int]] = {}
    for at, one in enumerate(formulas):
        paper = next(paper for most, paper in _ROOM if len(one.tokens) > most)
        groups.setdefault((paper, one.is_chinese, at if _LASTING.search(one.latex) else -1), []).append(at)
    made: list[Boxes | None] = [None] * len(formulas)
    ended: list[str] = []
    for (paper, is_chinese, _), places in groups.items():
        for start in range(0, len(places), MOST_TOGETHER):
            some = places[start : start + MOST_TOGETHER]
            for at, found in zip(some, _together([formulas[at] for at in some], paper, is_chinese, ended), strict=True):
                made[at] = found
    return made


def _together(formulas: Sequence[Coloured], paper: int, is_chinese: bool, ended: list[str]) -> list[Boxes | None]:
    """Return the boxes of formulas by one run, and where one of them disturbs it, of that one and those behind it by others."""
    if len(ended) >= MOST_ENDED:
        return [None] * len(formulas)
    found, first = _rendered(_document(formulas, paper, is_chinese), [one.tokens for one in formulas], ended)
    if len(formulas) == 1:
        return found or [None]
    if not found and first:  # TeX was ended
        found = _together(formulas[:first], paper, is_chinese, ended)
    if len(found) < len(formulas):
        found += _together(formulas[len(found) : len(found) + 1], paper, is_chinese, ended)
    return (
        [*found, *_together(formulas[len(found) :], paper, is_chinese, ended)] if len(found) < len(formulas) else found
    )


def _document(formulas: Sequence[Coloured], paper: int, is_chinese: bool) -> str:
    packages = "".join(f"\\usepackage{{{name}}}\n" for name in (*PACKAGES, *["CJK"] * is_chinese))
    body = "\\placemark{0}\n" + "".join(
        f"\\begin{{displaymath}}\n{one.latex}\n\\end{{displaymath}}\n\\newpage\\placemark{{{number}}}\n"
        for number, one in enumerate(formulas, start=1)
    )
    body = f"\\begin{{CJK}}{{UTF8}}{{gkai}}\n{body}\\end{{CJK}}\n" if is_chinese else body
    return (
        f"\\documentclass[12pt]{{article}}\n\\PassOptionsToPackage{{landscape}}{{geometry}}\n{packages}"
        f"\\geometry{{a{paper}paper,scale=0.98}}\n\\pagestyle{{empty}}\n\\begin{{document}}\n\\makeatletter\n"
        "\\renewcommand*{\\@textcolor}[3]{\\protect\\leavevmode\\begingroup\\color#1{#2}#3\\endgroup}\n\\makeatother\n"
        f"\\def\\placemark#1{{\\typeout{{{MARK} #1 \\the\\currentgrouplevel\\space\\the\\value{{page}}}}}}\n{body}\\end{{document}}\n"
    )


def _rendered(document: str, tokens: Sequence[Sequence[str]], ended: list[str]) -> tuple[list[Boxes | None], int]:
    """Return the boxes of the first formulas that have a page of their own in their document, and how many these are.

    Where TeX does not come to an end there are no boxes, and the folder of the run is added to `ended`.
    """
    with tempfile.TemporaryDirectory(prefix="snellen-tex-") as folder:
        source, made = Path(folder) / "formulas.tex", Path(folder) / "formulas.pdf"
        source.write_text(document, encoding="utf-8", errors="replace")
        if not _tex(folder):
            ended.append(folder)
        log = source.with_suffix(".log")
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        marks = re.findall(rf"^{MARK} (\d+) (\d+) (\d+)$", text, re.MULTILINE)
        right = (mark == (str(at), marks[0][1], str(at + 1)) for at, mark in enumerate(marks))
        count = max(0, sum(takewhile(bool, right)) - 1)
        with suppress(MediaError, OSError):
            pages = islice(drawn_pages(made.read_bytes(), "formulas", DPI), len(tokens) + 1)
            found = [_found(tokens[min(at, len(tokens) - 1)], page) for at, page in enumerate(pages)]
            return (found[:count] if len(tokens) > 1 else found if len(found) == 1 else []), count
        return [], count


def _tex(folder: str) -> bool:
    """Run pdfLaTeX on a folder's `formulas.tex`; end it and return False if it takes too long."""
    words = ["pdflatex", "-no-shell-escape", *(f"-no-mktex={kind}" for kind in ("tex", "tfm", "pk"))]
    own = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    env = {**own, "HOME": folder, "openin_any": "p", "openout_any": "p", "SOURCE_DATE_EPOCH": "0"}
    process = subprocess.Popen(  # noqa: S603
        [*words, "-interaction=nonstopmode", "formulas.tex"],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with suppress(ImportError, AttributeError, OSError):
        import resource

        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    try:
        process.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.kill()
        process.wait()
    return True


def _found(tokens: Sequence[str], page: NDArray[np.uint8]) -> Boxes | None:
    """Return the boxes of the tokens that have pixels, counted from the formula's own picture; None where none has any."""
    inked = np.flatnonzero(page[..., 3].any(axis=1))
    if not len(inked):
        return None
    page = page[inked[0] : inked[-1] + 1]
    rows, columns = np.nonzero(page[..., 3])
    codes = page[rows, columns, :3].astype(np.int64) @ (1 << 16, 1 << 8, 1)
    order = np.argsort(codes, kind="stable")
    codes, rows, columns = codes[order], rows[order], columns[order]
    left, top = columns.min() - MARGIN, rows.min() - MARGIN
    names, places = [], []
    for number, token in enumerate(tokens):
        red, green, blue = colour(number)
        start, end = np.searchsorted(codes, [(red << 16) + (green << 8) + blue, (red << 16) + (green << 8) + blue + 1])
        if end > start:
            across, down = columns[start:end] - left, rows[start:end] - top
            names.append(token)
            places.append([across.min() - 1, down.min() - 1, across.max() + 1, down.max() + 1])
    size = int(columns.max() + MARGIN - left), int(rows.max() + MARGIN - top)
    return Boxes(tuple(names), np.array(places, dtype=np.float64), size) if names else None
