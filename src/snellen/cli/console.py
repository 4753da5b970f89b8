"""What goes to the terminal: tables, JSON, and a net under all of it that catches keys."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

from snellen.redaction import redact, redact_bytes
from snellen.terminal_text import without_controls

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

LABEL_WIDTH = 12
"""Least width of a column of words on a terminal that has no room for all of a table, in characters."""


class RedactingBytes:
    """The same for the bytes beneath a text stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._stream.write(redact_bytes(data))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Redacting:
    """A text stream that strikes out keys in whatever is written to it, and every control character.

    On a terminal the terminal library (rich) may write whole control sequences: colours, the cursor. What it is given to
    print has none (`show`, and `one_line` elsewhere). A plain `print` writes none.

    A stream that is closed takes nothing; one that cannot be written raises OutputError, unless it is quiet.
    """

    def __init__(self, stream: IO[str] | None, name: str = "standard output", *, quiet: bool = False) -> None:
        self._stream = stream
        self._name = name
        self._quiet = quiet
        self._commands = stream is not None and (_is_terminal(stream) or bool(os.environ.get("FORCE_COLOR")))
        self.lost = False

    def write(self, text: str) -> int:
        if self._stream is None:
            self.lost = self.lost or bool(text)
            return len(text)
        text = redact(text)
        if not (self._commands and _by_rich(sys._getframe(1))):
            text = without_controls(text, returns=True)
        else:
            text = without_controls(text, commands=True)
        return self._pass_on(text)

    def redraw(self, text: str) -> None:
        """Write a line over the one that the cursor stands on."""
        self._pass_on("\r" + without_controls(text, returns=True))
        self.flush()

    def _pass_on(self, text: str) -> int:
        if self._stream is None:
            return 0
        try:
            self._stream.write(text)
        except BrokenPipeError:  # whoever read it has enough, as in `| head`
            raise
        except (OSError, ValueError) as error:
            self._fail(error)
        return len(text)

    def flush(self) -> None:
        if self._stream is None:
            return
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            self._fail(error)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> RedactingBytes:
        return RedactingBytes(self._stream.buffer)  # type: ignore[union-attr]

    def isatty(self) -> bool:
        return self._stream is not None and _is_terminal(self._stream)

    def _fail(self, error: Exception) -> None:
        if self._quiet:  # nobody can be told that nobody is told; the exit status says how it ended
            return
        from snellen.errors import OutputError  # only here: it imports msgspec, and every start comes by here

        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(
            f"cannot write to {self._name}: {reason}", "What was computed and recorded is intact; print it elsewhere."
        ) from error

    def __getattr__(self, name: str) -> Any:
        if self._stream is None:
            defaults = {"encoding": "utf-8", "errors": "replace", "closed": False, "newlines": None}
            if name in defaults:
                return defaults[name]
            raise AttributeError(name)
        return getattr(self._stream, name)


def _by_rich(frame: FrameType) -> bool:
    """Return True if the terminal library wrote what arrived; its own sequences are part of what it writes."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "rich"


def _is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


@contextlib.contextmanager
def redacted_output() -> Iterator[None]:
    """stdout and stderr pass through `redact` in this block.

    Raises:
        OutputError: standard output took not all that was printed. A closed standard error is no error.
    """
    before = sys.stdout, sys.stderr
    # A table on a terminal that knows no UTF-8 shows a question mark; it is no reason to end a run with a fault.
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
    """Let the interpreter end without a second message about streams that cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def show(*what: RenderableType) -> None:
    """Print rich renderables to stdout; in a pipe they are as wide as they need to be."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, emoji=False, width=_natural_width(what, console))
    for one in what:
        if isinstance(one, Table):
            _plain_cells(one)
        elif isinstance(one, str):
            one = without_controls(one, returns=True)
        if console.is_terminal and isinstance(one, Table):
            width = max(console.width, _whole_figures(one, console))
            Console(highlight=False, markup=False, emoji=False, width=width).print(one)
        else:
            console.print(one)


def _natural_width(what: Sequence[RenderableType], console: Console) -> int:
    """Columns that the widest table of these needs, at least 160."""
    from rich.measure import Measurement
    from rich.table import Table

    wide = console.options.update(width=10_000)
    return max([160, *(Measurement.get(console, wide, table).maximum for table in what if isinstance(table, Table))])


def _plain_cells(table: Table) -> None:
    """Take every text of a table as it is: no markup of rich's, and no control characters."""
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


def _whole_figures(table: Table, console: Console) -> int:
    """Have a narrow table break its words and never its figures; the least width at which that can be done.

    A terminal that is narrower still breaks the lines itself: that is hard to read, and a figure without its end is wrong.
    """
    from rich.measure import measure_renderables

    for column in table.columns:
        cells = [column.header, *column.cells]
        natural = measure_renderables(console, console.options.update(width=10_000), cells).maximum
        figures = column.justify == "right"
        column.min_width = natural if figures else min(natural, LABEL_WIDTH)
        column.no_wrap = figures
        if not figures:
            column.overflow = "fold"
    return sum((column.min_width or 0) + 3 for column in table.columns) + 1


def show_json(value: Any) -> None:
    """Print one JSON object to stdout."""
    import msgspec

    try:
        text = msgspec.json.encode(value, enc_hook=str).decode()
        text.encode(sys.stdout.encoding or "utf-8")
        if without_controls(text) != text:  # DEL and C1, which JSON lets stand as they are
            text = json.dumps(msgspec.json.decode(text), separators=(",", ":"))
    except UnicodeEncodeError:  # a terminal without UTF-8, or a path that is not text: all of JSON can be said in ASCII
        text = json.dumps(msgspec.to_builtins(value, enc_hook=str), separators=(",", ":"))
    print(text)


def redraw(text: str) -> None:
    """Print a line to stderr over the one before it; for progress on a terminal."""
    if isinstance(sys.stderr, Redacting):
        sys.stderr.redraw(text)
    else:
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """One line for the reader, on stderr."""
    print(without_controls(text, returns=True), file=sys.stderr, flush=True)
