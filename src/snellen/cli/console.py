"""Output to the terminal: tables, JSON, notes and errors, all of it redacted; text in UTF-8, whatever the locale says."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

import snellen
from snellen.redaction import redact, redact_bytes
from snellen.text import without_controls

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from snellen.errors import SnellenError

DEBUG = "SNELLEN_DEBUG"
ADVICE = "Check the path, its permissions and the free disk space."
UNEXPECTED = 70
"""Exit status of a fault in Snellen itself (EX_SOFTWARE of sysexits.h)."""
LABEL_WIDTH = 12
"""Least width of a column of words, in characters, on a terminal that is narrower than the table."""


class RedactingBytes:
    """A binary stream that strikes out keys in what is written to it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._stream.write(redact_bytes(data))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Redacting:
    """A text stream that strikes out keys and control characters in what is written to it.

    On a terminal, rich may write control sequences for colours and the cursor. The texts that it prints have none (`show`,
    `one_line`), and a plain `print` writes none.

    A closed stream drops what is written. One that cannot be written raises OutputError, unless it is quiet.
    """

    def __init__(self, stream: IO[str] | None, name: str = "standard output", *, quiet: bool = False) -> None:
        self._stream = stream
        self._name = name
        self._quiet = quiet
        self._control_sequences = stream is not None and (_is_terminal(stream) or bool(os.environ.get("FORCE_COLOR")))
        self.lost = False

    def write(self, text: str) -> int:
        if self._stream is None:
            self.lost = self.lost or bool(text)
            return len(text)
        if self._control_sequences and _is_rich(sys._getframe(1)):
            return self._write(without_controls(redact(text), commands=True))
        return self._write(without_controls(redact(text), returns=True))

    def redraw(self, text: str) -> None:
        """Overwrite the current line."""
        self._write("\r" + without_controls(text, returns=True))
        self.flush()

    def _write(self, text: str) -> int:
        if self._stream is not None:
            with self._output_errors():
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            with self._output_errors():
                self._stream.flush()

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> RedactingBytes:
        return RedactingBytes(self._stream.buffer)  # type: ignore[union-attr]

    def isatty(self) -> bool:
        return self._stream is not None and _is_terminal(self._stream)

    @contextlib.contextmanager
    def _output_errors(self) -> Iterator[None]:
        """Raise OutputError for a failed write, unless the stream is quiet: the exit status then reports it."""
        try:
            yield
        except BrokenPipeError:  # the reader ended, as in `| head`
            raise
        except (OSError, ValueError) as error:
            if self._quiet:
                return
            from snellen.errors import OutputError  # lazy: it imports msgspec, which a short command does not need

            reason = getattr(error, "strerror", None) or str(error)
            raise OutputError(
                f"cannot write to {self._name}: {reason}",
                "What was computed and recorded is intact; print it elsewhere.",
            ) from error

    def __getattr__(self, name: str) -> Any:
        if self._stream is None:
            defaults = {"encoding": "utf-8", "errors": "replace", "closed": False, "newlines": None}
            if name in defaults:
                return defaults[name]
            raise AttributeError(name)
        return getattr(self._stream, name)


def _is_rich(frame: FrameType) -> bool:
    """Return True for a frame of rich, whose output holds its own control sequences."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "rich"


def _is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


@contextlib.contextmanager
def redacted_output() -> Iterator[None]:
    """Redact stdout and stderr in this block.

    Raises:
        OutputError: standard output could not be written completely. A closed standard error is no error.
    """
    before = sys.stdout, sys.stderr
    # A terminal without UTF-8 shows question marks instead of ending the command with an error.
    for stream in before:
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    out, err = Redacting(sys.stdout), Redacting(sys.stderr, "standard error", quiet=True)
    sys.stdout, sys.stderr = out, err
    try:
        yield
        out.flush()
        if out.lost:
            from snellen.errors import OutputError

            raise OutputError("standard output is closed; nothing was printed", "Leave it open, or send it to a file.")
    finally:
        sys.stdout, sys.stderr = before


def give_up_streams() -> None:
    """Replace streams that cannot be written, so that the interpreter's exit prints no second message."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def new_table(title: str | None, words: Iterable[str] = (), numbers: Iterable[str] = ()) -> Table:
    """Return a table with columns of words, then right-aligned columns of numbers, which are never wrapped."""
    from rich.table import Table

    table = Table(*words, title=title, title_justify="left", caption_justify="left")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _pipe_width(width: int | None) -> int | None:
    """Return the width of tables in a pipe that have one: that of COLUMNS before their own."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if width and columns.isdecimal() and int(columns) >= width else width


def show(*items: RenderableType, pipe_width: int | None = None) -> None:
    """Print rich renderables to stdout; a table that is too wide for a terminal stands there in parts, one below the other.

    In a pipe they are as wide as they need to be, or as COLUMNS says, or `pipe_width`.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    width = console.width if console.is_terminal else _pipe_width(pipe_width) or _natural_width(items, console)
    for item in items:
        console.width = width
        if not isinstance(item, Table):
            console.print(without_controls(item, returns=True) if isinstance(item, str) else item)
            continue
        _plain_cells(item)
        for part in _parts(item, console) if console.is_terminal or pipe_width else [item]:
            console.width = max(width, _least_width(part))
            console.print(part)


def _parts(table: Table, console: Console) -> Iterator[Table]:
    """Yield a table whose numbers are never wrapped; if it is too wide, in parts, each with its first columns of words."""
    from copy import copy

    _unwrap_numbers(table, console)
    count = next((at for at, column in enumerate(table.columns) if column.no_wrap), len(table.columns))
    leading, rest = table.columns[:count], table.columns[count:]
    while True:
        part = copy(table)
        part.columns = [*leading]
        while rest and (
            len(part.columns) == count or _least_width(part) + (rest[0].min_width or 0) + 3 <= console.width
        ):
            part.columns.append(rest.pop(0))
        part.columns = [replace(column, _index=at) for at, column in enumerate(part.columns)]
        yield part
        if not rest:
            return
        table.title = None


def _least_width(table: Table) -> int:
    """Return the least width of a table; a narrower terminal breaks its lines, as a number without its end would be wrong."""
    return sum((column.min_width or 0) + 3 for column in table.columns) + 1


def _natural_width(items: Iterable[RenderableType], console: Console) -> int:
    """Return the width in characters of the widest table, at least 160."""
    from rich.measure import Measurement
    from rich.table import Table

    wide = console.options.update(width=10_000)
    return max([160, *(Measurement.get(console, wide, item).maximum for item in items if isinstance(item, Table))])


def _plain_cells(table: Table) -> None:
    """Remove control characters from every text of a table."""
    for name in ("title", "caption"):
        value = getattr(table, name)
        if isinstance(value, str):
            setattr(table, name, without_controls(value, returns=True))
    for column in table.columns:
        if isinstance(column.header, str):
            column.header = without_controls(column.header, returns=True)
        column._cells = [_plain_cell(cell) for cell in column._cells]


def _plain_cell(cell: RenderableType) -> RenderableType:
    from rich.text import Text

    if isinstance(cell, str):
        return without_controls(cell, returns=True)
    if isinstance(cell, Text) and (text := without_controls(cell.plain, returns=True)) != cell.plain:
        return Text(text, style=cell.style, justify=cell.justify)
    return cell


def _unwrap_numbers(table: Table, console: Console) -> None:
    """Let a table wrap words and never numbers."""
    from rich.measure import measure_renderables

    for column in table.columns:
        cells = [column.header, *column.cells]
        natural = measure_renderables(console, console.options.update(width=10_000), cells).maximum
        column.no_wrap = column.justify == "right"
        column.min_width = natural if column.no_wrap else min(natural, LABEL_WIDTH)
        if not column.no_wrap:
            column.overflow = "fold"


def show_json(value: Any) -> None:
    """Print one JSON object to stdout."""
    import msgspec

    try:
        text = msgspec.json.encode(value, enc_hook=str).decode()
        text.encode(sys.stdout.encoding or "utf-8")
        if without_controls(text) != text:  # DEL and C1, which JSON lets stand as they are
            text = json.dumps(msgspec.json.decode(text), separators=(",", ":"))
    except UnicodeEncodeError:  # a terminal without UTF-8, or a path that is not text: write JSON in ASCII
        text = json.dumps(msgspec.to_builtins(value, enc_hook=str), separators=(",", ":"))
    print(text)


def redraw(text: str) -> None:
    """Overwrite the current line of stderr; for progress on a terminal."""
    if isinstance(sys.stderr, Redacting):
        sys.stderr.redraw(text)
    else:
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Print a line for the user to stderr."""
    print(without_controls(text, returns=True), file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """Print a note for the user to stderr."""
    note(f"note: {text}")


def print_notes(lines: Iterable[str]) -> None:
    """Print lines for the user to stderr, each as a note."""
    for line in lines:
        remark(line)


def require_utf8_mode() -> None:
    """Restart in Python's UTF-8 mode if the locale is ASCII only, as with LC_ALL=C and PYTHONUTF8=0.

    ASCII cannot express paths and texts with umlauts. The process keeps its id, streams and arguments.
    """
    if sys.flags.utf8_mode or sys.getfilesystemencoding().lower() not in ("ascii", "us-ascii", "ansi_x3.4-1968"):
        return
    words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    sys.stdout is None or sys.stdout.flush()
    os.execv(sys.executable, words)  # noqa: S606 - this program itself


def require_text(words: Sequence[str]) -> None:
    """Refuse arguments that are not text: bytes that are not UTF-8, and lone surrogates.

    Raises:
        UsageError: an argument is not text; it names the first one.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            from snellen.errors import UsageError  # lazy: it imports msgspec, which --help does not need

            raise UsageError(
                f"the argument {word[:200]!a} is not UTF-8 at character {error.start + 1}",
                "Pass UTF-8 text. Rename a file or folder whose name is not UTF-8.",
            ) from None


def tell(error: SnellenError) -> int:
    """Print an expected error to stderr and return its exit status."""
    note(f"snellen: {error.message}")
    for line in error.hint.splitlines():
        note(f"  {line}")
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exception(error)
    return error.exit_code


def environment_fault(error: Exception) -> SnellenError | None:
    """Return the error for what the machine refuses, such as a file or a full disk; None for other exceptions."""
    from snellen.errors import DataError, StorageError, open_files_advice  # it imports msgspec

    if isinstance(error, MemoryError):
        return DataError(
            f"memory ran out{f': {error}' if str(error) else ''}",
            "Free memory, or split the input into smaller files.",
        )
    if isinstance(error, BrokenPipeError) or not isinstance(error, OSError) or error.errno is None:
        return None
    path = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
    kind = StorageError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else DataError
    return kind(f"{path}{error.strerror or error}", open_files_advice(error) or ADVICE)


def tell_unexpected(error: Exception) -> int:
    """Print a fault of Snellen itself, with what is needed to report it; return the exit status."""
    import traceback

    traceback.print_exception(error)
    print(
        f"snellen: this is a fault in snellen {snellen.__version__}: {type(error).__name__}: {error}\n"
        "  Recorded results are intact. Please report the fault with the lines above (keys are redacted) "
        "and the output of `snellen doctor`.",
        file=sys.stderr,
    )
    return UNEXPECTED
