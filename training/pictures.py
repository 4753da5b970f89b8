"""Pools of training pictures with dense labels, drawn from the chart's own world under keys that no evaluation uses.

Every key of an evaluation starts with "chart", every key here with "train": the two can never draw the same stream.
Digits come from the train split only, shifted, scaled and recoloured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from snellen.benchmarks.chart import digits as digits_chart
from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.rng import Stream

SIDE, PATCH = 48, 8
PATCHES = (SIDE // PATCH) ** 2
DRAWN = 96
DIGIT = "digit"
PLAIN = world.Dials()


@dataclass
class Pool:
    """Pictures [n, 48, 48, 3] as the processor would make them, what each shows, and labels per picture and patch."""

    kind: str
    weight: int = 1
    pixels: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    shows: list = field(default_factory=list)
    labels: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    patches: dict[str, NDArray[np.uint8]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pixels)

    def tensor(self, index: Sequence[int]) -> Tensor:
        """[B, 3, 48, 48] normalised as the processor does (mean 0.5, deviation 0.25)."""
        return (torch.from_numpy(self.pixels[index]).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25


def shrunk(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[s, s, 3] -> [48, 48, 3] exactly as the image processor resizes."""
    return np.asarray(Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def _share(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[96, 96] -> [36] how many pixels of each patch are in the mask, of 256."""
    side = DRAWN // (SIDE // PATCH)
    return mask.reshape(SIDE // PATCH, side, SIDE // PATCH, side).sum((1, 3)).reshape(-1)


def _patches(parts: NDArray[np.uint8], placed: list[world.Creature], portrait: bool) -> dict[str, NDArray[np.uint8]]:
    out = {name: np.zeros(PATCHES, dtype=np.uint8) for name in ("shape", "colour", "texture")}
    best = np.full(PATCHES, 45)
    for number, who in enumerate(placed):
        share = _share((parts >= world.BODY) if portrait else (parts == 16 * (number + 1) + world.BODY))
        wins = share > best
        best = np.where(wins, share, best)
        for name in out:
            out[name][wins] = getattr(who, name) + 1
    if portrait:
        who = placed[0]
        for name, part, value, least in (
            ("crest", world.CREST, who.klass, 24),
            ("belt", world.BELT, who.genus, 24),
            ("eye", world.EYE, who.species, 8),
        ):
            out[name] = np.where(_share(parts == part) > least, value + 1, 0).astype(np.uint8)
        out["legs"] = np.minimum(_share(parts == world.LEG) // 20, 7).astype(np.uint8)
    return out


def _collect(kind: str, weight: int, rows: list[tuple], names: Sequence[str] = ()) -> Pool:
    pool = Pool(kind, weight, np.stack([row[0] for row in rows]), [row[1] for row in rows])
    if rows[0][2]:
        pool.patches = {name: np.stack([row[2][name] for row in rows]) for name in rows[0][2]}
    for name in names:
        pool.labels[name] = np.array([getattr(row[1], name) for row in rows])
    return pool


def portraits(rank: int, n: int) -> Pool:
    """n single creatures."""
    rows = []
    for i in range(n):
        stream = Stream("train", "portrait", rank, i)
        who = world.creature(stream)
        canvas = world.portrait(who, stream, DRAWN, PLAIN)
        rows.append((shrunk(world.finished(canvas, stream)), who, _patches(canvas.parts, [who], True)))
    return _collect("portrait", 3, rows, ("klass", "genus", "species", "colour", "shape", "size", "texture", "legs"))


def _scene(placed: list[world.Placed], stream: Stream) -> tuple[NDArray[np.uint8], dict[str, NDArray[np.uint8]]]:
    canvas = world.scene(placed, stream.below(3), DRAWN, PLAIN)
    return shrunk(world.finished(canvas, stream)), _patches(canvas.parts, [one.who for one in placed], False)


def crowds(rank: int, n: int) -> Pool:
    """n scenes of 1 to 5 creatures."""
    rows = []
    for i in range(n):
        stream = Stream("train", "crowd", rank, i)
        placed = world.crowd(stream, 1 + i % 5, PLAIN)
        pixels, patches = _scene(placed, stream)
        rows.append((pixels, placed, patches))
    pool = _collect("crowd", 1, rows)
    pool.labels["count"] = np.array([len(placed) - 1 for placed in pool.shows])
    return pool


def couples(rank: int, n: int) -> Pool:
    """n scenes of two creatures; `shows` is (placed, right, below, nearer), seen from the second."""
    rows = []
    for i in range(n):
        stream = Stream("train", "couple", rank, i)
        flags = [bool(stream.below(2)) for _ in range(3)]
        placed = world.couple(stream, *flags, PLAIN)
        pixels, patches = _scene(placed, stream)
        rows.append((pixels, (placed, *flags), patches))
    return _collect("couple", 1, rows)


def walks(rank: int, n: int) -> Pool:
    """n clips of 4 frames, one after another (frame f of clip i is picture 4 i + f); `shows` is (direction, placed)."""
    rows = []
    for i in range(n):
        stream = Stream("train", "walk", rank, i)
        direction = tuple(world.DIRECTIONS)[i % 4]
        background = stream.below(3)
        for placed in world.walk(stream, direction, 4, PLAIN):
            canvas = world.scene([placed], background, DRAWN, PLAIN)
            patches = _patches(canvas.parts, [placed.who], False)
            rows.append((shrunk(world.finished(canvas, stream)), (direction, placed), patches))
    return _collect("walk", 1, rows)


def digits(rank: int, n: int) -> Pool:
    """n views of the digits of the train split, each shifted, stretched and with other contrast."""
    images, labels = digits_chart.split("train")
    rows, values = [], []
    for i in range(n):
        stream = Stream("train", "digit", rank, i)
        pick = stream.below(len(images))
        grey = digits_chart.enlarged(images[pick], DRAWN)[:, :, None].repeat(3, 2)
        if i % 8:
            across, down = stream.between(78, 112), stream.between(78, 112)
            turn = stream.between(-14, 14)
            view = Image.fromarray(grey).rotate(turn, Image.Resampling.BILINEAR)
            wide, high = DRAWN * across // 100, DRAWN * down // 100
            page = Image.new("RGB", (DRAWN, DRAWN))
            at = ((DRAWN - wide) // 2 + stream.between(-7, 7), (DRAWN - high) // 2 + stream.between(-7, 7))
            page.paste(view.resize((wide, high), Image.Resampling.BILINEAR), at)
            grey = np.asarray(page)
        rows.append((shrunk(np.ascontiguousarray(grey)), int(labels[pick]), {}))
        values.append(int(labels[pick]))
    pool = _collect(DIGIT, 2, rows)
    pool.labels["digit"] = np.array(values)
    return pool
