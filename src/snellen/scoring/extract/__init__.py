"""Strict answer extraction: the answer of a free-text reply, or the reason why there is none.

`read` never looks at the gold answer; `correct` compares the extracted answer with it. The rules are in
docs/extraction.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from snellen.errors import DataError
from snellen.scoring.extract.base import Reading, lettered
from snellen.scoring.extract.match import correct

__all__ = ["KINDS", "Reading", "correct", "read"]

KINDS = ("truth", "choice", "choice_text", "count", "number", "short")
_LONGEST = 80
_LETTERED = re.compile(r"(?:A(?:nswer|NSWER): )?\(?([A-Z])[).:]?(?:\s+([^\s].*?))?\.?\s*", re.ASCII)
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,8})\.?\s*", re.ASCII)
_TRUTH = {"yes": ("yes/no", True), "no": ("yes/no", False), "true": ("T/F", True), "false": ("T/F", False)}
_TRUTH |= {"t": ("T/F", True), "f": ("T/F", False)}


def read(
    kind: str,
    reply: str,
    *,
    question: str = "",
    options: Mapping[str, str] | Sequence[str] | None = None,
    aliases: Sequence[str] = (),
    form: str | None = None,
    unit: str | None = None,
    gold: Any = None,
) -> Reading:
    """Extract the answer of one reply.

    Args:
        kind: truth, choice, choice_text, count, number or short.
        reply: the model's reply, verbatim; any string.
        question: the question's text. Optional; it helps to understand full sentences.
        options: letter to text, or texts that are lettered A, B, … by position.
        aliases: ignored; accepted so that a whole row can be passed.
        form: `yes/no` or `T/F`, the answer format of a truth question.
        unit: the expected unit of a number; a reply in a compatible unit is converted.
        gold: ignored; accepted so that a whole row can be passed.

    Returns:
        The reading. Its value is None, with a reason, where the reply gives no single answer. Of a reply longer than
        `clean.LONGEST` characters only head and tail are read; the reason then says so.

    Raises:
        DataError: for an unknown kind, or a choice without options.
    """
    pairs = lettered(options) if kind in ("choice", "choice_text") else ()
    if kind not in KINDS:
        raise DataError(f"cannot read a reply of kind {kind!r}; kinds are {', '.join(KINDS)}.")
    if kind in ("choice", "choice_text") and not pairs:
        raise DataError(f"a reply of kind {kind!r} needs options: letter to text, or a list of texts.")
    reading = shortcut(kind, reply, pairs, form)
    if reading is None:
        from snellen.scoring.extract.whole import read_whole, take_apart  # its tables of words: not for a plain reply

        apart = take_apart(reply)
        reading = read_whole(kind, apart, pairs, question, unit)
        if apart.omitted:
            cut = f"read at head and tail: {apart.omitted:,} of {len(reply):,} characters were left out"
            reading = reading._replace(reason=cut if reading.reason is None else f"{reading.reason}; {cut}")
    if kind == "choice_text" and reading.value is not None:
        reading = Reading(dict(pairs)[str(reading.value)], reading.reason)
    return reading


def shortcut(kind: str, reply: str, pairs: tuple[tuple[str, str], ...], form: str | None) -> Reading | None:
    """Return the reading of a plain short reply: a letter, a word or a number; None for any other reply.

    It is what the full extraction returns (a test compares them), at a fraction of the time.
    """
    if len(reply) > _LONGEST:
        return None
    if kind in ("choice", "choice_text"):
        return _option(reply, pairs)
    if kind == "truth":
        known = _TRUTH.get(reply.strip().removesuffix(".").lower())
        return Reading(known[1], None) if known is not None and known[0] == form else None
    if kind in ("count", "number") and _NUMBER.fullmatch(reply):
        value = int(reply.strip().removesuffix("."))
        return Reading(value if kind == "count" else float(value), None)
    return None


def _option(reply: str, pairs: tuple[tuple[str, str], ...]) -> Reading | None:
    match = _LETTERED.fullmatch(reply)
    if match is None:
        return None
    letter, option_text = match.groups()
    own = [text for name, text in pairs if name == letter]
    # Options that are letters themselves, and a letter given twice, need more than a glance.
    if len(own) != 1 or any(len(text.strip()) < 2 for _, text in pairs):
        return None
    if option_text is not None and option_text.strip().lower() != own[0].strip().removesuffix(".").lower():
        return None
    return Reading(letter, None)
