"""Units of quantities: the names that people write, see units.toml, one symbol for each, and conversion by pint.

`kilometres per hour`, `km/h` and `kph` are all `km/h`. A currency's symbol is its ISO code.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from snellen.text import terms

MINOR = terms("¢ p")
"""A hundredth of a currency."""
PARTS_OF = {("ft", "in"): 12, ("lb", "oz"): 16, ("h", "min"): 60, ("min", "s"): 60, ("m", "cm"): 100}
PARTS_OF |= {("km", "m"): 1_000, ("kg", "g"): 1_000}
"""Units that are written one after the other, `5 ft 10 in`, with how many of the second make one of the first."""
_NOT_CONVERTED = {"°": 1, "rad": 1, "arcmin": 1, "arcsec": 1, "%": 2, "‰": 2, "rpm": 3, "bpm": 4, "dB": 5, "fps": 6}
"""What pint takes for plain numbers, by what it measures: 45° is no percent."""
_POWER = re.compile(
    r"(?P<word>square|sq\.?|cubic|cu\.?)? ?(?P<name>[^\d²³^]{1,20}?) ?(?:(?P<high>[²³])|\^?\{?(?P<low>[23])\}?)?"
)
_PER = re.compile(r" ?/ ?| per | pro | par | por ")
_PIECE = re.compile(
    r"(?: ?-?)(?:[A-Za-zµμÀ-žЀ-ӿ\u0600-\u06ff\u0900-\u097f]+\.?|[^\w\s]|[^\W\d_]|_)(?:[²³]|\^?\{?[23]\}?(?!\d|[.,]\d))?"
)
_POWERED = re.compile("[nµmcdk]?m|in|ft|yd|mi|s")
_LONGEST = 40


@cache
def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads(files(__package__).joinpath("units.toml").read_text("utf-8"))


@cache
def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Return name to symbol, and the same without case, empty where case tells units apart."""
    table, exact, folded = _table(), dict[str, str](), dict[str, str]()
    more = tomllib.loads(files(__package__).joinpath("unit_names.toml").read_text("utf-8"))
    for symbol, names in (table["units"] | table["names"] | table["currencies"]).items():
        spaced = [name.replace("_", " ") for name in (symbol, *names.split())]
        plurals = [f"{name}s" for name in spaced[1:] if len(name) > 2 and re.fullmatch("[a-zà-ÿ -]+", name)]
        exact |= dict.fromkeys((*spaced, *plurals), symbol)
    for letters, bases in table["prefixed"].items():
        for letter, base in itertools.product(letters, bases.split()):
            for name in [name for name, known in exact.items() if known == base]:
                for prefix in (letter, *table["prefixes"][letter].split()):
                    if (len(prefix) == 1) == (name == base or len(name) < 3):
                        exact.setdefault(prefix + name, letter + base)
    for symbol, names in more.items():
        for name in names.split():
            exact.setdefault(name.replace("_", " "), symbol)
    for name, symbol in exact.items():
        same = folded.get(name.casefold(), symbol) == symbol and len(name) > 1
        folded[name.casefold()] = symbol if same else ""
    return exact, folded


def _known(name: str) -> str | None:
    exact, folded = _names()
    return exact.get(name) or folded.get(name.casefold()) or None


@lru_cache(maxsize=4_096)
def unit_named(name: str) -> str | None:
    """Return the symbol of a unit's or currency's name; None for a text that is no such name."""
    name = " ".join(name.split())
    if not name or len(name) > _LONGEST:
        return None
    if (known := _known(name)) is not None:
        return known
    if name[-1] == ".":
        return unit_named(name[:-1])
    parts = [_powered(part) for part in _PER.split(name)]
    if len(parts) > 2 or None in parts or (len(parts) == 2 and any(is_currency(part or "") for part in parts)):
        return None
    return "/".join(part or "" for part in parts)


def _powered(name: str) -> str | None:
    if (known := _known(name)) is not None:
        return known
    match = _POWER.fullmatch(name)
    symbol = None if match is None else _known(match["name"])
    if match is None or symbol is None or _POWERED.fullmatch(symbol) is None:
        return None
    word, figure = (match["word"] or "")[:1], match["low"] or match["high"] or ""
    power = {"s": "²", "c": "³", "2": "²", "3": "³", "²": "²", "³": "³"}.get(word or figure)
    return None if power is None or (word and figure) else f"{symbol}{power}"


def unit_at(text: str, at: int) -> tuple[str, int] | None:
    """Return the longest unit that starts at a place, one blank or hyphen before it allowed: (symbol, end)."""
    start, ends = at + (text[at : at + 1] in (" ", "-")), [at]
    while len(ends) < 9 and (piece := _PIECE.match(text, ends[-1])) is not None:
        ends.append(piece.end())
    for end in reversed(ends[1:]):
        goes_on = text[end - 1 : end + 1].isascii() and len(text) > end and text[end - 1 : end + 1].isalpha()
        if not goes_on and (unit := unit_named(text[start:end])) is not None:
            return unit, end
    return None


def is_currency(unit: str) -> bool:
    """Return True if a symbol is that of a currency."""
    return unit in _table()["currencies"]


def may_be_same(unit: str, other: str) -> bool:
    """Return True if two symbols name one unit, as `¥` and `JPY` may."""
    units, others = ({name, *_table()["may_be"].get(name, "").split()} for name in (unit, other))
    return not units.isdisjoint(others)


def convert(value: int | Decimal, unit: str, wanted: str) -> Fraction | None:
    """Return a value in another unit, exactly; None if the units are of different dimensions."""
    line = _line(unit, wanted)
    return None if line is None else Fraction(value) * line[0] + line[1]


@lru_cache(maxsize=1_024)
def _line(unit: str, wanted: str) -> tuple[Fraction, Fraction] | None:
    """Return factor and offset of a conversion."""
    if unit == wanted:
        return Fraction(1), Fraction(0)
    if not (unit and wanted) or is_currency(unit) or is_currency(wanted) or _measures(unit) != _measures(wanted):
        return None
    from pint.errors import PintError

    try:
        zero, one = (_registry().convert(Fraction(at), _expression(unit), _expression(wanted)) for at in (0, 1))
    except PintError:
        return None
    return Fraction(one) - Fraction(zero), Fraction(zero)


def _measures(unit: str) -> set[int]:
    """Return what a unit measures of that which pint takes for numbers; a byte a second is no hertz."""
    return {_NOT_CONVERTED.get(part, 4 * part.endswith(("B", "bit"))) for part in unit.split("/")} - {0}


def _expression(unit: str) -> str:
    """Return a symbol as an expression of pint."""
    units, prefixes = _table()["units"], _table()["prefixes"]
    parts = []
    for part in unit.split("/"):
        base, power = part.rstrip("²³"), {"²": "**2", "³": "**3"}.get(part[-1], "")
        prefix, base = ("", base) if base in units else (prefixes.get(base[:1], "").split(" ")[0], base[1:])
        parts.append(prefix + units.get(base, "unknown_unit").split()[0] + power)
    return "/".join(parts)


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(non_int_type=Fraction, autoconvert_offset_to_baseunit=True)
