"""The attributes of acuity, one file each: what is drawn, what is asked, and at which levels."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.attributes.area import AREA
from snellen.benchmarks.acuity.attributes.blur import BLUR
from snellen.benchmarks.acuity.attributes.chart_digits import DIGIT_BLUR, DIGIT_NOISE
from snellen.benchmarks.acuity.attributes.chart_places import CHART_MOTION, OFFSET_HORIZONTAL, OFFSET_VERTICAL
from snellen.benchmarks.acuity.attributes.chart_taxa import BELT, CREST, EYE
from snellen.benchmarks.acuity.attributes.colour import COLOUR
from snellen.benchmarks.acuity.attributes.contrast import CONTRAST
from snellen.benchmarks.acuity.attributes.count import COUNT
from snellen.benchmarks.acuity.attributes.curvature import CURVATURE
from snellen.benchmarks.acuity.attributes.gap import GAP
from snellen.benchmarks.acuity.attributes.lattice import DENSITY, REGULARITY
from snellen.benchmarks.acuity.attributes.length import LENGTH
from snellen.benchmarks.acuity.attributes.letter import LETTER
from snellen.benchmarks.acuity.attributes.link import LINK
from snellen.benchmarks.acuity.attributes.motion import MOTION
from snellen.benchmarks.acuity.attributes.needle import NEEDLE
from snellen.benchmarks.acuity.attributes.noise import NOISE
from snellen.benchmarks.acuity.attributes.number import NUMBER
from snellen.benchmarks.acuity.attributes.order import ORDER
from snellen.benchmarks.acuity.attributes.orientation import ORIENTATION
from snellen.benchmarks.acuity.attributes.spacing import SPACING
from snellen.benchmarks.acuity.attributes.symmetry import SYMMETRY
from snellen.benchmarks.acuity.attributes.text import TEXT
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
