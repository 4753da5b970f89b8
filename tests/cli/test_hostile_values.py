"""Hostile values on the command line, in tables, streams and locales: an error in words, in bounded time, never a fault.

Each is a sentence for the user and a documented exit status; 70 and a traceback are faults of Snellen's own.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command

from snellen.cli.app import build
from snellen.errors import DataError
from snellen.sources import rows

HUGE = "9" * 24
INTEGERS = (HUGE, str(1 << 63), f"-{HUGE}", "9" * 5000, "1e400")
FLOATS = ("inf", "-inf", "nan", "1e400", "1e308", "9" * 5000)
TIMEOUT_S = 600
"""Far above what any of these takes on a loaded machine; without it a hang would hang the tests."""


def options_of(kind: type) -> list[tuple[str, str]]:
    """(command, option) of every command's options with values of this kind, from the commands themselves."""
    return [
        (path, param.opts[0])
        for path, command in _commands("", get_command(build(None)))
        for param in command.params
        if param.param_type_name == "option"
        and kind in (param.type_descriptor.annotation, *get_args(param.type_descriptor.annotation))
    ]


def _commands(name: str, command: Any) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        return [(name, command)]
    return [pair for word, one in inner.items() for pair in _commands(f"{name} {word}".strip(), one)]


def expected(said: Any) -> None:
    assert said.status != 70 and "Traceback" not in said.err, said.err
    assert said.status in (0, 1, 2, 3, 4, 5, 6, 8, 9), said.err


def test_the_options_with_numbers_are_known():
    assert ("run", "--limit") in options_of(int) and ("run", "--temperature") in options_of(float)


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [*((*each, INTEGERS) for each in options_of(int)), *((*each, FLOATS) for each in options_of(float))],
)
def test_every_number_beyond_64_bits_or_not_finite_is_refused(command, option, values, snellen):
    for value in values:
        said = snellen(*command.split(), f"{option}={value}", *["x"] * 3)
        expected(said)
        assert said.status == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *product(["--limit", "--repeats", "-c", "--seed", "--max-tokens"], [HUGE, str(1 << 63)]),
        *product(["--temperature"], ["inf", "nan"]),
        ("-c", str(1 << 62)),
    ],
)
def test_a_run_with_a_number_that_no_run_has_ends_at_once(option, value, snellen):
    said = snellen("run", "lights", "-m", "pixels", option, value, "--out", "run")
    expected(said)
    assert said.status == 2 and not Path("run").exists()


@pytest.fixture
def run(snellen: Callable[..., Any]) -> Path:
    assert snellen("run", "lights", "-m", "pixels", "--limit", 3, "--out", "run", "--quiet").status == 0
    return Path("run")


READERS = (
    ("score", "run"),
    ("report", "run"),
    ("compare", "run", "other"),
    ("failures", "run"),
    ("rerun", "run"),
    ("query", "select * from results", "run"),
    ("query", "select * from runs, metrics", "run"),
    ("list", "--runs", "--results", "."),
    ("run", "lights", "-m", "pixels", "--limit", 3, "--out", "run"),
    ("run", "lights", "-m", "replay:run", "--out", "replayed"),
)
FILES = ("results.jsonl", "run_meta.json", "summary.json", "traces", "report.html", "failures.jsonl", ".lock")
KINDS = ("folder", "pipe", "unreadable", "empty", "bytes", "deep", "null")


def spoil(path: Path, kind: str) -> None:
    if path.is_dir():
        path.rename(path.with_name("moved"))
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        data = {"bytes": b"\xff\xfe\0\n" * 9, "deep": b"[" * 100_000 + b"\n", "null": b"null\n"}.get(kind, b"")
        path.write_bytes(data)
        if kind == "unreadable":
            path.chmod(0)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_folder_with_another_thing_in_place_of_a_file_is_refused_in_words(name, kind, snellen, run):
    snellen("run", "lights", "-m", "pixels", "--limit", 3, "--out", "other", "--quiet")
    spoil(run / name, kind)
    for words in READERS:
        expected(snellen(*words))


@pytest.mark.parametrize("words", [("run", "lights", "-m", "api:\udcff"), ("query", "select '\ud800'", "run"), ("score", "\udcfe"), ("run", "lights", "-m", "pixels", "--out", "b\udcffd"), ("list", "\ud800"), ("extract", "--reply", "\udc80"), ("--\udcff",), ("\udcff",)])  # fmt: skip
def test_arguments_that_are_no_text_are_refused(words, snellen, run):
    said = snellen(*words)
    expected(said)
    assert said.status == 2 and "not UTF-8" in said.err


@pytest.mark.parametrize(
    "content", [b"OPENAI_API_KEY=\xe4\xf6\xfc\n", "OPENAI_API_KEY=x\n".encode("utf-16"), b"\0" * 50, b"A=1\n" * 400_000]
)
@pytest.mark.parametrize(
    "words",
    [
        ("run", "lights", "-m", "api:m", "--base-url", "http://127.0.0.1:9/v1"),
        ("judge", "run"),
        ("judge", "run", "-m", "api:m"),
        ("submit", "easi", "run"),
        ("easi", "--model", "api:m", "--benchmarks", "embspatial", "--dataset-dir", "."),
    ],
)
def test_a_dotenv_file_that_is_no_text_is_named(words, content, snellen, run, monkeypatch):
    for name in ("OPENAI_API_KEY", "JUDGE_MODEL", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    Path(".env").write_bytes(content)
    said = snellen(*words)
    expected(said)
    assert said.status != 0


NAMES = ("\x1b[2J\x1b]0;owned\x07", "[/red]", "[link=file:///etc/passwd]x", "a\rb", "\x9b31m", "\u202eevil", "=1+1")


@pytest.mark.parametrize("name", NAMES)
def test_names_in_a_run_folder_reach_the_terminal_as_text(name, snellen, run):
    meta = json.loads((run / "run_meta.json").read_text())
    meta["spec"]["model"] = f"api:{name}"
    meta["state"] = name
    (run / "run_meta.json").write_text(json.dumps(meta))
    for words in (
        ("list", "--runs", "--results", "."),
        ("list", "--runs", "--results", ".", "--json"),
        ("score", "run"),
        ("query", "select * from runs", "run"),
        ("query", "select * from runs", "run", "--csv"),
        ("query", "select * from runs", "run", "--json"),
        ("failures", "run"),
        ("report", "run"),
        ("rerun", "run"),
    ):
        said = snellen(*words)
        expected(said)
        assert not set(said.out + said.err) & {"\x1b", "\x07", "\x9b", "\u202e"}, words


def test_csv_of_a_query_quotes_formulas_and_leaves_numbers(snellen, run):
    texts = [
        "=cmd|' /C calc'!A0",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u00a0+1",
        "\ufeff=1",
        "\u200b@x",
        "\uff1d1",
        "\uff0d1",
        "\ufe621",
        "plain",
        "1=1",
        "a -1",
        "\x1b[31mred",
    ]
    values = ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
    said = snellen("query", f'select unnest([{values}]) as "=head", -1 as n, -1.5 as x, cast(-2.5 as decimal(4,1)) as d', "run", "--csv")  # fmt: skip
    assert said.status == 0
    header, *lines = csv.reader(io.StringIO(said.out, newline=""))
    assert header == ["'=head", "n", "x", "d"]
    assert all(line[1:] == ["-1", "-1.5", "-2.5"] for line in lines)
    cells = [line[0] for line in lines]
    assert cells[:-4] == ["'" + text.replace("\r", "\\r") for text in texts[:-4]]
    assert cells[-4:] == ["plain", "1=1", "a -1", "\\x1b[31mred"]


def sheet(path: Path, body: str, dimension: str = "", shared: str = "", before: str = "") -> Path:
    """An .xlsx of one sheet, made of its XML."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    of = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kinds}.worksheet+xml"/><Override PartName="/xl/sharedStrings.xml" ContentType="{kinds}.sharedStrings+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type="{of}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{of}"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type="{of}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'{before}<worksheet xmlns="{main}">{dimension}<sheetData>{body}</sheetData></worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">{shared}</sst>',
    }  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


HEAD = f'<row r="1">{cell("A1", "index")}{cell("B1", "prediction")}</row>'


@pytest.mark.parametrize("dimension", ["A1:XFD1048576", "A1:B1048576", "A1:XFD2", "A1", "A1:ZZZ99999999"])
def test_what_a_sheet_says_of_its_size_is_not_believed(dimension, tmp_path):
    path = sheet(
        tmp_path / "a.xlsx", f'{HEAD}<row r="2">{cell("A2", "1")}{cell("B2", "x")}</row>', f'<dimension ref="{dimension}"/>'
    )  # fmt: skip
    assert list(rows(path)) == [{"index": "1", "prediction": "x"}]


def test_cells_far_to_the_right_of_the_header_cost_nothing(tmp_path):
    body = "".join(f'<row r="{i}">{cell(f"A{i}", "1")}{cell(f"XFD{i}", "y")}</row>' for i in range(2, 3000))
    assert len(list(rows(sheet(tmp_path / "a.xlsx", HEAD + body)))) == 2998


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    "attack",
    [
        {"body": f'{HEAD}<row r="99999999999">{cell("A2", "1")}</row>'},
        {"body": f'{HEAD}<row r="1048577">{cell("A2", "1")}</row>'},
        {"body": f'{HEAD}<row r="2e6">{cell("A2", "1")}</row>'},
        {"body": f'<row r="1">{cell("ZZZZZZZZ1", "1")}</row>'},
        {"body": f'<row r="1">{cell("XFE1", "1")}</row>'},
        {"body": f'<row r="1">{cell("A99999999999", "1")}</row>'},
        {"body": HEAD + "<row/>" * 1_048_577},
        {"body": f'<row r="1">{cell("A1", "&b;")}</row>', "before": ENTITIES},
        {"body": HEAD, "shared": "<si><t>x</t></si>" * 3_000_000},
        {"body": "<a>" * 5_000 + "</a>" * 5_000},
        {"body": HEAD + f'<row r="2"><c r="A2"><f t="shared" si="0">{"A1+" * 20_000}1</f></c></row>' + "".join(f'<row r="{i}"><c r="A{i}"><f t="shared" si="0"/></c></row>' for i in range(3, 9_000))},
    ],
)  # fmt: skip
def test_sheets_that_no_program_writes_are_refused_before_they_are_built(attack, tmp_path):
    path = sheet(tmp_path / "a.xlsx", **attack)
    with pytest.raises(DataError):
        list(rows(path))


@pytest.mark.parametrize("words", [*READERS, ("view", ".", "--export", "pages"), ("merge", "merged", "run")])
def test_a_pipe_in_place_of_the_lock_of_a_run_that_seems_to_go_on_is_not_waited_for(words, run):
    """`.writer` says that somebody writes; whether he holds the lock is then looked up."""
    spoil(run / ".lock", "pipe")
    (run / ".writer").write_text("1")
    done = subprocess.run([sys.executable, "-m", "snellen", *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT_S)  # fmt: skip
    assert done.returncode in (0, 2, 3, 5, 9) and "Traceback" not in done.stderr, done.stderr


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the installed program in a shell of its own, `snellen` being this interpreter's."""
    program = f"snellen() {{ '{sys.executable}' -m snellen \"$@\"; }}; "
    env = {**os.environ, **environment}
    return subprocess.run(
        ["bash", "-c", program + command], cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S
    )


PRINTING = ("--help", "list", "list --json", "run --help", "score run", "score run --json", "doctor --json", "query 'select 1' run --csv", "query 'select 1' run", "report run", "rerun run --json", "rerun run", "extract --help")  # fmt: skip


@pytest.mark.parametrize("command", PRINTING)
@pytest.mark.parametrize("target", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_an_error_with_a_status_of_its_own(command, target, run):
    done = shell(f"snellen {command} {target}", Path.cwd())
    assert done.returncode == 6, done.stderr
    assert (
        "standard output" in done.stderr and "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    )


@pytest.mark.parametrize("command", PRINTING[:5])
@pytest.mark.parametrize("target", ["2>/dev/full", "2>&-", "<&-", "2>/dev/full </dev/full"])
def test_notes_that_cannot_be_written_do_not_stop_a_command(command, target, run):
    done = shell(f"snellen {command} {target}", Path.cwd())
    assert done.returncode == 0 and done.stdout


def test_nothing_is_printed_into_a_file_of_the_run_where_the_streams_are_closed(run):
    before = (run / "results.jsonl").read_bytes()
    shell("snellen rerun run >&- 2>&-; snellen score run >&- 2>&- <&-", Path.cwd())
    assert (run / "results.jsonl").read_bytes() == before
    json.loads((run / "summary.json").read_text())


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])  # fmt: skip
def test_paths_with_umlauts_work_in_a_locale_without_them(locale, run):
    done = shell("mkdir -p Übung && cd Übung && snellen run lights -m pixels --limit 2 --out Größe && snellen score Größe && snellen list --runs --results . --json", Path.cwd(), **locale)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Größe" in done.stdout and Path("Übung/Größe/results.jsonl").exists()


def test_a_folder_whose_name_is_not_utf8_is_refused(run):
    done = shell("snellen run lights -m pixels --limit 1 --out $'b\\xffd'", Path.cwd())
    assert done.returncode == 2 and "not UTF-8" in done.stderr


DEEP_JSON = '{"a":' * 100_000 + "1" + "}" * 100_000
DEEP_TOML = "a = " + "[" * 100_000
LONG_NUMBER = "a = " + "1" * 5_000
"""Python refuses to read a whole number of more than 4,300 digits, with another error than that for bad TOML."""


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "hostile.json",
            DEEP_JSON,
            ("run", "chart", "-m", "api:x", "--base-url", "http://127.0.0.1:9/v1", "--extra-body", "@hostile.json"),
        ),
        (
            "hostile.json",
            DEEP_JSON,
            ("run", "chart", "-m", "tools:x", "--base-url", "http://127.0.0.1:9/v1", "--tools", "hostile.json"),
        ),
        *(
            (f"hostile{ending}", text, words)
            for ending, text in ((".toml", DEEP_TOML), (".toml", LONG_NUMBER))
            for words in (
                ("score", "run", "--prices", "hostile.toml"),
                ("judge", "run", "-m", "embedded", "--rubric", "hostile.toml"),
                ("build", "questions", "--images", ".", "--templates", "hostile.toml", "--out", "built"),
            )
        ),
        ("benchmark.json", DEEP_JSON, ("run", ".", "-m", "embedded")),
        ("benchmark.json", '{"name": "x", "settings": ' + DEEP_JSON + "}", ("run", ".", "-m", "embedded")),
    ],
)
def test_deep_nesting_and_endless_numbers_in_a_users_file_are_an_error_that_names_it(name, text, words, snellen, run):
    Path(name).write_text(text)
    said = snellen(*words)
    assert said.status in (2, 3, 4, 5) and "Traceback" not in said.err and "fault in snellen" not in said.err
    assert "hostile" in said.err or name in said.err or "--extra-body" in said.err


@pytest.mark.parametrize("address", ["host:²", "host:" + "9" * 5000, "host:0", "host:65536"])
def test_a_port_that_is_none_is_refused(address, snellen):
    """Some characters count as digits and are no number."""
    said = snellen("run", "chart", "--model", "embedded", "--ray", address)
    assert said.status == 2 and "expected auto, HOST:PORT or ray://HOST:PORT" in said.err
