"""Labels of incorrect answers: proposed by rules and a judge, settled by annotators.

A label says whose it is (`rule`, `judge`, `person`). What nobody can tell stays `unknown`; nothing is guessed.
"""

from snellen.runs.failures.labels import (
    LabelledAnswer,
    agreements,
    counts,
    label_run,
    labelled,
    save,
    saved,
    whose_decisions,
)
from snellen.runs.failures.review import ReviewDecision, meet_run, read_review, read_reviews
from snellen.runs.failures.rules import UNKNOWN, FailureRule, RuleTable, labels, proposed, signals, table

__all__ = [
    "UNKNOWN",
    "FailureRule",
    "LabelledAnswer",
    "ReviewDecision",
    "RuleTable",
    "agreements",
    "counts",
    "label_run",
    "labelled",
    "labels",
    "meet_run",
    "proposed",
    "read_review",
    "read_reviews",
    "save",
    "saved",
    "signals",
    "table",
    "whose_decisions",
]
