"""Announced ends of models: a warning before the date, another after it, and no judge that is gone."""

import datetime as dt
import json

import pytest

from servers.scripted import Say, ScriptedServer
from snellen import evaluate
from snellen.cli import main
from snellen.easi.external import vlmevalkit
from snellen.easi.external.settings import HarnessSettings
from snellen.errors import JudgeError
from snellen.models import shutdowns
from snellen.models.shutdowns import announced


@pytest.fixture
def on(monkeypatch):
    """Set today's date."""
    return lambda *date: monkeypatch.setattr(shutdowns, "today", lambda: dt.date(*date))


@pytest.fixture
def server():
    """An endpoint that serves models by names that OpenAI ends."""
    names = ("gpt-5-mini", "gpt-4-turbo", "o1")
    with ScriptedServer({name: [Say("ANSWER: A")] for name in names}) as running:
        yield running


@pytest.fixture
def run_folder(tmp_path, server, monkeypatch):
    """A run of one question, and a judge's endpoint that counts requests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUDGE_API_KEY", "sk-judge-key-0123456789")
    monkeypatch.setenv("JUDGE_BASE_URL", server.url)
    evaluate("chart", "replay:" + str(_answers(tmp_path)), out=tmp_path / "run", limit=1)
    return tmp_path / "run"


def _answers(folder):
    path = folder / "answers.jsonl"
    from snellen.benchmarks import registry
    from snellen.benchmarks.base import Data

    sample = next(iter(registry.find("chart").samples(Data())))
    path.write_text(json.dumps({"id": sample.id, "response": "A"}) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("api:o1", (2026, 10, 23)),
        ("tools:gpt-4-turbo", (2026, 10, 23)),
        ("gpt-4-turbo-2024-04-09", (2026, 10, 23)),
        ("gpt-4-0613", (2026, 10, 23)),
        ("GPT-4o-2024-05-13", (2026, 10, 23)),
        ("openai/gpt-5-2025-08-07", (2026, 12, 11)),
        ("gpt-5-mini", (2026, 12, 11)),
        ("gpt-4o", (2027, 1, 14)),
        ("gpt-4o-1120", (2027, 1, 14)),
        ("gpt-5.1", (2027, 4, 1)),
    ],
)
def test_a_model_is_known_by_its_name_its_snapshot_and_the_name_of_a_harness(name, date):
    found = announced(name)
    assert found is not None and found.date == dt.date(*date)


@pytest.mark.parametrize(
    "name",
    [
        "gpt-6-astra",
        "local:openai/gpt-4",
        "vllm:openai/gpt-4",
        "replay:o1",
        "gpt-4x",
        "my-o1",
        "o1-like",
        "gpt-4o-tuned",
        "",
    ],
)
def test_other_names_have_no_announced_end(name):
    assert announced(name) is None


def test_alternatives_outlive_the_day_on_which_they_are_named():
    gone = announced("gpt-4")
    assert gone.alternatives(dt.date(2026, 11, 22)).startswith("gpt-6-astra, gpt-5.1 (until 2027-04-01)")
    assert gone.alternatives(dt.date(2027, 5, 1)) == "gpt-6-astra"


def test_a_run_is_warned_with_the_date_before_it_and_told_that_it_is_gone_after_it(on, server, tmp_path, capsys):
    for date, said in (
        ((2026, 12, 10), "shuts gpt-5-mini down on 2026-12-11"),
        ((2026, 12, 11), "shut gpt-5-mini down on"),
    ):
        on(*date)
        run = ["run", "chart", "-m", "api:gpt-5-mini", "--base-url", server.url, "--limit", "1", "-q"]
        assert main([*run, "--out", str(tmp_path / f"{date}")]) == 0
        err = capsys.readouterr().err
        assert said in err and "gpt-6-astra" in err
    first, second = ((tmp_path / f"(2026, 12, {day})" / "summary.json").read_text() for day in (10, 11))
    assert json.loads(first)["profiles"] == json.loads(second)["profiles"]


def test_a_judge_that_is_gone_is_refused_before_any_request(on, run_folder, server, capsys, monkeypatch):
    on(2026, 11, 22)
    assert main(["judge", str(run_folder), "-m", "gpt-4-turbo", "-q"]) != 0
    err = " ".join(capsys.readouterr().err.split())
    assert "OpenAI shut gpt-4-turbo down on 2026-10-23" in err and "gpt-6-astra" in err and "JUDGE_SELF_HOSTED" in err
    assert not server.asked
    assert not run_folder.with_name("run_judged").exists()


def test_an_endpoint_of_ones_own_may_serve_a_judge_by_a_name_that_is_gone(on, run_folder, server, capsys, monkeypatch):
    on(2026, 11, 22)
    monkeypatch.setenv("JUDGE_SELF_HOSTED", "1")
    main(["judge", str(run_folder), "-m", "gpt-4-turbo", "-q"])
    assert server.asked
    assert "shut gpt-4-turbo down on 2026-10-23; another server may still use the name" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["failures", "RUN", "--judge", "o1"], ["easi", "--judge", "o1"]])
def test_every_command_that_takes_a_judge_refuses_one_that_is_gone(on, run_folder, server, capsys, command):
    on(2026, 11, 22)
    words = [str(run_folder) if word == "RUN" else word for word in command]
    more = ["--model", "api:x", "--base-url", server.url] if command[0] == "easi" else []
    assert main([*words, *more]) != 0
    assert "OpenAI shut o1 down on 2026-10-23" in " ".join(capsys.readouterr().err.split())
    assert not server.asked


def test_the_kit_s_judges_are_refused_by_the_date_of_the_model_behind_their_name(on, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-judge-key-0123456789")
    on(2027, 1, 13)
    vlmevalkit.check(HarnessSettings(model="m", judge_model="gpt-4o-1120"))
    on(2027, 1, 14)
    with pytest.raises(JudgeError, match="2027-01-14"):
        vlmevalkit.check(HarnessSettings(model="m", judge_model="gpt-4o-1120"))
