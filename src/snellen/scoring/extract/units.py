"""Units of measure that replies use, and how one is turned into another.

Factors are exact by definition (international yard and pound, SI).
"""

from __future__ import annotations

import re

_FACTORS: dict[str, dict[str, float]] = {
    "length": {
        "m": 1.0, "cm": 0.01, "mm": 0.001, "km": 1000.0, "dm": 0.1, "µm": 1e-6, "nm": 1e-9,
        "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344,
    },
    "area": {"m^2": 1.0, "cm^2": 1e-4, "mm^2": 1e-6, "km^2": 1e6, "ft^2": 0.09290304, "in^2": 0.00064516, "ha": 1e4},
    "volume": {"m^3": 1.0, "cm^3": 1e-6, "l": 1e-3, "ml": 1e-6, "cl": 1e-5},
    "mass": {"kg": 1.0, "g": 1e-3, "mg": 1e-6, "t": 1000.0, "lb": 0.45359237, "oz": 0.028349523125},
    "time": {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0, "wk": 604800.0, "yr": 31557600.0},
    "angle": {"deg": 1.0, "rad": 57.29577951308232},
    "share": {"%": 1.0},
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704},
    "pixels": {"px": 1.0},
}  # fmt: skip
_NAMES = {
    "m": "m meter meters metre metres mtr 米 公尺 メートル",
    "cm": "cm cms centimeter centimeters centimetre centimetres 厘米 公分 センチ",
    "mm": "mm millimeter millimeters millimetre millimetres 毫米",
    "km": "km kms kilometer kilometers kilometre kilometres 千米 公里",
    "dm": "dm decimeter decimeters decimetre decimetres",
    "µm": "µm um micron microns micrometer micrometers",
    "in": "in inch inches 英寸",
    "ft": "ft foot feet 英尺",
    "yd": "yd yds yard yards",
    "mi": "mi mile miles 英里",
    "m^2": "m^2 m2 sqm 平方米 平米", "cm^2": "cm^2 cm2", "ft^2": "ft^2 ft2 sqft", "km^2": "km^2 km2", "ha": "ha hectare hectares",
    "mm^2": "mm^2 mm2", "in^2": "in^2",
    "m^3": "m^3 m3", "cm^3": "cm^3 cm3 cc", "l": "l liter liters litre litres 升", "ml": "ml milliliter milliliters millilitre millilitres 毫升", "cl": "cl",
    "kg": "kg kgs kilo kilos kilogram kilograms 公斤 千克", "g": "g gram grams gr 克", "mg": "mg milligram milligrams",
    "t": "t ton tons tonne tonnes 吨", "lb": "lb lbs pound pounds", "oz": "oz ounce ounces",
    "s": "s sec secs second seconds 秒 秒钟", "ms": "ms millisecond milliseconds", "min": "min mins minute minutes 分钟",
    "h": "h hr hrs hour hours 小时", "d": "d day days 天", "wk": "wk week weeks", "yr": "yr year years 年",
    "deg": "deg degs degree degrees ° 度", "rad": "rad radian radians",
    "%": "% percent percentage pct",
    "m/s": "m/s mps", "km/h": "km/h kmh kph", "mph": "mph",
    "px": "px pixel pixels 像素",
}  # fmt: skip
_CANONICAL = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_KIND = {unit: kind for kind, units in _FACTORS.items() for unit in units}
_AFTER = re.compile(
    r"\s*+(?:-\s*+)?(?P<square>(?:square|sq\.?)\s+)?(?P<cubic>(?:cubic|cu\.?)\s+)?"
    r"(?P<unit>[^\W\d_]+(?:\^?[23](?!\d))?(?:\s?/\s?[a-z]+)?|°|%|\"|')(?P<post>\s+(?:per|an?)\s+(?:second|hour)|\s+squared)?"
)


def canonical(name: str) -> str | None:
    """The unit that a name means (`metres` to `m`), None for a name that is no unit."""
    name = name.strip().rstrip(".")
    lowered = name.lower().replace(" ", "")
    square = lowered.startswith("square") or lowered.startswith("sq")
    if square and lowered not in _CANONICAL:
        base = _CANONICAL.get(re.sub(r"^(?:square|sq\.?)", "", lowered))
        return f"{base}^2" if base and f"{base}^2" in _KIND else None
    if lowered in ("degreescelsius", "celsius", "°c", "c", "fahrenheit", "°f", "f"):
        return None
    return _CANONICAL.get(lowered)


def unit_after(text: str, at: int) -> tuple[str, int] | None:
    """The unit that stands at position `at` of a text, after a number: (unit, position after it)."""
    match = _AFTER.match(text, at)
    if match is None:
        return None
    name = match.group("unit").replace(" ", "")
    end = match.end()
    if name == '"':
        return "in", match.end("unit")
    if name == "'":
        return "ft", match.end("unit")
    unit = _CANONICAL.get(name.lower())
    if unit is None and "/" in name:
        unit = _CANONICAL.get(name.split("/")[0].lower())
        end = match.start("unit") + match.group("unit").index("/")
    if unit is None:
        # CJK units are written without a space and run on: 米, 厘米高
        for length in (3, 2, 1):
            unit = _CANONICAL.get(name[:length]) if not name[:1].isascii() else None
            if unit is not None:
                return unit, match.start("unit") + length
        return None
    post = match.group("post") or ""
    if match.group("square") or "squared" in post:
        unit = f"{unit}^2" if f"{unit}^2" in _KIND else unit
    elif match.group("cubic"):
        unit = f"{unit}^3" if f"{unit}^3" in _KIND else unit
    elif "second" in post and unit == "m":
        unit = "m/s"
    elif "hour" in post and unit in ("km", "mi"):
        unit = "km/h" if unit == "km" else "mph"
    else:
        end = match.end("unit") if post else end
    return unit, end


def convert(value: float, unit: str, wanted: str) -> float | None:
    """`value` of `unit` in `wanted`; None where the two measure different things."""
    if unit == wanted:
        return value
    kind = _KIND.get(unit)
    if kind is None or kind != _KIND.get(wanted):
        return None
    return value * _FACTORS[kind][unit] / _FACTORS[kind][wanted]
