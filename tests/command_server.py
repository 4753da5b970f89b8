"""A `snellen` that starts at once: each call is a fork of one interpreter, which has imported the package, torch and transformers.

A fork is a process of its own: `main` runs in it as the installed program calls it, with the words, folder, variables and streams
of its caller. What is saved are the imports: four of the five seconds that a short run of the embedded model takes.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TORCH = ("torch", "torch._dynamo", "transformers.generation.utils", "transformers.models.auto.modeling_auto")
PRELOADED = (*TORCH, "scipy.optimize", "pyarrow", "snellen.cli.run", "snellen.cli.results", "snellen.reports.runs")
CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({place!r})
    socket.send_fds(server, [b"x"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.makefile().read() or 70))
"""
"""Sends its words, folder, variables and streams to the server, and ends with the status that comes back."""


@contextmanager
def command_server(folder: Path) -> Iterator[Path]:
    """Write the programs `snellen` and `run-script` into a folder and serve their calls; yield the folder, for PATH.

    `run-script FILE` is `python FILE`. The path of the folder must be short, since a socket lies in it.
    """
    place = folder / "socket"
    for name in ("snellen", "run-script"):
        (folder / name).write_text(CLIENT.format(python=sys.executable, place=str(place)))
        (folder / name).chmod(0o755)
    command, variables = [sys.executable, __file__, str(place)], {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
        server.stdin.close()


def serve(place: str) -> None:
    """Fork for each call, until standard input ends."""
    for name in PRELOADED:
        with suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    gc.freeze()  # so that the collector of a fork copies no page of what is imported
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(64)
        print("ready", flush=True)
        while listener in select.select([listener, 0], [], [])[0]:
            call, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                run(call)
            call.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def run(call: socket.socket) -> None:
    """Run one call in a further fork, so that its exit status can be sent when it has ended."""
    _, streams, _, _ = socket.recv_fds(call, 1, 3)
    words, folder, variables = json.loads(call.makefile("rb").read())
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        call.sendall(str(os.waitstatus_to_exitcode(status) % 256).encode())
        os._exit(0)
    call.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[1:1] = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    program, *sys.argv[1:] = words
    if Path(program).name == "run-script":
        del sys.argv[0]
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
    from snellen.cli import main

    sys.exit(main())


if __name__ == "__main__":
    serve(sys.argv[1])
