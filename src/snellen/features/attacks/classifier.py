"""Encoder and probe as one image classifier: accuracy under attack and on corrupted images.

The head is one that `snellen features probe --save` wrote, trained on features of the same encoder. An image goes
through the encoder's transform and is divided by 255; the attack sees what comes out, and the normalisation is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import DataError, UsageError
from snellen.features.attacks.pgd import fgbmk_legacy, predictions, select_starts
from snellen.features.attacks.robust_accuracy import AttackCurve, attack_curve, compare_sets, join_curves, share_metric
from snellen.features.extract.preprocess import Transform, decode, require_encoder, require_transform, resize_and_crop
from snellen.features.probes.head import ProbeHead
from snellen.features.store.labels import Labels
from snellen.features.store.splits import read_splits
from snellen.media import corruptions
from snellen.media.decode import checked_header, pixel_limit, render
from snellen.scoring.statistics import compare
from snellen.sources import open_tree
from snellen.sources.image_sets import set_pictures
from snellen.types import Blob, MediaSettings, Metric

if TYPE_CHECKING:
    import torch

    from snellen.features.encoders.base import Encoder

CHUNK = 256


class ImageBatch(Struct, frozen=True, eq=False):
    """Images of a split, ready for an encoder.

    Attributes:
        pixels: uint8 [n, 3, H, W], resized and cropped. 150 kB an image of 224 x 224.
        labels: of the n images; one class each.
        ids: [n] names.
        of: how many rows the split has.
    """

    pixels: torch.Tensor
    labels: Labels
    ids: list[str]
    of: int

    def images(self) -> torch.Tensor:
        """Return float32 [n, 3, H, W] in [0, 1]."""
        return self.pixels.float() / 255


class Corrupted(Struct, frozen=True, eq=False):
    """Accuracy on corrupted images and on the same images without corruption.

    Attributes:
        specs: the settings of `--corrupt`, canonical.
        clean: [n] bool.
        correct: [s, n] bool.
    """

    specs: tuple[str, ...]
    clean: np.ndarray
    correct: np.ndarray

    def metrics(self) -> list[Metric]:
        """Return accuracy@SPEC, and drop@SPEC (clean minus corrupted) with its paired interval."""
        group = np.arange(len(self.clean), dtype=np.int64)
        clean, metrics = self.clean.astype(np.float64), []
        for spec, row in zip(self.specs, self.correct, strict=True):
            metrics.append(share_metric(f"accuracy@{spec}", row))
            metrics.append(compare(clean, row.astype(np.float64), group).metric(f"drop@{spec}"))
        return metrics


def read_images(
    split: str | Path,
    images: str | Path,
    transform: Transform,
    *,
    limit: int | None = None,
    spec: str = "",
    chunk: int = CHUNK,
) -> Iterator[ImageBatch]:
    """Yield the images of one csv file of `path,label`, some at a time, in the order of the file.

    Args:
        split: FILE or NAME=FILE, as for `snellen features extract`.
        images: folder, zip or tar.
        limit: maximum number, spread evenly over the file, since files are often sorted by class.
        spec: a corruption (`blur:5`), applied to each image at its own size before the transform.
        chunk: how many at a time.

    Raises:
        DataError: a file or image cannot be read, or rows have several labels.
        UsageError: a corruption that there is not.
    """
    import torch

    rows = read_splits([split])
    if rows.labels.single is None:
        raise DataError(f"{split}: rows have several labels", "Attacks and their accuracy take one class an image.")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: 1 or more was expected.", "Omit it to use all images.")
    count = len(rows.ids)
    taken = np.arange(count) if limit is None or limit >= count else np.arange(limit) * count // limit
    tree = open_tree(images)
    pictures = set_pictures(Path(images), tree=tree)
    try:
        for first in range(0, len(taken), chunk):
            some = taken[first : first + chunk]
            blobs = [pictures.blob(rows.ids[row]) for row in some.tolist()]
            batch = [resize_and_crop(_decoded(blob, spec), transform, key=blob.key) for blob in blobs]
            yield ImageBatch(
                torch.stack(batch), rows.labels.take(some), [rows.ids[row] for row in some.tolist()], count
            )
    finally:
        tree.close()


def _decoded(blob: Blob, spec: str) -> np.ndarray:
    if not spec:
        return decode(blob)
    data = blob.read()
    image = render(data, checked_header(data, blob.key, pixel_limit()), blob.key, MediaSettings())
    return np.array(corruptions.corrupted(image, spec, corruptions.content(data)).convert("RGB"))


def head_columns(labels: Labels, head: ProbeHead) -> np.ndarray:
    """Return the columns of a head's logits for the classes of some rows, int64 [n].

    Classes meet by name where rows and head both have names: a split whose labels are names numbers them by those that
    it holds itself, so that a class that it lacks would shift the ids of all behind it. Else they meet by id.

    Raises:
        UsageError: rows have several labels.
        DataError: the head does not know a class, or two of its classes share the name of one.
    """
    if labels.single is None:
        raise UsageError("rows have several labels.", "Attacks and their accuracy take one class an image.")
    if labels.names is None or head.names is None:
        column_of = {int(class_id): column for column, class_id in enumerate(head.classes)}
        columns = [column_of.get(int(class_id), -1) for class_id in labels.classes]
    else:
        columns = [_column_named(int(class_id), labels.name(i), head) for i, class_id in enumerate(labels.classes)]
    columns_of_rows: np.ndarray = np.array(columns, dtype=np.int64)[labels.columns]
    unknown = np.unique(labels.columns[columns_of_rows < 0])
    if len(unknown):
        raise DataError(
            f"the head does not know {len(unknown):,} of the split's classes; the first is {labels.name(int(unknown[0]))}",
            "Train it on a split that has all classes.",
        )
    return columns_of_rows


def _column_named(identity: int, name: str, head: ProbeHead) -> int:
    """Return the column of this name; among several the one of the id; -1 if there is none."""
    same = [column for column, label in enumerate(head.names or ()) if label == name]
    if len(same) > 1:
        return next((column for column in same if head.classes[column] == identity), -1)
    return same[0] if same else -1


def head_outputs(head: ProbeHead, output: str | None = None) -> list[str] | None:
    """Return the encoder's outputs that a head takes, side by side (`cls_last4+patch_mean` names two); None if unknown.

    The name of imported features is not an encoder's output; `output` states it.

    Raises:
        UsageError: `output` is not the one that the head was trained on.
    """
    from snellen.features.encoders.base import OUTPUT

    own = str(head.settings.get("output") or "")
    if not all(OUTPUT.fullmatch(part) for part in own.split("+")):
        own = ""
    if output is not None and own and output != own:
        raise UsageError(f"the head was trained on {own}, not on {output}.", "Omit --output.")
    name = output or own
    return name.split("+") if name else None


def build_classifier(encoder: Encoder, head: ProbeHead, outputs: Sequence[str] | None = None) -> Any:
    """Build a torch module from images in [0, 1], [B, 3, H, W], to logits [B, c]; differentiable in the images.

    Args:
        outputs: of the encoder, laid side by side in this order, as the head was trained on them; None takes all that
            the encoder was opened with.

    Raises:
        UsageError: the head is one of several labels a row.
        DataError: the encoder's outputs have another width than the head takes.
    """
    import torch

    if head.several:
        raise UsageError("the head tells several labels a row.", "Attacks take a head of one class an image.")
    taken = tuple(encoder.outputs if outputs is None else outputs)
    widths = encoder.widths()
    width = sum(widths[output] for output in taken)
    if width != len(head.weights):
        raise DataError(
            f"{encoder.name} gives {width} numbers as {'+'.join(taken)}; the head takes {len(head.weights)}",
            "Take the encoder and the --output that the head was trained on.",
        )

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tower = encoder.module
            self.head = head.module(str(encoder.device))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            features = encoder.forward_pixels(images)
            logits: torch.Tensor = self.head(torch.cat([features[output] for output in taken], dim=1))
            return logits

    return Classifier().eval()


def require_same_encoder(head: ProbeHead, encoder: Encoder, folder: Path | None = None) -> str | None:
    """Refuse a head trained on features of another encoder, or of images that were prepared otherwise.

    Args:
        folder: where the head lies, a store as a rule. The encoder that the head records is compared, and that of the
            store that it names, or of this one, where that is there.

    Returns:
        What could not be checked, None where all was.

    Raises:
        FingerprintError: weights, checkpoint or transform differ; the message says in what.
    """
    from snellen.features.store.format import META, read_meta

    named = head.settings.get("store")
    recorded: Any = head.settings.get("identity")
    store = next(
        (path for path in (Path(str(named)) if named else None, folder) if path and (path / META).is_file()), None
    )
    meta = None if store is None else read_meta(store)
    sources = [] if not recorded else [(folder or Path(), recorded)]
    if store is not None and meta is not None and meta.kind == "extracted":
        sources.append((store, meta.identity))
    if not sources and (meta is not None or "identity" in head.settings):
        return "The head was trained on imported features, so it is not known whether their images were preprocessed alike."
    if not sources:  # heads saved before 0.2 name their store alone
        return "The head names no existing store, so it is not known whether its images were preprocessed alike."
    current = encoder.identity()
    for place, identity in sources:
        require_transform(place, identity.get("transform"), encoder.transform)
        require_encoder(place, identity.get("encoder"), current["encoder"])
    before, now = sources[0][1].get("compute"), current["compute"]
    return (
        None if before == now else f"The head was trained on features computed in {before}; this encoder runs in {now}."
    )


def attack_split(
    logits: Any,
    split: str | Path,
    images: str | Path,
    transform: Transform,
    head: ProbeHead,
    *,
    limit: int | None = None,
    target: int | Literal["least-likely"] | None = None,
    progress: Callable[[int, int], None] | None = None,
    start_images: Mapping[str, np.ndarray] | None = None,
    attack: Callable[..., AttackCurve] = attack_curve,
    **settings: Any,
) -> tuple[AttackCurve, int]:
    """Attack a split's images; return (accuracy under attack, number of rows of the split).

    Args:
        logits: as `build_classifier` gives it.
        target: a class id that images are led to, or to each the class that the classifier holds least likely.
        progress: called with images done, and in all.
        start_images: id to the image where its attack begins, as `read_starts` reads them.
        attack: `attack_curve`, or `snellen.features.attacks.robust_accuracy.autoattack_curve`.
        settings: of that function.

    Raises:
        As `read_images`, `head_columns` and `attack_curve`.
    """
    parts: list[AttackCurve] = []
    done = of = 0
    for batch in read_images(split, images, transform, limit=limit):
        wanted, of = head_columns(batch.labels, head), batch.of
        pixels, aims = batch.images(), None
        if target == "least-likely":
            aims = predictions(lambda values: -logits(values), pixels)
        elif target is not None:
            aims = np.repeat(_column_of(target, head), len(wanted))
        if start_images is not None:
            settings["starts"] = select_starts(batch.ids, start_images, tuple(pixels.shape[1:]))
        parts.append(attack(logits, pixels, wanted, ids=batch.ids, targets=aims, **settings))
        done += len(wanted)
        if progress is not None:
            progress(done, of if limit is None else min(of, limit))
    return join_curves(parts), of


def _column_of(identity: int, head: ProbeHead) -> int:
    where = np.flatnonzero(head.classes == identity)
    if not len(where):
        raise UsageError(
            f"--target {identity}: the head has no such class.",
            f"It has {len(head.classes):,}, from {head.classes[0]} to {head.classes[-1]}.",
        )
    return int(where[0])


def with_coverage(metrics: Sequence[Metric], rows: int) -> list[Metric]:
    """Return the metrics with their coverage of a split's `rows`."""
    return [replace(metric, coverage=metric.n / rows) for metric in metrics]


def compare_with_general(fine: AttackCurve, general: AttackCurve, rows: int | None = None) -> list[Metric]:
    """Compare a general set with a fine-grained one under the same attack.

    The general set's numbers as general/NAME; and kept_difference@EPS: the share of the images right without attack
    that stay right, on the general set minus on the fine-grained one. Raises UsageError as `compare_sets`. `rows` of the
    general split, None where all were attacked.
    """
    metrics = general.metrics() if rows is None else with_coverage(general.metrics(), rows)
    renamed = [replace(metric, name=f"general/{metric.name}") for metric in metrics]
    return renamed + [
        Metric(f"kept_difference@{comparison.eps}", comparison.difference, sum(comparison.n), comparison.ci95)
        for comparison in compare_sets(general, fine)
    ]


def attack_as_fgbmk(
    logits: Any,
    split: str | Path,
    images: str | Path,
    transform: Transform,
    head: ProbeHead,
    *,
    steps: int,
    limit: int | None = None,
    batch_size: int = 64,
) -> tuple[list[Metric], int]:
    """Return (clean_accuracy and accuracy@fgbmk-legacy-STEPS, number of rows of the split); see `pgd.fgbmk_legacy`."""
    clean, under, of = [], [], 0
    for batch in read_images(split, images, transform, limit=limit):
        wanted, of, pixels = head_columns(batch.labels, head), batch.of, batch.images()
        clean.append(predictions(logits, pixels, batch_size=batch_size) == wanted)
        result = fgbmk_legacy(
            logits, pixels, wanted, mean=transform.mean, std=transform.std, steps=steps, batch_size=batch_size
        )
        under.append(result.correct)
    chance = 1 / len(head.classes)
    return [
        share_metric("clean_accuracy", np.concatenate(clean), chance),
        share_metric(f"accuracy@fgbmk-legacy-{steps}", np.concatenate(under)),
    ], of


def measure_corruptions(
    logits: Any,
    split: str | Path,
    images: str | Path,
    transform: Transform,
    head: ProbeHead,
    specs: Sequence[str],
    *,
    limit: int | None = None,
    batch_size: int = 64,
) -> tuple[Corrupted, int]:
    """Return (accuracy with each corruption, number of rows of the split).

    Corruptions are `blur:5`, `salt-pepper:10`, `grey`, `jitter:0.4`, several in a row joined by "+".
    """
    names = tuple(corruptions.canonical(spec.replace("+", ",")) for spec in specs)
    if not names or len(set(names)) < len(names):
        raise UsageError(f"corruptions {', '.join(names) or '(none)'}: different ones were expected.", "As in blur:5.")
    rows, of = [], 0
    for name in ("", *names):
        right = []
        for batch in read_images(split, images, transform, limit=limit, spec=name):
            of = batch.of
            right.append(predictions(logits, batch.images(), batch_size=batch_size) == head_columns(batch.labels, head))
        rows.append(np.concatenate(right))
    return Corrupted(names, rows[0], np.stack(rows[1:])), of
