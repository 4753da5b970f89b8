"""Image-text retrieval: ranks of an image's captions among all captions, and of a caption's image among all images.

Protocol of Flickr30k and COCO (Karpathy and Fei-Fei 2015, arXiv 1412.2306): an image has several captions, and as a
query it counts as found at the best rank of any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile, gettempdir
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, StorageError, UsageError
from snellen.features.ranking.ranks import Ties, check_ties, rank_relevant, ranking_pool
from snellen.features.ranking.relevance import find_relevant
from snellen.features.ranking.similarity import check_values, prepare_space
from snellen.features.retrieval import expected_values
from snellen.features.store.labels import Labels
from snellen.scoring.statistics import mean_of
from snellen.scoring.statistics.bootstrap import REPLICATES, SEED, percentile_interval
from snellen.sources.rows import json_document, rows
from snellen.types import Metric

DEPTH = 10
"""Depth of nDCG."""

BLOCK = 4096
"""Captions that are embedded at once."""


class CaptionRows(Struct, frozen=True, eq=False):
    """Captions: [m] texts, [m] rows of their images, and how many captions of the file are of other images."""

    texts: list[str]
    images: NDArray[np.int64]
    others: int


class Direction(Struct, frozen=True, eq=False):
    """Values of the queries of one direction.

    Attributes:
        name: "image_to_text" or "text_to_image".
        first: [q] rank of the first relevant item.
        ndcg: [q] nDCG at 10 of relevances 0 and 1.
        chance: "recall@k" to the expected value of a random order.
        image: [q] the image that a query is, or is a caption of.
    """

    name: str
    first: NDArray[np.int64]
    ndcg: NDArray[np.float64]
    chance: Mapping[str, float]
    image: NDArray[np.int64]

    def metrics(self, ks: Sequence[int]) -> list[Metric]:
        """recall@k, nDCG@10 and the median rank, with intervals over images as clusters."""
        metrics = [
            mean_of(
                f"{self.name}/recall@{k}",
                (self.first <= k).astype(np.float64),
                self.image,
                cluster="image",
                chance=self.chance[f"recall@{k}"],
            )
            for k in ks
        ]
        metrics.append(mean_of(f"{self.name}/ndcg@{DEPTH}", self.ndcg, self.image, cluster="image"))
        return [*metrics, self._median()]

    def _median(self) -> Metric:
        """Return the median rank, with an interval of whole images drawn anew."""
        images, place = np.unique(self.image, return_inverse=True)
        order = np.argsort(self.first, kind="stable")
        ranks, place = self.first[order], place[order]
        rng = np.random.default_rng(SEED)
        draws = np.empty(REPLICATES)
        for number in range(len(draws)):
            drawn = np.bincount(rng.integers(0, len(images), len(images)), minlength=len(images))
            counts = np.cumsum(drawn[place])
            middle = np.searchsorted(counts, [(counts[-1] + 1) // 2, counts[-1] // 2 + 1])
            draws[number] = ranks[middle].mean()
        ends = percentile_interval(draws, len(images), len(ranks), cluster="image")
        name = f"{self.name}/median_rank"
        return Metric(name, float(np.median(ranks)), len(ranks), ends, unit="rank")


class ImageText(Struct, frozen=True, eq=False):
    """Retrieval in both directions; `uncaptioned` images are searched and do not ask."""

    image_to_text: Direction
    text_to_image: Direction
    ks: tuple[int, ...]
    images: int
    captions: int
    uncaptioned: int

    def metrics(self) -> list[Metric]:
        """Metrics of image to text, then of text to image."""
        return self.image_to_text.metrics(self.ks) + self.text_to_image.metrics(self.ks)

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        if not self.uncaptioned:
            return []
        return [f"{self.uncaptioned:,} of {self.images:,} images have no caption; they are searched and do not ask."]


def image_text(
    images: Any,
    captions: Any,
    image_of: Any,
    *,
    ks: Sequence[int] = (1, 5, 10),
    ties: Ties = "pessimistic",
    threads: int | None = None,
) -> ImageText:
    """Rank captions for each image and images for each caption, by cosine.

    Args:
        images: [n, d] of any real type, in memory or memory-mapped; read in blocks.
        captions: [m, d] likewise.
        image_of: [m] row of `images` that each caption describes.
        ks: depths of recall@k.
        ties: see `rank_relevant`.
        threads: how many; None for one a core.

    Raises:
        DataError: widths that differ, an image that is not there, no captions, or a value that is not finite.
        UsageError: a setting that does not exist.
    """
    check_ties(ties)
    if not ks or any(int(k) != k or k < 1 for k in ks):
        raise UsageError(f"depths {list(ks)}; whole numbers from 1 were expected", "As in --k 1,5,10.")
    depths = tuple(sorted({int(k) for k in ks}))
    seen, said = check_values(images), check_values(captions)
    described = np.asarray(image_of, dtype=np.int64)
    if seen.shape[1] != said.shape[1]:
        raise DataError(
            f"images are {seen.shape[1]:,} wide and captions {said.shape[1]:,}", "Take both of one encoder."
        )
    if len(described) != len(said) or not len(said):
        raise DataError(f"{len(described):,} images for {len(said):,} captions", "Name one image for each caption.")
    if described.min() < 0 or described.max() >= len(seen):
        raise DataError(f"captions of images {described.min()} to {described.max()} of {len(seen):,}", "Count from 0.")
    every_image, every_caption = np.arange(len(seen)), np.arange(len(said))
    asking = np.unique(described)
    # Images and captions are rows of two arrays; relevance numbers the captions behind the images.
    labels = Labels(every_image, single=np.concatenate((every_image, described)))
    with ranking_pool(threads) as pool:
        image_space = prepare_space(seen, every_image, "cosine", pool)
        caption_space = prepare_space(said, every_caption, "cosine", pool, like=image_space)
        asking_space = prepare_space(seen, asking, "cosine", pool, like=image_space)
        behind = len(seen) + every_caption
        forth = find_relevant(labels, asking, behind)
        back = find_relevant(labels, behind, every_image)
        to_text = _direction(
            "image_to_text", rank_relevant(asking_space, caption_space, forth, ties, pool), forth.counts, len(said),
            depths, asking,
        )  # fmt: skip
        to_image = _direction(
            "text_to_image", rank_relevant(caption_space, image_space, back, ties, pool), back.counts, len(seen),
            depths, described,
        )  # fmt: skip
    return ImageText(to_text, to_image, depths, len(seen), len(said), len(seen) - len(asking))


def _direction(
    name: str, blocks: Any, relevant: NDArray[np.int64], items: int, ks: tuple[int, ...], image: NDArray[np.int64]
) -> Direction:
    gains = 1.0 / np.log2(np.arange(2, DEPTH + 2))
    best = np.cumsum(gains)
    first, ndcg = np.zeros(len(relevant), dtype=np.int64), np.zeros(len(relevant))
    for block in blocks:
        starts = np.cumsum(block.counts) - block.counts
        first[block.queries] = block.ranks[starts]
        gained = np.where(block.ranks <= DEPTH, gains[np.minimum(block.ranks, DEPTH) - 1], 0.0)
        ndcg[block.queries] = np.add.reduceat(gained, starts) / best[np.minimum(block.counts, DEPTH) - 1]
    chance = expected_values(relevant, np.full(len(relevant), items), ks, "step", "min(R,k)")
    return Direction(name, first, ndcg, {f"recall@{k}": float(chance[f"recall@{k}"].mean()) for k in ks}, image)


@contextmanager
def caption_embeddings(
    texts: Sequence[str], encode: Callable[[Sequence[str]], NDArray[np.float32]]
) -> Iterator[NDArray[np.float32]]:
    """Embed captions into a mapped temporary file, float32 [m, d], in blocks. Raises StorageError if the disk is full."""
    first = encode(texts[:BLOCK])
    with TemporaryFile() as file:
        try:
            file.truncate(len(texts) * first.shape[1] * 4)
            values = np.memmap(file, np.float32, "r+", shape=(len(texts), first.shape[1]))
            values[:BLOCK] = first
            for start in range(BLOCK, len(texts), BLOCK):
                values[start : start + BLOCK] = encode(texts[start : start + BLOCK])
            values.flush()
        except OSError as error:
            raise StorageError(f"captions cannot be kept in {gettempdir()}: {error.strerror}", "Set TMPDIR.") from error
        yield values


def read_captions(path: Path, ids: Sequence[str], split: str | None = None) -> CaptionRows:
    """Read the captions of some images.

    Args:
        path: a table with the columns `image` and `caption` (.csv, .tsv, .jsonl, .parquet, ...); captions of COCO
            (.json with `images` and `annotations`); or the splits of Karpathy (.json with `images` and their
            `sentences`).
        ids: of the images; a caption's image is one of these, or the name of a file that only one of them has.
        split: of Karpathy's file, only images of this split.

    Raises:
        DataError: it cannot be read, or no caption is of these images.
    """
    found = list(_karpathy_or_coco(path, split) if path.suffix.lower() == ".json" else _table(path))
    place: dict[str, int] = {}
    ambiguous: set[str] = set()
    for number, image in enumerate(ids):
        file = PurePosixPath(image).name
        if file in place:
            ambiguous.add(file)
        place[file] = number
    for file in ambiguous:
        del place[file]
    place |= {image: number for number, image in enumerate(ids)}
    rows_of = [place.get(image, place.get(PurePosixPath(image).name, -1)) for image, _ in found]
    kept = [number for number, row in enumerate(rows_of) if row >= 0]
    if not kept:
        named = f"; the first is of {found[0][0]!r}" if found else ""
        raise DataError(
            f"{path}: none of its {len(found):,} captions is of an image of the store{named}",
            "Images are named by their ids in rows.parquet of the store, or by the names of their files.",
        )
    image_rows = np.array([rows_of[number] for number in kept], dtype=np.int64)
    return CaptionRows([found[number][1] for number in kept], image_rows, len(found) - len(kept))


def _table(path: Path) -> list[tuple[str, str]]:
    return [(str(row["image"]), str(row["caption"])) for row in rows(path, columns=("image", "caption"))]


def _karpathy_or_coco(path: Path, split: str | None) -> list[tuple[str, str]]:
    hint = "COCO's captions have images and annotations; Karpathy's file has images with sentences."
    try:
        with path.open("rb") as file:
            content = json_document(file, str(path))
        if isinstance(content, list):
            return [(str(row["image"]), str(row["caption"])) for row in content]
        if "annotations" in content:
            names = {image["id"]: str(image["file_name"]) for image in content["images"]}
            return [(names[said["image_id"]], str(said["caption"])) for said in content["annotations"]]
        return [
            (str(PurePosixPath(image.get("filepath", ""), image["filename"])), str(said["raw"]))
            for image in content["images"]
            if split is None or image.get("split") == split
            for said in image["sentences"]
        ]
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} holds no captions in a known form: {error!r}", hint) from error
