"""Corruption within a mask or around it: which pixels change, which mask is whose, and what is refused."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from clips import clip
from PIL import Image as pillow

from snellen.errors import MediaError, UsageError
from snellen.media import check_settings, frames, open_image
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Video

BIRD, SKY = (200, 40, 40), (40, 60, 200)
GREY_SKY = (70, 70, 70)  # .299 * 40 + .587 * 60 + .114 * 200 = 69.98


def picture(*, turned: bool = False) -> bytes:
    """A red object, 2 x 2 pixels, on a blue picture of 6 x 4; with Exif it is stored lying on its side."""
    image = pillow.new("RGB", (6, 4), SKY)
    image.paste(BIRD, (1, 1, 3, 3))
    exif, out = pillow.Exif(), BytesIO()
    if turned:
        image = image.transpose(pillow.Transpose.ROTATE_90)
        exif[0x0112] = 6
    image.save(out, "PNG", exif=exif)
    return out.getvalue()


def mask(path: Path, light: int = 255, size: tuple[int, int] = (6, 4), box: tuple[int, ...] = (1, 1, 3, 3)) -> None:
    drawn = pillow.new("L", size, 0)
    drawn.paste(light, box)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.save(path)


def seen(folder: Path, spec: str, key: str = "cub.tgz!images/017.Cardinal/7.jpg", **more: bool) -> np.ndarray:
    settings = check_settings(MediaSettings(corrupt=spec, mask=str(folder)))
    return np.asarray(open_image(Image(BytesBlob(key, picture(**more))), settings))


def test_the_background_turns_grey_or_white_and_the_object_stays(tmp_path):
    mask(tmp_path / "7.png")
    for spec, sky in (("grey@background", GREY_SKY), ("remove@background", (255, 255, 255))):
        pixels = seen(tmp_path, spec)
        assert (pixels[1:3, 1:3] == BIRD).all()
        assert {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()} == {BIRD, sky}


def test_the_colours_of_the_object_shift_and_the_background_stays(tmp_path):
    mask(tmp_path / "7.png")
    pixels, whole = seen(tmp_path, "jitter:0.5@object"), picture()
    jittered = np.asarray(open_image(Image(BytesBlob("x", whole)), MediaSettings(corrupt="jitter:0.5")))
    assert (pixels[1:3, 1:3] == jittered[1:3, 1:3]).all() and (pixels[1, 1] != BIRD).any()
    assert (pixels[0] == SKY).all() and (pixels[:, 3:] == SKY).all()


def test_operations_with_and_without_a_region_apply_in_their_order(tmp_path):
    mask(tmp_path / "7.png")
    pixels = seen(tmp_path, "remove@object, grey, remove@background")
    assert (pixels == 255).all()
    assert (seen(tmp_path, "grey@object,grey@background") == seen(tmp_path, "grey,remove@object,grey")).all(
        axis=2
    ).sum() == 20


def test_pixels_of_128_and_more_are_the_object(tmp_path):
    mask(tmp_path / "7.png", light=128)
    assert (seen(tmp_path, "remove@background")[1:3, 1:3] == BIRD).all()
    mask(tmp_path / "7.png", light=127)
    with pytest.raises(MediaError, match=r"no pixel of its mask .* is the object"):
        seen(tmp_path, "remove@background")


def test_the_longest_end_of_an_images_path_names_its_mask(tmp_path):
    mask(tmp_path / "7.png", box=(0, 0, 6, 4))
    mask(tmp_path / "017.Cardinal/7.gif")
    assert (seen(tmp_path, "remove@object") == 255).all(axis=2).sum() == 4
    assert (seen(tmp_path, "remove@object", key="018.Catbird/7.jpg") == 255).all()


def test_a_mask_fits_the_upright_image(tmp_path):
    mask(tmp_path / "7.png")
    assert (seen(tmp_path, "remove@background", turned=True) == seen(tmp_path, "remove@background")).all()
    mask(tmp_path / "7.png", size=(4, 6))
    with pytest.raises(MediaError, match="has 4 x 6 pixels, and the upright image 6 x 4"):
        seen(tmp_path, "remove@background")


def test_an_image_without_a_mask_fails_alone_and_frames_of_videos_have_none(tmp_path):
    mask(tmp_path / "7.png")
    with pytest.raises(MediaError, match=r"there is no mask for it in --mask .*"):
        seen(tmp_path, "grey@background", key="images/8.jpg")
    settings = check_settings(MediaSettings(corrupt="grey@background", mask=str(tmp_path), frames=1))
    with pytest.raises(MediaError, match="frames of a video have no masks"):
        frames(Video(BytesBlob("v", clip(2))), settings)


@pytest.mark.parametrize(
    ("spec", "given", "complaint"),
    [
        ("grey@background", "", "need each other"),
        ("grey", "masks", "need each other"),
        ("", "masks", "need each other"),
        ("remove", "masks", "@object or @background is missing"),
        ("grey@sky", "masks", "@object or @background is missing"),
        ("downscale:8@object", "masks", "@object or @background is missing or has no place here"),
        ("downscale:2,grey@object", "masks", "Put grey@object before it"),
        ("remove:3@object", "masks", "remove accepts no number"),
    ],
)
def test_settings_that_cannot_work_are_refused(spec, given, complaint):
    with pytest.raises(UsageError) as refused:
        check_settings(MediaSettings(corrupt=spec, mask=given))
    assert complaint in f"{refused.value.message} {refused.value.hint}"
