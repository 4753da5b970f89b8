"""What an agent refuses, and what goes into a run's fingerprint."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs

from snellen.errors import PreflightError, UsageError
from snellen.models.agents import tool_setup
from snellen.models.agents.tool_setup import ToolSetup
from snellen.models.agents.workdir import write_question
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.models.tools.settings import ToolSettings
from snellen.types import Image, MediaSettings, Prompt, Text, Video

from agents.conftest import picture  # isort: skip

URL = "http://127.0.0.1:9/v1"
OPTIONS = ModelOptions(agent_model="here/org/model", base_url=URL)


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.key = str(hash(data))

    def read(self) -> bytes:
        return self.data


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("agent:openclaw", ModelOptions(base_url=URL), "needs --agent-model"),
        ("agent:openclaw", ModelOptions(base_url=URL, agent_model="model-alone"), "PROVIDER/MODEL"),
        ("agent:openjaw", OPTIONS, "no agent 'openjaw'"),
        ("agent:opencode", ModelOptions(agent_model="a/b", base_url=URL, extra_body={"a": 1}), "--extra-body"),
        ("agent:opencode", ModelOptions(agent_model="a/b", base_url=URL, dtype="float16"), "--dtype"),
        ("agent:opencode", ModelOptions(agent_model="a/b", base_url=URL, sandbox="docker"), "no such sandbox"),
        ("api:gpt", ModelOptions(agent_model="a/b", base_url=URL), "are for agents"),
        ("embedded:x", ModelOptions(sandbox="none"), "are for agents"),
    ],
)
def test_options_that_cannot_be_used_are_refused(name, options, said):
    with pytest.raises(UsageError, match=said):
        open_model(name, options)


def test_the_fingerprint_holds_agent_version_model_and_sandbox():
    identity = open_model("agent:openclaw", OPTIONS).identity()
    assert identity["agent"] == "openclaw" and identity["version"] == "2026.3.13"
    assert identity["model"] == "here/org/model" and identity["sandbox"] == "bubblewrap"
    other = open_model("agent:openclaw@2026.9.6", OPTIONS).identity()
    assert other["version"] == "2026.9.6" and other != identity


async def test_an_agent_that_is_not_installed_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path))
    with pytest.raises(PreflightError, match=r"snellen agents install opencode@9\.9\.9"):
        await open_model("agent:opencode@9.9.9", OPTIONS).preflight()


def test_pictures_get_neutral_names_and_stand_where_the_prompt_has_them(tmp_path):
    one, two = picture(1), picture(2)
    prompt = Prompt((Text("First"), Image(Bytes(one)), Text("then"), Image(Bytes(two))), system="Be brief.")
    asked = write_question(prompt, MediaSettings(), tmp_path)
    assert asked.text == "Be brief.\n\nFirst\n\n./image-1.png\n\nthen\n\n./image-2.png"
    assert (tmp_path / "image-2.png").read_bytes() == two
    alone = write_question(Prompt((Image(Bytes(one)), Text("What?"))), MediaSettings(format="jpeg"), tmp_path)
    assert alone.images == ("image.jpg",)


def test_the_command_line_takes_an_agent_and_says_what_is_missing(tmp_path, monkeypatch, capsys):
    from snellen.cli import main

    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path))
    words = ["run", "chart", "--model", "agent:opencode@9.9.9", "--agent-model", "here/m", "--base-url", URL]
    assert main([*words, "--sandbox", "none", "--limit", "1", "--out", str(tmp_path / "run"), "-q"]) == 4
    assert "snellen agents install opencode@9.9.9" in capsys.readouterr().err
    assert main(["run", "chart", "--model", "embedded", "--sandbox", "none", "--out", str(tmp_path / "other")]) == 2
    assert "are for agents" in capsys.readouterr().err


def test_a_video_is_refused(tmp_path):
    with pytest.raises(Exception, match="no video"):
        write_question(Prompt((Video(Bytes(b"")), Text("What?"))), MediaSettings(), tmp_path)


def test_a_sandbox_shows_no_folder_that_holds_data_or_results_and_a_replayed_record_to_read_alone(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    for name in ("pages", "calls", "results/run"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "pages" / "page.txt").write_text("A page.")
    settings = ToolSettings(pages=str(tmp_path / "pages"), record=str(tmp_path / "calls"))
    data, run = tmp_path / "fika.zip", tmp_path / "results" / "run"
    shown = tool_setup.ready(ToolSetup(settings), [data, run])
    assert shown.written == (tmp_path / "calls",) and tmp_path / "pages" in shown.read
    replayed = tool_setup.ready(ToolSetup(structs.replace(settings, replay=True)), [data, run])
    assert replayed.written == () and tmp_path / "calls" in replayed.read
    for holding in (data, run, Path(sys.prefix) / "lib" / "data.zip"):
        wrong = structs.replace(settings, record=str(tmp_path)) if holding.is_relative_to(tmp_path) else settings
        with pytest.raises(PreflightError, match="lies in it, where its answers could be found"):
            tool_setup.ready(ToolSetup(wrong), [holding])
