"""snellen features zero-shot, image-text"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from snellen.cli import options as shared
from snellen.cli.features.shared import (
    Device,
    IntervalBy,
    Output,
    Precision,
    Store,
    Threads,
    group,
    numbers,
    show_result,
    store_notes,
)
from snellen.cli.option_parsing import REQUIRED, option
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.features.encoders.texts import TextEncoder
    from snellen.features.store import Features

TextTower = Annotated[
    str,
    option(
        "The dual encoder of the store's features, whose text tower is used.",
        value="hf:NAME|FOLDER|open_clip:NAME/WEIGHTS",
    ),
]
Split = Annotated[str | None, option("Images of this split.", value="SPLIT", said="test, else all")]
Ties = Annotated[Literal["pessimistic", "optimistic", "index"], option("Order of items with equal similarity.")]


@dataclass(frozen=True)
class TowerOptions:
    """Revision, device and precision of the text tower."""

    revision: str | None = option("Revision of a hub repository.")
    compute: Precision = "auto"
    device: Device = "auto"


@dataclass(frozen=True)
class PromptOptions:
    """Names of classes and their prompts."""

    classes: Path | None = option(
        "Names of classes, one a line, in the order of their ids.", value="FILE", said="those of the store"
    )
    templates: Path | None = option(
        "Prompts with {} for the name, one a line; several are ensembled.", value="FILE", said="'a photo of a {}.'"
    )


@group.command()
def zero_shot(
    store: Store,
    encoder: TextTower = REQUIRED,
    *,
    output: Output = None,
    split: Split = None,
    prompts: PromptOptions,
    tower: TowerOptions,
    ties: Ties = "pessimistic",
    interval: IntervalBy = "class",
    calibration: bool = option("Report calibration: ece, nll and brier; not for SigLIP.", False),
    confusion: Path | None = option(
        "Write the confusion matrix to a CSV file; print the largest confusions.", value="FILE"
    ),
    threads: Threads = None,
    as_json: shared.JsonResult = False,
) -> None:
    """Classify images by the class whose prompts are nearest, without training: the zero-shot protocol of CLIP."""
    from snellen.engine.output_file import require_output_file
    from snellen.features.store.labels import Labels
    from snellen.features.zero_shot import TEMPLATE, class_embeddings, read_lines
    from snellen.features.zero_shot import zero_shot as classify

    if confusion is not None:
        require_output_file(confusion, "--confusion", (".csv",))
    templates = [TEMPLATE] if prompts.templates is None else read_lines(prompts.templates, "template")
    names = None if prompts.classes is None else read_lines(prompts.classes, "class name")
    texts, features, notes = _texts_and_images(encoder, tower, store, output, split)
    names = names or list(features.labels.names or ())
    if not names:
        raise UsageError(f"{store} has no names of classes.", "Name their file: --classes FILE, one a line.")
    if calibration and texts.scale is None:
        raise UsageError(
            f"the scores of {encoder} are no probabilities over classes, so they have no calibration.",
            "Omit --calibration.",
        )
    labels = Labels(features.labels.classes, features.labels.single, features.labels.many, tuple(names))
    result = classify(
        features.values, labels, class_embeddings(names, templates, texts.encode), ties=ties, threads=threads
    )
    metrics = result.metrics(interval)
    settings: dict[str, Any] = _settings(features, encoder, split) | {
        "classes": len(names),
        "templates": templates,
        "ties": ties,
        "interval": interval,
    }
    if calibration and texts.scale is not None:
        calibrated = result.calibration(texts.scale)
        metrics += calibrated.metrics
        notes += calibrated.notes
        settings |= {"logit_scale": texts.scale} | ({"reliability": list(calibrated.bins)} if as_json else {})
    if confusion is not None:
        matrix = result.confusion()
        notes.append(f"The confusion matrix was written to {matrix.save(confusion)}.")
        notes += [f"{one.n:,} of {one.true} were taken for {one.predicted}." for one in matrix.mistakes()[:5]]
    show_result(store, "zero-shot", settings, metrics, notes, as_json)


@group.command()
def image_text(
    store: Store,
    encoder: TextTower = REQUIRED,
    *,
    captions: Path = option(
        "Table with the columns image and caption, several a picture; or captions of COCO, or Karpathy's splits, as JSON.",
        REQUIRED,
    ),
    output: Output = None,
    split: Split = None,
    tower: TowerOptions,
    k: str = option("Depths of recall@k.", "1,5,10", value="LIST"),
    ties: Ties = "pessimistic",
    threads: Threads = None,
    as_json: shared.JsonResult = False,
) -> None:
    """Search captions by image and images by caption: recall, nDCG@10 and median rank, as on Flickr30k and COCO.

    An image with several captions counts as found at the best rank of any of them.
    """
    from snellen.features.image_text import caption_embeddings, read_captions
    from snellen.features.image_text import image_text as search

    depths = numbers(k, "--k")
    texts, features, notes = _texts_and_images(encoder, tower, store, output, split)
    found = read_captions(captions, features.ids.tolist(), split)
    with caption_embeddings(found.texts, texts.encode) as embeddings:
        result = search(features.values, embeddings, found.images, ks=depths, ties=ties, threads=threads)
    settings = _settings(features, encoder, split) | {"captions": len(found.texts), "k": depths, "ties": ties}
    if found.others:
        notes.append(f"{found.others:,} captions of {captions} are of other images and were omitted.")
    show_result(store, "image-text", settings, result.metrics(), [*notes, *result.notes()], as_json)


def _texts_and_images(
    encoder: str, tower: TowerOptions, store: Path, output: str | None, split: str | None
) -> tuple[TextEncoder, Features, list[str]]:
    """Open the text tower, and the images of the split; return notes on both."""
    from snellen.features.encoders import open_text_encoder
    from snellen.features.store import open_store, store_outputs

    name = "embedding" if output is None and "embedding" in store_outputs(store) else output
    features = open_store(store, name)
    split = split or ("test" if "test" in features.splits else None)
    features = features if split is None else features.only(split)
    texts = open_text_encoder(encoder, device=tower.device, compute=tower.compute, revision=tower.revision)
    return texts, features, [*store_notes(features), *texts.require_images(features)]


def _settings(features: Features, encoder: str, split: str | None) -> dict[str, Any]:
    splits = features.splits
    return {
        "output": features.name,
        "encoder": encoder,
        "split": split or ", ".join(filter(None, splits)),
        "images": len(features),
    }
