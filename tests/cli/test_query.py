"""`snellen query`: runs are tables, a query sees these and nothing else, and what it shows is safe to show."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from engine.stubs import ARITHMETIC, Calculator
from snellen import evaluate
from snellen.benchmarks import registry
from snellen.errors import BadRequestError, RunError
from snellen.runs import query
from snellen.types import Prompt, Response

pytestmark = pytest.mark.installed

Snellen = Callable[..., Any]
SECRET = replace(ARITHMETIC, name="secret", restricted=True)


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:ARITHMETIC")
    monkeypatch.setitem(registry.BUILT_IN, "secret", f"{__name__}:SECRET")


def rows(said: Any) -> list[list[Any]]:
    assert said.status == 0, said.err
    return json.loads(said.out)["rows"]


def test_what_the_tables_hold_is_what_the_run_says_of_itself(snellen: Snellen):
    run = evaluate(ARITHMETIC, Calculator(fail={4: [BadRequestError("too long")] * 9}), out="run", limit=40)
    (accuracy,) = rows(snellen("query", "SELECT value FROM metrics WHERE name = 'accuracy'", "run", "--json"))
    assert accuracy == [run.metric("accuracy").value]
    asked = "SELECT run, benchmark, model, asked, questions, ok, error, fingerprint FROM runs"
    assert rows(snellen("query", asked, "run", "--json")) == [
        ["run", "arithmetic", "calculator", 40, 100, 39, 1, run.meta.fingerprint]
    ]
    failed = "SELECT sample_id, status, error_kind, text FROM results WHERE status <> 'ok'"
    assert rows(snellen("query", failed, "run", "--json")) == [["q4", "error", "bad_request", None]]
    for table, of in (("results", run.records()), ("scores", run.scores("all")), ("metrics", run.metrics())):
        names = ", ".join(of.column_names)
        found = rows(snellen("query", f"SELECT {names} FROM {table}", "run", "--json"))
        assert found == [list(row.values()) for row in of.to_pylist()] and found


def test_several_runs_are_told_apart_by_their_names_and_scores_are_grouped_by_meta(snellen: Snellen):
    evaluate(ARITHMETIC, Calculator(), out="results/a", limit=30)
    evaluate(ARITHMETIC, Calculator(), out="results/b", limit=60)
    sql = "SELECT run, meta['mod'] AS mod, count(*), avg(value) FROM scores GROUP BY ALL ORDER BY ALL"
    found = rows(snellen("query", sql, "--json"))
    assert [row[:3] for row in found] == [[run, mod, n] for run, n in (("a", 10), ("b", 20)) for mod in "012"]
    assert [row[3] for row in found] == [0.9] * 6


def test_an_answer_that_came_later_counts_alone(snellen: Snellen):
    evaluate(ARITHMETIC, Calculator(fail={4: [BadRequestError("no")] * 9}), out="run", limit=6)
    evaluate(ARITHMETIC, Calculator(), out="run", limit=6)
    sql = "SELECT count(*), count(DISTINCT sample_id), count(*) FILTER (status = 'ok') FROM results"
    assert rows(snellen("query", sql, "run", "--json")) == [[6, 6, 6]]


def test_scores_alone_need_the_benchmark(snellen: Snellen, monkeypatch: pytest.MonkeyPatch):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=5)
    monkeypatch.delitem(registry.BUILT_IN, "arithmetic")
    assert rows(snellen("query", "SELECT ok FROM runs JOIN results USING (run) LIMIT 1", "run", "--json")) == [[5]]
    said = snellen("query", "SELECT * FROM scores", "run")
    assert said.status == 2 and "arithmetic" in said.err


def test_gold_of_a_restricted_benchmark_is_in_no_table(snellen: Snellen):
    evaluate(ARITHMETIC, Calculator(), out="open", limit=5)
    evaluate(SECRET, Calculator(), out="closed", limit=5)
    sql = "SELECT run, count(target) FROM scores GROUP BY run ORDER BY run"
    assert rows(snellen("query", sql, "open", "closed", "--json")) == [["closed", 0], ["open", 5]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('secret.txt')",
        "SELECT * FROM 'secret.csv'",
        "SELECT * FROM glob('*')",
        "WITH a AS (SELECT * FROM read_csv('secret.csv')) SELECT * FROM a, runs",
        "SELECT * FROM opened",
        "WITH x AS (INSERT INTO runs SELECT * FROM runs RETURNING *) SELECT * FROM x",
    ],
)
def test_a_query_reads_no_file_and_no_variable_and_writes_nothing(snellen: Snellen, sql: str):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=2)
    Path("secret.txt").write_text("hush")
    Path("secret.csv").write_text("a,b\nhush,1\n")
    said = snellen("query", sql, "run", "--json")
    assert said.status == 2 and "cannot be answered" in said.err and said.out == ""
    assert "hush" not in said.err and "scores: run, sample_id" in said.err


@pytest.mark.parametrize(
    "sql",
    [
        "COPY runs TO 'out.csv'",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT 1; DROP TABLE runs",
        "DELETE FROM runs",
        "",
    ],
)
def test_a_query_is_one_select(snellen: Snellen, sql: str):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=2)
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    said = snellen("query", sql, "run")
    assert said.status == 2 and "one SELECT" in said.err
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before
    assert not Path("out.csv").exists() and not Path("other.duckdb").exists()


def test_a_reply_cannot_speak_to_the_terminal_in_a_table_or_in_csv(snellen: Snellen):
    class Loud(Calculator):
        async def answer(self, prompt: Prompt) -> Response:
            return Response('[red]a\x1b[2J,"b"\nc')

    evaluate(ARITHMETIC, Loud(), out="run", limit=1)
    shown = snellen("query", "SELECT text FROM results", "run")
    assert "\x1b" not in shown.out and r"[red]a\x1b[2J" in shown.out
    said = snellen("query", "SELECT text, 1.5 AS x, NULL AS y FROM results", "run", "--csv")
    assert list(csv.reader(io.StringIO(said.out))) == [["text", "x", "y"], [r'[red]a\x1b[2J,"b"' + "\nc", "1.5", ""]]


def test_a_long_table_is_cut_and_says_by_how_much(snellen: Snellen):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=3)
    said = snellen("query", "SELECT range FROM range(1234)", "run")
    assert said.status == 0 and "note: 1,034 more rows" in said.err and " 199 " in said.out and " 200 " not in said.out
    assert len(snellen("query", "SELECT range FROM range(25000)", "run", "--csv").out.splitlines()) == 25_001


def test_values_that_json_has_no_word_for_are_said_all_the_same(snellen: Snellen):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=1)
    sql = "SELECT 1.5, 9223372036854775807::HUGEINT * 2, MAP {'k': [1]}, DATE '2026-01-02', 'NaN'::DOUBLE"
    assert rows(snellen("query", sql, "run", "--json")) == [
        [1.5, "18446744073709551614", {"k": [1]}, "2026-01-02", None]
    ]
    began = "make_timestamp((started_at * 1000000)::BIGINT)::VARCHAR"
    ((text,),) = rows(snellen("query", f"SELECT {began} FROM results", "run", "--json"))
    assert text.startswith("20") and len(text) >= 19


@pytest.mark.skipif(find_spec("pytz") is not None, reason="with pytz installed such a time is shown")
def test_a_time_with_a_zone_is_refused_with_another_way_to_write_it(snellen: Snellen):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=1)
    said = snellen("query", "SELECT to_timestamp(started_at) AS began FROM results", "run")
    assert said.status == 2 and "time zone" in said.err and "::VARCHAR" in said.err and "scores:" not in said.err


def test_what_is_wrong_with_a_query_is_said_with_what_there_is(snellen: Snellen):
    assert "no runs under results/" in snellen("query", "SELECT 1").err
    evaluate(ARITHMETIC, Calculator(), out="run", limit=1)
    said = snellen("query", "SELECT modle FROM runs", "run")
    assert said.status == 2 and "modle" in said.err and "runs: run, path, benchmark" in said.err
    assert snellen("query", "SELECT 1", "run", "--json", "--csv").status == 2
    assert snellen("query", "SELECT 1", "nothing").status == 5


def test_one_unreadable_run_is_left_out_by_name_of_a_query_over_all_runs(snellen: Snellen):
    for name in ("good", "gone", "moved", "other"):
        evaluate(ARITHMETIC, Calculator(), out=f"results/{name}", limit=5)
    Path("results/gone/results.jsonl").unlink()
    Path("results/gone/results.jsonl").mkdir()
    meta = Path("results/moved/run_meta.json")
    meta.write_text(meta.read_text().replace('"arithmetic"', '"nobodys"'))
    Path("results/other/run_meta.json").write_text("[]")
    for table, columns in (("runs", "run, headline"), ("results", "run"), ("scores", "run"), ("metrics", "run")):
        queried = snellen("query", f"SELECT DISTINCT {columns} FROM {table} ORDER BY 1", "--json")
        assert [row[0] for row in rows(queried)] == ["good"] + ["moved"] * (table in ("runs", "results")), queried.err
        notes = [line for line in queried.err.splitlines() if line.startswith("note: left out: ")]
        assert len(notes) == 2 + (table in ("scores", "metrics")) and any("results/gone" in line for line in notes)
    for folder in ("gone", "moved"):
        assert snellen("query", "SELECT * FROM scores", f"results/{folder}").status != 0
    shutil.rmtree("results/good")
    assert snellen("query", "SELECT * FROM scores").status != 0, "no run can be read"


def test_a_run_that_is_left_out_is_named_and_not_another_whose_name_begins_alike(snellen: Snellen):
    for name in ("run", "run_judged"):
        evaluate(ARITHMETIC, Calculator(), out=f"results/{name}", limit=3)
    Path("results/run_judged/results.jsonl").unlink()
    Path("results/run_judged/results.jsonl").mkdir()
    queried = snellen("query", "SELECT run FROM results GROUP BY 1", "--json")
    assert rows(queried) == [["run"]]
    assert [line for line in queried.err.splitlines() if "left out" in line] == [
        "note: left out: results/run_judged/results.jsonl is a folder; expected a regular file"
    ]


@pytest.mark.parametrize("field", ["repeat", "attempts"])
def test_a_number_that_no_column_takes_is_a_damaged_line(snellen: Snellen, field: str):
    run = evaluate(ARITHMETIC, Calculator(), out="results/run", limit=3)
    records = [json.loads(line) for line in run.folder.results.read_text().splitlines()]
    for record in records:
        for name in ("seq", "crc32"):
            record.pop(name, None)
    records[1][field] = 1 << 40
    records[2]["response"]["usage"] = {"input_tokens": 1 << 63, "output_tokens": 7}
    run.folder.results.write_text("".join(json.dumps(record) + "\n" for record in records))
    queried = snellen("query", "SELECT sample_id, input_tokens FROM results ORDER BY 1", "--json")
    assert rows(queried) == [["q0", rows(queried)[0][1]], ["q2", (1 << 63) - 1]]
    assert snellen("score", "results/run").status in (0, 5)


def test_from_python_two_unreadable_runs_of_one_folder_are_no_empty_answer(tmp_path):
    with pytest.raises(RunError), query.query("SELECT 1", [tmp_path, tmp_path], skip_unreadable=True):
        pass


def test_from_python_the_rows_come_as_they_are_fetched_and_the_tables_are_gone_afterwards(tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    run = evaluate(ARITHMETIC, Calculator(), out=tmp_path / "run", limit=3)
    with query.query("SELECT sample_id FROM results ORDER BY 1", [run]) as found:
        assert found.columns == ("sample_id",) and next(found.rows) == ("q0",) and list(place.iterdir())
    assert not list(place.iterdir())
    shutil.rmtree(run.path)


def test_many_long_replies_take_the_memory_of_a_few(snellen: Snellen):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=50)
    journal = Path("run/results.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    with journal.open("w") as file:
        for record in records:
            del record["seq"], record["crc32"]
            record["response"]["text"] = "word " * 1_000_000
            file.write(json.dumps(record) + "\n")
    script = """
from snellen.runs.query import query
with query("SELECT count(*), sum(length(text)) FROM results", ["run"]) as result:
    print(list(result.rows))
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    # Of a file, since DuckDB draws a bar of progress where Python has none and a query takes long.
    Path("count.py").write_text(script)
    ended = subprocess.run([sys.executable, "count.py"], capture_output=True, text=True, timeout=600, check=True)
    counts, peak = ended.stdout.splitlines()
    assert counts == "[(50, 250000000)]"
    assert int(peak) < 1_300_000, "kB; as one batch the replies took 2.1 GB"
