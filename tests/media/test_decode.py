import struct
import subprocess
import sys
import tracemalloc
import zlib
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.errors import MediaError, UsageError
from snellen.media import check_settings, encode, fitted, open_image, pixel_limit
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings

AS_IT_IS = MediaSettings()


def image(data: bytes, key: str = "birds/7.png") -> Image:
    return Image(BytesBlob(key, data))


def saved(picture: pillow.Image, kind: str, **options: object) -> bytes:
    out = BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def quarters() -> pillow.Image:
    """Red, green / blue, white: shows every turn and flip."""
    picture = pillow.new("RGB", (64, 32), "white")
    for box, colour in (((0, 0), "red"), ((32, 0), "lime"), ((0, 16), "blue")):
        picture.paste(colour, (*box, box[0] + 32, box[1] + 16))
    return picture


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    body = zlib.compress(bytes(100_000), 9)
    ihdr = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", ihdr) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr", "LAB", "I", "F", "I;16"])
def test_every_mode_comes_out_as_rgb_of_the_same_size(mode):
    if mode == "I;16":
        picture = pillow.fromarray(np.full((9, 13), 40_000, np.uint16))
    elif mode == "LAB":
        picture = pillow.frombytes("LAB", (13, 9), bytes([128, 128, 128]) * 117)
    else:
        picture = pillow.new("RGB", (13, 9), (200, 100, 50)).convert(mode)
    opened = open_image(image(saved(picture, "TIFF")), AS_IT_IS)
    assert (opened.mode, opened.size) == ("RGB", (13, 9))


def test_transparency_is_laid_over_white_with_an_alpha_channel_a_palette_and_a_grey_key():
    clear_red = pillow.new("RGBA", (8, 8), (255, 0, 0, 0))
    half_black = pillow.new("LA", (8, 8), (0, 128))
    palette = pillow.new("P", (8, 8), 0)
    palette.putpalette([255, 0, 0] + [0, 0, 255] * 255)
    keyed = pillow.new("L", (8, 8), 7)
    assert open_image(image(saved(clear_red, "PNG")), AS_IT_IS).getpixel((3, 3)) == (255, 255, 255)
    assert open_image(image(saved(half_black, "PNG")), AS_IT_IS).getpixel((3, 3)) == (127, 127, 127)
    assert open_image(image(saved(palette, "PNG", transparency=0)), AS_IT_IS).getpixel((3, 3)) == (255, 255, 255)
    assert open_image(image(saved(palette, "PNG")), AS_IT_IS).getpixel((3, 3)) == (255, 0, 0)
    assert open_image(image(saved(keyed, "PNG", transparency=7)), AS_IT_IS).getpixel((3, 3)) == (255, 255, 255)


def test_sixteen_bits_are_shown_from_lowest_to_highest_and_are_not_clipped_to_white():
    ramp = np.array([[0, 255, 256, 32_768, 65_535]], np.uint16)
    opened = open_image(image(saved(pillow.fromarray(ramp), "PNG")), AS_IT_IS)
    assert [opened.getpixel((x, 0))[0] for x in range(5)] == [0, 1, 1, 128, 255]


def test_float_pixels_are_stretched_from_lowest_to_highest():
    opened = open_image(image(saved(pillow.fromarray(np.array([[-1.0, 0.0, 3.0]], np.float32)), "TIFF")), AS_IT_IS)
    assert [opened.getpixel((x, 0))[0] for x in range(3)] == [0, 64, 255]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_shown_upright(kind, orientation):
    stored = quarters()
    if orientation != 1:  # store the picture turned the other way round
        inverse = {6: 8, 8: 6}.get(orientation, orientation)
        names = {
            2: pillow.Transpose.FLIP_LEFT_RIGHT,
            3: pillow.Transpose.ROTATE_180,
            4: pillow.Transpose.FLIP_TOP_BOTTOM,
            5: pillow.Transpose.TRANSPOSE,
            6: pillow.Transpose.ROTATE_270,
            7: pillow.Transpose.TRANSVERSE,
            8: pillow.Transpose.ROTATE_90,
        }
        stored = stored.transpose(names[inverse])
    exif = pillow.Exif()
    exif[0x0112] = orientation
    opened = open_image(image(saved(stored, kind, exif=exif.tobytes(), quality=95)), AS_IT_IS)
    assert opened.size == (64, 32)
    for at, colour in (
        ((8, 6), (255, 0, 0)),
        ((56, 6), (0, 255, 0)),
        ((8, 26), (0, 0, 255)),
        ((56, 26), (255, 255, 255)),
    ):
        assert max(abs(a - b) for a, b in zip(opened.getpixel(at), colour, strict=True)) < 30


def test_simplejpeg_and_pillow_agree_on_a_jpeg():
    noise = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    data = saved(pillow.fromarray(noise), "JPEG", quality=85)
    ours = np.asarray(open_image(image(data), AS_IT_IS)).astype(int)
    assert np.abs(ours - np.asarray(pillow.open(BytesIO(data)).convert("RGB")).astype(int)).max() <= 2


@settings(deadline=None)
@given(
    st.integers(1, 20_000),
    st.integers(1, 20_000),
    st.none() | st.integers(1, 5_000),
    st.none() | st.integers(1, 5_000_000),
)
def test_limits_are_kept_nothing_grows_and_the_shape_stays(width, height, long, area):
    wide, high = fitted(width, height, MediaSettings(max_long_side=long, max_pixels=area))
    assert 1 <= wide <= width and 1 <= high <= height
    assert long is None or max(wide, high) <= max(long, 1)
    assert area is None or wide * high <= area
    if wide > 50 and high > 50:
        assert wide / high == pytest.approx(width / height, rel=0.05)
    if (long is None or max(width, height) <= long) and (area is None or width * height <= area):
        assert (wide, high) == (width, height)


def test_the_rounding_rule_is_the_documented_one():
    assert fitted(4000, 3000, MediaSettings(max_long_side=1600)) == (1600, 1200)
    assert fitted(1001, 667, MediaSettings(max_long_side=500)) == (500, 333)
    assert fitted(3, 2000, MediaSettings(max_long_side=100)) == (1, 100)
    assert fitted(1000, 1000, MediaSettings(max_pixels=802_816)) == (896, 896)
    assert fitted(1, 1_000_000, MediaSettings(max_pixels=100)) == (1, 100)


@settings(deadline=None)
@given(st.integers(28, 3000), st.integers(28, 3000), st.integers(1, 4_000_000))
def test_an_enlarged_picture_is_what_qwens_processor_makes_of_it_with_the_same_minimum(width, height, least):
    processor = pytest.importorskip("transformers.models.qwen2_vl.image_processing_qwen2_vl")

    def processed(width: int, height: int, least: int) -> tuple[int, int]:
        high, wide = processor.smart_resize(height, width, factor=28, min_pixels=least, max_pixels=1 << 40)
        return wide, high

    sent = fitted(width, height, MediaSettings(min_pixels=least))
    assert processed(*sent, 1) == processed(width, height, least)
    assert sent == (width, height) or sent[0] * sent[1] >= least


def test_the_least_pixels_of_site_and_a_size_without_the_shape():
    # 640 x 480 has 307,200 pixels: times sqrt(1280 * 28 * 28 / 307,200) = 1.807, in steps of 28.
    assert fitted(640, 480, MediaSettings(min_pixels=1280 * 28 * 28)) == (1176, 868)
    assert fitted(640, 480, MediaSettings(min_pixels=256 * 28 * 28)) == (640, 480)
    assert fitted(4000, 3000, MediaSettings(min_pixels=10_000, max_pixels=10_000)) == (115, 86)
    assert fitted(640, 480, MediaSettings(resize="448x336")) == (448, 336)
    data = saved(quarters(), "PNG")
    sent = encode(BytesBlob("a", data), MediaSettings(min_pixels=56 * 56))
    assert (sent.width, sent.height, sent.changed) == (84, 56, "under the size limits")
    sent = encode(BytesBlob("a", data), MediaSettings(resize="40x40"))
    assert (sent.width, sent.height, sent.changed) == (40, 40, "resized to 40x40")


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (MediaSettings(min_pixels=10, max_pixels=9), "--min-pixels 10 is more than --max-pixels 9"),
        (MediaSettings(min_pixels=1 << 40), "is more than 268,435,456"),
        (MediaSettings(resize="448"), "--resize 448: width and height in pixels were expected"),
        (MediaSettings(resize="0x4"), "--resize 0x4: width and height"),
        (MediaSettings(resize="4x99999"), "--resize 4x99999: width and height"),
        (MediaSettings(resize="4x4", max_pixels=9), "--max-pixels would have no effect"),
        (MediaSettings(resize="4x4", video="native"), "--resize would change it"),
    ],
)
def test_sizes_that_are_none_or_contradict_each_other_are_refused(wrong, fault):
    with pytest.raises(UsageError, match=fault):
        check_settings(wrong)


def test_a_small_picture_is_never_enlarged():
    data = saved(quarters(), "PNG")
    assert open_image(image(data), MediaSettings(max_long_side=5000, max_pixels=10**8)).size == (64, 32)


def test_the_blind_control_is_flat_grey_of_the_size_that_would_have_been_shown():
    exif = pillow.Exif()
    exif[0x0112] = 6
    data = saved(quarters(), "JPEG", exif=exif.tobytes())
    grey = open_image(image(data), MediaSettings(max_long_side=40, blank=True))
    assert grey.size == (20, 40)
    assert grey.getextrema() == ((128, 128),) * 3


def test_a_png_header_of_fifty_thousand_squared_fails_at_once_and_takes_no_memory():
    data = png_header(50_000, 50_000)
    open_image(image(saved(quarters(), "PNG")), AS_IT_IS)  # imports are not what is measured
    tracemalloc.start()
    with pytest.raises(MediaError, match=r"birds/7\.png: its header says 50000 x 50000 pixels; at most 200,000,000"):
        open_image(image(data), AS_IT_IS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_process_that_meets_the_huge_png_header_stays_small(tmp_path):
    (tmp_path / "huge.png").write_bytes(png_header(50_000, 50_000))
    script = """if True:
        import sys
        from pathlib import Path
        from snellen.errors import MediaError
        from snellen.media import MediaCache, open_image
        from snellen.sources import FileBlob
        from snellen.types import Image, MediaSettings
        picture = Image(FileBlob(Path(sys.argv[1])))
        for settings in (MediaSettings(), MediaSettings(max_long_side=100), MediaSettings(blank=True)):
            for ask in (lambda: MediaCache(settings).get(picture), lambda: open_image(picture, settings)):
                try:
                    ask()
                except MediaError:
                    print("refused")
        print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "huge.png")],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    *refused, peak = run.stdout.split()
    assert refused == ["refused"] * 6
    assert int(peak) < 150_000  # kB; a decoded picture of that size would be 7,500,000


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_picture_cut_off_in_the_middle_is_an_error_that_names_it(kind):
    noise = np.random.default_rng(1).integers(0, 255, (120, 160, 3), dtype=np.uint8)
    data = saved(pillow.fromarray(noise), kind)
    for cut in (0, 4, 40, len(data) // 2, len(data) * 9 // 10):
        with pytest.raises(MediaError, match=r"birds/7\.png"):
            open_image(image(data[:cut]), AS_IT_IS)


@pytest.mark.parametrize(
    "data",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.4",
        b"P6\n1 1\n255\nabc",
        b"8BPS\0\1",
        b"\0\0\0\x20ftypheic",
        b"x",
    ],
)
def test_only_the_accepted_formats_reach_a_decoder(data):
    with pytest.raises(MediaError, match="JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG XL or DICOM was expected"):
        open_image(image(data), AS_IT_IS)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_picture_decodes_or_is_a_media_error_and_nothing_else(data):
    kind = data.draw(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"]))
    noise = np.random.default_rng(2).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    whole = bytearray(saved(pillow.fromarray(noise), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        opened = open_image(image(bytes(whole)), MediaSettings(max_pixels=10_000), limit=1_000_000)
    except MediaError as error:
        assert "birds/7.png" in str(error)
    else:
        assert opened.mode == "RGB"


def test_the_limit_may_be_set_by_the_environment_and_by_argument(monkeypatch):
    data = saved(quarters(), "PNG")
    with pytest.raises(MediaError, match="at most 2,000 in all"):
        open_image(image(data), AS_IT_IS, limit=2_000)
    monkeypatch.setenv("SNELLEN_MAX_IMAGE_PIXELS", "1000")
    with pytest.raises(MediaError, match="at most 1,000 in all"):
        open_image(image(data), AS_IT_IS)
    monkeypatch.setenv("SNELLEN_MAX_IMAGE_PIXELS", "lots")
    with pytest.raises(MediaError, match="SNELLEN_MAX_IMAGE_PIXELS is 'lots'"):
        pixel_limit()


def test_pillows_own_guards_stay_on():
    open_image(image(saved(quarters(), "PNG")), AS_IT_IS)
    assert pillow.MAX_IMAGE_PIXELS is not None
    bomb = pillow.new("1", (16, 16))
    text = BytesIO()
    from PIL.PngImagePlugin import PngInfo

    note = PngInfo()
    note.add_text("comment", "a" * (70 << 20), zip=True)
    bomb.save(text, "PNG", pnginfo=note)
    with pytest.raises(MediaError):
        open_image(image(text.getvalue()), AS_IT_IS)


def progressive(side: int, repeats: int) -> bytes:
    """A progressive JPEG of one colour whose last scan is there `repeats` times more."""
    data = saved(pillow.new("RGB", (side, side)), "jpeg", progressive=True, quality=5)
    start, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    return data[:end] + data[start:end] * repeats + data[end:]


@pytest.mark.parametrize(("side", "repeats"), [(16, 1_000), (9_000, 60)])
def test_a_jpeg_with_more_scans_than_any_encoder_writes_is_refused(side, repeats):
    with pytest.raises(MediaError, match=r"7\.png: a JPEG of [\d,]+ x [\d,]+ pixels in [\d,]+ scans"):
        open_image(image(progressive(side, repeats)), MediaSettings(max_long_side=64))
    assert open_image(image(progressive(side // 10 + 8, 8)), AS_IT_IS).size == (side // 10 + 8,) * 2
