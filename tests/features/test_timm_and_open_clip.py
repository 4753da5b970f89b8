"""Encoders of timm and open_clip with weights of their own: features and pixels are those of the two libraries."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from open_clip import add_model_config, create_model
from open_clip.transform import PreprocessCfg, image_transform_v2
from pictures import jpeg
from PIL import Image as pillow
from safetensors.torch import save_file

from snellen.errors import PreflightError
from snellen.features.encoders import open_encoder
from snellen.features.extract.preprocess import normalise, read_pixels
from snellen.sources import BytesBlob

TOKENS = ["cls", "patch_mean", "embedding"]
TEXT = {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
VIT = {"image_size": 32, "layers": 3, "width": 64, "patch_size": 8, "head_width": 32}
TOWERS: dict[str, dict[str, Any]] = {
    "tiny-vit": {"vision_cfg": VIT},
    "tiny-resnet": {"vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 16}},
    "tiny-of-timm": {
        "vision_cfg": {"timm_model_name": "test_vit", "timm_pool": "token", "timm_proj": "linear", "image_size": 160}
    },
    "tiny-coca": {
        "custom_text": True,
        "vision_cfg": {**VIT, "attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
        "text_cfg": {**TEXT, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {**TEXT, "width": 24},
    },
}


@pytest.fixture(scope="module", autouse=True)
def known_towers(tmp_path_factory):
    """Make the small towers known to open_clip, whose published ones have 150 million parameters and more."""
    folder = tmp_path_factory.mktemp("configs")
    for name, settings in TOWERS.items():
        (folder / f"{name}.json").write_text(json.dumps({"embed_dim": 24, "text_cfg": TEXT, **settings}))
    add_model_config(folder)


def saved(model: torch.nn.Module, file: Path) -> Path:
    """Draw all weights, so that features differ from place to place, and write them."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    save_file({name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}, file)
    return file


def close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, atol=1e-4, rtol=1e-4)


def levels_apart(encoder: Any, transform: Any, size: tuple[int, int]) -> float:
    """Return by how many levels of 255 our pixels differ from those of a library's own transform at most."""
    data = jpeg(7, *size)
    ours = normalise(read_pixels(BytesBlob("a", data), encoder.transform)[None], encoder.transform)[0]
    theirs = transform(pillow.open(BytesIO(data)).convert("RGB"))
    assert ours.shape == theirs.shape
    return float(((ours - theirs) * torch.tensor(encoder.transform.std).view(3, 1, 1) * 255).abs().max())


@pytest.mark.parametrize("name", ["test_vit", "test_vit2", "test_vit3", "test_vit_relpos"])
def test_a_vision_transformer_of_timm_gives_its_own_normed_tokens_and_embedding(name, tmp_path):
    model: Any = timm.create_model(name, num_classes=0).eval()
    outputs = TOKENS if model.cls_token is not None else TOKENS[1:]
    encoder = open_encoder(f"timm:{name},{saved(model, tmp_path / 'model.safetensors')}", outputs)
    pixels = torch.randn(2, 3, *encoder.transform.size)
    seen, own = encoder.encode(pixels), model.forward_features(pixels)
    assert close(seen["embedding"], model(pixels))
    assert close(seen["patch_mean"], own[:, model.num_prefix_tokens :].mean(1))
    assert "cls" not in outputs or close(seen["cls"], own[:, 0])


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext", "test_efficientnet", "test_coatnet", "test_mambaout"])
def test_a_network_of_maps_of_timm_gives_its_own_pooling(name, tmp_path):
    model: Any = timm.create_model(name).eval()
    encoder = open_encoder(f"timm:{name},{saved(model, tmp_path / 'model.safetensors')}")
    pixels = torch.randn(2, 3, *encoder.transform.size)
    assert close(
        encoder.encode(pixels)["embedding"], model.forward_head(model.forward_features(pixels), pre_logits=True)
    )


@pytest.mark.parametrize("name", list(TOWERS))
def test_a_tower_of_open_clip_gives_the_embedding_that_texts_are_compared_with(name, tmp_path):
    model: Any = create_model(name).eval()
    encoder = open_encoder(f"open_clip:{name},{saved(model, tmp_path / 'w.safetensors')}", ["embedding"])
    pixels = torch.randn(2, 3, *encoder.transform.size)
    assert close(encoder.encode(pixels)["embedding"], model.encode_image(pixels, normalize=False))


def test_a_vision_transformer_of_open_clip_gives_its_own_normed_tokens(tmp_path):
    model: Any = create_model("tiny-vit").eval()
    encoder = open_encoder(f"open_clip:tiny-vit,{saved(model, tmp_path / 'w.safetensors')}", TOKENS)
    pixels = torch.randn(2, 3, *encoder.transform.size)
    model.visual.proj, model.visual.output_tokens = None, True
    first, patches = model.visual(pixels)
    seen = encoder.encode(pixels)
    assert close(seen["cls"], first) and close(seen["patch_mean"], patches.mean(1))


@pytest.mark.parametrize("size", [(61, 45), (45, 61), (500, 375)])
def test_pixels_are_those_of_the_librarys_own_transform_to_one_level(size, tmp_path):
    model: Any = timm.create_model("test_vit")
    encoder = open_encoder(f"timm:test_vit,{saved(model, tmp_path / 'timm.safetensors')}")
    own: Any = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    assert levels_apart(encoder, own, size) < 1.02
    clip: Any = create_model("tiny-vit")
    encoder = open_encoder(f"open_clip:tiny-vit,{saved(clip, tmp_path / 'clip.safetensors')}")
    own = image_transform_v2(PreprocessCfg(**clip.visual.preprocess_cfg), is_train=False)
    assert levels_apart(encoder, own, size) < 1.02


def test_weights_that_do_not_fit_or_are_not_there_are_refused(tmp_path):
    other = saved(timm.create_model("test_vit3"), tmp_path / "model.safetensors")
    for spec in (f"timm:test_vit,{other}", f"open_clip:tiny-vit,{other}", "timm:no_such_model"):
        with pytest.raises(PreflightError):
            open_encoder(spec)
