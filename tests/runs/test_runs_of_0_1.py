"""Run folders written by version 0.1 are read, resumed and scored to the same figures.

The folders in `fixtures/runs_0_1` were written by Snellen 0.1.0 (commit 488b0f9) over small drawn data sets; `expected`
holds what its `snellen score RUN --profile all --json` printed. `killed` ended by SIGKILL, with a torn last line.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import snellen
from snellen.cli import main

FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs_0_1"
RUNS = ["chart", "fgbmk", "fika", "killed", "mindcube", "vlm2"]
READ_OTHERWISE = {"fgbmk": {"strict"}, "mindcube": {"strict"}}
"""Profiles whose rules of reading have changed: `C5` names no option any more, and a bare name is read."""
COMMANDS = {
    "chart": ["chart", "--limit", "40"],
    "fgbmk": ["fgbmk", "--data", "data/fgbmk", "--images", "data/birds"],
    "fika": ["fika", "--data", "data/fika.zip"],
    "mindcube": ["mindcube-tiny", "--data", "data/mindcube"],
    "vlm2": ["vlm2", "--data", "data/vlm2.zip"],
}


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the fixtures, which is the working folder: 0.1 recorded relative paths."""
    shutil.copytree(FIXTURES, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


def run_command(*words: str) -> int:
    """Run the command line in this process; return its exit status."""
    try:
        main(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def figures(printed: str) -> dict[tuple[str, str], Any]:
    """Map (profile, metric) to value, n, interval and coverage, as `snellen score --json` prints them.

    Of a slice only whether it is covered whole: 0.1 estimated the share of a part that is not (see test_coverage_of_parts).
    """

    def covered(metric: dict[str, Any]) -> Any:
        share = metric.get("coverage")
        return share if share in (None, 1.0) or "/" not in metric["name"] else "in part"

    return {
        (profile["profile"], metric["name"]): (metric["value"], metric["n"], metric.get("ci95"), covered(metric))
        for profile in json.loads(printed)["profiles"]
        for metric in profile["metrics"]
    }


def as_expected(printed: str) -> dict[tuple[str, str], Any]:
    """Map as `figures`; an interval's ends may differ in the last bits, which depend on the processor."""
    return {
        name: (value, n, ends and pytest.approx(ends, rel=1e-12, abs=1e-15), coverage)
        for name, (value, n, ends, coverage) in figures(printed).items()
    }


def single_rows(printed: str) -> set[tuple[str, str]]:
    """Return the metrics whose rows stand alone: the rule of their intervals is that of 0.1, others' is another one."""
    return {
        (profile["profile"], metric["name"])
        for profile in json.loads(printed)["profiles"]
        for metric in profile["metrics"]
        if (metric.get("interval") or {}).get("method") == "Wilson"
    }


def of_rule(metrics: dict[tuple[str, str], Any], profile: str, metric: str, same_rule: set[tuple[str, str]]) -> Any:
    value, n, ends, coverage = metrics[profile, metric]
    return (value, n, ends if (profile, metric) in same_rule else None, coverage)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_0_1_scores_to_the_same_figures(name: str, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("score", f"runs/{name}", "--profile", "all", "--json") == 0
    expected = as_expected((old / "expected" / f"{name}.json").read_text())
    assert expected
    printed = capsys.readouterr().out
    found, same_rule = figures(printed), single_rows(printed)
    # 0.1 did not break VLM2-Bench's figures down by what was changed, by kind of thing and by pattern.
    found = {key: value for key, value in found.items() if not {"cue", "type", "pattern"} & set(key[1].split("/"))}
    assert found.keys() == expected.keys() and same_rule
    differing = {
        profile
        for profile, metric in found
        if of_rule(found, profile, metric, same_rule) != of_rule(expected, profile, metric, same_rule)
    }
    assert differing <= READ_OTHERWISE.get(name, set())


@pytest.mark.parametrize(
    ("name", "profile", "part", "share"),
    [("chart", "strict", "accuracy/truth/attribute", 3 / 80), ("killed", "exact", "accuracy/digits/choice", 16 / 240)],
)
def test_the_share_of_a_slice_of_0_1_is_counted(name, profile, part, share, old, capsys):
    assert run_command("score", f"runs/{name}", "--profile", "all", "--json") == 0
    profiles = {each["profile"]: each["metrics"] for each in json.loads(capsys.readouterr().out)["profiles"]}
    (metric,) = (metric for metric in profiles[profile] if metric["name"] == part)
    assert metric["coverage"] == pytest.approx(share)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_of_0_1_takes_up_its_own_run(name: str, old: Path) -> None:
    """The fingerprint still matches: the run is not refused, and answers that are there are not asked again."""
    journal = old / "runs" / name / "results.jsonl"
    before = journal.read_bytes()
    fingerprint = json.loads((old / "runs" / name / "run_meta.json").read_text())["fingerprint"]
    run_command("run", *COMMANDS[name], "--model", "embedded", "--out", f"runs/{name}", "--quiet")
    assert journal.read_bytes().startswith(before)
    assert json.loads((old / "runs" / name / "run_meta.json").read_text())["fingerprint"] == fingerprint
    answered = Counter(
        (record["sample_id"], record.get("repeat", 0))
        for record in map(json.loads, journal.read_text().splitlines())
        if record["status"] == "ok"
    )
    assert set(answered.values()) == {1}


def test_a_killed_run_of_0_1_resumes_and_ends_with_each_sample_once(old: Path) -> None:
    words = ["run", "chart/digits", "--model", "embedded", "-o", "questions=240", "-c", "1", "--quiet"]
    assert run_command(*words, "--out", "runs/killed") == 0
    assert run_command(*words, "--out", "runs/whole") == 0
    records = [json.loads(line) for line in (old / "runs/killed/results.jsonl").read_text().splitlines()]
    assert max(Counter(record["sample_id"] for record in records).values()) == 1
    resumed, whole = (
        snellen.load_run(f"runs/{name}").summarize("strict").metrics["strict"] for name in ("killed", "whole")
    )
    assert [(metric.name, metric.value, metric.n) for metric in resumed] == [
        (metric.name, metric.value, metric.n) for metric in whole
    ]


def test_verdicts_of_0_1_still_decide(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("score", "runs/fika", "--json") == 0
    values = {name: value for (_, name), (value, *_) in figures(capsys.readouterr().out).items()}
    assert values["strict_accuracy"] == 0.25


AGENT_OF_0_1 = {
    "kind": "agent",
    "agent": "opencode",
    "version": "1.18.33",
    "model": "here/m",
    "base_url": "http://127.0.0.1:9/v1",
    "generation": {},
    "media": {},
    "timeout_s": 300.0,
    "sandbox": "bubblewrap",
    "image": "",
}


def test_an_agents_run_of_0_1_scores_and_is_refused_with_each_limit_on_a_line(old, capsys):
    """Its agent had no limits and the network of the machine: its answers and those of today are two experiments."""
    path = old / "runs" / "chart" / "run_meta.json"
    meta = json.loads(path.read_text())
    meta["identity"]["model"] = AGENT_OF_0_1
    meta["spec"]["model"] = "agent:opencode"
    meta["spec"]["options"] |= {"agent_model": "here/m", "base_url": "http://127.0.0.1:9/v1"}
    path.write_text(json.dumps(meta))
    journal = (old / "runs/chart/results.jsonl").read_bytes()
    assert run_command("score", "runs/chart", "--profile", "all", "--json") == 0
    expected = figures((old / "expected" / "chart.json").read_text())
    found = figures(capsys.readouterr().out)
    assert {name: (value, n) for name, (value, n, *_) in found.items()} == {
        name: (value, n) for name, (value, n, *_) in expected.items()
    }
    words = ["--model", "agent:opencode", "--agent-model", "here/m", "--base-url", "http://127.0.0.1:9/v1"]
    assert main(["run", "chart", "--limit", "40", *words, "--out", "runs/chart"]) == 5
    refusal = capsys.readouterr().err
    for name, value in (
        ("limits.depth", 128),
        ("limits.disk", 1 << 30),
        ("limits.files", 65536),
        ("limits.memory", 2 << 30),
        ("limits.open_files", 2048),
        ("limits.processes", 128),
        ("limits.requests", 300),
        ("network", "endpoint"),
    ):
        assert re.search(rf"^ *model\.{name} +\(none\)  ->  {value}$", refusal, re.MULTILINE), refusal
    assert "snellen score runs/chart" in refusal and "--out runs/chart-2" in refusal
    assert (old / "runs/chart/results.jsonl").read_bytes() == journal
