"""The case page in a real browser: every width and theme, next and previous, keys, pixels, differences, raw exchanges."""

from __future__ import annotations

import re

import pytest
from browser_checks import WIDTHS, check_page, every_shape, opened, serving
from case_runs import IDS, ask, write_questions

from snellen.types import MediaSettings
from snellen.viewer.index import open_index
from snellen.viewer.states import CaseState

pytestmark = pytest.mark.browser

PIXELS = """() => {
    const shown = document.querySelector('#viewer canvas');
    const copy = document.createElement('canvas');
    copy.width = shown.width;
    copy.height = shown.height;
    const pen = copy.getContext('2d', { willReadFrequently: true });
    pen.drawImage(shown, 0, 0);
    const data = pen.getImageData(0, 0, copy.width, copy.height).data;
    let drawn = 0, black = 0;
    for (let i = 0; i < data.length; i += 4) {
        drawn += data[i + 3] > 0;
        black += data[i + 3] > 0 && !data[i] && !data[i + 1] && !data[i + 2];
    }
    return [drawn, black];
}"""
"""How many pixels of the enlarged image are drawn, and how many of them are black."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory):
    """Three runs of three questions: as the data is, smaller, and with specks."""
    root = tmp_path_factory.mktemp("case-pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-key-of-the-model-0123456789")
        table = write_questions(root / "data")
        ask(table, root / "results" / "plain", ["A", "It is brown. The answer is B.", "Either A or B."])
        ask(table, root / "results" / "small", ["So (A).", "C", "C"], media=MediaSettings(max_long_side=32))
        ask(table, root / "results" / "specks", ["B"] * 3, media=MediaSettings(corrupt="salt-pepper:30"))
    open_index(root / "results").refresh()
    with serving(root / "results", reviewer="ada") as url:
        yield url


def case(address: str, sample: str = "q1", **fields) -> str:
    return f"{address}/case?{CaseState(sample=sample, **fields).query()}"


@every_shape
def test_a_case_is_quiet_and_fits_at_every_width_in_both_themes(browser, address, width, theme):
    with opened(browser, case(address), width=width, theme=theme) as page:
        check_page(page)
        assert page.locator(".reply-card").count() == 3
        assert page.locator("mark.read").count() == 3
        assert page.locator(".letters .gold").inner_text().startswith("A")
        assert page.locator(".recorded-equal").count() == 2
        broken = page.evaluate("[...document.images].filter((i) => i.complete && !i.naturalWidth).length")
        assert broken == 0


def test_next_and_previous_walk_the_list_of_the_filter_by_keys(browser, address):
    with opened(browser, case(address, sample=IDS[0], sort="id")) as page:
        seen = [page.locator("h1").inner_text()]
        for _ in range(2):
            with page.expect_navigation():
                page.keyboard.press("n")
            seen.append(page.locator("h1").inner_text())
        assert sorted(seen) == sorted(IDS) and "3 of 3" in page.locator(".place").inner_text()
        with page.expect_navigation():
            page.keyboard.press("p")
        assert page.locator("h1").inner_text() == seen[1]
        page.keyboard.press("u")
        page.wait_for_url(re.compile("/samples"))


def test_a_filter_that_leaves_the_sample_out_says_so(browser, address):
    with opened(browser, case(address, pattern="A wrong and A right")) as page:
        assert "not among the 0 samples" in page.locator(".place").inner_text()
        assert page.locator("a[rel=next]").count() == 0


def test_an_image_is_enlarged_to_its_pixels_with_coordinates_and_its_difference_to_another(browser, address):
    with opened(browser, case(address), device_scale_factor=1) as page:
        page.keyboard.press("z")
        viewer = page.locator("#viewer")
        viewer.wait_for()
        page.wait_for_function("() => document.querySelector('#viewer [data-title]').innerText === 'image 1 original'")
        page.wait_for_function(f"() => ({PIXELS})()[0] > 0")
        page.mouse.move(720, 480)
        page.wait_for_function(
            "() => /x \\d+\\s+y \\d+\\s.*rgb \\d+ \\d+ \\d+/.test(document.querySelector('[data-coordinates]').innerText)"
        )
        page.keyboard.press("1")
        assert page.locator("[data-scale]").inner_text() == "100 %"
        assert page.evaluate(PIXELS)[0] == 96 * 64
        names = page.locator("[data-against] option").all_inner_texts()
        specks = next(name for name in names if name.endswith("C"))
        page.select_option("[data-against]", specks)
        page.wait_for_function("() => document.querySelector('#viewer [data-title]').innerText.includes('difference')")
        assert 0.4 * 96 * 64 < page.evaluate(PIXELS)[1] < 96 * 64, "equal pixels are black, specks are not"
        page.keyboard.press("Escape")
        assert not viewer.is_visible()
        assert page.evaluate("document.activeElement.className") == "pic-open"


def test_cards_are_walked_with_j_and_k(browser, address):
    with opened(browser, case(address)) as page:
        for expected in ("A", "B", "C"):
            page.keyboard.press("j")
            assert page.locator("[data-row][data-current] h3 b").inner_text() == expected


@pytest.mark.parametrize("width", WIDTHS)
def test_the_raw_exchange_has_request_and_response_as_json(browser, address, width):
    with opened(browser, case(address), width=width) as page:
        page.locator("a", has_text="Raw request and response").first.click()
        page.wait_for_url(re.compile("/exchange"))
        check_page(page)
        text = page.locator("main").inner_text()
        assert '"messages"' in text and '"choices"' in text and "sha256:" in text and "base64" not in text
        page.keyboard.press("u")
        page.wait_for_url(re.compile("/case"))


@pytest.mark.parametrize(("key", "path"), [("c", "/compare"), ("r", "/review")])
def test_a_key_leads_to_the_comparison_and_to_the_review(browser, address, key, path):
    with opened(browser, case(address)) as page:
        page.keyboard.press(key)
        page.wait_for_url(re.compile(re.escape(path)))
        assert page.locator("h1").inner_text()
