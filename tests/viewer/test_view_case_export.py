"""The case page in an export: relative links, next and previous over all samples, shared small copies, no path of the machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from case_runs import IDS, ask, write_questions

from snellen.viewer.index.view_index import open_index
from snellen.viewer.labels import without_folders
from snellen.viewer.links import StaticLinks
from snellen.viewer.pages import load_pages
from snellen.viewer.rendering import render_page
from snellen.viewer.site import Site, ViewSettings
from snellen.viewer.states import CaseState


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; the data of one of them is away."""
    root = tmp_path_factory.mktemp("case-export")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-key-of-the-model-0123456789")
        ask(write_questions(root / "data"), root / "results" / "plain", ["A", "B", "A and B"])
        gone = write_questions(root / "gone", name="birds.csv")
        ask(gone, root / "results" / "away", ["C", "C", "C"])
    (root / "gone" / "birds.csv").unlink()
    return root / "results"


@pytest.fixture
def site(results):
    index = open_index(results)
    index.refresh()
    return Site(ViewSettings(results), StaticLinks(), index)


def html(site: Site, **fields) -> str:
    pages = load_pages()
    state = CaseState(**fields)
    return render_page(site, pages["case"], state, pages["case"].view(site, state), list(pages.values())).html


def addresses(page: str) -> list[str]:
    return re.findall(r'(?:href|src)="([^"]*)"', page)


def test_an_exported_case_has_relative_links_and_no_path(site, results):
    benchmark = str(results.parent / "data" / "birds.csv")
    page = html(site, benchmark=benchmark, sample="q1")
    assert str(results.parent) not in page and "birds.csv" in page and "/exchange" not in page
    for address in addresses(page):
        assert address.startswith("data:image/svg") or re.fullmatch(r"[\w./-]*(#.*)?", address), address
        assert not address.startswith(("/", ".."))
    assert len(site.links.thumbnails) == 1 and not site.links.images


def test_exported_cases_walk_all_samples_in_the_order_of_the_list(site, results):
    benchmark = str(results.parent / "data" / "birds.csv")
    first = html(site, benchmark=benchmark, sample=IDS[0])
    linked = {state.sample for state in site.links.pages.values() if isinstance(state, CaseState)}
    for sample in IDS[1:]:
        html(site, benchmark=benchmark, sample=sample)
    linked |= {state.sample for state in site.links.pages.values() if isinstance(state, CaseState)}
    assert linked == set(IDS)
    assert "of 3" in first


def test_an_exported_case_of_a_run_without_its_data_names_no_file(site, results):
    page = html(site, benchmark=str(results.parent / "gone" / "birds.csv"), sample="q1")
    assert "could not be read" in page and str(results.parent) not in page


@pytest.mark.parametrize(
    ("settings", "exported"),
    [
        ("images=/home/ada/pics, max_long_side=32", "images=pics, max_long_side=32"),
        ("base_url=http://127.0.0.1:8000/v1", "base_url=http://127.0.0.1:8000/v1"),
        (r"data=C:\\Users\\ada\\x.csv", "data=x.csv"),
        ("model.name=org/model", "model.name=org/model"),
    ],
)
def test_settings_of_an_export_name_no_folder(settings, exported):
    assert without_folders(settings) == exported


def test_small_copies_are_those_of_the_samples_page(site, results):
    benchmark = str(results.parent / "data" / "birds.csv")
    html(site, benchmark=benchmark, sample="q1")
    (digest,) = site.links.thumbnails
    from snellen.viewer.index import SampleQuery

    row = next(row for row in site.index.samples(SampleQuery(benchmark)).rows if row.sample_id == "q1")
    assert row.images[0].digest == digest
    assert site.thumbnails.get(digest) is not None
