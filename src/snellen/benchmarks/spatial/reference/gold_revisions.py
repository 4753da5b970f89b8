"""Revisions of gold answers: which ones data holds, and which ones published figures rest on.

BLINK's answers to Relative_Reflectance were mixed up until 2025-09-03 on the hub, and until 2026-05-11 in VLMEvalKit's
table. A figure over the answers from before and one over the corrected answers differ without any change of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.benchmarks.spatial.tasks import EVERY
from snellen.benchmarks.table.set_sections import Correction, Revision


def corrections() -> Mapping[str, Correction]:
    """By the benchmark's name."""
    return {name: task.declared.correction for name, task in EVERY.items() if task.declared.correction is not None}


def revision_of_data(correction: Correction, digest: str, questions: Iterable[SpatialQuestion]) -> Revision | None:
    """Return the revision of the gold answers in data: by the digest, else by the answers; None where neither tells."""
    return correction.by_digest(digest) or correction.by_rows(questions)
