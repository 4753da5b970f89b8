"""Every unit that is named is one of pint's, and converts as pint says."""

from fractions import Fraction

from snellen.scoring.answers import units

SYMBOLS = set(units._names()[0].values())


def test_every_unit_is_its_own_name_and_known_to_pint():
    assert {symbol for symbol in SYMBOLS if units.unit_named(symbol) != symbol} == set()
    for symbol in SYMBOLS:
        assert units.is_currency(symbol) or units._registry().parse_units(units._expression(symbol))


def test_units_in_a_row_are_parts_of_each_other():
    assert {pair: units.convert(1, *pair) for pair in units.PARTS_OF} == units.PARTS_OF


def test_names_of_units_in_words_and_signs_are_one_symbol():
    names = {
        "m²": "square metres|sq m|m2|m^2|m^{2}", "km/h": "kilometres per hour|kph|km/hr|KM/H", "m/s²": "m/s^2|m / s²", "°C": "℃|degrees Celsius|deg C",
        "mg": "milligrams|毫克|MG", "kg": "千克|Kilogramm|kilos", "µm": "um|μm|microns|micrometres",
    }  # fmt: skip
    for symbol, written in names.items():
        assert {units.unit_named(name) for name in written.split("|")} == {symbol}
    assert units.unit_named("mw") is None, "milliwatts or megawatts"


def test_units_of_different_dimensions_and_currencies_do_not_convert():
    for pair in (
        ("°", "%"),
        ("bit", "%"),
        ("B/s", "Hz"),
        ("rpm", "Hz"),
        ("dB", "%"),
        ("kg", "m"),
        ("USD", "EUR"),
        ("", "m"),
    ):
        assert units.convert(1, *pair) is None
    for (unit, wanted), factor in {("°", "arcmin"): 60, ("‰", "%"): Fraction(1, 10), ("kB", "bit"): 8000}.items():
        assert units.convert(1, unit, wanted) == factor
