"""Parts of a run on several machines, and the run that is merged of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import snellen
from runs.study.conftest import NotingModel
from snellen.cli import main
from snellen.cli.app import build
from snellen.engine.run_folder import RunFolder
from snellen.engine.sharding import missing_parts, parse_shard, shard_folder
from snellen.errors import FingerprintError, ModelError, RunError, RunLockedError, UsageError
from snellen.models.api.image_files import REGISTER
from snellen.runs.merge import merge_runs
from snellen.runs.perform import perform
from snellen.types import Prompt, Response

LIMIT = 40


class Digits(NotingModel):
    """Answers every question, but for those that it is told to fail; leaves a trace."""

    def __init__(self, failing: bool = False) -> None:
        super().__init__("3")
        self._failing = failing

    async def answer(self, prompt: Prompt) -> Response:
        self.prompts.append(prompt)
        if self._failing and len(self.prompts) % 3 == 0:
            raise ModelError("no answer")
        return Response("3", trace={"reply": len(self.prompts)})


def part(text: str, out: Path, *, failing: bool = False, **settings: object) -> Path:
    run = snellen.evaluate("chart/digits", Digits(failing), limit=LIMIT, shard=text, out=out, **settings)
    return run.path


def ids(folder: Path) -> Counter[str]:
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    return Counter(msgspec.json.decode(line)["sample_id"] for line in lines)


def test_parts_hold_each_sample_once_and_the_number_of_parts_decides_alone():
    names = [f"sample-{number}" for number in range(500)]
    for count in (1, 2, 7):
        shards = [parse_shard(f"{number}/{count}") for number in range(1, count + 1)]
        assert Counter(name for shard in shards for name in names if shard.holds(name)) == Counter(names)
    assert parse_shard("2/7").holds("sample-3") == parse_shard(" 2/7 ").holds("sample-3")
    assert missing_parts(["1/3", "3/3"]) == ["2/3"]


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/2", "1/2/3", "a/b", "1/99999999"])
def test_what_is_no_part_is_refused(text: str):
    with pytest.raises(UsageError, match="K/N was expected"):
        parse_shard(text)


def test_merged_parts_equal_the_run_that_was_never_divided(tmp_path: Path):
    whole = snellen.evaluate("chart/digits", Digits(), limit=LIMIT, out=tmp_path / "whole")
    parts = [part(f"{number}/3", tmp_path / "big") for number in (3, 1, 2)]
    assert parts[1] == shard_folder(tmp_path / "big", "1/3")
    assert {snellen.load_run(path).meta.fingerprint for path in parts} == {whole.meta.fingerprint}
    assert "part 1/3" in " ".join(snellen.load_run(parts[1]).notes())
    merged = merge_runs(tmp_path / "merged", [tmp_path / "big"])
    assert (merged.meta.state, merged.missing, merged.meta.coverage) == ("complete", (), whole.meta.coverage)
    assert ids(tmp_path / "merged") == ids(tmp_path / "whole")
    assert set(ids(tmp_path / "merged").values()) == {1}
    run = snellen.load_run(tmp_path / "merged")
    assert run.own
    assert run.summarize().metrics == whole.summarize().metrics
    assert len(list((tmp_path / "merged" / "traces").iterdir())) == 3
    assert not (tmp_path / "merged" / REGISTER).exists()


def test_a_merged_run_knows_what_its_parts_have_uploaded(tmp_path: Path):
    for number in (1, 2):
        register = part(f"{number}/2", tmp_path / "big") / REGISTER
        register.write_text(f'{{"digest": "{str(number) * 64}", "place": "x", "reference": "file-{number}"}}\n')
    for _ in range(2):
        merge_runs(tmp_path / "merged", [tmp_path / "big"])
        lines = [json.loads(line) for line in (tmp_path / "merged" / REGISTER).read_text().splitlines()]
        assert [line["reference"] for line in lines] == ["file-1", "file-2"]


def test_parts_of_several_divisions_overlap_without_harm(tmp_path: Path):
    places = [part(text, tmp_path / "big") for text in ("1/2", "02/3", "1/3", " 3/3")]
    assert [path.name for path in places] == ["shard-1-of-2", "shard-2-of-3", "shard-1-of-3", "shard-3-of-3"]
    assert snellen.load_run(places[1]).meta.coverage.shards == ("2/3",)
    merged = merge_runs(tmp_path / "merged", [tmp_path / "big"])
    assert (merged.meta.state, merged.missing) == ("complete", ())
    assert len(ids(tmp_path / "merged")) == LIMIT and set(ids(tmp_path / "merged").values()) == {1}


def test_the_only_part_of_one_is_the_whole_run(tmp_path: Path):
    run = snellen.load_run(part("1/1", tmp_path / "big"))
    assert not [note for note in run.notes() if "part 1/1" in note]


def test_merging_is_idempotent_and_does_not_depend_on_the_order(tmp_path: Path):
    parts = [part(f"{number}/3", tmp_path / "big") for number in (1, 2, 3)]
    merge_runs(tmp_path / "a", parts)
    merge_runs(tmp_path / "b", parts[::-1])
    first = (tmp_path / "a" / "results.jsonl").read_bytes()
    assert first == (tmp_path / "b" / "results.jsonl").read_bytes()
    merge_runs(tmp_path / "a", parts[1:])
    merge_runs(tmp_path / "a", [parts[0], parts[0], tmp_path / "big"])
    assert first == (tmp_path / "a" / "results.jsonl").read_bytes()


def test_parts_lie_in_the_merged_folder_itself_if_it_is_shared(tmp_path: Path):
    for number in (1, 2):
        part(f"{number}/2", tmp_path / "big")
    assert merge_runs(tmp_path / "big").meta.state == "complete"
    assert merge_runs(tmp_path / "big").meta.totals.ok == LIMIT


def test_answers_count_in_place_of_failures_and_a_missing_part_is_named_and_can_be_resumed(tmp_path: Path):
    failed = part("1/2", tmp_path / "big", failing=True, max_attempts=1, concurrency=1)
    merged = merge_runs(tmp_path / "merged", [failed])
    assert merged.missing == ("2/2",)
    assert (merged.meta.state, merged.meta.coverage.shards) == ("partial", ("1/2",))
    lost = merged.meta.totals.error
    assert lost
    part("1/2", tmp_path / "big")  # the same command once more answers what had failed
    again = merge_runs(tmp_path / "merged", [failed])
    assert (again.meta.totals.error, again.meta.totals.ok) == (0, merged.meta.totals.ok + lost)
    run = snellen.evaluate("chart/digits", Digits(), limit=LIMIT, out=tmp_path / "merged")
    assert (run.meta.totals.ok, run.meta.coverage.shards, run.meta.state) == (LIMIT, (), "complete")


def test_damaged_records_are_named_and_left_out(tmp_path: Path):
    parts = [part(f"{number}/2", tmp_path / "big") for number in (1, 2)]
    results = parts[0] / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    name = msgspec.json.decode(lines[1])["sample_id"]
    lines[1] = lines[1].replace(b'"3"', b'"4"')
    results.write_bytes(b"".join(lines) + b'{"sample_id":"torn')
    merged = merge_runs(tmp_path / "merged", parts)
    assert merged.meta.state == "partial"
    assert any(name in fault for fault in merged.parts[0].damage)
    assert merged.meta.totals.ok == LIMIT - 1
    assert name not in ids(tmp_path / "merged")


def test_parts_of_other_runs_are_refused_with_the_difference(tmp_path: Path):
    one, other = part("1/2", tmp_path / "a"), part("2/2", tmp_path / "b", seed=3)
    with pytest.raises(FingerprintError, match="seed") as caught:
        merge_runs(tmp_path / "merged", [one, other])
    assert str(other) in caught.value.message
    assert not (tmp_path / "merged").exists()
    with pytest.raises(RunError, match="no part of a run"):
        merge_runs(tmp_path / "merged", [tmp_path])
    with pytest.raises(UsageError, match="itself"):
        merge_runs(one, [part("2/2", tmp_path / "a")])


def test_adaptive_benchmarks_are_not_divided(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be divided"):
        snellen.evaluate("acuity", Digits(), shard="1/2", out=tmp_path / "run")
    run = snellen.evaluate("acuity", Digits(), limit=4, out=tmp_path / "whole")
    with pytest.raises(UsageError, match="cannot be merged"):
        merge_runs(tmp_path / "merged", [run.path])


def test_different_limits_are_refused(tmp_path: Path):
    one = part("1/2", tmp_path / "a")
    other = snellen.evaluate("chart/digits", Digits(), limit=10, shard="2/2", out=tmp_path / "b").path
    with pytest.raises(UsageError, match="different limits"):
        merge_runs(tmp_path / "merged", [one, other])


def test_a_folder_that_another_process_writes_to_is_refused(tmp_path: Path):
    one = part("1/2", tmp_path / "a")
    with RunFolder(tmp_path / "merged").locked(), pytest.raises(RunLockedError):
        merge_runs(tmp_path / "merged", [one])


def test_one_folder_holds_one_part(tmp_path: Path):
    path = part("1/2", tmp_path / "a")
    spec = msgspec.structs.replace(snellen.load_run(path).meta.spec, shard="2/2")
    with pytest.raises(RunError, match="holds part 1/2"):
        perform(spec, RunFolder(path), model=Digits())


def test_the_command_merges_and_its_exit_status_says_whether_all_was_answered(tmp_path: Path):
    part("1/2", tmp_path / "big")
    app = build(["merge"])
    result = CliRunner().invoke(app, ["merge", str(tmp_path / "m"), str(tmp_path / "big"), "--json"])
    assert result.exit_code == 9
    assert msgspec.json.decode(result.stdout)["missing"] == ["2/2"]
    part("2/2", tmp_path / "big")
    result = CliRunner().invoke(app, ["merge", str(tmp_path / "m"), str(tmp_path / "big")])
    assert result.exit_code == 0
    assert f"{LIMIT} of {LIMIT} answered" in result.stdout


def test_the_command_ends_with_the_scores_as_run_does(tmp_path: Path):
    app = build(["merge"])
    whole = part("1/1", tmp_path / "whole")
    part("1/2", tmp_path / "parts")
    partial = CliRunner().invoke(app, ["merge", str(tmp_path / "m"), str(tmp_path / "parts")])
    assert partial.exit_code == 9
    assert "95 % interval" in partial.stdout
    part("2/2", tmp_path / "parts")
    table = CliRunner().invoke(app, ["merge", str(tmp_path / "m"), str(tmp_path / "parts")])
    (metrics,) = snellen.load_run(whole).figures(None).values()
    accuracy = next(metric for metric in metrics if metric.value is not None)
    assert (table.exit_code, accuracy.name in table.stdout) == (0, True)
    assert f"{accuracy.value:.3f}" in table.stdout
    result = CliRunner().invoke(app, ["merge", str(tmp_path / "m"), str(tmp_path / "parts"), "--json"])
    (profile,) = msgspec.json.decode(result.stdout)["profiles"]
    assert {row["name"]: row["value"] for row in profile["metrics"]} == {row.name: row.value for row in metrics}


def test_a_pipe_that_an_agent_left_in_its_session_is_not_copied(tmp_path: Path):
    for number in (1, 2):
        session = part(f"{number}/2", tmp_path / "parts") / "sessions" / f"s{number}"
        session.mkdir(parents=True)
        os.mkfifo(session / "pipe")
        (session / "note.txt").write_text("kept")
    merged = merge_runs(tmp_path / "m", [tmp_path / "parts"])
    assert merged.meta.state == "complete"
    names = sorted(path.relative_to(tmp_path / "m/sessions").as_posix() for path in (tmp_path / "m").rglob("s?/*"))
    assert names == ["s1/note.txt", "s2/note.txt"]


def test_a_run_whose_data_is_elsewhere_is_merged_without_scores(tmp_path: Path):
    from PIL import Image

    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    rows = [
        {"image": "a.png", "question": f"Which, {number}?", "A": "x", "B": "y", "answer": "A"} for number in range(8)
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number in (1, 2):
        snellen.evaluate(str(data), "embedded", shard=f"{number}/2", out=tmp_path / "parts")
    data.unlink()
    app = build(["merge"])
    result = CliRunner().invoke(app, ["merge", str(tmp_path / "m"), str(tmp_path / "parts")])
    assert (result.exit_code, "8 answered" in result.stdout) == (0, True)
    assert f"Next: snellen score {tmp_path / 'm'} --data FOLDER" in " ".join(result.stderr.split())
    result = CliRunner().invoke(app, ["merge", str(tmp_path / "m"), str(tmp_path / "parts"), "--json"])
    assert "rows.jsonl" in msgspec.json.decode(result.stdout)["not_scored"]


SLOW = """
import asyncio, sys, snellen
class Slow(snellen.Model):
    name = "slow"
    asked = 0
    async def answer(self, prompt):
        self.asked += 1
        await asyncio.sleep(0.02 if self.asked <= int(sys.argv[3]) else 3600)
        return snellen.Response("3")
snellen.evaluate("chart/digits", Slow(), limit=60, shard=sys.argv[1], out=sys.argv[2], concurrency=2)
"""


def test_killed_parts_are_merged_and_then_resumed_with_each_sample_once(tmp_path: Path):
    out = tmp_path / "big"
    for number in (1, 2):
        process = subprocess.Popen([sys.executable, "-c", SLOW, f"{number}/2", str(out), "20"])
        results = shard_folder(out, f"{number}/2") / "results.jsonl"
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not (results.exists() and results.stat().st_size > 500 * number):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(600)
    merged = merge_runs(tmp_path / "m", [out])
    assert merged.meta.state == "partial"
    before = ids(tmp_path / "m")
    assert 0 < len(before) < 60
    for number in (1, 2):
        subprocess.run([sys.executable, "-c", SLOW, f"{number}/2", str(out), "60"], check=True, timeout=600)
    merged = merge_runs(tmp_path / "m", [out])
    assert (merged.meta.state, merged.meta.totals.ok) == ("complete", 60)
    assert set(ids(tmp_path / "m").values()) == {1}
    assert before.keys() <= ids(tmp_path / "m").keys()


def test_the_table_of_a_part_names_the_part(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(number), "question": "?", "A": "x", "B": "y", "answer": "A"} for number in range(8)]
    Path("quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("answers.jsonl").write_text("".join(json.dumps({"id": row["id"], "reply": "A"}) + "\n" for row in rows))
    words = ["run", "quiz.jsonl", "-m", "replay:answers.jsonl", "--shard", "01/2", "--quiet", "--out"]
    assert main([*words, "all"]) == 0
    assert "strict · only part 1/2 " in capsys.readouterr().out.replace("\n", " ")
    assert main([*words, "few", "--limit", "5"]) == 0
    assert "only part 1/2 of the first 5 of 8 " in " ".join(capsys.readouterr().out.split())


def test_a_run_is_no_part_of_itself_and_the_message_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = snellen.evaluate("chart/digits", Digits(), limit=2, out=tmp_path / "run").path
    before = (run / "results.jsonl").read_bytes()
    for named, sentence in (
        ([run], "cannot be a part of it"),
        ([tmp_path / "a" / ".." / "run"], "cannot be a part of it"),
        ([], "is a run in which there are no parts"),
    ):
        (tmp_path / "a").mkdir(exist_ok=True)
        assert main(["merge", str(run), *map(str, named)]) == 2
        printed = " ".join(capsys.readouterr().err.split())
        assert sentence in printed and "run_meta.json" not in printed
    assert (run / "results.jsonl").read_bytes() == before
    assert main(["merge", str(tmp_path / "merged"), str(run)]) == 0, "as the message advises"
