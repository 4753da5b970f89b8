"""Lines of results that arrive in pieces: bounded, whatever the pieces hold."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.redaction import redact_bytes

LARGEST_LINE = 16 << 20
"""Bytes of one line of results; a longer one is passed over."""


class LineSplitter:
    """Splits pieces of a file into lines; keys are struck from each, and b"" stands for one that is too long."""

    def __init__(self) -> None:
        self._rest, self._long = bytearray(), False

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a piece, without their ends and without blank ones."""
        *ended, open_ = chunk.split(b"\n")
        for piece in ended:
            line = b"" if self._long else bytes(self._rest + piece)
            self._rest.clear()
            if self._long or line.strip():
                yield redact_bytes(line.removesuffix(b"\r"))
            self._long = False
        if len(self._rest) + len(open_) > LARGEST_LINE:
            self._rest.clear()
            self._long = True
        elif not self._long:
            self._rest += open_

    def end(self) -> Iterator[bytes]:
        """Yield the last line, if it has no end."""
        if self._long or self._rest.strip():
            yield b"" if self._long else redact_bytes(bytes(self._rest))
