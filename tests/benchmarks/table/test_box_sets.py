"""Benchmarks with boxes and points: what each profile makes of replies on which harnesses differ, and figures of boxes."""

from __future__ import annotations

import contextlib
import io
import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from box_sets_drawn import BOX_SETS, FIRST, LAST, SIDE, screen
from catalogue_drawn import draw
from msgspec import structs
from PIL import Image as Picture

import snellen
from servers.oracle import OracleServer, SentQuestion
from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import entry
from snellen.errors import DataError
from snellen.reports.overlay import as_html, draw_regions
from snellen.scoring.areas import average_precision
from snellen.scoring.coordinates import REPLY_SPACE
from snellen.scoring.grounding import BOXES, GOLD_SPACE, IOU
from snellen.scoring.rules.harness_regions import FIND, RegionRule, score_by_rule
from snellen.scoring.shapes import shapes_of
from snellen.sources.blobs import BytesBlob, FileBlob
from snellen.types import Image, Metric, Prompt, Sample, Text
from stopwatch import is_done_within

PROFILES = ("strict", "authors", "vlmevalkit", "lmms-eval")
META = {REPLY_SPACE: "thousand", GOLD_SPACE: "pixel"}
# set, row, reply in thousandths (unit for where2place), value by profile (None: it has no such profile). Screens have 1000 pixels.
REPLIES = [
    ("refcoco", 0, '{"bbox_2d": [0.1, 0.2, 0.4, 0.5]}', (0, None, 1, 0)),  # VLMEvalKit guesses that it is a share of the sides
    ("refcoco", 0, "[0, 0, 9, 9], no: [100, 200, 400, 500]", (0, None, 0, 1)),  # the first counts there, the best in lmms-eval
    ("refcoco", 0, '[{"bbox_2d": [0, 0, 9, 9]}, {"bbox_2d": [100, 200, 400, 500]}]', (0, None, 0, 1)),
    ("refcoco", 0, "[100, 200, 400, 350]", (1, None, 1, 1)),  # an overlap of exactly a half is right
    ("refcoco", 0, "[100, 200, 400, 349]", (0, None, 0, 0)),
    ("refcoco-testa", 1, "<box>[[100, 200, 400, 500]]</box>", (1, None, 1, 1)),  # the same object by its second phrase
    ("screenspot-v2", 0, "[500, 500]", (1, None, 0, 0)),  # VLMEvalKit reads clicks alone, lmms-eval shares of the sides
    ("screenspot-v2", 0, '{"point_2d": [450, 450]}', (1, None, 0, 0)),
    ("screenspot-v2", 0, "click(x=0.5, y=0.5)", (0, None, 1, 1)),  # shares of the sides, where thousandths were asked for
    ("screenspot-pro", 0, "[400, 400, 600, 600]", (1, None, 0, 1)),  # lmms-eval: the first corner, which lies on the edge
    ("screenspot-pro", 0, "[390, 400, 600, 600]", (1, None, 0, 0)),
    ("screenspot-pro", 0, "<think>look at [900, 900]</think>\n[500, 500]", (1, None, 0, 1)),  # lmms-eval takes reasoning out
    ("screenspot-pro", 0, "<bbox>[390, 400, 600, 600]</bbox>", (1, None, 0, 1)),  # the centre of a box that is named as one
    ("screenspot-v2", 0, "[600, 400]", (1, None, 0, 0)),  # the edge belongs to the box
    ("screenspot-v2", 0, "[0.6, 0.4]", (0, None, 0, 1)),
    ("screenspot-pro", 0, "I click [500, 500].", (1, None, 0, 1)),
    ("screenspot-pro", 0, "[200, 200, 800, 800]", (1, None, 0, 0)),
    ("osworld-g", 3, "click(x=310, y=310)", (0, None, 0, 0)),  # in the box around the triangle, and not in it
    ("osworld-g", 3, "click(x=500, y=301)", (1, None, 1, 1)),
    ("osworld-g", 4, "[-1, -1]", (1, None, 0, 1)),  # nothing to click: VLMEvalKit reads no number below 0
    ("osworld-g", 4, "click(x=500, y=500)", (0, None, 0, 0)),
    ("osworld-g", 0, "[-1, -1]", (0, None, 0, 0)),
    ("osworld-g", 0, "click(x=0.5, y=0.5)", (0, None, 0, 1)),  # VLMEvalKit takes all numbers for thousandths
    ("pointbench", 0, "[(500, 500), (10, 10)]", (0, 1, 0, 1 / 2)),  # the authors take the first, lmms-eval the share
    ("pointbench", 0, "[(10, 10), (500, 500)]", (0, 0, 0, 1 / 2)),
    ("pointbench", 0, "[(0.5, 0.5)]", (0, 0, 0, 1)),
    ("pointbench", 0, "[(249.9, 500)]", (1, 0, 1, 1)),  # the authors cut pixels off
    ("pointbench", 2, "[(600, 300), (300, 749.9)]", (0, 1, 0, 0.5)),
    ("pointbench", 0, "[(249, 500)]", (0, 0, 0, 0)),  # a grey of 100 is no part of the mask
    ("pointbench", 2, "[(300, 300)]", (0, 0, 0, 1)),  # counting: two were expected
    ("pointbench", 2, "[(300, 300), (10, 10)]", (0, 0, 0, 1 / 2)),
    ("pointbench", 2, "[(600, 300), (300, 600)]", (1, 1, 1, 1)),
    ("where2place", 0, "[(0.5, 0.5), (0.1, 0.5)]", (1 / 2, 1 / 2, 1 / 2, 1 / 2)),
    ("where2place", 0, "[(500, 500)]", (0, 1, 0, 0)),  # whole numbers are pixels to the authors
    ("where2place", 0, "[(0.2499, 0.5)]", (1, 0, 1, 0)),  # pixel 249.9 is cut to 249, and its nearest one is 250
    ("treebench", 1, "Because of its shape: hull", (1, None, 1, 1)),  # the B of Because
    ("treebench", 2, "Because of its shape: sail", (1, None, 0, 0)),
]  # fmt: skip


def samples_of(name: str, folder: Path) -> list[Sample]:
    """Return the samples of a drawn set, whose replies are read in its own space, else in thousandths."""
    drawn = draw(entry(name), folder)
    if name == "osworld-g":
        refusal = {"id": "a-4", "image_path": "0.png", "instruction": "open nothing", "box_type": "refusal"}
        rows = [*json.loads(drawn.path.read_text()), {**refusal, "box_coordinates": [-1, -1, -1, -1]}]
        drawn.path.write_text(json.dumps(rows))
    space = entry(name).answer.space or "thousand"
    data = snellen.Data(path=drawn.path, images=drawn.images, options={"coordinates": space})
    return list(registry.find(name).samples(data))


@pytest.mark.parametrize(("name", "row", "reply", "values"), REPLIES)
def test_a_reply_has_the_value_that_each_profile_gives_it(
    name: str, row: int, reply: str, values: tuple[float | None, ...], tmp_path: Path
) -> None:
    samples, score = samples_of(name, tmp_path), registry.find(name).score
    found = [score[profile](samples[row], reply).value if profile in score else None for profile in PROFILES]
    assert found == list(values)


def test_pixels_are_taken_for_thousandths_by_a_harness_that_guesses(tmp_path: Path) -> None:
    """On an image of 500 pixels, a box in its pixels is a box of half the size to VLMEvalKit."""
    sample = samples_of("refcoco", tmp_path)[0]
    small = structs.replace(sample, target="[50, 100, 200, 250]", meta={**sample.meta, REPLY_SPACE: "pixel:xyxy"})
    half = structs.replace(small, target="[25, 50, 100, 125]")
    score = registry.find("refcoco").score
    reply = "[50, 100, 200, 250]"
    assert [score[profile](small, reply).value for profile in ("strict", "vlmevalkit", "lmms-eval")] == [1, 1, 1]
    assert score["strict"](half, reply).value == 0


def value(figures: list[Metric], name: str) -> float:
    return next(figure.value for figure in figures if figure.name == name and figure.value is not None)


def run_of(name: str, tmp_path: Path, replies: dict[int, str]) -> snellen.Run:
    """Run a drawn set against an oracle that is right, but for some rows."""
    drawn = draw(entry(name), tmp_path)
    order = list(drawn.right)

    def answer(request: SentQuestion) -> str:
        at = order.index(request.images[0])
        return replies.get(at) or drawn.right[request.images[0]](request)

    with OracleServer(answer) as server:
        return snellen.evaluate(
            name, "api:oracle", base_url=server.url, data=drawn.path, images=drawn.images, out=tmp_path / "run"
        )


def figures_of(name: str, tmp_path: Path, replies: dict[int, str]) -> list[Metric]:
    return run_of(name, tmp_path, replies).figures("strict")["strict"]


def test_the_mean_overlap_is_that_of_shapely(tmp_path: Path) -> None:
    shapely = pytest.importorskip("shapely")
    gold, box = shapely.box(100, 200, 400, 500), shapely.box(150, 250, 420, 490)
    expected = gold.intersection(box).area / gold.union(box).area
    figures = figures_of("refcoco", tmp_path, {0: "[150, 250, 420, 490]"})
    assert value(figures, "iou") == pytest.approx(((expected + 1) / 2 + 1 + 1) / 3)
    assert 0.5 < expected < 0.75
    assert value(figures, "accuracy@0.5/RefCOCO_val") == 1
    assert (value(figures, "accuracy@0.25"), value(figures, "accuracy@0.75")) == (1, 5 / 6)
    assert value(figures, "centre-in-box") == 1


def coco_ap(images: list[tuple[list[tuple[list[float], str]], list[tuple[list[float], str]]]]) -> float:
    """Return the average precision of (gold, found) boxes by pycocotools, loaded as its users do."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    names = {"fish": 1, "crab": 2}
    sized = lambda box: [box[0], box[1], box[2] - box[0], box[3] - box[1]]  # noqa: E731
    rows = [(at, box, names[label]) for at, (gold, _) in enumerate(images) for box, label in gold]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": at} for at in range(len(images))],
            "annotations": [
                {"id": number, "image_id": at, "category_id": label, "bbox": sized(box), "iscrowd": 0,
                 "area": sized(box)[2] * sized(box)[3]} for number, (at, box, label) in enumerate(rows, 1)
            ],
            "categories": [{"id": number, "name": name} for name, number in names.items()],
        }  # fmt: skip
        truth.createIndex()
        answers = truth.loadRes([
            {"image_id": at, "category_id": names[label], "bbox": sized(box), "score": 1.0}
            for at, (_, found) in enumerate(images) for box, label in found
        ])  # fmt: skip
        judged = COCOeval(truth, answers, "bbox")
        judged.evaluate(), judged.accumulate(), judged.summarize()
    return float(judged.stats[0])


def test_the_headline_is_the_mean_of_average_precisions_by_set(tmp_path: Path) -> None:
    """A loose box, a false one, and one in an image without anything, by pycocotools on its own."""
    pytest.importorskip("pycocotools")
    loose = [
        ([110.0, 110.0, 300.0, 300.0], "fish"),
        ([500.0, 500.0, 700.0, 700.0], "crab"),
        ([0.0, 0.0, 50.0, 50.0], "fish"),
    ]
    stray = [([1.0, 1.0, 90.0, 90.0], "crab")]
    written = {
        at: json.dumps([{"bbox_2d": box, "label": label.upper()} for box, label in found])
        for at, found in ((0, loose), (3, stray))
    }
    figures = figures_of("odinw13", tmp_path, written)
    rows = [row for row, _ in BOX_SETS["odinw13"]]
    golds = [list(zip(row["bboxes"], row["labels"], strict=True)) for row in rows]
    sets = [coco_ap([(golds[0], loose), (golds[1], golds[1])]), coco_ap([(golds[2], golds[2]), (golds[3], stray)])]
    assert [value(figures, f"mAP/{name}") for name in ("Aquarium", "pothole")] == pytest.approx(sets)
    assert value(figures, "mAP") == pytest.approx(sum(sets) / 2)
    assert sets[0] < 1


def test_a_box_in_any_space_is_right_where_the_closest_counts(tmp_path: Path) -> None:
    shares = json.dumps([{"bbox_2d": [0.2, 0.2, 0.4, 0.4], "label": "fish"}])
    samples, score = samples_of("odinw13", tmp_path), registry.find("odinw13").score
    assert [score[profile](samples[1], shares).value for profile in ("strict", "lmms-eval")] == [0, 1]
    assert [score[profile](samples[3], "[]").value for profile in ("strict", "lmms-eval")] == [1, 1]
    assert score["strict"](samples[3], shares).value == 0


def test_text_and_icon_are_told_apart_by_platform(tmp_path: Path) -> None:
    figures = figures_of("screenspot-v2", tmp_path, {1: "[1, 1]", 4: "[1, 1]"})
    assert [value(figures, name) for name in ("accuracy", "text", "icon")] == pytest.approx([4 / 6, 2 / 3, 2 / 3])
    assert [value(figures, f"icon/{name}") for name in ("mobile", "desktop", "web")] == [0, 1, 1]
    assert [value(figures, f"text/{name}") for name in ("mobile", "desktop", "web")] == [1, 1, 0]


def test_professional_screens_are_told_apart_by_group(tmp_path: Path) -> None:
    figures = figures_of("screenspot-pro", tmp_path, {3: "[1, 1]"})
    assert [value(figures, name) for name in ("accuracy/CAD", "accuracy/Office", "icon/Office", "icon/excel")] == [
        1,
        0.5,
        0,
        0,
    ]


def test_evidence_is_the_mean_over_targets_of_the_best_box(tmp_path: Path) -> None:
    """Row 0 shows half of its target, and row 1 its target in a form with blanks, which VLMEvalKit does not read."""
    half, blanks = (
        "<think><box>[100,100,300,200]</box></think><answer>(A)</answer>",
        "<box>[100, 100, 300, 300]</box><answer>(B)</answer>",
    )
    done = run_of("treebench", tmp_path, {0: half, 1: blanks})
    figures = done.figures("strict")["strict"]
    assert value(figures, "accuracy") == 1
    assert value(figures, "mIoU") == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    assert value(figures, "mIoU/Perception") == pytest.approx(0.75)
    kit = done.figures("vlmevalkit")["vlmevalkit"]
    assert value(kit, "mIoU") == pytest.approx((0.5 + 0 + 1 + 1) / 4)


def test_a_box_at_every_place_has_the_best_evidence(tmp_path: Path) -> None:
    reply = "<box>[0,0,50,50]</box><box>[100,100,300,300]</box><box>[9,9,900,900]</box><answer>(B)</answer>"
    score = registry.find("treebench").score["vlmevalkit"](samples_of("treebench", tmp_path)[1], reply)
    assert (score.value, score.detail["box.iou"]) == (1, "1.0")


def text_of(sample: Sample) -> str:
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            "api:gpt-5",
            "Answer with the point as [x, y]. Coordinates run from 0 to 1000 over the width and the height of the image.",
        ),
        ("api:gemini-2.5-pro", "Answer with the point as [y, x]."),
    ],
)
def test_the_prompt_asks_for_the_space_in_which_replies_are_read(model: str, told: str, tmp_path: Path) -> None:
    drawn = draw(entry("screenspot-v2"), tmp_path)
    texts: list[str] = []
    with OracleServer(
        lambda request: texts.append(request.text) or "[500, 500]", model=model.partition(":")[2]
    ) as server:  # type: ignore[func-returns-value]
        snellen.evaluate("screenspot-v2", model, base_url=server.url, data=drawn.path, out=tmp_path / "run")
    assert sorted(texts)[0] == f"Which point of this screen has to be clicked? open 0\n{told}"


def test_the_prompt_names_a_space_only_where_it_is_asked_for(tmp_path: Path) -> None:
    asked = text_of(samples_of("odinw13", tmp_path)[0])
    assert asked.startswith("Locate every instance that belongs to the following categories: 'fish, crab'. Report bbox")
    assert asked.endswith("in JSON format. Coordinates run from 0 to 1000 over the width and the height of the image.")
    plain = list(registry.find("odinw13").samples(snellen.Data(path=tmp_path / "drawn.parquet")))
    assert text_of(plain[0]).endswith("in JSON format.")


def test_an_object_is_asked_for_by_each_of_its_phrases(tmp_path: Path) -> None:
    samples = samples_of("refcoco-testa", tmp_path)
    phrases = [text_of(sample).partition("\n")[0].rpartition(": ")[2] for sample in samples]
    assert phrases[:3] == ["dog 0", "the animal 0", "dog 1"]
    assert [sample.meta["object"] for sample in samples[:3]] == ["100", "100", "101"]
    assert len({sample.id for sample in samples}) == len(samples) == 6
    assert samples[0].group == samples[1].group != samples[2].group


def test_what_is_known_of_a_harness_stands_at_its_profile(tmp_path: Path) -> None:
    assert "the closest to the gold answer counts" in registry.find("refcoco-testb").profiles["lmms-eval"]
    drawn = draw(entry("screenspot-v2"), tmp_path)
    with OracleServer(drawn.reply) as server:
        done = snellen.evaluate(
            "screenspot-v2", "api:oracle", base_url=server.url, data=drawn.path, out=tmp_path / "run"
        )
    assert any(line.startswith("known of vlmevalkit: it reads `x=…, y=…` alone") for line in done.notes())


@pytest.mark.parametrize(("name", "row", "reply"), [("osworld-g", 4, "[-1, -1]"), ("odinw13", 3, "[]")])
def test_a_page_draws_an_image_where_nothing_is_to_be_found(name: str, row: int, reply: str, tmp_path: Path) -> None:
    sample = samples_of(name, tmp_path)[row]
    shapes = shapes_of(sample, registry.find(name).score["strict"](sample, reply))
    assert shapes is not None and (shapes.gold, shapes.verdict) == ((), "correct")
    assert "gold: nothing" in as_html(draw_regions(shapes, "a.png"))


def test_a_mask_is_white_where_its_drawing_is(tmp_path: Path) -> None:
    runs = json.loads(samples_of("where2place", tmp_path)[0].target)
    assert runs["size"] == [SIDE, SIDE] and sum(runs["counts"][1::2]) == (LAST - FIRST) ** 2


def test_a_rule_that_names_what_is_not_looked_for_is_refused(tmp_path: Path) -> None:
    text = (
        'name = "x"\n[source]\ncsv = "x.csv"\n[rows]\nquestion = "q"\nanswer = "a"\n[score]\nread = "box"\n'
        '[score.region]\nfind = ["guess"]\n[[report]]\nheadline = true\n'
    )
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(DataError, match="find has 'guess'; one of json, brackets"):
        registry.find(str(tmp_path / "x.toml"))


OWN = """
name = "dogs"
[source]
json = "dogs.json"
explode = "phrases"
[rows]
id = "#"
image = "image"
question = "phrases"
answer = { column = "boxes", labels = "names" }
place = "place"
[prompt]
style = "question"
after = " {request}"
[answer]
gold = "pixel:xywh"
[score]
read = "boxes"
[[report]]
name = "map"
metric = "coco-map"
headline = true
[[report]]
name = "f1"
by = "place"
"""


def test_a_declaration_of_ones_own_asks_for_labelled_boxes_by_each_phrase(tmp_path: Path) -> None:
    pytest.importorskip("pycocotools")
    (tmp_path / "a.png").write_bytes(screen(1))
    row = {
        "image": "a.png",
        "phrases": ["dogs", "cats"],
        "boxes": [[100, 100, 200, 200]],
        "names": ["dog"],
        "place": "lake",
    }
    (tmp_path / "dogs.json").write_text(json.dumps([row]))
    (tmp_path / "dogs.toml").write_text(OWN)
    reply = json.dumps([{"bbox_2d": [100, 100, 300, 300], "label": "Dog"}, {"bbox_2d": [0, 0, 9, 9], "label": "dog"}])
    with OracleServer(lambda request: reply) as server:
        done = snellen.evaluate(str(tmp_path / "dogs.toml"), "api:oracle", base_url=server.url, out=tmp_path / "run")
        assert sorted(request.text.partition(" ")[0] for request in server.requests) == ["cats", "dogs"]
    figures = done.figures("strict")["strict"]
    assert value(figures, "f1/lake") == pytest.approx(2 / 3)
    golds = [([100.0, 100.0, 300.0, 300.0], "fish")]
    assert value(figures, "map") == pytest.approx(coco_ap([(golds, [*golds, ([0.0, 0.0, 9.0, 9.0], "fish")])] * 2))


def test_boxes_and_labels_of_another_number_leave_their_row_out(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(screen(1))
    row = {"image": "a.png", "phrases": ["dogs"], "boxes": [[1, 1, 2, 2]], "names": [], "place": "lake"}
    whole = {**row, "names": ["dog"]}
    (tmp_path / "dogs.json").write_text(json.dumps([row, whole]))
    (tmp_path / "dogs.toml").write_text(OWN)
    samples = list(registry.find(str(tmp_path / "dogs.toml")).samples(snellen.Data()))
    assert [sample.id for sample in samples] == ["1"]


def test_evidence_has_to_be_a_value_of_the_rows(tmp_path: Path) -> None:
    (tmp_path / "dogs.toml").write_text(OWN.replace('read = "boxes"', 'evidence = "targets"'))
    with pytest.raises(DataError, match=r"\[score\] evidence names 'targets'; \[rows\] has place"):
        registry.find(str(tmp_path / "dogs.toml"))


@pytest.mark.parametrize("name", [*FIND])
@pytest.mark.parametrize("part", ["[1", "( ", "1 ", "x=1 ", "x: 1, ", "<box>[1,", "-+.", '{"a": ', "1,", "y=2, x=1"])
def test_a_long_reply_is_read_in_time_that_grows_with_its_length(name: str, part: str) -> None:
    from snellen.types import Image, Prompt

    rule = RegionRule(find=(name,), spaces=("thousand",))
    sample = Sample("1", Prompt((Image(BytesBlob("a.png", screen(1))),)), "[1, 1, 9, 9]", "point", meta=META)
    assert is_done_within(3, lambda: score_by_rule(rule, sample, part * (160_000 // len(part))))


VECTORS = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "box_set_vectors.jsonl").open(encoding="utf-8")
]
"""Replies to invented rows with the value that the harness's own code gave; `ours` where a profile differs, and a note says so."""
NOTED = {
    ("screenspot-v2", "vlmevalkit"): "its gold boxes end one pixel early",
    ("osworld-g", "lmms-eval"): "right and lower edges are outside",
    ("where2place", "authors"): "a pair of corners is all pixels between them",
}


def run_lengths(size: list[int], white: list[list[int]]) -> str:
    """Return a mask that is white in boxes, column by column as COCO writes it."""
    dots = np.zeros((size[0], size[1]), bool)
    for left, top, right, bottom in white:
        dots[left:right, top:bottom] = True
    counts = [len(list(run)) for _, run in groupby([False, *dots.ravel().tolist()])]
    return json.dumps({"size": [size[1], size[0]], "counts": [counts[0] - 1, *counts[1:]]})


def test_replies_have_the_values_that_the_harness_gave(tmp_path: Path) -> None:
    """The rows are those of the drawn sets, with image size and gold answer of the vector."""
    drawn: dict[str, Sample] = {}
    for number, vector in enumerate(VECTORS):
        name, harness = vector["set"], vector["harness"]
        if name not in drawn:
            (folder := tmp_path / name).mkdir()
            drawn[name] = samples_of(name, folder)[0]
        picture = tmp_path / f"{number}.png"
        Picture.new("1", tuple(vector["size"])).save(picture)
        sample = structs.replace(
            drawn[name],
            target=vector.get("target") or run_lengths(vector["size"], vector["white"]),
            prompt=Prompt((Image(FileBlob(picture)),)),
            meta={**drawn[name].meta, **vector.get("meta", {})},
            options=vector.get("options", drawn[name].options),
        )
        score = registry.find(name).score[harness](sample, vector["reply"])
        value = score.value
        if name == "odinw13":
            value = average_precision([tuple(json.loads(score.detail[BOXES]))]).ap  # type: ignore[union-attr]
        assert value == pytest.approx(vector.get("ours", vector["value"]), abs=1e-5), vector
        if "iou" in vector:
            assert float(score.detail[IOU]) == pytest.approx(vector["iou"], abs=1e-5), vector
        if "ours" in vector:
            assert NOTED[name, harness] in registry.find(name).profiles[harness], vector
