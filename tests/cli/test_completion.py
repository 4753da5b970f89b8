"""Completion is driven in real shells: keys are typed into an interactive one on a terminal, or the shell completes by itself."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from snellen.benchmarks import registry
from snellen.cli.app import COMMANDS

SECONDS = 0.15
"""Processor time that a completion may take."""
CASES = [
    ("snellen comp", ["compare", "completion"]),
    ("snellen build ch", ["build check"]),
    ("snellen features re", ["report", "retrieval"]),
    ("snellen run --max-c", ["--max-cost"]),
    ("snellen run chart/d", ["chart/digits"]),
    ("snellen run -m emb", ["embedded"]),
    ("snellen run --sandbox bub", ["bubblewrap"]),
    ("snellen score --profile str", ["strict"]),
    ("snellen compare results/fi", ["results/first"]),
    ("snellen score results/se", ["results/second"]),
    ("snellen check ques", ["questions.jsonl"]),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts, a file of questions and two runs."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [sys.executable, "-m", "snellen", "completion", shell],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        (folder / f"snellen.{shell}").write_text(done.stdout)
    for run in ("first", "second"):
        (folder / "results" / run).mkdir(parents=True)
        (folder / "results" / run / "run_meta.json").write_text("{}")
    (folder / "results" / "other").mkdir()
    (folder / "questions.jsonl").write_text("{}")
    return folder


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.master, slave = pty.openpty()
        environment = {
            "PATH": os.environ["PATH"],
            "TERM": "dumb",
            "HOME": str(folder),
            "PS1": "> ",
            "INPUTRC": "/dev/null",
        }
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment, start_new_session=True
        )
        os.close(slave)

    def type(self, text: str, until: str = "", seconds: float = 600) -> str:
        """Type; return what is shown until a pattern is there."""
        os.write(self.master, text.encode())
        shown, deadline = "", time.monotonic() + seconds
        while time.monotonic() < deadline and not (until and re.search(until, shown)):
            if select.select([self.master], [], [], 0.05)[0]:
                shown += os.read(self.master, 65536).decode(errors="replace")
        return shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture(params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, scripts: Path) -> Iterator[Terminal]:
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    opened = Terminal(words, scripts)
    start = "autoload -Uz compinit && compinit -u -D; setopt listpacked; " if shell == "zsh" else ""
    opened.type(f"{start}. ./snellen.{shell}; echo rea''dy\n", until="ready")
    yield opened
    opened.close()


def test_a_shell_completes_what_is_typed(terminal):
    for typed, wanted in CASES:
        words = [each.split()[-1] for each in wanted]
        shown = terminal.type(f"{typed}\t\t", until="".join(rf"(?=[\s\S]*{re.escape(word)})" for word in words))
        assert all(word in shown for word in words), (typed, shown)
        assert "results/other" not in shown
        terminal.type("\x15echo cle''ared\n", until="cleared")


def test_fish_completes_what_is_typed(scripts):
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    lines = "; ".join(f"echo '=='; complete -C '{typed}'" for typed, _ in CASES)
    done = subprocess.run(
        [fish, "--no-config", "-c", f"source snellen.fish; {lines}"],
        cwd=scripts, capture_output=True, text=True, timeout=600, env={**os.environ, "HOME": str(scripts)},
    )  # fmt: skip
    answers = done.stdout.split("==\n")[1:]
    assert len(answers) == len(CASES), done.stdout + done.stderr
    for (typed, wanted), shown in zip(CASES, answers, strict=True):
        assert {each.split()[-1] for each in wanted} <= {line.split("\t")[0] for line in shown.splitlines()}, (
            typed,
            shown,
        )


def _bash(folder: Path, code: str) -> str:
    done = subprocess.run(
        ["bash", "--norc", "-c", f". ./snellen.bash; {code}"], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert not done.stderr, done.stderr
    return done.stdout


def test_all_commands_options_and_benchmarks_are_offered_in_time(scripts):
    ask = "_snellen; printf '%s\\n' \"${COMPREPLY[@]}\""
    assert set(_bash(scripts, f"COMP_WORDS=(snellen ''); COMP_CWORD=1; {ask}").split()) == set(COMMANDS)
    offered = _bash(scripts, f"COMP_WORDS=(snellen run ''); COMP_CWORD=2; {ask}").split()
    assert set(offered) == {*registry.names(), *registry.entry_names()}
    timed = "TIMEFORMAT='%3U %3S'; { time _snellen; } 2>&1"
    for words in (
        "snellen ''",
        "snellen run --",
        "snellen run c",
        "snellen score results/",
        "snellen features probe --x",
    ):
        count = len(words.split())
        asked = f"COMP_WORDS=({words}); COMP_CWORD={count - 1}; {timed}"
        best = min(float(user) + float(system) for user, system in (_bash(scripts, asked).split() for _ in range(3)))
        assert best < SECONDS, (words, best)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("snellen run --model = ''", {"embedded", "api:"}),
        ("snellen run -m replay : results/f", {"results/first"}),
        ("snellen run --effort = lo", {"low"}),
        ("snellen run x --image-format j", {"jpeg"}),
    ],
)
def test_values_behind_an_equals_sign_or_a_kind_are_completed(words, wanted, scripts):
    count = len(words.split())
    shown = _bash(
        scripts, f"COMP_WORDS=({words}); COMP_CWORD={count - 1}; _snellen; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    assert wanted <= set(shown.split())
