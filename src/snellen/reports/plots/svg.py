"""Matplotlib's SVG, made fit to stand in the page: no style attributes, no foreign names, the page's own colours."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from snellen.atomic_write import replacing
from snellen.errors import MissingExtraError
from snellen.reports.links import describe_link

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"

COLOURS = {
    "ink": "#0a0b01",
    "muted": "#0a0b02",
    "line": "#0a0b03",
    "right": "#0a0b04",
    "wrong": "#0a0b05",
    "paper": "#0a0b06",
    "series-1": "#0a0b11",
    "series-2": "#0a0b12",
    "series-3": "#0a0b13",
    "series-4": "#0a0b14",
    "series-5": "#0a0b15",
    "series-6": "#0a0b16",
    "series-7": "#0a0b17",
    "series-8": "#0a0b18",
}
"""Names of the style sheet's colours, and the stand-ins that are drawn with: the page puts light or dark in."""

_FOLDER: ContextVar[tuple[Path, tuple[str, ...]] | None] = ContextVar("folder and forms of figures", default=None)
_PAPER: dict[Any, str] = {}
"""Stand-ins to light colours, while figures are saved."""

_BY_STAND_IN = {code: f"var(--{name})" for name, code in COLOURS.items()}
_KEPT = frozenset(
    {"fill", "fill-opacity", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "stroke-dasharray"}
    | {"stroke-dashoffset", "stroke-opacity", "opacity", "text-anchor", "font-size", "font-weight"}
)
_REFERENCE = re.compile(r"url\(#([^)]+)\)")

_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)

_FURTHER_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Zen Hei"),
    *("PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Malgun Gothic", "Arial Unicode MS"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Symbols"),
)
"""Fonts that are common on Linux, macOS and Windows, for letters that DejaVu Sans lacks."""

SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "snellen",
    "text.parse_math": False,
    "axes.unicode_minus": False,
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["line"],
    "ytick.color": COLOURS["line"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.6,
}


@contextmanager
def page_style() -> Iterator[None]:
    """Draw with SETTINGS alone: a user's own matplotlibrc must not change the page.

    Raises:
        MissingExtraError: matplotlib cannot be imported.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError(
            f"plots need matplotlib, which cannot be imported ({error})", "pip install matplotlib"
        ) from error

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({name: _PAPER.get(value, value) for name, value in SETTINGS.items()})
        if _FOLDER.get() is not None:
            matplotlib.rcParams.update({"svg.fonttype": "path", "pdf.fonttype": 42, "font.family": _file_fonts()})
        yield


def _file_fonts() -> list[str]:
    """Return the font of figures, and installed fonts for the letters that it lacks."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [SETTINGS["font.family"], *(name for name in _FURTHER_FONTS if name in installed)]


def light_colours() -> dict[str, str]:
    """Return all of the style sheet's light colours by name."""
    style = (files("snellen.reports") / "assets" / "report.css").read_text("utf-8")
    light = style.partition("{")[2].partition("}")[0]
    return dict(re.findall(r"--([\w-]+):\s*light-dark\((#[0-9a-fA-F]{6})", light))


def paper_colours() -> dict[str, str]:
    """Return the light colours that figures are drawn with, by name."""
    light = light_colours()
    return {name: light[name] for name in COLOURS}


def mix_colours(first: str, second: str, share: float) -> str:
    """Mix two colours as CSS does by `color-mix(in oklab, first share, second)`.

    Source: Ottosson 2020, "A perceptual color space for image processing" (the matrices of Oklab).
    """
    mixed = share * _oklab(first) + (1.0 - share) * _oklab(second)
    light = (np.linalg.inv(_TO_LAB) @ mixed) ** 3
    linear = np.clip(np.linalg.inv(_TO_LMS) @ light, 0.0, 1.0)
    coded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in coded)


def _oklab(colour: str) -> NDArray[np.float64]:
    coded = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    lab: NDArray[np.float64] = _TO_LAB @ np.cbrt(_TO_LMS @ linear)
    return lab


@contextmanager
def saving_figures(folder: Path, endings: Sequence[str] = ("svg", "pdf")) -> Iterator[None]:
    """Save every figure that `inline_svg` gets as NAME.svg and NAME.pdf (`endings`), in the colours of a light page.

    Figures must be drawn inside, as colours are chosen when a figure is drawn. Meanwhile `inline_svg` returns the name.
    """
    stand_ins = dict(COLOURS)
    token = _FOLDER.set((folder, tuple(endings)))
    _PAPER.update({code: colour for name, colour in paper_colours().items() if (code := stand_ins[name])})
    COLOURS.update(paper_colours())
    try:
        yield
    finally:
        COLOURS.update(stand_ins)
        _PAPER.clear()
        _FOLDER.reset(token)


def saves_files() -> bool:
    """Return True inside `saving_figures`."""
    return _FOLDER.get() is not None


def _save(figure: Figure, folder: Path, endings: tuple[str, ...], name: str) -> None:
    for artist in figure.findobj():  # links lead to a place on the page, and a file is not on the page
        if hasattr(artist, "set_urls"):
            artist.set_urls([None])
        artist.set_url(None)
    for ending in endings:
        metadata = {"Date" if ending == "svg" else "CreationDate": None}
        with warnings.catch_warnings():
            # Letters that matplotlib's font lacks are drawn as boxes.
            warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
            with replacing(folder / f"{name}.{ending}") as part, part.open("wb") as out:
                figure.savefig(out, format=ending, metadata=metadata)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _move_style(element: ElementTree.Element) -> None:
    """Turn a style attribute into presentation attributes: the page's policy forbids inline style."""
    for declaration in (element.attrib.pop("style", "") or "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            size = re.search(r"([\d.]+)px", value)
            if size:
                element.set("font-size", size.group(1))
        elif name in _KEPT:
            element.set(name, value.removesuffix("px") if name == "font-size" else value)
    for name in ("fill", "stroke"):
        stand_in = _BY_STAND_IN.get(element.get(name, ""))
        if stand_in:
            element.set(name, stand_in)


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """Convert a figure to an <svg> element that can stand in HTML under a policy without inline style.

    Args:
        figure: drawn with SETTINGS and COLOURS.
        name: unique on the page; put before every id.
        label: what the figure shows, for those who do not see it.
    """
    saved = _FOLDER.get()
    if saved is not None:
        _save(figure, *saved, name)
        return name
    out = BytesIO()
    with warnings.catch_warnings():
        # The browser draws the letters, not matplotlib, so glyphs missing from matplotlib's font do not matter.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(out.getvalue())  # noqa: S314 (matplotlib's own output, which escapes its texts)
    ids = {element.get("id", "") for element in root.iter()}
    for parent in list(root.iter()):
        for child in list(parent):
            if _tag(child) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        _move_style(element)
        if "id" in element.attrib:
            element.set("id", f"{name}-{element.get('id')}")
        target = element.attrib.pop(_LINK, None)
        if target is not None:
            element.set("href", f"#{name}-{target[1:]}" if target[1:] in ids and _tag(element) == "use" else target)
            element.attrib.pop("target", None)
            if _tag(element) == "a" and target.startswith("#") and not "".join(element.itertext()).strip():
                element.set("aria-label", describe_link(target))
        for attribute, value in list(element.attrib.items()):
            element.set(attribute, _REFERENCE.sub(lambda match: f"url(#{name}-{match.group(1)})", value))
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("class", "plot")
    root.set("data-name", name)
    root.set("role", "group")
    root.set("aria-label", label)
    root.set("stroke-linejoin", "round")
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")
