"""Start and talk to the supervisor of one agent (supervisor.py): its box, its listeners, its end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from snellen.errors import AgentAbortedError, PreflightError
from snellen.models import processes as group
from snellen.models.agents import supervisor
from snellen.models.agents.limits import AgentLimits
from snellen.models.agents.system_calls import bpf
from snellen.text import json_or_none

MODEL_PORT, WEB_PORT, PROXY_PORT = 8321, 8322, 8323
_READY_S = 60.0
_END_S = 3 * supervisor.GRACE_S


class SupervisedOutcome(msgspec.Struct, frozen=True):
    """The supervisor's last message; see supervisor.py.

    `fault`: the program could not be started. `early`: a limit was hit, and the agent is being ended.
    """

    limit: str = ""
    used: int = 0
    status: int = -9
    memory: int = 0
    processes: int = 0
    fault: str = ""
    early: bool = False


class Supervisor:
    """One supervisor process, ready to start an agent.

    Args:
        mount: an empty folder, on which the supervisor mounts the box where `isolated`.
        limits: of the sample.
        isolated: whether the agent gets namespaces and a file system of its own.
        network: whether it shares the network of this machine.

    Raises:
        PreflightError: namespaces or the file system cannot be had on this machine.
    """

    def __init__(self, mount: Path, limits: AgentLimits, isolated: bool, network: bool) -> None:
        self.limits = limits
        self.known = SupervisedOutcome()
        self.box: int | None = None
        self.listeners: list[socket.socket] = []
        self._control, peer = socket.socketpair()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", supervisor.__file__, str(peer.fileno())],
                env={"PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(peer.fileno(),),
            )
        except OSError as error:
            self._control.close()
            raise PreflightError(f"{sys.executable} cannot be started: {error.strerror}") from error
        finally:
            peer.close()
        settings = {
            "isolated": isolated,
            "network": network,
            "box": str(mount),
            "ports": [MODEL_PORT, WEB_PORT, PROXY_PORT],
            "limits": limits.plain(),
        }
        try:
            self._control.settimeout(_READY_S)
            self._control.sendall(msgspec.json.encode(settings) + b"\n")
            data, numbers, _, _ = socket.recv_fds(self._control, 4096, 8)
        except OSError as error:
            self.close()
            raise PreflightError(f"the supervisor of an agent does not answer: {error}") from error
        if numbers:
            self.box, *listeners = numbers
            self.listeners = [socket.socket(fileno=number) for number in listeners]
        fault = _fault(data)
        if fault is not None:
            self.close()
            raise PreflightError(
                f"the sandbox of an agent cannot be made: {fault}",
                "`snellen doctor` says what is missing. Containers need unprivileged user namespaces.",
            )

    @property
    def streams(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        """Standard input, output and error of the agent, our ends."""
        process = self.process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("a supervisor is started with pipes")
        return process.stdin, process.stdout, process.stderr

    def start(self, argv: Sequence[str], env: dict[str, str], cwd: str | None, proc: bool = False) -> None:
        """Start the agent, with `proc` under a /proc of its own. What it writes lies in the box from now on, and is not to be trusted.

        Raises:
            AgentAbortedError: the supervisor is gone.
        """
        filtered = base64.b64encode(bpf()).decode() if "{seccomp}" in argv else ""
        order = {"argv": list(argv), "env": env, "cwd": cwd, "filter": filtered, "proc": proc}
        try:
            self._control.sendall(msgspec.json.encode(order) + b"\n")
        except OSError as error:
            raise AgentAbortedError(f"its supervisor is gone: {error}") from error

    async def outcome(self) -> SupervisedOutcome:
        """Wait for the end. What is known before it is in `known`."""
        self._control.setblocking(False)
        loop, text = asyncio.get_running_loop(), b""
        while len(text) < 1 << 16:
            try:
                chunk = await loop.sock_recv(self._control, 4096)
            except OSError:
                break
            if not chunk:
                break
            text += chunk
            *lines, _ = text.split(b"\n")
            if lines:
                self.known = _decoded(lines[-1])
                if not self.known.early:
                    break
        return self.known

    def end(self) -> None:
        """Ask the agent to end; it is killed after a moment of grace."""
        with contextlib.suppress(OSError):
            self._control.sendall(b'{"end": true}\n')

    def finish(self) -> None:
        """Kill all of its processes, and wait until they are gone. The box stays. Safe to call again."""
        self._control.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            group.tell(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        """Kill all of its processes, and let go of the box, which is gone then. Safe to call again."""
        self.finish()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        for listener in self.listeners:
            listener.close()
        box, self.box = self.box, None
        if box is not None:
            os.close(box)


def _decoded(line: bytes) -> SupervisedOutcome:
    try:
        return msgspec.json.decode(line, type=SupervisedOutcome)
    except (msgspec.DecodeError, RecursionError):
        return SupervisedOutcome()


def _fault(data: bytes) -> str | None:
    """Return the fault of the supervisor's first message; None where it is ready."""
    message = json_or_none(data)
    return message.get("fault") if isinstance(message, dict) else "its supervisor died"
