"""What runs in a worker: it builds what it is told to, once, and answers what it is asked.

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
    """What a worker holds: a model, an encoder."""

    async def load(self) -> Any:
        """Make it ready, and say what it is."""
        ...

    async def ask(self, request: Any) -> Any:
        """One answer; `UNSEEN` where a file that is asked about is not seen here."""
        ...

    def state(self) -> Mapping[str, Any]:
        """What happened, for the record."""
        ...


class WorkerFault(Struct, frozen=True):
    """An error on its way."""

    kind: str
    message: str
    hint: str = ""
    retry_after_s: float | None = None
    trace: Any = None
    unavailable: bool | None = False

    def error(self) -> SnellenError:
        """The error again, of the class that it had."""
        candidate = getattr(errors, self.kind, None)
        kind = candidate if isinstance(candidate, type) and issubclass(candidate, SnellenError) else ModelError
        error = kind(self.message, self.hint)
        if isinstance(error, ModelError):
            error.retry_after_s, error.trace = self.retry_after_s, self.trace
            error.unavailable = self.unavailable
        return error


class WorkerReply(Struct, frozen=True):
    """An answer, or why there is none."""

    value: Any = None
    fault: WorkerFault | None = None


class Hello(Struct, frozen=True):
    """Where a worker is, and what is installed there."""

    node: str
    host: str
    pid: int
    cpus: int
    versions: Mapping[str, str]


def fault(error: Exception, otherwise: type[SnellenError]) -> WorkerFault:
    """An error as it travels; one that is not of Snellen becomes `otherwise`."""
    if not isinstance(error, SnellenError):
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return WorkerFault(otherwise.__name__, f"{type(error).__name__}: {first}")
    kind = next(base.__name__ for base in type(error).__mro__ if getattr(errors, base.__name__, None) is base)
    if not isinstance(error, ModelError):
        return WorkerFault(kind, error.message, error.hint)
    return WorkerFault(kind, error.message, error.hint, error.retry_after_s, error.trace, error.unavailable)


def versions() -> dict[str, str]:
    """What answers can depend on, of the packages that are installed."""
    by_package = {"snellen": __version__, "python": platform.python_version()}
    for name in ("torch", "transformers", "timm", "open_clip_torch"):
        try:
            by_package[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return by_package


class Worker:
    """The actor. All its calls share one event loop, and a model may batch what is asked at once."""

    def __init__(self, build: Callable[[], Hosted]) -> None:
        self._build = build
        self._hosted: Hosted | None = None

    async def hello(self) -> Hello:
        import ray

        node = ray.get_runtime_context().get_node_id()
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return Hello(node, platform.node(), os.getpid(), cpus, versions())

    async def load(self, threads: int) -> WorkerReply:
        """Build it. `threads` is this worker's part of the processors of its host."""
        try:
            import torch

            torch.set_num_threads(threads)
        except ImportError:  # a model of somebody else may do without
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
        """End this process at once. Whoever asked sees it lost."""
        os._exit(0)

    async def state(self) -> Mapping[str, Any]:
        return {} if self._hosted is None else self._hosted.state()
