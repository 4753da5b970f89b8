"""Programs of this machine that agents need, by the path at which they were found, and their versions."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snellen.errors import AgentInstallError, PreflightError

_SECONDS = 20
_LAST_LINES = 12
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), " ")


def locate(name: str) -> str | None:
    """Return the absolute path of a program on PATH; None where there is none. It is what is started, wherever it lies."""
    path = shutil.which(name)
    return None if path is None else os.path.abspath(path)  # noqa: PTH100 - links stay: some programs go by their name


def interpreter() -> str:
    """Return the path of this Python without `..`: a sandbox shows the folders on the way to it, and none beside them."""
    return os.path.abspath(sys.executable)  # noqa: PTH100 - links stay: a virtual environment is known by its link


def run_installer(argv: Sequence[str], seconds: int, hint: str = "", **settings: Any) -> None:
    """Run a program that installs or builds something; `settings` as of subprocess.run.

    Raises:
        AgentInstallError: it failed, with its last lines, or ran for more than `seconds`.
    """
    name = Path(argv[0]).name
    try:
        done = subprocess.run(  # noqa: S603 - a program found on PATH, with arguments of our own
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            **settings,
        )
    except subprocess.TimeoutExpired:
        raise AgentInstallError(f"{name} did not end within {seconds} s", hint) from None
    if done.returncode != 0:
        last = "\n".join(done.stdout.decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:])
        raise AgentInstallError(f"{name} ended with status {done.returncode}; its last lines:\n{last}", hint)


def _run(*argv: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program found on PATH, with nothing to read. Raises OSError, SubprocessError."""
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603


def version(path: str, words: Sequence[str] = ("--version",)) -> str | None:
    """Return the first line that a program prints about its version; None where it cannot be started."""
    try:
        done = _run(path, *words)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0].translate(_CONTROL)[:100] if lines else ""


@functools.cache
def bubblewrap_fault(path: str) -> str | None:
    """Return the reason why bubblewrap cannot make a sandbox here; None where it can."""
    words = ["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "/bin/true"]
    try:
        done = _run(path, *words)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return None
    text = done.stderr.decode("utf-8", "replace").strip().translate(_CONTROL)
    return text[:300] or f"exit status {done.returncode}"


def working_bubblewrap() -> str | None:
    """Return the path of a bubblewrap that can make a sandbox here; None where there is none."""
    path = locate("bwrap")
    return path if path is not None and bubblewrap_fault(path) is None else None


def system_binds() -> list[str]:
    """Return arguments with which bubblewrap shows /usr, and the links or folders of / that lead to programs and libraries."""
    binds = ["--ro-bind", "/usr", "/usr"]
    for name in _LINKS:
        path = Path("/") / name
        if path.is_symlink():
            binds += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            binds += ["--ro-bind", str(path), str(path)]
    return binds


def require_unseen(paths: Sequence[Path]) -> None:
    """Refuse data and results that lie where every sandbox shows the system's programs, as /usr/src/app in many containers.

    Raises:
        PreflightError: one of the paths lies there.
    """
    shown = [folder.resolve() for folder in (Path("/usr"), *(Path("/", name) for name in _LINKS))]
    for path in paths:
        if any(path.resolve().is_relative_to(folder) for folder in shown):
            raise PreflightError(
                f"{path.absolute()} lies among the programs of the system, which the sandbox shows to the agent: "
                "answers could be found there",
                "Move it out of /usr, or use --sandbox apptainer --sif FILE.",
            )


def shown_folders(folders: Sequence[Path]) -> list[Path]:
    """Return absolute folders, each once and sorted, without those that lie under /usr, which sandboxes show in any case."""
    return sorted({folder.absolute() for folder in folders if not folder.is_relative_to("/usr")})
