"""Texts made comparable: each level drops a difference that says nothing, and is used only where it merges no two values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache

from snellen.scoring.answers.dress import undressed

_ENDS = re.compile(r"(?<=[^\W\d_]{2})[!?！？]+$|[,;:、，；：]+$")
_OPENING = re.compile(r"^[¿¡]+")
_SIGNS = str.maketrans(
    {
        "’": "'",
        "‘": "'",
        "ʼ": "'",
        "´": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "–": "-",
        "—": "-",
        "‐": "-",
        "‑": "-",
        "−": "-",
    }
)
_JOINTS = re.compile(r"(?<=[^\W\d_])[-'](?=[^\W\d_])")


def exact(text: str) -> str:
    """Return a text in NFC without dress, outer punctuation and doubled blanks."""
    text = undressed(text if text.isascii() else unicodedata.normalize("NFC", text))
    text = " ".join(text.translate(_SIGNS).split())
    return _OPENING.sub("", _ENDS.sub("", text)) or text


def accents(text: str) -> str:
    """Return `exact` without case."""
    return exact(text).casefold()


def folded(text: str) -> str:
    """Return `exact` without case, accents and full-width forms."""
    text = accents(text)
    return text if text.isascii() else without_marks(text)


@lru_cache(maxsize=20_000)
def without_marks(text: str) -> str:
    """Decompose a text (NFKD) and remove combining marks of letters: `Ｅ` and `é` become `E` and `e`."""
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))


FOLDS: Mapping[str, Callable[[str], str]] = {"exact": exact, "accents": accents, "folded": folded}
"""Level of `AnswerContext` to the fold that it names."""
