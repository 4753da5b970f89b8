"""Full-text search by BM25, computed by bm25s: its scores are worked out beforehand, so that a query adds up numpy arrays.

Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", equation 3.15, with k1 = 1.2 and
b = 0.75, and the inverse document frequency ln(1 + (N - df + 0.5) / (df + 0.5)), which is never negative (`lucene` in
bm25s, which leaves out the constant factor k1 + 1). A word of the title counts as TITLE words of the text. Words are split
here, since bm25s knows no language without spaces; so are ties broken, which its `retrieve` leaves open.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from snellen.text import normalized

if TYPE_CHECKING:
    from bm25s import BM25

K1, B, TITLE = 1.2, 0.75, 3
LONGEST_WORD = 64

# Chinese, Japanese and Thai put no space between words: there, pairs of characters stand for words.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_PIECE = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_WITHOUT_SPACES = re.compile(f"[{_UNSPACED}]")


def split_words(text: str) -> list[str]:
    """Return the words of a text: lower case, accents dropped, in order."""
    if not text.isascii():
        text = normalized("NFKD", text)
        text = "".join(character for character in text if not unicodedata.combining(character))
        text = unicodedata.normalize("NFC", text)
    words: list[str] = []
    for piece in _PIECE.findall(text.lower()):
        if _WITHOUT_SPACES.match(piece):
            words += [piece[at : at + 2] for at in range(len(piece) - 1)] or [piece]
        else:
            words.append(piece[:LONGEST_WORD])
    return words


def write_index(texts: Iterable[tuple[str, str]], folder: Path) -> None:
    """Index pages into a folder that `open_index` reads.

    Args:
        texts: (title, text) of the pages, in the order of their numbers; at least one.
        folder: it is there already.
    """
    from bm25s import BM25

    corpus = [split_words(title) * TITLE + split_words(text) for title, text in texts]
    if not any(corpus):
        corpus = [[""] for _ in corpus]  # bm25s cannot index pages without any word
    index = BM25(k1=K1, b=B, method="lucene")
    index.index(corpus, show_progress=False)
    index.save(folder, show_progress=False)


def open_index(folder: Path) -> BM25:
    """Open an index by mapping its files.

    Raises:
        OSError, ValueError: its files are missing or damaged.
    """
    from bm25s import BM25

    index = BM25.load(folder, mmap=True)
    # Plain arrays over the mapped files: numpy's own class for them costs more at every slice.
    index.scores.update({name: np.asarray(index.scores[name]) for name in ("data", "indices", "indptr")})
    return index


def best_pages(index: BM25, query: Sequence[str], k: int) -> list[int]:
    """Return numbers of the k best pages, best first, ties by number; pages without any of the words are left out.

    Args:
        index: as `open_index` returned it.
        query: words, as `split_words` returns them; each counts once.
        k: how many at most.
    """
    words = index.get_tokens_ids(list(dict.fromkeys(query)))
    if not words:
        return []
    total = index.get_scores_from_ids(words)
    few = min(k, len(total))
    least = np.partition(total, len(total) - few)[len(total) - few] if few else 0.0
    candidates = np.flatnonzero(total >= max(least, np.finfo(np.float32).tiny))
    return [int(number) for number in candidates[np.argsort(-total[candidates], kind="stable")[:k]]]


def snippet(text: str, query: Sequence[str], length: int = 240) -> str:
    """Return about `length` characters of a text around the first word of the query that occurs in it, on one line."""
    # Lower case has the length of the text nearly always; where it has not, the snippet begins a little beside the word.
    looked = text.lower()
    at = min((place for word in dict.fromkeys(query) if (place := looked.find(word)) >= 0), default=-1)
    start = max(0, at - length // 3)
    if start:
        start = text.find(" ", start, at) + 1 or start
    piece = " ".join(text[start : start + length].split())
    return ("… " if start else "") + piece + (" …" if start + length < len(text) else "")
