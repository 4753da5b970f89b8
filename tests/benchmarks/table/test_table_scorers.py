"""Scorers of declared benchmarks: the catalogue's rules give what the harness gives, and the strict profile what a reader would."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from snellen.benchmarks.table.declaration import ScoreRule, read_declaration
from snellen.benchmarks.table.scorers import PROFILES, answer_line, scorers
from snellen.scoring.rules.vlmevalkit import literal_list
from snellen.types import Prompt, Sample, Score, Text

ASK = Prompt((Text("?"),))
FRUIT = {"A": "a green pear", "B": "a ripe plum", "C": "two walnuts", "D": "an empty bowl"}


def rule(name: str) -> ScoreRule:
    declared = read_declaration(Path(str(files("snellen.benchmarks.table") / "catalogue" / f"{name}.toml")))
    assert declared.score is not None
    return declared.score


def short(answer: str, **meta: str) -> Sample:
    items = literal_list(answer)
    return Sample("1", ASK, (answer,) if items is None else tuple(items), "short", meta=meta)


def kit(name: str, sample: Sample, reply: str) -> Score:
    return scorers(rule(name))["vlmevalkit"](sample, reply)


def compare(name: str, case: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Return what the catalogue's rule gives for a case, and what the harness gave; None where it stopped."""
    row, expected = case["input"], case["expected"]
    if "raises" in expected or row.get("task") == "Unlisted Task":  # a task that no table has is always wrong there
        return None
    reply = "nan" if row["prediction"] is None else str(row["prediction"])
    if name == "mcq_exact":
        score = kit("mmstar", Sample("1", ASK, "A", "choice", row["options"]), reply)
        letter = score.extracted if score.reason != "refusal, read as Z" else "Z"
        return letter or False, expected["final"]
    if name == "yesno_extract":
        extracted = kit("pope", Sample("1", ASK, True, "truth"), reply).extracted
        return {True: "Yes", False: "No", None: "Unknown"}[extracted], expected["extracted"]
    if name == "first_capital_letter":
        options = dict.fromkeys("ABCDE", "x")
        return kit("mme-realworld", Sample("1", ASK, "A", "choice", options), reply).extracted or "", expected["letter"]
    if name == "naturalbench_extract":
        sample = short("x", type=row["type"])
        value = {None: -1, "yes": 1, "no": 0, "A": 1, "B": 0}[kit("naturalbench", sample, reply).extracted]
        return value, expected["value"]
    if name == "count_first_number":
        if row.get("is_nan") or not isinstance(row["prediction"], str):
            return None
        return kit("tallyqa", Sample("1", ASK, 3, "count"), reply).extracted, expected["value"]
    entry, key = {
        "anls": ("docvqa-val", "score"),
        "vqa_score": ("textvqa-val", "score"),
        "relaxed_accuracy": ("chartqa", "score"),
        "accuracy": ("gqa", "score"),
        "ocrbench_contains": ("ocrbench", "hit"),
        "gold_in_prediction": ("countbenchqa", "accuracy"),
        "last_braces_contains": ("zerobench", "accuracy"),
        "blindtest_by_task": ("blindtest", "accuracy"),
    }[name]
    meta = {key: str(row[key]) for key in ("category", "task") if key in row}
    value = kit(entry, short(str(row["answer"]), **meta), reply).value
    scale = 100 if name == "gold_in_prediction" else 1
    return value, float(expected[key]) / scale


NAMES = (
    *("mcq_exact", "yesno_extract", "first_capital_letter", "naturalbench_extract", "count_first_number", "anls"),
    *("vqa_score", "relaxed_accuracy", "accuracy", "ocrbench_contains", "gold_in_prediction", "last_braces_contains"),
    "blindtest_by_task",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_catalogue_scores_as_the_harness(name: str) -> None:
    folder = os.environ.get("SNELLEN_TEST_VECTORS")
    if folder is None:
        pytest.skip("SNELLEN_TEST_VECTORS names no folder with generic/NAME.json")
    cases = json.loads(Path(folder, "generic", f"{name}.json").read_text(encoding="utf-8"))["cases"]
    compared = 0
    for case in cases:
        if (pair := compare(name, case)) is not None:
            assert pair[0] == pytest.approx(pair[1]), case
            compared += 1
    assert compared > 0


@pytest.mark.parametrize(
    ("keys", "target", "reply", "values"),
    [
        ({"read": "yes-no"}, True, "**Yes**", (1, 0, 0)),
        ({"read": "yes-no"}, True, "yes", (1, 1, 1)),
        ({"read": "yes-no"}, False, "No, there is none.", (1, 1, 0)),
        ({"read": "number"}, 5, "5", (1, 1, 1)),
        ({"read": "number"}, 21, "There are 21 of them.", (1, 0, 0)),
        ({"read": "whole", "equals": "anls"}, ("acme",), "The brand is Acme.", (1, 0, 0)),
        ({"read": "whole", "equals": "anls"}, ("acme",), "acne", (0.75, 0.75, 0.75)),
        ({"read": "whole", "equals": "relaxed"}, ("14",), "14.5", (1, 1, 1)),
        ({"read": "whole", "equals": "vqa-score"}, ("red",), "red", (1, 0, 1)),
        ({"read": "whole", "equals": "vqa-score"}, ("don't know",), "don't know", (1, 0, 1)),
        ({"read": "whole", "equals": "contains"}, ("OPEN",), "It says Open now", (1, 1, 1)),
        ({"read": "braces", "equals": "contains"}, ("7",), "{3} then {7}", (1, 1, 1)),
        ({"read": "pair", "equals": "pair"}, ("3,4",), "rows={3} columns={4}", (1, 1, 1)),
        ({"read": "first-word-of", "words": ["yes", "no"]}, ("Yes",), "Yes, no doubt.", (1, 1, 1)),
    ],
)
def test_a_rule_scores_by_profile(
    keys: Mapping[str, Any], target: Any, reply: str, values: tuple[float, float, float]
) -> None:
    kinds = {bool: "truth", int: "count", tuple: "short"}
    sample = Sample("1", ASK, target, kinds[type(target)])  # type: ignore[arg-type]
    chosen = scorers(msgspec.convert(keys, ScoreRule))
    assert tuple(chosen[profile](sample, reply).value for profile in PROFILES) == pytest.approx(values)


@pytest.mark.parametrize(
    ("reply", "extracted"),
    [
        ("ITC Limited, 37 J.L. Nehru Road", "ITC Limited, 37 J.L. Nehru Road"),
        ("R. J. Reynolds", "R. J. Reynolds"),
        ("The brand is Acme.", "Acme"),
        ("I looked twice.\nThe answer is: 12 March 1999.", "12 March 1999"),
        ("<think>is it 3?</think><answer>word 3x</answer>", "word 3x"),
        ("I cannot read it, sorry.", None),
    ],
)
def test_a_text_is_read_without_the_sentence_around_it(reply: str, extracted: str | None) -> None:
    score = scorers(ScoreRule(read="whole", equals="anls"))["strict"](Sample("1", ASK, ("x",), "short"), reply)
    assert score.extracted == extracted


def test_an_article_is_an_option_for_the_harness_only() -> None:
    sample = Sample("1", ASK, "A", "choice", FRUIT)
    chosen = scorers(ScoreRule(read="letter-or-text"))
    assert chosen["vlmevalkit"](sample, "A fat cat").value == 1.0
    assert chosen["strict"](sample, "A fat cat").verdict == "invalid"


def test_an_unreadable_reply_is_invalid_with_a_reason_under_every_profile() -> None:
    sample = Sample("1", ASK, "A", "choice", FRUIT)
    for profile, score in scorers(ScoreRule(read="letter-or-text")).items():
        result = score(sample, "I see a garden with many kinds of fruit and cannot decide at all.")
        assert (result.value, result.verdict) == (0.0, "invalid"), profile
        assert result.reason


def test_a_question_without_options_is_a_choice_with_other_answers_for_mmmu() -> None:
    sample = Sample("1", ASK, ("24/7",), "short")
    assert kit("mmmu-val", sample, "It is 24/7").value == 1.0
    assert kit("mmmu-val", sample, "It is 3").verdict == "invalid"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [("Thinking.\nAnswer: C", "C"), ("Answer: A\nAnswer: B.", "B"), ("Answer: red", " red"), ("B", "B")],
)
def test_the_last_answer_line_counts(reply: str, expected: str) -> None:
    assert answer_line(reply) == expected
