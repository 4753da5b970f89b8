"""Short cuts of the viewer give what the long way gives: margins, samples in memory, the order in which images are read."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from snellen.sources.blobs import BytesBlob
from snellen.types import Image, Prompt, Sample, Text
from snellen.viewer.cases import opened_runs
from snellen.viewer.cases.opened_runs import SampleShelf
from snellen.viewer.index import pages
from snellen.viewer.index.sample_page import ImageRef, SampleRow
from snellen.viewer.pages.samples import thumbnails


def counted_margin(answers):
    counts = sorted(Counter(answer for answer in answers if answer).values(), reverse=True)
    return (counts[0] - (counts[1] if len(counts) > 1 else 0)) / sum(counts) if counts else None


@pytest.mark.parametrize("different", [1, 2, 4, 15, 16, 17, 40, 100_000])
@pytest.mark.parametrize("runs", [1, 2, 3, 20])
def test_margins_are_those_of_counting_each_sample(different, runs):
    answers = np.random.default_rng(runs).integers(0, different + 1, (runs, 700)).astype(np.uint32)
    margins = pages.margins(answers).tolist()
    expected = [counted_margin(column) for column in answers.T.tolist()]
    assert [None if margin != margin else margin for margin in margins] == pytest.approx(expected)


def test_rare_answers_behind_the_probed_samples_count():
    answers = np.ones((3, 1_000), np.uint32)
    answers[:, pages.PROBED :] = np.arange(3 * (1_000 - pages.PROBED)).reshape(3, -1) + 5
    margins = pages.margins(answers)
    assert (margins[: pages.PROBED] == 1.0).all()
    assert (margins[pages.PROBED :] == 0.0).all()


def test_samples_that_hold_their_images_are_let_go_within_the_budget(monkeypatch):
    monkeypatch.setattr(opened_runs, "HELD_BYTES", 50_000)
    begun = []

    def samples():
        begun.append(True)
        for number in range(40):
            blob = BytesBlob(f"image {number}", bytes(10_000))
            yield Sample(f"s{number}", Prompt((Image(blob), Text("Which bird?"))), "A", "short")

    shelf = SampleShelf(samples)
    assert shelf.find("s39").id == "s39"
    assert len(shelf._held) == 4
    assert shelf.find("s38").id == "s38"
    assert len(begun) == 1
    assert shelf.find("s0").id == "s0"
    assert len(begun) == 2
    assert shelf.find("none") is None


def test_an_export_draws_small_copies_in_the_order_of_the_benchmark():
    drawn = []
    links = SimpleNamespace(thumbnail=lambda digest: drawn.append(digest) or f"thumbnails/{digest}")
    site = SimpleNamespace(links=links, index=None, thumbnails=SimpleNamespace(offer=lambda digest, draw: digest))
    places = [("b", 100), ("a", 9), ("a", 10), None, ("b", 2)]
    rows = [
        SampleRow(
            number,
            f"s{number}",
            0,
            "Which bird?",
            () if place is None else (ImageRef(f"{place[0]}{place[1]}", f"{place[0]}:{place[1]}:0"),),
            0 if place is None else 1,
            {},
            (),
        )
        for number, place in enumerate(places)
    ]
    files = ["thumbnails/b100", "thumbnails/a9", "thumbnails/a10", "", "thumbnails/b2"]
    assert thumbnails(site, rows) == files
    assert drawn == ["a9", "a10", "b2", "b100"]
