"""Real OpenClaw and OpenCode search the web and read a page of it, from a sandbox that has no network."""

from __future__ import annotations

import json
import shutil

import pytest

from agents.test_real_agents import KEY, play
from models.tools.test_tools_addresses import ALLOWED, Names, backend, site  # noqa: F401 - a fixture
from servers.loopback import JsonHandler, LoopbackServer
from servers.scripted import Call, Repeat, Say, ScriptedServer
from snellen.models.agents import gateway, openclaw, sandbox

pytestmark = [
    pytest.mark.agents,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: no agent is tested"),
]


@pytest.fixture
def engine(site):  # noqa: F811
    """The address of a SearXNG server that finds one page."""

    class Engine(JsonHandler):
        def do_GET(self):
            page = f"http://{ALLOWED}:{site[0]}/page"
            hit = {"url": page, "title": "The hobby", "content": "a small falcon, long-winged-4417"}
            self.send(200, {"results": [hit]})

    with LoopbackServer(Engine) as server:
        yield server.origin


def test_an_agent_searches_the_web_and_reads_a_page_from_a_sandbox_without_a_network(
    agent,
    tmp_path,
    monkeypatch,
    site,  # noqa: F811
    engine,
):
    port, visits = site
    (tmp_path / "tools.json").write_text(json.dumps({"backend": "web", "searxng": engine}))

    def stub(settings):
        """The real backend, for which one name alone may be on loopback."""
        web = backend(port, Names(open_example_org="127.0.0.1"), settings.limits)
        web._searxng = settings.searxng
        return web

    monkeypatch.setattr(gateway, "open_web", stub)
    page, secret = f"http://{ALLOWED}:{port}/page", f"http://127.0.0.1:{port}/secret"
    direct = f"wget -qO- {secret} || curl -s {secret} || echo no-way-out"
    if agent == "openclaw":
        tools = f"{sandbox.SAMPLE}/{openclaw.WORKPLACE}/skills/snellen-tools/tools"
        calls = [
            Call("exec", {"command": f"{tools} web_search --query 'falcon'"}),
            Call("exec", {"command": f"{tools} fetch_url --url {page}"}),
            Call("exec", {"command": f"{tools} fetch_url --url {secret}; {direct}"}),
        ]
    else:
        calls = [
            Call("snellen_web_search", {"query": "falcon"}),
            Call("snellen_fetch_url", {"url": page}),
            Call("snellen_fetch_url", {"url": secret}),
            Call("bash", {"command": direct, "description": "look"}),
        ]
    with ScriptedServer({"mock/vl": [Say("?")], "use": [*calls, Repeat()]}) as server:
        run = play(
            agent, ["use"], tmp_path / "run", server, timeout_s=200.0, concurrency=1, tools=str(tmp_path / "tools.json")
        )
        (record,) = run.folder.records()
        assert record.status == "ok", record.error
        assert "long-winged-4417" in record.response.text and "Café & bar" in record.response.text
        assert "not an address of the public network" in record.response.text
        assert "no-way-out" in record.response.text
        assert visits == ["/page"]
        assert KEY not in json.dumps(server.asked)
