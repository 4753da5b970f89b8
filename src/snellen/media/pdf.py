"""Pages of PDFs as images: a document is measured when its table is read, and a page rendered when it is sent.

PDFium renders (pypdfium2, of the extra `documents`), forms and annotations included, over white. It is not thread-safe: one lock
guards every use. A document is opened anew for each page, so that no more than one page is held as pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from math import ceil, isfinite
from threading import Lock
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import MediaError, MissingExtraError
from snellen.installation import install_hint
from snellen.media.decode import first_bytes, pixel_limit
from snellen.media.encode import compress
from snellen.types import Blob

MOST_BYTES = 1 << 29
MOST_PAGES = 10_000
"""Bytes and pages of a document; a larger one is no document of a question."""
POINTS = 72
"""Points in an inch, the unit of a page's size."""
HEAD = 1024
"""Bytes within which PDFium looks for the mark of a PDF."""
_PDFIUM = Lock()


class Document(Struct, frozen=True):
    """Facts of a PDF: digest of its bytes, and width and height of each page in points (1/72 inch)."""

    content: str
    sizes: tuple[tuple[float, float], ...]


class PdfPage(Struct, frozen=True):
    """A page of a PDF as an image; `read` renders it as a PNG. Pages of one content, number and resolution are one image.

    Attributes:
        document: the PDF.
        name: what messages call it.
        content: the digest of the PDF.
        number: the page, from 1.
        dpi: pixels an inch.
        pixels: its width and height, which are known before it is rendered.
        omitted: pages of the document that its question asks for and that are over the limit.
    """

    document: Blob
    name: str
    content: str
    number: int
    dpi: int
    pixels: tuple[int, int]
    omitted: int = 0

    @property
    def key(self) -> str:
        return f"{self.name}, page {self.number} at {self.dpi} dpi, {self.content}"

    def read(self) -> bytes:
        """Render the page. Raises MediaError, DataError."""
        place = f"{self.name}, page {self.number}"
        with _opened(_data(self.document, self.name), self.name) as pdf:
            try:
                pdf.init_forms()
                page = pdf[self.number - 1]
                width, height = page.get_size()
                page_pixels(width, height, place, self.dpi)
                bitmap = page.render(scale=self.dpi / POINTS, rev_byteorder=True)
                pixels = bitmap.to_numpy().copy()
                bitmap.close()
                page.close()
            except (RuntimeError, IndexError, ValueError) as error:  # PdfiumError is a RuntimeError
                raise MediaError(f"{place}: cannot be rendered: {error}", "Fetch or write the file again.") from error
        return compress(pixels, "png", 100)


def page_pixels(width: float, height: float, place: str, dpi: int) -> tuple[int, int]:
    """Return width and height in pixels of a page of this size in points.

    Raises MediaError: it has no area, or more pixels than are decoded.
    """
    if not (isfinite(width) and isfinite(height) and min(width, height) > 0):
        raise MediaError(f"{place}: its size is {width:g} x {height:g} points", "Write the file again.")
    pixels = ceil(width * dpi / POINTS), ceil(height * dpi / POINTS)
    if pixels[0] * pixels[1] > (limit := pixel_limit()):
        raise MediaError(
            f"{place}: {pixels[0]:,} x {pixels[1]:,} pixels at {dpi} dpi; at most {limit:,} in all are rendered",
            "Lower the resolution, e.g. -o dpi=72.",
        )
    return pixels


def measure(document: Blob, name: str) -> Document:
    """Open a PDF and measure its pages.

    Raises:
        MediaError: it is no PDF, encrypted, damaged, without pages, or larger than a document may be; the message names it.
        MissingExtraError: pypdfium2 is not installed.
    """
    data = _data(document, name)
    with _opened(data, name) as pdf:
        count = len(pdf)
        if not 0 < count <= MOST_PAGES:
            found = f"{count:,} pages; at most {MOST_PAGES:,} are read" if count else "it has no pages"
            raise MediaError(f"{name}: {found}", "Check the file, or split it." if count else "Write the file again.")
        try:
            sizes = tuple(pdf.get_page_size(at) for at in range(count))
        except RuntimeError as error:
            raise MediaError(f"{name}: a page cannot be read: {error}", "Fetch or write the file again.") from error
    return Document(blake2b(data, digest_size=8).hexdigest(), sizes)


def drawn_pages(data: bytes, name: str, dpi: int) -> Iterator[NDArray[np.uint8]]:
    """Yield each page of a PDF as red, green, blue and alpha, [height, width, 4], with nothing behind it.

    What covers a pixel in part gives it its whole colour. PDFium is locked until the last page was taken.

    Raises MediaError, MissingExtraError, as `measure` does.
    """
    with _opened(data, name) as pdf:
        try:
            for page in pdf:
                bitmap = page.render(scale=dpi / POINTS, fill_color=(0, 0, 0, 0), rev_byteorder=True)
                yield bitmap.to_numpy().copy()
                bitmap.close()
        except (RuntimeError, ValueError) as error:
            raise MediaError(f"{name}: a page cannot be rendered: {error}", "Write the file again.") from error


def _data(document: Blob, name: str) -> bytes:
    data = first_bytes(document, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise MediaError(f"{name}: more than {MOST_BYTES:,} bytes; larger PDFs are not read", "Split the file.")
    if b"%PDF-" not in data[:HEAD]:
        found = f"its first bytes are {data[:8]!r}" if data else "it is empty"
        raise MediaError(f"{name}: it is no PDF, {found}", "Fetch it again, or give it the ending of what it is.")
    return data


@contextmanager
def _opened(data: bytes, name: str) -> Iterator[Any]:
    try:
        import pypdfium2
    except ImportError as error:
        message = f"{name}: PDFs need pypdfium2, which is not installed"
        raise MissingExtraError(message, install_hint("documents")) from error
    with _PDFIUM:
        try:
            pdf = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
                message, hint = f"{name}: it is encrypted with a password", "Save it again without one."
            else:
                message, hint = f"{name}: it is damaged or cut off: {error}", "Fetch it again."
            raise MediaError(message, hint) from error
        try:
            yield pdf
        finally:
            pdf.close()
