"""The kind, level and data set of a question, read from its row alone.

Files of several kinds are split by these rules. A file that bears a released name is of that name's benchmark, whatever
these rules say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from snellen.benchmarks.fgbmk import question_text
from snellen.benchmarks.fgbmk.catalogue import ATTRIBUTES, BIAS, Kind, Member, catalogue, datasets, members
from snellen.errors import DataError
from snellen.sources.encodings import Row
from snellen.sources.image_sets import sets_of_path

GENERIC = "generic"
GENERIC_TRUTHS = ("cub", "flowers102", "stanforddog")
"""Data sets whose questions of a level all have the category `generic`, while those of knowledge bias name the class."""
OTHER = "other"
"""The data set or level of a row that neither its image nor its text tells."""
YES_NO = ("yes", "no")
_TRUTH = re.compile(r"\byes\b.{0,12}\bno\b|\btrue\b.{0,12}\bfalse\b", re.IGNORECASE)


def kind_of_row(row: Row, usual: Kind | None = None) -> Kind:
    """Return how a row is answered: yes or no, by one of its options, or openly.

    A row with readable options is a choice, and one whose ground truth is yes or no is a truth. Other rows have no
    readable options: they are of the `usual` kind, or short where there is none.

    >>> kind_of_row({"text": "Is the species of the aves fish crow? Answer with yes or no.", "class": "no"})
    'truth'
    """
    gold, text = row.get("class"), row.get("text")
    gold = gold.strip() if isinstance(gold, str) else ""
    text = text if isinstance(text, str) else ""
    options = question_text.options(text)
    true_option = question_text.true_option(options, gold)
    if gold.lower() in YES_NO and (usual == "truth" or not true_option):
        return "truth"
    if len(options) > 1 and true_option:
        return "choice"
    if usual is not None:
        return usual
    if _TRUTH.search(text):
        return "truth"
    return "choice" if len(options) > 1 else "short"


def members_of_rows(
    rows: Iterable[tuple[int, Row | DataError]], attributes: bool = False
) -> Iterator[tuple[int, Row | DataError, Member | None]]:
    """Yield each row with its member; None for what is no row.

    Knowledge-bias questions look like those of the finest level. They are told apart by their neighbours, two questions
    in a row about one image and one level, and in three data sets by their category.

    Args:
        rows: (line, row or error) in the order of the file.
        attributes: all rows are questions about attributes, as in the released folder of that name.
    """
    before: tuple[str, Member | None] = ("", None)
    placed: tuple[int, Row | DataError, Member | None] | None = None
    for line, row in rows:
        member = None if isinstance(row, DataError) else member_of_row(row, attributes)
        image = "" if isinstance(row, DataError) else str(row.get("image"))
        pair = member is not None and member.kind == "truth" and (image, member) == before
        if placed is not None:
            yield (*placed[:2], _bias(member)) if pair and member is not None else placed
        before = (image, member)
        placed = (line, row, _bias(member) if pair and member is not None else member)
    if placed is not None:
        yield placed


def member_of_row(row: Row, attributes: bool = False) -> Member:
    """Return the member that a row belongs to; one of the data set or level `other` where nothing tells it.

    Without its neighbours a knowledge-bias question is a truth of the finest level.
    """
    text = row.get("text")
    text = text if isinstance(text, str) else ""
    kind = kind_of_row(row)
    if attributes or question_text.attribute(text)[0]:
        name = f"cub/{ATTRIBUTES}/{'choice' if kind == 'short' else kind}"
    else:
        dataset = _dataset(str(row.get("image")), text)
        name = f"{dataset}/{_level(text, dataset)}/{kind}"
        category = row.get("category")
        if dataset in GENERIC_TRUTHS and isinstance(category, str) and category.strip() not in ("", GENERIC):
            return _bias(members().get(name) or _unknown(name))
    return members().get(name) or _unknown(name)


@cache
def _unknown(name: str) -> Member:
    dataset, level, kind = name.split("/")
    return Member(name, dataset, level, kind, counted=False)  # type: ignore[arg-type]


def _bias(member: Member) -> Member:
    """Return the knowledge-bias member of a truth of the finest level; of others, the member itself."""
    if member.dataset not in datasets() or member.kind != "truth":
        return member
    finest = datasets()[member.dataset].levels[-1].name
    return members().get(f"{member.dataset}/{BIAS}", member) if member.level == finest else member


def _dataset(image: str, text: str) -> str:
    by_path = [name for name in sets_of_path(image) if name in datasets()]
    by_noun = [name for name in by_path if _names_noun(name, text)]
    if by_noun or by_path:
        return (by_noun or by_path)[0]
    named = [name for name in datasets() if _names_noun(name, text)]
    return named[0] if len(named) == 1 else OTHER


@cache
def _noun_forms() -> dict[str, re.Pattern[str]]:
    return {
        name: re.compile(rf"\b(?:{'|'.join(map(re.escape, dataset.nouns))})\b") if dataset.nouns else re.compile("(?!)")
        for name, dataset in datasets().items()
    }


def _names_noun(dataset: str, text: str) -> bool:
    return bool(_noun_forms()[dataset].search(text.partition("?")[0]))


@cache
def _level_form() -> re.Pattern[str]:
    words = sorted(catalogue().level_words, key=len, reverse=True)
    plurals = {"classes": "class", "genera": "genus"}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, [*words, *plurals]))})\b", re.IGNORECASE)


@lru_cache(maxsize=8_192)
def _level(text: str, dataset: str) -> str:
    match = _level_form().search(text)
    word = match[0].lower() if match else ""
    level = {"fine-grained category": "species", "classes": "class", "genera": "genus"}.get(word, word)
    levels = [level.name for level in datasets()[dataset].levels] if dataset in datasets() else []
    return level if level in levels or (level and not levels) else levels[0] if len(levels) == 1 else level or OTHER
