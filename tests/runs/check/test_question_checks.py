"""The whole check: duplicates, images, texts, examples, totals, and memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_rows import affected, by_code, checked, inline, png, row

from snellen.benchmarks.table.question import OmittedRow
from snellen.models.api.prices import Price
from snellen.runs.check.check import Check, CheckSettings
from snellen.runs.check.finding import CheckedRow, row_of_sample
from snellen.sources.blobs import FileBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Sample, Text, Video


class CountedBlob:
    """An inline image that counts how often it is read."""

    def __init__(self, key: str, data: bytes) -> None:
        self.key, self.data, self.reads = key, data, 0

    def read(self) -> bytes:
        self.reads += 1
        return self.data


def test_equal_questions_are_duplicates_only_with_equal_images_and_options() -> None:
    red, blue = inline(png(), "red"), inline(png(colour="blue"), "blue")
    rows = [
        row(1, "Which bird?", ("robin", "wren"), "A", images=[red]),
        row(2, "Which bird?", ("robin", "wren"), "A", images=[blue]),
        row(3, "Which bird?", ("wren", "robin"), "B", images=[red]),
        row(4, "which  bird?", ("robin", "wren"), "A", images=[inline(png(), "another name")]),
        row(5, "Which bird?", ("robin", "wren"), "B", images=[blue]),
    ]
    result = checked(rows)
    assert affected(result, "duplicate-question") == ["row 4"]
    assert affected(result, "contradicting-answers") == ["row 5"]
    assert by_code(result)["contradicting-answers"].rows[0].detail == "as row 2"


def test_equal_ids_are_an_error() -> None:
    result = checked([row(1, sample_id="x"), row(2, sample_id="y"), row(3, sample_id="x")])
    assert affected(result, "duplicate-id") == ["row 3"]
    assert by_code(result)["duplicate-id"].level == "error"


def test_one_image_under_several_names_is_noted_once_for_each_name(tmp_path: Path) -> None:
    for name, colour in {"a.png": "red", "b.png": "blue", "copy.png": "red"}.items():
        (tmp_path / name).write_bytes(png(colour=colour))
    files = [FileBlob(tmp_path / name) for name in ("a.png", "b.png", "copy.png", "copy.png")]
    finding = by_code(checked([row(at, images=[file]) for at, file in enumerate(files)]))["duplicate-image"]
    assert (finding.count, finding.level) == (1, "note")
    assert finding.rows[0].row.endswith("copy.png") and finding.rows[0].detail.endswith("a.png")
    assert finding.message == "1 image has the content of an image with another name"


def test_each_image_is_read_once_however_often_it_is_asked_about() -> None:
    blob = CountedBlob("one", png())
    result = checked([row(number, images=[blob, blob]) for number in range(50)])
    assert (blob.reads, result.images) == (1, 1)


def test_images_that_cannot_be_sent_or_are_odd_are_found(tmp_path: Path) -> None:
    whole = png(64, 64)
    blobs = {
        "fine": inline(png(300, 200)),
        "no image": inline(b"hello", "h"),
        "cut off": inline(whole[: len(whole) // 2], "c"),
        "gone": FileBlob(tmp_path / "gone.png"),
        "tiny": inline(png(20, 300), "t"),
        "long": inline(png(40, 1200), "l"),
        "huge": inline(png(8001, 1000), "u"),
        "16 bit": inline(png(50, 50, 0, "I;16"), "w"),  # type: ignore[arg-type]
    }
    rows = [row(number, images=[blob]) for number, blob in enumerate(blobs.values(), 1)]
    result = checked(rows)
    assert affected(result, "image-unreadable") == ["row 2", "row 3", "row 4"]
    assert affected(result, "image-tiny") == ["row 5"]
    assert affected(result, "image-elongated") == ["row 6"]
    assert affected(result, "image-huge") == ["row 7"]
    assert affected(result, "image-converted") == ["row 8"]
    assert by_code(result)["image-unreadable"].level == "error"


def test_a_row_with_several_odd_images_counts_once() -> None:
    blobs = [inline(png(20, 20, colour), colour) for colour in ("red", "green", "blue")]
    finding = by_code(checked([row(1, images=blobs), row(2, images=blobs[:1])]))["image-tiny"]
    assert (finding.count, len(finding.rows)) == (2, 2)


def test_an_image_above_the_pixel_limit_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_MAX_IMAGE_PIXELS", "1000")
    result = checked([row(1, images=[inline(png(100, 100))])])
    assert "at most 1,000" in by_code(result)["image-unreadable"].rows[0].detail


def test_rows_without_images_are_noted_where_others_have_some() -> None:
    rows = [row(1, images=[inline(png())]), row(2), row(3)]
    assert affected(checked(rows), "without-image") == ["row 2", "row 3"]
    assert by_code(checked([row(1), row(2)])) == {}


def test_marks_that_are_left_in_the_text_are_found() -> None:
    rows = [row(1, "<image> Which bird?"), row(2, "Is 2 < 3?"), row(3, "See <Image 2>.")]
    assert affected(checked(rows), "mark-without-image") == ["row 1", "row 3"]


def test_omitted_rows_are_listed_to_the_twentieth_or_all() -> None:
    rows = [row(1), *(OmittedRow(f"row {number}", "", "image missing: 'x.png'") for number in range(2, 32))]
    result = checked(rows)
    assert (result.rows, result.samples, len(result.omitted)) == (31, 1, 20)
    finding = by_code(result)["row-omitted"]
    assert (finding.count, len(finding.rows), finding.level) == (30, 20, "error")
    assert len(checked(rows, all_rows=True).omitted) == 30


def test_examples_are_samples_as_they_would_be_sent() -> None:
    image = inline(png(300, 200), "x.png")
    rows = [row(number, options=("robin", "wren"), answer="B", images=[image]) for number in range(1, 101)]
    result = checked(rows, examples=4, media=MediaSettings(max_long_side=150))
    assert len(result.examples) == 4
    places = [int(example.row.removeprefix("row ")) for example in result.examples]
    assert places == sorted(places)
    first = result.examples[0]
    assert [part.type for part in first.prompt] == ["image", "text"]
    assert (first.prompt[0].width, first.prompt[0].height, first.prompt[0].format) == (300, 200, "png")
    assert first.prompt[0].sent == "150 x 100 (over the size limits)"
    assert first.prompt[1].text.endswith("A. robin\nB. wren")
    assert (first.gold, first.options) == ("B", {"A": "robin", "B": "wren"})


def test_longest_prompts_come_with_their_rows() -> None:
    rows = [row(number, "x" * number) for number in range(1, 101)]
    result = checked(rows)
    assert [text.row for text in result.longest] == ["row 100", "row 99", "row 98", "row 97", "row 96"]
    assert [text.characters for text in result.longest] == [100, 99, 98, 97, 96]
    assert (result.characters, len(result.longest[0].text)) == (51, 100)


def test_a_text_that_may_not_fit_is_found() -> None:
    rows = [row(1, "x" * 50_000), row(2, "x" * 50_001)]
    assert affected(checked(rows), "long-text") == ["row 2"]


def test_tokens_and_cost_are_those_of_a_dry_run() -> None:
    rows = [row(number, "x" * 400, images=[inline(png(300, 250))]) for number in range(10)]
    result = checked(rows, generation=Generation(max_tokens=5), price=Price(1.0, 10.0))
    assert (result.input_tokens, result.output_tokens) == (10 * (100 + 100), 50)
    assert result.cost == (2000 * 1.0 + 50 * 10.0) / 1e6


def test_samples_of_registered_benchmarks_are_checked_too() -> None:
    prompt = Prompt((Image(inline(png())), Text("Which bird?\nA. robin\nB. robin"), Video(inline(b"clip", "clip"))))
    sample = Sample("bird-1", prompt, "A", "choice", options={"A": "robin", "B": "robin"})
    result = checked([row_of_sample(sample)])
    assert set(by_code(result)) == {"equal-options"}
    assert (affected(result, "equal-options"), result.videos) == (["bird-1"], 1)


def test_memory_hardly_grows_with_rows() -> None:
    def rows(count: int) -> Iterator[CheckedRow]:
        for number in range(count):
            yield row(number, f"Which bird is number {number}? " + "x" * 500, ("robin", "wren"), "AB"[number % 2])

    tracemalloc.start()
    check = Check(CheckSettings())
    check.run(rows(20_000))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 20_000 * 600
