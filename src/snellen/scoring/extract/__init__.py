"""Strict answer extraction: the answer of a free-text reply, or the reason why there is none, and its comparison with gold.

`read` never looks at the gold answer; `correct` compares the extracted answer with it. The rules are in
docs/extraction.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from snellen.errors import DataError
from snellen.scoring.extract.base import Reading, lettered
from snellen.scoring.extract.numerals import digits
from snellen.scoring.name_match import names, same
from snellen.text import terms

__all__ = ["KINDS", "Reading", "correct", "read"]

KINDS = ("truth", "choice", "choice_text", "count", "number", "short")
_LONGEST = 80
_LETTERED = re.compile(r"(?:A(?:nswer|NSWER): )?\(?([A-Z])[).:]?(?:\s+([^\s].*?))?\.?\s*", re.ASCII)
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,8})\.?\s*", re.ASCII)
_TRUTH = {"yes": ("yes/no", True), "no": ("yes/no", False), "true": ("T/F", True), "false": ("T/F", False)}
_TRUTH |= {"t": ("T/F", True), "f": ("T/F", False)}
_YES = terms("yes y true t 1 correct right same 是 对 正确")
RELATIVE = 0.01
"""A number is correct within 1 % of the gold value, or when it is the gold value rounded to the digits it is given in."""


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


def correct(kind: str, value: Any, gold: Any, aliases: Sequence[str] = ()) -> bool:
    """Return True if a value of `read` (or the whole Reading) is the gold answer; None never is.

    Args:
        kind: as for `read`.
        value: what was read.
        gold: bool or a word for one (truth), letter (choice), option text (choice_text), int (count), number (number),
            a name or a sequence of accepted names (short).
        aliases: other accepted names or texts.

    Numbers are compared as `RELATIVE` says. Names are compared by whole words after light normalisation (case,
    diacritics, articles, apostrophes, hyphens, plurals), see `snellen.scoring.name_match`.
    """
    also: tuple[str, ...] = ()
    if isinstance(value, Reading):
        also, value = value.also, value.value
    if value is None or gold is None:
        return False
    if kind == "truth":
        return bool(value) == _is_true(gold)
    if kind == "choice":
        accepted = [gold, *aliases] if isinstance(gold, str) else list(gold)
        return any(str(value).strip().upper() == str(g).strip().strip("().").upper() for g in accepted)
    if kind == "count":
        wanted = digits(str(gold).strip())
        return wanted is not None and int(value) == wanted
    if kind == "number":
        return _close(float(value), gold)
    accepted = [gold, *aliases] if isinstance(gold, str) else [*gold, *aliases]
    if kind == "choice_text":
        return any(same(str(value), str(g)) for g in accepted)
    return any(names(name, str(g)) for name in (str(value), *also) for g in accepted)


def _is_true(gold: Any) -> bool:
    """Return a gold truth value as bool: True, `yes`, `T`, `true`, 1 … and their opposites."""
    if isinstance(gold, str):
        return gold.strip().strip(".").lower() in _YES
    return bool(gold)


def _close(value: float, gold: Any) -> bool:
    try:
        wanted = float(gold)
    except (TypeError, ValueError):
        parsed = digits(str(gold).strip())
        if parsed is None:
            return False
        wanted = float(parsed)
    if math.isclose(value, wanted, rel_tol=RELATIVE, abs_tol=1e-9):
        return True
    text = f"{value:.12g}"
    decimals = len(text.split(".")[1]) if "." in text and "e" not in text else 0
    return decimals > 0 and math.isclose(round(wanted, decimals), value, rel_tol=1e-9)
