"""Connection to Ray: started on this machine and cleaned up afterwards, or one that is running already.

Ray's ports take commands from whoever reaches them, on every interface of the machine. So our own Ray is started with
Ray's token authentication and a token that only this process and its children know.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import filelock

from snellen.errors import MissingExtraError, PreflightError, UsageError
from snellen.installation import install_hint
from snellen.text import shorten

MARK = "snellen-ray-"
STORE_BYTES = 128 << 20  # images travel as places here, so that little has to fit
CONNECT_S = 5.0
STARTS = 3  # attempts to start a Ray of our own
AGENT_GONE_S = 5.0
"""A raylet ends when an agent of its has. This long it may take, then it counts as hung."""
LONGEST_TEMP = 40  # Ray's sockets lie under it, and their names may have 107 bytes
AGENTS = (
    (b"ray::DashboardAgent", b"/dashboard/agent.py", "dashboard agent"),
    (b"ray::RuntimeEnvAgent", b"/runtime_env/agent/main.py", "runtime environment agent"),
)
_TOKEN = secrets.token_hex(32)  # Ray reads it once a process, so it stays the same for all runs of this one
# Ray tells of every lost worker on standard output, where our tables and JSON go; it reads this when it is imported.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "(?s).",
}
_OWN = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a worker without a GPU of its own shall not see any
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,
}
_NICENESS = "RAY_worker_niceness"
"""Ray's workers run at niceness 15 by default: beside any other program of the host they hardly run at all."""


class Cluster:
    """Connection to Ray. Use it as a context, in the thread that waits for the end of the work.

    Attributes:
        own: whether this process started it.
        version: Ray's.
    """

    def __init__(self, address: str | None, workers: int | None, *, gpus: bool) -> None:
        """Store the settings; nothing is contacted before the context is entered.

        Args:
            address: None starts one on this machine; `auto`, HOST:PORT or ray://HOST:PORT finds one.
            workers: how many are wanted; None asks for one a GPU, or one a host where there is no GPU.
            gpus: whether GPUs may be used.

        Raises:
            UsageError: the address is not of these forms.
            MissingExtraError: Ray is not installed.
        """
        if find_spec("ray") is None:
            raise MissingExtraError("several workers need ray, which is not installed.", install_hint("ray"))
        if address is not None and address != "auto":
            _host_and_port(address)
        self._address = address
        self._workers = workers
        self._gpus = gpus
        self._folder: Path | None = None
        self._lock: filelock.BaseFileLock | None = None
        self._was_there = False
        self._answered = False
        self._agents: dict[int, str] = {}
        self._agent_gone_at: float | None = None
        self.own = address is None
        self.version = ""

    def __enter__(self) -> Cluster:
        """Start or find Ray. Raise PreflightError."""
        if self._address is not None and self._address.startswith("ray://") and find_spec("grpc") is None:
            raise MissingExtraError(
                "an address that begins with ray:// needs grpcio, which is not installed.",
                f"{install_hint('ray')}, or give HOST:PORT.",
            )
        if self.own:
            _sweep()
        own = {**_OWN, _NICENESS: os.environ.get(_NICENESS, "0")}
        with _environment({**_QUIET, **own} if self.own else _QUIET):
            imported = "ray" in sys.modules
            import ray

            self.version = ray.__version__
            logging.getLogger("ray").setLevel(logging.ERROR)
            if self.own and imported:
                _read_token()
            self._was_there = self.own and ray.is_initialized()
            if self._was_there:  # a notebook that has one; it is not ours to end
                self.own = False
                return self
            for attempt in range(1, STARTS + 1):
                try:
                    with _signals_kept():
                        ray.init(**self._settings())
                except BaseException as error:
                    self.__exit__()
                    if not isinstance(error, Exception):
                        raise
                    # Ray gives itself 30 seconds, which a machine with other load can take.
                    if not (self.own and "timed out" in str(error) and attempt < STARTS):
                        raise self._unreachable(error) from error
                else:
                    break
        return self

    def __exit__(self, *fault: object) -> None:
        if not self._was_there:
            import ray

            with _signals_kept():
                ray.shutdown()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._folder is not None:
            _end_processes(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def ended(self) -> str:
        """Say which process of our own Ray has ended, and how; empty if none has, or if Ray is not ours.

        A raylet that has lost an agent and does not end is killed.
        """
        if not self.own:
            return ""
        from ray._private import worker  # Ray tells nobody else: what is asked of it just waits

        node: Any = worker._global_node
        for name, process in () if node is None else node.dead_processes():
            return f"{name.replace('_', ' ')} {how_it_ended(process.returncode)}"
        for name, process in () if node is None else node.live_processes():
            if name == "raylet" and (agent := self._lost_agent(process.pid)):
                os.kill(process.pid, signal.SIGKILL)  # ending Ray would wait for it
                return f"{agent} has ended, and its raylet hung"
        return ""

    def _lost_agent(self, raylet: int) -> str:
        """Return the name of an agent of the raylet that has been gone for a while; empty if there is none. Linux only."""
        now = _agents(raylet)
        self._agents |= now
        lost = next((name for pid, name in self._agents.items() if pid not in now), "")
        if not lost:
            self._agent_gone_at = None
            return ""
        if self._agent_gone_at is None:
            self._agent_gone_at = time.monotonic()
        return lost if time.monotonic() - self._agent_gone_at > AGENT_GONE_S else ""

    def workers(self) -> tuple[int, int]:
        """Return (number of workers, GPUs for each).

        Raises:
            PreflightError: the cluster has fewer GPUs or processors than that takes.
        """
        import ray

        resources: Mapping[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        gpus, cpus = int(resources.get("GPU", 0)) if self._gpus else 0, int(resources.get("CPU", 0))
        hosts = sum(bool(node["Alive"]) for node in ray.nodes())  # type: ignore[no-untyped-call]
        wanted = self._workers if self._workers is not None else gpus or max(1, hosts)
        if gpus and wanted > gpus:
            raise PreflightError(
                f"{wanted} workers were requested, one GPU each; Ray has {gpus}.",
                f"Use --nproc {gpus}, or --device cpu.",
            )
        if wanted > cpus:
            raise PreflightError(
                f"{wanted} workers were requested; Ray has {cpus} processors on {hosts} hosts.",
                f"Use --nproc {max(1, cpus)}.",
            )
        return wanted, 1 if gpus else 0

    def _settings(self) -> dict[str, Any]:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "snellen"}
        if self._address is not None:
            if self._address == "auto":
                return {"address": "auto", **quiet}
            host, port = _host_and_port(self._address)
            with socket.create_connection((host, port), CONNECT_S):  # Ray itself waits for minutes
                self._answered = True
            return {"address": self._address, **quiet}
        self._folder = _folder()
        self._lock = filelock.FileLock(self._folder / ".lock", thread_local=False)
        self._lock.acquire(timeout=0)
        return {
            "address": "local",
            "num_cpus": max(1, self._workers or 1),
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
            "_temp_dir": str(self._folder),
            **({} if self._gpus else {"num_gpus": 0}),
            **quiet,
        }

    def _unreachable(self, error: Exception) -> PreflightError:
        message = one_paragraph(error)
        if self._address is None:
            return PreflightError(f"Ray could not be started on this machine: {message}")
        if "ersion mismatch" in message:
            return PreflightError(
                f"Ray at {self._address} has another version than this process: {message}",
                "Install the same versions of Ray and Python on all hosts.",
            )
        if self._answered or "uthenticat" in message:
            return PreflightError(
                f"the server at {self._address} does not accept this process: {message}",
                "If it asks for a token, put that into RAY_AUTH_TOKEN_PATH or RAY_AUTH_TOKEN, with RAY_AUTH_MODE=token; "
                "else check that it is Ray (for ray:// the port of its client server, 10001 by default).",
            )
        return PreflightError(
            f"there is no Ray at {self._address}: {message}",
            "Start one with `ray start --head`, and pass the address that it prints.",
        )


def _agents(raylet: int) -> dict[int, str]:
    """Return the live agents among a raylet's children, by process id."""
    agents = {}
    for children in Path(f"/proc/{raylet}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in map(int, children.read_text().split()):
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")  # empty for a zombie
                    for title, script, name in AGENTS:
                        if words[0] == title or any(word.endswith(script) for word in words):
                            agents[pid] = name
    return agents


def how_it_ended(status: int) -> str:
    """Describe a process's return code in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = f" ({signal.Signals(-status).name})"
    except ValueError:
        name = ""
    return f"was killed by signal {-status}{name}"


def one_paragraph(error: BaseException, limit: int = 400) -> str:
    """Return an error's text in one line of at most `limit` characters."""
    return shorten(" ".join(str(error).split()) or type(error).__name__, limit)


def _host_and_port(address: str) -> tuple[str, int]:
    host, sign, port = address.removeprefix("ray://").rpartition(":")
    if (
        not sign
        or not host
        or not port.isdecimal()
        or len(port) > 5
        or not 0 < int(port) < 65536
        or "/" in host
        or "@" in host
    ):
        raise UsageError(
            f"--ray {address}: expected auto, HOST:PORT or ray://HOST:PORT.",
            "`ray start --head` prints the address.",
        )
    return host.strip("[]"), int(port)


def _folder() -> Path:
    root = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix=MARK, dir=root if len(root) <= LONGEST_TEMP else "/tmp"))  # noqa: S108


def _end_processes(folder: Path) -> None:
    """End the processes that a failed start of Ray left: they name its folder. Linux only."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            pid = int(command.parent.name)
            own = command.stat().st_uid == os.getuid() and pid != os.getpid()
            if own and f"{folder}/".encode() in command.read_bytes():
                os.kill(pid, signal.SIGKILL)


def _sweep() -> None:
    """Remove the logs of Ray that killed processes of this user left, in folders without a held lock."""
    for root in {tempfile.gettempdir(), "/tmp"}:  # noqa: S108
        for folder in Path(root).glob(f"{MARK}*"):
            with contextlib.suppress(OSError, filelock.Timeout):
                lock = folder / ".lock"
                if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not lock.exists():
                    continue
                with filelock.FileLock(lock).acquire(timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)


def _read_token() -> None:
    """Read mode and token again: another library may have imported Ray before they were set."""
    from ray import _raylet

    core: Any = _raylet
    core.Config.initialize("")
    core.AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set these variables while Ray starts, for its processes; restore them afterwards."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep the run's handler of SIGTERM, which Ray replaces by its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
