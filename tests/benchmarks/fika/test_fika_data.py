"""The gated zip is read in place in every shape that it may have, and what is damaged fails alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fika import made
from snellen.benchmarks.base import Data
from snellen.benchmarks.fika import FIKA
from snellen.benchmarks.fika import samples as fika_samples
from snellen.errors import DataError, UsageError
from snellen.sources import Unreadable
from snellen.types import Image, Sample, Text


def blobs(sample: Sample) -> list[Any]:
    return [part.blob for part in sample.prompt.parts if isinstance(part, Image)]


def text(sample: Sample) -> str:
    return next(part.text for part in sample.prompt.parts if isinstance(part, Text))


@pytest.mark.parametrize("shape", ["jsonl", "lines", "list", "samples", "data", "items"])
def test_a_manifest_is_read_in_every_shape_and_from_zip_and_folder_alike(tmp_path, shape):
    content = made.files([made.row(i) for i in range(5)], shape=shape)
    archive = Data(made.zipped(tmp_path / "fika-bench-testset.zip", content))
    folder = Data(made.unpacked(tmp_path / "folder", content))
    for given in (archive, folder, Data(folder.path / "data"), Data(tmp_path)):
        found = list(FIKA.samples(given))
        assert [one.id for one in found] == [f"s{i:03}" for i in range(5)]
        assert [blobs(one)[0].read() for one in found] == [made.picture(i) for i in range(5)]
        assert FIKA.size(given) == 5
    assert FIKA.digest(archive) == FIKA.digest(folder)


def test_a_sample_holds_its_gold_as_target_and_nowhere_else(tmp_path):
    (first, second) = FIKA.samples(Data(made.whole(tmp_path / "x.zip", 2)))
    assert first.target == ("Zyxgold 0 Mark II", "Qwvalias-0", "兹金0号")
    assert first.meta == {"domain": "Product", "subcategory": "kind 0", "source": "public_source", "language": "zh"}
    assert second.meta["source"] == "real_life" and second.meta["language"] == "en"
    for one in (first, second):
        seen = f"{one.id} {one.group} {one.meta} {text(one)} {blobs(one)[0].key}".lower().encode()
        assert not [word for word in made.PLANTED if word in seen]
    assert text(first).startswith("这是什么? 第 0 号\n") and '{"answer": "<the name>"' in text(first)


def test_images_of_one_target_are_one_cluster(tmp_path):
    rows = [made.row(0), made.row(1), made.row(2, fine_grained_label="ZYXLABEL  0")]
    one, two, three = FIKA.samples(Data(made.zipped(tmp_path / "x.zip", made.files(rows))))
    assert one.group == three.group != two.group


def test_other_field_names_are_found_and_a_file_of_fields_names_the_rest(tmp_path):
    usual = {
        "uid": 7,
        "img": "images/a.png",
        "query": "What?",
        "gold_answer": {"en": "Rose", "zh": "玫瑰"},
        "lang": "zh-CN",
    }
    odd = {
        "nummer": "n8",
        "bild": "images/b.png",
        "frage": "Was?",
        "antwort": "Tulpe",
        "taxonomy": {"domain": "Nature"},
    }
    content = {"manifest.json": json.dumps([usual, odd]).encode(), "images/a.png": b"a", "images/b.png": b"b"}
    given = Data(made.zipped(tmp_path / "x.zip", content))
    first, second = FIKA.samples(given)
    assert (first.id, first.target, first.meta["language"]) == ("7", ("Rose", "玫瑰"), "zh")
    assert isinstance(blobs(second)[0], Unreadable) and "looked for question" in blobs(second)[0].message
    fields = tmp_path / "own.toml"
    fields.write_text('[fields]\nid=["nummer"]\nimage=["bild"]\nquestion=["frage"]\nanswer=["antwort"]\n')
    mapped = Data(given.path, options={"fields": str(fields)})
    _, second = FIKA.samples(mapped)
    assert (second.id, second.target, second.meta["domain"]) == ("n8", ("Tulpe",), "Nature")
    assert blobs(second)[0].read() == b"b"
    assert FIKA.digest(mapped) != FIKA.digest(given)
    fields.write_text('[fields]\nantwort=["antwort"]\n')
    with pytest.raises(UsageError, match="'antwort' is unknown"):
        list(FIKA.samples(mapped))


def test_of_two_languages_the_one_asked_for_is_taken(tmp_path):
    rows = [made.row(1, question=None, question_en="What is it?", question_zh="这是什么?")]
    path = made.zipped(tmp_path / "x.zip", made.files(rows))
    for wanted, start in (("zh", "这是什么?"), ("en", "What is it?")):
        (one,) = FIKA.samples(Data(path, options={"language": wanted}))
        assert text(one).startswith(start) and one.meta["language"] == wanted


def test_damaged_rows_and_missing_images_fail_alone_and_without_the_names_of_files(tmp_path):
    rows = [made.row(i) for i in range(6)]
    rows[1]["image"] = "missing/Zyxgold1.png"
    rows[2]["image"] = "../../Zyxgold2.png"
    del rows[3]["answer"]
    content = made.files(rows)
    lines = content["data/manifest.jsonl"].splitlines(keepends=True)
    content["data/manifest.jsonl"] = b"".join([*lines[:4], b'{"sample_id": "s4", "ans\n', lines[5]])
    given = Data(made.zipped(tmp_path / "x.zip", content))
    found = list(FIKA.samples(given))
    assert [one.id for one in found] == ["s000", "s001", "s002", "row-4", "row-5", "s005"]
    for one in found[1:5]:
        with pytest.raises(DataError) as caught:
            blobs(one)[0].read()
        assert f"line {found.index(one) + 1}" in str(caught.value)
        assert not [word for word in made.PLANTED if word in str(caught.value).lower().encode()]
    assert blobs(found[0])[0].read() and blobs(found[5])[0].read()
    assert any(line.startswith("4 samples have a damaged row or no picture") for line in FIKA.notices(given))


def test_a_picture_that_is_damaged_in_the_archive_is_named_by_its_row(tmp_path):
    path = made.whole(tmp_path / "x.zip", 2)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(made.picture(1), made.picture(1)[:-8] + b"12345678"))
    blob = blobs(list(FIKA.samples(Data(path)))[1])[0]
    with pytest.raises(DataError, match=r"line 2, image 1") as caught:
        blob.read()
    assert b"zyxgold" not in str(caught.value).lower().encode()


@pytest.mark.parametrize("name", ["fika.zip.sha256", "fika.sha256"])
def test_a_side_file_is_checked_and_a_mismatch_says_what_to_do(tmp_path, name):
    path = made.whole(tmp_path / "fika.zip", 2)
    side = tmp_path / name
    side.write_text(f"{made.sha256_of(path)}  fika.zip\n")
    assert any(name in line for line in FIKA.notices(Data(path)))
    side.write_text(f"{'0' * 64}  fika.zip\n")
    with pytest.raises(DataError, match="its SHA-256 is") as caught:
        list(FIKA.samples(Data(path)))
    assert "fetch it again together with its side file" in caught.value.hint
    side.write_text("nothing\n")
    with pytest.raises(DataError, match="holds no SHA-256"):
        FIKA.digest(Data(path))


def test_counts_are_compared_with_those_of_the_whole_benchmark(tmp_path):
    assert FIKA.notices(Data(made.whole(tmp_path / "whole.zip"))) == []
    part = FIKA.notices(Data(made.whole(tmp_path / "part.zip", 3)))
    assert part == [
        "3 samples were read; the whole benchmark has 311",
        "3 domains were read; the whole benchmark has 4",
        "3 subcategories were read; the whole benchmark has 17",
        "3 targets were read; the whole benchmark has 228",
    ]


def test_an_id_or_category_that_quotes_the_answer_is_not_used(tmp_path):
    rows = [
        made.row(0, sample_id="zyxgold_0_mark_ii-a", subcategory="The Zyxgold 0 Mark II family"),
        made.row(1, sample_id=""),
    ]
    found = list(FIKA.samples(Data(made.zipped(tmp_path / "x.zip", made.files(rows)))))
    assert [one.id for one in found] == ["row-1", "row-2"] and "subcategory" not in found[0].meta
    assert any("named by their row" in line for line in fika_samples.notices(Data(tmp_path / "x.zip")))


def test_what_is_not_there_is_an_error_that_says_what_to_give(tmp_path):
    with pytest.raises(UsageError, match="needs its data") as caught:
        list(FIKA.samples(Data()))
    assert "hf:oking0197/FIKA-Bench" in caught.value.hint
    with pytest.raises(DataError, match="there is no manifest"):
        list(FIKA.samples(Data(made.zipped(tmp_path / "x.zip", {"a.txt": b"a"}))))
    with pytest.raises(UsageError, match="no template with one"):
        own = tmp_path / "prompt.toml"
        own.write_text('template = "Name it."')
        list(FIKA.samples(Data(made.whole(tmp_path / "y.zip", 1), options={"prompt": str(own)})))


def test_a_prompt_of_ones_own_takes_the_place_of_ours(tmp_path):
    own = tmp_path / "prompt.toml"
    own.write_text('template = "Q: {question} Answer {as} JSON."')
    (one,) = FIKA.samples(
        Data(made.zipped(tmp_path / "x.zip", made.files([made.row(1)])), options={"prompt": str(own)})
    )
    assert text(one) == "Q: What exactly is thing 1? Answer {as} JSON."


def test_the_hub_is_asked_for_the_zip_and_its_side_file(tmp_path, monkeypatch):
    from snellen.sources import locator

    asked: list[Any] = []
    made.whole(tmp_path / "fika-bench-testset.zip", 2)

    def locate(given: str, patterns: Any) -> Path:
        asked.append((given, patterns))
        return tmp_path

    monkeypatch.setattr(locator, "locate", locate)
    locator.on_disk.cache_clear()
    try:
        assert len(list(FIKA.samples(Data(Path("hf:oking0197/FIKA-Bench"))))) == 2
    finally:
        locator.on_disk.cache_clear()
    assert asked == [("hf:oking0197/FIKA-Bench", ["*.zip", "*.sha256"])]


def test_values_are_read_from_numbers_lists_and_objects_with_a_text_for_each_language(tmp_path):
    answer = {"text": "Rose", "confidence": 3}
    rows = [made.row(0, sample_id=0, answer=answer, aliases="Rosa", domain={"zh": "自然", "en": "Nature"})]
    rows.append(made.row(1, answer=["Tulip", "Tulipa"], aliases=None, image=[{"path": "images/a.png"}, "images/b.png"]))
    content = {**made.files(rows), "data/images/a.png": b"a", "data/images/b.png": b"b"}
    first, second = FIKA.samples(Data(made.zipped(tmp_path / "x.zip", content)))
    assert (first.id, first.target, first.meta["domain"]) == ("0", ("Rose", "Rosa"), "Nature")
    assert second.target == ("Tulip", "Tulipa") and [one.read() for one in blobs(second)] == [b"a", b"b"]
