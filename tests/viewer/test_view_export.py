"""The static export: whole from file://, relative links, shared images, and nothing of this machine or of restricted gold."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser_checks import check_page, check_width, every_shape, opened
from hostile_runs import write_hostile_root

from snellen.errors import UsageError
from snellen.runs.evaluate import evaluate
from snellen.viewer.export import MARKER, export_site
from snellen.viewer.site import ViewSettings

KEY = "sk-proj-" + "a1B2" * 10
ADDRESS = re.compile(r"""(?:href|src|action|formaction)\s*=\s*["']([^"']*)["']""")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Export two runs of the same samples, one of them named like an attack, and a damaged one with a key in it."""
    place = tmp_path_factory.mktemp("export")
    root = place / "results"
    evaluate("chart", model="embedded", limit=12, out=root / "one")
    evaluate("chart", model="embedded", limit=12, out=root / "nested" / "two & <b>")
    (root / "torn").mkdir()
    (root / "torn" / "run_meta.json").write_text(f'{{"format": "{KEY}", "x": "{place}"')
    export_site(ViewSettings(root), place / "site")
    return place / "site"


def pages(site: Path) -> list[Path]:
    return sorted(site.glob("*.html"))


def test_every_link_is_relative_and_leads_to_a_file_of_the_export(site):
    inside = {str(path.relative_to(site)) for path in site.rglob("*")}
    assert len(pages(site)) > 12
    for page in pages(site):
        for link in ADDRESS.findall(page.read_text("utf-8")):
            if link.startswith(("data:", "#")) or not link:
                continue
            parts = urlsplit(link)
            assert not parts.scheme and not parts.netloc and not link.startswith("/"), (page.name, link)
            assert unquote(parts.path) in inside, (page.name, link)


def test_no_file_holds_a_key_or_a_place_of_this_machine(site):
    for path in site.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert KEY.encode() not in data
            assert str(site.parent).encode() not in data and str(Path.home()).encode() + b"/" not in data, path.name


def test_equal_images_are_written_once(site):
    images = [path.read_bytes() for path in site.rglob("*") if path.suffix in (".png", ".jpg", ".webp", ".gif")]
    assert images and len(images) == len(set(images))
    cases = [page.read_text("utf-8") for page in site.glob("case-*.html")]
    assert len(cases) >= 12 and all("<img" in case for case in cases)


def test_every_page_has_a_policy_that_allows_no_request_and_no_form(site):
    for page in pages(site):
        text = page.read_text("utf-8")
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
        assert "default-src &#39;none&#39;" in policy and "unsafe" not in policy and "http" not in policy
        assert "<script>" not in text and "onclick" not in text


@pytest.mark.browser
@every_shape
def test_pages_of_each_kind_open_from_file_addresses_quietly(browser, site, width, theme):
    kinds = {page.name.partition("-")[0].partition(".")[0]: page for page in pages(site)}
    assert {"index", "case", "samples", "matrix", "compare"} <= kinds.keys()
    for page in kinds.values():
        with opened(browser, page.as_uri(), width=width, theme=theme) as tab:
            check_width(tab)
            broken = tab.evaluate("[...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)")
            assert broken == []


@pytest.mark.browser
def test_rows_of_an_export_are_sorted_and_searched_by_the_page_itself(browser, site):
    with opened(browser, (site / "index.html").as_uri()) as page:
        rows = page.locator("table.runs").first.locator("tbody tr:visible th")
        names = rows.all_inner_texts()
        page.locator("button[data-sort=run]").first.click()
        ascending = rows.all_inner_texts()
        page.locator("button[data-sort=run]").first.click()
        assert rows.all_inner_texts() == ascending[::-1] and sorted(names) == sorted(ascending)
        page.keyboard.press("/")
        page.keyboard.type("nested")
        assert len(rows.all_inner_texts()) == 1
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"samples"))
        check_page(page)


@pytest.mark.browser
def test_the_export_of_a_hostile_folder_runs_nothing(browser, tmp_path):
    root = tmp_path / "results"
    root.mkdir()
    write_hostile_root(root)
    export_site(ViewSettings(root), tmp_path / "site")
    kinds = {page.name.partition("-")[0].partition(".")[0]: page for page in pages(tmp_path / "site")}
    for page in kinds.values():
        with opened(browser, page.as_uri()) as tab:
            assert tab.locator("script:not([src^='assets/']):not([type='application/json'])").count() == 0


def test_a_folder_with_other_files_is_left_alone(site, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        export_site(ViewSettings(site.parent / "results"), tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"
    with pytest.raises(UsageError, match="not a folder"):
        export_site(ViewSettings(site.parent / "results"), tmp_path / "thesis.tex")


def test_an_earlier_export_is_replaced_as_a_whole(tmp_path):
    root, out = tmp_path / "results", tmp_path / "site"
    root.mkdir()
    export_site(ViewSettings(root), out)
    (out / "stale.html").write_text("old")
    export_site(ViewSettings(root), out)
    assert (out / MARKER).exists() and not (out / "stale.html").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".site")] == []


def test_gold_of_restricted_sets_is_never_exported(tmp_path):
    with pytest.raises(UsageError, match="no gold answers"):
        export_site(ViewSettings(tmp_path, show_gold=True), tmp_path / "site")
