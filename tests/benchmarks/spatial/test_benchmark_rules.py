"""What each spatial benchmark reads in a reply, and what that is worth."""

from __future__ import annotations

import pytest

from snellen.benchmarks.spatial.scorers import lmms_eval, vlmevalkit
from snellen.errors import DataError


@pytest.mark.parametrize(
    ("reply", "value"),
    [("A", 1), ("A.", 1), ("a", 1), ("A. foo", 1), ("A\n", 1), ("(A)", 0), ("A:", 0), (" A", 0), ("**A**", 0)],
)
def test_vsi_takes_the_first_piece_of_the_raw_reply_for_a_letter(reply: str, value: float) -> None:
    assert lmms_eval.vsi(reply, "A", "route_planning").value == value


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("between 2 and 20.32", 2.0),
        ("a thousand", 1000.0),
        ("ten thousand two hundred", 10200.0),
        ("one hundred and five 7 beds", 105.0),
        ("twenty-one", 21.0),
        ("room 4.5 has seven beds", 4.5),
        (".91", 91.0),
        ("-7", -7.0),
        ("someone", None),
    ],
)
def test_vsi_takes_the_first_number_in_digits_or_words(reply: str, expected: float | None) -> None:
    assert lmms_eval.first_number(reply) == expected


def test_vsi_numbers_differ_between_the_harnesses() -> None:
    reply = "between 2 and 20.32"
    assert lmms_eval.vsi(reply, "25.4", "object_abs_distance").value == 0.0
    assert vlmevalkit.vsi(reply, "25.4", "object_abs_distance").value == 0.7


def test_vsi_divides_by_the_signed_gold_answer_in_lmms_eval() -> None:
    assert lmms_eval.vsi("900", "-2", "object_counting").value == 1.0
    assert lmms_eval.vsi("900", "0", "object_counting").verdict == "unscored"
    assert vlmevalkit.vsi("0", "0", "object_counting").value == 1.0
    assert lmms_eval.vsi("none", "3", "object_counting").verdict == "invalid"


def test_a_question_type_that_is_not_vsis_is_named_in_the_error() -> None:
    with pytest.raises(DataError, match="no question type 'colour'"):
        vlmevalkit.vsi("1", "1", "colour")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("``a``", "A"),
        ("{B}``A``", "A"),
        ("`{C}` B", "C"),
        ("C because", None),
        ("A-", "A"),
        ("选C", None),
        ("C\tx", None),
    ],
)
def test_mmsi_narrows_to_backticks_and_braces(reply: str, expected: str | None) -> None:
    assert lmms_eval.mmsi_letter(reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Answer: B\nbut Answer C.", "C"),
        ("U.S.A. or B", "A"),
        ("A. then B.", "B"),
        ("<Answer>the answer is E<", "E"),
        ("(A) is wrong, (B) is right", "A"),
        ('"B" rather than D', "B"),
        ("first A\nthen C D", "C"),
        ("DD", None),
        ("b", None),
    ],
)
def test_mindcube_takes_the_last_match_of_the_first_rule(reply: str, expected: str | None) -> None:
    assert lmms_eval.mindcube_letter(reply) == expected


def test_mindcube_knows_three_kinds_of_question_by_their_ids() -> None:
    ids = ["among_1_q1", "aroundnew_2", "around_3", "rotation_4", "beside_5"]
    assert [lmms_eval.mindcube_type(one) for one in ids] == ["among", "around", "around", "rotation", "other"]


@pytest.mark.parametrize(
    ("reply", "expected"), [("B\n", None), ("D\nA or C", "A"), ("It is a chair", "A"), ("E", None), ("``c``", "C")]
)
def test_viewspatial_reads_behind_the_last_line_break(reply: str, expected: str | None) -> None:
    assert lmms_eval.viewspatial_letter(reply) == expected
    assert lmms_eval.score_viewspatial(reply, "C. left").value == float(expected == "C")


@pytest.mark.parametrize(
    ("reply", "options", "expected"),
    [
        ("(A) or (B)", 4, "A"),
        ("I say A , no B", 4, "B"),
        ("A B A", 4, "A"),
        ("AB.", 4, "B"),
        ("**A. right**", 4, "A"),
        ("answer:C", 4, "C"),
        ("C", 2, None),
        ("b", 4, None),
    ],
)
def test_site_tries_four_forms_over_the_letters_of_the_options(reply: str, options: int, expected: str | None) -> None:
    assert lmms_eval.site_letter(reply, options) == expected


def test_site_gives_what_a_random_draw_is_worth_on_average() -> None:
    score = lmms_eval.site("no idea", "A", 5)
    assert (score.value, score.verdict, score.detail) == (0.2, "invalid", {"random_fallback": True})


def test_blink_and_embspatial_compare_the_leading_letter() -> None:
    assert lmms_eval.score_blink("(b", "(B)").value == 1.0
    assert lmms_eval.score_blink("The answer is B", "(B)").extracted == "T"
    assert lmms_eval.leading_letter("C)") == "C"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("A chair, so B", "A"),
        ("A) but the answer: B", "A"),
        ("I see: answer: Because", "B"),
        ("the answer is D, not (C)", "D"),
        ("perhaps (C) or B.", "C"),
        ("like B.C", "B"),
        ("so B or C", "B"),
        ("b", None),
    ],
)
def test_3dsrbench_takes_the_first_of_eight_rules(reply: str, expected: str | None) -> None:
    assert lmms_eval.three_dsr_letter(reply) == expected


def test_omnispatial_takes_a_where_nothing_was_said_and_keeps_the_case() -> None:
    assert lmms_eval.score_omnispatial("no idea", "A").value == 1.0
    assert lmms_eval.score_omnispatial("no idea", "B").verdict == "invalid"
    assert lmms_eval.score_omnispatial("Answer: B\nANSWER :C", "C").value == 1.0
    assert lmms_eval.score_omnispatial("answer: c", "C").value == 0.0


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("\\boxed{C}", "C"),
        ('"answer": F, sure', "F"),
        ("<answer> (B) right </answer>", "B"),
        ("<Answer>My answer is A</Answer>", "O"),
        ("A. B", "A"),
        ("it is B or A ", "A"),
        ("E,E", "O"),
        ("answer is A. No, answer is B", "B"),
        ("no answer, A", "O"),
    ],
)
def test_mmsi_video_goes_by_markers_and_then_by_the_alphabet(reply: str, expected: str) -> None:
    assert lmms_eval.mmsi_video_letter(reply) == expected
    assert lmms_eval.score_mmsi_video(reply, "c ").value == float(expected == "C")


@pytest.mark.parametrize(("reply", "value"), [("", 1), ("a", 1), ("Apple", 1), ("(A)", 0), (" A", 0), ("B", 0)])
def test_spar_takes_a_reply_that_is_part_of_the_gold_letter_for_right(reply: str, value: float) -> None:
    assert lmms_eval.spar(reply, "A", "position_matching").value == value


def test_spar_takes_the_first_number_of_one_view_and_the_last_of_several() -> None:
    reply = "2.2 m, maybe 3.2 m^2"
    assert lmms_eval.spar(reply, "2.2", "depth_prediction_oc").value == 1.0
    assert lmms_eval.spar(reply, "3.2", "depth_prediction_oc_mv").value == 1.0
    assert vlmevalkit.spar(reply, "2", "depth_prediction_oc").value == 1.0


def test_a_view_change_is_relative_to_what_was_said_in_lmms_eval_and_to_the_gold_answer_in_vlmevalkit() -> None:
    gold = "move_right:0.1,move_up:0.9,move_down:0.6,move_forward:0.5,rotate_left:48,rotate_up:20"
    assert lmms_eval.spar("move_right:0.5", gold, "view_change_infer").value == pytest.approx(0.12)
    assert vlmevalkit.spar("move_right:0.5", gold, "view_change_infer").value == 0.0
    assert lmms_eval.spar("Answer: move_right:0.1", gold, "view_change_infer").verdict == "invalid"
    assert vlmevalkit.spar("no move", "move_up:1", "view_change_infer").value == 0.8
