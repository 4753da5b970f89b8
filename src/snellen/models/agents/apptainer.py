"""Apptainer as the sandbox in which a run can be repeated elsewhere: its image, and the command line."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.errors import AgentInstallError, PreflightError, UsageError
from snellen.models.agents.programs import locate, run_installer

if TYPE_CHECKING:
    from snellen.models.agents.tool_setup import ToolSetup

_BUILD_SECONDS = 3600


def build(source: str, out: Path) -> str:
    """Build a SIF from a local root folder or a Docker image (docker://...), with a .sha256 file beside it.

    Returns:
        its SHA-256.

    Raises:
        UsageError: `out` exists, or the source is neither. AgentInstallError: apptainer is missing or failed.
    """
    if out.exists():
        raise UsageError(f"{out} is there already", "Name another file, or remove it.")
    if not (source.startswith("docker://") or Path(source).is_dir()):
        raise UsageError(f"--from {source!r} is neither a folder nor docker://IMAGE")
    program = locate("apptainer")
    if program is None:
        raise AgentInstallError("apptainer is not on PATH", "Install it: https://apptainer.org/docs/admin/main/")
    try:
        run_installer([program, "build", str(out), source], _BUILD_SECONDS)
    except AgentInstallError:
        out.unlink(missing_ok=True)
        raise
    if not out.is_file():
        raise AgentInstallError(f"apptainer ended without an error, but {out} is not there")
    digest = _digest(out)
    _side(out).write_text(f"{digest}  {out.name}\n")
    return digest


def check(sif: str | None) -> str:
    """Return the SHA-256 of the image that --sif names.

    Raises:
        UsageError: none is named. PreflightError: apptainer or the file is missing, or its .sha256 file says otherwise.
    """
    if sif is None:
        raise UsageError(
            "--sandbox apptainer needs an image", "Name it with --sif FILE; `snellen agents image` makes it."
        )
    if locate("apptainer") is None:
        raise PreflightError("apptainer is not on PATH", "Install it: https://apptainer.org/docs/admin/main/")
    path = Path(sif)
    if not path.is_file():
        raise PreflightError(f"--sif {sif}: there is no such file", "`snellen agents image` makes one.")
    digest = _digest(path)
    if _side(path).is_file() and (recorded := _side(path).read_text().split()[:1]) != [digest]:
        raise PreflightError(
            f"{path} has SHA-256 {digest}, and {_side(path).name} says {''.join(recorded) or 'nothing'}",
            "Get the image again, or remove the side file if the image was meant to change.",
        )
    return digest


def exec_command(
    sif: str,
    box: Path,
    installation: Sequence[tuple[Path, str]],
    sample: str,
    cwd: str,
    setup: ToolSetup | None,
    profile: Path,
) -> list[str]:
    """Return `apptainer exec` up to the command: nothing of the host but the installation (to read) and the box.

    `installation`: what is shown of it, and where; `profile`: file with the filter of system calls (system_calls.py).
    """
    shut = ["--containall", "--no-home", "--no-privs", "--security", f"seccomp:{profile}"]
    binds = [word for path, inside in installation for word in ("--bind", f"{path}:{inside}:ro")]
    binds += ["--bind", f"{box}:{sample}"]
    # What can be written lies in the bounded file system. The kernel lets uid 0 write its settings without a capability.
    for inside in ("/tmp", "/var/tmp"):  # noqa: S108 - inside the sandbox
        binds += ["--bind", f"{box / 'tmp'}:{inside}"]
    binds += ["--bind", f"{box}/shm:/dev/shm", "--bind", "/proc/sys:/proc/sys:ro", "--no-mount", "sys,mqueue"]
    for path in () if setup is None else setup.read:
        binds += ["--bind", f"{path}:{path}:ro"]
    for path in () if setup is None else setup.written:
        binds += ["--bind", f"{path}:{path}"]
    return [locate("apptainer") or "apptainer", "--silent", "exec", *shut, *binds, "--pwd", cwd, sif]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _side(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
