"""Image towers of open_clip (extra `open_clip`): vision transformers, with their own preprocessing settings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from snellen.errors import PreflightError, UsageError
from snellen.features.encoders.base import Encoder, EncoderParts, weights_digest
from snellen.features.extract.preprocess import Transform
from snellen.models.local.load import pick_device, pick_dtype


def open_openclip(
    name: str, outputs: Sequence[str] | None, device: str, compute: str, *, pretrained: bool = True
) -> Encoder:
    """Open the encoder `open_clip:NAME/PRETRAINED`, both as open_clip.list_pretrained() shows them.

    Raises:
        UsageError: no weights are named.
        PreflightError: there are none of that name, or the tower is no vision transformer.
    """
    kind, _, weights = name.rpartition("/")
    if not kind:
        raise UsageError(f"open_clip:{name} names no weights.", "Write open_clip:NAME/PRETRAINED, as ViT-L-14/openai.")
    library: Any = importlib.import_module("open_clip")
    target = pick_device(device)
    try:
        model = library.create_model(kind, pretrained=weights if pretrained else None)
    except Exception as error:  # open_clip, the hub's client and torch each raise their own
        raise PreflightError(
            f"open_clip:{name} cannot be loaded: {error}", "`open_clip.list_pretrained()` shows the names."
        ) from error
    tower = model.visual
    trunk = getattr(tower, "trunk", None)
    if trunk is not None:  # a tower of timm's under a head of open_clip's
        blocks, norm = getattr(trunk, "blocks", None), getattr(trunk, "norm", None)
        first, sequence_first = getattr(trunk, "cls_token", None) is not None, False
        patches = getattr(getattr(trunk, "patch_embed", None), "num_patches", None)
    else:
        inner = getattr(tower, "transformer", None)
        blocks, norm = getattr(inner, "resblocks", None), getattr(tower, "ln_post", None)
        first = getattr(tower, "class_embedding", None) is not None
        sequence_first = not getattr(inner, "batch_first", True)
        grid = getattr(tower, "grid_size", None)
        patches = None if grid is None else int(grid[0]) * int(grid[1])
        if getattr(norm, "normalized_shape", None) != (getattr(inner, "width", None),):
            norm = nn.Identity()  # CoCa's stands behind its pooling and fits no token
    if not isinstance(blocks, nn.ModuleList | nn.Sequential) or not isinstance(norm, nn.Module) or patches is None:
        raise PreflightError(
            f"open_clip:{name}: its image tower is no vision transformer.",
            "Choose a ViT, or import features with `snellen features import`.",
        )
    transform = read_transform(tower.preprocess_cfg)
    tower = tower.to(target, getattr(torch, pick_dtype(compute, target, None)))

    def call(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        output = tower(pixels)
        return {"embedding": output[0] if isinstance(output, tuple) else output}

    parts = EncoderParts(
        call, list(blocks), norm, patches, first, frozenset({"embedding"}), sequence_first=sequence_first
    )
    origin = {"open_clip": name, "weights": weights_digest(tower), "norm": type(norm).__name__}
    return Encoder(f"open_clip:{name}", tower, parts, transform, origin, outputs)


def read_transform(config: Mapping[str, Any]) -> Transform:
    """Return open_clip's evaluation transform: `shortest` cuts from the middle, `squash` takes both sides to the size."""
    size = config["size"]
    height, width = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    mode = config.get("resize_mode") or "shortest"
    if mode not in ("shortest", "squash") or height != width:
        raise PreflightError(
            f"open_clip asks for resize mode {mode!r} at {height} x {width}.", "Choose a model without padding."
        )
    mean, std = ([float(value) for value in config[key]] for key in ("mean", "std"))
    return Transform(
        resize=(height, width) if mode == "squash" else (height,),
        interpolation=config["interpolation"],
        crop=None if mode == "squash" else (height, width),
        mean=(mean[0], mean[1], mean[2]),
        std=(std[0], std[1], std[2]),
        middle="even",
    )
