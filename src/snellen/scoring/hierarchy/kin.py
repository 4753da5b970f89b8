"""How near a wrong answer stands to the truth."""

from __future__ import annotations

SEPARATOR = " > "
"""What joins the names of a path, coarse to fine: `animalia > chordata > aves`."""


def kinship(truth_path: str, answer_path: str) -> str:
    """How two classes of one level are related.

    Only a named parent makes siblings and only a named grandparent cousins: two kingdoms have in common that they are
    listed, and are `other`. So are two classes of different levels.

    Args:
        truth_path: ancestors and class, coarse to fine, joined by " > ".
        answer_path: the same of the class that was answered.

    Returns:
        `same`, `sibling` (same parent), `cousin` (same grandparent, another parent) or `other`.
    """
    if truth_path == answer_path:
        return "same"
    truth, answer = truth_path.split(SEPARATOR), answer_path.split(SEPARATOR)
    if len(truth) != len(answer):
        return "other"
    if len(truth) > 1 and truth[:-1] == answer[:-1]:
        return "sibling"
    if len(truth) > 2 and truth[:-2] == answer[:-2]:
        return "cousin"
    return "other"
