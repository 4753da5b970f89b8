"""`snellen watch --subset-file` and the callback: curves of estimated scores with their intervals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models import tiny_vlm
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.engine.subset import ESTIMATE, Subset, SubsetError, SubsetItem
from snellen.errors import UsageError
from snellen.runs.subset import write_subset
from snellen.training import EvaluationCallback

N = 40


@pytest.fixture(scope="module")
def subset() -> Subset:
    """Six digits of forty, with parameters as a fit would give them."""
    benchmark = registry.find("chart/digits")
    ids = [sample.id for sample, _ in zip(benchmark.samples(Data()), range(6), strict=False)]
    abilities = np.linspace(-5, 5, 101)
    return Subset(
        benchmark=benchmark.name,
        version=benchmark.version,
        data=benchmark.digest(Data()),
        profile=next(iter(benchmark.score)),
        total=N,
        items=tuple(SubsetItem(name, 1.2, 0.3 * place - 1.0) for place, name in enumerate(ids)),
        rest=tuple((1.0 / (1.0 + np.exp(-abilities))).round(6).tolist()),
        factor=2.3,
        models=tuple(f"m{at}" for at in range(12)),
        error=SubsetError(0.04, 0.07, 11),
    )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vlm.build(tmp_path_factory.mktemp("models") / "tiny")


def test_ten_checkpoints_give_a_curve_of_estimated_scores_with_intervals(
    subset: Subset, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_subset(subset, Path("s.json"))
    for step in range(1, 11):
        shutil.copytree(tiny, tmp_path / "ck" / f"checkpoint-{step}")
    words = ["watch", "ck", "--out", "evals", "-b", "chart/digits", "--max-tokens", "2", "--subset-file", "s.json"]
    words += ["--settle", "0.1", "--poll", "0.1", "--quiet", "--once"]
    assert main([*words, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [point["step"] for point in points] == list(range(1, 11))
    for point in points:
        metric = point["metrics"][0]
        assert metric["name"] == ESTIMATE and metric["n"] == 6
        assert metric["ci95"][0] <= metric["value"] <= metric["ci95"][1] and metric["ci95"][0] < metric["ci95"][1]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert printed.count(ESTIMATE) == 10 and printed.count("├") + printed.count("●") >= 10
    page = Path("evals/watch.html").read_text()
    assert ESTIMATE in page and page.count("checkpoint-") >= 10
    write_subset(msgspec.structs.replace(subset, factor=3.0), Path("s.json"))
    assert main(words) == 5, "another subset at the same place is another setting"
    assert "subset" in capsys.readouterr().err


def test_a_subset_of_another_benchmark_stops_before_a_checkpoint_is_read_or_a_step_is_trained(
    subset: Subset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_subset(subset, tmp_path / "s.json")
    (tmp_path / "ck").mkdir()
    words: list[Any] = [
        "watch",
        tmp_path / "ck",
        "-b",
        "chart/creatures",
        "--subset-file",
        tmp_path / "s.json",
        "--once",
    ]
    assert main(list(map(str, words))) == 2
    assert "of chart/digits, and chart/creatures" in capsys.readouterr().err
    with pytest.raises(UsageError, match="of chart/digits"):
        EvaluationCallback("chart/creatures", subset=tmp_path / "s.json")


def test_the_callback_logs_the_estimated_score(subset: Subset, tiny: Path, tmp_path: Path) -> None:
    from training.test_callback import SHORT, logged, trained

    write_subset(subset, tmp_path / "s.json")
    callback = EvaluationCallback(
        "chart/digits", every_steps=4, out=tmp_path / "evals", subset=tmp_path / "s.json", generation=SHORT
    )
    trainer = trained(tiny, tmp_path / "out", callback)
    key = f"eval_chart/digits/{ESTIMATE}"
    assert list(logged(trainer, key)) == [4, 7] == list(logged(trainer, f"{key}_ci95_low"))
    assert "eval_chart/digits/accuracy" not in trainer.state.log_history[-1]
