"""lmms-eval's reading of replies without a judge, by its generic rules.

Source: lmms-eval at 75571cf (6 August 2026): the shared multiple-choice extractor, POPE's whole answer, CountBench's number, and
the VQA and OCRBench comparisons, reproduced from their description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from snellen.scoring.rules.final_answers import cleaned_formula, last_box
from snellen.scoring.rules.latex_value import MAX_LENGTH, latex_value
from snellen.scoring.rules.short_answers import vqa_normalise

_FORMS = {"({})": 4, "{}.": 3, "{}:": 2, "{})": 1, "{} ": 0}
"""Forms of an answer's letter with their ranks; 5 is a letter behind an announcement, 6 one that ends a reply, 7 one that opens it."""
_ANNOUNCEMENTS = (
    *(f"{lead}{word} is" for word in ("answer", "option") for lead in ("correct ", "best ", "the correct ", "the best ")),
    "answer is", "the answer is", "my answer is", "choice is", "the choice is", "correct choice is", "the correct choice is",
    "my choice is", "i choose", "i select", "i pick", "옵션", "정답은", "답은", "답:", "答案是", "答案为", "选", "答えは",
)  # fmt: skip
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")


def without_reasoning(reply: str) -> str:
    """Return a reply without `<think>` and `<analysis>`; of a reply with a closing tag alone, what stands behind the last.

    Source: `api/reasoning.py` of lmms-eval 0.7.3, which its command line applies before all rules.
    """
    for opening, closing in (("<think>", "</think>"), ("<analysis>", "</analysis>")):
        parts, at = list[str](), 0
        while (start := reply.find(opening, at)) >= 0 and (end := reply.find(closing, start)) >= 0:
            parts.append(reply[at:start])
            at = end + len(closing)
        reply = "".join([*parts, reply[at:]])
        if opening not in reply:
            reply = reply.rpartition(closing)[2]
    return reply.strip()


def read_letter(reply: str, letters: Iterable[str]) -> str | None:
    """Return the letter in the most telling form, of several the last; without any form, the last capital that is one of the letters.

    Behind an announcement the first place of each letter counts, within words too. Source: `_task_utils/mcq_extract.py`.
    """
    text = reply.strip()
    for sign in ",.!?;:'\"":
        text = text.strip(sign)
    bare, text = text.strip(), f" {text} "
    lowered = text.lower()
    ends = [lowered.find(phrase) + len(phrase) for phrase in _ANNOUNCEMENTS if phrase in lowered]
    found: list[tuple[int, int, str]] = []
    for letter in letters:
        places = [(rank, text.rfind(form.format(letter))) for form, rank in _FORMS.items()]
        places += [(5, text.find(letter, end)) for end in ends]
        places += [(6, 0)] * (bare.endswith(letter) and not bare[:-1][-1:].isalpha())
        places += [(7, 0)] * (bare.startswith(letter) and not bare[1:][:1].isalpha())
        found += [(*place, letter) for place in places if place[1] >= 0] or [(-1, text.rfind(letter), letter)]
    best = max(found, key=lambda place: place[:2], default=(-1, -1, ""))
    return best[2] if best[:2] > (-1, -1) else None


def mmmu_option(reply: str, options: Mapping[str, str]) -> str | None:
    """Return an option as MMMU's script: its letter in brackets, before a blank or a point, else, of over five words, its text.

    Of several the last counts; where the script draws one at random, there is none. Source: `_task_utils/mmmu_mcq_utils.py`.
    """
    text = _without_end_signs(reply)
    for form, place in (("({})", "({})"), ("{} ", " {} "), ("{}.", " {} ")):
        if named := [letter for letter in options if form.format(letter) in text]:
            return max(named, key=lambda letter: text.rfind(place.format(letter)))
    return max(_places_of_texts(text, options), key=lambda place: place[0], default=(-1, None))[1]


def first_mmmu_option(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the option whose last place in any of MMMU's forms is the first, else that of the line `A. text`, as EgoSchema's task.

    Where the script draws one at random, there is none. Source: `tasks/egoschema/utils.py`.
    """
    text = _without_end_signs(reply)
    places = [(text.rfind(form.format(letter)), letter) for letter in options for form in ("({})", "{} ", "{}.")]
    lines = {letter: f"{letter}. {option}".strip() for letter, option in options.items()}
    return min([one for one in places if one[0] >= 0] or _places_of_texts(text, lines), default=(-1, None))[1]


def _places_of_texts(text: str, options: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the last place of each option's text in a text of over five words, with its letter."""
    lowered = text.lower()
    places = [(lowered.rfind(option.lower()), letter) for letter, option in options.items()]
    return [place for place in places if place[0] >= 0] if len(text.split()) > 5 else []


def _without_end_signs(reply: str) -> str:
    for sign in ",.!?;:'":
        reply = reply.strip(sign)
    return f" {reply} "


def lone_letter(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the only letter A to E among the words of a reply, with the same signs around, else the only option it holds.

    Source: MMBench's task (`tasks/mmbench/mmbench_evals.py`) before its judge.
    """
    words = reply.split()
    for form in ("{}", "{}.", "{},", "{}:", "{})", "{}).", "({})", "({}).", ":{}", ":{},", ":{}.", ":{})", ":{})."):
        found = [letter for letter in "ABCDE" if form.format(letter) in words]
        if len(found) == 1 and not (form == "{}" and "A" in words and len(words) > 3):  # A is an article there
            return found[0]
    lowered = reply.lower()
    named = [letter for letter, text in options.items() if text and text.lower() in lowered]
    return named[0] if len(named) == 1 else None


_LETTERS = "ABCDEFGH"
_ANNOUNCED = re.compile(
    r"(?:the )?(?:correct |best )?answer|(?:the )?(?:correct )?(?:option|choice) is|i (?:choose|select|pick)|my choice is"
)
_LAST_NUMBER = re.compile(r"\b(\d+(?:\.\d+)?)\b\s*\.?\s*\Z")
_LED = r"(?:\A|[\s=])(?:\*\*)?"
_VALUES = (
    re.compile(r"\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]|\\boxed\{(.+)\}|(-?\\frac\{[^{}]*\}\{[^{}]*\})", re.DOTALL),
    re.compile(_LED + r"(-?\(?-?\d[\d.\s+*/^()-]*[+*/^()-][\d.\s+*/^()-]+)(?:\*\*)?(?=[.,:\s)$]|\Z)"),
    re.compile(_LED + r"[$€£¥₹]?(-?[1-9]\d{0,2}(?:[ ,]\d{3})+(?:\.\d+)?|-?\d+(?:[.,]\d+)?|\.\d+)(?:\s*(%))?"),
)
"""Formulas, sums and numbers as math-verify finds them in a text: numbers behind a blank or `=` alone."""


def reasoned_answer(reply: str) -> str:
    """Return the first `<answer>`, else the last box, else the number that ends the last line with one, else nothing."""
    if tagged := re.search(r"<answer>(.*?)</answer>", reply, re.DOTALL):
        return tagged[1].strip()
    if "\\boxed{" in reply and (box := last_box(reply)):
        return box
    numbers = (_LAST_NUMBER.search(line) for line in reversed(reply.strip().split("\n")))
    return next((number[1] for number in numbers if number), "")


def reasoned_letter(text: str) -> str:
    """Return the letter A to H that a text begins or ends with, else that of its most telling form; of several the first."""
    text = text.strip()
    for sign in ",.!?;:'\"":
        text = text.strip(sign)
    if text and (ends := [sign for sign in (text[0], text[-1]) if sign in _LETTERS]):
        return ends[0]
    text = f" {text} "
    if announced := _ANNOUNCED.search(text.lower()):
        text_behind = text[announced.start() :]
        if named := [sign for sign in text_behind if sign in _LETTERS]:
            return named[0]
    for forms in (("({})",), ("{}.",), ("{}:",), ("{})",), ("{} ",), ("{}-", "{}_", "{}="), ("{}",)):
        places = [(text.rfind(form.format(letter)), letter) for form in forms for letter in _LETTERS]
        if found := [place for place in places if place[0] >= 0]:
            return min(found)[1]
    return ""


def reasoned_right(reply: str, gold: str) -> bool:
    """Return True if a reply's answer is right by the shared rule of lmms-eval's reasoning tasks, without its judge.

    A gold answer that begins with a letter A to H is an option's letter. Values are equal to six decimals, whole numbers
    exactly; where math-verify reads further forms, they are no value here.
    """
    read, wanted = (text.removesuffix(".").strip() for text in (reasoned_answer(reply), gold))
    if letter := reasoned_letter(wanted):
        return reasoned_letter(read) == letter
    shorter, longer = sorted((read, wanted), key=len)
    if shorter in longer and len(shorter) >= 0.9 * len(longer):
        return True
    return any(
        one == other or (not one.is_integer() and not other.is_integer() and round(one, 6) == round(other, 6))
        for one in _values(read)
        for other in _values(wanted)
    )


def _values(text: str) -> tuple[float, ...]:
    """Return the value of the last formula, sum or number in a text; of per cent also a hundredth of it."""
    found = [match for form in _VALUES for match in form.finditer(text[-MAX_LENGTH:])]
    for match in sorted(found, key=lambda match: -match.end()):
        said, *percent = filter(None, match.groups())
        if match.re is _VALUES[-1]:
            said = re.sub(r"[ ,](?=\d{3}(?!\d))", "", said).replace(",", ".")
        if (value := latex_value(cleaned_formula(last_box(said) or said))) is not None:
            return (value, value / 100) if percent else (value,)
    return ()


def crpe_letter(reply: str, question: str) -> str:
    """Return the letter of the first option of CRPE's question whose text is in a reply, else the reply without its signs."""
    reply = re.sub(r"<(think|thought)>.*?</\1>", "", reply, flags=re.DOTALL).strip()
    tagged = re.search(r"<answer>(.*?)</answer>", reply, re.DOTALL)
    cleaned = re.sub(r"[^\w\s]", "", tagged[1] if tagged else reply).strip()
    letters = {text.strip(): letter for letter, text in re.findall(r"\b([A-Z])\.\s+([^\n]*)", question)}
    named = re.search("|".join(map(re.escape, letters)), cleaned) if letters else None
    return letters[named[0]] if named else cleaned.upper().replace("_", "")


def read_whole_yes_no(reply: str) -> bool | None:
    """Return True for `yes` and False for `no` if the whole reply is that word, case ignored."""
    return {"yes": True, "no": False}.get(reply.strip().lower())


def read_number(reply: str) -> float | None:
    """Return the number that the whole reply is, without a closing full stop."""
    text = reply.strip().rstrip(".")
    return float(text) if _NUMBER.fullmatch(text) else None


_BRACKETED = (re.compile(r"\([^)]*\)"), re.compile(r"（[^）]*）"))
_SIGNS = re.compile(r"[!-/:-@\[-`{-~！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～、《》【】]")
_SLAKE = {
    "x ray": "xray",
    **dict.fromkeys(["yeah", "yep", "true", "是", "是的", "有", "包含", "可以", "能", "会", "正常"], "yes"),
    **dict.fromkeys(
        ["nope", "false", "否", "不是", "没有", "无", "不包含", "不能", "不会", "不可以", "不正常", "异常"], "no"
    ),
}


def slake_normalised(text: str) -> str:
    """Return a short answer as its SLAKE task compares it: lower case, no brackets or signs, words for yes and no as these."""
    text = text.strip().lower()
    for form in (*_BRACKETED, _SIGNS):
        text = form.sub(" ", text)
    text = " ".join(text.split())
    return _SLAKE.get(text, text)


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
