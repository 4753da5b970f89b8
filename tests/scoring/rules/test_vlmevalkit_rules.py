"""VLMEvalKit's rules against outcomes of the harness itself: a few quoted here, all that a folder holds where it is given."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError, UsageError
from snellen.scoring.rules.registry import NAMES, RULES, apply, rule, with_result
from stopwatch import cpu_times, is_done_within

FRUIT = {"A": "a green pear", "B": "a ripe plum", "C": "two walnuts", "D": "an empty bowl"}
YES_NO = ["category", "image_path", "answer", "extracted"]
TEN = "['kiosk', 'kiosk', 'kiosk', 'booth', 'booth', 'booth', 'booth', 'booth', 'booth', 'booth']"
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("mcq_exact", {"prediction": "(A)", "options": FRUIT}, {"option": "A", "text": False, "final": "A"}),
    ("mcq_exact", {"prediction": "A cat", "options": FRUIT}, {"option": "A", "text": False, "final": "A"}),
    ("mcq_exact", {"prediction": "two walnuts", "options": FRUIT}, {"option": False, "text": "C", "final": "C"}),
    (
        "mcq_circular_group",
        {"rolls": [{"answer": "A", "prediction": "B", "options": FRUIT}]},
        {"hit": 0, "decided_without_judge": True},
    ),
    (
        "mcq_report",
        {"columns": ["hit", "split", "category"], "rows": [[1, "dev", "size"], [0, "test", "hue"]]},
        {"dev": {"Overall": 1.0, "hue": None, "size": 1.0}, "test": {"Overall": 0.0, "hue": 0.0, "size": None}},
    ),
    ("pair_accuracy_mmvp", {"columns": ["question", "hit"], "rows": [["q1", 1]]}, {"raises": "AssertionError"}),
    ("yesno_extract", {"prediction": "**Yes**"}, {"extracted": "Unknown"}),
    ("yesno_extract", {"prediction": "No, 1,000 people"}, {"extracted": "No"}),
    ("yesno_extract", {"prediction": "yes-no"}, {"extracted": "Unknown"}),
    (
        "pope_metrics",
        {
            "columns": ["index", "answer", "extracted", "category"],
            "rows": [[0, "Yes", "Yes", "popular"], [1, "Yes", "Yes", "adversarial"], [2, "No", "Yes", "random,popular"]],
        },
        {
            "Overall": {"Overall": 200 / 3, "acc": 50.0, "precision": 50.0, "recall": 100.0},
            "popular": {"Overall": 200 / 3, "acc": 50.0, "precision": 50.0, "recall": 100.0},
            "adversarial": {"Overall": 100.0, "acc": 100.0, "precision": 100.0, "recall": 100.0},
            "random": {"Overall": 0, "acc": 0.0, "precision": 0.0, "recall": 0.0},
        },
    ),
    ("mme_metrics", {"columns": YES_NO, "rows": [["OCR", "1.png", "Yes", "Yes"]] * 2}, {"raises": "KeyError"}),
    (
        "hallusionbench_metrics",
        {
            "columns": ["index", "category", "l2-category", "answer", "extracted"],
            "rows": [["VD_my_map_0_1_2_3", "VD", "my_map", "Yes", "Yes"], ["VD_my_map_0_1_2_4", "VD", "my_map", "Yes", "No"]],
        },
        {name: {"aAcc": 50.0, "fAcc": 0.0, "qAcc": 0.0} for name in ("Overall", "VD", "my_map")},
    ),
    (
        "amber_metrics",
        {"columns": YES_NO, "rows": [["discriminative-attribute-state", "1.png", "yes", "Yes"]]},
        {"Attribute": 100.0, "Avg ACC": 100.0},
    ),
    ("naturalbench_extract", {"prediction": "a bird, so B", "type": "multiple_choice"}, {"value": 1}),
    (
        "naturalbench_scores",
        {"groups_q0i0_q0i1_q1i0_q1i1": [[1, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]]},
        {"Q_Acc": 0.5, "I_Acc": 0.5, "Acc": 0.75, "G_Acc": 1 / 3},
    ),
    (
        "vqa_score",
        {"prediction": "the kiosk", "answer": TEN},
        {"match": [2 / 3] * 3 + [1] * 7, "score": 0.9, "norm_pred": "kiosk", "norm_gold": ["kiosk"] * 3 + ["booth"] * 7},
    ),
    (
        "vqa_normalised_equal",
        {"prediction": "don't walk", "answer": "['dont walk', 'walk']"},
        {"match": [True, False], "score": 0.5, "norm_pred": "don't walk", "norm_gold": ["don't walk", "walk"]},
    ),
    (
        "anls",
        {"prediction": "STRASSE", "answer": "['straße']"},
        {"match": [2 / 7], "score": 5 / 7, "norm_pred": "STRASSE", "norm_gold": ["straße"]},
    ),
    (
        "relaxed_accuracy",
        {"prediction": "0.14", "answer": "14%"},
        {"match": [True], "score": True, "norm_pred": "0.14", "norm_gold": ["14%"]},
    ),
    ("accuracy", {"prediction": "14", "answer": "[13, 14]"}, {"raises": "AttributeError"}),
    (
        "ocrbench_contains",
        {"category": "Handwritten Mathematical Expression Recognition", "answer": "['x ^ 2']", "prediction": "x^2"},
        {"hit": 1, "final_norm": 0.1},
    ),
    ("ocrbench_contains", {"category": "Signs", "answer": "['a']", "prediction": "a"}, {"raises": "KeyError"}),
    ("gold_in_prediction", {"answer": "4", "prediction": "14"}, {"accuracy": 100.0}),
    ("last_braces_contains", {"answer": "1", "prediction": "{multi\nline 1}"}, {"accuracy": 0.0}),
    ("count_first_number", {"prediction": "twenty-one", "is_nan": False}, {"value": 20}),
    ("first_capital_letter", {"prediction": "Answer: D"}, {"letter": "A"}),
    ("first_capital_letter", {"prediction": " \n"}, {"letter": "A"}),
    ("blindtest_by_task", {"task": "Subway Connections", "answer": "2", "prediction": "{ 2 }"}, {"accuracy": 0.0}),
    (
        "mathvista_check",
        {
            "question_type": "free_form", "answer_type": "integer", "answer": "14", "answer_option": None,
            "choices": None, "prediction_or_extraction": " 14 ", "prefetch": True,
        },
        {"value": 14},
    ),
    (
        "visfactor_groups",
        {
            "columns": ["category_id", "eval_index", "answer", "additional", "prediction"],
            "rows": [["CF1", "1", "T", "x", '{"answer":"T"}'], ["P3", "1", "T", "x", '{"answer":"F"}']],
        },
        {"CF1": 1.0, "P3": 0.0, "ALL": 0.5},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "row", "expected"), CASES, ids=[f"{case[0]}-{at}" for at, case in enumerate(CASES)])
def test_a_rule_gives_what_the_harness_gives(name, row, expected):
    assert with_result(RULES[name], {"input": row, "expected": expected}, "row 1")["agrees"]


def test_every_rule_has_a_case():
    assert {name for name, _, _ in CASES} == set(RULES)


def test_all_outcomes_of_a_folder_are_reproduced():
    folder = os.environ.get("SNELLEN_TEST_VECTORS")
    if folder is None:
        pytest.skip("SNELLEN_TEST_VECTORS names no folder with generic/NAME.json")
    compared = 0
    for path in sorted(Path(folder, "generic").glob("*.json")):
        cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
        if path.stem not in RULES:
            continue
        for case in cases:
            assert with_result(RULES[path.stem], case, path.name)["agrees"], (path.name, case)
            compared += 1
    assert compared > 0


def test_a_row_without_a_field_of_the_rule_is_named():
    with pytest.raises(DataError, match=r"rows\.jsonl, line 3: the row has no field 'options'"):
        apply(RULES["mcq_exact"], {"prediction": "A"}, "rows.jsonl, line 3")


def test_an_unknown_rule_lists_all():
    with pytest.raises(UsageError) as raised:
        rule("vlmevalkit/exact")
    assert all(name in (raised.value.hint or "") for name in NAMES)


REPLY_RULES: dict[str, dict[str, Any]] = {
    "mcq_exact": {"options": FRUIT},
    "yesno_extract": {},
    "naturalbench_extract": {"type": "yes_no"},
    "vqa_score": {"answer": TEN},
    "vqa_normalised_equal": {"answer": TEN},
    "relaxed_accuracy": {"answer": "14"},
    "accuracy": {"answer": "14"},
    "ocrbench_contains": {"answer": "['a']", "category": "Doc-oriented VQA"},
    "gold_in_prediction": {"answer": "4"},
    "last_braces_contains": {"answer": "4"},
    "count_first_number": {"is_nan": False},
    "first_capital_letter": {},
    "blindtest_by_task": {"answer": "4,5", "task": "Counting Grid - Word Grids"},
}


@pytest.mark.parametrize("name", REPLY_RULES)
@given(reply=st.text(max_size=200))
def test_any_reply_is_read(name, reply):
    assert isinstance(apply(RULES[name], {"prediction": reply, **REPLY_RULES[name]}, "row"), dict)


HOSTILE = [
    "{",
    "}",
    "rows={1} ",
    "(1,",
    "answer is ",
    "**",
    ".",
    ", ",
    "1,",
    "yes no ",
    "a ",
    "<answer>",
    "7",
    "'",
    "\n",
]


@pytest.mark.parametrize("name", REPLY_RULES)
def test_a_long_reply_takes_time_in_proportion(name):
    def read(part, length):
        row = {"prediction": part * (length // len(part)), **REPLY_RULES[name]}
        return lambda: apply(RULES[name], row, "row")

    for part in HOSTILE:
        # Forty times the length takes 1,600 times as long where time grows with its square.
        most_s = 200 * min(cpu_times(read(part, 10_000))) + 0.5
        assert is_done_within(most_s, read(part, 400_000)), part
