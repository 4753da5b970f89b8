"""A --judge without a value, as FIKA-Bench's scripts write it: the judge of JUDGE_MODEL."""

from __future__ import annotations

from collections.abc import Sequence

OPTION, DEFAULT = "--judge", "JUDGE_MODEL"


def with_bare_judge(words: Sequence[str]) -> list[str]:
    """Return a command line of `run` in which --judge without a value has the value JUDGE_MODEL."""
    line = list(words)
    if next((word for word in line if not word.startswith("-")), "") != "run":
        return line
    for number, word in enumerate(line):
        last = number + 1 == len(line)
        if word == OPTION and (last or line[number + 1].startswith("-")):
            line[number] = f"{OPTION}={DEFAULT}"
    return line
