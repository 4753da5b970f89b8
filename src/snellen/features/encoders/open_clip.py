"""Image towers of open_clip (extra `open_clip`), with their own preprocessing settings and weights from safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import nn

from snellen.errors import PreflightError, UsageError
from snellen.features.encoders.base import (
    Encoder,
    EncoderParts,
    build_map_parts,
    fetch_weights,
    find_weights,
    tensor_shapes,
    weights_digest,
)
from snellen.features.extract.preprocess import Transform
from snellen.models.local.checkpoint import import_library, pick_device, pick_dtype

FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
PREPROCESSING = ("mean", "std", "interpolation", "resize_mode", "size")


def open_openclip(
    name: str, outputs: Sequence[str] | None, device: str, compute: str, *, pretrained: bool = True
) -> Encoder:
    """Open the encoder `open_clip:NAME/PRETRAINED`, both as open_clip.list_pretrained() shows them, or `NAME,PATH`.

    PATH is a safetensors file, or a folder with one. An open_clip_config.json beside it says how images are prepared.

    Raises:
        UsageError: no weights are named.
        PreflightError: there are none of that name, or the features of the tower cannot be read.
    """
    label = f"open_clip:{name}"
    _, _, model = load_open_clip(name, label, pretrained=pretrained)
    target = pick_device(device)
    tower = model.visual
    transform = read_transform(tower.preprocess_cfg)
    tower = tower.to(target, getattr(torch, pick_dtype(compute, target, None))).eval()

    def call(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        output = tower(pixels)
        return {"embedding": output[0] if isinstance(output, tuple) else output}

    origin = tower_origin(name, tower)
    tokens = _token_parts(tower, call)
    if tokens is not None:
        return Encoder(label, tower, tokens, transform, {**origin, "norm": type(tokens.norm).__name__}, outputs)
    weight = next(tower.parameters())
    trial = torch.zeros(1, 3, *transform.size, device=weight.device, dtype=weight.dtype)
    return Encoder(label, tower, build_map_parts(call, trial, frozenset({"embedding"})), transform, origin, outputs)


def tower_origin(name: str, tower: nn.Module) -> dict[str, str]:
    """Return what identifies an image tower in a store: its name, without a path, and a digest of its weights."""
    return {"open_clip": name.partition(",")[0], "weights": weights_digest(tower)}


def load_open_clip(name: str, label: str, *, pretrained: bool = True) -> tuple[Any, str, Any]:
    """Load a whole model of open_clip; return the library, the name of its architecture and the model.

    Raises:
        UsageError, PreflightError: as `open_openclip`.
    """
    kind, _, path = name.partition(",")
    if not path:
        kind, _, weights = name.rpartition("/")
        if not kind:
            raise UsageError(
                f"{label} names no weights.",
                "Write open_clip:NAME/PRETRAINED, as ViT-L-14/openai, or open_clip:NAME,PATH with a safetensors file.",
            )
    if "naflex" in kind.lower():
        raise PreflightError(
            f"{label} is a NaFlex tower: each image keeps its own aspect ratio and number of patches, which Snellen does "
            "not support.",
            "Choose a model of one size.",
        )
    library = import_library("open_clip", label)
    settings: dict[str, Any] = {}
    if path:
        file = find_weights(path, label, FILES)
        tensor_shapes(file, label)
        settings = {"pretrained": str(file), "force_preprocess_cfg": _local_preprocessing(file, label)}
    elif pretrained:
        settings = _tagged(library, kind, weights, label)
    try:
        model = library.create_model(kind, **settings)
    except Exception as error:  # open_clip, the hub's client and torch each raise their own
        raise PreflightError(
            f"{label} cannot be loaded: {error}",
            "`open_clip.list_models()` shows the names; weights must fit the name.",
        ) from error
    return library, kind, model


def _token_parts(tower: Any, call: Any) -> EncoderParts | None:
    """Return the parts of a vision transformer; None for a tower without blocks of tokens."""
    trunk = getattr(tower, "trunk", None)
    norm: Any
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
        return None
    return EncoderParts(
        call, list(blocks), norm, patches, first, frozenset({"embedding"}), sequence_first=sequence_first
    )


def _tagged(library: Any, kind: str, tag: str, label: str) -> dict[str, Any]:
    """Return the settings of weights that open_clip knows by a tag: the file from the hub, activation, preprocessing."""
    config = library.get_pretrained_cfg(kind, tag)
    if not config:
        raise PreflightError(
            f"{label}: open_clip has no weights {tag!r} of {kind!r}.", "`open_clip.list_pretrained()` shows the names."
        )
    place = PurePosixPath(str(config.get("hf_hub") or ""))
    if len(place.parts) < 2:
        raise PreflightError(
            f"{label}: these weights are published as a pickle only, which can run code when it is opened.",
            "Convert them to safetensors on a machine that you can lose; then: open_clip:NAME,PATH.",
        )
    names = (place.with_suffix(".safetensors").name,) if len(place.parts) > 2 else FILES
    return {
        "pretrained": str(fetch_weights("/".join(place.parts[:2]), label, names)),
        "force_quick_gelu": bool(config.get("quick_gelu")),
        "force_preprocess_cfg": {key: config[key] for key in PREPROCESSING if key in config},
    }


def _local_preprocessing(file: Path, label: str) -> dict[str, Any]:
    """Return the preprocessing in open_clip_config.json beside the weights; {} if there is none."""
    config = file.with_name("open_clip_config.json")
    if not config.is_file():
        return {}
    try:
        own = json.loads(config.read_bytes()).get("preprocess_cfg", {})
        return {key: own[key] for key in PREPROCESSING if key in own}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise PreflightError(f"{label}: {config} cannot be read: {error}", "Copy it again.") from error


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
