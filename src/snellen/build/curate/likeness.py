"""Whether two pictures are copies of one, by the perceptual hash of the reverse image search: mirrored and cropped copies too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from snellen.errors import MediaError
from snellen.media import open_image
from snellen.models.tools.hashes import HashIndex, Words, stacked, variants
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings

NEAR = HashIndex.FARTHEST
"""Pictures whose hashes differ in no more than so many of 256 bits count as copies."""
Hashes: TypeAlias = Words | None


def hashes(data: bytes) -> Hashes:
    """The hashes of a picture, None where it is of one colour. Raises MediaError where it cannot be decoded."""
    return variants(open_image(Image(BytesBlob("picture", data)), MediaSettings()), True)


def distance(left: Hashes, right: Hashes, near: int = NEAR) -> int | None:
    """In how many bits of 256 two pictures differ; None where it is more than `near`, or one of them is of one colour."""
    if left is None or right is None:
        return None
    found = HashIndex(stacked([right[0]])).nearest(left, 1, near)
    return found[0][1] if found else None


def copies(pictures: Sequence[bytes], near: int = NEAR) -> dict[int, list[int]]:
    """For each picture that has copies before it: their indices, nearest first."""
    hashed: list[Hashes] = []
    for at, data in enumerate(pictures):
        try:
            hashed.append(hashes(data))
        except MediaError as error:
            raise MediaError(f"picture {at + 1} of {len(pictures)}: {error.message}", error.hint) from error
    at_all = [at for at, one in enumerate(hashed) if one is not None]
    index = HashIndex(stacked([one[0] for one in hashed if one is not None]))
    found = {}
    for at in at_all:
        one = hashed[at]
        near_ones = [] if one is None else index.nearest(one, len(at_all), near)
        before = [at_all[number] for number, _ in near_ones if at_all[number] < at]
        if before:
            found[at] = before
    return found
