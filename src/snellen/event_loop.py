"""Event loop of a run, and the thread for reading long texts, so that no reply blocks the loop."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = 8_000
"""Characters or bytes of a text that is read on the event loop; a longer one is read in the thread."""
SWITCH_S = 0.0005
"""Seconds after which the thread hands over to the event loop; Python's own choice is 5 ms."""

COLLECTED_EVERY = 50_000
"""New objects after which Python looks for cycles while a loop runs. The default of Python 3.11 is 700, which costs a run 1 % more."""

_thread: ThreadPoolExecutor | None = None
_counting = threading.Lock()
_loops = 0
_own_threshold = gc.get_threshold()


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
    with _rarely_collected():
        try:
            import uvloop
        except ImportError:  # not there on Windows
            return asyncio.run(coroutine)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(coroutine)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Look for cycles among new objects more rarely, unless that is chosen already.

    The last loop to end restores the former choice, unless somebody has made another one meanwhile.
    """
    global _loops, _own_threshold
    with _counting:
        _loops += 1
        if _loops == 1:
            _own_threshold = gc.get_threshold()
            if 0 < _own_threshold[0] < COLLECTED_EVERY:  # 0: never
                gc.set_threshold(COLLECTED_EVERY, *_own_threshold[1:])
    try:
        yield
    finally:
        with _counting:
            _loops -= 1
            if _loops == 0 and gc.get_threshold()[0] == COLLECTED_EVERY:
                gc.set_threshold(*_own_threshold)
