"""Names of columns by role in ten languages (column_names.toml), compared without case, accents, blanks and signs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from unicodedata import category, normalize

from msgspec import Struct

from snellen.toml_text import packaged_toml

_NO_LETTERS = re.compile(r"[\W_]+")
IMAGE_IDS = ("imageid", "imgid", "imageids", "imgids")
"""Names of images without their ending, where no other column has images."""


class RoleNames(Struct, frozen=True):
    """Names of columns that may have a role: `strong` ones, and `weak` ones that count only if there is no strong one."""

    strong: tuple[str, ...]
    weak: tuple[str, ...] = ()


def plain_name(column: str) -> str:
    """Return a column's name without case, accents, blanks and signs; letters of all scripts stay.

    >>> plain_name("Réponse_correcte"), plain_name("選択肢 "), plain_name("Правильный ответ")
    ('reponsecorrecte', '選択肢', 'правильныиответ')
    """
    if column.isascii():
        return _NO_LETTERS.sub("", column.lower())
    apart = normalize("NFKD", column.casefold().replace("ß", "ss"))
    return _NO_LETTERS.sub("", normalize("NFC", "".join(char for char in apart if category(char) != "Mn")))


@cache
def role_names() -> Mapping[str, RoleNames]:
    """Return the names of each role, and `single_option`: what stands before the letter of a column of one option."""
    roles = packaged_toml("snellen.benchmarks.table", "column_names.toml")
    names: dict[str, RoleNames] = {}
    for role, by_language in roles.items():
        weak = by_language.pop("weak", ())
        strong = dict.fromkeys(plain_name(name) for several in by_language.values() for name in several)
        names[role] = RoleNames(tuple(strong), tuple(dict.fromkeys(map(plain_name, weak))))
    return names
