"""Event loop of a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a new loop, in a thread if a loop is running already (a notebook)."""
    if not _loop_is_running():
        return _run(coroutine)
    result: list[T] = []
    failure: list[BaseException] = []

    def inside() -> None:
        try:
            result.append(_run(coroutine))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failure.append(error)

    thread = threading.Thread(target=inside, name="snellen-run")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        import uvloop
    except ImportError:  # not there on Windows
        return asyncio.run(coroutine)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)
