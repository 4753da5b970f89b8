"""HEIC, AVIF and JPEG XL: decoded upright within the bounds, and sent as PNG."""

from __future__ import annotations

import sys
from io import BytesIO

import numpy as np
import pillow_heif
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.errors import MediaError, MissingExtraError
from snellen.media import encode, open_image, read_header
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings

pillow_heif.register_heif_opener()
import pillow_jxl  # noqa: E402, F401

KINDS = {"heic": "HEIF", "avif": "AVIF", "jxl": "JXL"}
PICTURE = pillow.merge("RGB", [pillow.linear_gradient("L").resize((60, 40)).rotate(angle) for angle in (0, 90, 180)])


def drawn(kind: str, image: pillow.Image = PICTURE, orientation: int = 1, **options: object) -> bytes:
    exif = pillow.Exif()
    exif[0x0112] = orientation
    out = BytesIO()
    best = {
        "heic": {"quality": -1, "chroma": 444},
        "avif": {"quality": 100, "subsampling": "4:4:4"},
        "jxl": {"lossless": True},
    }
    image.save(out, KINDS[kind], exif=exif.tobytes(), **best[kind], **options)
    return out.getvalue()


def shown(data: bytes, media: MediaSettings | None = None) -> np.ndarray:
    return np.asarray(open_image(Image(BytesBlob("a", data)), media or MediaSettings())).astype(int)


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_that_were_drawn_and_it_is_sent_as_png(kind):
    data = drawn(kind)
    header = read_header(data)
    assert (header.format, header.width, header.height) == (kind, 60, 40)
    assert np.abs(shown(data) - np.asarray(PICTURE)).max() <= 3
    sent = encode(BytesBlob("a", data), MediaSettings())
    assert (sent.mime, sent.changed) == ("image/png", f"{kind} is not accepted by model servers")
    assert np.array_equal(np.asarray(pillow.open(BytesIO(sent.data))), shown(data))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["heic", "avif"])
def test_orientation_is_applied_once(kind, orientation):
    upright = PICTURE
    for method in {2: [0], 3: [3], 4: [1], 5: [5], 6: [4], 7: [6], 8: [2]}.get(orientation, []):
        upright = upright.transpose(pillow.Transpose(method))
    data = drawn(kind, orientation=orientation)
    assert read_header(data).upright_size == upright.size
    assert np.abs(shown(data) - np.asarray(upright)).max() <= 3


def test_exif_does_not_turn_a_jpeg_xl_whose_codestream_stands_upright():
    data = drawn("jxl", orientation=6)
    assert read_header(data).upright_size == (60, 40)
    assert np.array_equal(shown(data), np.asarray(PICTURE))


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (256, 256), (300, 250), (16, 9), (513, 7), (5, 9000)])
def test_the_size_of_a_jpeg_xl_is_read_without_its_decoder(size):
    header = read_header(drawn("jxl", pillow.new("RGB", size, (9, 99, 199))))
    assert (header.width, header.height) == size


@pytest.mark.parametrize("kind", KINDS)
def test_transparency_is_shown_over_white(kind):
    data = drawn(kind, pillow.new("RGBA", (16, 16), (255, 0, 0, 0)))
    assert shown(data).min() >= 252


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_over_the_limit_is_refused_before_it_is_decoded(kind):
    with pytest.raises(MediaError, match=r"60 x 40 pixels; at most 2,399"):
        open_image(Image(BytesBlob("a", drawn(kind))), MediaSettings(), 2399)


@pytest.mark.parametrize(("kind", "package"), [("heic", "pillow_heif"), ("jxl", "pillow_jxl")])
def test_without_the_extra_the_error_names_it(kind, package, monkeypatch):
    data = drawn(kind)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=package) as caught:
        shown(data)
    assert "images" in caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_file_is_an_error_or_an_image_within_the_limit(kind, data):
    content = bytearray(drawn(kind))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        image = open_image(
            Image(BytesBlob("a", bytes(content[: data.draw(st.integers(1, len(content)))]))), MediaSettings(), 10_000
        )
    except MediaError:
        return
    assert image.width * image.height <= 10_000
