"""A run whose files are damaged names the damage and heals; one whose files are changed under it ends with an error."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from stubs import ARITHMETIC, Calculator

from snellen.benchmarks.base import Data
from snellen.engine.journal import RecordPlace, settled
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import DataError, RunChangedError, RunError, ServerError
from snellen.models.base import ModelOptions
from snellen.runs.compare import compare
from snellen.runs.perform import perform
from snellen.runs.run import Run, load_run
from snellen.sources.journal_lines import sealed
from snellen.types import Prompt, Response, Usage

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
def test_a_damaged_record_is_named_costs_coverage_and_is_asked_again(tmp_path, caplog, damage, words):
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
    assert f"1 sample has no record ({sample})" in note
    assert "`snellen rerun" in caplog.text
    caplog.clear()
    model = Traced()
    with caplog.at_level(logging.WARNING, "snellen"):
        run(folder, model)
    assert "`snellen rerun" not in caplog.text  # the run itself asks it again
    assert model.asked == [int(sample[1:])]
    assert accuracy(folder) == before
    assert load_run(folder.path, benchmark=ARITHMETIC).notes() == []


def test_a_comparison_with_a_damaged_run_leaves_out_the_damaged_record_and_names_it(tmp_path, caplog):
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


def test_a_run_of_the_first_version_scores_the_same_and_goes_on(tmp_path):
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


def test_every_recorded_answer_has_its_trace_even_while_the_run_goes_on(tmp_path):
    folder = RunFolder(tmp_path / "run")
    seen: list[tuple[set[str], set[str]]] = []

    def look():
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


def test_a_torn_trace_is_cut_off_before_the_run_goes_on(tmp_path):
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
def test_a_run_whose_files_something_else_changes_ends_with_an_error(tmp_path, act, words, question):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(RunChangedError, match=words) as raised:
        run(folder, Traced({question: lambda: act(folder)}))
    assert raised.value.exit_code == 5
    assert "run the same command" in raised.value.hint
    if folder.exists():
        assert folder.meta().state == "partial"
    run(folder)  # it asks what is gone
    assert accuracy(folder) == (pytest.approx(36 / N), 1.0)


def test_a_summary_is_not_written_over_a_journal_that_has_just_gone(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    whole = Run.save_collected

    def gone(self, *words, **named):
        folder.results.unlink()
        return whole(self, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "save_collected", gone)
    with pytest.raises(RunChangedError, match="was deleted"):
        run(folder)


def test_the_journal_of_another_call_put_behind_it_costs_nothing_and_is_taken_out_again(tmp_path, caplog):
    """The other has the same samples under other numbers: it was asked by more at a time, and for fewer of them first."""
    folder, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "other")
    run(folder, spec=msgspec.structs.replace(SPEC, limit=N // 2))
    before = accuracy(folder)
    run(other)
    lines = other.results.read_bytes().splitlines(keepends=True)
    turned = [sealed(line, number) for number, line in enumerate(reversed(lines), 1)]
    folder.results.write_bytes(folder.results.read_bytes() + b"".join(turned))
    with caplog.at_level(logging.WARNING, "snellen"):
        assert load_run(folder.path, benchmark=ARITHMETIC).metric("accuracy").value == before[0]
    assert "20 repeated lines" in caplog.text
    model = Traced()
    run(folder, model)
    samples = [record.sample_id for record in folder.records()]
    assert sorted(samples) == sorted(set(samples)) and len(samples) == N
    assert accuracy(folder) == accuracy(other)
    assert load_run(folder.path, benchmark=ARITHMETIC).notes() == []


def test_a_second_answer_to_a_sample_with_a_number_of_its_own_is_named(tmp_path):
    folder = RunFolder(tmp_path / "run")
    run(folder)
    lines = folder.results.read_bytes().splitlines(keepends=True)
    folder.results.write_bytes(b"".join([*lines, sealed(lines[6], N + 1)]))
    sample = json.loads(lines[6])["sample_id"]
    with pytest.raises(DataError, match=f"sample '{sample}' of arithmetic has too many records"):
        accuracy(folder)


def test_token_counts_beyond_all_measure_leave_a_run_that_can_be_read(tmp_path):
    class Boasting(Calculator):
        async def answer(self, prompt):
            response = await super().answer(prompt)
            return msgspec.structs.replace(response, usage=Usage(input_tokens=2**62, output_tokens=2**62))

    folder = RunFolder(tmp_path / "run")
    run(folder, Boasting())
    assert folder.meta().totals.input_tokens == 2**63 - 1
    assert accuracy(folder)[1] == 1.0


@pytest.mark.parametrize("name", ["results.jsonl.part", "results.damaged"])
def test_mending_writes_to_no_file_that_has_another_name(tmp_path, name):
    folder = RunFolder(tmp_path / "run")
    run(folder)
    before = accuracy(folder)
    folder.results.write_bytes(b"junk\n" + folder.results.read_bytes())
    other = tmp_path / "other"
    other.write_text("of the user")
    folder.path.joinpath(name).hardlink_to(other)
    run(folder)
    assert other.read_text() == "of the user"
    assert accuracy(folder) == before


@pytest.mark.parametrize("name", ["results.damaged", "results.jsonl.part"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_plain_file_in_the_place_of_a_file_of_mending_is_refused_and_nothing_waits(tmp_path, name, kind):
    folder = RunFolder(tmp_path / "run")
    run(folder)
    damaged = b"junk\n" + folder.results.read_bytes()
    folder.results.write_bytes(damaged)
    place = folder.path / name
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(tmp_path / "other")
    with pytest.raises(RunError, match=rf"{name} is a "):
        run(folder)
    assert folder.results.read_bytes() == damaged


KILLED_MENDING = """
import sys
sys.path[:0] = {path}
from pathlib import Path
from killed_steps import KilledSteps
from snellen.engine import journal
from snellen.types import Record

KilledSteps({step})
journal.mend(Path({results!r}), Record)
"""


@pytest.mark.parametrize("step", range(1, 13))
def test_a_journal_whose_mending_is_killed_at_any_step_is_mended_by_the_next_call(tmp_path, monkeypatch, step):
    """Each system call of the mending is the last of the process once; the journal is the old or the new one, whole."""
    folder = RunFolder(tmp_path / "run")
    run(folder)
    before = accuracy(folder)
    lines = folder.results.read_bytes().splitlines(keepends=True)
    del lines[9]
    lines[3] = b"junk\n"
    damaged = b"".join(lines)
    folder.results.write_bytes(damaged)
    program = KILLED_MENDING.format(path=[str(Path(__file__).parents[1])], results=str(folder.results), step=step)
    process = subprocess.run([sys.executable, "-c", program], cwd=folder.path, timeout=600)
    assert process.returncode in (-signal.SIGKILL, 0)
    found = folder.results.read_bytes()
    assert found == damaged or folder.results.read_bytes().count(b"\n") == N - 2
    assert accuracy(folder)[1] == (N - 2) / N
    model = Traced()
    run(folder, model)
    assert len(model.asked) == 2 and accuracy(folder) == before
    assert b"junk\n" in folder.path.joinpath("results.damaged").read_bytes()


def test_a_file_in_place_of_a_run_is_named_as_one(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(RunError, match="it is a file, and a run is a folder"):
        RunFolder(tmp_path / "run").meta()


class Wrong(Traced):
    async def answer(self, prompt: Prompt) -> Response:
        return msgspec.structs.replace(await super().answer(prompt), text="999")


def lines_of(folder: RunFolder) -> list[bytes]:
    return folder.results.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("replaces", [False, True], ids=["between", "in place of one"])
@pytest.mark.parametrize(("at", "taken"), [(3, 30), (30, 3), (10, 12), (12, 10), (0, 39), (39, 0)])
def test_a_line_of_another_run_does_not_change_the_score(tmp_path, at, taken, replaces):
    """Its number and checksum are right. Before, it counted where it came before the run's own record of that number."""
    folder, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "other")
    run(folder)
    before = accuracy(folder)
    run(other, Wrong())
    assert accuracy(other) == (0.0, 1.0)
    lines, foreign = lines_of(folder), lines_of(other)[taken]
    lines[at : at + replaces] = [foreign]
    folder.results.write_bytes(b"".join(lines))
    model = Traced()
    run(folder, model)
    assert accuracy(folder) == before
    assert len(model.asked) <= 2
    assert foreign.strip() in (folder.path / "results.damaged").read_bytes()


@pytest.mark.parametrize("seed", range(8))
def test_several_lines_of_another_run_at_several_places_do_not_change_the_score(tmp_path, seed):
    rng = random.Random(seed)
    folder, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "other")
    run(folder)
    before = accuracy(folder)
    run(other, Wrong())
    lines, foreign = lines_of(folder), lines_of(other)
    for _ in range(3):
        first = rng.randrange(N - 3)
        at = rng.randrange(N)
        lines[at:at] = foreign[first : first + 3]
    folder.results.write_bytes(b"".join(lines))
    run(folder)
    assert accuracy(folder) == before


def place(number: int, line: int, answer: str, digest: int) -> RecordPlace:
    return RecordPlace(number, 100 * line, 99, line, (answer, 0), digest)


def test_of_two_records_with_one_number_the_one_in_its_place_is_kept_and_else_none():
    own = [place(n, n, f"q{n}", n) for n in range(1, 60)]
    far, near = place(50, 3, "q50", -1), place(50, 48, "q50", -2)
    assert settled([*own, far]) == own
    assert settled([*own, near]) == [each for each in own if each.number != 50]
    again = place(50, 61, "q50", 50)
    assert settled([*own, again]) == own, "the same line twice is no dispute"
    other_number = place(60, 4, "q7", -3)
    assert settled([*own, other_number]) == own, "two answers to one sample"
