"""The architecture page: its drawing follows from the imports, and each path that it names exists."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "snellen"
PAGE = ROOT / "docs" / "architecture.md"
CHANGES = ROOT / "docs" / "where-to-change.md"
PATH = re.compile(r"`([\w./-]+(?:\.(?:py|toml|md|txt)|/))`")
OF_A_RUN = {"traces/"}
sys.path.insert(0, str(ROOT / "scripts"))
import architecture_drawing  # noqa: E402


def test_the_drawing_is_up_to_date():
    drawn = architecture_drawing.DRAWING.read_text(encoding="utf-8")
    assert drawn == architecture_drawing.drawing(), "run: python scripts/architecture_drawing.py"


def test_every_path_of_the_pages_exists():
    paths = {path for page in (PAGE, CHANGES) for path in PATH.findall(page.read_text(encoding="utf-8"))} - OF_A_RUN
    assert len(paths) > 60
    # A bare name such as `locate.py` stands for the file of each benchmark family.
    missing = [
        path
        for path in sorted(paths)
        if not (SOURCE / path).exists()
        and not (ROOT / path).exists()
        and ("/" in path.rstrip("/") or not list((SOURCE / "benchmarks").glob(f"*/{path}")))
    ]
    assert not missing


def test_every_package_is_in_the_table():
    table = PAGE.read_text(encoding="utf-8").split("## The way of one sample")[0]
    for row in architecture_drawing.layers()[:-1]:
        for package in row:
            assert f"`{package}/`" in table


def test_the_ways_of_a_sample_and_of_a_reply_take_ten_lines_each():
    text = PAGE.read_text(encoding="utf-8")
    for heading in ("## The way of one sample", "## The way of one reply"):
        section = text.split(heading + "\n")[1].split("\n## ")[0]
        assert len(re.findall(r"^\d+\. ", section, re.M)) == 10
