"""Take the picture of the acuity card that docs/acuity.md shows.

Usage: python docs/_scripts/acuity_picture.py results/acuity-embedded/report.html
"""

from __future__ import annotations

import shutil
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent.parent / "images" / "acuity-card.png"
WIDTH, HEIGHT = 1180, 800


def take_picture(report: Path, out: Path) -> None:
    """Write a PNG of the card: its lines, and the curve of the first one."""
    system = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.evaluate("document.querySelector('#acuity').scrollIntoView()")
        page.wait_for_timeout(500)
        card = Image.open(BytesIO(page.screenshot()))
        browser.close()
    card.convert("RGB").quantize(64).save(out, optimize=True)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    take_picture(Path(sys.argv[1]), PICTURE)
