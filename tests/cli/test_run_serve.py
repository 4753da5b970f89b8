"""`snellen run --serve`, against a stand-in program `vllm`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

STAND_IN = Path(__file__).parent.parent / "models" / "serve" / "vllm_stand_in.py"


def test_a_run_starts_its_server_asks_it_and_ends_it(snellen, tmp_path, monkeypatch):
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(STAND_IN))} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("STAND_IN_SAYS", str(tmp_path / "says.json"))
    said = snellen("run", "lights", "--serve", "vllm org/model --port 0", "--json")
    assert said.status == 0, said.err
    (run,) = json.loads(said.out)["runs"]
    assert run["model"] == "api:org/model" and run["totals"]["ok"] == 60
    (pid,) = json.loads((tmp_path / "says.json").read_text())["pids"]
    assert not Path(f"/proc/{pid}").exists()


def test_words_that_do_not_fit_are_refused(snellen):
    assert snellen("run", "lights", "--serve", "vllm m", "--base-url", "http://127.0.0.1:1/v1").status == 2
    assert snellen("serve", "one", "two").status == 2
    said = snellen("serve", "embedded", "--gpu", "0")
    assert said.status == 2 and "--gpu" in said.err
