"""Transcripts of both agents, written here in their form: what came of a question is read from them alone."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from agents.conftest import picture
from peak_memory import forget_peak, peak_kb
from snellen.models import trace
from snellen.models.agents import reader, workdir
from snellen.models.agents.model import _outcome, session_name
from snellen.models.agents.process import ProcessResult
from snellen.models.agents.reader import read_record
from snellen.models.agents.runner import AGENTS
from snellen.models.agents.transcript import Transcript, loops
from snellen.models.agents.workdir import AgentModelSettings, AgentQuestion, Workdir
from snellen.models.trace import Step
from snellen.types import Generation

PICTURE = picture(3)
DIGEST = hashlib.sha256(PICTURE).hexdigest()
BASE64 = base64.b64encode(PICTURE).decode()


@pytest.fixture
def here(tmp_path):
    asked = AgentModelSettings("p", "m", "http://127.0.0.1:9/v1", Generation(), 5.0)
    made = Workdir(tmp_path, "/sample", "/agent", "work", asked)
    made.work.mkdir(parents=True)
    made.stderr.write_text("")
    return made


def read_in_reader(agent: str, here: Workdir) -> Transcript:
    """What a run reads: copies of plain files, in a process of its own."""
    return read_record(agent, AGENTS[agent].record(here))


def claw(here: Workdir, *messages: dict, torn: str = "") -> Transcript:
    """OpenClaw's file with these messages, a second between each."""
    path = here.box / "state/agents/main/sessions/sample.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"type": "session", "version": 3, "id": "sample", "timestamp": "2026-01-01T00:00:00.000Z"}]
    for second, message in enumerate(messages, 1):
        at = f"2026-01-01T00:00:{second:02}.000Z"
        lines.append({"type": "message", "id": str(second), "timestamp": at, "message": message})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + torn)
    return read_in_reader("openclaw", here)


USER = {"role": "user", "content": [{"type": "text", "text": "What?"}]}
SEEN = {"role": "user", "content": [*USER["content"], {"type": "image", "data": BASE64, "mimeType": "image/png"}]}
USAGE = {"input": 100, "output": 5, "cacheRead": 20, "cacheWrite": 0}


def says(text: str, stop: str = "stop", **more) -> dict:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "usage": USAGE,
        "stopReason": stop,
        **more,
    }


def calls(number: int, arguments: dict) -> dict:
    call = {"type": "toolCall", "id": f"c{number}", "name": "exec", "arguments": arguments}
    return {"role": "assistant", "content": [call], "usage": USAGE, "stopReason": "toolUse"}


def gives(number: int, text: str, **more) -> dict:
    content = [{"type": "text", "text": text}, *more.pop("content", [])]
    return {"role": "toolResult", "toolCallId": f"c{number}", "toolName": "exec", "content": content, **more}


def test_every_message_of_openclaw_becomes_a_step_with_pictures_by_digest(here):
    shown = {"type": "image", "data": BASE64, "mimeType": "image/png"}
    read = claw(here, SEEN, calls(1, {"command": "ls"}), gives(1, "a b", isError=False, content=[shown]), says("a hen"))
    assert read.answer == "a hen" and read.finished and not read.fault
    assert [(step.turn, step.role) for step in read.steps] == [
        (0, "user"),
        (1, "assistant"),
        (1, "tool"),
        (2, "assistant"),
    ]
    call = read.steps[2]
    assert (call.tool, call.arguments, call.result, call.seconds) == ("exec", {"command": "ls"}, "a b", 1.0)
    assert trace.images_seen(read.steps) == (DIGEST,)
    assert (read.usage.input_tokens, read.usage.cached_tokens, read.usage.output_tokens) == (240, 40, 10)
    raw = b"\n".join(read.raw)
    assert BASE64.encode() not in raw and DIGEST.encode() in raw and len(read.raw) == 5
    assert trace.read(trace.plain(read.steps)) == list(read.steps)


def test_a_torn_last_line_and_a_call_without_result_are_read_as_far_as_they_go(here):
    read = claw(here, USER, calls(1, {"command": "sleep"}), torn='{"type":"mess')
    assert not read.finished and read.steps[-1].tool == "exec" and read.steps[-1].error


def code(here: Workdir, *messages: tuple[dict, list[dict]]) -> Transcript:
    """OpenCode's database with these messages and their parts."""
    path = here.box / "home/.local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE session (id text, parent_id text)")
    base.execute("CREATE TABLE message (id text, session_id text, time_created integer, data text)")
    base.execute("CREATE TABLE part (id text, message_id text, time_created integer, data text)")
    base.executemany("INSERT INTO session VALUES (?, ?)", [("main", None), ("child", "main")])
    for number, (info, parts) in enumerate(messages):
        session = info.pop("session", "main")
        base.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (str(number), session, number, json.dumps(info)))
        for at, part in enumerate(parts):
            base.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (f"{number}.{at}", str(number), at, json.dumps(part)))
    base.commit()
    base.close()
    return read_in_reader("opencode", here)


TOKENS = {"input": 100, "output": 5, "reasoning": 2, "cache": {"read": 20, "write": 0}}
ASSISTANT = {"role": "assistant", "tokens": TOKENS, "time": {"created": 1000, "completed": 3500}}


def test_opencodes_database_becomes_steps_and_sub_agents_count_in_tokens_alone(here):
    url = f"data:image/png;base64,{BASE64}"
    user = [
        {"type": "text", "synthetic": True, "text": "Called the Read tool"},
        {"type": "file", "mime": "image/png", "url": url},
        {"type": "text", "text": "What?"},
    ]
    state = {"status": "completed", "input": {"command": "ls"}, "output": "a b", "time": {"start": 0, "end": 250}}
    tool = [{"type": "tool", "tool": "bash", "state": state}, {"type": "step-finish", "reason": "tool-calls"}]
    end = [{"type": "text", "text": "a hen"}, {"type": "step-finish", "reason": "stop"}]
    child = ({**ASSISTANT, "session": "child"}, [{"type": "text", "text": "of a sub-agent"}])
    read = code(here, ({"role": "user"}, user), (dict(ASSISTANT), tool), child, (dict(ASSISTANT), end))
    assert read.answer == "a hen" and read.finished
    assert [(step.role, step.text or step.result) for step in read.steps] == [
        ("user", "What?"),
        ("assistant", ""),
        ("tool", "a b"),
        ("assistant", "a hen"),
    ]
    assert read.steps[1].seconds == 2.5 and read.steps[2].seconds == 0.25
    assert trace.images_seen(read.steps) == (DIGEST,)
    assert (read.usage.input_tokens, read.usage.output_tokens, read.usage.cached_tokens) == (360, 21, 60)
    assert BASE64.encode() not in b"".join(read.raw)


def test_a_database_without_tables_is_an_empty_transcript(here):
    path = here.box / "home/.local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert read_in_reader("opencode", here) == Transcript()


def ran(end="exit") -> ProcessResult:
    return ProcessResult(end, 0, 1.0, 1.0)


ASKED = AgentQuestion("What?", ("image.png",), (DIGEST,))


def test_outcomes_are_told_apart_by_the_transcript_whatever_the_exit_status(here):
    def outcome(*messages, end="exit", asked=ASKED, limit=""):
        return _outcome(claw(here, *messages), structs.replace(ran(end), limit=limit), asked)

    assert outcome(SEEN, says("a hen")) == trace.STOP
    assert outcome(SEEN, says("a hen"), end="time") == trace.STOP  # whole before the time was up
    assert outcome(USER, says("a hen")) == trace.IMAGE_NEVER_SEEN
    assert outcome(USER, says("a hen"), asked=AgentQuestion("What?", (), ())) == trace.STOP
    assert outcome(SEEN, says("")) == trace.NO_ANSWER
    assert outcome(SEEN, says("", "error", errorMessage="500 failure")) == trace.ABORTED
    assert outcome(SEEN, says("", "aborted")) == trace.ABORTED
    assert outcome(SEEN, says("", "aborted"), end="time") == "timeout"
    same = [message for n in range(8) for message in (calls(n, {"command": "ls"}), gives(n, "x"))]
    assert outcome(SEEN, *same) == trace.LOOP
    assert outcome(SEEN, *same, says("a hen")) == trace.STOP
    assert outcome(SEEN, *same, end="limit", limit="requests") == trace.LOOP
    assert outcome(SEEN, *same, end="limit", limit="memory") == "limit"
    assert outcome(SEEN, *same[2:], end="limit", limit="requests") == "limit"
    assert outcome(SEEN, says("a hen"), end="limit", limit="requests") == trace.STOP
    assert outcome(end="start") == "timeout"
    assert outcome() == trace.ABORTED


def test_a_loop_is_eight_equal_calls_and_order_of_arguments_does_not_matter():
    def call(**arguments):
        return Step(1, "tool", tool="exec", arguments=arguments)

    assert loops((*[call(a=1, b=2)] * 4, *[call(b=2, a=1)] * 4))
    assert not loops(tuple([call(a=1)] * 7))
    assert not loops((*[call(a=1)] * 7, call(a=2)))


def test_the_faults_of_a_transcript_are_the_agents_own_words(here):
    assert claw(here, SEEN, says("", "error", errorMessage="500 failure")).fault == "500 failure"


@pytest.mark.parametrize("name", ["q1", "a/b", "a b", "..", "ü", "x" * 300, "A" * 101])
def test_session_names_are_safe_and_differ_where_ids_differ(name):
    made = session_name(name, 0)
    assert Path(made).name == made and len(made) < 130 and not made.startswith(".")
    assert made != session_name(name + "_", 0) and made != session_name(name, 1)


WRITTEN_OVER = [
    b'{"type":"message","message":5}',
    b'{"type":"message","message":["role"]}',
    b'{"type":"message","message":{"role":"assistant","content":[5]}}',
    b'{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall"}]}}',
    b'{"type":"message","message":{"role":"assistant","timestamp":"now"}}',
    b'{"type":"message","message":{"role":"assistant","usage":{"input":"many"}}}',
    b'{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":1}],"stopReason":"stop"}}',
    b'{"type":"message","message":{"role":"user","content":[{"type":"image","data":[1]}]}}',
    b'{"type":"message","message":{"role":[]}}',
    b"[" * 100_000,
    b'{"type":"message","message":' * 5_000,
    b"\xff\x00",
]


@pytest.mark.parametrize("line", WRITTEN_OVER)
def test_a_transcript_that_a_model_has_written_over_is_a_fault_and_no_crash(line, here):
    path = here.box / "state/agents/main/sessions/sample.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(line + b"\n")
    read = read_in_reader("openclaw", here)
    assert _outcome(read, ran(), ASKED) == trace.ABORTED
    assert not read.finished and not read.answer


def database(here: Workdir, script: str) -> Transcript:
    """OpenCode's database, made by a script of somebody else's."""
    path = here.box / "home/.local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    base = sqlite3.connect(path)
    base.executescript("CREATE TABLE session (id text, parent_id text);" + script)
    base.close()
    return read_in_reader("opencode", here)


PLAIN = "CREATE TABLE message (id text, session_id text, time_created integer, data text);"
ENDLESS = "AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, i AS {0}, 0 AS time_created, '{{}}' AS data FROM n;"
LARGE = (
    "CREATE TABLE part (id text, message_id text, time_created integer, data text AS (hex(zeroblob(20000000))));"
    "INSERT INTO part (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12);"
)


@pytest.mark.parametrize(
    "script",
    [
        PLAIN + "CREATE VIEW part " + ENDLESS.format("message_id"),
        PLAIN + LARGE,
        PLAIN + "CREATE TABLE part (id, message_id, time_created, data); INSERT INTO part VALUES (1, 1, 1, 5);",
        PLAIN + "CREATE TABLE part (id, message_id, time_created, data); INSERT INTO message VALUES (1, 1, 1, '[]');",
        PLAIN + "CREATE TABLE part (id, message_id, time_created, data); INSERT INTO message VALUES (1, 1, 1, '{');",
    ],
)
def test_a_database_that_a_model_has_put_in_the_place_of_opencodes_is_not_read_for_ever(script, here):
    read = database(here, script)
    assert _outcome(read, ran(), ASKED) == trace.ABORTED and not read.steps


def test_a_pipe_or_a_link_in_the_place_of_a_transcript_is_none(here):
    secret = here.host / "gold.jsonl"
    secret.write_text(json.dumps({"type": "message", "message": says("the gold answer")}) + "\n")
    folder = here.box / "state/agents/main/sessions"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "sample.jsonl")
    assert read_in_reader("openclaw", here) == Transcript()  # and does not wait for a writer
    (folder / "sample.jsonl").unlink()
    (folder / "sample.jsonl").symlink_to(secret)
    assert read_in_reader("openclaw", here) == Transcript()
    (folder / "sample.jsonl").unlink()
    folder.rmdir()
    folder.symlink_to(here.host)
    secret.rename(here.host / "sample.jsonl")
    assert read_in_reader("openclaw", here) == Transcript()


def test_of_a_transcript_without_end_the_beginning_is_read(here, monkeypatch):
    read = claw(here, SEEN, says("a hen"))
    assert read.answer == "a hen"
    with (here.box / "state/agents/main/sessions/sample.jsonl").open("ab") as file:
        file.truncate(1 << 40)  # a hole, which takes no place on the disk
    monkeypatch.setattr(workdir, "MAX_RECORD", 1 << 20)
    assert read_in_reader("openclaw", here).answer == "a hen"


def planted(here: Workdir) -> Path:
    """OpenCode's folder of data, made."""
    folder = here.box / "home/.local/share/opencode"
    folder.mkdir(parents=True)
    return folder


def test_a_journal_that_an_agent_has_planted_deletes_no_file_of_the_user(here, tmp_path, monkeypatch):
    """SQLite deletes the super-journal that a hot journal names. Here it is a file of the user's, by both kinds of path."""
    monkeypatch.chdir(tmp_path)
    folder = planted(here)
    for victim in (tmp_path / "results.jsonl", Path("relative.jsonl")):
        victim.write_text("an answer of the run")
        database_path = folder / "opencode.db"
        database_path.unlink(missing_ok=True)
        hot_journal(database_path, str(victim))
        # The attack is real: whoever opens this database as it lies there deletes the file.
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        sqlite3.connect(copy / "opencode.db").execute("SELECT * FROM sqlite_master").fetchall()
        assert not victim.exists()
        shutil.rmtree(copy)
        victim.write_text("an answer of the run")
        read_in_reader("opencode", here)
        assert victim.read_text() == "an answer of the run"
        assert sorted(path.name for path in folder.iterdir()) == ["opencode.db", "opencode.db-journal"]


def hot_journal(path: Path, victim: str) -> None:
    """A database with a hot journal beside it that names `victim` as its super-journal."""
    base = sqlite3.connect(path)
    base.executescript("PRAGMA page_size = 4096; CREATE TABLE session (id text, parent_id text);")
    base.close()
    name = victim.encode()
    header = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + struct.pack(">IIIII", 0, 0, 2, 512, 4096)
    lock_page = struct.pack(">I", (1 << 30) // 4096 + 1)
    end = lock_page + name + struct.pack(">II", len(name), sum(name)) + header[:8]
    path.with_name(path.name + "-journal").write_bytes(header.ljust(512, b"\0") + end)


@pytest.mark.parametrize("name", ["opencode.db", "opencode.db-wal"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "hard link", "socket"])
def test_of_what_lies_in_the_place_of_a_database_plain_files_alone_are_copied(kind, name, here, tmp_path):
    folder = planted(here)
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of the user")
    path = folder / name
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "hard link":
        path.hardlink_to(secret)
    else:
        with socket.socket(socket.AF_UNIX) as listening, monkeypatched_folder(folder):
            listening.bind(name)
    assert AGENTS["opencode"].record(here) == {}
    described = f"{name} is a {kind}, no file of its own"
    assert here.replaced(path) == described
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.with_name("moved"))
    assert here.replaced(path) == "opencode is a link, no folder"


@contextlib.contextmanager
def monkeypatched_folder(folder: Path):
    """The current folder: names of sockets are short."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def test_what_the_log_of_a_database_holds_is_read_although_the_agent_was_killed(here):
    path = planted(here) / "opencode.db"
    base = sqlite3.connect(path, isolation_level=None)
    base.executescript("PRAGMA journal_mode = WAL; CREATE TABLE session (id text, parent_id text);" + PLAIN)
    base.execute("CREATE TABLE part (id text, message_id text, time_created integer, data text)")
    base.execute("INSERT INTO session VALUES ('main', NULL)")
    base.execute("INSERT INTO message VALUES ('1', 'main', 1, ?)", (json.dumps(dict(ASSISTANT)),))
    end = [{"type": "text", "text": "a hen"}, {"type": "step-finish", "reason": "stop"}]
    for at, part in enumerate(end):
        base.execute("INSERT INTO part VALUES (?, '1', ?, ?)", (str(at), at, json.dumps(part)))
    assert path.with_name("opencode.db-wal").stat().st_size > 0
    read = read_in_reader("opencode", here)  # while the connection is open: nothing was copied back
    base.close()
    assert read.answer == "a hen"


@pytest.mark.parametrize(
    "data",
    [b'{"a":' * 100_000, b"[" + b"[]," * 10_000_000 + b"[]]", b"\xff" * 1000, b'"' + b"x" * (40 << 20) + b'"'],
    ids=["deep", "many", "no text", "long"],
)
def test_a_hostile_transcript_takes_neither_memory_nor_time_of_ours(data, here):
    path = here.box / "state/agents/main/sessions/sample.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(data + b"\n")
    forget_peak()
    before, began = peak_kb(), time.process_time()
    read = read_in_reader("openclaw", here)
    assert not read.finished and not read.steps
    # What the reader uses is another process's: ours has the copy and no more.
    assert peak_kb() - before < 400 << 10 and time.process_time() - began < 5


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the reader has no sandbox")
def test_the_reader_sees_no_file_of_the_user_and_no_network(tmp_path):
    (tmp_path / "gold.json").write_text("gold")
    bwrap = shutil.which("bwrap")
    assert bwrap is not None
    script = f"import os; print(os.path.exists({str(tmp_path)!r}), os.path.exists({str(Path.home() / '.ssh')!r}), os.listdir('/sys') if os.path.exists('/sys') else [])"
    done = subprocess.run(
        [*reader._bubblewrap(bwrap), "--", sys.executable, "-I", "-c", script], capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "False", "[]"], done.stderr
    net = "import socket; s = socket.socket(); print(len(open('/proc/net/dev').readlines()))"
    done = subprocess.run(
        [*reader._bubblewrap(bwrap), "--", sys.executable, "-I", "-c", net], capture_output=True, text=True
    )
    assert done.stdout.split() == ["3"], "loopback alone"
