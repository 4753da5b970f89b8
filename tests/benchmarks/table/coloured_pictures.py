"""Pictures of one colour each, told apart by their digests, in a folder that is the working folder."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image as Picture

from servers.oracle import digest

COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")


def picture(colour: str) -> bytes:
    """Return a PNG of 20 x 20 pixels."""
    content = io.BytesIO()
    Picture.new("RGB", (20, 20), colour).save(content, "PNG")
    return content.getvalue()


IMAGES = {colour: picture(colour) for colour in COLOURS}
NAMES = {digest(image): colour for colour, image in IMAGES.items()}


def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty data folder and enter it; caches lie beside it."""
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "data"
    place.mkdir()
    monkeypatch.chdir(place)
    return place
