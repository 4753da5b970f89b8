"""The attributes of acuity: what is drawn, what is asked, and at which levels."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.attributes.chart import (
    BELT,
    CHART_MOTION,
    CREST,
    DIGIT_BLUR,
    DIGIT_NOISE,
    EYE,
    OFFSET_HORIZONTAL,
    OFFSET_VERTICAL,
)
from snellen.benchmarks.acuity.attributes.clips import MOTION, ORDER
from snellen.benchmarks.acuity.attributes.colour import COLOUR
from snellen.benchmarks.acuity.attributes.contrast import CONTRAST
from snellen.benchmarks.acuity.attributes.dots import COUNT, NUMBER
from snellen.benchmarks.acuity.attributes.letters import LETTER, TEXT
from snellen.benchmarks.acuity.attributes.link import LINK
from snellen.benchmarks.acuity.attributes.one_of_four import (
    AREA,
    BLUR,
    CURVATURE,
    DENSITY,
    LENGTH,
    ORIENTATION,
    REGULARITY,
    SYMMETRY,
)
from snellen.benchmarks.acuity.attributes.rings import GAP, NEEDLE, NOISE, SPACING
from snellen.benchmarks.acuity.attributes.vernier import VERNIER

ATTRIBUTES: dict[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        *(GAP, LETTER, TEXT, CONTRAST, COLOUR, ORIENTATION, LENGTH, AREA, VERNIER, SPACING, NUMBER, COUNT, DENSITY),
        *(REGULARITY, BLUR, NOISE, CURVATURE, SYMMETRY, LINK, NEEDLE, MOTION, ORDER),
    )
}
DEFAULT = (
    *("gap", "letter", "text", "contrast@8", "contrast@32", "colour@a+", "colour@b+", "colour@L+", "orientation"),
    *("length", "vernier", "spacing", "number", "count", "link", "needle", "motion"),
)
"""Conditions that are measured unless others are named."""

CHART_ATTRIBUTES: dict[str, Attribute] = {
    attribute.name: attribute
    for attribute in (CREST, BELT, EYE, DIGIT_BLUR, DIGIT_NOISE, OFFSET_HORIZONTAL, OFFSET_VERTICAL, CHART_MOTION)
}
"""The family `chart`: in the words and pictures of the chart, for the embedded model, which knows no others."""
EVERY_ATTRIBUTE = {**ATTRIBUTES, **CHART_ATTRIBUTES}
