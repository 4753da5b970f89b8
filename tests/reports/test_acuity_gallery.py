"""The gallery of a report of acuity: few answers of every condition, drawn near its threshold, and no more pictures than fit."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise

import pytest

from keyed_observers import KeyedObserver, observed_run
from snellen.benchmarks.base import Data
from snellen.media.encode import compress
from snellen.reports.acuity.view import SHARES, ThresholdSample, acuity_view
from snellen.reports.runs import report, run_view
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import PageLimits
from snellen.sources.blobs import Drawn
from snellen.types import Image


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    data = Data(options={"attributes": "gap,count,link,orientation"}, seed=8)
    return observed_run(tmp_path_factory.mktemp("runs") / "observer", KeyedObserver(data, {"gap": 0.6, "count": 0.5}))


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))


def test_the_gallery_has_few_answers_of_every_condition(measured, tmp_path):
    page = report(measured, tmp_path / "report.html").read_text("utf-8")
    data, asked = data_of(page), acuity_view(measured).questions
    by_condition = Counter(data["questions"][answer["q"]]["by"]["condition"] for answer in data["answers"])
    assert set(by_condition) == {"gap@512", "count@512", "link@512", "orientation@512"}
    assert max(by_condition.values()) <= sum(SHARES.values()) < asked / 4
    verdicts = Counter(answer["v"][0][0] for answer in data["answers"])
    assert verdicts["correct"] >= 4 and verdicts["wrong"] >= 4
    shown = len(data["answers"])
    assert f"Showing {shown:,} of {asked:,} answers and leaving out {asked - shown:,}" in page
    assert page.count('"p":') == sum(2 if q["by"]["condition"] == "link@512" else 1 for q in data["questions"])


def test_answers_are_those_nearest_to_the_threshold(measured):
    view, answers = acuity_view(measured), list(run_view(measured).answers())
    sample = ThresholdSample(view, 1_000)
    for order, answer in enumerate(answers):
        sample.offer(answer, order, order, lambda answer=answer: answer)
    drawn = sample.drawn()
    (gap,) = [each.result for each in view.conditions if each.result.condition.name == "gap"]
    middle = sum(gap.estimate.interval) / 2

    def distances(chosen):
        return sorted(
            abs(float(a.meta["level"]) - middle)
            for a in chosen
            if a.meta["condition"] == "gap@512" and a.scores["strict"].verdict == "wrong" and a.meta["slot"] != "7"
        )

    chosen, every = distances(drawn), distances(answers)
    assert len(chosen) == SHARES["wrong"] < len(every)
    assert chosen[-1] <= every[SHARES["wrong"] - 1] + 0.1
    assert sum(a.meta["condition"] == "gap@512" and a.meta["slot"] == "7" for a in drawn) == SHARES["catch"]


def test_the_draw_does_not_depend_on_the_order(measured):
    view, answers = acuity_view(measured), list(enumerate(run_view(measured).answers()))
    drawn = []
    for course in (answers, answers[::-1]):
        sample = ThresholdSample(view, 9)
        for order, answer in course:
            sample.offer(answer, order * 7919 % 100_003, order, lambda answer=answer: answer.sample_id)
        drawn.append(sample.drawn())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 9
    assert len({name.split("/")[0] for name in drawn[0]}) == 4


def test_no_picture_is_drawn_once_the_budget_is_used_up(tmp_path):
    import numpy as np
    from PIL import Image as pillow

    reads = []
    noise = np.random.Generator(np.random.Philox(0))

    def drawing(number):
        def draw():
            reads.append(number)
            return compress(pillow.fromarray(noise.integers(0, 256, (64, 64, 3), dtype=np.uint8)), "png", 100)

        return Image(Drawn(str(number), draw))

    album = ThumbnailAlbum(PageLimits(picture_bytes=20_000))
    shown = [album.add(drawing(number))[0] for number in range(40)]
    first_omitted = next(number for number, part in enumerate(shown) if "note" in part)
    assert 0 < first_omitted < 39
    assert reads == list(range(first_omitted + 1))
    assert album.left_out == 40 - first_omitted
    assert all(("note" in a) <= ("note" in b) for a, b in pairwise(shown))


def test_acuity_has_no_matrix_of_letters(measured, tmp_path):
    page = report(measured, tmp_path / "report.html").read_text("utf-8")
    assert "Confusion matrix" not in page
