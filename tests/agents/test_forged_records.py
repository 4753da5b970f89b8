"""Records that an agent has forged: what it counts, names and says reaches neither the run's budget nor its terminal."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agents.test_transcripts import USAGE, USER, claw, here, read_in_reader, says  # noqa: F401 - a fixture
from snellen.models.agents.transcript import MAX_FAULT, Transcript
from snellen.models.agents.workdir import Workdir


def code(here: Workdir, *messages: dict) -> Transcript:  # noqa: F811
    """OpenCode's database with these messages, each with one text and an end."""
    path = here.box / "home/.local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE session (id, parent_id)")
    base.execute("CREATE TABLE message (id, session_id, time_created, data)")
    base.execute("CREATE TABLE part (id, message_id, time_created, data)")
    for number, message in enumerate(messages):
        base.execute("INSERT INTO message VALUES (?, 's', ?, ?)", (str(number), number, json.dumps(message)))
        for at, part in enumerate(({"type": "text", "text": "a kestrel"}, {"type": "step-finish", "reason": "stop"})):
            base.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (f"{number}-{at}", str(number), at, json.dumps(part)))
    base.commit()
    base.close()
    return read_in_reader("opencode", here)


@pytest.mark.parametrize("count", [-1, -(10**12), 2**62, 2**63 + 5, 10**30, 1e300, "-5", "9" * 30])
@pytest.mark.parametrize("field", ["input", "output", "cache"])
@pytest.mark.parametrize("agent", ["openclaw", "opencode"])
def test_a_forged_number_of_tokens_is_a_fault_and_no_part_of_the_budget(agent, field, count, here):  # noqa: F811
    if agent == "openclaw":
        usage = {**USAGE, {"cache": "cacheRead"}.get(field, field): count}
        read = claw(here, USER, {**says("a kestrel"), "usage": usage})
    else:
        tokens = {"cache": {"read": count}} if field == "cache" else {field: count}
        read = code(here, {"role": "user"}, {"role": "assistant", "tokens": tokens})
    assert not read.finished and read.usage.input_tokens == read.usage.output_tokens == 0
    assert read.fault.startswith("its own record cannot be read: ValueError")


def test_times_in_the_wrong_order_are_no_negative_time(here):  # noqa: F811
    read = code(here, {"role": "user"}, {"role": "assistant", "time": {"created": 2**62, "completed": 5}})
    assert read.answer == "a kestrel" and [step.seconds for step in read.steps] == [0.0, 0.0]


def test_an_agents_own_words_for_its_fault_are_kept_up_to_a_length(here):  # noqa: F811
    error = {"name": "E", "data": {"message": "x" * 5_000_000}}
    read = code(here, {"role": "user"}, {"role": "assistant", "error": error})
    assert read.fault.startswith("E: xx") and len(read.fault) == MAX_FAULT
    shutil.rmtree(here.box)
    here.work.mkdir(parents=True)
    read = claw(here, USER, says("", stop="error", errorMessage="x" * 5_000_000))
    assert len(read.fault) == MAX_FAULT


def test_a_transcript_beside_files_whose_names_are_no_text_is_read(here):  # noqa: F811
    folder = here.box / "state/agents/main/sessions"
    folder.mkdir(parents=True)
    for name in (b"\xff\xfe.jsonl", b"\xed\xa0\x80.jsonl", b"a\nb\x1b[2J.jsonl", "ü🦅.jsonl".encode()):
        Path(bytes(folder).decode(), name.decode("utf-8", "surrogateescape")).write_bytes(b"{}\n")
    assert claw(here, USER, says("a kestrel")).answer == "a kestrel"
    assert here.names(folder, 9) == sorted(["a\nb\x1b[2J.jsonl", "sample.jsonl", "ü🦅.jsonl"])


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the reader has no sandbox")
def test_the_reader_starts_with_a_python_that_was_named_by_a_way_through_other_folders(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    python = Path(sys.executable)
    way = folder / ".." / ("../" * (len(tmp_path.parts) - 1)) / python.relative_to("/")
    script = (
        "from snellen.models.agents.reader import read_record\n"
        'print(read_record("openclaw", {"sample.jsonl": b""}).fault or "read")'
    )
    done = subprocess.run([str(way), "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["read"], done.stdout + done.stderr
