"""A report of eleven runs in a real browser: short, sortable by keyboard, names that do not collide, at every width."""

import itertools

import pytest
from msgspec import structs
from opened_page import opened

from snellen.reports import write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
pytestmark = pytest.mark.browser
WIDE = {"viewport": {"width": 1440, "height": 900}}

PART = "the-part-that-looks-best"


@pytest.fixture(scope="module")
def eleven(make_run, make_taxonomy_run, tmp_path_factory):
    """Nine runs of one benchmark, a tenth of which only a part is answered perfectly, and two of another benchmark."""
    runs = [
        make_run(
            f"run-{number}", ("embedded", "api:a-model-with-a-long-name-72B-Instruct")[number % 2], n=40, skill=skill
        )
        for number, skill in enumerate((0.97, 0.9, 0.97, 0.6, 0.5, 0.4, 0.3, 0.2))
    ]
    runs = [
        structs.replace(
            run,
            settings=f"corrupt=blur:{2 * number + 1}",
            state="complete",
            expected=40,
            tokens=(20_000 * (number + 1), 640),
            cost=None if number == 3 else number / 100,
            notes=["Every image was corrupted."] if number else [],
        )
        for number, run in enumerate(runs)
    ]
    part = make_run(PART, n=40, skill=1.0)
    perfect = {
        profile: [structs.replace(m, value=1.0, ci95=(0.9, 1.0), coverage=0.1) for m in metrics if m.unit == "fraction"]
        for profile, metrics in part.metrics.items()
    }
    runs.append(structs.replace(part, metrics=perfect, state="partial", expected=400))
    runs += [make_taxonomy_run("tree-a"), make_taxonomy_run("tree-b", "other")]
    return write_report(runs, tmp_path_factory.mktemp("eleven") / "report.html").as_uri()


def names(page):
    return page.locator("table.runs tbody th a bdi").all_inner_texts()


def column(page, key):
    at = page.locator("table.runs thead th").evaluate_all(
        "(all, key) => all.findIndex((h) => h.dataset.key === key)", key
    )
    rows = page.locator("table.runs tbody:first-of-type tr")
    return rows.evaluate_all("(rows, at) => rows.map((row) => row.cells[at].dataset.key)", at)


def test_eleven_runs_take_less_than_6000_pixels_and_nothing_is_open(browser, eleven):
    with opened(browser, eleven, **WIDE) as page:
        assert page.evaluate("document.documentElement.scrollHeight") < 6000
        assert page.locator("table.runs tbody tr").count() == 11
        assert page.locator("details.fold").count() == 11 and page.locator("details[open]").count() == 0


@pytest.mark.parametrize("width", [420, 1440, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_width_scrolls_sideways_and_no_name_leaves_its_cell(browser, eleven, scheme, width):
    with opened(browser, eleven, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            page.evaluate("""() => [...document.querySelectorAll("table.runs th bdi, table.runs td bdi, .eyes h3 bdi")]
            .filter((node) => node.getBoundingClientRect().right > node.closest("th, td, figure").getBoundingClientRect().right + 1)
            .map((node) => node.textContent)""")
            == []
        )


def test_every_column_sorts_by_keyboard_and_a_part_never_stands_above_a_whole(browser, eleven):
    with opened(browser, eleven, **WIDE) as page:
        before = names(page)
        keys = page.locator("table.runs th[data-key]").evaluate_all("all => all.map((one) => one.dataset.key)")
        headings = [key for key in keys if page.locator(f"table.runs thead th[data-key='{key}']").count()]
        assert {
            "run",
            "benchmark",
            "settings",
            "score",
            "n",
            "coverage",
            "errors",
            "unparsed",
            "tokens",
            "cost",
        } == set(headings)
        for key in headings:
            button = page.locator(f"table.runs thead th[data-key='{key}'] button")
            orders = []
            for _ in range(3):
                button.focus()
                page.keyboard.press("Enter")
                assert names(page)[-1] == PART and set(names(page)) == set(before)
                assert "incomplete: 40 of 400" in page.locator("table.runs tr.incomplete").inner_text()
                orders.append(
                    page.locator("table.runs thead [aria-sort]").evaluate_all("a => a.map((h) => h.ariaSort)")
                )
            assert sorted(orders[:2]) == [["ascending"], ["descending"]] and orders[2] == [], key
            assert names(page) == before


def test_numbers_sort_as_numbers_missing_ones_stay_last_and_the_address_keeps_the_order(browser, eleven):
    with opened(browser, eleven, **WIDE) as page:
        page.locator("th[data-key='tokens'] button").click()
        tokens = [float(text) for text in column(page, "tokens") if text]
        assert tokens == sorted(tokens, reverse=True) and len(tokens) == 8
        page.locator("th[data-key='cost'] button").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Space")
        costs = column(page, "cost")
        assert [float(text) for text in costs[:7]] == sorted(float(text) for text in costs[:7]) and set(costs[7:]) == {
            ""
        }
        order, address = names(page), page.url
        page.locator("#verdicts button", has_text="wrong").click()
        assert "runs=cost" in page.url and names(page) == order
        page.locator("#clear").click()
        assert page.url == address
    with opened(browser, address, **WIDE) as page:
        assert names(page) == order and page.evaluate("scrollY") == 0


def test_a_name_opens_the_folded_run_with_its_facts_and_plots(browser, eleven):
    with opened(browser, eleven, **WIDE) as page:
        page.locator("table.runs a", has_text="run-3").click()
        fold = page.locator("details.fold[open]")
        sync_api.expect(fold).to_have_count(1)
        assert "run-3" in fold.locator("summary").inner_text() and "Every image was corrupted." in fold.inner_text()
        sync_api.expect(fold.locator("svg.plot").first).to_be_visible()
    with opened(browser, f"{eleven}#run-2", **WIDE) as page:
        assert "run-1" in page.locator("details.fold[open] summary").inner_text()


def test_names_at_lines_do_not_cover_each_other(browser, eleven):
    with opened(browser, eleven, **WIDE) as page:
        figures = page.locator("#plots figure", has_text="Accuracy from coarse to fine")
        assert figures.count() > 0
        for figure in figures.all():
            boxes = figure.locator("svg text").evaluate_all("""all => all.map((one) => [one.textContent.trim(),
                one.getBoundingClientRect().top, one.getBoundingClientRect().bottom])
                .filter(([text]) => /^(run-|tree-|the-part)/.test(text))""")
            assert len(boxes) >= 2
            boxes.sort(key=lambda box: box[1])
            for (_, _, bottom), (name, top, _) in itertools.pairwise(boxes):
                assert top >= bottom - 0.5, name


def test_eye_charts_of_a_benchmark_have_the_same_words_and_a_blur_of_their_own(browser, eleven):
    with opened(browser, eleven, **WIDE) as page:
        words = page.locator("#charts figure").evaluate_all(
            "all => all.map((one) => [...one.querySelectorAll('.word')].map((word) => word.textContent.trim()).join(' '))"
        )
        assert len(words) >= 9 and len(set(words)) == 2
        blurs = page.locator("#charts feGaussianBlur").evaluate_all(
            "all => all.map((one) => one.stdDeviationX.baseVal)"
        )
        assert len({round(blur, 3) for blur in blurs}) > 8


def test_scores_and_order_need_no_script_and_no_button_does_nothing(browser, eleven):
    with opened(browser, eleven, **WIDE, java_script_enabled=False) as page:
        assert names(page)[-1] == PART and page.locator("table.runs button").count() == 0
        page.locator("details.fold summary").first.click()
        assert page.locator("details.fold[open] .facts").count() == 1


def test_the_printed_page_has_all_runs_and_no_controls(browser, eleven):
    with opened(browser, eleven, **WIDE) as page:
        page.emulate_media(media="print")
        assert page.locator("table.runs tbody tr").count() == 11 and page.locator("table.runs").is_visible()
        assert not page.locator(".copies").first.is_visible() and not page.locator("nav").is_visible()
