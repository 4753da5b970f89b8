"""The pages Matrix and Compare, served and in a browser: every cell, every address, every width, and keys alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from browser_checks import check_page, every_shape, opened, serving
from PIL import Image
from scored_runs import write_runs

import snellen
from snellen.errors import UsageError
from snellen.runs.compare import compare
from snellen.runs.compared_runs import ComparedRun
from snellen.runs.run import load_run
from snellen.viewer.index import open_index
from snellen.viewer.links import LiveLinks, StaticLinks
from snellen.viewer.pages import load_pages
from snellen.viewer.rendering import render_page
from snellen.viewer.site import MissingPageError, Site, ViewSettings
from snellen.viewer.states import CompareState, MatrixState

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")

ADA, BERT, CLEO = "birds/ada", "birds/bert", "birds/cleo"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models on two tables of questions; the last one answered a half of the second."""
    root = tmp_path_factory.mktemp("results")
    write_runs(
        root,
        {"ada": 0.95, "bert": 0.6, "cleo": 0.9},
        names=("birds", "cars"),
        levels=("order", HOSTILE),
        partial=("cleo",),
    )
    return root


@pytest.fixture(scope="module")
def index(results: Path):
    index = open_index(results)
    index.refresh()
    return index


@pytest.fixture(scope="module")
def address(results: Path, index):
    with serving(results) as url:
        yield url


def site(index, *, live: bool = True) -> Site:
    return Site(ViewSettings(index.root), LiveLinks() if live else StaticLinks(), index)


def html(index, state, *, live: bool = True) -> str:
    page, own = load_pages()[state.page], site(index, live=live)
    return render_page(own, page, state, page.view(own, state), list(load_pages().values())).html


def view(index, state, *, live: bool = True):
    return load_pages()[state.page].view(site(index, live=live), state)


def birds(results: Path) -> str:
    return str(results / "birds.jsonl")


def test_scores_of_the_index_are_those_that_snellen_compare_reads(results, index):
    for key in (ADA, BERT, "cars/cleo"):
        ours, theirs = index.scores(key, "strict"), ComparedRun(load_run(results / key)).scores("strict")
        for name in ("value", "question", "group", "verdict"):
            assert (getattr(ours, name) == getattr(theirs, name)).all(), name
        assert ours.expected == theirs.expected
        mine, other = ours.meta["category"], theirs.meta["category"]
        assert [mine.names[code] for code in mine.codes] == [other.names[code] for code in other.codes]
    assert index.scores(ADA, "no such profile") is None
    with pytest.raises(UsageError, match="no run"):
        index.scores("birds/nobody")


def test_the_matrix_shows_every_model_with_the_coverage_of_its_mean(index):
    result = view(index, MatrixState())
    rows = {row.label.removesuffix(".jsonl").removeprefix("replay:"): row for row in result["rows"]}
    assert set(rows) == {"ada", "bert", "cleo"}
    assert [column.label for column in result["columns"]] == ["birds.jsonl", "cars.jsonl"]
    assert rows["cleo"].coverage == "2 of 2" and not rows["cleo"].whole
    assert "cars.jsonl" in rows["cleo"].missing and rows["cleo"].cells[1].partial == "50.0 % of the samples"
    assert rows["ada"].whole and result["rows"][-1] is rows["cleo"]
    heat = html(index, MatrixState(view="heat"))
    assert "50.0 % of the samples" in heat and "2 of 2" in heat


def test_the_matrix_of_one_benchmark_has_its_slices_with_the_scores_of_summaries(results, index):
    result = view(index, MatrixState(benchmark=birds(results), by="category"))
    assert [column.label for column in result["columns"]] == [HOSTILE, "order"]
    scores = ComparedRun(load_run(results / ADA)).scores("strict")
    mask = scores.meta["category"].codes == scores.meta["category"].names.index("order")
    row = next(row for row in result["rows"] if "ada" in row.label)
    assert row.cells[1].fields["text"] == f"{100 * scores.value[mask].mean():.1f} %"
    parts = view(index, MatrixState(benchmark=birds(results)))
    assert parts["columns"][0].label == "accuracy" and len(parts["rows"]) == 3


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (MatrixState(benchmark="no such benchmark"), MissingPageError),
        (CompareState(runs=("birds/ada",)), UsageError),
        (CompareState(runs=("birds/ada", "birds/nobody")), MissingPageError),
        (CompareState(runs=("birds/ada", "birds/ada")), UsageError),
        (CompareState(runs=("birds/ada", "cars/ada")), UsageError),
        (CompareState(runs=("birds/ada", "birds/bert"), profile="nobody's"), UsageError),
        (CompareState(models=("a", "b")), UsageError),
        (CompareState(models=("a",)), UsageError),
    ],
)
def test_addresses_that_name_what_is_not_there_are_refused_in_words(index, state, error):
    with pytest.raises(error) as caught:
        view(index, state)
    assert caught.value.message and caught.value.hint


def test_a_field_that_is_not_there_is_named_with_those_that_are(results, index):
    with pytest.raises(UsageError, match="nothing") as caught:
        view(index, MatrixState(benchmark=birds(results), by="nothing"))
    assert "category" in caught.value.hint
    assert view(index, CompareState(runs=(ADA, BERT), by="nothing"))["tables"] == []


def test_the_comparison_is_that_of_the_command_line(results, index):
    (pairing,) = compare(results / ADA, results / BERT, flips=True)
    result = view(index, CompareState(runs=(ADA, BERT)))
    assert result["comparison"].pairs[0].comparison == pairing.parts[0].comparison
    wins, losses = result["flips"]
    assert wins.total == sum(flip.other > flip.baseline for flip in pairing.flips)
    assert losses.total == sum(flip.other < flip.baseline for flip in pairing.flips)
    expected = {flip.sample_id for flip in pairing.flips if flip.other < flip.baseline}
    assert {row.sample_id for row in losses.rows} <= expected
    assert len(losses.rows) == min(8, losses.total)
    method = pairing.parts[0].comparison.interval
    assert method is not None and f"95 % interval: {method.text}." in html(index, CompareState(runs=(ADA, BERT)))


def test_a_comparison_names_the_cluster_of_its_interval_in_the_word_of_the_benchmark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abcdef":
        Image.new("RGB", (32, 32), (ord(name), 0, 0)).save(f"{name}.png")
    rows = [f"{i},Which of {i}?,yes,no,A,{'abcdef'[i // 4]}.png" for i in range(24)]
    Path("mine.csv").write_text("\n".join(["id,question,A,B,answer,image", *rows]) + "\n")
    for name, wrong in (("first", range(4)), ("second", range(2, 12))):
        Path(f"{name}.csv").write_text("id,reply\n" + "".join(f"{i},{'AB'[i in wrong]}\n" for i in range(24)))
        snellen.evaluate("mine.csv", f"replay:{name}.csv", out=f"results/{name}")
    own = open_index(Path("results"))
    own.refresh()
    (pairing,) = compare("results/first", "results/second")
    method = pairing.parts[0].comparison.interval
    assert method is not None and method.cluster == "image"
    assert f"95 % interval: {method.text}." in html(own, CompareState(runs=("first", "second")))


def test_more_rows_than_a_page_takes_are_the_best_ones_until_all_are_asked_for(results, index, monkeypatch):
    from snellen.viewer.pages import matrix

    monkeypatch.setattr(matrix, "MOST_ROWS", 2)
    for state in (MatrixState(benchmark=birds(results)), MatrixState(benchmark=birds(results), by="category")):
        few, every = view(index, state), view(index, state.changed(every=True))
        assert (len(few["rows"]), len(every["rows"])) == (2, 3)
        assert any(choice.label == "the best 2 of 3" for _, group in few["groups"] for choice in group)
        assert {row.label for row in few["rows"]} < {row.label for row in every["rows"]}
        assert not any("bert" in row.label for row in few["rows"])
    assert len(view(index, MatrixState(benchmark=birds(results)), live=False)["rows"]) == 3


def test_models_are_resolved_to_their_runs_of_a_benchmark_that_all_have(results, index):
    models = [entry.model for entry in index.runs() if entry.key in (ADA, BERT)]
    result = view(index, CompareState(models=tuple(models)))
    assert [side.entry.key for side in result["comparison"].sides] == [ADA, BERT]
    cars = CompareState(models=tuple(models), benchmark=str(results / "cars.jsonl"))
    assert [side.entry.key for side in view(index, cars)["comparison"].sides] == ["cars/ada", "cars/bert"]


def test_runs_of_other_limits_say_so_and_say_what_was_paired(index):
    result = view(index, CompareState(runs=("cars/ada", "cars/cleo")))
    notes = " ".join(result["notes"])
    assert "--limit none and 30" in notes
    assert "30 samples are paired" in notes and "30 that only A has" in notes
    assert [name for name, _ in result["settings"]] == ["model.answers"] or result["settings"] == []


def test_runs_of_other_samples_are_paired_by_equal_ids_only_if_forced(index):
    with pytest.raises(UsageError, match="same samples") as caught:
        view(index, CompareState(runs=("birds/ada", "cars/ada")))
    assert "force=1" in caught.value.hint


def test_texts_of_runs_stay_texts(results, index):
    states = [
        MatrixState(benchmark=birds(results), by="category"),
        MatrixState(benchmark=birds(results), by="category", view="heat"),
        CompareState(runs=(ADA, BERT, CLEO)),
        CompareState(runs=(ADA, BERT), by="category"),
    ]
    for state in states:
        page = html(index, state)
        assert "<img src=x" not in page and "&lt;img src=x" in page


def test_an_export_has_every_pair_once_as_a_page_and_no_path(results, index):
    own, pages = site(index, live=False), load_pages()
    queue, done = [MatrixState(), CompareState()], {}
    while queue:
        state = queue.pop().static()
        if state.file_name() in done or state.page not in ("matrix", "compare"):
            continue
        page = pages[state.page]
        done[state.file_name()] = render_page(own, page, state, page.view(own, state), list(pages.values())).html
        queue += list(own.links.pages.values())
    compared = [name for name in done if name.startswith("compare-")]
    # All three runs and every ordered pair of each of the two tables, and the runs in the matrices' own orders.
    assert 14 <= len(compared) <= 24
    for text in done.values():
        assert str(results) not in text
        assert re.findall(r"<form(?! method=\"dialog\")", text) == []
        targets = re.findall(r"(?:href|src|action)=\"([^\"]*)\"", text)
        assert [
            target for target in targets if not re.match(r"#|data:|assets/|[a-z]+(-[0-9a-f]+)?\.html", target)
        ] == []


@pytest.mark.browser
@every_shape
def test_both_pages_fit_and_are_quiet_at_every_width_in_both_themes(browser, results, address, width, theme):
    states = [
        MatrixState(),
        MatrixState(view="heat"),
        MatrixState(benchmark=birds(results), by="category"),
        CompareState(runs=(ADA, BERT)),
        CompareState(runs=(ADA, BERT, CLEO)),
        CompareState(),
    ]
    for state in states:
        with opened(browser, address + LiveLinks().to(state), width=width, theme=theme) as page:
            assert page.locator("h2").first.is_visible()
            check_page(page)


@pytest.mark.browser
def test_two_models_are_selected_and_compared_by_keys_alone(browser, address):
    with opened(browser, address + LiveLinks().to(MatrixState(view="heat"))) as page:
        for key in ("j", "x", "j", "x", "c"):
            page.keyboard.press(key)
        page.wait_for_url("**/compare?*")
        assert page.locator("#difference-title").is_visible() and page.locator(".sides li").count() == 2
        assert page.locator("table.differences tbody tr").count() == 1


@pytest.mark.browser
def test_selected_rows_are_shown_alone_and_all_of_them_again(browser, results, address):
    for state, rows in ((MatrixState(), 2), (MatrixState(benchmark=birds(results), view="heat"), 2)):
        with opened(browser, address + LiveLinks().to(state)) as page:
            before = page.locator("[data-row]").count()
            page.locator("[data-row] input").nth(0).check()
            page.locator("[data-row] input").nth(1).check()
            with page.expect_navigation():
                page.keyboard.press("o")
            assert page.locator("[data-row]").count() == rows < before
            assert page.locator("table.heat").count() == (state.view == "heat")
            page.get_by_role("link", name="all", exact=True).click()
            sync_api.expect(page.locator("[data-row]")).to_have_count(before)


@pytest.mark.browser
def test_a_run_is_added_made_the_baseline_and_removed(browser, address):
    with opened(browser, address + LiveLinks().to(CompareState(runs=(ADA, BERT)))) as page:
        page.locator("form.add button").click()
        sync_api.expect(page.locator(".sides li")).to_have_count(3)
        sync_api.expect(page.locator(".square")).to_have_count(2)
        page.get_by_label("make baseline: C").click()
        sync_api.expect(page.locator(".sides li").first).to_contain_text("cleo")
        with page.expect_navigation():
            page.get_by_label("remove B").click()
        assert page.locator(".sides li").count() == 2 and "ada" not in page.locator(".sides").inner_text()


@pytest.mark.browser
def test_the_matrix_is_sorted_and_turned_to_a_heat_map_by_its_address(browser, address):
    with opened(browser, address + LiveLinks().to(MatrixState())) as page:
        page.get_by_role("link", name="heat map").click()
        page.wait_for_url("**view=heat**")
        labels = page.locator("table.heat tbody th bdi")
        first = labels.first.inner_text()
        page.locator("th .sort", has_text="model").click()
        page.wait_for_url("**sort=name**")
        names = labels.all_inner_texts()
        assert names == sorted(names)
        page.locator("th .sort", has_text="model").click()
        sync_api.expect(labels).to_have_text(names[::-1])
        assert first in names


@pytest.mark.browser
def test_values_are_texts_beside_every_drawing(browser, results, address):
    with opened(browser, address + LiveLinks().to(MatrixState(view="heat"))) as page:
        cells = page.locator("table.heat td.toned")
        assert cells.count() == 6
        assert all("%" in text for text in cells.all_inner_texts())
        assert page.locator("table.heat td.toned svg[aria-hidden=true]").count() == 6
    with opened(browser, address + LiveLinks().to(CompareState(runs=(ADA, BERT), by="category"))) as page:
        assert page.locator(".slope svg[role=img]").get_attribute("aria-label") == "Scores by category"
        assert page.locator("table.slices tbody tr").count() == 2
        assert json.dumps(page.locator(".slope title").all_text_contents()).count("%") == 4
