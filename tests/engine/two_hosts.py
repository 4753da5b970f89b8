"""Ray nodes on this machine, each with room for one worker, and a way to cut the power of one. For tests.

Everything is started as a user would, by `ray start` in processes of its own: the tests themselves never import Ray.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

RAY = Path(sys.executable).with_name("ray")
STORE_BYTES = 80 << 20


def end(processes: list[psutil.Process]) -> None:
    """SIGKILL to all at once, and none is left when this returns."""
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGKILL)
    assert not psutil.wait_procs(processes, timeout=600)[1]


def family(pid: int) -> list[psutil.Process]:
    """A process and all that come from it."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


class Node:
    """The processes of one `ray start --block`."""

    def __init__(self, log: Path, environment: dict[str, str], *words: str) -> None:
        command = [str(RAY), "start", "--block", "--num-cpus=1", f"--object-store-memory={STORE_BYTES}", *words]
        with log.open("wb") as to:
            self._process = subprocess.Popen(
                command, stdout=to, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
            )
        self._log = log

    def said(self, pattern: str) -> str:
        """The first group of a pattern in what it says, once it is said."""
        for _ in range(6000):
            found = re.search(pattern, self._log.read_text())
            if found is not None:
                return found[1]
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"Ray did not start: {self._log.read_text()[-2000:]}")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def cut(self) -> None:
        """As if its power were cut."""
        end(family(self._process.pid))
        self._process.wait(600)


class TwoHosts:
    """A head and another node. `environment` is what a process needs in order to be let in."""

    def __init__(self) -> None:
        # Short: Ray's sockets lie under it, and their names may have 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="two-hosts-", dir="/tmp"))
        self.environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",  # as docs/scale-out.md advises: at 15 they starve beside other programs
        }
        self._other: Node | None = None
        self._head = self._node(
            "head", "--head", "--port=0", "--include-dashboard=false", f"--temp-dir={self._folder}/r"
        )
        try:
            self.address = self._head.said(r"--address='?([\d.]+:\d+)'?\s")
        except BaseException:
            self.close()
            raise

    def other(self) -> Node:
        """The second node, started anew where it is gone."""
        if self._other is None or not self._other.alive:
            self._other = self._node("other", f"--address={self.address}")
            self._other.said("(Ray runtime started)")
        return self._other

    def close(self) -> None:
        for node in (self._other, self._head):
            if node is not None and node.alive:
                node.cut()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _node(self, name: str, *words: str) -> Node:
        return Node(self._folder / f"{name}.log", self.environment, *words)
