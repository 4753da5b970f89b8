"""The acuity page of the viewer: the card of one run and of two, the table of four, its links, keys, themes and export."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from browser_checks import check_page, every_shape, opened, serving

from keyed_observers import KeyedObserver, observed_run
from snellen.benchmarks.base import Data
from snellen.reports.acuity.view import acuity_view, threshold_text
from snellen.runs.run import load_run
from snellen.viewer.export import export_site
from snellen.viewer.index import open_index
from snellen.viewer.links import LiveLinks
from snellen.viewer.pages import load_pages
from snellen.viewer.pages.samples import sample_query
from snellen.viewer.rendering import page_assets, render_page
from snellen.viewer.sample_columns import choose_columns
from snellen.viewer.site import MissingPageError, Site, ViewSettings
from snellen.viewer.states import AcuityState, SamplesState

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
SHARP, DULL = "sharp", "dull"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of acuity over three conditions."""
    root = tmp_path_factory.mktemp("acuity")
    data = Data(options={"attributes": "gap,count,orientation"}, seed=5)
    observed_run(root / SHARP, KeyedObserver(data, {"gap": 0.6}, bias=0.9, reasons=True))
    observed_run(root / DULL, KeyedObserver(data, {"gap": 0.3, "count": -2.0}))
    return root


@pytest.fixture(scope="module")
def address(results: Path):
    open_index(results).refresh()
    with serving(results) as url:
        yield url


def site_over(root: Path) -> Site:
    index = open_index(root)
    index.refresh()
    return Site(ViewSettings(root), LiveLinks(), index)


def rendered(site: Site, state: AcuityState, page: str = "acuity") -> str:
    pages = load_pages()
    return render_page(site, pages[page], state, pages[page].view(site, state), list(pages.values())).html


def test_the_card_links_to_the_samples_of_a_condition(results):
    html = rendered(site_over(results), AcuityState(run=(SHARP,)))
    (gap,) = [each.result for each in acuity_view(load_run(results / SHARP)).conditions if each.label == "gap"]
    assert f"<b>{threshold_text(gap)}</b>" in html
    assert (
        f'href="/samples?benchmark=acuity&amp;runs=sharp&amp;where=condition%3Dgap%40512">{gap.estimate.asked} answers'
        in html
    )
    assert 'href="#' not in html.replace('href="#main"', "")
    assert "times finer" not in html


def test_two_runs_have_a_card_and_four_a_table(results, tmp_path):
    for name in (SHARP, DULL, "c", "d"):
        shutil.copytree(results / (name if name in (SHARP, DULL) else SHARP), tmp_path / name)
    site = site_over(tmp_path)
    two = rendered(site, AcuityState(run=(SHARP, DULL)))
    assert "times finer" in two
    assert two.count('name="acuity-line"') == 3
    four = rendered(site, AcuityState(run=(SHARP, DULL, "c", "d")))
    assert 'name="acuity-line"' not in four
    assert len(re.findall(r'<th scope="col" class="series-', four)) == 4


def test_runs_that_are_not_there_or_measure_nothing_are_named(results, tmp_path):
    with pytest.raises(MissingPageError, match="'absent'"):
        rendered(site_over(results), AcuityState(run=("absent",)))
    assert "No run of acuity lies below this folder" in rendered(site_over(tmp_path), AcuityState())
    shutil.copytree(results / DULL, tmp_path / "empty")
    (tmp_path / "empty" / "results.jsonl").write_bytes(b"")
    assert "empty has no answer yet" in rendered(site_over(tmp_path), AcuityState(run=("empty",)))


def test_each_run_has_its_own_samples_with_their_verdicts(results):
    """Questions follow from the answers, so that two runs of one seed and one plan have other samples."""
    index = site_over(results).index
    for name in (SHARP, DULL):
        state = SamplesState(benchmark="acuity", runs=(name,))
        page = index.samples(sample_query(choose_columns(index.runs(), state), state))
        count = acuity_view(load_run(results / name)).questions
        assert page.total == count
        assert {word: number for word, number in page.verdicts[0].items() if word in ("missing", "unknown")} == {}


def test_its_colours_are_colours_of_the_viewer():
    style = page_assets("acuity").style
    assert ".acuity-line" in style
    used, declared = (set(re.findall(pattern, style)) for pattern in (r"var\((--[\w-]+)", r"(--[\w-]+):"))
    assert used <= declared


@pytest.mark.browser
@every_shape
def test_the_page_has_room_at_every_width_and_theme(browser, address, width, theme):
    query = "run=sharp" if width == 1440 else "run=sharp&run=dull"
    with opened(browser, f"{address}/acuity?{query}", width=width, theme=theme) as page:
        assert page.locator(".acuity-panel:visible").count() == 1
        check_page(page)


@pytest.mark.browser
def test_j_and_k_walk_the_lines_and_a_link_leads_to_the_samples(browser, address):
    with opened(browser, f"{address}/") as page:
        with page.expect_navigation():
            page.get_by_role("link", name="Acuity").first.click()
        names = page.locator(".acuity-line .name").all_inner_texts()
        heading = page.locator(".acuity-panel:visible h3")
        page.locator(".acuity-line input").first.focus()
        page.keyboard.press("j")
        assert heading.inner_text() == names[1]
        page.keyboard.press("j")
        assert heading.inner_text() == names[2]
        page.keyboard.press("k")
        assert heading.inner_text() == names[1]
        page.keyboard.press("ArrowUp")
        assert heading.inner_text() == names[0]
        count = page.locator(".answers-of-line:visible a").inner_text().split()[0]
        page.locator(".answers-of-line:visible a").click()
        sync_api.expect(page.locator("#samples-count")).to_contain_text(f"of {count} ")
        page.get_by_role("link", name="Acuity card of this run").click()
        sync_api.expect(page.locator(".acuity-line")).to_have_count(3)


@pytest.mark.browser
def test_an_export_has_the_page_with_links_to_its_files(browser, results, tmp_path):
    runs = tmp_path / "runs"
    for name, lines in ((SHARP, 24), (DULL, 24)):  # few answers, so that few cases are written
        shutil.copytree(results / name, runs / name)
        journal = (runs / name / "results.jsonl").read_bytes().splitlines(keepends=True)
        (runs / name / "results.jsonl").write_bytes(b"".join(journal[:lines]))
    result = export_site(ViewSettings(runs), tmp_path / "out")
    assert result.problems == ()
    with opened(browser, (tmp_path / "out" / "index.html").as_uri()) as page:
        with page.expect_navigation():
            page.get_by_role("link", name="Acuity").first.click()
        assert page.locator(".acuity-panel:visible").count() == 1
        page.locator(".answers-of-line:visible a").first.click()
        page.wait_for_url(re.compile(r"/samples[-.]"))
    for path in (tmp_path / "out").glob("acuity-*.html"):
        links = set(re.findall(r'href="([^"#]+)', path.read_text("utf-8")))
        assert all(link.startswith("data:") or (path.parent / link).is_file() for link in links)
