"""a or an, by the sound that a name begins with."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache, lru_cache
from importlib.resources import files

# Names of letters that begin with a vowel sound: ay, ee, eff, aitch, eye, ell, em, en, oh, ar, ess, ex.
_SPOKEN_WITH_VOWEL = frozenset("aefhilmnorsx")
_FIRST = re.compile(r"[^\W\d_]+|\d+")
_ELEVEN_EIGHTEEN = ("11", "18")


@lru_cache(maxsize=50_000)
def article(name: str) -> str:
    """`a` or `an`.

    Numbers as they are spoken (an 8, an 11, an 1800, a 707, a 110), letters and codes letter by letter (an F-16, an
    MD-80, a B-2, an SUV), words by their sound (an hour, a unicorn, a European robin).

    >>> [article(name) for name in ("American crow", "unicorn", "hour", "F-16", "8", "707", "MD-80")]
    ['an', 'a', 'an', 'an', 'an', 'a', 'an']
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    plain = plain.strip().lstrip("'\"‘“(")
    first = _FIRST.match(plain)
    if first is None:
        return "a"
    token = first.group()
    if token[0].isdigit():
        return "an" if _number_with_vowel(token) else "a"
    if _spelled_out(token, plain[len(token) :]):
        return "an" if token[0].lower() in _SPOKEN_WITH_VOWEL else "a"
    word = plain.lower()
    best = max((one for one in _exceptions() if word.startswith(one)), key=len, default=None)
    if best is not None:
        return _exceptions()[best]
    return "an" if word[0] in "aeiou" else "a"


def _number_with_vowel(digits: str) -> bool:
    """Eight and everything that begins with it; eleven and eighteen, with hundreds or thousands behind them or none."""
    if digits[0] == "8":
        return True
    return digits.startswith(_ELEVEN_EIGHTEEN) and (len(digits) == 4 or len(digits) % 3 == 2)


def _spelled_out(token: str, rest: str) -> bool:
    """Whether a token is read letter by letter: one letter, a code before a digit, capitals that make no word."""
    if len(token) == 1:
        return not (token in ("a", "A", "I") and rest.startswith(" ")) or rest[1:2].isdigit()
    coded = len(token) <= 3 and re.match(r"-?\d", rest) is not None
    vowels = sum(letter in "aeiouy" for letter in token.lower())
    return vowels == 0 or (token.isupper() and len(token) <= 3) or (coded and (token.isupper() or vowels == 0))


@cache
def _exceptions() -> dict[str, str]:
    data = tomllib.loads(files("snellen.build").joinpath("articles.toml").read_text(encoding="utf-8"))
    return {word: which for which, words in data.items() for word in words}
