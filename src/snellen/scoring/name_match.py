"""Comparison of names by whole words, not by letters or substrings."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from snellen.text import normalized, terms

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


_SKIP = terms("a an the")
MODIFIERS = terms(
    "red green blue yellow orange purple pink brown black white gray grey dark light golden silver beige "
    "bright pale small large big little tiny huge tall short long old young new adult juvenile immature male "
    "female mature baby wild domestic common typical single real toy wooden metal plastic glass ceramic paper "
    "stone round square striped spotted fresh ripe cooked american european eurasian african asian australian "
    "northern southern eastern western vintage modern classic standard vibrant lovely stunning majestic fluffy shiny dirty blooming healthy delicate elegant pretty nice fine whole full complete half partial empty open closed wet dry dried broken clean sleek slender slim thin thick wide narrow flat curved solid hollow soft hard smooth rough heavy male-plumaged dull dense dark-colored bright-colored multi colored coloured striped fancy tall-growing flowering potted edible raw grilled fried baked roasted sliced beautiful cute simple ordinary regular "
    "colorful"
)
CLASSES = terms(
    "bird dog cat fish flower plant tree animal insect butterfly aircraft airplane plane jet airliner car "
    "vehicle sedan suv truck coupe hatchback convertible wagon van species breed family mammal reptile food "
    "dish fruit vegetable building tower landmark digit number puppy kitten chick cub calf foal duckling plush figurine statue creature object toy logo brand character class "
    "genus game aeroplane mushroom shape type variety cultivar model dinosaur shark"
)


_IRREGULAR = {"leaves": "leaf", "wolves": "wolf", "mice": "mouse", "geese": "goose", "people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot", "knives": "knife", "sheep": "sheep"}  # fmt: skip
_NUMBER = dict(
    zip(
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"],
        map(str, range(2, 21)),
        strict=True,
    )
)  # fmt: skip


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Strip plural and possessive: `kites` and `kite's` to `kite`; number words become digits."""
    if "'" in word:
        word = word.removesuffix("'s")
        word = word.replace("'", "")
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _NUMBER:
        return _NUMBER[word]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies") and len(word) > 4:
            return word[:-3] + "y"
        if word.endswith(("ches", "shes", "xes", "sses", "zes")):
            return word[:-2]
        return word[:-1]
    if word == "grey":
        return "gray"
    if word == "colour":
        return "color"
    return word


def without_marks(text: str) -> str:
    """Decompose a text (NFKD) and remove combining marks: `Ｅ` and `é` become `E` and `e`."""
    return "".join(char for char in normalized("NFKD", text) if not unicodedata.combining(char))


@lru_cache(maxsize=50_000)
def words(name: str) -> tuple[str, ...]:
    """Return the words by which a name is compared: lower case, no diacritics, articles, signs or plurals.

    >>> words("The Brewer's Blackbirds")
    ('brewer', 'blackbird')
    """
    if not name.isascii():
        name = without_marks(name)
    name = name.lower().replace("'", "'").replace("’", "'").replace("&", " and ")
    name = re.sub(r"'s?(?![a-z])|(?<=s)'", "", name).replace("'", "")
    stems = [stem(word) for word in _WORD.findall(name)]
    return tuple(word for word in stems if word not in _SKIP) or tuple(stems)


def same(first: str, second: str) -> bool:
    """Return True if two names are equal, however spaced: `737-800`, `737 800` and `737800` are."""
    a, b = words(first), words(second)
    return a == b or (bool(a) and "".join(a) == "".join(b))


def names(value: str, gold: str) -> bool:
    """Return True if `value` names `gold`: the same words, perhaps with a plain modifier before or the class after.

    `a small red apple` names `apple`, `Red-tailed Hawk bird` names `red tailed hawk`; `sea lion` does not name `lion`,
    `hawk` does not name `red-tailed hawk`, `caterpillar` does not name `cat`.
    """
    if same(value, gold):
        return True
    given_words, wanted = words(value), words(gold)
    if not wanted or len(given_words) <= len(wanted):
        return (
            bool(given_words)
            and len(wanted) > len(given_words)
            and wanted[: len(given_words)] == given_words
            and all(w in CLASSES for w in wanted[len(given_words) :])
        )
    for start in range(len(given_words) - len(wanted) + 1):
        if given_words[start : start + len(wanted)] == wanted:
            before, after = given_words[:start], given_words[start + len(wanted) :]
            if all(w in MODIFIERS or w.isdigit() for w in before) and (
                all(w in CLASSES for w in after) or _phrase(after)
            ):
                return True
    return False


def _phrase(after: tuple[str, ...]) -> bool:
    return after[0] in ("in", "on", "with", "at", "from", "standing", "sitting", "of", "that", "which", "(")
