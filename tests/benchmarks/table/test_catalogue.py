"""The catalogue's declarations: each parses, has one headline, and names its licence and its data."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from snellen.benchmarks.registry import BUILT_IN
from snellen.benchmarks.table.declaration import read_declaration
from snellen.errors import DataError

FOLDER = Path(str(files("snellen.benchmarks.table") / "catalogue"))
ENTRIES = sorted(FOLDER.glob("*.toml"))


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_has_one_headline_and_names_its_licence(path: Path) -> None:
    declared = read_declaration(path)
    assert declared.name == path.stem
    assert declared.name not in BUILT_IN
    assert sum(report.headline for report in declared.report) == 1
    for text in (declared.title, declared.probes, declared.licence, declared.url):
        assert text
    assert all(figure.source and figure.by for figure in declared.figure)
    assert not declared.source.tsv or len(declared.source.md5) == 32


def test_there_are_about_forty_entries() -> None:
    assert len(ENTRIES) >= 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[report]]\nname = 'x'\nheadline = true\naverage = ['y']", "average names 'y'"),
        ("[[report]]\nname = 'x'\nheadline = true\nadd = ['x']", "'x' is a sum or mean of itself"),
        ("[[report]]\nname = 'x'\nheadline = true\nall_in = 'pair'", "there is no such group"),
        ("[[report]]\nmetric = 'acuracy'\nheadline = true", r"Invalid enum value 'acuracy' - at `\$\.report\[0\]"),
        ("[prompt]\nstile = 'letters'", r"unknown field `stile` - at `\$\.prompt`"),
        ("[score]\nread = 'yes-no'\n[[report]]\n[[report]]", "0 of the .* have headline = true"),
    ],
)
def test_a_faulty_declaration_is_refused_with_file_section_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    head = "name = 'mine'\n[source]\ncsv = 'a.csv'\n[rows]\nquestion = 'q'\nanswer = 'a'\n"
    file.write_text(head + text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        read_declaration(file)
    assert str(file) in error.value.message
