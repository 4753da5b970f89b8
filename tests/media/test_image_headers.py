from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.media import read_header


def saved(mode: str, kind: str, size: tuple[int, int] = (37, 21), **options: object) -> bytes:
    out = BytesIO()
    noise = np.random.default_rng(5).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    pillow.fromarray(noise).convert(mode).save(out, kind, **options)
    return out.getvalue()


def with_orientation(kind: str, orientation: int) -> bytes:
    exif = pillow.Exif()
    exif[0x0112] = orientation
    return saved("RGB", kind, exif=exif.tobytes())


@pytest.mark.parametrize(
    ("mode", "kind", "options"),
    [
        ("RGB", "JPEG", {}),
        ("RGB", "JPEG", {"progressive": True}),
        ("L", "JPEG", {}),
        ("RGB", "PNG", {}),
        ("RGBA", "PNG", {}),
        ("P", "PNG", {}),
        ("1", "PNG", {}),
        ("RGB", "WEBP", {}),
        ("RGBA", "WEBP", {}),
        ("RGB", "WEBP", {"lossless": True}),
        ("P", "GIF", {}),
    ],
)
def test_a_picture_that_servers_read_alike_is_plain_complete_and_of_its_size(mode, kind, options):
    header = read_header(saved(mode, kind, **options))
    assert (header.format, header.width, header.height) == (kind.lower(), 37, 21)
    assert header.plain and header.complete and header.orientation == 1


@pytest.mark.parametrize("kind", ["BMP", "TIFF"])
def test_a_format_that_servers_refuse_is_known_and_not_plain(kind):
    header = read_header(saved("RGB", kind))
    assert (header.format, header.width, header.height, header.plain) == (kind.lower(), 37, 21, False)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_the_exif_orientation_is_found_in_every_format_that_has_one(kind, orientation):
    header = read_header(with_orientation(kind, orientation))
    assert header is not None and header.orientation == orientation
    assert header.upright_size == ((21, 37) if orientation in (6, 8) else (37, 21))


def test_cmyk_sixteen_bits_and_animations_are_not_plain():
    deep = BytesIO()
    pillow.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(deep, "PNG")
    moving = {}
    for kind in ("GIF", "PNG", "WEBP"):
        out = BytesIO()
        still = [pillow.new("RGB", (9, 7), colour) for colour in ("red", "blue", "green")]
        still[0].save(out, kind, save_all=True, append_images=still[1:])
        moving[kind] = out.getvalue()
    for data in (saved("CMYK", "JPEG"), deep.getvalue(), *moving.values()):
        header = read_header(data)
        assert header is not None and not header.plain


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_a_picture_without_its_end_is_not_called_complete(kind):
    data = saved("P" if kind == "GIF" else "RGB", kind, (200, 160))
    for cut in (len(data) // 2, len(data) - 20):
        header = read_header(data[:cut])
        assert header is not None and not header.complete


def test_stray_bytes_between_the_segments_of_a_jpeg_are_skipped_as_decoders_do():
    data = saved("RGB", "JPEG")
    header = read_header(data[:2] + data[2:].replace(b"\xff\xdb", b"\0\0\xff\xdb", 1))
    assert header is not None and (header.width, header.height) == (37, 21)


def test_a_thumbnail_in_exif_does_not_pass_for_the_end_of_a_jpeg():
    exif = pillow.Exif()
    exif[0x010E] = "x\xff\xd9y"
    data = saved("RGB", "JPEG", (300, 200), exif=exif.tobytes())
    header = read_header(data[: len(data) // 2])
    assert header is not None and not header.complete


@settings(deadline=None)
@given(
    st.binary(max_size=300),
    st.sampled_from([b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"II*\0", b"MM\0*", b""]),
)
def test_any_bytes_at_all_give_a_header_or_none(data, start):
    header = read_header(start + data)
    assert header is None or header.orientation in range(1, 9)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_picture_gives_a_header_or_none(data):
    kind = data.draw(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "TIFF"]))
    whole = bytearray(with_orientation(kind, 6) if kind != "GIF" else saved("P", "GIF"))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, min(len(whole), 200) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(bytes(whole))
    assert header is None or (header.width >= 0 and header.height >= 0)
