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
    """Write `clip`, `siglip`, `dinov2`, `dinov2_registers`, `dinov3`, `vit`, `llava`, `internvl` or `qwen2_vl`; or an
    encoder with stages, see `_staged`."""
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
        model, images = _staged(kind)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name and weight.ndim == 1:
                weight.add_(0.3 * torch.randn_like(weight))
            elif weight.ndim > 1:
                weight.mul_(4)
    model.save_pretrained(folder)
    images.save_pretrained(folder)
    return folder


def _staged(kind: str) -> tuple[Any, Any]:
    """Return model and processor: `resnet`, `convnext`, `convnextv2`, `swin`, `swinv2`, `dinov3_convnext`, `efficientnet`."""
    import transformers as tf

    two = {"hidden_sizes": [16, 24], "depths": [1, 1]}
    cropped = {"size": {"shortest_edge": 56}, "crop_pct": 0.875}
    windows = {"image_size": 64, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
    if kind == "resnet":
        return tf.ResNetModel(tf.ResNetConfig(embedding_size=16, layer_type="basic", **two)), tf.ConvNextImageProcessor(
            **cropped, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]
        )
    if kind == "convnext":
        return tf.ConvNextModel(tf.ConvNextConfig(num_stages=2, **two)), tf.ConvNextImageProcessor(**cropped)
    if kind == "convnextv2":
        images = tf.ConvNextImageProcessor(size={"shortest_edge": 384}, crop_pct=1.0)
        return tf.ConvNextV2Model(tf.ConvNextV2Config(num_stages=2, **two)), images
    if kind == "swin":
        return tf.SwinModel(tf.SwinConfig(**windows)), tf.ViTImageProcessor(size={"height": 64, "width": 64})
    if kind == "swinv2":
        return tf.Swinv2Model(tf.Swinv2Config(**windows)), tf.ViTImageProcessor(size={"height": 64, "width": 64})
    if kind == "dinov3_convnext":
        config = tf.DINOv3ConvNextConfig(hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1])
        return tf.DINOv3ConvNextModel(config), tf.BitImageProcessor(
            size={"height": 64, "width": 64}, do_center_crop=False
        )
    if kind == "efficientnet":
        config = tf.EfficientNetConfig(image_size=64, width_coefficient=0.25, depth_coefficient=0.1, hidden_dim=320)
        return tf.EfficientNetModel(config), tf.EfficientNetImageProcessor(size={"height": 64, "width": 64})
    raise ValueError(kind)
