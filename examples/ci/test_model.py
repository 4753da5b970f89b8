"""A model as a test: `pytest test_model.py`. The first run is resumed by the next one, so that a repetition is free.

The environment names the model and the baseline: `MODEL=api:NAME BASELINE=results/released pytest test_model.py`.
"""

import os
from pathlib import Path

import pytest

import snellen
from snellen.runs.drop_check import check_drop
from snellen.runs.threshold_check import check_metrics

MODEL = os.environ.get("MODEL", "embedded")
BENCHMARK = os.environ.get("BENCHMARK", "chart/digits")
BASELINE = Path(os.environ.get("BASELINE", "results/baseline"))
OUT = Path(os.environ.get("OUT", "results/candidate"))


@pytest.fixture(scope="session")
def run():
    return snellen.evaluate(BENCHMARK, MODEL, out=OUT)


def test_every_sample_has_an_answer(run):
    errors = run.request_errors()
    assert not errors.failed, errors.text


@pytest.mark.parametrize(("metric", "least"), [("accuracy", 0.8), ("accuracy/digits/choice", 0.7)])
def test_the_lower_end_of_the_interval_reaches_the_threshold(run, metric, least):
    (check,) = check_metrics(run, {metric: least})
    assert check.passed, check.text


@pytest.mark.skipif(not BASELINE.exists(), reason=f"there is no baseline in {BASELINE}")
def test_the_model_is_not_worse_than_the_baseline(run):
    (check,) = check_drop(BASELINE, run, margin=0.01, trust=True)
    assert check.passed, check.text
