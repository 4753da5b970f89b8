"""Reviews: people's decisions about automatic verdicts, who agrees with whom, and which cases to look at.

`decisions` is one line of reviews.jsonl; `journal` reads and appends them. `cases` orders replies by doubt, and
`audit_sample` draws a part whose figures hold for the whole.
"""

from __future__ import annotations

from snellen.runs.reviews.audit_sample import AuditSample, draw, read_audit_sample, save_audit_sample
from snellen.runs.reviews.decisions import DECISIONS, VerdictReview, disputed, settled, standing
from snellen.runs.reviews.journal import REVIEWS, ReviewJournal, read_reviews_of

__all__ = [
    "DECISIONS",
    "REVIEWS",
    "AuditSample",
    "ReviewJournal",
    "VerdictReview",
    "disputed",
    "draw",
    "read_audit_sample",
    "read_reviews_of",
    "save_audit_sample",
    "settled",
    "standing",
]
