"""snellen features: extract or import features of images, and measure how well they separate classes"""

from snellen.cli.features import acuity, alignment, attack, cka, probe, report, retrieval, store, texts
from snellen.cli.features.shared import group

__all__ = ["acuity", "alignment", "attack", "cka", "group", "probe", "report", "retrieval", "store", "texts"]
