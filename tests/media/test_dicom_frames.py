"""Frames of DICOM files that hold several: each as a file of its own, by every window, and read alone."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from pydicom.uid import JPEGLosslessSV1, RLELossless

from media.test_deep_images import AS_IT_IS, IN_WINDOW, ROW, dicom, shown
from snellen.errors import MediaError
from snellen.media import open_image
from snellen.media.dicom_frames import DicomFrame, read_stack
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings


def stack(frames: np.ndarray, syntax: str = "", **elements: object) -> bytes:
    """Return a DICOM file of these frames [frames, rows, columns] or [frames, rows, columns, 3]."""
    tall = frames.reshape(-1, *frames.shape[2:])
    return dicom(tall, *filter(None, [syntax]), Rows=frames.shape[1], NumberOfFrames=len(frames), **elements)


def frame(data: bytes, number: int) -> bytes:
    return DicomFrame(BytesBlob("scan", data), number).read()


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([np.uint8, np.int16, np.uint16]),
    st.sampled_from(["", RLELossless]),
    st.sampled_from(["file", "full", "50/7"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_frame_is_shown_as_a_file_of_that_frame_alone(count, side, kind, syntax, window, inverted, draw):
    info = np.iinfo(kind)
    values = [draw.randint(info.min, info.max) for _ in range(count * side * 4)]
    frames = np.array(values, kind).reshape(count, side, 4)
    more = {"PhotometricInterpretation": "MONOCHROME1"} if inverted else {}
    data = stack(frames, syntax, WindowWidth=90, WindowCenter=9, RescaleSlope="2", RescaleIntercept="-3", **more)
    settings = MediaSettings(window=window)
    for number in range(count):
        alone = dicom(frames[number], WindowWidth=90, WindowCenter=9, RescaleSlope="2", RescaleIntercept="-3", **more)
        seen, expected = (
            open_image(Image(BytesBlob("x", each)), settings) for each in (frame(data, number + 1), alone)
        )
        assert np.array_equal(np.asarray(seen), np.asarray(expected))


def test_colours_palettes_and_single_bits_are_kept():
    colours = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    assert np.array_equal(np.asarray(open_image(Image(BytesBlob("x", frame(stack(colours), 2))), AS_IT_IS)), colours[1])
    table = np.array([0, 65_535], np.uint16).tobytes()
    names = ("Red", "Green", "Blue")
    palette = {f"{name}PaletteColorLookupTableDescriptor": [2, 0, 16] for name in names}
    palette |= {f"{name}PaletteColorLookupTableData": table for name in names}
    marked = stack(np.array([[[0, 0]], [[0, 1]]], np.uint8), PhotometricInterpretation="PALETTE COLOR", **palette)
    assert shown(frame(marked, 2)) == [0, 255]
    bits = stack(np.zeros((2, 1, 8), np.uint8), BitsAllocated=1, BitsStored=1, HighBit=0)
    at = bits.rindex(bytes(16))
    assert shown(frame(bits[:at] + bytes([0, 0b1010_0000]) + bits[at + 16 :], 2)) == [0] * 5 + [255, 0, 255]


def groups(**macros: dict[str, object]) -> Dataset:
    """Return a functional group of some macros, each an item with these elements."""
    group = Dataset()
    for name, elements in macros.items():
        item = Dataset()
        for element, value in elements.items():
            setattr(item, element, value)
        setattr(group, name, [item])
    return group


def test_functional_groups_give_each_frame_its_window_and_rescaling():
    stored = ((ROW.astype(int) + 1024) * 2).astype(np.uint16)[None]
    rescaled = {"RescaleSlope": "0.5", "RescaleIntercept": "-1024"}
    own = [
        groups(FrameVOILUTSequence={"WindowWidth": width, "WindowCenter": centre})
        for width, centre in ((4000, 0), (400, 40))
    ]
    data = stack(
        np.concatenate([stored, stored]),
        SharedFunctionalGroupsSequence=[groups(PixelValueTransformationSequence=rescaled)],
        PerFrameFunctionalGroupsSequence=own,
    )
    assert shown(frame(data, 2)) == IN_WINDOW != shown(frame(data, 1))
    single = dicom(
        stored[0],
        SharedFunctionalGroupsSequence=[groups(PixelValueTransformationSequence=rescaled)],
        PerFrameFunctionalGroupsSequence=own[1:],
    )
    assert shown(single) == IN_WINDOW


class Watched(BytesIO):
    """A file that counts the bytes that are read of it."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


def test_of_a_large_file_one_frame_is_read():
    data = stack(np.zeros((400, 64, 64), np.uint16))
    opened: list[Watched] = []

    class File:
        key = "scan"

        def read(self) -> bytes:
            raise AssertionError("the file is read whole")

        def open(self) -> Watched:
            opened.append(Watched(data))
            return opened[-1]

    assert read_stack(File()) == (400, 0.0)
    assert np.asarray(open_image(Image(DicomFrame(File(), 399)), AS_IT_IS)).shape == (64, 64, 3)
    assert len(data) > 3_000_000 and max(file.taken for file in opened) < 400_000


@pytest.mark.parametrize(
    ("elements", "rate"),
    [
        ({}, 0.0),
        ({"FrameTime": "40"}, 25.0),
        ({"FrameTimeVector": ["0", "50", "150"]}, 10.0),
        ({"CineRate": "15"}, 15.0),
        ({"RecommendedDisplayFrameRate": "30"}, 30.0),
        ({"FrameTime": "100", "CineRate": "15"}, 10.0),
        ({"FrameTime": "0"}, 0.0),
        ({"CineRate": "-3"}, 0.0),
    ],
)
def test_the_rate_is_that_of_the_file(elements, rate):
    assert read_stack(BytesBlob("x", stack(np.zeros((3, 2, 2), np.uint8), **elements))) == (3, rate)


def test_what_is_no_stack_and_what_claims_too_much():
    assert read_stack(BytesBlob("x", b"\x89PNG" + bytes(300))) is None
    assert read_stack(BytesBlob("x", b"")) is None
    assert read_stack(BytesBlob("x", dicom(ROW))) == (1, 0.0)
    for claimed in (10**9, 5_000):
        with pytest.raises(MediaError, match=f"claims {claimed:,} frames; .* hold at most"):
            read_stack(BytesBlob("x", dicom(ROW, NumberOfFrames=claimed)))
    for damaged in (dicom(ROW)[:140], dicom(ROW, NumberOfFrames=3)[:132]):
        with pytest.raises(ValueError, match="cannot be read"):
            read_stack(BytesBlob("x", damaged))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (stack(np.zeros((2, 2, 2), np.uint16))[:-4], "cannot be decoded"),
        (stack(np.zeros((2, 2, 2), np.uint16), Columns=60_000), "cannot be decoded"),
        (dicom(ROW, JPEGLosslessSV1, NumberOfFrames=2), "compressed as JPEG Lossless"),
        (dicom(np.zeros((2, 2), np.uint16), Rows=60_000, Columns=60_000, NumberOfFrames=2), "60000 x 60000 pixels"),
    ],
)
def test_a_frame_that_cannot_be_shown_is_named(data, message):
    with pytest.raises(MediaError, match=f"image scan, frame 2: .*{message}"):
        frame(data, 2)
