"""Image corruptions (`--corrupt`), reproducible: the same image is corrupted in the same way in every run.

A setting is a comma-separated list of operations. They apply in order to the upright image at its own size, before it
is fitted:

- `blur:K`: Gaussian blur with a kernel of K x K pixels, K odd; sigma = 0.3 * ((K - 1) * 0.5 - 1) + 0.8 pixels, the rule
  of OpenCV where no sigma is given: 0.8 for K = 3, 1.1 for K = 5. The kernel is the sampled Gaussian in steps of 1/4096
  (OpenCV itself keeps binomial tables up to K = 7, which are a little wider). Borders are mirrored without the edge
  pixel. K = 1 is the image itself.
- `salt-pepper:P`: each pixel with a chance of P per cent becomes white or black, each as likely.
- `grey`: luminance after Rec. 601 (0.299 R + 0.587 G + 0.114 B), as Pillow's mode L.
- `jitter:S`: brightness, contrast (about the mean luminance) and saturation times 1 + S u, each with its own u from -1
  to 1, then hue (the angle in the plane of U and V) turned by S u / 4 of a circle. One linear map, rounded and clipped
  at its end.
- `downscale:N`: both sides divided by N, rounded half up, at least 1 pixel; bicubic. Source: the appendix of VLM2-Bench divides
  by 2, 4, 8 and 16; it names no filter.
- `patch-shuffle:N`: the image is cut into N x N patches of equal size, whose places are drawn; pixels right and below that
  do not fill a patch stay. An image that is smaller than N pixels a side stays.
- `remove`: white.

`@object` or `@background` behind an operation limits it to the pixels in the image's mask, or to the others; the operation
itself sees the whole image. `remove` needs one of them, and what changes the size has none. Source: FG-BMK (arXiv
2606.19053) removes the background or turns it grey, and shifts the colours of the object.

Seed rule: random numbers are the raw 64-bit words of PCG64, seeded by the BLAKE2b of the operation's name and the
content's digest: SHA-256 of the image's file, or of the video's file followed by the number of the frame. Neither the
run's seed nor the strength goes in, so an image at 15 % has every speck that it has at 5 %.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import cache
from hashlib import blake2b, sha256
from math import cos, exp, sin, tau
from typing import TYPE_CHECKING

from msgspec import Struct

from snellen.errors import MediaError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image as PillowImage

WIDEST = 31
UNIT = 4096  # the weights of a kernel add up to this; 255 * UNIT * UNIT fits into 32 bits
BAND = 1 << 20  # pixels that are worked on at once, which bounds the memory beside the image
KNOWN = (
    f"blur:K (odd, 1 to {WIDEST} pixels)",
    "salt-pepper:P (over 0, up to 100 per cent)",
    "grey",
    "jitter:S (over 0, up to 1)",
    "downscale:N (over 1, up to 64)",
    "patch-shuffle:N (whole, 2 to 64 patches a side)",
    "remove",
    "each but downscale also with @object or @background",
)
_REGIONS = ("object", "background")
_NUMBERLESS = frozenset({"grey", "remove"})
_RESIZING = frozenset({"downscale"})
_RANGES = {
    "blur": (1, WIDEST),
    "salt-pepper": (0, 100),
    "jitter": (0, 1),
    "downscale": (1, 64),
    "patch-shuffle": (2, 64),
}
_WHOLE = {"blur", "patch-shuffle"}
LUMA = (0.299, 0.587, 0.114)


class Operation(Struct, frozen=True):
    """One corruption: `strength` is the number after the colon, 0 if there is none; `region` what stands behind an @."""

    name: str
    strength: float = 0.0
    region: str = ""

    def __str__(self) -> str:
        number = f":{self.strength:g}" if self.strength else ""
        return f"{self.name}{number}{'@' if self.region else ''}{self.region}"


@cache
def operations(spec: str) -> tuple[Operation, ...]:
    """Parse a setting into its operations, in order; empty for an empty setting.

    Raises:
        UsageError: an operation that is unknown, a strength that is out of range, or a region of a resized image.
    """
    known = tuple(_operation(text.strip()) for text in spec.split(",")) if spec.strip() else ()
    for number, operation in enumerate(known):
        if operation.region and any(before.name in _RESIZING for before in known[:number]):
            raise UsageError(
                f"--corrupt {spec}: the mask does not fit the image that {known[number - 1]} leaves.",
                f"Put {operation} before it.",
            )
    return known


def masked(spec: str) -> bool:
    """Return True if an operation of the setting is limited to a region, so that it needs a mask."""
    return any(operation.region for operation in operations(spec))


def canonical(spec: str) -> str:
    """Return the setting in the spelling of the fingerprint: `blur: 3.0` is `blur:3`. Raises UsageError."""
    return ",".join(str(operation) for operation in operations(spec))


def changes(spec: str) -> bool:
    """Return True if this setting changes an image: a kernel of one pixel changes nothing."""
    return any((operation.name, operation.strength) != ("blur", 1.0) for operation in operations(spec))


def content(data: bytes, frame: int | None = None) -> bytes:
    """Return the seed of an image's random numbers: the digest of its file, for a video with the frame's number."""
    digest = sha256(data).digest()
    return digest if frame is None else frame_seed(digest, frame)


def frame_seed(digest: bytes, frame: int) -> bytes:
    """Return the seed of a video frame's random numbers: the digest of its file with the frame's number."""
    return digest + b"#frame=%d" % frame


def corrupted(image: PillowImage, spec: str, seed: bytes, mask: PillowImage | None = None) -> PillowImage:
    """Apply every operation of the setting to an image; the result is RGB, of the same size but for those that resize.

    Args:
        image: RGB or RGBX, upright, at its own size.
        spec: the setting, e.g. `blur:3,grey`.
        seed: `content` of the image.
        mask: 255 where the object is, else 0, of the image's size; needed for operations with a region.

    Raises:
        MediaError: an operation with a region, and no mask.
    """
    from PIL import Image as pillow

    for operation in operations(spec):
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        image = _APPLIED[operation.name](rgb, operation.strength, seed)
        if operation.region:
            if mask is None:
                raise MediaError(f"--corrupt {operation}: frames of a video have no masks", "Omit the @.")
            kept, put = (rgb, image) if operation.region == "object" else (image, rgb)
            image = pillow.composite(put, kept, mask)
    return image


def kernel(size: int) -> list[int]:
    """Return the weights of a Gaussian over `size` (odd) pixels, integers that sum to UNIT."""
    sigma = 0.3 * ((size - 1) * 0.5 - 1) + 0.8
    half = size // 2
    bell = [exp(-((x / sigma) ** 2) / 2) for x in range(-half, half + 1)]
    weights = [round(UNIT * value / sum(bell)) for value in bell]
    weights[half] += UNIT - sum(weights)
    return weights


def _operation(text: str) -> Operation:
    main, at, region = (part.strip() for part in text.partition("@"))
    name, sign, number = main.partition(":")
    name = name.strip()
    fits = region in _REGIONS and name not in _RESIZING if at else name != "remove"
    if name in _APPLIED and not fits:
        raise UsageError(
            f"--corrupt {text}: @object or @background is missing or has no place here.", f"Known: {_known()}."
        )
    if name not in _APPLIED:
        raise UsageError(f"--corrupt {text or '(nothing)'}: unknown corruption.", f"Known: {_known()}.")
    if name in _NUMBERLESS:
        if sign:
            raise UsageError(f"--corrupt {text}: {name} accepts no number.", f"Write {name}.")
        return Operation(name, region=region)
    try:
        value = Decimal(number.strip())
    except InvalidOperation:
        value = Decimal("NaN")
    low, high = _RANGES[name]
    fits = value.is_finite() and (low <= value if name in _WHOLE else low < value) and value <= high
    if not fits or (name in _WHOLE and value % 1) or (name == "blur" and not value % 2):
        raise UsageError(f"--corrupt {text}: the number after the colon is out of range.", f"Known: {_known()}.")
    return Operation(name, float(value), region)


def _known() -> str:
    return ", ".join(KNOWN[:-1]) + " and " + KNOWN[-1]


def _words(name: str, seed: bytes) -> np.random.PCG64:
    import numpy as np

    # NumPy's policy (NEP 19) fixes the bit stream of a bit generator, not the distributions made of it.
    digest = blake2b(b"snellen.corrupt/" + name.encode() + b"\0" + seed, digest_size=16).digest()
    return np.random.PCG64(int.from_bytes(digest, "little"))


def _blur(image: PillowImage, size: float, seed: bytes) -> PillowImage:
    import numpy as np
    from PIL import Image as pillow

    if size == 1:
        return image
    weights = kernel(int(size))
    half = int(size) // 2
    pixels = np.asarray(image)
    height, width, _ = pixels.shape
    out = np.empty_like(pixels)
    columns = _mirrored(-half, width + half, width)
    rows = max(1, BAND // width)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        band = pixels[_mirrored(top - half, bottom + half, height)].astype(np.uint32)
        down = _weighted(weights, [band[k : k + bottom - top] for k in range(len(weights))])[:, columns]
        across = _weighted(weights, [down[:, k : k + width] for k in range(len(weights))])
        out[top:bottom] = (across + UNIT * UNIT // 2) // (UNIT * UNIT)
    return pillow.fromarray(out)


def _weighted(weights: list[int], shifted: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    total = shifted[0] * weights[0]
    for weight, pixels in zip(weights[1:], shifted[1:], strict=True):
        total += pixels * weight
    return total


def _mirrored(start: int, stop: int, n: int) -> NDArray[np.int64]:
    """Return indices start to stop - 1 into n pixels, mirrored at both ends without repeating the edge: 2 1 0 1 2."""
    import numpy as np

    period = max(1, 2 * (n - 1))
    at = np.abs(np.arange(start, stop)) % period
    return np.minimum(at, period - at) if n > 1 else np.zeros(stop - start, dtype=np.int64)


def _salt_pepper(image: PillowImage, per_cent: float, seed: bytes) -> PillowImage:
    import numpy as np
    from PIL import Image as pillow

    words = _words("salt-pepper", seed)
    flat = np.array(image).reshape(-1, 3)
    hit_below = round(per_cent / 100 * (1 << 31))
    for start in range(0, len(flat), BAND):
        part = flat[start : start + BAND]
        drawn = np.asarray(words.random_raw((len(part) + 1) // 2), dtype="<u8").view("<u4")[: len(part)]
        hit = (drawn >> 1) < hit_below
        # The lowest bit, which the comparison did not see, says which of the two it is.
        part[hit] = ((drawn[hit] & 1) * 255).astype(np.uint8)[:, None]
    return pillow.fromarray(flat.reshape(image.height, image.width, 3))


def _grey(image: PillowImage, strength: float, seed: bytes) -> PillowImage:
    return image.convert("L").convert("RGB")


def _remove(image: PillowImage, strength: float, seed: bytes) -> PillowImage:
    from PIL import Image as pillow

    return pillow.new("RGB", image.size, (255, 255, 255))


def _jitter(image: PillowImage, strength: float, seed: bytes) -> PillowImage:
    words = _words("jitter", seed)
    u = [(int(words.random_raw()) >> 11) / (1 << 52) - 1 for _ in range(4)]
    brightness, contrast, saturation = (1 + strength * value for value in u[:3])
    rotation = tau * strength * u[3] / 4
    mean = sum(value * count for value, count in enumerate(image.convert("L").histogram()))
    offset = (1 - contrast) * brightness * mean / (image.width * image.height)
    red, green, blue = (
        _toned([float(i == channel) for i in range(3)], brightness * contrast, saturation, rotation)
        for channel in range(3)
    )
    rows = [(red[i], green[i], blue[i], offset) for i in range(3)]
    return image.convert("RGB", matrix=(*rows[0], *rows[1], *rows[2]))


def _toned(rgb: list[float], gain: float, saturation: float, rotation: float) -> tuple[float, float, float]:
    """Scale a colour's chroma and rotate it in the plane of U and V (Rec. 601); its luminance is multiplied by
    `gain`.
    """
    y = sum(weight * value for weight, value in zip(LUMA, rgb, strict=True))
    u, v = 0.492 * (rgb[2] - y) * saturation, 0.877 * (rgb[0] - y) * saturation
    u, v = u * cos(rotation) - v * sin(rotation), u * sin(rotation) + v * cos(rotation)
    red, blue = y + v / 0.877, y + u / 0.492
    green = (y - LUMA[0] * red - LUMA[2] * blue) / LUMA[1]
    return gain * red, gain * green, gain * blue


def _downscale(image: PillowImage, factor: float, seed: bytes) -> PillowImage:
    from PIL import Image as pillow

    width, height = (max(1, int(side / factor + 0.5)) for side in image.size)
    return image.resize((width, height), pillow.Resampling.BICUBIC)


def _patch_shuffle(image: PillowImage, count: float, seed: bytes) -> PillowImage:
    import numpy as np
    from PIL import Image as pillow

    side = int(count)
    height, width = image.height // side, image.width // side
    if not height or not width:
        return image
    pixels = np.array(image)
    grid = pixels[: height * side, : width * side].reshape(side, height, side, width, 3).swapaxes(1, 2)
    # Sorted raw words are a permutation by the bit stream alone, as everywhere in this file.
    order = np.argsort(_words("patch-shuffle", seed).random_raw(side * side), kind="stable")
    moved = grid.reshape(side * side, height, width, 3)[order].reshape(side, side, height, width, 3)
    pixels[: height * side, : width * side] = moved.swapaxes(1, 2).reshape(height * side, width * side, 3)
    return pillow.fromarray(pixels)


_APPLIED: dict[str, Callable[[PillowImage, float, bytes], PillowImage]] = {
    "blur": _blur,
    "salt-pepper": _salt_pepper,
    "grey": _grey,
    "remove": _remove,
    "jitter": _jitter,
    "downscale": _downscale,
    "patch-shuffle": _patch_shuffle,
}
