"""The folder of one sample: what its agent may write, and beside it what we keep of its output.

    <root>/<number>/
        stdout, stderr      what the agent's process wrote
        box/                all that the agent sees besides its installation
            home/  tmp/     nothing of the user's
            ...             its working folder, with the images as image.jpg, image-2.png ...

A root belongs to one process, which holds a lock in it as long as it lives; a later run removes roots whose owner died.

Workdirs are made ahead, so that a sample does not wait for its folder, its configuration and the copy of the warm caches.
OpenClaw keeps what it compiled in its folder for temporary files: a copy from a first start takes start-up from about
40 s to 5 s on two loaded cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import filelock
from msgspec import Struct

from snellen.errors import InputError
from snellen.media import encode
from snellen.models.agents.limits import AgentLimits
from snellen.models.agents.supervisor_client import WEB_PORT, Supervisor
from snellen.models.tools.images import image_name
from snellen.types import Generation, Image, MediaSettings, Prompt, Text

KEY = "SNELLEN_MODEL_KEY"  # the variable in which an agent finds the endpoint's key
CONTEXT = 131072  # what agents are told of the model's context: they shorten a conversation that nears it
MAX_TOKENS = 8192  # new tokens of one reply where nobody says how many
MAX_RECORD = 128 << 20  # bytes of an agent's own record that are read
_PREFIX = "snellen-agents-"


class AgentModelSettings(Struct, frozen=True):
    """The model as an agent is configured for it.

    Attributes:
        provider, model: the two halves of --agent-model.
        base_url: the endpoint, up to and including /v1.
        generation: what the user or the prompt sets; agents know max_tokens, temperature and top_p.
        timeout_s: for the answer alone, without start-up.
        config: the user's own configuration, which ours is laid over; empty: there is none.
    """

    provider: str
    model: str
    base_url: str
    generation: Generation
    timeout_s: float
    config: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def max_tokens(self) -> int:
        return self.generation.max_tokens or MAX_TOKENS


class Workdir(Struct, frozen=True):
    """A folder of ours (`host`), and how the agent sees its box (`inside`) and its installation (`agent`).

    `workplace` is the working folder, from the box. `entry` is the agent's script where it is not where npm puts it, as the
    agent sees it. `supervisor` starts and ends the agent, and holds the box.
    """

    host: Path
    inside: str
    agent: str
    workplace: str
    model_settings: AgentModelSettings
    supervisor: Supervisor | None = None
    entry: str = ""

    @property
    def box(self) -> Path:
        """All that the agent sees besides its installation. Where it has a file system of its own, it lies in no folder."""
        supervisor = self.supervisor
        if supervisor is None or supervisor.box is None:
            return self.host / "box"
        return Path(f"/proc/self/fd/{supervisor.box}")

    @property
    def listeners(self) -> tuple[socket.socket, socket.socket, socket.socket]:
        """Sockets for requests to the model, of tools, and to the proxy; only of a workdir with a network of its own."""
        if self.supervisor is None or not self.supervisor.listeners:
            raise AssertionError("this workdir shares the network")
        model, tools, proxy = self.supervisor.listeners
        return model, tools, proxy

    @property
    def web(self) -> str | None:
        """Address at which the tools inside ask for web pages; None: the workdir shares the network."""
        return None if self.supervisor is None or not self.supervisor.listeners else f"http://127.0.0.1:{WEB_PORT}"

    @property
    def work(self) -> Path:
        return self.box / self.workplace

    @property
    def stdout(self) -> Path:
        return self.host / "stdout"

    @property
    def stderr(self) -> Path:
        return self.host / "stderr"

    def contents(self, folder: Path, names: Sequence[str]) -> dict[str, bytes]:
        """Return files that the agent has written, by name, each once: MAX_RECORD bytes in all, in the order of the names."""
        files: dict[str, bytes] = {}
        remaining = MAX_RECORD
        for name in dict.fromkeys(names):
            with contextlib.suppress(OSError), self.opened(folder / name) as file:
                files[name] = file.read(remaining)
                remaining -= len(files[name])
        return files

    def size(self, path: Path) -> int:
        """Return bytes of a file that the agent has written, 0 where there is none."""
        try:
            with self.opened(path) as file:
                return os.fstat(file.fileno()).st_size
        except OSError:
            return 0

    def names(self, folder: Path, limit: int) -> list[str]:
        """Return names in a folder that the agent has written, sorted; of more than `limit` the first that there are.

        Names that are no text (bytes that are not UTF-8) are omitted.
        """
        handle = -1
        try:
            handle = self._folder(folder.relative_to(self.box).parts)
            with os.scandir(handle) as entries:
                names = [entry.name for entry in itertools.islice(entries, limit)]
        except OSError:
            return []
        finally:
            if handle >= 0:
                os.close(handle)
        return sorted(name for name in names if os.fsencode(name).decode("utf-8", "ignore") == name)

    def replaced(self, path: Path) -> str:
        """Describe what the agent has put in the place of its own file or of a folder above it; empty if nothing."""
        handle = os.open(self.box, os.O_RDONLY | os.O_DIRECTORY)
        *folders, last = path.relative_to(self.box).parts
        try:
            for name in folders:
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    return f"{name} is {_described(status)}, no folder"
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            status = os.stat(last, dir_fd=handle, follow_symlinks=False)
        except OSError:  # there is nothing
            return ""
        finally:
            os.close(handle)
        plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        return "" if plain else f"{last} is {_described(status)}, no file of its own"

    def opened(self, path: Path) -> IO[bytes]:
        """Open a plain file that the agent has written.

        The agent may still be running, and put a link or a pipe in the file's place at any moment: no link on the way is
        followed, nothing but a plain file with one name is waited for, and no device is opened.

        Raises:
            OSError: there is no such file.
        """
        *folders, name = path.relative_to(self.box).parts
        folder = self._folder(folders)
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
        finally:
            os.close(folder)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(handle)
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        return os.fdopen(handle, "rb")

    def _folder(self, names: Sequence[str]) -> int:
        """Return a descriptor of a folder in the box; no link is followed."""
        folder = os.open(self.box, os.O_RDONLY | os.O_DIRECTORY)
        for name in names:
            try:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        return folder

    def remove(self) -> None:
        """End what still runs in it, and remove its folder."""
        if self.supervisor is not None:
            self.supervisor.close()
        remove_tree(self.host)


def _described(status: os.stat_result) -> str:
    if stat.S_ISREG(status.st_mode):
        return "a hard link" if status.st_nlink > 1 else "a file"
    names = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(status.st_mode), "a device")


class WorkdirFactory:
    """Makes workdirs, and takes them all away at the end.

    Args:
        parent: where the root is made; None: the system's folder for temporary files.
        limits: of each sample.
        network: whether an agent shares the network of this machine.
    """

    def __init__(self, parent: Path | None = None, limits: AgentLimits | None = None, network: bool = False) -> None:
        parent = parent or Path(tempfile.gettempdir())
        _remove_left_over(parent)
        self._limits = limits or AgentLimits()
        self._network = network
        self._root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = filelock.FileLock(self._root / ".lock", thread_local=False)
        self._lock.acquire()
        self._numbers = itertools.count(1)

    def make(
        self, settings: AgentModelSettings, workplace: str, inside: str | None, agent: str, warm: Path | None
    ) -> Workdir:
        """Make an empty workdir; `inside` None: the agent has no sandbox and sees the host's paths. `warm` is copied into its tmp.

        Raises:
            PreflightError: this machine cannot make a sandbox.
        """
        host = self._root / str(next(self._numbers))
        (host / "box").mkdir(parents=True)
        try:
            supervisor = Supervisor(host / "box", self._limits, isolated=inside is not None, network=self._network)
        except BaseException:
            remove_tree(host)
            raise
        workdir = Workdir(host, inside or str(host / "box"), agent, workplace, settings, supervisor)
        try:
            for folder in (workdir.work, workdir.box / "home", workdir.box / "shm", workdir.box / "tmp"):
                folder.mkdir(parents=True, exist_ok=True)
            (workdir.box / "tmp").chmod(0o1777)
            if warm is not None and warm.is_dir():
                shutil.copytree(warm, workdir.box / "tmp", dirs_exist_ok=True)
        except BaseException:
            workdir.remove()
            raise
        return workdir

    def close(self) -> None:
        """Remove all of them. Nobody may work in one any more."""
        self._lock.release()
        remove_tree(self._root)


def _remove_left_over(parent: Path) -> None:
    for root in _roots(parent):
        lock = filelock.FileLock(root / ".lock")
        with contextlib.suppress(filelock.Timeout, OSError):  # somebody lives in it, or it is another user's
            lock.acquire(timeout=0)
            lock.release()
            remove_tree(root)


def _roots(parent: Path) -> Iterator[Path]:
    """Yield roots of this user; in a folder that all may write to, somebody else may have put a link or a pipe in their place."""
    for root in parent.glob(f"{_PREFIX}*"):
        try:
            folder, lock = root.lstat(), (root / ".lock").lstat()
        except OSError:  # one without a lock is being made at this moment
            continue
        if stat.S_ISDIR(folder.st_mode) and folder.st_uid == os.getuid() and stat.S_ISREG(lock.st_mode):
            yield root


class WorkdirPool:
    """Hands out workdirs, and keeps `ahead` of them ready.

    A workdir is for one way of asking: if the next sample is asked otherwise (its prompt sets other limits), those that
    are ready are thrown away.
    """

    def __init__(self, make: Callable[[AgentModelSettings], Workdir], ahead: int) -> None:
        self._make = make
        self._ahead = ahead
        self._model_settings: AgentModelSettings | None = None
        self._coming: list[asyncio.Task[Workdir]] = []

    async def take(self, settings: AgentModelSettings) -> Workdir:
        """Return a workdir that nobody else has. The caller removes it."""
        if settings != self._model_settings:
            await self.clear()
            self._model_settings = settings
        if not self._coming:
            self._order(settings)
        coming = self._coming.pop(0)
        while len(self._coming) < self._ahead:
            self._order(settings)
        return await coming

    async def clear(self) -> None:
        """Throw away what is ready."""
        coming, self._coming = self._coming, []
        for workdir in await asyncio.gather(*coming, return_exceptions=True):
            if isinstance(workdir, Workdir):
                workdir.remove()

    def _order(self, settings: AgentModelSettings) -> None:
        self._coming.append(asyncio.create_task(asyncio.to_thread(self._make, settings)))


def write_config(path: Path, content: bytes, *, fixed: bool) -> None:
    """Write an agent's configuration; `fixed`: it is a copy of the user's own, which the agent may not change."""
    path.write_bytes(content)
    if fixed:
        path.chmod(0o444)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PARENTS = 64  # folders on the way down that are kept open


class _Level:
    """A folder on the way down: its name in the one above, its descriptor, and its folders that are still to be entered."""

    def __init__(self, name: str, handle: int, identity: tuple[int, int]) -> None:
        self.name = name
        self.handle: int | None = handle
        self.identity = identity
        self.folders: list[str] = []


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it. No link is followed, no path is longer than a name, and nothing recurses.

    Folders that may not be entered are opened to us first. What cannot be removed (another user's file) stays. A folder
    that is not there is no fault.
    """
    try:
        above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        _remove(above, folder.name)
    finally:
        os.close(above)


def _remove(above: int, name: str) -> None:
    """Remove one folder: empty each level of plain files, go down into its folders, and come back by `..`."""
    levels: list[_Level] = []
    if (level := _enter(above, name)) is None:
        return
    levels.append(level)
    try:
        while levels:
            level = levels[-1]
            handle = level.handle
            if handle is None:
                raise AssertionError("the deepest level is open")
            if level.folders:
                if (inner := _enter(handle, level.folders.pop())) is not None:
                    levels.append(inner)
                    if len(levels) > _PARENTS:
                        _let_go(levels[-_PARENTS])
                continue
            levels.pop()
            parent = above if not levels else _reopened(levels[-1], handle)
            os.close(handle)
            if parent is None:  # somebody moved it meanwhile: the levels above cannot be had again
                return
            with contextlib.suppress(OSError):
                os.rmdir(level.name, dir_fd=parent)
    finally:
        for level in levels:
            _let_go(level)


def _enter(above: int, name: str) -> _Level | None:
    """Open a folder, remove all in it that is no folder, and remember those that are."""
    try:
        handle = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        handle = _unlocked(above, name)
    except OSError:
        return None
    if handle < 0:
        return None
    status = os.fstat(handle)
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.fchmod(handle, stat.S_IRWXU)
    level = _Level(name, handle, (status.st_dev, status.st_ino))
    with contextlib.suppress(OSError):
        # The whole list first: a folder that is read while it shrinks may leave entries out.
        with os.scandir(handle) as entries:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for inner, is_folder in names:
            if is_folder:
                level.folders.append(inner)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(inner, dir_fd=handle)
    return level


def _unlocked(above: int, name: str) -> int:
    """Open a folder that may not be entered; -1 where it is not ours."""
    try:
        place: Any = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    except OSError:
        return -1
    try:
        Path(f"/proc/self/fd/{place}").chmod(0o700)  # by descriptor: what the name leads to may change
        return os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        return -1
    finally:
        os.close(place)


def _reopened(level: _Level, below: int) -> int | None:
    """Return the descriptor of a level, by `..` from the one below where it was let go; None if that is another folder now."""
    if level.handle is None:
        with contextlib.suppress(OSError):
            handle = os.open("..", _FOLDER, dir_fd=below)
            status = os.fstat(handle)
            if (status.st_dev, status.st_ino) == level.identity:
                level.handle = handle
            else:
                os.close(handle)
    return level.handle


def _let_go(level: _Level) -> None:
    handle, level.handle = level.handle, None
    if handle is not None:
        os.close(handle)


class AgentQuestion(Struct, frozen=True):
    """`text` names the images where they stand in the prompt; `images` are file names, `digests` their SHA-256."""

    text: str
    images: tuple[str, ...]
    digests: tuple[str, ...]


def write_question(prompt: Prompt, settings: MediaSettings, work: Path) -> AgentQuestion:
    """Write the images into the working folder and the question around them.

    An image is called image.jpg (by its content), several image-1.jpg, image-2.png and so on; in the text stands ./NAME
    on a line of its own. The system prompt, which agents have of their own, comes first in the text.

    Raises:
        InputError: the prompt holds a video or earlier turns. MediaError, DataError: an image cannot be read.
    """
    if prompt.history:
        raise InputError("agents take no earlier turns", "Ask a benchmark of single questions, or another model.")
    lines: list[str] = [prompt.system] if prompt.system else []
    names: list[str] = []
    digests: list[str] = []
    several = sum(isinstance(part, Image) for part in prompt.parts) > 1
    for part in prompt.parts:
        if isinstance(part, Text):
            lines.append(part.text)
        elif isinstance(part, Image):
            image = encode(part.blob, settings)
            name = image_name(image.data, len(names) + 1 if several else None)
            (work / name).write_bytes(image.data)
            names.append(name)
            digests.append(image.digest)
            lines.append(f"./{name}")
        else:
            raise InputError("agents take no video", "Ask a benchmark of images, or another model.")
    return AgentQuestion("\n\n".join(lines), tuple(names), tuple(dict.fromkeys(digests)))
