"""Whole small tables as VLMEvalKit reads, words and scores them, and cells as pandas reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from snellen.benchmarks.table.end_to_end import end_to_end
from snellen.errors import DataError
from snellen.scoring.rules.registry import apply, with_result
from snellen.sources.pandas_cells import ColumnForms, as_pandas, column_kinds

HEAD = "index\timage\tquestion\tA\tB\tC\tanswer\n"


def run(dataset: str, tsv: str, *predictions: str) -> dict[str, Any]:
    return apply(end_to_end, {"dataset": dataset, "tsv": tsv, "predictions": list(predictions)}, "case")


def text_of(result: dict[str, Any], row: int = 0) -> str:
    return "".join(part.get("value", "") for part in result["prompts"][row] if part["type"] == "text")


def test_an_option_none_vanishes_from_the_prompt_and_from_the_choices() -> None:
    table = HEAD + "1\t<IMAGE 0>\tHow many?\tone\tNone\ttwo\tB\n"
    result = run("plain", table, "B")
    assert "B." not in text_of(result)
    assert result["report"] == [{"split": "none", "Overall": 0.0}]


def test_whole_numbers_become_decimals_where_a_cell_is_empty() -> None:
    table = HEAD + "1\t<IMAGE 0>\tHow many?\t1\t2\t3\tA\n2\t<IMAGE 1>\tHow many?\t4\t5\t\tB\n"
    result = run("plain", table, "1", "5")
    assert "C. 3.0\n" in text_of(result)
    assert "C." not in text_of(result, 1)


def test_a_missing_reference_stops_the_harness() -> None:
    table = HEAD + "1\t7\tUp?\tx\ty\tz\tA\n"
    assert run("plain", table, "A") == {"class": "ImageMCQDataset", "raises": "AssertionError", "message": ""}


def test_an_open_question_of_mmmu_is_a_choice_with_other_answers() -> None:
    table = HEAD + "1\t<IMAGE 0>\t<image 1> Value?\t\t\t\t24/7\n"
    result = run("MMMU_DEV_VAL", table, "It is 24/7")
    assert result["report"] == [{"split": "none", "Overall": 1.0}]
    assert result["prompts"][0][1] == {"type": "image", "value": "images/MMMU_DEV_VAL/1.png"}


def test_rolls_are_right_together() -> None:
    table = HEAD + "1\t<IMAGE 0>\tTree?\toak\telm\t\tA\n1000001\t1\tTree?\telm\toak\t\tB\n"
    assert run("toy_circular", table, "A", "B")["report"] == [{"split": "none", "Overall": 1.0}]
    assert run("toy_circular", table, "A", "A")["report"] == [{"split": "none", "Overall": 0.0}]


def test_an_empty_prediction_comes_back_as_nan() -> None:
    table = "index\timage\tquestion\tanswer\n1\t<IMAGE 0>\tWritten?\t['nan']\n"
    result = run(
        "OCRBench", table.replace("answer\n", "answer\tcategory\n").replace("]\n", "]\tRegular Text Recognition\n"), ""
    )
    assert result["report"]["Final Score"] == 1


def test_a_table_that_cannot_be_read_is_named() -> None:
    with pytest.raises(DataError, match="the table is empty"):
        run("plain", "")


def test_all_outcomes_of_a_folder_are_reproduced() -> None:
    folder = os.environ.get("SNELLEN_TEST_VECTORS")
    if folder is None:
        pytest.skip("SNELLEN_TEST_VECTORS names no folder with generic/NAME.json")
    cases = json.loads(Path(folder, "generic", "end_to_end.json").read_text(encoding="utf-8"))["cases"]
    for case in cases:
        assert with_result(end_to_end, case, case["case"])["agrees"], case["case"]
    assert cases


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["007", "010"], [7, 10]),
        (["1", ""], [1.0, None]),
        (["1", "2.50"], [1.0, 2.5]),
        (["True", "false"], [True, False]),
        (["None", "red"], [None, "red"]),
        (["1", "red", "NA"], ["1", "red", None]),
        (["True", "1"], ["True", "1"]),
        (["", ""], [None, None]),
        (["9" * 30, "1"], ["9" * 30, "1"]),
    ],
)
def test_a_column_is_read_as_pandas_reads_it(cells: list[str], expected: list[Any]) -> None:
    kind = column_kinds({"c": cell} for cell in cells)["c"]
    assert [as_pandas(cell, kind) for cell in cells] == expected


def test_rows_that_pandas_changes_are_counted_once_each() -> None:
    forms = ColumnForms()
    for first, second in (("None", "007"), ("red", "8"), ("blue", "9"), ("NA", "10")):
        forms.add({"a": first, "b": second})
    assert forms.differing_rows(["a", "b"]) == 2
    assert forms.differing_rows(["b"]) == 1
    assert forms.kinds() == {"a": "text", "b": "whole"}
