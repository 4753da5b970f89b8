"""How many images a processor encodes at once, and that it changes no feature."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import jpeg
from tiny_encoders import build

from snellen.features.extract import extract
from snellen.features.extract.loop import images_per_pass
from snellen.features.store import open_store

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("work", "batch", "images"), [(1.08e9, 64, 8), (13e6, 64, 64), (17e9, 64, 4), (1.08e9, 3, 3), (1.0, 1, 1)]
)
def test_large_encoders_take_few_images_at_once_and_small_ones_the_batch(work, batch, images):
    assert images_per_pass(work, batch) == images


@pytest.mark.parametrize("threads", [1, 2])
def test_features_do_not_depend_on_the_images_encoded_at_once(tmp_path, monkeypatch, threads):
    from snellen.features.encoders import open_encoder
    from snellen.features.extract import loop

    (tmp_path / "images").mkdir()
    for number in range(11):
        (tmp_path / "images" / f"{number}.jpg").write_bytes(jpeg(number, 60, 50))
    (tmp_path / "train.csv").write_text("".join(f"{number}.jpg,{number % 2}\n" for number in range(11)))
    encoder = open_encoder(str(build("vit", tmp_path / "vit")))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        extract(encoder, [tmp_path / "train.csv"], tmp_path / "images", tmp_path / "whole")
        monkeypatch.setattr(loop, "images_per_pass", lambda work, batch_size: 3)
        extract(encoder, [tmp_path / "train.csv"], tmp_path / "images", tmp_path / "parts")
    finally:
        torch.set_num_threads(before)
    whole, parts = open_store(tmp_path / "whole", "cls"), open_store(tmp_path / "parts", "cls")
    assert np.allclose(whole.values, parts.values, atol=1e-5)
    assert list(whole.ids) == list(parts.ids)
