"""Real OpenClaw and OpenCode around a scripted model: a run of the engine from the question to the answer."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from agents.conftest import picture
from servers.scripted import Call, Hang, Refuse, Repeat, Say, ScriptedServer
from snellen.benchmarks.base import Benchmark, Data
from snellen.models import trace
from snellen.models.agents import openclaw, opencode, sandbox
from snellen.runs.evaluate import evaluate
from snellen.runs.run import Run
from snellen.scoring.statistics import mean
from snellen.types import Image, Prompt, Record, Sample, Score, Text

pytestmark = [
    pytest.mark.agents,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: no agent is tested"),
]
GOLD = "Falco-subbuteo-7781"
TIMEOUT_S = 45.0
NAMES = ["hang", "good", "hunt", "loop", "refused"]
KEY = "the-key-of-the-endpoint-1234"
WORK = f"{sandbox.SAMPLE}/{opencode.WORKPLACE}"
AWKWARD = 'Say "yes" & $HOME `id` \\n; is it 100 %?'


@dataclass(frozen=True)
class Bytes:
    """A picture that is held."""

    data: bytes

    @property
    def key(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def read(self) -> bytes:
        return self.data


def benchmark(names: list[str]) -> Benchmark:
    """One question a script, each with a picture of its own."""

    def samples(data: Data) -> Iterator[Sample]:
        for number, name in enumerate(names):
            parts = (Image(Bytes(picture(number))), Text(f"<{name}> {AWKWARD}"))
            yield Sample(f"{name}/1", Prompt(parts), GOLD, "open")

    def score(sample: Sample, reply: str) -> Score:
        return Score(1.0 if "kestrel" in reply else 0.0, reply, "correct" if "kestrel" in reply else "wrong")

    return Benchmark(
        name="scripts",
        version="1",
        samples=samples,
        score={"strict": score},
        summarize=lambda scores, profile: [mean("accuracy", scores)],
        profiles={"strict": "names the bird"},
        size=lambda data: len(names),
    )


def scripts(agent: str, gold: Path) -> dict:
    """What the model does, in the agent's own names of tools."""
    claw = agent == "openclaw"

    # OpenClaw answers "still running" after ten seconds, which a busy machine needs for a walk through all files.
    def run(command: str) -> Call:
        arguments = {"yieldMs": int(TIMEOUT_S * 1000)} if claw else {"description": "look"}
        return Call("exec" if claw else "bash", {"command": command, **arguments})

    def read(path: str) -> Call:
        return Call("read", {"path" if claw else "filePath": path})

    hunt = (
        f"cat {gold}; ln -s {gold} here.txt; cat here.txt; cat /proc/1/root{gold}; "
        f"for p in /proc/[0-9]*; do cat $p/root{gold}; done; ls -R {gold.parent}; "
        "find / -path /proc -prune -o -name gold.json -print 2>/dev/null | xargs -r cat; echo hunted-in-$PWD"
    )
    return {
        "mock/vl": [Say("nobody asked for a script")],
        "hang": [Hang()],  # first, so that its wait is shared with the others
        "good": [
            read("image.png" if claw else f"{WORK}/image.png"),
            run("ls; echo ran"),
            Say('{"answer": "kestrel"}'),
        ],
        "hunt": [run(hunt), read(str(gold)), read("here.txt" if claw else f"{WORK}/here.txt"), Repeat()],
        "loop": [run("ls")],
        "refused": [Refuse(400)],
    }


@dataclass(frozen=True)
class Played:
    agent: str
    run: Run
    server: ScriptedServer
    records: dict[str, Record]

    def trace(self, name: str) -> list[trace.Step]:
        for shard in sorted(self.run.folder.traces.glob("*.jsonl")):
            for line in shard.read_bytes().splitlines():
                entry = json.loads(line)
                if entry["sample_id"] == f"{name}/1":
                    return trace.read(entry["trace"])
        raise AssertionError(f"there is no trace of {name}")


def play(agent: str, names: list[str], out: Path, server: ScriptedServer, **options) -> Run:
    os.environ["SCRIPTED_KEY"] = KEY
    return evaluate(
        benchmark(names),
        f"agent:{agent}",
        out=out,
        base_url=server.url,
        agent_model="here/mock/vl",
        key_env="SCRIPTED_KEY",
        **options,
    )


@pytest.fixture(scope="session")
def played(agent, tmp_path_factory):
    """One run of six samples with each agent: every start costs seconds."""
    folder = tmp_path_factory.mktemp(agent)
    gold = folder / "gold.json"
    gold.write_text(json.dumps({"answer": GOLD}))
    script = scripts(agent, gold)
    with ScriptedServer(script) as server:
        assert {*NAMES, "mock/vl"} == set(script)
        run = play(agent, NAMES, folder / "run", server, timeout_s=TIMEOUT_S, concurrency=2)
        records = {record.sample_id.partition("/")[0]: record for record in run.folder.records()}
        yield Played(agent, run, server, records)


def test_the_agent_sees_the_picture_calls_its_tools_and_answers(played):
    record = played.records["good"]
    assert record.status == "ok", record.error
    assert record.response.text == '{"answer": "kestrel"}' and record.response.finish_reason == trace.STOP
    steps = played.trace("good")
    assert trace.turns(steps) == 3 and sum(trace.calls_by_tool(steps).values()) == 2
    assert [step.role for step in steps] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert "ran" in steps[4].result and not steps[4].error
    # What the trace says was seen is what the server received; the tool gave the very file.
    assert set(trace.images_seen(steps)) == set(played.server.pictures("good"))
    assert hashlib.sha256(picture(NAMES.index("good"))).hexdigest() in played.server.pictures("good")
    usage = record.response.usage
    assert (usage.input_tokens, usage.output_tokens) == (360, 24)
    assert 0 < record.response.latency_s < TIMEOUT_S


def test_the_question_arrives_as_it_was_written(played):
    first = played.server.of("good")[0]["messages"]
    said = json.dumps([message["content"] for message in first if message["role"] == "user"])
    assert json.dumps(f"<good> {AWKWARD}")[1:-1] in said
    assert played.trace("good")[0].text.endswith(f"<good> {AWKWARD}")


def test_gold_is_not_readable_from_inside_the_sandbox(played):
    record = played.records["hunt"]
    assert record.status == "ok", record.error
    assert f"hunted-in-{sandbox.SAMPLE}" in record.response.text, "the hunt did not take place"
    assert GOLD not in record.response.text
    everything = b"".join(path.read_bytes() for path in played.run.path.rglob("*") if path.is_file())
    assert GOLD.encode() not in everything
    assert GOLD not in json.dumps(played.server.asked)


def test_a_loop_a_failing_model_and_a_hanging_one_are_told_apart(played):
    kinds = {name: record.error.kind for name, record in played.records.items() if record.error}
    assert kinds == {"loop": "agent_loop", "refused": "agent_aborted", "hang": "agent_timeout"}
    assert played.records["hang"].status == "timeout"
    assert len([step for step in played.trace("loop") if step.tool]) >= 8


def test_a_hanging_model_costs_its_timeout_and_no_more(played):
    head = session(played, "hang")[0]
    assert TIMEOUT_S - 1 < head["answer_s"] < TIMEOUT_S + 12 and head["outcome"] == "timeout"


def test_sessions_hold_the_raw_transcripts_without_pictures_and_keys(played):
    assert f"Bearer {KEY}" in played.server.keys
    for path in (played.run.path / "sessions").iterdir():
        text = path.read_text()
        assert ";base64," not in text and "iVBORw0" not in text and KEY not in text
    head, *rest = session(played, "good")
    assert head["turns"] == 3 and head["outcome"] == "stop" and rest
    assert head["images_given"] == [hashlib.sha256(picture(NAMES.index("good"))).hexdigest()]
    assert head["images_seen"] == list(trace.images_seen(played.trace("good")))
    assert KEY not in "".join(path.read_text("utf-8") for path in played.run.path.glob("*.json*"))


def test_nothing_of_the_runs_rooms_is_left(played):
    import tempfile

    mine = [p for p in Path(tempfile.gettempdir()).glob("snellen-agents-*") if p.stat().st_mtime > time.time() - 3600]
    assert not [p for p in mine if not (p / ".lock").exists()]


def session(played: Played, name: str) -> list[dict]:
    path = next((played.run.path / "sessions").glob(f"{name}-1*.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from types import SimpleNamespace
from agents.test_real_agents import play
play("opencode", ["a", "b", "c", "d"], Path(sys.argv[2]), SimpleNamespace(url=sys.argv[3]), timeout_s=200.0, concurrency=4)
"""


def test_a_run_killed_with_four_agents_leaves_no_process_and_goes_on_to_each_sample_once(opencode, tmp_path):
    with ScriptedServer({name: [Hang()] for name in ("mock/vl", "a", "b", "c", "d")}) as server:
        tests = str(Path(__file__).parent.parent)
        us = subprocess.Popen([sys.executable, "-c", KILLED, tests, str(tmp_path / "run"), server.url])
        end = time.monotonic() + 600
        while len({json.dumps(body["messages"][1]) for body in server.asked}) < 4 and time.monotonic() < end:
            time.sleep(0.2)
        children = psutil.Process(us.pid).children(recursive=True)
        groups = {_group(child) for child in children} - {os.getpgid(0), -1}  # one that has just ended has none
        # A group for each supervisor, those of the rooms made ahead too, and one for each agent.
        assert len(groups) >= 8 and len(children) >= 12, children
        os.kill(us.pid, signal.SIGKILL)
        us.wait()
        _, alive = psutil.wait_procs(children, timeout=600)
        assert alive == []
        assert not [p for p in psutil.process_iter() if p.status() != "zombie" and _group(p) in groups]
        for name in ("a", "b", "c", "d"):
            server.scripts[name] = [Say("a kestrel")]
        run = play("opencode", ["a", "b", "c", "d"], tmp_path / "run", server, timeout_s=200.0, concurrency=4)
        answered = [record.sample_id for record in run.folder.records() if record.status == "ok"]
        assert sorted(answered) == ["a/1", "b/1", "c/1", "d/1"] and run.metric("accuracy").value == 1.0


def _group(process: psutil.Process) -> int:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return -1


PAGE = "<html><title>Hobby</title><body>The hobby is a small falcon of open woodland, {word}.</body></html>"


def test_our_tools_crop_and_search_from_inside_the_sandbox(agent, tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "hobby.html").write_text(PAGE.format(word="long-winged-9931"))
    (tmp_path / "tools.json").write_text(json.dumps({"pages": "pages"}))
    if agent == "openclaw":
        tools = f"{sandbox.SAMPLE}/{openclaw.WORKPLACE}/skills/snellen-tools/tools"
        crop = Call("exec", {"command": f"{tools} crop_zoom --image image.png --box 0,0,0.5,0.5"})
        search = Call("exec", {"command": f"{tools} web_search --query 'falcon woodland'"})
    else:
        crop = Call("snellen_crop_zoom", {"image": "image.png", "box": [0, 0, 0.5, 0.5]})
        search = Call("snellen_web_search", {"query": "falcon woodland"})
    with ScriptedServer({"mock/vl": [Say("?")], "use": [crop, search, Repeat()]}) as server:
        run = play(
            agent, ["use"], tmp_path / "run", server, timeout_s=120.0, concurrency=1, tools=str(tmp_path / "tools.json")
        )
        (record,) = run.folder.records()
        assert record.status == "ok", record.error
        assert "long-winged-9931" in record.response.text and "hobby" in record.response.text
        offered = json.dumps(server.of("use")[0])
        assert "web_search" in offered and "crop_zoom" in offered
        if agent == "opencode":  # a crop that an MCP server gives reaches the model as a picture
            assert len(server.pictures("use")) == 2
