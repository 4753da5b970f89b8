"""Other people's answer files: every form is read, and a damaged row costs that row alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import inspect_sample, write_eval, write_lines

from snellen.errors import DataError, UnsafeArchiveError
from snellen.formats import Problems, final, open_answers, read_answers, survey

WANTED = [("q0", "yes"), ("q1", "7")]


def read(path: Path, **fields: str) -> list[tuple[str, str | None]]:
    return [(answer.sample_id, answer.text) for answer in read_answers(path, **fields)]


@pytest.mark.parametrize(
    "names", [("id", "reply"), ("question_id", "text"), ("sample_id", "response"), ("index", "output")]
)
def test_plain_rows_are_read_under_the_names_that_people_use(tmp_path, names):
    rows = [dict(zip(names, pair, strict=True)) for pair in WANTED]
    assert read(write_lines(tmp_path / "a.jsonl", rows)) == WANTED
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert read(tmp_path / "a.json") == WANTED
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == WANTED
    for suffix, mark in ((".csv", ","), (".tsv", "\t")):
        with (tmp_path / f"a{suffix}").open("w", newline="") as file:
            csv.writer(file, delimiter=mark).writerows([names, *WANTED])
        assert read(tmp_path / f"a{suffix}") == WANTED


def test_a_table_of_vlmevalkit_is_read_whatever_else_it_holds(tmp_path):
    book = openpyxl.Workbook()
    for row in (
        ["index", "question", "A", "B", "answer", "prediction", "id"],
        [0, "Is it?", "yes", "no", "A", "A", "x"],
        [1, "How many?", "1", "2", "B", 2, "y"],
        [2, "Or?", "1", "2", "B", None, "z"],
        [3, "And?", "1", "2", "B", "Failed to obtain answer via API.", "w"],
    ):
        book.active.append(row)
    book.save(tmp_path / "model_data.xlsx")
    file = open_answers(tmp_path / "model_data.xlsx")
    assert file.form == "vlmevalkit"
    answers = list(file.read(Problems()))
    assert [(a.sample_id, a.text) for a in answers] == [("0", "A"), ("1", "2"), ("2", None), ("3", None)]
    assert [a.failure and a.failure.kind for a in answers] == [None, None, "no_answer", "no_answer"]


def test_samples_of_lmms_eval_give_what_the_model_said_and_not_what_the_filter_left(tmp_path):
    path = write_lines(
        tmp_path / "20260101_samples_task.jsonl",
        [
            {"doc_id": 0, "target": "A", "resps": [["The answer is A."]], "filtered_resps": ["A"], "doc_hash": "x"},
            {"doc_id": 1, "target": "B", "filtered_resps": ["B"]},
            {"doc_id": 2, "target": "B", "resps": [["B", "C"]], "filtered_resps": ["B"]},
            {"doc_id": 3, "target": "B", "resps": [[[-1.5, True]]], "filtered_resps": []},
            {"doc_id": 4, "target": "B", "resps": [[]]},
        ],
    )
    file = open_answers(path)
    problems = Problems()
    answers = list(file.read(problems))
    assert file.form == "lmms-eval"
    assert [(a.sample_id, a.repeat, a.text) for a in answers] == [
        ("0", 0, "The answer is A."),
        ("1", 0, "B"),
        ("2", 0, "B"),
        ("2", 1, "C"),
        ("3", 0, None),
        ("4", 0, None),
    ]
    assert problems.count == 1 and "line 4" in problems.first[0] and "log-likelihood" in problems.first[0]


SAMPLES = [
    inspect_sample("q0", "yes"),
    inspect_sample(1, [{"type": "reasoning", "reasoning": "no"}, {"type": "text", "text": "7"}]),
    inspect_sample("q2", "half", error={"message": "it broke"}),
    inspect_sample("q0", "no", epoch=2),
    inspect_sample("q4", None),
]
READ = [("q0", 0, "yes"), ("1", 0, "7"), ("q2", 0, None), ("q0", 1, "no"), ("q4", 0, None)]


@pytest.mark.parametrize("form", ["zstd", "deflate", "json"])
def test_logs_of_inspect_are_read_packed_and_as_json(tmp_path, form):
    if form == "json":
        path = tmp_path / "log.json"
        path.write_text(json.dumps({"version": 2, "status": "success", "eval": {"task": "t"}, "samples": SAMPLES}))
    else:
        path = write_eval(tmp_path / "log.eval", SAMPLES, plain=form == "deflate")
    file = open_answers(path)
    answers = list(file.read(Problems()))
    assert file.form == "inspect"
    assert [(a.sample_id, a.repeat, a.text) for a in answers] == READ
    assert answers[2].failure is not None and "it broke" in answers[2].failure.message


def test_a_damaged_member_of_an_inspect_log_costs_that_sample(tmp_path):
    path = write_eval(tmp_path / "log.eval", SAMPLES[:2], damage="samples/q0_epoch_1.json")
    problems = Problems()
    assert [a.sample_id for a in open_answers(path).read(problems)] == ["1"]
    assert problems.count == 1 and "samples/q0_epoch_1.json" in problems.first[0]


def test_a_decompression_bomb_in_an_inspect_log_is_refused(tmp_path):
    bomb = inspect_sample("q0", "0" * (70 << 20))
    with pytest.raises(UnsafeArchiveError):
        read(write_eval(tmp_path / "log.eval", [bomb]))


def test_a_cut_off_inspect_log_is_an_error_in_words(tmp_path):
    path = write_eval(tmp_path / "log.eval", SAMPLES)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(DataError, match="cannot be opened as an Inspect log"):
        read(path)


def test_records_of_our_own_keep_their_status_and_a_retry_replaces_its_failure(tmp_path):
    path = write_lines(
        tmp_path / "results.jsonl",
        [
            {"sample_id": "q0", "status": "timeout", "error": {"kind": "timeout", "message": "slow"}},
            {"sample_id": "q1", "status": "ok", "response": {"text": "7"}},
            {"sample_id": "q0", "status": "ok", "response": {"text": "yes"}},
            {"sample_id": "q2", "status": "refused", "error": {"kind": "refusal", "message": "no"}},
            '{"sample_id": "q3", "status": "ok", "respon',
        ],
    )
    for place in (path, tmp_path):
        file = open_answers(place)
        found = survey(file)
        assert [(a.sample_id, a.text, a.status) for a in final(file, found)] == [
            ("q1", "7", "ok"),
            ("q0", "yes", "ok"),
            ("q2", None, "refused"),
        ]
        assert found.problems.count == 1 and "line 5" in found.problems.first[0]


def test_of_two_answers_the_first_counts_and_the_second_is_reported(tmp_path):
    file = open_answers(
        write_lines(
            tmp_path / "a.jsonl",
            [
                {"id": 1, "reply": "a"},
                {"id": 2, "reply": None},
                {"id": 1, "reply": "b"},
                {"id": 2, "reply": "c"},
                {"id": 2, "reply": "d"},
            ],
        )
    )
    found = survey(file)
    assert [(a.sample_id, a.text) for a in final(file, found)] == [("1", "a"), ("2", "c")]
    assert found.problems.first == [
        "line 3: '1' is answered a second time; the first answer counts",
        "line 5: '2' is answered a second time; the first answer counts",
    ]


def test_rows_that_cannot_be_used_are_named_by_line_and_the_rest_is_read(tmp_path):
    path = write_lines(
        tmp_path / "a.jsonl",
        [
            {"id": "q0", "reply": "yes"},
            "{not json",
            [1, 2],
            {"reply": "no id"},
            {"id": True, "reply": "x"},
            {"id": "q5", "reply": {"a": 1}},
            {"id": "q6"},
            {"id": "q7", "reply": float("nan")},
            {"id": 8.0, "reply": 3.0},
            {"id": "q9", "reply": False},
        ],
    )
    problems = Problems()
    answers = list(open_answers(path).read(problems))
    assert [(a.sample_id, a.text) for a in answers] == [
        ("q0", "yes"), ("q5", None), ("q6", None), ("q7", None), ("8", "3"), ("q9", "False"),
    ]  # fmt: skip
    assert [line.split(":")[0] for line in problems.first] == ["line 2", "line 3", "line 4", "line 5", "line 6"]


def test_a_row_of_a_csv_with_too_many_fields_costs_that_row(tmp_path):
    (tmp_path / "a.csv").write_text('id,reply\nq0,"yes, I\nthink"\nq1,a,b\nq2,\nq3,no\n')
    problems = Problems()
    answers = list(open_answers(tmp_path / "a.csv").read(problems))
    assert [(a.sample_id, a.text) for a in answers] == [("q0", "yes, I\nthink"), ("q2", None), ("q3", "no")]
    assert problems.first == ["line 4: 3 fields; the header has 2"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": 1, "text": "q", "output": "a", "pred": "b"}, "--reply-field pred or --reply-field output"),
        ({"id": 1, "answer": "gold or reply?"}, "--reply-field NAME"),
        ({"number": 1, "reply": "a"}, "--id-field NAME"),
        ({"qid": 1, "uid": 2, "reply": "a"}, "--id-field qid or --id-field uid"),
    ],
)
def test_fields_that_cannot_be_told_are_asked_for_by_option(tmp_path, row, said):
    path = write_lines(tmp_path / "a.jsonl", [row])
    with pytest.raises(DataError, match=said) as caught:
        read(path)
    assert all(name in str(caught.value) for name in row)


def test_named_fields_are_taken_and_a_wrong_name_is_refused(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"number": 4, "answer": "B"}])
    assert read(path, id_field="number", reply_field="answer") == [("4", "B")]
    with pytest.raises(DataError, match="no field 'nummer'"):
        read(path, id_field="nummer", reply_field="answer")


@pytest.mark.parametrize("name", ["a.txt", "a.xlsx", "a.parquet", "a.json", "a.jsonl", "a.csv", "a.eval"])
@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe not a table", b'{"a": 1}', b"PK\x03\x04"])
def test_a_file_that_is_no_answer_file_is_an_error_in_words(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"a\."):
        read(tmp_path / name)


def test_a_folder_without_a_run_names_the_files_that_could_be_meant(tmp_path):
    write_lines(tmp_path / "x_samples_t.jsonl", [{"doc_id": 0, "resps": []}])
    with pytest.raises(DataError, match=r"x_samples_t\.jsonl"):
        read(tmp_path)


@settings(max_examples=200, deadline=None)
@given(
    data=st.lists(
        st.one_of(st.binary(max_size=40), st.just(b'{"id": 1, "reply": "a"}'), st.just(b'{"doc_id": 1, "resps": 3}')),
        max_size=6,
    )
)
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".json", ".eval"])
def test_no_bytes_make_a_reader_crash(tmp_path_factory, suffix, data):
    path = tmp_path_factory.mktemp("any") / f"a{suffix}"
    path.write_bytes(b"\n".join(data))
    try:
        for answer in read_answers(path):
            assert answer.text is None or isinstance(answer.text, str)
    except DataError as error:
        assert str(path) in error.message
