"""Text towers of dual encoders: CLIP, SigLIP and their kin, of transformers and open_clip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, PreflightError
from snellen.features.encoder_identity import encoder_name, encoder_of
from snellen.features.encoders.hf import check_kind, first_line, load_model
from snellen.features.encoders.open_clip import load_open_clip, tower_origin
from snellen.features.store import Features
from snellen.models.local.checkpoint import find, pick_device, pick_dtype

BATCH = 256
auto_tokenizer: Any = transformers.AutoTokenizer


class TextEncoder(Struct, frozen=True, eq=False):
    """Text tower of a dual encoder.

    Attributes:
        name: the encoder as it was named.
        origin: what a store of the same encoder's features records of its weights.
        scale: factor of a cosine in the model's own logits; None where its scores are no probabilities over texts
            (SigLIP: each pair of image and text is a yes or no).
        forward: texts to [n, d] embeddings, not normalised.
    """

    name: str
    origin: Mapping[str, str]
    scale: float | None
    forward: Callable[[list[str]], torch.Tensor]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts in batches to float32 [n, d] of length 1.

        Raises:
            PreflightError: the tower fails on a text.
            DataError: an embedding is not finite, or has length 0.
        """
        rows: list[NDArray[np.float32]] = []
        for start in range(0, len(texts), BATCH):
            block = list(texts[start : start + BATCH])
            try:
                with torch.inference_mode():
                    values = self.forward(block).float().cpu().numpy()
            except Exception as error:  # tokenizers and towers raise whatever they stumble over
                raise PreflightError(
                    f"{self.name}: its text tower fails: {type(error).__name__}: {first_line(error)}",
                    "Choose a dual encoder, such as CLIP or SigLIP, with its tokenizer.",
                ) from error
            lengths = np.linalg.norm(values, axis=1, keepdims=True)
            if not (np.isfinite(lengths) & (lengths > 0)).all():
                raise DataError(f"{self.name}: the embedding of a text is not finite or is 0", "Try --compute float32.")
            rows.append(values / lengths)
        return np.concatenate(rows)

    def width(self) -> int:
        """Return the width of an embedding."""
        return int(self.encode(["a"]).shape[1])

    def require_images(self, features: Features) -> list[str]:
        """Refuse features of another encoder, output or width; return what a reader has to know.

        Raises:
            DataError: the store is of another encoder, or its output is not what texts are compared with.
        """
        recorded = encoder_of(features)
        if recorded is not None and (features.name != "embedding" or not self.origin.items() <= recorded.items()):
            raise DataError(
                f"{features.path} holds {features.name} of {encoder_name(features)}; texts of {self.name} are compared "
                "with its own embedding",
                f"Extract it: snellen features extract --encoder {self.name} --outputs embedding …",
            )
        if (width := self.width()) != features.values.shape[1]:
            raise DataError(
                f"{features.path or 'the features'} are {features.values.shape[1]:,} wide, texts of {self.name} {width:,}",
                "Take features and texts of one encoder.",
            )
        return (
            [] if recorded is not None else ["Imported features: it is not known whether texts are of their encoder."]
        )


def open_clip_texts(name: str, device: str, compute: str) -> TextEncoder:
    """Open the text tower of `NAME/PRETRAINED` or `NAME,PATH`. Raises UsageError, PreflightError."""
    label = f"open_clip:{name}"
    library, kind, model = load_open_clip(name, label)
    target = pick_device(device)
    origin = tower_origin(name, model.visual)
    model = model.to(target, getattr(torch, pick_dtype(compute, target, None))).eval()
    try:
        tokenizer = library.get_tokenizer(kind)
    except Exception as error:  # a tokenizer of the hub that cannot be had
        raise PreflightError(
            f"{label}: its tokenizer cannot be loaded: {first_line(error)}", "Fetch it first."
        ) from error

    def forward(texts: list[str]) -> torch.Tensor:
        embeddings: torch.Tensor = model.encode_text(tokenizer(texts).to(target))
        return embeddings

    has_bias = getattr(model, "logit_bias", None) is not None
    return TextEncoder(label, origin, None if has_bias else _scale(model), forward)


def transformers_texts(name: str, device: str, compute: str, revision: str | None, *, label: str) -> TextEncoder:
    """Open the text tower of a checkpoint whose class has get_text_features. Raises PreflightError."""
    checkpoint = find(name, revision, check_kind)
    model, _ = load_model(checkpoint, label, device, compute, texts=True)
    if not hasattr(model, "get_text_features"):
        raise PreflightError(
            f"{label} has no text tower whose features can be read.", "Choose a dual encoder, such as CLIP or SigLIP."
        )
    try:
        tokenizer = auto_tokenizer.from_pretrained(checkpoint.folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # whatever a checkpoint without a tokenizer makes it raise
        raise PreflightError(
            f"{label}: its tokenizer cannot be loaded: {first_line(error)}", "Download the checkpoint again."
        ) from error
    model = model.eval().requires_grad_(False)
    config = getattr(model.config, "text_config", model.config)
    longest = min(int(tokenizer.model_max_length), int(getattr(config, "max_position_embeddings", None) or 1 << 30))
    # SigLIP was trained on texts filled to one length, and reads another embedding from a shorter one.
    fills = str(checkpoint.config.get("model_type")).startswith("siglip")

    def forward(texts: list[str]) -> torch.Tensor:
        tokens = tokenizer(
            texts,
            padding="max_length" if fills else True,
            truncation=True,
            max_length=longest,
            return_tensors="pt",
        ).to(model.device)
        known = {key: tokens[key] for key in ("input_ids", "attention_mask") if key in tokens}
        output = model.get_text_features(**known)
        embeddings: torch.Tensor = getattr(output, "pooler_output", output)
        return embeddings

    has_bias = getattr(model, "logit_bias", None) is not None
    return TextEncoder(label, dict(checkpoint.origin), None if has_bias else _scale(model), forward)


def _scale(model: Any) -> float | None:
    """Return the learned factor of a cosine; None where the model has none."""
    scale = getattr(model, "logit_scale", None)
    return None if scale is None else float(torch.as_tensor(scale).detach().float().exp())
