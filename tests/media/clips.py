"""Small videos made by PyAV, in which a frame's brightness says which one it is."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from io import BytesIO

import numpy as np
import pytest

from snellen.media import open_image
from snellen.types import Image, MediaSettings

STEP = 8


class Counted:
    """Bytes of a video that count how often they are read whole; a look at the beginning is none."""

    def __init__(self, data: bytes, key: str = "clips/1.mp4") -> None:
        self.key, self.data, self.reads = key, data, 0

    def read(self) -> bytes:
        self.reads += 1
        return self.data

    def open(self) -> BytesIO:
        return _Stream(self)


class _Stream(BytesIO):
    def __init__(self, film: Counted) -> None:
        super().__init__(film.data)
        self.film = film

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0 or size > len(self.film.data):
            self.film.reads += 1
        return super().read(size)


def clip(
    count: int = 30,
    *,
    rate: int = 10,
    kind: str = "mp4",
    codec: str = "mpeg4",
    size: tuple[int, int] = (64, 48),
    at: Iterable[float] | None = None,
    options: dict[str, str] | None = None,
) -> bytes:
    """Frame k is a flat grey of brightness 8 * k (of 256), shown from k / rate seconds on, or from the k-th time `at`."""
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    times = [k / rate for k in range(count)] if at is None else list(at)
    out = BytesIO()
    with av.open(out, "w", format=kind) as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 2_000_000  # at the default rate the codecs pass over a step of brightness
        stream.codec_context.time_base = Fraction(1, 1000 if at is not None else rate)
        for number, time in enumerate(times):
            flat = np.full((size[1], size[0], 3), number * STEP % 256, np.uint8)
            frame = av.VideoFrame.from_ndarray(flat, format="rgb24")
            frame.time_base = stream.codec_context.time_base
            frame.pts = round(time / frame.time_base)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return out.getvalue()


def numbers(images: Iterable[Image]) -> list[int]:
    """Which frames these are, read from their brightness."""
    return [round(open_image(image, MediaSettings()).getpixel((20, 20))[0] / STEP) for image in images]
