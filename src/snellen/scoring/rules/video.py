"""Rules by which the authors of video benchmarks, and harnesses, read replies, reproduced from their description.

Sources: Video-MME and Video-MME-v2 (VLMEvalKit at 21a3ff0, `dataset/utils/videomme.py`; MME-Benchmarks/Video-MME-v2 at
013b6c9, `evaluation/test_video_mme_v2.py`), LongVideoBench (lmms-eval at 03a5823, `tasks/longvideobench/utils.py`), MLVU's
and MVBench's `check_ans` (VLMEvalKit at 43b5abf, `dataset/utils/mvbench.py`; lmms-eval at 1ab9504, `tasks/mvbench/utils.py`),
LVBench at 1dd4612 (`answer_util.py`), TempCompass (VLMEvalKit at 006aa29, `dataset/utils/tempcompass.py`; captions: lmms-eval at 06f392e, `tasks/tempcompass/utils.py`), MMVU (lmms-eval at
161c7a1, `tasks/mmvu/utils.py`), open answers of Video-MMMU (lmms-eval at 2bb5e98, `tasks/videommmu/utils.py`), and
Charades-STA (lmms-eval at 75571cf, `tasks/charades_sta/utils.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from snellen.scoring.rules.chinese_answers import key_parts
from snellen.scoring.rules.vlmevalkit import without_punctuation

_LEADS = ("The best answer is", "The correct answer is", "The answer is", "The answer")
_MORE_LEADS = (*_LEADS, "The best option is", "The correct option is", "Best answer:", "Best option:")
LEADS: Mapping[str, Sequence[str]] = {
    "led-letter": ("Final Answer:", *_MORE_LEADS, "Answer:", "Option:"),
    "video-mme": _LEADS,
    "video-mme-kit": (*_LEADS, "Answer:", "Option:"),
    "longvideobench": _MORE_LEADS,
}
"""Phrases that lead to an answer, by the stage that leaves them out; a comma is missing in the lists of two scripts."""
_CHOICE = r"[ \t]*(?:\*\*[ \t]*)?([A-H])(?:[ \t]*+\*\*)?[ \t]*+"
_LINE_LETTERS = (
    re.compile(rf"(?:\A|\n){_CHOICE}[.)]?[ \t]*+\Z", re.IGNORECASE),
    re.compile(rf"\A{_CHOICE}(?:[.)]|\r?\n|\Z)", re.IGNORECASE),
)
_NAMED_LETTER = re.compile(
    rf"(?:{'|'.join(LEADS['led-letter'])}|\b(?:answer|option)(?:\s+(?:is|would\s+be)|\s*:))[\s:*]*+([A-H])\b",
    re.IGNORECASE,
)
_BOLD_LETTER = re.compile(r"\*\*\s*([A-H])(?=\s*\*\*|[.)])", re.IGNORECASE)


_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?"
_SECONDS = r"\d{1,18}(?:\.\d{1,18})?"
_CLOCKS = re.compile(rf"\b({_CLOCK})\s*[–-]\s*({_CLOCK})\b")
_SPAN = re.compile(rf"({_SECONDS})\s*[–-]\s*({_SECONDS})")
_SPAN_IN_SECONDS = re.compile(rf"({_SECONDS})\s*s?\s*[–-]\s*({_SECONDS})\s*s?")
_ONE_CLOCK, _NUMBER = re.compile(rf"\b({_CLOCK})\b"), re.compile(rf"\b({_SECONDS})\b")


def line_letter(reply: str, options: Mapping[str, str]) -> str | None:
    """Return a letter A to H as lmms-eval for Video-MME-v2: the whole last or first line, the last behind a phrase, the only bold one.

    Else the only option whose text is in the reply. Source: `tasks/videomme_v2/utils.py`.
    """
    text = reply.strip()
    found = next((match[1] for form in _LINE_LETTERS if (match := form.search(text))), None)
    bold = set(_BOLD_LETTER.findall(text.upper()))
    if letter := found or next(reversed(_NAMED_LETTER.findall(text)), None) or (len(bold) == 1 and bold.pop()):
        return letter.upper()
    named = [letter for letter, option in options.items() if option.strip(". \n").lower() in reply.lower()]
    return named[0] if len(named) == 1 else None


def led_letter(reply: str, letters: str, leads: str = "led-letter") -> str | None:
    """Return the first of some capitals behind the phrases that lead to an answer; those of words count too."""
    for lead in LEADS[leads]:
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
    word, option = reply.lower().strip().split(" ")[0], f"({letter.lower()})"
    return word.replace(".", "") in option or option in word


def any_letter(reply: str) -> str | None:
    """Return a letter A to E that opens a reply before a full stop, else the first one that stands alone, an article too."""
    if opened := re.match(r"([A-Ea-e])\.\s*+.+\Z", reply.strip()):
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
    """Return the start and the end in seconds that lmms-eval reads from a reply for Charades-STA; None without two times.

    `to` counts as a dash wherever it stands. Sentences that say start, end or happen are looked at, else all: for a range of
    clock times, one of numbers, two clock times, the first number of each of two sentences, and a range in `s`. Of several
    ranges the first counts; an end before its start is swapped with it.
    """
    text = reply.lower().replace("a specific example is : 20.8 - 30.0 seconds", "").replace("to", "-")
    sentences = re.split(r"[!?\n]", text)
    named = [one for one in sentences if any(word in one for word in ("start", "end", "happen"))] or sentences
    first = (match.groups() for form in (_CLOCKS, _SPAN) for one in named if (match := form.search(one)))
    times = list(next(first, ()))
    for several in ([clock for one in named for clock in _ONE_CLOCK.findall(one)], _first_numbers(named)):
        times = times if len(times) > 1 else several
    if len(times) < 2:
        in_seconds = (match.groups() for one in named if (match := _SPAN_IN_SECONDS.search(one)))
        times = list(next(in_seconds, ()))
    start, end = sorted(map(_seconds, times[:2])) if times else (0.0, 0.0)
    return (start, end) if times else None


def _first_numbers(sentences: list[str]) -> list[str]:
    return [match[1] for one in sentences if (match := _NUMBER.search(one))]


def _seconds(text: str) -> float:
    return sum(float(part) * 60.0**at for at, part in enumerate(reversed(text.split(":"))))


def hull_overlap(first: Sequence[float | Fraction], second: Sequence[float | Fraction]) -> float:
    """Return the overlap of two moments over the span from the earlier start to the later end; equals IoU where they meet."""
    (a, b), (c, d) = ([Fraction(end) for end in moment] for moment in (first, second))
    span = max(b, d) - min(a, c)
    return float(max(min(b, d) - max(a, c), Fraction(0)) / span) if span > 0 else 0.0


MMMU_WORDS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
"""Words of MMMU's script behind which the answer of a line stands."""
VIDEO_MMMU_WORDS = (
    *MMMU_WORDS, "are ", "in total ", "total ", "identify ", "recognize ", "calculated as ", "counted as ", "measured as ",
    "observed as ", "concluded as ", "found to be ", "equals ", "determined to be ", "number of ", "value is ", "adds up to ",
    "have ", "has ",
)  # fmt: skip
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?(?<!\d)\d++(?:\.\d++)?[eE][+-]?\d+"),
    re.compile(r"-?(?:(?<!\d)(?:\d++\.\d++|\d++\b)|\.\d++)(?![eE][+-]?\d)(?![,\d])"),
)


def mmmu_open_right(reply: str, gold: str, words: Sequence[str] = MMMU_WORDS) -> bool:
    """Return True if an open answer is right by MMMU's script: the gold text in the end of a line, or an equal number.

    Of each line the shortest text behind one of the script's words counts, all of the reply where no line has one. Numbers in
    them are equal after rounding to two decimals.
    """
    text = reply.strip().strip(".").lower()
    texts = key_parts(text.split("\n"), words, ["="]) or [text]
    said = [*texts, *(number for text in texts for form in _NUMBERS for number in form.findall(text))]
    read = {value for text in said for value in _normal(text)}
    strings = [value for value in read if isinstance(value, str)]
    return any(
        wanted in read if isinstance(wanted, float) else any(wanted in text for text in strings)
        for wanted in _normal(gold)
    )


def _normal(text: str) -> Iterator[str | float]:
    """Yield a text as MMMU compares it: a number to two decimals, one character with a blank at either side, else lower case."""
    text = text.strip()
    try:
        yield round(float(text.replace(",", "")), 2)
    except ValueError:
        yield from (f" {text.lower()}", f"{text.lower()} ") if len(text) == 1 else (text.lower(),)


def mmvu_right(reply: str, letter: str, option: str) -> bool:
    """Return True if lmms-eval takes a reply to a choice of MMVU as right.

    The gold letter may stand anywhere as a word, in any case (`a` too), or the text of its option; a reply with that letter
    inside of any word is right too if it has a word of three or more letters of the option.
    """
    said, text = reply.strip().lower(), option.strip().lower()
    if re.search(rf"\b{re.escape(letter)}\b", said, re.IGNORECASE) or text in said:
        return True
    words = (word.strip("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for word in text.split())
    return letter.lower() in said and any(word in said for word in words if len(word) > 2)


def named_caption(reply: str, lines: Mapping[str, str]) -> str | None:
    """Return the letter of the line `Caption A: text` that a reply is: all of it, its text, its name, or that's last word (TempCompass)."""
    for letter, line in reversed([*lines.items()]):
        name, _, text = line.partition(": ")
        if (
            reply in (line, text)
            or reply.partition(") ")[2] == text
            or _plain(reply) in (name, name.rpartition(" ")[2])
        ):
            return letter
    return None


def _plain(reply: str) -> str:
    return reply.replace(".", "")


def group_score(worth: Sequence[float], structure: str) -> float:
    """Return the score of a group of questions of Video-MME-v2, 0 to 1.

    Args:
        worth: of the four questions in their order: 1 right, 0 wrong, -1 as the authors' script has a reply that it does not read: one
            right answer less, or right in a chain. Questions that were not asked, at the end, are wrong.
        structure: what begins with `relevance`, whose score is the square of the share of right ones; else the structure of a logical chain,
            where right answers count up to the first wrong one: `[1, 2, 3, 4]`, `[1, [2, 3], 4]` or `[[1, 2], 3, 4]`. A
            question in inner brackets may stand in for the other once.

    Raises:
        ValueError: the structure is none of these, or there are more than four questions.
    """
    if len(worth) > 4:
        raise ValueError(f"a group has {len(worth)} questions; four were expected")
    if structure.startswith("relevance"):
        return (max(0.0, sum(worth)) / 4) ** 2
    right = [*map(bool, worth), *[False] * (4 - len(worth))]
    chain = "".join(structure.split())
    steps = {"[1,2,3,4]": (1, 4, 9, 16), "[1,[2,3],4]": (1, 4, 7, 12), "[[1,2],3,4]": (1, 2, 5, 10)}.get(chain)
    if steps is None:
        raise ValueError(
            f"{structure!r} is no structure of a group; relevance, or [1, 2, 3, 4] and its like, was expected"
        )
    run = next((at for at, one in enumerate(right) if not one), len(right))
    if (chain == "[1,[2,3],4]" and run == 1 and right[2]) or (chain == "[[1,2],3,4]" and run == 0 and right[1]):
        run += 1
    return steps[run - 1] / steps[-1] if run else 0.0
