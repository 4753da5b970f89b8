"""Convolutional and hierarchical encoders, processors without their class, and what is refused by name."""

from __future__ import annotations

import json
import sys
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from pictures import jpeg
from PIL import Image as pillow
from tiny_encoders import build

from snellen.errors import MissingExtraError, PreflightError, UsageError
from snellen.features.encoders import open_encoder
from snellen.features.extract.preprocess import normalise, read_pixels
from snellen.sources import BytesBlob

torch = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")

STAGED = ("resnet", "convnext", "convnextv2", "swin", "swinv2", "dinov3_convnext", "efficientnet")
DINOV3 = {
    "crop_size": None,
    "data_format": "channels_first",
    "default_to_square": True,
    "device": None,
    "disable_grouping": None,
    "do_center_crop": None,
    "do_convert_rgb": None,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_processor_type": "DINOv3ViTImageProcessorFast",
    "image_std": [0.229, 0.224, 0.225],
    "input_data_format": None,
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "return_tensors": None,
    "size": {"height": 48, "width": 48},
}


def images_for(encoder: Any, count: int = 2) -> Any:
    return torch.randn(count, 3, *encoder.transform.size, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("kind", STAGED)
def test_an_encoder_with_stages_gives_its_own_pooling_and_the_mean_over_its_last_map(folders, kind):
    encoder = open_encoder(f"hf:{folders(kind)}", ["embedding", "patch_mean"])
    model = transformers.AutoModel.from_pretrained(folders(kind)).eval()
    x = images_for(encoder)
    with torch.inference_mode():
        seen, own = encoder.encode(x), model(pixel_values=x)
    last = own.last_hidden_state
    if kind == "dinov3_convnext":
        last = last[:, 1:]
    mean = last.mean((2, 3)) if last.ndim == 4 else last.mean(1)
    assert torch.allclose(seen["patch_mean"], mean, atol=1e-5)
    assert torch.allclose(seen["embedding"], own.pooler_output.flatten(1), atol=1e-5)
    assert encoder.widths() == {"embedding": mean.shape[1], "patch_mean": mean.shape[1]}
    assert encoder.work() > 1e4


@pytest.mark.parametrize("kind", ["resnet", "swin"])
def test_gradients_reach_the_pixels_through_pooled_features(folders, kind):
    encoder = open_encoder(folders(kind))
    assert encoder.outputs == ("embedding",)
    images = torch.rand(2, 3, *encoder.transform.size).requires_grad_()
    encoder.forward_pixels(images)["embedding"][0].square().sum().backward()
    assert images.grad[0].abs().sum() > 0
    assert images.grad[1].abs().sum() == 0


@pytest.mark.parametrize("kind", STAGED)
@pytest.mark.parametrize("size", [(500, 375), (61, 45), (401, 612)])
def test_pixels_of_encoders_with_stages_are_those_of_their_processors(folders, kind, size):
    """To one level where the processor resizes with Pillow, and to two where it exists for torchvision only."""
    encoder = open_encoder(folders(kind))
    data = jpeg(7, *size)
    ours = normalise(read_pixels(BytesBlob("a", data), encoder.transform)[None], encoder.transform)
    processor = transformers.AutoImageProcessor.from_pretrained(folders(kind), backend="pil")
    theirs = processor(images=pillow.open(BytesIO(data)).convert("RGB"), return_tensors="pt")["pixel_values"]
    levels = (ours - theirs) * torch.tensor(encoder.transform.std).view(3, 1, 1) * 255
    assert ours.shape == theirs.shape
    assert levels.abs().max() < (1.02 if type(processor).__name__.endswith("Pil") else 2.02)


def test_a_processor_that_does_not_resize_is_refused(tmp_path):
    folder = build("vit", tmp_path / "model")
    transformers.ViTImageProcessor(do_resize=False).save_pretrained(folder)
    with pytest.raises(PreflightError, match="asks for do_resize: false"):
        open_encoder(str(folder))


def test_an_encoder_with_stages_has_no_cls_and_no_blocks(folders):
    with pytest.raises(UsageError, match="no output 'cls_last2'") as refused:
        open_encoder(folders("convnext"), ["cls_last2"])
    assert refused.value.hint == "It has: embedding, patch_mean."


def test_a_processor_with_rules_of_its_own_is_refused_by_name(tmp_path):
    folder = build("resnet", tmp_path / "model")
    transformers.LevitImageProcessor(size={"shortest_edge": 64}, do_center_crop=False).save_pretrained(folder)
    with pytest.raises(PreflightError, match=r"LevitImageProcessor.* prepares images by rules"):
        open_encoder(str(folder))


def with_processor(folder: Any, settings: Any, name: str = "preprocessor_config.json") -> str:
    for file in ("preprocessor_config.json", "processor_config.json"):
        (folder / file).unlink(missing_ok=True)
    (folder / name).write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return str(folder)


@pytest.fixture
def dinov3(tmp_path):
    return build("dinov3", tmp_path / "dinov3")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "preprocessor_config.json"),
        ({"image_processor_type": "DINOv3ViTImageProcessor"}, "preprocessor_config.json"),
        ({}, "processor_config.json"),
    ],
)
def test_dinov3_opens_by_the_json_of_its_processor(dinov3, changes, name):
    settings = {**DINOV3, **changes}
    settings = {"image_processor": settings} if name == "processor_config.json" else settings
    encoder = open_encoder(with_processor(dinov3, settings, name), ["cls", "patch_mean"])
    transform = encoder.transform
    assert (transform.resize, transform.crop, transform.interpolation) == ((48, 48), None, "bilinear")
    assert transform.mean == (0.485, 0.456, 0.406)
    model = transformers.AutoModel.from_pretrained(dinov3).eval()
    data = jpeg(3, 90, 70)
    ours = normalise(read_pixels(BytesBlob("a", data), transform)[None], transform)
    resized = pillow.open(BytesIO(data)).convert("RGB").resize((48, 48), pillow.Resampling.BILINEAR)
    theirs = (np.asarray(resized, dtype=np.float32) / 255 - DINOV3["image_mean"]) / DINOV3["image_std"]
    assert np.abs(ours[0].permute(1, 2, 0).numpy() - theirs).max() < 1.02 / (255 * 0.224)
    with torch.inference_mode():
        own = model(ours).last_hidden_state
    assert torch.allclose(encoder.encode(ours)["cls"], own[:, 0], atol=1e-5)


def test_keys_that_a_dinov3_json_lacks_are_the_defaults_of_its_class(dinov3):
    short = {"image_processor_type": "DINOv3ViTImageProcessorFast", "size": {"shortest_edge": 60}}
    short |= {"do_center_crop": True, "crop_size": {"height": 48, "width": 48}}
    transform = open_encoder(with_processor(dinov3, short)).transform
    assert (transform.resize, transform.crop, transform.interpolation) == ((60,), (48, 48), "bilinear")
    assert transform.std == (0.229, 0.224, 0.225)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**DINOV3, "do_pad": True}, "asks for do_pad"),
        ({**DINOV3, "do_resize": False}, "asks for do_resize"),
        ({**DINOV3, "rescale_factor": 1.0}, "scales pixels by 1.0"),
        ({**DINOV3, "size": {"height": "tall", "width": 4}}, "not of the expected form"),
        ({**DINOV3, "resample": 77}, "not of the expected form"),
        ({**DINOV3, "image_mean": [0.5]}, "not of the expected form"),
        ({"image_processor_type": "Sam2ImageProcessorFast", "size": {"height": 8, "width": 8}}, "cannot be loaded"),
        ({**DINOV3, "image_processor_type": "NoSuchProcessor"}, "image processor cannot be loaded"),
        ("{", "cannot be read"),
    ],
)
def test_settings_that_cannot_be_followed_without_the_class_are_refused(dinov3, settings, words, monkeypatch):
    def missing(*_, **__):
        raise ImportError("the processor requires the Torchvision library")

    from snellen.features.encoders import hf as image_processor

    monkeypatch.setattr(image_processor.auto_images, "from_pretrained", missing)
    with pytest.raises(PreflightError, match=words):
        open_encoder(with_processor(dinov3, settings))


def test_naflex_towers_are_refused_by_name(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "siglip2", "text_config": {}, "vision_config": {}}))
    with pytest.raises(PreflightError, match="NaFlex"):
        open_encoder(str(tmp_path))


def test_a_checkpoint_in_timms_layout_is_answered_with_the_spelling_that_opens_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "eva02_tiny_patch14_224", "num_classes": 0}))
    with pytest.raises(PreflightError) as refused:
        open_encoder(str(tmp_path))
    assert f"timm:eva02_tiny_patch14_224,{tmp_path}" in refused.value.hint


@pytest.mark.parametrize("spec", ["timm:vit_tiny_patch16_224", "open_clip:ViT-B-32/openai", "open_clip:ViT-B-32,/w"])
def test_timm_and_open_clip_name_the_missing_torchvision(spec, monkeypatch):
    import snellen.features.encoders as encoders

    monkeypatch.setattr(encoders, "find_spec", lambda name: object())
    monkeypatch.setattr(encoders, "has_torchvision", lambda label: False)
    with pytest.raises(MissingExtraError, match="needs torchvision, which is not installed"):
        open_encoder(spec)


def test_a_torchvision_built_for_another_torch_is_named(tmp_path, monkeypatch):
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with pytest.raises(PreflightError, match=r"torchvision cannot be imported.*nms does not exist"):
        open_encoder("hf:some/where")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("weights.pth", "a pickle"),
        ("weights.bin", "a pickle"),
        ("weights.txt", "not a safetensors file"),
        ("nowhere.safetensors", "no file or folder"),
    ],
)
def test_local_weights_are_safetensors_only(tmp_path, name, words):
    from snellen.features.encoders.base import find_weights

    if not name.startswith("nowhere"):
        (tmp_path / name).write_bytes(b"not opened")
    with pytest.raises(PreflightError, match=words):
        find_weights(str(tmp_path / name), "open_clip:X")


def test_a_folder_of_weights_is_its_only_safetensors_file_or_the_usual_one(tmp_path):
    from snellen.features.encoders.base import find_weights, tensor_shapes

    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(PreflightError, match=r"pytorch_model\.bin, a pickle"):
        find_weights(str(tmp_path), "open_clip:X")
    (tmp_path / "a.safetensors").write_bytes(b"x")
    assert find_weights(str(tmp_path), "open_clip:X").name == "a.safetensors"
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert find_weights(str(tmp_path), "open_clip:X").name == "model.safetensors"
    with pytest.raises(PreflightError, match="2 safetensors files"):
        find_weights(str(tmp_path), "open_clip:X", ("open_clip_model.safetensors",))
    with pytest.raises(PreflightError, match="not a readable safetensors file"):
        tensor_shapes(tmp_path / "a.safetensors", "open_clip:X")
