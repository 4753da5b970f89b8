"""DICOM files as images: header, window and pixels (pydicom, the extra `medical`).

Rescale slope and intercept are applied to the limits of the window, which is the same as applying them to the pixels. Of
several windows the first counts, and of a file without one its lowest and highest value. MONOCHROME1 is inverted, since
its lowest value is white; YBR and palettes become RGB. A frame's functional groups come before the elements of the whole file.
Sources: DICOM PS3.3 C.7.6.3, C.7.6.16, C.11.1 and C.11.2.
"""

from __future__ import annotations

import struct
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

from snellen.errors import MediaError, MissingExtraError
from snellen.installation import install_hint
from snellen.media.sample_range import to_8_bits, window_range

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage
    from pydicom import Dataset

_DEFLATED = b"1.2.840.10008.1.2.1.99"


def read_dicom(source: IO[bytes], *, pixels: bool, frame: int = 0) -> Dataset:
    """Read the elements of a file; without `pixels` those before its pixels.

    Args:
        source: the file, at its beginning.
        pixels: its pixels too.
        frame: the frame, from 0, whose functional groups give window and rescaling where the file has such groups.

    Raises:
        MissingExtraError: pydicom is not installed.
        ValueError: the file is no DICOM, or its elements are compressed, so that their size is not known before.
    """
    try:
        from pydicom import config, dcmread
    except ImportError as error:
        raise MissingExtraError(
            "a DICOM image needs pydicom, which is not installed", install_hint("medical")
        ) from error
    config.settings.reading_validation_mode = config.IGNORE  # its warnings quote the file, which may name a patient
    head = source.read(144 + (1 << 16))
    if len(head) < 144:
        raise ValueError("its elements cannot be read: it is cut off")
    (group,) = struct.unpack_from("<I", head, 140)  # the length of the group that names the transfer syntax
    if _DEFLATED in head[132 : 144 + min(group, 1 << 16)]:
        raise ValueError("its elements are deflated; write it with another transfer syntax")
    source.seek(0)
    try:
        file = dcmread(source, stop_before_pixels=not pixels)
        _take_groups(file, frame)
    except Exception as error:  # pydicom's parser raises whatever it stumbles over
        raise ValueError(f"its elements cannot be read: {error}") from error
    return file


def _take_groups(file: Dataset, frame: int) -> None:
    """Give a file the window and the rescaling that the functional groups of all frames, or of this one, have."""
    for name, at in (("SharedFunctionalGroupsSequence", 0), ("PerFrameFunctionalGroupsSequence", frame)):
        groups = file.get(name) or ()
        for macro in ("PixelValueTransformationSequence", "FrameVOILUTSequence") if at < len(groups) else ():
            for element in (groups[at].get(macro) or [()])[0]:
                file[element.tag] = element


def read_layout(data: bytes) -> tuple[int, int, str]:
    """Return the columns, the rows and the `window_of` of a file. Raises as `read_dicom`."""
    file = read_dicom(BytesIO(data), pixels=False)
    try:
        return int(file.Columns), int(file.Rows), window_of(file)
    except Exception as error:  # pydicom parses an element when it is first asked for
        raise ValueError(f"its elements cannot be read: {error}") from error


def window_of(file: Dataset) -> str:
    """Return the first window of a file as `WIDTH/CENTRE`; empty where it names none, or one that is not linear."""
    width, centre = (first_number(file.get(name)) for name in ("WindowWidth", "WindowCenter"))
    is_linear = (file.get("VOILUTFunction") or "LINEAR") == "LINEAR"
    return f"{width:.9g}/{centre:.9g}" if is_linear and width is not None and centre is not None and width >= 1 else ""


def dicom_image(data: bytes, key: str, window: str) -> PillowImage:
    """Return the image of a file, in grey or RGB.

    Args:
        data: the bytes of a file whose size was checked.
        key: names the image in errors.
        window: `file`, `full` or `WIDTH/CENTRE`.

    Raises:
        MediaError: it has several frames, or no installed package decodes its transfer syntax.
        Exception: whatever pydicom stumbles over in a damaged file.
    """
    import numpy as np
    from PIL import Image as pillow
    from pydicom.pixels.processing import apply_color_lut

    file = read_dicom(BytesIO(data), pixels=True)
    if (frames := int(file.get("NumberOfFrames") or 1)) > 1:
        raise MediaError(
            f"image {key}: a DICOM of {frames:,} frames; one frame was expected",
            "In a table of questions they are a clip, or name a frame: --map frame=COLUMN. Else write each into a file of its own.",
        )
    if "ModalityLUTSequence" in file:
        raise MediaError(
            f"image {key}: its values are those of a modality table; a rescale slope and intercept were expected",
            "Convert it to a 16-bit PNG.",
        )
    pixels = frame_pixels(file, file, key, 0)
    if file.PhotometricInterpretation == "PALETTE COLOR":
        pixels = apply_color_lut(pixels, file)[..., :3]
        return pillow.fromarray(to_8_bits(pixels, (0.0, float(np.iinfo(pixels.dtype).max))))
    if pixels.ndim == 3 and pixels.dtype == np.uint8:
        return pillow.fromarray(pixels)
    slope, intercept = first_number(file.get("RescaleSlope")) or 1.0, first_number(file.get("RescaleIntercept")) or 0.0
    limits = window_range((window_of(file) or "full") if window == "file" else window)
    if limits is not None:
        low, high = sorted((limit - intercept) / slope for limit in limits)
        limits = (low, high)
    inverted = (file.PhotometricInterpretation == "MONOCHROME1") != (slope < 0)
    return pillow.fromarray(to_8_bits(pixels, limits, first_number(file.get("PixelPaddingValue")), inverted=inverted))


def frame_pixels(source: Any, file: Dataset, key: str, frame: int) -> Any:
    """Return the pixels of one frame.

    Args:
        source: the file at its beginning, of which that frame alone is read, or its elements.
        file: its elements.
        key: names the image in errors.
        frame: the frame, from 0.

    Raises:
        MediaError: no installed package decodes its transfer syntax. Exception: as `dicom_image`.
    """
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.pixels.utils import pixel_array

    syntax = file.file_meta.TransferSyntaxUID
    try:
        pixels: Any = pixel_array(source, index=frame)
    except Exception as error:
        if not syntax.is_encapsulated:
            raise
        packages = ", or ".join(part.partition(" - requires ")[2] for part in get_decoder(syntax).missing_dependencies)
        raise MediaError(
            f"image {key}: its pixels are compressed as {syntax.name} ({syntax}), and no installed package decodes them",
            f"Install {packages}. If one is installed, the file is damaged.",
        ) from error
    if pixels.shape[:2] != (file.Rows, file.Columns):
        raise ValueError(f"{file.Columns} x {file.Rows} pixels were expected, and {pixels.shape[1::-1]} are there")
    return pixels


def first_number(value: Any) -> float | None:
    """Return a number, or the first of several; None where there is none."""
    from pydicom.multival import MultiValue

    value = value[0] if isinstance(value, MultiValue) and value else value
    return None if value in (None, "") or isinstance(value, MultiValue) else float(value)
