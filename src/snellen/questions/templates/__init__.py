"""Question wording: articles by sound, and template sets by kind, built in or from a TOML file."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.safe_paths import regular_file
from snellen.text import normalized
from snellen.toml_text import packaged_toml, parse_toml

# Names of letters that begin with a vowel sound: ay, ee, eff, aitch, eye, ell, em, en, oh, ar, ess, ex.
_SPOKEN_WITH_VOWEL = frozenset("aefhilmnorsx")
_FIRST = re.compile(r"[^\W\d_]+|\d+")
_ELEVEN_EIGHTEEN = ("11", "18")


@lru_cache(maxsize=50_000)
def article(name: str) -> str:
    """Return the indefinite article of a name, `a` or `an`.

    Numbers as they are spoken (an 8, an 11, an 1800, a 707, a 110), letters and codes letter by letter (an F-16, an
    MD-80, a B-2, an SUV), words by their sound (an hour, a unicorn, a European robin).

    >>> [article(name) for name in ("American crow", "unicorn", "hour", "F-16", "8", "707", "MD-80")]
    ['an', 'a', 'an', 'an', 'an', 'a', 'an']
    """
    plain = "".join(c for c in normalized("NFKD", name) if not unicodedata.combining(c))
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
    best = max((prefix for prefix in _exceptions() if word.startswith(prefix)), key=len, default=None)
    if best is not None:
        return _exceptions()[best]
    return "an" if word[0] in "aeiou" else "a"


def _number_with_vowel(digits: str) -> bool:
    """Return True for numbers spoken with a leading vowel: 8…, 11 and 18 with hundreds or thousands."""
    if digits[0] == "8":
        return True
    return digits.startswith(_ELEVEN_EIGHTEEN) and (len(digits) == 4 or len(digits) % 3 == 2)


def _spelled_out(token: str, rest: str) -> bool:
    """Return True if a token is read letter by letter: one letter, a code before a digit, unpronounceable capitals."""
    if len(token) == 1:
        return not (token in ("a", "A", "I") and rest.startswith(" ")) or rest[1:2].isdigit()
    coded = len(token) <= 3 and re.match(r"-?\d", rest) is not None
    vowels = sum(letter in "aeiouy" for letter in token.lower())
    return vowels == 0 or (token.isupper() and len(token) <= 3) or (coded and (token.isupper() or vowels == 0))


@cache
def _exceptions() -> dict[str, str]:
    data = packaged_toml("snellen.questions.templates", "articles.toml")
    return {word: article_ for article_, words in data.items() for word in words}


BUILT_IN = ("default", "chart")
_COMMON = frozenset({"level", "levels", "noun", "a_noun"})
_NAMED = _COMMON | {"name", "a_name"}
_LISTED = _COMMON | {"quoted", "listed", "values"}
FIELDS: Mapping[str, frozenset[str]] = {
    "truth": _NAMED,
    "choice": _LISTED,
    "short": _COMMON,
    "bias": _NAMED,
    "attribute_truth": frozenset({"attribute", "noun", "a_noun", "name", "a_name"}),
    "attribute_choice": frozenset({"attribute", "noun", "a_noun", "quoted", "listed", "values"}),
}


class KindWording(Struct, frozen=True, forbid_unknown_fields=True):
    """The wording of one kind: a stem, then `listing` (options) and `closing` where present, joined by spaces."""

    stems: tuple[str, ...]
    listing: str = ""
    closing: str = ""

    def texts(self) -> tuple[str, ...]:
        """Return the whole text for each stem, with its fields not yet filled in."""
        return tuple(" ".join(part for part in (stem, self.listing, self.closing) if part) for stem in self.stems)


class Templates(Struct, frozen=True):
    """A set of wordings by kind (`truth`, `choice`, `short`, `bias`, `attribute_truth`, `attribute_choice`).

    `source` says whose words imported ones are.
    """

    name: str
    kinds: Mapping[str, KindWording]
    plurals: Mapping[str, str]
    source: str = ""

    def wording(self, kind: str) -> KindWording:
        """Return the wording of a kind. Raises DataError if the set has none."""
        if kind not in self.kinds:
            raise DataError(
                f"templates {self.name!r} have no section [{kind}]; they have {', '.join(self.kinds)}",
                "Remove the kind from --kinds, or give --templates FILE.",
            )
        return self.kinds[kind]

    def plural(self, word: str) -> str:
        """Return the plural of a level name, from the table of plurals or with an s."""
        return self.plurals.get(word, f"{word}s")


def load_templates(name: str) -> Templates:
    """Load a built-in template set by name, or a TOML file.

    Raises:
        DataError: no such set or file, no stems, a field in braces that its kind does not have.
    """
    if name in BUILT_IN:
        return _built_in(name)
    path = Path(name)
    if not path.suffix and not path.exists():
        raise DataError(f"there are no templates {name!r}", f"Built in: {', '.join(BUILT_IN)}; or give a TOML file.")
    regular_file(path)
    try:
        return _checked(parse_toml(path.read_text(encoding="utf-8")), str(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {error}", "Templates are TOML, in UTF-8.") from error


@cache
def _built_in(name: str) -> Templates:
    return _checked(packaged_toml("snellen.questions.templates", f"{name}.toml"), name)


def _checked(data: dict[str, Any], name: str) -> Templates:
    plurals, source = data.pop("plurals", {}), str(data.pop("source", ""))
    kinds: dict[str, KindWording] = {}
    for kind, section in data.items():
        if kind not in FIELDS:
            raise DataError(
                f"{name}: section [{kind}] is unknown",
                f"Sections are {', '.join(FIELDS)} and plurals; `source` names the words' authors.",
            )
        try:
            kinds[kind] = msgspec.convert(section, KindWording)
        except msgspec.ValidationError as error:
            raise DataError(f"{name}, [{kind}]: {error}", "stems, listing and closing were expected.") from error
        texts = kinds[kind].texts()
        if not texts or len(set(texts)) != len(texts):
            raise DataError(f"{name}, [{kind}]: {len(texts)} stems were found; one or more different ones expected")
        for text in texts:
            _check_fields(text, kind, name)
    return Templates(name, kinds, plurals, source)


def _check_fields(text: str, kind: str, name: str) -> None:
    try:
        fields = [parts for _, *parts in string.Formatter().parse(text) if parts[0] is not None]
    except ValueError as error:
        raise DataError(f"{name}, [{kind}]: {text!r}: {error}", "Write {{ for a brace.") from error
    known, used = FIELDS[kind], {name or "" for name, _, _ in fields}
    bare = not any(spec or conversion for _, spec, conversion in fields)
    if not bare or not used <= known:
        odd = ", ".join(sorted(used - known)) or "a format"
        raise DataError(f"{name}, [{kind}]: {text!r} uses {odd}", f"Fields are {', '.join(sorted(known))}.")
    needs = {"name", "a_name"} if "name" in known else {"quoted", "listed", "values"} if "quoted" in known else set()
    if needs and not needs & used:
        raise DataError(f"{name}, [{kind}]: {text!r} uses neither {' nor '.join(sorted(needs))}", "Add one of them.")


def fill(text: str, *, level: str, noun: str, templates: Templates, name: str = "", options: Sequence[str] = ()) -> str:
    """Fill in a template. `level` is the attribute name in attribute questions."""
    return text.format(
        level=level,
        levels=templates.plural(level),
        attribute=level,
        noun=noun,
        a_noun=f"{article(noun)} {noun}",
        name=name,
        a_name=f"{article(name)} {name}" if name else "",
        quoted=quoted(options),
        listed=listed(options),
        values=", ".join(options),
    )


def quoted(options: Sequence[str]) -> str:
    """Join options in double quotes, as the released question files do."""
    return ", ".join(f'"{option}"' for option in options)


def listed(options: Sequence[str]) -> str:
    """Join options as `one, two or three`."""
    return ", ".join(options[:-1]) + " or " + options[-1] if len(options) > 1 else "".join(options)
