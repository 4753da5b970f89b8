"""All nine subtasks from zip to scores with the embedded model: killed and resumed, and over data that is damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import drawn

from snellen.cli import main
from snellen.runs.run import load_run
from snellen.runs.score import score

NINE = ["gc-mat", "gc-trk", "oc-cpr", "oc-cnt", "oc-grp", "pc-cpr", "pc-cnt", "pc-grp", "pc-vid"]


def words(data: Path, out: Path) -> list[str]:
    typed = ["run", "vlm2", "--data", data, "--model", "embedded", "--out", out, "--batch-size", "4", "--json"]
    return list(map(str, typed))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def test_a_run_of_all_nine_killed_half_way_ends_with_every_sample_once(tmp_path: Path, capsys: Any) -> None:
    data = drawn.draw(tmp_path / "vlm2-bench_dataset.zip", groups=12)
    out = tmp_path / "run"
    command = [sys.executable, "-m", "snellen", *words(data, out)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 600
        while len((out / "results.jsonl").read_bytes().splitlines() if (out / "results.jsonl").exists() else []) < 20:
            assert first.poll() is None, first.communicate()[1].decode()[-2000:]
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
    before = len(lines_whole(out / "results.jsonl"))
    capsys.readouterr()
    assert main(words(data, out)) == 0
    records = lines(out / "results.jsonl")
    assert 0 < before < len(records) == 12 * (2 + 2 + 2 + 1 + 1 + 2 + 1 + 1 + 1)
    assert set(Counter(str(one["sample_id"]) for one in records).values()) == {1}
    assert {str(one["sample_id"]).partition("/")[0] for one in records} == set(NINE)
    assert all(one["status"] == "ok" for one in records)
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    names = {metric["name"] for profile in run["profiles"] for metric in profile["metrics"]}
    assert {
        "overall_8",
        "overall_9",
        "gc-mat/pair_accuracy",
        "oc-cnt/count_score_usable",
        "pc-vid/video_score",
    } <= names


def lines_whole(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_judge_replies_give_the_run_its_ninth_figure(tmp_path: Path) -> None:
    data = drawn.draw(tmp_path / "d.zip", groups=2)
    out = tmp_path / "run"
    assert main(words(data, out)) == 0
    vids = [s.id for s in load_run(out).benchmark.samples(load_run(out).meta.spec.data) if s.id.startswith("pc-vid/")]
    replies = tmp_path / "judged.jsonl"
    rows = [{"vid": vid.partition("/")[2], "reply": "Score: 1"} for vid in vids]
    replies.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary, _ = score(out, judge_replies=replies)
    found = {m.name: m.value for m in summary.metrics["official"]}
    assert found["pc-vid/video_ab"] == 1.0
    assert found["pc-vid/video_aba"] == 0.5
    assert found["pc-vid/video_score"] == 0.75


def test_damaged_data_costs_the_samples_that_it_touches_and_names_file_and_line(tmp_path: Path) -> None:
    files = drawn.contents(4, "vanilla")
    counting = "jsonl/oc/vanilla/oc_cnt.jsonl"
    rows = files[counting].splitlines(keepends=True)
    files[counting] = rows[0] + rows[1][:40] + b"\n" + b"".join(rows[2:])  # line 2 is cut off
    picture = json.loads(rows[2])["images"][0]
    del files[f"data/oc/original_obj/{picture}"]
    clip = next(name for name in files if name.endswith((".mp4", ".mov", ".avi")))
    files[clip] = b""
    leaving = json.loads(rows[3])
    leaving["images"][0] = "../../../../etc/passwd"
    files[counting] += json.dumps({**leaving, "q_id": "cnt_leaving"}).encode() + b"\n"
    data = drawn.write(files, tmp_path / "damaged.zip")
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr("../../outside.txt", "escaped")
    assert main(words(data, tmp_path / "run")) == 9  # came to its end, with samples that have no answer
    records = lines(tmp_path / "run" / "results.jsonl")
    failed = {str(one["sample_id"]): str(one["error"]["message"]) for one in records if one["status"] == "error"}  # type: ignore[index]
    assert len(records) > len(failed) + 30
    assert not (tmp_path.parent / "outside.txt").exists()
    messages = "\n".join(failed.values())
    assert "oc_cnt.jsonl, line 2" in messages
    assert picture in messages and "oc_cnt.jsonl, line 3" in messages
    assert "../../../../etc/passwd" in messages and "line 5" in messages
    assert clip in messages and "empty" in messages
    assert all(one["error"]["kind"] == "input" for one in records if one["status"] == "error")  # type: ignore[index]
    run = load_run(tmp_path / "run")
    assert any("outside.txt" in note for note in run.benchmark.notices(run.meta.spec.data))
