"""How many images a processor encodes at once, and that it changes no feature."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pictures import jpeg
from tiny_encoders import build

from snellen.features.extract import extract
from snellen.features.extract.loop import images_per_pass
from snellen.features.extract.preprocess import normalise, read_pixels
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


def test_threads_encode_images_of_their_own_with_products_of_one_thread(tmp_path):
    """Products that several threads share make them wait by spinning: twice the processor time on a loaded machine."""
    from snellen.features.encoders import open_encoder
    from snellen.features.extract.loop import encode_rows
    from snellen.sources import BytesBlob

    images = {number: BytesBlob(f"{number}", jpeg(number, 60, 50)) for number in range(40)}
    encoder = open_encoder(str(build("clip", tmp_path / "clip")), ["cls_last2", "patch_mean", "embedding"])
    seen: list[tuple[str, int]] = []
    meet = threading.Barrier(3)
    plain = encoder.encode

    def encode(pixels):
        seen.append((threading.current_thread().name, torch.get_num_threads()))
        if len(seen) <= 3:
            meet.wait(600)  # three encode at once, or none goes on
        return plain(pixels)

    alone = {
        row: plain(normalise(read_pixels(images[row], encoder.transform)[None], encoder.transform)) for row in images
    }
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    encoder.encode = encode
    try:
        parts = list(encode_rows(encoder, images.__getitem__, range(40), 12, 2))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert [row for part in parts for row in part.rows] == list(range(40))
    assert {threads for _, threads in seen} == {1}
    assert len({name for name, _ in seen}) == 3
    for part in parts:
        for index, row in enumerate(part.rows):
            for name, values in alone[row].items():
                assert np.allclose(part.values[name][index], values[0].numpy(), atol=1e-5), (row, name)


@pytest.mark.parametrize(
    "kind", ["clip", "siglip", "dinov2_registers", "dinov3", "llava", "internvl", "qwen2_vl", "swin"]
)
def test_threads_of_one_encoder_do_not_see_each_others_tokens(tmp_path, kind):
    from snellen.features.encoders import open_encoder

    encoder = open_encoder(str(build(kind, tmp_path / kind)), tokens=True)
    draw = torch.Generator().manual_seed(1)
    batches = [torch.randn(1 + number % 3, 3, *encoder.transform.size, generator=draw) for number in range(40)]
    expected = [encoder.encode(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        for ours, theirs in zip(pool.map(encoder.encode, batches), expected, strict=True):
            for name in theirs:
                assert torch.allclose(ours[name], theirs[name], atol=1e-5), name


def test_an_unreadable_image_ends_an_extraction_of_several_threads_and_torch_has_its_threads_again(tmp_path):
    from snellen.errors import DataError
    from snellen.features.encoders import open_encoder

    (tmp_path / "images").mkdir()
    for number in range(9):
        (tmp_path / "images" / f"{number}.jpg").write_bytes(jpeg(number, 60, 50)[: 200 if number == 7 else None])
    (tmp_path / "train.csv").write_text("".join(f"{number}.jpg,{number % 2}\n" for number in range(9)))
    encoder = open_encoder(str(build("vit", tmp_path / "vit")))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(DataError, match=r"7\.jpg"):
            extract(encoder, [tmp_path / "train.csv"], tmp_path / "images", tmp_path / "s", batch_size=2)
        assert torch.get_num_threads() == 3
        meta = extract(
            encoder, [tmp_path / "train.csv"], tmp_path / "images", tmp_path / "s", batch_size=2, allow_missing=True
        )
    finally:
        torch.set_num_threads(before)
    assert [row.id for row in meta.missing] == ["7.jpg"]


def test_overlapping_requests_to_a_worker_share_its_threads_and_get_their_own_rows(tmp_path):
    """A worker of several hosts, without the hosts."""
    import asyncio
    from functools import partial

    from snellen.features.encoders import open_encoder
    from snellen.features.extract.ray import HostedEncoder, _packed_rows
    from snellen.sources import BytesBlob

    images = {number: BytesBlob(f"{number}", jpeg(number, 60, 50)) for number in range(30)}
    folder = str(build("clip", tmp_path / "clip"))
    encoder = open_encoder(folder, ["cls", "patch_mean"])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        hosted = HostedEncoder(partial(open_encoder, folder, ["cls", "patch_mean"], tokens=True))

        async def ask():
            pieces = [range(start, start + 10) for start in (0, 10, 20)]
            requests = (_packed_rows(images.__getitem__, piece, (4, 2, False), True) for piece in pieces)
            return await asyncio.gather(*(hosted.ask(request) for request in requests))

        answers = asyncio.run(ask())
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    rows = [row for answer in answers for part in answer for row in part.rows]
    assert rows == list(range(30))
    for answer in answers:
        for part in answer:
            for index, row in enumerate(part.rows):
                pixels = normalise(read_pixels(images[row], encoder.transform)[None], encoder.transform)
                own = encoder.encode(pixels)
                assert np.allclose(part.values["cls"][index], own["cls"][0].numpy(), atol=1e-5)
                mean = part.values["patch_tokens"][index].mean(0)
                assert np.allclose(mean, own["patch_mean"][0].numpy(), atol=1e-5)
