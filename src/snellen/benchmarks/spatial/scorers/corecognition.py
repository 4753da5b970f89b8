"""CoreCognition's reading of a reply: templates of an answer, the first that holds an option, else the whole reply.

Source: lmms-eval, the task `corecognition`, without its judge, which is off there by default.
"""

from __future__ import annotations

import re

YES_NO, LETTERS = ("YES", "NO"), tuple("ABCDEF")
_WORD = r"(yes|no|\w)"
_MARKS = r"[:;*\n ]*"
_TEMPLATES = [
    re.compile(template.replace("WORD", _WORD).replace("MARKS", _MARKS), re.IGNORECASE)
    for template in (
        r"^WORD[,.; \n*]",
        r"(?<![\n*{])[\n*{]+WORD[,.; \n*}]",
        r"WORD is the correct answer",
        *(rf"{lead}MARKSWORD" for lead in ("answer is", "answer", "choice is", "choice", "option is", "assistant")),
    )
]
_REMOVED = (r"\[ \boxed{", "} \\]", "<|end_of_sentence|>", "</s>", "<CONCLUSION>", "</CONCLUSION>", "Falcon: ")


def letter(reply: str, gold: str, answer_type: str) -> str | None:
    """Return the option that a reply names: of a question with `TF` yes or no, else A to F; None where none is read.

    A reply of one word is that word up to its first mark. Where no template holds an option, a reply that is the gold answer
    to the letter still counts.
    """
    text = reply.strip()
    for end in (">\n\n", "**\n\n"):
        text = text.rpartition(end)[2]
    for mark in _REMOVED:
        text = text.replace(mark, "")
    text = text.strip()
    options = YES_NO if answer_type.strip().upper() == "TF" else LETTERS
    if len(text.split()) < 2:
        found = [re.split(r"[,. :;\n]", text)[0]]
    else:
        found = [hit[1] for template in _TEMPLATES if (hit := template.search(text))]
    named = next((word.upper() for word in found if word.upper() in options), None)
    return named or (gold if text.upper() == gold.strip().upper() else None)
