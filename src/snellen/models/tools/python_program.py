"""The interpreter of the tool `python`, as it runs inside the sandbox: it executes a model's code and keeps its state.

    python -I -B python_program.py

Standard input holds a JSON object a line, {call, token, code}. After each call, "TOKEN ok" or "TOKEN error" goes to what was
standard error; all output of the code goes to standard output. The program imports nothing from the package, which need not be
visible there. What it says is not trusted: the code can say the same.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import sys
import traceback
import types
from pathlib import Path
from typing import Any


def main() -> None:
    """Execute calls until standard input ends."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(2)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(1, 2)
    streams = sys.stdout, sys.stderr
    for stream in streams:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    folder = Path.cwd()
    sys.path += [str(Path(__file__).parent), str(folder)]
    sys.argv = [""]
    module = sys.modules["__main__"] = types.ModuleType("__main__")  # so that classes of the code can be pickled
    own = os.getpid()
    for line in requests:
        request = json.loads(line)
        sys.stdout, sys.stderr = streams
        succeeded = execute(request["code"], f"<call {request['call']}>", module.__dict__, folder)
        for stream in streams:
            stream.flush()
        if os.getpid() != own:  # a process that the code forked, and that came to the end of the code
            os._exit(0)
        os.write(replies, f"{request['token']} {'ok' if succeeded else 'error'}\n".encode())


def execute(code: str, name: str, variables: dict[str, Any], folder: Path) -> bool:
    """Execute code and show the value of a last expression; print a traceback and return False where it fails."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), variables)  # noqa: S102 - what this program is for
        if isinstance(last, ast.Expr):
            _show(eval(compile(ast.Expression(last.value), name, "eval"), variables), folder)  # noqa: S307
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt too: the interpreter stays
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename in (__file__, ast.__file__):
            own = own.tb_next
        traceback.print_exception(type(error), error, own)
        return False
    return True


def _show(value: Any, folder: Path) -> None:
    """Print a value; save one that is a picture or a figure, as notebooks show it."""
    picture = getattr(value, "_repr_png_", None)
    if callable(picture) and isinstance(data := picture(), bytes):
        free_path(folder, "result").write_bytes(data)
    elif type(value).__module__ == "matplotlib.figure":
        value.savefig(free_path(folder, "figure"))
    elif value is not None:
        print(repr(value))


def free_path(folder: Path, stem: str) -> Path:
    """Return the first of STEM-1.png, STEM-2.png … that is not there."""
    number = 1
    while (path := folder / f"{stem}-{number}.png").exists():
        number += 1
    return path


if __name__ == "__main__":
    main()
