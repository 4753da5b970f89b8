"""The catalogue's declarations: each parses, has one headline, and names its licence and its data."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from snellen.benchmarks.registry import BUILT_IN
from snellen.benchmarks.table.declaration import Declaration, declaration, read_declaration
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


HEAD = "name = 'mine'\n[source]\ncsv = 'a.csv'\n[rows]\nquestion = 'q'\nanswer = 'a'\n"


def sections(of: inspect.Type, at: str, depth: int = 0) -> Iterator[tuple[str, inspect.StructType]]:
    """Yield every section of a declaration as a TOML writes it, with its keys."""
    if isinstance(of, inspect.UnionType):
        for one in of.types:
            yield from sections(one, at, depth)
    elif isinstance(of, inspect.StructType) and depth < 5:
        yield at, of
        for field in of.fields:
            yield from sections(field.type, f"{at}.{field.encode_name}".removeprefix("."), depth + 1)
    elif isinstance(of, inspect.DictType):
        key = of.key_type.values[0] if isinstance(of.key_type, inspect.LiteralType) else "any"
        yield from sections(of.value_type, f"{at}.{key}", depth + 1)
    elif isinstance(of, inspect.VarTupleType):
        yield from sections(of.item_type, f"{at}[]", depth + 1)


def nested(path: str, key: str) -> dict[str, Any]:
    """Return a declaration with a key in the section at a path, in which `[]` is an element of a list."""
    value: Any = {key: 1}
    for step in reversed(path.split(".")) if path else ():
        value = {step.removesuffix("[]"): [value] if step.endswith("[]") else value}
    whole = tomllib.loads(HEAD)
    return {
        **whole,
        **{
            name: {**whole[name], **part} if isinstance(whole.get(name), dict) else part for name, part in value.items()
        },
    }


@pytest.mark.parametrize(("path", "section"), [*sections(inspect.type_info(Declaration), "")])
def test_an_unknown_key_of_any_section_comes_with_those_that_are_known_and_the_nearest(
    path: str, section: inspect.StructType
) -> None:
    known = [field.encode_name for field in section.fields]
    typed = max(known, key=len) + "x"
    with pytest.raises(DataError, match=f"unknown field `{typed}` - at ") as error:
        declaration(nested(path, typed), "mine.toml")
    assert f"; one of {', '.join(known)} was expected" in error.value.message
    assert error.value.hint == f"The nearest is {typed[:-1]!r}."
    steps = [f".{step}" for step in path.replace("[]", "[0]").split(".") if step]
    assert f"at `${''.join(steps)}`" in error.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[report]]\nname = 'x'\nheadline = true\naverage = ['y']", "average names 'y'"),
        ("[[report]]\nname = 'x'\nheadline = true\nadd = ['x']", "'x' is a sum or mean of itself"),
        ("[[report]]\nname = 'x'\nheadline = true\nall_in = 'pair'", "there is no such group"),
        (
            "[[report]]\nname = 'x'\nheadline = true\nunread = { judge = 'omitted' }",
            "'x' has unread for 'judge'; one of strict, vlmevalkit, lmms-eval was expected",
        ),
        ("[[report]]\nmetric = 'acuracy'\nheadline = true", r"Invalid enum value 'acuracy' - at `\$\.report\[0\]"),
        ("[prompt]\nstile = 'letters'", r"unknown field `stile` - at `\$\.prompt`"),
        ("[score]\nread = 'yes-no'\n[[report]]\n[[report]]", "0 of the .* have headline = true"),
    ],
)
def test_a_faulty_declaration_is_refused_with_file_section_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(HEAD + text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        read_declaration(file)
    assert str(file) in error.value.message
