"""Boxes of things and faces, found by a detector once before a run: VP-zoom-o and VP-zoom-p of VLM2-Bench.

The run reads the file (`-o prompting=vp-zoom -o boxes=FILE`), so that it stays the same run whatever the detector does. VP-zoom-o
looks for the question's kind of thing with an open-set detector, VP-zoom-p for a face.

Source: Zhang et al. 2025 (arXiv 2502.12084), appendix F: Grounded-SAM and Geitgey's face_recognition. No script was released,
so that nothing says what became of an image without a box.

Masks of the things in such boxes, by SAM or SAM 2, for `--corrupt grey@background --mask FOLDER`.

Salience of an edit: how unexpected it is to a language model that has read captions of both images.
The mean log-probability of the edit's tokens after the captions. VLM2-Bench keeps pairs below -2.0 under Llama 3 8B: an edit
that the captions give away is no test of seeing. The authors' prompt was not released, so that the words around the captions,
and with them the exact values, are Snellen's.

Source: Zhang et al. 2025 (arXiv 2502.12084), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import locate
from snellen.benchmarks.vlm2.dot_grid import plain, upright
from snellen.benchmarks.vlm2.layout import SUBTASKS
from snellen.errors import DataError, MediaError, MissingExtraError, PreflightError, UsageError
from snellen.installation import install_hint
from snellen.questions.linking import EditedPair
from snellen.sources import open_tree
from snellen.sources.safe_paths import member_name
from snellen.types import DECODED_SUFFIXES, Blob

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Variant: TypeAlias = Literal["vp-zoom-o", "vp-zoom-p"]
FACES = "face_recognition"


class FoundBox(Struct, frozen=True, omit_defaults=True):
    """A row of a boxes file: corners in pixels of the upright image; `label` is what was looked for, or `whole image`."""

    image: str
    box: tuple[float, float, float, float]
    score: float | None = None
    label: str = ""


class Detection(Struct, frozen=True):
    """What a detector found: images with a box, images in which nothing was found, and images that cannot be read."""

    found: int
    empty: tuple[str, ...]
    unreadable: tuple[str, ...]


Box: TypeAlias = tuple[float, float, float, float]
Detector: TypeAlias = "Callable[[PillowImage, str], list[tuple[tuple[float, ...], float | None]]]"
"""Returns boxes and scores of a thing in an image, the best first."""
Outline: TypeAlias = "Callable[[PillowImage, Box], PillowImage]"
"""Returns the mask of the thing in a box of an image, 255 where it is and 0 elsewhere."""


def detect_boxes(
    variant: Variant, data: Data, detector: Detector, out: Path, *, query: str = "", whole: bool = False
) -> Detection:
    """Write the best box of each image of the variant's subtasks, in the order of the questions.

    Args:
        variant: for objects (oc) or people (pc).
        data: VLM2-Bench's, or a set of the same layout.
        detector: from `open_detector`.
        out: the file, .jsonl.
        query: what is looked for; by default the question's `type`, and a face.
        whole: an image in which nothing is found gets a box around all of it; False: none, and its samples fail.

    Raises:
        DataError: none of the subtasks has questions there.
    """
    empty, unreadable, rows = [], [], []
    looked_for = {
        name: (blob, query or (kind if variant == "vp-zoom-o" else "face"))
        for name, (blob, kind) in _shown(variant, data).items()
    }
    for name, picture, best in _best_boxes(looked_for, detector):
        if picture is None:
            unreadable.append(name)
        elif best is not None:
            rows.append(FoundBox(name, *best, label=looked_for[name][1]))
        else:
            empty.append(name)
            if whole:
                rows.append(
                    FoundBox(name, (0.0, 0.0, float(picture.width), float(picture.height)), label="whole image")
                )
    with replacing(out) as part:
        part.write_bytes(msgspec.json.Encoder().encode_lines(rows))
    return Detection(len(rows) - len(empty) * whole, tuple(empty), tuple(unreadable))


def _best_boxes(
    images: Mapping[str, tuple[Blob, str]], detector: Detector
) -> Iterator[tuple[str, PillowImage | None, tuple[Box, float | None] | None]]:
    """Yield name, picture and best box with its score of each image and what is looked for in it; None where there is none."""
    for name, (blob, text) in images.items():
        try:
            picture, _ = upright(blob)
        except (DataError, MediaError):
            yield name, None, None
            continue
        boxes = (
            (_within(box, *picture.size), None if score is None else round(score, 4))
            for box, score in detector(picture, text)
        )
        yield name, picture, next(((box, score) for box, score in boxes if box is not None), None)


def detect_masks(images: Path, query: str, detector: Detector, outline: Outline, out: Path) -> Detection:
    """Write the mask of what is in the best box of each image, as a PNG under the image's name.

    Args:
        images: a folder or archive.
        query: what is looked for.
        detector: from `open_detector`.
        outline: from `open_outline`.
        out: the folder.

    Raises:
        DataError: there are no images, or two of one name but for its ending.
    """
    tree = open_tree(images)
    named = {name: (tree.blob(name), query) for name in tree.names() if name.lower().endswith(DECODED_SUFFIXES)}
    places = {name: Path(member_name(name, str(images))).with_suffix(".png") for name in named}
    if len(set(places.values())) < len(named) or not named:
        raise DataError(
            f"{images}: {len(named):,} images with {len(set(places.values())):,} names without endings",
            "Give a folder or archive of images, whose names differ in more than their endings.",
        )
    empty, unreadable = [], []
    for name, picture, best in _best_boxes(named, detector):
        if picture is None:
            unreadable.append(name)
            continue
        mask = None if best is None else outline(picture, best[0])
        if mask is None or mask.getbbox() is None:
            empty.append(name)
            continue
        (out / places[name]).parent.mkdir(parents=True, exist_ok=True)
        with replacing(out / places[name]) as part:
            mask.save(part, "PNG")
    return Detection(len(named) - len(empty) - len(unreadable), tuple(empty), tuple(unreadable))


def _shown(variant: Variant, data: Data) -> dict[str, tuple[Blob, str]]:
    """Return the images of a variant's subtasks with the kind of thing that their first question is about."""
    images: dict[str, tuple[Blob, str]] = {}
    faults = []
    for subtask in SUBTASKS:
        if subtask.cue != {"vp-zoom-o": "oc", "vp-zoom-p": "pc"}[variant] or subtask.family == "video":
            continue
        try:
            questions = locate.questions(subtask, data)
        except DataError as error:
            faults.append(error)
            continue
        for line, row in questions.rows():
            if not isinstance(row, DataError):
                for name, blob in zip(locate.names(subtask, row), questions.shown(line, row), strict=False):
                    images.setdefault(plain(name), (blob, str(row.get("type") or "object")))
    if not images:
        raise faults[0] if faults else DataError(f"{data.path}: no question of {variant} shows an image")
    return images


def _within(box: tuple[float, ...], width: int, height: int) -> Box | None:
    """Return a box cut to its image, to a hundredth of a pixel; None if less than a pixel is left."""
    x0, y0, x1, y1 = (round(min(max(value, 0), side), 2) for value, side in zip(box, (width, height) * 2, strict=True))
    return (x0, y0, x1, y1) if x1 - x0 >= 1 and y1 - y0 >= 1 else None


def open_detector(name: str, device: str = "auto", least: float = 0.1) -> Detector:
    """Open a detector: a zero-shot detector of transformers (OWLv2, Grounding DINO), or `face_recognition`.

    Args:
        name: `hf:NAME`, a folder, or `face_recognition`.
        least: the lowest score of a box.

    Raises:
        MissingExtraError: torch and transformers, or face_recognition, are not installed.
        PreflightError: no such model, or one that detects nothing by a text.
    """
    return _faces() if name == FACES else _zero_shot(name.removeprefix("hf:"), device, least)


def _zero_shot(name: str, device: str, least: float) -> Detector:
    model, processor = open_pretrained(
        name,
        "AutoModelForZeroShotObjectDetection",
        "AutoProcessor",
        device,
        "zero-shot detector",
        "hf:google/owlv2-base-patch16-ensemble or hf:IDEA-Research/grounding-dino-base",
    )
    import torch

    def detect(picture: PillowImage, text: str) -> list[tuple[tuple[float, ...], float | None]]:
        inputs = processor(images=picture, text=[[text.lower()]], return_tensors="pt").to(model.device, model.dtype)
        with torch.inference_mode():
            outputs = model(**inputs)
        (found,) = processor.post_process_grounded_object_detection(
            outputs, threshold=least, target_sizes=[(picture.height, picture.width)]
        )
        boxes = zip(found["boxes"].tolist(), found["scores"].tolist(), strict=True)
        return sorted(((tuple(box), score) for box, score in boxes), key=lambda pair: -pair[1])

    return detect


def open_outline(name: str, device: str = "auto") -> Outline:
    """Open a SAM or SAM 2 of transformers, `hf:NAME` or a folder. Raises as `open_pretrained`."""
    model, processor = open_pretrained(
        name, "AutoModelForMaskGeneration", "AutoProcessor", device, "SAM", "hf:facebook/sam2.1-hiera-large"
    )
    import torch
    from PIL import Image as pillow

    def outline(picture: PillowImage, box: Box) -> PillowImage:
        inputs = processor(images=picture, input_boxes=[[list(box)]], return_tensors="pt").to(model.device)
        with torch.inference_mode():
            masks = model(**inputs, multimask_output=False).pred_masks.float().cpu()
        sizes = [inputs[name].cpu() for name in ("original_sizes", "reshaped_input_sizes") if name in inputs]
        (found,) = processor.post_process_masks(masks, *sizes)
        return pillow.fromarray(found[0, 0].numpy()).convert("L")

    return outline


def _faces() -> Detector:
    """Return Geitgey's face detector; it scores nothing, so that the largest face is the best."""
    try:
        import face_recognition
        import numpy as np
    except ImportError as error:
        raise MissingExtraError(f"{FACES} is not installed", f"Install it with: pip install {FACES}") from error

    def detect(picture: PillowImage, text: str) -> list[tuple[tuple[float, ...], float | None]]:
        places = face_recognition.face_locations(np.asarray(picture))
        corners = [(float(left), float(top), float(right), float(bottom)) for top, right, bottom, left in places]
        return [(box, None) for box in sorted(corners, key=lambda box: -(box[2] - box[0]) * (box[3] - box[1]))]

    return detect


def open_pretrained(name: str, model_class: str, processor_class: str, device: str, kind: str, example: str) -> Any:
    """Return a model on its device, and its processor or tokenizer.

    Args:
        name: `hf:NAME` or a folder.
        model_class, processor_class: auto classes of transformers.
        device: where it computes; `auto`: CUDA, then MPS, then the processor.
        kind, example: what is expected, for the error.

    Raises:
        MissingExtraError: torch and transformers are not installed.
        PreflightError: no such model, or one of another kind.
    """
    try:
        import transformers

        from snellen.models.local.checkpoint import find, pick_device
    except ImportError as error:
        raise MissingExtraError(f"a {kind} needs torch and transformers", install_hint("local")) from error
    folder = find(name.removeprefix("hf:"), None, lambda config, _: None).folder
    where = {"trust_remote_code": False, "local_files_only": True}
    try:
        model = getattr(transformers, model_class).from_pretrained(folder, use_safetensors=True, dtype="auto", **where)
        processor = getattr(transformers, processor_class).from_pretrained(folder, **where)
    except (OSError, ValueError, KeyError) as error:
        raise PreflightError(
            f"{name} is no {kind}: {str(error).splitlines()[0]}", f"Give one such as {example}."
        ) from error
    return model.to(pick_device(device)).eval(), processor


Salience: TypeAlias = Callable[..., float]
"""Returns the salience of an edit after the captions of the first and of the second image."""
PROMPT = "Image 1: {first}\nImage 2: {second}\nWhat was done to image 1 to make image 2:"


def salient_pairs(
    pairs: Sequence[EditedPair], below: float, measure: Salience | None = None
) -> list[tuple[EditedPair, float]]:
    """Return the pairs below a salience: measured after the captions, or as the table gives it.

    Raises:
        DataError: a pair without captions, or without a salience; with its line.
        UsageError: no pair is left.
    """
    needed = ("salience",) if measure is None else ("caption_1", "caption_2")
    hint = (
        "Fill in the column, or measure it: --scorer hf:NAME." if measure is None else "--scorer needs both captions."
    )
    kept = []
    for pair in pairs:
        values = [pair.row.get(name, "") for name in needed]
        try:
            if not all(values):
                raise ValueError
            value = float(values[0]) if measure is None else measure(*values, pair.row["edit"])
        except ValueError:
            raise DataError(f"{pair.where}: {' and '.join(needed)}: no value that can be used", hint) from None
        if value < below:
            kept.append((pair, value))
    if not kept:
        raise UsageError(f"none of {len(pairs):,} pairs is below a salience of {below:g}", "Raise --salience.")
    return kept


def open_salience(name: str, device: str = "auto") -> Salience:
    """Open a causal language model of transformers, `hf:NAME` or a folder, as a measure of salience.

    Raises:
        MissingExtraError: torch and transformers are not installed.
        PreflightError: no such model, or one that does not continue a text.
    """
    model, tokenizer = open_pretrained(
        name, "AutoModelForCausalLM", "AutoTokenizer", device, "language model", "hf:meta-llama/Meta-Llama-3-8B"
    )
    import torch

    def salience(first: str, second: str, edit: str) -> float:
        before = tokenizer(PROMPT.format(first=first, second=second))["input_ids"]
        tokens = tokenizer(f" {edit}", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*before, *tokens]], device=model.device)).logits[0].float()
        predicted = torch.log_softmax(logits[len(before) - 1 : -1], dim=-1)
        return round(float(predicted[torch.arange(len(tokens)), torch.tensor(tokens)].mean()), 4)

    return salience
