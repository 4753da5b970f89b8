"""Answers in the two harnesses' own files: each row is scored with what it brings along, or told by its line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import SPATIAL
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.errors import DataError, SnellenError
from snellen.formats import Problems
from snellen.runs.score import score

VSI = {"dataset": "scannet", "scene_name": "s", "question_type": "route_planning", "question": "q"}


def vsi(at: int, gold: Any = "A", **row: Any) -> dict[str, Any]:
    return {"id": at, **VSI, "options": ["A. left", "B. right"], "ground_truth": gold, **row}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def answers(name: str, path: Path) -> tuple[list[tuple[Any, Any]], Problems]:
    problems = Problems()
    pairs = SPATIAL[name].results(path, Data(), problems)
    return list(pairs or ()), problems


def test_every_shape_of_resps_is_read_and_each_repeat_is_a_record(tmp_path):
    path = write(
        tmp_path / "a.jsonl",
        {"doc_id": 0, "doc": vsi(1), "resps": [["<think>B?</think> A"]], "filtered_resps": ["A"]},
        {"doc_id": 1, "doc": vsi(2), "resps": ["A"]},
        {"doc_id": 2, "doc": vsi(3), "filtered_resps": ["A"]},
        {"doc_id": 3, "doc": vsi(4), "resps": "A"},
        {"doc_id": 4, "doc": json.dumps(vsi(5)), "resps": [["A"]]},
        {"doc_id": 5, "doc": vsi(6), "resps": [["A", "B"]], "filtered_resps": ["A"]},
    )
    pairs, problems = answers("vsi-bench", path)
    assert [record.response.text for _, record in pairs] == ["A"] * 6 + ["B"]
    assert [record.repeat for _, record in pairs] == [0] * 6 + [1]
    assert problems.count == 0


def test_a_row_that_cannot_be_scored_is_told_by_its_line_and_costs_that_row_alone(tmp_path):
    lines = [
        {"doc_id": 0, "doc": vsi(1), "resps": [["A"]]},
        {"doc_id": 1, "doc": vsi(2, question_type="a new one"), "resps": [["A"]]},
        '{"doc_id": 2, "doc',
        {"doc_id": 3, "doc": {"id": 3}, "resps": [["A"]]},
        {"doc_id": 4, "resps": [["A"]]},
        {"doc_id": 5, "doc": vsi(1), "resps": [["B"]]},
        {"doc_id": 6, "doc": vsi(6, gold="x", question_type="object_counting"), "resps": [["3"]]},
        {"doc_id": 7, "doc": vsi(7), "resps": [[["A", -0.2]]]},
        {"doc_id": 8, "doc": vsi(8), "resps": None},
    ]
    pairs, problems = answers("vsi-bench", write(tmp_path / "a.jsonl", *lines))
    assert [one.id for one, _ in pairs] == ["1", "1#2", "6", "7", "8"]
    assert [record.status for _, record in pairs] == ["ok", "ok", "ok", "error", "error"]
    told = "\n".join(problems.first)
    for line, what in (
        (2, "question_type is 'a new one'"),
        (3, "not JSON"),
        (4, "no question_type"),
        (5, "there is no doc"),
        (6, "'1' is answered once more"),
        (7, "'x' is no number"),
        (8, "numbers, not replies"),
        (9, "null or missing"),
    ):
        assert any(one.startswith(f"line {line}: ") and what in one for one in problems.first), (line, what, told)


@pytest.mark.parametrize("gold", [3, 3.0, "3", "3.0"])
def test_a_number_is_the_same_gold_answer_in_any_cell(tmp_path, gold):
    columns = ["index", "question", "question_type", "answer", "prediction"]
    row = [0, "q", "object_counting", gold, 3]
    book = openpyxl.Workbook()
    book.active.append(columns)
    book.active.append(row)
    book.save(tmp_path / "m_VSI-Bench_32frame.xlsx")
    for suffix, mark in ((".tsv", "\t"), (".csv", ","), ("_tabs.csv", "\t")):
        with (tmp_path / f"m{suffix}").open("w", newline="") as file:
            csv.writer(file, delimiter=mark).writerows([columns, row])
    for path in sorted(tmp_path.iterdir()):
        summary, told = score(path, benchmark=SPATIAL["vsi-bench"], profile="vlmevalkit")
        assert summary.metrics["vlmevalkit"][0].value == 1.0, path
        assert told == [], path


@pytest.mark.parametrize("answer", [2, 2.0, "2"])
def test_the_place_of_an_option_is_its_letter_in_any_type(tmp_path, answer):
    doc = {
        "question_id": "e",
        "question": "q",
        "answer_options": [1, 2.5, "x", "y"],
        "answer": answer,
        "data_source": "mp3d",
    }
    pairs, problems = answers("embspatial", write(tmp_path / "a.jsonl", {"doc_id": 0, "doc": doc, "resps": [["C"]]}))
    assert pairs[0][0].target == "C" and problems.count == 0
    assert pairs[0][0].options == {"A": "1", "B": "2.5", "C": "x", "D": "y"}


@pytest.mark.parametrize("answer", [4, -1, 99999])
def test_a_place_that_no_option_has_is_told(tmp_path, answer):
    doc = {"question_id": "e", "question": "q", "answer_options": list("abcd"), "answer": answer, "data_source": "mp3d"}
    pairs, problems = answers("embspatial", write(tmp_path / "a.jsonl", {"doc_id": 0, "doc": doc, "resps": [["C"]]}))
    assert problems.count == 1
    assert not pairs or pairs[0][0].target == "99999"


def test_options_with_quotes_and_commas_inside_are_counted_right(tmp_path):
    options = ["it's, so", 'a "b", c', "['x']", ""]
    rows = [{"index": 0, "question": "q", "options": repr(options), "category": "counting & existence", "answer": "D"}]
    columns = [*rows[0], "prediction"]
    with (tmp_path / "m_SiteBenchImage.tsv").open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([columns, [*rows[0].values(), "D"]])
    pairs, _ = answers("site", tmp_path / "m_SiteBenchImage.tsv")
    assert pairs[0][0].meta["n"] == 4 and list(pairs[0][0].options.values()) == options


def test_an_empty_cell_of_a_table_is_an_empty_reply_and_told(tmp_path):
    path = tmp_path / "m_EmbSpatialBench.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["index", "question", "options", "answer", "data_source", "prediction"])
    book.active.append([0, "q", "['a', 'b']", "A", "mp3d", None])
    book.save(path)
    pairs, problems = answers("embspatial", path)
    assert pairs[0][1].response.text == "" and problems.first == [
        "row 2: the prediction is empty; scored as an empty reply"
    ]


def blink(folder: Path, day: str, group: str, replies: str) -> None:
    told = {"question": "q", "sub_task": group, "choices": ["a", "b"], "answer": "(A)", "prompt": "p"}
    rows = [
        {"doc_id": at, "doc": {"idx": f"val_{group}_{at}", **told}, "resps": [[reply]]}
        for at, reply in enumerate(replies)
    ]
    write(folder / f"{day}_samples_blink_{group.lower()}.jsonl", *rows)


def test_a_folder_of_lmms_evals_files_is_one_set_of_answers_and_the_later_of_two_counts(tmp_path):
    blink(tmp_path, "20260101_000000", "Jigsaw", "BB")
    blink(tmp_path, "20260102_000000", "Jigsaw", "AB")
    blink(tmp_path, "20260101_000000", "IQ_Test", "AAAA")
    write(tmp_path / "20260101_000000_samples_vsibench.jsonl", {"doc_id": 0, "doc": vsi(1), "resps": [["A"]]})
    summary, told = score(tmp_path, benchmark=SPATIAL["blink"], profile="lmms-eval,vlmevalkit")
    assert summary.metrics["lmms-eval"][0].value == 0.75
    assert summary.metrics["vlmevalkit"][0].value == pytest.approx(5 / 6)
    assert any("passed over for 20260102_000000_samples_blink_jigsaw.jsonl" in line for line in told)
    assert score(tmp_path, benchmark=SPATIAL["vsi-bench"])[0].metrics["easi"][0].value == 1.0
    with pytest.raises(SnellenError):
        score(tmp_path, benchmark=SPATIAL["embspatial"])


def test_files_of_both_harnesses_or_of_two_models_in_one_folder_are_refused(tmp_path):
    header = "index\tquestion\tcandidates\tanswer\tquestion_type\tprediction\n"
    row = "0\tq\t['A. a', 'B. b']\tA\troute_planning\tA\n"
    (tmp_path / "m_VSI-Bench_32frame.tsv").write_text(header + row)
    assert len(answers("vsi-bench", tmp_path)[0]) == 1
    (tmp_path / "m_VSI-Bench-Debiased_32frame.tsv").write_text(header + row + row.replace("0", "1", 1))
    assert len(answers("vsi-bench", tmp_path)[0]) == 1 and len(answers("vsi-debiased", tmp_path)[0]) == 2
    (tmp_path / "n_VSI-Bench_128frame.tsv").write_text(header + row)
    with pytest.raises(DataError, match="all hold answers to VSI-Bench"):
        answers("vsi-bench", tmp_path)
    (tmp_path / "n_VSI-Bench_128frame.tsv").unlink()
    write(tmp_path / "20260101_000000_samples_vsibench.jsonl", {"doc_id": 0, "doc": vsi(1), "resps": [["A"]]})
    with pytest.raises(DataError, match="of lmms-eval"):
        answers("vsi-bench", tmp_path)


def test_half_of_site_is_said_to_be_half(tmp_path):
    doc = {"question": "q", "options": ["a", "b"], "answer": "A", "category": "counting & existence", "dataset": "d"}
    write(tmp_path / "20260101_000000_samples_site_bench_image.jsonl", {"doc_id": 0, "doc": doc, "resps": [["A"]]})
    _, told = score(tmp_path, benchmark=SPATIAL["site"])
    assert any("only the images are answered" in line for line in told)


def test_plain_rows_are_met_with_the_data_by_index(tmp_path):
    columns = ["index", "image", "question", "options", "answer", "data_source"]
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
    with (tmp_path / "EmbSpatialBench.tsv").open("w", newline="") as file:
        rows = [[at, dot, "q", "['a', 'b', 'c', 'd']", "ABCD"[at], "mp3d"] for at in range(4)]
        csv.writer(file, delimiter="\t").writerows([columns, *rows])
    path = write(tmp_path / "plain.jsonl", *({"index": at, "prediction": "A"} for at in range(4)))
    summary, _ = score(path, benchmark=SPATIAL["embspatial"], data=tmp_path / "EmbSpatialBench.tsv")
    assert summary.metrics["easi"][0].value == 0.25


cells = (
    st.none()
    | st.booleans()
    | st.integers(-5, 300)
    | st.floats()
    | st.text(max_size=12)
    | st.lists(st.text(max_size=4))
)
NAMES = [
    "id",
    "idx",
    "qid",
    "question_id",
    "question",
    "question_type",
    "type",
    "sub_task",
    "category",
    "options",
    "choices",
    "answer",
    "gt_answer",
    "ground_truth",
    "gt",
    "task",
    "task_type",
    "data_source",
    "answer_options",
    "A",
    "B",
    "visual",
]
columns = st.sampled_from(NAMES)
known = st.sampled_from(
    [*VSI.values(), "object_counting", "depth_prediction_oc", "view_change_infer", "Jigsaw", "A", "(B)"]
)
docs = st.dictionaries(columns, cells | known, max_size=22)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(TASKS)), st.lists(st.tuples(docs, cells), min_size=1, max_size=4))
def test_no_row_does_more_than_be_told(tmp_path_factory, name, rows):
    path = tmp_path_factory.mktemp("rows") / ("x_samples_site_bench_image.jsonl" if name == "site" else "rows.jsonl")
    write(path, *({"doc_id": at, "doc": doc, "resps": [[reply]]} for at, (doc, reply) in enumerate(rows)))
    try:
        score(path, benchmark=SPATIAL[name], profile="all")
    except DataError as error:
        assert "no row answers" in str(error)


def test_a_file_named_after_another_benchmark_is_refused_though_its_columns_would_do(tmp_path):
    row = {"index": 0, "question": "Which?", "A": "a", "B": "b", "answer": "A", "category": "Jigsaw", "prediction": "A"}
    path = tmp_path / "m_BLINK.csv"
    path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    own, _ = score(path, benchmark=SPATIAL["blink"], profile="easi")
    assert own.metrics["easi"][0].value == 1.0
    for name in ("mmsi-bench", "mindcube-tiny", "3dsrbench", "site/image", "vsi-debiased"):
        with pytest.raises(DataError, match="by its name these are answers to blink, not to"):
            score(path, benchmark=registry.find(name), profile="easi")
    path = path.rename(tmp_path / "answers.csv")
    renamed, _ = score(path, benchmark=SPATIAL["mmsi-bench"], profile="easi")
    assert renamed.metrics["easi"][0].n == 1


def test_answers_to_one_half_of_site_are_never_the_other_halfs_nor_the_whole_in_silence(tmp_path):
    doc = {"question": "Q", "options": ["1", "2"], "answer": "A", "category": "c", "dataset": "d"}
    for half, shown in (("image", "a.png"), ("video", "a.mp4")):
        other = "video" if half == "image" else "image"
        named, plain = tmp_path / f"t_samples_site_bench_{half}.jsonl", tmp_path / f"{shown[2:]}.jsonl"
        for path in (named, plain):
            write(path, {"doc_id": 0, "doc": {**doc, "visual": [shown]}, "resps": [["A"]]})
            with pytest.raises(DataError, match=f"SITE's {half}s, not to its {other}s"):
                score(path, benchmark=registry.find(f"site/{other}"), profile="easi")
            own, told = score(path, benchmark=registry.find(f"site/{half}"), profile="easi")
            assert own.metrics["easi"][0].value == 1.0 and not any("alone" in line for line in told)
            _, told = score(path, benchmark=SPATIAL["site"], profile="easi")
            assert any(f"only the {half}s are answered" in line for line in told)
