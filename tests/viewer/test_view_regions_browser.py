"""Gold and answer on the picture, in a real browser: on case and review pages, in an export, in a report and of a check."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_checks import THEMES, check_page, opened, serving
from region_runs import box_run, point_run, twenty_run, write_images

import snellen
from snellen.cli import main
from snellen.reports.collect import collect_runs
from snellen.reports.render import _drawings
from snellen.reports.runs import run_view
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import PageLimits
from snellen.runs.run import load_run
from snellen.scoring.rubric import gold_forms
from snellen.viewer.cases.opened_runs import OpenedRuns, Seal
from snellen.viewer.cases.replies import reply_view
from snellen.viewer.export import export_site
from snellen.viewer.site import ViewSettings
from snellen.viewer.states import CaseState, ReviewState

pytestmark = pytest.mark.browser

SHAPES = """() => [...document.querySelectorAll('.views')].filter((views) => views.offsetWidth).map((views) => [...views.children].map((view) => {
    const frame = view.getBoundingClientRect(), image = view.querySelector('img').getBoundingClientRect();
    const parts = [...view.querySelectorAll('svg > *')].map((part) => {
        const box = part.getBoundingClientRect(), style = getComputedStyle(part);
        return { name: part.tagName, kind: part.getAttribute('class'), text: part.textContent, left: box.left - frame.left, top: box.top - frame.top,
            right: frame.right - box.right, bottom: frame.bottom - box.bottom, width: box.width, height: box.height,
            stroke: style.stroke, fill: style.fill, dash: style.strokeDasharray, font: box.height };
    });
    return { width: frame.width, height: frame.height, image: [image.width, image.height], natural: view.querySelector('img').naturalWidth,
        told: view.querySelector('svg').getAttribute('aria-label'), caption: views.nextElementSibling.textContent, parts };
}))"""
"""Of each picture on the page and its magnified part: the place of each shape within it, in pixels of the window."""
DECODED = "Promise.all([...document.images].map((image) => { image.loading = 'eager'; return image.decode().catch(() => 0); }))"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("regions")
    write_images(root / "images")
    for run in (box_run, twenty_run, point_run):
        run(root)
    return root


@pytest.fixture(scope="module")
def address(root: Path):
    with serving(root / "results", reviewer="ada") as url:
        yield url


def pictures(page) -> list[list[dict]]:
    """Return the pictures of a page, after a look at what every one of them has to be."""
    page.evaluate(DECODED)
    shown = page.evaluate(SHAPES)
    for view in (view for views in shown for view in views):
        assert view["natural"] > 0 and view["image"] == pytest.approx([view["width"], view["height"]], abs=1)
        for part in view["parts"]:
            inside = min(part["left"], part["top"], part["right"], part["bottom"])
            assert part["kind"] == "frame" or part["name"] == "circle" or inside > -4, (view["told"], part)
            if part["name"] == "text":
                assert inside > -1 and part["font"] >= 8, part
    return shown


def shapes(view: dict, kind: str) -> list[dict]:
    return [part for part in view["parts"] if part["kind"] == kind]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [420, 1440])
def test_a_box_of_six_pixels_in_a_large_image_is_magnified_until_it_can_be_seen(browser, address, theme, width):
    with opened(
        browser, f"{address}/case?{CaseState(sample='small', runs=('box',)).query()}", theme=theme, width=width
    ) as page:
        check_page(page)
        (views,) = pictures(page)
        whole, part = views
        assert len(shapes(whole, "frame")) == 1 and shapes(whole, "frame")[0]["width"] >= 15
        assert shapes(whole, "frame")[0]["left"] / whole["width"] == pytest.approx(3003 / 4000, abs=0.05)
        gold, wrong = shapes(part, "line gold")[0], shapes(part, "line wrong")[0]
        assert gold["width"] > 40 and gold["height"] > 40 and wrong["left"] > gold["left"]
        assert gold["stroke"] != wrong["stroke"] and gold["dash"] != wrong["dash"]
        assert [tag["text"] for tag in part["parts"] if tag["name"] == "text"] == ["gold", "✗ answer"]
        assert (
            "IoU 0.238" in whole["caption"] and "IoU 0.238" in whole["told"] and "3000 2200 3006 2206" in whole["told"]
        )


@pytest.mark.parametrize("theme", THEMES)
def test_twenty_boxes_points_a_polygon_and_a_mask_are_in_their_pictures_and_can_be_told_apart(browser, address, theme):
    found = {}
    runs = {"twenty": ("twenty",), "box": ("turned", "none"), "point": ("point", "polygon", "mask", "corner")}
    for run, sample in ((run, sample) for run, samples in runs.items() for sample in samples):
        state = CaseState(sample=sample, runs=(run,))
        with opened(browser, f"{address}/case?{state.query()}", theme=theme) as page:
            check_page(page)
            ((found[sample],),) = pictures(page)
    assert len(shapes(found["twenty"], "line gold")) == 20
    marks = [len(shapes(found["twenty"], f"line {kind}")) for kind in ("right", "wrong")]
    assert sum(marks) == 20 and min(marks) > 3 and "F1 0.500" in found["twenty"]["caption"]
    assert all(part["width"] > 60 for part in shapes(found["twenty"], "line gold"))
    for sample in ("point", "corner"):
        ring = shapes(found[sample], "line gold")[0]
        assert 14 <= ring["width"] <= 22 and ring["fill"] == "none"
    dot = shapes(found["polygon"], "line right")[0]
    assert 14 <= dot["width"] <= 22 and dot["fill"] != "none"
    assert shapes(found["mask"], "area gold")[0]["width"] == pytest.approx(299 / 640 * found["mask"]["width"], abs=4)
    assert found["turned"]["height"] > found["turned"]["width"]  # EXIF rotation applied
    assert shapes(found["turned"], "line gold")[0]["left"] == pytest.approx(440 / 600 * found["turned"]["width"], abs=3)
    assert "no answer was read" in found["none"]["caption"] and not shapes(found["none"], "line wrong")


def test_a_review_draws_the_answer_without_its_verdict(browser, address):
    state = ReviewState(run="box", step="queue", reviewer="ada", sample="small")
    with opened(browser, f"{address}/review?{state.query()}") as page:
        check_page(page)
        ((_, part),) = pictures(page)
        assert len(shapes(part, "line neutral")) == 1 and not shapes(part, "line wrong")
        assert "wrong" not in part["caption"] + part["told"] and page.locator("figure.regions .wrong").count() == 0


def test_a_hidden_gold_answer_is_not_drawn(root):
    opened_run = OpenedRuns().open("box", root / "results" / "box")
    sample, _ = opened_run.sample("turned")
    record = opened_run.record("turned", 0)
    assert reply_view(opened_run, sample, record, None, Seal()).shapes is not None
    for seal in (Seal(gold_forms(sample)), Seal(withheld=True)):
        assert reply_view(opened_run, sample, record, None, seal).shapes is None


def test_pictures_of_a_report_have_room_for_incorrect_answers_first_and_what_is_left_out_is_counted(root):
    views = [run_view(load_run(root / "results" / name, trust=True), name=name) for name in ("box", "twenty", "point")]
    gathered = collect_runs(views, PageLimits())
    for room, left_out in ((12_000_000, 0), (6_000, 4)):
        drawings = _drawings(gathered.gallery, album := ThumbnailAlbum(PageLimits()), room)
        ranks = [answer.rank for number, answer in enumerate(gathered.gallery) if number not in drawings]
        assert album.left_out >= left_out and len(drawings) == 8 - album.left_out and (not ranks or max(ranks) == 2)


def test_an_export_and_a_report_draw_the_same_from_files_alone(browser, root, tmp_path):
    export_site(ViewSettings(root / "results"), tmp_path / "site")
    (page_of_small,) = [
        path for path in (tmp_path / "site").glob("case*.html") if "3000 2200 3006 2206" in path.read_text("utf-8")
    ]
    with opened(browser, page_of_small.as_uri()) as page:
        ((whole, part),) = pictures(page)
        assert shapes(part, "line gold")[0]["width"] > 40
    runs = [root / "results" / name for name in ("box", "twenty", "point")]
    report = snellen.report(runs, tmp_path / "report.html")
    with opened(browser, report.as_uri()) as page:
        assert page.locator(".card svg.none, .card .strip svg").count() == 8
        page.locator(".card", has_text="small").first.click()
        page.wait_for_selector("dialog figure.regions")
        assert page.locator("dialog .view").count() == 2
        page.evaluate(DECODED)
        drawn = page.evaluate(SHAPES)[-1]
        assert [view["told"] for view in drawn] == [whole["told"], part["told"]]
        assert shapes(drawn[1], "line gold")[0]["width"] > 40


@pytest.mark.parametrize("theme", THEMES)
def test_the_page_of_a_check_draws_the_golds(browser, root, tmp_path, theme, capsys):
    for name, options in (("box", ()), ("twenty", ("--kind", "boxes")), ("point", ("--kind", "point"))):
        out = tmp_path / f"{name}.html"
        words = ["check", root / f"{name}.jsonl", "--images", root / "images", "--page", out, "-q", *options]
        assert main([str(word) for word in words]) in (0, None), capsys.readouterr().err
        with opened(browser, out.as_uri(), theme=theme, width=900) as page:
            check_page(page)
            shown = pictures(page)
            space = "pixel:xy " if name == "point" else "pixel:xyxy"
            assert f"gold coordinates are {space}" in page.locator(".note").first.inner_text()
            assert len(shown) == {"box": 3, "twenty": 1, "point": 4}[name]
            assert all(shapes(views[-1], "line gold") for views in shown)
