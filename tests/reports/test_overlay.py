"""The picture of gold and answer: its coordinates in every space and order, its words, and texts that stay texts."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from io import BytesIO
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PillowImage

from snellen.reports.overlay import MOST_DRAWN, as_html, draw_regions
from snellen.runs.answer_view import answer_view
from snellen.scoring.areas import mask_runs
from snellen.scoring.coordinates import FORMS, REPLY_SPACE, SPACES, Coordinates, SentSize
from snellen.scoring.grounding import ABSENT, GOLD_SPACE, SENT_SIZE
from snellen.scoring.scorers import by_kind
from snellen.scoring.shapes import Shape, Shapes, shapes_of
from snellen.types import Image, MediaSettings, Prompt, Record, Sample, Text

SIDES = st.tuples(st.integers(8, 4_000), st.integers(8, 4_000))
SHARES = st.tuples(*[st.integers(0, 999)] * 2, *[st.integers(1, 1_000)] * 2)
NUMBER = r"-?[\d.]+"
REPLY = [Coordinates(space, order) for space in SPACES for order in FORMS]
GOLD = [where for where in REPLY if where.space != "sent-pixel"]


class Picture:
    """An image of a size in memory, its pixels never looked at."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.key, self.size = f"{size}", size

    def read(self) -> bytes:
        file = BytesIO()
        PillowImage.new("1", self.size).save(file, "png")
        return file.getvalue()


def question(target: object, kind: str, size: tuple[int, int], **meta: str) -> Sample:
    return Sample("q", Prompt((Image(Picture(size)), Text("Where?"))), target, kind, {}, "", meta)


def written(
    corners: list[Fraction], where: Coordinates, size: tuple[int, int], sent: tuple[int, int], is_box: bool
) -> list[float]:
    """Write the corners of a box, or the first of them, which are in pixels of the image, in a space and an order."""
    extent = where.extent(size, sent)
    left, top, right, bottom = (corner * extent[at % 2] / size[at % 2] for at, corner in enumerate(corners))
    numbers = {
        "xyxy": (left, top, right, bottom),
        "yxyx": (top, left, bottom, right),
        "xywh": (left, top, right - left, bottom - top),
        "cxcywh": ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top),
    }[where.order]
    point = (top, left) if where.y_first else (left, top)
    return [float(number) for number in (numbers if is_box else point)]


def svg(tree: list) -> list:
    return tree[2][2][3]


def numbers_of(tree: list, style: str) -> list[float]:
    """Return the numbers of the first line of a style in the picture's own pixels."""
    path = next(part for part in svg(tree)[2:] if part[1].get("class") == f"line {style}")[1]
    if "d" not in path:
        return [float(path["cx"]), float(path["cy"])]
    found = [float(number) for number in re.findall(NUMBER, path["d"])]
    return [*found[:2], *found[4:6]]


@given(st.sampled_from(GOLD), st.sampled_from(REPLY), SIDES, SHARES, st.booleans())
def test_gold_and_answer_are_drawn_where_they_lie_in_pixels_in_every_space_and_order(gold, reply, size, shares, is_box):
    left, top = (Fraction(shares[at] * size[at], 2_000) for at in (0, 1))
    corners = [left, top, left + Fraction(shares[2] * size[0], 2_000), top + Fraction(shares[3] * size[1], 2_000)]
    limits = SentSize(MediaSettings(max_long_side=1_000))
    meta = {REPLY_SPACE: f"{reply}", GOLD_SPACE: f"{gold}", SENT_SIZE: msgspec.json.encode(limits).decode()}
    golds, said = (json.dumps(written(corners, where, size, limits.of(*size), is_box)) for where in (gold, reply))
    sample = question(golds, "box" if is_box else "point", size, **meta)
    shapes = shapes_of(sample, by_kind(sample, said))
    assert shapes is not None and shapes.size == size
    tree = draw_regions(shapes, "picture")
    assert svg(tree)[1]["viewBox"] == f"0 0 {size[0]} {size[1]}"
    wanted = pytest.approx(list(map(float, corners if is_box else corners[:2])), abs=0.006)
    assert numbers_of(tree, "gold") == wanted and numbers_of(tree, "right") == wanted


def drawn(**parts) -> Shapes:
    return Shapes(Image(Picture((400, 300))), (400, 300), **{"gold": (Shape((10.0, 20.0, 200.0, 150.0)),), **parts})


def test_labels_stay_texts_and_what_is_invisible_is_spelled_out():
    hostile = '"><img src=x onerror=alert(1)>'
    gold = (Shape((1.0, 2.0, 90.0, 80.0), hostile), Shape((9.0, 9.0, 99.0, 99.0), "a\u202eb"))
    html = as_html(draw_regions(drawn(gold=gold), '"x" onload="y'))
    assert "<img src=x" not in html and 'onload="' not in html and "⟦U+202E⟧" in html and "style=" not in html
    ElementTree.fromstring(str(html).replace('height="480">', 'height="480"/>'))  # one whole element, as XML reads it


def test_the_words_say_gold_answer_and_overlap_and_a_blind_picture_says_no_verdict():
    shapes = drawn(answer=(Shape((10.0, 20.0, 200.0, 100.0), "Some-VL", False),), verdict="wrong", measure="IoU 0.615")
    told = svg(draw_regions(shapes, "p"))[1]["aria-label"]
    assert told == "gold: box 10 20 200 150; answer: box 10 20 200 100 Some-VL, wrong; IoU 0.615"
    for blind, style in ((False, "wrong"), (True, "neutral")):
        html = as_html(draw_regions(shapes, "p", blind=blind))
        assert (f"line {style}" in html) and ("wrong" in html) != blind and ("✗" in html) != blind
        assert ("Some-VL" in html) != blind
    unread = as_html(draw_regions(drawn(verdict="invalid"), "p"))
    assert "no answer was read" in unread and "key wrong" not in unread


def test_a_mask_of_another_size_covers_the_image_and_a_fine_one_is_drawn_coarser():
    pixels = np.zeros((30, 40), bool)
    pixels[3:9, 10:20] = True
    area, line, *_ = [
        part[1]["d"] for part in svg(draw_regions(drawn(gold=(Shape(mask=mask_runs(pixels)),)), "p"))[2:5]
    ]
    assert area.startswith("M100,30H200V40H100Z") and len(re.findall("M", area)) == 6
    assert sorted(line.replace("M", " M").split()) == ["M100,30H200", "M100,30V90", "M100,90H200", "M200,30V90"]
    noise = np.random.default_rng(0).random((3000, 4000)) < 0.5
    html = as_html(draw_regions(drawn(gold=(Shape(mask=mask_runs(noise)),)), "p"))
    assert len(html) < 20_000
    empty = as_html(draw_regions(drawn(gold=(Shape(mask=mask_runs(np.zeros((3, 4)))),)), "p"))
    huge = as_html(draw_regions(drawn(gold=(Shape(mask={"size": [10**6, 10**6], "counts": [0, 10**12]}),)), "p"))
    assert 'd=""' in empty and 'd=""' in huge


def test_a_small_box_is_magnified_with_what_lies_near_and_one_that_is_not_small_is_not():
    image = Image(Picture((4000, 3000)))
    areas = []
    for gold, answer in (
        ((10, 10, 16, 16), (20, 12, 26, 18)),
        ((3990, 2990, 3998, 2999), (5, 5, 12, 12)),
        ((0, 0, 900, 900),) * 2,
    ):
        shapes = Shapes(
            image, (4000, 3000), (Shape(tuple(map(float, gold))),), (Shape(tuple(map(float, answer)), "", False),)
        )
        tree = draw_regions(shapes, "p", lambda area: areas.append(area) or "detail")
        assert len(tree[2]) == 3 + (gold[2] - gold[0] < 900)
    near, far = areas
    assert near[0] <= 10 and near[0] + near[2] >= 26 and near[2] < 100
    assert far[0] + far[2] == 4000 and far[1] + far[3] <= 3000 and far[0] <= 3990 and len(areas) == 2
    assert len(draw_regions(shapes, "p")[2]) == 3  # without a picture of the part there is none


def test_a_reply_of_a_thousand_boxes_is_drawn_in_part_and_says_so():
    boxes = tuple(Shape((float(at), 1.0, at + 50.0, 60.0), f"{at}", at % 2 == 0) for at in range(1000))
    html = as_html(draw_regions(drawn(answer=boxes, verdict="partial"), "p"))
    assert f"{MOST_DRAWN} of 1,000 are drawn" in html and "and 988 more" in html and "outside of the image" in html
    assert html.count("<path") == 3 * (MOST_DRAWN + 1)


@given(st.tuples(*[st.integers(0, 7_000)] * 4), st.sampled_from(["s", "frames"]))
def test_moments_are_bars_over_one_scale(ends, unit):
    (start, end), (first, last) = sorted(ends[:2]), sorted(ends[2:])
    sample = Sample("q", Prompt([Text("When?")]), f"{unit.rstrip('s') or 'seconds'} {start} to {end + 1}", "moment")
    score = by_kind(sample, f"{unit.rstrip('s') or 'seconds'} {first} to {last + 1}")
    shapes = shapes_of(sample, score)
    view = draw_regions(shapes, "")[2][2]
    gold, answer = (part[1]["d"] for part in view[2][2:] if part[1]["class"].startswith("line"))
    places = [
        float(number)
        for path in (gold, answer)
        for number in re.findall(NUMBER, path)[::3][:1] + re.findall(r"H([\d.]+)V", path)
    ]
    longest = max(end, last) + 1
    assert places == pytest.approx([10 + 620 * one / longest for one in (start, end + 1, first, last + 1)], abs=0.01)
    assert view[2][1]["aria-label"].startswith(
        f"gold: moment {start} {end + 1} {unit}; answer: moment {first} {last + 1} {unit}, "
    )
    blind = as_html(draw_regions(shapes, "", blind=True))
    assert "✓" not in blind and "✗" not in blind and "line neutral" in blind
    unread = shapes_of(sample, by_kind(sample, "no idea"))
    assert unread.answer == () and "no answer was read" in as_html(draw_regions(unread, ""))


def test_a_hidden_gold_answer_is_not_drawn():
    sample = question("[1, 2, 30, 40]", "box", (100, 80), **{REPLY_SPACE: "pixel:xyxy", GOLD_SPACE: "pixel:xyxy"})
    scores = {"strict": by_kind(sample, "[1, 2, 30, 40]")}
    shown, hidden = (answer_view(sample, Record("q", "ok"), scores, show_target=show) for show in (True, False))
    assert shown.shapes().answer[0].right and hidden.shapes is None


PIXELS = {REPLY_SPACE: "pixel:xyxy", GOLD_SPACE: "pixel:xyxy"}


def test_outlines_masks_and_what_is_empty_or_absent_are_drawn_or_said():
    pytest.importorskip("shapely")
    pixels = np.zeros((80, 100), bool)
    pixels[10:50, 20:70] = True
    mask = json.dumps(mask_runs(pixels))
    corners = json.dumps({"polygon": [[20, 10], [70, 10], [70, 50], [20, 50]]})
    two = json.dumps([[20, 10, 70, 10, 70, 50], [20, 10, 70, 50, 20, 50]])
    cases = [  # gold, kind, reply, paths of gold and of answer, words
        (corners, "region", corners, 1, 1, "IoU 1.000"),
        (mask, "region", mask, 1, 1, "IoU 1.000"),
        (mask, "region", corners, 1, 1, "IoU"),
        (json.dumps({"segmentation": json.loads(two)}), "region", corners, 2, 1, "IoU 1.000"),
        (mask, "region", "I cannot say.", 1, 0, "no answer was read"),
        ("[]", "boxes", "[]", 0, 0, "the answer is empty"),
        ("[]", "boxes", "[[1, 2, 30, 40]]", 0, 1, "gold: nothing"),
        (ABSENT, "point", "[-1, -1]", 0, 0, "point -1 -1, right; the answer reaches outside of the image"),
    ]
    for target, kind, reply, golds, answers, words in cases:
        sample = question(target, kind, (100, 80), **PIXELS)
        tree = draw_regions(shapes_of(sample, by_kind(sample, reply)), "p", blind=False)
        styles = [part[1].get("class", "") for part in svg(tree)[2:]]
        assert styles.count("line gold") == golds, (target, reply)
        assert sum(style in ("line right", "line wrong") for style in styles) == answers, (target, reply)
        assert words in svg(tree)[1]["aria-label"], (target, reply)
