"""Read what an agent wrote in a process that can do no harm: `python -I -m snellen.models.agents.reader AGENT`.

Standard input holds the files' contents (MessagePack, name to bytes), standard output gets the transcript (MessagePack).
The process has nothing of the machine but this interpreter to read: bubblewrap gives it no network, no file of the user
and an empty folder. Without bubblewrap it has the limits on memory and time alone, and a folder of its own.

`read_record`, on the other side, copies plain files out of the workdir and starts it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

import snellen
from snellen.models.agents import openclaw_record, opencode_record
from snellen.models.agents.programs import interpreter, shown_folders, system_binds, working_bubblewrap
from snellen.models.agents.supervisor import limit_resources
from snellen.models.agents.transcript import Transcript, read_safely

_UNREADABLE = "its own record cannot be read"
MAX_RESULT = 32 << 20
_MEMORY, _SECONDS = 2 << 30, 30
_TOO_LARGE = Transcript(fault=f"{_UNREADABLE}: more than {MAX_RESULT >> 20} MB without images")
READERS = {"openclaw": openclaw_record.read, "opencode": opencode_record.read}


def read_record(agent: str, files: Mapping[str, bytes]) -> Transcript:
    """Return the transcript in these files; one with a fault where they cannot be read within the limits.

    Args:
        agent: openclaw or opencode.
        files: contents by name, as that agent's `record` copied them.
    """
    if not files:
        return Transcript()
    with tempfile.TemporaryDirectory(prefix="snellen-reader-") as folder, tempfile.TemporaryFile() as result:
        argv = [interpreter(), "-I", "-m", __name__, agent]
        bwrap = working_bubblewrap()
        if bwrap is not None:
            argv = [*_bubblewrap(bwrap), "--", *argv]
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter
                argv,
                input=msgspec.msgpack.encode(dict(files)),
                stdout=result,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={"TMPDIR": folder if bwrap is None else "/tmp", "LANG": "C.UTF-8"},  # noqa: S108 - its own
                timeout=2 * _SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Transcript(fault=f"{_UNREADABLE} within {2 * _SECONDS} s")
        except OSError as error:
            return Transcript(fault=f"{_UNREADABLE}: {error.strerror}")
        result.seek(0)
        data = result.read(MAX_RESULT + 1)
    if len(data) > MAX_RESULT:
        return _TOO_LARGE
    try:
        return msgspec.msgpack.decode(data, type=Transcript)
    except (msgspec.DecodeError, RecursionError):
        return Transcript(fault=f"{_UNREADABLE}: the reader ended with status {done.returncode}")


def _bubblewrap(program: str) -> list[str]:
    words = [program, "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session", *system_binds()]
    words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(4 * opencode_record.MAX_CHARS), "--tmpfs", "/tmp"]  # noqa: S108 - inside the sandbox
    for folder in python_folders():
        words += ["--ro-bind", str(folder), str(folder)]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]  # noqa: S108


def python_folders() -> list[Path]:
    """Return folders that this interpreter and this package need, without those under /usr."""
    folders = [Path(sys.prefix), Path(sys.base_prefix), Path(snellen.__file__).parent]
    # A .pth file can add the packages of another environment; the current folder, which is no such place, stays unseen.
    folders += [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]
    # A program in a virtual environment is a link to the interpreter, which may lie elsewhere.
    return shown_folders([*folders, Path(sys.executable).resolve().parent.parent])


def main(agent: str) -> int:
    """Read one record from standard input; write its transcript."""
    limit_resources(
        {
            resource.RLIMIT_AS: _MEMORY,
            resource.RLIMIT_CPU: _SECONDS,
            resource.RLIMIT_FSIZE: 4 * opencode_record.MAX_CHARS,
            resource.RLIMIT_NOFILE: 64,
            resource.RLIMIT_CORE: 0,
        }
    )
    files = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=dict[str, bytes])
    with tempfile.TemporaryDirectory() as folder:
        transcript = read_safely(READERS[agent], files, Path(folder))
    data = msgspec.msgpack.encode(transcript)
    if len(data) > MAX_RESULT:
        data = msgspec.msgpack.encode(_TOO_LARGE)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to be tidied up, and what was read may be large


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
