"""Take the screenshot of a report that the README shows.

Usage: python docs/_scripts/report_picture.py results/demo/report.html
"""

from __future__ import annotations

import shutil
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

SCREENSHOT = Path(__file__).parent.parent / "images" / "report.png"


def take_screenshot(report: Path, out: Path) -> None:
    """Write a PNG of the report: its head, and below it the first answers of the gallery."""
    system = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.wait_for_timeout(1500)
        head = Image.open(BytesIO(page.screenshot(clip={"x": 0, "y": 0, "width": 1180, "height": 500})))
        page.locator("#gallery").scroll_into_view_if_needed()
        page.evaluate("document.querySelector('#gallery').scrollIntoView()")
        page.wait_for_timeout(1000)
        answers = Image.open(BytesIO(page.screenshot(clip={"x": 0, "y": 0, "width": 1180, "height": 900})))
        browser.close()
    screenshot = Image.new("RGB", (1180, head.height + answers.height), "white")
    screenshot.paste(head, (0, 0))
    screenshot.paste(answers, (0, head.height))
    screenshot.quantize(128).save(out, optimize=True)


if __name__ == "__main__":
    SCREENSHOT.parent.mkdir(exist_ok=True)
    take_screenshot(Path(sys.argv[1]), SCREENSHOT)
