"""What goes to the terminal: tables, JSON, and a net under all of it that catches keys."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from snellen.redaction import redact, redact_bytes

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
    """A text stream that strikes out keys in whatever is written to it; in all else it is the stream beneath."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(redact(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> RedactingBytes:
        return RedactingBytes(self._stream.buffer)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def redacted_output() -> Iterator[None]:
    """stdout and stderr pass through `redact` in this block."""
    before = sys.stdout, sys.stderr
    # A table on a terminal that knows no UTF-8 shows a question mark; it is no reason to end a run with a fault.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    sys.stdout, sys.stderr = Redacting(sys.stdout), Redacting(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def show(*what: RenderableType) -> None:
    """Print rich renderables to stdout; in a pipe they are as wide as they need to be."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    for one in what:
        if console.is_terminal and isinstance(one, Table):
            width = max(console.width, _whole_figures(one, console))
            Console(highlight=False, width=width).print(one)
        else:
            console.print(one)


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
    except UnicodeEncodeError:  # a terminal without UTF-8, or a path that is not text: all of JSON can be said in ASCII
        text = json.dumps(msgspec.to_builtins(value, enc_hook=str), separators=(",", ":"))
    print(text)


def note(text: str) -> None:
    """One line for the reader, on stderr."""
    print(text, file=sys.stderr, flush=True)
