"""The features page in a real browser: wide and narrow, light and dark, nothing leaves it and every picture shows."""

import numpy as np
import pytest
from opened_page import copied, opened, saved
from PIL import Image as Picture

from snellen.features.plot_data import Neighbour, QueryNeighbours
from snellen.features.says_sees import AnswerScores, ProbeResults, says_sees
from snellen.reports.features.page import JoinedView, StoreView, render_features
from snellen.sources.blobs import FileBlob
from snellen.types import IntervalMethod, Metric

pytestmark = pytest.mark.browser
LONG = "Scissor-tailed flycatcher of the southern plains"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    for row in range(4):
        Picture.new("RGB", (20, 20), (60 * row, 90, 40)).save(folder / f"{row}.png")
    rng = np.random.default_rng(0)
    classes = [f"{LONG} {i % 12}" for i in range(240)]
    ids = [str(i) for i in range(240)]
    sees = ProbeResults(ids, classes, (rng.random(240) < 0.8).astype(float), 1 / 12)
    says = AnswerScores(ids, classes, (rng.random(240) < 0.6).astype(float), np.full(240, 0.5))
    near = [Neighbour(row, f"{row}.png", LONG, row % 2 == 0) for row in range(4)]
    found = says_sees(sees, says)
    stores = [
        StoreView(
            f"store-{number}-of-a-rather-long-name",
            {"encoder": "hf:facebook/dinov2-large", "rows": "train 5,994, test 5,794"},
            {"Linear probe": [Metric("balanced_accuracy", 0.7, 240, (0.6, 0.8), chance=1 / 12)]},
            sheet=[QueryNeighbours(near[0], tuple(near[1:]))],
            pictures={row: FileBlob(folder / f"{row}.png") for row in range(4)},
        )
        for number in range(2)
    ]
    joined = [JoinedView(one.name, "a-run", "a-model", found, found.notes()) for one in stores]
    file = folder / "page.html"
    file.write_text(render_features(stores, joined), encoding="utf-8")
    return file.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_fits_shows_its_pictures_and_asks_for_nothing(browser, address, scheme, width):
    with opened(browser, address, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        decoded = "[...document.images].map((image) => { image.loading = 'eager'; return image.decode(); })"
        page.evaluate(f"Promise.all({decoded})")
        assert page.evaluate("[...document.images].map((image) => image.naturalWidth)") == [20] * 8
        texts = page.locator("#says .plot text").all_text_contents()
        assert any(text.startswith("sees but does not say · ") for text in texts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1280, 420])
@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_no_column_of_any_number_of_encoders_is_cut_and_each_is_told_apart(browser, tmp_path, count, width, scheme):
    by = IntervalMethod("cluster-robust Wilson", cluster="class", clusters=12)
    names = ("precision@10/class-mean", "map", "balanced_accuracy")
    stores = [
        StoreView(
            f"encoder-{number}-of-a-rather-long-name-448px",
            {"rows": "train 5,994, test 5,794"},
            {"Scores": [Metric(name, 1.0, 11_788, (0.975, 1.0), chance=1 / 12, interval=by) for name in names]},
        )
        for number in range(count)
    ]
    file = tmp_path / "page.html"
    file.write_text(render_features(stores), encoding="utf-8")
    settings = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(browser, file.as_uri(), **settings) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
        assert page.evaluate(cut) == 0
        badges = page.locator(".store .swatch")
        tints = badges.evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
        assert len(set(tints)) == count
        assert badges.all_text_contents() == [str(number + 1) for number in range(count)]


def test_tables_are_copied_and_plots_saved_without_a_network(browser, address):
    permitted = {"permissions": ["clipboard-read", "clipboard-write"], "accept_downloads": True}
    with opened(browser, address, **permitted) as page:
        tables, figures = page.locator("main table").count(), page.locator("main figure svg").count()
        assert tables == 3 and figures == 3
        assert page.get_by_role("button", name="Copy as").count() == 2 * tables
        copies = {
            button.get_attribute("aria-label"): copied(page, button)
            for button in page.get_by_role("button", name="Copy as").all()
        }
        (_, row, *_) = copies["Copy as CSV: Linear probe"].splitlines()
        assert row.startswith("balanced_accuracy,store-0-of-a-rather-long-name,0.7,")
        assert "70.0 {\\scriptsize [60.0, 80.0]}" in copies["Copy as LaTeX: Linear probe"]
        assert len(copies["Copy as CSV: a-run against store-0-of-a-rather-long-name"].splitlines()) == 13
        for figure in page.locator("main figure:has(svg[data-name])").all():
            file = f"{figure.locator('svg').get_attribute('data-name')}.svg"
            download = saved(page, figure.get_by_role("button", name="Save SVG"), file)
            assert download.path().read_text("utf-8").startswith("<?xml")
