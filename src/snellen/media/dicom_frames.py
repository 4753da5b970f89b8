"""Frames of DICOM files that hold several: how many there are, and each as a file of its own (pydicom).

Source of the rates: DICOM PS3.3 C.7.6.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_END, BytesIO
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from snellen.errors import MediaError, MissingExtraError
from snellen.media.decode import check_size, is_dicom, pixel_limit
from snellen.media.dicom import first_number, frame_pixels, read_dicom
from snellen.types import Blob

if TYPE_CHECKING:
    from pydicom import Dataset

MOST_FRAMES = 100_000
"""Frames of a file that are told apart; a header may claim any number."""
_PALETTES = ("RedPalette", "GreenPalette", "BluePalette")
_SHOWN_BY = (
    *(
        "BitsStored",
        "HighBit",
        "PixelRepresentation",
        "PhotometricInterpretation",
        "WindowWidth",
        "WindowCenter",
        "VOILUTFunction",
    ),
    *("RescaleSlope", "RescaleIntercept", "PixelPaddingValue", "ModalityLUTSequence"),
    *(f"{name}ColorLookupTable{part}" for name in _PALETTES for part in ("Descriptor", "Data")),
    *(f"Segmented{name}ColorLookupTableData" for name in _PALETTES),
)
"""Elements that decide how the pixels of a frame are shown."""


class DicomFrame(Struct, frozen=True):
    """One frame of a DICOM file, as a DICOM file of its own, to which any window can be applied.

    Attributes:
        file: the whole file.
        number: of the frame, from 1.
    """

    file: Blob
    number: int

    @property
    def key(self) -> str:
        return f"{self.file.key}, frame {self.number}"

    def read(self) -> bytes:
        """Decode this frame alone, whatever the size of the file.

        Raises:
            MediaError: it cannot be decoded, is too large, or is not there.
            DataError: the file cannot be read.
        """
        with _seekable(self.file) as file:
            try:
                header = read_dicom(file, pixels=False, frame=self.number - 1)
                check_size(int(header.Columns), int(header.Rows), self.key, pixel_limit())
                file.seek(0)
                return _single(header, frame_pixels(file, header, self.key, self.number - 1))
            except (MediaError, MissingExtraError):
                raise
            except Exception as error:  # pydicom raises whatever it stumbles over
                raise MediaError(
                    f"image {self.key}: it cannot be decoded: {error}",
                    "The file is damaged or cut off; fetch it again.",
                ) from error


class DicomStack(NamedTuple):
    """How many frames a DICOM file has, and how many are shown a second; 0 where it does not say."""

    frames: int
    rate: float


def read_stack(blob: Blob) -> DicomStack | None:
    """Return the frames of a DICOM file, of which the elements before its pixels are read; None for any other file.

    Raises:
        ValueError: the elements cannot be read.
        MediaError: they claim too many frames, or more than the file can hold.
        DataError: the file cannot be read. MissingExtraError: pydicom is not installed.
    """
    with _seekable(blob) as file:
        if not is_dicom(file.read(132)):
            return None
        file.seek(0)
        header = read_dicom(file, pixels=False)
        size = file.seek(0, SEEK_END)
    try:
        frames, rate = int(header.get("NumberOfFrames") or 1), _rate(header)
        bits = int(header.Rows) * int(header.Columns) * int(header.SamplesPerPixel) * int(header.BitsAllocated)
        least = 1 if header.file_meta.TransferSyntaxUID.is_encapsulated else bits // 8
    except Exception as error:  # pydicom parses an element when it is first asked for
        raise ValueError(f"its elements cannot be read: {error}") from error
    if frames > MOST_FRAMES or (frames > 1 and frames * least > size):
        most = min(MOST_FRAMES, size // max(least, 1))
        raise MediaError(
            f"image {blob.key}: a DICOM that claims {frames:,} frames; {size:,} bytes hold at most {most:,}",
            "The file is damaged or cut off; fetch it again.",
        )
    return DicomStack(frames, rate)


@contextmanager
def _seekable(blob: Blob) -> Iterator[IO[bytes]]:
    opener = getattr(blob, "open", None)
    with opener() if opener else BytesIO(blob.read()) as file:
        yield file if file.seekable() else BytesIO(file.read())


def _rate(file: Dataset) -> float:
    """Return the frames a second of a file: by the time that a frame takes, in milliseconds, else as it says itself."""
    from pydicom.multival import MultiValue

    times = file.get("FrameTimeVector")
    steps = [float(step) for step in times[1:]] if isinstance(times, MultiValue) else []
    lasts = first_number(file.get("FrameTime")) or (sum(steps) / len(steps) if steps else 0.0)
    named = (first_number(file.get(name)) for name in ("CineRate", "RecommendedDisplayFrameRate"))
    return next((rate for rate in (1000 / lasts if lasts > 0 else None, *named) if rate and 0 < rate <= 1000), 0.0)


def _single(header: Dataset, pixels: Any) -> bytes:
    """Return a DICOM file of one frame with these pixels, and with what decides how they are shown."""
    from pydicom import FileDataset
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import UID, ExplicitVRLittleEndian, SecondaryCaptureImageStorage

    meta = FileMetaDataset()
    meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = ExplicitVRLittleEndian, SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = UID("2.25.1")
    file = FileDataset("", {}, file_meta=meta, preamble=bytes(128))
    for name in _SHOWN_BY:
        if name in header:
            file[name] = header[name]
    file.Rows, file.Columns = pixels.shape[:2]
    file.SamplesPerPixel = 1 if pixels.ndim == 2 else pixels.shape[2]
    file.BitsAllocated = 8 * pixels.dtype.itemsize
    if header.BitsAllocated == 1:  # eight pixels a byte
        file.BitsStored, file.HighBit = 8, 7
    if pixels.ndim == 3:
        file.PhotometricInterpretation, file.PlanarConfiguration = "RGB", 0
    name = {"float32": "FloatPixelData", "float64": "DoubleFloatPixelData"}.get(pixels.dtype.name, "PixelData")
    setattr(file, name, pixels.tobytes())
    out = BytesIO()
    file.save_as(out, enforce_file_format=True)
    return out.getvalue()
