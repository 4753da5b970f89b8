"""Normalisation of texts before the authors' rule compares them.

Source: FG-BMK's demo/human_evaluation/answer_acc.py at commit 7765a10.
"""

from __future__ import annotations

import re

_RUN = re.compile(r"[_\-,]+")


def normalised(text: str) -> str:
    """Replace each run of underscores, hyphens and commas by one space; lower the case, strip white space.

    Spaces are not collapsed, and apostrophes, slashes, full stops and quotes stay, although a comment of the authors
    promises more.
    """
    return _RUN.sub(" ", text).lower().strip()
