"""The samples page in a real browser: rows are fetched while the reader types, the address follows, the keyboard suffices."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from browser_checks import check_page, every_shape, opened, serving
from test_view_samples import IDS, write_runs

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    from snellen.viewer.index import open_index

    root = tmp_path_factory.mktemp("results")
    write_runs(root)
    open_index(root).refresh()
    with serving(root) as url:
        yield url + "/samples?benchmark=chart%2Fdigits"


def rows(page):
    return page.locator("#samples-rows .id").all_inner_texts()


def wait_for(page, text):
    sync_api.expect(page.locator("#samples-count")).to_contain_text(text)


def query(page):
    return dict(parse_qsl(urlsplit(page.url).query))


@every_shape
def test_the_page_fits_at_every_width_in_both_themes(browser, address, width, theme):
    with opened(browser, address, width=width, theme=theme) as page:
        page.wait_for_function(  # of a function: the page's policy lets no expression be evaluated a second time
            "() => [...document.querySelectorAll('.thumb img')].slice(0, 2).every((i) => i.complete && i.naturalWidth > 0)"
        )
        check_page(page)
        assert len(rows(page)) == 12
        words = page.locator("#samples-rows .verdict .word").all_inner_texts()
        assert {"right", "wrong", "failed", "unparseable", "missing"} <= set(words)
        marks = page.evaluate(
            "[...new Set([...document.querySelectorAll('#samples-rows .verdict')]"
            ".map((v) => v.className + getComputedStyle(v, '::before').content))]"
        )
        assert len(marks) == len({mark[-2] for mark in marks}) >= 5  # each verdict has a shape of its own
        assert page.evaluate("window.owned") is None


def test_typing_a_text_fetches_its_rows_keeps_the_focus_and_is_in_the_address(browser, address):
    with opened(browser, address) as page:
        page.keyboard.press("/")
        page.keyboard.type("zebra")
        sync_api.expect(page).to_have_url(re.compile("text=zebra"))  # a part of the word may find the same sample
        wait_for(page, "1 to 1 of 1 sample (of 12)")
        assert rows(page) == [IDS[4]]
        assert page.evaluate("document.activeElement.id") == "samples-text"
        assert query(page) == {"benchmark": "chart/digits", "text": "zebra"}
        page.reload()
        assert rows(page) == [IDS[4]]
        assert page.locator("#samples-text").input_value() == "zebra"


def test_a_verdict_pattern_and_its_error_are_shown_in_place(browser, address):
    with opened(browser, address) as page:
        page.keyboard.press("v")
        page.locator("#samples-pattern").fill("A wrong and B right")
        page.keyboard.press("Enter")
        wait_for(page, "of 4 samples (of 12)")
        page.locator("#samples-pattern").fill("A wrogn")
        page.keyboard.press("Enter")
        sync_api.expect(page.get_by_role("alert")).to_contain_text("'wrogn' after 'A'")
        assert page.locator("#samples-pattern").input_value() == "A wrogn"
        page.locator("#clear-filters").click()
        wait_for(page, "1 to 12 of 12 samples")
        assert page.locator("#samples-pattern").input_value() == ""
        page.go_back()
        sync_api.expect(page.get_by_role("alert")).to_be_visible()


def test_a_facet_filters_with_one_click_and_keeps_what_was_typed(browser, address):
    with opened(browser, address) as page:
        # The rows of the new order never come: they would take the place of the chip while the mouse is on it.
        page.route(re.compile("sort=id"), lambda route: route.continue_() if "where=" in route.request.url else None)
        page.locator("#samples-sort").select_option("id")
        chip = page.locator(".facet .chip").first
        count = int(chip.locator("small").inner_text())
        chip.click()
        wait_for(page, f"of {count} samples (of 12)")
        assert page.locator("#samples-sort").input_value() == "id"
        assert query(page)["sort"] == "id" and "=" in query(page)["where"]
        page.locator("#samples-text").fill("no such text")
        wait_for(page, "0 samples (of 12)")
        assert "where" in query(page)
        assert page.locator("#samples-none").is_visible()
        page.unroute_all()


def test_runs_are_chosen_by_their_boxes(browser, address):
    with opened(browser, address) as page:
        page.locator(".runs-choice input").nth(1).click()
        sync_api.expect(page.locator(".samples-table thead .run")).to_have_count(2)
        sync_api.expect(page).to_have_url(re.compile(r"runs=[^&]+&(.*&)?runs="))
        assert page.url.count("runs=") == 2
        page.locator(".runs-choice input").nth(2).click()
        sync_api.expect(page.locator(".samples-table thead .run")).to_have_count(3)


def test_the_keyboard_walks_the_rows_and_opens_one(browser, address):
    with opened(browser, address + "&rows=5") as page:
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        page.keyboard.press("j")
        current = page.locator("[data-row][data-current]")
        assert current.locator(".id").inner_text() == rows(page)[1]
        target = current.locator("a[data-open]").get_attribute("href")
        page.keyboard.press("n")
        wait_for(page, "6 to 10 of 12")
        page.keyboard.press("p")
        wait_for(page, "1 to 5 of 12")
        assert target.startswith("/case?") and "sample=" in target


def test_without_a_script_the_form_and_the_links_do_the_same(browser, address):
    with opened(browser, address, java_script_enabled=False) as page:
        page.locator("#samples-pattern").fill("A wrong and B right")
        page.locator(".apply").click()
        sync_api.expect(page.locator("#samples-count")).to_have_text("1 to 4 of 4 samples (of 12)")
        with page.expect_navigation():
            page.locator(".facet .chip").first.click()
        assert "where=" in page.url and "of 12)" in page.locator("#samples-count").inner_text()
        assert page.locator("#samples-pattern").input_value() == "A wrong and B right"
        page.locator(".runs-choice input").nth(2).uncheck()
        page.locator(".apply").click()
        sync_api.expect(page.locator(".samples-table thead .run")).to_have_count(2)


def test_a_query_in_sql_is_answered_below_the_rows_and_keeps_the_filters(browser, address):
    with opened(browser, address + "&text=zebra") as page:
        page.keyboard.press("q")
        page.locator("#samples-sql textarea").fill("SELECT sample_id, status FROM results WHERE status = 'error'")
        page.locator("#samples-sql button").click()
        page.wait_for_url("**sql=**")
        assert page.locator(".sql-table tbody tr").count() == 1
        assert page.locator(".sql-table a").inner_text() == IDS[5]
        assert rows(page) == [IDS[4]]


def test_the_page_prints_its_rows_without_its_controls(browser, address):
    with opened(browser, address) as page:
        page.emulate_media(media="print")
        assert not page.locator("#samples-form").is_visible()
        assert not page.locator(".side").is_visible()
        assert page.locator("#samples-rows tr").first.is_visible()
