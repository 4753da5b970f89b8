"""Units of quantities: the names that people write, one symbol for each, and conversion by pint.

The symbol is the normal form: `kilometres per hour`, `km/h` and `kph` are all `km/h`. A currency's is its ISO code.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from snellen.text import terms

_LENGTHS = {
    "m": "meter meters metre metres Meter Metern mètre mètres metro metros 米 公尺 メートル", "in": "inch inches Zoll pouce pouces 英寸 ″ \" ''",
    "ft": "foot feet 英尺 ′ '", "yd": "yard yds yards", "mi": "mile miles Meile Meilen 英里",
    "cm": "centimeter cms centimeters centimetre centimetres Zentimeter 厘米 公分 センチ センチメートル", "dm": "decimeter decimetre",
    "mm": "millimeter millimeters millimetre millimetres Millimeter 毫米 ミリ", "nm": "nanometer nanometers nanometre nanometres",
    "km": "kilometer kms kilometers kilometre kilometres Kilometer 千米 公里 キロメートル",
    "µm": "micrometer um micron microns micrometers micrometre micrometres",
}  # fmt: skip
_OTHERS = {
    "nmi": "nautical_mile|nautical mile|nautical miles", "ly": "light_year|light year|light years|light-years",
    "ha": "hectare|hectares|Hektar|公顷", "acre": "acre|acres", "cm³": "|cc|ccm", "m²": "|sqm|qm|平方米|平米", "ft²": "|sqft|平方英尺",
    "km²": "|平方公里", "m³": "|cbm|立方米", "g": "gram|gram|grams|gramme|grammes|gr|Gramm|克",
    "kg": "kilogram|kgs|kilo|kilos|kilogram|kilograms|kilogramme|kilogrammes|Kilogramm|公斤|千克|キロ|キログラム",
    "mg": "milligram|milligram|milligrams|毫克", "t": "metric_ton|tonne|tonnes|metric ton|metric tons|Tonne|Tonnen|吨|噸",
    "lb": "pound|lbs|pound|pounds|磅", "oz": "ounce|ounce|ounces", "st": "stone|stone|stones", "ton": "short_ton|ton|tons",
    "L": "liter|l|liter|liters|litre|litres|升|公升", "mL": "milliliter|ml|milliliter|milliliters|millilitre|millilitres|毫升",
    "gal": "gallon|gallon|gallons", "qt": "quart|quart|quarts", "pt": "pint|pint|pints", "cup": "cup|cups",
    "fl oz": "fluid_ounce|fluid ounce|fluid ounces|fl. oz|fl. oz.", "tbsp": "tablespoon|tablespoon|tablespoons",
    "tsp": "teaspoon|teaspoon|teaspoons",
    "s": "second|sec|secs|second|seconds|Sekunde|Sekunden|seconde|secondes|segundo|segundos|秒|秒钟",
    "min": "minute|mins|minute|minutes|Minute|Minuten|minuto|minutos|分钟|分鐘",
    "h": "hour|hr|hrs|hour|hours|Std|Stunde|Stunden|heure|heures|hora|horas|小时|小時|時間",
    "d": "day|day|days|Tag|Tage|Tagen|jour|jours|día|días|天|日間", "wk": "week|wks|week|weeks|Woche|Wochen|周|週間",
    "month": "month|months|mo|Monat|Monate|mois|mes|meses|个月|ヶ月", "yr": "year|yrs|year|years|Jahr|Jahre|ans|año|años|年",
    "century": "century|centuries",
    "°": "degree|deg|degs|degree|degrees|Grad|度|º", "rad": "radian|radian|radians", "arcmin": "arcminute|arcminute|arcminutes",
    "arcsec": "arcsecond|arcsecond|arcseconds", "rpm": "revolutions_per_minute|r/min|revolutions per minute",
    "°C": "degC|℃|C|° C|ºC|Celsius|celsius|deg C|degC|degree Celsius|degrees Celsius|degrees C|Grad Celsius|摄氏度|度C",
    "°F": "degF|℉|F|° F|ºF|Fahrenheit|fahrenheit|deg F|degF|degree Fahrenheit|degrees Fahrenheit|degrees F|华氏度",
    "K": "kelvin|kelvin|kelvins|K", "km/h": "|kph|kmh|km/hr|Stundenkilometer", "mi/h": "|mph", "m/s": "|mps", "kn": "knot|kt|kts|knot|knots",
    "W": "watt|watt|watts", "V": "volt|volt|volts", "A": "ampere|amp|amps|ampere|amperes", "Ω": "ohm|ohm|ohms|Ohm|Ω",
    "Hz": "hertz|hertz", "Pa": "pascal|pascal|pascals", "N": "newton|newton|newtons", "J": "joule|joule|joules", "Wh": "watt_hour",
    "cal": "calorie|calorie|calories", "kcal": "kilocalorie|kilocalorie|kilocalories|Cal|大卡", "eV": "electron_volt",
    "hp": "horsepower|horsepower|PS", "bar": "bar|bars", "mbar": "millibar", "psi": "psi", "atm": "atmosphere|atmosphere|atmospheres",
    "mmHg": "mmHg", "dB": "|decibel|decibels", "mol": "mole|mole|moles", "lm": "lumen|lumens", "lx": "lux|lux",
    "B": "byte|byte|bytes", "bit": "bit|bits", "px": "pixel|pixel|pixels|像素", "dpi": "dot/inch",
    "%": "percent|percent|percentage|per cent|pct|Prozent|pour cent|por ciento|％|٪|パーセント", "‰": "permille|per mille|permille|Promille",
}  # fmt: skip
"""Symbol to pint's name and other names."""
_CURRENCIES = {
    "USD": "$|US$|US $|US-$|dollar|dollars|US dollar|US dollars|U.S. dollars|Dollar|美元|美金", "EUR": "€|euro|euros|Euro|Euros|欧元|ユーロ",
    "GBP": "£|￡|pound sterling|pounds sterling|quid|英镑", "JPY": "yen|円|日元|JP¥", "CNY": "yuan|renminbi|RMB|元|人民币|CN¥|块钱", "¥": "￥",
    "KRW": "₩|원|won", "INR": "₹|Rs|Rs.|rupee|rupees", "RUB": "₽|rouble|roubles|rubles|ruble|руб|руб.", "TRY": "₺|TL|lira", "BRL": "R$|reais|real",
    "CAD": "C$|CA$|CAN$|Canadian dollars", "AUD": "A$|AU$|Australian dollars", "NZD": "NZ$", "HKD": "HK$", "TWD": "NT$", "SGD": "S$",
    "MXN": "MX$|Mex$", "CHF": "Fr.|Franken|Swiss francs", "kr": "kr.|Kr|kronor|kroner", "SEK": "", "NOK": "", "DKK": "", "ISK": "",
    "PLN": "zł|zloty|złoty", "CZK": "Kč", "HUF": "forint", "ILS": "₪|shekel|shekels", "UAH": "₴", "VND": "₫|đ", "THB": "฿|baht", "PHP": "₱",
    "ZAR": "rand", "NGN": "₦", "AED": "dirham|dirhams", "SAR": "", "EGP": "", "IDR": "Rp", "MYR": "RM", "ARS": "", "CLP": "", "COP": "", "PEN": "",
    "RON": "lei", "BGN": "", "BTC": "₿", "¢": "cent|cents|Cent", "p": "pence|penny",
}  # fmt: skip
_MAY_BE = {
    "¥": terms("¥ JPY CNY"), "kr": terms("kr SEK NOK DKK ISK"), "lb": terms("lb GBP"), "ton": terms("ton t"), "¢": terms("¢ USD EUR CAD AUD"), "p": terms("p GBP"),
}  # fmt: skip
"""Symbols that leave open which unit is meant."""
MINOR = terms("¢ p")
"""A hundredth of a currency."""
PARTS_OF = {
    ("ft", "in"): 12, ("yd", "ft"): 3, ("lb", "oz"): 16, ("st", "lb"): 14, ("d", "h"): 24, ("h", "min"): 60, ("min", "s"): 60, ("wk", "d"): 7,
    ("yr", "month"): 12, ("m", "cm"): 100, ("km", "m"): 1000, ("kg", "g"): 1000, ("°", "arcmin"): 60, ("arcmin", "arcsec"): 60,
}  # fmt: skip
"""Units that are written one after the other, `5 ft 10 in`, with how many of the second make one of the first."""
_SMALL = {"n": "nano", "µ": "micro", "μ": "micro", "u": "micro", "m": "milli"}
_METRIC = {"c": "centi", "d": "deci"}
_LARGE = {"M": "mega", "G": "giga", "T": "tera"}
_FAMILIES = {"angles": terms("° rad arcmin arcsec"), "shares": terms("% ‰"), "turns": terms("rpm")}
_POWERED = frozenset(_LENGTHS) | {"s"}
_POWER = re.compile(
    r"(?P<word>square|sq\.?|cubic|cu\.?)? ?(?P<name>[^\d²³^]{1,20}?) ?(?:(?P<high>[²³])|\^?\{?(?P<low>[23])\}?)?"
)
_PER = re.compile(r" ?/ ?| per | pro | par | por ")
_PIECE = re.compile(r"(?: ?-?)(?:[A-Za-zµμÀ-ž]+\.?|[^\w\s]|[^\W\d_]|_)(?:[²³]|\^?\{?[23]\}?(?![\d.,]))?")
_LONGEST = 40


@cache
def _names() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return name to symbol, folded name to symbol where that is one, and symbol to pint's name."""
    names: dict[str, str] = {}
    pint_names: dict[str, str] = {}
    for symbol, words in _LENGTHS.items():
        pint_names[symbol] = "foot" if symbol == "ft" else words.split()[0]
        names |= dict.fromkeys((symbol, *words.split()), symbol)
    pint_names["in"] = "inch"
    for symbol, row in _OTHERS.items():
        first, *others = row.split("|")
        if first:
            pint_names[symbol] = first
        names |= dict.fromkeys((symbol, first, *others) if first and "_" not in first else (symbol, *others), symbol)
    for symbol, row in _CURRENCIES.items():
        names |= dict.fromkeys((symbol, *filter(None, row.split("|"))), symbol)
    for base in terms("m g L l s W V A Ω Hz Pa J N Wh eV F B bit cal mol"):
        prefixes = (_SMALL if base not in ("B", "bit") else {}) | (_METRIC if base in terms("m g l L") else {})
        prefixes |= {} if base in terms("m g l L s A F cal mol") else _LARGE
        for prefix, word in (prefixes | {"k": "kilo"}).items():
            symbol = ("µ" if word == "micro" else prefix) + ("L" if base == "l" else base)
            if names.setdefault(prefix + base, symbol) == symbol and symbol not in _OTHERS:
                pint_names.setdefault(symbol, word + pint_names.get("L" if base == "l" else base, "farad"))
    folded: dict[str, set[str]] = {}
    for name, symbol in names.items():
        folded.setdefault(name.casefold(), set()).add(symbol)
    alone = {name: next(iter(found)) for name, found in folded.items() if len(found) == 1 and len(name) > 1}
    return names, alone, pint_names


@lru_cache(maxsize=4_096)
def unit_named(name: str) -> str | None:
    """Return the symbol of a unit's or currency's name; None for a text that is no such name."""
    name = " ".join(name.split())
    if not name or len(name) > _LONGEST:
        return None
    names, folded, _ = _names()
    if (known := names.get(name) or folded.get(name.casefold())) is not None:
        return known
    if name[-1] == ".":
        return unit_named(name[:-1])
    top, *bottom = _PER.split(name)
    if len(bottom) == 1:
        pair = (_powered(top), _powered(bottom[0]))
        return None if None in pair or any(part in _CURRENCIES for part in pair) else f"{pair[0]}/{pair[1]}"
    if not bottom and (powered := _powered(name)) is not None:
        return powered
    return None


def _powered(name: str) -> str | None:
    names, folded, _ = _names()
    if (known := names.get(name) or folded.get(name.casefold())) is not None:
        return known
    match = _POWER.fullmatch(name)
    if match is None or (symbol := names.get(match["name"]) or folded.get(match["name"].casefold())) not in _POWERED:
        return None
    word = (match["word"] or "")[:1]
    power = {"s": "²", "c": "³", "2": "²", "3": "³"}.get(word or match["low"] or "", match["high"])
    return None if power is None or (word and (match["low"] or match["high"])) else symbol + power


def unit_at(text: str, at: int) -> tuple[str, int] | None:
    """Return the longest unit that starts at a place, one blank or hyphen before it allowed: (symbol, end)."""
    ends: list[int] = []
    piece = _PIECE.match(text, at)
    while piece is not None and len(ends) < 8:
        ends.append(piece.end())
        piece = _PIECE.match(text, piece.end())
    start = at + (text[at : at + 1] in (" ", "-"))
    for end in reversed(ends):
        if (
            text[end - 1].isascii()
            and text[end - 1].isalpha()
            and text[end : end + 1].isascii()
            and text[end : end + 1].isalpha()
        ):
            continue
        if (unit := unit_named(text[start:end])) is not None:
            return unit, end
    return None


def is_currency(unit: str) -> bool:
    """Return True if a symbol is that of a currency."""
    return unit in _CURRENCIES


def may_be_same(unit: str, other: str) -> bool:
    """Return True if two symbols name one unit, as `¥` and `JPY` may."""
    return not _MAY_BE.get(unit, {unit}).isdisjoint(_MAY_BE.get(other, {other}))


def convert(value: int | Decimal, unit: str, wanted: str) -> Fraction | None:
    """Return a value in another unit, exactly; None if the units are of different dimensions."""
    line = _line(unit, wanted)
    return None if line is None else Fraction(value) * line[0] + line[1]


@lru_cache(maxsize=1_024)
def _line(unit: str, wanted: str) -> tuple[Fraction, Fraction] | None:
    """Return factor and offset of a conversion."""
    if unit == wanted:
        return Fraction(1), Fraction(0)
    if not (unit and wanted) or is_currency(unit) or is_currency(wanted) or _families(unit) != _families(wanted):
        return None
    from pint.errors import PintError

    try:
        zero, one = (_registry().convert(Fraction(at), _expression(unit), _expression(wanted)) for at in (0, 1))
    except PintError:
        return None
    return Fraction(one) - Fraction(zero), Fraction(zero)


def _families(unit: str) -> set[str]:
    """Return what pint takes for plain numbers: 45° is no percent, and a byte a second no hertz."""
    parts = unit.split("/")
    return {name for name, known in _FAMILIES.items() if not known.isdisjoint(parts)} | {
        "bits" for part in parts if part.endswith(("B", "bit"))
    }


def _expression(unit: str) -> str:
    """Return a symbol as an expression of pint."""
    pint_names = _names()[2]
    parts = []
    for part in unit.split("/"):
        base, power = (part[:-1], "**2" if part[-1] == "²" else "**3") if part[-1] in "²³" else (part, "")
        parts.append(pint_names.get(base, "dimensionless_unknown") + power)
    return "/".join(parts)


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(non_int_type=Fraction, autoconvert_offset_to_baseunit=True)
