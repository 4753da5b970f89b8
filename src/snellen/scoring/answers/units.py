"""Units of quantities: the names that people write, see units.toml, one symbol for each, and conversion by pint.

The symbol is the normal form: `kilometres per hour`, `km/h` and `kph` are all `km/h`. A currency's is its ISO code.
"""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from snellen.text import terms

MINOR = terms("¢ p")
"""A hundredth of a currency."""
PARTS_OF = {("ft", "in"): 12, ("lb", "oz"): 16, ("h", "min"): 60, ("min", "s"): 60, ("m", "cm"): 100}
"""Units that are written one after the other, `5 ft 10 in`, with how many of the second make one of the first."""
_NOT_CONVERTED = {"°": 1, "rad": 1, "arcmin": 1, "arcsec": 1, "%": 2, "‰": 2, "rpm": 3}
"""What pint takes for plain numbers, by what it measures: 45° is no percent."""
_POWER = re.compile(
    r"(?P<word>square|sq\.?|cubic|cu\.?)? ?(?P<name>[^\d²³^]{1,20}?) ?(?:(?P<high>[²³])|\^?\{?(?P<low>[23])\}?)?"
)
_PER = re.compile(r" ?/ ?| per | pro | par | por ")
_PIECE = re.compile(r"(?: ?-?)(?:[A-Za-zµμÀ-ž]+\.?|[^\w\s]|[^\W\d_]|_)(?:[²³]|\^?\{?[23]\}?(?![\d.,]))?")
_LONGEST = 40


class _Names(NamedTuple):
    """Name to symbol, with case and without where that is one; symbol to pint's name; currencies; lengths and the second."""

    exact: dict[str, str]
    folded: dict[str, str]
    pint: dict[str, str]
    currencies: dict[str, str]
    powered: frozenset[str]
    may_be: dict[str, set[str]]


@cache
def _names() -> _Names:
    table = tomllib.loads(files(__package__).joinpath("units.toml").read_text("utf-8"))
    others = dict.fromkeys(table["currencies"].pop("others").split(), "")
    units, money = table["units"], table["currencies"] | others
    pint = {symbol: names.split()[0] for symbol, names in units.items()}
    exact: dict[str, str] = {}
    for symbol, names in (*units.items(), *table["names"].items(), *money.items()):
        spaced = [name.replace("_", " ") for name in (symbol, *names.split())]
        plurals = [f"{name}s" for name in spaced[1:] if len(name) > 2 and re.fullmatch("[a-zà-ÿ -]+", name)]
        exact |= dict.fromkeys((*spaced, *plurals), symbol)
    powered = terms("m in ft yd mi s") | {f"{letter}m" for letter in "nµmcdk"}
    prefixed = (
        (letter, base) for letters, bases in table["prefixed"].items() for letter in letters for base in bases.split()
    )
    for letter, base in prefixed:
        words = table["prefixes"][letter].split()
        pint.setdefault(letter + base, words[0] + pint[base])
        for name in [name for name, known in exact.items() if known == base]:
            for prefix in (letter, *words):
                if (len(prefix) == 1) == (name == base or len(name) < 3):
                    exact.setdefault(prefix + name, letter + base)
    folded: dict[str, set[str]] = {}
    for name, symbol in exact.items():
        folded.setdefault(name.casefold(), set()).add(symbol)
    alone = {name: next(iter(found)) for name, found in folded.items() if len(found) == 1 and len(name) > 1}
    may_be = {symbol: {symbol, *others.split()} for symbol, others in table["may_be"].items()}
    return _Names(exact, alone, pint, money, powered, may_be)


def _known(name: str) -> str | None:
    return _names().exact.get(name) or _names().folded.get(name.casefold())


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
    if match is None or (symbol := _known(match["name"])) not in _names().powered:
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
    return unit in _names().currencies


def may_be_same(unit: str, other: str) -> bool:
    """Return True if two symbols name one unit, as `¥` and `JPY` may."""
    may_be = _names().may_be
    return not may_be.get(unit, {unit}).isdisjoint(may_be.get(other, {other}))


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
    bases = ((part.rstrip("²³"), {"²": "**2", "³": "**3"}.get(part[-1], "")) for part in unit.split("/"))
    return "/".join(_names().pint.get(base, "unknown_unit") + power for base, power in bases)


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(non_int_type=Fraction, autoconvert_offset_to_baseunit=True)
