"""Samples of a pool that are tested ones, or other samples of the pool, in another form.

An image is the same by its bytes or its pixels. One that was encoded anew with losses is the same if the question and the
gold answer are those of the tested sample too. Questions without images are the same whatever their case, spacing, final
punctuation and order of options.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from snellen.errors import DataError, MediaError, SnellenError
from snellen.media import open_image
from snellen.media.decode import read_header
from snellen.text import normalized
from snellen.types import Blob, Image, MediaSettings, Prompt, Sample, Text, Video

if TYPE_CHECKING:  # numpy takes 0.1 s to import, which a run without examples does not need
    import numpy as np
    import numpy.typing as npt

CELLS = 32
"""Cells along each side of an image in which the mean colours are compared."""
LARGEST_CHANGE = 16.0
"""Of 255: JPEG at quality 30 moves the mean colour of a cell by less; another picture moves at least one cell by more."""
_LABEL = re.compile(r"^\(?[a-z0-9]{1,2}[.):]")
_END = " .,:;!?"


class _Pixels(NamedTuple):
    """Size of an image, a digest of its RGB pixels, and the mean colours of its cells."""

    size: tuple[int, int]
    digest: bytes
    cells: npt.NDArray[np.float32]


class _PoolImages:
    """Images of the drawn samples, by their bytes, by their pixels, and by size and question."""

    def __init__(self) -> None:
        self.by_bytes: dict[bytes, list[int]] = {}
        self.by_pixels: dict[bytes, list[int]] = {}
        self.sizes: set[tuple[int, int]] = set()
        self.cells: dict[tuple[tuple[int, int], bytes], list[tuple[int, npt.NDArray[np.float32]]]] = {}

    def add(self, number: int, content: bytes) -> None:
        """Take the bytes of an image or clip of the sample `number`."""
        self.by_bytes.setdefault(_digest(content), []).append(number)

    def add_pixels(self, number: int, asked: bytes, pixels: _Pixels) -> None:
        """Take the pixels of an image; `asked` names question and gold answer."""
        self.by_pixels.setdefault(pixels.digest, []).append(number)
        self.sizes.add(pixels.size)
        self.cells.setdefault((pixels.size, asked), []).append((number, pixels.cells))

    def same(self, blob: Blob, is_image: bool, asked: bytes) -> list[int]:
        """Return the samples that show an image or clip of a tested sample; an unreadable one equals nothing."""
        try:
            content = blob.read()
        except (DataError, MediaError):  # it is recorded as failed in its turn
            return []
        numbers = self.by_bytes.get(_digest(content), [])
        header = read_header(content) if is_image else None
        if numbers or header is None or header.upright_size not in self.sizes:
            return numbers
        pixels = _pixels(blob)
        if pixels is None:
            return []
        near = (
            number
            for number, cells in self.cells.get((pixels.size, asked), ())
            if abs(cells - pixels.cells).max() <= LARGEST_CHANGE
        )
        return [*self.by_pixels.get(pixels.digest, []), *near]


def same_content(drawn: list[Sample], tested: Iterable[Sample]) -> dict[int, str]:
    """Return the positions of samples that are tested ones, or that repeat an earlier one, with the reason.

    Tested images are decoded only where an image of the pool has their size.

    Args:
        drawn: samples of the pool, in the order in which they may be shown.
        tested: the samples of the benchmark.
    """
    reasons: dict[int, str] = {}
    texts: dict[bytes, list[int]] = {}
    images = _PoolImages()
    seen: set[bytes] = set()
    for number, sample in enumerate(drawn):
        blobs = list(_blobs(sample.prompt))
        asked = _asked(sample)
        content = [_question(sample)]
        if not blobs:
            texts.setdefault(content[0], []).append(number)
        for blob, is_image in blobs:
            try:
                data = blob.read()
            except (DataError, MediaError):
                reasons[number] = "cannot be read"
                continue
            images.add(number, data)
            pixels = _pixels(blob) if is_image else None
            if pixels is not None:
                images.add_pixels(number, asked, pixels)
            elif is_image:
                reasons[number] = "cannot be read"
            content.append(_digest(data) if pixels is None else pixels.digest)
        whole = b"".join(content)
        if whole in seen:
            reasons.setdefault(number, "repeat another sample of the pool")
        seen.add(whole)
    compared: set[tuple[str, bytes]] = set()
    for sample in tested:
        blobs = list(_blobs(sample.prompt))
        asked = _asked(sample)
        if not blobs:
            for number in texts.get(_question(sample), ()):
                reasons.setdefault(number, "ask the question of a tested sample")
        for blob, is_image in blobs if images.by_bytes else ():
            if (blob.key, asked) in compared:
                continue
            compared.add((blob.key, asked))
            for number in images.same(blob, is_image, asked):
                reasons.setdefault(number, "show an image of a tested sample")
    return reasons


def _blobs(prompt: Prompt) -> Iterator[tuple[Blob, bool]]:
    """Yield the images, clips and frames of a prompt; True for an image."""
    for part in prompt.conversation_parts:
        if isinstance(part, Image):
            yield part.blob, True
        elif isinstance(part, Video):
            if part.blob is not None:
                yield part.blob, False
            yield from ((frame.blob, True) for frame in part.frames)


def _question(sample: Sample) -> bytes:
    """Return a digest of a question's lines, in the same order whatever the order of the options."""
    words = "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
    lines = [_plain(line) for line in words.splitlines()]
    if sample.options:
        lines = sorted(_LABEL.sub("", line) for line in lines)
    return _digest("\n".join(filter(None, lines)).encode("utf-8", "surrogatepass"))


def _plain(line: str) -> str:
    """Return a line without case, spaces, invisible characters and final punctuation."""
    folded = normalized("NFKC", line).casefold().rstrip(_END)
    return "".join(char for char in folded if not char.isspace() and unicodedata.category(char) != "Cf")


def _asked(sample: Sample) -> bytes:
    """Return a digest of question and gold answer; of a letter, the option that it stands for."""
    target = sample.target
    gold = sample.options.get(target, target) if isinstance(target, str) and sample.options else target
    return _question(sample) + _digest(_plain(str(gold)).encode("utf-8", "surrogatepass"))


def _pixels(blob: Blob) -> _Pixels | None:
    """Decode an image; None if it cannot be decoded."""
    import numpy as np
    from PIL import Image as Pillow

    try:
        opened = open_image(Image(blob), MediaSettings())
    except SnellenError:
        return None
    colours = opened.convert("RGB")
    small = colours.resize((min(CELLS, colours.width), min(CELLS, colours.height)), Pillow.Resampling.BOX)
    digest = _digest(f"{opened.size}".encode() + colours.tobytes())
    return _Pixels(opened.size, digest, np.asarray(small, dtype=np.float32))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
