"""Acuity through the API client against a server that measures the pixels: odd observers, 503s and a stop on the way."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from observer_server import THRESHOLDS, ObserverServer, ObserverSettings
from snellen.benchmarks.base import Data
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform


def measured(folder, server, *, limit=None, concurrency=16, seed=0, **options):
    spec = RunSpec(
        benchmark="acuity",
        model="api:observer",
        data=Data(options={"sides": "256", **options}, seed=seed),
        options=ModelOptions(base_url=server.url, concurrency=concurrency),
        limit=limit,
    )
    return perform(spec, RunFolder(folder), backoff=Backoff(base_s=0.001))


@pytest.mark.parametrize(
    ("name", "settings", "factor"),
    [
        ("gap", {"lapse": 0.25, "bias": 1.0}, 1.0),
        ("gap", {"shape": "weibull", "unavailable": 0.1}, 1.0),
        ("gap", {"max_side": 128}, 2.0),
        ("vernier", {"shape": "normal", "refuses": 0.5}, 1.0),
        ("link", {"false_alarms": 0.3}, 1.0),
    ],
)
def test_odd_observers_have_their_threshold_through_the_whole_way(tmp_path, name, settings, factor):
    """Of two seeds at least one interval holds the truth, and none is off by a factor of two."""
    inside = 0
    for seed in range(2):
        with ObserverServer(ObserverSettings(seed=seed, **settings)) as server:
            run = measured(tmp_path / str(seed), server, seed=seed, attributes=name)
        (metric,) = run.figures()["strict"]
        truth = factor * THRESHOLDS[name]
        assert truth / 2 < metric.value < truth * 2
        inside += metric.ci95[0] <= truth <= metric.ci95[1]
    assert inside >= 1


def test_a_dip_is_told_by_the_checks_of_the_constant_design(tmp_path):
    with ObserverServer(ObserverSettings(dip=(9.0, 13.0))) as server:
        run = measured(tmp_path / "run", server, attributes="gap", design="constant")
    with ObserverServer(ObserverSettings()) as server:
        whole = measured(tmp_path / "whole", server, attributes="gap", design="constant")
    from snellen.benchmarks.acuity.conditions import plan
    from snellen.benchmarks.acuity.metrics import results
    from snellen.scoring.scores import ScoreBuilder

    checks = []
    for each in (run, whole):
        builder, scorer = ScoreBuilder(), each.benchmark.score["strict"]
        for sample, record in each.answers():
            builder.add(sample, scorer(sample, record.response.text))
        (result,) = results(plan(each.meta.spec.data.options), builder.build())
        checks.append((result.fit_p, result.monotone_p))
    assert max(checks[0]) < 0.02
    assert min(checks[1]) > 0.02


def test_a_run_with_503s_and_stops_asks_each_question_once_and_the_same(tmp_path):
    with ObserverServer(ObserverSettings(unavailable=0.1)) as server:
        measured(tmp_path / "whole", server, attributes="gap", concurrency=3)
        for limit in (5, 13, 30):
            measured(tmp_path / "parts", server, attributes="gap", limit=limit)
        measured(tmp_path / "parts", server, attributes="gap")
        assert server.refused > 0
    asked = [
        Counter(json.loads(line)["sample_id"] for line in (tmp_path / name / "results.jsonl").open())
        for name in ("whole", "parts")
    ]
    assert asked[0] == asked[1]
    assert set(asked[0].values()) == {1}
