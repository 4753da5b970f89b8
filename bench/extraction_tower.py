"""Extraction with a real tower, end to end, beside the plain pipeline: CPU seconds of both in one run.

A ViT-Ti (12 layers of width 192, 224 x 224, patches of 16; random weights, which cost what trained ones cost) encodes
JPEGs of 500 x 375. The plain pipeline is what one writes by hand: Pillow opens, transformers' processor prepares and the
model encodes 64 images at a time; CLS and patch mean go into one .npy. Snellen's is `extract` with the same outputs,
from the same files to a finished store with its checksums and commits. Both decode and encode with the same number of
threads. They take turns, and which goes first alternates, so that both meet the same machine; the median of the ratios
counts. Features are compared at the end.

Usage: python bench/extraction_tower.py [--images 300] [--rounds 5] [--threads 1 2]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from extraction_images import make
from PIL import Image as pillow

from snellen.features.encoders import open_encoder
from snellen.features.extract import extract
from snellen.features.extract.loop import torch_threads
from snellen.features.store import open_store

BATCH = 64
tf: Any = transformers


def write_tower(folder: Path) -> Path:
    """A ViT-Ti with its processor in transformers' layout."""
    torch.manual_seed(0)
    config = tf.ViTConfig(hidden_size=192, intermediate_size=768, num_hidden_layers=12, num_attention_heads=3)
    tf.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    tf.ViTImageProcessor(size={"height": 224, "width": 224}).save_pretrained(folder)
    return folder


def plain(model: Any, processor: Any, files: Sequence[Path], out: Path) -> None:
    """Open, prepare and encode 64 images at a time; write CLS and patch mean."""
    parts = []
    for start in range(0, len(files), BATCH):
        images = [pillow.open(file).convert("RGB") for file in files[start : start + BATCH]]
        pixels = processor(images=images, return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            tokens = model(pixels).last_hidden_state
        parts.append(torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1).numpy())
    np.save(out, np.concatenate(parts))


def cpu_seconds(go: Callable[[], Any]) -> float:
    start = time.process_time()
    go()
    return time.process_time() - start


def measure(folder: Path, files: Sequence[Path], tower: str, threads: int, rounds: int) -> None:
    """Run both pipelines in turns with this many threads, and print the CPU seconds of each."""
    torch.set_num_threads(threads)
    encoder = open_encoder(tower, ["cls", "patch_mean"])
    model = tf.AutoModel.from_pretrained(tower, add_pooling_layer=False).eval()
    processor = tf.AutoImageProcessor.from_pretrained(tower)
    plain(model, processor, files[:8], folder / "plain.npy")  # what is done once is not counted
    spent: dict[str, list[float]] = {"plain": [], "snellen": []}
    for turn in range(rounds):
        store = folder / f"store{threads}-{turn}"

        def snellen(store: Path = store) -> None:
            with torch_threads(encoder, BATCH, threads):
                csv = folder / "set" / "train.csv"
                extract(encoder, [csv], folder / "set" / "images", store, workers=threads)

        ways = {"plain": lambda: plain(model, processor, files, folder / "plain.npy"), "snellen": snellen}
        for way in ways if turn % 2 == 0 else reversed(ways):
            spent[way].append(cpu_seconds(ways[way]))
    stored = np.concatenate([open_store(store, output).values for output in ("cls", "patch_mean")], axis=1)
    apart = np.abs(stored - np.load(folder / "plain.npy")).max() / np.abs(stored).max()
    ratios = [ours / theirs for ours, theirs in zip(spent["snellen"], spent["plain"], strict=True)]
    print(f"{len(files)} JPEGs of 500 x 375, ViT-Ti, {threads} thread(s), {rounds} rounds in turns")
    for way, seconds in spent.items():
        print(f"{way:8} {statistics.median(seconds):7.2f} CPU s (least {min(seconds):.2f})")
    print(f"snellen / plain: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f} (limit 1)")
    print(f"largest difference of a feature: {apart:.1e} of the largest value", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = make(folder / "set", given.images)
        tower = str(write_tower(folder / "tower"))
        for threads in given.threads:
            measure(folder, files, tower, threads, given.rounds)


if __name__ == "__main__":
    main()
