"""The acuity card in a real browser: widths, themes, keys, without scripts, printed, and for those who do not see it."""

from pathlib import Path

import pytest
from opened_page import opened

from keyed_observers import KeyedObserver, observed_run
from snellen.benchmarks.base import Data
from snellen.reports.runs import report

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    """The page of one run, and that of two."""
    folder = tmp_path_factory.mktemp("cards")
    data = Data(options={"attributes": "gap,count,orientation"}, seed=5)
    sharp = observed_run(folder / "sharp", KeyedObserver(data, {"gap": 0.6}, bias=0.9, reasons=True))
    dull = observed_run(folder / "dull", KeyedObserver(data, {"gap": 0.3, "count": -2.0}))
    one = report(sharp, folder / "one.html", max_answers=4)
    two = report([sharp, dull], folder / "two.html", max_answers=4)
    return one.as_uri(), two.as_uri()


@pytest.mark.parametrize("width", [420, 1440, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_card_fits_every_width_without_a_message_or_a_request(browser, cards, width, scheme):
    for address in cards:
        with opened(browser, address, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator(".acuity-panel:visible").count() == 1


@pytest.mark.parametrize("script", [True, False])
def test_a_click_and_the_arrow_keys_choose_a_curve_with_and_without_scripts(browser, cards, script):
    with opened(browser, cards[0], java_script_enabled=script) as page:
        names = page.locator(".acuity-line .name").all_inner_texts()
        heading = page.locator(".acuity-panel:visible h3")
        assert heading.inner_text() == names[0]
        page.locator(".acuity-line").nth(1).click()
        assert heading.inner_text() == names[1]
        page.keyboard.press("ArrowDown")
        assert heading.inner_text() == names[2]


def test_all_curves_are_printed(browser, cards):
    with opened(browser, cards[0]) as page:
        page.emulate_media(media="print")
        assert page.locator(".acuity-panel:visible").count() == page.locator(".acuity-line").count() == 3


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: make axe")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_card_has_no_fault_that_axe_finds(browser, cards, scheme):
    for address in cards:
        with opened(browser, address, color_scheme=scheme, bypass_csp=True) as page:
            page.add_script_tag(path=str(AXE))
            result = page.evaluate("axe.run({include: [['#acuity'], ['.head']]})")
            assert [f"{fault['id']}: {fault['nodes'][0]['html'][:200]}" for fault in result["violations"]] == []
