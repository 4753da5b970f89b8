"""Vision towers of transformers: vision models, dual encoders and vision-language models.

Blocks, final norm and projector are found by what they are called across transformers' models. The number of tokens
before the patches (CLS, registers) is what one trial image has more than patches.

Image transform of a checkpoint: the settings of its image processor, read through transformers or from its JSON.
Some processors of transformers exist for torchvision only (DINOv3's is one). Their settings stand in the checkpoint's
JSON. Where such a class cannot be imported, they are read from there, provided that the class is known to do nothing but
resize, crop, rescale and normalise, and that the JSON asks for nothing else.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from transformers.models.auto import image_processing_auto, modeling_auto
from transformers.utils import logging

from snellen.errors import PreflightError
from snellen.features.encoders.base import (
    Encoder,
    EncoderParts,
    build_map_parts,
    catch_output,
    is_hierarchical,
    pool_model,
)
from snellen.features.extract.preprocess import Transform, normalise, resize_and_crop
from snellen.models.local.checkpoint import Checkpoint, find, pick_device, pick_dtype, stored_dtype

transformers_logging: Any = logging  # typed in parts


def pack_patches(pixels: torch.Tensor, config: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Pack images into the rows of patches that Qwen's towers take, with each image's grid; differentiable.

    A still image is shown as `temporal_patch_size` equal frames. Patches stand in groups of `spatial_merge_size`
    squared, the groups row by row, as the tower's merger expects them (transformers' image processor of Qwen2-VL).

    Args:
        pixels: [B, 3, H, W], sides divisible by patch size times merge size.

    Returns:
        [B * grid, 3 * frames * patch * patch] and int64 [B, 3] of (1, rows, columns).
    """
    side, merge, frames = config.patch_size, config.spatial_merge_size, config.temporal_patch_size
    count, channels, height, width = pixels.shape
    rows, columns = height // side, width // side
    groups = pixels.reshape(count, channels, rows // merge, merge, side, columns // merge, merge, side).permute(
        0, 2, 5, 3, 6, 1, 4, 7
    )
    patches = groups.reshape(count * rows * columns, channels, 1, side, side).expand(-1, -1, frames, -1, -1)
    grid = torch.tensor([[1, rows, columns]], device=pixels.device).expand(count, -1)
    return patches.reshape(len(patches), -1), grid


TOWERS = ("vision_tower", "vision_model", "visual", "vision_encoder")
PROJECTORS = (
    "multi_modal_projector",
    "connector",
    "mm_projector",
    "merger",
    "language_projection",
    "modality_projection",
)
NORMS = ("post_layernorm", "layernorm", "norm", "layer_norm", "ln_post", "merger.ln_q", "merger.norm")
# Models whose images come with an axis for tiles: one tile is given.
TILED = ("idefics2", "idefics3", "smolvlm")
NAFLEX = ("siglip2", "siglip2_vision_model")
# Configurations of hierarchical encoders have one of these; whether it is one, a trial image decides.
STAGES = ("depths", "hidden_sizes", "num_stages")

auto_model: Any = transformers.AutoModel
auto_vlm: Any = transformers.AutoModelForImageTextToText


def open_transformers(
    name: str,
    outputs: Sequence[str] | None,
    device: str,
    compute: str,
    revision: str | None,
    *,
    label: str,
    cls: bool = True,
) -> Encoder:
    """Open an encoder from a checkpoint that transformers reads.

    Args:
        name: folder or hub id.
        cls: False where the checkpoint's CLS token was never trained.

    Raises:
        PreflightError: see `open_encoder`.
    """
    checkpoint = find(name, revision, check_kind)
    model, vlm = load_model(checkpoint, label, device, compute)
    inner = model.model if vlm and hasattr(model, "model") and hasattr(model.model, "get_image_features") else model
    tower = _first(inner, TOWERS) or inner
    transform, processor = read_transform(checkpoint, tower, label)
    kind = str(checkpoint.config.get("model_type"))
    if not vlm and tower is inner and _has_stages(tower, transform, label):
        if processor is not None:
            verify_transform(processor, transform, label)
        map_parts = build_map_parts(pool_model(tower), _trial_image(tower, transform))
        return Encoder(label, model, map_parts, transform, {**checkpoint.origin, "kind": kind}, outputs)
    blocks = max(
        (module for module in tower.modules() if isinstance(module, nn.ModuleList)), key=len, default=nn.ModuleList()
    )
    final_norm = _first(tower, NORMS)
    norm = final_norm if final_norm is not None else nn.Identity()
    projector = _first(inner, PROJECTORS) or (_first(tower, PROJECTORS) if vlm else None)
    side = _patch_size(tower, label)
    patches = (transform.size[0] // side) * (transform.size[1] // side)
    call = _call(inner, tower, vlm, kind)
    if not len(blocks):
        raise _unreadable(label, "it has no list of blocks")
    first = _prefix(call, blocks, patches, transform, label) > 0
    extras = {"aligned", *({"projector_input"} if projector is not None else ())} if vlm else {"embedding"}
    parts = EncoderParts(call, list(blocks), norm, patches, first and cls, frozenset(extras), projector)
    origin = {**checkpoint.origin, "norm": type(norm).__name__, "kind": kind}
    return Encoder(label, model, parts, transform, origin, outputs)


def check_kind(config: Mapping[str, Any], name: str) -> None:
    """Raise PreflightError unless transformers has a class of encoders for this configuration."""
    kind = config.get("model_type")
    if kind in NAFLEX:
        raise PreflightError(
            f"{name} is a NaFlex tower (model type {kind}): each image keeps its own aspect ratio and number of patches, "
            "which Snellen does not support.",
            "Choose a checkpoint of one size, such as google/siglip2-base-patch16-256.",
        )
    if kind is None and "architecture" in config:
        place = f"{config['architecture']},{name}" if Path(name).expanduser().is_dir() else name.rpartition("/")[2]
        raise PreflightError(f"{name} is a checkpoint of timm.", f"Open it with timm: --encoder timm:{place}")
    if kind in modeling_auto.MODEL_MAPPING_NAMES or kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return
    own = " It contains custom code, which Snellen never runs." if config.get("auto_map") else ""
    raise PreflightError(
        f"{name}: transformers has no model of type {kind!r}.{own}",
        "Choose a checkpoint in transformers' layout, or import features with `snellen features import`.",
    )


def load_model(
    checkpoint: Checkpoint, label: str, device: str, compute: str, *, texts: bool = False
) -> tuple[Any, bool]:
    """Load the model, without its language model unless `texts`; also return True if it is a vision-language model."""
    kind = str(checkpoint.config.get("model_type"))
    vlm = kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    target = pick_device(device)
    extra: dict[str, Any] = {}
    if not vlm:
        names = modeling_auto.MODEL_MAPPING_NAMES[kind]
        class_ = getattr(transformers, names if isinstance(names, str) else names[0], None)
        if class_ is not None and "add_pooling_layer" in inspect.signature(class_.__init__).parameters:
            extra["add_pooling_layer"] = False  # its weights are seldom in a checkpoint, and are of another task
    verbose = transformers_logging.is_progress_bar_enabled()
    before = transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()  # heads of other tasks that a checkpoint also holds are no news
    try:
        model, report = (auto_vlm if vlm else auto_model).from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, pick_dtype(compute, target, stored_dtype(checkpoint.config))),
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **extra,
        )
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise PreflightError(f"{label}: its weights do not fit into memory.", "Try --compute bfloat16.") from error
    except Exception as error:  # whatever a damaged folder makes transformers or safetensors raise
        raise PreflightError(
            f"{label}: the checkpoint cannot be loaded: {type(error).__name__}: {first_line(error)}",
            "Download it again, or check that the installed transformers supports it.",
        ) from error
    finally:
        transformers_logging.set_verbosity(before)
        if verbose:
            transformers_logging.enable_progress_bar()
    missing = sorted(key for key in report["missing_keys"] if texts or not _of_language(key))
    if missing:
        raise PreflightError(
            f"{label}: {len(missing)} tensors are missing from the weights, first {missing[0]!r}; they would be filled "
            "with random numbers.",
            "Download the checkpoint again.",
        )
    if not vlm and (getattr(model, "vision_model", None) is None) and "text_config" in checkpoint.config:
        raise _unreadable(label, "no vision tower was found in it")
    for holder in () if texts else (model, getattr(model, "model", None)):
        for part in ("language_model", "lm_head", "text_model"):
            if isinstance(getattr(holder, part, None), nn.Module):
                setattr(holder, part, None)
    return model.to(target), vlm


def _of_language(key: str) -> bool:
    return any(part in key for part in ("language_model", "lm_head", "text_model", "text_projection", "logit_"))


def _call(inner: Any, tower: Any, vlm: bool, kind: str) -> Callable[[torch.Tensor], Mapping[str, torch.Tensor]]:
    def aligned(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        if kind in PACKED:
            rows, grid = pack_patches(pixels, tower.config)
            output = inner.get_image_features(rows, image_grid_thw=grid)
        elif kind in TILED:
            output = inner.get_image_features(pixels[:, None])
        else:
            output = inner.get_image_features(pixel_values=pixels)
        tokens = getattr(output, "pooler_output", output)
        if isinstance(tokens, torch.Tensor):
            return {"aligned": tokens.reshape(len(pixels), -1, tokens.shape[-1]).mean(1)}
        return {
            "aligned": torch.stack(
                [image_tokens.reshape(-1, image_tokens.shape[-1]).mean(0) for image_tokens in tokens]
            )
        }

    def pooled(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        if tower is not inner and hasattr(inner, "get_image_features"):
            output = inner.get_image_features(pixel_values=pixels)
            return {"embedding": getattr(output, "pooler_output", output)}
        output = tower(pixel_values=pixels)
        own = getattr(output, "image_embeds", None)
        own = getattr(output, "pooler_output", None) if own is None else own
        return {"embedding": output.last_hidden_state[:, 0] if own is None else own}

    return aligned if vlm else pooled


def _prefix(
    call: Callable[[torch.Tensor], Any], blocks: nn.ModuleList, patches: int, transform: Transform, label: str
) -> int:
    """Count the tokens before those of the patches, with one trial image."""
    block_outputs: list[torch.Tensor] = []
    hook = blocks[-1].register_forward_hook(catch_output(lambda: block_outputs))
    try:
        with torch.inference_mode():
            call(_trial_image(blocks, transform))
    except Exception as error:  # a size that its positions do not fit, a signature of its own
        raise _unreadable(label, f"a trial image of {transform.size} fails: {first_line(error)}") from error
    finally:
        hook.remove()
    if not block_outputs or block_outputs[0].ndim not in (2, 3) or (count := block_outputs[0].shape[-2] - patches) < 0:
        shapes = [list(tensor.shape) for tensor in block_outputs]
        raise _unreadable(label, f"its last block gives {shapes}; {patches} patch tokens were expected")
    return count


def _has_stages(tower: Any, transform: Transform, label: str) -> bool:
    """Return True for a convolutional or hierarchical tower. Raises PreflightError if it fails on a trial image."""
    size = _configured_patch(tower)
    if size is not None and not any(getattr(tower.config, name, None) for name in STAGES):
        return False
    try:
        return is_hierarchical(tower, _trial_image(tower, transform), size)
    except Exception as error:  # a size that it does not fit, a signature of its own
        raise _unreadable(label, f"a trial image of {transform.size} fails: {first_line(error)}") from error


def _trial_image(module: nn.Module, transform: Transform) -> torch.Tensor:
    weight = next(module.parameters())
    return torch.zeros(1, 3, *transform.size, device=weight.device, dtype=weight.dtype)


def _configured_patch(tower: Any) -> int | None:
    size = getattr(tower.config, "patch_size", None)
    size = size[0] if isinstance(size, list | tuple) and size else size
    return size if isinstance(size, int) else None


def _patch_size(tower: Any, label: str) -> int:
    size = _configured_patch(tower)
    if size is None:
        raise _unreadable(label, "its configuration names no patch size")
    return size


def _first(module: Any, names: Sequence[str]) -> Any:
    """Return the first of some dotted attributes that is a module, else None."""
    for name in names:
        attribute = module
        for part in name.split("."):
            attribute = getattr(attribute, part, None)
        if isinstance(attribute, nn.Module):
            return attribute
    return None


def _unreadable(label: str, why: str) -> PreflightError:
    return PreflightError(
        f"{label} is no vision encoder whose tokens can be read: {why}.",
        "Choose a vision transformer or a convolutional encoder, or import features with `snellen features import`.",
    )


PACKED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
# Models that take images of any size in packed patches get them in one size, so that batches can be made.
SIDE = 448
# Below this side ConvNeXt's processor resizes to side / crop_pct and crops; from here on it squashes the image.
CROPPED_BELOW = 384
# Levels of 255 that a trial image may differ by: one by another resize, one by another order of resize and rescale.
TOLERANCE = 2.5

SETTINGS = (
    *("do_resize", "size", "resample", "do_center_crop", "crop_size", "crop_pct", "do_rescale"),
    *("rescale_factor", "do_normalize", "image_mean", "image_std", "include_top"),
)
# Keys of a processor's JSON that change no pixel of an RGB image.
IGNORED = (
    *("image_processor_type", "feature_extractor_type", "processor_class", "do_convert_rgb"),
    *("default_to_square", "data_format", "input_data_format", "device", "disable_grouping"),
    *("return_tensors", "_valid_processor_keys"),
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
