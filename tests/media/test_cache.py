import asyncio
import base64
import hashlib
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as pillow

from snellen.errors import DataError, MediaError
from snellen.media import MediaCache, describe, encode, read_header
from snellen.sources import BytesBlob, Drawn, FileBlob
from snellen.types import Image, MediaSettings

UNTOUCHED = MediaSettings()


def photo(kind: str = "JPEG", size: tuple[int, int] = (320, 240), mode: str = "RGB", **options: object) -> bytes:
    noise = np.random.default_rng(3).integers(0, 255, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    out = BytesIO()
    pillow.fromarray(noise).resize(size).convert(mode).save(out, kind, **options)
    return out.getvalue()


class Counted:
    """A drawing that counts how often it is drawn."""

    def __init__(self, key: str = "drawn/1", pause_s: float = 0.05) -> None:
        self.key, self.pause_s, self.reads, self.threads = key, pause_s, 0, set()

    def read(self) -> bytes:
        self.reads += 1
        self.threads.add(threading.current_thread().name)
        time.sleep(self.pause_s)
        return photo()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_original_bytes_go_out_untouched_when_nothing_has_to_change(kind):
    data = photo(kind)
    for settings in (UNTOUCHED, MediaSettings(max_long_side=320, max_pixels=320 * 240)):
        sent = MediaCache(settings).get(Image(BytesBlob("a", data)))
        assert sent.data == data
        assert sent.mime == f"image/{kind.lower()}"
        assert sent.data_uri == f"data:image/{kind.lower()};base64,".encode() + base64.b64encode(data)
        assert sent.digest == hashlib.sha256(data).hexdigest()
        assert (sent.width, sent.height, sent.changed) == (320, 240, "")


def test_transparency_alone_is_no_reason_to_change_a_picture():
    data = photo("PNG", mode="RGBA")
    assert encode(BytesBlob("a", data), UNTOUCHED).data == data


@pytest.mark.parametrize(
    ("data", "mime", "why"),
    [
        (photo("BMP"), "image/png", "bmp is not accepted"),
        (photo("TIFF"), "image/png", "tiff is not accepted"),
        (photo("JPEG", mode="CMYK"), "image/jpeg", "CMYK"),
    ],
)
def test_what_servers_do_not_read_alike_is_made_so_and_said(data, mime, why):
    sent = encode(BytesBlob("a", data), UNTOUCHED)
    assert sent.mime == mime and why in sent.changed
    header = read_header(sent.data)
    assert header is not None and header.plain and header.complete and header.upright_size == (320, 240)


def test_a_photograph_with_an_exif_turn_is_sent_upright():
    exif = pillow.Exif()
    exif[0x0112] = 6
    sent = encode(BytesBlob("a", photo(exif=exif.tobytes())), UNTOUCHED)
    assert (sent.width, sent.height, sent.changed) == (240, 320, "Exif orientation 6")
    opened = pillow.open(BytesIO(sent.data))
    assert opened.size == (240, 320) and opened.getexif().get(0x0112, 1) == 1


def test_an_animation_is_sent_as_its_first_frame():
    out = BytesIO()
    pillow.new("RGB", (20, 10), "red").save(
        out, "GIF", save_all=True, append_images=[pillow.new("RGB", (20, 10), "blue")]
    )
    sent = encode(BytesBlob("a", out.getvalue()), UNTOUCHED)
    assert sent.mime == "image/png"
    assert pillow.open(BytesIO(sent.data)).getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.parametrize(("kind", "mime"), [("JPEG", "image/jpeg"), ("PNG", "image/png"), ("WEBP", "image/webp")])
def test_a_picture_over_the_limits_is_made_smaller_in_its_own_format(kind, mime):
    sent = encode(BytesBlob("a", photo(kind)), MediaSettings(max_long_side=100))
    assert (sent.mime, sent.width, sent.height, sent.changed) == (mime, 100, 75, "over the size limits")
    assert pillow.open(BytesIO(sent.data)).size == (100, 75)


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_a_named_format_encodes_anew_at_the_quality_asked_for(kind):
    low = encode(BytesBlob("a", photo()), MediaSettings(format=kind, quality=20))
    high = encode(BytesBlob("a", photo()), MediaSettings(format=kind, quality=95))
    assert low.mime == high.mime == f"image/{kind}"
    assert len(low.data) == len(high.data) if kind == "png" else len(low.data) < len(high.data)


def test_encoding_is_the_same_to_the_byte_every_time():
    for settings in (MediaSettings(max_long_side=99), MediaSettings(format="png"), MediaSettings(format="webp")):
        assert encode(BytesBlob("a", photo()), settings).data_uri == encode(BytesBlob("b", photo()), settings).data_uri


def test_the_blind_control_is_sent_flat_and_in_the_same_size():
    sent = encode(BytesBlob("a", photo()), MediaSettings(max_long_side=100, blank=True))
    shown = pillow.open(BytesIO(sent.data))
    assert shown.size == (100, 75) and shown.getextrema() == ((128, 128),) * 3


def test_a_truncated_original_is_an_error_and_is_not_sent():
    for kind in ("JPEG", "PNG", "WEBP", "GIF"):
        with pytest.raises(MediaError, match="birds/9"):
            encode(BytesBlob("birds/9", photo(kind)[:-400]), UNTOUCHED)


def test_a_whole_picture_with_bytes_after_it_is_still_sent_untouched():
    for data in (photo() + b"\0" * 50, photo("PNG") + b"tail"):
        assert encode(BytesBlob("a", data), UNTOUCHED).data == data


def test_sixty_four_questions_at_once_on_one_picture_draw_it_once():
    blob = Counted()
    cache = MediaCache(MediaSettings(max_long_side=64))

    async def ask():
        return await asyncio.gather(*(cache.fetch(Image(blob)) for _ in range(64)))

    sent = asyncio.run(ask())
    assert blob.reads == 1 and cache.made == 1
    assert all(one is sent[0] for one in sent)
    assert cache.get(Image(blob)) is sent[0]


def test_threads_that_ask_at_once_get_one_encoding():
    blob, cache, sent = Counted(), MediaCache(UNTOUCHED), []
    threads = [threading.Thread(target=lambda: sent.append(cache.get(Image(blob)))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert len(sent) == 16 and blob.reads == 1


def test_drawing_does_not_hold_up_the_event_loop():
    turned = threading.Event()

    class Waiting(Counted):
        def read(self):
            assert turned.wait(600), "the loop stood still while a picture was drawn"
            return super().read()

    blob, cache = Waiting(), MediaCache(UNTOUCHED)

    async def ask():
        fetching = asyncio.create_task(cache.fetch(Image(blob)))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not fetching.done()
        turned.set()
        await fetching

    asyncio.run(ask())
    assert all(name.startswith("media") for name in blob.threads)


def test_a_small_original_in_memory_or_on_disk_is_ready_without_leaving_the_loop(tmp_path):
    (tmp_path / "a.jpg").write_bytes(photo())
    for blob in (BytesBlob("a", photo()), FileBlob(tmp_path / "a.jpg")):
        step = MediaCache(UNTOUCHED).fetch(Image(blob))
        with pytest.raises(StopIteration) as done:
            step.send(None)  # a coroutine that never waits ends at its first step
        assert done.value.value.data == photo()


def test_one_question_that_is_cancelled_does_not_take_the_picture_from_the_others():
    cancelled_one = threading.Event()

    class Waiting(Counted):
        def read(self):
            assert cancelled_one.wait(600)
            return super().read()

    blob, cache = Waiting(), MediaCache(UNTOUCHED)

    async def ask():
        first, second = (asyncio.create_task(cache.fetch(Image(blob))) for _ in range(2))
        await asyncio.sleep(0.02)
        first.cancel()
        await asyncio.sleep(0)
        cancelled_one.set()
        return await second, first.cancelled()

    sent, cancelled = asyncio.run(ask())
    assert sent.width == 320 and cancelled and blob.reads == 1


def test_everyone_who_waits_for_a_broken_picture_hears_of_it_and_it_may_be_asked_for_again():
    cache = MediaCache(UNTOUCHED)
    broken = Image(Drawn("drawn/broken", lambda: b"no picture"))

    async def ask():
        return await asyncio.gather(*(cache.fetch(broken) for _ in range(8)), return_exceptions=True)

    for _ in range(2):
        assert all(isinstance(error, MediaError) for error in asyncio.run(ask()))
    with pytest.raises(MediaError, match="drawn/broken"):
        cache.get(broken)


def test_a_missing_file_is_named():
    with pytest.raises(DataError, match=r"gone\.jpg"):
        MediaCache(UNTOUCHED).get(Image(FileBlob(Path("gone.jpg"))))


def test_the_cache_stays_within_its_budget_and_drops_the_least_recently_used():
    one = len(encode(BytesBlob("x", photo()), UNTOUCHED).data_uri)
    cache = MediaCache(UNTOUCHED, budget_bytes=int(3.5 * (one + 1024)))
    pictures = [Image(BytesBlob(f"p{number}", photo())) for number in range(5)]
    kept = [cache.get(picture) for picture in pictures[:3]]
    assert cache.get(pictures[0]) is kept[0]
    cache.get(pictures[3])
    assert cache.held_bytes <= 3.5 * (one + 1024)
    assert cache.get(pictures[0]) is kept[0]
    assert cache.get(pictures[1]) is not kept[1]


def test_a_picture_larger_than_the_budget_is_handed_out_and_not_kept():
    cache = MediaCache(UNTOUCHED, budget_bytes=100)
    assert cache.get(Image(BytesBlob("a", photo()))).data == photo()
    assert cache.held_bytes == 0


def test_the_cache_works_from_one_event_loop_after_another_and_after_closing():
    cache = MediaCache(UNTOUCHED, budget_bytes=0)
    for _ in range(2):
        assert asyncio.run(cache.fetch(Image(Counted(pause_s=0)))).width == 320
        cache.close()


def test_the_record_names_decoder_resampler_and_versions_and_every_setting():
    record = describe(MediaSettings(max_long_side=7))
    assert record["settings"] == {
        "max_long_side": 7,
        "max_pixels": None,
        "format": "original",
        "quality": 90,
        "frames": None,
        "blank": False,
        "fps": None,
        "min_frames": None,
        "max_frames": None,
        "frame_places": None,
        "timestamps": None,
        "video": "frames",
        "min_pixels": None,
        "resize": "",
        "corrupt": "",
        "mask": "",
        "window": "file",
        "bands": "",
    }
    assert record["frames"] != describe(MediaSettings(fps=1.0))["frames"]
    assert record["jpeg_decoder"].startswith("simplejpeg ") and "bicubic" in record["resampler"]


def test_sending_originals_imports_no_imaging_library():
    script = """if True:
        import asyncio, sys
        from snellen.media import MediaCache, describe
        from snellen.sources import BytesBlob
        from snellen.types import Image, MediaSettings
        asyncio.run(MediaCache(MediaSettings()).fetch(Image(BytesBlob("a", sys.stdin.buffer.read()))))
        describe(MediaSettings())
        print([name for name in ("PIL", "numpy", "simplejpeg", "av", "torch") if name in sys.modules])
    """
    run = subprocess.run([sys.executable, "-c", script], input=photo(), capture_output=True, timeout=600, check=True)
    assert run.stdout.strip() == b"[]"
