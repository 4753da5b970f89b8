"""What an agent can see and reach: its room, its installation, the system's programs, the network; nothing else.

bubblewrap: mount, pid, ipc, uts and user namespaces of its own; /usr and a few files of /etc to read, the installation
at /agent to read, the room at /sample to write, a /tmp, /proc and /dev of its own; no capability, also where we are root.
It dies with us. The network is shared, because the model's server is reached over it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from snellen.errors import PreflightError, UsageError
from snellen.models.agents import apptainer, guard
from snellen.models.agents.equip import Equipment
from snellen.models.agents.install import Installation
from snellen.models.agents.process import Command, Shut
from snellen.models.agents.room import Room

KINDS = ("bubblewrap", "apptainer", "none")
AGENT, SAMPLE = "/agent", "/sample"
PATH = f"{AGENT}/node/node_modules/node/bin:/usr/local/bin:/usr/bin:/bin"

# Of /etc only what names, certificates, libraries and time zones need. /usr holds programs, and links of / lead there.
_ETC = (
    "resolv.conf",
    "hosts",
    "nsswitch.conf",
    "ssl",
    "ca-certificates",
    "pki",
    "ld.so.cache",
    "alternatives",
    "fonts",
)
_ETC_TOO = ("localtime", "mime.types", "magic")
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


def choose(wanted: str) -> str:
    """The sandbox that `--sandbox` means; auto is bubblewrap, and never none.

    Raises:
        UsageError: no such sandbox. PreflightError: bubblewrap is not there and nothing else was named.
    """
    if wanted not in ("auto", *KINDS):
        raise UsageError(f"--sandbox {wanted!r}: there is no such sandbox", f"One of {', '.join(KINDS)}.")
    kind = "bubblewrap" if wanted == "auto" else wanted
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        raise PreflightError(
            "bubblewrap (bwrap) is not on PATH, and agents run programs that a model writes",
            "Install it (apt-get install bubblewrap), use --sandbox apptainer --sif FILE, or say --sandbox none.",
        )
    return kind


def shut_in(
    kind: str,
    command: Command,
    room: Room,
    installation: Installation,
    key: str,
    sif: str | None,
    equipment: Equipment | None = None,
) -> Shut:
    """The command in its sandbox. The key goes by environment alone, which other users cannot read."""
    env = {**command.env, "LANG": "C.UTF-8", "SNELLEN_MODEL_KEY": key}
    if kind == "bubblewrap":
        argv = [*_bubblewrap(room, installation, command.cwd, equipment), "--", *command.argv]
        return Shut(argv, {**env, "PATH": PATH}, None, command.stdin, guarded=False)
    guarded = [sys.executable, "-I", str(Path(guard.__file__)), "{leash}"]
    if kind == "apptainer":
        argv = [
            *guarded,
            *apptainer.words(sif or "", room.box, installation.folder, AGENT, SAMPLE, command.cwd, equipment),
        ]
        passed = {f"APPTAINERENV_{name}": value for name, value in {**env, "PREPEND_PATH": PATH}.items()}
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return Shut([*argv, *command.argv], {**own, **passed}, None, command.stdin, guarded=True)
    path = f"{installation.folder}/node/node_modules/node/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return Shut([*guarded, *command.argv], {**env, "PATH": path}, command.cwd, command.stdin, guarded=True)


def _bubblewrap(room: Room, installation: Installation, cwd: str, equipment: Equipment | None) -> list[str]:
    words = ["bwrap", "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    # Root keeps its capabilities otherwise, and with them mounts /usr of the host for writing.
    words += ["--cap-drop", "ALL"]
    words += ["--die-with-parent", "--hostname", "sample", "--ro-bind", "/usr", "/usr"]
    for name in _LINKS:
        path = Path("/") / name
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in (*_ETC, *_ETC_TOO):
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # The kernel lets uid 0 write its settings without any capability, and they are those of the whole machine.
    words += ["--proc", "/proc", "--ro-bind-try", "/proc/sys", "/proc/sys"]
    words += ["--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108 - inside the sandbox
    words += ["--ro-bind", str(installation.folder), AGENT, "--bind", str(room.box), SAMPLE]
    for path in () if equipment is None else equipment.read:
        words += ["--ro-bind", str(path), str(path)]
    for path in () if equipment is None else equipment.written:
        words += ["--bind", str(path), str(path)]
    return [*words, "--remount-ro", "/", "--chdir", cwd]
