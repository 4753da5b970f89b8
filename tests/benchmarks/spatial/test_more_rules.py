"""Rules of the further spatial benchmarks: what no released vector shows, the strict profile, and any reply at all."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.spatial.more_replies import CORNERS, NAMED, SIDES
from benchmarks.spatial.more_samples import sample
from snellen.benchmarks.spatial import metrics as spatial_metrics
from snellen.benchmarks.spatial.scorers import SCORERS as EVERY
from snellen.benchmarks.spatial.scorers import lmms_eval, strict, vlmevalkit
from snellen.benchmarks.spatial.tasks import MORE
from snellen.scoring.rules.latex_value import latex_value
from snellen.scoring.scores import ScoreBuilder, Scores
from snellen.types import Sample
from stopwatch import is_done_within

sys.path.insert(0, str(Path(__file__).parents[2] / "scoring"))
from hostile_patterns import Pattern

LONG = 40_000
PIECES = ["(1", "(1,", "(0.3, 0.4) ", "(1, 1, 2, 2) ", "[1, 2] ", '"point_2d": [1, 2]', "<points ", '<points x1="1" y1="2" ', "x: 1, ", "`````", "```a\n", "<answer><answer", "first ", "step 1 ", "步骤 ", "BDAC ", "ABBA ", "Answer': '", 'Answer": "', "'Answer' = ", "\\text{", "two ", '["', "[[1,2],", "答案 ", "final answer is ", "pixel (1,2)", "(1.1.1,"]  # fmt: skip
HOSTILE = [
    *map(Pattern, PIECES),
    Pattern("\\text{", "\\boxed{", "}" * 20),
    Pattern(" ", "(1,", "x"),
    Pattern("1", "(1.", "x"),
    Pattern(" ", "Answer", "x"),
    Pattern("\n", "<points", "x"),
    Pattern("\u0300\u0315", "[e", "]"),
]
SCORERS = {name: EVERY[name] for name in MORE}
RULES = [(name, profile) for name, scorers in SCORERS.items() for profile in scorers if profile != "easi"]


OWN = ("refspatial", "robospatial-home", "vsi-super-count", "lego-puzzles", "spatial457")
"""Whose strict rules are not the extractors' alone, which have tests of their own."""


@pytest.mark.parametrize(("name", "profile"), [rule for rule in RULES if rule[1] != "strict" or rule[0] in OWN])
def test_a_long_reply_is_read_in_proportion_to_its_length(name: str, profile: str) -> None:
    rule = SCORERS[name][profile]
    for question in NAMED[name]:
        if profile == "strict" and question.kind in ("choice", "number", "truth"):
            continue
        for pattern in HOSTILE:
            assert is_done_within(0.5, partial(rule, question, pattern.of(LONG))), (pattern, question.meta)


pieces = st.sampled_from(
    [
        *PIECES,
        "A",
        "(B)",
        "yes",
        "no",
        "14",
        "-2",
        "nan",
        "1e999",
        "{",
        "}",
        "]",
        ",",
        "\n",
        " ",
        "²",
        "٣",
        "1_0",
        "true",
    ]
)
replies = st.one_of(
    st.text(max_size=40), st.lists(pieces, max_size=12).map("".join), st.lists(pieces, max_size=12).map(" ".join)
)


@pytest.mark.parametrize(("name", "profile"), RULES)
@settings(max_examples=12)
@given(reply=replies)
def test_every_reply_gets_a_score_or_a_reason(name: str, profile: str, reply: str) -> None:
    for question in NAMED[name]:
        score = SCORERS[name][profile](question, reply)
        assert score.reason if score.value is None else 0 <= score.value <= 1
        msgspec.json.encode(score)


def value(name: str, profile: str, question: Sample, reply: str) -> float | None:
    return SCORERS[name][profile](question, reply).value


def scores(*rows: tuple[Sample, float | None]) -> Scores:
    from snellen.types import Score

    builder = ScoreBuilder()
    for number, (question, points) in enumerate(rows):
        verdict = "unscored" if points is None else "correct" if points == 1 else "partial" if points else "wrong"
        builder.add(msgspec.structs.replace(question, id=str(number)), Score(points, None, verdict))
    return builder.build()


def figures(name: str, profile: str, *rows: tuple[Sample, float | None]) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in spatial_metrics.summarize(MORE[name], scores(*rows), profile)}


def test_a_question_that_could_not_be_read_is_scored_by_no_rule() -> None:
    lost = sample("", "open", unreadable="yes")
    for name, profile in RULES:
        score = SCORERS[name][profile](lost, "A")
        assert (score.value, score.verdict) == (None, "unscored")


def test_a_mask_that_is_not_at_hand_leaves_its_row_unscored_and_says_what_to_do() -> None:
    bare = sample("", "open", category="location")
    for profile in SCORERS["refspatial"]:
        score = SCORERS["refspatial"][profile](bare, "(0.3, 0.4)")
        assert (score.value, score.verdict) == (None, "unscored") and "--data" in str(score.reason)
    context = sample(CORNERS, "open", category="context")
    assert value("robospatial-home", "lmms-eval", context, "x") is None
    assert value("robospatial-home", "lmms-eval", sample(CORNERS, "open", category="context", mask=None), "x") == -1.0


def test_a_reply_in_pixels_needs_the_images_size_and_others_do_not() -> None:
    context = sample(CORNERS, "open", category="context")
    assert value("robospatial-home", "vlmevalkit", context, "(0.3, 0.4)") == 1.0
    assert value("robospatial-home", "vlmevalkit", context, "(192, 192)") is None
    sized = sample(CORNERS, "open", category="context", width=640, height=480)
    assert value("robospatial-home", "vlmevalkit", sized, "(192, 192)") == 1.0


def test_the_polygon_of_a_rectangle_holds_its_points_in_the_strict_profile_alone() -> None:
    upright = sample(
        "[(0.2, 0.2), (0.4, 0.2), (0.4, 0.6), (0.2, 0.6)]", "open", category="context", width=640, height=480
    )
    for reply in ("(0.3, 0.4)", "(0.2, 0.2)", "[300, 600]", 'Here:\n```json\n[{"point_2d": [300, 400]}]\n```'):
        assert value("robospatial-home", "strict", upright, reply) == 1.0, reply
        assert value("robospatial-home", "vlmevalkit", upright, reply) == 0.0, reply
    assert value("robospatial-home", "strict", upright, "(0.5, 0.4)") == 0.0


@pytest.mark.parametrize(
    ("reply", "kit", "strict"), [("Nothing fits", 1.0, 0.0), ("Answer: no", 0.0, 1.0), ("No.", 1.0, 1.0)]
)
def test_robospatials_yes_and_no(reply: str, kit: float, strict: float) -> None:
    question = sample("no", "truth", question="Does the cup fit? Answer yes or no.", category="compatibility")
    assert value("robospatial-home", "vlmevalkit", question, reply) == kit
    assert value("robospatial-home", "strict", question, reply) == strict


@pytest.mark.parametrize(
    ("question", "letters"),
    [
        ("Fold?\nA) YES\nB) NO", "A:yes B:no"),
        ("Is it valid? (A) yes (B) no", "A:yes B:no"),
        ("Choose: A: no, B： yes", "A:no B:yes"),
        ("A yes, b no", "A:yes B:no"),
        ("No option words here", ""),
        ("A. left B. right", ""),
    ],
)
def test_stares_letters_for_yes_and_no_are_read_from_the_question(question: str, letters: str) -> None:
    assert vlmevalkit.yes_no_letters(question) == letters


def test_not_answering_raises_the_kits_macro_figure_and_not_the_strict_one() -> None:
    nets = sample("A", options={"A": "yes", "B": "no"}, category="folding_nets", yes_no="A:yes B:no")

    def macro(profile: str, *said: str) -> float | None:
        builder = ScoreBuilder()
        for number, reply in enumerate(said):
            question = msgspec.structs.replace(nets, id=str(number))
            builder.add(question, SCORERS["stare"][profile](question, reply))
        metrics = {
            metric.name: metric.value for metric in spatial_metrics.summarize(MORE["stare"], builder.build(), profile)
        }
        assert "folding_nets_f1" in metrics
        return metrics["folding_nets_f1"]

    assert macro("easi", "A", "B") == pytest.approx(2 / 3) and macro("easi", "A", "hm") == 1.0
    assert macro("strict", "A", "B") == macro("strict", "A", "hm") == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("2.0", 2.0), ("\\frac{4}{2}", 2.0), ("\\sqrt{16}/2", 2.0), ("2 \\cdot 3", 6.0), ("-(1+2)", -3.0), ("2^{3}", 8.0), ("2\\pi", 6.283185307179586), ("\\sqrt[3]{8}", 2.0), ("c", None), ("(c)", None), ("1/0", None), ("", None), ("{" * 300, None), ("(" * 150, None), ("9^{9999}", None)],
)  # fmt: skip
def test_the_value_of_a_latex_expression(text: str, wanted: float | None) -> None:
    assert latex_value(text) == (None if wanted is None else pytest.approx(wanted))


@pytest.mark.parametrize(
    ("reply", "right"), [("\\boxed{\\frac{4}{2}}", 1), ("Answer: two", 1), ("2.004", 1), ("2.01", 0), ("\\boxed{}", 0)]
)
def test_stare_in_lmms_eval_compares_values(reply: str, right: int) -> None:
    assert lmms_eval.stare(reply, "2").value == right


@pytest.mark.parametrize(
    "reply",
    ["BDAC", "B, D, A, C", "(B) -> (D) -> (A) -> (C)", "The order is **BDAC**.", "<think>ABCD</think>BDAC", "ABCD? No: B-D-A-C", "bdac", "First, B. Second, D. Third, A. Fourth, C.", "B → D → A → C"],
)  # fmt: skip
def test_an_order_of_steps_is_read_strictly_in_any_notation(reply: str) -> None:
    assert strict.strict_order(reply) == "BDAC"


@pytest.mark.parametrize("reply", ["BBAC", "The answer is B", "A chair, B table", "", "B D A"])
def test_what_is_no_order_is_none(reply: str) -> None:
    assert strict.strict_order(reply) is None


def test_rotated_forms_of_one_question_are_right_together() -> None:
    rows = [
        (sample("A", options=SIDES, question_type="mcq", category="height", circle=circle), point)
        for circle, point in [("1", 1.0), ("1", 1.0), ("2", 1.0), ("2", 0.0)]
    ]
    found = figures("lego-puzzles", "vlmevalkit", *rows)
    assert found["overall"] == 0.5 and found["height_accuracy"] == 0.5
    assert (
        figures("lego-puzzles", "vlmevalkit", *[(sample("A", category="height"), point) for _, point in rows])[
            "overall"
        ]
        == 0.75
    )


@pytest.mark.parametrize(
    ("reply", "gold", "kit", "lmms", "strict"),
    [
        ("{'Reasoning': 'x', 'Answer': 10}", "10", 0.0, 1.0, 1.0),
        ("{'Reasoning': 'x', 'Answer': 10}", "1", 1.0, 0.0, 0.0),
        ("{'Answer': 'suv'}", "sedan", 1.0, 0.0, 0.0),
        ("{'Answer': 'school'}", "school bus", 1.0, 0.0, 1.0),
        ("{'Answer': 'true'}", "Yes", 0.0, 1.0, 1.0),
        ("{'Answer': 'three'}", "3", 1.0, 0.0, 1.0),
        ("**Answer:** Left.", "left", 0.0, 0.0, 1.0),
        ("{'Answer': '3'}", "Yes", 1.0, 0.0, 0.0),
        ("<think>Answer: right</think>{'Answer': 'left'}", "left", 1.0, 1.0, 1.0),
    ],
)
def test_spatial457_by_three_rules(reply: str, gold: str, kit: float, lmms: float, strict: float) -> None:
    question = sample(gold, "short", category="L1_single")
    assert [value("spatial457", profile, question, reply) for profile in ("easi", "lmms-eval", "strict")] == [
        kit,
        lmms,
        strict,
    ]


@pytest.mark.parametrize(
    ("reply", "lmms", "strict"),
    [
        ("[2, 3, 5]", 1.0, 1.0),
        ("[2]", 1.0, 1 / 3),
        ("```json\n[2, 3, 5]\n```", 0.0, 1.0),
        ("<think>[9, 9, 9]</think>I count [2, 3, 5].", 0.0, 1.0),
        ("2 3 5", 0.0, 0.0),
        ("[2, 3, 5, 8]", 1.0, 1.0),
    ],
)
def test_streamed_counts(reply: str, lmms: float, strict: float) -> None:
    question = sample("[2, 3, 5]", "open", question_type="10mins_streaming")
    assert value("vsi-super-count", "lmms-eval", question, reply) == lmms
    assert value("vsi-super-count", "strict", question, reply) == pytest.approx(strict)
    assert value("vsi-super-count", "easi", question, reply) is None


def test_a_count_of_none_is_right_for_0_alone_where_faults_are_corrected() -> None:
    none = sample("0", "number", question="How many?", question_type="10mins")
    for reply, kit, lmms, strictly in (("0", 1.0, 1.0, 1.0), ("0.4", 0.3, 0.0, 0.0), ("no idea", 0.0, 1.0, 0.0)):
        assert value("vsi-super-count", "easi", none, reply) == kit
        assert value("vsi-super-count", "lmms-eval", none, reply) == lmms
        assert value("vsi-super-count", "strict", none, reply) == strictly
    assert lmms_eval.vsi_super_count("5", "").value == 0.0


def test_revsi_is_relative_to_the_amount_of_a_negative_gold_answer_in_the_strict_profile_alone() -> None:
    below = sample("-2", "number", question="How far?", question_type="object_abs_distance")
    assert value("revsi", "vlmevalkit", below, "5") == 1.0 and value("revsi", "strict", below, "5") == 0.0
    nought = sample("0", "number", question="How far?", question_type="object_abs_distance")
    assert value("revsi", "lmms-eval", nought, "0") == 0.0 and value("revsi", "strict", nought, "0") == 1.0


def test_osi_takes_little_movement_for_none() -> None:
    speed = sample("0", "number", question="How fast?", category="absolute_speed", question_type="numerical")
    for reply, kit, strictly in (("0.1", 1.0, 1.0), ("-0.5", 1.0, 0.0), ("0.6", 0.0, 0.0)):
        assert value("osi-bench", "easi", speed, reply) == kit
        assert value("osi-bench", "strict", speed, reply) == strictly, reply


def test_cv_benchs_halves_weigh_the_same_except_in_lmms_eval() -> None:
    rows = [
        (sample("A", split="2D", source="ADE20K", category="Count"), 1.0),
        *[(sample("A", split="2D", source="COCO", category="Relation"), 0.0)] * 3,
        *[(sample("A", split="3D", source="Omni3D", category="Depth"), 1.0)] * 4,
    ]
    found = figures("cv-bench", "easi", *rows)
    assert (found["2d"], found["3d"], found["overall"]) == (0.5, 1.0, 0.75)
    found = figures("cv-bench", "lmms-eval", *rows)
    assert (found["2d"], found["3d"], found["overall"]) == (0.25, 1.0, 5 / 8)


def test_figures_over_nothing_are_none() -> None:
    for name in SCORERS:
        for profile in SCORERS[name]:
            overall, *_ = spatial_metrics.summarize(MORE[name], ScoreBuilder().build(), profile)
            assert (overall.name, overall.value) == ("overall", None)


def test_every_figure_lies_in_its_interval_and_has_its_rows() -> None:
    for name, questions in NAMED.items():
        rows = [(question, float(number % 2)) for number, question in enumerate(questions * 8)]
        for metric in spatial_metrics.summarize(MORE[name], scores(*rows), "easi"):
            assert metric.n <= len(rows) and metric.value is not None and 0 <= metric.value <= 1, (name, metric)
            if metric.ci95 is not None:
                assert metric.ci95[0] <= metric.value <= metric.ci95[1], (name, metric)
