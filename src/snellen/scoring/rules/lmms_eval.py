"""lmms-eval's reading of replies without a judge, by its generic rules.

Source: lmms-eval at 75571cf (6 August 2026): the shared multiple-choice extractor, POPE's whole answer, CountBench's number, and
the VQA and OCRBench comparisons, reproduced from their description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from snellen.scoring.rules.short_answers import vqa_normalise

_PHRASE = r"(?:answer|option|choice)(?:\s+is)?\s*:?\s*"
_FORMS = (
    r"\A\s*\(?({letters})(?:[).:,]|\s|\Z)",
    r"(?:\A|[\s(])({letters})[).]?\s*\Z",
    _PHRASE + r"\**\(?({letters})\b",
    r"\(({letters})\)",
    r"\b({letters})\.",
    r"\b({letters}):",
    r"\b({letters})\)",
    r"\b({letters})\s",
)
"""Forms of an answer's letter, the most telling first; of several places of one form the last one counts."""
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")


def read_letter(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the option whose letter stands in the most telling form, else the only option whose text is in the reply."""
    letters = "|".join(map(re.escape, options))
    if not letters:
        return None
    for form in _FORMS:
        flags = re.IGNORECASE if form.startswith(_PHRASE) else 0
        places = re.findall(form.replace("{letters}", letters), reply, flags)
        if places and places[-1].upper() in options:
            return str(places[-1].upper())
    lowered = reply.lower()
    named = [letter for letter, text in options.items() if text and text.lower() in lowered]
    return named[0] if len(named) == 1 else None


def read_whole_yes_no(reply: str) -> bool | None:
    """Return True for `yes` and False for `no` if the whole reply is that word, case ignored."""
    return {"yes": True, "no": False}.get(reply.strip().lower())


def read_number(reply: str) -> float | None:
    """Return the number that the whole reply is, without a closing full stop."""
    text = reply.strip().rstrip(".")
    return float(text) if _NUMBER.fullmatch(text) else None


def contains_folded(reply: str, golds: Sequence[str]) -> bool:
    """Return True if the reply contains a gold answer, case and full-width letters ignored."""
    text = _folded(reply)
    return any(_folded(gold) in text for gold in golds)


def _folded(text: str) -> str:
    return text.translate(_FULL_WIDTH).lower().strip().replace("\n", " ")


def vqa_text(text: str) -> str:
    """Return a text as VQA compares it, commas and question marks dropped and the ending 's set apart."""
    return vqa_normalise(text.replace(",", "").replace("?", "").replace("'s", " 's"))


def vqa_share(reply: str, golds: Sequence[str]) -> float:
    """Return the VQA score: the mean over gold answers of how many of the others equal the reply, of three at most."""
    texts, read = [vqa_text(gold) for gold in golds], vqa_text(reply)
    equal = sum(text == read for text in texts)
    if len(texts) == 1:
        return float(equal)
    return sum(min(1.0, (equal - (text == read)) / 3) for text in texts) / len(texts) if texts else 0.0
