"""On a real terminal text from outside arrives as text: no colour, cursor move, title or line of its own making."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.installed

EVIL = "\x1b[31mred\x1b[2K\x1b[1A\x1b[8mhidden\x1b]0;title\x07\x9b2J\x1b7\rsnellen: all is well\u202e\u061c"
OWN = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|2K|[0-9]*A|[0-9]*G)")
"""What rich writes for tables, panels and the progress bar."""


def terminal(*words: str, folder: Path, **environment: str) -> str:
    """What the installed command, or Python's -c, writes to a terminal of 100 columns, both streams."""
    mine, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    process = subprocess.Popen(
        [sys.executable, *(() if words[0] == "-c" else ("-m", "snellen")), *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=settings,
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            piece = os.read(mine, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        printed += piece
    os.close(mine)
    process.wait()
    return printed.decode(errors="replace")


def of_outside(printed: str) -> list[str]:
    """The parts of `EVIL` that a terminal would obey."""
    parts = ["\x1b[31mred", "\x1b[2K\x1b[1A\x1b[8m", "\x1b[8m", "\x1b]0;", "\x07", "\x9b", "\x1b7", "\u202e", "\u061c"]
    found = [part for part in parts if part in printed]
    return found + re.findall(r"\rsnellen: all is well", printed)


@pytest.fixture
def evil(snellen: Callable[..., Any], tmp_path: Path) -> Path:
    """A run whose model, state, settings and error texts are terminal commands."""
    assert snellen("run", "lights", "-m", "pixels", "--limit", 3, "--out", "evil", "--quiet").status == 0
    meta = json.loads(Path("evil/run_meta.json").read_text())
    meta["spec"]["model"] = f"api:{EVIL}"
    meta["state"] = EVIL
    meta["identity"]["note"] = EVIL
    Path("evil/run_meta.json").write_text(json.dumps(meta))
    with Path("evil/results.jsonl").open("a") as journal:
        error = {"kind": EVIL, "message": EVIL}
        journal.write(json.dumps({"sample_id": EVIL, "status": "error", "error": error}) + "\n")
        journal.write(json.dumps({"sample_id": "green-00000", "status": "error", "error": error}) + "\n")
    return tmp_path


SHOWN = (
    ("list", "--runs", "--results", "."),
    ("score", "evil"),
    ("score", "evil", "--benchmark", EVIL),
    ("score", "evil", "--no-such-option", EVIL),
    ("score", EVIL),
    ("score", "evil", "--profile", EVIL),
    ("query", "select * from results, runs", "evil"),
    ("query", f"select '{EVIL}'", "evil"),
    ("query", f"select '{EVIL}' from nowhere", "evil"),
    ("failures", "evil"),
    ("rerun", "evil"),
    ("run", EVIL),
    ("run", "lights", "-m", EVIL),
    ("run", "lights", "-m", "pixels", "--limit", EVIL),
    (EVIL,),
)
ALL_OF_THEM = (
    "import json, os, sys; from snellen.cli import main\n"
    "for words in json.loads(sys.argv[1]): main(words); sys.stdout.flush(); sys.stderr.flush(); os.write(1, b'NEXT')"
)


def test_text_from_outside_moves_and_colours_nothing_on_a_terminal(evil):
    words = ("-c", ALL_OF_THEM, json.dumps(SHOWN))
    *each, end = terminal(*words, folder=evil).split("NEXT")
    assert len(each) == len(SHOWN) and not end
    for words, printed in zip(SHOWN, each, strict=True):
        assert printed and of_outside(printed) == [], words
        assert "\x1b" not in OWN.sub("", printed), words


def test_the_progress_line_of_a_run_on_a_terminal_shows_error_kinds_of_a_server_as_text(evil, hostile):
    name = "r\x1b[31mred\rsnellen: all is well"
    words = ("run", "lights", "-m", "api:stub-vlm", "--base-url", hostile.url("500"), "--limit", "2", "--out", name)
    printed = terminal(*words, "--max-attempts", "1", "--patience", "1", folder=evil, OPENAI_API_KEY="x")
    assert "r\\x1b[31mred\\rsnellen: all is well" in printed and of_outside(printed) == []


def test_tables_and_help_keep_their_colours_on_a_terminal(evil):
    assert OWN.search(terminal("score", "--help", folder=evil))
    assert OWN.search(terminal("list", "--runs", "--results", ".", folder=evil))
