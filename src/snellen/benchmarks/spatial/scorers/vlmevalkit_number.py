"""VLMEvalKit's reading of a number (VSI-Bench, SPAR-Bench): in an answer tag, or the last one.

Source: the numeric matcher of VLMEvalKit's spatial suite.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers.constants import listed
from snellen.benchmarks.spatial.scorers.vlmevalkit_option import INVISIBLE, after_thinking, in_tags

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_ANY = re.compile(_NUMBER)
_AT_ONCE = re.compile(rf"\s*+({_NUMBER})")
_NAMES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty"""
_WORDS = {word: str(number) for number, word in enumerate(_NAMES.split())}
_WORD = re.compile(rf"\b(?=[efnostz])(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)


def number(reply: str) -> float | None:
    """The number that VLMEvalKit reads in a reply; None where it reads none.

    A list literal stands for its first element (one that cannot be parsed for nothing). The words zero to twenty become
    digits one by one, so that `twenty-one` is -1; a comma parts numbers, and `7.5 m^2` is 2.
    """
    text = reply.strip()
    if text.startswith("[") and text.endswith("]"):
        found_list = listed(text)
        if not found_list:
            return None
        text = str(found_list[0])
    if not text.isascii():
        text = INVISIBLE.sub("", text)
    text = _WORD.sub(lambda hit: _WORDS[hit[0].lower()], text)
    tagged = next(in_tags(text, _AT_ONCE), None)
    if tagged:
        return float(tagged[1])
    for where in dict.fromkeys((after_thinking(text), text)):
        last: re.Match[str] | None = None
        for last in _ANY.finditer(where):  # noqa: B007 - no list: a reply may hold a hundred thousand numbers
            pass
        if last is not None:
            return float(last[0])
    return None
