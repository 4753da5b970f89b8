"""Rules by which the authors of video benchmarks, and harnesses, read replies, reproduced from their description.

Sources: Video-MME and Video-MME-v2 (VLMEvalKit at 21a3ff0, `dataset/utils/videomme.py`; MME-Benchmarks/Video-MME-v2 at
013b6c9, `evaluation/test_video_mme_v2.py`), LongVideoBench (lmms-eval at 03a5823, `tasks/longvideobench/utils.py`), MLVU's
and MVBench's `check_ans` (VLMEvalKit at 43b5abf, `dataset/utils/mvbench.py`; lmms-eval at 1ab9504, `tasks/mvbench/utils.py`),
LVBench at 1dd4612 (`answer_util.py`), TempCompass (VLMEvalKit at 006aa29, `dataset/utils/tempcompass.py`), and Charades-STA
(lmms-eval at 09df333, `tasks/charades_sta/eval_tvg.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from fractions import Fraction

from snellen.scoring.rules.vlmevalkit import without_punctuation

_LEADS = (
    "Final Answer:", "The best answer is", "The correct answer is", "The answer is", "The answer", "The best option is",
    "The correct option is", "Best answer:", "Best option:", "Answer:", "Option:",
)  # fmt: skip


def led_letter(reply: str, letters: str) -> str | None:
    """Return the first of some capitals behind the phrases that lead to an answer; those of words count too."""
    for lead in _LEADS:
        reply = reply.replace(lead, "")
    return next((sign for sign in reply if sign in letters), None)


def closed_letter(reply: str) -> str:
    """Return the character before the first closing bracket, all of the reply without one, as MLVU's script."""
    at = reply.find(")")
    return reply[at - 1 : at] if at > 0 else "" if at == 0 else reply


def polished_letter(reply: str) -> str | None:
    """Return the first character in the first bracket, or of the reply without one, as LVBench's script."""
    text = reply.strip().split(")")[0].strip()
    text = text.split("(")[1].strip() if "(" in text else text
    return text[:1] or None


def opens_as(reply: str, letter: str) -> bool:
    """Return True where the first word of a reply and `(letter)` contain each other, as MVBench's script; an empty one does."""
    word, option = reply.lower().split(" ")[0], f"({letter.lower()})"
    return word.replace(".", "") in option or option in word


def any_letter(reply: str) -> str | None:
    """Return a letter A to E that opens a reply before a full stop, else the first one that stands alone, an article too."""
    if opened := re.match(r"([A-Ea-e])\.\s*.", reply.strip()):
        return opened[1].upper()
    words = without_punctuation(reply.replace("\n", " ").replace("\t", " ").strip()).strip("'\")(").lower()
    found = re.search(r"\b([a-e])\b", words)
    return found[1].upper() if found else None


def opening_letter(reply: str) -> str | None:
    """Return a bare letter A to D, or one before a full stop or a bracket at the beginning, as TempCompass's script."""
    found = re.match(r"([A-D])(?:[.)]|\Z)", reply)
    return found[1] if found else None


def opening_truth(reply: str) -> str | None:
    """Return yes or no where a reply begins with it, and be it a part of a word: `not sure` is no, as in TempCompass."""
    text = reply.lower()
    return next((word for word in ("yes", "no") if text.startswith(word)), None)


def moment_in(reply: str) -> tuple[float, float] | None:
    """Return start and end in seconds as lmms-eval reads them for Charades-STA; None where it does not find two times.

    The first `a - b` counts, where `to` is a hyphen wherever it stands; else the first number of each line that speaks of
    start, end or happening; else a clock time of each such line. A moment that ends before it starts is turned.
    """
    text = reply.lower().replace("a specific example is : 20.8 - 30.0 seconds", "").replace("to", "-")
    lines = [line for line in re.split(r"[!?\n]", text) if re.search("start|end|happen", line)]
    if (pair := re.search(r"(\d+\.*\d*)\s*-\s*(\d+\.*\d*)", text)) is not None:
        found = list(pair.groups())
    else:
        numbers = (re.search(r"\b(\d+\.\d+\b|\b\d+)\b", line) for line in lines)
        found = [number[1] for number in numbers if number is not None]
    try:
        times = [float(number) for number in found]
    except ValueError:
        return None
    return None if len(times) < 2 else (min(times[:2]), max(times[:2]))


def hull_overlap(first: Sequence[float | Fraction], second: Sequence[float | Fraction]) -> float:
    """Return the overlap of two moments over the span from the earlier start to the later end; equals IoU where they meet."""
    (a, b), (c, d) = ([Fraction(end) for end in moment] for moment in (first, second))
    span = max(b, d) - min(a, c)
    return float(max(min(b, d) - max(a, c), Fraction(0)) / span) if span > 0 else 0.0


def group_score(right: Sequence[bool], structure: str) -> float:
    """Return the score of a group of questions of Video-MME-v2, 0 to 1.

    Args:
        right: which of the four questions, in their order, are right.
        structure: what begins with `relevance`, whose score is the square of the share of right ones; else the structure of a logical chain,
            where right answers count up to the first wrong one: `[1, 2, 3, 4]`, `[1, [2, 3], 4]` or `[[1, 2], 3, 4]`. A
            question in inner brackets may stand in for the other once.

    Raises:
        ValueError: the structure is none of these.
    """
    if structure.startswith("relevance"):
        return (sum(right) / 4) ** 2
    chain = ast.literal_eval(structure) if len(structure) <= 40 else None
    steps = {"[1, 2, 3, 4]": (1, 4, 9, 16), "[1, [2, 3], 4]": (1, 4, 7, 12), "[[1, 2], 3, 4]": (1, 2, 5, 10)}.get(
        str(chain)
    )
    if steps is None:
        raise ValueError(
            f"{structure!r} is no structure of a group; relevance, or [1, 2, 3, 4] and its like, was expected"
        )
    run = next((at for at, one in enumerate(right) if not one), len(right))
    if (str(chain) == "[1, [2, 3], 4]" and run == 1 and right[2]) or (
        str(chain) == "[[1, 2], 3, 4]" and run == 0 and right[1]
    ):
        run += 1
    return steps[run - 1] / steps[-1] if run else 0.0
