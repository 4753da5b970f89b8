"""The run folder of a local checkpoint has the same name however its relative path is written."""

from pathlib import Path

import pytest

from snellen.engine.run_folder import RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.perform import default_folder


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("local:./tiny", "chart-tiny"),
        ("local:tiny", "chart-tiny"),
        ("local:lab/tiny", "chart-lab-tiny"),
        ("api:tiny", "chart-tiny"),
        ("local:.hidden", "chart-.hidden"),
        ("embedded", "chart-embedded"),
    ],
)
def test_a_run_folder_is_named_without_the_point_of_a_relative_path(model, name):
    assert default_folder(RunSpec(benchmark="chart", model=model, options=ModelOptions())) == Path("results") / name


def test_two_checkpoints_of_one_name_in_different_folders_have_folders_of_their_own():
    paths = {
        default_folder(RunSpec(benchmark="chart", model=model, options=ModelOptions()))
        for model in ("local:./first/tiny", "local:./second/tiny", "local:../tiny")
    }
    assert len(paths) == 3


def test_a_run_in_a_folder_of_the_earlier_name_is_resumed_there(tmp_path):
    spec = RunSpec(benchmark="chart", model="local:./tiny", options=ModelOptions())
    assert default_folder(spec, tmp_path) == tmp_path / "chart-tiny"
    (tmp_path / "chart-.-tiny").mkdir()
    assert default_folder(spec, tmp_path) == tmp_path / "chart-.-tiny"
    (tmp_path / "chart-tiny").mkdir()
    assert default_folder(spec, tmp_path) == tmp_path / "chart-tiny"
