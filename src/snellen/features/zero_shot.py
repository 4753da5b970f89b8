"""Zero-shot classification: the class whose prompts are nearest to the image in a dual encoder's space.

Source: Radford et al. 2021, arXiv 2103.00020, section 3.1: a class is the mean of the normalised embeddings of its
prompts, normalised again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.probes.calibration import Calibration, calibrate, class_probabilities, join
from snellen.features.probes.results import Confusion, count_confusions
from snellen.features.ranking.ranks import Ties, check_ties, find_nearest, rank_relevant, ranking_pool
from snellen.features.ranking.relevance import as_labels, find_relevant, single_labels
from snellen.features.ranking.similarity import Space, check_values, prepare_space
from snellen.features.store.labels import Labels
from snellen.scoring.statistics import mean_of
from snellen.types import Metric

TEMPLATE = "a photo of a {}."
BLOCK = 1024


class ZeroShot(Struct, frozen=True, eq=False):
    """Ranks of the true classes.

    Attributes:
        ties: as in `rank_relevant`.
        rank: [n] 1-based rank of the image's class among all classes.
        predicted: [n] id of the nearest class; of equals the first.
        labels: the images' classes, with the names of all classes.
        images, classes: the spaces of images and of classes.
    """

    ties: Ties
    rank: NDArray[np.int64]
    predicted: NDArray[np.int64]
    labels: Labels
    images: Space
    classes: Space

    def metrics(self, cluster: Literal["class", "query"] = "class") -> list[Metric]:
        """Top-1 and top-5 accuracy over images, and as a mean over the images' classes, with 95 % intervals.

        Args:
            cluster: "class": images of one class rise and fall together; "query": each image on its own.
        """
        truth = single_labels(self.labels)
        group = truth if cluster == "class" else None
        count = len(self.classes)
        return [
            mean_of(
                f"accuracy{depth}{end}",
                (self.rank <= top).astype(np.float64),
                group,
                strata=truth if end else None,
                cluster=cluster,
                chance=min(1.0, top / count),
            )
            for end in ("", "/class-mean")
            for top, depth in ((1, ""), (5, "/top5"))
        ]

    def confusion(self) -> Confusion:
        """Count which class was taken for which."""
        return count_confusions(self.labels, single_labels(self.labels), self.predicted)

    def calibration(self, scale: float) -> Calibration:
        """Calibrate the softmax over classes of the cosines times the model's own `scale`."""
        parts = []
        for start in range(0, len(self.images), BLOCK):
            rows = slice(start, min(start + BLOCK, len(self.images)))
            cosines = self.images.high(rows) @ self.classes.high(slice(0, len(self.classes))).T
            parts.append(class_probabilities(scale * cosines, self.labels.columns[rows]))
        return calibrate(join(parts))


def read_lines(path: Path, kind: str) -> list[str]:
    """Read the lines of a UTF-8 text. Raises DataError if it cannot be read, or holds none or an empty one."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}", f"Write one {kind} a line, in UTF-8.") from error
    if empty := next((number for number, line in enumerate(lines, 1) if not line.strip()), None if lines else 1):
        raise DataError(f"{path}, line {empty}: it is empty; a {kind} was expected", f"Write one {kind} a line.")
    return [line.strip() for line in lines]


def class_embeddings(
    names: Sequence[str], templates: Sequence[str], encode: Callable[[Sequence[str]], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Embed classes by their prompts: [classes, d] of length 1.

    Args:
        templates: texts with one `{}` for the name; several are ensembled.
        encode: texts to [n, d] of length 1.

    Raises:
        UsageError: no template, or one that has not exactly one `{}`.
        DataError: the prompts of a class cancel each other out.
    """
    if not templates:
        raise UsageError("there is no template.", f"Give one or more, such as {TEMPLATE!r}.")
    if wrong := next((template for template in templates if template.count("{}") != 1), None):
        raise UsageError(f"the template {wrong!r} has not exactly one {{}}.", f"Example: {TEMPLATE}")
    rows = []
    step = max(1, BLOCK // len(templates))
    for start in range(0, len(names), step):
        some = names[start : start + step]
        prompts = [template.replace("{}", name) for name in some for template in templates]
        rows.append(encode(prompts).reshape(len(some), len(templates), -1).mean(axis=1))
    means = np.concatenate(rows)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise DataError(f"the prompts of {names[int(lengths.argmin())]!r} cancel each other out", "Change a template.")
    return np.asarray(means / lengths, dtype=np.float32)


def zero_shot(
    features: Any, labels: Any, classes: NDArray[np.float32], *, ties: Ties = "pessimistic", threads: int | None = None
) -> ZeroShot:
    """Rank the classes of each image by cosine.

    Args:
        features: [n, d] of images, in memory or memory-mapped; read in blocks.
        labels: one class an image: [n] integers, or Labels. Class i is row i of `classes`.
        classes: [c, d], see `class_embeddings`.
        ties: whether equal classes come before ("pessimistic") or after the true one, or in their order ("index").
        threads: how many; None for one a core.

    Raises:
        DataError: another width, a value that is not finite, or a class without a row of `classes`.
        UsageError: images with several labels.
    """
    check_ties(ties)
    values, texts = check_values(features), check_values(classes)
    if values.shape[1] != texts.shape[1]:
        raise DataError(
            f"images are {values.shape[1]:,} wide and classes {texts.shape[1]:,}", "Take both of one encoder."
        )
    known = as_labels(labels, len(values))
    truth, count = single_labels(known), len(texts)
    if len(outside := truth[(truth < 0) | (truth >= count)]):
        raise DataError(
            f"class {outside[0]} has no name: there are {count:,}, 0 to {count - 1:,}",
            "Give one name a line, for every class id from 0.",
        )
    every = np.arange(count, dtype=np.int64)
    rows = np.arange(len(values), dtype=np.int64)
    # Images and classes are rows of two arrays; relevance numbers the classes behind the images.
    pairs = find_relevant(Labels(every, single=np.concatenate((truth, every))), rows, len(rows) + every)
    rank = np.zeros(len(rows), dtype=np.int64)
    with ranking_pool(threads) as pool:
        space = prepare_space(texts, every, "cosine", pool)
        images = prepare_space(values, rows, "cosine", pool, like=space)
        for block in rank_relevant(images, space, pairs, ties, pool):
            rank[block.queries] = block.ranks
        nearest, _ = find_nearest(images, space, 1, pool)
    names = known.names if known.names is not None and len(known.names) == count else None
    return ZeroShot(ties, rank, nearest[:, 0], Labels(every, single=truth, names=names), images, space)
