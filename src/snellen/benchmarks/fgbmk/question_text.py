"""A parser of question texts (options, the class that is asked about, the template), and the authors' normalisation.

Sources: the released question files, whose forms are in catalogue.toml; demo/human_evaluation/answer_acc.py at commit 7765a10.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from snellen.benchmarks.fgbmk.catalogue import Kind, catalogue

_RUN = re.compile(r"[_\-,]+")
_QUOTED = re.compile(r'"([^"]*)"')
_CURLY = re.compile(r"[\u201c\u201e]([^\u201c\u201d\u201e]*)[\u201c\u201d]")
_BRACKETED = re.compile(r"\[([^\[\]]+)\]")
_ATTRIBUTE = re.compile(r"\b(?:what is|is) the (.{1,200}?) of (?:the|this) bird\b\s*([^?]*)", re.IGNORECASE)
_ENDING = re.compile(r"\?[^?]*$")
GROUPS = {
    "color": "color",
    "colour": "color",
    "pattern": "pattern",
    "shape": "shape",
    "length": "length",
    "size": "size",
}


def normalised(text: str) -> str:
    """Replace each run of underscores, hyphens and commas by one space; lower the case, strip white space.

    Spaces are not collapsed, and apostrophes, slashes, full stops and quotes stay, although a comment of the authors
    promises more.
    """
    return _RUN.sub(" ", text).lower().strip()


def options(text: str) -> tuple[str, ...]:
    """The options in order: all that stands in double quotes, else (attributes) the items of a list in brackets.

    >>> options('Which is it? Choose one answer from the following list: "shorts", "dress".')
    ('shorts', 'dress')
    """
    quoted = _QUOTED.findall(text) or _CURLY.findall(text)
    if quoted:
        return tuple(quoted)
    listed = _BRACKETED.search(text)
    return tuple(item.strip().strip("'") for item in listed[1].split(",")) if listed else ()


def true_option(options: Sequence[str], gold: str) -> str:
    """Return the option that is the ground truth, letter by letter or else as the authors' rule compares texts.

    Empty where none is, or several are.
    """
    if gold in options:
        return gold
    same = [option for option in options if normalised(option) == normalised(gold)]
    return same[0] if len(same) == 1 else ""


@cache
def _about() -> re.Pattern[str]:
    level, noun = _level(), _noun()
    return re.compile(
        rf"known as |in this photo an? |shown an? |shown in this {noun} |is the {level} of (?:the|this) {noun} "
        rf"(?:shown an? )?|is the {level} shown in this {noun} ",
        re.IGNORECASE,
    )


@cache
def _level() -> str:
    words = sorted(catalogue().level_words, key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, words))})"


@cache
def _noun() -> str:
    return rf"(?:{'|'.join(map(re.escape, catalogue().nouns))}|\S+)"


@lru_cache(maxsize=8_192)
def asked(text: str) -> str:
    """Return the class that a yes/no question asks about; empty where the text has none of the known forms.

    >>> asked("Is the aves species in this photo a american crow? Answer with yes or no.")
    'american crow'
    """
    about = _about().search(text)
    return _ENDING.sub("", text[about.end() :]).strip() if about else ""


def attribute(text: str) -> tuple[str, str]:
    """Return the attribute that a question about a bird asks for (`wing color`), and the value that it names.

    Either is empty where the question has none.
    """
    match = _ATTRIBUTE.search(text)
    return (match[1].strip().lower(), match[2].strip()) if match else ("", "")


def group(attribute: str) -> str:
    """Return the group of an attribute, by its last word: color, pattern, shape, length or size; empty for others."""
    return GROUPS.get(attribute.rpartition(" ")[2], "shape" if attribute == "overall shape" else "")


@cache
def _stems(kind: Kind) -> tuple[re.Pattern[str], ...]:
    forms = (form.replace("LEVEL", _level()).replace("NOUN", _noun()) for form in catalogue().stems[kind])
    return tuple(re.compile(form) for form in forms)


@lru_cache(maxsize=8_192)
def stem(kind: Kind, text: str) -> str:
    """Return the number of the template, from 1; `other` where the text has none of the known forms."""
    for number, form in enumerate(_stems(kind), 1):
        if form.match(text):
            return str(number)
    return "other"
