"""Images of a case: frames of videos as sent, unusual formats, broken and distant images, and the limits of the store."""

from __future__ import annotations

import io

import pytest
from case_runs import photo
from PIL import Image as Picture

from media.clips import clip
from snellen.media import frames
from snellen.media.decode import MaskedImage
from snellen.media.encode import compress
from snellen.sources.blobs import BytesBlob, UrlBlob
from snellen.types import Image, MediaSettings, Text, Video
from snellen.viewer.cases.pictures import MAX_PICTURES, ImageStore, Sender, shown_pictures


def blob(data: bytes, key: str = "x") -> BytesBlob:
    return BytesBlob(key, data)


def test_frames_of_a_clip_are_those_that_were_sent_with_their_digests():
    from hashlib import sha256

    video = Video(blob(clip(30)))
    sent = [sha256(frame.blob.read()).hexdigest() for frame in frames(video, MediaSettings(frames=4))]
    store = ImageStore()
    shown = shown_pictures([Text("Which?"), video], [Sender("A", MediaSettings(frames=4), tuple(sent))], store)
    assert [picture.label for picture in shown] == [
        f"video 1, frame {number} of 4, {at} s" for number, at in enumerate(("0.0", "0.9", "1.9", "2.9"), 1)
    ]
    assert [picture.original.digest for picture in shown] == sent
    assert {picture.sent[0].recorded for picture in shown} == {"equal"}
    other = shown_pictures([video], [Sender("A", MediaSettings(frames=4), ("0" * 64,) * 4)], store)
    assert {picture.sent[0].recorded for picture in other} == {"differs"}


def test_runs_with_other_frames_have_frames_of_their_own():
    video = Video(blob(clip(30)))
    senders = [Sender("A", MediaSettings(frames=2)), Sender("B", MediaSettings(frames=3))]
    labels = [picture.label for picture in shown_pictures([video], senders, ImageStore())]
    assert (
        labels[0] == "video 1, frame 1 of 2 of A, 0.0 s"
        and labels[-1] == "video 1, frame 3 of 3 of B, 2.9 s"
        and len(labels) == 5
    )


def test_a_clip_that_was_sent_as_its_file_says_so():
    shown = shown_pictures([Video(blob(clip(12)))], [Sender("A", MediaSettings(video="native"))], ImageStore())
    assert "sent as a file" in shown[-1].note and shown[0].sent == ()


def test_a_drawn_clip_shows_its_images():
    drawn = Video(frames=tuple(Image(blob(photo(number), f"f{number}")) for number in range(3)))
    shown = shown_pictures([drawn], [Sender("A", MediaSettings())], ImageStore())
    assert [picture.original.width for picture in shown] == [96, 96, 96]


def test_an_image_with_a_mask_is_shown_as_it_was_sent():
    image, mask = Picture.new("RGB", (8, 6), (0, 99, 0)), Picture.new("L", (8, 6))
    mask.paste(255, (0, 0, 4, 6))
    masked = MaskedImage(blob(compress(image, "png", 100)), blob(compress(mask, "png", 100)))
    media = MediaSettings(corrupt="grey@object", mask="outline")
    (shown,) = shown_pictures([Image(masked)], [Sender("A", media)], ImageStore())
    assert shown.sent[0].file is not None and "grey@object" in shown.sent[0].changes, shown


def test_a_format_that_browsers_do_not_show_is_drawn_as_png():
    out = io.BytesIO()
    Picture.open(io.BytesIO(photo(1))).save(out, "BMP")
    store = ImageStore()
    (shown,) = shown_pictures([Image(blob(out.getvalue()))], [Sender("A", MediaSettings())], store)
    assert shown.original.drawn and store.get(shown.original.digest)[1] == "image/png"
    assert shown.sent[0].file is not None and "bmp" in shown.sent[0].changes


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"<svg onload=alert(1)>"])
def test_an_image_that_cannot_be_read_is_a_note_without_its_key(data):
    (shown,) = shown_pictures([Image(blob(data, "/home/ada/secret.png"))], [], ImageStore())
    assert shown.original is None and "not shown" in shown.note and "ada" not in shown.note


def test_an_image_behind_an_address_is_not_fetched():
    part = Image(UrlBlob("http://127.0.0.1:9/never.png"))
    (shown,) = shown_pictures([part], [], ImageStore())
    assert "not fetched" in shown.note


def test_a_bomb_is_refused_before_it_is_decoded():
    out = io.BytesIO()
    Picture.new("1", (20_000, 20_000)).save(out, "PNG")
    (shown,) = shown_pictures([Image(blob(out.getvalue()))], [], ImageStore())
    assert shown.original is None and shown.note


def test_many_images_are_cut_with_a_count():
    parts = [Image(blob(photo(number), str(number))) for number in range(MAX_PICTURES + 3)]
    shown = shown_pictures(parts, [], ImageStore())
    assert len(shown) == MAX_PICTURES + 1 and shown[-1].note.startswith("3 more")


def test_the_store_keeps_within_its_budget_and_forgets_the_oldest():
    store = ImageStore(1_000)
    digests = [store.add(bytes([number]) * 400, "image/png") for number in range(4)]
    assert [store.get(digest) is not None for digest in digests] == [False, False, True, True]
    assert store.get("../../etc/passwd") is None
