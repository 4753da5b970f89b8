"""Tiles: together they are the image, pixel for pixel, and a table shows them behind it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.errors import SnellenError, UsageError
from snellen.media.decode import open_image
from snellen.media.encode import compress
from snellen.media.tiles import grid, with_tiles
from snellen.runs.costs import image_size
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, MediaSettings, Prompt, Text


def tiles_of(name, pixels, columns, rows):
    image = Image(BytesBlob(name, compress(pixels, "png", 100)))
    return [
        part.blob for part in with_tiles(Prompt((image, Text("?"))), columns, rows).parts if isinstance(part, Image)
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 40), st.integers(4, 40), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_tiles_laid_side_by_side_are_the_image(width, height, columns, rows, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    whole, *tiles = tiles_of("x.png", pixels, columns, rows)
    shown = [np.asarray(open_image(Image(tile), MediaSettings())) for tile in tiles]
    bands = [np.hstack(shown[row * columns : (row + 1) * columns]) for row in range(rows)]
    assert np.array_equal(np.vstack(bands), pixels)
    assert [image_size(Image(tile))[0] for tile in tiles] == [(part.shape[1], part.shape[0]) for part in shown]
    assert len({tile.key for tile in (whole, *tiles)}) == columns * rows + 1


@pytest.mark.parametrize("text", ["", "2", "1x1", "0x3", "9x9", "2 x 2", "-1x2", "2x2x2"])
def test_another_grid_is_refused(text):
    with pytest.raises(UsageError, match="COLUMNSxROWS"):
        grid(text)


def test_an_image_of_fewer_pixels_than_tiles_is_named():
    _, first, *_, last = tiles_of("dot.png", np.zeros((1, 1, 3), np.uint8), 2, 2)
    assert last.read()
    with pytest.raises(SnellenError, match=r"dot\.png, tile 1 of 2x2: the image has 1 x 1 pixels"):
        first.read()


def test_a_table_shows_each_image_and_its_tiles_behind_it(tmp_path):
    for name in ("a.png", "b.png"):
        pillow.effect_noise((64, 48), 90).convert("RGB").save(tmp_path / name)
    (tmp_path / "q.csv").write_text(
        "image,question,answer\na.png,What is it?,noise\nb.png,And this?,noise\na.png,See <image>?,noise\n"
    )
    benchmark = find(str(tmp_path / "q.csv"))
    samples = list(benchmark.samples(Data(options={"tiles": "2x2"})))
    assert [type(part) for part in samples[0].prompt.parts] == [Image] * 5 + [Text]
    assert samples[0].prompt.parts[0].blob.key.endswith("a.png")
    assert open_image(samples[1].prompt.parts[4], MediaSettings()).size == (32, 24)
    assert samples[0].group == samples[2].group != samples[1].group, "clusters are images, not tiles"
    assert sum(type(part) is Image for part in samples[2].prompt.parts) == 5


def test_each_of_several_images_has_its_tiles_behind_it_at_its_mark(tmp_path):
    for name in ("a.png", "b.png"):
        pillow.effect_noise((64, 48), 90).convert("RGB").save(tmp_path / name)
    (tmp_path / "q.csv").write_text("image,image_2,question,answer\na.png,b.png,Is <image> as <image>?,no\n")
    (sample,) = find(str(tmp_path / "q.csv")).samples(Data(options={"tiles": "2x1"}))
    shown = [part.text if isinstance(part, Text) else part.blob.key.rpartition("/")[2] for part in sample.prompt.parts]
    assert shown[1:4] == ["a.png", "a.png, tile 1 of 2x1", "a.png, tile 2 of 2x1"]
    assert shown[5:8] == ["b.png", "b.png, tile 1 of 2x1", "b.png, tile 2 of 2x1"]
