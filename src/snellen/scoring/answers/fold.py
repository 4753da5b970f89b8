"""Texts made comparable: each level drops a difference that says nothing, and is used only where it merges no two values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache

from snellen.scoring.answers.dress import undressed

_ENDS = re.compile(r"(?<=[^\W\d_]{2})[!?！？]+$|[,;:、，；：]+$")
_OPENING = re.compile(r"^[¿¡]+")
_SIGNS = str.maketrans("’‘ʼ´“”„–—‐‑−", "''''\"\"\"-----")


@lru_cache(maxsize=64)
def exact(text: str) -> str:
    """Return a text in NFC without dress, outer punctuation and doubled blanks. Each level begins with it."""
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


_IRREGULAR = {"leaves": "leaf", "wolves": "wolf", "mice": "mouse", "geese": "goose", "people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot", "knives": "knife", "mosquitoes": "mosquito", "tomatoes": "tomato", "potatoes": "potato", "volcanoes": "volcano"}  # fmt: skip


_SPELLINGS = {"grey": "gray", "colour": "color", "coloured": "colored", "moustached": "mustached", "sulphur": "sulfur"}


@lru_cache(maxsize=1)
def _known_words() -> Mapping[str, str]:
    """Return words that are irregular or spelled otherwise, and numbers in words, which digits stand for."""
    from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED  # a run that only compares texts needs none of it

    return {word: str(value) for word, value in ENGLISH_BELOW_HUNDRED.items() if value > 1} | _SPELLINGS | _IRREGULAR


@lru_cache(maxsize=20_000)
def stemmed(word: str) -> str:
    """Return a lower-case word without plural and possessive, a number word as digits: `kites` and `kite's` are `kite`."""
    word = word.casefold()
    if not word.isascii():
        word = folded(word)
    if "'" in word:
        word = word.removesuffix("'s").replace("'", "")
    if (known := _known_words().get(word)) is not None:
        return known
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) and word.isalpha():
        if word.endswith("ies") and len(word) > 4:
            return word[:-3] + "y"
        return word[:-2] if word.endswith(("ches", "shes", "xes", "sses", "zes")) else word[:-1]
    return word
