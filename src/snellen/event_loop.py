"""Event loop of a run, and the thread for reading long texts, so that no reply blocks the loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = 8_000
"""Characters or bytes of a text that is read on the event loop; a longer one is read in the thread."""
SWITCH_S = 0.0005
"""Seconds after which the thread hands over to the event loop; Python's own choice is 5 ms."""

_thread: ThreadPoolExecutor | None = None


async def off_loop(size: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the function's result: at once for a short `size` (characters or bytes), else from the thread.

    Raises what the function raises.
    """
    if size <= AT_ONCE:
        return function(*args, **kwargs)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_reading(), lambda: function(*args, **kwargs))


def _reading() -> ThreadPoolExecutor:
    global _thread
    if _thread is None:
        _thread = ThreadPoolExecutor(1, thread_name_prefix="snellen-reading")
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
    return _thread


def _forget() -> None:
    global _thread
    _thread = None  # threads do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


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
