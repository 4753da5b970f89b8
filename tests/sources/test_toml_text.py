"""TOML of users is read in time that grows with its length, and as the standard library reads it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from snellen.cli import main
from snellen.toml_text import MOST_PARTS, parse_toml
from stopwatch import is_done_within

DOTS = "." * 400 + " a.b" * 90
READABLE = [
    f'template = "{DOTS}"',
    f"template = '{DOTS}'",
    f'template = """\n{DOTS}\n"quoted" \\"""{DOTS}\n"""\nrest = 1',
    f"template = '''\n{DOTS}\n'quoted'\n'''",
    f"a = 1 # {DOTS}",
    "numbers = [" + ", ".join(f"{i}.5" for i in range(300)) + "]",
    "table = {" + ", ".join(f"a{i}.b.c = 1.5" for i in range(100)) + "}",
    "\n".join(f"[a{i}.b.c]\nd.e = 1" for i in range(200)),
    ".".join(["a"] * MOST_PARTS) + " = 1",
    '"' + "." * 500 + '" = 1',
]
HOSTILE = [
    "a" + ".a" * 100_000 + " = 1",
    "[a" + ".a" * 100_000 + "]",
    "[[a" + ".a" * 100_000 + "]]",
    "b = {a" + ".a" * 100_000 + " = 1}",
    "a" + " . a" * 100_000 + " = 1",
    'x = """' + "\n" + '"""\n"a"' + '."a"' * 100_000 + " = 1",
    "'a'" + ".'a'" * 100_000 + " = 1",
    '# """\na' + ".a" * 100_000 + " = 1",
    's = "\\""\na' + ".a" * 100_000 + " = 1",
    "a" * 200_000 + "." * 70,
    '"' * 200_000 + "." * 70,
    "'" * 200_000 + "." * 70,
    '"\\' * 100_000 + "." * 70,
    "." * 200_000,
    "a = " + "[" * 100_000 + "." * 70,
]


@pytest.mark.parametrize("text", READABLE, ids=range(len(READABLE)))
def test_dots_that_are_no_long_name_are_read_as_ever(text: str):
    assert parse_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_long_names_are_refused_in_a_moment(text: str):
    def refused():
        with pytest.raises((tomllib.TOMLDecodeError, RecursionError)):
            parse_toml(text)

    assert is_done_within(3, refused)


def test_the_error_names_the_line():
    with pytest.raises(tomllib.TOMLDecodeError, match=r"more than 64 parts \(at line 3\)"):
        parse_toml("a = 1\n\nb" + ".c" * 64 + " = 2")


VALUES: Any = st.recursive(
    st.integers(-9, 9) | st.booleans() | st.floats(-9, 9).map(lambda x: round(x, 3)) | st.text("a.b\"'# ", max_size=9),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


def written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value)


@given(
    st.dictionaries(
        st.lists(st.sampled_from(["a", "b", '"c.d"']), min_size=1, max_size=3).map(tuple), VALUES, max_size=6
    )
)
def test_a_document_is_read_as_the_standard_library_reads_it(pairs: dict[tuple[str, ...], Any]):
    text = "\n".join(f"{'.'.join(name)} = {written(value)} # {'x.' * 70}" for name, value in pairs.items())
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(tomllib.TOMLDecodeError):
            parse_toml(text)
        return
    assert parse_toml(text) == wanted


@pytest.mark.parametrize(
    "words",
    [
        ["run", "hostile.toml", "-m", "embedded"],
        ["check", "hostile.toml"],
        ["run", "hostile.toml", "--dry-run"],
        ["run", "chart/digits", "-m", "api:x", "--base-url", "http://127.0.0.1:9/v1", "--prices", "hostile.toml"],
        ["judge", "run", "--model", "embedded", "--rubric", "hostile.toml"],
    ],
    ids=range(5),
)
def test_commands_refuse_such_a_file_in_a_moment(tmp_path: Path, monkeypatch, capsys, words: list[str]):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none-at-all")
    snellen.evaluate("chart/digits", "embedded", out="run", limit=2)
    Path("hostile.toml").write_text("model.a" + ".a" * 200_000 + " = 1\n", encoding="utf-8")
    statuses = []
    assert is_done_within(6, lambda: statuses.append(main(words))) and not {0, 70} & {*statuses}
    assert "more than 64 parts (at line 1)" in capsys.readouterr().err
