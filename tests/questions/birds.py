"""A small taxonomy, rows about it, and pictures."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from PIL import Image

TAXONOMY = """order,genus,species,aliases
gulls,gull,herring gull,silvery one
gulls,gull,ivory gull,
gulls,gull,common gull,
gulls,tern,arctic tern,
gulls,tern,common tern,
songbirds,warbler,yellow warbler,
songbirds,warbler,hooded warbler,
songbirds,warbler,cape may warbler,
songbirds,warbler,palm warbler,
songbirds,warbler,prairie warbler,
songbirds,warbler,pine warbler,
songbirds,ovenbird,ovenbird,
"""
SPECIES = [line.split(",")[2] for line in TAXONOMY.splitlines()[1:]]
LEVELS = ("order", "genus", "species")


def taxonomy(folder: Path, text: str = TAXONOMY) -> str:
    """The taxonomy as a file."""
    path = folder / "taxonomy.csv"
    path.write_text(text)
    return str(path)


def rows(folder: Path, count: int = 100) -> Path:
    """Rows of image and label, the species in turn, with one image more of the first ones."""
    path = folder / "rows.csv"
    path.write_text("".join(f"val/a,b/{n}.jpg,{SPECIES[n % len(SPECIES)]}\n" for n in range(count)))
    return path


def picture(kind: str = "JPEG", *, orientation: int | None = None, text: str = "") -> bytes:
    """A picture of 12 x 8 pixels, with Exif where an orientation or a text is given."""
    image = Image.new("RGB", (12, 8), (200, 30, 30))
    image.paste((20, 20, 220), (0, 0, 6, 8))
    exif = Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    if text:
        exif[0x010E] = text
    out = BytesIO()
    image.save(out, kind, **({"exif": exif} if orientation or text else {}))
    return out.getvalue()
