"""Near-duplicate pictures: copies by perceptual hash, mirrored and cropped ones included, and lookalikes by encoder.

Vectors of any encoder of the machine-oriented track, the embedded one by default, compared by cosine, every one with every
one. As the hash does, each image held is taken whole and without its edges, and the one searched for mirrored too: an
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
"""Images whose hashes differ in no more than so many of 256 bits count as copies."""
Hashes: TypeAlias = Words | None


def hashes(data: bytes) -> Hashes:
    """Return the hashes of an image; None for a single-colour image. Raises MediaError if it cannot be decoded."""
    return variants(open_image(Image(BytesBlob("picture", data)), MediaSettings()), True)


def distance(left: Hashes, right: Hashes, near: int = NEAR) -> int | None:
    """Return the hash distance of two images in bits of 256; None if above `near`, or if one has no hash."""
    if left is None or right is None:
        return None
    matches = HashIndex(stacked([right[0]])).nearest(left, 1, near)
    return matches[0][1] if matches else None


def copies(pictures: Sequence[bytes], near: int = NEAR) -> dict[int, list[int]]:
    """Map each image that has earlier copies to their indices, nearest first."""
    hashed: list[Hashes] = []
    for at, data in enumerate(pictures):
        try:
            hashed.append(hashes(data))
        except MediaError as error:
            raise MediaError(f"picture {at + 1} of {len(pictures)}: {error.message}", error.hint) from error
    at_all = [at for at, entry in enumerate(hashed) if entry is not None]
    index = HashIndex(stacked([entry[0] for entry in hashed if entry is not None]))
    by_picture = {}
    for at in at_all:
        own = hashed[at]
        near_ones = [] if own is None else index.nearest(own, len(at_all), near)
        before = [at_all[number] for number, _ in near_ones if at_all[number] < at]
        if before:
            by_picture[at] = before
    return by_picture


NONE = "none"
ALIKE = 0.99
"""Cosine from which images count as alike; docs/curation.md has what was measured at it."""
# Images that are encoded in one go, and vectors that are compared in one go.
BATCH = 32
BLOCK = 1 << 14

Vectors: TypeAlias = NDArray[np.float32]


class ImageEncoder:
    """Image vectors by one encoder. Single-colour views have zero vectors, similar to nothing."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        identity = msgspec.json.encode(encoder.identity(), order="deterministic")
        self.name = f"{encoder.name} {blake2b(identity, digest_size=8).hexdigest()}"

    def encode_collection(self, pictures: Iterable[bytes]) -> Vectors:
        """Encode images of a collection: shape (n, 3, d), unit length. Raises MediaError if one cannot be decoded."""
        return self._encoded([_views(data) for data in pictures])

    def encode_query(self, picture: bytes) -> Vectors:
        """Encode a query image and its mirror images: shape (6, d). Raises MediaError."""
        views = _views(picture)
        vectors: Vectors = self._encoded([[*views, *(view[:, ::-1] for view in views)]])[0]
        return vectors

    def _encoded(self, views: Sequence[Sequence[NDArray[np.uint8]]]) -> Vectors:
        import torch

        from snellen.features.extract.loop import torch_threads
        from snellen.features.extract.preprocess import normalise, resize_and_crop

        flat = [view for of_picture in views for view in of_picture]
        batches: list[Vectors] = []
        with torch_threads(self._encoder, min(BATCH, len(flat))):
            for start in range(0, len(flat), BATCH):
                part = [np.ascontiguousarray(view) for view in flat[start : start + BATCH]]
                pixels = torch.stack([resize_and_crop(view, self._encoder.transform) for view in part])
                with torch.inference_mode():
                    outputs = self._encoder.encode(normalise(pixels, self._encoder.transform))
                vectors = np.concatenate([outputs[name].cpu().numpy() for name in self._encoder.outputs], axis=1)
                vectors[[float(view.std()) < FLAT for view in part]] = 0
                batches.append(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
        if not batches:
            return np.empty((0, QUERIED, 0), dtype=np.float32)
        return np.concatenate(batches).reshape(len(views), -1, batches[0].shape[1])


def open_image_encoder(spec: str) -> ImageEncoder | None:
    """Open the encoder that `spec` names (see `open_encoder`) with mean patch features; None for `none`.

    Raises:
        MissingExtraError, PreflightError, UsageError: as `open_encoder`; what is missing, and that `none` does without.
    """
    if spec == NONE:
        return None
    from snellen.features.encoders import open_encoder

    try:
        return ImageEncoder(open_encoder(spec, ["patch_mean"]))
    except MissingExtraError as error:
        raise MissingExtraError(
            error.message, f"{error.hint} To compare pictures by hash only, set --encoder none."
        ) from error


def cosines(query: Vectors, collection: Vectors) -> NDArray[np.float32]:
    """Return the largest cosine over all view pairs for each image of a collection, shape (n,).

    Args:
        query: shape (6, d).
        collection: shape (n, 3, d).
    """
    largest = np.empty(len(collection), dtype=np.float32)
    for start in range(0, len(collection), BLOCK):
        part = collection[start : start + BLOCK]
        near = part.reshape(-1, part.shape[2]) @ query.T
        largest[start : start + BLOCK] = near.reshape(len(part), -1).max(axis=1)
    return largest


def nearest(query: Vectors, collection: Vectors, k: int, alike: float = ALIKE) -> list[tuple[int, float]]:
    """Return the k most similar images as (number, cosine), most similar first; none below `alike`."""
    if not len(collection):
        return []
    similarity = cosines(query, collection)
    indices = np.flatnonzero(similarity >= alike)
    chosen = indices[np.argsort(-similarity[indices], kind="stable")[:k]]
    return [(int(number), float(similarity[number])) for number in chosen]


def _views(data: bytes) -> list[NDArray[np.uint8]]:
    """Return the image and its crops without the edges, as RGB."""
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
