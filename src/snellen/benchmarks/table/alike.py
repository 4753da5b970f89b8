"""Options of a row and gold texts of a table that differ in so little that an ordinary comparison would merge them.

Texts are compared without case and accents. Where two of them differ in nothing else, the next stricter level is used for these
rows, and `snellen check` names them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.scoring.answers.base import LEVELS
from snellen.scoring.answers.fold import accents, exact, folded

LONGEST = 200
"""Characters of a gold text that is compared with others; two longer ones differ in more than case."""


def _is_plain(text: str) -> bool:
    """Return True for a text of ASCII letters, digits and single blanks, which every fold leaves but for its case."""
    return text.isascii() and text.replace(" ", "").isalnum() and "  " not in text and text[0] != " " != text[-1]


@lru_cache(maxsize=65_536)
def _folded(text: str) -> str:
    return text.lower() if _is_plain(text) else folded(text)


def options_level(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the level at which the options of a row differ, as `level`; empty for the usual one.

    >>> options_level({"A": "Polish", "B": "polish"}), options_level({"A": "peché", "B": "péché"}), options_level({"A": "a", "B": "b"})
    ({'level': 'exact'}, {'level': 'accents'}, {})
    """
    whole = "\n".join(options.values())
    if whole.isascii() and whole.replace(" ", "").replace("\n", "").isalnum() and "  " not in whole:
        folds = set(
            map(str.strip, whole.lower().split("\n"))
        )  # of letters, digits and blanks a fold changes the case alone
    else:
        folds = set(map(_folded, options.values()))
    if len(folds) == len(options):
        return {}
    texts = list(options.values())
    return {"level": _level(len(set(map(exact, texts))), len({accents(text) for text in texts}))}


def _level(exactly: int, with_accents: int) -> str:
    return LEVELS[1] if with_accents == exactly else LEVELS[2]


class AlikeTexts(Struct, frozen=True):
    """Gold texts, by hash, that others of their table equal but for accents or case.

    Attributes:
        folded: hashes of texts, folded, that two different texts share.
        accents: hashes of texts without case that two different texts share.
    """

    folded: frozenset[int] = frozenset()
    accents: frozenset[int] = frozenset()

    def level_of(self, text: str) -> dict[str, Any]:
        """Return the level at which a gold text is compared, as `level`; empty for the usual one."""
        if not self.folded or len(text) > LONGEST or hash(_folded(text)) not in self.folded:
            return {}
        return {"level": LEVELS[2] if hash(accents(text)) in self.accents else LEVELS[1]}


class GoldTexts:
    """Hashes of the gold texts of a table: 24 bytes a text."""

    def __init__(self) -> None:
        self._folded, self._accents, self._exact = array("q"), array("q"), array("q")

    def add(self, text: str) -> None:
        """Add a text."""
        if not text or len(text) > LONGEST:
            return
        if _is_plain(text):
            self._folded.append(hash(text.lower()))
            self._accents.append(self._folded[-1])
            self._exact.append(hash(text))
        else:
            self._folded.append(hash(folded(text)))
            self._accents.append(hash(accents(text)))
            self._exact.append(hash(exact(text)))

    def alike(self) -> AlikeTexts:
        """Return which texts are alike."""
        return AlikeTexts(_shared(self._folded, self._exact), _shared(self._accents, self._exact))


def _shared(keys: array[int], values: array[int]) -> frozenset[int]:
    """Return the keys that several different values have."""
    if not keys:
        return frozenset()
    key, value = np.frombuffer(keys, np.int64), np.frombuffer(values, np.int64)
    order = np.lexsort((value, key))
    key, value = key[order], value[order]
    return frozenset(key[1:][(key[1:] == key[:-1]) & (value[1:] != value[:-1])].tolist())
