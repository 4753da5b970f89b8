"""Copy and save buttons of a report in a real browser, opened as a file: what is copied compiles, what is saved is drawn alike."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from opened_page import copied, opened, saved
from PIL import Image as Picture

from latex_page import set_page
from snellen.reports import PairedView, write_report
from snellen.reports.plots.icicle import _tones
from snellen.reports.plots.svg import light_colours
from snellen.reports.views import LabelCounts
from snellen.scoring import statistics

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
pytestmark = pytest.mark.browser

TABLES = ["scores", "diagnosis", "published-1", "compared", "labels"]
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined });"


@pytest.fixture(scope="module")
def page_file(make_run, make_taxonomy_run, make_suite, tmp_path_factory):
    """A report with every kind of table, by runs with hostile names."""
    labels = LabelCounts(40, {"wrong class": {"rule": 25}, "unknown": {"none": 15}})
    first, second = make_run("=run_A", labels=labels), make_suite("b&50%\\", skill=0.4, labels=labels)
    values = [np.array([answer.scores["strict"].value for answer in run.answers()]) for run in (first, second)]
    comparison = statistics.compare(values[1], values[0], np.arange(len(values[0])) // 2)
    runs = [first, second, make_taxonomy_run("tree.B")]
    paired = [PairedView("b&50%\\", "=run_A", "strict", "accuracy", comparison)]
    return write_report(runs, tmp_path_factory.mktemp("copies") / "report.html", comparisons=paired)


@pytest.fixture(scope="module")
def copies(browser, page_file):
    """Text of every table's buttons, as pasted."""
    found: dict[str, dict[str, str]] = {}
    with opened(browser, page_file.as_uri(), permissions=["clipboard-read", "clipboard-write"]) as page:
        page.locator("details").first.evaluate("node => { node.open = true; }")
        tables = page.locator("table[data-copy]")
        assert tables.evaluate_all("tables => tables.map((one) => one.dataset.copy)") == [
            "scores",
            "diagnosis",
            "published-1",
            "compared",
            "labels",
        ]
        assert page.locator("main table").count() == tables.count()
        for name in TABLES:
            place = page.locator(f"table[data-copy='{name}']").locator(
                "xpath=ancestor::*[contains(@class,'scroll')][1]/following-sibling::div[1]"
            )
            buttons = place.get_by_role("button")
            assert buttons.all_inner_texts() == ["Copy as LaTeX", "Copy as CSV"]
            found[name] = {"latex": copied(page, buttons.nth(0)), "csv": copied(page, buttons.nth(1))}
    return found


def test_every_table_is_copied_as_csv_with_full_numbers_and_without_formulas(copies, page_file):
    rows = {name: list(csv.DictReader(io.StringIO(text["csv"]))) for name, text in copies.items()}
    scores = {(row["run"], row["metric"]): row for row in rows["scores"]}
    assert ("'=run_A · strict", "accuracy") in scores
    row = scores["b&50%\\ · strict", "overall_3"]
    assert float(row["low"]) < float(row["value"]) < float(row["high"]) and int(row["n"]) == 120
    assert any("kinship" in row["metric"] or "/" in row["metric"] for row in rows["diagnosis"])
    (pair,) = rows["compared"]
    assert float(pair["difference"]) < 0 and pair["second"] == "'=run_A" and float(pair["p"]) < 0.01
    assert rows["labels"][0]["label"] == "wrong class" and rows["labels"][0]["'=run_A"] == "25"
    published = {row["model"]: row for row in rows["published-1"]}
    assert float(published["Small-7B"]["Near"]) == 35.91 and published["Small-7B"]["source"].startswith("Somebody")
    assert "coverage below 100 %" in published["embedded"]["remarks"]


def test_every_table_copied_as_latex_compiles(copies, tmp_path):
    words = set_page(tmp_path, *(text["latex"] for text in copies.values()))
    for word in ("=run A · strict", "b&50%\\", "wrong class", "Small-7B", "coverage 80.0 %", "cluster sign flips"):
        assert word in words, word


def test_without_the_clipboard_interface_the_selection_is_copied(browser, page_file):
    with opened(browser, page_file.as_uri(), NO_CLIPBOARD) as page:
        button = page.get_by_role("button", name="Copy as CSV: Comparison")
        assert copied(page, button).startswith("first,second,of,profile,difference")
        assert page.locator("textarea").count() == 0


def test_without_a_script_there_are_no_buttons_that_do_nothing(browser, page_file):
    with opened(browser, page_file.as_uri(), java_script_enabled=False) as page:
        assert page.locator(".copies button").count() == 0 and page.locator("#scores table").count() == 1


def shares(first: bytes, second: bytes) -> float:
    """Share of the pixels that are alike, of two pictures of a drawing."""
    a, b = (np.asarray(Picture.open(io.BytesIO(data)).convert("RGB"), dtype=int) for data in (first, second))
    height, width = (min(x, y) for x, y in zip(a.shape[:2], b.shape[:2], strict=True))
    return float((np.abs(a[:height, :width] - b[:height, :width]).max(axis=2) < 40).mean())


ON_WHOLE_PIXELS = """one => {
  const at = one.getBoundingClientRect();
  one.style.position = "relative";
  one.style.left = `${Math.round(at.x) - at.x}px`;
  one.style.top = `${Math.round(at.y) - at.y}px`;
}"""
"""Moves a drawing by a part of a pixel, so that it is rendered as it is alone, whatever stands above it on the page."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_plot_is_saved_as_it_looks_on_a_light_page(browser, page_file, tmp_path, scheme):
    files: dict[str, Path] = {}
    with opened(browser, page_file.as_uri(), color_scheme=scheme, accept_downloads=True) as page:
        names = page.locator("svg[data-name]").evaluate_all("all => all.map((one) => one.dataset.name)")
        assert page.locator("main figure svg").count() == len(names) == len(set(names))
        for name in names:
            button = page.locator(f"figure:has(svg[data-name='{name}'])").get_by_role("button", name="Save SVG")
            files[name] = tmp_path / f"{name}.svg"
            saved(page, button, f"{name}.svg").save_as(files[name])
    for name, path in files.items():
        text = path.read_text("utf-8")
        root = ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and float(root.get("width").removesuffix("pt")) > 100
        assert not any(word in text for word in ("var(", "class=", "oklab", "<script", "#run=", "color-mix")), name
    light = light_colours()
    assert light["series-1"] in files["scores"].read_text() and light["ink"] in files["eye-chart-run-a"].read_text()
    assert "feGaussianBlur" in files["eye-chart-tree-b"].read_text()
    tree = ElementTree.fromstring(files["taxonomy-choice-text-tree-b"].read_text())
    fills = [box.get("fill") for box in tree.iter("{http://www.w3.org/2000/svg}rect")][:11]
    pairs = [
        (int(a[i : i + 2], 16), int(b[i : i + 2], 16)) for a, b in zip(fills, _tones(), strict=True) for i in (1, 3, 5)
    ]
    assert max(abs(a - b) for a, b in pairs) <= 1  # colours of the files that --figures writes are those of the page
    if scheme == "dark":
        return
    with opened(browser, page_file.as_uri()) as page:
        for name in ("scores", "taxonomy-choice-text-tree-b", "eye-chart-tree-b"):
            drawing = page.locator(f"svg[data-name='{name}']")
            drawing.evaluate(ON_WHOLE_PIXELS)
            box = drawing.bounding_box()
            on_page = drawing.screenshot()
            alone = page.context.new_page()
            alone.set_viewport_size({"width": round(box["width"]), "height": round(box["height"])})
            alone.set_content(
                f"<body style='margin:0;background:{light['paper']}'>{files[name].read_text().partition('?>')[2]}"
            )
            alone.add_style_tag(content=f"svg {{ width: {box['width']}px; height: {box['height']}px; display: block }}")
            assert shares(on_page, alone.screenshot()) > 0.97, name
            alone.close()
