"""VLMEvalKit's scoring of VisFactor: five forms of answers, all rows of a question right, the mean of the subtests.

Source: VLMEvalKit at e8e78f0 (18 August 2026), `VisFactor.evaluate`, reproduced from its description and its outcomes. The
form is told from the gold answer, since the list of subtests by form is not documented.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

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
