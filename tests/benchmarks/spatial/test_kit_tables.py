"""VLMEvalKit's tables as data: the right table, every question with its own pictures, and faults that cost one row."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import kit_drawn as drawn
from benchmarks.spatial import official_drawn
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import SPATIAL
from snellen.benchmarks.spatial.sources import locate as vlmevalkit
from snellen.benchmarks.spatial.tasks import MORE, TASKS
from snellen.cli.environment import RunVariables, with_variables
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.types import Blob, Image, Sample, Text, Video

EVERY = {**SPATIAL, **{half.name: half for half in SPATIAL["site"].members}}
PNG, JPEG, MP4 = b"\x89PNG", b"\xff\xd8\xff\xe0", b"\0\0\0"
ROW = {"question": "Which?", "A": "left", "B": "right", "category": "Counting", "answer": "A"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path_factory.mktemp("cache")))


def asked(name: str, path: Path, images: Path | None = None) -> dict[str, Sample]:
    return {sample.id: sample for sample in EVERY[name].samples(Data(path, images))}


def said(name: str, path: Path) -> str:
    return "\n".join(EVERY[name].notices(Data(path)))


def blobs(sample: Sample) -> Iterator[Blob]:
    return (part.blob for part in sample.prompt.parts if isinstance(part, Image | Video))


def shown(sample: Sample) -> list[bytes]:
    return [blob.read() for blob in blobs(sample)]


def fault(sample: Sample) -> str:
    (blob,) = blobs(sample)
    with pytest.raises(DataError) as error:
        blob.read()
    return error.value.message


def blink(folder: Path, *rows: dict[str, Any]) -> Path:
    """A table of BLINK with these rows over ROW, index first."""
    return drawn.tsv(folder / "BLINK.tsv", [{"index": at, **ROW, **row} for at, row in enumerate(rows)])


@pytest.mark.parametrize("name", EVERY)
def test_every_question_of_a_table_comes_once_with_what_it_shows(name: str, tmp_path: Path) -> None:
    path = drawn.draw(name.partition("/")[0], tmp_path)
    samples = asked(name, path)
    assert len(samples) == EVERY[name].size(Data(path)) == drawn.COUNTS.get(name, 6)
    for sample in samples.values():
        assert shown(sample) and all(data.startswith((PNG, JPEG, MP4)) for data in shown(sample))
        assert sample.meta["gold"] and sample.meta["index"]
        assert any(isinstance(part, Text) for part in sample.prompt.parts)
    assert "not there" not in said(name, path) and "not known" not in said(name, path)


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"site"}))  # which has two
def test_a_table_given_alone_is_the_same_as_its_folder(name: str, tmp_path: Path) -> None:
    folder = drawn.draw(name.partition("/")[0], tmp_path)
    task, _, part = name.partition("/")
    (table,) = vlmevalkit.tables_in(TASKS[task], part, folder, ())
    assert table is not None
    alone, whole = asked(name, table), asked(name, folder)
    assert alone.keys() == whole.keys()
    assert [shown(one) for one in alone.values()] == [shown(one) for one in whole.values()]
    assert EVERY[name].digest(Data(table)) == EVERY[name].digest(Data(folder))


def test_the_pictures_of_a_row_are_those_of_its_own_cell_in_order(tmp_path: Path) -> None:
    samples = asked("mmsi-bench", drawn.draw("mmsi-bench", tmp_path))
    for at in range(11):
        expected = [official_drawn.picture(at + turn) for turn in range(1 + at % 3)]
        assert shown(samples[str(at)]) == expected


def test_a_row_that_names_another_shows_its_pictures_and_shares_its_cluster(tmp_path: Path) -> None:
    samples = asked("blink", blink(tmp_path, {"image": [drawn.text(1), drawn.text(2)]}, {"image": "0"}))
    assert shown(samples["1"]) == shown(samples["0"]) == [official_drawn.picture(1), official_drawn.picture(2)]
    assert samples["0"].group == samples["1"].group == "0"


def test_references_that_go_in_a_ring_or_nowhere_cost_their_rows_alone(tmp_path: Path) -> None:
    images = ("1", "0", "2", "gone", drawn.text(1), "4", "5")
    path = blink(tmp_path, *({"image": image} for image in images))
    samples = asked("blink", path)
    for at in (0, 1, 2, 3, 6):
        assert f"line {at + 2}: image '{images[at]}' is neither a base64 image" in fault(samples[str(at)])
    assert shown(samples["5"]) == [official_drawn.picture(1)]
    assert "5 questions show pictures or videos that are not there (line 2 the first)" in said("blink", path)


@pytest.mark.parametrize("empty", ["", "nan", "NaN", "None", "<NA>"])
def test_rows_without_an_image_are_left_out_and_counted(tmp_path: Path, empty: str) -> None:
    path = blink(tmp_path, {"image": drawn.text(1)}, {"image": empty}, {"image": "0"}, {"image": "1"})
    samples = asked("blink", path)
    assert list(samples) == ["0", "2", "3"]
    assert "1 rows have no image and are left out" in said("blink", path)
    assert "neither a base64 image" in fault(samples["3"])


def test_a_table_with_no_image_in_any_row_is_an_error_and_no_empty_run(tmp_path: Path) -> None:
    path = blink(tmp_path, {"image": ""}, {"image": ""})
    with pytest.raises(DataError, match="'image' is empty in all of 2 rows"):
        asked("blink", path)


def test_paths_are_read_where_there_is_no_column_of_pictures(tmp_path: Path) -> None:
    (tmp_path / "pictures" / "a").mkdir(parents=True)
    for at in range(3):
        (tmp_path / "pictures" / "a" / f"{at}.png").write_bytes(official_drawn.picture(at))
    cells = ("a/0.png", "['a/1.png', 'a/2.png']", '["a/2.png"]', "/a/0.png", "/home/x/LMUData/images/a/1.png")
    path = blink(tmp_path, *({"image_path": cell} for cell in cells))
    samples = asked("blink", path, tmp_path / "pictures")
    expected = ((0,), (1, 2), (2,), (0,), (1,))
    for sample, seeds in zip(samples.values(), expected, strict=True):
        assert shown(sample) == [official_drawn.picture(seed) for seed in seeds]


def test_paths_beside_pictures_are_only_names(tmp_path: Path) -> None:
    path = blink(tmp_path, {"image": drawn.text(3), "image_path": "nowhere/3.png"})
    assert shown(asked("blink", path)["0"]) == [official_drawn.picture(3)]


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("../../etc/passwd", "holds '..'"),
        ("['a.png', '../b.png']", "holds '..'"),
        ("/etc/passwd", "is not under"),
        ("C:\\Windows\\x.png", "drive letter"),
        ("[" * 10_000, "longer than 4,096"),
        ("[" * 10_000 + "]" * 10_000, "longer than 4,096"),
        ("[" + "-" * 4_000 + "1]", "is not under"),
        ("a\0b.png", "control"),
        ("", "there is nothing to show: image_path is empty"),
        ("[]", "there is nothing to show"),
    ],
)
def test_a_hostile_path_costs_its_row_and_is_never_followed(tmp_path: Path, cell: str, why: str) -> None:
    path = blink(tmp_path, {"image_path": cell}, {"image_path": "a.png"})
    (tmp_path / "a.png").write_bytes(official_drawn.picture(1))
    samples = asked("blink", path)
    found = [blob for blob in blobs(samples["0"]) if isinstance(blob, Unreadable)]
    assert found and why in found[-1].message
    assert shown(samples["1"]) == [official_drawn.picture(1)]


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (drawn.text(1)[:-3], "is not base64"),
        (drawn.text(1)[:200] + "?" + drawn.text(1)[200:], "is not base64"),
        ("[" * 10_000, "list that cannot be read"),
        ("['" + "x" * 90 + "', 5]", "list that cannot be read"),
        ("['" + "x" * 90, "list that cannot be read"),
        ("[]", "list that cannot be read"),
        ("{'" + "x" * 90 + "': 1}", "is not base64"),
    ],
)
def test_a_damaged_picture_costs_its_row_alone(tmp_path: Path, cell: str, why: str) -> None:
    path = blink(tmp_path, {"image": cell}, {"image": drawn.text(1)})
    samples = asked("blink", path)
    assert why in fault(samples["0"]) and "BLINK.tsv, line 2" in fault(samples["0"])
    assert shown(samples["1"]) == [official_drawn.picture(1)]


def test_a_row_with_a_quote_too_many_or_a_field_too_few_is_a_sample_that_says_so(tmp_path: Path) -> None:
    path = blink(tmp_path, {"image": drawn.text(1)}, {"image": drawn.text(2)})
    head, first, second = path.read_text().splitlines()
    path.write_text("\n".join((head, first.rpartition("\t")[0], second, f'2\t"a"b\t{second[2:]}', second, "")))
    samples = asked("blink", path)
    assert list(samples) == ["BLINK.tsv:line 2", "1", "BLINK.tsv:line 4", "1#2"]
    assert "6 fields were found, 7 expected" in fault(samples["BLINK.tsv:line 2"])
    assert "expected after" in fault(samples["BLINK.tsv:line 4"])
    assert shown(samples["1"]) == shown(samples["1#2"]) == [official_drawn.picture(2)]


def test_a_row_without_answer_or_category_is_lost_alone(tmp_path: Path) -> None:
    image = {"image": drawn.text(1)}
    samples = asked("blink", blink(tmp_path, {**image, "answer": None}, {**image, "category": ""}, image))
    assert list(samples) == ["BLINK.tsv:line 2", "BLINK.tsv:line 3", "2"]
    assert "has no answer" in fault(samples["BLINK.tsv:line 2"])


def test_frames_of_clips_that_are_no_list_are_said_and_not_left_out(tmp_path: Path) -> None:
    folder = drawn.draw("mmsi-video-bench", tmp_path)
    path = folder / "MMSIVideoBench.tsv"
    text = path.read_text()
    path.write_text(text.replace("[['frames/0_0/000.jpg'", "[['frames/0_0/000.jpg", 1))
    samples = asked("mmsi-video-bench", folder)
    assert "is no list of lists of frames" in fault(samples["0"])
    assert len(shown(samples["1"])) == 10


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"site"}))
def test_a_missing_column_is_named_with_those_that_are_there(name: str, tmp_path: Path) -> None:
    task, _, part = name.partition("/")
    path = drawn.tsv(tmp_path / vlmevalkit.names(TASKS[task], part)[0], [{"index": 0, "image_path": "a.png"}])
    with pytest.raises(DataError, match=r"no column .*; it has index, image_path"):
        asked(name, path)
    path.write_text("question\tanswer\n")
    with pytest.raises(DataError, match="no column 'index'"):
        asked(name, path)


def test_the_table_of_another_benchmark_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = drawn.draw("vsi-bench", tmp_path)
    with pytest.raises(DataError, match=r"holds the questions of vsi-bench; those of vsi-debiased were expected"):
        asked("vsi-debiased", folder / "VSI-Bench.tsv")
    site = drawn.draw("site", tmp_path)
    with pytest.raises(DataError, match="holds the questions of site/image; those of site/video were expected"):
        asked("site/video", site / "SiteBenchImage.tsv")


def test_the_right_table_is_found_among_all_of_a_folder_by_either_name(tmp_path: Path) -> None:
    for name in drawn.DRAWN:
        for path in drawn.draw(name, tmp_path / "drawn").iterdir():
            path.rename(tmp_path / path.name)
    found = {name: len(asked(name, tmp_path)) for name in EVERY}
    assert found == {**drawn.COUNTS, "site/image": 6, "site/video": 6}
    (tmp_path / "VSI-Bench.tsv").rename(tmp_path / "VSI-Bench_32frame.tsv")
    assert len(asked("vsi-bench", tmp_path)) == 10


def test_a_table_beside_the_authors_files_is_read_and_the_other_said(tmp_path: Path) -> None:
    official_drawn.draw("vsi-bench", tmp_path)
    assert "is read;" not in said("vsi-bench", tmp_path / "vsi-bench").partition("VSI-Bench.tsv")[1]
    drawn.draw("vsi-bench", tmp_path)
    assert "VSI-Bench.tsv is read; test.jsonl, test.parquet, test_debiased.parquet ... beside it are not" in said(
        "vsi-bench", tmp_path / "vsi-bench"
    )


def test_another_md5_than_the_kits_is_said_and_the_kits_own_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = blink(tmp_path, {"image": drawn.text(1)})
    found = md5(path.read_bytes()).hexdigest()
    assert f"its MD5 is {found}, VLMEvalKit's table has d5e8af148b10ac69f535ff7b23f3f989 (BLINK.tsv)" in said(
        "blink", path
    )
    known = vlmevalkit.MD5
    monkeypatch.setattr(vlmevalkit, "MD5", {"BLINK.tsv": found})
    assert "MD5" not in said("blink", path)
    monkeypatch.setattr(vlmevalkit, "MD5", {**known, "SparBench.tsv": found})
    assert "this is VLMEvalKit's SparBench.tsv" in said("blink", path)


def test_every_table_has_a_known_md5_and_known_columns() -> None:
    known = set(vlmevalkit.MD5)
    assert all(task.declared.vlmevalkit.needed for task in (*TASKS.values(), *MORE.values()))
    halves = [
        (task, part) for task in TASKS.values() for part in (("image", "video") if task.name == "site" else ("",))
    ]
    first = {vlmevalkit.names(*half)[0] for half in halves}
    further = {name for task in MORE.values() for name in vlmevalkit.names(task, "")}
    assert first <= known
    assert known - first - {"SparBench_tiny.tsv"} <= further
    # ReVSI has no table with a published sum, and CoreCognition none at all.
    without = {name for name, task in MORE.items() if not set(vlmevalkit.names(task, "")) & known}
    assert without == {"revsi", "corecognition"}


def test_memory_does_not_grow_with_the_pictures_of_a_table(tmp_path: Path) -> None:
    picture = b64encode(bytes(300_000)).decode()

    def peak(rows: int) -> int:
        path = blink(tmp_path, *({"image": picture} for _ in range(rows)))
        vlmevalkit._gone_through.cache_clear()
        tracemalloc.start()
        for sample in EVERY["blink"].samples(Data(path)):
            assert len(shown(sample)[0]) == 300_000
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few = peak(10)
    assert peak(100) < few + (2 << 20)  # of 40 MB


def test_the_kits_folder_stands_in_for_data_where_none_is_given(tmp_path: Path) -> None:
    for name, benchmark in EVERY.items():
        given = with_variables(RunVariables(model=("embedded",)), [name], {"LMUData": str(tmp_path)})
        assert given.data == tmp_path and benchmark.variables == {"LMUData": "data"}
    with pytest.raises(DataError) as error:
        asked("blink", tmp_path)
    assert "BLINK.tsv" in error.value.hint


def test_lmudata_stands_in_for_several_benchmarks_of_the_kits_and_not_beside_another(tmp_path: Path) -> None:
    given, variable = RunVariables(model=("embedded",)), {"LMUData": str(tmp_path)}
    assert with_variables(given, ["vsi-bench", "blink", "site"], dict(variable)).data == tmp_path
    assert with_variables(given, ["blink", "chart"], dict(variable)).data is None
