"""Images of more than 8 bits, DICOM and bands of TIFF: which values are shown, and what is refused."""

from __future__ import annotations

import sys
from io import BytesIO

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as pillow
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian, JPEGLosslessSV1, RLELossless

from snellen.errors import MediaError, MissingExtraError, SnellenError, UsageError
from snellen.media import check_settings, open_image, read_header
from snellen.media.encode import encode
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings

AS_IT_IS = MediaSettings()
ROW = np.array([[-1024, -160, 39, 40, 240, 3071]], np.int16)
"""Stored values of a computed tomography in Hounsfield units, with the ends of the window 400/40 among them."""


def dicom(pixels: np.ndarray, syntax: str = ExplicitVRLittleEndian, **elements: object) -> bytes:
    """Return a DICOM file of 16-bit samples, or of 8-bit colours."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = syntax
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.2", "1.2.3"
    file = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
    file.Rows, file.Columns = pixels.shape[-2:] if pixels.ndim == 2 else pixels.shape[-3:-1]
    file.SamplesPerPixel = 1 if pixels.ndim == 2 else 3
    file.PhotometricInterpretation = "MONOCHROME2" if pixels.ndim == 2 else "RGB"
    file.BitsAllocated = file.BitsStored = pixels.dtype.itemsize * 8
    file.HighBit, file.PixelRepresentation = file.BitsStored - 1, int(pixels.dtype.kind == "i")
    file.PlanarConfiguration = 0
    for name, value in elements.items():
        setattr(file, name, value)
    file.PixelData = pixels.tobytes()
    if syntax == RLELossless:
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        file.compress(RLELossless)
    elif syntax == JPEGLosslessSV1:
        from pydicom.encaps import encapsulate

        file.PixelData = encapsulate([b"\xff\xd8\xff\xd9"])
        file["PixelData"].is_undefined_length = True
    out = BytesIO()
    file.save_as(out, enforce_file_format=True)
    return out.getvalue()


def tiff(pixels: np.ndarray, **how: object) -> bytes:
    """Return a TIFF; the last axis of three is its bands."""
    out = BytesIO()
    bands = {"photometric": "minisblack", "planarconfig": "contig"} if pixels.ndim == 3 else {}
    tifffile.imwrite(out, pixels, **bands | how)
    return out.getvalue()


def shown(data: bytes, settings: MediaSettings = AS_IT_IS) -> list:
    """Return the grey values of a row of pixels, or its colours."""
    picture = open_image(Image(BytesBlob("scan", data)), settings)
    assert picture.mode == "RGB"
    values = np.asarray(picture)[0].tolist()
    return [red if red == green == blue else (red, green, blue) for red, green, blue in values]


# By hand: a window of 400 at 40 reaches from 40 - 0.5 - 199.5 = -160 to 239, and 39 is at 199 / 399 of it.
IN_WINDOW = [0, 0, 127, 128, 255, 255]


def test_a_dicom_is_shown_in_the_first_window_that_it_names():
    assert shown(dicom(ROW, WindowWidth=[400, 2000], WindowCenter=[40, 300])) == IN_WINDOW
    assert shown(dicom(ROW, RLELossless, WindowWidth=400, WindowCenter=40)) == IN_WINDOW


def test_rescale_slope_and_intercept_come_before_the_window():
    stored = ((ROW.astype(int) + 1024) * 2).astype(np.uint16)
    data = dicom(stored, RescaleSlope="0.5", RescaleIntercept="-1024", WindowWidth=400, WindowCenter=40)
    assert shown(data) == IN_WINDOW
    falling = dicom((-ROW).astype(np.int16), RescaleSlope="-1", RescaleIntercept="0", WindowWidth=400, WindowCenter=40)
    assert shown(falling) == IN_WINDOW


def test_a_window_that_is_asked_for_takes_the_place_of_the_file_s():
    data = dicom(ROW, WindowWidth=9, WindowCenter=9)
    assert shown(data, MediaSettings(window="400/40")) == IN_WINDOW
    assert shown(data, MediaSettings(window="full")) == shown(dicom(ROW))


def test_without_a_window_the_lowest_value_is_black_and_the_highest_white():
    # (-160 + 1024) / 4095 * 255 = 53.8 and so on
    assert shown(dicom(ROW)) == [0, 54, 66, 66, 79, 255]
    assert shown(dicom(ROW, WindowWidth=400, WindowCenter=40, VOILUTFunction="SIGMOID")) == shown(dicom(ROW))


def test_monochrome1_is_inverted_and_padding_stays_black():
    data = dicom(ROW, PhotometricInterpretation="MONOCHROME1", WindowWidth=400, WindowCenter=40)
    assert shown(data) == [255, 255, 128, 127, 0, 0]
    padded = dicom(
        np.array([[-2000, 0, 100]], np.int16), PhotometricInterpretation="MONOCHROME1", PixelPaddingValue=-2000
    )
    assert shown(padded) == [0, 255, 0]


def test_colours_and_palettes_of_dicom_are_colours():
    assert shown(dicom(np.array([[[1, 2, 3], [7, 7, 7]]], np.uint8))) == [(1, 2, 3), 7]
    table = np.array([0, 65_535], np.uint16).tobytes()
    palette = {f"{name}PaletteColorLookupTableDescriptor": [2, 0, 16] for name in ("Red", "Green", "Blue")}
    words = dict.fromkeys((f"{name}PaletteColorLookupTableData" for name in ("Red", "Green")), table)
    words["BluePaletteColorLookupTableData"] = bytes(4)
    data = dicom(np.array([[0, 1]], np.uint8), PhotometricInterpretation="PALETTE COLOR", **palette, **words)
    assert shown(data) == [0, (255, 255, 0)]


def test_what_is_recorded_says_which_range_is_shown():
    blob = BytesBlob("scan", dicom(ROW, WindowWidth=400, WindowCenter=40))
    said = "dicom is not accepted by model servers, "
    assert encode(blob, AS_IT_IS).changed == f"{said}window 400/40 of the file"
    assert encode(blob, MediaSettings(window="50/7.5")).changed == f"{said}window 50/7.5"
    lowest = f"{said}shown from its lowest to its highest value"
    assert encode(blob, MediaSettings(window="full")).changed == lowest
    assert encode(blob, AS_IT_IS).mime == "image/png"
    bands = BytesBlob("bands", tiff(np.ones((2, 2, 5), np.uint16)))
    assert encode(bands, MediaSettings(bands="4,3,2")).changed.endswith("highest value, bands 4, 3, 2 of 5")


REFUSED = {
    "12 frames": (
        dicom(np.zeros((2, 2), np.uint16), NumberOfFrames=12),
        "a DICOM of 12 frames; one frame was expected",
    ),
    "lossless": (dicom(ROW, JPEGLosslessSV1), r"compressed as JPEG Lossless.*\(1.2.840.10008.1.2.4.70\)"),
    "too large": (dicom(ROW, Rows=60_000, Columns=60_000), "60000 x 60000 pixels; at most 200,000,000"),
    "cut off": (dicom(ROW)[:-4], "dicom of .* bytes cannot be decoded"),
    "no size": (dicom(ROW, Rows=None), "a DICOM file without an image"),
    "table": (dicom(ROW, ModalityLUTSequence=[Dataset()]), "a rescale slope and intercept were expected"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_dicom_that_cannot_be_shown_is_named(case):
    data, message = REFUSED[case]
    with pytest.raises(MediaError, match=f"image scan: .*{message}") as error:
        open_image(Image(BytesBlob("scan", data)), AS_IT_IS)
    assert error.value.hint
    if case == "lossless":
        assert "pylibjpeg" in error.value.hint


def test_a_deflated_dicom_is_refused_before_it_is_unpacked():
    data = dicom(np.zeros((2, 2), np.uint16), DeflatedExplicitVRLittleEndian)
    assert read_header(data) is None
    with pytest.raises(MediaError, match="elements are deflated or damaged"):
        open_image(Image(BytesBlob("scan", data)), AS_IT_IS)


def test_a_dicom_with_the_head_of_a_tiff_is_a_dicom():
    data = dicom(ROW, WindowWidth=400, WindowCenter=40)
    assert shown(b"II*\0\x08\0\0\0" + data[8:]) == IN_WINDOW


@pytest.mark.parametrize("name", ["CT_small.dcm", "MR_small.dcm", "MR_small_RLE.dcm", "examples_overlay.dcm"])
def test_real_files_are_shown_as_pydicom_s_own_window_shows_them(name):
    """pydicom gives the window as floats of the stored depth: those are between two of our 256 steps."""
    from pydicom import dcmread
    from pydicom.data import get_testdata_file
    from pydicom.pixels.processing import apply_modality_lut, apply_windowing

    file = dcmread(get_testdata_file(name, download=False))
    if "WindowWidth" not in file:
        file.WindowWidth, file.WindowCenter = 300, 40
    width, centre = (float(np.atleast_1d(file[key].value)[0]) for key in ("WindowWidth", "WindowCenter"))
    values = apply_windowing(apply_modality_lut(file.pixel_array, file), file)
    slope, intercept = float(file.get("RescaleSlope", 1)), float(file.get("RescaleIntercept", 0))
    signed = file.PixelRepresentation * 2 ** (file.BitsStored - 1)
    lowest = -signed * slope + intercept
    highest = (2**file.BitsStored - 1 - signed) * slope + intercept
    expected = (values - lowest) / (highest - lowest) * 255
    with open(get_testdata_file(name, download=False), "rb") as source:  # noqa: PTH123
        picture = open_image(Image(BytesBlob(name, source.read())), MediaSettings(window=f"{width:g}/{centre:g}"))
    assert np.abs(np.asarray(picture)[..., 0] - expected).max() <= 0.51


def test_without_pydicom_or_tifffile_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydicom", None)
    monkeypatch.setitem(sys.modules, "tifffile", None)
    bands = tiff(np.ones((2, 2, 5), np.uint16))
    for data, extra in ((dicom(ROW), "medical"), (bands, "geotiff")):
        with pytest.raises(MissingExtraError, match=r"image scan: .*not installed") as error:
            open_image(Image(BytesBlob("scan", data)), AS_IT_IS)
        assert f"[{extra}]" in error.value.hint


@given(at=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(1, 5_000))
def test_a_damaged_file_is_an_error_of_its_own_or_an_image(at, value, cut):
    for whole in (DAMAGED_DICOM, DAMAGED_TIFF):
        data = bytearray(whole[:cut] if at % 3 == 0 else whole)
        data[at % len(data)] = value
        try:
            assert open_image(Image(BytesBlob("scan", bytes(data))), AS_IT_IS, 10_000).mode == "RGB"
        except SnellenError as error:
            assert "scan" in error.message


DAMAGED_DICOM = dicom(ROW, WindowWidth=400, WindowCenter=40)
DAMAGED_TIFF = tiff(np.arange(160, dtype=np.uint16).reshape(4, 8, 5), compression="zlib", bigtiff=True)


@pytest.mark.parametrize("wrong", [b"U\xf2", b"OB"])
def test_an_element_of_size_that_cannot_be_parsed_is_no_header(wrong):
    data = dicom(np.zeros((4, 4), np.uint16))
    at = data.index(b"\x28\x00\x11\x00US")  # the element Columns, parsed when it is asked for
    with pytest.raises(MediaError):
        shown(data[: at + 4] + wrong + data[at + 6 :])


def test_grey_of_16_bits_is_shown_alike_in_png_and_tiff():
    values = np.array([[500, 1000, 2500, 4500]], np.uint16)
    png = BytesIO()
    pillow.fromarray(values).save(png, "PNG")
    for data in (png.getvalue(), tiff(values), tiff(values, bigtiff=True)):
        assert shown(data) == [0, 32, 128, 255]  # 500 / 4000 * 255 = 31.9; 2000 / 4000 * 255 + 0.5 = 128
        assert shown(data, MediaSettings(window="65536/32768")) == [2, 4, 10, 18]  # the range of the type


BANDS = np.array([[[0, 100, 200, 300, 9_000], [400, 300, 200, 100, 9_000]]], np.uint16)


@pytest.mark.parametrize("how", [{}, {"compression": "zlib"}, {"bigtiff": True}, {"tile": (16, 16)}])
def test_the_first_three_bands_are_red_green_and_blue_unless_others_are_asked_for(how):
    data = tiff(BANDS, **how)
    assert shown(data) == [(0, 64, 128), (255, 191, 128)]  # from 0 to 400 together
    assert shown(data, MediaSettings(bands="4,3,2")) == [(255, 128, 0), (0, 128, 255)]
    assert shown(data, MediaSettings(bands="1")) == [0, 255]
    planes = tiff(np.moveaxis(BANDS, -1, 0), planarconfig="separate", **how)
    assert shown(planes) == shown(data)


def test_bands_of_8_bits_are_shown_as_they_are():
    assert shown(tiff(np.array([[[5, 6, 7, 8, 9]]], np.uint8))) == [(5, 6, 7)]
    assert shown(tiff(np.array([[[5, 6, 7]]], np.uint8), photometric="rgb"), MediaSettings(bands="3,2,1")) == [
        (7, 6, 5)
    ]
    assert shown(tiff(np.array([[[5, 6]]], np.uint8))) == [5]


@pytest.mark.parametrize("bands", [3, 4])
def test_bands_of_8_bits_that_are_no_colours_by_their_tags_are_shown_too(bands):
    values = np.arange(bands, dtype=np.uint8).reshape(1, 1, bands) + 5
    assert shown(tiff(values)) == [(5, 6, 7)]
    assert shown(tiff(np.moveaxis(values, -1, 0), planarconfig="separate")) == [(5, 6, 7)]


def test_grey_with_transparency_in_tiff_is_laid_over_white():
    picture = BytesIO()
    pillow.new("LA", (1, 1), (0, 128)).save(picture, "TIFF")
    assert shown(picture.getvalue()) == [127]


def test_values_without_data_are_black_and_no_part_of_the_range():
    tag = [(42113, "s", 0, "-9999", True)]
    assert shown(tiff(np.array([[-9999, 10, 20]], np.float32), extratags=tag)) == [0, 0, 255]
    nan = [(42113, "s", 0, "nan", True)]
    assert shown(tiff(np.array([[np.nan, 10, 20]], np.float32), extratags=nan)) == [0, 0, 255]


def test_a_band_that_is_not_there_and_an_unbounded_part_are_refused():
    with pytest.raises(MediaError, match="it has 5 bands; band 7 is not among them"):
        shown(tiff(BANDS), MediaSettings(bands="7"))
    with pytest.raises(MediaError, match="its 9 bands have 18 bytes; at most 16 are decoded"):
        open_image(Image(BytesBlob("scan", tiff(np.ones((1, 1, 9), np.uint16)))), AS_IT_IS, 1)


def test_a_part_that_unpacks_to_more_than_it_may_hold_is_refused():
    import zlib

    noise = np.random.default_rng(0).integers(0, 9, (64, 64, 5), np.uint16)
    small = tiff(noise, compression="zlib", rowsperstrip=64)
    with tifffile.TiffFile(BytesIO(small)) as file:
        start, size = file.pages[0].dataoffsets[0], file.pages[0].databytecounts[0]
    bomb = zlib.compress(bytes(64 * 64 * 5 * 2 + 1), 9)
    assert len(bomb) <= size
    with pytest.raises(MediaError, match="a part of it unpacks to more than its 40,960 bytes"):
        shown(small[:start] + bomb + small[start + len(bomb) :])


@pytest.mark.parametrize(
    "setting", [{"window": "40"}, {"window": "0/40"}, {"bands": "0"}, {"bands": "1,2"}, {"bands": "1,a,2"}]
)
def test_windows_and_bands_that_are_none_are_refused(setting):
    with pytest.raises(UsageError, match="was expected"):
        check_settings(MediaSettings(**setting))


@given(values=st.lists(st.integers(0, 65_535), min_size=2, max_size=20))
def test_a_lighter_value_is_never_shown_darker(values):
    grey = shown(tiff(np.array([values], np.uint16)))
    order = sorted(range(len(values)), key=values.__getitem__)
    assert [grey[at] for at in order] == sorted(grey)
