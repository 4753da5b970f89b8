"""Foreign Inspect logs: attachments, members with the same name, unfinished logs, and members that unpack to too much."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from formats.logs import inspect_sample
from snellen.errors import DataError, UnsafeArchiveError
from snellen.formats import Answer, Problems, open_answers

START = {"version": 2, "eval": {"model": "lab/model", "task": "t"}, "plan": {}}


def log(path: Path, members: list[tuple[str, Any]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content if isinstance(content, (str, bytes)) else json.dumps(content))
    return path


def answers(path: Path) -> list[Answer]:
    return list(open_answers(path).read(Problems()))


def test_an_attachment_takes_the_place_of_its_mark(tmp_path: Path):
    name = "0123456789abcdef" * 2
    sample = inspect_sample("q", f"It is attachment://{name}, not attachment://{'0' * 32}.")
    sample["attachments"] = {name: "a long answer"}
    (answer,) = answers(log(tmp_path / "x.eval", [("samples/q_epoch_1.json", sample)]))
    assert answer.text == f"It is a long answer, not attachment://{'0' * 32}."


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_members_with_the_same_name_the_last_one_counts(tmp_path: Path):
    members = [("samples/q_epoch_1.json", inspect_sample("q", text)) for text in ("first", "second")]
    assert [answer.text for answer in answers(log(tmp_path / "x.eval", members))] == ["second"]


def test_an_unfinished_log_has_its_model_and_the_samples_so_far(tmp_path: Path):
    path = log(
        tmp_path / "x.eval", [("_journal/start.json", START), ("samples/q_epoch_1.json", inspect_sample("q", "7"))]
    )
    assert open_answers(path).model == "lab/model"
    assert [answer.text for answer in answers(path)] == ["7"]


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path: Path):
    bomb = b'{"id": "q", "epoch": 1, "padding": "' + b"0" * (80 << 20) + b'"}'
    with pytest.raises(UnsafeArchiveError):
        answers(log(tmp_path / "x.eval", [("samples/q_epoch_1.json", bomb)]))


def test_metadata_of_the_wrong_shape_is_passed_over(tmp_path: Path):
    samples = []
    for number, own in enumerate((7, {"sample_id": 3}, {"sample_id": "other", "status": "no such"}, None)):
        sample = inspect_sample(f"q{number}", "yes")
        sample["metadata"] = {"snellen": own}
        samples.append((f"samples/q{number}_epoch_1.json", sample))
    assert [answer.sample_id for answer in answers(log(tmp_path / "x.eval", samples))] == ["q0", "q1", "other", "q3"]


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_a_score_that_is_no_number_leaves_the_answer_readable(suffix: str, tmp_path: Path):
    """Inspect writes the score of a sample that was not scored as NaN, which JSON has not."""
    sample = inspect_sample("q", "7") | {
        "scores": {"match": {"value": float("nan")}, "other": {"value": float("-inf")}}
    }
    path = tmp_path / f"x{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps({**START, "samples": [sample]}))
    else:
        log(path, [("header.json", {**START, "results": {"value": float("nan")}}), ("samples/q_epoch_1.json", sample)])
    assert open_answers(path).model == "lab/model"
    assert [answer.text for answer in answers(path)] == ["7"]


def test_a_member_that_is_no_utf8_costs_one_sample(tmp_path: Path):
    members = [("samples/p_epoch_1.json", b'{"id": "\xff"}'), ("samples/q_epoch_1.json", inspect_sample("q", "7"))]
    problems = Problems()
    read = list(open_answers(log(tmp_path / "x.eval", members)).read(problems))
    assert [answer.text for answer in read] == ["7"]
    assert "samples/p_epoch_1.json" in str(problems.first)


def test_a_json_file_that_is_no_utf8_is_refused_with_its_name(tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_bytes(b'[{"id": "\xff"}]')
    with pytest.raises(DataError, match=r"x\.json"):
        answers(path)
