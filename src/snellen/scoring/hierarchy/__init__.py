"""Diagnosis over a taxonomy: on which level a model's sight gives out, on which classes, and how far off it answers.

docs/diagnosis.md says what each number means and how it is made.
"""

from snellen.scoring.diagnosis_names import HEADS, is_diagnosis
from snellen.scoring.hierarchy.classes import BINS, ClassRow, ClassTables, class_table
from snellen.scoring.hierarchy.collapse import by_level
from snellen.scoring.hierarchy.confusion import RELATIONS
from snellen.scoring.hierarchy.diagnosis import diagnosis
from snellen.scoring.hierarchy.kin import SEPARATOR, kinship
from snellen.scoring.hierarchy.parts import RANKS, coarse_to_fine

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
