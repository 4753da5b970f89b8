"""The viewer's index over folders that somebody else made: everything is named, nothing is believed, no gold leaks."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import duckdb
import pytest
from run_folders import append, record, right_reply, samples_of, write_meta, write_run

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.redaction.gold import quotes
from snellen.scoring.rubric import gold_forms
from snellen.viewer.index import VERDICTS, SampleQuery, open_index
from snellen.viewer.index.sample_page import RunColumn, pattern_sql

OLD = Path(__file__).parents[1] / "fixtures" / "runs_0_1"
DIGITS = samples_of("chart/digits", 8)
RIGHT = {sample.id: right_reply(sample) for sample in DIGITS}


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the runs of version 0.1, whose data paths are relative to the working folder."""
    shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


def index_texts(folder: Path) -> list[str]:
    """Return every text in the files of an index."""
    texts = [path.read_text(errors="replace") for path in folder.rglob("*.json")]
    (file,) = folder.rglob("*.duckdb")
    with duckdb.connect(str(file), read_only=True) as database:
        for (table,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            texts += [str(value) for row in database.execute(f"FROM {table}").fetchall() for value in row]
    return texts


def test_runs_of_0_1_are_shown_with_their_verdicts(old: Path) -> None:
    index = open_index(old / "runs")
    index.refresh()
    entries = {entry.key: entry for entry in index.runs()}
    assert set(entries) == {"chart", "fgbmk", "fika", "fika_judged", "killed", "mindcube", "vlm2"}
    assert entries["killed"].state == "torn"
    assert (entries["fika_judged"].judges, entries["fika"].judged) == ("fika", "fika_judged")
    expected = json.loads((OLD / "expected" / "chart.json").read_text())["profiles"][0]["metrics"][0]
    head = entries["chart"].headline
    assert head is not None
    assert (head.name, head.value) == (expected["name"], expected["value"])
    page = index.samples(SampleQuery("fgbmk", ("fgbmk",), profile="strict"))
    counts = dict(page.verdicts[0])
    saved = json.loads((OLD / "expected" / "fgbmk.json").read_text())
    invalid = next(
        metric["value"] * metric["n"]
        for profile in saved["profiles"]
        if profile["profile"] == "strict"
        for metric in profile["metrics"]
        if metric["name"].rpartition("/")[2] == "error"
    )
    assert counts["failed"] == pytest.approx(invalid)


def test_gold_of_a_restricted_set_is_not_in_the_index_without_show_gold(old: Path) -> None:
    samples = list(registry.find("fika").samples(Data(path=Path("data/fika.zip"))))
    questions = " ".join(str(sample.prompt) for sample in samples)
    forms = [
        form for sample in samples for form in gold_forms(sample) if len(form) > 3 and not quotes(questions, [form])
    ]
    assert forms
    index = open_index(old / "runs")
    index.refresh()
    assert index.run("fika").samples == "ready"
    texts = index_texts(old / "runs" / ".snellen-index")
    assert not [text for text in texts if quotes(text, forms)]
    page = index.samples(SampleQuery("fika", ("fika",)))
    assert page.rows
    assert {row.target for row in page.rows} == {None}
    shown = open_index(old / "runs", show_gold=True)
    shown.refresh()
    assert shown.database.path != index.database.path
    assert {row.target for row in shown.samples(SampleQuery("fika", ("fika",))).rows} != {None}


def test_a_run_without_its_data_is_shown_with_replies_and_its_summary(tmp_path: Path) -> None:
    shutil.copytree(OLD / "runs" / "mindcube", tmp_path / "runs" / "mindcube")
    index = open_index(tmp_path / "runs")
    index.refresh()
    entry = index.run("mindcube")
    assert entry.samples == "unscored"
    assert entry.headline is not None
    assert not entry.verified
    page = index.samples(SampleQuery(entry.benchmark, ("mindcube",)))
    assert {row.cells[0].verdict for row in page.rows} == {"unknown"}
    assert any("verdicts are unknown" in note for note in page.notes)
    found = index.record("mindcube", page.rows[0].sample_id)
    assert found is not None
    assert found.response is not None


HOSTILE = {
    "meta is no JSON": ("run_meta.json", b"{"),
    "meta is a list": ("run_meta.json", b"[]"),
    "meta is deep": ("run_meta.json", b"[" * 100_000),
    "meta is empty": ("run_meta.json", b""),
    "summary is deep": ("summary.json", b'{"profiles":' + b"[" * 50_000),
    "summary has a wrong type": ("summary.json", b'{"profiles": [{"profile": 7, "metrics": "x"}]}'),
    "journal is binary": ("results.jsonl", os.urandom(5000).replace(b"\n", b"x") + b"\n"),
    "journal is one long line": ("results.jsonl", b"x" * (2 << 20)),
    "journal has a huge repeat": ("results.jsonl", b'{"sample_id":"a","status":"ok","repeat":999999999999}\n'),
    "journal has huge numbers": (
        "results.jsonl",
        b'{"sample_id":"a","status":"ok","attempts":99999999999999999999,"response":{"text":"x","usage":{"input_tokens":'
        b"9223372036854775807}}}\n",
    ),
    "journal has half a character": (
        "results.jsonl",
        b'{"sample_id":"\\ud800","status":"ok","response":{"text":"\\udfff"}}\n',
    ),
    "predictions are no predictions": ("predictions.jsonl", b'{"id": 5}\nnonsense\n'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_broken_folder_is_named_and_hides_no_other(name: str, tmp_path: Path) -> None:
    write_run(tmp_path / "good", "chart/digits", RIGHT, limit=8)
    write_run(tmp_path / "bad", "chart/digits", RIGHT, limit=8)
    file, content = HOSTILE[name]
    (tmp_path / "bad" / file).write_bytes(content)
    index = open_index(tmp_path)
    index.refresh()
    entries = {entry.key: entry for entry in index.runs()}
    assert set(entries) == {"bad", "good"}
    assert entries["good"].samples == "ready"
    page = index.samples(SampleQuery("chart/digits", ("good", "bad")))
    assert [row.cells[0].verdict for row in page.rows if row.sample_id in RIGHT] == ["right"] * 8
    if not name.startswith("predictions"):
        assert entries["bad"].problems or entries["bad"].state != "complete"
    index.sql("SELECT * FROM results")


def test_hostile_names_of_folders_and_samples_are_plain_text(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", "a b'\"&", "‮gnp", "%2e%2e", "x" * 200]
    for name in names:
        write_run(tmp_path / name, "chart/digits", RIGHT, limit=8)
    path = tmp_path / "ids"
    write_meta(path, "chart/digits", limit=8)
    strange = ["../../etc/passwd", "\x00\x1b[31m", "'; DROP TABLE runs; --", "x" * 50_000, ""]
    append(path, (record(name, "1") for name in strange))
    index = open_index(tmp_path)
    refresh = index.refresh()
    assert {entry.key for entry in index.runs()} == {*names, "ids"}
    assert not refresh.waiting
    page = index.samples(SampleQuery("chart/digits", ("ids",), limit=1000))
    assert set(strange) <= {row.sample_id for row in page.rows}
    for name in strange:
        assert index.record("ids", name) is not None
    inside = [path for path in (tmp_path / ".snellen-index").rglob("*") if path.is_file()]
    assert all(path.resolve().is_relative_to(tmp_path) for path in inside)


def test_links_in_a_run_folder_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(json.dumps({"sample_id": "leak", "status": "ok", "response": {"text": "TOP SECRET"}}) + "\n")
    root = tmp_path / "root"
    write_run(root / "run", "chart/digits", RIGHT, limit=8)
    (root / "run" / "results.jsonl").unlink()
    (root / "run" / "results.jsonl").symlink_to(secret)
    index = open_index(root)
    index.refresh()
    assert "TOP SECRET" not in " ".join(index_texts(root / ".snellen-index"))
    assert index.run("run").state == "torn"


@pytest.mark.parametrize("seed", range(20))
def test_patterns_on_the_index_select_what_they_select_row_by_row(seed, tmp_path_factory):
    root = _mixed_root(tmp_path_factory)
    index = open_index(root)
    index.refresh()
    draw = random.Random(seed)
    text = _pattern(draw, 3)
    every = index.samples(SampleQuery("chart/digits", ("a", "b", "c"), limit=1000))
    pattern = pattern_sql(text, [RunColumn("A"), RunColumn("B"), RunColumn("C")])
    expected = [row.sample_id for row in every.rows if fits(pattern, [cell.verdict for cell in row.cells])]
    page = index.samples(SampleQuery("chart/digits", ("a", "b", "c"), pattern=text, limit=1000))
    assert [row.sample_id for row in page.rows] == expected
    assert page.total == len(expected)


def fits(pattern: str, verdicts: list[str]) -> bool:
    """Tell whether verdicts fit a pattern, by Python's own `and`, `or` and `not`."""
    text = re.sub(r"v(\d+) IN \(([\d, ]*)\)", lambda claim: f"(codes[{claim[1]}] in [{claim[2]}])", pattern)
    for sql, python in (("::INT", ""), (" AND ", " and "), (" OR ", " or "), ("NOT ", "not "), ("false", "False")):
        text = text.replace(sql, python)
    return bool(eval(text, {"codes": [VERDICTS.index(verdict) for verdict in verdicts]}))


_MIXED: list[Path] = []


def _mixed_root(factory: pytest.TempPathFactory) -> Path:
    if not _MIXED:
        root, draw = factory.mktemp("mixed"), random.Random(5)
        for name in ("a", "b", "c"):
            replies = {
                key: draw.choice(
                    [text, text, "no idea", None, str((int(text) + 1) % 10) if text.isdigit() else "no idea"]
                )
                for key, text in RIGHT.items()
                if draw.random() < 0.8
            }
            write_run(root / name, "chart/digits", replies, model=f"openai:{name}", state="partial", limit=8)
        _MIXED.append(root)
    return _MIXED[0]


def _pattern(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.3:
        who = draw.choice(["A", "B", "C", "all", "any", "none", "most"])
        return f"{who} {'not ' if draw.random() < 0.3 else ''}{draw.choice(VERDICTS)}"
    if draw.random() < 0.25:
        return f"not ({_pattern(draw, depth - 1)})"
    return f"({_pattern(draw, depth - 1)}) {draw.choice(['and', 'or'])} ({_pattern(draw, depth - 1)})"


def test_a_verdict_of_a_judge_that_cannot_be_read_is_marked_and_sorted_first(old: Path) -> None:
    journal = old / "runs" / "fika_judged" / "results.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    changed = next(line for line in reversed(lines) if line["status"] == "ok")
    changed["response"]["text"] = "Perhaps it is right."
    for line in lines:
        line.pop("seq", None)
        line.pop("crc32", None)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    index = open_index(old / "runs")
    index.refresh()
    page = index.samples(SampleQuery("fika", ("fika",), sort="judge"))
    assert [row.sample_id for row in page.rows if row.cells[0].judge_unsure] == [changed["sample_id"]]
    assert page.rows[0].sample_id == changed["sample_id"]
    assert page.rows[0].cells[0].verdict == "unscored"
