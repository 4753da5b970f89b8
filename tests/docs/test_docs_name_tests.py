"""Every test that a page names exists, so that a page proves what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TESTS = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))}
NAMES = {name for text in TESTS.values() for name in re.findall(r"^\s*(?:async )?def (test_\w+)", text, re.M)}
NAMED = re.compile(r"`(?P<file>tests/[\w/.-]+\.py)?(?:::)?(?P<name>test_\w+)?(?:\[[^`]*\])?`")
PROOFS = "security.md"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def named(page: Path) -> list[tuple[str, str]]:
    """(file, test) of each test that a page names; `::test_x` belongs to the file named before it in its paragraph."""
    pairs: list[tuple[str, str]] = []
    for paragraph in re.split(r"\n(?:\n|(?=- ))", page.read_text(encoding="utf-8")):
        file = ""
        for hit in NAMED.finditer(paragraph):
            if not (hit["file"] or hit["name"]):
                continue
            file = hit["file"] or file
            pairs.append((file if hit["file"] or "::" in hit[0] else "", hit["name"] or ""))
    return pairs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page):
    listed = page.name == PROOFS  # elsewhere a name without a file may be that of a table, such as `test_debiased`
    for file, name in named(page):
        assert not file or (ROOT / file).is_file(), f"{page.name}: there is no {file}"
        if name and file.endswith(".py") and Path(file).name.startswith("test_"):
            assert re.search(rf"^\s*(?:async )?def {name}\b", TESTS[ROOT / file], re.M), f"{page.name}: {file}::{name}"
        elif name and listed:
            assert name in NAMES or any(path.stem == name for path in TESTS), f"{page.name}: {name}"


def test_the_page_of_proofs_names_tests():
    assert len([name for _, name in named(ROOT / "docs" / PROOFS) if name]) > 20
