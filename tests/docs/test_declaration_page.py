"""The pages of declared benchmarks say what the structures and the catalogue say."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_scripts"))

from declaration_page import (  # noqa: E402
    CATALOGUE,
    DECLARE,
    DECLARE_SETS,
    REPRODUCTIONS,
    SECTIONS,
    SET_SECTIONS,
    attributes,
    catalogue_page,
    declare_page,
    reproductions_page,
)
from msgspec import structs  # noqa: E402

from snellen.benchmarks.table.declaration import declaration  # noqa: E402

STALE = "run: python docs/_scripts/declaration_page.py"


def test_the_page_of_declarations_lists_every_key() -> None:
    sections = {
        "source",
        "cards",
        "documents",
        "rows",
        "group",
        "prompt",
        "score",
        "report",
        "figure",
        "protocol",
        "without_image",
        "lmms_eval",
        "easi",
        "results",
    }
    sections |= {"answer", "correction", "run", *SET_SECTIONS}
    for page, described in ((DECLARE, SECTIONS), (DECLARE_SETS, SET_SECTIONS)):
        text = page.read_text(encoding="utf-8")
        assert declare_page(text, described) == text, STALE
        for name, struct in described.items():
            assert text.count(f"<!-- keys: {name} -->") == 1, name
            keys = {field.name for field in structs.fields(struct)} - (sections if name == "top" else set())
            assert {key for named, _ in attributes(struct) for key in named.split(", ")} == keys, name


def test_the_example_of_the_page_is_a_declaration() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DECLARE.read_text(encoding="utf-8"), re.DOTALL)
    assert declaration(tomllib.loads(example), "birds.toml").name == "birds"


def test_the_example_of_a_set_is_a_declaration() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DECLARE_SETS.read_text(encoding="utf-8"), re.DOTALL)
    assert list(declaration(tomllib.loads(example), "turns.toml").form) == ["vlmevalkit", "lmms-eval"]


def test_the_page_of_the_catalogue_is_current() -> None:
    assert CATALOGUE.read_text(encoding="utf-8") == catalogue_page(), STALE


def test_the_page_of_reproductions_is_current() -> None:
    assert REPRODUCTIONS.read_text(encoding="utf-8") == reproductions_page(), STALE
