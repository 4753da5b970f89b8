"""Writes src/snellen/scoring/answers/unit_names.toml: names of units in many languages, from Unicode's CLDR.

Usage: python scripts/unit_names.py    (needs Babel: pip install babel)

Left out are names that are also other words (`livres` are pounds and books): those of one character, abbreviations with a full
stop, short names in Latin letters, names of two units (`год`, a year and an hour), and units that are written in English alone.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

from babel import Locale

from snellen.scoring.answers.number_words import languages

FILE = Path(__file__).parents[1] / "src/snellen/scoring/answers/unit_names.toml"
LANGUAGES = ["de", "fr", "es", "pt", "it", "nl", "sv", "pl", "cs", "ru", "uk", "tr", "ja", "ko", "zh", "ar", "hi"]
UNITS = {
    "m": "length-meter", "cm": "length-centimeter", "mm": "length-millimeter", "km": "length-kilometer",
    "g": "mass-gram", "kg": "mass-kilogram", "mg": "mass-milligram", "t": "mass-tonne", "L": "volume-liter", "mL": "volume-milliliter",
    "s": "duration-second", "min": "duration-minute", "h": "duration-hour", "d": "duration-day", "month": "duration-month",
    "yr": "duration-year", "°C": "temperature-celsius", "°F": "temperature-fahrenheit", "W": "power-watt", "kW": "power-kilowatt",
    "V": "electric-volt", "A": "electric-ampere", "Ω": "electric-ohm", "Hz": "frequency-hertz", "Pa": "pressure-pascal",
    "J": "energy-joule", "kcal": "energy-foodcalorie", "kWh": "energy-kilowatt-hour", "km/h": "speed-kilometer-per-hour",
    "m/s": "speed-meter-per-second", "ha": "area-hectare", "m²": "area-square-meter", "km²": "area-square-kilometer",
    "m³": "volume-cubic-meter", "%": "concentr-percent", "px": "graphics-pixel",
}  # fmt: skip
SHORTEST = 5
"""Characters of a name in Latin letters."""


def names(unit: str) -> list[str]:
    """Return the names of a unit that tell it, in the order of the languages."""
    found: dict[str, None] = {}
    numbers = {word for language in languages().values() for word in language.values}
    for language in LANGUAGES:
        patterns = Locale(language)._data["unit_patterns"].get(unit, {})
        for pattern in (
            text for length in ("long", "short") for key, text in patterns.get(length, {}).items() if key != "per"
        ):
            name = " ".join(pattern.replace("{0}", "").strip("\u200e\u200f \u00a0").split())
            is_word = len(name) >= SHORTEST or (len(name) > 1 and name.lower() > "\u0370")
            is_behind = pattern.lstrip("\u200f").startswith("{0}")
            if is_word and is_behind and "." not in name and name.casefold() not in numbers:
                found[name] = None
    return list(found)


if __name__ == "__main__":
    lines = ["# Names of units from Unicode's CLDR, by scripts/unit_names.py: symbol = names, with `_` for a blank."]
    uses = Counter(name.casefold() for unit in UNITS.values() for name in {one.casefold() for one in names(unit)})
    for symbol, unit in UNITS.items():
        text = " ".join(name.replace(" ", "_") for name in names(unit) if uses[name.casefold()] == 1)
        lines.append(
            f'"{symbol}" = """\n' + textwrap.fill(text, 140, break_long_words=False, break_on_hyphens=False) + '"""'
        )
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
