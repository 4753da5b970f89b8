"""Full-text search: BM25 with its scores worked out beforehand, so that a query is a few additions of numpy arrays.

Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", equation 3.15, with k1 = 1.2 and
b = 0.75, and the inverse document frequency ln(1 + (N - df + 0.5) / (df + 0.5)), which is never negative. A word of the
title counts as TITLE words of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

K1, B, TITLE = 1.2, 0.75, 3
LONGEST_WORD = 64

# Chinese, Japanese and Thai put no space between words: there, pairs of characters stand for words.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_PIECE = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_WITHOUT_SPACES = re.compile(f"[{_UNSPACED}]")


def words(text: str) -> list[str]:
    """The words of a text: lower case, accents dropped, in order."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(character for character in text if not unicodedata.combining(character))
        text = unicodedata.normalize("NFC", text)
    found: list[str] = []
    for piece in _PIECE.findall(text.lower()):
        if _WITHOUT_SPACES.match(piece):
            found += [piece[at : at + 2] for at in range(len(piece) - 1)] or [piece]
        else:
            found.append(piece[:LONGEST_WORD])
    return found


class Postings(NamedTuple):
    """Of all words one after another: `pages` (int32) and the `scores` (float32) that the word gives each of them."""

    terms: list[tuple[str, int, int]]
    pages: NDArray[np.int32]
    scores: NDArray[np.float32]


def postings(texts: Iterable[tuple[str, str]]) -> Postings:
    """Scores of every word in every page.

    Args:
        texts: (title, text) of the pages, in the order of their numbers.

    Returns:
        `terms` holds (word, start, end) into the two arrays, sorted by word.
    """
    held: dict[str, list[tuple[int, int]]] = {}
    lengths: list[int] = []
    for number, (title, text) in enumerate(texts):
        counted = Counter(words(text))
        for word in words(title):
            counted[word] += TITLE
        lengths.append(sum(counted.values()))
        for word, times in counted.items():
            held.setdefault(word, []).append((number, times))
    length = np.asarray(lengths, dtype=np.float64)
    weight = K1 * (1 - B + B * length / max(1.0, float(length.mean()) if len(length) else 1.0))
    terms: list[tuple[str, int, int]] = []
    pages, scores, at = [], [], 0
    for word in sorted(held):
        found = np.asarray(held[word], dtype=np.int64)
        where, often = found[:, 0], found[:, 1].astype(np.float64)
        rarity = np.log(1 + (len(lengths) - len(found) + 0.5) / (len(found) + 0.5))
        pages.append(where.astype(np.int32))
        scores.append((rarity * often * (K1 + 1) / (often + weight[where])).astype(np.float32))
        terms.append((word, at, at + len(found)))
        at += len(found)
    if not terms:
        return Postings([], np.empty(0, np.int32), np.empty(0, np.float32))
    return Postings(terms, np.concatenate(pages), np.concatenate(scores))


def best(
    query: Sequence[str],
    find: Callable[[str], tuple[int, int] | None],
    pages: NDArray[np.int32],
    scores: NDArray[np.float32],
    size: int,
    k: int,
) -> list[int]:
    """Numbers of the k best pages, best first, ties by number; pages without any of the words are left out.

    Args:
        query: words, as `words` gives them; each counts once.
        find: where a word stands in the arrays.
        pages, scores: as of `postings`.
        size: how many pages there are.
        k: how many at most.
    """
    total = np.zeros(size, dtype=np.float32)
    for word in dict.fromkeys(query):
        place = find(word)
        if place is not None:
            total[pages[place[0] : place[1]]] += scores[place[0] : place[1]]
    few = min(k, size)
    least = np.partition(total, size - few)[size - few] if few else 0.0
    near = np.flatnonzero(total >= max(least, np.finfo(np.float32).tiny))
    return [int(number) for number in near[np.argsort(-total[near], kind="stable")[:k]]]


def snippet(text: str, query: Sequence[str], length: int = 240) -> str:
    """About `length` characters of a text around the first word of the query that occurs in it, on one line."""
    # Lower case has the length of the text nearly always; where it has not, the snippet begins a little beside the word.
    looked = text.lower()
    at = min((place for word in dict.fromkeys(query) if (place := looked.find(word)) >= 0), default=-1)
    start = max(0, at - length // 3)
    if start:
        start = text.find(" ", start, at) + 1 or start
    piece = " ".join(text[start : start + length].split())
    return ("… " if start else "") + piece + (" …" if start + length < len(text) else "")
