"""What the profiles read and count: the authors' rules to the letter, VLMEvalKit's, and where they part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.benchmarks.vlm2.scorers import group_key, normalised_count_score, reply_numbers, truth_letter
from snellen.errors import SnellenError, UsageError
from snellen.runs.score import score
from snellen.runs.scoring import Scored
from snellen.types import Metric


def write(path: Path, rows: list[dict[str, object] | str]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


def metrics(
    path: Path, task: str, data: Path | None = None
) -> tuple[dict[str, dict[str, Metric]], list[Scored], list[str]]:
    rows: list[Scored] = []
    summary, notes = score(path, f"vlm2/{task}", data=data, profile="all", each=rows.append)
    return {name: {m.name: m for m in found} for name, found in summary.metrics.items()}, rows, notes


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("T", "T"),
        ("**T**", "T"),
        ("(T)", "T"),
        ("False.", "F"),
        ("I can't", "T"),
        ("Don't know", "T"),
        ("T-shirt, clearly", "T"),
        ("20 F", "F"),
        ("MY_ANSWER:T", "T"),
        ("是，T", "T"),
        ("T or F? T", None),
        ("True (T)", None),
        ("TRUE/FALSE", None),
        ("_T_", None),
        ("T1", None),
        ("是T", None),
        ("Т", None),  # Cyrillic
        ("yes", None),
        ("1", None),
        ("", None),
    ],
)
def test_the_official_comparison_parser_takes_the_only_t_or_f(reply: str, read: str | None) -> None:
    assert truth_letter(reply)[0] == read


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("3", [3]),
        ("3.0", [3, 0]),
        ("1,000", [1, 0]),
        ("-2", [2]),
        ("1st", [1]),
        ("x3", [3]),
        ("٣", [3]),
        ("one two three", [6]),
        ("images one and two match", [3]),
        ("twenty-one", [21]),
        ("a hundred and five", [105]),
        ("two hundred", [200]),
        ("zero", []),
        ("zero or two", [2]),
        ("a thousand and two", []),
        ("3 (three)", [3, 3]),
        ("someone, none, both, a dozen, twice, two_cups, two个, ², III", []),
        ("9" * 5000, [10**18]),
    ],
)
def test_the_official_count_parser_merges_all_number_words_into_one(reply: str, found: list[int]) -> None:
    assert reply_numbers(reply) == found


def test_a_miss_among_four_images_is_worth_what_the_authors_script_gives() -> None:
    table = {(1, 2): 10.4042, (1, 3): 3.9735, (1, 4): 0.0, (2, 1): 6.6967, (2, 3): 6.6967, (2, 4): 0.0}
    for (target, guess), points in table.items():
        assert 100 * normalised_count_score(guess, target, 4) == pytest.approx(points, abs=5e-5)
        assert normalised_count_score(5 - guess, 5 - target, 4) == normalised_count_score(guess, target, 4)
    for images in (2, 3):
        for target in range(1, images + 1):
            for guess in range(1, images + 1):
                assert normalised_count_score(guess, target, images) == float(guess == target)


@given(st.integers(0, 9), st.integers(1, 4), st.integers(1, 4))
def test_a_count_score_lies_between_nothing_and_all(guess: int, target: int, images: int) -> None:
    assert 0.0 <= normalised_count_score(guess, target, images, least_error=1.0) <= 1.0


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("A) 1 and 3", True),
        ("A", True),
        ("A )", True),
        ("A) 2 and 3", True),
        ("A) or B)", True),
        ("(A) 1 and 3", False),
        ("A.", False),
        ("a)", False),
        ("Answer: A) 1 and 3", False),
        ("**A)**", False),
        ("1 and 3", False),
    ],
)
def test_the_official_grouping_compares_what_stands_before_the_first_bracket(reply: str, right: bool) -> None:
    assert (group_key(reply) == group_key("A) 1 and 3")) is right


def test_general_cue_pairs_count_any_right_row_and_every_q_id(tmp_path: Path) -> None:
    rows = [
        {"q_id": 1, "gt_answer": "T", "model_answer": "T"},
        {"q_id": 1, "gt_answer": "F", "model_answer": "F"},
        {"q_id": 2, "gt_answer": "T", "model_answer": "T."},  # not exactly T
        {"q_id": 2, "gt_answer": "F", "model_answer": "F"},
        {"q_id": 2, "gt_answer": "T", "model_answer": "T"},  # a second try helps
        {"q_id": "3", "gt_answer": "T", "model_answer": "T"},  # half a pair
        {"q_id": "4", "gt_answer": "True", "model_answer": "True"},  # gold that can never be right
        {"q_id": "5", "gt_answer": "T", "model_answer": None},
        {"q_id": "5", "gt_answer": "F"},
    ]
    found, scored, notes = metrics(write(tmp_path / "m_answers.jsonl", rows), "gc-mat")
    official = found["official"]
    assert [official[f"{n}_accuracy"].value for n in ("pair", "positive", "negative")] == [0.4, 0.6, 0.4]
    assert official["pair_accuracy"].n == 5
    # VLMEvalKit: every row of a pair must be right; its parser takes "T." and "True".
    assert found["vlmevalkit"]["pair_accuracy"].value == pytest.approx(2 / 5)
    assert [one.scores["official"].verdict for one in scored][-2:] == ["error", "error"]
    assert len({one.sample.id for one in scored}) == len(rows)
    assert any("line 8" in note and "null or missing" in note for note in notes)
    assert any("neither 'T' nor 'F'" in note for note in notes)


def test_comparison_pairs_take_the_last_row_and_leave_out_what_lacks_a_half(tmp_path: Path) -> None:
    rows = [
        {"q_id": "tf_1_p", "gt_answer": "T", "model_answer": "F"},
        {"q_id": "1_p", "gt_answer": " t ", "model_answer": "T"},  # replaces the row before
        {"q_id": "tf_1_n", "gt_answer": "F", "model_answer": "false"},
        {"q_id": "2_p", "gt_answer": "T", "model_answer": "T"},  # no other half
        {"q_id": "203_p_extra", "gt_answer": "T", "model_answer": "T"},
        {"q_id": "203_P", "gt_answer": "T", "model_answer": "T"},
        {"q_id": 7, "gt_answer": "T", "model_answer": "T"},
        {"q_id": "nothing", "gt_answer": "T", "model_answer": "T"},
        {"q_id": "3_p", "gt_answer": "True", "model_answer": "True"},  # never equal to T
        {"q_id": "3_n", "gt_answer": "F", "model_answer": "T or F"},
    ]
    path = write(tmp_path / "m.jsonl", rows)
    found, scored, notes = metrics(path, "pc-cpr")
    official = found["official"]
    assert [official[f"{n}_accuracy"].value for n in ("pair", "positive", "negative")] == [0.5, 0.5, 0.5]
    assert official["pair_accuracy"].n == 2
    # VLMEvalKit: keys tf_1, 1, 2, 203_p, 203, 3 -> only whole pairs of right rows count, the others are wrong.
    assert found["vlmevalkit"]["pair_accuracy"].n == 6
    assert found["vlmevalkit"]["pair_accuracy"].value == 0.0
    assert sum("is in no pair" in note for note in notes) == 4
    assert scored[9].scores["official"].reason == "multiple"
    # the oc script knows no leading tf_
    other, _, _ = metrics(path, "oc-cpr")
    assert other["official"]["pair_accuracy"].n == 1


def test_counts_are_averaged_over_usable_rows_over_all_and_as_vlmevalkit_does(tmp_path: Path) -> None:
    questions = write(
        tmp_path / "oc_cnt.jsonl",
        [
            {"q_id": "a", "question": "?", "gt_answer": 1, "images": ["1", "2", "3", "4"], "image_seq_len": 4},
            {"q_id": "b", "question": "?", "gt_answer": 4, "images": ["1", "2", "3", "4"], "image_seq": [1, 2, 3, 4]},
            {"q_id": "c", "question": "?", "gt_answer": 2, "images": ["1", "2", "3"]},  # no length: two images
        ],
    )
    rows = [
        {"q_id": "a", "gt_answer": 1, "model_answer": "2"},  # 10.40
        {"q_id": "a", "gt_answer": 1, "model_answer": "0"},  # out of range; VLMEvalKit: 10.40
        {"q_id": "b", "gt_answer": 4, "model_answer": "four"},
        {"q_id": "b", "gt_answer": 4, "model_answer": "4 (four)"},  # two numbers
        {"q_id": "c", "gt_answer": "2", "model_answer": "2"},  # gold as text
        {"q_id": "unknown", "gt_answer": 2.0, "model_answer": "2"},
        {"q_id": "c", "gt_answer": None, "model_answer": "2"},
        {"q_id": "c", "gt_answer": 2, "model_answer": None},
    ]
    found, scored, notes = metrics(write(tmp_path / "m.jsonl", rows), "oc-cnt", questions)
    close = normalised_count_score(2, 1, 4)
    assert close == pytest.approx(0.104041540)
    official = {name: metric.value for name, metric in found["official"].items()}
    assert official["count_score_usable"] == pytest.approx((close + 3) / 4)
    assert official["count_score_all"] == pytest.approx((close + 3) / 8)
    assert official["count_exact"] == 3 / 8
    assert official["usable_rate"] == 4 / 8
    assert next(iter(found["paper"])) == "count_score_all"
    assert found["vlmevalkit"]["count_score_all"].value == pytest.approx((2 * close + 3) / 7)
    assert found["vlmevalkit-legacy"]["count_score_all"].value == pytest.approx(3 / 7)
    reasons = [one.scores["official"].reason for one in scored]
    assert reasons[:4] == ["incorrect_answer", "answer_out_of_expected_range", None, "invalid_answer_format"]
    assert reasons[6] == "missing_gt_answer"
    assert any("gt_answer is the text '2'" in note for note in notes)
    assert any("1 q_ids of the answers are not in it" in note for note in notes)


def test_counting_rows_without_their_question_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data"):
        score(write(tmp_path / "m.jsonl", [{"q_id": "a", "gt_answer": 1, "model_answer": "1"}]), "vlm2/oc-cnt")


def test_two_bracketed_letters_are_wrong_in_a_grouping(tmp_path: Path) -> None:
    question = "Which? A) 1 and 3; B) 2 and 3; C) None; D) 1 and 2."
    replies = ["A) 1 and 3", "A) see (B) and (C)", "A) see (B)", "(A)", "1 and 3"]
    rows = [
        {"q_id": n, "question": question, "gt_answer": "A) 1 and 3", "model_answer": r} for n, r in enumerate(replies)
    ]
    found, scored, _ = metrics(write(tmp_path / "m.jsonl", rows), "oc-grp")
    assert found["official"]["grouping_accuracy"].value == 2 / 5
    assert [one.scores["official"].reason for one in scored][1] == "multi-choice"
    assert [one.scores["strict"].verdict for one in scored][3:] == ["correct", "correct"]


def test_a_table_of_vlmevalkit_is_scored_by_category(tmp_path: Path) -> None:
    header = "index\tquestion\tanswer\tcategory\timage_path\tprediction\n"
    lines = [
        "gc-mat_1_p\tq\tT\tgc-mat\t['a','b']\tTrue",
        "gc-mat_1_n\tq\tF\tgc-mat\t['a','b']\tF",
        "oc-cpr_12_p\tq\tT\toc-cpr\t['a','b']\tT",
        "oc-cpr_12_n\tq\tF\toc-cpr\t['a','b']\tF",
        "oc-cnt_3\tq\t1\toc-cnt\t['a','b','c','d']\t2",
        "oc-grp_4\tq A) 1 and 2; B) None\tB) None\toc-grp\t['a','b','c']\tB) None",
        "zz_4\tq\tB\tzz\t['a']\tB",
    ]
    path = tmp_path / "model_VLM2Bench.tsv"
    path.write_text(header + "\n".join(lines) + "\n")
    one, _, _ = metrics(path, "oc-cnt")
    assert one["vlmevalkit"]["count_score_all"].value == pytest.approx(0.104041540)
    assert one["vlmevalkit-legacy"]["count_score_all"].value == 0.0
    summary, notes = score(path, "vlm2", profile="official,vlmevalkit")
    official = {m.name: m.value for m in summary.metrics["official"]}
    kit = {m.name: m.value for m in summary.metrics["vlmevalkit"]}
    assert official["gc-mat/pair_accuracy"] == 0.0  # "True" is not exactly T
    assert kit["gc-mat/pair_accuracy"] == 1.0
    assert official["oc-cpr/pair_accuracy"] == kit["oc-cpr/pair_accuracy"] == 1.0
    assert official["overall_8"] is None  # subtasks are missing
    assert "overall_9" not in kit
    assert any("'zz'" in note for note in notes)
    with pytest.raises(SnellenError, match="no row of category 'pc-cnt'"):
        score(path, "vlm2/pc-cnt")


def test_rows_of_the_authors_do_not_say_which_subtask_they_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--benchmark vlm2/"):
        score(write(tmp_path / "m.jsonl", [{"q_id": "a", "gt_answer": "T", "model_answer": "T"}]), "vlm2")


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["q_id", "gt_answer", "model_answer", "vid", "question", "type", "task"]),
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(-5, 10**20),
                st.floats(),
                st.text(max_size=8),
                st.just("1_p"),
                st.just("T"),
                st.just("A) 1"),
                st.lists(st.integers(), max_size=2),
            ),
        ),
        max_size=6,
    ),
    st.sampled_from(["gc-mat", "gc-trk", "oc-cpr", "pc-cpr", "oc-cnt", "oc-grp", "pc-vid"]),
)
def test_no_row_whatever_it_holds_ends_the_scoring(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], task: str
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    head: dict[str, object] = {"q_id": "1_p", "vid": "a_AB", "gt_answer": "T", "model_answer": "T"}
    path = write(folder / "m.jsonl", [head, *rows, "{broken", "[1]"])
    questions = write(folder / "q.jsonl", [{"q_id": "1_p", "image_seq_len": 4}])
    found, scored, notes = metrics(path, task, questions if task.endswith("cnt") else None)
    assert len(scored) == len(rows) + 1
    assert all(m.value is None or 0.0 <= m.value <= 1.0 for profile in found.values() for m in profile.values())
    assert any("not JSON" in note for note in notes) or len(notes) > 5


def test_a_mean_of_means_draws_within_each_part() -> None:
    """Drawn all together, a part of few units would now and then be empty and count as 0."""
    import numpy as np

    from snellen.benchmarks.vlm2.metrics import Units, weighted
    from snellen.scoring.scores import ScoreBuilder

    def units(*values: float) -> Units:
        return Units(np.array(values), np.arange(len(values), dtype=np.int64))

    none = ScoreBuilder().build()
    constant = weighted("m", [(0.5, units(1.0, 1.0, 1.0)), (0.5, units(0.5, 0.5))], none)
    assert constant.value == 0.75
    assert constant.ci95 is None  # nothing varied
    spread = weighted("m", [(0.5, units(1.0, 0.0, 1.0, 1.0)), (0.5, units(0.5, 1.0))], none)
    assert spread.value == pytest.approx(0.75)
    assert spread.ci95 is not None and spread.ci95[0] > 0.25
