"""`snellen export`: a run in another program's format, whole and the same each time, gold only where it may be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.stubs import ARITHMETIC, Calculator
from snellen import Run, evaluate
from snellen.benchmarks import registry
from snellen.errors import BadRequestError, DataError, RefusalError
from snellen.formats.writers import Exported, Writer, write_lines
from snellen.runs.export import export, file_name
from snellen.types import Record, Sample

pytestmark = pytest.mark.installed

Snellen = Callable[..., Any]


def golden(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
    """Question by question, with the gold answer."""
    rows: list[object] = [{"id": sample.id, "gold": sample.target} for sample, _ in answers]
    return Exported((write_lines(folder / "deep" / f"{model}.{stamp}.jsonl", rows),), ("gold is in it",))


def breaking(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
    """Ends in the middle."""
    (folder / "half.txt").write_text("half")
    raise DataError("a row that cannot be written", "Mend it.")


SUMS = replace(ARITHMETIC, exports={"golden": golden, "breaking": breaking})
SECRET = replace(SUMS, name="secret", restricted=True)


@pytest.fixture(autouse=True)
def arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:SUMS")
    monkeypatch.setitem(registry.BUILT_IN, "secret", f"{__name__}:SECRET")


def rows(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def files(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def test_without_a_format_it_lists_the_benchmarks_own_and_those_for_any(snellen: Snellen):
    evaluate(SUMS, Calculator(), out="run", limit=3)
    said = snellen("export", "run")
    assert said.status == 0
    names = [
        "golden",
        "breaking",
        "jsonl",
        "lmms-eval",
        "vlmevalkit",
        "atif",
        "lm-eval",
        "inspect",
        "eee",
        "hf",
        "eval-yaml",
        "latex",
        "csv",
        "markdown",
        "json",
    ]
    assert [line.split()[0] for line in said.out.splitlines()] == names
    assert "Question by question, with the gold answer." in said.out
    assert list(json.loads(snellen("export", "run", "--json").out)["formats"]) == names
    assert not Path("run/exports").exists()


def test_plain_lines_hold_every_final_answer_in_the_order_of_the_questions(snellen: Snellen):
    fails: dict[int, list[Exception]] = {4: [BadRequestError("too long")], 7: [RefusalError("no")]}
    evaluate(SUMS, Calculator(fail={2: [BadRequestError("later fine")], **fails}), out="run", limit=10)
    evaluate(SUMS, Calculator(fail={4: [BadRequestError("too long")]}), out="run", limit=10)
    said = snellen("export", "run", "--format", "jsonl", "--out", "out")
    assert said.status == 0
    (path,) = said.out.split()
    found = rows(path)
    assert [row["sample_id"] for row in found] == [f"q{i}" for i in range(10)]
    assert found[2] == {"sample_id": "q2", "repeat": 0, "status": "ok", "reply": "2", "failure": None}
    assert found[4]["reply"] is None and found[4]["failure"]["kind"] == "bad_request"
    assert found[7]["status"] == "refused" and found[7]["reply"] is None
    assert "note: 2 samples have no reply; it is null" in said.err
    assert "note: only the first 10 of 100 samples were run" in said.err


def test_exported_lines_are_scored_as_the_run_is(snellen: Snellen):
    evaluate(SUMS, Calculator(), out="run", repeats=2)
    (path,) = json.loads(snellen("export", "run", "--format", "jsonl", "--json").out)["files"]
    assert Path(path).parent == Path("run/exports/jsonl")
    own = snellen("score", "run", "--json")
    assert snellen("score", path, "--benchmark", "arithmetic", "--json").out == own.out


def test_files_are_named_after_the_model_and_the_start_of_the_run(snellen: Snellen):
    run = evaluate(SUMS, Calculator(), out="run", limit=30)
    first = min(record.started_at for record in run.folder.records())
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime(first))
    before = snellen("export", "run", "--format", "golden", "--out", "out")
    assert before.out.split() == [f"out/deep/calculator.{stamp}.jsonl"]
    content = Path(before.out.strip()).read_bytes()
    evaluate(SUMS, Calculator(), out="run")  # what came later does not rename it
    after = snellen("export", "run", "--format", "golden", "--out", "out")
    assert after.out == before.out and Path(after.out.strip()).read_bytes().startswith(content)
    assert [str(path) for path in files("out")] == after.out.split()


def test_a_time_zone_does_not_rename_it(snellen: Snellen, monkeypatch: pytest.MonkeyPatch):
    evaluate(SUMS, Calculator(), out="run", limit=3)
    names = set()
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        names.add(snellen("export", "run", "--format", "golden", "--out", "out").out)
    monkeypatch.undo()
    time.tzset()
    assert len(names) == 1


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("api:gpt-4o", "gpt-4o"),
        ("local:Qwen/Qwen2.5-VL-7B", "Qwen-Qwen2.5-VL-7B"),
        ("replay:../../etc/passwd", "replay-..-..-etc-passwd"),
        ("api:../..", "model"),
        ("api:模型", "model"),
        ("a" * 300, "a" * 100),
        ("x\n\x00:*?", "x"),
    ],
)
def test_a_models_name_is_safe_in_a_files_name(model: str, name: str):
    assert file_name(model) == name
    assert "/" not in name and not name.startswith((".", "-"))


def test_a_writer_that_fails_leaves_nothing_behind(snellen: Snellen):
    evaluate(SUMS, Calculator(), out="run", limit=3)
    said = snellen("export", "run", "--format", "breaking", "--out", "out")
    assert said.status == 3 and "a row that cannot be written" in said.err
    assert not any(Path("out").iterdir())


def test_gold_of_a_restricted_benchmark_is_written_only_when_told_to(snellen: Snellen):
    evaluate(SECRET, Calculator(), out="run", limit=3)
    said = snellen("export", "run", "--format", "golden", "--out", "out")
    assert said.status == 2 and "restricted" in said.err and "--show-gold" in said.err
    assert not Path("out").exists()
    (path,) = snellen("export", "run", "--format", "golden", "--out", "out", "--show-gold").out.split()
    assert [row["gold"] for row in rows(path)] == [0, 1, 2]
    (plain,) = snellen("export", "run", "--format", "jsonl", "--out", "out").out.split()
    assert all(set(row) == {"sample_id", "repeat", "status", "reply", "failure"} for row in rows(plain))


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("nowhere", "--format", "jsonl"), 5, "there is no run in nowhere"),
        (
            ("run", "--format", "gif"),
            2,
            "There is: golden, breaking, jsonl, lmms-eval, vlmevalkit, atif, lm-eval, inspect, eee, hf, eval-yaml, latex, csv",
        ),
        (("run", "--format", "jsonl", "--out", "run/results.jsonl"), 2, "named like a file"),
        (("run", "--format", "jsonl", "--out", "run/.lock"), 6, "cannot write run/.lock"),
        (("run", "--format", "jsonl", "-o", "colour=1"), 2, "has no option 'colour'"),
    ],
)
def test_what_cannot_be_exported_says_why(snellen: Snellen, words: tuple[str, ...], status: int, complaint: str):
    evaluate(SUMS, Calculator(), out="run", limit=3)
    said = snellen("export", *words)
    assert said.status == status and complaint in said.err and "Traceback" not in said.err


def test_a_run_without_an_answer_has_nothing_to_export(snellen: Snellen):
    run = evaluate(SUMS, Calculator(), out="run", limit=3)
    run.folder.results.write_bytes(b"")
    said = snellen("export", "run", "--format", "jsonl", "--out", "out")
    assert said.status == 5 and "holds no answers" in said.err and not Path("out").exists()


def test_records_of_other_questions_are_refused_and_nothing_is_written(snellen: Snellen):
    run = evaluate(SUMS, Calculator(), out="run", limit=3)
    records = [json.loads(line) for line in run.folder.results.read_text().splitlines()]
    old = [{name: value for name, value in one.items() if name not in ("seq", "crc32")} for one in records]
    text = "".join(json.dumps(one) + "\n" for one in old)  # without a checksum, as version 0.1 wrote them
    run.folder.results.write_text(text.replace('"q1"', '"elsewhere"'))
    said = snellen("export", "run", "--format", "jsonl", "--out", "out")
    assert said.status == 3 and "'elsewhere' belongs to no sample" in said.err
    assert not any(Path("out").iterdir())


def test_a_run_of_an_unregistered_benchmark_is_exported_from_python(tmp_path: Path):
    writer: Writer = golden
    unnamed = replace(ARITHMETIC, name="unnamed", exports={"golden": writer})
    run: Run = evaluate(unnamed, Calculator(), out=tmp_path / "run", limit=4)
    done = export(run, "golden")
    assert len(rows(done.files[0])) == 4 and "gold is in it" in done.notes
