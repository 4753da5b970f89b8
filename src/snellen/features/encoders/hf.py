"""Vision towers of transformers: vision models, dual encoders and vision-language models.

Blocks, final norm and projector are found by what they are called across transformers' models. The number of tokens
before the patches (CLS, registers) is what one trial image has more than patches.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto import modeling_auto
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
from snellen.features.encoders.image_processor import PACKED, first_line, read_transform, verify_transform
from snellen.features.extract.preprocess import Transform
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
        label: what messages call it.
        cls: False where the checkpoint's CLS token was never trained.

    Raises:
        PreflightError: see `open_encoder`.
    """
    checkpoint = find(name, revision, _check)
    model, vlm = _load(checkpoint, label, device, compute)
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


def _check(config: Mapping[str, Any], name: str) -> None:
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


def _load(checkpoint: Checkpoint, label: str, device: str, compute: str) -> tuple[Any, bool]:
    """Load the model without its language model; also return True if it is a vision-language model."""
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
    missing = sorted(key for key in report["missing_keys"] if not _of_language(key))
    if missing:
        raise PreflightError(
            f"{label}: {len(missing)} tensors are missing from the weights, first {missing[0]!r}; they would be filled "
            "with random numbers.",
            "Download the checkpoint again.",
        )
    if not vlm and (getattr(model, "vision_model", None) is None) and "text_config" in checkpoint.config:
        raise _unreadable(label, "no vision tower was found in it")
    for holder in (model, getattr(model, "model", None)):
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
