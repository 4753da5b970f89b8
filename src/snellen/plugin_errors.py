"""Exceptions from code outside Snellen: its owner, file and line.

A benchmark, a model, a writer of results or a hook of a user's own may raise anything. The traceback tells it from a fault of
Snellen: the code that raised, or that called what raised, lies outside of Snellen, of Python and of Snellen's dependencies.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from snellen.errors import PluginError, SampleNote

_HERE = str(Path(__file__).parent)
_GROUPS = ("snellen.benchmarks", "snellen.models")
_INSTALLED = {"site-packages", "dist-packages"}
_COMPILED = (".pyx", ".pxd", ".pxi")
_REQUIRED = re.compile(r"[A-Za-z0-9._-]+")


def plugin_fault(error: BaseException, name: str = "") -> PluginError | None:
    """Return the error that names the user's code, or None where the exception did not come out of such code.

    Args:
        error: as it was caught, with its traceback.
        name: what the user's code is called, `benchmark 'myset:SET'`; "" takes it from the frames.
    """
    place = _syntax(error)
    notes = list(getattr(error, "__notes__", ()))
    error, frames = _raised(error)
    if place is None:
        own = [(frame, line) for frame, line in frames if _is_foreign(frame)]
        if not own:
            return None
        frame, line = own[-1]
        place = f"{short_path(frame.f_code.co_filename)}:{line}"
        where = frame.f_code.co_name
        place += f", in {where}" if where != "<module>" else ""
    who = name or _named([frame for frame, _ in frames]) or "plug-in"
    where_noted = "".join(f", {note}" for note in notes if isinstance(note, SampleNote))
    kept = ": all records are kept" if _has_records(frames) else ""
    return PluginError(
        f"your {who} failed: {_text(error)}\n  {place}{where_noted}",
        f"Fix it and run the same command again{kept}. SNELLEN_DEBUG=1 prints the traceback.",
    )


def _text(error: BaseException) -> str:
    """Return `KeyError: 'index'`, without the notes that follow it."""
    lines = traceback.format_exception_only(error)
    notes = sum(str(note).count("\n") + 1 for note in getattr(error, "__notes__", ()))
    return lines[-1 - notes].strip()


def _has_records(frames: list[tuple[FrameType, int]]) -> bool:
    """Return True if a run folder that these frames are about holds records."""
    for frame, _ in frames:
        if frame.f_code.co_filename.startswith(_HERE):
            for name, value in frame.f_locals.items():
                folder = getattr(value, "folder", value) if type(value).__name__ == "Run" else value
                journal = getattr(folder, "results", None) if type(folder).__name__ == "RunFolder" else None
                if name == "folder" and isinstance(folder, Path):
                    journal = folder / "results.jsonl"
                if isinstance(journal, Path) and journal.is_file() and journal.stat().st_size:
                    return True
    return False


def place_of(error: BaseException) -> str:
    """Return `file.py:12` of the user's code that an exception came from; "" if it is not the user's."""
    own = [(frame, line) for frame, line in _raised(error)[1] if _is_foreign(frame)]
    return f"{short_path(own[-1][0].f_code.co_filename)}:{own[-1][1]}" if own else ""


def _syntax(error: BaseException) -> str | None:
    """Return the place of a syntax error; None for other errors and for Snellen's own files."""
    if not isinstance(error, SyntaxError) or not error.filename or str(error.filename).startswith(_HERE):
        return None
    return f"{short_path(error.filename)}:{error.lineno}"


def _raised(error: BaseException) -> tuple[BaseException, list[tuple[FrameType, int]]]:
    """Return the exception that was raised, and its frames.

    In a generator or coroutine Python replaces StopIteration, that of a next() at an iterator's end, by a RuntimeError.
    """
    frames = list(_frames(error.__traceback__))
    cause = error.__cause__
    if isinstance(error, RuntimeError) and isinstance(cause, StopIteration | StopAsyncIteration):
        return cause, [*frames, *_frames(cause.__traceback__)]
    return error, frames


def _frames(place: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while place is not None:
        yield place.tb_frame, place.tb_lineno
        place = place.tb_next


def _is_foreign(frame: FrameType) -> bool:
    """Return True for code of the user: not Snellen's, not Python's, not that of a package Snellen depends on."""
    file = frame.f_code.co_filename
    if file.startswith((_HERE, "<")):
        return False
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if _INSTALLED & set(Path(file).parts):
        return package in _plugin_packages()
    if Path(file).suffix in _COMPILED and package in metadata.packages_distributions():
        return package in _plugin_packages()  # its path is the one at which it was compiled, such as uvloop/loop.pyx
    if Path(file).parent == Path(sys.argv[0]).parent and Path(file).stem == Path(sys.argv[0]).stem:
        return False  # the program that was started
    return not file.startswith(tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")))


@cache
def _plugin_packages() -> frozenset[str]:
    """Return installed packages that declare an entry point of Snellen, or that need Snellen."""
    points = {
        point.value.partition(":")[0].partition(".")[0]
        for group in _GROUPS
        for point in metadata.entry_points(group=group)
    }
    for package, distributions in metadata.packages_distributions().items():
        for distribution in distributions:
            needs = (_REQUIRED.match(line) for line in metadata.requires(distribution) or ())
            if any(need and need[0].lower() == "snellen" for need in needs):
                points.add(package)
    return frozenset(points - {"snellen"})


def short_path(file: str) -> str:
    """Return the path from the working folder, if that is shorter."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(path)


def _named(frames: list[FrameType]) -> str:
    """Return the benchmark or model that the innermost frame of Snellen's is about."""
    for frame in reversed(frames):
        if frame.f_code.co_filename.startswith(_HERE):
            for value in frame.f_locals.values():
                kind = type(value).__name__
                if kind == "Benchmark" and isinstance(getattr(value, "name", None), str):
                    return f"benchmark {value.name!r}"
                spec = getattr(value, "spec", None)
                if kind == "RunMeta" and spec is not None:
                    return f"benchmark {spec.benchmark!r}"
        elif (
            (value := frame.f_locals.get("self")) is not None
            and hasattr(value, "answer")
            and hasattr(value, "identity")
        ):
            return f"model {getattr(value, 'name', type(value).__name__)!r}"
    return ""


def is_foreign(function: Any) -> bool:
    """Return True for a function that is not Snellen's own; of a partial or a checked one, the function in it counts."""
    function = getattr(function, "func", getattr(function, "function", function))
    return not str(getattr(function, "__module__", "")).startswith("snellen.")
