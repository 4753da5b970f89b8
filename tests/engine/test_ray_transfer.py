"""Pictures travel as places, and as bytes where the place is not seen."""

from __future__ import annotations

import os
import pickle
import tarfile
import zipfile
from functools import partial

import pytest

from snellen.engine.ray.transfer import FilePlace, packed, packed_prompt, unpacked, unpacked_prompt
from snellen.errors import DataError
from snellen.media.decode import MaskedImage
from snellen.media.video import Frame
from snellen.sources import BytesBlob, Drawn, FileBlob, open_tree
from snellen.types import Blob, Image, MediaSettings, Prompt, Text, Video


def sent(blob: Blob, by_value: bool = False) -> Blob | None:
    return unpacked(pickle.loads(pickle.dumps(packed(blob, by_value))))


def drawing(number: int) -> bytes:
    return bytes([number]) * 3


def joined(first: Blob) -> bytes:
    return first.read() * 2


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_a_file_or_a_member_is_read_where_it_lies(tmp_path, kind):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.jpg").write_bytes(b"picture")
    where = tmp_path / "d"
    if kind == "zip":
        where = tmp_path / "d.zip"
        with zipfile.ZipFile(where, "w") as archive:
            archive.write(tmp_path / "d" / "a.jpg", "a.jpg")
    if kind == "tar":
        where = tmp_path / "d.tar"
        with tarfile.open(where, "w") as tarred:
            tarred.add(tmp_path / "d" / "a.jpg", "a.jpg")
    blob = open_tree(where).blob("a.jpg")
    place = packed(blob, by_value=False)
    assert isinstance(place, FilePlace)
    assert b"picture" not in pickle.dumps(place)
    there = sent(blob)
    assert (there.read(), there.key) == (b"picture", blob.key)
    by_value = sent(blob, by_value=True)
    assert isinstance(by_value, BytesBlob)
    assert (by_value.read(), by_value.key) == (b"picture", blob.key)


@pytest.mark.parametrize("by_value", [False, True])
def test_an_image_travels_with_its_mask(tmp_path, by_value):
    for name in ("image", "mask"):
        (tmp_path / name).write_bytes(name.encode())
    there = sent(MaskedImage(FileBlob(tmp_path / "image"), FileBlob(tmp_path / "mask")), by_value)
    assert (there.read(), there.mask.read()) == (b"image", b"mask")


def test_another_file_of_the_same_name_is_not_taken_for_it(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"one")
    prompt = packed_prompt(Prompt((Text("?"), Image(FileBlob(path)))), by_value=False)
    assert unpacked_prompt(prompt) is not None
    for data, later_ns in ((b"three", 0), (b"two", 1_000_000_000)):
        before = path.stat().st_mtime_ns
        path.write_bytes(data)
        os.utime(path, ns=(before + later_ns, before + later_ns))
        assert unpacked_prompt(prompt) is None
    path.unlink()
    assert unpacked_prompt(prompt) is None


def test_a_picture_that_cannot_be_read_says_why_over_there(tmp_path):
    missing = sent(FileBlob(tmp_path / "gone.jpg"))
    assert missing is not None
    with pytest.raises(DataError, match=r"cannot read .*gone\.jpg: No such file"):
        missing.read()


def test_what_is_drawn_is_drawn_over_there_unless_files_go_into_it(tmp_path):
    far = sent(Drawn("k", partial(drawing, 7)))
    assert isinstance(far, Drawn)
    assert far.read() == b"\7\7\7"
    (tmp_path / "a").write_bytes(b"x")
    for draw in (partial(joined, FileBlob(tmp_path / "a")), lambda: b"xx"):
        near = sent(Drawn("k", draw))
        assert isinstance(near, BytesBlob)
        assert near.read() == b"xx"


def test_prompts_keep_the_order_of_their_parts_and_frames_what_they_were_made_with(tmp_path):
    (tmp_path / "v.mp4").write_bytes(b"clip")
    frame = Frame("v@1", b"jpeg", MediaSettings(max_long_side=64))
    prompt = Prompt(
        (
            Text("first"),
            Video(FileBlob(tmp_path / "v.mp4"), fps=2.0),
            Video(frames=(Image(frame), Image(BytesBlob("b", b"2"))), fps=3.0),
            Text("last"),
        ),
        system="be brief",
    )
    for by_value in (False, True):
        opened = unpacked_prompt(pickle.loads(pickle.dumps(packed_prompt(prompt, by_value))))
        assert opened is not None
        if not by_value:
            assert opened == prompt
        _, clip, frames, last = opened.parts
        assert isinstance(clip, Video)
        assert isinstance(frames, Video)
        assert (clip.blob.read(), clip.fps, frames.fps, last) == (b"clip", 2.0, 3.0, Text("last"))
        assert frames.frames[0].blob == frame
