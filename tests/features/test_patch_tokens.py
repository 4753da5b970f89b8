"""Patch tokens in a store: what encoders give, how they are written, resumed and read, and what is said of the disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import data_set, jpeg
from tiny_encoders import build

from snellen.cli import main
from snellen.errors import DataError, FingerprintError, StorageError
from snellen.features import open_store
from snellen.features.extract import extract
from snellen.features.store import open_tokens
from snellen.features.store.format import META
from snellen.features.store.writer import COMMITS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LABELS = {"train": ["0", "1", "2"] * 4, "test": ["2", "0", "1", "0", "1"]}


def opened(folder: Path | str, outputs: list[str] | None = None) -> Any:
    from snellen.features.encoders import open_encoder

    return open_encoder(str(folder), outputs, tokens=True)


@pytest.mark.parametrize(
    "kind", ["clip", "siglip", "dinov2_registers", "qwen2_vl", "resnet", "swin", "dinov3_convnext"]
)
def test_the_mean_of_an_encoders_patch_tokens_is_its_patch_mean(tmp_path, kind):
    encoder = opened(build(kind, tmp_path / kind), ["patch_mean"])
    pixels = torch.randn(2, 3, *encoder.transform.size, generator=torch.Generator().manual_seed(5))
    outputs = encoder.encode(pixels)
    tokens = outputs["patch_tokens"]
    assert tokens.ndim == 3 and tokens.shape[1] > 1
    assert encoder.shapes()["patch_tokens"] == tuple(tokens.shape[1:])
    assert torch.allclose(tokens.mean(1), outputs["patch_mean"], atol=1e-5)
    assert encoder.widths() == {"patch_mean": tokens.shape[2]}


def test_tokens_are_stored_in_half_precision_beside_outputs_that_stay_as_they_were(tmp_path):
    files = data_set(tmp_path, LABELS)
    encoder = opened("embedded")
    said: list[str] = []
    meta = extract(
        encoder, files, tmp_path / "images", tmp_path / "s", batch_size=5, shard_rows=5, announce=said.append
    )
    assert meta.patch_tokens is not None
    tokens = open_tokens(tmp_path / "s")
    file = tmp_path / "s" / "patch_tokens.npy"
    assert np.load(file, mmap_mode="r").shape == (17, *tokens.shape[1:])
    assert np.load(file, mmap_mode="r").dtype == np.float16
    store = open_store(tmp_path / "s", "patch_mean")
    assert np.allclose(tokens.read(np.arange(17)).mean(1), store.values, atol=5e-3)
    assert "patch_tokens" not in meta.outputs
    [line] = said
    bytes_needed = 17 * tokens.shape[1] * tokens.shape[2] * 2
    assert f"{bytes_needed / 1e3:,.1f} kB" in line and "free" in line and "17 images" in line


def test_a_store_without_tokens_is_that_of_before_and_says_how_to_get_them(tmp_path):
    from snellen.features.encoders import open_encoder

    files = data_set(tmp_path, LABELS)
    extract(open_encoder("embedded"), files, tmp_path / "images", tmp_path / "s")
    assert "patch_tokens" not in (tmp_path / "s" / META).read_text()
    with pytest.raises(DataError, match="--tokens"):
        open_tokens(tmp_path / "s")
    with pytest.raises(FingerprintError, match="patch_tokens"):
        extract(opened("embedded"), files, tmp_path / "images", tmp_path / "s")


def test_an_extraction_that_ended_early_is_resumed_with_the_same_tokens(tmp_path, monkeypatch):
    files = data_set(tmp_path, LABELS)
    encoder = opened("embedded")
    extract(encoder, files, tmp_path / "images", tmp_path / "whole")
    ends = iter(range(2))

    def stop(done, total):
        if next(ends, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(encoder, files, tmp_path / "images", tmp_path / "s", batch_size=4, shard_rows=4, progress=stop)
    assert (tmp_path / "s" / COMMITS).read_bytes().count(b"\n") == 2
    with pytest.raises(DataError, match="incomplete"):
        open_tokens(tmp_path / "s")
    extract(encoder, files, tmp_path / "images", tmp_path / "s", batch_size=4, shard_rows=4)
    whole, resumed = open_tokens(tmp_path / "whole"), open_tokens(tmp_path / "s")
    assert np.allclose(whole.read(np.arange(17)), resumed.read(np.arange(17)), atol=1e-3)


def test_tokens_of_missing_images_are_stepped_over_and_rows_stay_those_of_the_store(tmp_path):
    files = data_set(tmp_path, LABELS)
    (tmp_path / "images" / "Less, More" / "train 3.jpg").write_bytes(jpeg(1)[:200])
    meta = extract(
        opened("embedded", ["patch_mean"]), files, tmp_path / "images", tmp_path / "s", allow_missing=True, batch_size=4
    )
    tokens, store = open_tokens(tmp_path / "s"), open_store(tmp_path / "s")
    assert meta.rows == len(tokens) == len(store) == 16
    assert np.allclose(tokens.read(np.arange(16)).mean(1), store.values, atol=5e-3)
    assert np.allclose(tokens.read(np.array([7, 2])).mean(1), store.values[[7, 2]], atol=5e-3)


def test_a_disk_without_room_is_named_before_anything_is_encoded(tmp_path, monkeypatch, capsys):
    files = data_set(tmp_path, LABELS)
    build("vit", tmp_path / "vit")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=20_000))
    words = ["features", "extract", "--encoder", str(tmp_path / "vit"), "--images", str(tmp_path / "images")]
    words += ["--out", str(tmp_path / "s"), *(word for file in files for word in ("--split", file))]
    assert main([*words, "--tokens"]) == StorageError.exit_code
    told = capsys.readouterr().err
    assert "20.0 kB" in told and "--tokens" in told
    assert not (tmp_path / "s").exists() or not list((tmp_path / "s").glob("*.npy"))
    assert main(words) == 0


def test_the_command_says_the_tokens_and_their_size(tmp_path, capsys):
    files = data_set(tmp_path, LABELS)
    build("vit", tmp_path / "vit")
    words = ["features", "extract", "--encoder", str(tmp_path / "vit"), "--images", str(tmp_path / "images"), "--json"]
    words += ["--out", str(tmp_path / "s"), *(word for file in files for word in ("--split", file)), "--tokens"]
    assert main(words) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["patch_tokens"] == {"tokens": 16, "width": 32, "dtype": "float16"}
    assert "17 images x 16 tokens x 32 values" in streams.err


def test_a_damaged_file_of_tokens_is_named(tmp_path):
    files = data_set(tmp_path, LABELS)
    extract(opened("embedded"), files, tmp_path / "images", tmp_path / "s")
    np.save(tmp_path / "s" / "patch_tokens.npy", np.zeros((17, 3, 2), np.float16))
    with pytest.raises(DataError, match=r"patch_tokens\.npy.*\[17, 3, 2\]"):
        open_tokens(tmp_path / "s")
    (tmp_path / "s" / "patch_tokens.npy").write_bytes(b"version https://git-lfs")
    with pytest.raises(DataError, match=r"patch_tokens\.npy"):
        open_tokens(tmp_path / "s")


@pytest.mark.parametrize("part", ["tokens", "output", "table"])
def test_a_store_that_names_a_file_elsewhere_is_refused(tmp_path, part):
    files = data_set(tmp_path, LABELS)
    extract(opened("embedded"), files, tmp_path / "images", tmp_path / "s")
    meta = json.loads((tmp_path / "s" / META).read_text())
    if part == "table":
        meta["table"] = "../rows.parquet"
    else:
        holder = meta["patch_tokens"] if part == "tokens" else meta["outputs"]["patch_mean"]
        holder["file"] = "../elsewhere.npy"
    (tmp_path / "s" / META).write_text(json.dumps(meta))
    with pytest.raises(DataError, match=r"\.\./.*its own folder"):
        open_store(tmp_path / "s")


def test_an_image_that_is_a_pointer_of_git_lfs_is_named_as_one(tmp_path):
    files = data_set(tmp_path, LABELS)
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 352552\n"
    (tmp_path / "images" / "Less, More" / "train 3.jpg").write_bytes(pointer)
    with pytest.raises(DataError, match=r"(?s)train 3\.jpg.*Git LFS.*git lfs pull.*--allow-missing"):
        extract(opened("embedded"), files, tmp_path / "images", tmp_path / "s")
