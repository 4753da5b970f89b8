"""`snellen serve vllm`: our side of it, against a stand-in program of that name (vLLM itself needs a GPU)."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snellen.cli.serve import parse_vllm
from snellen.errors import PreflightError, UsageError
from snellen.models.serve import supervise, vllm
from snellen.models.serve.supervise import serving
from snellen.models.serve.vllm import VllmSettings

STAND_IN = Path(__file__).with_name("vllm_stand_in.py")


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A program `vllm` on the PATH, in an empty folder; returns the file in which it says how it was called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "vllm"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(STAND_IN))} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("STAND_IN_SAYS", str(tmp_path / "says.json"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "says.json"


def settings(model: str = "org/model", **more: object) -> VllmSettings:
    return VllmSettings(model=model, port=0, startup_s=600, **more)  # type: ignore[arg-type]


def gone(pids: list[int], within_s: float = 600) -> bool:
    until = time.monotonic() + within_s
    while alive := [pid for pid in pids if _runs(pid)]:
        if time.monotonic() > until:
            return not alive
        time.sleep(0.05)
    return True


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_answers_under_its_name_and_is_gone_after_the_block(stand_in):
    with serving(settings(gpus="0,2", data_parallel=2, extra=("--max-model-len", "4096")), print) as server:
        said = json.loads(stand_in.read_text())
        assert server.name == "org/model" and server.url.startswith("http://127.0.0.1:")
    assert said["gpus"] == "0,2"
    assert said["words"][:2] == ["serve", "org/model"]
    assert said["words"][-4:] == ["--data-parallel-size", "2", "--max-model-len", "4096"]
    assert gone(said["pids"], 0)


def test_a_server_that_ignores_sigterm_ends_all_the_same_with_the_children_that_left_its_group(stand_in, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.5)
    with serving(settings("stubborn"), print):
        pids = json.loads(stand_in.read_text())["pids"]
        assert len(pids) == 2 and all(map(_runs, pids))
    assert gone(pids, 0)


def test_a_server_that_dies_is_reported_with_its_last_lines(stand_in):
    with pytest.raises(PreflightError, match=r"status 3(.|\n)*no supported config"), serving(settings("dies"), print):
        pass


def test_a_server_that_never_answers_ends_with_the_limit(stand_in):
    for limit_s in (1, 60, 600):  # on a slow machine it has not begun to load after a second
        with pytest.raises(PreflightError, match=rf"within {limit_s} s \(last: no reply\)") as caught:  # noqa: SIM117
            with serving(VllmSettings(model="hangs", port=0, startup_s=limit_s), print):
                pass
        if "loading hangs" in caught.value.message:
            break
    assert "loading hangs" in caught.value.message
    assert gone(json.loads(stand_in.read_text())["pids"], 0)


def test_a_server_of_another_name_is_refused(stand_in):
    with (
        pytest.raises(PreflightError, match="serves another/model, not misnamed"),
        serving(settings("misnamed"), print),
    ):
        pass
    assert gone(json.loads(stand_in.read_text())["pids"], 0)


def test_a_taken_port_is_said_before_anything_is_started(stand_in):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PreflightError, match=f"port {port}"), serving(VllmSettings(model="m", port=port), print):
            pass
    assert not stand_in.exists()


def test_the_key_is_in_the_environment_and_in_no_argument(stand_in):
    with serving(settings(key="sk-of-the-server"), print):
        assert "sk-of-the-server" not in stand_in.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_command_leaves_nothing_behind_however_it_ends(stand_in, number):
    line = [sys.executable, "-m", "snellen", "serve", "vllm", "org/model", "--port", "0"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        for text in command.stderr:
            if text.startswith("Serving org/model at http://127.0.0.1:"):
                break
        command.send_signal(number)
        status = command.wait(600)
    assert status == {signal.SIGINT: 0, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}[number]
    assert gone(json.loads(stand_in.read_text())["pids"])


def test_a_docker_line_names_the_container_the_gpus_and_never_the_key(tmp_path, monkeypatch):
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    made = vllm.launch(
        VllmSettings(model="org/model", docker="vllm/vllm-openai:v1", gpus="0,1", key="sk-secret"),
        8010,
        {"HOME": "/home/me"} if monkeypatch.setenv("PATH", str(tmp_path)) is None else {},
    )
    assert made.container and made.container in made.argv and "sk-secret" not in " ".join(made.argv)
    assert made.argv[made.argv.index("--gpus") + 1] == '"device=0,1"'
    assert made.argv[made.argv.index("-p") + 1] == "127.0.0.1:8010:8000"
    assert made.env["VLLM_API_KEY"] == "sk-secret"
    assert made.argv[made.argv.index("--entrypoint") :][:5] == [
        *("--entrypoint", "vllm", "vllm/vllm-openai:v1", "serve", "org/model")
    ]


def test_a_docker_container_is_stopped_by_name(tmp_path, monkeypatch, stand_in):
    """The stand-in for docker runs the server in a session of its own, as the daemon does; only `stop` ends it."""
    program = tmp_path / "bin" / "docker"
    program.write_text(
        f"""#!{sys.executable}
import os, signal, subprocess, sys
words = sys.argv[1:]
if words[0] == "stop":
    pid = int(open({str(tmp_path / "pid")!r}).read())
    open({str(tmp_path / "stopped")!r}, "w").write(words[-1])
    os.kill(pid, signal.SIGTERM)
else:
    port = words[words.index("-p") + 1].split(":")[1]
    inner = words[words.index("serve"):]
    inner[inner.index("--port") + 1] = port
    server = subprocess.Popen(["vllm", *inner], start_new_session=True)
    open({str(tmp_path / "pid")!r}, "w").write(str(server.pid))
    sys.exit(server.wait())
"""
    )
    program.chmod(0o755)
    with serving(settings(docker="image"), print):
        pids = json.loads(stand_in.read_text())["pids"]
    assert (tmp_path / "stopped").read_text().startswith("snellen-vllm-")
    assert gone(pids, 0)


def test_the_line_of_serve_is_read_as_the_command_reads_it():
    read = parse_vllm("vllm org/model --gpu 0,1,2 --data-parallel 3 --port 8010 -- --max-model-len 4096")
    assert (read.model, read.gpus, read.data_parallel, read.port) == ("org/model", "0,1,2", 3, 8010)
    assert read.extra == ("--max-model-len", "4096")
    for wrong in ("org/model", "vllm", "vllm org/model --gpus 1", "vllm org/model --dtype float32", "vllm 'org"):
        with pytest.raises(UsageError):
            parse_vllm(wrong)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpus": "0; rm"}, "no list of GPU ids"),
        ({"extra": ("--api-key=x",)}, "--api-key behind --"),
        ({"extra": ("--api_key", "x")}, "--api-key behind --"),
        ({"sif": "/no/such.sif"}, "no such file"),
        ({"sif": "a", "docker": "b"}, "exclude each other"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, said):
    with pytest.raises(UsageError, match=said):
        vllm.launch(settings(**given), 8000)
