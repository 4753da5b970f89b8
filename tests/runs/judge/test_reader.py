"""A reader points at the answer of a reply that the rules leave unread, and cannot invent one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.oracle import OracleServer, SentQuestion

from snellen import evaluate, load_run, read
from snellen.cli import main
from snellen.errors import JudgeError, UsageError
from snellen.scoring.readings import find_quote
from snellen.sources.safe_paths import regular_file

ROWS = [
    ("q0", "Which bird is this?", "robin|wren", "B", "B", None),
    ("q1", "Which bird is this?", "robin|wren", "A", "Was it A or B? Both look alike to me. Weighing all, [[wren]] it is, or no: robin.", "robin"),
    ("q2", "How many birds?", "", "3", "Between one and five. Twelve, 7, 3: take the last of these three numbers", "3"),
    ("q3", "Which bird is this?", "robin|wren", "B", "A or B", None),
    ("q4", "Which bird is this?", "robin|wren", "B", "I cannot tell.", None),
]
"""Id, question, options, gold, the model's reply, and what an honest reader quotes from it."""


class TwoModels(OracleServer):
    """The model under test and the reader behind one endpoint; `reader` says what the latter answers to a reply."""

    def __init__(self, reader: Callable[[str, SentQuestion], str]) -> None:
        self.reader = reader
        self.read: list[str] = []
        super().__init__(self.reply)

    def reply(self, asked: SentQuestion) -> str:
        marked = re.search(r"<<<REPLY \w+\n(.*)\nREPLY \w+>>>", asked.text, re.DOTALL)
        if marked is None:
            return next(row[4] for row in ROWS if f"({row[0]})" in asked.text)
        self.read.append(asked.text)
        return self.reader(marked[1], asked)


def honest(reply: str, asked: SentQuestion) -> str:
    quote = next((row[5] for row in ROWS if row[4] == reply), None)
    return json.dumps({"quote": quote, "option": None if quote is None else asked.letter(quote) if asked.options else None})


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUDGE_API_KEY", "a-key")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    lines = ["id,question,options,answer"]
    lines += [f'{name},{question} ({name}),"{options}",{gold}' for name, question, options, gold, *_ in ROWS]
    Path("birds.csv").write_text("\n".join(lines) + "\n")
    return Path("birds.csv")
