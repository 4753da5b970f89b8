"""The user's own configuration and program of an agent: model, endpoint and key from it, and nothing of it written down."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.conftest import picture
from agents.test_real_agents import Bytes
from servers.scripted import Say, ScriptedServer
from snellen import evaluate, redaction
from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import PreflightError, UsageError
from snellen.models.agents import openclaw, opencode, own_program
from snellen.models.agents.install import find
from snellen.models.agents.workdir import AgentModelSettings
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.scoring.statistics import mean
from snellen.types import Generation, Image, Prompt, Sample, Score, Text

KEY = "sk-the-key-in-the-file-123456"
HOME = os.environ.get("HOME", "")
OTHER = "the-token-of-another-server-77"
STAND_IN = Path(__file__).with_name("stand_in_opencode.py")
SANDBOX = pytest.mark.skipif(
    shutil.which("bwrap") is None or not Path("/usr/bin/python3").exists(), reason="NO bwrap HERE: no program is tested"
)


@pytest.fixture(autouse=True)
def settled(monkeypatch, tmp_path):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENCODE_CONFIG", "OPENCLAW_CONFIG_PATH", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def opencode_config(url: str = "http://127.0.0.1:8010/v1", **more: Any) -> dict[str, Any]:
    options = {"baseURL": url, "apiKey": KEY, "headers": {"X-Auth-Token": OTHER}}
    models = {"org/Model-8B": {"name": "Shown", "limit": {"context": 32768, "output": 512}}}
    return {
        "$schema": "https://opencode.ai/config.json",
        "model": "vllm-local/org/Model-8B",
        "permission": {"webfetch": "deny"},
        "provider": {"vllm-local": {"npm": "@x/y", "options": options, "models": models}, "away": {"options": {"apiKey": "k" * 20}}},
        **more,
    }  # fmt: skip


OPENCLAW = """{
  // JSON5, as OpenClaw reads it
  models: { providers: { 'vllm-local': {
    baseUrl: "http://127.0.0.1:8010/v1", apiKey: "${VLLM_KEY}", api: 'openai-completions',
    models: [ { id: "org/Model-8B", contextWindow: 16384, maxTokens: 700, input: ["text", "image"], }, ],
  } } },
  agents: { defaults: { model: { primary: "vllm-local/org/Model-8B" }, imageMaxDimensionPx: 2400, workspace: "/home/me" } },
  tools: { web: { search: { enabled: false } } }, /* off */
  channels: { whatsapp: { token: "the-token-of-whatsapp-1" } },
}"""


def written(name: str, content: Any) -> Path:
    path = Path(name)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "http://x/v1"}', {"a": "http://x/v1"}),
        ("{a: 1, 'b-c': [true, null,], // end\n}", {"a": 1, "b-c": [True, None]}),
        ("""{'say': 'it\\'s "so" // no comment', /* {x: */ n: -1.5e3}""", {"say": 'it\'s "so" // no comment', "n": -1500}),
        ('\ufeff[1, 2, ]', [1, 2]),
    ],
)  # fmt: skip
def test_configurations_with_comments_and_bare_keys_are_read(text, value):
    assert own_program.decode(text) == value


@pytest.mark.parametrize("text", ["{a: }", "{", '{"a": "unclosed}', "{a: b}", "[" * 100_000, ""])
def test_what_is_no_configuration_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        own_program.decode(text)


def test_model_endpoint_and_key_are_taken_from_either_agents_file(monkeypatch):
    code = own_program.read("opencode", written("opencode.json", opencode_config()))
    assert (code.model, code.base_urls["vllm-local"]) == ("vllm-local/org/Model-8B", "http://127.0.0.1:8010/v1")
    assert code.key_of("vllm-local") == (KEY, "") and code.key_of("nowhere") == ("", "")
    claw = own_program.read("openclaw", written("openclaw.json", OPENCLAW))
    assert (claw.model, claw.base_urls["vllm-local"]) == ("vllm-local/org/Model-8B", "http://127.0.0.1:8010/v1")
    assert claw.key_of("vllm-local") == ("", "VLLM_KEY")
    for secret in (KEY, OTHER, "the-token-of-whatsapp-1"):
        assert secret not in redaction.redact(f"before {secret} after")
    other_key = opencode_config()
    other_key["provider"]["vllm-local"]["options"]["apiKey"] = "sk-another-key-of-the-file-1"
    assert own_program.read("opencode", written("b.json", other_key)).digest == code.digest
    assert own_program.read("opencode", written("c.json", opencode_config(theme="x"))).digest != code.digest


def settings(config: dict[str, Any], **generation: Any) -> AgentModelSettings:
    return AgentModelSettings("vllm-local", "org/Model-8B", "http://gate/v1", Generation(**generation), 60.0, config)


def test_the_copy_keeps_the_users_settings_and_not_the_keys_or_other_providers():
    ours = {
        "model": "vllm-local/org/Model-8B", "permission": {"bash": "allow", "webfetch": "allow"}, "share": "disabled",
        "provider": {"vllm-local": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://gate/v1", "apiKey": "{env:K}"},
                                    "models": {"org/Model-8B": {"attachment": True, "limit": {"context": 1, "output": 2}}}}},
    }  # fmt: skip
    made = opencode.with_own(ours, settings(opencode_config(share="auto", instructions=["a.md"])))
    assert made["permission"] == {"bash": "allow", "webfetch": "deny"}
    assert made["share"] == "disabled" and made["instructions"] == ["a.md"]
    assert list(made["provider"]) == ["vllm-local"] and KEY not in json.dumps(made)
    provider = made["provider"]["vllm-local"]
    assert provider["options"]["baseURL"] == "http://gate/v1" and provider["options"]["apiKey"] == "{env:K}"
    assert provider["models"]["org/Model-8B"] == {
        "attachment": True, "limit": {"context": 32768, "output": 512}, "name": "Shown",
    }  # fmt: skip
    limited = opencode.with_own(ours, settings(opencode_config(), max_tokens=9))
    assert limited["provider"]["vllm-local"]["models"]["org/Model-8B"]["limit"] == {"context": 32768, "output": 9}
    claw = {
        "models": {"mode": "merge", "providers": {"vllm-local": {"baseUrl": "http://gate/v1", "apiKey": "${K}", "models": [{"id": "org/Model-8B", "maxTokens": 2}]}}},
        "agents": {"defaults": {"workspace": "/sample/state/workspace", "model": {"primary": "vllm-local/org/Model-8B"}}},
    }  # fmt: skip
    made = openclaw.with_own(claw, settings(own_program.decode(OPENCLAW)))
    defaults = made["agents"]["defaults"]
    assert defaults["imageMaxDimensionPx"] == 2400 and defaults["workspace"] == "/sample/state/workspace"
    assert made["tools"] == {"web": {"search": {"enabled": False}}} and "channels" not in made
    provider = made["models"]["providers"]["vllm-local"]
    assert (provider["baseUrl"], provider["apiKey"], provider["models"][0]["contextWindow"]) == (
        "http://gate/v1",
        "${K}",
        16384,
    )
    assert opencode.with_own(ours, settings({})) is ours and openclaw.with_own(claw, settings({})) is claw


def test_the_configuration_stands_for_options_and_options_go_before_it(monkeypatch):
    path = str(written("opencode.json", opencode_config()))
    identity = open_model("agent:opencode", ModelOptions(agent_config=path)).identity()
    assert identity["model"] == "vllm-local/org/Model-8B" and identity["base_url"] == "http://127.0.0.1:8010/v1"
    assert len(identity["config"]) == 64 and KEY not in str(identity)
    options = ModelOptions(agent_config=path, agent_model="vllm-local/other", base_url="http://127.0.0.1:9/v1")
    identity = open_model("agent:opencode", options).identity()
    assert (identity["model"], identity["base_url"]) == ("vllm-local/other", "http://127.0.0.1:9/v1")
    plain = open_model("agent:opencode", ModelOptions(agent_model="a/b", base_url="http://127.0.0.1:9/v1")).identity()
    assert "config" not in plain and "program" not in plain


def test_without_agent_model_the_agents_own_place_is_looked_in(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"needs --agent-model PROVIDER/MODEL\n"):
        open_model("agent:opencode", ModelOptions())
    place = tmp_path / "home" / ".config" / "opencode"
    place.mkdir(parents=True)
    (place / "opencode.jsonc").write_text("// mine\n" + json.dumps(opencode_config()))
    identity = open_model("agent:opencode", ModelOptions()).identity()
    assert identity["model"] == "vllm-local/org/Model-8B" and "config" not in identity
    claw = tmp_path / "claw.json"
    claw.write_text(OPENCLAW)
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(claw))
    assert open_model("agent:openclaw", ModelOptions()).identity()["model"] == "vllm-local/org/Model-8B"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read own.json"),
        ("{model: ", "cannot be read as JSON"),
        ("[]", "an object was expected"),
        ({"theme": "x"}, "names no model"),
        ({"model": "anthropic/claude"}, "no endpoint of anthropic"),
        ({"model": "p/m", "provider": {"p": {"options": {"baseURL": "http://h/v1", "apiKey": "{file:~/k}"}}}}, "a variable was expected"),
        ({"model": "p/m", "provider": {"p": {"options": {"baseURL": "http://me:pw@h/v1"}}}}, "user name or password"),
        ({"provider": [1], "model": 3}, "names no model"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_used_is_refused_with_its_file(content, message):
    if content is not None:
        written("own.json", content)
    with pytest.raises(UsageError, match=message):
        open_model("agent:opencode", ModelOptions(agent_config="own.json"))


@pytest.mark.parametrize(("given", "message"), [("nothing", "a program was expected"), ("./plain", "not executable")])
def test_a_program_that_cannot_be_started_is_refused(given, message):
    Path("plain").write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match=message):
        open_model("agent:opencode", ModelOptions(agent_model="a/b", base_url="http://h/v1", agent_bin=given))
    with pytest.raises(UsageError, match="are for agents"):
        open_model("api:x", ModelOptions(agent_bin=given))


def benchmark(text: str) -> Benchmark:
    def samples(data: Data) -> Iterator[Sample]:
        yield Sample("one", Prompt((Image(Bytes(picture())), Text(text))), "kestrel", "open")

    return Benchmark(
        name="own-agent",
        version="1",
        samples=samples,
        score={"strict": lambda sample, reply: Score(float("kestrel" in reply), reply, "correct" if "kestrel" in reply else "wrong")},
        summarize=lambda scores, profile: [mean("accuracy", scores)],
        profiles={"strict": "names the bird"},
        size=lambda data: 1,
    )  # fmt: skip


def planted(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if KEY.encode() in path.read_bytes() or OTHER.encode() in path.read_bytes()]


@SANDBOX
def test_an_own_program_with_an_own_configuration_answers_in_the_sandbox_and_no_key_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "secret.txt").write_text("not for the agent")
    program = Path(shutil.copy(STAND_IN, programs / "opencode"))
    program.chmod(0o755)
    with ScriptedServer({"org/Model-8B": [Say("a kestrel")]}) as server:
        path = written("own.json", opencode_config(server.url, instructions=["mine.md"]))
        options = {"agent_config": str(path), "agent_bin": str(program), "timeout_s": 60.0}
        run = evaluate(benchmark("What bird?"), "agent:opencode", out="run", **options)
        (record,) = run.folder.records()
        assert record.response is not None and record.response.text == "a kestrel"
        assert run.meta.identity["model"]["version"] == "9.8.7" and len(run.meta.identity["model"]["program"]) == 64
        looked = evaluate(benchmark("<look> at it"), "agent:opencode", out="looked", **options)
        (record,) = looked.folder.records()
        said = json.loads(record.response.text)
    assert said["changed"].startswith("not changed") and said["changed"].endswith("not moved")
    assert "secret.txt" not in said["beside"]
    assert said["config"]["instructions"] == ["mine.md"] and said["config"]["permission"]["webfetch"] == "deny"
    assert said["config"]["provider"]["vllm-local"]["options"]["apiKey"] == "{env:SNELLEN_MODEL_KEY}"
    assert server.keys == {f"Bearer {KEY}"}
    assert planted(Path("run")) == planted(Path("looked")) == []


@SANDBOX
@pytest.mark.parametrize("where", ["/usr/src/app/data/fika.zip", "/usr/local/results/run", "/lib/data.jsonl", "link"])
def test_data_among_the_programs_of_the_system_is_not_shown_to_an_agent(where, tmp_path):
    program = Path(shutil.copy(STAND_IN, tmp_path / "opencode"))
    program.chmod(0o755)
    if where == "link":
        (tmp_path / "link").symlink_to("/usr/share/somewhere")
        where = str(tmp_path / "link" / "data.zip")
    options = ModelOptions(agent_model="a/b", base_url="http://127.0.0.1:9/v1", agent_bin=str(program))
    model = open_model("agent:opencode", options)
    model.hide([tmp_path / "run", Path(where)])
    with pytest.raises(PreflightError, match="among the programs of the system"):
        asyncio.run(model.preflight())


@SANDBOX
@pytest.mark.parametrize(
    ("kind", "words"), [("link", "a link"), ("pipe", "a pipe"), ("folder", "a folder"), ("socket", "a socket")]
)
def test_an_agent_that_puts_something_in_the_place_of_its_record_is_named(kind, words, tmp_path):
    program = Path(shutil.copy(STAND_IN, tmp_path / "opencode"))
    program.chmod(0o755)
    with ScriptedServer({"org/Model-8B": [Say("a kestrel")]}) as server:
        path = written("own.json", opencode_config(server.url))
        options = {"agent_config": str(path), "agent_bin": str(program), "timeout_s": 60.0, "max_attempts": 1}
        run = evaluate(benchmark(f"<{kind}>"), "agent:opencode", out="run", **options)
    (record,) = run.folder.records()
    assert record.error is not None and record.error.kind == "agent_record"
    assert f"in the place of its own record: opencode.db is {words}" in record.error.message


@pytest.mark.agents
@SANDBOX
@pytest.mark.parametrize("name", ["opencode", "openclaw"])
def test_the_real_agents_run_with_the_users_configuration_and_program(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", HOME)
    installation = find(name)
    if installation is None:
        pytest.skip(f"{name} is not installed; `make test-agents` installs it")
    packages = installation.folder / "node_modules"
    program = (
        next(packages.glob("opencode-linux-*/bin/opencode"))
        if name == "opencode"
        else packages / "openclaw" / "openclaw.mjs"
    )
    with ScriptedServer({"org/Model-8B": [Say("a kestrel")]}) as server:
        own = (
            opencode_config(server.url)
            if name == "opencode"
            else OPENCLAW.replace("http://127.0.0.1:8010/v1", server.url)
        )
        if name == "opencode":
            own["provider"]["vllm-local"].pop("npm")
        monkeypatch.setenv("VLLM_KEY", KEY)
        options = {"agent_config": str(written("own.json", own)), "agent_bin": str(program), "timeout_s": 90.0}
        run = evaluate(benchmark("What bird?"), f"agent:{name}", out="run", **options)
    (record,) = run.folder.records()
    assert record.response is not None and record.response.text == "a kestrel", record
    assert planted(Path("run")) == []
