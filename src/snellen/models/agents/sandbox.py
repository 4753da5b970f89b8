"""The agent's sandbox: it sees its workdir, its installation, the system's programs and the model, nothing else.

bubblewrap: mount, pid, uts and user namespaces of its own within those of its supervisor (IPC, network, and the bounded
file system of the workdir); /usr and a few files of /etc to read, the installation at /agent to read, the workdir at /sample
to write, /tmp and /dev/shm in the workdir, a /proc and /dev of its own; no capability, also where we are root; no system
call that reaches around all that. It dies with us.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from snellen.errors import PreflightError, UsageError
from snellen.models.agents import apptainer
from snellen.models.agents.install import Installation
from snellen.models.agents.process import AgentCommand, SandboxedCommand
from snellen.models.agents.programs import bubblewrap_fault, locate, system_binds
from snellen.models.agents.system_calls import CALLS, profile, supported
from snellen.models.agents.workdir import Workdir

if TYPE_CHECKING:
    from snellen.models.agents.tool_setup import ToolSetup

KINDS = ("bubblewrap", "apptainer", "none")
AGENT, SAMPLE = "/agent", "/sample"
PATH = f"{AGENT}/node/node_modules/node/bin:/usr/local/bin:/usr/bin:/bin"

# Of /etc only what names, certificates, libraries and time zones need. /usr holds programs, and links of / lead there.
_ETC = (
    *("resolv.conf", "hosts", "nsswitch.conf", "ssl", "ca-certificates", "pki", "ld.so.cache", "alternatives", "fonts"),
    *("localtime", "mime.types", "magic"),
)


def choose(wanted: str) -> str:
    """Return the sandbox that `--sandbox` means; auto is bubblewrap, and never none.

    Raises:
        UsageError: no such sandbox. PreflightError: bubblewrap is not there and nothing else was named.
    """
    if wanted not in ("auto", *KINDS):
        raise UsageError(f"--sandbox {wanted!r}: there is no such sandbox", f"One of {', '.join(KINDS)}.")
    kind = "bubblewrap" if wanted == "auto" else wanted
    if sys.platform != "linux":
        raise PreflightError(f"agents need Linux, and this is {sys.platform}", "Run them in a virtual machine.")
    if kind == "bubblewrap":
        if not supported():
            raise PreflightError(
                f"there is no filter of system calls for {os.uname().machine}, without which limits do not hold",
                f"Run agents on {' or '.join(CALLS)}, or say --sandbox none.",
            )
        path = locate("bwrap")
        if path is None:
            raise PreflightError(
                "bubblewrap (bwrap) is not on PATH, and agents run programs that a model writes",
                "Install it (apt-get install bubblewrap), use --sandbox apptainer --sif FILE, or say --sandbox none.",
            )
        if (fault := bubblewrap_fault(path)) is not None:
            raise PreflightError(
                f"bubblewrap ({path}) cannot make a sandbox here: {fault}",
                "Allow unprivileged user namespaces, use --sandbox apptainer --sif FILE, or say --sandbox none.",
            )
    return kind


def wrap_command(
    kind: str,
    command: AgentCommand,
    workdir: Workdir,
    installation: Installation,
    key: str,
    sif: str | None,
    setup: ToolSetup | None = None,
    fixed: tuple[str, ...] = (),
) -> SandboxedCommand:
    """Return the command in its sandbox. A key that is not empty goes by environment alone, which other users cannot read.

    `fixed`: files in the box that the agent may read and not change; outside of bubblewrap their mode says so.
    """
    supervisor = workdir.supervisor
    if supervisor is None:
        raise AssertionError("a workdir that an agent works in has a supervisor")
    env = {**command.env, "LANG": "C.UTF-8", "SNELLEN_MODEL_KEY": key}
    if kind == "bubblewrap":
        argv = [*_bubblewrap(workdir, installation, command.cwd, setup, fixed), "--", *command.argv]
        return SandboxedCommand(argv, {**env, "PATH": PATH}, None, command.stdin, supervisor)
    if kind == "apptainer":
        box = workdir.host / "box"
        filtered = workdir.host / "system-calls.json"
        filtered.write_bytes(profile())
        visible = installation.shown(AGENT)
        argv = apptainer.exec_command(sif or "", box, visible, SAMPLE, command.cwd, setup, filtered)
        passed = {f"APPTAINERENV_{name}": value for name, value in {**env, "PREPEND_PATH": PATH}.items()}
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return SandboxedCommand([*argv, *command.argv], {**own, **passed}, None, command.stdin, supervisor, proc=True)
    path = f"{installation.folder}/node/node_modules/node/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return SandboxedCommand(command.argv, {**env, "PATH": path}, command.cwd, command.stdin, supervisor)


def _bubblewrap(
    workdir: Workdir, installation: Installation, cwd: str, setup: ToolSetup | None, fixed: tuple[str, ...]
) -> list[str]:
    box = workdir.host / "box"  # as the supervisor sees it
    words = [locate("bwrap") or "bwrap", "--unshare-user", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--seccomp", "{seccomp}"]
    # The supervisor is root in its namespaces; the agent is who the user is, and has no capability.
    words += ["--uid", str(os.getuid()), "--gid", str(os.getgid()), "--cap-drop", "ALL"]
    words += ["--die-with-parent", "--hostname", "sample", *system_binds()]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # The kernel lets uid 0 write its settings without any capability, and they are those of the whole machine.
    words += ["--proc", "/proc", "--ro-bind-try", "/proc/sys", "/proc/sys"]
    words += ["--dev", "/dev", "--bind", str(box / "shm"), "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108 - inside
    words += ["--bind", str(box / "tmp"), "/tmp"]  # noqa: S108 - inside the sandbox
    for path, inside in installation.shown(AGENT):
        words += ["--ro-bind", str(path), inside]
    words += ["--bind", str(box), SAMPLE]
    for name in fixed:
        words += ["--ro-bind", str(box / name), f"{SAMPLE}/{name}"]
    for path in () if setup is None else setup.read:
        words += ["--ro-bind", str(path), str(path)]
    for path in () if setup is None else setup.written:
        words += ["--bind", str(path), str(path)]
    return [*words, "--remount-ro", "/", "--chdir", cwd]
