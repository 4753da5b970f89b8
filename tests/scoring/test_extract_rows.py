"""`snellen extract`: rows in, rows out, and errors that name the line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from snellen.cli.extract import extract
from snellen.errors import DataError
from snellen.scoring.extract import correct, read
from snellen.scoring.extract.batch import converted, extract_row

ROWS: list[dict[str, Any]] = [
    {"kind": "truth", "reply": "Yes.", "gold": "yes", "form": "yes/no", "id": 7},
    {"kind": "choice", "reply": "B. red kite", "options": {"A": "osprey", "B": "red kite"}, "gold": "A"},
    {"kind": "choice_text", "reply": "the second option", "options": ["osprey", "red kite"], "gold": "red kite"},
    {"kind": "count", "reply": "2 or 3", "gold": 3},
    {"kind": "number", "reply": "75 cm", "unit": "m", "gold": 0.75},
    {"kind": "short", "reply": "Red-tailed Hawk (Buteo jamaicensis)", "gold": "Buteo jamaicensis"},
    {"kind": "short", "reply": "a mug", "gold": "cup", "aliases": ["mug"]},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["truth", "choice", "choice_text", "count", "number", "short"])
def test_an_empty_reply_is_called_empty_in_every_kind(kind):
    row = {"kind": kind, "reply": " \n", "options": ["osprey", "red kite"]}
    (found,) = converted([json.dumps(row).encode()], "rows", extract_row)
    assert (found["extracted"], found["reason"]) == (None, "empty reply")


def test_an_extraction_that_is_stopped_leaves_no_half_file(tmp_path, monkeypatch):
    def stopped(lines, where, convert):
        yield from converted([next(iter(lines))], where, convert)
        raise KeyboardInterrupt

    monkeypatch.setattr("snellen.cli.extract.converted", stopped)
    source = write(tmp_path / "in.jsonl", ROWS)
    with pytest.raises(KeyboardInterrupt):
        extract(source, out=tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == [source]


def test_extract_adds_what_was_read_why_not_and_whether_it_is_right(tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    extract(write(tmp_path / "in.jsonl", ROWS), out=out, as_json=True)
    read_back = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["extracted"] for row in read_back] == [True, "B", "red kite", None, 0.75, "Red-tailed Hawk", "a mug"]
    assert [row["correct"] for row in read_back] == [True, False, True, False, True, True, True]
    assert read_back[0]["id"] == 7 and read_back[3]["reason"]
    summary = json.loads(capsys.readouterr().out)
    assert {"kind": "short", "n": 2, "read": 2, "graded": 2, "correct": 2} in summary["kinds"]


def test_a_row_without_gold_gets_no_verdict():
    (row,) = converted([b'{"kind": "count", "reply": "three"}'], "x", extract_row)
    assert row["extracted"] == 3 and "correct" not in row


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "not JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"reply": "x"}', "'kind' is None"),
        (b'{"kind": "count", "reply": 3}', "'reply' is int"),
        (
            b'{"kind": "truth", "response": "Yes", "gold": true}',
            "'reply' is missing. The row has 'kind', 'response', 'gold'",
        ),
        (b'{"kind": "choice", "reply": "A"}', "'options' of a choice row: missing"),
        (b'{"kind": "truth", "reply": "yes", "form": "maybe"}', "'form' is 'maybe'"),
    ],
)
def test_a_faulty_row_is_named_by_file_and_line_and_the_others_are_read(line, complaint):
    rows = list(
        converted(
            [b'{"kind": "count", "reply": "3"}', line, b'{"kind": "count", "reply": "4"}'], "rows.jsonl", extract_row
        )
    )
    assert "rows.jsonl, line 2" in rows[1]["error"] and complaint in rows[1]["error"]
    assert [row.get("extracted") for row in rows] == [3, None, 4]


def test_faulty_rows_are_reported_and_the_status_says_so(tmp_path, capsys):
    faulty = tmp_path / "in.jsonl"
    faulty.write_bytes(b'{"kind": "count", "reply": "3"}\n{\n')
    with pytest.raises(typer.Exit) as ended:
        extract(faulty, out=tmp_path / "out.jsonl")
    assert ended.value.exit_code == 9 and "line 2: not JSON" in capsys.readouterr().err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


def test_unknown_kinds_and_missing_options_are_errors():
    with pytest.raises(DataError, match="no kind of answer 'open'"):
        read("open", "x")
    with pytest.raises(DataError, match="needs options"):
        read("choice", "A")


@pytest.mark.parametrize(
    ("kind", "value", "gold", "right"),
    [
        ("truth", True, "T", True),
        ("truth", False, "yes", False),
        ("choice", "b", "(B)", True),
        ("count", 3, "3", True),
        ("number", 2.44, 2.4384, True),
        ("number", 2.4, 2.6, False),
        ("number", 1234567.0, "1,234,567", True),
        ("short", "Brewers Blackbird", "Brewer's Blackbird", True),
        ("short", "a small red apple", "apple", False),
        ("short", "sea lion", "lion", False),
        ("short", "caterpillar", "cat", False),
        ("short", "hawk", "red-tailed hawk", False),
        ("short", "737 800", "737-800", False),
        ("short", "Arctic tern", "artic tern", False),
        ("short", None, "lion", False),
    ],
)
def test_what_was_read_is_compared_by_whole_words(kind, value, gold, right):
    assert correct(kind, value, gold) is right
