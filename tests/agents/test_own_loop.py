"""`--model agent:snellen`: our own tool loop among the agents, with named providers and any endpoint."""

from pathlib import Path

import pytest

from servers.scripted import Call, Say, ScriptedServer
from snellen.cli import main
from snellen.errors import UsageError
from snellen.models.agents.own_loop import PROVIDERS
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model


@pytest.fixture(autouse=True)
def settled(monkeypatch, tmp_path):
    for name in ("OPENAI_BASE_URL", "SNELLEN_TOOLS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-provider")
    monkeypatch.chdir(tmp_path)


def test_the_own_loop_is_listed_and_runs_with_any_endpoint(capsys):
    assert main(["agents", "list"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("snellen ")]
    assert "built in: --model agent:snellen" in line and "anthropic" in line
    script = [Call("view_image", {"image": "image.png"}), Say("seven")]
    with ScriptedServer({"org/vl": script}) as server:
        words = ["-m", "agent:snellen", "--agent-model", "my-server/org/vl", "--base-url", server.url]
        assert main(["run", "chart/digits", *words, "--limit", "1", "--out", "run", "-q"]) == 0
        assert {request["model"] for request in server.asked} == {"org/vl"}
    assert main(["export", "run", "--format", "atif", "--out", "atif"]) == 0
    assert '"model_name": "org/vl"' in next(Path("atif").glob("*.json")).read_text()


@pytest.mark.parametrize("name", list(PROVIDERS))
def test_a_known_provider_needs_no_address(name):
    identity = open_model("agent:snellen", ModelOptions(agent_model=f"{name}/some-model")).identity()
    assert identity["model"] == "some-model" and PROVIDERS[name].base_url in str(identity)
    other = ModelOptions(agent_model=f"{name}/some-model", base_url="http://127.0.0.1:9/v1")
    assert "127.0.0.1:9" in str(open_model("agent:snellen", other).identity())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ModelOptions(), "needs --agent-model"),
        (ModelOptions(agent_model="alone"), "needs --agent-model"),
        (ModelOptions(agent_model="elsewhere/x"), "the endpoint of elsewhere is not known"),
        (ModelOptions(agent_model="openai/x", sandbox="none"), "--sandbox is for agents in a sandbox"),
        (ModelOptions(agent_model="openai/x", agent_memory=1 << 30), "--agent-memory is for agents"),
    ],
)
def test_what_the_own_loop_cannot_use_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        open_model("agent:snellen", options)
    with pytest.raises(UsageError, match="built in"):
        from snellen.models.agents import install

        install.recipe_of("snellen")
