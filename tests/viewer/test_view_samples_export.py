"""The exported samples page, opened from its file: the same rows in the same order as on the server, for every filter."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest
from browser_checks import check_page, every_shape, opened
from run_folders import samples_of, write_run
from test_view_samples import HOSTILE, IDS, write_runs

from snellen.viewer.index import open_index
from snellen.viewer.links import LiveLinks, StaticLinks
from snellen.viewer.pages import load_pages
from snellen.viewer.pages.samples import samples_data, view
from snellen.viewer.rendering import page_assets, render_page
from snellen.viewer.site import Site, ViewSettings
from snellen.viewer.states import SamplesState, read_slice

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
STATE = SamplesState(benchmark="chart/digits")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    write_runs(root)
    return root


@pytest.fixture(scope="module")
def index(root):
    index = open_index(root)
    index.refresh()
    return index


@pytest.fixture(scope="module")
def live(root, index):
    return Site(ViewSettings(root), LiveLinks(), index)


@pytest.fixture(scope="module")
def static(root, index):
    return Site(ViewSettings(root), StaticLinks(), index)


@pytest.fixture(scope="module")
def exported(static, tmp_path_factory):
    """Write the page with its assets and images, and return its address."""
    folder = tmp_path_factory.mktemp("site")
    page, pages = load_pages()["samples"], list(load_pages().values())
    html = render_page(static, page, STATE, view(static, STATE), pages).html
    (folder / STATE.file_name()).write_text(html, "utf-8")
    for name, text in (("css", page_assets("samples").style), ("js", page_assets("samples").script)):
        (folder / "assets").mkdir(exist_ok=True)
        (folder / "assets" / f"samples.{name}").write_text(text, "utf-8")
    (folder / "thumbnails").mkdir()
    for digest in static.links.thumbnails:
        (folder / "thumbnails" / digest).write_bytes(static.thumbnails.get(digest).data)
    return (folder / STATE.file_name()).as_uri()


def rows(page):
    return page.locator("#samples-rows .id").all_inner_texts()


@pytest.mark.browser
@every_shape
def test_the_exported_page_fits_at_every_width_in_both_themes(browser, exported, width, theme):
    with opened(browser, exported, width=width, theme=theme) as page:
        assert len(rows(page)) == 12
        page.wait_for_function(
            "() => [...document.querySelectorAll('.thumb img')].slice(0, 2).every((i) => i.naturalWidth > 0)"
        )
        check_page(page)
        assert page.evaluate("window.owned") is None


PATTERNS = [
    "A right and B wrong",
    "B right and A wrong",
    "none right",
    "all right",
    "most wrong",
    "most not right, C missing",
    "any failed or any unparseable",
    "not (A right or C missing)",
    "C not right/missing",
    "'openai:good' is right and short wrong",
    "nested/poor failed",
    "c wrong",
]


@pytest.mark.browser
def test_the_exported_page_selects_and_sorts_as_the_server_does(browser, exported, live, static):
    states = [STATE.changed(pattern=pattern) for pattern in PATTERNS]
    states += [STATE.changed(sort=sort) for sort in ("id", "wrong", "disagree", "profiles", "judge", "margin")]
    states += [
        STATE.changed(text="zebra"),
        STATE.changed(text="WHICH digit"),
        STATE.changed(text="which", within="reply"),
    ]
    facets = view(live, STATE)["facets"]
    states += [SamplesState.parse(choice.address.partition("?")[2]) for facet in facets for choice in facet.choices]
    states += [STATE.changed(profile=profile, pattern="A wrong") for profile in view(live, STATE)["profiles"]]
    wanted = [[row["sample_id"] for row in view(live, state)["rows"]] for state in states]
    assert len({tuple(ids) for ids in wanted}) > 12
    with opened(browser, exported) as page:
        for state, ids in zip(states, wanted, strict=True):
            page.goto(f"{exported}#{state.fragment()}")
            assert rows(page) == ids, state
            assert static.links.to(state).endswith("#" + state.fragment()) or not state.fragment()


@pytest.mark.browser
@pytest.mark.parametrize(
    "pattern", ["A", "A rihgt", "A right B wrong", "D right", "(A right", "A right and", '"qwen right', "(" * 41, "/"]
)
def test_the_exported_page_refuses_the_patterns_that_the_server_refuses(browser, exported, live, pattern):
    assert view(live, STATE.changed(pattern=pattern))["problem"]
    with opened(browser, f"{exported}#{urlencode({'pattern': pattern})}") as page:
        assert page.get_by_role("alert").inner_text().startswith("Verdict pattern: ")
        assert rows(page) == []


@pytest.mark.browser
def test_filters_of_the_exported_page_are_in_its_address_and_return_with_it(browser, exported):
    with opened(browser, exported) as page:
        page.keyboard.press("/")
        page.keyboard.type("zebra")
        sync_api.expect(page.locator("#samples-count")).to_have_text("1 to 1 of 1 sample (of 12)")
        assert page.evaluate("document.activeElement.id") == "samples-text"
        page.reload()
        assert rows(page) == [IDS[4]]
        page.locator("#clear-filters").click()
        page.locator(".facet .chip").first.click()
        count = int(page.locator(".facet .chip[aria-current] small").inner_text())
        assert len(rows(page)) == count
        assert page.evaluate("document.activeElement.className") == "chip"
        page.go_back()
        assert len(rows(page)) == 12
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        assert page.locator("[data-row][data-current] a[data-open]").get_attribute("href").startswith("case-")


@pytest.mark.browser
def test_the_exported_page_turns_its_pages(browser, tmp_path):
    samples = samples_of("chart/digits", 120)
    root = tmp_path / "results"
    write_run(root / "run", "chart/digits", {sample.id: "no idea" for sample in samples}, limit=120)
    index = open_index(root)
    index.refresh()
    site = Site(ViewSettings(root), StaticLinks(), index)
    page_of = load_pages()["samples"]
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "samples.css").write_text(page_assets("samples").style, "utf-8")
    (tmp_path / "assets" / "samples.js").write_text(page_assets("samples").script, "utf-8")
    (tmp_path / "thumbnails").mkdir()
    html = render_page(site, page_of, STATE, view(site, STATE), list(load_pages().values())).html
    (tmp_path / "samples.html").write_text(html, "utf-8")
    for digest in site.links.thumbnails:
        (tmp_path / "thumbnails" / digest).write_bytes(site.thumbnails.get(digest).data)
    with opened(browser, (tmp_path / "samples.html").as_uri()) as page:
        seen = rows(page)
        for _ in range(2):
            page.keyboard.press("n")
            seen += rows(page)
        assert page.locator("#samples-next").count() == 0
        assert seen == [sample.id for sample in samples]
        page.keyboard.press("p")
        assert page.locator("#samples-count").inner_text() == "51 to 100 of 120 samples"


def test_the_export_holds_no_path_and_nothing_that_a_browser_would_run(static, root):
    html = render_page(static, load_pages()["samples"], STATE, view(static, STATE), list(load_pages().values())).html
    assert str(root) not in html
    assert "<script>window.owned" not in html
    assert 'href="/' not in html and 'src="/' not in html and "http://" not in html.replace("http://www.w3.org", "")


def test_the_replies_of_restricted_runs_are_not_in_the_export(tmp_path):
    samples = samples_of("chart/digits", 4)
    from run_folders import append, record, write_meta

    for name, restricted in (("open", False), ("closed", True)):
        write_meta(tmp_path / name, "chart/digits", limit=4, restricted=restricted)
        append(tmp_path / name, (record(sample.id, f"the {name} answer is 7") for sample in samples))
    index = open_index(tmp_path)
    index.refresh()
    site = Site(ViewSettings(tmp_path), StaticLinks(), index)
    data = json.loads(view(site, STATE)["data"])
    assert [bool(any(replies)) for replies in data["replies"]] == [
        name == "open" for name in (run["names"][0] for run in data["runs"])
    ]


def test_the_data_has_each_cell_of_each_profile(live, static):
    from snellen.viewer.pages.samples import sample_query
    from snellen.viewer.sample_columns import choose_columns

    columns = choose_columns(static.index.runs(), STATE)
    page = static.index.samples(sample_query(columns, STATE))
    data = samples_data(static, columns, page)
    for profile in page.profiles:
        rows_of_profile = {row["sample_id"]: row for row in view(live, STATE.changed(profile=profile))["rows"]}
        cells = data["cells"][profile]
        for number, sample_id in enumerate(data["rows"]["id"]):
            for run, cell in enumerate(rows_of_profile[sample_id]["cells"]):
                assert data["verdicts"][int(cells["verdicts"][run][number])] == cell["verdict"]
                assert data["words"][cells["extracted"][run][number]].startswith(cell["extracted"][:40])
                assert (number in cells["differ"][run]) == cell["profiles_differ"]
        assert all(sorted(order) == list(range(12)) for order in cells["orders"].values())
    names = [slice_["name"] for slice_ in data["slices"]]
    assert names and all(read_slice(f"{name}=x")[0] == name for name in names)
    assert HOSTILE not in "".join(names)
