"""`snellen features`: extract or import features of pictures, and measure what they tell apart."""

from snellen.cli.features import measures, probing, stores
from snellen.cli.features.shared import group

__all__ = ["group", "measures", "probing", "stores"]
