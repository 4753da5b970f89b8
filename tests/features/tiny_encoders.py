"""Untrained vision encoders of a few thousand parameters in the Hugging Face format, with their own processors.

Features of an untrained encoder mean nothing and are always the same, which is all that these tests need. Final norms
get weights of their own, so that a feature taken before the norm differs from one taken after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}
TEXT = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
}


def build(kind: str, folder: Path) -> Path:
    """Write `clip`, `siglip`, `dinov2`, `dinov2_registers`, `dinov3`, `vit`, `llava`, `internvl` or `qwen2_vl`."""
    import torch
    import transformers as tf

    torch.manual_seed(3)
    model: Any
    images: Any
    if kind == "clip":
        text = {**TEXT, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
        config = tf.CLIPConfig(text_config=text, vision_config={**SIZES, "projection_dim": 24}, projection_dim=24)
        model = tf.CLIPModel(config)
        images = tf.CLIPImageProcessor(size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32})
    elif kind == "siglip":
        model = tf.SiglipModel(tf.SiglipConfig(text_config=TEXT, vision_config=SIZES))
        images = tf.SiglipImageProcessor(size={"height": 32, "width": 32})
    elif kind.startswith("dinov2"):
        sizes = {**SIZES, "image_size": 40}
        del sizes["intermediate_size"]
        if kind == "dinov2":
            model = tf.Dinov2Model(tf.Dinov2Config(**sizes))
        else:
            model = tf.Dinov2WithRegistersModel(tf.Dinov2WithRegistersConfig(**sizes, num_register_tokens=4))
        images = tf.BitImageProcessor(
            size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32}, image_mean=[0.4] * 3, image_std=[0.2] * 3
        )
    elif kind == "dinov3":
        model = tf.DINOv3ViTModel(tf.DINOv3ViTConfig(**SIZES, num_register_tokens=4))
        images = tf.BitImageProcessor(size={"height": 32, "width": 32}, do_center_crop=False)
    elif kind == "vit":
        model = tf.ViTForImageClassification(tf.ViTConfig(**SIZES, num_labels=4))
        images = tf.ViTImageProcessor(size={"height": 32, "width": 32})
    elif kind == "llava":
        vision = tf.CLIPVisionConfig(**SIZES)
        config = tf.LlavaConfig(
            vision_config=vision,
            text_config=tf.LlamaConfig(**{**TEXT, "hidden_size": 48}, head_dim=24),
            image_token_index=3,
            vision_feature_layer=-2,
            image_seq_length=16,
        )
        model = tf.LlavaForConditionalGeneration(config)
        images = tf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    elif kind == "internvl":
        vision = tf.InternVLVisionConfig(**{**SIZES, "image_size": [32, 32], "patch_size": [8, 8]})
        config = tf.InternVLConfig(
            vision_config=vision, text_config=tf.Qwen2Config(**{**TEXT, "num_key_value_heads": 2}), image_token_id=3
        )
        model = tf.InternVLForConditionalGeneration(config)
        images = tf.ViTImageProcessor(size={"height": 32, "width": 32}, resample=3)
    elif kind == "qwen2_vl":
        config = tf.Qwen2VLConfig(
            vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 48, "num_heads": 2, "patch_size": 14},
            text_config={
                **TEXT,
                "hidden_size": 48,
                "num_key_value_heads": 2,
                "rope_parameters": {"rope_type": "default", "mrope_section": [4, 4, 4], "rope_theta": 10000.0},
            },
        )
        model = tf.Qwen2VLForConditionalGeneration(config)
        images = tf.Qwen2VLImageProcessor()
    else:
        raise ValueError(kind)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name and weight.ndim == 1:
                weight.add_(0.3 * torch.randn_like(weight))
            elif weight.ndim > 1:
                weight.mul_(4)
    model.save_pretrained(folder)
    images.save_pretrained(folder)
    return folder
