"""The system text of a run: what is sent, what the fingerprint says, and which models refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

import snellen
from runs.study.conftest import NotingModel
from snellen.benchmarks.base import Benchmark, empty_digest
from snellen.errors import FingerprintError, UsageError
from snellen.scoring import scorers
from snellen.types import Prompt, Sample, Text


def test_the_text_is_read_before_each_prompt_and_is_part_of_the_fingerprint(tested: Path, tmp_path: Path):
    model = NotingModel()
    plain = snellen.evaluate(str(tested), NotingModel(), out=tmp_path / "plain").meta
    run = snellen.evaluate(str(tested), model, system="Be brief.", out=tmp_path / "run").meta
    assert {prompt.system for prompt in model.prompts} == {"Be brief."}
    assert run.identity["system"] == "Be brief."
    assert "system" not in plain.identity
    with pytest.raises(FingerprintError, match="system"):
        snellen.evaluate(str(tested), NotingModel(), system="Be kind.", out=tmp_path / "run")


def test_a_benchmark_s_own_system_text_stays_behind_it(tmp_path: Path):
    samples = [Sample("1", Prompt((Text("Which bird?"),), "A guide to birds."), "owl", "short")]
    benchmark = Benchmark(
        name="guided",
        version="1",
        samples=lambda data: iter(samples),
        score={"strict": scorers.short},
        summarize=scorers.accuracy(),
        profiles={"strict": "the name"},
        digest=empty_digest,
    )
    model = NotingModel("owl")
    run = snellen.evaluate(benchmark, model, system="Be brief.", out=tmp_path / "run")
    assert model.prompts[0].system == "Be brief.\n\nA guide to birds."
    assert [sample.prompt.system for sample in run.benchmark.samples(run.meta.spec.data)] == ["A guide to birds."]


def test_questions_of_an_adaptive_benchmark_have_it_too(tmp_path: Path):
    model = NotingModel()
    snellen.evaluate("acuity", model, limit=4, system="Be brief.", out=tmp_path / "run")
    assert {prompt.system.partition("\n")[0] for prompt in model.prompts} == {"Be brief."}


def test_a_model_that_cannot_use_it_is_refused_before_the_first_request(tested: Path, tmp_path: Path):
    model = NotingModel()
    model.supports = frozenset()
    with pytest.raises(UsageError, match="--system") as caught:
        snellen.evaluate(str(tested), model, system="Be brief.", out=tmp_path / "run")
    assert "supports = frozenset" in caught.value.message
    assert model.prompts == []


def test_a_key_is_no_system_text(tested: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="--system holds"):
        snellen.evaluate(str(tested), NotingModel(), system="sk-proj-" + "a1B2" * 12, out=tmp_path / "run")
