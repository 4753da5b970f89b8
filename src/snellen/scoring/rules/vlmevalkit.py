"""VLMEvalKit's rules without a judge: options, yes or no, and VisFactor.

Lists that stand as Python text in tables and replies; they are parsed, never evaluated.

VLMEvalKit's reading of multiple-choice answers without a judge, and what it reports over them.

Source: VLMEvalKit at e8e78f0 (18 August 2026): `can_infer_option`, `can_infer_text`, `prefetch_circular_group`, `report_acc`
and `report_acc_MMVP`, reproduced from their description.

VLMEvalKit's reading of yes or no without a judge, and the figures of POPE, MME, HallusionBench, AMBER and NaturalBench.

Source: VLMEvalKit at e8e78f0 (18 August 2026): `YOrN_Extraction`, `POPE_rating`, `MME_rating`, `Hallusion_rating`,
`AMBER_rating`, and NaturalBench's `extract_answer` and `get_scores`, reproduced from their description.

VLMEvalKit's scoring of VisFactor: five forms of answers, all rows of a question right, the mean of the subtests.

Source: VLMEvalKit at e8e78f0 (18 August 2026), `VisFactor.evaluate`, reproduced from its description and its outcomes. The
form is told from the gold answer, since the list of subtests by form is not documented.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from snellen.sources.pandas_cells import MISSING as MISSING_CELLS

MAX_CHARS = 1 << 20  # Python's parser takes a few hundred bytes of memory for each character of a list


_FOREIGN = re.compile(r"[^\x00-\x7f]{200,}")
MAX_MARKS = 100


def _heaps_marks(run: str) -> bool:
    """Return True for more combining marks than any word has: Python's parser takes the square of their number."""
    return sum(map(bool, map(unicodedata.combining, run))) > MAX_MARKS


def literal_list(text: str) -> list[Any] | None:
    """Parse a Python literal in text as a list; None where it is anything else, or longer than a megabyte."""
    value = literal(text)
    return value if isinstance(value, list) else None


def literal(text: str) -> Any:
    """Parse a Python literal in text; None where it is none, or longer than a megabyte."""
    if len(text) > MAX_CHARS or any(map(_heaps_marks, _FOREIGN.findall(text))):
        return None
    try:
        with warnings.catch_warnings():
            # Python warns about forms such as `1and`, which here are a model's words.
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        # RecursionError and MemoryError are what the parser raises for brackets nested too deep.
        return None


MISSING = "nan"
"""What stands for a missing reply once the kit has loaded it from its workbook."""


def loaded(reply: str) -> str:
    """Return a reply as the kit loads it with pandas: `nan` for an empty one, `None`, `N/A` and the like."""
    return MISSING if not reply or reply in MISSING_CELLS else reply


REFUSED = "Z"
"""The letter that stands for a refusal."""
API_FAILURE = "Failed to obtain answer via API"
REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
LAST_WORDS = 5
"""The only letter counts where it first stands behind all but this many words of the reply."""
_TO_BLANK = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_ANSWER_IS = re.compile(r"answer\s++is\s++\**+([abcd])", re.IGNORECASE)


def infer_option(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the option whose letter the reply names, `Z` for a refusal, None where neither is read.

    One letter only must stand as a word, among the last words; else any letter A to D behind "answer is" counts, in either
    case and without a boundary: `the answer is a green pear` is A.
    """
    if API_FAILURE in reply:
        return None
    if any(refusal in reply for refusal in REFUSALS):
        return REFUSED
    words = reply.translate(_TO_BLANK).split()
    letters = [letter for letter in options if letter in words]
    if len(letters) == 1 and words.index(letters[0]) > len(words) - LAST_WORDS:
        return letters[0]
    if not letters and REFUSED in words:
        return REFUSED
    announced = _ANSWER_IS.search(reply)
    if announced and announced[1].upper() in options:
        return announced[1].upper()
    return None


def infer_text(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the only option whose text the reply contains, case ignored; None for a reply over twice all texts' length."""
    lowered = reply.lower()
    if len(lowered) > 2 * sum(len(str(text)) for text in options.values()):
        return None
    named = [letter for letter, text in options.items() if str(text).lower() in lowered]
    return named[0] if len(named) == 1 else None


def infer(reply: str, options: Mapping[str, str]) -> str | None:
    """Return `infer_option`'s letter, else `infer_text`'s."""
    return infer_option(reply, options) or infer_text(reply, options)


def crpe_right(reply: str, gold: str) -> bool:
    """Return True if a reply begins as CRPE's gold cell; a longer one that begins with none of A to D has to hold its end.

    The end is what stands behind the cell's fourth character: where that is empty any such reply is right, as in the kit.
    """
    if len(reply) == 1 or reply[:1] in tuple("ABCD"):
        return reply[:1] == gold[:1]
    return gold[4:].lower() in reply.lower()


def circular_hit(rolls: Iterable[Mapping[str, Any]]) -> int | None:
    """Return 1 if every roll of a question is right, 0 at the first decided wrong roll, None where one is undecided.

    Args:
        rolls: `answer`, `prediction` and `options` of each order in which the options were shown.
    """
    undecided = False
    for roll in rolls:
        letter = infer(str(roll["prediction"]), roll["options"])
        if letter is None:
            undecided = True
        elif letter != roll["answer"]:
            return 0
    return None if undecided else 1


ABBREVIATIONS = {
    "coarse_perception": "CP",
    "finegrained_perception (instance-level)": "FP-S",
    "finegrained_perception (cross-instance)": "FP-C",
    "logic_reasoning": "LR",
    "relation_reasoning": "RR",
    "attribute_reasoning": "AR",
}
"""MMBench's six categories, by the names under which the kit reports them."""


def accuracy_report(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Return accuracy by split (`none` where rows have none): `Overall`, each `l2-category`, each `category`.

    Values are 0 to 1; None where a split has no row of a category. A name on both levels takes the category's value.
    """
    has_split = bool(rows) and "split" in rows[0]
    splits = list(dict.fromkeys(row["split"] for row in rows)) if has_split else ["none"]
    report: dict[str, dict[str, float | None]] = {}
    for split in splits:
        chosen = [row for row in rows if not has_split or row["split"] == split]
        cells: dict[str, float | None] = {"Overall": _mean(chosen)}
        for level in ("l2-category", "category"):
            if not rows or level not in rows[0]:
                continue
            for name in sorted({row[level] for row in rows}):
                key = ABBREVIATIONS.get(name, name)
                cells[key] = _mean([row for row in chosen if row[level] == name])
        report[str(split)] = cells
    return report


def _mean(rows: Sequence[Mapping[str, Any]]) -> float | None:
    return sum(float(row["hit"]) for row in rows) / len(rows) if rows else None


class PairingError(ValueError):
    """Rows of MMVP that form no pairs: an odd number, or two different questions side by side."""


def pair_report(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return MMVP's figures over rows sorted by index: `Overall`, pairs with both right, and `Average`, plain accuracy.

    Raises:
        PairingError: the rows form no pairs of one question.
    """
    if len(rows) % 2:
        raise PairingError(f"{len(rows)} rows form no pairs")
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    for at, (first, second) in enumerate(pairs):
        if first["question"] != second["question"]:
            raise PairingError(f"rows {2 * at} and {2 * at + 1} hold different questions")
    hits = [float(row["hit"]) for row in rows]
    both = [float(first["hit"]) * float(second["hit"]) for first, second in pairs]
    return {"Overall": sum(both) / len(both), "Average": sum(hits) / len(hits)}


Row = Mapping[str, Any]

_SIGNS = ';/[]"{}()=+\\_-><@`,?!'
_GROUPED_NUMBER = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
FULL_STOPS = 32
"""Full stops that are removed; the kit passes a flag where the number of replacements is expected."""


def without_punctuation(text: str) -> str:
    """Remove signs next to a blank, or all where the text has a number like `1,000`; replace the others by a blank.

    Colons, asterisks and apostrophes stay, as do full stops before a digit and those beyond the first `FULL_STOPS`.
    """
    grouped = _GROUPED_NUMBER.search(text) is not None
    cleaned = text
    for sign in _SIGNS:
        beside_blank = f"{sign} " in text or f" {sign}" in text
        cleaned = cleaned.replace(sign, "" if beside_blank or grouped else " ")
    return _FULL_STOP.sub("", cleaned, count=FULL_STOPS)


def read_yes_no(reply: str) -> str:
    """Return `Yes` or `No` if exactly one of the two words is in the reply, else `Unknown`."""
    words = without_punctuation(reply.lower()).split()
    yes, no = "yes" in words, "no" in words
    if yes == no:
        return "Unknown"
    return "Yes" if yes else "No"


def pope_report(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return POPE's figures in per cent, over all rows and by category: F1 as `Overall`, acc, precision, recall.

    `Yes` is the positive class; any other reading counts as `No`. A row of several categories (separated by commas)
    counts once in each of them, and as often in `Overall`.
    """
    repeated = [(category, row) for row in rows for category in str(row["category"]).split(",")]
    report = {"Overall": _binary([row for _, row in repeated])}
    for category in dict.fromkeys(category for category, _ in repeated):
        report[category] = _binary([row for name, row in repeated if name == category])
    return report


def _binary(rows: Sequence[Row]) -> dict[str, float]:
    gold = [row["answer"] == "Yes" for row in rows]
    read = [row["extracted"] == "Yes" for row in rows]
    hits = sum(a and b for a, b in zip(gold, read, strict=True))
    precision = hits / sum(read) if any(read) else 0.0
    recall = hits / sum(gold) if any(gold) else 0.0
    both = precision + recall
    accuracy = sum(row["answer"] == row["extracted"] for row in rows) / len(rows)
    f1 = 2 * precision * recall / both if both else 0.0
    return {"Overall": 100 * f1, "acc": 100 * accuracy, "precision": 100 * precision, "recall": 100 * recall}


PERCEPTION = (
    "OCR", "artwork", "celebrity", "color", "count", "existence", "landmark", "position", "posters", "scene",
)  # fmt: skip
REASONING = ("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation")


def mme_report(rows: Sequence[Row]) -> dict[str, float]:
    """Return MME's figures: for each category 100 x accuracy plus 100 x share of images with both questions right.

    Of an image's rows the first two are its pair; `perception` and `reasoning` are sums over ten and four categories.

    Raises:
        KeyError: one of the fourteen categories has no row.
        IndexError: an image has one row only.
    """
    scores: dict[str, float] = {}
    for category in dict.fromkeys(str(row["category"]) for row in rows):
        chosen = [row for row in rows if row["category"] == category]
        pairs: dict[Hashable, list[bool]] = {}
        for row in chosen:
            pairs.setdefault(row["image_path"], []).append(row["answer"] == row["extracted"])
        accuracy = sum(row["answer"] == row["extracted"] for row in chosen) / len(chosen)
        both = sum(hits[0] and hits[1] for hits in pairs.values()) / len(pairs)
        scores[category] = 100 * accuracy + 100 * both
    sums = {
        "perception": sum(scores[name] for name in PERCEPTION),
        "reasoning": sum(scores[name] for name in REASONING),
    }
    return sums | scores


def hallusion_report(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return HallusionBench's aAcc, fAcc and qAcc in per cent, over all rows, by `category` and by `l2-category`.

    fAcc is the share of figures, qAcc that of questions, with every row right. Set, figure and question are the fields 3,
    4 and 5 of the index between underscores, so that an underscore in a name shifts them.
    """
    report = {"Overall": _accuracies(rows)}
    for level in ("category", "l2-category"):
        for name in dict.fromkeys(str(row[level]) for row in rows):
            report[name] = _accuracies([row for row in rows if row[level] == name])
    return report


def _accuracies(rows: Sequence[Row]) -> dict[str, float]:
    def field(row: Row, at: int) -> str:
        return str(row["index"]).split("_")[at]

    return {
        "aAcc": 100 * sum(_hit(row) for row in rows) / len(rows),
        "fAcc": 100 * _all_right(rows, lambda row: (row["l2-category"], field(row, 3), field(row, 4))),
        "qAcc": 100 * _all_right(rows, lambda row: (row["l2-category"], field(row, 3), field(row, 5))),
    }


def _hit(row: Row) -> bool:
    return bool(row["answer"] == row["extracted"])


def _all_right(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> float:
    """Return the share of groups in which every row is right."""
    groups: dict[Hashable, bool] = {}
    for row in rows:
        groups[key(row)] = groups.get(key(row), True) and _hit(row)
    return sum(groups.values()) / len(groups)


AMBER_GROUPS = {
    "Attribute": (
        "discriminative-attribute-state",
        "discriminative-attribute-number",
        "discriminative-attribute-action",
    ),
    "Existence": ("discriminative-hallucination",),
    "Relation": ("discriminative-relation", "relation"),
}


def amber_report(rows: Sequence[Row]) -> dict[str, float]:
    """Return AMBER's accuracies in per cent, case ignored, of the groups that have rows, and their plain mean `Avg ACC`."""
    report: dict[str, float] = {}
    for group, categories in AMBER_GROUPS.items():
        hits = [
            str(row["answer"]).lower() == str(row["extracted"]).lower() for row in rows if row["category"] in categories
        ]
        if hits:
            report[group] = 100 * sum(hits) / len(hits)
    return report | ({"Avg ACC": sum(report.values()) / len(report)} if report else {})


_YES_NO = re.compile(r"\b(?:(yes)|no)\b", re.IGNORECASE)
_A_B = re.compile(r"\b(?:(a)|b)\b", re.IGNORECASE)


def read_natural_bench(reply: str, question_type: str) -> int:
    """Return 1 for yes or A, 0 for no or B, whichever word comes first in any case; -1 if neither is there."""
    word = (_YES_NO if question_type == "yes_no" else _A_B).search(reply)
    return -1 if word is None else int(word[1] is not None)


RIGHT_PATTERN = (1, 0, 0, 1)


def natural_bench_report(groups: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return NaturalBench's four accuracies of groups of readings (question 0 on images 0 and 1, question 1 on both)."""
    question = image = single = whole = 0
    for group in groups:
        a, b, c, d = (reading == gold for reading, gold in zip(group, RIGHT_PATTERN, strict=True))
        question += (a and b) + (c and d)
        image += (a and c) + (b and d)
        single += a + b + c + d
        whole += a and b and c and d
    n = len(groups)
    return {"Q_Acc": question / (2 * n), "I_Acc": image / (2 * n), "Acc": single / (4 * n), "G_Acc": whole / n}


_OBJECT = re.compile(r"\{[^{}]*\}")
_INTEGER = re.compile(r"\d{1,18}")
_LETTER = re.compile(r"\b([A-Z])\b")
_PAIR = re.compile(r"^\(?\s*(\d+)\s*,\s*(\d+)\s*\)?$")


def visfactor_report(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the share of questions with every row right by subtest (`category_id`), and the mean of subtests as `ALL`."""
    questions: dict[str, dict[Any, bool]] = {}
    for row in rows:
        subtest = questions.setdefault(str(row["category_id"]), {})
        index = row["eval_index"]
        subtest[index] = subtest.get(index, True) and _right(str(row["prediction"]), str(row["answer"]))
    report = {name: sum(hits.values()) / len(hits) for name, hits in questions.items()}
    return report | ({"ALL": sum(report.values()) / len(report)} if report else {})


def _right(reply: str, gold: str) -> bool:
    answer = _json_answer(reply)
    if gold in ("T", "F"):
        return (
            {True: "T", False: "F"}.get(answer, str(answer).strip().upper()[:1]) == gold
            if answer is not None
            else False
        )
    pair = _PAIR.match(gold)
    if pair is not None:
        numbers = _INTEGER.findall(reply if answer is None else str(answer))
        return [int(number) for number in numbers[:2]] == [int(pair[1]), int(pair[2])]
    if gold.isdecimal():
        numbers = _INTEGER.findall(reply if answer is None else str(answer))
        return bool(numbers) and int(numbers[-1]) == int(gold)
    if len(gold) == 1:
        letters = _LETTER.findall(reply) if answer is None else [str(answer).strip().upper()]
        return bool(letters) and letters[-1] == gold
    return answer is not None and str(answer).strip().lower() in [word.strip().lower() for word in gold.split(",")]


def _json_answer(reply: str) -> Any:
    """Return the `answer` of the last JSON object that has one, None where there is none."""
    for text in reversed(_OBJECT.findall(reply)):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(value, dict) and "answer" in value:
            return value["answer"]
    return None
