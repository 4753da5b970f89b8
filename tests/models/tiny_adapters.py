"""LoRA adapters with random weights for the tiny checkpoint, and the checkpoint with one merged, by PEFT itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForImageTextToText, AutoProcessor

TARGETS = ("q_proj", "v_proj", "down_proj")
IN_LANGUAGE_MODEL = r".*language_model.*\.(q_proj|v_proj)"


def write_adapter(
    base: Path, folder: Path, seed: int, targets: tuple[str, ...] | str = TARGETS, **settings: Any
) -> Path:
    """Save an adapter over `base` whose two factors are random, so that it changes the replies."""
    torch.manual_seed(seed)
    model: Any = AutoModelForImageTextToText.from_pretrained(base)
    config = LoraConfig(
        r=4, lora_alpha=16, target_modules=targets if isinstance(targets, str) else list(targets), **settings
    )
    wrapped: Any = get_peft_model(model, config)
    for name, weights in wrapped.named_parameters():
        if "lora_A" in name or "lora_B" in name or "modules_to_save" in name:
            torch.nn.init.normal_(weights, std=0.3)
    wrapped.save_pretrained(folder)
    return folder


def merge(base: Path, adapter: Path, folder: Path) -> Path:
    """Save the checkpoint with the adapter in its weights."""
    model: Any = AutoModelForImageTextToText.from_pretrained(base)
    PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().save_pretrained(folder)
    AutoProcessor.from_pretrained(base).save_pretrained(folder)
    return folder
