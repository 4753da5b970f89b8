"""Pages of PDFs as images: rendered alike each time, bounded, and refused with file and page."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from drawn_pdf import LOCKED, pdf
from snellen.errors import MediaError
from snellen.media import MediaCache
from snellen.media.pdf import PdfPage, measure, page_pixels
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, MediaSettings


def page_of(data: bytes, number: int = 1, dpi: int = 144) -> PdfPage:
    blob = BytesBlob("a.pdf", data)
    document = measure(blob, "a.pdf")
    pixels = page_pixels(*document.sizes[number - 1], "a.pdf, page 1", dpi)
    return PdfPage(blob, "a.pdf", document.content, number, dpi, pixels)


def test_a_page_has_its_size_in_inches_times_the_resolution_and_black_words_on_white() -> None:
    data = pdf(["one", "two"], size=(144, 72))
    for dpi, size in ((72, (144, 72)), (144, (288, 144)), (150, (300, 150))):
        page = page_of(data, 2, dpi)
        image = Pillow.open(io.BytesIO(page.read()))
        assert (image.format, image.mode, image.size, page.pixels) == ("PNG", "RGB", size, size)
    assert image.convert("L").getextrema() == (0, 255)
    assert image.getpixel((0, 0)) == (255, 255, 255)


def test_pages_are_rendered_alike_by_many_threads_and_encoded_once() -> None:
    data = pdf([f"word {number}" for number in range(12)])
    pages = [page_of(data, number + 1) for number in range(12)]
    alone = [page.read() for page in pages]
    cache = MediaCache(MediaSettings())
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda page: cache.get(Image(page)).data, pages * 3))
    assert sent == alone * 3
    assert cache.made == 12 == len(set(alone))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.pdf: it is no PDF, it is empty"),
        (b"\x89PNG rest", r"a.pdf: it is no PDF, its first bytes are b'\\x89PNG res'"),
        (pdf(["one"])[:120], "a.pdf: it is damaged or cut off"),
        (pdf([]), "a.pdf: it is damaged or cut off"),
        (pdf(["one"], encrypt=LOCKED), "a.pdf: it is encrypted with a password"),
    ],
    ids=["empty", "another file", "cut off", "no pages", "encrypted"],
)
def test_a_file_that_shows_no_page_says_why(data: bytes, message: str) -> None:
    with pytest.raises(MediaError, match=message):
        page_of(data)


def test_a_page_over_the_pixel_limit_is_refused_with_the_resolution_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_MAX_IMAGE_PIXELS", "20000")
    with pytest.raises(MediaError, match=r"a\.pdf, page 1: 288 x 144 pixels at 144 dpi; at most 20,000") as refusal:
        page_of(pdf(["one"])).read()
    assert "-o dpi=72" in refusal.value.hint
    assert page_of(pdf(["one"]), dpi=72).read()


@given(st.binary(max_size=400), st.integers(0, 700))
def test_damaged_bytes_end_in_an_error_of_media_or_in_a_page(noise: bytes, at: int) -> None:
    whole = pdf(["one", "two"])
    data = whole[:at] + noise + whole[at + len(noise) :]
    try:
        assert page_of(data).read().startswith(b"\x89PNG")
    except MediaError as error:
        assert error.message.startswith("a.pdf")


def test_four_hundred_pages_are_read_within_a_gigabyte() -> None:
    """In a process of its own: pages of letter size, all sent through one cache by four threads."""
    code = """
from peak_memory import peak_kb
from concurrent.futures import ThreadPoolExecutor
from snellen.media import MediaCache
from snellen.media.pdf import PdfPage, measure
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, MediaSettings
from drawn_pdf import pdf
blob = BytesBlob("long.pdf", pdf([f"page {at}" for at in range(400)], size=(612, 792)))
content, cache = measure(blob, "long.pdf").content, MediaCache(MediaSettings())
with ThreadPoolExecutor(4) as pool:
    made = list(pool.map(lambda at: cache.get(Image(PdfPage(blob, "long.pdf", content, at, 144, (1224, 1584)))).size, range(1, 401)))
print(len(made), peak_kb() // 1024)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True, env=env
    )
    pages, megabytes = map(int, done.stdout.split())
    assert pages == 400
    assert megabytes < 1024
