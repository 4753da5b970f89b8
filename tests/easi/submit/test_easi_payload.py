"""The payload: metadata refused with every fault at once, keys and order as the leaderboard has them, points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.benchmarks.spatial.reference.published import Figures, average, points
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.easi.result import sub_keys
from snellen.easi.submit.payload import FIELDS, metadata, payload
from snellen.errors import UsageError

GOOD = {"modelName": "org/model", "modelType": "instruction", "precision": "bfloat16"}


def refused(given: dict[str, str | None], configs: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        metadata(given, configs)
    assert caught.value.exit_code == 2
    return caught.value.message


def test_what_is_not_said_is_empty_and_the_revision_is_main() -> None:
    found = payload(metadata(GOOD), {})
    assert list(found) == [*FIELDS, "scores", "subScores"]
    assert FIELDS == (
        "modelName",
        "modelType",
        "precision",
        "revision",
        "weightType",
        "baseModel",
        "backend",
        "remarks",
    )
    assert found["revision"] == "main" and found["backend"] == "others"
    assert found["weightType"] == found["baseModel"] == found["remarks"] == ""


def test_every_fault_is_said_at_once() -> None:
    said = refused(
        {"modelName": "no-slash", "weightType": "Delta"},
        '{"modeltype": "rl", "precision": "fp16", "backend": "vllm", "remarks": 3}',
    )
    for words in (
        "'no-slash'",
        "modelType was meant",
        "'fp16'",
        "'vllm'",
        "remarks is 3",
        "baseModel",
        "modelType is missing",
    ):
        assert words in said, words


@pytest.mark.parametrize("name", ["model", "a/b/c", "a/ b", "../model", "org/..", "örg/model", "a/b\n", "/b", "a/"])
def test_a_name_that_is_not_org_and_model_is_refused(name: str) -> None:
    assert "modelName" in refused({**GOOD, "modelName": name.replace("\n", "\n.")})


@pytest.mark.parametrize("weights", ["Delta", "Adapter"])
def test_a_delta_or_an_adapter_needs_its_base(weights: str) -> None:
    assert "baseModel" in refused({**GOOD, "weightType": weights})
    assert metadata({**GOOD, "weightType": weights, "baseModel": "org/base"}).base_model == "org/base"


@pytest.mark.parametrize("configs", ["[1]", '"x"', "{", "nowhere.json", '{"modelName": ["a"]}', "[" * 100_000])
def test_configs_that_are_no_object_of_texts_are_refused(configs: str) -> None:
    assert "--submission-configs" in refused(GOOD, configs)[:300] or "nowhere.json" in refused(GOOD, configs)


def test_configs_may_lie_in_a_file_and_options_win_over_them(tmp_path: Path) -> None:
    file = tmp_path / "about.json"
    file.write_text(json.dumps({**GOOD, "precision": "int8", "revision": "v2"}))
    found = metadata({"precision": "float16", "modelName": None}, str(file), defaults={"modelName": "x/y"})
    assert (found.model_name, found.precision, found.revision) == ("org/model", "float16", "v2")


@given(st.floats(-1, 1) | st.none())
def test_points_have_four_decimals_and_no_negative_zero(fraction: float | None) -> None:
    found = points(fraction)
    if fraction is None:
        assert found is None
    else:
        assert found is not None
        assert json.loads(json.dumps(found)) == round(found, 4)
        assert abs(found - fraction * 100) <= 0.00005 + 1e-12
        assert str(found) != "-0.0"


def test_ids_are_in_alphabetical_order_and_only_those_with_parts_have_sub_scores() -> None:
    scores = {"vsi_bench": Figures(0.5, {"z": 0.25, "a": None}), "blink": Figures(None), "site": Figures(-0.1)}
    found = payload(metadata(GOOD), scores)
    assert list(found["scores"].items()) == [("blink", None), ("site", -10.0), ("vsi_bench", 50.0)]
    assert found["subScores"] == {"vsi_bench": {"z": 25.0, "a": None}}


def test_the_average_is_over_what_was_evaluated_and_says_how_many() -> None:
    scores = {"a": Figures(0.5), "b": Figures(None), "c": Figures(0.0), "d": Figures(1.0)}
    assert average(scores, ["a", "b", "c"]) == (25.0, 2)
    assert average(scores, ["b", "e"]) == (None, 0)


def test_the_sub_score_keys_are_those_of_the_leaderboard() -> None:
    counts = {task.id: len(sub_keys(task)) for task in TASKS.values()}
    assert counts == {
        "vsi_bench": 8,
        "mmsi_bench": 11,
        "mindcube_tiny": 3,
        "viewspatial": 5,
        "site": 6,
        "blink": 14,
        "3dsrbench": 26,
        "embspatial": 3,
        "mmsi_video_bench": 5,
        "omnispatial_(manual_cot)": 10,
        "spar_bench": 23,
        "vsi_debiased": 8,
    }
    keys = sub_keys(TASKS["3dsrbench"])
    assert {"overall", "height_higher", "circ_eval_overall", "circ_eval_height_higher"} <= set(keys)
    assert not {key for key in keys if key.startswith("flip")}
