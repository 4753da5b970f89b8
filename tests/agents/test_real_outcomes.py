"""What real OpenClaw and OpenCode write down when a model never looks, says nothing, or breaks off: told apart from it.

Both hand the picture over with the question by themselves. A model that never sees it is therefore one whose agent does
not do so (OpenClaw leaves out a file that it may not read without a word): here the question names the file, and nothing
attaches it.
"""

from __future__ import annotations

import hashlib
import shutil

import pytest

from agents.conftest import picture
from agents.test_real_agents import Played, play, session
from servers.scripted import Call, Refuse, Say, ScriptedServer
from snellen.models import trace
from snellen.models.agents import opencode, runner, sandbox

pytestmark = [
    pytest.mark.agents,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: no agent is tested"),
]
NAMES = ["blind", "busy", "looks", "silent", "mute", "late"]


def scripts(agent: str) -> dict:
    claw = agent == "openclaw"
    ls = Call("exec", {"command": "ls"}) if claw else Call("bash", {"command": "ls", "description": "look"})
    read = Call(
        "read", {"path": "image.png"} if claw else {"filePath": f"{sandbox.SAMPLE}/{opencode.WORKPLACE}/image.png"}
    )
    return {
        "mock/vl": [Say("nobody asked for a script")],
        "blind": [Say('{"answer": "kestrel"}')],
        "busy": [ls, Say('{"answer": "kestrel"}')],
        "looks": [read, Say('{"answer": "kestrel"}')],
        "silent": [Say("")],
        "mute": [ls, Say("")],
        "late": [ls, Refuse(400)],
    }


@pytest.fixture(scope="module")
def unattached(agent, tmp_path_factory):
    """One run of the agent, which gets the picture's name and not the picture."""
    real = runner.AGENTS[agent]
    real_command = real.command

    def command(room, program, question, images):
        for name in images:
            question = question.replace(f"./{name}", name)
        return real_command(room, program, question, [])

    with pytest.MonkeyPatch.context() as patch, ScriptedServer(scripts(agent)) as server:
        patch.setattr(real, "command", command)
        run = play(agent, NAMES, tmp_path_factory.mktemp(agent) / "run", server, timeout_s=90.0, concurrency=2)
        records = {record.sample_id.partition("/")[0]: record for record in run.folder.records()}
        yield Played(agent, run, server, records)


@pytest.mark.parametrize("name", ["blind", "busy"])
def test_an_answer_without_a_look_at_the_picture_is_told(unattached, name):
    record = unattached.records[name]
    assert record.status == "ok", record.error
    assert record.response.text == '{"answer": "kestrel"}'
    assert record.response.finish_reason == trace.IMAGE_NEVER_SEEN
    assert unattached.server.pictures(name) == [], "the server says that it got none, too"
    head = session(unattached, name)[0]
    assert head["outcome"] == trace.IMAGE_NEVER_SEEN and not head["images_seen"]
    assert head["images_given"] == [hashlib.sha256(picture(NAMES.index(name))).hexdigest()]


def test_a_picture_that_the_model_opens_by_a_tool_was_seen(unattached):
    record = unattached.records["looks"]
    assert record.status == "ok" and record.response.finish_reason == trace.STOP, record.error
    steps = unattached.trace("looks")
    assert set(trace.images_seen(steps)) == set(unattached.server.pictures("looks")) != set()
    assert steps[0].images == () and any(step.images for step in steps if step.tool)


@pytest.mark.parametrize(("name", "turns"), [("silent", 1), ("mute", 2)])
def test_an_end_without_an_answer_is_told(unattached, name, turns):
    record = unattached.records[name]
    assert (record.status, record.error.kind) == ("error", "agent_no_answer"), record
    assert session(unattached, name)[0]["outcome"] == trace.NO_ANSWER
    assert trace.turns(unattached.trace(name)) >= turns


def test_a_model_that_fails_after_it_has_worked_is_told_as_broken_off_and_keeps_its_trace(unattached):
    record = unattached.records["late"]
    assert (record.status, record.error.kind) == ("error", "agent_aborted"), record
    assert session(unattached, "late")[0]["outcome"] == trace.ABORTED
    assert [step.tool for step in unattached.trace("late") if step.tool] == [
        "exec" if unattached.agent == "openclaw" else "bash"
    ]
