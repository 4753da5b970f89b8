"""Boxes and points of a declared space: how they are read, and what they score."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from fractions import Fraction
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PillowImage

from snellen.errors import UsageError
from snellen.scoring.answers.written_regions import regions_of
from snellen.scoring.areas import average_precision, coco_figures, run_lengths
from snellen.scoring.coordinates import FORMS, SPACES, SentSize, SmartResize, parse_coordinates
from snellen.scoring.grounding import (
    GOLD_SPACE,
    IOU,
    NOT_ODD,
    ODD,
    REPLY_SPACE,
    SENT_SIZE,
    TINY,
    _paired,
    is_in_polygon,
    matched,
    overlap,
)
from snellen.scoring.scorers import by_kind, reading_of
from snellen.types import Image, MediaSettings, Prompt, Sample, Score, Text
from stopwatch import is_done_within

STEPS = 10_000
SIZES = st.tuples(st.integers(1, 4_000), st.integers(1, 4_000))


class Picture:
    """An image of a size, with an EXIF orientation, in memory."""

    def __init__(self, width: int, height: int, orientation: int = 1) -> None:
        self.key = f"{width}x{height}:{orientation}"
        self._size, self._orientation = (width, height), orientation

    def read(self) -> bytes:
        if self._orientation == 1:  # a header alone is fast to draw
            return (
                b"\x89PNG\r\n\x1a\n"
                + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", *self._size, 8, 0, 0, 0, 0, 0)
                + b"\0" * 12
            )
        exif, file = PillowImage.Exif(), BytesIO()
        exif[0x0112] = self._orientation
        PillowImage.new("1", self._size).convert("L").save(file, "jpeg", exif=exif)
        return file.getvalue()


def sample(kind: str, gold: object, size=(640, 480), reply="thousand", space="pixel", picture=None, **meta) -> Sample:
    prompt = Prompt((Image(picture or Picture(*size)), Text("Where is the dog?")))
    return Sample("1", prompt, gold, kind, meta={REPLY_SPACE: reply, GOLD_SPACE: space, **meta})


def written(numbers, where: str, size) -> str:
    """Return unit corners (or a point), as fractions of STEPS, in the decimals of a space and order."""
    coordinates = parse_coordinates(where)
    extent = {"unit": (1, 1), "percent": (100, 100), "thousand": (1000, 1000)}.get(coordinates.space, size)
    scaled = [Decimal(number) * extent[at % 2] / STEPS for at, number in enumerate(numbers)]
    if len(scaled) == 2:
        return str([*map(str, reversed(scaled) if coordinates.y_first else scaled)]).replace("'", "")
    left, top, right, bottom = scaled
    ordered = {
        "xyxy": (left, top, right, bottom),
        "xywh": (left, top, right - left, bottom - top),
        "cxcywh": ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top),
        "yxyx": (top, left, bottom, right),
    }[coordinates.order]
    return "[" + ", ".join(f"{number:f}" for number in ordered) + "]"


@st.composite
def boxes(draw):
    left, top = draw(st.integers(0, STEPS - 1)), draw(st.integers(0, STEPS - 1))
    return left, top, draw(st.integers(left + 1, STEPS)), draw(st.integers(top + 1, STEPS))


spaces = st.tuples(
    st.sampled_from([space for space in SPACES if space != "sent-pixel"]), st.sampled_from([*FORMS])
).map(":".join)


@given(first=boxes(), second=boxes(), size=SIZES, reply=spaces, gold=spaces, other_reply=spaces, other_gold=spaces)
def test_the_space_and_order_of_reply_and_gold_never_change_a_score(
    first, second, size, reply, gold, other_reply, other_gold
):
    scores = [
        by_kind(sample("box", written(second, b, size), size, a, b), written(first, a, size))
        for a, b in ((reply, gold), (other_reply, other_gold))
    ]
    signs = [score.detail.pop(ODD) for score in scores]  # of a wrong space, which is another question than the score
    assert scores[0] == scores[1] and set(signs) <= {NOT_ODD, TINY}


@given(box=boxes(), size=SIZES, reply=spaces, gold=spaces)
def test_the_gold_box_in_any_space_overlaps_it_exactly(box, size, reply, gold):
    score = by_kind(sample("box", written(box, gold, size), size, reply, gold), written(box, reply, size))
    assert (score.value, score.detail[IOU]) == (1.0, "1.0")


@given(
    point=st.tuples(st.integers(0, STEPS), st.integers(0, STEPS)), box=boxes(), size=SIZES, reply=spaces, gold=spaces
)
def test_the_edges_of_a_box_belong_to_it_in_every_space(point, box, size, reply, gold):
    inside = box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
    score = by_kind(sample("point", written(box, gold, size), size, reply, gold), written(point, reply, size))
    assert score.value == inside


@given(first=boxes(), second=boxes())
def test_overlap_is_that_of_shapely(first, second):
    shapely = pytest.importorskip("shapely")
    one, other = (shapely.box(*(number / STEPS for number in box)) for box in (first, second))
    expected = one.intersection(other).area / one.union(other).area
    ours = overlap(*(tuple(Fraction(number, STEPS) for number in box) for box in (first, second)))
    assert abs(float(ours) - expected) <= 1e-9


@given(
    number=st.decimals(-2_000, 2_000, places=2),
    dress=st.sampled_from(["{}", "[{}]", '{{"bbox_2d": {}}}', "Answer: {}"]),
)
def test_one_number_is_never_a_right_box(number, dress):
    assert by_kind(sample("box", "[10, 10, 20, 20]"), dress.format(number)).value == 0.0


READ = [  # reply, corners in the reply's own numbers
    '{"bbox_2d": [10, 20, 30, 40], "label": "dog"}',
    '```json\n[{"bbox_2d": [10, 20, 30, 40], "label": "dog"}]\n```',
    'Here it is:\n```json\n{"box_2d": [10, 20, 30, 40]}\n```',
    "<ref>the dog</ref><box>[[10, 20, 30, 40]]</box>",
    "<ref>the dog</ref><box>(10,20),(30,40)</box>",
    "<|object_ref_start|>the dog<|object_ref_end|><|box_start|>(10,20),(30,40)<|box_end|>",
    "<|begin_of_box|>[10, 20, 30, 40]<|end_of_box|>",
    "The dog is at [10, 20, 30, 40].",
    "10 20 30 40",
    "<answer>10, 20, 30, 40</answer>",
    "\\boxed{(10, 20, 30, 40)}",
    '{"x1": 10, "y1": 20, "x2": 30, "y2": 40}',
    '{"left": 10, "top": 20, "width": 20, "height": 20}',
    "xmin=10, ymin=20, xmax=30, ymax=40",
    '{"objects": [{"bbox": [10, 20, 30, 40], "score": 0.9}]}',
    "[10, 20, 30, 40] and again [10, 20, 30, 40]",
    "<think>[1, 2, 3, 4]? No.</think>\n[10, 20, 30, 40]",
]


@pytest.mark.parametrize("reply", READ)
def test_a_box_is_read_in_every_form(reply):
    score = by_kind(sample("box", "[10, 20, 30, 40]", (1000, 1000)), reply)
    assert (score.extracted, score.verdict) == ([10, 20, 30, 40], "correct")


@pytest.mark.parametrize(
    ("reply", "space", "point"),
    [
        ('{"point_2d": [500, 250], "label": "dog"}', "thousand", (320, 120)),
        ('{"point": [250, 500]}', "thousand:yx", (320, 120)),
        ('{"x": 50, "y": 25}', "percent:yx", (320, 120)),  # keys say which is which
        ('<point x="50" y="25" alt="dog">dog</point>', "percent", (320, 120)),
        ("pyautogui.click(x=0.5, y=0.25)", "unit", (320, 120)),
        ("Action: click(start_box='(320,120)')", "pixel", (320, 120)),
        ("(0.5, 0.25)", "unit", (320, 120)),
        ("The place is (0.5, 0.25).", "unit", (320, 120)),
        ("<loc_500><loc_250>", "thousand", (320.32, 120.24)),
    ],
)
def test_a_point_is_read_in_every_form(reply, space, point):
    score = by_kind(sample("point", "[310, 110, 330, 130]", reply=space), reply)
    assert score.extracted == [*point] and score.value == 1.0


def test_location_tokens_bring_their_own_grid_and_order():
    score = by_kind(
        sample("box", "[0, 0, 640, 240]", reply="thousand:yxyx"), "<loc0000><loc0000><loc0512><loc1023> dog"
    )
    assert score.extracted == [0, 0, 640, 240.23]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("[[1, 2, 30, 40], [5, 6, 70, 80]]", "two answers: [0.64, 0.96, 19.2, 19.2], [3.2, 2.88, 44.8, 38.4]"),
        ("It is [1, 2, 30, 40] or [5, 6, 70, 80].", "two answers: [0.64, 0.96, 19.2, 19.2], [3.2, 2.88, 44.8, 38.4]"),
        ("[30, 20, 10, 40]", "inverted corners"),
        ("[10, 20, 10, 40]", "a box without area"),
        ("[NaN, 20, 10, 40]", "a coordinate is no number"),
        (json.dumps([[1, 2, 3, 4]] * 1_001), "more than 1,000 boxes or points"),
        ("", "empty reply"),
        ("I cannot help with that.", "refusal"),
    ],
)
def test_a_reply_without_one_box_says_why(reply, reason):
    score = by_kind(sample("box", "[10, 10, 20, 20]"), reply)
    assert (score.verdict, score.reason, score.value) == ("invalid", reason, 0.0)


def test_equal_boxes_are_one_and_a_box_is_a_point_only_by_declaration():
    assert by_kind(sample("box", "[0, 0, 320, 240]"), "[[0, 0, 500, 500], [0, 0, 500, 500]]").value == 1.0
    assert by_kind(sample("point", "[0, 0, 320, 240]"), "[0, 0, 500, 500]").verdict == "invalid"
    declared = sample("point", "[0, 0, 320, 240]", **{"box.for_point": True})
    assert by_kind(declared, "[0, 0, 500, 500]").extracted == [160, 120]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_rotation_of_an_image_is_applied_before_its_size_is_taken(orientation):
    shown = (400, 200) if orientation < 5 else (200, 400)
    picture = Picture(400, 200, orientation)
    score = by_kind(sample("box", f"[0, 0, {shown[0]}, {shown[1]}]", reply="unit", picture=picture), "[0, 0, 1, 1]")
    assert score.detail[IOU] == "1.0"


def test_sent_pixels_are_those_of_the_image_after_all_resizing():
    resize = SmartResize(factor=28, min_pixels=3_136, max_pixels=12_845_056)
    assert (
        resize.size(1000, 700) == (1008, 700)
        and resize.size(20, 20) == (56, 56)
        and resize.size(9_000, 4_500) == (5_068, 2_520)
    )
    sent = json.dumps(
        {"media": {"max_long_side": 500}, "resize": {"factor": 28, "min_pixels": 3_136, "max_pixels": 12_845_056}}
    )
    assert SentSize(MediaSettings(max_long_side=500), resize).of(1000, 700) == (504, 336)
    question = sample("box", "[0, 0, 500, 350]", (1000, 700), "sent-pixel", **{SENT_SIZE: sent})
    assert by_kind(question, "[0, 0, 252, 168]").detail[IOU] == "1.0"


def test_an_image_whose_size_is_unknown_leaves_pixels_unscored():
    question = Sample(
        "1", Prompt((Text("Where?"),)), "[0, 0, 5, 5]", "box", meta={REPLY_SPACE: "unit", GOLD_SPACE: "pixel"}
    )
    assert by_kind(question, "[0, 0, 1, 1]") == Score(None, None, "unscored", "the size of the image is not known")


def test_a_set_of_boxes_is_matched_once_each_by_label():
    gold = '[{"bbox": [0, 0, 100, 100], "label": "dog"}, {"bbox": [200, 200, 300, 300], "label": "cat"}]'
    question = sample("boxes", gold, (1000, 1000))
    both = '[{"bbox_2d": [0, 0, 100, 100], "label": "Dog"}, {"bbox_2d": [200, 200, 300, 300], "label": "cat"}]'
    assert by_kind(question, both).value == 1.0
    twice = '[{"bbox_2d": [0, 0, 100, 100], "label": "dog"}, {"bbox_2d": [0, 0, 99, 100], "label": "dog"}]'
    assert by_kind(question, twice).value == 0.5
    assert by_kind(question, "[]").value == 0.0
    assert by_kind(sample("boxes", "[[0, 0, 100, 100]]", (1000, 1000)), "[0, 0, 100, 100]").value == 1.0


@given(st.data())
def test_matching_is_that_of_exact_overlaps(data):
    start, unit = data.draw(st.sampled_from([0, 10**9, 10**17])), data.draw(st.sampled_from([1, 3, 1000, 10**20]))
    near, side = st.integers(0, 3), st.integers(1, 4)
    corners = st.builds(lambda x, y, w, h: (x, y, x + w, y + h), near, near, side, side)
    boxes = st.lists(corners.map(lambda box: tuple(start + Fraction(each, unit) for each in box)), max_size=6)
    predicted, gold = data.draw(boxes), data.draw(boxes)
    used = set()
    pairs = ((overlap(one, other), at, place) for at, one in enumerate(predicted) for place, other in enumerate(gold))
    for share, at, place in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:])):
        if share >= Fraction(1, 2) and not {("p", at), ("g", place)} & used:
            used |= {("p", at), ("g", place)}
    assert _paired(predicted, gold) == {at for side, at in used if side == "p"}


def test_a_thousand_boxes_are_matched_with_a_thousand_in_time():
    predicted = [(Fraction(0), Fraction(0), 600 + Fraction(at, 160), Fraction(480)) for at in range(1_000)]
    gold = [(Fraction(0), Fraction(0), 600 + Fraction(at, 100), Fraction(479)) for at in range(1_000)]
    pairs = []
    assert is_done_within(5, lambda: pairs.append(matched(predicted, gold))) and pairs[0] == 1_000


@pytest.mark.parametrize("reply", ["[ ]", "[\n]", "```json\n[ ]\n```", "```\n[]\n```", "[]"])
def test_an_empty_list_of_any_writing_says_that_nothing_is_there(reply):
    assert by_kind(sample("boxes", "[]", (100, 100)), reply).value == 1.0


def test_greedy_matching_takes_the_largest_overlap_first():
    box, near = (0, 0, 10, 10), (0, 0, 10, 9)
    assert matched([near, box], [box]) == 1
    assert matched([near, box], [box, near]) == 2


def test_a_point_near_the_gold_point_is_right_and_its_distance_is_given():
    score = by_kind(sample("point", "[300, 400]", (600, 800), "pixel"), "[306, 408]")
    assert (score.value, float(score.detail["box.distance_px"])) == (1.0, 10.0)
    assert math.isclose(float(score.detail["box.distance_share"]), 0.01)


def test_the_share_of_points_in_the_gold_box_is_the_score_of_several():
    assert (
        by_kind(sample("points", "[0, 0, 50, 50]", (100, 100), "pixel"), "[[1, 1], [50, 50], [60, 1], [99, 99]]").value
        == 0.5
    )


TRIANGLE = "[[0, 0], [100, 0], [0, 100]]"


@pytest.mark.parametrize(
    ("gold", "point", "right"),
    [
        (TRIANGLE, "[30, 30]", True),
        (TRIANGLE, "[50, 50]", True),  # on the edge
        (TRIANGLE, "[51, 50]", False),
        ("[0, 0, 100, 0, 0, 100]", "[30, 30]", True),
        ("[[0, 0, 10, 10], [80, 80, 90, 90]]", "[85, 80]", True),
        ('{"size": [10, 10], "counts": [10, 10, 80]}', "[14, 50]", True),  # the second column
        ('{"size": [10, 10], "counts": [10, 10, 80]}', "[16, 50]", False),
        ('{"size": [10, 10], "counts": [10, 10, 80]}', "[4, 50]", False),
    ],
)
def test_a_point_is_right_in_a_polygon_or_mask(gold, point, right):
    assert by_kind(sample("point", gold, (100, 100), "pixel"), point).value == right


@given(
    corners=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=3, max_size=6),
    x=st.integers(0, 20),
    y=st.integers(0, 20),
)
def test_points_in_polygons_are_those_of_shapely(corners, x, y):
    shapely = pytest.importorskip("shapely")
    area = shapely.Polygon(corners)
    if area.is_valid and area.area:
        flat = tuple(Fraction(number) for corner in corners for number in corner)
        assert is_in_polygon((Fraction(x), Fraction(y)), flat) == area.covers(shapely.Point(x, y))


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3))
def test_a_mask_in_compressed_run_lengths_is_read_pixel_by_pixel(rows):
    mask = pytest.importorskip("pycocotools.mask")
    import numpy as np

    written = mask.encode(np.asfortranarray(rows, dtype=np.uint8))
    gold = json.dumps({"size": [3, 4], "counts": written["counts"].decode()})
    for y, row in enumerate(rows):
        for x, is_on in enumerate(row):
            assert by_kind(sample("point", gold, (4, 3), "pixel"), f"[{x}, {y}]").value == is_on


def test_several_points_can_be_right_only_together():
    question = sample("points", "[0, 0, 50, 50]", (100, 100), "pixel", **{"box.all_inside": True})
    assert (by_kind(question, "[[1, 1], [60, 1]]").value, by_kind(question, "[[1, 1], [50, 50]]").value) == (0.0, 1.0)


def test_reading_says_where_a_box_stands():
    reading = reading_of(sample("box", "[10, 20, 30, 40]", (1000, 1000)), "The dog is at [10, 20, 30, 40].")
    assert [(reading.places[0][0], reading.places[0][1])] == [(14, 30)]


@pytest.mark.parametrize(
    "text", ["48", "192.168.0.1", "1, 2, 3 dogs", '{"a": [1, 2, 3, 4]}', "a" * 300_000, "1e99999999"]
)
def test_other_texts_write_no_region(text):
    assert not [one for one in regions_of(text) if len(one.numbers) in (2, 4)]


@pytest.mark.parametrize("text", ["", "pixels", "thousand:zz", "unit:xyxy:1"])
def test_an_unknown_space_is_refused_with_those_that_there_are(text):
    with pytest.raises(UsageError, match="was expected"):
        parse_coordinates(text)


@st.composite
def labelled_sets(draw):
    """Predicted and gold boxes of some images, with labels and confidences."""

    def of(most, *, scored):
        return [
            [
                *(number / 10 for number in draw(boxes())),
                draw(st.sampled_from("ab")),
                draw(st.integers(1, 9)) / 10 if scored else None,
            ]
            for _ in range(draw(st.integers(0, most)))
        ]

    return [(of(4, scored=True), of(3, scored=False)) for _ in range(draw(st.integers(1, 4)))]


@given(images=labelled_sets())
def test_average_precision_is_that_of_pycocotools_loaded_from_files(images, tmp_path_factory):
    pytest.importorskip("pycocotools")
    import contextlib
    import io

    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    gold, found = [], []
    for at, (predicted, true) in enumerate(images, 1):
        for rows, several in ((gold, true), (found, predicted)):
            for x1, y1, x2, y2, label, score in several:
                row = {
                    "id": len(rows) + 1,
                    "image_id": at,
                    "category_id": "ab".index(label) + 1,
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                }
                rows.append(
                    row | {"area": (x2 - x1) * (y2 - y1), "iscrowd": 0} | ({} if score is None else {"score": score})
                )
    ours = average_precision(images)
    known = {row["category_id"] for row in gold}
    found = [row for row in found if row["category_id"] in known]
    if not gold or not found:
        assert ours == ((None, None) if not gold else (0.0, 0.0))
        return
    path = tmp_path_factory.mktemp("coco") / "gold.json"
    categories = [{"id": label} for label in sorted(known)]
    path.write_text(
        json.dumps(
            {"images": [{"id": at + 1} for at in range(len(images))], "annotations": gold, "categories": categories}
        )
    )
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(path))
        judged = COCOeval(
            truth,
            truth.loadRes(
                [{name: row[name] for name in ("image_id", "category_id", "bbox", "score")} for row in found]
            ),
            "bbox",
        )
        judged.evaluate(), judged.accumulate(), judged.summarize()
    assert ours == tuple(judged.stats[:2])


@pytest.mark.parametrize(
    "mask",
    [
        '{"size": [300, 400], "counts": "NaN"}',
        '{"size": [2, 2], "counts": null}',
        '{"size": [2, 2], "counts": [-1, 5]}',
        '{"size": [2, 2], "counts": [3]}',
        '{"size": null, "counts": [4]}',
    ],
)
def test_a_damaged_mask_is_no_mask(mask):
    assert run_lengths(mask) is None
    assert run_lengths('{"size": [2, 2], "counts": [3, 1]}') is not None


@st.composite
def sets_with_crowds(draw):
    """Predicted and gold boxes of some images; gold boxes may be crowds, and have the areas of what is in them."""
    images = []
    for _ in range(draw(st.integers(1, 3))):
        one = st.tuples(boxes(), st.sampled_from("ab"))
        predicted = [[*(number / 10 for number in box), label, None] for box, label in draw(st.lists(one, max_size=5))]
        gold = []
        for box, label in draw(st.lists(one, max_size=4)):
            near = [number / 10 for number in box]
            gold.append([*near, label, None, draw(st.booleans()), draw(st.none() | st.integers(1, 20_000))])
            if draw(st.booleans()):
                predicted.append([*near[:3], (near[1] + 9 * near[3]) / 10, label, None])
        images.append((predicted, gold))
    return images


@given(images=sets_with_crowds())
def test_crowds_and_area_ranges_count_as_in_pycocotools(images):
    pytest.importorskip("pycocotools")
    import contextlib
    import io

    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    parts = []
    for which in (0, 1):
        rows = [(at, box) for at, image in enumerate(images, 1) for box in image[which]]
        parts.append(
            [
                {
                    "id": number,
                    "image_id": at,
                    "category_id": "ab".index(box[4]) + 1,
                    "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]],
                    "area": (box[2] - box[0]) * (box[3] - box[1]) if which == 0 or box[7] is None else box[7],
                    **({"score": 1.0} if which == 0 else {"iscrowd": int(box[6])}),
                }
                for number, (at, box) in enumerate(rows, 1)
            ]
        )
    known = sorted({row["category_id"] for row in parts[1]})
    head = {"images": [{"id": at + 1} for at in range(len(images))], "categories": [{"id": one} for one in known]}
    truth, answers = COCO(), COCO()
    with contextlib.redirect_stdout(io.StringIO()):
        for api, rows in ((answers, [row for row in parts[0] if row["category_id"] in known]), (truth, parts[1])):
            api.dataset = {**head, "annotations": rows}
            api.createIndex()
        if not known:
            assert coco_figures(images) == [None] * 6
            return
        judged = COCOeval(truth, answers, "bbox")
        judged.evaluate(), judged.accumulate(), judged.summarize()
    assert coco_figures(images) == [None if value < 0 else value for value in judged.stats[:6]]


def test_a_crowd_need_not_be_found_and_what_lies_in_it_counts_neither_way():
    gold = '[{"bbox": [0, 0, 100, 100], "iscrowd": 1}, {"bbox": [200, 200, 300, 300]}]'
    question = sample("boxes", gold, (1000, 1000))
    assert by_kind(question, "[[200, 200, 300, 300]]").value == 1.0
    assert by_kind(question, "[[200, 200, 300, 300], [10, 10, 20, 20], [50, 50, 90, 99]]").value == 1.0
    assert by_kind(question, "[[200, 200, 300, 300], [90, 90, 190, 190]]").value == pytest.approx(2 / 3)


def test_of_an_image_without_boxes_an_empty_set_is_right():
    assert [by_kind(sample("boxes", "[]"), reply).value for reply in ("[]", "[[1, 2, 3, 4]]", "none that I see")] == [
        1,
        0,
        0,
    ]


POINT = st.tuples(st.integers(0, 1000), st.integers(0, 1000))
FORMS_OF_A_POINT = (
    "[{}, {}]",
    "({}, {})",
    "x: {}\ny: {}",
    "click(x={}, y={})",
    "<point>{} {}</point>",
    '{{"point_2d": [{}, {}]}}',
)
CALLS = ("click(x={}, y={})", "pyautogui.doubleClick({}, {})", "click(start_box='({},{})')")


@given(
    point=POINT,
    other=POINT,
    form=st.sampled_from(FORMS_OF_A_POINT),
    aside=st.sampled_from(FORMS_OF_A_POINT),
    tag=st.sampled_from(("think", "thinking", "analysis")),
)
def test_what_is_thought_is_no_answer(point, other, form, aside, tag):
    for kind in ("point", "points"):
        thought = f"<{tag}>{aside.format(*other)}</{tag}>{form.format(*point)}"
        ours, alone = (by_kind(sample(kind, "[0, 0, 300, 300]"), reply) for reply in (thought, form.format(*point)))
        assert (ours.value, ours.extracted) == (alone.value, alone.extracted) and alone.extracted is not None


@given(
    point=POINT,
    other=POINT,
    call=st.sampled_from(CALLS),
    more=st.sampled_from(('button="left"', "clicks=2", "tween=None")),
)
def test_a_click_is_read_with_its_other_arguments_and_among_words(point, other, call, more):
    gold, click = sample("point", "[0, 0, 300, 300]"), call.format(*point)
    alone = by_kind(gold, click).extracted
    for reply in (f"{click[:-1]}, {more})", f"I press {click} now", f"点击 {click}"):
        assert by_kind(gold, reply).extracted == alone is not None, reply
    if point != other:
        assert by_kind(gold, f"{click} then {call.format(*other)}").extracted is None


@given(box=boxes(), joint=st.sampled_from((", ", " to ", " and ", " - ", "到")))
def test_two_corners_in_a_sentence_are_a_box(box, joint):
    left, top, right, bottom = box
    gold = sample("box", str([*box]), (STEPS, STEPS), "pixel")
    corners = f"The dog lies at ({left}, {top}){joint}({right}, {bottom})."
    assert by_kind(gold, corners).value == 1
    apart = corners.replace(joint, " and its bowl at ")
    assert by_kind(gold, apart).extracted is None


@given(
    rows=st.lists(st.tuples(boxes(), st.sampled_from(("dog", "Dog ", "cat"))), min_size=1, max_size=4),
    key=st.sampled_from(("label", "class", "category", "class_name")),
    frame=st.sampled_from(
        ("{}", "Here:\n```json\n{}\n```\nDone.", "<think>[1, 2, 3, 4]</think>\n{}", "The boxes are {}.")
    ),
    quote=st.sampled_from("\"'"),
    whole=st.booleans(),
)
def test_labelled_boxes_are_read_in_every_frame(rows, key, frame, quote, whole):
    listed = [{"bbox_2d": [*box], key: name} for box, name in rows]
    text = json.dumps(listed) if whole else "\n".join(map(json.dumps, listed))
    gold = sample(
        "boxes", json.dumps([{"bbox": [*box], "label": name.strip()} for box, name in rows]), (STEPS, STEPS), "pixel"
    )
    assert by_kind(gold, frame.format(text.replace('"', quote))).value == 1


@given(x=st.integers(-20, 30), y=st.integers(-20, 30))
def test_a_point_outside_of_the_image_is_in_no_mask(x, y):
    mask = json.dumps({"size": [10, 10], "counts": [0, 100]})
    inside = 0 <= x <= 10 and 0 <= y <= 10
    assert by_kind(sample("point", mask, (10, 10), "pixel"), f"[{x}, {y}]").value == inside


@given(
    point=POINT,
    form=st.sampled_from(("[{}, {}]", "{}, {}", "x={}, y={}", "It is at ({}, {}).", '["{}", "{}"]')),
    space=spaces.filter(lambda space: "yx" not in space),
)
def test_percent_are_shares_of_the_sides_in_every_space(point, form, space):
    x, y = (Decimal(number) / 10 for number in point)
    score = by_kind(sample("point", "[0, 0, 300, 300]", reply=space), form.format(f"{x}%", f"{y}%"))
    assert score.extracted == by_kind(sample("point", "[0, 0, 300, 300]", reply="percent"), f"[{x}, {y}]").extracted
    assert score.extracted is not None


NAMED = (
    "x1: {0} px\ny1: {1} px\nx2: {2} px\ny2: {3} px",
    "- **Left:** {0}\n- **Top:** {1}\n- **Right:** {2}\n- **Bottom:** {3}",
    "BoundingBox(xmin={0}, ymin={1}, xmax={2}, ymax={3}, conf=0.87)",
    "Its bottom-right corner is ({2}, {3}) and its top-left corner is at ({0}, {1}).",
    "Die linke obere Ecke liegt bei ({0}, {1}), die rechte untere Ecke bei ({2}, {3}).",
    "La esquina superior izquierda está en ({0}, {1}) y la esquina inferior derecha en ({2}, {3}).",
    "左上角({0}, {1})，右下角({2}, {3})",
    "x from {0} to {2}, y from {1} to {3}",
    "x: {0}–{2}, y: {1}–{3}",
    "x方向从{0}到{2}，y方向从{1}到{3}。",
    "x = {0}, y = {1}, Breite = {4}, Höhe = {5}",
    "It has x={0}, y={1}, width {4} and height {5}.",
    '{{"top_left": [{0}, {1}], "bottom_right": {{"x": {2}, "y": {3}}}}}',
)
CHATTER = st.sampled_from(["", "Sure! Here it is:\n", "I see 2 people and 15 chairs. ", "The image shows bus 42. "])


@given(boxes(), st.sampled_from(NAMED), CHATTER, st.sampled_from(["", "\nLet me know if you need anything else!"]))
def test_a_box_whose_numbers_are_named_is_read_among_other_words(box, form, before, after):
    left, top, right, bottom = (int(number) for number in box)
    right, bottom = max(right, left + 1), max(bottom, top + 1)
    reply = before + form.format(left, top, right, bottom, right - left, bottom - top) + after
    score = by_kind(sample("box", [left, top, right, bottom], (9_000, 9_000), "pixel"), reply)
    assert (score.value, score.detail[IOU]) == (1.0, "1.0"), reply


def test_a_label_that_denies_and_a_choice_deny_no_box():
    asked = sample("box", [10, 20, 40, 80], reply="pixel")
    for reply in (
        'Here it is:\n```json\n{"bbox_2d": [10, 20, 40, 80], "label": "no smoking sign"}\n```\nDone.',
        "I would choose [10, 20, 40, 80].",
    ):
        assert by_kind(asked, reply).verdict == "correct", reply


@given(boxes(), boxes(), st.sampled_from(NAMED[:9]))
def test_two_boxes_in_words_and_a_denied_or_shown_one_are_no_answer(box, other, form):
    first, second = ([int(one[0]), int(one[1]), int(one[2]) + 1, int(one[3]) + 1] for one in (box, other))
    said = [form.format(*one, one[2] - one[0], one[3] - one[1]) for one in (first, second)]
    asked = sample("box", first, (9_000, 9_000), "pixel")
    if first != second:
        assert by_kind(asked, "One of them: {}\nAnother one: {}".format(*said)).verdict == "invalid"
    frames = ["I cannot view images. For example: {}", "Is it at {}?", "It is not at {}", "The mug is not at {}."]
    frames += ["There is no mug. The cup is at {}.", "图中没有雨伞。长椅在{}。", "If it were there, it would be at {}."]
    for frame in frames:
        assert by_kind(asked, frame.format(f"{first}")).verdict == "invalid", frame
