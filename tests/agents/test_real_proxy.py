"""Real OpenClaw and OpenCode read the web with their own tools and with curl, by the proxy of `--agent-network web`."""

from __future__ import annotations

import functools
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from agents.test_real_agents import KEY, play
from agents.test_real_web import engine  # noqa: F401 - a fixture
from benchmarks.fika import made
from models.tools.test_tools_addresses import ALLOWED, Names, backend, site  # noqa: F401 - a fixture
from servers.scripted import Call, Repeat, Say, ScriptedServer
from snellen.cli import main
from snellen.models.agents import gateway, install, openclaw, runner, sandbox
from snellen.models.agents.web_proxy import WebProxy
from snellen.models.tools.base import ImageHit
from snellen.models.tools.url_policy import public

pytestmark = [
    pytest.mark.agents,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: no agent is tested"),
]


PAGE = (Path(__file__).parents[2] / "docs" / "fika.md").read_text("utf-8")
MODEL = "Qwen/Qwen3-VL-8B-Instruct-FP8"


def loopback_web(port: int) -> functools.partial[WebProxy]:
    """The real proxy, for which one name alone may be on loopback."""

    def permitted(host: str, address: str) -> bool:
        return public(host, address) or (host == ALLOWED and address == "127.0.0.1")

    names = Names(open_example_org="127.0.0.1")
    return functools.partial(WebProxy, resolver=names, permitted=permitted, ports=frozenset({80, 443, port}))


def test_an_agent_reads_a_page_with_its_own_tools_and_reaches_no_server_of_the_machine(
    agent,
    tmp_path,
    monkeypatch,
    capfd,
    site,  # noqa: F811
):
    port, visits = site
    monkeypatch.setattr(runner, "WebProxy", loopback_web(port))
    page, secret = f"http://{ALLOWED}:{port}/page", f"http://127.0.0.1:{port}/secret"
    shell = f"curl -s {page}; curl -s {secret} || curl -s --noproxy '' -x http://127.0.0.1:8323 {secret}; curl -sk https://{ALLOWED}:{port}/"
    addresses = (page, f"https://{ALLOWED}:{port}/", secret)
    if agent == "openclaw":
        calls = [Call("web_fetch", {"url": url}) for url in addresses] + [Call("exec", {"command": shell})]
    else:
        calls = [Call("webfetch", {"url": url, "format": "text"}) for url in addresses]
        calls.append(Call("bash", {"command": shell, "description": "look"}))
    with ScriptedServer({"mock/vl": [Say("?")], "use": [*calls, Repeat()]}) as server:
        run = play(agent, ["use"], tmp_path / "run", server, timeout_s=200.0, concurrency=1, agent_network="web")
        (record,) = run.folder.records()
    assert record.status == "ok", record.error
    text = record.response.text
    assert text.count("Café & bar") + text.count("Café &amp; bar") >= 2, text
    assert "is not an address of the public network" in text
    assert visits.count("/page") == 2 and "/secret" not in visits
    (session,) = (run.folder.path / "sessions").iterdir()
    web = json.loads(session.read_text().splitlines()[0])["web"]
    of_site = [(entry["method"], entry["status"]) for entry in web if entry["host"] == ALLOWED]
    assert len(of_site) == 4, (web, text)
    hello = [
        entry for entry in web if entry["method"] == "CONNECT" and entry["host"] == ALLOWED and entry["sent"] > 100
    ]
    assert len(hello) >= 2, "https goes through the proxy"
    assert KEY not in session.read_text()
    assert "the agent can reach the model and the public web, by a gateway, 300 requests" in capfd.readouterr().err


def test_the_commands_of_the_page_search_read_find_a_picture_and_answer(
    agent,
    tmp_path,
    monkeypatch,
    capfd,
    site,  # noqa: F811
    engine,  # noqa: F811
):
    """The command for the authors' script, as docs/fika.md prints it; only names of files and the model's port are filled in."""
    port, visits = site
    searched: list[bytes] = []

    def stub(settings):
        """The real backend, for which one name alone may be on loopback, and whose engines for pictures are not asked."""
        web = backend(port, Names(open_example_org="127.0.0.1"), settings.limits)
        web._searxng = settings.searxng

        async def reverse(data: bytes, k: int) -> list[ImageHit]:
            searched.append(data)
            return [ImageHit("https://a.example/kestrel", "A picture of a kestrel", source=settings.reverse_engines[0])]

        monkeypatch.setattr(web, "reverse", reverse)
        return web

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "WebProxy", loopback_web(port))
    monkeypatch.setattr(gateway, "open_web", stub)
    monkeypatch.setenv("SEARXNG_URL", engine)
    made.whole(Path("fika-bench-testset.zip"), 1)
    page = f"http://{ALLOWED}:{port}/page"
    script = "run_opencode_eval.py" if agent == "opencode" else "apptainer_openclaw_eval.sh"
    (line,) = re.findall(rf"^\| `{re.escape(script)}.*?` \| `snellen (.*?)` \|$", PAGE, re.MULTILINE)
    if agent == "openclaw":
        tools = f"{sandbox.SAMPLE}/{openclaw.WORKPLACE}/skills/snellen-tools/tools"
        calls = [
            Call("exec", {"command": f"{tools} web_search --query falcon"}),
            Call("web_fetch", {"url": page}),
            Call("exec", {"command": f"{tools} reverse_image_search --image image.png"}),
        ]
    else:
        calls = [
            Call("snellen_web_search", {"query": "falcon"}),
            Call("webfetch", {"url": page, "format": "text"}),
            Call("snellen_reverse_image_search", {"image": "image.png"}),
        ]
    answer = Say('{"answer": "Zyxgold 0 Mark II", "confidence": 0.5, "evidence": [], "reasoning": "seen"}')
    with ScriptedServer({MODEL: [*calls, answer]}) as server:
        if agent == "opencode":
            installation = install.find(agent)
            assert installation is not None
            (program,) = (installation.folder / "node_modules").glob("opencode-linux-x64/bin/opencode")
            options = {"baseURL": server.url, "apiKey": KEY}
            Path("C").write_text(json.dumps({"provider": {"P": {"options": options, "models": {MODEL: {}}}}}))
            line = line.replace(" B ", f" {program} ").replace(" P/M ", f" P/{MODEL} ")
        assert main(shlex.split(line.replace("http://127.0.0.1:8010/v1", server.url))) == 0
    (folder,) = Path("results").iterdir()
    (record,) = [json.loads(row) for row in (folder / "results.jsonl").read_text().splitlines()]
    assert record["status"] == "ok" and "Zyxgold" in record["response"]["text"], record
    (session,) = (folder / "sessions").iterdir()
    text = session.read_text()
    assert all(mark in text for mark in ("long-winged-4417", "One", "A picture of a kestrel")), text[-3000:]
    assert visits == ["/page"] and searched == [made.picture(0)]
    said = capfd.readouterr().err
    assert "the public web, by a gateway" in said and "third parties: Bing, GoogleLens, Yandex" in said
