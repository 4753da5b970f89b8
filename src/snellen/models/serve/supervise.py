"""vLLM server process: start it, wait until it answers under the right name, end all of it."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from snellen.errors import PreflightError, UsageError
from snellen.local_server import bind
from snellen.models import processes
from snellen.models.serve.vllm import Launch, VllmSettings, launch
from snellen.redaction import redact

GRACE_S, POLL_S, ANSWER_S, TELL_S = 20.0, 0.25, 5.0, 30.0
LAST_LINES, LAST_BYTES = 12, 16 << 10

# Ends the container when the pipe to it closes, however we ended; $1 is docker, $2 the container.
_STOP_CONTAINER = 'cat >/dev/null; exec "$1" stop --time 20 "$2" >/dev/null 2>&1'


class Server(Struct, frozen=True):
    """A server that answers: `url` is the base address up to /v1, `name` what it calls the model."""

    url: str
    name: str
    log: Path
    process: Any

    def wait(self) -> None:
        """Wait for ever; raise PreflightError when the server ends by itself."""
        status = self.process.wait()
        raise _died(status, self.log)


@contextlib.contextmanager
def serving(settings: VllmSettings, tell: Callable[[str], None]) -> Iterator[Server]:
    """Run a vLLM server for the time of a block.

    It is ended by SIGTERM to its process group, 20 seconds of grace, SIGKILL to all that stems from it. When this
    process dies without a word, a guard (Linux) does the last of these at once.

    Args:
        settings: what to serve.
        tell: gets a line about the start, and one every 30 s while it loads.

    Raises:
        PreflightError: the port is taken, or the server died, hung or serves another name; with its last lines.
        MissingExtraError, UsageError: see `vllm.launch`.
    """
    if sys.platform == "win32":
        raise UsageError("vLLM does not run on Windows", "Start it under WSL, and give its address as --base-url.")
    with bind(settings.host, settings.port) as listener:  # taken is said now, not after the model was loaded
        port = int(listener.getsockname()[1])
    chosen = launch(settings, port)
    log = settings.log or Path(f"vllm-{port}.log")
    try:
        output = log.open("wb")
    except OSError as error:
        raise UsageError(f"--log {log} cannot be written: {error.strerror}") from error
    tell(f"starting vLLM with {settings.model}; it writes to {log}")
    with output, _process(chosen, output) as process:
        probed = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - not bound here
        _healthy(process, probed, port, log, settings.startup_s, tell)
        _named(probed, port, settings, log)
        host = f"[{probed}]" if ":" in probed else probed
        yield Server(f"http://{host}:{port}/v1", settings.public, log, process)


@contextlib.contextmanager
def _process(chosen: Launch, output: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        server = processes.start(chosen.argv, chosen.env, output)
    except OSError as error:
        raise PreflightError(f"{chosen.argv[0]} cannot be started: {error.strerror}") from error
    stopper = _stopper(chosen) if chosen.container else None
    try:
        yield server.process
    finally:
        # Closing the pipe to it stops the container.
        processes.end(server, GRACE_S, None if stopper is None else lambda: stopper.communicate(timeout=2 * GRACE_S))


def _stopper(chosen: Launch) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own line; program and container are arguments of it
        ["/bin/sh", "-c", _STOP_CONTAINER, "sh", chosen.argv[0], chosen.container],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def _healthy(
    process: subprocess.Popen[bytes], host: str, port: int, log: Path, limit_s: float, tell: Callable[[str], None]
) -> None:
    started = reported = time.monotonic()
    while True:
        status, _ = _get(host, port, "/health", None)
        if (ended := process.poll()) is not None:  # asked last: another server may have answered in its place
            raise _died(ended, log)
        if status == 200:
            return
        now = time.monotonic()
        if now - started > limit_s:
            raise PreflightError(
                f"vLLM did not answer at http://{host}:{port}/health within {limit_s:,.0f} s (last: {_said(status)})."
                f"{_last(log)}",
                f"The whole log is in {log}. A large model needs longer: --startup-timeout SECONDS.",
            )
        if now - reported > TELL_S:
            reported = now
            tell(f"vLLM is loading, {now - started:,.0f} s so far")
        time.sleep(POLL_S)


def _named(host: str, port: int, settings: VllmSettings, log: Path) -> None:
    status, body = _get(host, port, "/v1/models", settings.key)
    try:
        names = [str(entry["id"]) for entry in msgspec.json.decode(body)["data"]]
    except (msgspec.DecodeError, LookupError, TypeError, RecursionError):
        raise PreflightError(
            f"vLLM answers, but its list of models at http://{host}:{port}/v1/models cannot be read "
            f"({_said(status)}).{_last(log)}",
            f"The whole log is in {log}.",
        ) from None
    if settings.public not in names:
        raise PreflightError(
            f"the server at port {port} serves {', '.join(names) or 'nothing'}, not {settings.public}.",
            "Another server may have taken the port: choose another --port (0 takes a free one).",
        )


def _get(host: str, port: int, path: str, key: str | None) -> tuple[int, bytes]:
    """Return status and body; status 0 where nobody answers. No proxy is asked."""
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        connection.request("GET", path, headers={} if key is None else {"Authorization": f"Bearer {key}"})
        reply = connection.getresponse()
        return reply.status, reply.read(1 << 20)
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def _said(status: int) -> str:
    return f"HTTP {status}" if status else "no reply"


def _died(status: int, log: Path) -> PreflightError:
    return PreflightError(f"vLLM ended with status {status}.{_last(log)}", f"The whole log is in {log}.")


def _last(log: Path) -> str:
    """Return the last lines of the log, indented, for a message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LAST_BYTES))
        text = redact(file.read().decode(errors="replace"))
    lines = [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
    return "".join(f"\n  {line}" for line in lines) if lines else " It wrote nothing."
