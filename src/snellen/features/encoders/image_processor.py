"""Image transform of a checkpoint: the settings of its image processor, read through transformers or from its JSON.

Some processors of transformers exist for torchvision only (DINOv3's is one). Their settings stand in the checkpoint's
JSON. Where such a class cannot be imported, they are read from there, provided that the class is known to do nothing but
resize, crop, rescale and normalise, and that the JSON asks for nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from transformers.models.auto import image_processing_auto

from snellen.errors import PreflightError
from snellen.features.extract.preprocess import Transform, normalise, resize_and_crop
from snellen.models.local.checkpoint import Checkpoint

PACKED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
# Models that take images of any size in packed patches get them in one size, so that batches can be made.
SIDE = 448
# Below this side ConvNeXt's processor resizes to side / crop_pct and crops; from here on it squashes the image.
CROPPED_BELOW = 384
# Levels of 255 that a trial image may differ by: one by another resize, one by another order of resize and rescale.
TOLERANCE = 2.5

SETTINGS = (
    "do_resize",
    "size",
    "resample",
    "do_center_crop",
    "crop_size",
    "crop_pct",
    "do_rescale",
    "rescale_factor",
    "do_normalize",
    "image_mean",
    "image_std",
    "include_top",
)
# Keys of a processor's JSON that change no pixel of an RGB image.
IGNORED = (
    "image_processor_type",
    "feature_extractor_type",
    "processor_class",
    "do_convert_rgb",
    "default_to_square",
    "data_format",
    "input_data_format",
    "device",
    "disable_grouping",
    "return_tensors",
    "_valid_processor_keys",
)
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
# Classes that exist for torchvision only and do nothing but resize, crop, rescale and normalise, with their defaults.
PLAIN: Mapping[str, Mapping[str, Any]] = {
    "DINOv3ViTImageProcessor": {"size": {"height": 224, "width": 224}, "resample": 2, **IMAGENET},
    "Tipsv2ImageProcessor": {"size": {"height": 448, "width": 448}, "resample": 2, "do_normalize": False},
}
ALWAYS = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255}

TORCHVISION = "Install torchvision built for the installed torch, from the index that torch came from; or choose another checkpoint."

auto_images: Any = transformers.AutoImageProcessor


def read_transform(checkpoint: Checkpoint, tower: nn.Module, label: str) -> tuple[Transform, Any]:
    """Read the transform of the checkpoint's image processor.

    Args:
        tower: its configuration says the size where the processor does not.
        label: what messages call the encoder.

    Returns:
        The transform and the processor, None if only its JSON could be read.

    Raises:
        PreflightError: the settings cannot be read, or ask for what the transform cannot do.
    """
    processor = None
    try:
        processor = auto_images.from_pretrained(checkpoint.folder, trust_remote_code=False, local_files_only=True)
        settings: Mapping[str, Any] = {key: getattr(processor, key, None) for key in SETTINGS}
    except Exception as error:  # whatever a checkpoint without a processor, or a missing package, makes it raise
        own = _plain_settings(checkpoint, label)
        if own is None:
            raise _not_loaded(label, error) from error
        settings = own
    try:
        return build_transform(settings, checkpoint, tower, label), processor
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
        raise PreflightError(
            f"{label}: the settings of its image processor are not of the expected form: {error!r}",
            "Check size, crop_size, resample, image_mean and image_std in preprocessor_config.json.",
        ) from error


def build_transform(settings: Mapping[str, Any], checkpoint: Checkpoint, tower: nn.Module, label: str) -> Transform:
    """Build a transform from a processor's settings. Raises PreflightError for settings that it cannot do."""
    if settings.get("do_resize") is False:
        raise PreflightError(
            f"{label}: its processor asks for do_resize: false, and images of several sizes make no batch.",
            "Choose another checkpoint, or import features with `snellen features import`.",
        )
    factor = settings.get("rescale_factor")
    factor = 1 / 255 if factor is None else factor
    if settings.get("do_rescale") is False or abs(float(factor) * 255 - 1) > 1e-6:
        raise PreflightError(
            f"{label}: its processor scales pixels by {factor} and not by 1/255.", "Such encoders are not supported."
        )
    size, crop = _sizes(settings)
    own = getattr(tower.config, "image_size", None)
    if checkpoint.config.get("model_type") in PACKED or not (size.get("height") or size.get("shortest_edge")):
        own = own if isinstance(own, int) else SIDE
        resize: tuple[int, ...] = (own, own)
        crop = {}
    elif size.get("height"):
        resize = (int(size["height"]), int(size["width"]))
    else:
        resize = (int(size["shortest_edge"]),)
    cut = (int(crop["height"]), int(crop["width"])) if crop.get("height") else None
    if cut is None and len(resize) == 1:
        cut = (resize[0], resize[0])
    if cut is not None and (cut[0] > min(resize) or cut[1] > resize[-1]):
        raise PreflightError(
            f"{label}: its processor cuts {cut} out of images resized to {resize}.",
            "Padding is not supported; correct size and crop_size.",
        )
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if settings.get("do_normalize") is not False:
        mean, std = _three(settings["image_mean"]), _three(settings["image_std"])
    if settings.get("include_top"):  # EfficientNet's processor divides by the deviation a second time
        std = (std[0] ** 2, std[1] ** 2, std[2] ** 2)
    return Transform(
        resize=resize,
        interpolation=FILTERS[int(settings.get("resample") or 0)],  # type: ignore[arg-type]
        crop=cut,
        mean=mean,
        std=std,
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _sizes(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return size and crop size, {} for none; ConvNeXt's share of the crop is turned into these."""
    size = _size(settings.get("size"))
    crop = _size(settings.get("crop_size")) if settings.get("do_center_crop") else {}
    share, side = settings.get("crop_pct"), size.get("shortest_edge")
    if share is None or not side:
        return size, crop
    if int(side) >= CROPPED_BELOW:
        return {"height": side, "width": side}, {}
    return {"shortest_edge": int(side / share)}, {"height": side, "width": side}


def _size(value: Any) -> dict[str, Any]:
    """Return a size as a mapping; a single number is the side of a square."""
    return {"height": value, "width": value} if isinstance(value, int) else dict(value or {})


def _plain_settings(checkpoint: Checkpoint, label: str) -> Mapping[str, Any] | None:
    """Read the settings of a processor of `PLAIN` without its class; None for any other.

    Raises:
        PreflightError: the JSON cannot be read, or asks for more than resize, crop, rescale and normalise.
    """
    settings = _stored_settings(checkpoint.folder, label)
    kind = str(settings.get("image_processor_type") or _usual_class(checkpoint)).removesuffix("Fast")
    if kind not in PLAIN:
        return None
    known = {**ALWAYS, **PLAIN[kind], **{key: value for key, value in settings.items() if value is not None}}
    odd = [key for key, value in known.items() if key not in (*SETTINGS, *IGNORED) and value]
    odd += ["do_resize: false"] if known["do_resize"] is not True else []
    if odd:
        raise PreflightError(
            f"{label}: its {kind} needs torchvision, which is not installed, and cannot be replaced: it asks for "
            f"{', '.join(odd)}.",
            TORCHVISION,
        )
    return known


def _not_loaded(label: str, error: Exception) -> PreflightError:
    advice = "The checkpoint needs preprocessor_config.json or processor_config.json, with the class installed."
    return PreflightError(
        f"{label}: its image processor cannot be loaded: {type(error).__name__}: {first_line(error)}",
        TORCHVISION if "torchvision" in str(error).lower() else advice,
    )


def _stored_settings(folder: Path, label: str) -> dict[str, Any]:
    """Return the content of the processor's JSON; {} if there is none. Raises PreflightError if it cannot be read."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (folder / name).is_file():
            try:
                content = json.loads((folder / name).read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                raise PreflightError(f"{label}: {name} cannot be read: {error}", "Download it again.") from error
            settings = content.get("image_processor", content) if isinstance(content, dict) else None
            if isinstance(settings, dict):
                return settings
    return {}


def _usual_class(checkpoint: Checkpoint) -> str:
    """Return the processor class that transformers takes for this type of model; "" if it has none."""
    known: Mapping[str, Any] = vars(image_processing_auto)["IMAGE_PROCESSOR_MAPPING_NAMES"]
    names = known.get(str(checkpoint.config.get("model_type")))
    return str(names.get("torchvision", "")) if isinstance(names, Mapping) else ""


def verify_transform(processor: Any, transform: Transform, label: str) -> None:
    """Compare the transform with the checkpoint's own processor on a trial image.

    Processors of convolutional models have rules of their own: some crop by a share, some normalise twice.

    Raises:
        PreflightError: the trial image becomes another one.
    """
    height, width = transform.size
    trial = np.random.default_rng(0).integers(0, 256, (height + height // 3, 2 * width, 3), dtype=np.uint8)
    try:
        theirs = torch.as_tensor(processor(images=[trial], return_tensors="pt")["pixel_values"])
    except Exception as error:  # processors of other tasks ask for more than an image
        raise PreflightError(
            f"{label}: its image processor fails on a trial image: {first_line(error)}",
            "Choose an image classification checkpoint, or import features with `snellen features import`.",
        ) from error
    ours = normalise(resize_and_crop(trial, transform)[None], transform)
    levels = torch.tensor(transform.std).view(3, 1, 1) * 255
    if theirs.shape != ours.shape or float(((theirs - ours) * levels).abs().max()) > TOLERANCE:
        raise PreflightError(
            f"{label}: {type(processor).__name__} prepares images by rules that Snellen does not have.",
            "Choose another checkpoint, or import features with `snellen features import`.",
        )


def _three(values: Any) -> tuple[float, float, float]:
    several = [float(value) for value in values] if isinstance(values, list | tuple) else [float(values)] * 3
    return several[0], several[1], several[2]
