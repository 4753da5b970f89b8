"""Diagnosis over a taxonomy: levels and classes on which a model fails, and how far from the truth its answers are.

docs/diagnosis.md defines each metric.
"""

from snellen.scoring.metric_text import HEADS, is_diagnosis
from snellen.scoring.taxonomy.diagnosis import RELATIONS, SEPARATOR, diagnosis, kinship
from snellen.scoring.taxonomy.per_class import BINS, ClassRow, ClassTables, class_table, page_histogram
from snellen.scoring.taxonomy.slices import RANKS, by_level, coarse_to_fine

__all__ = [
    "BINS",
    "HEADS",
    "RANKS",
    "RELATIONS",
    "SEPARATOR",
    "ClassRow",
    "ClassTables",
    "by_level",
    "class_table",
    "coarse_to_fine",
    "diagnosis",
    "is_diagnosis",
    "kinship",
    "page_histogram",
]
