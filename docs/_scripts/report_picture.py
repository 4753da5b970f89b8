"""Take the picture of a report that the README shows.

Usage: python docs/_scripts/report_picture.py results/demo/report.html
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent.parent / "images" / "report.png"


def take(report: Path, out: Path) -> None:
    """Write a PNG of the report's first screen."""
    system = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.wait_for_timeout(1500)
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    take(Path(sys.argv[1]), PICTURE)
