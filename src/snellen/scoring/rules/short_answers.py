"""VLMEvalKit's comparison of short answers with one or several gold answers: VQA score, ANLS, relaxed and exact accuracy.

Also its readings of counts, of text in braces, of text that must contain the gold answer, and of a first capital letter.
Source: VLMEvalKit at e8e78f0 (18 August 2026): `vqa_eval`, `OCRBench`, `CountBenchQA`, `TallyQA`, `ZEROBench`, `VLMBlind`,
`extract_characters_regex` and MathVista's `post_check`, reproduced from their description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from snellen.errors import DataError
from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.scoring.rules.vlmevalkit import infer, literal_list, without_punctuation


class ReferenceStopsError(DataError):
    """A row on which the reference ends with an exception; `reference_error` is its Python name."""

    def __init__(self, reference_error: str, message: str) -> None:
        super().__init__(message, "Correct the row's gold answer or its category.")
        self.reference_error = reference_error


Golds: TypeAlias = str | Sequence[Any]
"""Gold answers: a table's cell, or several that were read already."""


def gold_answers(cell: Golds) -> list[Any]:
    """Return the gold answers of a table's cell: the items of a Python list, else the text itself."""
    if not isinstance(cell, str):
        return list(cell)
    items = literal_list(cell)
    return [cell] if items is None else items


def _texts(cell: Golds) -> list[str]:
    golds = gold_answers(cell)
    for gold in golds:
        if not isinstance(gold, str):
            raise ReferenceStopsError("AttributeError", f"the gold answer {gold!r} is no text")
    return golds


_DIGITS = {"none": "0"} | {word: str(number) for word, number in ENGLISH_BELOW_HUNDRED.items() if number <= 10}
_ARTICLES = frozenset(("a", "an", "the"))
_CONTRACTED = (
    "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've he's "
    "how'd how'll how's i'd've i'm i've isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've "
    "needn't not've o'clock oughtn't shan't she'd've should've shouldn't shouldn't've somebody'd've somebody'll somebody's "
    "someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd there'd've "
    "there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's "
    "what've when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't would've "
    "wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've"
)


@cache
def _contractions() -> dict[str, str]:
    """Return contractions by the forms that lack one of their apostrophes."""
    forms: dict[str, str] = {}
    for word in _CONTRACTED.split():
        for at, char in enumerate(word):
            if char == "'":
                forms.setdefault(word[:at] + word[at + 1 :], word)
    # The reference never restores what it writes with a capital, and takes one form the other way round.
    for form in [form for form in forms if form.startswith("i") and forms[form].startswith("i'")]:
        del forms[form]
    return forms | {"somebody'd": "somebodyd"}


def vqa_normalise(text: str) -> str:
    """Return a text as VQA compares it: lower case, no punctuation or articles, small numbers as digits."""
    cleaned = without_punctuation(text.replace("\n", " ").replace("\t", " ").strip())
    words = (_DIGITS.get(word, word) for word in cleaned.lower().split())
    contractions = _contractions()
    return " ".join(contractions.get(word, word) for word in words if word not in _ARTICLES)


def vqa_score(reply: str, answer: Golds) -> dict[str, Any]:
    """Return the VQA score: for each gold answer, how many of the other golds equal the reply, of three at most.

    A single gold answer has no others, so that its score is 0 whatever the reply.
    """
    golds = [vqa_normalise(gold) for gold in _texts(answer)]
    read = vqa_normalise(reply)
    equal = sum(gold == read for gold in golds)
    match = [min(1, (equal - (gold == read)) / 3) for gold in golds]
    return _scored(match, sum(match) / len(match) if match else 0.0, read, golds)


def vqa_normalised_equal(reply: str, answer: Golds) -> dict[str, Any]:
    """Return the share of gold answers that equal the reply, both normalised as for VQA."""
    golds = [vqa_normalise(gold) for gold in _texts(answer)]
    read = vqa_normalise(reply)
    match = [gold == read for gold in golds]
    return _scored(match, sum(match) / len(match) if match else 0.0, read, golds)


def _scored(match: list[Any], score: Any, read: str, golds: list[Any]) -> dict[str, Any]:
    return {"match": match, "score": score, "norm_pred": read, "norm_gold": golds}


WORD_RECALL = "word_recall"
"""Name of the detail of a score that holds the recall of words."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")
"""A word, or a sign of a script that puts no blanks between words."""


def token_recall(reply: str, golds: Sequence[str]) -> float:
    """Return the largest share, 0 to 1, of a gold answer's words that the reply holds, both normalised as for VQA.

    A gold answer without words, such as an article, has a share of 0. Source: the recall of open questions in LLaVA-Med.
    """
    said = set(_WORD.findall(vqa_normalise(reply)))
    words = (_WORD.findall(vqa_normalise(gold)) for gold in golds)
    return max((sum(word in said for word in gold) / len(gold) for gold in words if gold), default=0.0)


ANLS_THRESHOLD = 0.5


def anls(reply: str, answer: Golds) -> dict[str, Any]:
    """Return 1 minus the least normalised edit distance to a gold answer, 0 below `ANLS_THRESHOLD`.

    Distances are between texts without case and repeated blanks, divided by the longer raw text in capitals.
    """
    from rapidfuzz.distance import Levenshtein

    golds = _texts(answer)
    match = []
    for gold in golds:
        distance = Levenshtein.distance(" ".join(gold.strip().lower().split()), " ".join(reply.strip().lower().split()))
        length = max(len(gold.upper()), len(reply.upper()))
        match.append(distance / length if length else 0.0)
    score = 1 - min(match) if match else 0.0
    return _scored(match, score if score >= ANLS_THRESHOLD else 0.0, reply, golds)


TOLERANCE = 0.05


def relaxed_accuracy(reply: str, answer: Golds) -> dict[str, Any]:
    """Return whether the reply is within 5 % of a gold number, or equals a gold text but for case; best over golds.

    A per cent sign divides by 100. With a gold of 0 texts are compared. The reply is stripped, the gold is not.
    """
    golds = gold_answers(answer)
    match = [relaxed_equal(reply.strip(), str(gold)) for gold in golds]
    return _scored(match, max(match, default=False), reply, golds)


def relaxed_equal(reply: str, gold: str) -> bool:
    """Return True if the reply is within 5 % of a gold number, or equals the gold text but for case."""
    read, wanted = _as_float(reply), _as_float(gold)
    if read is not None and wanted:
        return abs(read - wanted) / abs(wanted) <= TOLERANCE
    return reply.lower() == gold.lower()


def _as_float(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def accuracy(reply: str, answer: Golds) -> dict[str, Any]:
    """Return 1 where the stripped reply equals a gold answer but for case; best over golds."""
    golds = _texts(answer)
    match = [1.0 if reply.strip().lower() == gold.strip().lower() else 0.0 for gold in golds]
    return _scored(match, max(match, default=0.0), reply, golds)


OCR_CATEGORIES = (
    "Regular Text Recognition", "Irregular Text Recognition", "Artistic Text Recognition", "Handwriting Recognition",
    "Digit String Recognition", "Non-Semantic Text Recognition", "Scene Text-centric VQA", "Doc-oriented VQA",
    "Key Information Extraction", "Handwritten Mathematical Expression Recognition",
)  # fmt: skip
OCR_FORMULAS = OCR_CATEGORIES[-1]


def ocrbench_hit(reply: str | None, answer: str, category: str) -> int:
    """Return 1 if the reply contains a gold answer; case counts and blanks do not in formulas, elsewhere the reverse.

    Raises:
        ReferenceStopsError: the gold cell is no list, or a hit lies in a category that is none of the ten.
    """
    golds = literal_list(answer)
    if golds is None:
        raise ReferenceStopsError("TypeError", f"the gold answer {answer[:80]!r} is no list")
    text = "nan" if reply is None else reply

    def comparable(part: Any) -> str:
        if not isinstance(part, str):
            raise ReferenceStopsError("AttributeError", f"the gold answer {part!r} is no text")
        if category == OCR_FORMULAS:
            return part.strip().replace("\n", " ").replace(" ", "")
        return part.lower().strip().replace("\n", " ")

    hit = any(comparable(gold) in comparable(text) for gold in golds)
    if hit and category not in OCR_CATEGORIES:
        raise ReferenceStopsError("KeyError", f"{category!r} is none of OCRBench's ten categories")
    return int(hit)


def gold_in_reply(reply: str, answer: str) -> bool:
    """Return True if the gold answer is part of the reply, in the middle of a word too."""
    return str(answer) in reply


def texts_in_braces(reply: str) -> list[str]:
    """Return the texts from an opening brace to the next closing one on its line; further opening ones are part of them."""
    parts = (part.partition("{") for line in reply.split("\n") for part in line.split("}")[:-1])
    return [text for _, opening, text in parts if opening]


def last_braces_contain(reply: str, answer: str) -> bool:
    """Return True if the last text in braces, on one line, contains the gold answer, case ignored."""
    texts = texts_in_braces(reply.lower())
    return bool(texts) and answer.lower() in texts[-1]


_COUNTS = {word: number for word, number in ENGLISH_BELOW_HUNDRED.items() if number <= 20}
_COUNT = re.compile(rf"\b(?:(20|1\d|\d)|({'|'.join(sorted(_COUNTS, key=len, reverse=True))}))\b", re.IGNORECASE)


def first_count(reply: Any) -> int | None:
    """Return the first number from 0 to 20 in digits or English words, None where there is none."""
    if isinstance(reply, int | float):
        number = int(reply)
        return number if 0 <= number <= 20 else None
    match = _COUNT.search(str(reply))
    if match is None:
        return None
    return int(match[1]) if match[1] else _COUNTS[match[2].lower()]


_OPENINGS = (
    "The best answer is", "The correct answer is", "The answer is", "The answer", "The best option is",
    "The correct option is", "Best answer:", "Best option:",
)  # fmt: skip
_CAPITAL = re.compile(r"[ABCDE]")


def _between(text: str, opening: str, closing: str) -> str | None:
    """Return the text between the first opening and the closing behind it; None where one of them is missing."""
    start = text.find(opening)
    end = text.find(closing, start + len(opening)) if start >= 0 else -1
    return text[start + len(opening) : end] if end >= 0 else None


def first_capital_letter(reply: str) -> str:
    """Return the first letter A to E in the answer tag, in either case, else `first_capital` of the reply."""
    tagged = _between(reply, "<answer>", "</answer>")
    return first_capital(reply if tagged is None else tagged.upper())


def first_capital(reply: str) -> str:
    """Return the first capital A to E in the reply without its opening phrase; "" if none.

    A reply of at most ten words without a capital gives the first option `(A)` to `(E)` that contains it, case ignored: a
    blank reply is A.
    """
    text = reply.strip()
    for opening in _OPENINGS:
        text = text.replace(opening, "")
    capital = _CAPITAL.search(text)
    if capital:
        return capital[0]
    if len(text.split()) > 10:
        return ""
    return next((letter for letter in "ABCDE" if text.lower() in f"({letter})".lower()), "")


def blind_test_hit(reply: str, answer: str, task: str) -> bool:
    """Return the hit of one BlindTest reply by its task: gold in braces, gold anywhere, or rows and columns."""
    if task in ("Subway Connections", "Nested Squares", "Line Plot Intersections", "Circled Letter"):
        return texts_in_braces(reply)[:1] == [answer]
    if task.startswith(("Touching Circles", "Olympic Counting")):
        return answer.lower() in reply.lower()
    if task.startswith("Counting Grid"):
        return number_pair(reply) == whole_numbers(answer)
    return False


def number_pair(reply: str) -> list[int] | None:
    """Return rows and columns of a reply, as `rows={3} columns={4}` or `(3, 4)`; None where there are none."""
    parts = re.split("([{}])", reply)
    numbers = [*zip(parts[::2], parts[1::2], parts[2::2], parts[3::2], strict=False)]
    found = [
        [
            text
            for before, opening, text, end in numbers
            if opening + end == "{}" and text.isdecimal() and re.search(word, before)
        ]
        for word in ("[Rr]ow", "[Cc]olumn")
    ]
    if all(found):
        return [int(texts[0][:18]) for texts in found]
    pair = _PAIR.search(reply)
    return None if pair is None else [int(pair[1]), int(pair[2])]


_PAIR = re.compile(r"\((\d{1,9}),\s*(\d{1,9})\)")
_INTEGER = re.compile(r"\d+")


def whole_numbers(text: str) -> list[int]:
    """Return the whole numbers of a text of at most 18 digits each."""
    return [int(digits[:18]) for digits in _INTEGER.findall(text)]


def mathvista_value(row: Mapping[str, Any]) -> Any:
    """Return what MathVista's check gives for one row: the answer read before the judge, or True or False after it.

    Args:
        row: question_type, answer_type, answer, answer_option, choices, prediction_or_extraction, prefetch.

    Lists and free texts are compared with the word None, so that they are wrong whatever the reply.
    """
    reply, gold, prefetch = str(row["prediction_or_extraction"]), str(row["answer"]), bool(row["prefetch"])
    value: Any = None
    wanted: Any = gold
    if row["question_type"] == "multi_choice":
        choices = literal_list(str(row["choices"])) or []
        wanted = row["answer_option"]
        value = infer(reply, {chr(ord("A") + at): str(text) for at, text in enumerate(choices)}) or False
        if value and prefetch:
            return value
        return False if prefetch else value == wanted
    try:
        if row["answer_type"] == "integer":
            value, wanted = int(reply), int(gold)
        elif row["answer_type"] == "float":
            value, wanted = float(reply), float(gold)
        else:
            value = "None"
    except ValueError:
        return False
    if value == wanted:
        return value if prefetch and row["answer_type"] in ("integer", "float") else not prefetch
    return False
