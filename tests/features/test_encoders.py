"""Encoders against the models' own forward passes, and transforms against their own processors."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from pictures import jpeg
from PIL import Image as pillow
from tiny_encoders import build

from snellen.errors import FingerprintError, MissingExtraError, PreflightError, UsageError
from snellen.features.encoders import open_encoder
from snellen.features.extract.preprocess import (
    Transform,
    decode,
    normalise,
    read_pixels,
    require_transform,
    resize_and_crop,
)
from snellen.sources import BytesBlob

torch = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")

WITH_CLS = ("clip", "dinov2", "dinov2_registers", "dinov3", "vit", "llava", "internvl")
ALL = (*WITH_CLS, "siglip", "qwen2_vl")


def pixels(encoder: Any, count: int = 2) -> Any:
    return torch.randn(count, 3, *encoder.transform.size, generator=torch.Generator().manual_seed(5))


def close(ours: Any, theirs: Any) -> bool:
    return bool(torch.allclose(ours, theirs, atol=1e-5))


def test_clip_gives_normed_tokens_of_its_last_blocks_and_the_embedding_that_texts_are_compared_with(folders):
    encoder = open_encoder(f"hf:{folders('clip')}", ["cls", "cls_last3", "patch_mean_last2", "embedding"])
    model = transformers.CLIPModel.from_pretrained(folders("clip")).eval()
    x = pixels(encoder)
    seen, own = encoder.encode(x), model.vision_model(x, output_hidden_states=True)
    normed = [model.vision_model.post_layernorm(one) for one in own.hidden_states]
    assert close(seen["cls"], own.pooler_output)
    assert close(seen["cls_last3"], torch.cat([one[:, 0] for one in normed[-3:]], 1))
    assert close(seen["patch_mean_last2"], torch.cat([one[:, 1:].mean(1) for one in normed[-2:]], 1))
    assert close(seen["embedding"], model.get_image_features(x).pooler_output)
    assert encoder.widths() == {"cls": 32, "cls_last3": 96, "patch_mean_last2": 64, "embedding": 24}


def test_siglip_has_no_cls_and_gives_patch_means_and_its_pooled_head(folders):
    encoder = open_encoder(folders("siglip"), ["patch_mean", "embedding"])
    model = transformers.SiglipModel.from_pretrained(folders("siglip")).eval()
    x = pixels(encoder)
    seen, own = encoder.encode(x), model.vision_model(x)
    assert close(seen["patch_mean"], own.last_hidden_state.mean(1))
    assert close(seen["embedding"], own.pooler_output)
    with pytest.raises(UsageError, match="no output 'cls'"):
        open_encoder(folders("siglip"), ["cls"])


@pytest.mark.parametrize(("kind", "prefix"), [("dinov2", 1), ("dinov2_registers", 5), ("dinov3", 5), ("vit", 1)])
def test_registers_are_no_patches_and_the_final_norm_is_applied(folders, kind, prefix):
    encoder = open_encoder(folders(kind), ["cls", "patch_mean", "embedding"])
    extra = {"add_pooling_layer": False} if kind == "vit" else {}
    model = transformers.AutoModel.from_pretrained(folders(kind), **extra).eval()
    x = pixels(encoder)
    seen, own = encoder.encode(x), model(x).last_hidden_state
    assert own.shape[1] == 16 + prefix
    assert close(seen["cls"], own[:, 0])
    assert close(seen["patch_mean"], own[:, prefix:].mean(1))
    assert close(seen["embedding"], own[:, 0])


def test_a_vision_language_model_gives_tokens_before_and_behind_its_projector(folders):
    encoder = open_encoder(folders("llava"), ["cls", "projector_input", "aligned"])
    model = transformers.LlavaForConditionalGeneration.from_pretrained(folders("llava")).eval().model
    x = pixels(encoder)
    seen, own = encoder.encode(x), model.vision_tower(x, output_hidden_states=True)
    before = own.hidden_states[-2][:, 1:]
    assert close(seen["projector_input"], before.mean(1))
    assert close(seen["aligned"], model.multi_modal_projector(before).mean(1))
    assert close(seen["cls"], own.pooler_output)


def test_packed_patches_are_those_of_the_models_own_processor(folders):
    encoder = open_encoder(folders("qwen2_vl"), ["patch_mean", "aligned"])
    model = transformers.Qwen2VLForConditionalGeneration.from_pretrained(folders("qwen2_vl")).eval().model
    processor = transformers.AutoImageProcessor.from_pretrained(folders("qwen2_vl"))
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (448, 448, 3), dtype=np.uint8) for _ in range(2)]
    given = processor(images=[pillow.fromarray(one) for one in pictures], return_tensors="pt")
    own = model.get_image_features(given["pixel_values"], image_grid_thw=given["image_grid_thw"])
    seen = encoder.forward_pixels(torch.stack([torch.from_numpy(one).permute(2, 0, 1) for one in pictures]) / 255)
    assert close(seen["aligned"], torch.stack([one.mean(0) for one in own.pooler_output]))
    normed = model.visual.merger.ln_q(own.last_hidden_state).reshape(2, -1, 32)
    assert close(seen["patch_mean"], normed.mean(1))


@pytest.mark.parametrize("kind", ALL)
def test_gradients_reach_the_pixels_and_a_picture_does_not_depend_on_its_neighbours(folders, kind):
    encoder = open_encoder(folders(kind))
    images = torch.rand(2, 3, *encoder.transform.size).requires_grad_()
    seen = encoder.forward_pixels(images)
    seen[encoder.outputs[0]][0].square().sum().backward()
    assert images.grad[0].abs().sum() > 0
    assert images.grad[1].abs().sum() == 0
    alone = encoder.forward_pixels(images[1:].detach())
    for name, values in seen.items():
        assert close(values[1:], alone[name]), name


@pytest.mark.parametrize("kind", ALL[:-1])
@pytest.mark.parametrize("size", [(61, 45), (45, 61), (500, 375), (32, 32), (37, 36)])
def test_pixels_are_those_of_the_checkpoints_own_processor_to_one_level(folders, kind, size):
    encoder = open_encoder(folders(kind))
    data = jpeg(7, *size)
    ours = normalise(read_pixels(BytesBlob("a", data), encoder.transform)[None], encoder.transform)
    processor = transformers.AutoImageProcessor.from_pretrained(folders(kind))
    theirs = processor(images=pillow.open(BytesIO(data)).convert("RGB"), return_tensors="pt")["pixel_values"]
    levels = (ours - theirs) * torch.tensor(encoder.transform.std).view(3, 1, 1) * 255
    assert ours.shape == theirs.shape
    assert levels.abs().max() < 1.02


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "lanczos", "nearest"])
@pytest.mark.parametrize("size", [(500, 375), (375, 500), (61, 45), (224, 224)])
def test_resize_and_crop_are_pillows_to_one_level(interpolation, size):
    transform = Transform((256,), interpolation, (224, 224), (0.5,) * 3, (0.5,) * 3, middle="even")
    picture = pillow.open(BytesIO(jpeg(1, *size))).convert("RGB")
    width, height = size
    long = int(256 * max(size) / min(size))
    theirs = picture.resize((256, long) if height >= width else (long, 256), pillow.Resampling[interpolation.upper()])
    left, top = round((theirs.width - 224) / 2), round((theirs.height - 224) / 2)
    theirs = np.array(theirs.crop((left, top, left + 224, top + 224))).astype(int)
    ours = resize_and_crop(decode(BytesBlob("a", jpeg(1, *size))), transform).permute(1, 2, 0).numpy().astype(int)
    assert np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize("orientation", [3, 6])
def test_turned_pictures_are_seen_upright(orientation):
    upright = decode(BytesBlob("a", jpeg(2)))
    turned = decode(BytesBlob("b", jpeg(2, exif=orientation)))
    assert np.array_equal(turned, np.rot90(upright, {3: 2, 6: -1}[orientation]))


def test_grey_pictures_and_pngs_with_transparency_become_rgb():
    out = BytesIO()
    pillow.fromarray(np.full((9, 8), 77, np.uint8)).save(out, "JPEG", quality=95)
    assert decode(BytesBlob("grey", out.getvalue())).shape == (9, 8, 3)
    out = BytesIO()
    pillow.new("RGBA", (8, 9), (255, 0, 0, 0)).save(out, "PNG")
    assert (decode(BytesBlob("clear", out.getvalue())) == 255).all()


def test_the_embedded_tower_gives_patch_means_and_never_its_untrained_cls():
    encoder = open_encoder("embedded")
    assert encoder.outputs == ("patch_mean", "aligned")
    with pytest.raises(UsageError, match="has no output 'cls_last2'"):
        open_encoder("embedded", ["cls_last2"])


def test_another_transform_than_the_stores_is_refused(tmp_path, folders):
    stored = open_encoder(folders("clip")).identity()["transform"]
    require_transform(tmp_path, stored, open_encoder(folders("clip")).transform)
    with pytest.raises(FingerprintError, match="mean"):
        require_transform(tmp_path, stored, open_encoder(folders("dinov2")).transform)


def test_identity_follows_the_weights_and_not_the_place(tmp_path, folders):
    one, same = open_encoder(folders("vit")), open_encoder(str(build("vit", tmp_path / "copy")))
    assert one.identity() == same.identity()
    assert open_encoder(folders("dinov2")).identity() != one.identity()


def test_weights_that_lack_tensors_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = build("dinov2", tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    del weights["layernorm.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PreflightError, match=r"missing .*layernorm\.weight"):
        open_encoder(str(folder))


@pytest.mark.parametrize(
    ("spec", "fault", "words"),
    [
        ("nowhere/at/all", PreflightError, "no model folder"),
        ("open_clip:ViT-B-32/openai", MissingExtraError, r"pip install -e \S+\[open_clip\]"),
        ("timm:vit_tiny_patch16_224", MissingExtraError, r"pip install -e \S+\[timm\]"),
    ],
)
def test_encoders_that_cannot_be_had_are_named(spec, fault, words, monkeypatch):
    import snellen.features.encoders as encoders

    monkeypatch.setattr(encoders, "find_spec", lambda name: None if name in ("timm", "open_clip") else object())
    with pytest.raises(fault, match=words):
        open_encoder(spec)


def test_more_blocks_than_there_are_and_unknown_outputs_are_refused(folders):
    with pytest.raises(UsageError, match="asks for 4 blocks"):
        open_encoder(folders("vit"), ["cls_last4"])
    with pytest.raises(UsageError, match="It has: cls, cls_lastN, patch_mean, patch_mean_lastN, embedding"):
        open_encoder(folders("vit"), ["aligned"])
