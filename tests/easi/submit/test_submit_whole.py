"""What may be submitted: whole results of one model, ours or another harness's, and nothing less unless that is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import official_drawn as drawn
from easi.submit.conftest import ABOUT, parrot
from servers.leaderboard import leaderboard
from snellen import evaluate
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
from snellen.runs.export import export


def test_a_set_that_is_a_part_of_the_whole_one_is_refused_unless_that_is_allowed(runs: Path, snellen: Any) -> None:
    with leaderboard() as stub:
        said = snellen("submit", "easi", runs, *ABOUT, "--yes", "--endpoint", stub.url)
        assert said.status == 10 and stub.got == []
        assert "vsi_bench: the data has 10 of the 5,130 questions" in said.err and "--allow-incomplete" in said.err
        assert snellen("submit", "easi", runs, *ABOUT, "--dry-run", "--endpoint", stub.url).status == 10
        allowed = snellen("submit", "easi", runs, *ABOUT, "--allow-incomplete", "--yes", "--endpoint", stub.url)
    assert allowed.status == 0 and len(stub.got) == 1
    assert "vsi_bench: the data has 10 of the 5,130 questions" in allowed.err


def test_missing_ones_of_the_eight_are_null_and_missing_others_are_not_named(runs, whole, snellen):
    said = snellen("submit", "easi", runs / "blink", runs / "omnispatial", *ABOUT, "--dry-run")
    assert said.status == 10 and "mmsi_bench: not evaluated" in said.err and "spar_bench: not" not in said.err
    found = json.loads(
        snellen(
            "submit", "easi", runs / "blink", runs / "omnispatial", *ABOUT, "--dry-run", "--allow-incomplete", "--json"
        ).out
    )
    scores = found["payload"]["scores"]
    assert set(scores) == {TASKS[name].id for name in EIGHT} | {"omnispatial_(manual_cot)"}
    assert [name for name, value in scores.items() if value is not None] == ["blink", "omnispatial_(manual_cot)"]
    assert list(found["payload"]["subScores"]) == ["blink", "omnispatial_(manual_cot)"]
    assert found["average"] == {"value": scores["blink"], "evaluated": 1, "of": 8}


def test_a_limited_run_and_one_that_is_not_at_its_end_are_refused(runs, whole, snellen, tmp_path):
    evaluate("blink", parrot(), data=runs.parent / "data" / "blink", out=tmp_path / "blink", limit=3)
    others = [runs / name for name in EIGHT if name != "blink"]
    said = snellen("submit", "easi", *others, tmp_path / "blink", *ABOUT, "--dry-run")
    assert said.status == 10 and "only the first 3 samples were requested (--limit)" in said.err
    assert "11 of 14 questions have no answer" in said.err
    meta = tmp_path / "blink" / "run_meta.json"
    meta.write_text(meta.read_text().replace('"state": "complete"', '"state": "interrupted"'))
    assert (
        "the run is incomplete (partial)"
        in snellen("submit", "easi", *others, tmp_path / "blink", *ABOUT, "--dry-run").err
    )


def test_half_of_site_is_no_site_and_both_halves_are_what_the_whole_is(runs, whole, snellen, tmp_path):
    data = runs.parent / "data" / "site"
    for half in ("image", "video"):
        evaluate(f"site/{half}", parrot(), data=data, out=tmp_path / half)
    others = [runs / name for name in EIGHT if name != "site"]
    one = snellen("submit", "easi", *others, tmp_path / "image", *ABOUT, "--dry-run")
    assert one.status == 10 and "only the image half of SITE is there" in one.err
    words = ("--dry-run", "--json", "--allow-incomplete")
    alone = json.loads(snellen("submit", "easi", *others, tmp_path / "image", *ABOUT, *words).out)
    assert alone["payload"]["scores"]["site"] is None and "site" not in alone["payload"]["subScores"]
    both = json.loads(snellen("submit", "easi", *others, tmp_path / "video", tmp_path / "image", *ABOUT, *words).out)
    pooled = json.loads(snellen("submit", "easi", *others, runs / "site", *ABOUT, *words).out)
    assert both["payload"]["scores"] == pooled["payload"]["scores"] and both["incomplete"] == []
    assert both["payload"]["subScores"] == pooled["payload"]["subScores"]


def test_a_second_result_of_one_benchmark_and_runs_of_two_models_are_refused(runs, snellen, tmp_path):
    said = snellen("submit", "easi", runs, runs / "blink", *ABOUT, "--dry-run")
    assert said.status == 2 and "2 results of blink" in said.err
    evaluate("blink", parrot("local:org/another"), data=runs.parent / "data" / "blink", out=tmp_path / "blink")
    said = snellen("submit", "easi", runs / "site", tmp_path / "blink", *ABOUT, "--dry-run")
    assert said.status == 2 and "local:org/another" in said.err and "local:org/parrot-2B" in said.err


def test_what_is_no_result_is_refused_with_what_was_looked_for(runs: Path, snellen: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, words in ((tmp_path / "empty", "samples_<task>.jsonl"), (tmp_path / "nowhere", "does not exist")):
        said = snellen("submit", "easi", path, "--dry-run")
        assert said.status == 2 and words in said.err


def test_data_that_changed_since_the_run_is_refused(runs: Path, whole: None, snellen: Any, tmp_path: Path) -> None:
    data = drawn.draw("embspatial", tmp_path / "data")
    evaluate("embspatial", parrot(), data=data, out=tmp_path / "run")
    others = [runs / name for name in EIGHT if name != "embspatial"]
    assert snellen("submit", "easi", *others, tmp_path / "run", *ABOUT, "--dry-run").status == 0
    drawn.draw("embspatial", tmp_path / "data", each=2)
    said = snellen("submit", "easi", *others, tmp_path / "run", *ABOUT, "--dry-run")
    assert said.status == 10 and "the data or the prompts have changed since the run" in said.err


@pytest.mark.parametrize("form", ["lmms-eval", "vlmevalkit"])
def test_another_harness_results_come_to_what_the_run_comes_to(runs, whole, snellen, tmp_path, form):
    for name in TASKS:
        export(runs / name, form, out=tmp_path / "theirs")
    words = (*ABOUT, "--profile", form, "--dry-run", "--json")
    ours = json.loads(snellen("submit", "easi", runs, *words).out)
    said = snellen("submit", "easi", tmp_path / "theirs", *words, "--model-name", "org/theirs")
    assert said.status == 0, said.err
    theirs = json.loads(said.out)
    assert theirs["payload"]["backend"] == form.replace("-", "")
    assert theirs["payload"]["scores"] == ours["payload"]["scores"]
    assert theirs["payload"]["subScores"] == ours["payload"]["subScores"]
    made = json.loads((Path(theirs["folder"]) / "easi_provenance.json").read_text())["benchmarks"]["blink"]
    assert made["answers"] == made["of"] == drawn.count("blink") and made["sources"][0]["files"]


def test_a_row_of_another_harness_that_is_lost_makes_it_incomplete(runs, whole, snellen, tmp_path):
    (samples,) = [
        path for path in export(runs / "mmsi-bench", "lmms-eval", out=tmp_path / "x").files if "samples" in path.name
    ]
    others = [runs / name for name in EIGHT if name != "mmsi-bench"]
    assert snellen("submit", "easi", *others, samples, *ABOUT, "--dry-run").status == 0
    samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:-1]))
    said = snellen("submit", "easi", *others, samples, *ABOUT, "--dry-run")
    assert said.status == 10 and "mmsi_bench: the data has 10 of the 11 questions" in said.err
