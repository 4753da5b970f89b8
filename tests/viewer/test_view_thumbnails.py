"""Small copies of untrusted images: nothing but pixels survives, nothing is decoded without limits, memory is bounded."""

from __future__ import annotations

import io
import os
import struct
import threading
import zlib

import pytest
from PIL import Image as Picture
from PIL import PngImagePlugin

from snellen.errors import DataError, MediaError
from snellen.sources.blobs import BytesBlob, FileBlob, UrlBlob
from snellen.types import Image, Text, Video
from snellen.viewer import thumbnails
from snellen.viewer.thumbnails import Thumbnail, ThumbnailCache, small_copy

SCRIPT = b"<script>alert(document.domain)</script>"


def png(width, height, content=100_000):
    """Return a PNG that claims a size, whatever its content."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(content), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def photo(width=900, height=600, kind="JPEG", **settings):
    out = io.BytesIO()
    Picture.radial_gradient("L").resize((width, height)).convert("RGB").save(out, kind, **settings)
    return out.getvalue()


def copy_of(data):
    return small_copy(Image(BytesBlob("a key", data)))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_copy_is_small_and_of_a_format_that_browsers_only_draw(kind):
    copy = copy_of(photo(kind=kind))
    assert copy.mime in ("image/jpeg", "image/png")
    assert Picture.open(io.BytesIO(copy.data)).size == (240, 160)
    assert len(copy.data) < 20_000


def comment(text):
    info = PngImagePlugin.PngInfo()
    info.add_text("Comment", text.decode())
    return {"pnginfo": info, "icc_profile": b"profile " + text}


@pytest.mark.parametrize("side", [16, 90, 700])
@pytest.mark.parametrize("place", ["behind", "comment"])
def test_of_a_polyglot_only_the_pixels_are_left(side, place):
    data = photo(side, side, "PNG", **(comment(SCRIPT) if place == "comment" else {}))
    data = data + SCRIPT if place == "behind" else data
    copy = copy_of(data)
    assert SCRIPT in data or place == "comment"
    assert SCRIPT not in copy.data
    assert b"profile " not in copy.data
    assert not Picture.open(io.BytesIO(copy.data)).info.get("Comment")


@pytest.mark.parametrize(
    "data",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<?xml version='1.0'?><svg onload='alert(1)'/>",
        b"<!doctype html><script>alert(1)</script>",
        b"%PDF-1.7\n",
        b"GIF89a/*" + SCRIPT,
        b"\xff\xd8\xff" + SCRIPT,
        b"",
        b"version https://git-lfs.github.com/spec/v1\n",
        photo()[:3000],
    ],
)
def test_what_is_no_image_has_no_copy(data):
    with pytest.raises(DataError):
        copy_of(data)


@pytest.mark.parametrize("size", [(65_000, 65_000), (9_000, 9_000), (2_000_000_000, 1)])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(size, monkeypatch):
    monkeypatch.setattr("PIL.Image.open", lambda *a, **k: pytest.fail("the bomb was opened"))
    with pytest.raises(MediaError, match="at most 64,000,000"):
        copy_of(png(*size))


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path):
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.write(photo(40, 40, "PNG"))
        file.truncate(thumbnails.MAX_FILE_BYTES + 1)
    with pytest.raises(MediaError, match="more than 67,108,864 bytes"):
        small_copy(Image(FileBlob(path)))


def test_a_pipe_in_the_place_of_an_image_does_not_stop_the_viewer(tmp_path):
    os.mkfifo(tmp_path / "image.png")
    with pytest.raises(DataError, match="not a regular file"):
        small_copy(Image(FileBlob(tmp_path / "image.png")))


def test_an_address_is_not_fetched_and_a_text_is_not_drawn():
    for part in (Image(UrlBlob("http://127.0.0.1:1/x.png")), Text("x")):
        with pytest.raises(DataError):
            small_copy(part)


def test_a_video_of_images_shows_its_first_frame():
    frames = tuple(Image(BytesBlob(str(side), photo(side, 50, "PNG"))) for side in (40, 80))
    assert Picture.open(io.BytesIO(small_copy(Video(frames=frames)).data)).size == (40, 50)


def test_a_copy_is_drawn_once_for_all_that_wait_for_it():
    cache, drawn, gate = ThumbnailCache(), [], threading.Event()

    def draw():
        drawn.append(1)
        assert gate.wait(600)
        return Thumbnail(b"x", "image/png")

    results = []
    threads = [threading.Thread(target=lambda: results.append(cache.get("ab", draw))) for _ in range(8)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(600)
    assert drawn == [1]
    assert results == [Thumbnail(b"x", "image/png")] * 8


def test_a_broken_image_is_read_once_and_its_error_is_kept():
    cache, reads = ThumbnailCache(), []

    def draw():
        reads.append(1)
        raise MediaError("damaged", "Fetch it again.")

    for _ in range(3):
        with pytest.raises(MediaError, match="damaged"):
            cache.get("ab", draw)
    assert reads == [1]


def test_the_cache_drops_the_least_recently_used_copies_beyond_its_budget():
    cache = ThumbnailCache(budget_bytes=10_000)
    for number in range(50):
        cache.get(f"{number}", lambda: Thumbnail(bytes(1_500), "image/png"))
        cache.get("0", lambda: Thumbnail(bytes(1_500), "image/png"))
        assert cache.held_bytes <= 10_000
    cache.get("0", lambda: pytest.fail("the copy in use was dropped"))
    drawn = []
    cache.get("1", lambda: drawn.append(1) or Thumbnail(b"", "image/png"))
    assert drawn == [1]


def test_a_copy_larger_than_the_budget_is_returned_and_not_kept():
    cache = ThumbnailCache(budget_bytes=1_000)
    assert len(cache.get("a", lambda: Thumbnail(bytes(2_000), "image/png")).data) == 2_000
    assert cache.held_bytes == 0


def test_at_most_two_images_are_decoded_at_a_time():
    cache, now, most, lock = ThumbnailCache(), [0], [0], threading.Lock()
    both = threading.Barrier(2)

    def draw():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        both.wait(600)
        threading.Event().wait(0.02)
        with lock:
            now[0] -= 1
        return Thumbnail(b"x", "image/png")

    threads = [threading.Thread(target=cache.get, args=(str(n), draw)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert most == [2]
