"""snellen acuity: what it asks, prints and refuses, with observers behind a loopback server and with the embedded model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pixel_observer_server import observer_server
from printed_schema import require_schema
from snellen.runs.run import load_run


def snellen(*words, folder, check=0, **more):
    done = subprocess.run(
        [sys.executable, "-m", "snellen", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OPENAI_API_KEY": "unused", "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        **more,
    )
    assert done.returncode == check, done.stderr
    return done


def ids(run: Path) -> list[str]:
    return [json.loads(line)["sample_id"] for line in (run / "results.jsonl").open()]


@pytest.fixture
def server():
    with observer_server({"gap": 3.2, "vernier": 1.1}) as address:
        yield address


def measure(server, folder, *words, name="gap", check=0):
    return snellen(
        "acuity",
        "--model",
        "api:observer",
        "--base-url",
        server,
        "--attributes",
        name,
        *words,
        folder=folder,
        check=check,
    )


def test_thresholds_are_printed_in_words_and_kept_as_json(server, tmp_path):
    done = measure(server, tmp_path)
    run = load_run(tmp_path / "results" / "acuity-observer")
    (metric,) = run.figures()["strict"]
    assert metric.name == "threshold/gap"
    assert metric.unit == "px"
    low, high = metric.ci95
    assert f"{metric.value:.1f} px [{low:.1f}, {high:.1f}] at 512: 20/{20 * metric.value:.0f}" in done.stdout
    assert f"{metric.n} " in done.stdout
    scored = json.loads(snellen("score", run.path, "--json", folder=tmp_path).stdout)["profiles"][0]
    (condition,) = scored["conditions"]
    assert condition["name"] == "gap"
    assert condition["state"] == "settled"
    assert condition["ci95"] == [low, high]
    assert condition["asked"] == metric.n == len(ids(run.path))
    assert condition["easiest"]["right"] <= condition["easiest"]["answered"] == metric.n // 8
    assert 0 < condition["fit_p"] <= 1
    assert 0 < condition["monotone_p"] <= 1
    assert condition["width"]["ci95"][0] <= 0.3 <= condition["width"]["ci95"][1]
    table = snellen("score", run.path, folder=tmp_path).stdout
    assert "right at the" in table
    assert "commonest wrong reply" in table
    listed = snellen("list", "--runs", folder=tmp_path).stdout
    assert re.search(r"gap [\d.]+ px \[[\d.]+ – [\d.]+\] P ", listed), listed


def test_a_killed_run_asks_the_same_questions_each_once(server, tmp_path):
    whole = tmp_path / "whole"
    measure(server, tmp_path, "--out", whole)
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "snellen", "acuity", "--model", "api:observer", "--base-url", server]
    command += ["--attributes", "gap", "--out", str(killed), "--concurrency", "3", "--quiet"]
    process = subprocess.Popen(command, env={**os.environ, "OPENAI_API_KEY": "unused"}, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        if (killed / "results.jsonl").exists() and len((killed / "results.jsonl").read_bytes().splitlines()) >= 11:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.005)
    process.wait(600)
    measure(server, tmp_path, "--out", killed)
    assert Counter(ids(killed)) == Counter(ids(whole))
    assert set(Counter(ids(killed)).values()) == {1}


def test_questions_like_those_of_another_run_are_the_same_and_compared_in_pairs(server, tmp_path):
    measure(server, tmp_path, name="gap,vernier")
    first = tmp_path / "results" / "acuity-observer"
    with observer_server({"gap": 12.0, "vernier": 1.1}) as other:
        like = ["acuity", "--model", "api:other", "--base-url", other, "--like", "observer"]
        snellen(*like, folder=tmp_path)
    second = tmp_path / "results" / "acuity-other-like-observer"
    assert sorted(ids(first)) == sorted(ids(second))
    done = snellen("acuity", "observer", second, "--compare", "--json", folder=tmp_path)
    require_schema("acuity", done.stdout)
    gap, vernier = json.loads(done.stdout)["comparisons"][0]["conditions"]
    assert gap["better"] == "first"
    assert gap["ci95"][0] < 3.2 / 12 < gap["ci95"][1]
    assert gap["ci95"][1] < 1
    assert gap["paired"]["test"] == "exact McNemar"
    assert gap["paired"]["p_value"] < 0.05
    assert 1.1 < vernier["smallest_ratio"] < 3
    assert vernier["better"] is None
    table = snellen("acuity", "observer", second, "--compare", folder=tmp_path).stdout
    assert "cannot tell" in table
    assert "McNemar" in table
    refused = snellen("compare", first, second, folder=tmp_path, check=12).stderr
    assert "snellen acuity A B --compare" in refused
    # Scored alike where the other run is gone.
    before = load_run(second).summarize(save=False).metrics["strict"]
    first.rename(tmp_path / "elsewhere")
    assert load_run(second).summarize(save=False).metrics["strict"] == before


def test_a_survey_asks_every_level_equally_often_and_all_of_them(server, tmp_path):
    measure(server, tmp_path, "--survey", "--most", "96")
    names = ids(tmp_path / "results" / "acuity-observer")
    levels = Counter(name.rpartition("/")[2] for name in names)
    assert len(levels) == 12
    assert set(levels.values()) == {8}
    measure(server, tmp_path, "--design", "constant", "--most", "96")  # the same run, which is complete
    assert ids(tmp_path / "results" / "acuity-observer") == names


def test_several_sides_stand_behind_the_names(server, tmp_path):
    done = measure(server, tmp_path, "--sides", "256,512", "--json")
    require_schema("acuity", done.stdout)
    metrics = json.loads(done.stdout)["runs"][0]["profiles"][0]["metrics"]
    assert [metric["name"] for metric in metrics] == ["threshold/gap@256", "threshold/gap@512"]
    assert '"noun":"conditions","ended":2,"known":2' in done.stderr


def test_who_sees_nothing_has_no_threshold_and_words_say_so(tmp_path):
    with observer_server({"gap": 3000.0, "vernier": 0.001}) as address:
        done = measure(address, tmp_path, name="gap,vernier")
    words = done.stdout
    assert "not seen at any level" in words or "task not understood" in words
    assert "below the smallest level drawn (0.050 px)" in words
    metrics = {metric.name: metric for metric in load_run(tmp_path / "results/acuity-observer").figures()["strict"]}
    assert metrics["threshold/gap"].value is None
    assert metrics["threshold/vernier"].value is None


def test_a_dry_run_tells_the_expected_and_the_greatest_number(tmp_path):
    done = snellen("acuity", "--model", "api:x", "--attributes", "gap,vernier", "--dry-run", folder=tmp_path)
    assert "About 184 are expected in all, 288 at most" in done.stderr
    done = snellen("acuity", "--model", "embedded", "--dry-run", "--json", folder=tmp_path)
    require_schema("acuity", done.stdout)
    (estimate,) = json.loads(done.stdout)["runs"]
    assert 700 <= estimate["expected"] <= estimate["most"] <= 1000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--model", "embedded", "--attributes", "gapp"], "no attribute 'gapp'"),
        (["--model", "embedded", "--sides", "12"], "expected a whole number of 48 to 4096"),
        (["--model", "embedded", "--attributes", "gap", "--sides", "48"], "gap needs at least 64"),
        (["--model", "embedded", "--width", "9"], "expected a number of 0.02 to 2"),
        (["--model", "embedded", "--most", "1"], "expected a whole number"),
        (["--model", "embedded", "--survey", "--design", "adaptive"], "exclude each other"),
        (["--model", "embedded", "--model", "api:x"], "conditions of the chart only"),
        (["--model", "api:x", "--like", "nowhere"], "no run folder"),
        (["--model", "api:x", "--like", "nowhere", "--seed", "3"], "--seed chooses others"),
        (["--model", "api:x", "--like", "nowhere", "--width", "0.3"], "--width chooses others"),
        (["A", "B"], "arguments without --compare"),
        (["A", "--compare"], "no run folder"),
        (["--compare"], "needs two runs"),
        (["A", "B", "--compare", "--model", "embedded"], "--model measures a model"),
        (["A", "--explain", "B", "--geometry", "pairs", "--blank", "C"], "--explain and --blank exclude each other"),
        ([], "no model is named"),
    ],
)
def test_bad_options_are_named(words, complaint, tmp_path):
    assert complaint in snellen("acuity", *words, folder=tmp_path, check=2).stderr
    assert not (tmp_path / "results").exists()


def test_data_without_the_questions_of_another_run_is_refused(tmp_path):
    done = snellen("run", "acuity", "--model", "embedded", "--data", tmp_path, folder=tmp_path, check=2)
    assert "has no effect" in done.stderr
    done = snellen("run", "acuity", "--model", "embedded", "--design", "like", folder=tmp_path, check=2)
    assert "no run is named" in done.stderr


def test_both_commands_refuse_what_changes_the_pictures(tmp_path):
    words = ["--model", "embedded", "--corrupt", "blur:3"]
    plain = snellen("acuity", "--attributes", "chart/digit-blur", *words, folder=tmp_path, check=2)
    general = snellen("run", "acuity", "-o", "attributes=chart/digit-blur", *words, folder=tmp_path, check=2)
    assert plain.stderr == general.stderr
    assert "measures pictures as they are drawn" in plain.stderr
    assert not (tmp_path / "results").exists()
