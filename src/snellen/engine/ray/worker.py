"""Ray actor: builds a model or an encoder once, and answers requests.

Errors travel as data, never as exceptions: Ray would wrap them in tracebacks.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, Protocol

from msgspec import Struct

from snellen import __version__, errors
from snellen.errors import ModelError, PreflightError, SnellenError

UNSEEN = "unseen"


class Hosted(Protocol):
    """Object that a worker holds: a model or an encoder."""

    async def load(self) -> Any:
        """Load it and describe it."""
        ...

    async def ask(self, request: Any) -> Any:
        """Return one answer; `UNSEEN` if a file of the request is not seen here."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Describe what happened, for the record."""
        ...


class WorkerFault(Struct, frozen=True):
    """An error, as it is sent back to the run."""

    kind: str
    message: str
    hint: str = ""
    retry_after_s: float | None = None
    trace: Any = None
    unavailable: bool | None = False

    def error(self) -> SnellenError:
        """Restore the error with its class."""
        candidate = getattr(errors, self.kind, None)
        kind = candidate if isinstance(candidate, type) and issubclass(candidate, SnellenError) else ModelError
        error = kind(self.message, self.hint)
        if isinstance(error, ModelError):
            error.retry_after_s, error.trace = self.retry_after_s, self.trace
            error.unavailable = self.unavailable
        return error


class WorkerReply(Struct, frozen=True):
    """An answer, or the error in its place."""

    value: Any = None
    fault: WorkerFault | None = None


class Hello(Struct, frozen=True):
    """Host and package versions of a worker."""

    node: str
    host: str
    pid: int
    cpus: int
    versions: Mapping[str, str]


def fault(error: Exception, otherwise: type[SnellenError]) -> WorkerFault:
    """Convert an error for sending; one that is not of Snellen becomes `otherwise`."""
    if not isinstance(error, SnellenError):
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return WorkerFault(otherwise.__name__, f"{type(error).__name__}: {first}")
    kind = next(base.__name__ for base in type(error).__mro__ if getattr(errors, base.__name__, None) is base)
    if not isinstance(error, ModelError):
        return WorkerFault(kind, error.message, error.hint)
    return WorkerFault(kind, error.message, error.hint, error.retry_after_s, error.trace, error.unavailable)


def versions() -> dict[str, str]:
    """Return the versions of installed packages that answers can depend on."""
    by_package = {"snellen": __version__, "python": platform.python_version()}
    for name in ("torch", "transformers", "timm", "open_clip_torch"):
        try:
            by_package[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return by_package


class Worker:
    """Ray actor. All its calls share one event loop, and a model may batch concurrent requests."""

    def __init__(self, build: Callable[[], Hosted]) -> None:
        self._build = build
        self._hosted: Hosted | None = None

    async def hello(self) -> Hello:
        import ray

        node = ray.get_runtime_context().get_node_id()
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return Hello(node, platform.node(), os.getpid(), cpus, versions())

    async def load(self, threads: int) -> WorkerReply:
        """Build the hosted object. `threads` is this worker's share of its host's processors."""
        try:
            import torch

            torch.set_num_threads(threads)
        except ImportError:  # a model of another user may do without
            pass
        try:
            self._hosted = self._build()
            return WorkerReply(await self._hosted.load())
        except Exception as error:  # noqa: BLE001 - said to the user by the process that asked
            return WorkerReply(fault=fault(error, PreflightError))

    async def ask(self, request: Any) -> WorkerReply:
        if self._hosted is None:
            return WorkerReply(fault=WorkerFault("ModelError", "the worker was asked before it had loaded"))
        try:
            return WorkerReply(await self._hosted.ask(request))
        except Exception as error:  # noqa: BLE001 - recorded by the process that asked
            return WorkerReply(fault=fault(error, ModelError))

    async def end(self) -> None:
        """End this process at once. A waiting caller sees it lost."""
        os._exit(0)

    async def state(self) -> Mapping[str, Any]:
        return {} if self._hosted is None else self._hosted.state()
