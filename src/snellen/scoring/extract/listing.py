"""Replies that go through the options line by line: `A: too dark`, `B: forked tail, matches`."""

from __future__ import annotations

import re

from snellen.scoring.extract.mentions import Options, stems
from snellen.scoring.extract.reading import Reading

_LINE = re.compile(
    r"^\W{0,4}(?:option|choice)?\s?\(?(?P<letter>[A-Za-z])\)?\s*(?:[:.)\-|=]|->|is\b)\s*(?P<said>\S.*)$", re.IGNORECASE
)
_FOR = re.compile(
    r"✓|\byes\b|(?<!in)\bcorrect\b|\bmatch(?:es|ing)?\b|\btrue\b|\bfits?\b|\bthis is (?:it|the)\b|\bconsistent\b|\bright\b(?! (?:side|wing|hand|of))|\bsupported\b|\bagrees\b|"
    r"\bmost likely\b|\bbest\b|\bthe answer\b|\bplausible\b|正确|符合",
    re.IGNORECASE,
)
_AGAINST = re.compile(
    r"✗|\bno\b(?! (?:doubt|other))|\bnot\b|n't\b|\bincorrect\b|\bwrong\b|\bfalse\b|\btoo\b|\black(?:s|ing)?\b|\bunlikely\b|\binconsistent\b|\beliminated?\b|\bruled out\b|\bmismatch\b|"
    r"\bdiffers?\b|\bwould (?:be|have|need)\b|\bfails?\b|不符|错误|不正确|不是",
    re.IGNORECASE,
)


def take_listed(text: str, options: Options) -> tuple[str, dict[str, str]]:
    """Split a text into what is said outside a list of options, and per listed option `yes`, `no` or `open`.

    The list is empty, and the text whole, unless at least two options head a line of their own.
    """
    if "\n" not in text:
        return text, {}
    rest: list[str] = []
    judged: dict[str, str] = {}
    for line in text.split("\n"):
        letter, said = _head(line, options)
        if letter is None:
            rest.append(line)
            continue
        against = len(_AGAINST.findall(said))
        fits = _FOR.search(said) is not None
        judged[letter] = "yes" if fits and not against else "no" if against else "open"
    if len(judged) < 2:
        return text, {}
    return "\n".join(rest).strip(), judged


def _head(line: str, options: Options) -> tuple[str | None, str]:
    match = _LINE.match(line[:400])
    if match is not None:
        letter = match.group("letter").upper()
        return (letter, match.group("said")) if letter in options.texts else (None, "")
    name, colon, said = line[:400].partition(":")
    if not colon:
        name, colon, said = line[:400].partition(" - ")
    if not colon:
        name, colon, said = line[:400].partition("|")[2].partition("|") if line.startswith("|") else ("", "", "")
    if colon and len(name) < 80:
        found = stems(name)
        for letter in options.texts:
            if found == (letter.lower(),) or options.lines.get(found) == letter:
                return letter, said
    return None, ""


def verdict(judged: dict[str, str], options: Options) -> Reading | None:
    """The one option that the list confirms, or the one that it leaves."""
    fits = [letter for letter, said in judged.items() if said == "yes"]
    if len(fits) == 1:
        return Reading(fits[0], None)
    if len(fits) > 1:
        return Reading(None, "two answers: " + ", ".join(fits))
    left = [letter for letter in options.order if judged.get(letter) != "no"]
    return Reading(left[0], None) if len(left) == 1 and len(options.order) > 1 else None
