"""Labels of benchmarks and models on pages: no path of the machine that ran them."""

from __future__ import annotations

import pytest

from snellen.viewer.labels import benchmark_label, model_label


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("chart/digits", "chart/digits"),
        ("hf:owner/name@3f2a91", "hf:owner/name@3f2a91"),
        ("/home/ada/birds/questions.csv", "questions.csv"),
        ("C:\\Users\\ada\\birds.tsv", "birds.tsv"),
        ("~/birds", "birds"),
        ("../birds/", "birds"),
        ("my.module:BENCHMARK", "my.module:BENCHMARK"),
        ("/", "/"),
        ("", ""),
    ],
)
def test_a_benchmark_is_called_by_the_last_part_of_its_path(name, label):
    assert benchmark_label(name) == label


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("embedded", "embedded"),
        ("api:gpt-4o", "api:gpt-4o"),
        ("local:Qwen/Qwen3-VL-8B-Instruct", "local:Qwen/Qwen3-VL-8B-Instruct"),
        ("local:/models/secret/Qwen3", "local:Qwen3"),
        ("local:./checkpoint-200", "local:checkpoint-200"),
        ("local:D:\\models\\Qwen3", "local:Qwen3"),
        ("replay:/home/ada/answers.jsonl", "replay:answers.jsonl"),
        ("/home/ada/model:v2", "model:v2"),
    ],
)
def test_a_model_keeps_its_kind_and_loses_its_folder(name, label):
    assert model_label(name) == label
