"""The authors' rule, as their answer_acc.py has it: the ground truth is a substring of the reply, after a normalisation.

No yes or no, no option and no word boundary is looked for: "I do not know" is a no, "yes and no" is right everywhere.
Source: FG-BMK's demo/human_evaluation/answer_acc.py at commit 7765a10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from snellen.scoring.hierarchy import kinship
from snellen.types import Sample, Score

_RUN = re.compile(r"[_\-,]+")


def normalised(text: str) -> str:
    """Each run of underscores, hyphens and commas as one space, lower case, without outer white space.

    Spaces are not collapsed, and apostrophes, slashes, full stops and quotes stay, although a comment of the authors
    promises more.
    """
    return _RUN.sub(" ", text).lower().strip()


_known = lru_cache(maxsize=8_192)(normalised)


def correct(gold: str, reply: str) -> bool:
    """Whether the reply counts as the ground truth.

    >>> correct("no", "I do not know")
    True
    """
    return _known(gold) in normalised(reply)


def official(sample: Sample, reply: str) -> Score:
    """Right if the normalised ground truth stands anywhere in the normalised reply.

    A reply that holds none of the possible answers (yes and no, or the options) is `invalid`, worth 0 as before. The
    answer of a wrong reply is known where it holds exactly one of them.
    """
    said = normalised(reply)
    gold = gold_text(sample)
    possible = ("yes", "no") if sample.kind == "truth" else tuple(sample.options.values())
    if _known(gold) in said:
        return Score(1.0, gold, "correct", None, {"answer": gold.lower()})
    held = [name for name in possible if _known(name) in said]
    if len(held) == 1:
        return Score(0.0, held[0], "wrong", None, wrong(sample, held[0]))
    if not held and (possible or not said):
        return Score(0.0, None, "invalid", "holds none of the possible answers" if said else "no answer")
    return Score(0.0, None, "wrong", f"holds {', '.join(held)}" if held else "does not hold the true answer")


def gold_text(sample: Sample) -> str:
    """The ground truth as the files write it."""
    if sample.kind == "truth":
        return "yes" if sample.target else "no"
    return str(sample.options[sample.target] if sample.kind == "choice" else sample.target)


def wrong(sample: Sample, answer: str) -> Mapping[str, str]:
    """What is told of a wrong answer: its class, and how near it stands to the true one."""
    answer = answer.lower()
    detail = {"answer": answer}
    if sample.kind == "truth":
        return detail
    own, paths = sample.meta.get("path"), sample.meta.get("paths")
    other = paths.get(answer) if isinstance(paths, Mapping) else None
    if isinstance(own, str) and isinstance(other, str):
        detail["kinship"] = kinship(own, other)
    return detail
