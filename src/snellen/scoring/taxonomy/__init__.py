"""Diagnosis over a taxonomy: on which level a model's sight gives out, on which classes, and how far off it answers.

docs/diagnosis.md says what each number means and how it is made.
"""

from snellen.scoring.taxonomy.diagnosis import HEADS, diagnosis, is_diagnosis
from snellen.scoring.taxonomy.level_drop import by_level
from snellen.scoring.taxonomy.per_class import BINS, ClassRow, ClassTables, class_table
from snellen.scoring.taxonomy.relatedness import RELATIONS, SEPARATOR, kinship
from snellen.scoring.taxonomy.slices import RANKS, coarse_to_fine

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
]
