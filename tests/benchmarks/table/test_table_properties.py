"""Whatever a table holds: it is read, or refused with an error that a person can use."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Picture

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.table.cells import options_in, options_of
from snellen.benchmarks.table.literals import NoLiteralError, literal
from snellen.benchmarks.table.operations import CellError
from snellen.errors import SnellenError
from stopwatch import is_done_within

COLUMNS = (
    *("id", "index", "image", "images", "question", "prompt", "options", "choices", "A", "B", "C", "answer", "label"),
    *("hint", "topic", "conversations", "messages", "video", "option_1", "option_2", "image_1", "image_2", "x", ""),
)
CELLS = (
    *("", "a.png", "b.png", "A", "B", "yes", "no", "red", "red; green", "['a', 'b']", '["a"]', "{'A': 'x'}", "[", "("),
    *("A. cat\nB. dog", "(A) cat (B) dog", "<image> what?", "Which is it?", "https://example.org/a.png", "/a.png"),
    *("../a.png", "data:image/png;base64,AAAA", "data:", "x" * 100, "0", "1", "None", "=1+1", "é😀"),
)
CELL = st.recursive(
    st.one_of(st.sampled_from(CELLS), st.none(), st.booleans(), st.integers(-2, 5), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(("A", "B", "bytes", "path", "url", "from", "value", "role")), inner, max_size=3
        ),
    ),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.sampled_from(COLUMNS), CELL, max_size=8), max_size=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tables")
    for name in "ab":
        Picture.new("RGB", (8, 8), "red").save(place / f"{name}.png")
    return place


@settings(max_examples=60)
@given(rows=ROWS, suffix=st.sampled_from((".json", ".jsonl")), circular=st.booleans())
def test_a_table_of_anything_is_read_or_refused(folder: Path, rows: list[Any], suffix: str, circular: bool) -> None:
    path = folder / f"{os.getpid()}{suffix}"
    text = json.dumps(rows) if suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text)
    benchmark = registry.find(str(path))
    data = Data(options={"circular": "true"} if circular else {})
    try:
        reading = benchmark.reading(data)
    except SnellenError as error:
        assert error.message
        return
    samples = list(benchmark.samples(data))
    assert reading is not None and reading.samples + len(reading.omitted) == reading.rows
    assert len({sample.id for sample in samples}) == len(samples)
    assert circular or len(samples) == reading.samples
    for sample in samples:
        assert sample.kind != "choice" or sample.target in sample.options
        assert 0.0 <= (benchmark.score["strict"](sample, "A").value or 0.0) <= 1.0


LITERALS = st.recursive(
    st.one_of(
        st.text(max_size=6), st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)


@given(st.lists(LITERALS, max_size=4))
def test_what_python_writes_is_read_back(value: list[Any]) -> None:
    try:
        assert literal(repr(value)) == value
    except NoLiteralError as error:
        assert "nested" in str(error)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "['" + "\\" * 200_000, "[" + "'a', " * 100_000, "{" + "'a': " * 50_000]
)
def test_a_hostile_list_is_refused_at_once(text: str) -> None:
    def refused() -> None:
        with pytest.raises(NoLiteralError):
            literal(text)

    assert is_done_within(2, refused)


@pytest.mark.parametrize("text", ["A. " * 50_000, "(A) " * 50_000, " " * 200_000 + "A", "A.\t" + " " * 200_000 + "x"])
def test_options_of_a_long_text_are_found_in_linear_time(text: str) -> None:
    assert is_done_within(2, lambda: options_in(text))


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("A. cat\nB) dog\n(C) cow", {"A": "cat", "B": "dog", "C": "cow"}),
        ("(A) cat (B) dog", {"A": "cat", "B": "dog"}),
        ("A: cat, B: dog", {"A": "cat", "B": "dog"}),
        ("cat|dog", {"A": "cat", "B": "dog"}),
        ("cat, dog, cow", {"A": "cat", "B": "dog", "C": "cow"}),
        (["A. cat", "B. dog"], {"A": "cat", "B": "dog"}),
        ({"A": "cat", "C": "dog"}, {"A": "cat", "C": "dog"}),
        ({"text": ["cat", "dog"], "label": ["A", "B"]}, {"A": "cat", "B": "dog"}),
        ([1, 2.5, True], {"A": "1", "B": "2.5", "C": "True"}),
        ('{"A": "cat", "B": "dog"}', {"A": "cat", "B": "dog"}),
    ],
)
def test_options_in_the_forms_that_people_write(cell: Any, options: dict[str, str]) -> None:
    assert options_of(cell) == options


def test_more_options_than_letters_are_refused() -> None:
    with pytest.raises(CellError, match="27 options"):
        options_of([str(n) for n in range(27)])
