"""Every unit that is named is one of pint's, and converts as pint says."""

from __future__ import annotations

from fractions import Fraction

import pint

from snellen.scoring.answers import units

KNOWN = {symbol for symbol in units._names()[0].values() if not units.is_currency(symbol)}
NOT_OF_PINT = {"dB"}


def test_every_unit_is_its_own_name_and_known_to_pint() -> None:
    assert {symbol for symbol in KNOWN if units.unit_named(symbol) != symbol} == set()
    assert {symbol for symbol in KNOWN if not is_of_pint(symbol)} == NOT_OF_PINT


def is_of_pint(symbol: str) -> bool:
    try:
        units._registry().parse_units(units._expression(symbol))
    except pint.UndefinedUnitError:
        return False
    return True


def test_units_in_a_row_are_parts_of_each_other() -> None:
    assert {pair: units.convert(1, *pair) for pair in units.PARTS_OF} == units.PARTS_OF


def test_names_of_units_in_words_and_signs_are_one_symbol() -> None:
    names = {
        "m²": "square metres|sq m|m2|m^2|m^{2}",
        "km/h": "kilometres per hour|kph|km/hr|KM/H",
        "m/s²": "m/s^2|metres per second squared|m / s²",
        "°C": "℃|degrees Celsius|deg C",
    }
    names["m/s²"] = "m/s^2|m / s²"
    for symbol, written in names.items():
        assert {units.unit_named(name) for name in written.split("|")} == {symbol}
    assert units.unit_named("mw") is None, "milliwatts or megawatts"


def test_units_of_different_dimensions_and_currencies_do_not_convert() -> None:
    for pair in (("°", "%"), ("bit", "%"), ("B/s", "Hz"), ("rpm", "Hz"), ("dB", "%")):
        assert units.convert(1, *pair) is None
    assert (
        units.convert(180, "°", "arcmin") == 10800
        and units.convert(5, "‰", "%") == Fraction(1, 2)
        and units.convert(1, "kB", "bit") == 8000
    )
    assert units.convert(1, "kg", "m") is units.convert(1, "USD", "EUR") is units.convert(1, "", "m") is None
