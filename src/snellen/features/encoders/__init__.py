"""Encoders: what turns pixels into features. Nothing here imports torch before one is opened."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from snellen.errors import MissingExtraError, UsageError
from snellen.installation import install_hint
from snellen.models.local.checkpoint import has_torchvision

if TYPE_CHECKING:
    from snellen.features.encoders.base import Encoder
    from snellen.features.encoders.texts import TextEncoder

__all__ = ["open_encoder", "open_text_encoder"]

KINDS = "hf:NAME, a folder, embedded, timm:NAME[,PATH], open_clip:NAME/PRETRAINED or open_clip:NAME,PATH"
NEEDS = {"timm": ("timm", "timm"), "open_clip": ("open_clip", "open_clip")}


def open_encoder(
    spec: str,
    outputs: Sequence[str] | None = None,
    *,
    device: str = "auto",
    compute: str = "auto",
    revision: str | None = None,
    tokens: bool = False,
) -> Encoder:
    """Load an encoder.

    Args:
        spec: `hf:NAME` (a hub id or a folder), a folder, `embedded`, `timm:NAME`, `open_clip:NAME/PRETRAINED`; or of
            the last two NAME,PATH with a local safetensors file.
        outputs: what it is to give, see `Encoder`; None takes the usual ones.
        device: auto, cpu, cuda, cuda:N, mps.
        compute: precision of the weights: auto, float32, bfloat16, float16.
        tokens: whether it is to give patch tokens too.

    Raises:
        UsageError: no such kind, output or precision.
        MissingExtraError: torch, transformers, timm, open_clip or their torchvision is not installed.
        PreflightError: there is no such encoder, it cannot be loaded, or it is none whose tokens can be read.
    """
    encoder = _open(spec, outputs, device, compute, revision)
    return encoder.with_tokens() if tokens else encoder


def open_text_encoder(
    spec: str, *, device: str = "auto", compute: str = "auto", revision: str | None = None
) -> TextEncoder:
    """Load the text tower of a dual encoder: `hf:NAME`, a folder, `open_clip:NAME/PRETRAINED` or `open_clip:NAME,PATH`.

    Raises:
        UsageError: an encoder of images only, or one that does not exist.
        MissingExtraError, PreflightError: as `open_encoder`.
    """
    kind, name = _required(spec, compute)
    if kind in ("timm", "embedded"):
        raise UsageError(
            f"{spec} has no text tower.", "Name a dual encoder, such as CLIP or SigLIP: hf:NAME or open_clip:NAME."
        )
    from snellen.features.encoders.texts import open_clip_texts, transformers_texts

    if kind == "open_clip":
        return open_clip_texts(name, device, compute)
    return transformers_texts(name, device, compute, revision, label=spec)


def _required(spec: str, compute: str) -> tuple[str, str]:
    """Return an encoder's kind and name; raise for what is not known or not installed."""
    kind, _, name = spec.partition(":")
    if spec == "embedded":
        kind = "embedded"
    elif kind not in ("hf", "timm", "open_clip") or not name:
        kind, name = "hf", spec
    if compute not in ("auto", "float32", "bfloat16", "float16"):
        raise UsageError(f"compute precision {compute!r} is not known.", "Choose auto, float32, bfloat16 or float16.")
    if not spec:
        raise UsageError("no encoder is named.", f"Name one: {KINDS}.")
    package, extra = NEEDS.get(kind, ("transformers", "features"))
    for needed in ("torch", package):
        if find_spec(needed) is None:
            raise MissingExtraError(
                f"the encoder {spec} needs {needed}, which is not installed.",
                install_hint(extra),
            )
    if not has_torchvision(spec) and kind in NEEDS:
        raise MissingExtraError(
            f"the encoder {spec} needs torchvision, which is not installed: {package} cannot be imported without it.",
            "Install torchvision built for the installed torch, from the index that torch came from: "
            "https://pytorch.org/get-started/locally",
        )
    return kind, name


def _open(spec: str, outputs: Sequence[str] | None, device: str, compute: str, revision: str | None) -> Encoder:
    kind, name = _required(spec, compute)
    if kind == "timm":
        from snellen.features.encoders.timm import open_timm

        return open_timm(name, outputs, device, compute)
    if kind == "open_clip":
        from snellen.features.encoders.open_clip import open_openclip

        return open_openclip(name, outputs, device, compute)
    from snellen.features.encoders.hf import open_transformers

    if kind == "embedded":
        from snellen.models.embedded import path

        # Its CLS token was never used, and so never trained (weights/MODEL_CARD.md).
        return open_transformers(str(path()), outputs, device, compute, None, label="embedded", cls=False)
    return open_transformers(name, outputs, device, compute, revision, label=spec)
