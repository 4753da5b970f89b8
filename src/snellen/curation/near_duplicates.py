"""Whether two pictures are copies of one, by the perceptual hash of the reverse image search: mirrored and cropped copies too.

Pictures that look alike to an encoder: near-duplicates that the perceptual hash does not tell.

Vectors of any encoder of the machine-oriented track, the embedded one by default, compared by cosine, every one with every
one. As the hash does, each picture held is taken whole and without its edges, and the one searched for mirrored too: an
encoder need not know by itself that these are the same.

This lives here and not among the tools, since encoders are a layer above what answers prompts, and a tool that runs beside
an agent should not have to load one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from snellen.errors import MediaError, MissingExtraError
from snellen.media import open_image
from snellen.models.tools.perceptual_hash import CROPS, FLAT, QUERIED, HashIndex, Words, stacked, variants
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings

if TYPE_CHECKING:
    from snellen.features.encoders.base import Encoder


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


ENCODER = "embedded"
NONE = "none"
ALIKE = 0.99
"""Cosine from which pictures count as alike; docs/curation.md has what was measured at it."""
# Pictures that are encoded in one go, and vectors that are compared in one go.
BATCH = 32
BLOCK = 1 << 14

Vectors: TypeAlias = NDArray[np.float32]


class Looks:
    """What pictures look like to one encoder. Views of one colour have a vector of zeros, alike to nothing."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        identity = msgspec.json.encode(encoder.identity(), order="deterministic")
        self.name = f"{encoder.name} {blake2b(identity, digest_size=8).hexdigest()}"

    def held(self, pictures: Iterable[bytes]) -> Vectors:
        """Vectors of pictures to be found: shape (n, 3, d), of length 1. Raises MediaError where one cannot be decoded."""
        return self._encoded([_views(data) for data in pictures])

    def asked(self, picture: bytes) -> Vectors:
        """Vectors of a picture to search for, mirrored ones with them: shape (6, d). Raises MediaError."""
        views = _views(picture)
        found: Vectors = self._encoded([[*views, *(view[:, ::-1] for view in views)]])[0]
        return found

    def _encoded(self, views: Sequence[Sequence[NDArray[np.uint8]]]) -> Vectors:
        import torch

        from snellen.features.extract.preprocess import normalise, resize_and_crop
        from snellen.features.extract.threads import torch_threads

        flat = [view for one in views for view in one]
        found: list[Vectors] = []
        with torch_threads(self._encoder, min(BATCH, len(flat))):
            for start in range(0, len(flat), BATCH):
                part = [np.ascontiguousarray(view) for view in flat[start : start + BATCH]]
                pixels = torch.stack([resize_and_crop(view, self._encoder.transform) for view in part])
                with torch.inference_mode():
                    seen = self._encoder.encode(normalise(pixels, self._encoder.transform))
                vectors = np.concatenate([seen[name].cpu().numpy() for name in self._encoder.outputs], axis=1)
                vectors[[float(view.std()) < FLAT for view in part]] = 0
                found.append(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
        if not found:
            return np.empty((0, QUERIED, 0), dtype=np.float32)
        return np.concatenate(found).reshape(len(views), -1, found[0].shape[1])


def open_looks(spec: str) -> Looks | None:
    """The encoder that `spec` names (see `open_encoder`), by its patches' mean; None for `none`.

    Raises:
        MissingExtraError, PreflightError, UsageError: as `open_encoder`; what is missing, and that `none` does without.
    """
    if spec == NONE:
        return None
    from snellen.features.encoders import open_encoder

    try:
        return Looks(open_encoder(spec, ["patch_mean"]))
    except MissingExtraError as error:
        raise MissingExtraError(
            error.message, f"{error.hint} To compare pictures by their hashes alone: --encoder none."
        ) from error


def cosines(asked: Vectors, held: Vectors) -> NDArray[np.float32]:
    """How alike each picture held is: the largest cosine over both pictures' views, shape (n,).

    Args:
        asked: shape (6, d).
        held: shape (n, 3, d).
    """
    found = np.empty(len(held), dtype=np.float32)
    for start in range(0, len(held), BLOCK):
        part = held[start : start + BLOCK]
        near = part.reshape(-1, part.shape[2]) @ asked.T
        found[start : start + BLOCK] = near.reshape(len(part), -1).max(axis=1)
    return found


def nearest(asked: Vectors, held: Vectors, k: int, alike: float = ALIKE) -> list[tuple[int, float]]:
    """The k most alike as (number, cosine), most alike first, ties by number; none below `alike`."""
    if not len(held):
        return []
    found = cosines(asked, held)
    near = np.flatnonzero(found >= alike)
    chosen = near[np.argsort(-found[near], kind="stable")[:k]]
    return [(int(number), float(found[number])) for number in chosen]


def _views(data: bytes) -> list[NDArray[np.uint8]]:
    """The picture, and what is left of it without its edges, as RGB."""
    picture = open_image(Image(BytesBlob("picture", data)), MediaSettings()).convert("RGB")
    picture.thumbnail((512, 512), reducing_gap=2.0)
    width, height = picture.size
    return [
        np.asarray(
            picture.crop(
                (round(width * left), round(height * top), round(width * (1 - right)), round(height * (1 - bottom)))
            )
        )
        for left, top, right, bottom in CROPS[:QUERIED]
    ]
