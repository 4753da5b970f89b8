"""A run whose files are damaged names the damage and heals; one whose files are changed under it ends with an error."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from stubs import ARITHMETIC, Calculator

from snellen.benchmarks.base import Data
from snellen.comparing import compare
from snellen.engine.folder import RunFolder
from snellen.errors import RunChangedError, ServerError
from snellen.evaluation import Run, RunSpec, load_run, perform
from snellen.models.base import ModelOptions
from snellen.types import Prompt, Response

N = 40
SPEC = RunSpec(
    benchmark="arithmetic", model="calculator", data=Data(options={"n": str(N)}), options=ModelOptions(concurrency=4)
)


class Traced(Calculator):
    """Leaves a trace of every answer; `at` is called before the answer to one question."""

    def __init__(self, at: dict[int, Callable[[], object]] | None = None, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self._at = at or {}

    async def answer(self, prompt: Prompt) -> Response:
        response = await super().answer(prompt)
        if act := self._at.pop(self.asked[-1], None):
            act()
        return msgspec.structs.replace(response, trace={"sent": self.asked[-1]})


def run(folder: RunFolder, model: Calculator | None = None, spec: RunSpec = SPEC) -> Run:
    return perform(spec, folder, benchmark=ARITHMETIC, model=model or Traced())


def accuracy(folder: RunFolder) -> tuple[float | None, float]:
    metric = load_run(folder.path, benchmark=ARITHMETIC).metric("accuracy")
    return metric.value, metric.coverage


def flipped(lines: list[bytes]) -> None:
    lines[6] = lines[6].replace(b'"text":"', b'"text":"\x01', 1)


def edited(lines: list[bytes]) -> None:
    record = json.loads(lines[6])
    record["response"]["text"] = "by hand"
    lines[6] = json.dumps(record).encode() + b"\n"


def no_record(lines: list[bytes]) -> None:
    lines[6] = b"<html>not yours</html>\n"


def deleted(lines: list[bytes]) -> None:
    del lines[6]


def last_deleted(lines: list[bytes]) -> None:
    lines.pop()


def joined(lines: list[bytes]) -> None:
    lines[6] = lines[6][:40] + lines[7]
    del lines[7]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (flipped, "line 7"),
        (edited, "line 7 (sample q"),
        (no_record, "line 7: not a record"),
        (deleted, "missing before line 7 (number 7)"),
        (last_deleted, "missing at the end (number 40)"),
        (joined, "line 7"),
    ],
)
def test_a_damaged_record_is_named_costs_coverage_and_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[list[bytes]], None], words: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    run(folder)
    before = accuracy(folder)
    assert before[1] == 1.0
    lines = folder.results.read_bytes().splitlines(keepends=True)
    sample = json.loads(lines[-1 if damage is last_deleted else 6])["sample_id"]
    damage(lines)
    folder.results.write_bytes(b"".join(lines))
    with caplog.at_level(logging.WARNING, "snellen"):
        assert accuracy(folder)[1] == (N - 1) / N
    assert words in caplog.text
    (note,) = load_run(folder.path, benchmark=ARITHMETIC).notes()
    assert f"1 samples have no record ({sample})" in note
    model = Traced()
    run(folder, model)
    assert model.asked == [int(sample[1:])]
    assert accuracy(folder) == before
    assert load_run(folder.path, benchmark=ARITHMETIC).notes() == []


def test_a_comparison_with_a_damaged_run_leaves_out_the_damaged_record_and_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")
    run(first)
    shutil.copytree(first.path, second.path)
    lines = second.results.read_bytes().splitlines(keepends=True)
    edited(lines)
    second.results.write_bytes(b"".join(lines))
    with caplog.at_level(logging.WARNING, "snellen"):
        (found,) = compare(load_run(first.path, benchmark=ARITHMETIC), load_run(second.path, benchmark=ARITHMETIC))
    assert found.n == N - 1
    assert "b/results.jsonl: 1 damaged line" in caplog.text


def test_a_run_of_the_first_version_scores_the_same_and_goes_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    run(folder, Calculator(fail={3: [ServerError("500")] * 9}))
    records = [json.loads(line) for line in folder.results.read_bytes().splitlines()]
    for record in records:
        del record["seq"], record["crc32"]
    folder.results.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    meta = json.loads(folder.meta_path.read_bytes())
    del meta["records"]
    folder.meta_path.write_bytes(msgspec.json.encode(meta))
    old = folder.results.read_bytes()
    assert accuracy(folder) == (pytest.approx(35 / N), 1.0)
    run(folder)
    assert folder.results.read_bytes().startswith(old)
    assert accuracy(folder) == (pytest.approx(36 / N), 1.0)
    assert load_run(folder.path, benchmark=ARITHMETIC).notes() == []


def test_every_recorded_answer_has_its_trace_even_while_the_run_goes_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    seen: list[tuple[set[str], set[str]]] = []

    def look() -> None:
        recorded = {json.loads(line)["sample_id"] for line in folder.results.read_bytes().splitlines()}
        traced = {
            json.loads(line)["sample_id"]
            for shard in folder.traces.glob("*.jsonl")
            for line in shard.read_bytes().splitlines()
        }
        seen.append((recorded, traced))

    run(folder, Traced({20: look, N - 1: look}))
    assert len(seen) == 2
    for recorded, traced in seen:
        assert len(recorded) > 10
        assert recorded <= traced


def test_a_torn_trace_is_cut_off_before_the_run_goes_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    run(folder, spec=msgspec.structs.replace(SPEC, limit=10))
    (shard,) = folder.traces.glob("*.jsonl")
    whole = shard.read_bytes()
    shard.write_bytes(whole + b'{"sample_id":"q1')
    run(folder)
    assert shard.read_bytes() == whole


def truncated(folder: RunFolder) -> None:
    os.truncate(folder.results, folder.results.stat().st_size // 2)


def replaced(folder: RunFolder) -> None:
    copy = folder.results.with_name("copy")
    copy.write_bytes(folder.results.read_bytes())
    copy.replace(folder.results)


def appended(folder: RunFolder) -> None:
    with folder.results.open("ab") as file:
        file.write(b'{"sample_id":"q1","status":"ok"}\n')


def overwritten(folder: RunFolder) -> None:
    with folder.results.open("r+b") as file:
        file.seek(20)
        file.write(b"XXXX")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda folder: folder.results.unlink(), r"results\.jsonl was deleted while the run was writing"),
        (lambda folder: shutil.rmtree(folder.path), r"results\.jsonl was deleted while the run was writing"),
        (lambda folder: folder.path.rename(f"{folder.path}-elsewhere"), r"results\.jsonl was deleted"),
        (lambda folder: folder.meta_path.unlink(), r"run_meta\.json was deleted while the run was writing"),
        (lambda folder: shutil.rmtree(folder.traces), r"traces/00000\.jsonl was deleted"),
        (truncated, r"results\.jsonl was cut from [\d,]+ to [\d,]+ bytes"),
        (replaced, r"results\.jsonl was replaced by another file"),
        (appended, r"results\.jsonl has 33 bytes more than were written"),
        (overwritten, r"(?s)results\.jsonl was changed .*line 1"),
    ],
)
@pytest.mark.parametrize("question", [20, N - 1])
def test_a_run_whose_files_something_else_changes_ends_with_an_error(
    tmp_path: Path, act: Callable[[RunFolder], None], words: str, question: int
) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(RunChangedError, match=words) as raised:
        run(folder, Traced({question: lambda: act(folder)}))
    assert raised.value.exit_code == 5
    assert "run the same command" in raised.value.hint
    if folder.exists():
        assert folder.meta().state == "partial"
    run(folder)  # it asks what is gone
    assert accuracy(folder) == (pytest.approx(36 / N), 1.0)


def test_a_summary_is_not_written_over_a_journal_that_has_just_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    whole = Run.summarize

    def gone(self: Run, *words: object, **named: object) -> object:
        folder.results.unlink()
        return whole(self, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "summarize", gone)
    with pytest.raises(RunChangedError, match="was deleted"):
        run(folder)
