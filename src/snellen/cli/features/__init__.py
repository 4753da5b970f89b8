"""`snellen features`: extract or import features of pictures, and measure what they tell apart."""

from snellen.cli.features import aligning, attacking, measures, probing, reporting, stores
from snellen.cli.features.shared import group

__all__ = ["aligning", "attacking", "group", "measures", "probing", "reporting", "stores"]
