"""Outlines and masks: how they are read, and their overlap, which is that of shapely and pycocotools."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_grounding import SIZES, STEPS, sample, spaces, written

from snellen.scoring.answers.grounded import Located
from snellen.scoring.areas import area_overlap, mask_runs, run_lengths
from snellen.scoring.grounding import IOU, ODD
from snellen.scoring.scorers import by_kind

shapely = pytest.importorskip("shapely")
coco = pytest.importorskip("pycocotools.mask")


@st.composite
def stars(draw):
    """Corners around a point, in the order of their angles, in fractions of STEPS."""
    middle = [draw(st.integers(2_000, 8_000)) for _ in "xy"]
    angles = sorted(draw(st.lists(st.integers(0, 359), min_size=4, max_size=9, unique=True)))
    reach = [draw(st.integers(100, 2_000)) for _ in angles]
    turns = [(np.cos(np.radians(angle)), np.sin(np.radians(angle))) for angle in angles]
    return [(int(middle[0] + far * x), int(middle[1] + far * y)) for far, (x, y) in zip(reach, turns, strict=True)]


@st.composite
def masks(draw, high=6, wide=8):
    return np.array(draw(st.lists(st.lists(st.booleans(), min_size=wide, max_size=wide), min_size=high, max_size=high)))


def outline(corners, space, size, form) -> str:
    """Return corners in a space, in one of the forms in which JSON has them."""
    points = [json.loads(written(corner, space, size)) for corner in corners]
    return json.dumps(
        {
            "points": points,
            "flat": [number for point in points for number in point],
            "named": {"polygon": points, "label": "dog"},
            "coco": {"segmentation": [[number for point in points for number in point]]},
        }[form]
    )


forms = st.sampled_from(["points", "flat", "named", "coco"])


@given(first=stars(), second=stars(), size=SIZES, a=spaces, b=spaces, c=spaces, d=spaces, forms=st.tuples(forms, forms))
def test_the_space_order_and_form_of_outlines_never_change_a_score(first, second, size, a, b, c, d, forms):
    scores = [
        by_kind(
            sample("region", outline(second, gold, size, forms[0]), size, reply, gold),
            outline(first, reply, size, forms[1]),
        )
        for reply, gold in ((a, b), (c, d))
    ]
    for score in scores:
        score.detail.pop(ODD, None)
    assert (scores[0].value, scores[0].detail, scores[0].reason) == (
        scores[1].value,
        scores[1].detail,
        scores[1].reason,
    )


@given(corners=stars(), size=SIZES, reply=spaces, gold=spaces, form=forms)
def test_the_gold_outline_in_any_space_overlaps_it_exactly(corners, size, reply, gold, form):
    if shapely.make_valid(shapely.Polygon(corners)).area:
        score = by_kind(
            sample("region", outline(corners, gold, size, "flat"), size, reply, gold),
            outline(corners, reply, size, form),
        )
        assert (score.value, score.detail[IOU]) == (1.0, "1.0")


@given(first=stars(), second=stars())
def test_the_overlap_of_outlines_is_that_of_shapely(first, second):
    one, other = (shapely.make_valid(shapely.Polygon(corners)) for corners in (first, second))
    value, gold = (
        (Located(tuple(Fraction(number) for corner in part for number in corner)),) for part in (first, second)
    )
    if one.area and other.area:
        expected = one.intersection(other).area / one.union(other).area
        assert abs(area_overlap(value, gold, (STEPS, STEPS)) - expected) <= 1e-9


@given(first=masks(), second=masks(), compressed=st.tuples(st.booleans(), st.booleans()))
def test_the_overlap_of_masks_is_that_of_pycocotools(first, second, compressed):
    encoded = [coco.encode(np.asfortranarray(part, dtype=np.uint8)) for part in (first, second)]
    cells = [rle(part, compressed=short) for part, short in zip((first, second), compressed, strict=True)]
    score = by_kind(sample("region", cells[1], (8, 6)), f"Here is the mask:\n```json\n{cells[0]}\n```")
    if first.any():
        assert score.detail[IOU] == str(float(coco.iou([encoded[0]], [encoded[1]], [0])[0][0]))
    else:
        assert score.reason == "an outline or mask without area"


def rle(pixels, *, compressed: bool) -> str:
    if compressed:
        written_mask = coco.encode(np.asfortranarray(pixels, dtype=np.uint8))
        return json.dumps({"size": list(pixels.shape), "counts": written_mask["counts"].decode()})
    column = pixels.flatten(order="F").tolist()
    counts, now = [0], False
    for pixel in column:
        if pixel != now:
            counts.append(0)
            now = pixel
        counts[-1] += 1
    return json.dumps({"size": list(pixels.shape), "counts": counts})


@given(mask=masks(), corners=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6)), min_size=3, max_size=5))
def test_an_outline_and_a_mask_are_compared_as_coco_draws_outlines(mask, corners):
    drawn = coco.frPyObjects([[float(number) for corner in corners for number in corner]], 6, 8)
    if not (mask.any() and coco.area(coco.merge(drawn))):
        return
    expected = coco.iou([coco.encode(np.asfortranarray(mask, dtype=np.uint8))], [coco.merge(drawn)], [0])[0][0]
    for gold, reply in (
        (rle(mask, compressed=True), json.dumps(corners)),
        (json.dumps(corners), rle(mask, compressed=False)),
    ):
        score = by_kind(sample("region", gold, (8, 6), "pixel"), reply)
        assert score.detail[IOU] == str(float(expected))


SQUARE = "[[10, 10], [50, 10], [50, 50], [10, 50]]"


@pytest.mark.parametrize(
    "reply",
    [
        SQUARE,
        "[10, 10, 50, 10, 50, 50, 10, 50]",
        "(10,10), (50,10), (50,50), (10,50)",
        '{"polygon": [[10, 10], [50, 10], [50, 50], [10, 50]], "label": "dog"}',
        '[{"polygon_2d": [[10, 10], [50, 10], [50, 50], [10, 50]]}]',
        '```json\n{"points": [{"x": 10, "y": 10}, {"x": 50, "y": 10}, {"x": 50, "y": 50}, {"x": 10, "y": 50}]}\n```',
        "The outline is [[10, 10], [50, 10], [50, 50], [10, 50]].",
        "The dog has the corners (10,10), (50,10), (50,50) and (10,50).",
        f"<think>[[1, 2], [3, 4], [5, 6]]?</think>Answer: {SQUARE}",
        "[[[10, 10], [30, 10], [30, 50], [10, 50]], [[30, 10], [50, 10], [50, 50], [30, 50]]]",  # two parts
        f"{SQUARE} and again {SQUARE}",
        "<polygon>(10,10),(50,10),(50,50),(10,50)</polygon>",
    ],
)
def test_an_outline_is_read_in_every_form(reply):
    score = by_kind(sample("region", SQUARE, (100, 100), "pixel"), reply)
    assert (score.reason, score.value, score.detail[IOU]) == (None, 1.0, "1.0")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("[10, 10, 50, 50]", "needs a reader"),
        ("[[10, 10], [50, 50]]", "needs a reader"),
        ("[[0, 0], [10, 0], [NaN, 10]]", "a coordinate is no number"),
        ("[0, 0, 10, 0, 10, 10, 5]", "an odd number of coordinates"),
        ("[[0, 0], [5, 5], [10, 10]]", "an outline or mask without area"),
        (
            f'[{{"polygon": {SQUARE}}}, {{"polygon": [[0, 0], [9, 0], [9, 9]]}}]',
            "two answers: 2 different outlines or masks",
        ),
        ('{"size": [10, 10], "counts": [50, 51]}', "a mask whose run lengths do not fill its size"),
        ('{"size": [10, 10], "counts": [50, 50]}', "a mask of 10 x 10 pixels, and one of 100 x 100 was expected"),
        ('{"size": [900000, 900000], "counts": [810000000000]}', "a mask whose run lengths do not fill its size"),
        ('There are counts: {"counts": {"dogs": 3}}', "needs a reader"),
        ("", "empty reply"),
    ],
)
def test_a_reply_without_one_area_says_why(reply, reason):
    score = by_kind(sample("region", SQUARE, (100, 100), "pixel"), reply)
    assert (score.verdict, score.reason, score.value, score.detail[IOU]) == ("invalid", reason, 0.0, "0.0")


def test_an_outline_that_crosses_itself_holds_what_the_even_odd_rule_says():
    bow = "[[0, 0], [100, 100], [100, 0], [0, 100]]"
    both = "[[[0, 0], [50, 50], [0, 100]], [[100, 0], [50, 50], [100, 100]]]"
    assert float(by_kind(sample("region", both, (100, 100), "pixel"), bow).detail[IOU]) == pytest.approx(1.0, abs=1e-9)


@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=3, max_size=9))
def test_compressed_run_lengths_are_those_of_pycocotools(rows):
    pixels = np.array(rows, np.uint8)
    compressed = coco.encode(np.asfortranarray(pixels))["counts"].decode()
    cell = json.dumps({"size": [*pixels.shape], "counts": compressed})
    assert run_lengths(cell) == mask_runs(pixels) or sum(run_lengths(cell)["counts"][1::2]) == pixels.sum()
    for short in (compressed[:-1], compressed + "1", "zz", "\x7f", "o" * 40):
        assert run_lengths(json.dumps({"size": [*pixels.shape], "counts": short})) is None


def test_an_outline_costs_no_more_than_the_image_and_a_tangle_is_not_compared():
    mask = json.dumps({"size": [40, 60], "counts": [0, 2400]})
    far = by_kind(sample("region", mask, (60, 40), "pixel"), "[[0,0],[99999999,0],[99999999,99999999],[0,99999999]]")
    assert far.value == 1.0
    tangle = [[37 * at % 101, 61 * at % 97] for at in range(500)]
    score = by_kind(sample("region", "[[0,0],[50,0],[50,50]]", (101, 97), "pixel"), json.dumps(tangle))
    assert score.verdict == "invalid" and "crosses itself" in score.reason


def test_an_outline_that_is_only_thought_is_no_answer():
    thought = "<think>[[0,0],[9,0],[9,9]]</think>"
    asked = sample("region", "[[0,0],[9,0],[9,9]]", (60, 40), "pixel")
    assert by_kind(asked, thought).verdict == "invalid"
    assert by_kind(asked, thought + "[[0,0],[30,0],[30,30]]").verdict == "wrong"
