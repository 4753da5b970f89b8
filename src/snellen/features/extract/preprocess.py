"""Preprocessing: image bytes to the pixels that an encoder takes.

What Pillow, resize, crop, to-tensor and normalise give, to one level of 255, at less than half the CPU time: JPEGs are
decoded by simplejpeg, resized by products of matrices that form only what the crop keeps (below),
and normalised by one multiply and one add. Images that grow, tall ones that are squashed, and other filters than
bilinear and bicubic are resized by Pillow. The source is never cut before it is resized as if it were whole: that would
move the grid of samples and change pixels by up to 4 levels. Images that libjpeg-turbo is not content with, other
formats and turned ones are decoded as everywhere in Snellen (`snellen.media.decode`) and go the same way from there.

Pillow's bilinear and bicubic resize of images that shrink, by products of matrices.
Pillow sums bytes times whole numbers of 22 fractional bits, first along the rows, rounds to bytes, then along the
columns, and rounds again (Resample.c of Pillow, 8 bits a channel). Here both sums are products in float32 with the same
weights, of bands of 16 pixels at a time; only what a crop keeps is formed.

Why no value is off by more than one level: a sum of n products in float32 is n * 2**-24 * 1.3 * 255 off at most (the
absolute weights of the bicubic filter add up to less than 1.3). Between the passes a sum that is further than n * 2**-15
from the middle of two bytes is rounded as Pillow rounds it; one that is nearer becomes that middle, half a level from
whatever Pillow made of it. The second sum is then at most 1.3 * 0.5 levels away, less than one, so the rounded values are
the same or neighbours.

Newer versions of Pillow sum along the columns first where an image becomes lower by more than twice the pixels that it
becomes narrower by. `rows_first` says where they do not; the rest is left to Pillow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import FingerprintError, MediaError
from snellen.media.decode import PIXEL_LIMIT, PIXEL_LIMIT_VARIABLE, checked_header, pixel_limit, render
from snellen.types import Blob, MediaSettings

if TYPE_CHECKING:
    import torch

Interpolation = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
AS_IT_IS = MediaSettings()


class Transform(Struct, frozen=True):
    """Image transform of an encoder's own settings; the same for every split.

    Attributes:
        resize: (height, width) exactly; or (side,), the length of the short side, the long one following rounded down.
        interpolation: Pillow's name of the filter; all but nearest are antialiased.
        crop: (height, width) from the middle, None for none. Never larger than the resized image.
        mean, std: of each channel, in units of pixels from 0 to 1.
        middle: how half a pixel is rounded when the middle is found: `down` as transformers does, `even` as
            torchvision's transforms do (timm, open_clip).
    """

    resize: tuple[int, ...]
    interpolation: Interpolation
    crop: tuple[int, int] | None
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    middle: Literal["down", "even"] = "down"

    @property
    def size(self) -> tuple[int, int]:
        """Return (height, width) of the transformed image."""
        if self.crop is not None:
            return self.crop
        if len(self.resize) == 1:
            raise ValueError("images resized by their short side and not cropped have no common size")
        return self.resize[0], self.resize[1]


def resized_size(height: int, width: int, transform: Transform) -> tuple[int, int]:
    """Return (height, width) after the resize."""
    if len(transform.resize) == 2:
        return transform.resize[0], transform.resize[1]
    side = transform.resize[0]
    if height <= width:
        return side, int(side * width / height)
    return int(side * height / width), side


def crop_corner(height: int, width: int, transform: Transform) -> tuple[int, int]:
    """Return (top, left) of the crop within a resized image."""
    if transform.crop is None:
        return 0, 0
    free = height - transform.crop[0], width - transform.crop[1]
    if transform.middle == "down":
        return free[0] // 2, free[1] // 2
    return round(free[0] / 2), round(free[1] / 2)


def read_pixels(blob: Blob, transform: Transform, into: torch.Tensor | None = None) -> torch.Tensor:
    """Read the pixels of an image: uint8 [3, height, width], resized and cropped, not normalised.

    Args:
        into: where they go, uint8 of that shape; None makes a new tensor. Who reads many images spares fresh pages.

    Raises:
        MediaError: the image is damaged, of no accepted format, or over the limits; the message names it.
        DataError: its bytes cannot be read.
    """
    return resize_and_crop(decode(blob), transform, into, blob.key)


def decode(blob: Blob) -> np.ndarray:
    """Decode to upright RGB, uint8 [height, width, 3]. Raises MediaError, DataError."""
    import simplejpeg

    data, key = blob.read(), blob.key
    header = checked_header(data, key, pixel_limit())
    if header.format == "jpeg" and header.plain and header.orientation == 1:
        try:
            pixels: np.ndarray = simplejpeg.decode_jpeg(data, "RGB", strict=True)
            return pixels
        except ValueError:
            pass  # `render` has the last word on what libjpeg-turbo warns about
    return np.array(render(data, header, key, AS_IT_IS))


def resize_and_crop(
    pixels: np.ndarray, transform: Transform, into: torch.Tensor | None = None, key: str = "in memory"
) -> torch.Tensor:
    """Resize and crop uint8 [height, width, 3] to uint8 [3, height, width]; `into` as of `read`.

    Raises:
        MediaError: an image that is nearly a line would grow over the limit of pixels; the message names it by `key`.
    """
    import torch

    height, width = resized_size(pixels.shape[0], pixels.shape[1], transform)
    top, left = crop_corner(height, width, transform)
    high, wide = (height, width) if transform.crop is None else transform.crop
    rows, columns = pixels.shape[:2]
    smaller = height <= rows and width <= columns and rows_first(rows, columns, height, width)
    if transform.interpolation in ("bicubic", "bilinear") and smaller:
        if (height, width) != (rows, columns):
            box = top, left, high, wide
            place = None if into is None else into.numpy()
            return torch.from_numpy(resample_image(pixels, height, width, transform.interpolation, box, place))
    else:
        from PIL import Image as pillow

        _check_growth((rows, columns), (height, width), transform, key)
        resample = pillow.Resampling[transform.interpolation.upper()]
        pixels = np.array(pillow.fromarray(pixels).resize((width, height), resample))
    planes = torch.from_numpy(pixels[top : top + high, left : left + wide]).permute(2, 0, 1)
    if into is not None:
        return into.copy_(planes)
    return planes.contiguous()  # a copy of bytes: normalising strided ones costs five times as much


def _check_growth(before: tuple[int, int], after: tuple[int, int], transform: Transform, key: str) -> None:
    """Refuse a resize beyond the pixel limit; Pillow would need 10 GB for 1 x 65,000 pixels with a short side of 224.

    Raises:
        MediaError: it would have more pixels than may be decoded; a limit below the usual one does not count here.
    """
    limit = max(PIXEL_LIMIT, pixel_limit())
    if len(transform.resize) == 1 and after[0] * after[1] > limit:
        raise MediaError(
            f"image {key}: its {before[1]:,} x {before[0]:,} pixels would be resized to {after[1]:,} x {after[0]:,} for "
            f"a short side of {transform.resize[0]}; at most {limit:,} pixels are formed",
            f"Its sides differ too much for this encoder: leave it out, or set {PIXEL_LIMIT_VARIABLE}.",
        )


def normalise(images: torch.Tensor, transform: Transform) -> torch.Tensor:
    """Normalise uint8 [B, 3, H, W], or floats from 0 to 1, to the encoder's float32 input. Differentiable."""
    scale, shift = _scale_and_shift(transform, 1.0 if images.is_floating_point() else 255.0)
    scale, shift = scale.to(images.device), shift.to(images.device)
    return images.float() * scale + shift


def normalise_into(batch: torch.Tensor, images: Sequence[torch.Tensor], transform: Transform) -> torch.Tensor:
    """Overwrite the first rows of `batch` with normalised images; the values are those of `normalise`.

    One image after another, so that each is still in the processor's cache when it is written, and into memory that
    is there already: fresh pages for a whole batch cost as much as the arithmetic.

    Args:
        batch: float32 [B, 3, H, W] on the CPU.
        images: uint8 [3, H, W] each, B at most.
    """
    scale, shift = (term[0] for term in _scale_and_shift(transform, 255.0))
    for place, image in zip(batch, images, strict=False):
        place.copy_(image).mul_(scale).add_(shift)
    return batch[: len(images)]


@lru_cache(maxsize=64)
def _scale_and_shift(transform: Transform, unit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scale and shift for pixels from 0 to `unit`, float32 [1, 3, 1, 1] each."""
    import torch

    scale = [1.0 / (unit * std) for std in transform.std]
    shift = [-mean / std for mean, std in zip(transform.mean, transform.std, strict=True)]
    with torch.inference_mode(False):  # an inference tensor kept here could not be used where gradients are asked for
        line = torch.tensor([scale, shift], dtype=torch.float32).view(2, 1, 3, 1, 1)
        return line[0], line[1]


def require_transform(path: Path, stored: Any, transform: Transform) -> None:
    """Refuse to combine images of one transform with features, or a head, of another.

    Args:
        path: the store, for the message.
        stored: the `transform` of its identity.

    Raises:
        FingerprintError: they differ; the message says in what.
    """
    _require_same(
        stored, transform, f"the images of '{path}' were preprocessed with another transform than this encoder's."
    )


def require_encoder(path: Path, stored: Any, encoder: Any) -> None:
    """Refuse a head on features of one encoder behind another; as `require_transform`, of the identities' `encoder`."""
    _require_same(stored, encoder, f"the features in '{path}' are of another encoder than this one.")


def _require_same(stored: Any, current: Any, problem: str) -> None:
    from msgspec import json

    from snellen.engine.fingerprint import differences

    before, now = (json.decode(json.encode(identity)) for identity in (stored or {}, current))
    changed = list(differences(before, now))
    if changed:
        lines = "\n".join(f"  {name}  {old}  ->  {new}" for name, old, new in changed)
        raise FingerprintError(
            f"{problem}\n{lines}",
            "Use the encoder that the store was made with, or extract again with this one.",
        )


Filter = Literal["bilinear", "bicubic"]
Floats = NDArray[np.float32]

SUPPORT = {"bilinear": 1.0, "bicubic": 2.0}
PRECISION = 1 << 22
BAND = 16
TIE = 2.0**-15
CHUNK = 1 << 19


class Axis(Struct, frozen=True, eq=False):
    """Resampling weights along one axis.

    Attributes:
        first, last: which of the source take part, from and up to.
        count: how many come out.
        bands: (which pixels out, the first of those in behind `first`, float32 [pixels in, pixels out]) of `BAND`
            pixels out at a time.
        tie: how near a sum may be to the middle of two bytes before float32 cannot say which is Pillow's, in levels.
        overshoots: whether sums may leave the levels of what is summed, as some weights are below zero. Where none is,
            the weights add up to one but for float32's rounding, and no sum of bytes rounds to less than 0 or over 255.
    """

    first: int
    last: int
    count: int
    bands: tuple[tuple[slice, int, Floats], ...]
    tie: float
    overshoots: bool


def rows_first(rows: int, columns: int, height: int, width: int) -> bool:
    """Return True if every version of Pillow sums along the rows first, or along one axis only (tested with 13.0)."""
    return columns == width or rows - height <= 2 * (columns - width)


def resample_image(
    pixels: NDArray[np.uint8],
    height: int,
    width: int,
    interpolation: Filter,
    box: tuple[int, int, int, int],
    into: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Resize as Pillow does, to one level of 255, and return a box of the result; `rows_first` must hold.

    Args:
        pixels: uint8 [rows, columns, 3].
        height, width: of the whole image after the resize; neither is larger than before.
        box: (top, left, height, width) of the part, in pixels after the resize.
        into: where the result goes, uint8 [3, height, width] of the box; None makes a new array.

    Returns:
        uint8 [3, height, width] of the box.
    """
    top, left, high, wide = box
    across = build_axis(pixels.shape[1], width, interpolation, left, wide)
    down = build_axis(pixels.shape[0], height, interpolation, top, high, 0.5)
    source = pixels[down.first : down.last, across.first : across.last]
    rows, columns = source.shape[:2]
    between = np.empty((rows, 3 * wide), dtype=np.float32)
    step = max(1, CHUNK // (3 * columns))
    levels = np.empty((min(step, rows), 3, columns), dtype=np.uint8)
    planes = np.empty((3 * len(levels), columns), dtype=np.float32)
    for start in range(0, rows, step):  # so that what is worked on stays in the processor's cache
        stop = min(start + step, rows)
        np.copyto(levels[: stop - start], source[start:stop].transpose(0, 2, 1))  # bytes first: twice as fast
        lines = planes[: 3 * (stop - start)]
        np.copyto(lines, levels[: stop - start].reshape(lines.shape))
        sums = between[start:stop].reshape(-1, wide)
        for part, begin, weights in across.bands:
            np.matmul(lines[:, begin : begin + len(weights)], weights, out=sums[:, part])
        _round(sums.ravel(), across, lines.ravel())
    out = np.empty((high, 3 * wide), dtype=np.float32)
    for part, begin, weights in down.bands:
        np.matmul(weights.T, between[begin : begin + len(weights)], out=out[part])
    if down.overshoots:
        np.clip(out, np.float32(0), np.float32(255.5), out=out)
    values = np.empty((3, high, wide), dtype=np.uint8) if into is None else into
    np.copyto(values, out.reshape(high, 3, wide).transpose(1, 0, 2), casting="unsafe")  # cut off behind the point
    return values


def _round(sums: Floats, axis: Axis, room: Floats) -> None:
    """Round in place to twice the nearest byte plus one, or to the middle of two bytes if a sum is about as near to both.

    What is added becomes, in the second sums, the half that rounds them when they are cut off.

    Args:
        room: overwritten, of the length of `sums` or more.
    """
    sums += np.float32(axis.tie)
    above = np.rint(sums, out=room[: len(sums)])
    sums -= np.float32(2 * axis.tie - 1)
    np.rint(sums, out=sums)
    sums += above
    if axis.overshoots:
        np.clip(sums, np.float32(1), np.float32(511), out=sums)


@lru_cache(maxsize=128)
def build_axis(length: int, size: int, interpolation: Filter, start: int, count: int, gain: float = 1.0) -> Axis:
    """Build the bands for pixels `start` to `start + count` of `size`, made of `length`; size is `length` or less."""
    weights, begins = coefficients(length, size, interpolation)
    weights, begins = weights[start : start + count], begins[start : start + count]
    ends = np.minimum(begins + weights.shape[1], length)
    first, last = int(begins.min()), int(ends.max())
    bands = []
    for at in range(0, count, BAND):
        low, high = int(begins[at : at + BAND].min()), int(ends[at : at + BAND].max())
        band = np.zeros((high - low, len(begins[at : at + BAND])), dtype=np.float32)
        for column, (begin, end) in enumerate(zip(begins[at : at + BAND], ends[at : at + BAND], strict=True)):
            band[begin - low : end - low, column] = weights[at + column, : end - begin] * (gain / PRECISION)
        bands.append((slice(at, at + band.shape[1]), low - first, band))
    return Axis(first, last, count, tuple(bands), TIE * weights.shape[1], bool((weights < 0).any()))


def coefficients(length: int, size: int, interpolation: Filter) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Compute Pillow's weights in units of 2**-22, int64 [size, taps], and the pixel that each first one falls on, int64 [size].

    A filter spans `SUPPORT` times length / size pixels on each side of a centre; weights add up to one before they are
    rounded (precompute_coeffs and normalize_coeffs_8bpc of Pillow's Resample.c).
    """
    scale = length / size
    support = SUPPORT[interpolation] * scale
    centres = (np.arange(size) + 0.5) * scale
    begins = np.maximum((centres - support + 0.5).astype(np.int64), 0)
    ends = np.minimum((centres + support + 0.5).astype(np.int64), length)
    taps = np.arange(int((ends - begins).max()))
    away = np.abs((taps + begins[:, None] - centres[:, None] + 0.5) * (1.0 / scale))
    values = _bicubic(away) if interpolation == "bicubic" else np.maximum(1.0 - away, 0.0)
    values[taps >= (ends - begins)[:, None]] = 0.0
    values /= values.sum(axis=1, keepdims=True)
    return np.trunc(values * PRECISION + np.copysign(0.5, values)).astype(np.int64), begins


def _bicubic(away: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the cubic convolution of Keys with a = -1/2, of distances from 0."""
    inner = (1.5 * away - 2.5) * away * away + 1.0
    outer = (((away - 5.0) * away + 8.0) * away - 4.0) * -0.5
    return np.where(away < 1.0, inner, np.where(away < 2.0, outer, 0.0))
