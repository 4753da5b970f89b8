"""Diagnosis over a taxonomy: on which level a model's sight gives out, on which classes, and how far off it answers."""

from snellen.scoring.hierarchy.diagnosis import diagnosis
from snellen.scoring.hierarchy.kin import SEPARATOR, kinship

__all__ = ["SEPARATOR", "diagnosis", "kinship"]
