"""VLMEvalKit's reading of a multiple-choice reply by rules alone (BLINK, 3DSRBench).

Source: the generic option matcher of VLMEvalKit under its `exact_matching` policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from snellen.benchmarks.spatial.scorers.constants import CONSTANTS
from snellen.types import Score

NONE_OF_THEM = "Z"
_MARKS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_PHRASE = re.compile(r"answer is\s*+\**+\s*+([ABCD])", re.IGNORECASE)


def choice(reply: str, choices: Mapping[str, str], *, phrase: bool = True) -> str | None:
    """The letter that the kit reads; `Z` for a refusal; None where it would ask a judge.

    A letter must be the only one of the choices that stands as a token of its own, and stand among the last four tokens;
    else the text of exactly one choice must occur in the reply, if that is at most twice as long as all choices together.

    Args:
        reply: what the model said.
        choices: text by letter, without the empty ones.
        phrase: look for "answer is" and a letter in between, any case and no boundary behind it; older versions do not.
    """
    settings = CONSTANTS["kit_choice"]
    if settings["failure"] in reply:
        return None
    if any(refusal in reply for refusal in settings["refusals"]):
        return NONE_OF_THEM
    tokens = reply.translate(_MARKS).split()
    there = [letter for letter in choices if letter in tokens]
    if len(there) == 1 and tokens.index(there[0]) > len(tokens) - 5:
        return there[0]
    if not there and NONE_OF_THEM in tokens:
        return NONE_OF_THEM
    if phrase:
        said = _PHRASE.search(reply)
        if said and said[1].upper() in choices:
            return said[1].upper()
    lowered = reply.lower()
    if len(lowered) > 2 * sum(len(text) for text in choices.values()):
        return None
    named = [letter for letter, text in choices.items() if text.lower() in lowered]
    return named[0] if len(named) == 1 else None


def exact(reply: str, choices: Mapping[str, str], gold: str, *, phrase: bool = True) -> Score:
    """The kit's hit without a judge: what cannot be read is worth 0, and counts as a failure of extraction.

    `detail` says `failed_in_prefetch`, from which EASI takes the share of failures. `phrase`: see `choice`.
    """
    found = choice(reply, choices, phrase=phrase)
    failed = {"failed_in_prefetch": found is None}
    if found is None:
        return Score(0.0, None, "invalid", "no letter and no choice's text", failed)
    right = found == gold.strip()
    return Score(float(right), found, "correct" if right else "wrong", None, failed)
