"""The authors' layouts: the right files and no others, media wherever they lie, and nothing wrong shown in place of it."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.spatial import official_drawn as drawn
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.spatial import SPATIAL
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.errors import DataError, UsageError
from snellen.sources import Unreadable
from snellen.types import Blob, Image, Sample, Video

EVERY = {**SPATIAL, **{half.name: half for half in SPATIAL["site"].members}}
WITH_FILES = (
    "vsi-bench",
    "mindcube-tiny",
    "viewspatial",
    "site/image",
    "site/video",
    "mmsi-video-bench",
    "omnispatial",
)


def asked(name: str, path: Path, images: Path | None = None) -> list[Sample]:
    return list(EVERY[name].samples(Data(path, images)))


def said(benchmark: Benchmark, path: Path) -> str:
    return "\n".join(benchmark.notices(Data(path)))


def blobs(sample: Sample) -> Iterator[Blob]:
    for part in sample.prompt.parts:
        if isinstance(part, Image | Video):
            yield part.blob


def shown(samples: list[Sample]) -> dict[str, list[bytes]]:
    return {sample.id: [blob.read() for blob in blobs(sample)] for sample in samples}


def unpack(folder: Path, target: Path | None = None) -> None:
    for path in sorted(folder.glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(target or folder)
        path.unlink()


@pytest.mark.parametrize("name", EVERY)
def test_every_question_of_a_layout_comes_once_with_what_it_shows(name: str, tmp_path: Path) -> None:
    path = drawn.draw(name, tmp_path, each=2)
    samples = asked(name, path)
    assert len(samples) == EVERY[name].size(Data(path)) == drawn.count(name, each=2)
    assert len({sample.id for sample in samples}) == len(samples)
    for sample in samples:
        found = list(blobs(sample))
        assert found
        assert all(blob.read()[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0", b"\0\0\0\x1c", b"\0\0\0\x20") for blob in found)
        assert sample.meta["gold"]
    assert not [line for line in EVERY[name].notices(Data(path)) if "not there" in line or "not known" in line]


@pytest.mark.parametrize("name", WITH_FILES)
def test_media_unpacked_beside_are_those_of_the_archives(name: str, tmp_path: Path) -> None:
    path = drawn.draw(name, tmp_path)
    packed = shown(asked(name, path))
    unpack(path)
    assert shown(asked(name, path)) == packed


@pytest.mark.parametrize("name", WITH_FILES[:-1])
def test_media_may_lie_in_another_folder(name: str, tmp_path: Path) -> None:
    path = drawn.draw(name, tmp_path)
    before = shown(asked(name, path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for archive in path.glob("*.zip"):
        shutil.move(archive, elsewhere)
    notices = said(EVERY[name], path)
    assert "pictures or videos that are not there (" in notices
    assert f"{TASKS[name.partition('/')[0]].hub} has what is shown (" in notices
    assert shown(asked(name, path, elsewhere)) == before


def test_an_archive_with_questions_and_pictures_is_data_by_itself(tmp_path: Path) -> None:
    path = drawn.draw("omnispatial", tmp_path)
    assert shown(asked("omnispatial", path / "OmniSpatial-test.zip")) == shown(asked("omnispatial", path))


def test_of_vsi_bench_the_whole_is_read_and_not_its_parts(tmp_path: Path) -> None:
    path = drawn.draw("vsi-bench", tmp_path)
    assert [sample.id for sample in asked("vsi-bench", path)] == [str(at) for at in range(10)]
    notices = said(SPATIAL["vsi-bench"], path)
    assert "test.parquet is read; 5 files of like names (test.jsonl, test_debiased.parquet" in notices
    assert "10 questions can be read; the whole set has 5,130 or 5,131" in notices


def test_rows_of_vsi_bench_with_an_id_that_was_there_are_left_out_and_counted(tmp_path: Path) -> None:
    path = drawn.draw("vsi-bench", tmp_path)
    table = pq.read_table(path / "test.parquet")
    pq.write_table(pa.concat_tables([table, table.slice(0, 3)]), path / "test.parquet")
    assert len(asked("vsi-bench", path)) == 10
    assert "3 rows have an id that was there already; they are left out" in said(SPATIAL["vsi-bench"], path)


def test_the_debiased_set_is_its_own_file_or_the_rows_that_were_not_pruned(tmp_path: Path) -> None:
    path = drawn.draw("vsi-debiased", tmp_path)
    own = [sample.id for sample in asked("vsi-debiased", path)]
    (path / "test_debiased.parquet").unlink()
    assert own == [sample.id for sample in asked("vsi-debiased", path)] == ["0", "2", "4", "6", "8"]
    pq.write_table(pq.read_table(path / "test.parquet").drop_columns(["pruned"]), path / "test.parquet")
    with pytest.raises(DataError, match="no column `pruned`"):
        asked("vsi-debiased", path)


def test_of_blink_only_the_split_with_answers_is_asked_in_all_fourteen_tasks(tmp_path: Path) -> None:
    samples = asked("blink", drawn.draw("blink", tmp_path))
    assert len({sample.meta["category"] for sample in samples}) == len(samples) == 14
    assert all(sample.id.startswith("val_") and sample.target in ("A", "B", "C", "D") for sample in samples)
    assert [len(list(blobs(sample))) for sample in samples][:5] == [1, 2, 3, 4, 1]


def test_of_3dsrbench_the_circular_configuration_is_asked(tmp_path: Path) -> None:
    path = drawn.draw("3dsrbench", tmp_path)
    assert sum(sample.id.endswith("-flip") for sample in asked("3dsrbench", path)) == 12
    plain = asked("3dsrbench", path / "3dsr" / "test-00000-of-00001.parquet")
    assert [sample.id for sample in plain] == [str(2 * at) for at in range(12)]
    assert "rotated or flipped" not in said(SPATIAL["3dsrbench"], path)
    assert "no question is there in a rotated or flipped form" in said(
        SPATIAL["3dsrbench"], path / "3dsr" / "test-00000-of-00001.parquet"
    )


def test_both_halves_of_site_are_asked_in_one_run_and_counted_together(tmp_path: Path) -> None:
    path = drawn.draw("site", tmp_path)
    kinds = [sample.meta["task"] for sample in SPATIAL["site"].samples(Data(path))]
    assert kinds == ["image"] * 6 + ["video"] * 6
    assert "12 questions can be read; the whole set has 8,068" in said(SPATIAL["site"], path)
    assert all(isinstance(part, Video) for one in asked("site/video", path) for part in one.prompt.parts[:1])


def test_the_folder_of_one_half_of_site_is_that_half_and_never_the_other(tmp_path: Path) -> None:
    path = drawn.draw("site", tmp_path)
    assert shown(asked("site/video", path / "video_test", path)) == shown(asked("site/video", path))
    with pytest.raises(DataError, match="no questions of site"):
        asked("site/image", path / "video_test", path)
    file = path / "video_test" / "test-00000-of-00001.parquet"
    for sample in asked("site/image", file, path):
        (blob,) = blobs(sample)
        with pytest.raises(DataError, match=r"row \d: 'videos/set\d/\d_0\.mp4' is for site/video, not site/image"):
            blob.read()


def test_a_mirror_with_pictures_in_cells_asks_what_the_archives_ask(tmp_path: Path) -> None:
    """lmms-eval's copies have the pictures of MindCube and ViewSpatial in cells, where the authors have paths."""
    for name, file, where in (
        ("mindcube-tiny", "MindCube_tinybench_raw_qa.jsonl", "tiny/combined-00000-of-00001.parquet"),
        ("viewspatial", "ViewSpatial-Bench.json", "data/test-00000-of-00001.parquet"),
    ):
        path = drawn.draw(name, tmp_path)
        theirs = shown(asked(name, path))
        text = (path / file).read_text(encoding="utf-8")
        rows = json.loads(text) if file.endswith(".json") else [json.loads(line) for line in text.splitlines()]
        for row, pictures in zip(rows, theirs.values(), strict=True):
            row.pop("image_path", None)
            row["images"] = [{"bytes": data, "path": None} for data in pictures]
        kinds = {key: pa.array([row[key] for row in rows]).type for key in rows[0] if key != "images"}
        mirror = tmp_path / f"{name}-mirror"
        drawn.parquet(mirror / where, rows, {**kinds, "images": drawn.PICTURES})
        assert shown(asked(name, mirror)) == theirs


def test_a_picture_that_is_missing_costs_its_own_question_and_no_other_picture_stands_in(tmp_path: Path) -> None:
    """Frames of all clips have the same names, so that a look by file name alone would find another clip's."""
    path = drawn.draw("mmsi-video-bench", tmp_path)
    rows = json.loads((path / "mmsivideo.json").read_text(encoding="utf-8"))
    with zipfile.ZipFile(path / "frames.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    gone = rows[1]["frames_list"][0][2]
    drawn.packed(path / "frames.zip", {name: data for name, data in members.items() if name != gone})
    lost = [
        sample.id for sample in asked("mmsi-video-bench", path) if any(isinstance(b, Unreadable) for b in blobs(sample))
    ]
    assert lost == ["1"]
    assert "1 questions show pictures or videos that are not there (row 2 the first)" in said(
        SPATIAL["mmsi-video-bench"], path
    )


def test_a_picture_that_two_members_could_be_is_not_guessed_at(tmp_path: Path) -> None:
    path = drawn.draw("mindcube-tiny", tmp_path)
    with zipfile.ZipFile(path / "data.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    doubled = next(iter(members))
    inner = doubled.partition("/")[2]
    drawn.packed(path / "data.zip", {**members, f"other/{inner}": drawn.picture(99, "JPEG")})
    first, *others = asked("mindcube-tiny", path)
    assert [type(blob) is Unreadable for blob in blobs(first)] == [True, False]
    assert not any(isinstance(blob, Unreadable) for sample in others for blob in blobs(sample))


@pytest.mark.parametrize("leaving", ["../../outside.mp4", "/etc/passwd", "scannet/../../x.mp4"])
def test_a_path_that_leaves_the_folder_costs_its_question(leaving: str, tmp_path: Path) -> None:
    path = drawn.draw("site/video", tmp_path)
    (tmp_path / "outside.mp4").write_bytes(drawn.film())
    (tmp_path / "x.mp4").write_bytes(drawn.film())
    file = path / "video_test" / "test-00000-of-00001.parquet"
    rows = pq.read_table(file).to_pylist()
    rows[2]["visual"] = [leaving]
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
    found = [isinstance(blob, Unreadable) for sample in asked("site/video", path) for blob in blobs(sample)]
    assert found == [False, False, True, False, False, False]


def test_a_row_without_a_picture_is_not_asked_blind(tmp_path: Path) -> None:
    path = drawn.draw("blink", tmp_path)
    file = path / "Counting" / "val-00000-of-00001.parquet"
    rows = [{**row, "image_1": None, "image_2": None} for row in pq.read_table(file).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
    (lost,) = [sample for sample in asked("blink", path) if sample.id == "val_Counting_1"]
    (blob,) = blobs(lost)
    with pytest.raises(DataError, match=r"val-00000-of-00001\.parquet, row 1: the row has no picture and names none"):
        blob.read()


def test_damaged_rows_and_archives_and_unknown_categories_are_said_with_their_place(tmp_path: Path) -> None:
    path = drawn.draw("mindcube-tiny", tmp_path)
    file = path / "MindCube_tinybench_raw_qa.jsonl"
    first, second, third, fourth = file.read_text(encoding="utf-8").splitlines()
    strange = json.dumps({**json.loads(fourth), "id": "sideways_1"})
    file.write_text("\n".join([first, second[:40], third, strange]) + "\n", encoding="utf-8")
    (path / "more.zip").write_bytes(b"PK, and no more")
    notices = said(SPATIAL["mindcube-tiny"], path)
    assert "1 rows cannot be read (line 2 the first)" in notices
    assert "1 questions are of type 'other', which is not known (line 4 the first)" in notices
    assert "more.zip: cannot be opened as a zip file" in notices
    kinds = [any(isinstance(blob, Unreadable) for blob in blobs(one)) for one in asked("mindcube-tiny", path)]
    assert kinds == [False, True, False, False]


def test_a_folder_without_the_questions_says_what_it_has_and_what_was_looked_for(tmp_path: Path) -> None:
    path = drawn.draw("blink", tmp_path)
    with pytest.raises(
        DataError, match=r"no questions of embspatial in it; it has Art_Style/test-00000-of-00001\.parquet"
    ):
        asked("embspatial", path)
    with pytest.raises(UsageError, match="site needs its data"):
        list(SPATIAL["site"].samples(Data()))


def test_what_a_run_is_known_by_changes_with_the_questions_and_not_with_how_they_are_packed(tmp_path: Path) -> None:
    path = drawn.draw("omnispatial", tmp_path)
    own = SPATIAL["omnispatial"].digest
    before = own(Data(path))
    unpack(path)
    assert own(Data(path)) == before
    table = path / "OmniSpatial-test" / "data.json"
    table.write_text(table.read_text(encoding="utf-8").replace("left", "port"), encoding="utf-8")
    assert own(Data(path)) != before


@pytest.mark.parametrize("linked", ["the file", "its folder"])
def test_a_link_that_leads_out_of_the_folder_is_not_followed(linked: str, tmp_path: Path) -> None:
    path = drawn.draw("mmsi-video-bench", tmp_path)
    unpack(path)
    inside = path / "frames" / "0_0" if linked == "its folder" else path / "frames" / "0_0" / "001.jpg"
    outside = tmp_path / "outside"
    inside.rename(outside)
    inside.symlink_to(outside)
    found = [any(isinstance(blob, Unreadable) for blob in blobs(one)) for one in asked("mmsi-video-bench", path)]
    assert found == [True, False, False, False, False]


def test_questions_in_an_archive_are_found_beside_tables_of_other_things(tmp_path: Path) -> None:
    path = drawn.draw("mindcube-tiny", tmp_path)
    file = path / "MindCube_tinybench_raw_qa.jsonl"
    before = shown(asked("mindcube-tiny", path))
    with zipfile.ZipFile(path / "data.zip", "a") as archive:
        archive.write(file, f"data/prompts/{file.name}")
    file.unlink()
    (path / "MindCube_raw_qa.jsonl").unlink()
    (path / "dataset_infos.json").write_text("{}", encoding="utf-8")
    assert shown(asked("mindcube-tiny", path)) == before
