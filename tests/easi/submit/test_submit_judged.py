"""A judge's verdicts in a submission: its figures under the official id, whose they are in the provenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from benchmarks.spatial import official_drawn as drawn
from easi.easi_stubs import GradingServer, Speaker
from snellen import Run, evaluate
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
from snellen.easi.judge import ask
from snellen.easi.reference import compare_with_easi
from snellen.easi.submit import Prepared, prepare
from snellen.easi.submit.payload import metadata
from snellen.engine.progress import Silent

DETAILS = metadata({"modelName": "org/prose", "modelType": "rl", "precision": "int8"})


def prose() -> Speaker:
    """Says something that no rule can read."""
    return Speaker(
        lambda question: "It is hard to see, though I settle on the option named first.", name="local:org/prose"
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("embspatial", "site"):
        monkeypatch.setitem(TASKS, name, structs.replace(TASKS[name], rows=(drawn.count(name),)))  # type: ignore[arg-type]


def judged(run: Run, monkeypatch: pytest.MonkeyPatch, grade: str = "A") -> None:
    with GradingServer(lambda reply: {"grade": grade, "extracted": "A"}) as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("JUDGE_API_KEY", "any")
        ask(run, "api:grader", Silent(), run.path.parent / "aside")
        assert server.asked


def own_faults(prepared: Prepared) -> list[str]:
    return [line for line in prepared.faults() if "not evaluated" not in line]


def test_a_judge_decides_and_is_named_while_the_id_stays_official(tmp_path: Path, monkeypatch: Any) -> None:
    data = drawn.draw("embspatial", tmp_path / "data")
    run = evaluate("embspatial", prose(), data=data, out=tmp_path / "run")
    before = prepare([run.path], DETAILS, out=tmp_path / "out")
    assert before.payload["scores"]["embspatial"] == 0.0
    judged(run, monkeypatch)
    after = prepare([run.path], DETAILS, out=tmp_path / "out")
    assert after.payload["scores"]["embspatial"] == 100.0
    assert set(after.payload["scores"]) == {TASKS[name].id for name in EIGHT}
    source = after.results["embspatial"].provenance["sources"][0]
    assert source["judge"]["model"] == "api:grader" and source["judge"]["rubric"].startswith("easi ")
    assert before.results["embspatial"].provenance["sources"][0]["judge"] is None
    assert own_faults(after) == [] and after.folder != before.folder
    ruled = prepare([run.path], DETAILS, out=tmp_path / "out", profile="strict")
    assert ruled.payload["scores"]["embspatial"] == 0.0, "a judge works for the profile easi alone"


def test_a_folder_of_runs_may_hold_the_judges_runs_too(tmp_path: Path, monkeypatch: Any) -> None:
    data = drawn.draw("embspatial", tmp_path / "data")
    judged(evaluate("embspatial", prose(), data=data, out=tmp_path / "runs" / "embspatial"), monkeypatch)
    prepared = prepare([tmp_path / "runs"], DETAILS, out=tmp_path / "out")
    assert prepared.payload["scores"]["embspatial"] == 100.0


def test_all_that_an_evaluation_leaves_may_be_named_and_the_rest_is_said(tmp_path: Path, monkeypatch: Any) -> None:
    model = tmp_path / "eval_results" / "prose"
    data = drawn.draw("embspatial", tmp_path / "data")
    judged(evaluate("embspatial", prose(), data=data, out=model / "embspatial"), monkeypatch)
    (tmp_path / "my.csv").write_text("question,answer\nHow many?,2\n")
    evaluate(str(tmp_path / "my.csv"), prose(), out=model / "mine")
    for file in (model / "easi_results.json", model.parent / "easi_results.json", model.parent / "easi_results.zip"):
        file.write_text("{}")
    for mixture in ([model.parent], sorted(model.parent.iterdir()), sorted(model.iterdir())):
        said: list[str] = []
        prepared = prepare(mixture, DETAILS, out=tmp_path / "out")
        (compared,) = compare_with_easi(mixture, say=said.append)
        assert prepared.payload["scores"]["embspatial"] == 100.0
        assert [result.benchmark for result in compared.results] == ["embspatial"]
        left_out = [path for path in mixture if path.is_file()]
        assert [line for line in said if "no results" in line] == [
            f"{path} has no results of a spatial benchmark and is left out" for path in left_out
        ]
        assert [line for line in said if "mine" in line] and not [line for line in said if "embspatial_judged" in line]


def test_one_half_of_site_judged_and_the_other_not_is_incomplete(tmp_path: Path, monkeypatch: Any) -> None:
    data = drawn.draw("site", tmp_path / "data")
    halves = [evaluate(f"site/{half}", prose(), data=data, out=tmp_path / half) for half in ("image", "video")]
    judged(halves[0], monkeypatch)
    one = prepare([half.path for half in halves], DETAILS, out=tmp_path / "out")
    assert own_faults(one) == ["site: one half was judged and the other was not"]
    judged(halves[1], monkeypatch)
    both = prepare([half.path for half in halves], DETAILS, out=tmp_path / "out")
    assert own_faults(both) == [] and both.payload["scores"]["site"] == 100.0
