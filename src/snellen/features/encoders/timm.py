"""Vision transformers of timm (extra `timm`), with the transform of their own data configuration."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from snellen.errors import PreflightError
from snellen.features.encoders.base import Encoder, EncoderParts, weights_digest
from snellen.features.extract.preprocess import Transform
from snellen.models.local.load import pick_device, pick_dtype


def open_timm(
    name: str, outputs: Sequence[str] | None, device: str, compute: str, *, pretrained: bool = True
) -> Encoder:
    """Open the encoder `timm:NAME`. Raises PreflightError if the name is unknown or it is not a transformer."""
    timm: Any = importlib.import_module("timm")
    data: Any = importlib.import_module("timm.data")
    target = pick_device(device)
    try:
        model = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:  # timm, the hub's client and safetensors each raise their own
        raise PreflightError(
            f"timm:{name} cannot be loaded: {error}", "`timm.list_models()` shows the names."
        ) from error
    blocks, norm = getattr(model, "blocks", None), getattr(model, "norm", None)
    prefix = getattr(model, "num_prefix_tokens", None)
    if not isinstance(blocks, nn.Sequential | nn.ModuleList) or not isinstance(norm, nn.Module) or prefix is None:
        raise PreflightError(
            f"timm:{name} is no vision transformer with blocks, norm and prefix tokens.",
            "Choose one (vit_…, deit…, eva02_…), or import features with `snellen features import`.",
        )
    transform = read_transform(data.resolve_model_data_config(model))
    model = model.to(target, getattr(torch, pick_dtype(compute, target, None)))

    def call(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return {"embedding": model(pixels)}

    patches = int(model.patch_embed.num_patches)
    first = getattr(model, "cls_token", None) is not None
    parts = EncoderParts(call, list(blocks), norm, patches, first, frozenset({"embedding"}))
    origin = {"timm": name, "weights": weights_digest(model), "norm": type(norm).__name__}
    return Encoder(f"timm:{name}", model, parts, transform, origin, outputs)


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
