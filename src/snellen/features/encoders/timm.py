"""Encoders of timm (extra `timm`), with the transform of their own data configuration and weights from safetensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from snellen.errors import PreflightError
from snellen.features.encoders.base import (
    Encoder,
    EncoderParts,
    Layout,
    average_map,
    build_map_parts,
    fetch_weights,
    find_weights,
    map_tokens,
    tensor_shapes,
    weights_digest,
)
from snellen.features.extract.preprocess import Transform
from snellen.features.store.format import PATCH_TOKENS
from snellen.models.local.checkpoint import import_library, pick_device, pick_dtype


def open_timm(
    name: str, outputs: Sequence[str] | None, device: str, compute: str, *, pretrained: bool = True
) -> Encoder:
    """Open the encoder `timm:NAME`, or `timm:NAME,PATH` with local weights.

    Raises:
        PreflightError: the name or the weights are unknown, or its features cannot be read.
    """
    label = f"timm:{name}"
    architecture, _, path = name.partition(",")
    if "naflex" in architecture.lower():
        raise PreflightError(
            f"{label} is a NaFlex tower: each image keeps its own aspect ratio and number of patches, which Snellen does "
            "not support.",
            "Choose a model of one size.",
        )
    timm = import_library("timm", label)
    data = import_library("timm.data", label)
    target = pick_device(device)
    try:
        if pretrained:
            model = _load(timm, architecture, path, label)
        else:
            model = timm.create_model(architecture, pretrained=False, num_classes=0)
    except PreflightError:
        raise
    except Exception as error:  # timm and safetensors each raise their own
        raise PreflightError(f"{label} cannot be loaded: {error}", "`timm.list_models()` shows the names.") from error
    transform = read_transform(data.resolve_model_data_config(model))
    blocks, norm = getattr(model, "blocks", None), getattr(model, "norm", None)
    prefix = getattr(model, "num_prefix_tokens", None)
    model = model.to(target, getattr(torch, pick_dtype(compute, target, None))).eval()
    origin = {"timm": architecture, "weights": weights_digest(model)}
    if not isinstance(blocks, nn.Sequential | nn.ModuleList) or not isinstance(norm, nn.Module) or prefix is None:
        weight = next(model.parameters())
        trial = torch.zeros(1, 3, *transform.size, device=weight.device, dtype=weight.dtype)
        try:
            map_parts = build_map_parts(pool_timm(model), trial)
        except Exception as error:  # models without forward_head, or with several feature maps
            raise PreflightError(
                f"{label} has neither blocks of tokens nor one map of features: {error}",
                "Choose another model, or import features with `snellen features import`.",
            ) from error
        return Encoder(label, model, map_parts, transform, origin, outputs)

    def call(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return {"embedding": model(pixels)}

    patches = int(model.patch_embed.num_patches)
    first = getattr(model, "cls_token", None) is not None
    parts = EncoderParts(call, list(blocks), norm, patches, first, frozenset({"embedding"}))
    return Encoder(label, model, parts, transform, {**origin, "norm": type(norm).__name__}, outputs)


def pool_timm(model: Any) -> Callable[[torch.Tensor], Mapping[str, torch.Tensor]]:
    """Return the call of a model whose features are one map: the model's own pooling, and the mean over positions."""
    layout: Layout = "NHWC" if str(getattr(model, "output_fmt", "NCHW")).endswith("NHWC") else "NCHW"

    def call(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        features = model.forward_features(pixels)
        return {
            "embedding": model.forward_head(features, pre_logits=True).reshape(len(pixels), -1),
            "patch_mean": average_map(features, layout),
            PATCH_TOKENS: map_tokens(features, layout),
        }

    return call


def _load(timm: Any, architecture: str, path: str, label: str) -> Any:
    """Build the model without its classifier and fill it from safetensors; every tensor must be there.

    timm's own loader turns the layouts of other projects into its own; it is given the file.
    """
    config = timm.models.get_pretrained_cfg(architecture)
    if config is None:
        raise PreflightError(f"{label}: timm has no model {architecture!r}.", "`timm.list_models()` shows the names.")
    if path:
        file = find_weights(path, label)
    elif config.hf_hub_id:
        usual = str(config.hf_hub_filename or "model.safetensors")
        file = fetch_weights(str(config.hf_hub_id), label, (str(Path(usual).with_suffix(".safetensors")),))
    else:
        raise PreflightError(
            f"{label}: timm has no safetensors weights of it.", "Name a tag that has, or a file: timm:NAME,PATH."
        )
    shapes = tensor_shapes(file, label)
    heads = [config.classifier] if isinstance(config.classifier, str) else list(config.classifier or ())
    classes = next((shapes[f"{head}.weight"][0] for head in heads if f"{head}.weight" in shapes), 0)
    overlay = {"file": str(file), "num_classes": classes, "label_offset": 0, "custom_load": False}
    model = timm.create_model(architecture, pretrained=True, num_classes=classes, pretrained_cfg_overlay=overlay)
    if classes:
        model.reset_classifier(0)
    return model


def read_transform(config: Mapping[str, Any]) -> Transform:
    """Return timm's evaluation transform: resize to the input size over crop_pct, crop from the middle.

    timm resizes the short side (crop mode `center`), or both sides where it is told to squash.
    """
    height, width = config["input_size"][-2:]
    share = float(config["crop_pct"])
    mode = config.get("crop_mode") or "center"
    if mode not in ("center", "squash") or height != width:
        raise PreflightError(
            f"timm asks for crop mode {mode!r} at {height} x {width}.", "Choose a model with square, centred images."
        )
    side = int(height / share)
    mean, std = ([float(value) for value in config[key]] for key in ("mean", "std"))
    return Transform(
        resize=(side, side) if mode == "squash" else (side,),
        interpolation=config["interpolation"],
        crop=(height, width),
        mean=(mean[0], mean[1], mean[2]),
        std=(std[0], std[1], std[2]),
        middle="even",
    )
