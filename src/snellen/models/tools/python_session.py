"""The tool `python`: one interpreter a conversation, in the sandbox of the agents, and what its calls give back.

The interpreter (python_program.py) runs in bubblewrap under a supervisor of its own, with a network of its own that has
nobody in it, this Python and its packages to read, and a bounded file system in memory that holds the question's images.
Nothing that comes from it is trusted: replies, output and files are bounded here, and pictures are decoded and encoded
again. Between two calls all its processes are stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import select
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.errors import AgentAbortedError, MediaError, PreflightError, SnellenError
from snellen.media import open_image, read_header
from snellen.media.encode import compress
from snellen.models.agents import sandbox
from snellen.models.agents.install import Installation
from snellen.models.agents.limits import AgentLimits
from snellen.models.agents.process import AgentCommand
from snellen.models.agents.programs import interpreter, require_unseen
from snellen.models.agents.reader import python_folders
from snellen.models.agents.supervisor import descendants
from snellen.models.agents.tool_setup import ToolSetup
from snellen.models.agents.workdir import AgentModelSettings, Workdir, WorkdirFactory
from snellen.models.tools.base import ToolResult
from snellen.models.tools.images import ToolImages
from snellen.models.tools.settings import ToolSettings, require_apart
from snellen.sources import BytesBlob
from snellen.text import one_line
from snellen.types import Generation, Image, MediaSettings

START_S = 120.0
MOST_CALLS = 16  # at once; each holds one of asyncio's threads, of which there are at least four more than cores, or 32
MAX_OUTPUT = 8 << 20  # bytes that a call may write; one that writes more is ended
MAX_PIXELS = 25_000_000  # of a picture that is saved
MAX_PNG, QUALITY = 1 << 20, 90  # bytes of a PNG that is sent as one, and quality of the JPEG in its place
COPY_SIDE, COPY_QUALITY = 384, 75  # of the copy that a trace keeps
MAX_NAMES, SHOWN_NAME, STOPS = 1000, 100, 50
FORMATS = ("jpeg", "png", "webp", "gif", "bmp")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".svg")
_WORK, _CACHE = "work", "matplotlib"
_NO_MODEL = AgentModelSettings("", "", "", Generation(), 0.0)  # the program inside asks none
_PROGRAM = ("python_program.py", "python_figures.py")
_FIRST = "import matplotlib.font_manager, numpy, PIL.Image"
_LOST = "[new interpreter: variables and files of earlier calls are lost, the question's pictures are there]"


class Interpreters:
    """The interpreters of a run.

    Args:
        settings: the tools' settings, with the limits of a call.

    Attributes:
        limits: of a conversation.
        slots: places for calls that run at the same time.
    """

    def __init__(self, settings: ToolSettings) -> None:
        limits = self.limits = settings.limits
        bounds = AgentLimits(
            limits.python_memory, limits.python_disk, limits.python_processes, open_files=512, files=4096, depth=64
        )
        self._setup = ToolSetup(settings, tuple(python_folders()))
        self._workdirs = WorkdirFactory(limits=bounds)
        # As many calls at once as there are cores: how long one takes must not depend on how many others run.
        self.slots = asyncio.Semaphore(min(MOST_CALLS, os.cpu_count() or 1))
        self._warm: Path | None = None

    async def preflight(self, hidden: Sequence[Path]) -> None:
        """Start an interpreter once, and keep the list of fonts that matplotlib makes at its first start.

        Raises:
            PreflightError: there is no sandbox here, the interpreter does not run in it, or it could see a hidden path.
        """
        try:
            sandbox.choose("bubblewrap")
        except PreflightError as error:
            raise PreflightError(
                f"the tool python needs a sandbox: {error.message}",
                "Install bubblewrap (apt-get install bubblewrap) and allow unprivileged user namespaces, or leave python "
                "out of --tools. It is never run without a sandbox.",
            ) from None
        require_unseen(hidden)
        require_apart(self._setup.read, hidden)
        first = self.open(ToolImages())
        try:
            result = await first.run(_FIRST, START_S)
            if result.error:
                raise PreflightError(
                    f"the tool python does not run in its sandbox: {one_line(result.text)[-600:]}",
                    "`snellen doctor` says what is missing; or leave python out of --tools.",
                )
            self._warm = Path(tempfile.mkdtemp(prefix="snellen-python-"))
            await asyncio.to_thread(first.copy_cache, self._warm)
        except AgentAbortedError as error:
            raise PreflightError(f"the tool python does not start: {error.message}") from error
        finally:
            await first.close()

    def open(self, images: ToolImages) -> Interpreter:
        """Return the interpreter of one conversation; it starts with the first call."""
        return Interpreter(self, images)

    def make(self) -> Workdir:
        """Return an empty working folder with its supervisor."""
        return self._workdirs.make(_NO_MODEL, _WORK, sandbox.SAMPLE, sandbox.AGENT, self._warm)

    def start(self, workdir: Workdir) -> None:
        """Start the program in a working folder."""
        work = f"{workdir.inside}/{_WORK}"
        env = {"HOME": work, "MPLBACKEND": "module://python_figures", "MPLCONFIGDIR": f"/tmp/{_CACHE}"}  # noqa: S108
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        command = AgentCommand([interpreter(), "-I", "-B", f"{sandbox.AGENT}/{_PROGRAM[0]}"], env, work, b"")
        program = Installation("python", "", "", 0, 0, "", "", Path(__file__).parent, parts=_PROGRAM)
        shut = sandbox.wrap_command("bubblewrap", command, workdir, program, "", None, self._setup)
        shut.supervisor.start(shut.argv, shut.env, shut.cwd)

    async def close(self) -> None:
        """Remove all working folders."""
        await asyncio.to_thread(self._workdirs.close)
        if self._warm is not None:
            await asyncio.to_thread(shutil.rmtree, self._warm, ignore_errors=True)


class _Call(Struct):
    """What a call came to: `end` is ok or error; time, output, running or ended leave no interpreter behind."""

    end: str
    output: bytes
    pictures: Sequence[tuple[str, bytes | str]] = ()


class Interpreter:
    """The interpreter of one conversation.

    Args:
        run: whose interpreter it is.
        images: the question's images, which become files; pictures that come back are added.
    """

    def __init__(self, run: Interpreters, images: ToolImages) -> None:
        self._run = run
        self._images = images
        self._given = {name: images.read(name) for name in images.names()}
        self._workdir: Workdir | None = None
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._calls = 0
        self._lost = self._closed = False
        self._lock = threading.Lock()  # held while a thread uses the working folder

    async def run(self, code: str, seconds: float | None = None) -> ToolResult:
        """Execute code and return its output and the pictures that it saved.

        Raises:
            AgentAbortedError: no interpreter can be started.
        """
        seconds = self._run.limits.python_seconds if seconds is None else seconds
        async with self._run.slots:
            new, lost = self._workdir is None, self._lost
            if new:
                await asyncio.to_thread(self._start)
            call = await asyncio.to_thread(self._execute, code, seconds)
            shown = [(name, await asyncio.to_thread(self._show, data)) for name, data in call.pictures]
        pieces = [_LOST] if new and lost else []
        if new and self._given:
            pieces.append(f"[working folder: {', '.join(self._given)}]")
        pieces += [text] if (text := self._text(call.output)) else []
        if call.end not in ("ok", "error"):
            pieces.append(await self._end(call.end, seconds))
        labels, images, copies = list[str](), list[bytes](), list[bytes]()
        for name, picture in shown:
            label = one_line(name)[:SHOWN_NAME]
            if isinstance(picture, str):
                pieces.append(f"[{label} is not shown: {picture}]")
                continue
            image, copy, size = picture
            labels.append(f"{label}: {size}, {self._images.add(image)}")
            images.append(image)
            copies.append(copy)
        text = "\n".join([*pieces, *labels]) or "[no output]"
        return ToolResult(text, tuple(images), call.end != "ok", tuple(labels), tuple(copies))

    async def close(self) -> None:
        """End the interpreter and remove its folder. A call that is under way ends."""
        self._closed = True
        await asyncio.shield(asyncio.to_thread(self._remove))

    def copy_cache(self, folder: Path) -> None:
        """Copy matplotlib's list of fonts out of the working folder; only of an interpreter that ran no model's code."""
        if self._workdir is not None and (made := self._workdir.box / "tmp" / _CACHE).is_dir():
            shutil.copytree(made, folder / _CACHE)

    def _start(self) -> None:
        with self._lock:
            if self._closed:
                raise AgentAbortedError("the conversation is over")
            try:
                workdir = self._workdir = self._run.make()
                for name, data in self._given.items():
                    (workdir.work / name).write_bytes(data)
                self._run.start(workdir)
            except (PreflightError, OSError) as error:
                raise AgentAbortedError(f"the tool python cannot be started: {error}") from error
            self._seen = {}
            self._new_pictures()

    def _remove(self) -> None:
        workdir = self._workdir
        if workdir is not None and workdir.supervisor is not None:
            workdir.supervisor.finish()  # a thread that waits for it sees the end
        with self._lock:
            if self._workdir is not None:
                self._workdir.remove()
            self._workdir = None

    async def _end(self, end: str, seconds: float) -> str:
        """Remove an interpreter that was or is to be ended, and say why."""
        reasons = {
            "time": f"the call took more than {seconds:g} s",
            "output": f"the call wrote more than {MAX_OUTPUT >> 20} MB",
            "running": "it left processes that could not be stopped",
        }
        reason, limits = reasons.get(end, "it ended by itself"), self._run.limits
        if end == "ended" and self._workdir is not None and self._workdir.supervisor is not None:
            outcome = await self._workdir.supervisor.outcome()
            if outcome.fault:
                raise AgentAbortedError(f"the tool python cannot be started: {outcome.fault}")
            used = {
                "memory": f"{limits.python_memory >> 20} MB of memory",
                "disk": f"{limits.python_disk >> 20} MB of files",
                "processes": f"{limits.python_processes} processes",
            }
            if outcome.limit:
                reason = f"it used more than its limit of {used.get(outcome.limit, outcome.limit.replace('_', ' '))}"
        await asyncio.shield(asyncio.to_thread(self._remove))
        self._lost = True
        return (
            f"[the interpreter was ended: {reason}. Its variables and files are lost; the next call starts a new one]"
        )

    def _execute(self, code: str, seconds: float) -> _Call:
        """Send the code, wait for its end, stop all processes, and look for new pictures."""
        with self._lock:
            workdir = self._workdir
            if workdir is None or workdir.supervisor is None or self._closed:
                return _Call("ended", b"")
            root, streams = workdir.supervisor.process.pid, workdir.supervisor.streams
            self._calls += 1
            token = secrets.token_hex(8)  # code that writes replies itself does not know that of a later call
            request = msgspec.json.encode({"call": self._calls, "token": token, "code": code}) + b"\n"
            inlet, outlet, control = (stream.fileno() for stream in streams)
            for descriptor in (inlet, outlet, control):
                os.set_blocking(descriptor, False)
            _drain(control)
            _signal(root, signal.SIGCONT)
            end, output = _exchange(request, token.encode(), (inlet, outlet, control), seconds)
            if end not in ("ok", "error"):
                return _Call(end, output)
            if not _stop(root):
                return _Call("running", output)
            return _Call(end, output + _drain(outlet), self._new_pictures())

    def _new_pictures(self) -> list[tuple[str, bytes | str]]:
        """Return pictures in the working folder that are new or have changed: their bytes, or why they are not read."""
        workdir, limits = self._workdir, self._run.limits
        found, read = list[tuple[str, bytes | str]](), 0
        for name in [] if workdir is None else workdir.names(workdir.work, MAX_NAMES):
            if workdir is None or not name.lower().endswith(_SUFFIXES):
                continue
            content: bytes | str = f"a call shows {limits.python_images} pictures"
            try:
                with workdir.opened(workdir.work / name) as file:
                    status = os.fstat(file.fileno())
                    stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                    if status.st_size > limits.image_bytes:
                        content = f"it has more than {limits.image_bytes:,} bytes"
                    elif stamp != self._seen.get(name) and read < limits.python_images:
                        content, read = file.read(limits.image_bytes), read + 1
            except OSError:
                stamp, content = (0, 0, 0), "it is not a plain file of its own"
            if stamp != self._seen.get(name) and len(found) < 2 * limits.python_images:
                found.append((name, content))
            self._seen[name] = stamp
        return found

    def _show(self, data: bytes | str) -> tuple[bytes, bytes, str] | str:
        """Return an untrusted picture encoded again, a small copy and its size; the reason where it cannot be shown."""
        if isinstance(data, str):
            return data
        try:
            header = read_header(data)
            if header is not None and header.format not in FORMATS:
                raise MediaError(f"a file of {header.format}; {', '.join(FORMATS)} are shown")
            source = Image(BytesBlob("of the tool", data))
            image = open_image(source, MediaSettings(max_long_side=self._run.limits.image_side), MAX_PIXELS)
        except SnellenError as error:
            return error.message
        encoded = compress(image, "png", 0)
        if len(encoded) > MAX_PNG:
            encoded = compress(image, "jpeg", QUALITY)
        copy = image.copy()
        copy.thumbnail((COPY_SIDE, COPY_SIDE))
        return encoded, compress(copy, "jpeg", COPY_QUALITY), f"{image.width} x {image.height} pixels"

    def _text(self, output: bytes) -> str:
        """Return output as text; of a long one beginning and end, where the error stands."""
        text, most = output.decode("utf-8", "replace").rstrip("\n"), self._run.limits.text_chars
        if len(text) <= most:
            return text
        return f"{text[: most // 2]}\n[… {len(text) - most:,} characters omitted …]\n{text[-(most - most // 2) :]}"


def _exchange(request: bytes, token: bytes, pipes: tuple[int, int, int], seconds: float) -> tuple[str, bytes]:
    """Send a request and collect output until its reply comes.

    Args:
        request: one line.
        token: of the call, with which the reply begins; other lines are not looked at.
        pipes: descriptors of the program's input, output and replies, which do not block.
        seconds: how long to wait.

    Returns:
        (ok, error, time, output or ended; the output).
    """
    inlet, outlet, control = pipes
    output, line, replied = bytearray(), b"", 0
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(outlet, select.POLLIN)
    poll.register(control, select.POLLIN)
    poll.register(inlet, select.POLLOUT)
    while (remaining := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(1000 * remaining):
            try:
                if descriptor == inlet:
                    request = request[os.write(inlet, request) :]
                    if not request:
                        poll.unregister(inlet)
                    continue
                data = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                return "ended", bytes(output)
            if descriptor == outlet:
                output += data
            else:
                replied += len(data)
                *lines, line = (line + data).split(b"\n")
                line = line[-100:]
                for end in ("ok", "error"):
                    if token + b" " + end.encode() in lines:
                        return end, bytes(output)
            if len(output) + replied > MAX_OUTPUT:
                return "output", bytes(output)
    return "time", bytes(output)


def _drain(pipe: int) -> bytes:
    """Return what is in a pipe that nobody writes to now; at most MAX_OUTPUT bytes."""
    output = bytearray()
    with contextlib.suppress(OSError):
        while len(output) < MAX_OUTPUT and (data := os.read(pipe, 1 << 16)):
            output += data
    return bytes(output)


def _signal(root: int, number: signal.Signals, but: frozenset[int] = frozenset()) -> frozenset[int]:
    """Send a signal to all processes that stem from `root`; return them."""
    pids = frozenset(descendants(root))
    for pid in pids - but:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return pids


def _stop(root: int) -> bool:
    """Stop all processes that stem from `root`, until none is new: a process that has the signal makes no further one.

    False: there were always new ones.
    """
    stopped, quiet = frozenset[int](), 0
    for _ in range(STOPS):
        pids = _signal(root, signal.SIGSTOP, stopped)
        quiet = 0 if pids - stopped else quiet + 1
        stopped |= pids
        if quiet == 2:
            return True
    return False
