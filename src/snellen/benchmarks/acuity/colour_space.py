"""sRGB, CIELAB (D65) and the colour difference CIEDE2000."""

from __future__ import annotations

from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

import numpy as np
from numpy.typing import NDArray

WHITE = (0.95047, 1.0, 1.08883)
"""XYZ of D65 for the 2 degree observer."""
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_TO_RGB = np.linalg.inv(_TO_XYZ)
Lab = tuple[float, float, float]


def lab_of(rgb: tuple[float, float, float]) -> Lab:
    """Return L*, a*, b* of sRGB code values of 0 to 255. Source: IEC 61966-2-1, CIE 15:2004."""
    share = np.asarray(rgb, dtype=np.float64) / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    x, y, z = (_curve(float(value) / white) for value, white in zip(_TO_XYZ @ linear, WHITE, strict=True))
    return 116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)


def rgb_of(lab: Lab) -> NDArray[np.float64]:
    """Return sRGB code values, which lie outside 0 to 255 where sRGB has no such colour."""
    y = (lab[0] + 16.0) / 116.0
    values = (y + lab[1] / 500.0, y, y - lab[2] / 200.0)
    xyz = [white * _inverse(value) for value, white in zip(values, WHITE, strict=True)]
    linear = _TO_RGB @ np.asarray(xyz)
    magnitude = np.abs(linear)
    share = np.where(magnitude <= 0.0031308, 12.92 * magnitude, 1.055 * magnitude ** (1 / 2.4) - 0.055)
    return np.asarray(255.0 * np.sign(linear) * share)


def _curve(share: float) -> float:
    return float(share ** (1 / 3)) if share > (6 / 29) ** 3 else share / (3 * (6 / 29) ** 2) + 4 / 29


def _inverse(value: float) -> float:
    return value**3 if value > 6 / 29 else 3 * (6 / 29) ** 2 * (value - 4 / 29)


def difference(first: Lab, second: Lab) -> float:
    """Return CIEDE2000 of two colours, all weights 1.

    Source: Sharma, Wu & Dalal 2005, Color Research and Application 30:21, equations 2 to 22 and its 34 pairs.
    """
    mean_chroma = (hypot(first[1], first[2]) + hypot(second[1], second[2])) / 2
    grey = 0.5 * (1 - sqrt(mean_chroma**7 / (mean_chroma**7 + 25.0**7)))
    a1, a2 = (1 + grey) * first[1], (1 + grey) * second[1]
    chroma1, chroma2 = hypot(a1, first[2]), hypot(a2, second[2])
    hue1, hue2 = _hue(a1, first[2]), _hue(a2, second[2])
    turn = 0.0 if chroma1 * chroma2 == 0 else (hue2 - hue1 + 180.0) % 360.0 - 180.0
    if chroma1 * chroma2 and turn == -180.0 and hue2 > hue1:
        turn = 180.0
    lightness, chroma = second[0] - first[0], chroma2 - chroma1
    hue = 2 * sqrt(chroma1 * chroma2) * sin(radians(turn / 2))
    middle_l, middle_c = (first[0] + second[0]) / 2, (chroma1 + chroma2) / 2
    middle_h = _middle_hue(hue1, hue2, chroma1 * chroma2)
    weight = (
        1
        - 0.17 * cos(radians(middle_h - 30))
        + 0.24 * cos(radians(2 * middle_h))
        + 0.32 * cos(radians(3 * middle_h + 6))
        - 0.20 * cos(radians(4 * middle_h - 63))
    )
    scale_l = 1 + 0.015 * (middle_l - 50) ** 2 / sqrt(20 + (middle_l - 50) ** 2)
    scale_c, scale_h = 1 + 0.045 * middle_c, 1 + 0.015 * middle_c * weight
    rotation = (
        -sin(radians(60 * exp(-(((middle_h - 275) / 25) ** 2)))) * 2 * sqrt(middle_c**7 / (middle_c**7 + 25.0**7))
    )
    dl, dc, dh = lightness / scale_l, chroma / scale_c, hue / scale_h
    return sqrt(max(0.0, dl * dl + dc * dc + dh * dh + rotation * dc * dh))


def _hue(a: float, b: float) -> float:
    return 0.0 if a == 0 and b == 0 else degrees(atan2(b, a)) % 360.0


def _middle_hue(hue1: float, hue2: float, product: float) -> float:
    if product == 0:
        return hue1 + hue2
    if abs(hue1 - hue2) <= 180:
        return (hue1 + hue2) / 2
    return (hue1 + hue2 + 360) / 2 if hue1 + hue2 < 360 else (hue1 + hue2 - 360) / 2
