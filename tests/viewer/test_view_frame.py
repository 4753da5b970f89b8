"""The frame of the viewer: addresses of pages, navigation, theme, keys, and what every page has to pass in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browser_checks import (
    axe_source,
    check_page,
    check_width,
    every_shape,
    opened,
    require_axe,
    serving,
)

from snellen.errors import UsageError
from snellen.viewer.states import CaseState, RunsState, SamplesState


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of the chart, one of them nested, and a folder whose run_meta.json is damaged."""
    from snellen.runs.evaluate import evaluate

    root = tmp_path_factory.mktemp("results")
    for number, name in enumerate(("first", "second", "nested/third"), 1):
        evaluate("chart", model="embedded", limit=4 * number, out=root / name)
    (root / "torn").mkdir()
    (root / "torn" / "run_meta.json").write_text('{"format": 1,')
    return root


@pytest.fixture(scope="module")
def address(results: Path):
    with serving(results) as url:
        yield url


def test_a_state_returns_from_its_query_string_as_it_was():
    states = [
        RunsState(benchmark=("a b", "c&d"), sort="date", down=True),
        SamplesState(benchmark="x", runs=("r/1", "r/2"), where=("level=á",), pattern="A right and B wrong", number=7),
        CaseState(benchmark="x", sample="id?&=#", repeat=2),
    ]
    for state in states:
        assert type(state).parse(state.query()) == state
    assert RunsState().query() == ""
    assert RunsState.parse("unknown=1&benchmark=x") == RunsState(benchmark=("x",))


@pytest.mark.parametrize(
    "query", ["group=colour", "number=0", "number=x", "a=" + "x" * 20_000, "&".join(["a=1"] * 600)]
)
def test_an_address_with_a_bad_value_is_refused_in_words(query):
    state = RunsState if query.startswith("group") else SamplesState
    with pytest.raises(UsageError, match="address"):
        state.parse(query)


def test_names_of_exported_files_hold_nothing_of_the_state():
    name = CaseState(benchmark="../../etc", sample="<script>/..").file_name()
    assert name.startswith("case-") and name.endswith(".html") and "/" not in name and "<" not in name
    assert RunsState().file_name() == "index.html"


@pytest.mark.browser
@every_shape
def test_the_frame_is_quiet_and_fits_at_every_width_in_both_themes(browser, address, width, theme):
    with opened(browser, address + "/", width=width, theme=theme) as page:
        check_page(page)
        colours = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert colours == (
            ["rgb(251, 251, 249)", "rgb(23, 25, 29)"] if theme == "light" else ["rgb(17, 19, 22)", "rgb(236, 236, 231)"]
        )


@pytest.mark.browser
def test_the_theme_of_the_reader_overrides_that_of_the_system_and_lasts(browser, address):
    with opened(browser, address + "/", theme="light") as page:
        shade = "getComputedStyle(document.body).backgroundColor"
        for expected in ("rgb(251, 251, 249)", "rgb(17, 19, 22)"):
            page.locator("#theme").click()
            assert page.evaluate(shade) == expected
        page.reload()
        assert page.evaluate(shade) == "rgb(17, 19, 22)"
        assert page.locator("#theme").inner_text() == "Theme: dark"
        page.locator("#theme").click()
        assert page.evaluate(shade) == "rgb(251, 251, 249)"


@pytest.mark.browser
def test_rows_are_walked_and_helped_by_keys_alone(browser, address):
    with opened(browser, address + "/") as page:
        marked = "[...document.querySelectorAll('[data-row]')].findIndex((row) => row.hasAttribute('data-current'))"
        for key, place in (("j", 0), ("j", 1), ("k", 0), ("k", 0)):
            page.keyboard.press(key)
            assert page.evaluate(marked) == place
        page.keyboard.press("/")
        page.keyboard.type("j")
        assert page.evaluate("document.activeElement.hasAttribute('data-search')")
        assert page.evaluate(marked) == 0
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        assert page.locator("dialog[open]").count() == 1
        check_width(page)
        page.keyboard.press("Escape")
        assert page.locator("dialog[open]").count() == 0


def test_a_damaged_run_is_named_and_hides_no_other(address):
    import urllib.request

    html = urllib.request.urlopen(address + "/").read().decode()
    assert html.count("data-row") >= 3
    assert "torn" in html and "nested/third" in html


def test_meta_of_htmx_forbids_scripts_and_other_servers(address):
    import re
    import urllib.request

    html = urllib.request.urlopen(address + "/").read().decode()
    config = json.loads(re.search(r"name=\"htmx-config\" content='([^']+)'", html)[1])
    assert config["allowEval"] is False and config["allowScriptTags"] is False and config["selfRequestsOnly"] is True


def test_pages_are_checked_by_axe_core():
    """The browser tests look for serious findings where axe-core is installed; this test says where it is not."""
    require_axe()
    source = axe_source()
    assert source is not None
    assert "axe.run" in source
