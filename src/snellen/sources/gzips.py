"""Reading anywhere in a gzip file without unpacking it.

While the stream is read the first time, the state of the decompressor is kept every few megabytes (zlib can copy it, about
40 kB). A later read starts from the nearest kept state and decompresses at most one interval more than it needs. The
interval doubles when there are too many states, so memory stays under about 20 MB whatever the file's size.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from io import RawIOBase, UnsupportedOperation
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from snellen.errors import DataError
from snellen.sources.archives import Limits, check_unpacked, too_much

CHUNK = 1 << 16
STEP = 1 << 20
INTERVAL = 4 << 20
MOST_STATES = 512
GZIP = 16 + zlib.MAX_WBITS


class GzipFile:
    """Random access to the unpacked bytes of a gzip file. Reads are independent of each other and thread-safe."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self.limits = limits
        self.packed = path.stat().st_size
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = Lock()
        self._interval = INTERVAL
        # States are only ever copied, never advanced in place.
        self._states = [_State(0, 0, True, zlib.decompressobj(GZIP))]

    def read_at(self, offset: int, size: int) -> bytes:
        """`size` unpacked bytes from `offset` on, fewer at the end of the stream.

        Raises:
            DataError: the stream is damaged or cut off.
            UnsafeArchiveError: more comes out than the limits allow.
        """
        out, packed, fresh, state = self._nearest(offset)
        pieces: list[bytes] = []
        wanted, pending = size, b""
        while wanted > 0:
            ended = False
            if not pending:
                pending = os.pread(self._descriptor, CHUNK, packed)
                packed += len(pending)
                ended = not pending
                if fresh:  # between two streams: padding, another stream, or the end
                    pending = pending.lstrip(b"\0")
                    if ended:
                        break
                    if not pending:
                        continue
            try:
                data = state.decompress(pending, STEP)
            except zlib.error as error:
                raise self._damaged(str(error)) from error
            if ended and not data and not state.eof:
                raise self._damaged("it is cut off")
            fresh = state.eof
            begin = max(0, offset - out)
            piece = data[begin : begin + wanted]
            pieces.append(piece)
            wanted -= len(piece)
            out += len(data)
            if state.eof:
                packed -= len(state.unused_data)
                pending, state = b"", zlib.decompressobj(GZIP)
            else:
                pending = state.unconsumed_tail
            check_unpacked(self.path, "", out, packed, self.limits.total_bytes, self.limits)
            if not pending:
                self._keep(_State(out, packed, fresh, state))
        return b"".join(pieces)

    def close(self) -> None:
        os.close(self._descriptor)

    def _nearest(self, offset: int) -> _State:
        with self._lock:
            kept = self._states[bisect_right(self._states, offset, key=lambda state: state.out) - 1]
            return kept._replace(inflate=kept.inflate.copy())

    def _keep(self, state: _State) -> None:
        with self._lock:
            if state.out < self._states[-1].out + self._interval:
                return
            self._states.append(state._replace(inflate=state.inflate.copy()))
            if len(self._states) > MOST_STATES:
                self._states = self._states[::2]
                self._interval *= 2

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self.path}: cannot be unpacked: {why}", "The archive is damaged; fetch it again.")


class _State(NamedTuple):
    """The decompressor after `out` unpacked and `packed` packed bytes; `fresh`: at the beginning of a stream."""

    out: int
    packed: int
    fresh: bool
    inflate: Any


class GzipStream(RawIOBase):
    """A `GzipFile` as a stream for tarfile, which reads headers and skips contents. One read is at most `most` bytes."""

    def __init__(self, file: GzipFile, most: int) -> None:
        self._file, self._most, self._at = file, most, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            raise UnsupportedOperation("the end of a gzip stream is not known")
        self._at = offset if whence == os.SEEK_SET else self._at + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._most:
            raise too_much(self._file.path, "", f"a header of {size:,} bytes", f"{self._most:,}")
        data = self._file.read_at(self._at, size)
        self._at += len(data)
        return data
