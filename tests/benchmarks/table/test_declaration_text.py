"""Declarations written as TOML and read back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snellen.benchmarks.table
from snellen.benchmarks.table.declaration import Cell, Declaration, PromptStyle, Report, Source, read_declaration
from snellen.benchmarks.table.declaration_text import declaration_text
from snellen.errors import DataError

CATALOGUE = sorted((Path(snellen.benchmarks.table.__file__).parent / "catalogue").glob("*.toml"))


def written(declared: Declaration, folder: Path, comments: dict[str, str] | None = None) -> Declaration:
    path = folder / "written.toml"
    path.write_text(declaration_text(declared, comments or {}), encoding="utf-8")
    return read_declaration(path)


@pytest.mark.parametrize("path", CATALOGUE, ids=lambda path: path.stem)
def test_every_declaration_of_the_catalogue_is_written_as_it_is_read(path: Path, tmp_path: Path) -> None:
    declared = read_declaration(path)
    assert written(declared, tmp_path) == declared


def test_keys_and_texts_of_any_kind_survive(tmp_path: Path) -> None:
    rows = {
        "question": "Frage, „Text“\n\t\\ \x7f \x00 'x' \"y\"",
        "answer": Cell(column="a.b c", as_="index0", rename={"1 = yes": "Yes", "": "No"}),
        "options": ("option a", "option [b]"),
        "topic #1": "Thema = 1",
    }
    declared = Declaration(
        'my "own" set',
        Source(file="a folder/ä.csv", images=("a", "b")),
        rows,
        prompt=PromptStyle(style="question", before="<image>\n"),
        report=(Report(name="accuracy", headline=True, scale=100.0),),
        without_image="keep",
    )
    assert written(declared, tmp_path, {"": "two\nlines", "rows.answer": "a\rcomment\x07", "rows": "head"}) == declared


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, str]) -> None:
    columns.pop("without_image", None)
    rows = {**columns, "question": "q", "answer": "a"}
    declared = Declaration("name", Source(file="x.csv"), rows)
    comments = {f"rows.{name}": column for name, column in columns.items()}
    assert written(declared, tmp_path_factory.mktemp("toml"), comments) == declared


def test_comments_stand_above_their_keys() -> None:
    declared = Declaration("birds", Source(file="birds.csv"), {"question": "prompt", "answer": "label"})
    text = declaration_text(declared, {"": "Made by check.", "rows": "Columns.", "rows.answer": "a guess"})
    assert text.splitlines() == [
        "# Made by check.",
        'name = "birds"',
        "",
        "[source]",
        'file = "birds.csv"',
        "",
        "[rows]",
        "# Columns.",
        'question = "prompt"',
        "# a guess",
        'answer = "label"',
    ]


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(DataError, match="not UTF-8"):
        declaration_text(Declaration("birds", Source(file="b\udce4.csv"), {"question": "q", "answer": "a"}))
