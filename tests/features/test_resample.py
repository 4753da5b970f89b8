"""The resize of pictures that shrink, against Pillow's own and against sums in exact whole numbers."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.features.extract.preprocess import (
    PRECISION,
    TIE,
    Transform,
    build_axis,
    coefficients,
    decode,
    normalise,
    normalise_into,
    read_pixels,
    resample_image,
    resize_and_crop,
    rows_first,
)
from snellen.sources import BytesBlob

torch = pytest.importorskip("torch")

FILTERS = st.sampled_from(["bilinear", "bicubic"])


def picture(seed: int, height: int, width: int, kind: str) -> np.ndarray:
    """Noise, hard black and white (sums fall under 0 and over 255), or columns alike in every row: uint8 [h, w, 3]."""
    rng = np.random.default_rng(seed)
    if kind == "noise":
        return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if kind == "hard":
        return 255 * rng.integers(0, 2, (height, width, 3), dtype=np.uint8)
    return np.repeat(rng.integers(0, 256, (1, width, 3), dtype=np.uint8), height, axis=0)


def pillows(pixels: np.ndarray, height: int, width: int, interpolation: str) -> np.ndarray:
    small = pillow.fromarray(pixels).resize((width, height), pillow.Resampling[interpolation.upper()])
    return np.asarray(small).transpose(2, 0, 1).astype(int)


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 99),
    st.tuples(st.integers(1, 400), st.integers(1, 400)),
    st.tuples(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1)),
    FILTERS,
    st.sampled_from(["noise", "hard", "columns"]),
)
@example(0, (375, 500), (256 / 375, 341 / 500, 0.1, 0.2), "bicubic", "columns")
@example(1, (400, 400), (1, 0.997, 0, 0), "bicubic", "hard")
@example(2, (1, 400), (1, 0.01, 0, 0), "bilinear", "noise")
def test_any_part_of_any_smaller_picture_is_pillows_to_one_level(seed, size, shares, interpolation, kind):
    pixels = picture(seed, *size, kind)
    height, width = (max(1, int(side * share)) for side, share in zip(size, shares, strict=False))
    assume(rows_first(*size, height, width))
    top, left = int(shares[2] * (height - 1)), int(shares[3] * (width - 1))
    box = (top, left, height - top, width - left)
    theirs = pillows(pixels, height, width, interpolation)[:, top:, left:]
    ours = resample_image(pixels, height, width, interpolation, box)
    assert (ours.shape, ours.dtype) == (theirs.shape, np.uint8)
    assert np.abs(ours - theirs).max() <= 1


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 99), *[st.integers(2, 120)] * 4, FILTERS)
@example(0, 172, 6, 86, 3, "bicubic")
@example(0, 100, 60, 60, 40, "bicubic")
@example(0, 101, 60, 60, 40, "bicubic")
def test_the_way_of_a_picture_to_any_size_ends_within_one_level_of_pillow(
    seed, rows, columns, high, wide, interpolation
):
    pixels = picture(seed, rows, columns, "noise")
    transform = Transform((high, wide), interpolation, None, (0.5,) * 3, (0.5,) * 3)
    assert np.abs(resize_and_crop(pixels, transform).numpy() - pillows(pixels, high, wide, interpolation)).max() <= 1


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("kind", ["noise", "hard", "columns"])
def test_hardly_a_value_differs_at_all(interpolation, kind):
    pixels = picture(3, 375, 500, kind)
    theirs = pillows(pixels, 256, 341, interpolation)
    differ = resample_image(pixels, 256, 341, interpolation, (0, 0, 256, 341)) != theirs
    assert differ.mean() < 0.005


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 3000), st.floats(0.005, 1), FILTERS)
def test_weights_add_up_to_one_and_their_sizes_to_less_than_the_proof_allows(length, share, interpolation):
    weights, begins = coefficients(length, max(1, int(length * share)), interpolation)
    # Each of them is rounded to half a unit.
    assert np.abs(weights.sum(axis=1) - PRECISION).max() <= (weights.shape[1] + 1) / 2
    assert np.abs(weights).sum(axis=1).max() < 1.3 * PRECISION
    assert (begins >= 0).all()
    assert (begins < length).all()


@pytest.mark.parametrize("length", [500, 4000])
def test_float32_is_nearer_to_the_exact_sums_than_half_of_what_counts_as_a_tie(length):
    rng = np.random.default_rng(5)
    weights, begins = coefficients(length, 341, "bicubic")
    taps = weights.shape[1]
    line = np.concatenate([rng.integers(0, 256, length), np.zeros(taps, dtype=int)])
    exact = np.array([weights[at] @ line[begin : begin + taps] for at, begin in enumerate(begins)]) / PRECISION
    whole = build_axis(length, 341, "bicubic", 0, 341)
    ours = np.concatenate([line[begin : begin + len(band)].astype(np.float32) @ band for _, begin, band in whole.bands])
    assert whole.tie == TIE * taps
    assert np.abs(ours - exact).max() < whole.tie / 2


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]),
    st.booleans(),
    st.sampled_from([30, 75, 95, 100]),
)
def test_jpegs_are_decoded_as_pillow_decodes_them_bit_by_bit(height, width, sampling, progressive, quality):
    out = BytesIO()
    pixels = picture(height, height, width, "noise")
    pillow.fromarray(pixels).save(out, "JPEG", quality=quality, subsampling=sampling, progressive=progressive)
    theirs = np.asarray(pillow.open(BytesIO(out.getvalue())).convert("RGB"))
    assert np.array_equal(decode(BytesBlob("a", out.getvalue())), theirs)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(20, 300),
    st.integers(20, 300),
    st.sampled_from(["bilinear", "bicubic", "lanczos", "box"]),
    st.sampled_from([(48,), (64, 56), (30,)]),
    st.sampled_from(["down", "even"]),
)
def test_from_the_file_to_the_crop_pixels_are_pillows_to_one_level(height, width, interpolation, resize, middle):
    out = BytesIO()
    pillow.fromarray(picture(width, height, width, "hard")).save(out, "JPEG", quality=90)
    transform = Transform(resize, interpolation, (29, 28), (0.5,) * 3, (0.5,) * 3, middle)
    side = resize[0]
    size = (side, int(side * height / width)) if width <= height else (int(side * width / height), side)
    size = (resize[1], resize[0]) if len(resize) == 2 else size
    small = pillow.open(BytesIO(out.getvalue())).convert("RGB").resize(size, pillow.Resampling[interpolation.upper()])
    free = size[0] - 28, size[1] - 29
    left, top = (one // 2 if middle == "down" else round(one / 2) for one in free)
    theirs = np.asarray(small.crop((left, top, left + 28, top + 29))).transpose(2, 0, 1).astype(int)
    ours = read_pixels(BytesBlob("a", out.getvalue()), transform).numpy().astype(int)
    assert np.abs(ours - theirs).max() <= 1


def test_a_picture_of_the_right_size_is_only_cut():
    pixels = picture(1, 40, 50, "noise")
    transform = Transform((40, 50), "bicubic", (20, 30), (0.5,) * 3, (0.5,) * 3)
    assert np.array_equal(resize_and_crop(pixels, transform).numpy(), pixels[10:30, 10:40].transpose(2, 0, 1))


def test_normalising_into_a_batch_gives_the_values_of_normalising_a_batch():
    transform = Transform((4, 5), "bicubic", None, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 3, 4, 5), dtype=np.uint8))
    room = torch.full((8, 3, 4, 5), 7.0)
    into = normalise_into(room, list(images), transform)
    assert into.data_ptr() == room.data_ptr()
    assert torch.equal(into, normalise(images, transform))
    assert (room[3:] == 7).all()
    scaled = (images / 255 - torch.tensor(transform.mean).view(3, 1, 1)) / torch.tensor(transform.std).view(3, 1, 1)
    assert torch.allclose(into, scaled, atol=1e-5)
