"""How the questions of VLM2-Bench are asked: wording, grids of dots, crops."""

from __future__ import annotations

import math
import pickle
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow
from PIL import ImageDraw, ImageFont

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import dot_grid, prompts
from snellen.benchmarks.vlm2.layout import BY_NAME, SUBTASKS
from snellen.errors import DataError, UsageError
from snellen.media import MediaCache
from snellen.sources.blobs import BytesBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Text, Video

DOCS = Path(__file__).parents[3] / "docs" / "vlm2-prompting.md"
MAT, CPR, VID = BY_NAME["gc-mat"], BY_NAME["oc-cpr"], BY_NAME["pc-vid"]
QUESTION = 'Is "a red {cup}" right for "What is new {marker}?" T or F'


class Counted:
    """A blob that counts how often it is read."""

    def __init__(self, key: str, data: bytes) -> None:
        self.key, self.data, self.reads = key, data, 0

    def read(self) -> bytes:
        self.reads += 1
        return self.data


def asked(subtask=MAT, **options: str) -> prompts.VariantPrompting:
    return prompts.prompt_variant(
        Data(options={name.replace("_", "-"): value for name, value in options.items()}), subtask
    )


def file_of(pixels: np.ndarray, kind: str = "PNG", **more) -> bytes:
    out = BytesIO()
    pillow.fromarray(pixels).save(out, kind, **more)
    return out.getvalue()


def noise(width: int, height: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def pixels_of(data: bytes) -> np.ndarray:
    return np.asarray(pillow.open(BytesIO(data)).convert("RGB"))


def drawn(pixels: np.ndarray, number: int = 1, **options: str) -> np.ndarray:
    blob = asked(prompting="vp-grid", **options).grid.over(BytesBlob("a.png", file_of(pixels)), number)
    return pixels_of(blob.read())


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# Wording


def test_vanilla_sends_the_pictures_in_order_and_the_untouched_question_after_a_line_break():
    pictures = [Image(BytesBlob(name, b"")) for name in ("one", "two")]
    found = prompts.compose(asked(), MAT, pictures, ["one", "two"], QUESTION)
    assert found == Prompt((*pictures, Text("\n" + QUESTION)), "", Generation(max_tokens=512))


def test_vanilla_sends_a_video_with_the_question_alone_and_every_subtask_has_its_own_bound():
    for subtask in SUBTASKS:
        found = prompts.compose(asked(subtask), subtask, [Video(BytesBlob("v", b""))], ["v.mp4"], "Describe.")
        assert found.parts == (
            Video(BytesBlob("v", b"")),
            Text("Describe." if subtask.family == "video" else "\nDescribe."),
        )
        assert found.generation == Generation(max_tokens=subtask.max_tokens)


@pytest.mark.parametrize("variant", prompts.VARIANTS)
def test_the_text_of_a_variant_comes_from_its_file_and_is_documented_with_its_subtasks(variant):
    known = prompts.wording(variant)
    page = DOCS.read_text(encoding="utf-8")
    section = page.split(f"\n## {variant}\n")[1].split("\n## ")[0]
    assert f"```text\n{known.text}\n```" in section
    assert all(f"`{name}`" in section for name in known.subtasks)
    assert sum(f"`{one.name}`" in section for one in SUBTASKS) == len(known.subtasks)
    if known.max_tokens:
        assert f"{known.max_tokens:,} tokens" in section


def test_every_option_is_documented_with_its_own_words():
    page = DOCS.read_text(encoding="utf-8")
    for name, words in prompts.OPTIONS.items():
        assert f"| `{name}` | {words} |" in page


@pytest.mark.parametrize("variant", prompts.VARIANTS[1:])
def test_every_guided_variant_keeps_the_question_and_demands_the_marker_in_the_last_line(variant, tmp_path):
    found = written(tmp_path, "b.jsonl", '{"image": "a", "box": [0, 0, 9, 9]}')
    subtask = BY_NAME[prompts.wording(variant).subtasks[0]]
    how = asked(subtask, prompting=variant, **({"boxes": str(found)} if variant == "vp-zoom" else {}))
    *_, last = prompts.compose(how, subtask, [Image(BytesBlob("a", b""))] * 3, ["a"] * 3, QUESTION).parts
    assert QUESTION in last.text
    assert "MY_ANSWER:" in last.text.splitlines()[-1]
    rest = last.text.replace(QUESTION, "")
    assert "{" not in rest and "}" not in rest


def test_the_grid_is_explained_with_its_own_size_and_the_number_of_pictures():
    how = asked(prompting="vp-grid", grid="4x7")
    text = prompts.compose(how, MAT, [Image(BytesBlob("a", b""))] * 2, ["a", "b"], "Q").parts[-1].text
    assert "The 2 images" in text and "4 columns by 7 rows" in text and "(2,1,1)" in text


def test_reasoning_gets_more_tokens_than_the_512_of_a_bare_answer():
    for variant in ("cot", "cot-special", "vp-grid"):
        assert prompts.compose(asked(prompting=variant), MAT, [], [], "Q").generation.max_tokens == 2048


@pytest.mark.parametrize(
    ("subtask", "variant"),
    [
        ("pc-vid", "cot"),
        ("oc-cnt", "cot-special"),
        ("pc-grp", "vp-grid"),
        ("gc-trk", "vp-zoom"),
        ("pc-vid", "vp-zoom"),
    ],
)
def test_a_variant_for_other_subtasks_is_refused_and_they_are_named(subtask, variant):
    with pytest.raises(UsageError) as refused:
        asked(BY_NAME[subtask], prompting=variant)
    for name in prompts.wording(variant).subtasks:
        assert name in refused.value.message


def test_every_variant_is_accepted_where_it_is_for(tmp_path):
    found = written(tmp_path, "b.jsonl", '{"image": "a", "box": [0, 0, 9, 9]}')
    for variant in prompts.VARIANTS:
        more = {"boxes": str(found)} if variant == "vp-zoom" else {}
        for name in prompts.wording(variant).subtasks:
            assert asked(BY_NAME[name], prompting=variant, **more).variant == variant


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompting": "CoT"}, "vanilla, cot, cot-special, vp-grid, vp-zoom"),
        ({"grid": "6x6"}, "prompting=vp-grid"),
        ({"prompting": "cot", "crop-margin": "0.1"}, "prompting=vp-zoom"),
        ({"prompting": "vp-zoom"}, "-o boxes=FILE"),
        ({"prompting": "vp-zoom", "boxes": ""}, "-o boxes=FILE"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_with_what_would_do(options, words):
    with pytest.raises(UsageError, match=words):
        prompts.prompt_variant(Data(options=options), CPR if options.get("prompting") == "vp-zoom" else MAT)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("First ... MY_ANSWER: T", "T"),
        ("MY_ANSWER: F is what I thought first.\n\nMY_ANSWER:\n A) 1 and 3 \n", "A) 1 and 3"),
        ("MY_ANSWER:", ""),
        ("I think T.\n", "I think T.\n"),
        ("my_answer: T", "my_answer: T"),
    ],
)
def test_the_text_after_the_last_marker_is_scored(reply, expected):
    for variant in prompts.VARIANTS[1:]:
        assert prompts.final_answer(reply, variant) == expected
    assert prompts.final_answer(reply, "vanilla") == reply


# Grids


@pytest.mark.parametrize("ground", [0, 60, 128, 200, 255])
def test_every_dot_has_its_colour_in_its_middle_and_its_outline_around_it_on_any_ground(ground):
    found = drawn(np.full((480, 640, 3), ground, np.uint8), grid="5x4", grid_color="#ff0000/#ffffff")
    lies = dot_grid.layout(640, 480, dot_grid.DotGrid(5, 4), 1)
    assert (found.shape[1], found.shape[0]) == (lies.width, lies.height) == (640, 480)
    assert [place[2:] for place in lies.places[:2]] == [(64, 60), (192, 60)]
    assert len(lies.places) == 20
    for _, _, x, y in lies.places:
        assert tuple(found[y, x]) == tuple(found[y - lies.radius, x]) == (255, 0, 0)
        assert tuple(found[y - lies.radius - lies.outline, x]) == (255, 255, 255)
        assert tuple(found[y - lies.radius - lies.outline - 1, x]) == (ground,) * 3


def test_the_picture_is_left_as_it_was_outside_of_dots_and_labels():
    source = noise(640, 480)
    found = drawn(source)
    lies = dot_grid.layout(640, 480, dot_grid.DotGrid(), 1)
    touched = np.zeros((480, 640), bool)
    for _, _, x, y in lies.places:
        touched[y - 5 : y + 6, x - 5 : x + 6] = True  # the dot
        touched[y : y + 20, x - 24 : x + 25] = True  # its label
    assert (found[~touched] == source[~touched]).all()
    assert (found[touched] != source[touched]).any()


def test_labels_name_the_image_the_column_and_the_row():
    found = drawn(np.full((480, 480, 3), 90, np.uint8), 3, grid="4x5")
    lies = dot_grid.layout(480, 480, dot_grid.DotGrid(4, 5), 3)
    for column, row, x, y in lies.places:
        alone = pillow.new("RGB", (60, 30))
        ImageDraw.Draw(alone).text(
            (30, 5), f"(3,{column},{row})", "white", ImageFont.load_default(lies.text), anchor="mt"
        )
        expected = np.asarray(alone)
        top = np.flatnonzero(expected.any((1, 2)))[0]
        plate = found[y + lies.radius + 2 * lies.outline :, x - 15 : x + 15][: lies.text - 3]
        assert (plate == expected[top:, 15:45][: lies.text - 3]).all(), (column, row)


def test_labels_have_light_strokes_on_a_dark_plate_or_the_reverse_on_any_ground():
    for ground in (noise(400, 300), np.full((300, 400, 3), 255, np.uint8), np.zeros((300, 400, 3), np.uint8)):
        found = drawn(ground, grid="3x3")
        for _, _, x, y in dot_grid.layout(400, 300, dot_grid.DotGrid(3, 3), 1).places:
            plate = found[y + 6 : y + 14, x - 15 : x + 16]
            assert plate.min() == 0
            assert plate.max() > 200
            assert (plate == plate[:, :, :1]).all(), "only greys: nothing of the ground shines through"


@settings(deadline=None, max_examples=60)
@given(
    width=st.integers(1, 4000),
    height=st.integers(1, 4000),
    columns=st.integers(1, 20),
    rows=st.integers(1, 20),
    number=st.integers(1, 12),
)
def test_labels_lie_within_the_picture_apart_from_each_other_and_are_never_smaller_than_12(
    width, height, columns, rows, number
):
    try:
        lies = dot_grid.layout(width, height, dot_grid.DotGrid(columns, rows), number)
    except ValueError:
        assert max(width / height, height / width) > 5
        return
    assert lies.text >= dot_grid.LEAST_TEXT
    assert lies.width >= width and lies.height >= height
    if lies.width > width:
        assert math.isclose(lies.width / lies.height, width / height, rel_tol=0.05) or min(width, height) < 20
    font = dot_grid._font(lies.text)
    edges = {}
    for column, row, x, y in lies.places:
        left, upper, right, lower = font.getbbox(f"({number},{column},{row})", anchor="mt")
        down = y + lies.radius + 2 * lies.outline + lower - upper + lies.outline
        edges[column, row] = (x + left - lies.outline, y - lies.radius - lies.outline, x + right + lies.outline, down)
    for (column, row), (left, upper, right, lower) in edges.items():
        assert left >= 0 and upper >= 0 and right < lies.width and lower < lies.height
        if (column + 1, row) in edges:
            assert right < edges[column + 1, row][0]
        if (column, row + 1) in edges:
            assert lower < edges[column, row + 1][1]


def test_a_tiny_picture_is_enlarged_until_its_labels_can_be_read_and_a_large_one_gets_larger_labels():
    tiny, large = dot_grid.layout(100, 80, dot_grid.DotGrid(), 1), dot_grid.layout(2000, 1500, dot_grid.DotGrid(), 1)
    assert tiny.width > 250 and tiny.text == 12
    assert abs(tiny.width / tiny.height - 100 / 80) < 0.01
    assert (large.width, large.height) == (2000, 1500)
    assert large.text > 30


def test_a_picture_too_narrow_for_the_grid_is_an_error_that_says_so():
    blob = dot_grid.DotGrid().over(BytesBlob("strip.png", file_of(noise(3000, 2))), 1)
    with pytest.raises(DataError, match=r"strip\.png: 3000 x 2 pixels cannot hold a grid of 6 x 6") as raised:
        blob.read()
    assert "-o grid" in raised.value.hint


def test_a_grid_is_drawn_when_it_is_read_and_the_same_bytes_come_each_time():
    source = Counted("a.png", file_of(noise(320, 240)))
    how = asked(prompting="vp-grid")
    image = prompts.compose(how, MAT, [Image(source)], ["a.png"], "Q").parts[0]
    assert source.reads == 0
    first = image.blob.read()
    again = prompts.compose(asked(prompting="vp-grid"), MAT, [Image(source)], ["a.png"], "Q").parts[0].blob
    assert again.key == image.blob.key
    assert again.read() == first == pickle.loads(pickle.dumps(again)).read()


def test_the_key_of_a_grid_holds_the_source_the_number_and_every_setting():
    def key(source: str = "a", number: int = 1, **options: str) -> str:
        return asked(prompting="vp-grid", **options).grid.over(BytesBlob(source, b""), number).key

    keys = [key(), key("b"), key(number=2), key(grid="6x5"), key(grid_color="red"), key(grid_color="red/white")]
    assert len(set(keys)) == len(keys)
    assert key(grid="6X6", grid_color="#FFF/#000") == key()


def test_what_is_drawn_goes_through_the_media_room_unchanged():
    for kind, mime in (("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/png"), ("WEBP", "image/png")):
        blob = dot_grid.DotGrid().over(BytesBlob(f"a.{kind}", file_of(noise(300, 260), kind)), 1)
        sent = MediaCache(MediaSettings()).get(Image(blob))
        assert (sent.mime, sent.changed, sent.width, sent.height) == (mime, "", 300, 260)
        assert sent.data == blob.read()


def test_a_jpeg_keeps_the_edges_of_coloured_dots():
    source = file_of(np.full((400, 400, 3), 40, np.uint8), "JPEG", quality=95)
    how = dot_grid.grid_of({"grid": "2x2", "grid-color": "#ff0000/#00ffff"})
    found = pixels_of(how.over(BytesBlob("a.jpg", source), 1).read()).astype(int)
    lies = dot_grid.layout(400, 400, how, 1)
    for _, _, x, y in lies.places:
        assert np.abs(found[y, x] - (255, 0, 0)).max() < 40
        assert np.abs(found[y + 12, x - 18] - (0, 255, 255)).max() < 60


@pytest.mark.parametrize(
    "options",
    [
        {"grid": "6"},
        {"grid": "0x6"},
        {"grid": "21x2"},
        {"grid": "-1x3"},
        {"grid": "6x6x6"},
        {"grid-color": "nocolour"},
        {"grid-color": "red/white/blue"},
        {"grid-color": ""},
        {"grid-color": "white/yellow"},
    ],
)
def test_a_grid_or_colour_that_cannot_be_drawn_is_refused(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        prompts.prompt_variant(Data(options={"prompting": "vp-grid", **options}), MAT)


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_one_colour_alone_gets_the_outline_that_stands_out(colour):
    found = dot_grid.grid_of({"grid-color": "#" + bytes(colour).hex()})
    assert found.colour == colour
    assert dot_grid.contrast(found.colour, found.outline) >= 4.5
