"""Answers in a taxonomy: how near a wrong class stands to the true one."""

from __future__ import annotations

from typing import Literal, TypeAlias

SEPARATOR = " > "
Kinship: TypeAlias = Literal["sibling", "cousin", "other"]


def kinship(path_a: str, path_b: str) -> Kinship:
    """How two different classes of one level are related.

    Args:
        path_a, path_b: ancestors and class from coarse to fine, joined by ` > `.

    Returns:
        `sibling` (same parent), `cousin` (same grandparent) or `other`, also where the levels differ.
    """
    a, b = path_a.split(SEPARATOR), path_b.split(SEPARATOR)
    if len(a) != len(b) or len(a) < 2:
        return "other"
    if a[:-1] == b[:-1]:
        return "sibling"
    return "cousin" if len(a) > 2 and a[:-2] == b[:-2] else "other"
