"""How a description of a video is judged: two rubrics, by the form of the clip, and a mean of two means.

Source: section 4.5 of the released evaluator: AB from 0 to 1, ABA from 0 to 2, rows without a score left out.
"""

from __future__ import annotations

from functools import cache

from snellen.scoring.rubric import Rubric, built_in
from snellen.types import Sample, Score


@cache
def _rubric(form: str) -> Rubric:
    return built_in(f"vlm2-{form.lower()}")


def rubric(sample: Sample) -> Rubric | None:
    """The rubric of a video's description: three clips where the vid contains `ABA`, else two; None for other kinds."""
    form = sample.meta.get("form")
    return _rubric(form) if form in ("AB", "ABA") else None


def unjudged(sample: Sample, reply: str) -> Score:
    """A description is worth nothing until a judge has read it."""
    return Score(None, None, "unscored", "not judged yet")
