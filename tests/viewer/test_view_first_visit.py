"""Pages that are opened first, before any other page has prepared something for them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from browser_checks import serving

LIMIT = 12


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the embedded model, and one that was shown grey images."""
    from snellen.runs.evaluate import evaluate
    from snellen.types import MediaSettings

    root = tmp_path_factory.mktemp("results")
    evaluate("chart/digits", model="embedded", limit=LIMIT, out=root / "seen")
    evaluate("chart/digits", model="embedded", limit=LIMIT, out=root / "blind", media=MediaSettings(blank=True))
    return root


def waited_for(address: str) -> str:
    """Load a page as a browser does: again, as long as it says that it waits for the index or for the data."""
    while True:
        with urlopen(address) as response:
            page = response.read().decode()
            if response.status == 200:
                return page
            assert response.status == 202 and "being read" in page
            time.sleep(float(response.headers["Refresh"]) / 4)


def test_the_comparison_shows_its_images_although_no_samples_page_was_open(results):
    with serving(results) as address:
        page = waited_for(f"{address}/compare?runs=seen&runs=blind")
        images = re.findall(r'<img src="([^"]+)"', page)
        assert images
        for image in images:
            with urlopen(address + image) as response:
                assert response.status == 200 and response.headers["Content-Type"].startswith("image/"), image


def test_an_unknown_address_gives_a_page_that_leads_on(results):
    with serving(results) as address, pytest.raises(HTTPError) as refused:
        urlopen(f"{address}/{quote('nowhere<script>')}")
    page = refused.value.read().decode()
    assert refused.value.code == 404 and "There is no page /nowhere" in page and "<script>'" not in page
    assert "nowhere<script>" not in page and "All runs" in page and "Content-Security-Policy" in refused.value.headers


def test_an_image_that_a_local_model_was_shown_is_that_of_its_trace(results):
    """Local models record digests of pixels, since no file is sent."""
    with serving(results) as address:
        samples = f"{address}/samples?benchmark=chart%2Fdigits&runs=seen&runs=blind"
        while (case := re.search(r'href="(/case\?[^"]+)"', waited_for(samples))) is None:
            time.sleep(0.1)  # its rows come as the index is made
        page = waited_for(address + case.group(1).replace("&amp;", "&"))
    assert "its digest is in the trace" in page and "equal to the trace" in page
    assert "another digest" not in page
