"""Corrupted pictures: what each pixel becomes, and that it becomes the same again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from hashlib import sha256
from io import BytesIO
from math import exp

import msgspec
import numpy as np
import pytest
from clips import clip
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.cli.options import MediaOptions
from snellen.engine.fingerprint import digest
from snellen.errors import UsageError
from snellen.media import MediaCache, check_settings, corruptions, encode, frames, images_unchanged, open_image
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Video


def png(pixels: np.ndarray) -> bytes:
    out = BytesIO()
    pillow.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def noise(height: int = 60, width: int = 90, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def image(data: bytes) -> Image:
    return Image(BytesBlob("birds/7", data))


def seen(data: bytes, spec: str, **others: object) -> np.ndarray:
    return np.asarray(open_image(image(data), check_settings(MediaSettings(corrupt=spec, **others))))


def test_the_sigma_of_a_blur_follows_from_its_kernel_by_the_rule_of_opencv():
    for size, sigma in ((3, 0.8), (5, 1.1)):
        half = size // 2
        bell = np.array([exp(-(x * x) / (2 * sigma * sigma)) for x in range(-half, half + 1)])
        np.testing.assert_allclose(
            np.array(corruptions.kernel(size)) / corruptions.UNIT, bell / bell.sum(), atol=1 / 4096
        )
        assert sum(corruptions.kernel(size)) == corruptions.UNIT


@pytest.mark.parametrize("size", [3, 5, 9])
@pytest.mark.parametrize("shape", [(40, 33), (2, 7), (1, 1), (7, 1)])
def test_a_blur_is_the_weighted_mean_with_mirrored_borders(size, shape):
    pixels = noise(*shape)
    weights = np.array(corruptions.kernel(size)) / corruptions.UNIT
    half = size // 2
    wide = np.pad(pixels.astype(float), ((half, half), (half, half), (0, 0)), mode="reflect")
    expected = np.zeros(pixels.shape)
    for y in range(size):
        for x in range(size):
            expected += weights[y] * weights[x] * wide[y : y + shape[0], x : x + shape[1]]
    assert np.abs(seen(png(pixels), f"blur:{size}") - expected).max() <= 0.5 + 1e-9


def test_a_picture_that_is_blurred_in_bands_has_no_seams(monkeypatch):
    data = png(noise())
    whole = seen(data, "blur:5")
    monkeypatch.setattr(corruptions, "BAND", 90 * 7)
    assert (seen(data, "blur:5") == whole).all()


def test_a_blur_leaves_a_flat_picture_alone_and_one_pixel_is_the_picture_itself():
    flat = png(np.full((20, 20, 3), 255, dtype=np.uint8))
    assert (seen(flat, "blur:5") == 255).all()
    data = png(noise())
    assert (seen(data, "blur:1") == noise()).all()
    sent = encode(image(data).blob, MediaSettings(corrupt="blur:1"))
    assert (sent.data, sent.changed) == (data, "")


@pytest.mark.parametrize("per_cent", [5, 10, 15])
def test_specks_are_as_many_as_asked_for_and_half_of_them_white(per_cent):
    pixels = np.full((400, 500, 3), 128, dtype=np.uint8)
    after = seen(png(pixels), f"salt-pepper:{per_cent}")
    white, black = ((after == value).all(axis=2).mean() for value in (255, 0))
    assert abs(white + black - per_cent / 100) < 0.003
    assert abs(white - black) < 0.003
    assert ((after == 128).all(axis=2) | (after == 255).all(axis=2) | (after == 0).all(axis=2)).all()


def test_specks_lie_all_over_the_picture_and_stay_where_they_are_as_they_grow_more():
    data = png(np.full((300, 300, 3), 128, dtype=np.uint8))
    few, many = (seen(data, f"salt-pepper:{p}") for p in (5, 15))
    hit = few[..., 0] != 128
    assert (many[hit] == few[hit]).all() and (many != 128).sum() > 2 * (few != 128).sum()
    rows, columns = hit.mean(axis=1), hit.mean(axis=0)
    assert rows.min() > 0 and columns.min() > 0 and rows.max() < 0.15 and columns.max() < 0.15
    assert (seen(data, "salt-pepper:100") != 128).all()


def test_another_picture_has_its_specks_elsewhere():
    one = np.full((100, 100, 3), 128, dtype=np.uint8)
    other = one.copy()
    other[0, 0] = 127
    assert ((seen(png(one), "salt-pepper:10") != 128) != (seen(png(other), "salt-pepper:10") != 128)).mean() > 0.1


def test_grey_is_the_luminance_of_the_whole_picture():
    pixels = noise()
    after = seen(png(pixels), "grey")
    expected = pixels @ np.array([0.299, 0.587, 0.114])
    assert np.abs(after - expected[..., None]).max() < 1
    assert (after[..., 0] == after[..., 1]).all() and (after[..., 1] == after[..., 2]).all()


def test_jitter_changes_colours_by_one_map_that_keeps_grey_grey():
    pixels = noise() // 4 + 96  # far from both ends, so that nothing is clipped
    pixels[:10] = np.arange(96, 160)[:10, None, None]
    after = seen(png(pixels), "jitter:0.3").astype(float)
    assert np.abs(after[:10] - after[:10, :, :1]).max() == 0
    assert np.abs(after - pixels).mean() > 3
    known = np.c_[pixels.reshape(-1, 3), np.ones(pixels.size // 3)]
    fit, *_ = np.linalg.lstsq(known, after.reshape(-1, 3), rcond=None)
    assert np.abs(known @ fit - after.reshape(-1, 3)).max() < 0.6


def test_jitter_differs_from_picture_to_picture_within_its_strength():
    grey = [np.full((8, 8, 3), 100, dtype=np.uint8) for _ in range(200)]
    for i, one in enumerate(grey):
        one[0, 0] = i % 256, 255 - i, 100  # a file of its own
    gains = np.array([seen(png(one), "jitter:0.2")[5, 5, 0] / 100 for one in grey])
    assert gains.min() > 0.78 and gains.max() < 1.22 and gains.std() > 0.05


def test_a_picture_is_corrupted_the_same_way_in_every_process():
    data = png(noise(30, 40))
    spec = "jitter:0.4,salt-pepper:10,blur:3"
    here = sha256(seen(data, spec).tobytes()).hexdigest()
    code = (
        "import sys; from hashlib import sha256; from snellen.media import open_image\n"
        "from snellen.sources import BytesBlob; from snellen.types import Image, MediaSettings\n"
        f"blob = BytesBlob('elsewhere', bytes.fromhex({data.hex()!r}))\n"
        f"print(sha256(open_image(Image(blob), MediaSettings(corrupt={spec!r})).tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here


def test_the_specks_of_a_known_file_are_where_they_always_were():
    drawn = corruptions.corrupted(pillow.new("RGB", (64, 64), (128, 128, 128)), "salt-pepper:1", b"a seed")
    hit = np.argwhere(np.asarray(drawn)[..., 0] != 128).tolist()
    assert len(hit) == 35
    assert hit[:8] == [[2, 19], [8, 45], [8, 55], [11, 6], [11, 18], [11, 20], [11, 41], [13, 29]]


def test_operations_are_done_in_the_order_in_which_they_are_given():
    data = png(noise())
    one, other = seen(data, "salt-pepper:10,blur:3"), seen(data, "blur:3,salt-pepper:10")
    assert (one != other).any()
    expected = corruptions.corrupted(pillow.fromarray(seen(data, "salt-pepper:10")), "blur:3", b"")
    assert (one == np.asarray(expected)).all()


def test_a_picture_is_corrupted_at_its_own_size_and_fitted_afterwards():
    pixels = noise(200, 200)
    after = seen(png(pixels), "grey,blur:5", max_long_side=50)
    before = pillow.fromarray(seen(png(pixels), "grey,blur:5")).resize((50, 50), pillow.Resampling.BICUBIC)
    assert (after == np.asarray(before)).all()


@given(st.integers(1, 90), st.integers(1, 90), st.sampled_from([1.5, 2, 4, 8, 16]))
def test_resolution_is_divided_for_each_picture(width, height, factor):
    data = png(noise(height, width))
    smaller = seen(data, f"downscale:{factor}")
    assert smaller.shape[:2] == tuple(max(1, int(length / factor + 0.5)) for length in (height, width))
    both = seen(data, f"downscale:{factor}", max_long_side=5)
    assert both.shape[:2] == seen(png(smaller), "", max_long_side=5).shape[:2], "a limit never enlarges what was shrunk"


@given(height=st.integers(1, 40), width=st.integers(1, 40), side=st.integers(2, 8), seed=st.integers(0, 9))
def test_shuffled_patches_are_a_permutation_and_the_rest_of_the_picture_stays(height, width, side, seed):
    pixels = noise(height, width, seed)
    after = seen(png(pixels), f"patch-shuffle:{side}")
    high, wide = height // side, width // side
    if not high or not wide:
        np.testing.assert_array_equal(after, pixels)
        return

    def patches(whole: np.ndarray) -> list[bytes]:
        return [
            whole[row * high : (row + 1) * high, column * wide : (column + 1) * wide].tobytes()
            for row in range(side)
            for column in range(side)
        ]

    assert sorted(patches(after)) == sorted(patches(pixels))
    np.testing.assert_array_equal(after[high * side :], pixels[high * side :])
    np.testing.assert_array_equal(after[:, wide * side :], pixels[:, wide * side :])


def test_patches_move_the_same_way_each_time_and_otherwise_in_another_picture():
    first, other = noise(64, 64), noise(64, 64, 1)
    moved = seen(png(first), "patch-shuffle:8")
    assert not np.array_equal(moved, first)
    np.testing.assert_array_equal(moved, seen(png(first), "patch-shuffle:8"))
    places = [
        {first[y : y + 8, x : x + 8].tobytes(): (y, x) for y in range(0, 64, 8) for x in range(0, 64, 8)}
        for first in (first, other)
    ]
    orders = [
        [place[each[y : y + 8, x : x + 8].tobytes()] for y in range(0, 64, 8) for x in range(0, 64, 8)]
        for place, each in zip(places, (moved, seen(png(other), "patch-shuffle:8")), strict=True)
    ]
    assert orders[0] != orders[1]


def test_what_an_endpoint_is_sent_is_what_a_local_model_sees():
    data = png(noise())
    settings = MediaSettings(corrupt="jitter:0.5,salt-pepper:5")
    sent = MediaCache(settings).get(image(data))
    assert asyncio.run(MediaCache(settings).fetch(image(data))) == sent
    assert not images_unchanged(settings)  # else an endpoint would be sent the address of the original
    assert sent.changed == "corrupted: jitter:0.5,salt-pepper:5"
    assert (np.asarray(pillow.open(BytesIO(sent.data))) == seen(data, settings.corrupt)).all()


@pytest.mark.parametrize("settings_given", [{"frames": 4}, {"fps": 3.0}])
def test_frames_of_a_video_are_corrupted_once_and_each_in_its_own_way(settings_given):
    video = Video(BytesBlob("clips/1.mp4", clip(12, rate=3)))
    plain = MediaSettings(format="png", **settings_given)
    settings = MediaSettings(format="png", corrupt="salt-pepper:10", **settings_given)
    cache = MediaCache(settings)
    before = [np.asarray(open_image(one, plain)).astype(int) for one in frames(video, plain)]
    shown = cache.frames(video)
    after = [np.asarray(open_image(one, cache.settings)).astype(int) for one in shown]
    hits = [(np.abs(a - b).max(axis=2) > 0) for a, b in zip(after, before, strict=True)]
    assert len(hits) == len(before) >= 4
    assert all(0.07 < hit.mean() < 0.13 for hit in hits[1:])  # the first is black, and half of its specks too
    assert (hits[1] != hits[2]).mean() > 0.1
    # Neither the encoder nor a local model corrupts a frame a second time.
    for one, pixels in zip(shown, after, strict=True):
        assert (np.asarray(pillow.open(BytesIO(cache.get(one).data))) == pixels).all()


@pytest.mark.parametrize(
    "spec",
    [
        "blur",
        "blur:2",
        "blur:0",
        "blur:33",
        "salt-pepper:0",
        "salt-pepper:101",
        "jitter:nan",
        "grey:1",
        "haze",
        ",",
        "downscale:1",
        "downscale:65",
        "downscale",
        "patch-shuffle:1",
        "patch-shuffle:2.5",
    ],
)
def test_what_is_not_a_corruption_is_refused_with_what_there_is(spec):
    with pytest.raises(UsageError) as refused:
        check_settings(MediaSettings(corrupt=spec))
    assert f"--corrupt {spec.split(',')[0] or '(nothing)'}" in str(refused.value)
    assert "grey" in refused.value.hint


def test_corrupting_excludes_grey_pictures_and_whole_files():
    with pytest.raises(UsageError, match="--blank-images exclude"):
        check_settings(MediaSettings(corrupt="grey", blank=True))
    with pytest.raises(UsageError, match="--corrupt would change it"):
        check_settings(MediaSettings(corrupt="grey", video="native"))


def test_the_setting_is_part_of_the_fingerprint_in_one_spelling():
    assert msgspec.to_builtins(MediaSettings()) == {}
    spelled = [MediaOptions(corrupt=operations).settings() for operations in (["blur: 3.0", "grey"], ["blur:3,grey"])]
    assert spelled[0] == spelled[1] == MediaSettings(corrupt="blur:3,grey")
    assert digest({"media": spelled[0]}) != digest({"media": MediaSettings(corrupt="grey,blur:3")})


def test_a_photograph_is_turned_upright_before_it_is_corrupted():
    upright = np.full((40, 60, 3), 128, dtype=np.uint8)
    out = BytesIO()
    exif = pillow.Exif()
    exif[0x0112] = 6
    pillow.fromarray(upright).save(out, "JPEG", exif=exif, quality=95)
    turned = seen(out.getvalue(), "salt-pepper:10")
    assert turned.shape == (60, 40, 3)
    expected = corruptions.corrupted(
        pillow.new("RGB", (40, 60), (128, 128, 128)), "salt-pepper:10", corruptions.content(out.getvalue())
    )
    assert (turned == np.asarray(expected)).all()
