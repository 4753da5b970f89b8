"""Benchmarks are named as EASI names them or as we do, and their data is found under either name."""

from __future__ import annotations

from pathlib import Path

import pytest

from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
from snellen.easi.names import chosen
from snellen.easi.run import data_of
from snellen.errors import UsageError


def test_the_eight_are_asked_unless_more_or_others_are_named():
    assert chosen(None) == EIGHT and len(EIGHT) == 8
    assert chosen(None, extra=True) == tuple(TASKS) and len(TASKS) == 12
    assert chosen("blink", extra=True) == ("blink",)


def test_keys_of_easi_and_ours_mean_the_same_with_blanks_and_in_any_case():
    easi = ", ".join(task.id for task in TASKS.values())
    assert chosen(f"  {easi} ,") == chosen(",".join(TASKS)) == tuple(TASKS)
    assert chosen(" Omnispatial_(manual_cot) ") == chosen("omnispatial") == ("omnispatial",)


def test_the_order_is_always_the_same_and_each_is_asked_once():
    assert chosen("blink,vsi_bench,BLINK,3dsrbench,vsi-bench") == ("vsi-bench", "blink", "3dsrbench")


def test_site_is_a_group_of_two_halves():
    assert chosen("sitebench") == chosen("site") == chosen("site_video, site_image") == ("site",)
    assert chosen("site_image") == ("site/image",)
    assert chosen("site_video,sitebench") == ("site",)


def test_all_unknown_keys_are_told_at_once_with_what_comes_near():
    with pytest.raises(UsageError) as caught:
        chosen("blnik, vsi_bench, embspatail")
    assert "'blnik' is not known (did you mean blink?)" in caught.value.message
    assert "'embspatail' is not known (did you mean embspatial" in caught.value.message
    assert "'vsi_bench' is not" not in caught.value.message and "omnispatial_(manual_cot)" in caught.value.hint
    with pytest.raises(UsageError, match="names none"):
        chosen(" , ")


@pytest.mark.parametrize("folder", ["vsi-bench", "vsi_bench", "VSI-Bench"])
def test_data_is_found_in_a_folder_by_any_of_its_names(tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir()
    assert data_of("vsi-bench", tmp_path) == tmp_path / folder


def test_a_set_that_lies_in_another_ones_folder_has_its_own_first(tmp_path: Path):
    (tmp_path / "VSI-Bench").mkdir()
    assert data_of("vsi-debiased", tmp_path) == tmp_path / "VSI-Bench"
    (tmp_path / "vsi_debiased").mkdir()
    assert data_of("vsi-debiased", tmp_path) == tmp_path / "vsi_debiased"


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("vsi-bench", "VSI-Bench_32frame.tsv"),
        ("vsi-bench", "VSI-Bench.tsv"),
        ("omnispatial", "OmniSpatialBench.tsv"),
        ("mmsi-video-bench", "MMSIVideoBench.tsv"),
        ("site/video", "SiteBenchVideo.tsv"),
    ],
)
def test_a_table_of_vlmevalkit_is_found_with_and_without_its_variant(tmp_path: Path, name: str, table: str):
    (tmp_path / table).write_text("index\tquestion\n")
    assert data_of(name, tmp_path) == tmp_path / table


def test_what_is_not_there_is_taken_from_the_hub_and_site_needs_both_its_tables(tmp_path: Path):
    assert str(data_of("blink", tmp_path)) == "hf:BLINK-Benchmark/BLINK"
    (tmp_path / "SiteBenchImage.tsv").write_text("index\n")
    assert str(data_of("site", tmp_path)).startswith("hf:")
    (tmp_path / "SiteBenchVideo.tsv").write_text("index\n")
    assert data_of("site", tmp_path) == tmp_path
    with pytest.raises(UsageError, match="no such folder"):
        data_of("blink", tmp_path / "nowhere")


def test_the_papers_eight_are_a_group_of_their_own():
    wanted = {"vsi-bench", "site", "mmsi-bench", "omnispatial", "mindcube-tiny", "stare", "corecognition", "spatialviz"}
    assert set(chosen("easi-paper")) == set(chosen("EASI_PAPER, stare")) == wanted
