"""Comparison of an extracted answer with the gold answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from snellen.scoring.extract.base import Reading
from snellen.scoring.extract.numerals import digits
from snellen.scoring.name_match import names, same
from snellen.text import terms

_YES = terms("yes y true t 1 correct right same 是 对 正确")
RELATIVE = 0.01
"""A number is correct within 1 % of the gold value, or when it is the gold value rounded to the digits it is given
in.
"""


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
        return bool(value) == truth(gold)
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


def truth(gold: Any) -> bool:
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
