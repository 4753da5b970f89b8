"""The check of a large table whose first rows say otherwise than the rows behind them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.table import survey
from snellen.runs.check.check import CheckSettings, check_benchmark
from snellen.runs.check.result import CheckResult

ROWS, LATE = survey.HEAD + 400, survey.HEAD + 100
TEXTS = {"A": "robin", "B": "wren", "C": "heron"}


def result_of(path: Path, change: Callable[[int, dict[str, Any]], Any]) -> CheckResult:
    """Check a table of choices, each row behind the first ones changed."""
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ("id", "question", *TEXTS, "answer"))
        table.writeheader()
        for at in range(ROWS):
            row: dict[str, Any] = {"id": f"q{at}", "question": f"Bird {at}?", **TEXTS, "answer": "ABC"[at % 3]}
            if at >= LATE:
                change(at, row)
            table.writerow(row)
    return check_benchmark(registry.find(str(path)), Data(), CheckSettings(examples=0))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tables that a survey opens, a name each time."""
    names: list[str] = []
    open_rows = survey.open_rows

    def counted(*args: Any) -> Any:
        table = open_rows(*args)
        names.append(table.name)
        return table

    monkeypatch.setattr(survey, "open_rows", counted)
    return names


def test_a_table_that_its_first_rows_tell_is_read_once(tmp_path: Path, opened: list[str]) -> None:
    result = result_of(tmp_path / "q.csv", lambda at, row: None)
    assert (result.rows, result.kinds["choice"].count, result.findings) == (ROWS, ROWS, [])
    assert len(opened) == 2  # for the form of its files, and for all of its rows


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (
            lambda at, row: row.update(A="", B="", C="", answer="yes" if at % 2 else "no"),
            {"choice": LATE, "truth": ROWS - LATE},
        ),
        (lambda at, row: row.update(id="q7" if at == LATE else row["id"]), {"choice": ROWS - 1}),
        (lambda at, row: row.update(answer=TEXTS[row["answer"]]), {"choice": ROWS}),
        (lambda at, row: row.update(answer="A,B"), {"choice": LATE, "multi-choice": ROWS - LATE}),
    ],
    ids=["open questions", "a repeated id", "texts as answers", "several letters"],
)
def test_later_rows_are_checked_by_what_the_whole_table_says(change, kinds, tmp_path):
    result = result_of(tmp_path / "q.csv", change)
    assert {kind: share.count for kind, share in result.kinds.items()} == kinds
    assert (result.rows, result.rows - result.samples) == (ROWS, ROWS - sum(kinds.values()))


def test_golds_that_differ_in_case_alone_are_found_whatever_the_table_has_as_its_level(tmp_path: Path) -> None:
    rows = "".join(f"{at},Which is it?,{gold},exact\n" for at, gold in enumerate(("Polish", "polish", "a crow")))
    (tmp_path / "q.csv").write_text(f"id,question,answer,level\n{rows}")
    result = check_benchmark(registry.find(str(tmp_path / "q.csv")), Data(), CheckSettings())
    (alike,) = (finding for finding in result.findings if finding.code == "options-alike")
    assert [row.id for row in alike.rows] == ["0", "1"]
