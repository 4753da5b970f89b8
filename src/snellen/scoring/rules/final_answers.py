"""Final answers in replies, read by stages, and comparisons of formulas and typed values.

Sources: MATH-V at 1d36118 (`evaluate.py`, `utils.py`), EMMA's fast evaluation (as in lmms-eval's `tasks/emma/utils.py`),
VisuLogic, We-Math and DynaMath (VLMEvalKit at e8e78f0, `dataset/utils/visulogic.py`, `wemath.py`, `dynamath.py`), and
MathVista at 2a249bb (`calculate_score.py`); stages named after other sets: their tasks in lmms-eval 0.7.3. Reproduced from
their description.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from snellen.scoring.rules import video
from snellen.scoring.rules.latex_value import latex_value, words_value
from snellen.scoring.rules.vlmevalkit import literal

Stage: TypeAlias = Callable[[str, str, str], str | None]
"""Takes a stripped reply, the letters of the options and a word; returns what it reads, None where it does not decide."""
MOST_CHARACTERS = 1_000
"""A longer text is no formula."""
_BRACE = re.compile(r"(\\boxed\s*\{)|[{}]")
_PHRASE = re.compile(
    r"(?:answer:|(?:final |correct )?answer (?:is|should be)(?: option)?):?[ \t]*\n?[ \t]*", re.IGNORECASE
)
_END = re.compile(r"\n|\.(?:\s|\Z)")
_SET = re.compile(r"\\(?:text|mathrm|mathbf|rm|mbox)\s*\{([^{}]*)\}")
_DROPPED = re.compile(r"\\(?:left|right|,|!)|\^\{?\\circ\}?|\\?[$%]|\s|(?<=\d)(?:\\text)?\{?(?:units?|km|cm|m\^3)\}?\Z")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")


_VISULOGIC_PHRASES = (
    "answer:", "the final answer is:", "the answer is option:", "the answer is:", "the correct answer is option:",
    "the correct answer is:", "the answer should be:", "the final answer is", "the answer is option", "the answer is",
    "the correct answer is option", "the correct answer is", "the answer should be",
)  # fmt: skip


def last_box(reply: str) -> str | None:
    """Return the text in the last `\\boxed{…}` that is closed, with inner braces, else in the last box of GLM's marks."""
    opened: list[int] = []
    start = end = -1
    for match in _BRACE.finditer(reply):
        if match[0] != "}":
            opened.append(match.end() if match[1] else -1)
        elif opened and (at := opened.pop()) > start:
            start, end = at, match.start()
    return reply[start:end].strip() if end >= 0 else between(reply, "<|begin_of_box|>", "<|end_of_box|>")


def between(reply: str, opening: str, closing: str) -> str | None:
    """Return the stripped text between the last closing mark and the opening one before it, in any case; None without both."""
    end = max((match.start() for match in re.finditer(re.escape(closing), reply, re.IGNORECASE)), default=-1)
    starts = (match.end() for match in re.finditer(re.escape(opening), reply, re.IGNORECASE))
    start = max((at for at in starts if at <= end), default=-1)
    return reply[start:end].strip() if start >= 0 else None


def option_letter(text: str, options: Mapping[str, str]) -> str | None:
    """Return the option that a short text names: by its letter, bare, in brackets or before its text, or by its text."""
    bare = _SET.sub(r"\1", text).strip().strip("$").strip()
    letter = bare.strip("().:").strip().upper()
    if letter in options:
        return letter
    opened = re.match(r"\(?([A-Za-z])\s*[).:]\s", bare)
    if opened and opened[1].upper() in options:
        return opened[1].upper()
    named = [letter for letter, option in options.items() if option.strip().casefold() == bare.casefold()]
    return named[0] if len(named) == 1 else None


def _ends(reply: str, letters: str, word: str) -> str | None:
    for letter in letters:
        if reply.endswith((f" {letter}.", f" ({letter}).")) or reply.startswith(
            (f"{letter}\n", f"({letter})\n", f"({letter}) {letter}\n")
        ):
            return letter
    return None


def _number_behind_is(reply: str, letters: str, word: str) -> str | None:
    text = reply.rpartition("is ")[2].rstrip(".").strip()
    return text if _NUMBER.fullmatch(text) else None


def _box_letter(reply: str, letters: str, word: str) -> str | None:
    box = _SET.sub(r"\1", last_box(reply) or "").strip("$ ")
    return box if box and box in letters else None


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return math.isfinite(float(text))
    return False


def _visulogic(reply: str, letters: str, word: str) -> str | None:
    """Read a letter as VisuLogic's script: all of a short box or of the reply, at either end, or behind its phrases."""
    opened: list[int] = []
    box = ""
    for match in re.finditer(r"\\boxed\{|[^\\]\}", reply):
        if not match[0].endswith("}"):
            opened.append(match.end())
        elif opened:
            start = opened.pop()
            box = reply[start : match.start() + 1] if not opened else box
    for command in (r"\text{", r"\rm{", r"\mathbf{", "$", "}"):
        box = box.replace(command, "")
    text = reply.replace("<|endoftext|>", "")
    for whole in (box if 0 < len(box) < 3 else reply, text):
        if len(whole.strip()) == 1 and whole.strip() in letters:
            return whole.strip()
    if (letter := _ends(text, letters, word)) is not None:
        return letter
    text = text.lower()
    for phrase in _VISULOGIC_PHRASES:
        if phrase in text:
            text = text.rpartition(phrase)[2].strip().partition("\n")[0].partition(".")[0]
            if len(text) == 1 and text.upper() in letters:
                return text.upper()
    return None


def _phrase(reply: str, letters: str, word: str) -> str | None:
    found = list(_PHRASE.finditer(reply))
    return _END.split(reply[found[-1].end() :], maxsplit=1)[0].strip() or None if found else None


def _mmmu_letter(reply: str, letters: str, word: str) -> str | None:
    """Read as MMMU's script: a letter in brackets, between blanks or before a full stop; of several the last between blanks."""
    for sign in ",.!?;:'":
        reply = reply.strip(sign)
    reply = f" {reply} "
    for form in ("({})", " {} ", "{}."):
        if named := [letter for letter in letters if form.format(letter) in reply]:
            return max(named, key=lambda letter: reply.rfind(f" {letter} "))
    return None


def _emma(reply: str, letters: str, word: str) -> str | None:
    for letter in "ABCDEFGH":
        if reply.upper() == letter or reply.startswith((f"{letter}:", f"{letter}.")):
            return letter
    if _is_number(reply):
        return reply
    if "boxed{" in reply and (box := last_box(reply)) is not None:
        texts = re.findall(r"\\text\{([^}]*)\}", box)
        return str(texts[-1] if texts else box).strip()
    for phrase in ("final answer is", "correct answer is", "answer should be", "answer is", "answer:"):
        if phrase in reply.lower():
            return reply.lower().rpartition(phrase)[2].strip().partition("\n")[0].partition(".")[0]
    return None


def _behind(reply: str, letters: str, word: str) -> str | None:
    text = re.sub(r"[<>:.]", "", reply.rpartition(word)[2].strip()).strip()
    return text[:1] if text[:1] and text[:1] in letters else None


def _first_behind(reply: str, letters: str, word: str) -> str | None:
    """Read the first letter behind the last place of a word, else of the reply, as MedXpertQA; `A through E` names none."""
    text = re.sub(r"[A-Z] (?:through|to) [A-Z]\b", "", reply.rpartition(word)[2])
    return next((sign for sign in text if sign in letters), None)


def _xlrs(reply: str, letters: str, word: str) -> str | None:
    """Read several letters as XLRS-Bench's script: those in brackets, else every a to e in the text, within words too."""
    for phrase in ("The best answer is", "The correct answer is", "The answer is", "The answer"):
        reply = reply.replace(phrase, "")
    if not re.search("[A-E]", reply):
        return None
    found = re.findall(r"\(([a-eA-E])\)", reply) or re.findall("[a-eA-E]", reply)
    return "".join(sorted(set("".join(found).upper())))


def _member_text(reply: str, letters: str, word: str) -> str | None:
    value = _member_value(reply, word)
    return value if isinstance(value, str) else None


def _member(reply: str, letters: str, word: str) -> str | None:
    value = _member_value(reply, word)
    return None if value is None or isinstance(value, dict | list) else str(value).strip()


def _braced(reply: str) -> str:
    """Return the part of a reply in braces, else all of it, without backslashes, as DynaMath's script in VLMEvalKit."""
    start, end = reply.find("{"), reply.rfind("}")
    return (reply[start : end + 1] if 0 <= start < end else reply).replace("\\", "")


def _member_value(reply: str, word: str) -> object:
    try:
        value = json.loads(_braced(reply), strict=False)
    except (ValueError, RecursionError):
        return None
    return value.get(word) if isinstance(value, dict) else None


def _letter(pattern: str) -> Stage:
    """Return a stage that takes the letter of a pattern's last hit."""

    def stage(reply: str, letters: str, word: str) -> str | None:
        found = re.findall(pattern.replace("LETTER", f"([{letters}])"), reply) if letters else []
        return str(found[-1]).upper() if found else None

    return stage


def _led(leads: str) -> Stage:
    return lambda reply, letters, word: video.led_letter(reply, word or letters, leads)


def _first(*patterns: str) -> Stage:
    """Return a stage that takes the letter of the first hit of the first pattern that hits, as a capital."""
    forms = [*map(re.compile, patterns)]

    def stage(reply: str, letters: str, word: str) -> str | None:
        found = next((str(match[1]) for form in forms if (match := form.search(reply))), None)
        return found.upper() if found else None

    return stage


def _prefix_truth(reply: str, letters: str, word: str) -> str | None:
    """Read y, n, or yes or no within the first four signs, of which points are none, as lmms-eval for MME."""
    text = reply.lower().replace(".", "")
    return next((truth for truth in ("yes", "no") if truth in text[:4] or text == truth[0]), None)


def _word_letter(reply: str, letters: str, word: str) -> str | None:
    said = re.search(r"\b(?:[Cc]orrect|[Aa]nswer|[Oo]ption)\b", reply)
    return next((sign for sign in reply[said.end() :] if sign in letters), None) if said else None


STAGES: Mapping[str, Stage] = {
    "whole": lambda reply, letters, word: reply or None,
    "capitals": lambda reply, letters, word: reply if re.fullmatch(r"[A-Z]{1,26}", reply) else None,
    "logicvista": lambda reply, letters, word: reply if re.fullmatch(r"[A-E]|[A-Z]{2,26}", reply) else None,
    "lone-capital": _first(r"\b([A-D])\b"),
    "seedbench": _first(r"(?i)\A([A-Z])"),
    "cv-bench": _first(r"(?i)\A[(\s]*+([A-Z])"),
    "scienceqa": _first(r"\A([A-Z])\.", r"(?i)\A([A-Z])\Z"),
    "ai2d": _first(r"\A([A-Z])\.", r"(?i)\A[!-/:-@\[-`{-~]*+([A-Z])[!-/:-@\[-`{-~]*+\Z"),
    "mmvp": _first(
        r"(?i)\A\(?([AB])(?:\)?\.?\s*\Z|\)?[.\s])",
        r"(?i)answer\s+is\s+\(?([AB])",
        r"(?i)option\s+\(?([AB])",
        r"(?i)([AB])\)?(?:\s|\Z)",
        r"(?i)\A([AB])",
    ),
    "vstar": _first(
        r"(?i)\A([A-D])",
        r"(?i)(?:answer|choice|option)(?:\s+is)?[\s:]+([A-D])",
        r"(?i)\(([A-D])\)",
        r"(?i)([A-D])\s*[.)\]]",
        r"(?i)(?:\A|\s)([A-D])(?:\s|\Z)",
        r"(?i)\A[^A-D]*+([A-D])[^A-D]*+\Z",
    ),
    "prefix-truth": _prefix_truth,
    "letter": _letter(r"\A(?:LETTER(?:[:.]|\Z))"),
    "number": lambda reply, letters, word: reply if _NUMBER.fullmatch(reply) else None,
    "is-number": _number_behind_is,
    "ends": _ends,
    "mmmu-letter": _mmmu_letter,
    "emma": _emma,
    "box": lambda reply, letters, word: last_box(reply),
    "box-letter": _box_letter,
    "bare-box-letter": _letter(r"(?i)\\boxed\{\s*+LETTER\s*+\}"),
    "visulogic": _visulogic,
    "tag": lambda reply, letters, word: between(reply, "<answer>", "</answer>"),
    "tag-letter": _letter(r"(?i)<answer>\s*+\(?LETTER\)?\s*+</answer>"),
    "phrase": _phrase,
    "phrase-letter": _letter(r"(?i)answer\s*(?:is|:|-)\s*\(?LETTER\)?\b"),
    "option-letter": _letter(r"(?i)option\s*LETTER\b"),
    "bracket-letter": _letter(r"(?i)\(LETTER\)"),
    "word-letter": _word_letter,
    "answer-letter": _letter(r"(?i)\banswer\s*+:\s*+([A-Z])\b"),
    "colon-letter": _letter(r"LETTER:"),
    "braced": lambda reply, letters, word: _braced(reply) or None,
    "json": _member,
    "json-text": _member_text,
    "short-letter": _letter(r"(?is)\ALETTER.{0,2}\Z"),
    **{name: _led(name) for name in video.LEADS},
    "closed-letter": lambda reply, letters, word: video.closed_letter(reply),
    "polished-letter": lambda reply, letters, word: video.polished_letter(reply),
    "any-letter": lambda reply, letters, word: video.any_letter(reply),
    "opening-letter": lambda reply, letters, word: video.opening_letter(reply),
    "opening-truth": lambda reply, letters, word: video.opening_truth(reply),
    "first-behind": _first_behind,
    "xlrs": _xlrs,
    "behind": _behind,
}


AS_IT_IS = ("visulogic", "opening-letter", "opening-truth", "json-text", "braced")
"""Stages that see white space at the ends of a reply, as their scripts do."""


def final_answer(reply: str, stages: Sequence[str], letters: str = "", word: str = "") -> str | None:
    """Return what the first of some stages that decides reads from a reply; None where none does."""
    text = reply.strip()
    answers = (STAGES[name](reply if name in AS_IT_IS else text, letters, word) for name in stages)
    return next((answer for answer in answers if answer is not None), None)


def cleaned_formula(text: str) -> str:
    """Return a formula as MATH-V compares it: what stands behind its last sign of equality, without type and units."""
    text = _SET.sub(r"\1", text).rpartition("=")[2].rpartition("\\approx")[2]
    text = _DROPPED.sub("", text.replace("dfrac", "frac").replace("tfrac", "frac"))
    return _DROPPED.sub("", text).strip(":").rstrip(".").lower()


def formula_equal(reply: str, gold: str, tolerance: float | None = None) -> bool:
    """Return True for the same formula as written, or the same value, of each part of a tuple or list.

    Args:
        reply, gold: numbers, fractions, roots, powers and pi, in LaTeX or plain signs; texts are equal as written.
        tolerance: the largest difference of values; None: they are equal after rounding to two decimals, as in MATH-V.
    """
    if len(reply) > MOST_CHARACTERS:
        return False
    read, wanted = cleaned_formula(reply), cleaned_formula(gold)
    if not read or not wanted:
        return False
    if read == wanted:
        return True
    if read[0] + read[-1] == wanted[0] + wanted[-1] and read[0] + read[-1] in ("()", "[]") and "," in read:
        pairs = read[1:-1].split(","), wanted[1:-1].split(",")
        return len(pairs[0]) == len(pairs[1]) and all(
            formula_equal(one, other, tolerance) for one, other in zip(*pairs, strict=True)
        )
    values = latex_value(read), latex_value(wanted)
    if values[0] is None or values[1] is None:
        return False
    if tolerance is not None:
        return abs(values[0] - values[1]) <= tolerance
    return round(values[0], 2) == round(values[1], 2)


_MATH_V_SIGNS = (
    *((sign, "") for sign in (" ", "\\,")), ("∞", "\\infty"), ("+\\infty", "\\infty"), ("\\\\", "\\"),
    *((sign, "") for sign in ("\n", "\\text", "\\mbox")), ("bmatrix", "pmatrix"),
    *((sign, "") for sign in ("\\left", "\\right", "^{\\circ}", "^\\circ", "{m}^3", "m^3", "{units}", "units", "{km}", "km", "\\!")),
    ("tfrac", "frac"), ("dfrac", "frac"), ("\\$", ""), ("$", ""), ("\\%", ""), ("{.", "{0."),
)  # fmt: skip
_ASSIGNED = re.compile(r"\A(?:[a-z]|\\[a-z]+)(?:_[a-z\d])?\s*=")
_ROOT = re.compile(r"\\sqrt|\\pi")
_UNWRAPPED = re.compile(r"\"|\\[()$]|\\(?=%)|\^\{?\\circ\}?|\\(?:text|mathrm|mathbf|mbox)\{([^{}\\]*)\}")
"""What VLMEvalKit's parser of LaTeX sees through."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def math_v_answer(reply: str) -> str:
    """Return the answer in a reply as MATH-V's script reads and cleans it."""
    text = reply.strip()
    text = _ends(text, "ABCDE", "") or text
    number = text.rpartition("is ")[2].rstrip(".")
    text = number if _is_number(number) else text
    if "oxed{" not in text:
        for phrase in ("the final answer is", "the answer is", "the correct answer is", "the answer should be"):
            for form in (phrase, phrase.capitalize()):
                if form in text:
                    text = text.rpartition(form)[2].strip().partition("\n")[0].partition(". ")[0]
    elif text.count("oxed{") > 1:
        text = "\\boxed{" + text.rpartition("oxed{")[2]
    text = text.lower().replace("{}", "")
    start, end = text.find("oxed{") + 5, text.rfind("}")
    text = text[start:end] if 5 <= start <= end else text
    if "}" in text and not 0 <= text.find("{") < text.find("}"):
        text = text.partition("}")[0]
    text = text.rpartition("=")[2].rpartition("\\approx")[2]
    for sign, new in _MATH_V_SIGNS:
        text = text.replace(sign, new)
    text = re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", "0" + text if text.startswith(".") else text)
    text = re.sub(r"\A(-?\d+)/(-?\d+)\Z", r"\\frac{\1}{\2}", text)
    return re.sub(r"[({]([a-e])[)}]", r"\1", text).rstrip(".").lstrip(":").strip()


def math_v_equal(answer: str, gold: str, *, rooted: bool = True) -> bool:
    """Return True if two answers are the same text, or have the same value to two decimals, as MATH-V compares them.

    Args:
        answer, gold: the answer as `math_v_answer` cleans it, and the gold answer as it stands.
        rooted: roots and pi have a value; the copy of lmms-eval lacks them.
    """
    read, wanted = answer.lower().strip(), gold.lower().strip()
    if not read or not wanted or len(read) > MOST_CHARACTERS:
        return False
    if read == wanted:
        return True
    if read[0] + read[-1] == wanted[0] + wanted[-1] and read[0] + read[-1] in ("()", "[]") and "," in read:
        pairs = read[1:-1].split(","), wanted[1:-1].split(",")
        return len(pairs[0]) == len(pairs[1]) and all(
            math_v_equal(one, other, rooted=rooted) for one, other in zip(*pairs, strict=True)
        )
    if not read.isascii() or (not rooted and _ROOT.search(read + wanted)):
        return False
    values = [latex_value(_THOUSANDS.sub("", text)) for text in (read, wanted)]
    return values[0] is not None and values[1] is not None and round(values[0], 2) == round(values[1], 2)


def kit_formula_equal(reply: str, gold: str) -> bool:
    """Return True for the gold answer as it stands, or the value of the reply or of its only box, as VLMEvalKit without its judge."""
    if reply.lower().strip() == gold.lower().strip():
        return True
    text = (reply.count("\\boxed{") == 1 and last_box(reply)) or re.sub(r"\A(-?\d+)\.\Z", r"\1", reply)
    values = [latex_value(_UNWRAPPED.sub(r"\1", _THOUSANDS.sub("", one)).replace("%", "/100")) for one in (text, gold)]
    return (
        values[0] is not None and values[1] is not None
        and not _ROOT.search(text + gold) and abs(values[0] - values[1]) < 1e-6
    )  # fmt: skip


def emma_equal(answer: str, gold: str) -> bool:
    """Return True for the same text, number in words, or value to two decimals, as EMMA's script compares answers."""
    read, wanted = answer.lower().strip(), gold.lower().strip()
    if read == wanted or words_value(read) == wanted:
        return True
    values = latex_value(_ASSIGNED.sub("", read)), latex_value(wanted)
    return values[0] is not None and values[1] is not None and round(values[0], 2) == round(values[1], 2)


def number_in(text: str) -> float | None:
    """Return the number before the first blank, `π` being a factor of it, as DynaMath reads it; None where there is none."""
    head, pi, _ = text.partition(" ")[0].partition("π")
    with suppress(ValueError):
        return float(head) * (math.pi if pi else 1.0)
    return None


def only_letter(text: str, letters: str = "ABCDE") -> str | None:
    """Return a single letter as a capital, else the only one of `letters` that a text has; None for none and several."""
    if len(text) == 1:
        return text.upper()
    found = [letter for letter in letters if letter in text.upper()]
    return found[0] if len(found) == 1 else None


def nearest_option(text: str, options: Mapping[str, str]) -> str:
    """Return MathVista's option of a text: the first letter in brackets, a bare letter, else that of the most similar text.

    Whatever a text is, it is an option: of equal edit distances the first counts.
    """
    from rapidfuzz.distance import Levenshtein

    text = text.strip()
    bracketed = re.search(r"\(([a-zA-Z])\)", text)
    text = bracketed[1].upper() if bracketed else text
    return text if text in options else min(options, key=lambda letter: Levenshtein.distance(text, options[letter]))


def typed_equal(text: str, gold: str, answer_type: str, precision: str) -> bool:
    """Return True if a text is a gold answer of MathVista: an `integer`, a `float` rounded to `precision`, a `list`, or a text.

    VLMEvalKit's comparison of the same is `short_answers.mathvista_value`.
    """
    text, gold = text.strip(), gold.strip()
    if answer_type in ("integer", "float"):
        if not (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(gold) and math.isfinite(float(text))):
            return False
        digits = int(float(precision)) if _NUMBER.fullmatch(precision) else 0
        value, wanted = float(text), float(gold)
        return int(value) == wanted if answer_type == "integer" else round(value, digits) == wanted
    if answer_type == "list":
        return literal(text) is not None and literal(text) == literal(gold)
    return text.casefold() == gold.casefold()


def typed_as_written(text: str, gold: str, answer_type: str, precision: str) -> bool:
    """Return True if a text is a gold answer of MathVista letter by letter, once it has the form of its type, as in its script."""
    text = text.strip()
    if answer_type in ("integer", "float"):
        if not (_NUMBER.fullmatch(text) and math.isfinite(float(text))):
            return False
        digits = int(float(precision)) if _NUMBER.fullmatch(precision) else None
        text = str(int(float(text)) if answer_type == "integer" else round(float(text), digits))
    return text == gold.strip()
