"""Points in replies: what each reader takes for one, and where points lie on masks and in polygons."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.spatial.more_samples import mask
from snellen.benchmarks.spatial.scorers import lmms_eval, points, strict, vlmevalkit
from snellen.benchmarks.spatial.scorers.points import Mask, PixelBox, ReferenceFailsError
from snellen.benchmarks.spatial.scorers.strict import strict_points
from snellen.errors import DataError, MediaError
from snellen.sources.blobs import BytesBlob

sides = st.integers(1, 60)
shares = st.floats(0, 1).map(lambda share: round(share, 4))
pairs = st.tuples(shares, shares)


@given(st.lists(pairs, min_size=1, max_size=6), st.sampled_from(["point_2d", "point"]), st.booleans())
def test_easi_reads_items_in_json_and_as_python_alike(written, key, fenced):
    items = [{key: list(pair), "label": "a"} for pair in written]
    for text in (json.dumps(items), repr(items)):
        reply = f"```json\n{text}\n```" if fenced else text
        assert points.easi_points(reply, 64, 48) == written


@given(st.lists(pairs, min_size=1, max_size=6))
def test_easi_reads_pairs_in_a_sentence(written):
    reply = " and ".join(f"({x:.4f}, {y:.4f})" for x, y in written)
    assert points.easi_points(f"Here: {reply}.", 64, 48) == written


@given(st.integers(2, 1000), st.integers(2, 1000))
def test_easi_takes_numbers_in_json_for_thousandths_and_in_brackets_for_pixels(x, y):
    (in_json,) = points.easi_points(f'[{{"point_2d": [{x}, {y}]}}]', 640, 480)
    (in_brackets,) = points.easi_points(f"({x}, {y})", 640, 480)
    assert in_json == (x / 1000, y / 1000) and in_brackets == (x / 640, y / 480)


@pytest.mark.parametrize(
    "reply", ["( 0.3, 0.4 )", "(.3, .4)", "(0.3 ,0.4)", "(0.1, 0.2, 0.3)", "[0.3, 0.4]", "()", "( , )"]
)
def test_easi_sees_no_point_in_other_forms(reply):
    assert points.easi_points(reply, 64, 48) == []


boxes = st.tuples(*[st.integers(-20, 80)] * 4)
rectangles = st.tuples(sides, sides, st.lists(st.tuples(*[st.integers(0, 60)] * 4), max_size=3))


@given(rectangles, boxes)
def test_a_box_counts_each_of_its_pixels_and_those_outside_at_the_border(drawn, box):
    width, height, rects = drawn
    on = np.zeros((height, width), bool)
    for x0, y0, x1, y1 in rects:
        on[y0:y1, x0:x1] = True
    x0, x1 = sorted(box[::2])
    y0, y1 = sorted(box[1::2])
    assume(x0 < x1 and y0 < y1)
    pixels = [(x, y) for y in range(y0, y1) for x in range(x0, x1)]
    hits = sum(bool(on[min(max(y, 0), height - 1), min(max(x, 0), width - 1)]) for x, y in pixels)
    assert points.share_on_mask([PixelBox(x0, y0, x1, y1)], on) == hits / len(pixels)


@given(st.lists(pairs, max_size=8), sides, sides)
def test_the_share_of_points_is_that_of_their_nearest_pixels(written, width, height):
    on = np.indices((height, width)).sum(axis=0) % 2 == 0
    nearest = [(round(min(x * width, width - 1)), round(min(y * height, height - 1))) for x, y in written]
    wanted = sum(bool(on[y, x]) for x, y in nearest) / len(written) if written else 0.0
    assert points.share_on_mask(written, on) == wanted


def test_a_box_of_any_size_costs_no_memory():
    on = np.ones((40, 30), bool)
    (box,) = points.easi_points(f"(0, 0, {10**15}, {10**15})", 30, 40)
    assert points.share_on_mask([box], on) == 1.0 and points.count_points([box]) == 10**30
    with pytest.raises(ReferenceFailsError):
        points.easi_points(f"(0, 0, {'9' * 400}, 2)", 30, 40)


corner = st.tuples(st.floats(0.1, 0.9), st.floats(0.1, 0.9))


@given(corner, st.floats(0.05, 0.4), st.floats(0.05, 0.4), pairs)
def test_a_point_is_in_an_upright_rectangle_with_its_edges(start, wide, high, point):
    (x0, y0), (x, y) = start, point
    x1, y1 = x0 + wide, y0 + high
    rectangle = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    near = min(abs(x - x0), abs(x - x1), abs(y - y0), abs(y - y1)) < 1e-8
    assume(not near)
    assert points.in_polygon(x, y, rectangle) == (x0 <= x <= x1 and y0 <= y <= y1)
    for edge_x, edge_y in [
        *rectangle,
        ((x0 + x1) / 2, y0),
        (x0, (y0 + y1) / 2),
        ((x0 + x1) / 2, y1),
        (x1, (y0 + y1) / 2),
    ]:
        assert points.in_polygon(edge_x, edge_y, rectangle)
    assert not points.in_polygon_as_easi((x0 + x1) / 2, (y0 + y1) / 2, rectangle), (
        "the reference accepts no point at all"
    )


@given(st.lists(corner, min_size=3, max_size=3), st.lists(st.floats(0.01, 1), min_size=3, max_size=3))
def test_every_mean_of_corners_is_in_the_triangle(corners, weights):
    (x1, y1), (x2, y2), (x3, y3) = corners
    assume(abs((x2 - x1) * (y3 - y1) - (x3 - x1) * (y2 - y1)) > 1e-3)
    x = sum(w * c[0] for w, c in zip(weights, corners, strict=True)) / sum(weights)
    y = sum(w * c[1] for w, c in zip(weights, corners, strict=True)) / sum(weights)
    assert points.in_polygon(x, y, corners)
    assert points.in_polygon(x, y, corners[::-1])


@pytest.mark.parametrize(
    "text", ["", "yes", "[(0.1, 0.1), (0.2, 0.2)]", "[[1], [2], [3]]", "[(0, 0), (1, 'x'), (1, 1)]", "(" * 5000]
)
def test_what_is_no_polygon_is_said(text):
    with pytest.raises(DataError, match="corners"):
        points.polygon(text)


STRICT = [
    ('[{"point_2d": [300, 400], "label": "p"}]', [(0.3, 0.4)]),
    ("[{'point_2d': ['300', '400']}]", [(0.3, 0.4)]),
    ('Here it is:\n```json\n[{"point_2d": [300, 400]}, {"point_2d": [900, 900]}]\n```', [(0.3, 0.4), (0.9, 0.9)]),
    ('{"point": [0.3, 0.4]}', [(0.3, 0.4)]),
    ("<think>(0.9, 0.9)</think>( 0.3, 0.4 )", [(0.3, 0.4)]),
    ("The cup is at (100, 200); the free place is (.3, .4).", [(0.3, 0.4)]),
    ("<answer>[0.3, 0.4]</answer> or (0.9, 0.9)", [(0.3, 0.4)]),
    ("(30%, 40%)", [(0.3, 0.4)]),
    ('<point x="30" y="40" alt="a">a</point>', [(0.3, 0.4)]),
    ('<points x1="30.0" y1="40.0" x2="90" y2="90" alt="a">a</points>', [(0.3, 0.4), (0.9, 0.9)]),
    ("x: 300, y: 400", [(0.3, 0.4)]),
    ("(192, 192) pixels", [(0.3, 0.4)]),
    ("[1920, 192]", [(3.0, 0.4)]),
    ("(0.2, 0.3, 0.4, 0.5)", [(0.3, 0.4)]),
    ("[[300, 400]]", [(0.3, 0.4)]),
    ("300, 400", [(0.3, 0.4)]),
    ("[(0.3, 0.4), (0.5, 0.6)]", [(0.3, 0.4), (0.5, 0.6)]),
    ("(1, 1)", [(1.0, 1.0)]),
    ("(1.2, 1.3)", [(0.0012, 0.0013)]),
    ("(300, -400)", [(0.3, -0.4)]),
    ("nothing there", []),
    ("There are 3, 4 of them.", []),
    ("", []),
]


@pytest.mark.parametrize(("reply", "wanted"), STRICT)
def test_the_strict_reader_knows_any_usual_notation_and_its_scale(reply, wanted):
    read = strict_points(reply, 640, 480)
    assert [(round(x, 6), round(y, 6)) for x, y in read] == wanted


def test_of_points_that_words_part_the_last_one_answers():
    reply = "The cup is at (0.1, 0.2), and left of it the place is free: (0.3, 0.4)."
    assert strict_points(reply, 640, 480) == [(0.3, 0.4)]
    assert strict_points("(0.1, 0.2) and (0.3, 0.4)", 640, 480) == [(0.1, 0.2), (0.3, 0.4)]


def test_a_mask_may_have_any_size_mode_and_depth():
    drawing = {"w": 100, "h": 50, "rects": [[20, 10, 40, 30]], "value": 255}
    for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4), ("LA", 2)):
        pixels = points.mask_pixels(mask({**drawing, "mode": mode}))
        assert pixels.size == (100, 50) and pixels.channels == channels and pixels.first[10, 20] == 255
        assert strict.refspatial("(0.3, 0.4)", pixels, (640, 480)).value == 1.0
    green = points.mask_pixels(mask({**drawing, "mode": "RGB", "channel": 1}))
    assert vlmevalkit.refspatial("(0.3, 0.4)", green).value == 0.0, "the first channel alone counts"


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"text"])
def test_a_mask_that_is_no_image_is_said(data):
    with pytest.raises(MediaError, match=r"m\.png"):
        points.mask_pixels(Mask(BytesBlob("m.png", data)))


def test_a_mask_that_claims_too_many_pixels_is_not_decoded():
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (90_000).to_bytes(4, "big") * 2 + b"\x08\0\0\0\0" + b"\0" * 12
    with pytest.raises(MediaError, match=r"90000 x 90000"):
        points.mask_pixels(Mask(BytesBlob("m.png", header)))


numbers = st.one_of(
    st.integers(-2000, 2000), st.floats(allow_nan=True, allow_infinity=True), st.text(max_size=4), st.none()
)
items = st.recursive(
    numbers,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["point_2d", "point", "x"]), inner, max_size=2)
    ),
    max_leaves=8,
)
pieces = st.sampled_from(
    [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "0.3",
        "400",
        "-1",
        ",",
        " ",
        "\n",
        "```json\n",
        "```",
        '"point_2d": ',
        "<point x=",
        '<points x1="3" y1="4"',
        "/>",
        "x:",
        "y=",
        "%",
        "'",
        '"',
        "<answer>",
        "</think>",
        "pixel",
        "1e999",
        "nan",
    ]
)


@given(
    st.one_of(
        items.map(lambda value: json.dumps(value)), st.text(max_size=60), st.lists(pieces, max_size=25).map("".join)
    ),
    sides,
    sides,
)
def test_no_reply_breaks_a_reader_and_every_share_is_one(reply, width, height):
    drawn = mask({"w": width, "h": height, "rects": [[0, 0, 5, 5]], "value": 255})
    pixels = points.mask_pixels(drawn)
    for rule in (
        vlmevalkit.refspatial,
        vlmevalkit.refspatial_upstream,
        lmms_eval.refspatial,
        lmms_eval.refspatial_json,
    ):
        score = rule(reply, pixels)
        assert score.reason if score.value is None else 0 <= score.value <= 1
    assert 0 <= (strict.refspatial(reply, pixels, (width, height)).value or 0) <= 1
    for x, y in strict_points(reply, width, height):
        assert math.isfinite(x) and math.isfinite(y)
        points.in_polygon(x, y, [(0, 0), (1, 0), (1, 1)])
