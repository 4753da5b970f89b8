"""`snellen import`: anybody's file of answers becomes a run folder like any other."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import snellen
from engine.stubs import ARITHMETIC, Calculator
from formats.logs import inspect_sample, write_eval, write_lines
from runs.judge.judge_server import JudgeServer
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.errors import DataError, RunError, SnellenError, UsageError
from snellen.types import Prompt, Sample, Text

N = 20


def integers(ids: list[str]) -> Any:
    """The arithmetic benchmark with these ids: what is asked at a place stays the same."""

    def samples(data: Data) -> Any:
        for i, name in enumerate(ids):
            yield Sample(name, Prompt((Text(f"What is {i} mod 7?"),)), i % 7, "count", meta={"mod": str(i % 3)})

    return replace(ARITHMETIC, name="numbered", samples=samples, size=lambda data: len(ids))


NAMED = integers([f"q{i}" for i in range(N)])
IN_ORDER = integers([str(i) for i in range(N)])
FROM_ONE = integers([str(i + 1) for i in range(N)])
SHUFFLED = integers([str(i * 7 % N) for i in range(N)])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, place in {
        "named": "NAMED",
        "in-order": "IN_ORDER",
        "from-one": "FROM_ONE",
        "shuffled": "SHUFFLED",
    }.items():
        monkeypatch.setitem(registry.BUILT_IN, name, f"{__name__}:{place}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reply(i: int) -> str:
    """What the recorded model said: wrong at every fifth question."""
    return str(i % 7 if i % 5 else 9)


def table(path: str, rows: list[list[Any]], mark: str = ",") -> Path:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=mark).writerows(rows)
    return Path(path)


def workbook(path: str, rows: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return Path(path)


def rows_of(head: list[str]) -> list[list[Any]]:
    return [head, *([f"q{i}", reply(i)] for i in range(N))]


FORMS: dict[str, Callable[[], Path]] = {
    "csv": lambda: table("a.csv", rows_of(["id", "reply"])),
    "jsonl": lambda: write_lines(Path("a.jsonl"), [{"id": f"q{i}", "response": reply(i)} for i in range(N)]),
    "kit-xlsx": lambda: workbook(
        "m_Set.xlsx",
        [["index", "question", "answer", "prediction"], *([f"q{i}", "?", i % 7, reply(i)] for i in range(N))],
    ),
    "answers": lambda: table("a.csv", rows_of(["ID", "Answer"])),
    "kit-tsv": lambda: table("m_Set.tsv", rows_of(["index", "prediction"]), "\t"),
    "lmms-eval": lambda: write_lines(
        Path("20260101_samples_sums.jsonl"),
        [{"doc_id": i, "target": str(i % 7), "resps": [[reply(i)]], "filtered_resps": ["-"]} for i in range(N)],
    ),
    "eval": lambda: write_eval(Path("log.eval"), [inspect_sample(f"q{i}", reply(i)) for i in range(N)]),
    "eval-numbered": lambda: write_eval(Path("log.eval"), [inspect_sample(i + 1, reply(i)) for i in range(N)]),
    "inspect-json": lambda: write_lines(
        Path("log.json"),
        [json.dumps({"version": 2, "eval": {}, "samples": [inspect_sample(f"q{i}", reply(i)) for i in range(N)]})],
    ),
    "positions": lambda: table("p.csv", [["idx", "prediction"], *([i, reply(i)] for i in range(N))]),
    "reversed": lambda: table("r.csv", [["id", "reply"], *([f"q{i}", reply(i)] for i in reversed(range(N)))]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_becomes_a_run_that_scores_as_the_model_did(form):
    run = snellen.import_run(FORMS[form](), "named", out="results/theirs", model="their-vlm")
    metric = run.metric("accuracy")
    assert (metric.value, metric.n, metric.coverage) == (16 / N, N, 1.0)
    assert run.meta.state == "complete" and run.meta.spec.model == "imported:their-vlm"
    assert [record.sample_id for record in run.folder.records()] == [f"q{i}" for i in range(N)]
    origin = run.meta.imported
    assert origin is not None and origin["digest"].startswith("sha256:") and origin["model_settings"] == "unknown"
    assert "imported" in " ".join(run.notes())
    assert snellen.load_run("results/theirs").figures("all") == run.figures("all")


def test_our_own_run_and_its_export_come_back_with_the_same_figures():
    first = snellen.evaluate(NAMED, Calculator(fail={3: [RunError("no")] * 9}), out="results/first", max_attempts=1)
    wanted = first.figures("all")
    (rows,) = snellen.export(first, "jsonl", out="rows").files
    for number, source in enumerate(("results/first", "results/first/results.jsonl", rows)):
        assert snellen.import_run(source, "named", out=f"results/again{number}").figures("all") == wanted


def test_flaws_of_a_file_are_named_and_counted_and_lower_the_coverage(capsys):
    rows: list[list[Any]] = [[f"q{i}", reply(i)] for i in range(10)]
    rows += [["q2", "0"], ["elsewhere", "1"], ["q10", ""], ["q11", "Failed to obtain answer via API."], ["", "5"]]
    file = table("a.csv", [["index", "prediction"], *rows])
    assert main(["import", str(file), "--benchmark", "named", "--out", "results/theirs"]) == 0
    printed = capsys.readouterr().err
    assert "8 of 20 questions have no answer in the file" in printed and "60.0%" in printed
    assert "1 row without a sample" in printed and "'elsewhere'" in printed and "line 13" in printed
    assert "1 row left out, because the question has an answer already" in printed and "line 12: 'q2'" in printed
    assert "2 rows without a text" in printed and "'q10'" in printed and "'q11'" in printed
    assert "1 row that could not be used" in printed and "line 16: there is no id" in printed
    run = snellen.load_run("results/theirs")
    metric = run.metric("accuracy")
    assert (metric.n, metric.coverage) == (12, 12 / N) and metric.value == pytest.approx(8 / 12)
    assert run.meta.state == "partial"
    assert run.meta.imported is not None and run.meta.imported["counts"] == {
        "questions": 20, "repeats": 1, "rows": 14, "answered": 10, "without_reply": 2, "empty": 0,
        "unmatched": 1, "duplicates": 1, "unusable": 1,
    }  # fmt: skip


def test_more_rows_than_questions_are_said_with_the_ids_that_are_too_many(capsys):
    file = table("a.csv", [["id", "reply"], *([i + 1, reply(i)] for i in range(N + 3))])
    assert main(["import", str(file), "--benchmark", "from-one", "--out", "r"]) == 0
    printed = capsys.readouterr().err
    assert "23 rows for 20 questions" in printed and "3 rows without a sample" in printed and "'21'" in printed
    assert snellen.load_run("r").metric("accuracy").value == 16 / N


@pytest.mark.parametrize("benchmark", ["shuffled", "from-one"])
def test_ids_that_could_be_positions_are_refused_until_the_user_decides(benchmark, capsys):
    file = table("a.csv", [["id", "reply"], *([i, reply(i)] for i in range(N))])
    assert main(["import", str(file), "--benchmark", benchmark, "--out", "r"]) == 2
    printed = capsys.readouterr().err
    assert "ids of the samples" in printed and "positions from 0" in printed
    assert "--id-is id" in printed and "--id-is position" in printed and not Path("r/run_meta.json").exists()
    assert main(["import", str(file), "--benchmark", benchmark, "--out", "r", "--id-is", "position"]) == 0
    assert snellen.load_run("r").metric("accuracy").value == 16 / N
    assert snellen.load_run("r").meta.imported["id_is"] == "position"  # type: ignore[index]
    assert main(["import", str(file), "--benchmark", benchmark, "--out", "by-id", "--id-is", "id"]) == 0
    assert snellen.load_run("by-id").metric("accuracy").value != 16 / N


def test_ids_that_are_their_own_positions_need_no_decision():
    file = table("a.csv", [["id", "reply"], *([i, reply(i)] for i in range(N))])
    run = snellen.import_run(file, "in-order", out="r")
    assert run.metric("accuracy").value == 16 / N and run.meta.imported["id_is"] == "id"  # type: ignore[index]


def test_ids_of_a_whole_benchmark_are_ids_although_most_would_be_positions_too():
    file = table("a.csv", [["id", "reply"], *([i + 1, reply(i)] for i in range(N))])
    assert snellen.import_run(file, "from-one", out="r").metric("accuracy").value == 16 / N


@pytest.mark.parametrize(("first", "reading"), [(0, "position"), (1, "ordinal")])
def test_numbers_of_rows_count_from_where_the_file_counts(first, reading):
    file = table("a.csv", [["index", "prediction"], *([i + first, reply(i)] for i in range(N))])
    for id_is in (None, "index"):
        run = snellen.import_run(file, "named", out=f"r-{id_is}", id_is=id_is)
        assert run.metric("accuracy").value == 16 / N
        assert run.meta.imported["id_is"] == reading  # type: ignore[index]


def test_numbers_that_could_count_from_0_or_from_1_are_refused():
    file = table("a.csv", [["index", "prediction"], *([i, reply(i)] for i in range(1, 9))])
    with pytest.raises(UsageError, match="positions from 0 or numbers from 1"):
        snellen.import_run(file, "named", out="r")


def test_rows_counted_from_1_are_not_read_as_ids_that_count_from_0(capsys):
    file = table("a.csv", [["nr", "said"], *([i + 1, reply(i)] for i in range(N))])
    words = ["import", str(file), "--benchmark", "in-order", "--id-field", "nr", "--reply-field", "said", "--out", "r"]
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert "as ids of the samples: 19 of 20 have a sample; '1' is sample '1'" in printed
    assert "as numbers from 1: 20 of 20 have a sample; '1' is sample '0'" in printed
    assert not Path("r/run_meta.json").exists()
    assert main([*words, "--id-is", "ordinal"]) == 0
    assert snellen.load_run("r").metric("accuracy").value == 16 / N


def test_scores_of_rows_counted_from_1_come_with_the_option_that_reads_them(capsys):
    file = table("a.csv", [["id", "reply"], *([i + 1, reply(i)] for i in range(N))])
    assert main(["score", str(file), "--benchmark", "in-order"]) == 0
    assert "counts its rows from 1, pass --id-is ordinal" in " ".join(capsys.readouterr().err.split())
    assert main(["score", str(file), "--benchmark", "in-order", "--id-is", "ordinal"]) == 0
    assert "--id-is" not in capsys.readouterr().err


def test_a_file_of_another_benchmark_is_refused_with_the_ids_of_both_sides():
    file = table("a.csv", [["id", "reply"], ["img_1", "A"], ["img_2", "B"]])
    with pytest.raises(DataError, match=r"'img_1'.*'q0'"):
        snellen.import_run(file, "named", out="r")
    for id_is in ("id", "position", "ordinal"):
        with pytest.raises(DataError, match="'img_1'"):
            snellen.import_run(file, "named", out="r", id_is=id_is)
    with pytest.raises(UsageError, match="no meta field"):
        snellen.import_run(file, "named", out="r", id_is="colour")
    with pytest.raises(UsageError, match="--model is empty"):
        snellen.import_run(FORMS["csv"](), "named", out="r", model=" ")
    assert not Path("r").exists()


def test_repeats_of_a_file_are_repeats_of_the_run():
    samples = [inspect_sample(f"q{i}", reply(i), epoch=epoch) for i in range(N) for epoch in (1, 2)]
    run = snellen.import_run(write_eval(Path("log.eval"), samples), "named", out="r")
    assert run.meta.spec.repeats == 2 and run.metric("accuracy").value == 16 / N
    rows = [{"id": "q0", "reply": "0", "repeat": 0}, {"id": "q0", "reply": "0", "repeat": 999_999}]
    huge = snellen.import_run(write_lines(Path("b.jsonl"), rows), "named", out="huge")
    assert huge.meta.spec.repeats == 1000 and any("at most 1,000" in line for line in huge.remarks)


def test_a_folder_with_another_run_is_left_as_it_is():
    file = FORMS["csv"]()
    snellen.import_run(file, "named", out="r")
    before = Path("r/results.jsonl").read_bytes()
    snellen.import_run(file, "named", out="r")
    assert Path("r/results.jsonl").read_bytes() == before
    other = table("b.csv", [["id", "reply"], ["q0", "1"]])
    with pytest.raises(RunError, match=r"holds other imported answers(.|\n)*model.answers"):
        snellen.import_run(other, "named", out="r")
    assert Path("r/results.jsonl").read_bytes() == before
    assert snellen.import_run(other, "named", out="r", replace=True).metric("accuracy").n == 1
    snellen.evaluate(NAMED, Calculator(), out="asked")
    with pytest.raises(RunError, match="were not imported"):
        snellen.import_run(file, "named", out="asked", replace=True)


def test_an_imported_run_is_used_like_any_other_and_cannot_be_asked_again(capsys, monkeypatch):
    snellen.import_run(FORMS["csv"](), "named", out="r", model="them")
    snellen.import_run(table("b.csv", [["id", "reply"], *([f"q{i}", "0"] for i in range(N))]), "named", out="b")
    assert main(["compare", "r", "b"]) == 0 and "imported" in capsys.readouterr().err
    assert main(["report", "r", "b", "--out", "page.html"]) == 0
    assert "a.csv" in Path("page.html").read_text() and "sha256:" in Path("page.html").read_text()
    capsys.readouterr()
    assert main(["query", "SELECT count(*) AS n FROM results", "r", "--json"]) == 0
    assert f"[[{N}]]" in capsys.readouterr().out
    assert main(["export", "r", "--format", "jsonl", "--out", "rows"]) == 0
    assert main(["failures", "r"]) == 0
    assert main(["list", "--runs", "--results", "."]) == 0 and "imported:them" in capsys.readouterr().out
    snellen.redact(snellen.load_run("r"), "public")
    assert "model_settings" in "".join(p.read_text() for p in Path("public").rglob("*.json"))
    marked = table("m.csv", [["id", "reply"], *([f"q{i}", "[[right]]" if i else "[[wrong]]"] for i in range(N))])
    snellen.import_run(marked, "named", out="m")
    with JudgeServer() as judge:
        monkeypatch.setenv("JUDGE_API_KEY", "x")
        judged = snellen.judge("m", "api:stub-judge", base_url=judge.url)
    assert judged.meta.totals.ok == N and judged.metric("accuracy").value == (N - 1) / N
    capsys.readouterr()
    assert main(["rerun", "r"]) == 5 and "no model to ask" in capsys.readouterr().err
    assert main(["run", "named", "-m", "replay:a.csv", "--out", "r"]) == 5
    assert "cannot be resumed" in capsys.readouterr().err


HOSTILE = {
    "nothing": b"",
    "zeros": b"\0" * 4096,
    "deep": b"[" * 100_000,
    "no-zip": b"PK\x03\x04" + b"\xff" * 200,
    "latin": "id,reply\nq0,\xe9\n".encode("latin-1"),
    "utf16": "id,reply\nq0,1\n".encode("utf-16"),
    "wide": b"id,reply\n" + b"q0," + b"x" * 70_000_000 + b"\n",
    "bel": b"id,reply\n\x1b]0;owned\x07,1\n",
    "link": b"id,reply\n../../etc/passwd,1\n",
    "list": b'{"id": ["q0"], "reply": {"a": 1}}\n',
}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".xlsx", ".eval", ".parquet", ".tsv", ".txt"])
@pytest.mark.parametrize("content", HOSTILE)
def test_a_broken_file_is_an_error_in_words_and_leaves_no_run(content, suffix, capsys):
    if content == "wide" and suffix not in (".csv", ".jsonl"):
        pytest.skip("the same reader")
    Path(f"bad{suffix}").write_bytes(HOSTILE[content])
    status = main(["import", f"bad{suffix}", "--benchmark", "named", "--out", "r"])
    printed = capsys.readouterr().err
    assert "Traceback" not in printed and "\x1b" not in printed and "fault in snellen" not in printed
    if status == 0:  # a row with a real id in it is a row
        assert content in ("latin", "wide") and snellen.load_run("r").meta.totals.ok <= 1
    else:
        assert status in (2, 3, 5) and not Path("r/run_meta.json").exists()


def test_a_bomb_in_a_workbook_is_refused():
    with zipfile.ZipFile("bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/workbook.xml", b"0" * (300 << 20))
    with pytest.raises(SnellenError):
        snellen.import_run("bomb.xlsx", "named", out="r")


def test_a_column_of_answers_that_are_all_gold_is_said(capsys):
    gold = table("gold.csv", [["id", "answer"], *([f"q{i}", i % 7] for i in range(N))])
    run = snellen.import_run(gold, "named", out="r")
    assert run.metric("accuracy").value == 1.0 and any("every reply is the gold answer" in line for line in run.remarks)
    both = table("both.csv", [["id", "answer", "prediction"], *([f"q{i}", i % 7, "0"] for i in range(N))])
    run = snellen.import_run(both, "named", out="both")
    assert run.metric("accuracy").value == 3 / N and not run.remarks[1:]


def test_a_hundred_thousand_answers_in_any_order_take_little_memory_and_time(tmp_path):
    import random
    import subprocess
    import sys

    order = list(range(100_000))
    random.Random(3).shuffle(order)
    table("many.csv", [["id", "reply"], *([f"q{i}", i % 7] for i in order)])
    code = (
        "import re, snellen, sys; sys.path.insert(0, sys.argv[1])\n"
        "from engine.stubs import ARITHMETIC\n"
        "run = snellen.import_run('many.csv', ARITHMETIC, out='r', benchmark_options={'n': '100000'})\n"
        "assert run.metric('accuracy').value == 1.0\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) >> 10)"
    )
    tests = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code, tests], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300, f"{done.stdout} MB"


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_the_model_that_a_log_names_is_the_label(suffix):
    samples = [inspect_sample(f"q{i}", reply(i)) for i in range(N)]
    path = Path(f"log{suffix}")
    header = {"version": 2, "eval": {"task": "t", "model": "openai/gpt-\x1b[31m6"}}
    if suffix == ".json":
        path.write_text(json.dumps({**header, "samples": samples}))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", json.dumps(header))
            for sample in samples:
                archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    run = snellen.import_run(path, "named", out="r")
    assert run.meta.spec.model.startswith("imported:openai/gpt-") and run.meta.spec.model.isprintable()


def test_an_import_maps_the_columns_of_a_users_own_table_like_a_run():
    lines = ["nr,asked,first,second,right"] + [f"q{i},Is {i} even?,yes,no,{'AB'[i % 2]}" for i in range(12)]
    Path("odd.csv").write_text("\n".join(lines) + "\n")
    file = table("a.csv", [["id", "answer"], *([i, "A"] for i in range(12))])
    words = ["--benchmark", "odd.csv", "--map", "question=asked,options=first+second,answer=right", "--out", "r"]
    assert main(["import", str(file), *words]) == 0
    assert snellen.load_run("r").metric("accuracy").value == 0.5
