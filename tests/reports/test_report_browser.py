"""The report in a real browser: nothing leaves the page, nothing hostile runs, every wrong answer is one click away."""

import re

import numpy as np
import pytest
from msgspec import structs
from opened_page import opened

from snellen.reports import PairedView, write_report
from snellen.scoring import statistics

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(run, tmp_path_factory):
    return write_report([run], tmp_path_factory.mktemp("report") / "report.html").as_uri()


@pytest.fixture(scope="module")
def double(make_run, tmp_path_factory):
    runs = [make_run("run-a"), make_run("run-b", "other", skill=0.4)]
    values = [np.array([a.scores["strict"].value for a in one.answers()]) for one in runs]
    found = statistics.compare(values[0], values[1], np.arange(len(values[0])) // 2)
    paired = [PairedView("run-a", "run-b", "strict", "accuracy", found)]
    return write_report(runs, tmp_path_factory.mktemp("double") / "report.html", comparisons=paired).as_uri()


@pytest.fixture(scope="module")
def suites(make_suite, tmp_path_factory):
    runs = [make_suite(), make_suite("suite-b", "other", skill=0.3, conditions=["prompting = cot"])]
    return write_report(runs, tmp_path_factory.mktemp("suites") / "report.html").as_uri()


def wait_for_cards(page, count):
    """Searching waits for the typing to pause."""
    sync_api.expect(page.locator(".card")).to_have_count(count)


def verdicts(page):
    return set(page.locator(".card .line span:nth-child(2)").all_inner_texts())


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 375), ("light", 320)])
def test_the_page_opens_without_a_console_message_a_request_or_sideways_scrolling(
    browser, report, double, scheme, width
):
    for address in (report, double):
        with opened(browser, address, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
            assert page.locator(".card").count() > 10
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            sizes = page.evaluate("[...document.querySelectorAll('.card img')].map((img) => img.naturalWidth)")
            assert sizes and min(sizes) > 0


def test_every_wrong_answer_is_one_click_from_the_summary(browser, report, run):
    scores = [answer.scores["strict"].verdict for answer in run.answers()]
    wrong = sum(verdict != "correct" for verdict in scores)
    with opened(browser, report) as page:
        page.locator("a.to-wrong").click()
        sync_api.expect(page.locator("#count")).to_have_text(f"{wrong} of 120 answers")
        assert verdicts(page) == {"wrong", "invalid", "error"}
        assert page.locator("#gallery").bounding_box()["y"] < 450


def test_a_score_leads_to_the_answers_that_count_against_it(browser, report, run):
    wanted = [
        a.sample_id
        for a in run.answers()
        if a.kind == "short" and a.meta["level"] == "species" and a.scores["official"].verdict != "correct"
    ]
    with opened(browser, report) as page:
        row = page.locator("table.scores tr", has=page.locator("th[title='accuracy/short/species']"))
        row.locator("a.score").nth(1).click()
        sync_api.expect(page.locator(".card .id")).to_have_text(wanted)
        assert page.locator("select[name=profile]").input_value() == "official"


def test_bars_and_cells_of_plots_lead_to_their_answers(browser, report, run):
    with opened(browser, report) as page:
        page.locator("figure", has_text="Samples without an answer").locator("svg a").first.click()
        wait_for_cards(page, 1)
        assert verdicts(page) == {"error"}
        cell = page.locator("figure", has_text="Confusion matrix: true or false").locator(
            "svg a[href*='target=false&read=true']"
        )
        cell.click()
        wanted = [a for a in run.answers() if a.target is False and a.scores["strict"].extracted is True]
        wait_for_cards(page, len(wanted))


def test_filters_search_and_sorting_show_what_they_say(browser, report):
    with opened(browser, report) as page:
        page.locator("#verdicts button", has_text="wrong").click()
        assert verdicts(page) == {"wrong"}
        page.locator("select[name='by.level']").select_option("species")
        page.locator("select[name='by.kind']").select_option("truth")
        assert "by.level=species" in page.url and "verdict=wrong" in page.url
        assert all("species" in text for text in page.locator(".card .question").all_inner_texts())
        page.locator("#clear").click()
        page.locator("#search").fill("question 17:")
        wait_for_cards(page, 1)
        assert page.locator(".card .id").inner_text() == "chart/0017"
        page.locator("#clear").click()
        page.locator("input[name=disagree]").check()
        assert page.locator(".card").count() > 0
        for place in range(page.locator(".card").count()):
            page.locator(".card").nth(place).click()
            page.wait_for_selector("dialog[open]")
            found = page.locator("dialog table td:nth-child(2)").all_inner_texts()
            assert len(set(found)) == 2
            page.keyboard.press("Escape")
            sync_api.expect(page).not_to_have_url(re.compile("open="))  # its own event, some time after the key


def test_a_filter_and_an_open_answer_can_be_linked_to(browser, report):
    with opened(browser, report + "#verdict=invalid") as page:
        assert verdicts(page) == {"invalid"}
        page.locator(".card").click()
        page.wait_for_selector("dialog[open]")
        address = page.url
    with opened(browser, address) as page:
        assert page.locator("dialog[open]").count() == 1
        assert "names two answers" in page.locator("dialog").inner_text()
        page.go_back()


def test_the_back_button_closes_an_answer(browser, report):
    with opened(browser, report) as page:
        page.locator(".card").nth(3).click()
        page.wait_for_selector("dialog[open]")
        page.go_back()
        page.wait_for_selector("dialog:not([open])", state="attached")
        assert page.locator("dialog[open]").count() == 0


def test_the_gallery_can_be_used_from_the_keyboard(browser, report):
    with opened(browser, report) as page:
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        page.locator("select[name=sort]").select_option("run order")
        page.locator(".card").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        assert "chart/0000" in page.locator("#detail-title").inner_text()
        page.keyboard.press("ArrowRight")
        sync_api.expect(page.locator("#detail-title")).to_contain_text("chart/0001")
        page.keyboard.press("ArrowLeft")
        sync_api.expect(page.locator("#detail-title")).to_contain_text("chart/0000")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog:not([open])", state="attached")
        sync_api.expect(page.locator(".card:focus")).to_have_count(1)


def test_a_hostile_reply_is_shown_as_text_and_runs_nothing(browser, report, hostile_text):
    with opened(browser, report) as page:
        page.locator("#search").fill("hostile")
        wait_for_cards(page, 1)
        page.locator(".card").click()
        page.wait_for_selector("dialog[open]")
        shown = page.locator("dialog .reply").first.inner_text()
        assert shown.startswith(hostile_text)
        assert "⟦U+202E⟧" in shown
        assert page.locator("dialog details").count() >= 3
        for details in page.locator("dialog details").all():
            details.locator("summary").click()
        assert page.evaluate("window.owned") is None
        assert page.title() == "chart/test · Snellen"
        assert page.locator("img[src=x]").count() == 0
        assert "image not shown" in page.locator("dialog .shown").inner_text()


def test_the_policy_stops_a_script_even_if_one_got_into_the_page(browser, report):
    context = browser.new_context()
    page, blocked = context.new_page(), []
    page.on("console", lambda message: blocked.append(message.text))
    page.goto(report)
    page.evaluate("""() => {
        const holder = document.createElement('div');
        try { holder.innerHTML = '<img src=x onerror="window.owned=1">'; document.body.append(holder); } catch (error) { window.refused = String(error); }
        try { const script = document.createElement('script'); script.textContent = 'window.owned = 1'; document.body.append(script); } catch (error) { window.refused += String(error); }
    }""")
    page.wait_for_timeout(100)
    assert page.evaluate("window.owned") is None
    assert "TrustedHTML" in page.evaluate("window.refused")
    context.close()


def test_scores_and_plots_need_no_script(browser, double):
    with opened(browser, double, java_script_enabled=False) as page:
        assert page.locator("table.scores tbody tr").count() > 5
        assert "accuracy" in page.locator("table.scores").inner_text()
        assert "run-a" in page.locator("table.pairs").inner_text()
        assert page.locator("svg.plot").count() > 3
        assert "needs JavaScript" in page.locator("noscript").inner_text()
        assert page.locator("#filters").is_hidden()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_published_figures_stand_beside_runs_in_wide_and_narrow_windows_and_without_script(
    browser, suites, scheme, width
):
    settings = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    for script in (True, False):
        with opened(browser, suites, java_script_enabled=script, **settings) as page:
            table = page.locator("table.published")
            assert table.count() == 1
            assert table.locator("tr.here").count() == 2
            names = table.locator("tbody tr:not(.group) th bdi:first-of-type").all_inner_texts()
            assert {"chance", "human", "Small-7B", "Large-70B"} < set(names)
            assert table.locator("th:not([scope])").count() == 0
            first, region = table.locator("tr.here th").first, page.locator(".scroll.wide")
            assert region.bounding_box()["width"] <= width
            before = first.bounding_box()["x"]
            if script:
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                region.evaluate("node => node.scrollTo(10000, 0)")
                assert abs(first.bounding_box()["x"] - before) < 1  # the names stay in sight


def test_scores_under_five_profiles_and_long_names_of_metrics_do_not_run_into_each_other(browser, make_suite, tmp_path):
    run = make_suite()
    metrics = [structs.replace(m, ci95=(0.9, 1.0), value=1.0) for m in run.metrics["official"]]
    many = structs.replace(run, metrics=dict.fromkeys(("official", "b", "c", "d", "vlmevalkit-legacy"), metrics))
    address = write_report([many, structs.replace(many, name="suite-b")], tmp_path / "report.html").as_uri()
    with opened(browser, address) as page:
        crossing = page.evaluate("""() => [...document.querySelectorAll("table.scores td .words *")].filter((node) =>
            node.getBoundingClientRect().right > node.closest("td").getBoundingClientRect().right).length""")
        assert crossing == 0
        broken = page.evaluate("""() => [...document.querySelectorAll("table.scores tbody th bdi")].filter((node) =>
            node.getClientRects().length > node.textContent.split(/[ -]/).length).map((node) => node.textContent)""")
        assert broken == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert "series-9" not in (tmp_path / "report.html").read_text("utf-8")


def test_a_measured_cell_leads_to_the_wrong_answers_of_that_subtask(browser, suites):
    with opened(browser, suites) as page:
        page.locator("table.published tr.here").nth(1).locator("a").nth(1).click()
        sync_api.expect(page.locator("select[name='by.task']")).to_have_value("far")
        sync_api.expect(page.locator("select[name=run]")).to_have_value("suite-b")
        assert verdicts(page) == {"wrong"}
        assert all(text.startswith("far/") for text in page.locator(".card .id").all_inner_texts())


def test_a_suite_is_filtered_by_its_members_and_true_for_T_is_no_mistake(browser, suites):
    with opened(browser, suites) as page:
        labels = page.locator("#selects label > span").all_inner_texts()
        assert labels.index("task") < labels.index("half")
        page.locator("figure.eye a", has_text="NEAR").first.click()
        sync_api.expect(page.locator("select[name='by.task']")).to_have_value("near")
        page.locator("#clear").click()
        figure = page.locator("figure", has_text="Confusion matrix: true or false, near").first
        figure.locator("svg a[href*='target=true&read=true']").click()
        sync_api.expect(page.locator("#count")).to_contain_text("target “true”, extracted “true”")
        assert verdicts(page) == {"correct"}


def test_runs_side_by_side_can_be_filtered_and_an_answer_shows_the_other_runs_answer(browser, double):
    with opened(browser, double) as page:
        page.locator("select[name=run]").select_option("run-b")
        assert set(page.locator(".card dl dd:last-child").all_inner_texts()) == {"run-b"}
        page.locator(".card").first.click()
        page.wait_for_selector("dialog[open]")
        other = page.locator("dialog a", has_text="run-a")
        assert other.count() == 1
        other.click()
        sync_api.expect(page.locator("#detail-title")).to_contain_text("run-a")


def test_controls_and_tables_have_names_for_those_who_do_not_see(browser, report):
    with opened(browser, report) as page:
        unnamed = page.evaluate("""() => [...document.querySelectorAll('button, select, input, a, figure, section')].filter((node) =>
            !(node.innerText || node.textContent || '').trim() && !node.getAttribute('aria-label') && !node.closest('label') && node.getAttribute('tabindex') !== '-1'
            && !node.getAttribute('aria-labelledby') && !node.closest('svg')).map((node) => node.outerHTML.slice(0, 80))""")
        assert unnamed == []
        assert page.locator("table.scores th:not([scope])").count() == 0
        assert page.evaluate(
            "document.querySelectorAll('[id]').length === new Set([...document.querySelectorAll('[id]')].map((n) => n.id)).size"
        )
