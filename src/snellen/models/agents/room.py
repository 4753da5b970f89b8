"""The folder of one sample: what its agent may write, and beside it what we keep of its output.

    <root>/<number>/
        stdout, stderr      what the agent's process wrote
        box/                all that the agent sees besides its installation
            home/  tmp/     nothing of the user's
            ...             its working folder, with the pictures as image.jpg, image-2.png ...

A root belongs to one process, which holds a lock in it as long as it lives; a later run removes roots whose owner died.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock
from msgspec import Struct

from snellen.types import Generation

KEY = "SNELLEN_MODEL_KEY"  # the variable in which an agent finds the endpoint's key
CONTEXT = 131072  # what agents are told of the model's context: they shorten a conversation that nears it
MAX_TOKENS = 8192  # new tokens of one reply where nobody says how many
MOST_RECORD = 256 << 20  # bytes of an agent's own record that are read
_PREFIX = "snellen-agents-"


class Asked(Struct, frozen=True):
    """What an agent is told about its model.

    Attributes:
        provider, model: the two halves of --agent-model.
        base_url: the endpoint, up to and including /v1.
        generation: what the user or the prompt sets; agents know max_tokens, temperature and top_p.
        timeout_s: for the answer alone, without start-up.
    """

    provider: str
    model: str
    base_url: str
    generation: Generation
    timeout_s: float


class Room(Struct, frozen=True):
    """A folder of ours (`host`), and how the agent sees its box (`inside`) and its installation (`agent`).

    `workplace` is the working folder, from the box.
    """

    host: Path
    inside: str
    agent: str
    workplace: str
    asked: Asked

    @property
    def box(self) -> Path:
        return self.host / "box"

    @property
    def work(self) -> Path:
        return self.box / self.workplace

    @property
    def stdout(self) -> Path:
        return self.host / "stdout"

    @property
    def stderr(self) -> Path:
        return self.host / "stderr"

    def own(self, path: Path) -> Path | None:
        """A file that the agent has written, None where there is none.

        A link that leads out of the box is none: what it points to is ours, and not what the agent may read.
        """
        resolved = path.resolve()
        return resolved if resolved.is_relative_to(self.box.resolve()) and resolved.is_file() else None

    def content(self, path: Path, most: int) -> bytes | None:
        """The beginning of a file that the agent has written, at most so many bytes; None where there is none.

        The agent may still be running, and put a link or a pipe in the file's place at any moment: no link on the way is
        followed, and nothing but a plain file is waited for.
        """
        folder = os.open(self.box, os.O_RDONLY | os.O_DIRECTORY)
        try:
            *folders, name = path.relative_to(self.box).parts
            for one in folders:
                inner = os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                return None
            with os.fdopen(handle, "rb") as file:
                return file.read(most)
        except OSError:
            return None
        finally:
            os.close(folder)

    def remove(self) -> None:
        remove_tree(self.host)


class Rooms:
    """Makes rooms, and takes them all away at the end.

    Args:
        parent: where the root is made; None: the system's folder for temporary files.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        _remove_left_over(parent)
        self._root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = filelock.FileLock(self._root / ".lock", thread_local=False)
        self._lock.acquire()
        self._numbers = itertools.count(1)

    def make(self, asked: Asked, workplace: str, inside: str | None, agent: str, warm: Path | None) -> Room:
        """An empty room; `inside` None: the agent sees the host's paths. `warm` is copied into its tmp folder."""
        host = self._root / str(next(self._numbers))
        room = Room(host, inside or str(host / "box"), agent, workplace, asked)
        for folder in (room.work, room.box / "home"):
            folder.mkdir(parents=True)
        if warm is not None and warm.is_dir():
            shutil.copytree(warm, room.box / "tmp")
        else:
            (room.box / "tmp").mkdir()
        return room

    def close(self) -> None:
        self._lock.release()
        remove_tree(self._root)


def remove_tree(folder: Path) -> None:
    """Remove a folder that an agent has written to, also what it has locked: a folder that may not be entered."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.is_dir() or folder.is_symlink():
        return
    for at, folders, _ in os.walk(folder):
        for inner in (Path(at) / name for name in folders):
            if not inner.is_symlink():
                with contextlib.suppress(OSError):  # what is not ours stays
                    inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left_over(parent: Path) -> None:
    for root in _roots(parent):
        lock = filelock.FileLock(root / ".lock")
        with contextlib.suppress(filelock.Timeout, OSError):  # somebody lives in it, or it is another user's
            lock.acquire(timeout=0)
            lock.release()
            remove_tree(root)


def _roots(parent: Path) -> Iterator[Path]:
    # One without a lock is being made at this moment.
    return (root for root in parent.glob(f"{_PREFIX}*") if (root / ".lock").exists())
